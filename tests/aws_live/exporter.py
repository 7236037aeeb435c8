"""Say what neuron-monitor's exporter would have: samples of Prometheus from what Container Insights published of the same nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from tests.aws_live.cloudwatch import Key, Stored

ERRORS = ("hardware", "numerical", "transient", "model", "runtime")
MEMORY = ("constants", "model_code", "model_shared_scratchpad", "runtime_memory", "tensors")


@dataclass(frozen=True)
class Sampled:
    """Hold one series of a Prometheus server: name, labels, and samples in the order of their times."""

    name: str
    labels: Mapping[str, str]
    times: np.ndarray
    values: np.ndarray


@dataclass(frozen=True)
class Dialect:
    """Say how a store names labels, how often it samples, and what utilization of 1 is there."""

    names: Mapping[str, str]
    offsets: tuple[int, ...]
    """Seconds of a minute at which samples lie."""
    whole: float
    pods: bool
    """Whether it knows which pod holds a core."""


OTEL = Dialect(
    {
        "ClusterName": "@resource.k8s.cluster.name",
        "InstanceId": "@resource.host.id",
        "NodeName": "@resource.k8s.node.name",
        "NeuronCore": "aws.neuron.core",
        "NeuronDevice": "aws.neuron.device",
        "FullPodName": "@resource.k8s.pod.name",
        "Namespace": "@resource.k8s.namespace.name",
        "PodName": "@resource.k8s.workload.name",
    },
    (15, 45),
    100.0,
    pods=True,
)
EXPORTER = Dialect(
    {"InstanceId": "instance_id", "NeuronCore": "neuroncore", "NeuronDevice": "neuron_device"},
    (30,),
    1.0,
    pods=False,
)


def samples(published: Mapping[Key, Stored], dialect: Dialect) -> Iterator[Sampled]:
    """Yield the series of every node that Container Insights tells of."""
    nodes = {
        dict(pairs)["InstanceId"]: dict(pairs)
        for _, m, pairs in published
        if m == "node_neuroncore_utilization" and len(pairs) == 3
    }
    pods = _pods(published) if dialect.pods else {}
    for instance, dimensions in nodes.items():
        mine = {m: x for (_, m, pairs), x in published.items() if dict(pairs) == dimensions}
        yield from _Node(mine, dimensions, *pods.get(instance, ({}, np.empty(0))), dialect).series()


def _pods(published: Mapping[Key, Stored]) -> dict[str, tuple[dict[str, str], np.ndarray]]:
    """Return the pod that holds each node, and when: its cores do what the node's do."""
    whole = {
        dict(pairs)["InstanceId"]: x.rows
        for (_, m, pairs), x in published.items()
        if m == "node_neuroncore_utilization" and len(pairs) == 3
    }
    found = {}
    for (_, metric, pairs), one in published.items():
        if metric == "pod_neuroncore_utilization":
            for instance, rows in whole.items():
                shared, ours, theirs = np.intersect1d(
                    one.rows[:, 0], rows[:, 0], return_indices=True
                )
                if (
                    len(shared)
                    and np.isclose(one.rows[ours, 2], rows[theirs, 2], rtol=1e-3).mean() > 0.9
                ):
                    found[instance] = dict(pairs), one.rows[:, 0]
    return found


