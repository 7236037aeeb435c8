"""Work out from readings how many of the core-hours that nodes offered were held by pods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt

from bot.model.fleet import InstanceType
from bot.model.frame import Doubles, Frame, Mask
from bot.model.labels import Labels
from bot.model.reading import Reading
from bot.model.window import Window

_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)


@dataclass(frozen=True)
class Shares:
    """Hold a cluster's pods, and the share of its nodes that each held and did not use, (n_pods, n_times).

    `idle` is the share that no pod held, (n_times,); the rest is held by pods that were not read.
    `read` marks the times that were read.
    """

    pods: tuple[Labels, ...]
    held: Doubles
    unused: Doubles
    idle: Doubles
    read: Mask


@dataclass(frozen=True)
class Occupancy:
    """Hold core-hours of each whole UTC day's 24 hours from midnight `start` on.

    `held` and `used` have the shape (n_pods, n_hours): the cores that each pod requested, and those
    of them that were busy (nan: not read). `offered` holds the cores of the Neuron nodes of a
    cluster, `reserved` those that the nodes report as held by pods, (n_hours,). `window` is the
    time that was read.
    """

    start: datetime
    window: Window
    pods: tuple[Labels, ...]
    held: Doubles
    used: Doubles
    offered: Mapping[str, Doubles]
    reserved: Mapping[str, Doubles]

    def by_day(self) -> Occupancy:
        """Return the occupancy by the day: 24 hours in one."""
        offered, reserved = (
            {name: _days(hours) for name, hours in levels.items()}
            for levels in (self.offered, self.reserved)
        )
        return Occupancy(
            self.start,
            self.window,
            self.pods,
            _days(self.held),
            _days(self.used),
            offered,
            reserved,
        )

    def of(self, cluster: str) -> Shares:
        """Return the share of a cluster's nodes that each pod held.

        Pods that together ask for more than the nodes offer (a node was not read) share what there
        is.
        """
        rows = np.flatnonzero([pod.cluster == cluster for pod in self.pods])
        held = self.held[rows]
        none, sought = np.zeros(held.shape[1]), held.sum(axis=0)
        whole = np.maximum(sought, self.offered.get(cluster, none))
        taken = np.minimum(np.maximum(sought, self.reserved.get(cluster, none)), whole)
        idle = np.divide(whole - taken, whole, out=none, where=whole > 0)
        shares = np.divide(held, whole, out=np.zeros_like(held), where=whole > 0)
        busy = np.divide(self.used[rows], held, out=np.ones_like(held), where=held > 0)
        unused = shares * (1 - np.clip(np.nan_to_num(busy, nan=1.0), 0, 1))
        return Shares(tuple(self.pods[row] for row in rows), shares, unused, idle, whole > 0)


def occupancy_of(reading: Reading, types: Mapping[str, InstanceType]) -> Occupancy | None:
    """Return the pods that held cores as far as the reading goes back.

    None where no pod's request was read.

    A pod's request is what it asked for; where that is not reported, what it was given
    (`pod_neuroncore_usage_total`). A node offers its limit; where that is not reported, its type's
    cores while it reports at all.
    """
    pods, nodes = reading.frame("pod"), reading.frame("node")
    if pods is None or not pods.n_steps:
        return None
    requested, given = pods.of("neuroncore_request_count"), pods.of("neuroncore_usage_count")
    cores = np.nan_to_num(np.where(np.isnan(requested), given, requested).astype(np.float64))
    if not cores.any():
        return None
    start = pods.start.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    n_hours = -(-(pods.end - start) // _DAY) * 24
    busy, ratio = pods.of("neuroncore_busy_count"), pods.of("neuroncore_utilization_ratio")
    busy = np.where(np.isnan(busy), cores * ratio, busy)
    return Occupancy(
        start,
        pods.window,
        pods.things,
        _hours(cores, pods, start, n_hours),
        _hours(busy, pods, start, n_hours),
        *(
            _by_cluster(levels, nodes, start, n_hours) if nodes else {}
            for levels in _cores(nodes, types)
        ),
    )


def _cores(
    nodes: Frame | None, types: Mapping[str, InstanceType]
) -> tuple[npt.NDArray[np.floating], npt.NDArray[np.floating]]:
    """Return the cores that each node offers and those that pods hold on it, (n_nodes, n_steps).

    0 where neither is read.
    """
    if nodes is None:
        return np.zeros((0, 0)), np.zeros((0, 0))
    kinds = [types.get(node.instance_type) for node in nodes.things]
    cores = np.array([kind.cores if kind and kind.has_neuron else np.nan for kind in kinds])[
        :, None
    ]
    reports = np.where(np.isnan(nodes.of("neuroncore_utilization_ratio")), np.nan, cores)
    limit = nodes.of("neuroncore_limit_count")
    reserved = nodes.of("neuroncore_reserved_count")
    return np.nan_to_num(np.where(np.isnan(limit), reports, limit)), np.nan_to_num(reserved)


def _by_cluster(
    levels: npt.NDArray[np.floating], nodes: Frame, start: datetime, n_hours: int
) -> dict[str, Doubles]:
    hours = _hours(levels, nodes, start, n_hours)
    clusters = np.array([node.cluster for node in nodes.things])
    return {str(name): hours[clusters == name].sum(axis=0) for name in np.unique(clusters) if name}


def _hours(
    levels: npt.NDArray[np.floating], frame: Frame, start: datetime, n_hours: int
) -> Doubles:
    """Add levels of steps up to amounts of hours, (n_things, n_hours); a nan makes its hour nan."""
    seconds = (frame.start - start).total_seconds() + np.arange(
        frame.n_steps
    ) * frame.step.total_seconds()
    hour = (seconds // _HOUR.total_seconds()).astype(np.intp)
    amounts = np.zeros((len(frame.things), n_hours))
    inside = (hour >= 0) & (hour < n_hours)
    first = np.flatnonzero(np.diff(hour[inside], prepend=-1))
    if len(first):
        sums = np.add.reduceat(levels[:, inside].astype(np.float64), first, axis=1)
        amounts[:, hour[inside][first]] = sums * (frame.step / _HOUR)
    return amounts


def _days(hours: Doubles) -> Doubles:
    """Add 24 hours up along the last axis."""
    return np.asarray(hours.reshape(*hours.shape[:-1], -1, 24).sum(axis=-1))
