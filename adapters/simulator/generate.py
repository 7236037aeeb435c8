"""Write a recording from a seed: metrics, inventory, bill, and the truth to grade detectors by."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np

from adapters.simulator import telemetry
from adapters.simulator.api import write_api
from adapters.simulator.bill import BillForm, write_bill
from adapters.simulator.catalogue import usage_of
from adapters.simulator.fleet import Fleet, Node, build_fleet, file_systems, reservation_id, volumes
from adapters.simulator.incidents import apply_incident
from adapters.simulator.metrics import Block, MetricForm, RowWriter
from adapters.simulator.offers import savings_plan_arn
from adapters.simulator.reports import run_blocks, write_logs, write_monitor
from adapters.simulator.scenario import Cluster, Kind, PlannedIncident, Scenario
from adapters.simulator.scenarios import scenario_named
from adapters.simulator.signals import alive, generator
from adapters.simulator.telemetry import Workers, file_system_blocks, volume_blocks
from adapters.simulator.workload import healthy
from bot.errors import WrongInput
from bot.model.anomaly import Cause


@dataclass(frozen=True)
class Simulation:
    """Hold everything that was simulated, before it is written."""

    scenario: Scenario
    fleet: Fleet
    crews: tuple[Workers, ...]

    def of(self, cluster: str) -> list[Workers]:
        """Return the crews of one cluster."""
        return [c for c in self.crews if c.cluster == cluster]


def simulate(
    seed: int,
    scenario: str | Scenario = "demo",
    *,
    start: datetime | None = None,
    days: float | None = None,
    period_seconds: int | None = None,
) -> Simulation:
    """Return a simulated world; raise `WrongInput` for an unknown scenario or a period that is not whole minutes."""
    spec = scenario if isinstance(scenario, Scenario) else scenario_named(scenario)
    period = period_seconds or spec.period_seconds
    if period < 60 or period % 60:
        raise WrongInput(f"A period of {period} seconds is not whole minutes; write 60 or 300.")
    begin = (start or spec.start).astimezone(UTC)
    minutes = round((days or spec.days) * 1440) // (period // 60) * (period // 60)
    fleet = build_fleet(spec, begin, minutes, seed)
    crews = [_crew(spec, fleet, cluster.name, job.name, period // 60) for cluster in spec.clusters for job in cluster.jobs]
    return Simulation(spec, fleet, tuple(c for c in crews if c))


def generate(
    folder: Path,
    seed: int,
    scenario: str | Scenario = "demo",
    *,
    start: datetime | None = None,
    days: float | None = None,
    period_seconds: int | None = None,
    form: MetricForm = "parquet",
    bill: BillForm = "cur2",
    bill_file: Literal["parquet", "csv.gz"] = "parquet",
    logs: bool = False,
) -> None:
    """Write the recording of a scenario into `folder`: the same seed gives the same bytes.

    `form` is how metrics are written, `bill` the export's format, `logs` asks for compilers' lines too. Raises `WrongInput`
    for an unknown scenario or a used folder.
    """
    folder = Path(folder)
    if folder.exists() and any(folder.iterdir()):
        raise WrongInput(f"{folder} is not empty; name a new folder for the recording.")
    world = simulate(seed, scenario, start=start, days=days, period_seconds=period_seconds)
    folder.mkdir(parents=True, exist_ok=True)
    write_metrics(folder, world, form)
    write_monitor(folder, world.crews, world.fleet)
    if logs:
        write_logs(folder, world.crews, world.fleet)
    write_api(folder, world.scenario, world.fleet)
    write_bill(folder, world.scenario, world.fleet, bill, bill_file)
    (folder / "labels.json").write_text(json.dumps(truth(world.scenario, world.fleet), indent=1) + "\n", encoding="utf-8")


def write_metrics(folder: Path, world: Simulation, form: MetricForm) -> int:
    """Write every metric and return the number of records."""
    writer = RowWriter(folder, form)
    begin = int(world.fleet.start.timestamp() * 1000)
    for name, block in _blocks(world):
        step_ms = world.fleet.minutes * 60_000 // block.count.shape[1] // 60_000 * 60_000
        writer.write(block, name, begin + np.arange(block.count.shape[1]) * step_ms)
    writer.close()
    return writer.rows


def _crew(spec: Scenario, fleet: Fleet, cluster: str, job_name: str, minutes: int) -> Workers | None:
    nodes = fleet.of(cluster, job_name)
    if not nodes:
        return None
    job = nodes[0].job
    signals = healthy(job, nodes, fleet.start, fleet.minutes, fleet.seed, spec.missing)
    for incident in spec.incidents:
        if (incident.cluster, incident.job) == (cluster, job.name):
            apply_incident(signals, incident, job, generator(fleet.seed, cluster, job.name, incident.cause, str(incident.at)))
    return Workers(nodes, signals, minutes, fleet.seed)


def _blocks(world: Simulation) -> Iterator[tuple[str, Block]]:
    for crew in world.crews:
        job = crew.nodes[0].job.name
        exists = alive(crew.nodes, world.fleet.minutes)
        yield from _named(f"{crew.cluster}/{job}", telemetry.node_blocks(crew))
        yield from _named(f"{crew.cluster}/{job}/ec2", telemetry.ec2_blocks(crew, exists))
        yield from _named(f"{crew.cluster}/{job}/pods", telemetry.pod_blocks(crew))
        for i, block in enumerate(telemetry.core_blocks(crew)):
            yield f"{crew.cluster}/{job}/cores/{i // 2}-{block.metric}", block
        if job and crew.nodes[0].job.kind is Kind.TRAINING:
            yield from _named(f"{crew.cluster}/{job}/run", run_blocks(crew))
    for cluster in world.scenario.clusters:
        yield f"{cluster.name}/cluster", telemetry.cluster_block(world.of(cluster.name))
    yield from _storage(world)


def _storage(world: Simulation) -> Iterator[tuple[str, Block]]:
    for system in file_systems(world.scenario, world.fleet):
        yield from _named(f"fsx/{system.id}", file_system_blocks(system, world.of(system.cluster.name)))
    disks = volumes(world.scenario, world.fleet)
    if disks:
        yield from _named("ebs", volume_blocks(disks, world.fleet, world.crews[0].minutes))


def _named(folder: str, blocks: Iterator[Block] | Sequence[Block]) -> Iterator[tuple[str, Block]]:
    return ((f"{folder}/{block.metric}", block) for block in blocks)


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


def _label(incident: PlannedIncident, scenario: Scenario, fleet: Fleet) -> dict[str, Any]:
    cluster = next(c for c in scenario.clusters if c.name == incident.cluster)
    nodes = nodes_hit(incident, fleet)
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


def _labels(incident: PlannedIncident, cluster: Cluster, nodes: Sequence[Node]) -> dict[str, str]:
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


def nodes_hit(incident: PlannedIncident, fleet: Fleet) -> tuple[Node, ...]:
    """Return the nodes an incident is about."""
    if not incident.job or incident.cause in MONEY:
        return ()
    first, last = incident.nodes or (0, 10**6)
    return tuple(n for n in fleet.of(incident.cluster, incident.job) if first <= n.row < last)


def _resources(incident: PlannedIncident, cluster: Cluster, scenario: Scenario, fleet: Fleet) -> list[str]:
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
