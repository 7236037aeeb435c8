"""Turn signals into metrics as CloudWatch has them, and write these as a recording does."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import duckdb
import numpy as np
import numpy.typing as npt

from adapters.simulator.fleet import (
    ACCOUNT,
    SPOT_WAIT_MINUTES,
    FileSystemSpec,
    Fleet,
    SimulatedNode,
    VolumeSpec,
)
from adapters.simulator.scenario import Kind
from adapters.simulator.workload import BOOT_MINUTES, Array, Signals, generator


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

    # A minute that nobody scraped counts in no statistic.
    scrapes = scraped.reshape(n, whole, minutes).sum(axis=2)
    return DimensionSets(
        (scrapes * things).astype(np.float64),
        fold(mean, 0.0).sum(axis=2) * things,
        fold(high, -np.inf).max(axis=2),
        fold(low, np.inf).min(axis=2),
    )


MetricForm = Literal["jsonl", "parquet"]


SimulatedSeries = tuple[str, Mapping[str, str]]
"""Where a series of a metric stands, its region, and its dimensions."""


@dataclass(frozen=True)
class SimulatedBlock:
    """Hold one metric of many series, a count of 0 where there is no record."""

    namespace: str
    metric: str
    unit: str
    series: Sequence[SimulatedSeries]
    sets: DimensionSets


_SELECT = """
SELECT ? AS account_id, region, ? AS namespace, ? AS metric_name, dimensions, "timestamp",
       {'count': n, 'sum': total, 'max': high, 'min': low} AS "value", ? AS unit
FROM points JOIN series USING (id)
"""
_SERIES = """
CREATE OR REPLACE TEMP TABLE series AS
SELECT (x->>0)::INTEGER AS id, x->>1 AS region, (x->2)::MAP(VARCHAR, VARCHAR) AS "dimensions"
FROM (SELECT unnest(?::JSON[]) AS x)
"""


class RowWriter:
    """Write blocks under a folder.

    One thread and the order of the arrays, so that the same arrays give the same bytes.
    """

    def __init__(self, folder: Path, form: MetricForm) -> None:
        self._folder = folder
        self._ending, self._how = {
            "parquet": ("parquet", "FORMAT parquet, COMPRESSION zstd"),
            "jsonl": ("jsonl.gz", "FORMAT json, COMPRESSION gzip"),
        }[form]
        self._db = duckdb.connect(config={"threads": 1, "preserve_insertion_order": True})
        self.rows = 0

    def write(self, block: SimulatedBlock, name: str, times_ms: npt.NDArray[np.int64]) -> None:
        """Write one block as `metrics/NAME.parquet` or `metrics/NAME.jsonl.gz`.

        An empty one leaves no file.
        """
        sets = block.sets

        # A count of nothing is a record that never came.
        present = np.flatnonzero(sets.count.ravel() > 0)
        if not present.size:
            return
        series, point = np.divmod(present, sets.count.shape[1])
        points = {
            "id": series.astype(np.int32),
            "timestamp": times_ms[point],
            "n": sets.count.ravel()[present].astype(np.float64),
            "total": _six_digits(sets.sum.ravel()[present]),
            "high": _six_digits(sets.max.ravel()[present]),
            "low": _six_digits(sets.min.ravel()[present]),
        }
        self._db.register("points", points)
        places = [[i, region, dict(pairs)] for i, (region, pairs) in enumerate(block.series)]
        self._db.execute(_SERIES, [json.dumps(places)])

        path = self._folder / "metrics" / f"{name}.{self._ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        texts = [ACCOUNT, block.namespace, block.metric, block.unit]
        self._db.execute(f"COPY ({_SELECT}) TO {quoted(str(path))} ({self._how})", texts)
        self.rows += present.size

    def close(self) -> None:
        """Close the database."""
        self._db.close()


def quoted(text: str) -> str:
    """Return an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def _six_digits(values: Array) -> Array:
    """Round to six decimals where numbers are small and to whole ones where they are large.

    Honest and compresses well.
    """
    return np.where(np.abs(values) < 1e6, np.round(values, 4), np.round(values))


