"""Work out where a cluster could be smaller.

Another size of its family, or fewer nodes, and what that saves.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from bot.answers.cluster_use import ClusterUse
from bot.cards.card import Align, Block, Card, Column, Table, Tone, quiet, text
from bot.costs.offers import Offers
from bot.costs.pricing import HOURS_A_MONTH
from bot.model.fleet import InstanceType
from bot.model.money import cents, usd
from bot.model.price import Price

HEADROOM = 0.9
"""Share of memory or compute that a smaller size may be filled to: trnbot's own default."""


def smaller(
    kind: InstanceType, peak_gib: float, utilization: float, types: Iterable[InstanceType]
) -> tuple[InstanceType, ...]:
    """Return the family's smaller sizes that hold a node's memory peak and its work, the smallest first."""
    work = kind.bf16_tflops * utilization
    return tuple(
        sorted(
            (
                x
                for x in types
                if x.family == kind.family
                and x.chips < kind.chips
                and peak_gib <= x.accelerator_memory_gib * HEADROOM
                and work <= x.bf16_tflops * HEADROOM
            ),
            key=lambda x: x.chips,
        )
    )


@dataclass(frozen=True)
class Leaner:
    """State what would hold a cluster's work for less.

    A size, how many of it, and the price of its hour.
    """

    type: InstanceType
    nodes: int
    price: Price | None


def fewer_nodes(usage: ClusterUse) -> int | None:
    """Return how many nodes of today's type would hold the peak memory and the work of all.

    None where all are needed.

    Memory counts as if all of it were sharded over the nodes: what every node holds a copy of needs
    no more, but no less.
    """
    if usage.utilization is None or usage.peak_gib is None:
        return None
    shares = busiest(usage), usage.peak_gib / usage.type.accelerator_memory_gib
    sold = usage.type.sold_in
    nodes = math.ceil(max(1.0, usage.nodes * max(shares) / HEADROOM) / sold - 1e-9) * sold
    return nodes if nodes < usage.nodes else None


def busiest(usage: ClusterUse) -> float:
    """Return the utilization that is seldom exceeded, 0..1."""
    return min(1.0, (usage.utilization or 0.0) + 2 * (usage.spread or 0.0))


def leaner_of(usage: ClusterUse, types: Iterable[InstanceType], offers: Offers) -> Leaner | None:
    """Return the smallest size that would hold a node's work, else fewer nodes.

    None where neither does or nothing was read.
    """
    if (
        usage.utilization is None
        or usage.peak_gib is None
        or usage.utilization + (usage.spread or 0) <= 0
    ):
        return None
    fitting = smaller(usage.type, usage.peak_gib, busiest(usage), types)
    if fitting:
        return Leaner(fitting[0], usage.nodes, alike_price(usage, fitting[0], offers))
    nodes = fewer_nodes(usage)
    return Leaner(usage.type, nodes, usage.price) if nodes else None


def alike_price(usage: ClusterUse, kind: InstanceType, offers: Offers) -> Price | None:
    """Return the other type's price as today's is bought, else without a commitment."""
    alike = offers.here(kind.name, usage.price.market, usage.region) if usage.price else None
    return alike or offers.plain(kind.name, usage.region)


_R = Align.RIGHT


def right_size_card(rows: Sequence[tuple[ClusterUse, Leaner | None]]) -> Card:
    """List clusters with the smaller size or the fewer nodes that would hold them, or that nothing would."""
    columns = (
        Column("cluster"),
        Column("runs"),
        Column("used", _R),
        Column("memory peak", _R),
        Column("would fit"),
        Column("saves a month", _R),
    )
    drawn, total = [], Decimal(0)
    for usage, leaner in rows:
        saved = saving(usage, leaner)
        total += saved or Decimal(0)
        drawn.append(
            (
                usage.cluster or "(no cluster)",
                f"{usage.nodes} x {usage.type.name}",
                share_text(usage),
                _peak(usage),
                f"{leaner.nodes} x {leaner.type.name}" if leaner else _needed(usage),
                usd(saved) if saved else "–",
            )
        )
    blocks: list[Block] = [Table(columns, tuple(drawn))]
    if any(leaner and leaner.type is usage.type for usage, leaner in rows):
        blocks.append(
            text(
                "Fewer nodes hold the same work only if its jobs can be packed, or trained on fewer: take one away, and compare."
            )
        )
    rule = (
        f"peak memory and work (mean and twice its spread) use at most {HEADROOM * 100:.0f} % of it"
    )
    blocks.append(
        quiet(
            f"Estimated over seven days; a size fits if {rule}. Committed hours are paid until the commitment ends."
        )
    )
    title = (
        f"Smaller sizes or fewer nodes would save about {usd(total)} a month"
        if total
        else "No cluster fits on less"
    )
    return Card(
        title,
        Tone.INFO,
        tuple(blocks),
        {"clusters": [usage_data(usage, leaner) for usage, leaner in rows]},
    )


def saving(usage: ClusterUse, leaner: Leaner | None) -> Decimal | None:
    """Return USD a month that the other size or number saves, None where a price is missing or nothing is saved."""
    if usage.price is None or leaner is None or leaner.price is None:
        return None
    saved = usage.price.usd_per_hour * usage.nodes - leaner.price.usd_per_hour * leaner.nodes
    return cents(saved * HOURS_A_MONTH) if saved > 0 else None


def _needed(usage: ClusterUse) -> str:
    return (
        "too little was read"
        if usage.utilization is None or usage.peak_gib is None
        else "all are needed"
    )


def share_text(usage: ClusterUse) -> str:
    """Write the mean utilization."""
    return "no reading" if usage.utilization is None else f"{usage.utilization * 100:.0f} %"


def _peak(usage: ClusterUse) -> str:
    return (
        "no reading"
        if usage.peak_gib is None
        else f"{usage.peak_gib:,.0f} of {usage.type.accelerator_memory_gib:,} GiB"
    )


def usage_data(usage: ClusterUse, leaner: Leaner | None) -> dict[str, object]:
    """Return a cluster's use and what would fit it, for scripts."""
    return {
        "cluster": usage.cluster,
        "runs": usage.type.name,
        "nodes": usage.nodes,
        "utilization_ratio": usage.utilization,
        "peak_gib": usage.peak_gib,
        "fits": leaner.type.name if leaner else None,
        "fits_nodes": leaner.nodes if leaner else None,
        "saves_usd_per_month": saving(usage, leaner),
    }
