"""Write a recording from a seed: metrics, inventory, bill, and the truth to grade detectors by."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from adapters.simulator.api import write_api
from adapters.simulator.bill import BillFile, BillForm, write_bill
from adapters.simulator.fleet import (
    Fleet,
    SimulatedNode,
    build_fleet,
    file_systems,
    reservation_id,
    usage_of,
    volumes,
)
from adapters.simulator.incidents import apply_incident
from adapters.simulator.offers import savings_plan_arn
from adapters.simulator.reports import run_blocks, write_logs, write_monitor
from adapters.simulator.scenario import (
    Kind,
    PlannedCluster,
    PlannedIncident,
    Scenario,
    scenario_named,
)
from adapters.simulator.telemetry import (
    MetricForm,
    RowWriter,
    SimulatedBlock,
    Workers,
    cluster_block,
    core_blocks,
    ec2_blocks,
    file_system_blocks,
    node_blocks,
    pod_blocks,
    volume_blocks,
)
from adapters.simulator.workload import alive, generator, healthy
from bot.errors import WrongInput
from bot.model.causes import About, Cause
from bot.ports.work import progressed


@dataclass(frozen=True)
class SimulationTiming:
    """State when a recording begins, how long it lasts and how far its points are apart.

    None = as the scenario has it.
    """

    start: datetime | None = None
    days: float | None = None
    period_seconds: int | None = None


@dataclass(frozen=True)
class Files:
    """Choose the files of a recording.

    The form of its metrics, the export and file of its bill, and compilers' logs.
    """

    form: MetricForm = "parquet"
    bill: BillForm = "cur2"
    bill_file: BillFile = "parquet"
    logs: bool = False


AS_PLANNED, USUAL_FILES = SimulationTiming(), Files()


@dataclass(frozen=True)
class Simulation:
    """Hold a simulated account before it is written: the scenario, the fleet and its signals."""

    scenario: Scenario
    fleet: Fleet
    jobs: tuple[Workers, ...]

    def of(self, cluster: str) -> list[Workers]:
        """Return the workers of each job of one cluster."""
        return [job for job in self.jobs if job.cluster == cluster]


def simulate(
    seed: int, scenario: str | Scenario = "demo", timing: SimulationTiming = AS_PLANNED
) -> Simulation:
    """Return a simulated account.

    Raise `WrongInput` for an unknown scenario or a period that is not whole minutes.
    """
    spec = scenario if isinstance(scenario, Scenario) else scenario_named(scenario)
    period = timing.period_seconds or spec.period_seconds
    if period < 60 or period % 60:
        raise WrongInput(f"A period of {period} seconds is not whole minutes; write 60 or 300.")
    begin = (timing.start or spec.start).astimezone(UTC)
    minutes = round((timing.days or spec.days) * 1440) // (period // 60) * (period // 60)
    fleet = build_fleet(spec, begin, minutes, seed)
    jobs = [
        _workers(spec, fleet, cluster.name, job.name, period // 60)
        for cluster in spec.clusters
        for job in cluster.jobs
    ]
    return Simulation(spec, fleet, tuple(c for c in jobs if c))


def generate(
    folder: Path,
    seed: int,
    scenario: str | Scenario = "demo",
    timing: SimulationTiming = AS_PLANNED,
    files: Files = USUAL_FILES,
) -> None:
    """Write the recording of a scenario into `folder`: the same seed gives the same bytes.

    Raises `WrongInput` for an unknown scenario or a used folder.
    """
    folder = Path(folder)
    if folder.exists() and any(folder.iterdir()):
        raise WrongInput(f"{folder} is not empty; name a new folder for the recording.")
    simulation = simulate(seed, scenario, timing)
    folder.mkdir(parents=True, exist_ok=True)
    write_metrics(folder, simulation, files.form)
    write_monitor(folder, simulation.jobs, simulation.fleet)
    if files.logs:
        write_logs(folder, simulation.jobs, simulation.fleet)
    write_api(folder, simulation.scenario, simulation.fleet)
    write_bill(folder, simulation.scenario, simulation.fleet, files.bill, files.bill_file)
    (folder / "labels.json").write_text(
        json.dumps(truth(simulation.scenario, simulation.fleet), indent=1) + "\n", encoding="utf-8"
    )


def write_metrics(folder: Path, simulation: Simulation, form: MetricForm) -> int:
    """Write every metric and return the number of records."""
    writer = RowWriter(folder, form)
    begin = int(simulation.fleet.start.timestamp() * 1000)
    for count, (name, block) in enumerate(_blocks(simulation)):
        progressed("Simulating", count)
        step_ms = simulation.fleet.minutes * 60_000 // block.count.shape[1] // 60_000 * 60_000
        writer.write(block, name, begin + np.arange(block.count.shape[1]) * step_ms)
    writer.close()
    return writer.rows


def _workers(
    spec: Scenario, fleet: Fleet, cluster: str, job_name: str, minutes: int
) -> Workers | None:
    nodes = fleet.of(cluster, job_name)
    if not nodes:
        return None
    job = nodes[0].job
    signals = healthy(fleet, nodes, spec.missing)
    for incident in spec.incidents:
        if (incident.cluster, incident.job) == (cluster, job.name):
            apply_incident(
                signals,
                incident,
                job,
                generator(fleet.seed, cluster, job.name, incident.cause, str(incident.at)),
            )
    return Workers(nodes, signals, minutes, fleet.seed)


def _blocks(simulation: Simulation) -> Iterator[tuple[str, SimulatedBlock]]:
    for workers in simulation.jobs:
        job = workers.nodes[0].job.name
        exists = alive(workers.nodes, simulation.fleet.minutes)
        yield from _named(f"{workers.cluster}/{job}", node_blocks(workers))
        yield from _named(f"{workers.cluster}/{job}/ec2", ec2_blocks(workers, exists))
        yield from _named(f"{workers.cluster}/{job}/pods", pod_blocks(workers))
        for i, block in enumerate(core_blocks(workers)):
            yield f"{workers.cluster}/{job}/cores/{i // 2}-{block.metric}", block
        if job and workers.nodes[0].job.kind is Kind.TRAINING:
            yield from _named(f"{workers.cluster}/{job}/run", run_blocks(workers))
    for cluster in simulation.scenario.clusters:
        yield f"{cluster.name}/cluster", cluster_block(simulation.of(cluster.name))
    yield from _storage(simulation)


def _storage(simulation: Simulation) -> Iterator[tuple[str, SimulatedBlock]]:
    for system in file_systems(simulation.scenario, simulation.fleet):
        yield from _named(
            f"fsx/{system.id}", file_system_blocks(system, simulation.of(system.cluster.name))
        )
    disks = volumes(simulation.scenario, simulation.fleet)
    if disks:
        yield from _named("ebs", volume_blocks(disks, simulation.fleet, simulation.jobs[0].minutes))


def _named(
    folder: str, blocks: Iterator[SimulatedBlock] | Sequence[SimulatedBlock]
) -> Iterator[tuple[str, SimulatedBlock]]:
    return ((f"{folder}/{block.metric}", block) for block in blocks)


def truth(scenario: Scenario, fleet: Fleet) -> list[dict[str, Any]]:
    """Return the labelled incidents within the recording, oldest first, as graders read them."""
    incidents = [
        incident
        for incident in scenario.incidents
        if incident.labelled and incident.at * 60 < fleet.minutes
    ]
    return [
        _label(incident, scenario, fleet)
        for incident in sorted(incidents, key=lambda incident: (incident.at, incident.cause))
    ]


def _label(incident: PlannedIncident, scenario: Scenario, fleet: Fleet) -> dict[str, Any]:
    cluster = next(
        candidate for candidate in scenario.clusters if candidate.name == incident.cluster
    )
    nodes = nodes_hit(incident, fleet)
    return {
        "cause": str(incident.cause),
        "labels": _labels(incident, cluster, nodes),
        "start": f"{fleet.at(incident.at * 60):%Y-%m-%dT%H:%M:%SZ}",
        "end": f"{fleet.at(min(fleet.minutes, (incident.at + incident.hours) * 60)):%Y-%m-%dT%H:%M:%SZ}",
        "things": [n.id for n in nodes] or _resources(incident, cluster, scenario, fleet),
        "cluster": incident.cluster,
        "job": incident.job,
        "state_only": incident.cause.facts.is_state or incident.cause.facts.needs_setting,
        "usd_per_day": incident.level if _on_bill(incident.cause) else None,
        "note": incident.note,
    }


def _labels(
    incident: PlannedIncident, cluster: PlannedCluster, nodes: Sequence[SimulatedNode]
) -> dict[str, str]:
    """Return the labels that the bot can know of an incident.

    The bill knows services, not clusters.
    """
    usage = usage_of(incident, cluster)
    match incident.cause:
        case Cause.SPEND_JUMP | Cause.SPEND_NEW | Cause.TRANSFER_ROUTE if usage:
            return {
                "region": usage.region,
                "service": usage.product,
                "usage_type": usage.usage_type,
            }
        case Cause.COMMITMENT_UNUSED:
            return {"service": "ComputeSavingsPlans"}
        case Cause.BUDGET_BURN:
            return {"team": cluster.team}
        case Cause.ORPHANED_STORAGE:
            return {"region": cluster.region}
        case _:
            alone = {"instance": nodes[0].id} if len(nodes) == 1 else {}
            return {"cluster": incident.cluster} | alone


def _on_bill(cause: Cause) -> bool:
    """Return whether the incident's level is USD a day.

    Unused capacity is shown by the bill too, unused storage is not.
    """
    return cause.facts.about in {About.MONEY, About.CAPACITY}


def nodes_hit(incident: PlannedIncident, fleet: Fleet) -> tuple[SimulatedNode, ...]:
    """Return the nodes an incident is about."""
    if not incident.job or _on_bill(incident.cause):
        return ()
    first, last = incident.nodes or (0, 10**6)
    return tuple(n for n in fleet.of(incident.cluster, incident.job) if first <= n.row < last)


def _resources(
    incident: PlannedIncident, cluster: PlannedCluster, scenario: Scenario, fleet: Fleet
) -> list[str]:
    """Return the ids of the storage, reservation or plan an incident is about."""
    minute = round(incident.at * 60)
    match incident.cause:
        case Cause.ORPHANED_STORAGE if incident.level:
            return [
                system.id
                for system in file_systems(scenario, fleet)
                if system.unused_from == minute and system.cluster == cluster
            ]
        case Cause.ORPHANED_STORAGE:
            return [
                volume.id
                for volume in volumes(scenario, fleet)
                if volume.detached == minute and volume.cluster == cluster
            ]
        case Cause.UNUSED_CAPACITY:
            return [reservation_id(cluster, fleet.seed)]
        case Cause.COMMITMENT_UNUSED:
            return [savings_plan_arn(cluster.instance_type, fleet.seed)]
        case _:
            return []
