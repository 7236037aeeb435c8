"""Turn signals into the metrics that CloudWatch has of them, and write these as a recording does."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import duckdb
import numpy as np

from adapters.simulator.fleet import ACCOUNT, FileSystemSpec, Fleet, SimulatedNode, VolumeSpec
from adapters.simulator.scenario import Kind
from adapters.simulator.workload import Array, Signals, generator


@dataclass(frozen=True)
class DimensionSets:
    """Hold the four statistics, each of shape (n_series, n_points)."""

    count: Array
    sum: Array
    max: Array
    min: Array

    def total(self) -> DimensionSets:
        """Return the statistic set of all series together, shape (1, n_points)."""
        low = np.where(self.count > 0, self.min, np.inf).min(axis=0, keepdims=True)
        return DimensionSets(
            self.count.sum(axis=0, keepdims=True),
            self.sum.sum(axis=0, keepdims=True),
            np.where(self.count > 0, self.max, -np.inf).max(axis=0, keepdims=True),
            np.where(np.isfinite(low), low, 0),
        )


def gather(
    mean: Array,
    visible: Array,
    minutes: int,
    things: int = 1,
    spread: tuple[Array, Array] | None = None,
) -> DimensionSets:
    """Gather `mean` (per thing and minute, shape (n, minutes)) into periods of `minutes`.

    Unseen or nan minutes do not count.

    `spread` holds the largest and the smallest thing of each minute where things differ.
    """
    n, whole = mean.shape[0], mean.shape[1] // minutes
    cut = slice(0, whole * minutes)
    scraped = (visible[:, cut] > 0) & np.isfinite(mean[:, cut])
    high, low = spread or (mean, mean)

    def fold(values: Array, where_not: float) -> Array:
        return np.where(scraped, values[:, cut], where_not).reshape(n, whole, minutes)

    scrapes = scraped.reshape(n, whole, minutes).sum(axis=2)
    return DimensionSets(
        (scrapes * things).astype(np.float64),
        fold(mean, 0.0).sum(axis=2) * things,
        fold(high, -np.inf).max(axis=2),
        fold(low, np.inf).min(axis=2),
    )


MetricForm = Literal["jsonl", "parquet"]


@dataclass(frozen=True)
class SimulatedSeries:
    """Name one series of a metric: where it stands and its dimensions."""

    region: str
    dimensions: Mapping[str, str]


@dataclass(frozen=True)
class SimulatedBlock:
    """Hold one metric of many series: arrays of shape (n_series, n_points).

    A count of 0 means there is no record.
    """

    namespace: str
    metric: str
    unit: str
    series: Sequence[SimulatedSeries]
    count: Array
    sum: Array
    max: Array
    min: Array


_SELECT = """
SELECT ? AS account_id, region, ? AS namespace, ? AS metric_name, dimensions, "timestamp",
       {'count': n, 'sum': total, 'max': high, 'min': low} AS "value", ? AS unit
