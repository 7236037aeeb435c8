"""Write a recording from a seed: metrics, inventory, bill and truth."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import numpy as np

from adapters.simulator import telemetry
from adapters.simulator.api import write_api
from adapters.simulator.bill import BillForm, write_bill
from adapters.simulator.fleet import Fleet, build_fleet
from adapters.simulator.incidents import paint
from adapters.simulator.logs import write_logs
from adapters.simulator.monitor import write_monitor
from adapters.simulator.rows import Block, Form, RowWriter
from adapters.simulator.runs import run_blocks
from adapters.simulator.scenario import Kind, Scenario
from adapters.simulator.scenarios import scenario_named
from adapters.simulator.signals import alive, generator
from adapters.simulator.storage import file_system_blocks, file_systems, volume_blocks, volumes
from adapters.simulator.telemetry import Crew
from adapters.simulator.truth import truth
from adapters.simulator.workload import healthy
from bot.errors import WrongInput


@dataclass(frozen=True)
class World:
    """Hold everything that was simulated, before it is written."""

    scenario: Scenario
    fleet: Fleet
    crews: tuple[Crew, ...]

    def of(self, cluster: str) -> list[Crew]:
        """Return the crews of one cluster."""
        return [c for c in self.crews if c.cluster == cluster]


def simulate(
    seed: int,
    scenario: str | Scenario = "demo",
    *,
    start: datetime | None = None,
    days: float | None = None,
    period_seconds: int | None = None,
) -> World:
    """Return a simulated world; raise `WrongInput` for an unknown scenario or a period that is not whole minutes."""
    spec = scenario if isinstance(scenario, Scenario) else scenario_named(scenario)
    period = period_seconds or spec.period_seconds
    if period < 60 or period % 60:
        raise WrongInput(f"A period of {period} seconds is not whole minutes; write 60 or 300.")
    begin = (start or spec.start).astimezone(UTC)
    minutes = round((days or spec.days) * 1440) // (period // 60) * (period // 60)
    fleet = build_fleet(spec, begin, minutes, seed)
    crews = [_crew(spec, fleet, cluster.name, job.name, period // 60) for cluster in spec.clusters for job in cluster.jobs]
    return World(spec, fleet, tuple(c for c in crews if c))


def generate(
    folder: Path,
    seed: int,
    scenario: str | Scenario = "demo",
    *,
    start: datetime | None = None,
    days: float | None = None,
    period_seconds: int | None = None,
    form: Form = "parquet",
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


def write_metrics(folder: Path, world: World, form: Form) -> int:
    """Write every metric and return the number of records."""
    writer = RowWriter(folder, form)
    begin = int(world.fleet.start.timestamp() * 1000)
    for name, block in _blocks(world):
        step_ms = world.fleet.minutes * 60_000 // block.count.shape[1] // 60_000 * 60_000
        writer.write(block, name, begin + np.arange(block.count.shape[1]) * step_ms)
    writer.close()
    return writer.rows


def _crew(spec: Scenario, fleet: Fleet, cluster: str, job_name: str, minutes: int) -> Crew | None:
    nodes = fleet.of(cluster, job_name)
    if not nodes:
        return None
    job = nodes[0].job
    signals = healthy(job, nodes, fleet.start, fleet.minutes, fleet.seed, spec.missing)
    for incident in spec.incidents:
        if (incident.cluster, incident.job) == (cluster, job.name):
            paint(signals, incident, job, generator(fleet.seed, cluster, job.name, incident.cause, str(incident.at)))
    return Crew(nodes, signals, minutes, fleet.seed)


def _blocks(world: World) -> Iterator[tuple[str, Block]]:
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


def _storage(world: World) -> Iterator[tuple[str, Block]]:
    for system in file_systems(world.scenario, world.fleet):
        yield from _named(f"fsx/{system.id}", file_system_blocks(system, world.of(system.cluster.name)))
    disks = volumes(world.scenario, world.fleet)
    if disks:
        yield from _named("ebs", volume_blocks(disks, world.fleet, world.crews[0].minutes))


def _named(folder: str, blocks: Iterator[Block] | Sequence[Block]) -> Iterator[tuple[str, Block]]:
    return ((f"{folder}/{block.metric}", block) for block in blocks)
