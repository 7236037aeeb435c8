"""Write the reports of jobs and nodes themselves.

A run's progress, the compiler's log, neuron-monitor's JSON.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from adapters.simulator.fleet import Fleet, SimulatedNode
from adapters.simulator.scenario import Kind, PlannedJob
from adapters.simulator.telemetry import SimulatedBlock, SimulatedSeries, Workers
from adapters.simulator.workload import Array, generator

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
    rate = 60 / job.step_seconds
    steps, age = np.zeros(pods.size), np.zeros(pods.size)
    at = saved = (
        float(generator(workers.seed, workers.cluster, job.name, "run").integers(20_000, 60_000))
        if pods[0]
        else 0.0
    )
    since = 0
    written = (s.write.max(axis=0) > 1e8) & (s.saving > 0)
    for minute in range(pods.size):
        if minute and pods[minute] and not pods[minute - 1]:
            at, since = saved, minute
        at += s.progress[minute] * rate
        if written[minute]:
            saved, since = at, minute
        steps[minute], age[minute] = at, (minute - since) * 60.0
    return Progress(np.floor(steps), age, pods.astype(np.float64))


def run_blocks(workers: Workers) -> Iterator[SimulatedBlock]:
    """Yield the run's metrics; a job that is not training yields none."""
    job = workers.nodes[0].job
    if job.kind is not Kind.TRAINING:
        return
    progress = follow(workers)
    series = [
        SimulatedSeries(
            workers.nodes[0].cluster.region, {"Run": job.name, "ClusterName": workers.cluster}
        )
    ]
    for metric, unit, values in (
        ("Epoch", "Count", progress.steps / job.steps_per_epoch),
        ("Step", "Count", progress.steps),
        ("Tokens", "Count", progress.steps * job.tokens_per_step),
        ("Parameters", "Count", np.full_like(progress.steps, job.parameters)),
        ("Loss", "None", _loss(progress.steps, job, workers)),
        ("CheckpointAgeSeconds", "Seconds", progress.checkpoint_age_seconds),
    ):
        last = values[workers.minutes - 1 :: workers.minutes][None, :]
        count = progress.reporting[workers.minutes - 1 :: workers.minutes][None, :]
        yield SimulatedBlock(NAMESPACE, metric, unit, series, count, last, last, last)


def _loss(steps: Array, job: PlannedJob, workers: Workers) -> Array:
    rng = generator(workers.seed, workers.cluster, job.name, "loss")
    return np.asarray(1.62 + 9.0 * (steps + 400) ** -0.22 * (1 + rng.normal(0, 0.006, steps.size)))


_CALL = "INFO ||NEURON_CC_WRAPPER||: Call compiler with cmd: neuronx-cc compile --framework=XLA model.{module}.hlo_module.pb"
_DONE = "INFO ||NEURON_CC_WRAPPER||: Compilation Successfully Completed for model.{module}.hlo_module.pb"
_LATE_SECONDS = 20
"""How long after its time an event is ingested."""


def write_logs(folder: Path, jobs: Sequence[Workers], fleet: Fleet) -> int:
    """Write an event for each begin of a compile and for each end that was not cut off.

    Return how many.
    """
    by_cluster: dict[str, list[dict[str, Any]]] = {}
    for workers in jobs:
        for event in _events(workers, fleet):
            by_cluster.setdefault(workers.cluster, []).append(event)
    for cluster, events in by_cluster.items():
        path = folder / "logs" / f"{cluster}.jsonl.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        events.sort(key=lambda x: (x["timestamp"], x["eventId"]))
        path.write_bytes(
            gzip.compress("".join(json.dumps(record) + "\n" for record in events).encode(), mtime=0)
        )
    return sum(map(len, by_cluster.values()))


def _events(workers: Workers, fleet: Fleet) -> Iterator[dict[str, Any]]:
    compiling = workers.signals.compiling
    for row, node in enumerate(workers.nodes):
        edges = np.flatnonzero(
            np.diff(np.concatenate(([0], compiling[row] > 0, [0])).astype(np.int8))
        )
        for begin, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            module = f"MODULE_{int(sha256(f'{node.job.name} {begin}'.encode()).hexdigest()[:14], 16)}+d41d8cd9"
            yield _event(node, begin, _CALL.format(module=module), fleet)
            if end < fleet.minutes and compiling[row, begin] == 1:
                yield _event(node, end, _DONE.format(module=module), fleet)


def _event(node: SimulatedNode, minute: int, line: str, fleet: Fleet) -> dict[str, Any]:
    at = fleet.at(minute) + timedelta(seconds=node.row % 30)
    ms = int(at.timestamp() * 1000)
    stream = f"{node.name}-application.var.log.containers.{node.job.name}-{node.row}_default_train-{node.id[2:]}.log"
    name = sha256(f"{stream} {ms} {line}".encode()).hexdigest()[:56]
    text = f"{at:%Y-%m-%d %H:%M:%S}.000297:  27  {line}"
    late = ms + _LATE_SECONDS * 1000
    return {
        "logStreamName": stream,
        "timestamp": ms,
        "message": text,
        "ingestionTime": late,
        "eventId": name,
    }


EVERY_MINUTES = 5
WORTH_A_LOOK = 20
"""ECC events of one node that make somebody install neuron-monitor there."""


