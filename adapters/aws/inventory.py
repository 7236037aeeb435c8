"""Follow the inventory over a recording's snapshots, completed by what the metrics show."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import numpy as np

from adapters.aws import fleet
from adapters.aws.eks import Membership
from adapters.aws.estate import Estate
from adapters.aws.identity import TagNames
from adapters.aws.points import Ints
from adapters.aws.responses import Answer, Heard, Pages, newest
from adapters.aws.sheet import Sheet
from bot.model.fleet import Instance, InstanceType, Inventory, Volume
from bot.model.labels import Labels

_SILENT = timedelta(days=1)
"""After so long without a metric an instance that no snapshot ever named is no longer called running."""
Found = TypeVar("Found")
_Histories = list[list[tuple[datetime, Found]]]
LastSeen = Callable[[int, int], Ints]
"""Answer the newest bin by `end` with a reading of each of the first `n` nodes, shape (n,)."""


@dataclass(frozen=True)
class Described:
    """Hold what snapshots say at a time; equal `key` means equal content."""

    key: tuple[int, ...]
    inventory: Inventory


class Snapshots:
    """Answer what the describe calls had said by a time; before the first snapshot, what it says had begun by then."""

    def __init__(self, responses: Heard, tags: TagNames, types: Mapping[str, InstanceType], history: timedelta) -> None:
        def said(service: str, operation: str, translate: Callable[[Pages, Answer, TagNames], Found]) -> _Histories[Found]:
            return responses.histories(service, operation, lambda pages, answer: translate(pages, answer, tags))

        self._instances = [folded(x) for x in said("ec2", "describe_instances", fleet.instances)]
        self._volumes = said("ec2", "describe_volumes", fleet.volumes)
        self._file_systems = said("fsx", "describe_file_systems", fleet.file_systems)
        self._reservations = said("ec2", "describe_capacity_reservations", fleet.reservations)
        self.types, self._history = types, history
        self._estate = Estate(responses)
        self._cached: Described | None = None
        self._births = sorted(self._born())

    def at(self, now: datetime) -> Described:
        """Return the inventory as described at `now`."""
        every: tuple[Sequence[tuple[datetime, Any]], ...] = (
            *self._instances,
            *self._volumes,
            *self._file_systems,
            *self._reservations,
        )
        key = (bisect_right(self._births, now), *(newest(history, now) for history in every), *self._estate.key(now))
        cached = self._cached
        if cached is None or cached.key != key:
            cached = self._cached = Described(key, self._inventory(now))
        return cached

    def instance_types(self) -> dict[str, str]:
        """Return the type of every instance that any snapshot names."""
        return {id: x.labels.instance_type for history in self._instances for _, known in history[-1:] for id, x in known.items()}

    def _inventory(self, now: datetime) -> Inventory:
        begun = [(history[newest(history, now)]) for history in self._instances]
        clusters = self._estate.clusters(now)
        members, complete = Membership.of(clusters), self._estate.stored
        counted = {id: x for _, known in begun for id, x in known.items() if self._counts(x, now)}
        described = {id: self._estate.instance(x, members) for id, x in sorted(counted.items())}
        times = [at for at, _ in begun if at <= now]
        systems = (x for x in _newest(self._file_systems, now) if x.created_at is None or x.created_at <= now)
        return Inventory(
            asof=max(times) if times else None,
            instances=described,
            volumes=tuple(_attached(complete(x), described) for x in _newest(self._volumes, now) if x.created_at <= now),
            file_systems=tuple(complete(x) for x in systems),
            reservations=tuple(complete(x) for x in _newest(self._reservations, now) if x.starts_at <= now),
            types=self.types,
            eks=clusters,
            quotas=self._estate.quotas(now),
        )

    def _counts(self, instance: Instance, now: datetime) -> bool:
        forgotten = instance.ended_at is not None and instance.ended_at < now - self._history
        return instance.launched_at <= now and not forgotten

    def _born(self) -> list[datetime]:
        born = [x.launched_at for history in self._instances for x in history[0][1].values()]
        born += [x.created_at for history in self._volumes for x in history[0][1]]
        born += [x.created_at for history in self._file_systems for x in history[0][1] if x.created_at]
        return born + [x.starts_at for history in self._reservations for x in history[0][1]]


class Inventories:
    """Join the snapshots with the nodes that metrics show."""

    def __init__(self, snapshots: Snapshots, nodes: Sheet | None, seen: LastSeen | None) -> None:
        self._snapshots, self._nodes, self._last_seen = snapshots, nodes, seen
        self._cached: tuple[tuple[object, ...], Inventory] | None = None

    def at(self, now: datetime, end: int) -> Inventory:
        """Return the inventory at `now`, with the metrics visible by bin `end`; the same object while nothing changes."""
        described = self._snapshots.at(now)
        n_nodes = self._nodes.visible(end) if self._nodes else 0
        reporting = self._reporting(end, n_nodes)
        key = (described.key, n_nodes, reporting.tobytes())
        cached = self._cached
        if cached is None or cached[0] != key:
            cached = self._cached = (key, self._joined(described.inventory, n_nodes, reporting, end))
        return cached[1]

    def _reporting(self, end: int, n_nodes: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Tell which of the first `n_nodes` had a reading within the last day."""
        if self._nodes is None or self._last_seen is None or not n_nodes:
            return np.zeros(0, dtype=np.bool_)
        age = end - self._last_seen(end, n_nodes)
        return np.asarray(age * self._nodes.step <= _SILENT.total_seconds())

    def _joined(
        self, described: Inventory, n_nodes: int, reporting: Sequence[bool] | np.ndarray[tuple[int], np.dtype[np.bool_]], end: int
    ) -> Inventory:
        instances = dict(described.instances)
        for i in range(n_nodes):
            assert self._nodes is not None
            details = self._nodes.details[i]
            known = instances.get(details.instance)
            if known is None:
                instances[details.instance] = self._shown(i, details, bool(reporting[i]), end)
            elif (labels := details.only(_NODE).merge(known.labels)) != known.labels:
                instances[details.instance] = replace(known, labels=labels)
        return replace(described, instances=instances)

    def _shown(self, i: int, details: Labels, reporting: bool, end: int) -> Instance:
        """Return an instance that only metrics show."""
        assert self._nodes is not None
        assert self._last_seen is not None
        launched = datetime.fromtimestamp(int(self._nodes.seen[i]), UTC)
        labels = details.only(_NODE)
        if reporting:
            return Instance(labels=labels, launched_at=launched)
        last = int(self._last_seen(end, i + 1)[i])
        ended = datetime.fromtimestamp(last * self._nodes.step, UTC)
        return Instance(labels=labels, launched_at=launched, state="unknown", ended_at=ended)


