"""Say which jobs stand in several zones, and the cost of crossing them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from bot.cards.card import Block, text
from bot.cards.words import counted, period
from bot.model.money import usd
from bot.model.placement import Scattered
from bot.model.window import Window

_MOST = 3


@dataclass(frozen=True)
class Spread:
    """Hold one scattered job, and the cost of cross-zone traffic within `window`, None where it is not known."""

    job: Scattered
    usd: Decimal | None = None
    window: Window | None = None
    of_cluster: bool = False


def spread_texts(found: Sequence[Spread]) -> list[Block]:
    """Return a sentence for each job, and how many more there are."""
    told: list[Block] = [text(_sentence(one)) for one in found[:_MOST]]
    return told + ([text(f"{counted(len(found) - _MOST, 'more job')} in several zones.")] if len(found) > _MOST else [])


def spread_data(found: Sequence[Spread]) -> dict[str, Any]:
    """Return the jobs for scripts, {} where there are none."""
    told = [
        {
            "cluster": one.job.cluster,
            "job": one.job.job,
            "zones": dict(one.job.zones),
            "cross_zone_usd": one.usd,
            "of_cluster": one.of_cluster,
        }
        for one in found
    ]
    return {"scattered": told} if told else {}


def _sentence(one: Spread) -> str:
    job = one.job
    said = f"{job.job} of {job.cluster or 'no cluster'} stands in {len(job.zones)} zones, {job}: EFA does not cross zones, "
    said += "so its collectives are slower between them. Keep a job in one zone and placement group."
    if one.usd is None or one.window is None:
        return said
    whose = f"of {job.cluster}" if one.of_cluster else "of everything on the bill"
    return f"{said} Cross-zone traffic {whose} cost {usd(one.usd)} ({period(one.window)})."
