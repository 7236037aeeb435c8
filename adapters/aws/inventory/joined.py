"""Join the inventory with the metrics.

Complete the labels of things, and add the nodes that only metrics show.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np

from adapters.aws.inventory.snapshots import Snapshots
from adapters.aws.metrics.metric_grid import MetricGrid, SeriesBatch
from adapters.aws.metrics.points import Ints
from adapters.aws.recent import Recent
from bot.model.fleet import FileSystem, Instance, Inventory, Volume
from bot.model.labels import Labels


def labelled(of: MetricGrid, inventory: Inventory) -> tuple[Labels, ...]:
    """Return all labels of each thing of a grid.

    Those of its dimensions, and those of the inventory.
    """
    if of.kind in ("node", "core", "device"):
        instances = inventory.instances
        return tuple(
            x.merge(instance.labels) if (instance := instances.get(x.instance)) else x
            for x in of.details
        )
    if of.kind in ("volume", "file_system"):
        described = {
            x.resource: x
            for x in (*_storage_labels(inventory.volumes), *_storage_labels(inventory.file_systems))
        }
        return tuple(x.merge(described.get(x.resource, x)) for x in of.details)
    return of.details


def _storage_labels(storage: Sequence[Volume] | Sequence[FileSystem]) -> list[Labels]:
    return [x.labels for x in storage]


def core_counts(snapshots: Snapshots, feeding: Sequence[SeriesBatch]) -> dict[str, int]:
    """Return how many cores each instance shows, where its type is known."""
    named = {
        labels.instance: labels.instance_type
        for source in feeding
        for labels in source.labels
        if labels.instance_type
    }
    return {
        id: snapshots.types[name].cores
        for id, name in {**named, **snapshots.instance_types()}.items()
        if name in snapshots.types
    }


_SILENT = timedelta(days=1)
"""After so long without a metric an instance that no snapshot ever named is no longer called running."""
_LATE = timedelta(minutes=10)
"""How long the newest points of a node that runs may be on their way when its place is described."""


Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]
LastSeen = Callable[[int, int], Ints]
"""Answer the newest bin by `end` with a reading of each of the first `n` nodes, shape (n,)."""


class JoinedInventory:
    """Join the snapshots with the nodes that metrics show."""

    def __init__(
        self, snapshots: Snapshots, nodes: MetricGrid | None, seen: LastSeen | None
    ) -> None:
        self._snapshots, self._nodes, self._last_seen = snapshots, nodes, seen
        self._recent = Recent[Inventory]()
        self._undescribed = Recent[list[int]]()

    def at(self, now: datetime, end: int) -> Inventory:
        """Return the inventory at `now`, with the metrics visible by bin `end`.

        The same object while nothing changes.
        """
        described = self._snapshots.at(now)
        n_nodes = self._nodes.visible(end) if self._nodes else 0
        undescribed = self._undescribed.get(
            (described.key, n_nodes), lambda: self._left_out(described.inventory, n_nodes)
        )
        running = self._running(undescribed, now, end, n_nodes)
        key = (described.key, n_nodes, running.tobytes())
        return self._recent.get(
            key, lambda: self._joined(described.inventory, n_nodes, running, end)
        )

    def _left_out(self, described: Inventory, n_nodes: int) -> list[int]:
        """Return which of the first `n_nodes` no answer names."""
        details = self._nodes.details[:n_nodes] if self._nodes else ()
        return [i for i, labels in enumerate(details) if labels.instance not in described.instances]

    def _running(self, undescribed: Sequence[int], now: datetime, end: int, n_nodes: int) -> Mask:
        """Return which of the first `n_nodes` run as far as their readings tell, (n_nodes,).

        A node reported within the last day. One that no answer names ended before its place was
        described without it.
        """
        if self._nodes is None or self._last_seen is None or not n_nodes:
            return np.zeros(0, dtype=np.bool_)
        last = self._last_seen(end, n_nodes)
        running = (end - last) * self._nodes.step <= _SILENT.total_seconds()
        for i in undescribed:
            asked = (
                self._snapshots.described_at(self._nodes.details[i], now) if running[i] else None
            )
            running[i] &= (
                asked is None or int(last[i]) * self._nodes.step > (asked - _LATE).timestamp()
            )
        return np.asarray(running)

    def _joined(self, described: Inventory, n_nodes: int, running: Mask, end: int) -> Inventory:
        instances = dict(described.instances)
        for i in range(n_nodes):
            assert self._nodes is not None
            details = self._nodes.details[i]
            instance = instances.get(details.instance)
            if instance is None:
                instances[details.instance] = self._shown(i, details, bool(running[i]), end)
            elif (labels := details.only(_NODE).merge(instance.labels)) != instance.labels:
                instances[details.instance] = replace(instance, labels=labels)
        return replace(described, instances=instances)

    def _shown(self, i: int, details: Labels, running: bool, end: int) -> Instance:
        """Return an instance that only metrics show."""
        assert self._nodes is not None
        assert self._last_seen is not None
        launched = datetime.fromtimestamp(int(self._nodes.seen[i]), UTC)
        labels = details.only(_NODE)
        if running:
            return Instance(labels=labels, launched_at=launched)
        last = int(self._last_seen(end, i + 1)[i])
        ended = datetime.fromtimestamp(last * self._nodes.step, UTC)
        return Instance(labels=labels, launched_at=launched, state="unknown", ended_at=ended)


_NODE = ("cluster", "instance", "region", "account", "instance_type")


def last_seen(nodes: MetricGrid) -> LastSeen:
    """Return a function of `end` and `n`.

    The newest bin by `end` with any reading of each of the first `n` nodes, absolute.
    """
    reported = np.isfinite(nodes.values[0])
    for metric in range(1, len(nodes.metrics)):
        reported |= np.isfinite(nodes.values[metric])
    rows = np.where(reported, np.arange(reported.shape[0])[:, None], -1)
    newest_row = np.maximum.accumulate(rows, axis=0).astype(np.int64)
    return lambda end, n: np.asarray(
        newest_row[min(end - nodes.base, len(newest_row) - 1), :n] + nodes.base
    )