FROM points JOIN series USING (id)
"""


class RowWriter:
    """Write blocks under a folder.

    One thread and the order of the arrays, so that the same arrays give the same bytes.
    """

    def __init__(self, folder: Path, form: MetricForm) -> None:
        self._folder, self._form = folder, form
        self._db = duckdb.connect(config={"threads": 1, "preserve_insertion_order": True})
        self.rows = 0

    def write(self, block: SimulatedBlock, name: str, times_ms: Sequence[int]) -> None:
        """Write one block as `metrics/NAME.parquet` or `metrics/NAME.jsonl.gz`.

        An empty one leaves no file.
        """
        points = _points(block, np.asarray(times_ms, dtype=np.int64))
        if not len(points["id"]):
            return
        self._db.register("points", points)
        self._name_series(block.series)
        path = (
            self._folder
            / "metrics"
            / f"{name}.{'parquet' if self._form == 'parquet' else 'jsonl.gz'}"
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        how = (
            "FORMAT parquet, COMPRESSION zstd"
            if self._form == "parquet"
            else "FORMAT json, COMPRESSION gzip"
        )
        texts = [ACCOUNT, block.namespace, block.metric, block.unit]
        self._db.execute(f"COPY ({_SELECT}) TO {quoted(str(path))} ({how})", texts)
        self.rows += len(points["id"])

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def _name_series(self, series: Sequence[SimulatedSeries]) -> None:
        self._db.execute(
            'CREATE OR REPLACE TEMP TABLE series (id INTEGER, region VARCHAR, "dimensions" MAP(VARCHAR, VARCHAR))'
        )
        named = json.dumps([[i, s.region, dict(s.dimensions)] for i, s in enumerate(series)])
        self._db.execute(
            "INSERT INTO series SELECT (x->>0)::INTEGER, x->>1, (x->2)::MAP(VARCHAR, VARCHAR)"
            " FROM (SELECT unnest(?::JSON[]) AS x)",
            [named],
        )


def quoted(text: str) -> str:
    """Return an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def _points(block: SimulatedBlock, times_ms: np.ndarray) -> dict[str, np.ndarray]:
    shape = block.count.shape
    present = np.flatnonzero(block.count.ravel() > 0)
    ids, at = np.divmod(present, shape[1])
    return {
        "id": ids.astype(np.int32),
        "timestamp": times_ms[at],
        "n": block.count.ravel()[present].astype(np.float64),
        "total": _six_digits(block.sum.ravel()[present]),
        "high": _six_digits(block.max.ravel()[present]),
        "low": _six_digits(block.min.ravel()[present]),
    }


def _six_digits(values: Array) -> Array:
    """Round to six decimals where numbers are small and to whole ones where they are large.

    Honest and compresses well.
    """
    return np.where(np.abs(values) < 1e6, np.round(values, 4), np.round(values))


CONTAINER_INSIGHTS = "ContainerInsights"


@dataclass(frozen=True)
class Workers:
    """Hold one job's nodes with their signals; `minutes` is the period of a point."""

    nodes: Sequence[SimulatedNode]
    signals: Signals
    minutes: int
    seed: int

    @property
    def cluster(self) -> str:
        """Return the cluster's name."""
        return self.nodes[0].cluster.name

    @property
    def cores(self) -> int:
        """Return the cores of a node."""
        return self.nodes[0].hardware.cores

    def block(
        self,
        namespace: str,
        metric: str,
        unit: str,
        sets: DimensionSets,
        dimensions: Sequence[dict[str, str]],
    ) -> SimulatedBlock:
        """Name the sets of this workers's nodes."""
        series = [SimulatedSeries(self.nodes[0].cluster.region, pairs) for pairs in dimensions]
        return SimulatedBlock(
            namespace, metric, unit, series, sets.count, sets.sum, sets.max, sets.min
        )

    def core_offsets(self) -> Array:
        """Return each core's lean, shape (n_nodes, n_cores), zero on average.

        Cores share one node's work unevenly.
        """
        rng = generator(self.seed, self.cluster, self.nodes[0].job.name, "cores")
        leans = rng.normal(0, 0.02, (len(self.nodes), self.cores))
        return np.asarray(leans - leans.mean(axis=1, keepdims=True))


def node_dimensions(node: SimulatedNode) -> dict[str, str]:
    """Return the dimension set of node metrics."""
    return {"ClusterName": node.cluster.name, "InstanceId": node.id, "NodeName": node.name}


def node_blocks(workers: Workers) -> Iterator[SimulatedBlock]:
    """Yield the node-level metrics of one job's nodes, accelerator and host."""
    named = [node_dimensions(n) for n in workers.nodes]
    levels = (
        _gpu_levels(workers)
        if workers.nodes[0].hardware.accelerator == "gpu"
        else _neuron_levels(workers)
    )
    for metric, unit, sets in (*levels, *_host_levels(workers)):
        yield workers.block(CONTAINER_INSIGHTS, metric, unit, sets, named)