CONTAINER_INSIGHTS = "ContainerInsights"
Level = tuple[str, str, DimensionSets]
"""A metric, its unit and its statistics."""


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

    def sets(
        self, mean: Array, things: int = 1, spread: tuple[Array, Array] | None = None
    ) -> DimensionSets:
        """Gather a signal of the nodes, which is of `things` things on each."""
        return gather(mean, self.signals.visible, self.minutes, things, spread)

    def block(
        self, namespace: str, level: Level, dimensions: Sequence[Mapping[str, str]]
    ) -> SimulatedBlock:
        """Return the block of a level of these nodes."""
        metric, unit, sets = level
        series = [(self.nodes[0].cluster.region, pairs) for pairs in dimensions]
        return SimulatedBlock(namespace, metric, unit, series, sets)

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
    s, machine, sets = workers.signals, workers.nodes[0].hardware, workers.sets
    cores, devices, interfaces = machine.cores, machine.devices, machine.efa_interfaces
    levels: list[Level] = [
        ("node_cpu_utilization", "Percent", sets(s.cpu * 100)),
        ("node_memory_utilization", "Percent", sets(s.host_memory * 100)),
    ]
    if interfaces:
        # Each interface reports its own share of the traffic.
        bytes_of_each = s.efa * machine.nic_bytes_per_second / interfaces
        levels += [
            (f"node_efa_{name}", "Bytes/Second", sets(bytes_of_each * share, interfaces))
            for name, share in (
                ("rx_bytes", 1.0),
                ("tx_bytes", 0.99),
                ("rdma_read_bytes", 0.12),
                ("rdma_write_bytes", 0.85),
            )
        ]

    if machine.accelerator == "gpu":
        levels += [
            ("node_gpu_utilization", "Percent", utilization(workers)),
            ("node_gpu_memory_utilization", "Percent", sets(s.memory * 100, devices)),
            ("node_gpu_limit", "Count", sets(np.full_like(s.pod, devices))),
            ("node_gpu_usage_total", "Count", sets(s.pod * devices)),
        ]
    else:
        used, per_core = s.memory * s.runtime, machine.device_memory_bytes / cores
        of_runtime = sets(used * machine.device_memory_bytes * 1.01)
        executing = np.where((s.utilization > 0.005) & (s.runtime > 0), s.latency, np.nan)
        events = sets(s.ecc / devices, devices, (s.ecc, s.ecc * 0))
        tensors, code = sets(used * 0.90 * per_core, cores), sets(used * 0.04 * per_core, cores)
        levels += [
            ("node_neuroncore_utilization", "Percent", utilization(workers)),
            ("node_neuroncore_memory_usage_total", "Bytes", sets(used * per_core, cores)),
            ("node_neuroncore_memory_usage_tensors", "Bytes", tensors),
            ("node_neuroncore_memory_usage_model_code", "Bytes", code),
            ("node_neurondevice_runtime_memory_used_bytes", "Bytes", of_runtime),
            ("node_neuron_execution_errors_total", "Count", sets(s.errors)),
            ("node_neuron_execution_latency", "Seconds", sets(executing)),
            ("node_neurondevice_hw_ecc_events_total", "Count", events),
            ("node_neuroncore_limit", "Count", sets(np.full_like(s.pod, cores))),
            ("node_neuroncore_reserved_capacity", "Percent", sets(s.pod * 100)),
            ("node_neuroncore_usage_total", "Count", sets(s.pod * cores)),
        ]
    names = [node_dimensions(node) for node in workers.nodes]
    yield from (workers.block(CONTAINER_INSIGHTS, level, names) for level in levels)


def utilization(workers: Workers) -> DimensionSets:
    """Return percent over scrapes and cores; the spread over cores shows in max and min."""
    percent = workers.signals.utilization * 100
    room = 4 * workers.signals.utilization * (1 - workers.signals.utilization) * 100
    leans = workers.core_offsets()
    high = percent + room * leans.max(axis=1, keepdims=True)
    low = percent + room * leans.min(axis=1, keepdims=True)
    return workers.sets(percent, workers.cores, (high, low))


