"""Measure how a cluster's nodes were used over days: mean and spread of utilization, and the memory peak of a node."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from bot.costs.pricing import Pricing
from bot.model.fleet import Instance, InstanceType, serves
from bot.model.price import Price
from bot.model.reading import Reading
from bot.ports import Ports


@dataclass(frozen=True)
class Usage:
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


def usages(ports: Ports, at: datetime) -> tuple[Usage, ...]:
    """Return the use of every cluster that has accelerators known here; may block."""
    reading = ports.world.source.read(at)
    pricing, types = Pricing(ports).at(at), ports.world.knowledge.types()
    running: dict[str, list[Instance]] = {}
    for one in reading.inventory.instances.values():
        if one.running and one.labels.instance_type in types:
            running.setdefault(one.labels.cluster, []).append(one)
    return tuple(_usage(name, nodes, reading, pricing, ports) for name, nodes in sorted(running.items()))


def _usage(name: str, nodes: list[Instance], reading: Reading, pricing: Pricing, ports: Ports) -> Usage:
    kind = Counter(one.labels.instance_type for one in nodes).most_common(1)[0][0]
    mine = [one for one in nodes if one.labels.instance_type == kind]
    mean, spread, peak = _measured(reading, {one.id for one in mine})
    return Usage(
        name,
        ports.world.knowledge.types()[kind],
        len(mine),
        mine[0].labels.region,
        pricing.instance(mine[0]),
        mean,
        spread,
        peak,
        any(run.labels.cluster == name for run in reading.runs),
        any(serves(one.labels, one) for one in mine),
    )


def _measured(reading: Reading, ids: set[str]) -> tuple[float | None, float | None, float | None]:
    frame = reading.frame("node")
    rows = [i for i, thing in enumerate(frame.things) if thing.instance in ids] if frame else []
    if frame is None or not rows:
        return None, None, None
    cut = frame.pick(rows).last(DAYS)
    used, memory = cut.of("neuroncore_utilization_ratio"), cut.of("neuron_runtime_memory_used_bytes")
    seen = ~np.isnan(used).all(axis=0)
    means = np.nanmean(used[:, seen], axis=0) if seen.any() else np.zeros(0)
    peak = float(np.nanmax(memory)) / 2**30 if not np.isnan(memory).all() else None
    return (float(means.mean()), float(means.std()), peak) if means.size else (None, None, peak)
