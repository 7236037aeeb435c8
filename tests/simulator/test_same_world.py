"""A seed stands for one world: what it holds is known in figures, and changes only where somebody looks at the change.

`make goldens` writes them anew.
"""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import fields
from hashlib import sha256
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from adapters.simulator.fleet import build_fleet, file_systems
from adapters.simulator.generate import SimulationTiming, simulate
from adapters.simulator.incidents import EFFECTS, apply_incident
from adapters.simulator.reports import run_blocks
from adapters.simulator.scenario import SCENARIOS, PlannedIncident
from adapters.simulator.telemetry import file_system_blocks
from adapters.simulator.workload import Signals, generator, healthy, quiet
from tests.worlds_in_figures import compared, figure

GOLDENS = Path(__file__).with_name("goldens")


def described(folder: Path) -> dict[str, str]:
    """Return a name for all answers of each operation, which are JSON without noise."""
    digests: dict[str, Any] = {}
    for path in sorted((folder / "api").rglob("*.json")):
        operation = "/".join(path.relative_to(folder / "api").parts[:2])
        digest = digests.setdefault(operation, sha256())
        digest.update(path.name.encode() + path.read_bytes())
    return {operation: digest.hexdigest()[:16] for operation, digest in digests.items()}


def billed(folder: Path, sql: duckdb.DuckDBPyConnection) -> dict[str, list[float | None]]:
    """Return rows, quantity and cost of each kind of line."""
    query = f"""
        SELECT line_item_line_item_type || ' ' || line_item_product_code || ' ' ||
               line_item_usage_type, count(*), sum(line_item_usage_amount),
               sum(line_item_unblended_cost), count(DISTINCT line_item_resource_id),
               sum(split_line_item_split_cost), sum(split_line_item_unused_cost),
               epoch(min(line_item_usage_start_date)), epoch(max(line_item_usage_end_date))
        FROM '{folder}/billing/**/*.parquet' GROUP BY ALL"""
    return {
        str(name): [figure(float(x or 0)) for x in figures]
        for name, *figures in sql.sql(query).fetchall()
    }


def measured(folder: Path, sql: duckdb.DuckDBPyConnection) -> dict[str, list[float | None]]:
    """Return points, scrapes, sum and ends of each metric."""
    query = f"""
        SELECT metric_name, count(*), sum("value".count), sum("value".sum), min("value".min),
               max("value".max), count(DISTINCT dimensions::VARCHAR), min("timestamp"),
               max("timestamp"), avg("value".sum * (epoch_ms("timestamp")::TIMESTAMP
               - TIMESTAMP '2026-11-17' < INTERVAL 6 HOUR)::INT)
        FROM read_parquet('{folder}/metrics/**/*.parquet', union_by_name = true) GROUP BY ALL"""
    rows = sql.sql(query).fetchall()
    return {str(name): [figure(float(x or 0)) for x in figures] for name, *figures in rows}


def told(folder: Path) -> dict[str, list[float | None]]:
    """Return lines, sum and end of each number of the reports of neuron-monitor and of the logs, by its names."""
    figures: dict[str, list[float]] = {}

    def take(name: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, part in value.items():
                take(f"{name} {'n' if key.isdecimal() else key}", part)
        elif isinstance(value, list):
            for part in value:
                take(name, part)
        elif isinstance(value, str):
            words = re.sub(r"\d+", "n", value)
            take(f"{name}: {words}" if len(words) < 28 else name, 1)
        else:
            figures.setdefault(name, []).append(float(value or 0))

    for kind in ("neuron-monitor", "logs"):
        for path in sorted((folder / kind).rglob("*.jsonl*")):
            opened = gzip.open if path.suffix == ".gz" else open
            with opened(path, "rt", encoding="utf-8") as file:
                for line in file:
                    take(kind, json.loads(line))
    return {name: [len(x), figure(sum(x)), figure(x[-1])] for name, x in figures.items()}


@pytest.mark.parametrize("name", ["tiny", "causes", "compiles"])
def test_a_seed_is_the_account_and_the_bill_that_it_was(
    name: str, request: pytest.FixtureRequest, sql: duckdb.DuckDBPyConnection
) -> None:
    folder = request.getfixturevalue(name)
    world: dict[str, Any] = {
        "api": described(folder),
        "bill": billed(folder, sql),
        "truth": sha256((folder / "labels.json").read_bytes()).hexdigest()[:16],
    }
    if name != "causes":
        world["told"] = told(folder)
        world["metrics"] = measured(folder, sql)
    compared(GOLDENS / f"{name}.json", world)


def summary(signals: Signals, minutes: slice) -> dict[str, list[float | None]]:
    """Return the mean of each signal of the first and the last node, and how much it varies."""
    figures = {}
    for field in fields(signals):
        array = getattr(signals, field.name)[..., minutes]
        parts = [array[0], array[-1], array] if array.ndim == 2 else [array]
        with np.errstate(all="ignore"):
            known = [part[np.isfinite(part)] for part in parts]
        figures[field.name] = [figure(x.mean()) if x.size else None for x in known] + [
            figure(known[-1].std()) if known[-1].size else None,
            float(np.isfinite(parts[-1]).sum()),
        ]
    return figures


def test_days_of_each_kind_of_job_are_what_they_were() -> None:
    """Nodes join a run and are replaced, a job begins later, a cluster shares a file system."""
    timing = SimulationTiming(days=5.0, period_seconds=3600)
    simulation = simulate(7, "calm", timing)
    blocks = {x.nodes[0].job.name: run_blocks(x) for x in simulation.jobs}
    blocks |= {
        f"files of {system.cluster.name}": file_system_blocks(
            system, simulation.of(system.cluster.name)
        )
        for system in file_systems(simulation.scenario, simulation.fleet)
    }

    signals = {x.nodes[0].job.name: x.signals for x in simulation.jobs}
    signals["nothing"] = quiet(2, 1440, generator(7, "nothing"))
    world = {
        "signals": {name: summary(x, slice(None)) for name, x in signals.items()},
        "metrics": {
            name: {
                block.metric: [figure(x.sum()) for x in (block.sets.count, block.sets.sum)]
                for block in made
            }
            for name, made in blocks.items()
        },
    }
    compared(GOLDENS / "days.json", world)


def test_each_cause_leaves_the_signature_that_it_left() -> None:
    """Before, meanwhile and afterwards: each signal that is not as on a healthy day."""
    spec = SCENARIOS["tiny"]
    fleet = build_fleet(spec, spec.start, 480, 7)
    (cluster,) = spec.clusters
    nodes = fleet.of(cluster.name, cluster.jobs[0].name)
    calm = healthy(fleet, nodes, 0.0)
    parts = {"before": slice(0, 120), "meanwhile": slice(120, 300), "after": slice(300, 480)}
    signatures = {}
    for cause in sorted(EFFECTS, key=str):
        for hit in (None, (0, 1)):
            signals = healthy(fleet, nodes, 0.0)
            incident = PlannedIncident(cause, cluster.name, 2, 3, nodes=hit, level=0.3)
            apply_incident(signals, incident, nodes[0].job, generator(7, cause.value))
            changed: dict[str, Any] = {}
            for part, minutes in parts.items():
                usual = summary(calm, minutes)
                changed[part] = {
                    name: figures
                    for name, figures in summary(signals, minutes).items()
                    if figures != usual[name]
                }
            signatures[f"{cause}{' of one' if hit else ''}"] = changed
    compared(GOLDENS / "signatures.json", signatures)
