"""Say what went wrong when, for grading; nothing that detects reads it."""

from __future__ import annotations

from typing import Any

from adapters.simulator.fleet import Fleet, Node
from adapters.simulator.scenario import Incident, Scenario
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


def truth(scenario: Scenario, fleet: Fleet) -> list[dict[str, Any]]:
    """Return the labelled incidents within the recording, oldest first: cause, labels, start, end, things, usd_per_day, note."""
    kept = [x for x in scenario.incidents if x.labelled and x.at * 60 < fleet.minutes]
    return [_label(x, scenario, fleet) for x in sorted(kept, key=lambda x: (x.at, x.cause))]


def _label(incident: Incident, scenario: Scenario, fleet: Fleet) -> dict[str, Any]:
    nodes = hit(incident, fleet)
    labels = {"cluster": incident.cluster} if incident.cluster else {}
    if incident.job:
        labels["job"] = incident.job
    if len(nodes) == 1:
        labels["instance"] = nodes[0].id
    return {
        "cause": str(incident.cause),
        "labels": labels,
        "start": f"{fleet.at(incident.at * 60):%Y-%m-%dT%H:%M:%SZ}",
        "end": f"{fleet.at(min(fleet.minutes, (incident.at + incident.hours) * 60)):%Y-%m-%dT%H:%M:%SZ}",
        "things": [n.id for n in nodes] or _storage(incident, scenario, fleet),
        "state_only": incident.cause is Cause.COMPILING,
        "usd_per_day": incident.level if incident.cause in MONEY else None,
        "note": incident.note,
    }


def hit(incident: Incident, fleet: Fleet) -> tuple[Node, ...]:
    """Return the nodes an incident is about."""
    if not incident.job or incident.cause in MONEY:
        return ()
    first, last = incident.nodes or (0, 10**6)
    return tuple(n for n in fleet.of(incident.cluster, incident.job) if first <= n.row < last)


def _storage(incident: Incident, scenario: Scenario, fleet: Fleet) -> list[str]:
    if incident.cause is not Cause.ORPHANED_STORAGE:
        return []
    minute = round(incident.at * 60)
    if incident.level:
        return [x.id for x in file_systems(scenario, fleet) if x.unused_from == minute and x.cluster.name == incident.cluster]
    return [x.id for x in volumes(scenario, fleet) if x.detached == minute and x.cluster.name == incident.cluster]
