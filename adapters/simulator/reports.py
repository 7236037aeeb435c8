"""Write the reports of jobs and nodes themselves.

A run's progress, the compiler's log, neuron-monitor's JSON.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from adapters.simulator.fleet import Fleet, SimulatedNode
from adapters.simulator.scenario import Kind
from adapters.simulator.telemetry import DimensionSets, SimulatedBlock, Workers
from adapters.simulator.workload import Array, generator
from bot.model.frame import runs_of

NAMESPACE = "Trn/Training"


@dataclass(frozen=True)
class Progress:
    """Hold the progress of a run at each minute."""

    steps: Array
    checkpoint_age_seconds: Array
    reporting: Array


def follow(workers: Workers) -> Progress:
    """Walk through the minutes.

    Steps add up, a restart falls back to the last checkpoint, whose age counts from the restore.
    """
    s, job = workers.signals, workers.nodes[0].job
    pods = s.pod.max(axis=0) * s.runtime.max(axis=0) > 0
    written = (s.write.max(axis=0) > 1e8) & (s.saving > 0)
    rate = 60 / job.step_seconds
    steps, age = np.zeros(pods.size), np.zeros(pods.size)

    # A run that is under way has done some steps before the recording begins.
    done = 0.0
    if pods[0]:
        rng = generator(workers.seed, workers.cluster, job.name, "run")
        done = float(rng.integers(20_000, 60_000))
    saved, since = done, 0
    for minute in range(pods.size):
        if minute and pods[minute] and not pods[minute - 1]:
            done, since = saved, minute
        done += s.progress[minute] * rate
        if written[minute]:
            saved, since = done, minute
        steps[minute], age[minute] = done, (minute - since) * 60.0
    return Progress(np.floor(steps), age, pods.astype(np.float64))


def run_blocks(workers: Workers) -> Iterator[SimulatedBlock]:
    """Yield the run's metrics; a job that is not training yields none."""
    job = workers.nodes[0].job
    if job.kind is not Kind.TRAINING:
        return
    progress = follow(workers)
    steps = progress.steps
    rng = generator(workers.seed, workers.cluster, job.name, "loss")
    loss = 1.62 + 9.0 * (steps + 400) ** -0.22 * (1 + rng.normal(0, 0.006, steps.size))

    names = [{"Run": job.name, "ClusterName": workers.cluster}]
    ends = slice(workers.minutes - 1, None, workers.minutes)
    count = progress.reporting[None, ends]
    for metric, unit, values in (
        ("Epoch", "Count", steps / job.steps_per_epoch),
        ("Step", "Count", steps),
        ("Tokens", "Count", steps * job.tokens_per_step),
        ("Parameters", "Count", np.full_like(steps, job.parameters)),
        ("Loss", "None", loss),
        ("CheckpointAgeSeconds", "Seconds", progress.checkpoint_age_seconds),
    ):
        last = values[None, ends]
        yield workers.block(
            NAMESPACE, (metric, unit, DimensionSets(count, last, last, last)), names
        )


_LOGGED = "INFO ||NEURON_CC_WRAPPER||: "
_CALL = (
    f"{_LOGGED}Call compiler with cmd: neuronx-cc compile --framework=XLA "
    "model.{module}.hlo_module.pb"
)
_DONE = _LOGGED + "Compilation Successfully Completed for model.{module}.hlo_module.pb"
_LATE_SECONDS = 20
"""How long after its time an event is ingested."""


def write_logs(folder: Path, jobs: Sequence[Workers], fleet: Fleet) -> int:
    """Write an event for each begin of a compile and for each end that was not cut off.

    Return how many.
    """
    by_cluster: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for workers in jobs:
        compiling = workers.signals.compiling
        # Each stretch of compiling of each node.
        for row, begin, end in np.transpose(runs_of(compiling > 0)).tolist():
            node, events = workers.nodes[row], by_cluster[workers.cluster]
            digest = sha256(f"{node.job.name} {begin}".encode()).hexdigest()
            module = f"MODULE_{int(digest[:14], 16)}+d41d8cd9"
            events.append(_event(node, begin, _CALL.format(module=module), fleet))
            if end < fleet.minutes and compiling[row, begin] == 1:
                events.append(_event(node, end, _DONE.format(module=module), fleet))

    for cluster, events in by_cluster.items():
        # Log events are kept in the order of their times, whatever node wrote them.
        events.sort(key=lambda event: (event["timestamp"], event["eventId"]))
        _write_lines(folder / "logs" / f"{cluster}.jsonl.gz", events)
    return sum(map(len, by_cluster.values()))


def _event(node: SimulatedNode, minute: int, line: str, fleet: Fleet) -> dict[str, Any]:
    written = fleet.at(minute) + timedelta(seconds=node.row % 30)
    ms = int(written.timestamp() * 1000)
    container = f"{node.job.name}-{node.row}_default_train-{node.id[2:]}"
    stream = f"{node.name}-application.var.log.containers.{container}.log"
    return {
        "logStreamName": stream,
        "timestamp": ms,
        "message": f"{written:%Y-%m-%d %H:%M:%S}.000297:  27  {line}",
        "ingestionTime": ms + _LATE_SECONDS * 1000,
        "eventId": sha256(f"{stream} {ms} {line}".encode()).hexdigest()[:56],
    }


