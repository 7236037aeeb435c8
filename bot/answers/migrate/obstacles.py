"""List the reasons against a faster chip.

A cluster that stands, starves or cannot be seen would wait just as long.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from bot.model.alert import Alert
from bot.model.anomaly import NodeState
from bot.model.fleet import InstanceType
from bot.model.price import Price

_WORKING = {NodeState.BUSY, NodeState.NEW}


@dataclass(frozen=True)
class ClusterStanding:
    """State a cluster as it runs.

    Its most common type, nodes of that type, mean price, mean utilization of 24 hours.
    """

    cluster: str
    type: InstanceType
    nodes: int
    region: str
    price: Price | None
    utilization: float | None
    states: Mapping[NodeState, int] = field(default_factory=dict)
    alerts: tuple[Alert, ...] = ()
    """Open alerts of the cluster."""
    other_types: tuple[str, ...] = ()

    @property
    def usd_per_hour(self) -> Decimal:
        """Return the cost of an hour of the type's nodes, 0 where no price is known."""
        return self.nodes * self.price.usd_per_hour if self.price else Decimal(0)


def refusals(standing: ClusterStanding) -> tuple[str, ...]:
    """Return why no faster chip can be advised now, each a sentence; empty when it can."""
    reasons = [
        f"{x.cause.value.replace('_', ' ')}: {x.cause.facts.no_faster_chip}"
        for x in standing.alerts
        if x.cause.facts.no_faster_chip and _half(x, standing)
    ]
    if not reasons and (sentence := _states(standing)):
        reasons.append(sentence)
    if standing.utilization is None:
        reasons.append(
            "no utilization was read in the last 24 hours, so nothing can be said of its work"
        )
    if standing.price is None:
        reasons.append(f"no price of {standing.type.name} is known, so nothing can be compared")
    return tuple(dict.fromkeys(reasons))


def doubts(standing: ClusterStanding, least_utilization: float) -> tuple[str, ...]:
    """Return the doubts about moving, none of which forbids it, each a sentence."""
    sentences = []
    if standing.utilization is not None and standing.utilization < least_utilization:
        used, least = f"{standing.utilization * 100:.0f} %", f"{least_utilization * 100:.0f} %"
        sentences.append(
            f"Utilization was {used} over 24 hours, under {least}: fill today's chips before paying for faster ones."
        )
    for alert in standing.alerts:
        if alert.cause.facts.no_faster_chip and not _half(alert, standing):
            words = alert.cause.value.replace("_", " ")
            sentences.append(
                f"{len(alert.anomaly.things)} of {standing.nodes} nodes are {words}: see to them first."
            )
    if standing.other_types:
        sentences.append(f"The cluster also runs {', '.join(standing.other_types)}, left out here.")
    return tuple(sentences)


def _half(alert: Alert, standing: ClusterStanding) -> bool:
    return not alert.anomaly.things or 2 * len(alert.anomaly.things) >= standing.nodes


def _states(standing: ClusterStanding) -> str:
    """Tell when fewer than half of the nodes work."""
    total = sum(standing.states.values())
    working = sum(n for state, n in standing.states.items() if state in _WORKING)
    if not total or 2 * working >= total:
        return ""
    counts = ", ".join(
        f"{n} {state.value}" for state, n in sorted(standing.states.items(), key=lambda x: -x[1])
    )
    return f"only {working} of {total} nodes work now ({counts})"
