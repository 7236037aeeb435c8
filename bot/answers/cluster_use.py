"""Measure how a cluster's nodes were used over days.

Mean and spread of utilization, and the memory peak of a node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from bot.costs.pricing import Pricing
from bot.model.fleet import Instance, InstanceType, serves
from bot.model.frame import Frame
from bot.model.price import Price
from bot.model.reading import Reading
from bot.ports import Ports

NEURON = ("neuroncore_utilization_ratio",)
ANY = (*NEURON, "gpu_utilization_ratio")


@dataclass(frozen=True)
class Use:
    """State how nodes were used over a time; None where nothing was read."""

    mean: float | None = None
    """The mean of every reading."""
    level: float | None = None
    """The mean over time of the nodes' mean.

    Each time weighs the same, however many nodes were read.
    """
    spread: float | None = None
    """The standard deviation of the nodes' mean over time."""
    peak_gib: float | None = None
    """The highest accelerator memory of any node."""


@dataclass(frozen=True)
class ClusterUse:
    """State a cluster's nodes of its most common type; None where nothing was read."""

    cluster: str
    type: InstanceType
    nodes: int
    region: str
    price: Price | None
    utilization: float | None
    spread: float | None
    """Standard deviation of the cluster's mean over time."""
    peak_gib: float | None
    """The highest accelerator memory of any node."""
    trains: bool
    """Whether a training run reports from it."""
    named_serving: bool
    """Whether its name or a tag says that it serves."""


DAYS = timedelta(days=7)


def usages(ports: Ports, at: datetime) -> tuple[ClusterUse, ...]:
    """Return the use of every cluster that has accelerators known here; may block."""
    reading = ports.world.source.read(at)
    pricing, types = Pricing(ports).at(at), ports.world.knowledge.types()
    running: dict[str, list[Instance]] = {}
    for instance in reading.inventory.instances.values():
        if instance.running and instance.labels.instance_type in types:
            running.setdefault(instance.labels.cluster, []).append(instance)
    return tuple(
        _usage(name, nodes, reading, pricing, ports) for name, nodes in sorted(running.items())
    )


def _usage(
    name: str, nodes: list[Instance], reading: Reading, pricing: Pricing, ports: Ports
) -> ClusterUse:
    kind = Counter(node.labels.instance_type for node in nodes).most_common(1)[0][0]
    mine = [node for node in nodes if node.labels.instance_type == kind]
    frame, ids = reading.frame("node"), {node.id for node in mine}
    use = measured(
        frame,
        [i for i, thing in enumerate(frame.things) if thing.instance in ids] if frame else [],
        DAYS,
    )
    return ClusterUse(
        name,
        ports.world.knowledge.types()[kind],
        len(mine),
        mine[0].labels.region,
        pricing.mean(mine),
        use.level,
        use.spread,
        use.peak_gib,
        any(run.labels.cluster == name for run in reading.runs),
        any(serves(node.labels, node) for node in mine),
    )


def measured(
    frame: Frame | None, rows: Sequence[int], span: timedelta, metrics: Sequence[str] = NEURON
) -> Use:
    """Return how the nodes at `rows` were used over the newest `span`, by the first of the metrics that was read."""
    if frame is None or not rows:
        return Use()
    cut = frame.pick(rows).last(span)
    memory = cut.of("neuron_runtime_memory_used_bytes")
    peak = float(np.nanmax(memory)) / 2**30 if not np.isnan(memory).all() else None
    used = next((values for name in metrics if not np.isnan(values := cut.of(name)).all()), None)
    if used is None:
        return Use(peak_gib=peak)
    levels = np.nanmean(used[:, ~np.isnan(used).all(axis=0)], axis=0)
    return Use(float(used[~np.isnan(used)].mean()), float(levels.mean()), float(levels.std()), peak)
