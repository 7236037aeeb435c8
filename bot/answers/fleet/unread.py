"""Say what could not be read of a fleet, and which jobs stand in several zones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from bot.cards.card import Block, Card, Tone, When, quiet, text
from bot.cards.words import period
from bot.model.money import counted, usd
from bot.model.policy import Policy
from bot.model.reading import Reading, Scattered
from bot.model.window import Window
from bot.watch.tick import learning

_MOST_GAPS = 3
_OLD = timedelta(minutes=1)
"""How much older than the question a reading may be without a word."""


def with_age(card: Card, reading: Reading, at: datetime, policy: Policy) -> Card:
    """Say of when the reading is where it is older than the question, and how much history is known while that is little.

    AWS may be asked for minutes, and nobody waits for it.
    """
    if said := learning(reading, policy):
        card = replace(
            card, blocks=(*card.blocks, quiet(said)), data={**card.data, "learning": said}
        )
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
        (text("The source lists no running instance at this time."),),
        {"nodes": []},
    )


def unread(reading: Reading) -> tuple[Block, ...]:
    """Name what could not be read, before the nodes that could be are listed."""
    more = len(reading.gaps) - _MOST_GAPS
    rest = (quiet(f"And {counted(more, 'more gap')}; 'doctor' lists them."),) if more > 0 else ()
    return (*(text(f"Not read this time: {gap}") for gap in reading.gaps[:_MOST_GAPS]), *rest)


def gaps(reading: Reading) -> list[str]:
    """Return the sentences of what could not be read."""
    return [str(gap) for gap in reading.gaps]


_MOST_JOBS = 3


@dataclass(frozen=True)
class Spread:
    """Hold one scattered job, and the cost of cross-zone traffic within `window`, None where it is not known."""

    job: Scattered
    usd: Decimal | None = None
    window: Window | None = None
    of_cluster: bool = False


def spread_texts(spreads: Sequence[Spread]) -> list[Block]:
    """Return a sentence for each job, and how many more there are."""
    texts: list[Block] = [text(_sentence(spread)) for spread in spreads[:_MOST_JOBS]]
    return texts + (
        [text(f"{counted(len(spreads) - _MOST_JOBS, 'more job')} in several zones.")]
        if len(spreads) > _MOST_JOBS
        else []
    )


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


def _sentence(spread: Spread) -> str:
    job = spread.job
    sentence = f"{job.job} of {job.cluster or 'no cluster'} stands in {len(job.zones)} zones, {job}: EFA does not cross zones, "
    sentence += (
        "so its collectives are slower between them. Keep a job in one zone and placement group."
    )
    if spread.usd is None or spread.window is None:
        return sentence
    whose = f"of {job.cluster}" if spread.of_cluster else "of everything on the bill"
    return (
        f"{sentence} Cross-zone traffic {whose} cost {usd(spread.usd)} ({period(spread.window)})."
    )
