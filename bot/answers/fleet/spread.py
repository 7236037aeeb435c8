"""Tell of jobs whose nodes stand in several zones, and of the traffic between these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from bot.cards.card import Block, text
from bot.cards.words import period
from bot.model.counts import counted
from bot.model.money import usd
from bot.model.placement import Scattered
from bot.model.window import Window

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
