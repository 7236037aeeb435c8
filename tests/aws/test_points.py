"""Hold what frames, runs and problems are made of odd points, scene by scene, as they were last read.

A reading is a sign `.` where there is none. `make goldens` writes the golden anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np

from adapters.aws.recording.recording import Recording
from bot.model.frame import Meaning, OwnNames
from bot.model.labels import Labels
from tests import goldens
from tests.aws.conftest import MINUTE, START, TRN1, Builder

GOLDEN = Path(__file__).parent / "goldens" / "points.txt"
UTILIZATION, MEMORY = "node_neuroncore_utilization", "node_neuroncore_memory_usage_total"
ECC, LATENCY = "node_neurondevice_hw_ecc_events_total", "node_neuron_execution_latency"
RUN = {"ClusterName": "llama", "Run": "big"}
LOOKS = (7, 33, 61, 95)
SMALL = {"trn1.32xlarge": replace(TRN1, cores=4), "trn1.2xlarge": replace(TRN1, name="trn1.2xlarge", cores=2)}  # fmt: skip


def every(minutes: int, end: int = 60, start: int = 0, *, count: float = 1, level: float = 50) -> dict[int, tuple[float, float]]:  # fmt: skip
    """Return points of so many samples of a level."""
    return dict.fromkeys(range(start, end, minutes), (count, count * level))


def core(number: int, instance: str = "i-1", kind: str = "trn1.32xlarge") -> dict[str, str]:
    node = {"ClusterName": "llama", "InstanceId": instance, "NodeName": f"ip-{instance}"}
    return {**node, "InstanceType": kind, "NeuronDevice": f"device{number // 2}", "NeuronCore": f"core{number}"}  # fmt: skip


def periods(build: Builder) -> None:
    build.node(UTILIZATION, every(1, 20), "i-minute")
    build.node(UTILIZATION, every(5, 40, count=5), "i-five")
    build.node(UTILIZATION, every(15, 61, count=15), "i-quarter")
    build.node(UTILIZATION, {**every(1, 10), **every(5, 60, 10)}, "i-both")
    build.node(UTILIZATION, {**every(5, 20), **every(1, 40, 35)}, "i-turns")
    build.node(UTILIZATION, {0: (1, 10), 5: (1, 20), 15: (1, 30)}, "i-few")
    build.node(UTILIZATION, {0: (1, 10), 30: (1, 20)}, "i-two")
    build.node(UTILIZATION, {7: (1, 10)}, "i-one")
    build.node(UTILIZATION, {0: (1, 10), 6: (1, 20), 12: (1, 30), 18: (1, 40)}, "i-six")
    build.add("VolumeIdleTime", {"VolumeId": "vol-1"}, {3: (1, 60.0)}, "AWS/EBS")
    build.add("VolumeReadBytes", {"VolumeId": "vol-1"}, every(5, 30), "AWS/EBS")
    build.add("ClientConnections", {"FileSystemId": "fs"}, {3: (4, 12)}, "AWS/FSx", peak=3)
    build.add("FreeDataStorageCapacity", {"FileSystemId": "fs"}, {0: (4, 40), 60: (4, 80)}, "AWS/FSx")  # fmt: skip


def scrapes(build: Builder) -> None:
    for instance, count in (("i-usual", 20), ("i-split", 40), ("i-rare", 4), ("i-odd", 18), ("i-more", 80)):  # fmt: skip
        build.add(UTILIZATION, core(0, instance), {0: (1, 50)})
        build.node(UTILIZATION, every(5, count=count), instance)
        build.node(MEMORY, every(5, count=count, level=100), instance)
        build.node("node_efa_rx_bytes", {**every(5, count=count / 2), 30: (count / 4, 100)}, instance)  # fmt: skip
    build.node(MEMORY, {m: (3, 300) if m % 15 else (0, 0) for m in range(0, 60, 5)}, "i-unknown")
    build.add("NetworkIn", {"InstanceId": "i-usual"}, every(1, count=3, level=600), "AWS/EC2")
    build.add("NetworkOut", {"InstanceId": "i-usual"}, every(5, count=3, level=600), "AWS/EC2")


def parts(build: Builder) -> None:
    for number in range(4):
        build.add(UTILIZATION, core(number), every(1, 30, level=20 * number))
        build.add(MEMORY, core(number), every(1, 30, number, level=100))
        build.add(UTILIZATION, core(number, "i-2", "trn1.2xlarge"), every(1, 40, 10, level=90))
        device = {name: value for name, value in core(number).items() if name not in ("InstanceType", "NeuronCore")}  # fmt: skip
        build.add(ECC, device, {5: (1, number), 20: (1, 2 * number)})
        card = {"ClusterName": "llama", "InstanceId": "i-1", "InstanceType": "t", "NodeName": "ip-i-1", "NetworkInterfaceId": f"e{number}"}  # fmt: skip
        build.add("node_efa_tx_bytes", card, every(1, 30, level=7 + number))
    build.node(UTILIZATION, every(1, 30, level=10), "i-2")
    build.add(UTILIZATION, {"ClusterName": "llama"}, every(1, 30, level=30))
    build.add(UTILIZATION, {"ClusterName": "llama", "Rack": "r"}, every(1, 30, level=99))
    pod = {"ClusterName": "llama", "Namespace": "search", "PodName": "train", "FullPodName": "train-0"}  # fmt: skip
    build.add("pod_neuroncore_utilization", pod, every(1, 30, 3, count=3, level=40))
    for number in range(2):
        name = {**pod, "FullPodName": "train-1", "NeuronDevice": "d", "NeuronCore": f"core{number}"}
        build.add("pod_neuroncore_utilization", name, every(1, 30, level=25 + number))


def sources(build: Builder) -> None:
    host = {"InstanceId": "i-1"}
    build.node("node_cpu_utilization", {m: (1, 10) for m in range(0, 60, 5) if m not in (15, 40)})
    build.add("CPUUtilization", host, every(5, level=90), "AWS/EC2")
    build.add("CPUUtilization", {"InstanceId": "i-2"}, every(5, level=80), "AWS/EC2")
    build.add("mem_used_percent", host, every(1, 20, level=40), "CWAgent")
    build.add("MemoryUtilization", {"Host": "i-1"}, every(1, 30, level=70), "/aws/sagemaker/TrainingJobs")  # fmt: skip
    build.node("node_neuroncore_limit", every(1, 30, level=32))
    build.node("node_neuroncore_reserved_capacity", every(1, 40, level=75))
    build.node("node_neuroncore_reserved_capacity", every(1, 40, level=50), "i-2")


def disbelief(build: Builder) -> None:
    build.node(UTILIZATION, {0: (2, 210), 5: (2, 210.0000001), 10: (2, 210.1), 15: (2, -0.1), 20: (2, 0), 25: (0, 0), 30: (2, 20)})  # fmt: skip
    build.add(UTILIZATION, core(0, "i-2"), {0: (1, 400), 5: (1, 10)})
    build.add("node_cpu_utilization", core(0), every(5))
    build.add("CPUUtilization", {"InstanceId": "i-1"}, every(5, 30, level=20), "AWS/EC2", peak=500)
    build.node(LATENCY, {**every(1, 10, level=0), **every(1, 20, 10, level=0.5), 21: (1, 86400), 26: (1, 86401)})  # fmt: skip
    build.add("Loss", RUN, {0: (1, -5e9), 5: (1, 0), 10: (1, 5e9)}, "Trn/Training")
    build.add("ClientConnections", {"FileSystemId": "fs"}, {0: (1, 3), 5: (1, 2e7), 10: (1, 4)}, "AWS/FSx", peak=1e9)  # fmt: skip


def runs(build: Builder) -> None:
    steps = {m: (1, (m % 25) * 10) for m in range(0, 60)}
    build.add("Step", RUN, steps, "Trn/Training")
    build.add("Tokens", RUN, {m: (count, total * 1000) for m, (count, total) in steps.items()}, "Trn/Training")  # fmt: skip
    build.add("Loss", RUN, every(5, 50, 3, count=2, level=3), "Trn/Training", peak=9)
    build.add("CheckpointAgeSeconds", RUN, every(15, level=600), "Trn/Training")
    build.add("Loss", {"ClusterName": "llama", "Run": "a"}, every(1, 90, 40), "Trn/Training")
    build.add("Epoch", {"ClusterName": "llama", "Run": "slow"}, {5: (1, 1.5)}, "Trn/Training")
    build.add("Step", {"ClusterName": "b", "Run": "big"}, {5: (1, 9), 10: (1, 3), 15: (1, 2), 20: (1, 2)}, "Trn/Training")  # fmt: skip


def copies(build: Builder) -> None:
    build.node(UTILIZATION, every(5, level=10))
    build.node(UTILIZATION, every(5, level=20), "i-2")
    build.add("CPUUtilization", {"InstanceId": "i-2"}, every(1, level=8), "AWS/EC2")
    build.add("CPUUtilization", {"InstanceId": "i-2"}, {500 * 1440: (1, 8)}, "AWS/EC2")
    first = build.lines()
    build.records.clear()
    build.node(UTILIZATION, every(5, 30, 20, level=90))
    build.node(UTILIZATION, {55: (1, 70)}, "i-2")
    build.write("metrics/a.jsonl", [*first[20:], *reversed(first[:20])])
    build.write("metrics/b.jsonl.gz")


def broken(build: Builder) -> None:
    build.node(UTILIZATION, every(5, 30))
    (line, *rest) = build.lines()
    record = json.loads(line)
    odd = [
        {**record, "timestamp": 1_000},
        {**record, "timestamp": -1},
        {**record, "timestamp": 2**33 * 1000},
        {**record, "timestamp": int((START + 400 * 1440 * MINUTE).timestamp() * 1000)},
        {**record, "value": {"count": -1, "sum": 1}},
        {**record, "value": {"count": 1}},
        {**record, "value": {"count": 1, "sum": float("nan")}},
        {**record, "timestamp": record["timestamp"] + 300_000, "value": {"count": 2, "sum": 80}},
        {**record, "region": None, "account_id": None, "timestamp": record["timestamp"] + 600_000},
        {**record, "dimensions": {**record["dimensions"], "InstanceId": 7}},
        {**record, "metric_name": "node_unicorns"},
        {**record, "metric_name": "node_unicorns"},
        {**record, "dimensions": {"Odd": "x"}},
        {"metric_name": "x"},
        [],
    ]
    build.write(lines=[line, *rest, *map(json.dumps, odd), "{", '{"a": 1},{"b": 2}'])
    build.write("metrics/notes.txt", ["some words"])
    build.write("metrics/_SUCCESS", ["done"])


OWN = OwnNames(
    "Neuron",
    (Meaning("util", "neuroncore_utilization_ratio", "percent"), Meaning("mem", "neuroncore_memory_used_bytes", "kib"),
     Meaning("errors", "neuron_execution_errors_count", "count")),
    "node", "nc",
)  # fmt: skip


def own(build: Builder) -> None:
    for number in range(2):
        part = {"node": "i-1", "nc": f"core{number}", "pid": "7"}
        build.add("util", part, every(1, 30, count=12, level=40 * number), "Neuron", peak=45 * number)  # fmt: skip
        build.add("mem", part, {**every(1, 30, count=12, level=8), 12: (0, 0)}, "Neuron")
        build.add("errors", part, {5: (2, 2), 20: (2, 3)}, "Neuron")
    build.add("util", {"node": "i-2"}, every(1, 30, level=60), "Neuron")
    build.add("util", {"pid": "7"}, every(1, 30, level=60), "Neuron")
    build.add("util", {"node": "i-3"}, every(1, 30, level=60), "Another")
    build.add("other", {"node": "i-2"}, every(1, 30, level=60), "Neuron")
    build.node(UTILIZATION, every(1, 10, level=5), "i-2")


def runtime(*percents: object, first: int = 0, **more: object) -> dict[str, object]:
    cores = {str(n): {"neuroncore_utilization": x, "effective_flops": 10} for n, x in enumerate(percents, first)}  # fmt: skip
    usage = {name: {"model_code": 2, "tensors": 4, "constants": 1} for name in cores}
    groups = {
        "neuroncore_counters": {"neuroncores_in_use": cores},
        "memory_used": {"neuron_runtime_used_bytes": {"neuron_device": 100, "usage_breakdown": {"neuroncore_memory_usage": usage}}},
        "execution_stats": {"error_summary": {"generic": 1, "numeric": 2, "hardware": 3, "model": 0.5}, "execution_summary": {"completed": 50},
                            "latency_stats": {"total_latency": {"p50": 0.4}}},
    }  # fmt: skip
    return {"report": {**groups, **more}}


HOST = {
    "neuron_hw_counters": {"neuron_devices": [{"mem_ecc_corrected": 3, "sram_ecc_uncorrected": 1}, {"mem_ecc_uncorrected": 4, "sram_ecc_corrected": 10}]},
    "vcpu_usage": {"average_usage": {"user": 30, "system": 10, "idle": 50, "io_wait": 5}},
    "memory_info": {"memory_total_bytes": 200, "memory_used_bytes": 50},
}  # fmt: skip
BARE = {"vcpu_usage": {"user": 30}, "memory_info": {"memory_total_bytes": 0}, "neuron_hw_counters": {}}  # fmt: skip
UNSPLIT = {"neuron_runtime_used_bytes": {"neuron_device": 70}}
SAID: Mapping[str, Iterable[tuple[list[dict[str, object]] | None, dict[str, object]]]] = {
    "i-whole": [([runtime(80, 40)], HOST)] * 30,
    "i-two": [([runtime(80, 40), runtime(20, first=2, execution_stats={"latency_stats": {"total_latency": {"p50": 0.8}}})], HOST)] * 30,
    "i-bare": [([runtime(60, memory_used=UNSPLIT, execution_stats={"error_summary": {"numerical": 1, "numeric": 9}})], BARE)] * 30,
    "i-none": [([], HOST)] * 10 + [(None, {})] * 10,
    "i-lost": [([runtime(60)], HOST)] * 10 + [([runtime(60), {"report": {"neuroncore_counters": {"error": "gone"}}}], {})] * 10,
    "i-wrong": [([runtime("much")], {"vcpu_usage": {"user": 1, "system": "x"}, "memory_info": HOST["memory_info"]})] * 2,
}  # fmt: skip


def reports(build: Builder) -> None:
    hardware = {"neuron_device_count": 2, "neuroncore_per_device_count": 2}
    for instance, minutes in SAID.items():
        lines = []
        for minute, (runtimes, host) in enumerate(minutes, 1):
            time = START + minute * MINUTE
            stamp = (time.timestamp() * 1000, time.timestamp(), f"{time:%Y-%m-%dT%H:%M:%S}", time.isoformat())[minute % 4]  # fmt: skip
            known = {"neuron_hardware_info": hardware, "instance_info": {"instance_region": "us-east-2"}}  # fmt: skip
            lines.append({"timestamp": stamp, "neuron_runtime_data": runtimes, "system_data": host, **(known if instance != "i-bare" else {})})  # fmt: skip
        build.write(f"neuron-monitor/{instance}.jsonl", [*map(json.dumps, lines), "{}"])
    build.node(UTILIZATION, every(1, 30, 20, level=5), "i-whole")


SCENES: Mapping[str, Callable[[Builder], None]] = {
    "periods, one after the other and few": periods,
    "samples that tell scrapes": scrapes,
    "parts and wholes": parts,
    "two sources of one metric": sources,
    "what cannot be": disbelief,
    "runs": runs,
    "points that are written twice": copies,
    "lines that are broken": broken,
    "names of an installation's own": own,
    "reports of neuron-monitor": reports,
}


def named(thing: Labels) -> str:
    """Return the labels of a thing, without the account that all points have."""
    return str(thing).replace(" region=us-west-2 account=111122223333", "")


def repeated(values: Iterable[float]) -> Iterator[str]:
    """Write values, each with how often it stands in a row."""
    for value, alike in groupby("." if np.isnan(x) else f"{x:.4g}" for x in values):
        times = len(list(alike))
        yield value if times == 1 else f"{value}*{times}"


def read(recording: Recording) -> Iterator[str]:
    window = recording.extent()
    yield f"{window.start:%d %H:%M} to {window.end:%d %H:%M}"
    for minute in LOOKS:
        now = recording.read(START + minute * MINUTE)
        for kind, frame in now.frames.items():
            yield f"{minute} min {kind}: {frame.n_steps} steps to {frame.end:%H:%M}, {len(frame.things)} things, {' '.join(frame.metrics)}"
        yield from (f"{minute} min {named(run.labels)} {run.started_at:%H:%M}-{run.seen_at:%H:%M} attempt {run.attempts}: step {run.steps} epoch {run.epochs} tokens {run.tokens} loss {run.loss} age {run.checkpoint_age_seconds}" for run in now.runs)  # fmt: skip

    # The last look has every value.
    for kind, frame in now.frames.items():
        for place, thing in enumerate(frame.things):
            for metric in frame.metrics:
                values = frame.of(metric)[place]
                if np.isfinite(values).any():
                    yield f"{kind} {named(thing)} {metric}: {' '.join(repeated(values))}"
    yield from recording.problems()
    yield from (f"ignored {name} {times}" for name, times in recording.ignored.items())


def test_points_become_the_frames_that_were_last_read(tmp_path: Path) -> None:
    lines = []
    for number, (name, scene) in enumerate(SCENES.items()):
        build = Builder(tmp_path / str(number))
        scene(build)
        names = OWN if scene is own else None
        recording = build.open(write=not list(build.folder.rglob("*.jsonl")) or scene is reports, types=SMALL, own=names)  # fmt: skip
        lines += [f"## {name}", *read(recording)]
        if scene is periods:
            lines += ["# by the minute", *read(build.open(1, write=False, types=SMALL))]
    goldens.check(GOLDEN, "\n".join(lines) + "\n")