def ec2_blocks(workers: Workers, present: Array) -> Iterator[SimulatedBlock]:
    """Yield `AWS/EC2` of basic monitoring, five minutes a point.

    It goes on where Container Insights falls silent.
    """
    s, minutes = workers.signals, max(5, workers.minutes)
    names = [{"InstanceId": node.id} for node in workers.nodes]
    for metric, unit, values in (
        ("CPUUtilization", "Percent", s.cpu * 100),
        ("NetworkIn", "Bytes", (s.read + s.eni) * 60),
        ("NetworkOut", "Bytes", (s.write + s.eni) * 60),
        ("StatusCheckFailed", "Count", s.status_failed),
    ):
        yield workers.block("AWS/EC2", (metric, unit, gather(values, present, minutes)), names)


def cluster_block(jobs: Sequence[Workers]) -> SimulatedBlock:
    """Return the cluster-level utilization.

    The same records under one dimension more coarse, never to be added.
    """
    of_jobs = [utilization(workers) for workers in jobs]
    statistics = ("count", "sum", "max", "min")
    joined = DimensionSets(
        *(np.concatenate([getattr(sets, name) for sets in of_jobs]) for name in statistics)
    )
    metric = "node_neuroncore_utilization"
    if jobs[0].nodes[0].hardware.accelerator == "gpu":
        metric = "node_gpu_utilization"
    names = [{"ClusterName": jobs[0].cluster}]
    return jobs[0].block(CONTAINER_INSIGHTS, (metric, "Percent", joined.total()), names)


def core_blocks(workers: Workers) -> Iterator[SimulatedBlock]:
    """Yield per-core utilization and memory of the job's first nodes.

    Cores add up to the node's own figure.
    """
    machine, s = workers.nodes[0].hardware, workers.signals
    leans = workers.core_offsets()
    for row, node in enumerate(workers.nodes[: workers.nodes[0].job.cores_reported]):
        u = s.utilization[row : row + 1]
        percent = 100 * (u + 4 * u * (1 - u) * leans[row][:, None])

        # Every core is scraped with its node.
        visible = np.repeat(s.visible[row : row + 1], machine.cores, axis=0)
        share = s.memory[row : row + 1] * s.runtime[row : row + 1]
        memory = np.repeat(
            share * machine.device_memory_bytes / machine.cores, machine.cores, axis=0
        )
        names = [
            node_dimensions(node)
            | {
                "InstanceType": node.cluster.instance_type,
                "NeuronDevice": f"device{core * machine.devices // machine.cores}",
                "NeuronCore": f"core{core}",
            }
            for core in range(machine.cores)
        ]
        for metric, unit, values in (
            ("node_neuroncore_utilization", "Percent", percent),
            ("node_neuroncore_memory_usage_total", "Bytes", memory),
        ):
            level = metric, unit, gather(values, visible, workers.minutes)
            yield workers.block(CONTAINER_INSIGHTS, level, names)


def pod_blocks(workers: Workers) -> Iterator[SimulatedBlock]:
    """Yield pod-level metrics of the job's first pods, which have no record before they exist."""
    job, machine = workers.nodes[0].job, workers.nodes[0].hardware
    n = min(job.pods, len(workers.nodes))
    if job.kind is Kind.NOTHING or not n or machine.accelerator == "gpu":
        return
    s, cores = workers.signals, workers.cores

    # A pod has no record before it exists.
    visible = s.visible[:n] * s.pod[:n]
    names = [
        {
            "ClusterName": node.cluster.name,
            "Namespace": node.cluster.team or "default",
            "PodName": f"{node.job.name}-worker",
            "FullPodName": node.pod,
        }
        for node in workers.nodes[:n]
    ]
    memory = s.memory[:n] * s.runtime[:n] * machine.device_memory_bytes / cores
    offered = np.full_like(visible, cores)
    for metric, unit, values, things in (
        ("pod_neuroncore_utilization", "Percent", s.utilization[:n] * 100, cores),
        ("pod_neuroncore_memory_usage_total", "Bytes", memory, cores),
        ("pod_neuroncore_request", "Count", offered, 1),
        ("pod_neuroncore_limit", "Count", offered, 1),
        ("pod_neuroncore_usage_total", "Count", offered, 1),
    ):
        level = metric, unit, gather(values, visible, workers.minutes, things)
        yield workers.block(CONTAINER_INSIGHTS, level, names)


