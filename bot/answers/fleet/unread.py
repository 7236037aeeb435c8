"""Say what could not be read of a fleet, and which jobs stand in several zones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from bot.cards.card import Block, Card, Tone, When, quiet, text
from bot.cards.words import period, unseen
from bot.model.money import counted, usd
from bot.model.policy import Policy
from bot.model.reading import Reading, Scattered, coverage_of
from bot.model.window import Window
from bot.watch.tick import learning

_OLD = timedelta(minutes=1)
"""How much older than the question a reading may be without a word."""


def with_age(card: Card, reading: Reading, at: datetime, policy: Policy) -> Card:
    """Say of when an old reading is, and how much history is known while that is little.

    AWS may be asked for minutes, and nobody waits for it.
    """
    card = replace(card, data={**card.data, **coverage_of(reading).data})
    if history := learning(reading, policy):
        blocks = (*card.blocks, quiet(history))
        card = replace(card, blocks=blocks, data={**card.data, "learning": history})

    if at - reading.now < _OLD:
        return card
    age = quiet("AWS is being read; this is as of ", When(reading.now), ".")
    return replace(card, blocks=(*card.blocks, age), data={**card.data, "read_at": reading.now})


def no_nodes(reading: Reading) -> Card:
    """Say that no node runs, or that nobody could be asked: an unread fleet is no empty one."""
    if reading.gaps:
        return Card(
            "It is not known which nodes run",
            Tone.WARNING,
            unread(reading),
            {"nodes": [], "gaps": gaps(reading)},
        )
    return Card(
        "No node is running",
        Tone.INFO,
        (text("The source lists no running instance at this time."), *unread(reading)),
        {"nodes": []},
    )


def unread(reading: Reading) -> tuple[Block, ...]:
    """Say why no more is known, before the nodes that are known are listed.

    Of history that is still being read `with_age` tells.
    """
    seen = coverage_of(reading)
    return () if seen.because == reading.learning else unseen(seen)


def gaps(reading: Reading) -> list[str]:
    """Return the sentences of what could not be read."""
    return [str(gap) for gap in reading.gaps]


_MOST_JOBS = 3


@dataclass(frozen=True)
class Spread:
    """Hold one scattered job, and its cross-zone cost within `window`, None where not known."""

    job: Scattered
    usd: Decimal | None = None
    window: Window | None = None
    of_cluster: bool = False


def spread_texts(spreads: Sequence[Spread]) -> list[Block]:
    """Return a sentence for each job, and how many more there are."""
    texts: list[Block] = []
    for spread in spreads[:_MOST_JOBS]:
        job = spread.job
        advice = (
            f"{job.job} of {job.cluster or 'no cluster'} runs in {len(job.zones)} zones, {job}: "
            "EFA does not cross zones, so its collectives are slower between them. "
            "Keep a job in one zone and placement group."
        )
        if spread.usd is not None and spread.window is not None:
            payer = f"of {job.cluster}" if spread.of_cluster else "of everything on the bill"
            cost = f"{usd(spread.usd)} ({period(spread.window)})"
            advice += f" Cross-zone traffic {payer} cost {cost}."
        texts.append(text(advice))

    if len(spreads) > _MOST_JOBS:
        texts.append(text(f"{counted(len(spreads) - _MOST_JOBS, 'more job')} in several zones."))
    return texts


def spread_data(spreads: Sequence[Spread]) -> dict[str, Any]:
    """Return the jobs for scripts, {} where there are none."""
    jobs = [
        {
            "cluster": spread.job.cluster,
            "job": spread.job.job,
            "zones": dict(spread.job.zones),
            "cross_zone_usd": spread.usd,
            "of_cluster": spread.of_cluster,
        }
        for spread in spreads
    ]
    return {"scattered": jobs} if jobs else {}