def write_monitor(folder: Path, jobs: Sequence[Workers], fleet: Fleet) -> None:
    """Write `neuron-monitor/INSTANCE.jsonl.gz` for the first node of all, and each workers's node with the most ECC events."""
    chosen = [(jobs[0], 0)] if jobs and jobs[0].nodes[0].hardware.accelerator == "neuron" else []
    chosen += [
        (c, int(np.argmax(c.signals.ecc.sum(axis=1))))
        for c in jobs
        if c.signals.ecc.sum(axis=1).max() > WORTH_A_LOOK
    ]
    for workers, row in {(c.nodes[r].id): (c, r) for c, r in chosen}.values():
        path = folder / "neuron-monitor" / f"{workers.nodes[row].id}.jsonl.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = "".join(
            json.dumps(_report(workers, row, m, fleet)) + "\n"
            for m in range(EVERY_MINUTES, fleet.minutes, EVERY_MINUTES)
        )
        path.write_bytes(gzip.compress(lines.encode(), mtime=0))


def _report(workers: Workers, row: int, minute: int, fleet: Fleet) -> dict[str, Any]:
    s, node = workers.signals, workers.nodes[row]
    loaded = bool(s.runtime[row, minute] > 0)
    return {
        "timestamp": f"{fleet.at(minute):%Y-%m-%dT%H:%M:%SZ}",
        "neuron_runtime_data": [_runtime(workers, row, minute)] if loaded else [],
        "system_data": _system(workers, row, minute),
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
            "neuron_device_count": node.hardware.devices,
            "neuron_device_memory_size": int(
                node.hardware.device_memory_bytes / node.hardware.devices
            ),
            "neuroncore_per_device_count": node.hardware.cores // node.hardware.devices,
            "error": "",
        },
    }


def _runtime(workers: Workers, row: int, minute: int) -> dict[str, Any]:
    report = {
        "neuroncore_counters": _group({"neuroncores_in_use": _cores(workers, row, minute)}),
        "execution_stats": _executions(workers, row, minute),
        "memory_used": _memory(workers, row, minute),
    }
    return {
        "pid": 4711,
        "address": "",
        "neuron_runtime_tag": workers.nodes[row].job.name,
        "error": "",
        "report": report,
    }


def _group(figures: Mapping[str, Any]) -> dict[str, Any]:
    return {"period": EVERY_MINUTES * 60.0, **figures, "error": ""}


def _cores(workers: Workers, row: int, minute: int) -> dict[str, Any]:
    percent = round(float(workers.signals.utilization[row, minute]) * 100, 2)
    return {str(core): {"neuroncore_utilization": percent} for core in range(workers.cores)}


def _executions(workers: Workers, row: int, minute: int) -> dict[str, Any]:
    s, span = workers.signals, slice(max(0, minute - EVERY_MINUTES), minute)
    errors, broken = int(s.errors[row, span].sum()), int(s.hardware_errors[row, span].sum())
    latency = float(s.latency[row, minute])
    executing = bool(np.isfinite(latency) and s.utilization[row, minute] > 0.005)
    shape = (
        ("p0", 0.97),
        ("p1", 0.975),
        ("p25", 0.99),
        ("p50", 1.0),
        ("p75", 1.01),
        ("p99", 1.05),
        ("p100", 1.08),
    )
    spread = {name: round(latency * factor, 6) for name, factor in shape} if executing else None
    none = {"generic": 0, "numerical": 0, "model": 0, "runtime": 0}
    done = {
        "completed": int(300 / latency) if executing else 0,
        "completed_with_err": errors,
        "timed_out": 0,
    }
    return _group(
        {
            "error_summary": none | {"transient": errors - broken, "hardware": broken},
            "execution_summary": done,
            "latency_stats": {"total_latency": spread, "device_latency": spread},
        }
    )


def _memory(workers: Workers, row: int, minute: int) -> dict[str, Any]:
    used = (
        float(workers.signals.memory[row, minute])
        * workers.nodes[row].hardware.device_memory_bytes
        / workers.cores
    )
    parts = {"constants": 0, "model_shared_scratchpad": 0, "runtime_memory": int(used * 0.06)}
    each = parts | {"model_code": int(used * 0.04), "tensors": int(used * 0.90)}
    cores = {str(core): each for core in range(workers.cores)}
    held = {"host": 6_997_643_264, "neuron_device": int(used * workers.cores * 1.01)}
    breakdown = {"usage_breakdown": {"neuroncore_memory_usage": cores}}
    return _group({"neuron_runtime_used_bytes": held | breakdown, "loaded_models": []})


def _system(workers: Workers, row: int, minute: int) -> dict[str, Any]:
    s, machine = workers.signals, workers.nodes[row].hardware
    total = machine.host_memory_gib * 2**30
    events = int(s.ecc[row, max(0, minute - EVERY_MINUTES) : minute].sum())
    device = {"sram_ecc_corrected": 0, "sram_ecc_uncorrected": 0}
    sick = {"mem_ecc_corrected": events - events // 8, "mem_ecc_uncorrected": events // 8}
    fine = {"mem_ecc_corrected": 0, "mem_ecc_uncorrected": 0}
    devices = [
        device | {"neuron_device_index": i} | (sick if i == 3 else fine)
        for i in range(machine.devices)
    ]
    busy = float(s.cpu[row, minute]) * 100
    return {
        "neuron_hw_counters": _group({"neuron_devices": devices}),
        "vcpu_usage": _group(
            {"average_usage": {"user": round(busy * 0.9, 2), "system": round(busy * 0.1, 2)}}
        ),
        "memory_info": _group(
            {
                "memory_total_bytes": total,
                "memory_used_bytes": int(total * s.host_memory[row, minute]),
                "swap_total_bytes": 0,
                "swap_used_bytes": 0,
            }
        ),
    }