def queue_block(jobs: Sequence[Workers]) -> SimulatedBlock:
    """Return the pods of a cluster that wait for a node: each is 1 while it does, 0 otherwise.

    Some wait as planned, and one for each spot node that is taken away, until the next has booted.
    """
    cluster, minutes = jobs[0].nodes[0].cluster, jobs[0].signals.progress.shape[0]
    waiting = np.zeros((1, minutes))
    for at, hours, pods in cluster.waits:
        waiting[:, round(at * 60) : round((at + hours) * 60)] += pods
    for job in jobs:
        for _, hour in job.nodes[0].job.replaced:
            lost = round(hour * 60)
            waiting[:, lost : lost + SPOT_WAIT_MINUTES + BOOT_MINUTES] += 1

    pods = sum(len(job.nodes) for job in jobs) + sum(planned for *_, planned in cluster.waits)
    spread = (waiting > 0).astype(np.float64), (waiting >= pods).astype(np.float64)
    sets = gather(waiting / pods, np.ones((1, minutes)), jobs[0].minutes, pods, spread)
    level = "pod_status_pending", "Count", sets
    return jobs[0].block(CONTAINER_INSIGHTS, level, [{"ClusterName": cluster.name}])


DISKS_PER_TIB = 1


def file_system_blocks(spec: FileSystemSpec, jobs: Sequence[Workers]) -> Iterator[SimulatedBlock]:
    """Yield `AWS/FSx` of one file system: one point per disk and minute, so `Sum` is the whole."""
    minutes = jobs[0].signals.progress.shape[0]
    rng = generator(jobs[0].seed, spec.id)
    if spec.unused_from is None:
        read = np.sum([job.signals.read.sum(axis=0) for job in jobs], axis=0) * 60
        write = np.sum([job.signals.write.sum(axis=0) for job in jobs], axis=0) * 60
        clients = np.sum([job.signals.pod.sum(axis=0) for job in jobs], axis=0)
        metadata = np.abs(rng.normal(900, 150, minutes)) * (clients > 0)
    else:
        minute = np.arange(minutes)
        used = (minute < spec.unused_from) | (minute >= (spec.unused_until or minutes))
        read = used * np.abs(rng.normal(3e10, 4e9, minutes))
        write, clients = used * 1e8, used * 2.0
        metadata = used * np.abs(rng.normal(200, 30, minutes))

    disks = max(1, int(spec.tib * DISKS_PER_TIB / 1.2))
    series = [(spec.cluster.region, {"FileSystemId": spec.id})]
    free = np.full(minutes, spec.tib * 2.0**40 * 0.41 / disks)
    for metric, unit, values, things in (
        ("DataReadBytes", "Bytes", read / disks, disks),
        ("DataWriteBytes", "Bytes", write / disks, disks),
        ("DataReadOperations", "Count", read / disks / 1_048_576, disks),
        ("DataWriteOperations", "Count", write / disks / 1_048_576, disks),
        ("MetadataOperations", "Count", metadata, 1),
        ("ClientConnections", "Count", clients, 1),
        ("FreeDataStorageCapacity", "Bytes", free, disks),
    ):
        sets = gather(values[None, :], np.ones((1, minutes)), jobs[0].minutes, things)
        yield SimulatedBlock("AWS/FSx", metric, unit, series, sets)


def volume_blocks(
    specs: Sequence[VolumeSpec], fleet: Fleet, minutes: int
) -> Iterator[SimulatedBlock]:
    """Yield `AWS/EBS` at five minutes; a volume that is attached to nothing has no record."""
    detached = [fleet.minutes if spec.detached is None else spec.detached for spec in specs]
    attached = (np.arange(fleet.minutes) < np.array(detached)[:, None]).astype(np.float64)
    writes = np.abs(generator(fleet.seed, "volumes").normal(2e7, 5e6, attached.shape))
    series = [(spec.cluster.region, {"VolumeId": spec.id}) for spec in specs]
    for metric, unit, values in (
        ("VolumeReadBytes", "Bytes", writes * 0.4),
        ("VolumeWriteBytes", "Bytes", writes),
        ("VolumeIdleTime", "Seconds", 60 - writes / 2e6),
    ):
        sets = gather(values, attached, max(5, minutes))
        yield SimulatedBlock("AWS/EBS", metric, unit, series, sets)