def utilization(workers: Workers) -> DimensionSets:
    """Return percent over scrapes and cores; the spread over cores shows in max and min."""
    percent = workers.signals.utilization * 100
    room = 4 * workers.signals.utilization * (1 - workers.signals.utilization) * 100
    leans = workers.core_offsets()
    high = percent + room * leans.max(axis=1, keepdims=True)
    low = percent + room * leans.min(axis=1, keepdims=True)
    return gather(percent, workers.signals.visible, workers.minutes, workers.cores, (high, low))


def _neuron_levels(workers: Workers) -> Iterator[tuple[str, str, DimensionSets]]:
    s, machine = workers.signals, workers.nodes[0].hardware
    per_core = machine.device_memory_bytes / machine.cores
    used = s.memory * s.runtime

    def of_cores(share: Array) -> DimensionSets:
        return gather(share * per_core, s.visible, workers.minutes, machine.cores)

    yield "node_neuroncore_utilization", "Percent", utilization(workers)
    yield "node_neuroncore_memory_usage_total", "Bytes", of_cores(used)
    yield "node_neuroncore_memory_usage_tensors", "Bytes", of_cores(used * 0.90)
    yield "node_neuroncore_memory_usage_model_code", "Bytes", of_cores(used * 0.04)
    runtime = gather(used * machine.device_memory_bytes * 1.01, s.visible, workers.minutes)
    yield "node_neurondevice_runtime_memory_used_bytes", "Bytes", runtime
    yield (
        "node_neuron_execution_errors_total",
        "Count",
        gather(s.errors, s.visible, workers.minutes),
    )
    executing = np.where((s.utilization > 0.005) & (s.runtime > 0), s.latency, np.nan)
    yield "node_neuron_execution_latency", "Seconds", gather(executing, s.visible, workers.minutes)
    events = gather(
        s.ecc / machine.devices, s.visible, workers.minutes, machine.devices, (s.ecc, s.ecc * 0)
    )
    yield "node_neurondevice_hw_ecc_events_total", "Count", events
    yield from _efa_levels(workers)
    held = s.pod * machine.cores
    offered = np.full_like(held, machine.cores)
    yield "node_neuroncore_limit", "Count", gather(offered, s.visible, workers.minutes)
    yield (
        "node_neuroncore_reserved_capacity",
        "Percent",
        gather(s.pod * 100, s.visible, workers.minutes),
    )
    yield "node_neuroncore_usage_total", "Count", gather(held, s.visible, workers.minutes)


def _efa_levels(workers: Workers) -> Iterator[tuple[str, str, DimensionSets]]:
    s, machine = workers.signals, workers.nodes[0].hardware
    if not machine.efa_interfaces:
        return
    each = s.efa * machine.nic_bytes_per_second / machine.efa_interfaces
    for name, share in (
        ("rx_bytes", 1.0),
        ("tx_bytes", 0.99),
        ("rdma_read_bytes", 0.12),
        ("rdma_write_bytes", 0.85),
    ):
        sets = gather(each * share, s.visible, workers.minutes, machine.efa_interfaces)
        yield f"node_efa_{name}", "Bytes/Second", sets


def _gpu_levels(workers: Workers) -> Iterator[tuple[str, str, DimensionSets]]:
    s, machine = workers.signals, workers.nodes[0].hardware
    yield "node_gpu_utilization", "Percent", utilization(workers)
    yield (
        "node_gpu_memory_utilization",
        "Percent",
        gather(s.memory * 100, s.visible, workers.minutes, machine.devices),
    )
    yield (
        "node_gpu_limit",
        "Count",
        gather(np.full_like(s.pod, machine.devices), s.visible, workers.minutes),
    )
    yield (
        "node_gpu_usage_total",
        "Count",
        gather(s.pod * machine.devices, s.visible, workers.minutes),
    )
    yield from _efa_levels(workers)


def _host_levels(workers: Workers) -> Iterator[tuple[str, str, DimensionSets]]:
    s = workers.signals
    yield "node_cpu_utilization", "Percent", gather(s.cpu * 100, s.visible, workers.minutes)
    yield (
        "node_memory_utilization",
        "Percent",
        gather(s.host_memory * 100, s.visible, workers.minutes),
    )


