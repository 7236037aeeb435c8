"""Say what went wrong when, for grading; nothing that detects reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adapters.simulator.fleet import Fleet, Node, reservation_id
from adapters.simulator.offers import savings_plan_arn
from adapters.simulator.rates import usage_of
from adapters.simulator.scenario import Cluster, Incident, Scenario
from adapters.simulator.storage import file_systems, volumes
from bot.model.anomaly import Cause

MONEY = {
    Cause.SPEND_JUMP,
    Cause.SPEND_NEW,
    Cause.TRANSFER_ROUTE,
    Cause.BUDGET_BURN,
    Cause.COMMITMENT_UNUSED,
    Cause.UNUSED_CAPACITY,
}
UNTOLD = {Cause.COMPILING, Cause.BUDGET_BURN}
"""A compile within its grace is a state; a budget is in nothing that is recorded."""


def truth(scenario: Scenario, fleet: Fleet) -> list[dict[str, Any]]:
    """Return the labelled incidents within the recording, oldest first: cause, labels, start, end, and what else is known."""
    kept = [x for x in scenario.incidents if x.labelled and x.at * 60 < fleet.minutes]
    return [_label(x, scenario, fleet) for x in sorted(kept, key=lambda x: (x.at, x.cause))]


def _label(incident: Incident, scenario: Scenario, fleet: Fleet) -> dict[str, Any]:
    cluster = next(c for c in scenario.clusters if c.name == incident.cluster)
    nodes = hit(incident, fleet)
    return {
        "cause": str(incident.cause),
        "labels": _labels(incident, cluster, nodes),
        "start": f"{fleet.at(incident.at * 60):%Y-%m-%dT%H:%M:%SZ}",
        "end": f"{fleet.at(min(fleet.minutes, (incident.at + incident.hours) * 60)):%Y-%m-%dT%H:%M:%SZ}",
        "things": [n.id for n in nodes] or _resources(incident, cluster, scenario, fleet),
        "cluster": incident.cluster,
        "job": incident.job,
        "state_only": incident.cause in UNTOLD,
        "usd_per_day": incident.level if incident.cause in MONEY else None,
        "note": incident.note,
    }


def _labels(incident: Incident, cluster: Cluster, nodes: Sequence[Node]) -> dict[str, str]:
    """Name what the incident is about by what the bot can know: the bill knows services, not clusters."""
    usage = usage_of(incident, cluster)
    match incident.cause:
        case Cause.SPEND_JUMP | Cause.SPEND_NEW | Cause.TRANSFER_ROUTE if usage:
            return {"region": usage.region, "service": usage.product, "usage_type": usage.usage_type}
        case Cause.COMMITMENT_UNUSED:
            return {"service": "ComputeSavingsPlans"}
        case Cause.BUDGET_BURN:
            return {"team": cluster.team}
        case Cause.ORPHANED_STORAGE:
            return {"region": cluster.region}
        case _:
            alone = {"instance": nodes[0].id} if len(nodes) == 1 else {}
            return {"cluster": incident.cluster} | alone


def hit(incident: Incident, fleet: Fleet) -> tuple[Node, ...]:
    """Return the nodes an incident is about."""
    if not incident.job or incident.cause in MONEY:
        return ()
    first, last = incident.nodes or (0, 10**6)
    return tuple(n for n in fleet.of(incident.cluster, incident.job) if first <= n.row < last)


def _resources(incident: Incident, cluster: Cluster, scenario: Scenario, fleet: Fleet) -> list[str]:
    """Return the ids of the storage, reservation or plan an incident is about."""
    minute = round(incident.at * 60)
    match incident.cause:
        case Cause.ORPHANED_STORAGE if incident.level:
            return [x.id for x in file_systems(scenario, fleet) if x.unused_from == minute and x.cluster == cluster]
        case Cause.ORPHANED_STORAGE:
            return [x.id for x in volumes(scenario, fleet) if x.detached == minute and x.cluster == cluster]
        case Cause.UNUSED_CAPACITY:
            return [reservation_id(cluster, fleet.seed)]
        case Cause.COMMITMENT_UNUSED:
            return [savings_plan_arn(cluster.instance_type, fleet.seed)]
        case _:
            return []
