"""Write a recording from a seed: metrics, inventory, bill, and the truth to grade detectors by."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
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
    queue_block,
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
    minutes = round((timing.days or spec.days) * 1440) // (period // 60) * (period // 60)
    fleet = build_fleet(spec, (timing.start or spec.start).astimezone(UTC), minutes, seed)

    workers = []
    for cluster in spec.clusters:
        for job in cluster.jobs:
            if not (nodes := fleet.of(cluster.name, job.name)):
                continue
            signals = healthy(fleet, nodes, spec.missing)
            for incident in spec.incidents:
                if (incident.cluster, incident.job) == (cluster.name, job.name):
                    # Numbers of its own: one more incident leaves all others as they were.
                    names = (cluster.name, job.name, incident.cause, str(incident.at))
                    apply_incident(signals, incident, nodes[0].job, generator(seed, *names))
            workers.append(Workers(nodes, signals, period // 60, seed))
    return Simulation(spec, fleet, tuple(workers))


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
    spec, fleet, jobs = simulation.scenario, simulation.fleet, simulation.jobs

    folder.mkdir(parents=True, exist_ok=True)
    write_metrics(folder, simulation, files.form)
    write_monitor(folder, jobs, fleet)
    if files.logs:
        write_logs(folder, jobs, fleet)
    write_api(folder, spec, fleet)
    write_bill(folder, spec, fleet, files.bill, files.bill_file)
    labels = json.dumps(truth(spec, fleet), indent=1) + "\n"
    (folder / "labels.json").write_text(labels, encoding="utf-8")


def write_metrics(folder: Path, simulation: Simulation, form: MetricForm) -> int:
    """Write every metric and return the number of records."""
    writer = RowWriter(folder, form)
    begin = int(simulation.fleet.start.timestamp() * 1000)
    for count, (name, block) in enumerate(_blocks(simulation)):
        progressed("Simulating", count)
        points = block.sets.count.shape[1]
        step_ms = simulation.fleet.minutes * 60_000 // points // 60_000 * 60_000
        writer.write(block, name, begin + np.arange(points) * step_ms)
    writer.close()
    return writer.rows


def _blocks(simulation: Simulation) -> Iterator[tuple[str, SimulatedBlock]]:
    """Yield every metric, each with the name of its file."""
    fleet, clusters = simulation.fleet, simulation.scenario.clusters
    for workers in simulation.jobs:
        folder = f"{workers.cluster}/{workers.nodes[0].job.name}"
        yield from _named(folder, node_blocks(workers))
        yield from _named(f"{folder}/ec2", ec2_blocks(workers, alive(workers.nodes, fleet.minutes)))
        yield from _named(f"{folder}/pods", pod_blocks(workers))
        for number, block in enumerate(core_blocks(workers)):
            yield f"{folder}/cores/{number // 2}-{block.metric}", block
        yield from _named(f"{folder}/run", run_blocks(workers))

    # What tells of several jobs together comes after them.
    for cluster in clusters:
        yield f"{cluster.name}/cluster", cluster_block(simulation.of(cluster.name))
        yield f"{cluster.name}/queue", queue_block(simulation.of(cluster.name))
    for system in file_systems(simulation.scenario, fleet):
        mounting = simulation.of(system.cluster.name)
        yield from _named(f"fsx/{system.id}", file_system_blocks(system, mounting))
    if disks := volumes(simulation.scenario, fleet):
        yield from _named("ebs", volume_blocks(disks, fleet, simulation.jobs[0].minutes))


def _named(folder: str, blocks: Iterable[SimulatedBlock]) -> Iterator[tuple[str, SimulatedBlock]]:
    return ((f"{folder}/{block.metric}", block) for block in blocks)


def truth(scenario: Scenario, fleet: Fleet) -> list[dict[str, Any]]:
    """Return the labelled incidents within the recording, oldest first, as graders read them."""
    clusters = {cluster.name: cluster for cluster in reversed(scenario.clusters)}
    labels = []
    for incident in sorted(scenario.incidents, key=lambda incident: (incident.at, incident.cause)):
        if not incident.labelled or incident.at * 60 >= fleet.minutes:
            continue
        cluster, nodes = clusters[incident.cluster], nodes_hit(incident, fleet)

        # The truth ends with the recording.
        end = min(fleet.minutes, (incident.at + incident.hours) * 60)
        facts = incident.cause.facts
        label = {
            "cause": str(incident.cause),
            "labels": _labels(incident, cluster, nodes),
            "start": f"{fleet.at(incident.at * 60):%Y-%m-%dT%H:%M:%SZ}",
            "end": f"{fleet.at(end):%Y-%m-%dT%H:%M:%SZ}",
            "things": [node.id for node in nodes] or _resources(incident, cluster, scenario, fleet),
            "cluster": incident.cluster,
            "job": incident.job,
            "state_only": facts.is_state or facts.needs_setting,
            "usd_per_day": incident.level if _on_bill(incident.cause) else None,
            "note": incident.note,
        }
        labels.append(label)
    return labels


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