def ec2_blocks(workers: Workers, present: Array) -> Iterator[SimulatedBlock]:
    """Yield `AWS/EC2` of basic monitoring, five minutes a point.

    It goes on where Container Insights falls silent.
    """
    s, minutes = workers.signals, max(5, workers.minutes)
    named = [{"InstanceId": n.id} for n in workers.nodes]
    inward, outward = (s.read + s.eni) * 60, (s.write + s.eni) * 60
    for metric, unit, values in (
        ("CPUUtilization", "Percent", s.cpu * 100),
        ("NetworkIn", "Bytes", inward),
        ("NetworkOut", "Bytes", outward),
        ("StatusCheckFailed", "Count", s.status_failed),
    ):
        yield workers.block("AWS/EC2", metric, unit, gather(values, present, minutes), named)


def cluster_block(jobs: Sequence[Workers]) -> SimulatedBlock:
    """Return the cluster-level utilization.

    The same records under one dimension more coarse, never to be added.
    """
    every = [utilization(workers) for workers in jobs]
    joined = DimensionSets(
        *(
            np.concatenate([getattr(sets, name) for sets in every])
            for name in ("count", "sum", "max", "min")
        )
    )
    metric = (
        "node_gpu_utilization"
        if jobs[0].nodes[0].hardware.accelerator == "gpu"
        else "node_neuroncore_utilization"
    )
    return jobs[0].block(
        CONTAINER_INSIGHTS, metric, "Percent", joined.total(), [{"ClusterName": jobs[0].cluster}]
    )


def core_blocks(workers: Workers) -> Iterator[SimulatedBlock]:
    """Yield per-core utilization and memory of the job's first nodes.

    Cores add up to the node's own figure.
    """
    machine = workers.nodes[0].hardware
    leans = workers.core_offsets()
    for row, node in enumerate(workers.nodes[: workers.nodes[0].job.cores_reported]):
        u = workers.signals.utilization[row : row + 1]
        percent = 100 * (u + 4 * u * (1 - u) * leans[row][:, None])
        visible = np.repeat(workers.signals.visible[row : row + 1], machine.cores, axis=0)
        share = workers.signals.memory[row : row + 1] * workers.signals.runtime[row : row + 1]
        memory = np.repeat(
            share * machine.device_memory_bytes / machine.cores, machine.cores, axis=0
        )
        named = [_core_dimensions(node, core) for core in range(machine.cores)]
        sets = gather(percent, visible, workers.minutes)
        yield workers.block(
            CONTAINER_INSIGHTS, "node_neuroncore_utilization", "Percent", sets, named
        )
        sets = gather(memory, visible, workers.minutes)
        yield workers.block(
            CONTAINER_INSIGHTS, "node_neuroncore_memory_usage_total", "Bytes", sets, named
        )


def _core_dimensions(node: SimulatedNode, core: int) -> dict[str, str]:
    device = core * node.hardware.devices // node.hardware.cores
    return node_dimensions(node) | {
        "InstanceType": node.cluster.instance_type,
        "NeuronDevice": f"device{device}",
        "NeuronCore": f"core{core}",
    }


def pod_blocks(workers: Workers) -> Iterator[SimulatedBlock]:
    """Yield pod-level metrics of the job's first pods; a pod has no record while it does not exist."""
    job = workers.nodes[0].job
    n = min(job.pods, len(workers.nodes))
    if job.kind is Kind.NOTHING or not n or workers.nodes[0].hardware.accelerator == "gpu":
        return
    s, cores = workers.signals, float(workers.cores)
    visible = s.visible[:n] * s.pod[:n]
    named = [_pod_dimensions(node) for node in workers.nodes[:n]]
    percent = s.utilization[:n] * 100
    memory = s.memory[:n] * s.runtime[:n] * workers.nodes[0].hardware.device_memory_bytes / cores
    given = np.full_like(visible, cores)
    for metric, unit, sets in (
        (
            "pod_neuroncore_utilization",
            "Percent",
            gather(percent, visible, workers.minutes, workers.cores),
        ),
        (
            "pod_neuroncore_memory_usage_total",
            "Bytes",
            gather(memory, visible, workers.minutes, workers.cores),
        ),
        ("pod_neuroncore_request", "Count", gather(given, visible, workers.minutes)),
        ("pod_neuroncore_limit", "Count", gather(given, visible, workers.minutes)),
        ("pod_neuroncore_usage_total", "Count", gather(given, visible, workers.minutes)),
    ):
        yield workers.block(CONTAINER_INSIGHTS, metric, unit, sets, named)


