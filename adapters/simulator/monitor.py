"""Write neuron-monitor reports of a few nodes: the source that tells error types and uncorrected ECC events apart."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from adapters.simulator.fleet import Fleet
from adapters.simulator.telemetry import Crew

EVERY_MINUTES = 5
WORTH_A_LOOK = 20
"""ECC events of one node that make somebody install neuron-monitor there."""


def write_monitor(folder: Path, crews: Sequence[Crew], fleet: Fleet) -> None:
    """Write `neuron-monitor/INSTANCE.jsonl.gz` for the first node of all, and each crew's node with the most ECC events."""
    chosen = [(crews[0], 0)] if crews and crews[0].nodes[0].hardware.accelerator == "neuron" else []
    chosen += [(c, int(np.argmax(c.signals.ecc.sum(axis=1)))) for c in crews if c.signals.ecc.sum(axis=1).max() > WORTH_A_LOOK]
    for crew, row in {(c.nodes[r].id): (c, r) for c, r in chosen}.values():
        path = folder / "neuron-monitor" / f"{crew.nodes[row].id}.jsonl.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = "".join(
            json.dumps(_report(crew, row, m, fleet)) + "\n" for m in range(EVERY_MINUTES, fleet.minutes, EVERY_MINUTES)
        )
        path.write_bytes(gzip.compress(lines.encode(), mtime=0))


def _report(crew: Crew, row: int, minute: int, fleet: Fleet) -> dict[str, Any]:
    s, node = crew.signals, crew.nodes[row]
    loaded = bool(s.runtime[row, minute] > 0)
    return {
        "timestamp": f"{fleet.at(minute):%Y-%m-%dT%H:%M:%SZ}",
        "neuron_runtime_data": [_runtime(crew, row, minute)] if loaded else [],
        "system_data": _system(crew, row, minute),
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
            "neuron_device_memory_size": int(node.hardware.device_memory_bytes / node.hardware.devices),
            "neuroncore_per_device_count": node.hardware.cores // node.hardware.devices,
            "error": "",
        },
    }


def _runtime(crew: Crew, row: int, minute: int) -> dict[str, Any]:
    report = {
        "neuroncore_counters": _group(neuroncores_in_use=_cores(crew, row, minute)),
        "execution_stats": _executions(crew, row, minute),
        "memory_used": _memory(crew, row, minute),
    }
    return {"pid": 4711, "address": "", "neuron_runtime_tag": crew.nodes[row].job.name, "error": "", "report": report}


def _group(**figures: Any) -> dict[str, Any]:
    return {"period": EVERY_MINUTES * 60.0, **figures, "error": ""}


def _cores(crew: Crew, row: int, minute: int) -> dict[str, Any]:
    percent = round(float(crew.signals.utilization[row, minute]) * 100, 2)
    return {str(core): {"neuroncore_utilization": percent} for core in range(crew.cores)}


def _executions(crew: Crew, row: int, minute: int) -> dict[str, Any]:
    s, span = crew.signals, slice(max(0, minute - EVERY_MINUTES), minute)
    errors, broken = int(s.errors[row, span].sum()), int(s.hardware_errors[row, span].sum())
    latency = float(s.latency[row, minute])
    executing = bool(np.isfinite(latency) and s.utilization[row, minute] > 0.005)
    shape = (("p0", 0.97), ("p1", 0.975), ("p25", 0.99), ("p50", 1.0), ("p75", 1.01), ("p99", 1.05), ("p100", 1.08))
    spread = {name: round(latency * factor, 6) for name, factor in shape} if executing else None
    none = {"generic": 0, "numerical": 0, "model": 0, "runtime": 0}
    return _group(
        error_summary=none | {"transient": errors - broken, "hardware": broken},
        execution_summary={"completed": int(300 / latency) if executing else 0, "completed_with_err": errors, "timed_out": 0},
        latency_stats={"total_latency": spread, "device_latency": spread},
    )


def _memory(crew: Crew, row: int, minute: int) -> dict[str, Any]:
    used = float(crew.signals.memory[row, minute]) * crew.nodes[row].hardware.device_memory_bytes / crew.cores
    parts = {"constants": 0, "model_shared_scratchpad": 0, "runtime_memory": int(used * 0.06)}
    each = parts | {"model_code": int(used * 0.04), "tensors": int(used * 0.90)}
    cores = {str(core): each for core in range(crew.cores)}
    held = {"host": 6_997_643_264, "neuron_device": int(used * crew.cores * 1.01)}
    return _group(neuron_runtime_used_bytes=held | {"usage_breakdown": {"neuroncore_memory_usage": cores}}, loaded_models=[])


def _system(crew: Crew, row: int, minute: int) -> dict[str, Any]:
    s, machine = crew.signals, crew.nodes[row].hardware
    total = machine.host_memory_gib * 2**30
    events = int(s.ecc[row, max(0, minute - EVERY_MINUTES) : minute].sum())
    device = {"sram_ecc_corrected": 0, "sram_ecc_uncorrected": 0}
    sick = {"mem_ecc_corrected": events - events // 8, "mem_ecc_uncorrected": events // 8}
    fine = {"mem_ecc_corrected": 0, "mem_ecc_uncorrected": 0}
    devices = [device | {"neuron_device_index": i} | (sick if i == 3 else fine) for i in range(machine.devices)]
    busy = float(s.cpu[row, minute]) * 100
    return {
        "neuron_hw_counters": _group(neuron_devices=devices),
        "vcpu_usage": _group(average_usage={"user": round(busy * 0.9, 2), "system": round(busy * 0.1, 2)}),
        "memory_info": _group(
            memory_total_bytes=total,
            memory_used_bytes=int(total * s.host_memory[row, minute]),
            swap_total_bytes=0,
            swap_used_bytes=0,
        ),
    }