def _write_lines(path: Path, records: Iterable[object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(record).encode() + b"\n" for record in records)
    path.write_bytes(gzip.compress(b"".join(lines), compresslevel=6, mtime=0))


EVERY_MINUTES = 5
WORTH_A_LOOK = 20
"""ECC events of one node that make somebody install neuron-monitor there."""


def write_monitor(folder: Path, jobs: Sequence[Workers], fleet: Fleet) -> None:
    """Write `neuron-monitor/INSTANCE.jsonl.gz` for some nodes.

    For the first of all, and for the one of each job with the most ECC events.
    """
    chosen = {}
    if jobs and jobs[0].nodes[0].hardware.accelerator == "neuron":
        chosen[jobs[0].nodes[0].id] = jobs[0], 0
    for workers in jobs:
        events = workers.signals.ecc.sum(axis=1)
        if events.max() > WORTH_A_LOOK:
            row = int(np.argmax(events))
            chosen[workers.nodes[row].id] = workers, row
    for instance, (workers, row) in chosen.items():
        minutes = range(EVERY_MINUTES, fleet.minutes, EVERY_MINUTES)
        reports = (_report(workers, row, minute, fleet) for minute in minutes)
        _write_lines(folder / "neuron-monitor" / f"{instance}.jsonl.gz", reports)


def _report(workers: Workers, row: int, minute: int, fleet: Fleet) -> dict[str, Any]:
    """Return what neuron-monitor prints of a node at a minute."""
    s, node = workers.signals, workers.nodes[row]
    machine = node.hardware
    total = machine.host_memory_gib * 2**30
    busy = float(s.cpu[row, minute]) * 100

    # All events of a node are those of one device.
    events = int(s.ecc[row, max(0, minute - EVERY_MINUTES) : minute].sum())
    devices = [
        {
            "sram_ecc_corrected": 0,
            "sram_ecc_uncorrected": 0,
            "neuron_device_index": device,
            "mem_ecc_corrected": events - events // 8 if device == 3 else 0,
            "mem_ecc_uncorrected": events // 8 if device == 3 else 0,
        }
        for device in range(machine.devices)
    ]
    usage = {"user": round(busy * 0.9, 2), "system": round(busy * 0.1, 2)}
    return {
        "timestamp": f"{fleet.at(minute):%Y-%m-%dT%H:%M:%SZ}",
        "neuron_runtime_data": [_runtime(workers, row, minute)]
        if s.runtime[row, minute] > 0
        else [],
        "system_data": {
            "neuron_hw_counters": _group({"neuron_devices": devices}),
            "vcpu_usage": _group({"average_usage": usage}),
            "memory_info": _group(
                {
                    "memory_total_bytes": total,
                    "memory_used_bytes": int(total * s.host_memory[row, minute]),
                    "swap_total_bytes": 0,
                    "swap_used_bytes": 0,
                }
            ),
        },
        "instance_info": {
            "instance_name": node.tags["Name"],
            "instance_id": node.id,
            "instance_type": node.cluster.instance_type,
            "instance_availability_zone": node.zone,
            "instance_region": node.cluster.region,
            "error": "",
        },
        "neuron_hardware_info": {
            "neuron_device_type": "trainium",
            "neuron_device_count": machine.devices,
            "neuron_device_memory_size": int(machine.device_memory_bytes / machine.devices),
            "neuroncore_per_device_count": machine.cores // machine.devices,
            "error": "",
        },
    }


def _group(figures: Mapping[str, Any]) -> dict[str, Any]:
    return {"period": EVERY_MINUTES * 60.0, **figures, "error": ""}


_LATENCIES = {
    "p0": 0.97,
    "p1": 0.975,
    "p25": 0.99,
    "p50": 1.0,
    "p75": 1.01,
    "p99": 1.05,
    "p100": 1.08,
}
"""How latency spreads, as factors of the mean."""


def _runtime(workers: Workers, row: int, minute: int) -> dict[str, Any]:
    """Return the report of the runtime that a node has loaded."""
    s, node = workers.signals, workers.nodes[row]
    percent = round(float(s.utilization[row, minute]) * 100, 2)

    span = slice(max(0, minute - EVERY_MINUTES), minute)
    errors, broken = int(s.errors[row, span].sum()), int(s.hardware_errors[row, span].sum())
    latency, spread, completed = float(s.latency[row, minute]), None, 0
    if np.isfinite(latency) and s.utilization[row, minute] > 0.005:
        spread = {name: round(latency * factor, 6) for name, factor in _LATENCIES.items()}
        completed = int(300 / latency)
    by_kind = {"generic": 0, "numerical": 0, "model": 0, "runtime": 0}

    # Memory as the runtime breaks it down, the same on every core.
    used = float(s.memory[row, minute]) * node.hardware.device_memory_bytes / workers.cores
    parts = {
        "constants": 0,
        "model_shared_scratchpad": 0,
        "runtime_memory": int(used * 0.06),
        "model_code": int(used * 0.04),
        "tensors": int(used * 0.90),
    }
    cores = [str(core) for core in range(workers.cores)]
    memory = {
        "host": 6_997_643_264,
        "neuron_device": int(used * workers.cores * 1.01),
        "usage_breakdown": {"neuroncore_memory_usage": dict.fromkeys(cores, parts)},
    }
    in_use = {core: {"neuroncore_utilization": percent} for core in cores}
    return {
        "pid": 4711,
        "address": "",
        "neuron_runtime_tag": node.job.name,
        "error": "",
        "report": {
            "neuroncore_counters": _group({"neuroncores_in_use": in_use}),
            "execution_stats": _group(
                {
                    "error_summary": by_kind | {"transient": errors - broken, "hardware": broken},
                    "execution_summary": {
                        "completed": completed,
                        "completed_with_err": errors,
                        "timed_out": 0,
                    },
                    "latency_stats": {"total_latency": spread, "device_latency": spread},
                }
            ),
            "memory_used": _group({"neuron_runtime_used_bytes": memory, "loaded_models": []}),
        },
    }