@dataclass(frozen=True)
class _Node:
    """Hold what was published of one node, by metric."""

    published: Mapping[str, Stored]
    dimensions: Mapping[str, str]
    pod: Mapping[str, str]
    minutes: np.ndarray
    """At which the pod was there."""
    dialect: Dialect

    def series(self) -> Iterator[Sampled]:
        yield from self._cores()
        memory = "node_neurondevice_runtime_memory_used_bytes"
        yield from self._gauge(
            "neuron_runtime_memory_used_bytes", memory, _mean, memory_location="neuron_device"
        )
        yield from self._gauge(
            "neuron_hardware_info", "node_neuroncore_utilization", lambda rows: np.ones(len(rows))
        )
        yield from self._gauge(
            "execution_latency_seconds", "node_neuron_execution_latency", _mean, percentile="p50"
        )
        yield from self._counter(
            "execution_errors_total", "node_neuron_execution_errors_total", error_type="generic"
        )
        for kind in ERRORS:
            yield from self._counter(
                "execution_errors_total", f"node_neuron_execution_errors_{kind}", error_type=kind
            )
        yield from self._counter(
            "hardware_ecc_events_total",
            "node_neurondevice_hw_ecc_events_total",
            event_type="mem_ecc_corrected",
            neuron_device_index="0",
        )
        for name in ("rx_bytes", "tx_bytes", "rdma_read_bytes", "rdma_write_bytes", "rx_dropped"):
            yield from self._counter(f"efa_{name}", f"node_efa_{name}", seconds=60)
        yield from self._host()

    def _cores(self) -> Iterator[Sampled]:
        """Yield cores that have the mean and the highest reading that were published, and the pod for as long as it was there."""
        rows = self.published["node_neuroncore_utilization"].rows
        count = int(rows[0, 1])
        rest = (rows[:, 2] - rows[:, 3]) / (count - 1)
        for core in range(count):
            values = (rows[:, 3] if core == 0 else rest) / 100 * self.dialect.whole
            yield from self._held("neuroncore_utilization_ratio", rows, values, core)
        total = self.published["node_neuroncore_memory_usage_total"].rows
        parts = {
            x: self._sums(f"node_neuroncore_memory_usage_{x}", total)
            for x in ("model_code", "tensors")
        }
        parts |= {
            "constants": np.zeros(len(total)),
            "model_shared_scratchpad": np.zeros(len(total)),
        }
        parts["runtime_memory"] = total[:, 2] - sum(parts.values())
        for name, values in parts.items():
            yield from self._held(f"neuroncore_memory_usage_{name}", total, values, 0)

    def _held(
        self, name: str, rows: np.ndarray, values: np.ndarray, core: int
    ) -> Iterator[Sampled]:
        part = {"NeuronCore": str(core), "NeuronDevice": str(core // 2)}
        held = np.isin(rows[:, 0], self.minutes)
        for there, pod in ((held, self.pod), (~held, {})):
            if there.any():
                yield self._sampled(name, rows[there], values[there], pod, **part)

    def _sums(self, metric: str, like: np.ndarray) -> np.ndarray:
        rows = self.published[metric].rows
        return np.asarray(np.interp(like[:, 0], rows[:, 0], rows[:, 2]))

    def _host(self) -> Iterator[Sampled]:
        cpu, memory = "node_cpu_utilization", "node_memory_utilization"
        yield from self._gauge(
            "system_vcpu_usage_ratio", cpu, lambda rows: _mean(rows) / 100, usage_type="user"
        )
        yield from self._gauge(
            "system_vcpu_usage_ratio", cpu, lambda rows: np.zeros(len(rows)), usage_type="system"
        )
        for total, name, share in (
            ("system_memory_total_bytes", "system_memory_used_bytes", _mean),
            (
                "node_memory_MemTotal_bytes",
                "node_memory_MemAvailable_bytes",
                lambda rows: 100 - _mean(rows),
            ),
        ):
            yield from self._gauge(total, memory, lambda rows: np.full(len(rows), 1e11))
            yield from self._gauge(name, memory, partial(_gigabytes, share))

    def _gauge(
        self, name: str, metric: str, value: Callable[[np.ndarray], np.ndarray], **labels: str
    ) -> Iterator[Sampled]:
        if stored := self.published.get(metric):
            yield self._sampled(name, stored.rows, value(stored.rows), {}, **labels)

    def _counter(
        self, name: str, metric: str, seconds: int = 1, **labels: str
    ) -> Iterator[Sampled]:
        """Yield a counter that begins at 0 a minute before the first that was published."""
        if stored := self.published.get(metric):
            rows = stored.rows
            begin = np.array([[rows[0, 0] - 60, 1, 0, 0, 0]])
            yield self._sampled(
                name,
                np.vstack([begin, rows]),
                np.append(0, np.cumsum(rows[:, 2]) * seconds),
                {},
                **labels,
            )

    def _sampled(
        self, name: str, rows: np.ndarray, values: np.ndarray, pod: Mapping[str, str], **more: str
    ) -> Sampled:
        dimensions = {
            **self.dimensions,
            **pod,
            **{k: v for k, v in more.items() if k in ("NeuronCore", "NeuronDevice")},
        }
        labels = {
            self.dialect.names[k]: v for k, v in dimensions.items() if k in self.dialect.names
        }
        labels |= {k: v for k, v in more.items() if k not in dimensions}
        offsets = self.dialect.offsets
        times = (rows[:, 0][:, None] + np.array(offsets)).ravel()
        return Sampled(name, labels, times, np.repeat(values, len(offsets)))


def _gigabytes(share: Callable[[np.ndarray], np.ndarray], rows: np.ndarray) -> np.ndarray:
    return share(rows) * 1e9


def _mean(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows[:, 2] / np.maximum(rows[:, 1], 1))