def _pod_dimensions(node: SimulatedNode) -> dict[str, str]:
    return {
        "ClusterName": node.cluster.name,
        "Namespace": node.cluster.team or "default",
        "PodName": f"{node.job.name}-worker",
        "FullPodName": node.pod,
    }


DISKS_PER_TIB = 1


def file_system_blocks(spec: FileSystemSpec, jobs: Sequence[Workers]) -> Iterator[SimulatedBlock]:
    """Yield `AWS/FSx` of one file system: one point per disk and minute, so `Sum` is the whole."""
    shape = jobs[0].signals.progress.shape[0]
    rng = generator(jobs[0].seed, spec.id)
    if spec.unused_from is None:
        read = np.sum([job.signals.read.sum(axis=0) for job in jobs], axis=0) * 60
        write = np.sum([job.signals.write.sum(axis=0) for job in jobs], axis=0) * 60
        clients = np.sum([job.signals.pod.sum(axis=0) for job in jobs], axis=0)
        metadata = np.abs(rng.normal(900, 150, shape)) * (clients > 0)
    else:
        at = np.arange(shape)
        used = ((at < spec.unused_from) | (at >= (spec.unused_until or shape))).astype(np.float64)
        read, write, clients = used * np.abs(rng.normal(3e10, 4e9, shape)), used * 1e8, used * 2
        metadata = used * np.abs(rng.normal(200, 30, shape))
    disks = max(1, int(spec.tib * DISKS_PER_TIB / 1.2))
    visible = np.ones((1, shape))
    series = [SimulatedSeries(spec.cluster.region, {"FileSystemId": spec.id})]
    free = np.full(shape, spec.tib * 2.0**40 * 0.41 / disks)
    for metric, unit, values, things in (
        ("DataReadBytes", "Bytes", read / disks, disks),
        ("DataWriteBytes", "Bytes", write / disks, disks),
        ("DataReadOperations", "Count", read / disks / 1_048_576, disks),
        ("DataWriteOperations", "Count", write / disks / 1_048_576, disks),
        ("MetadataOperations", "Count", metadata, 1),
        ("ClientConnections", "Count", clients, 1),
        ("FreeDataStorageCapacity", "Bytes", free, disks),
    ):
        sets = gather(np.atleast_2d(values), visible, jobs[0].minutes, things)
        yield SimulatedBlock(
            "AWS/FSx", metric, unit, series, sets.count, sets.sum, sets.max, sets.min
        )


def volume_blocks(
    specs: Sequence[VolumeSpec], fleet: Fleet, minutes: int
) -> Iterator[SimulatedBlock]:
    """Yield `AWS/EBS` at five minutes; a volume that is attached to nothing has no record."""
    shape = fleet.minutes
    visible = np.stack([_attached(spec, shape) for spec in specs])
    rng = generator(fleet.seed, "volumes")
    writes = np.abs(rng.normal(2e7, 5e6, (len(specs), shape)))
    series = [SimulatedSeries(spec.cluster.region, {"VolumeId": spec.id}) for spec in specs]
    for metric, unit, values in (
        ("VolumeReadBytes", "Bytes", writes * 0.4),
        ("VolumeWriteBytes", "Bytes", writes),
        ("VolumeIdleTime", "Seconds", 60 - writes / 2e6),
    ):
        sets = gather(values, visible, max(5, minutes))
        yield SimulatedBlock(
            "AWS/EBS", metric, unit, series, sets.count, sets.sum, sets.max, sets.min
        )


def _attached(spec: VolumeSpec, minutes: int) -> Array:
    at = np.arange(minutes)
    return np.asarray(at < (minutes if spec.detached is None else spec.detached), dtype=np.float64)