_NODE = ("cluster", "instance", "region", "account", "instance_type")


def _attached(volume: Volume, instances: Mapping[str, Instance]) -> Volume:
    """Let an attached volume say whose it is as its instance does, where its own tags do not."""
    instance = instances.get(volume.attached_to)
    if instance is None:
        return volume
    return replace(volume, labels=instance.labels.only(("cluster", "team", "job", "account")).merge(volume.labels))


def _newest(histories: _Histories[tuple[Found, ...]], now: datetime) -> list[Found]:
    return [x for history in histories for x in history[newest(history, now)][1]]


def folded(history: list[tuple[datetime, dict[str, Instance]]]) -> list[tuple[datetime, dict[str, Instance]]]:
    """Carry every instance on: one that is no longer named has ended by then."""
    folded: list[tuple[datetime, dict[str, Instance]]] = []
    known: dict[str, Instance] = {}
    for at, named in history:
        gone = {
            id: x if x.ended_at else replace(x, state="terminated", ended_at=at) for id, x in known.items() if id not in named
        }
        known = {**gone, **named}
        folded.append((at, known))
    return folded


def last_seen(nodes: Sheet) -> LastSeen:
    """Return an answer to: the newest bin by `end` in which each of the first `n` nodes had any reading, absolute."""
    reported = np.isfinite(nodes.values[0])
    for metric in range(1, len(nodes.metrics)):
        reported |= np.isfinite(nodes.values[metric])
    rows = np.where(reported, np.arange(reported.shape[0])[:, None], -1)
    newest_row = np.maximum.accumulate(rows, axis=0).astype(np.int64)
    return lambda end, n: np.asarray(newest_row[min(end - nodes.base, len(newest_row) - 1), :n] + nodes.base)
