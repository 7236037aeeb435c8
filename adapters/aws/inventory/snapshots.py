"""Follow the inventory over the responses of describe calls, and join it with the metrics."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Lock
from typing import Any, Generic, TypeVar

import numpy as np

from adapters.aws.api.responses import (
    Histories,
    Responses,
    Translated,
    newest_at,
    newest_each,
)
from adapters.aws.inventory import resources
from adapters.aws.inventory.ownership import OPERATION, SERVICE, TagNames, refusals_of, trail
from adapters.aws.inventory.resources import Membership
from adapters.aws.metrics.metric_grid import MetricGrid, SeriesBatch
from adapters.aws.metrics.points import Ints
from bot.model.fleet import (
    Cluster,
    FileSystem,
    Instance,
    InstanceType,
    Inventory,
    Market,
    Quota,
    Refusal,
    Reservation,
    Volume,
)
from bot.model.labels import Labels
from bot.model.limits import Newest

T = TypeVar("T")
_MOST = 8


class Recent(Generic[T]):
    """Remember values by their keys, those asked for last."""

    def __init__(self) -> None:
        self._values = Newest[Hashable, T](_MOST)
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the value for `key`, made where it is not remembered.

        Threads that ask at once may make it twice.
        """
        value = self._values.get(key)
        if value is None:
            value = make()
        with self._lock:
            self._values[key] = value
        return value


Thing = TypeVar("Thing", Volume, FileSystem, Reservation)
History = Sequence[tuple[datetime, Any]]


class AccountInventory:
    """Hold clusters, quotas and launchers by the time they were answered.

    A launch is a fact, whenever it was asked for.
    """

    def __init__(self, responses: Responses, tags: TagNames) -> None:
        self._tags = tags
        self._names = responses.histories("eks", "list_clusters", resources.cluster_names)
        self._clusters = responses.histories("eks", "describe_cluster", resources.described_cluster)
        self._groups = responses.histories("eks", "describe_nodegroup", resources.node_group)
        self._quotas = responses.histories(
            "service-quotas", "list_service_quotas", resources.quotas
        )
        trails = [
            answer
            for history in responses.histories(SERVICE, OPERATION, trail)
            for _, answer in history
        ]
        # What an earlier answer says of a launch counts.
        self._launchers = {
            thing: launcher
            for answer in reversed(trails)
            for thing, launcher in answer.launchers.items()
        }
        self._refusals = refusals_of(trails)
        self.followed: tuple[History, ...] = (
            *self._names,
            *self._clusters,
            *self._groups,
            *self._quotas,
        )
        """What changes with time."""

    def clusters(self, now: datetime) -> tuple[Cluster, ...]:
        """Return the EKS clusters that the newest list names, each with its node groups."""
        listed = set(_newest(self._names, now))
        current = [
            x
            for x in newest_each(self._clusters, now)
            if x.created_at is None or x.created_at <= now
            if not self._names or (x.labels.region, x.name) in listed
        ]
        return resources.with_node_groups(current, newest_each(self._groups, now))

    def quotas(self, now: datetime) -> tuple[Quota, ...]:
        """Return the vCPU quotas of accelerated families."""
        return tuple(sorted(_newest(self._quotas, now), key=lambda x: (x.labels, x.name)))

    def refusals(self, now: datetime, history: timedelta) -> tuple[Refusal, ...] | None:
        """Return the launches that were refused within `history` before `now`.

        None where nobody asked.
        """
        return (
            None
            if self._refusals is None
            else tuple(x for x in self._refusals if now - history < x.at <= now)
        )

    def instance(self, instance: Instance, members: resources.Membership) -> Instance:
        """Complete an instance by its node group, its cluster and its launcher.

        Where its tags do not name them.
        """
        instance = members.completed(instance, self._tags)
        by = instance.launched_by or self._launchers.get(instance.id)
        cluster = instance.labels.cluster or members.cluster(
            instance.tags, instance.security_groups
        )
        if by is instance.launched_by and cluster == instance.labels.cluster:
            return instance
        return replace(
            instance, launched_by=by, labels=instance.labels.merge(Labels(cluster=cluster))
        )

    def stored(self, thing: Thing) -> Thing:
        """Complete a volume, a file system or a reservation by its launcher."""
        by = self._launchers.get(thing.labels.resource)
        return replace(thing, launched_by=by) if by else thing


@dataclass(frozen=True)
class Described:
    """Hold the described inventory at a time; equal `key` means equal content."""

    key: tuple[int, ...]
    inventory: Inventory


def capacity_blocks(responses: Responses, tags: TagNames) -> tuple[Reservation, ...]:
    """Return every Capacity Block that was ever described, as last described."""
    histories = responses.histories(
        "ec2",
        "describe_capacity_reservations",
        partial(resources.reservations, tags=tags),
    )
    answers = sorted(
        (answer for history in histories for answer in history), key=lambda answer: answer[0]
    )
    last = {
        reservation.labels.resource: reservation
        for _, described in answers
        for reservation in described
    }
    return tuple(
        reservation for reservation in last.values() if reservation.market is Market.CAPACITY_BLOCK
    )


def commitment_ends(responses: Responses) -> dict[str, datetime]:
    """Return when each Savings Plan that was ever described ends, by its ARN."""
    histories = responses.histories("savingsplans", "describe_savings_plans", resources.plan_ends)
    return {name: end for history in histories for _, ends in history for name, end in ends.items()}


class Snapshots:
    """Return the inventory as described by a time.

    Before the first snapshot, the things in it that had begun by then.
    """

    def __init__(
        self,
        responses: Responses,
        tags: TagNames,
        types: Mapping[str, InstanceType],
        history: timedelta,
    ) -> None:
        self._instances = [
            folded(x)
            for x in (
                *responses.histories(
                    "ec2", "describe_instances", partial(resources.instances, tags=tags)
                ),
                *responses.histories("sagemaker", "list_cluster_nodes", resources.hyperpod_nodes),
                *responses.histories(
                    "sagemaker", "describe_training_job", resources.training_nodes
                ),
            )
        ]
        self._volumes = [
            with_detachments(x)
            for x in responses.histories(
                "ec2", "describe_volumes", partial(resources.volumes, tags=tags)
            )
        ]
        self._file_systems = responses.histories(
            "fsx", "describe_file_systems", partial(resources.file_systems, tags=tags)
        )
        self._reservations = responses.histories(
            "ec2", "describe_capacity_reservations", partial(resources.reservations, tags=tags)
        )
        self.types, self._history = types, history
        self._account = AccountInventory(responses, tags)
        self._answered = responses.answered("ec2", "describe_instances")
        self._recent = Recent[Described]()

        born = [
            *(x.launched_at for history in self._instances for x in history[0][1].values()),
            *(x.created_at for history in self._volumes for x in history[0][1]),
            *(x.created_at for history in self._file_systems for x in history[0][1]),
            *(x.starts_at for history in self._reservations for x in history[0][1]),
        ]
        self._births = sorted(filter(None, born))
        self._followed: tuple[History, ...] = (
            *self._instances,
            *self._volumes,
            *self._file_systems,
            *self._reservations,
            *self._account.followed,
        )

    def at(self, now: datetime) -> Described:
        """Return the inventory as described at `now`."""
        key = (
            bisect_right(self._births, now),
            *(newest_at(history, now) for history in self._followed),
        )
        return self._recent.get(key, lambda: Described(key, self._inventory(now)))

    def refusals(self, now: datetime) -> tuple[Refusal, ...] | None:
        """Return the launches that AWS refused for lack of capacity by `now`.

        None where nobody asked.
        """
        return self._account.refusals(now, self._history)

    def described_at(self, labels: Labels, now: datetime) -> datetime | None:
        """Return when the place of a thing last answered which instances it has.

        None where it never did by `now`.
        """
        of_place = [
            self._answered.get((account, labels.region), ()) for account in {labels.account, ""}
        ]
        return max(
            [times[bisect_right(times, now) - 1] for times in of_place if bisect_right(times, now)],
            default=None,
        )

    def instance_types(self) -> dict[str, str]:
        """Return the type of every instance that any snapshot names."""
        return {
            id: x.labels.instance_type
            for history in self._instances
            for _, instances in history[-1:]
            for id, x in instances.items()
        }

    def _inventory(self, now: datetime) -> Inventory:
        # Before the first answer the things in it count that had begun by then.
        begun = [(history[newest_at(history, now)]) for history in self._instances]
        clusters = self._account.clusters(now)
        members, complete = Membership.of(clusters), self._account.stored
        described = {
            id: x
            for _, answered in begun
            for id, x in answered.items()
            if x.launched_at <= now and (x.ended_at is None or x.ended_at >= now - self._history)
        }
        instances = {id: self._account.instance(x, members) for id, x in sorted(described.items())}

        # An attached volume has the labels of its instance where its own tags have none.
        volumes = [complete(x) for x in _newest(self._volumes, now) if x.created_at <= now]
        for i, volume in enumerate(volumes):
            if owner := instances.get(volume.attached_to):
                shared = owner.labels.only(("cluster", "team", "job", "account"))
                volumes[i] = replace(volume, labels=shared.merge(volume.labels))
        reservations = _newest(self._reservations, now)
        return Inventory(
            asof=max((time for time, _ in begun if time <= now), default=None),
            instances=instances,
            volumes=tuple(volumes),
            file_systems=tuple(
                complete(x)
                for x in _newest(self._file_systems, now)
                if x.created_at is None or x.created_at <= now
            ),
            reservations=tuple(
                complete(x) for x in reservations if x.active and x.starts_at <= now
            ),
            blocks=tuple(x for x in reservations if x.market is Market.CAPACITY_BLOCK),
            scheduled=tuple(
                x for x in reservations if x.market is Market.RESERVED and x.state == "scheduled"
            ),
            types=self.types,
            eks=clusters,
            quotas=self._account.quotas(now),
        )


def _newest(histories: Histories[tuple[Translated, ...]], now: datetime) -> list[Translated]:
    return [x for answer in newest_each(histories, now) for x in answer]


def folded(
    history: list[tuple[datetime, dict[str, Instance]]],
) -> list[tuple[datetime, dict[str, Instance]]]:
    """Return a history in which every instance goes on.

    One that is no longer named has ended by then.
    """
    folded: list[tuple[datetime, dict[str, Instance]]] = []
    instances: dict[str, Instance] = {}
    for time, described in history:
        gone = {
            id: x if x.ended_at else replace(x, state="terminated", ended_at=time)
            for id, x in instances.items()
            if id not in described
        }
        instances = {**gone, **described}
        folded.append((time, instances))
    return folded


def with_detachments(
    history: list[tuple[datetime, tuple[Volume, ...]]],
) -> list[tuple[datetime, tuple[Volume, ...]]]:
    """Return a history in which every unattached volume says since which answer it is.

    One that is older than the answer before the first that names it may have been attached just
    before; a younger one never was. An answer that leaves a volume out forgets nothing of it.
    """
    completed: list[tuple[datetime, tuple[Volume, ...]]] = []
    before: dict[str, Volume] = {}
    for time, described in history:
        last = completed[-1][0] if completed else None
        volumes = []
        for volume in described:
            if earlier := before.get(volume.labels.resource):
                since = time if earlier.attached_to else earlier.detached_at
            else:
                since = time if last is None or volume.created_at <= last else None
            volumes.append(volume if volume.attached_to else replace(volume, detached_at=since))
        before |= {x.labels.resource: x for x in volumes}
        completed.append((time, tuple(volumes)))
    return completed


def labelled(of: MetricGrid, inventory: Inventory) -> tuple[Labels, ...]:
    """Return all labels of each thing of a grid.

    Those of its dimensions, and those of the inventory.
    """
    if of.kind in ("node", "core", "device"):
        return tuple(
            x.merge(instance.labels) if (instance := inventory.instances.get(x.instance)) else x
            for x in of.details
        )
    if of.kind in ("volume", "file_system"):
        stored: Sequence[Volume | FileSystem] = (*inventory.volumes, *inventory.file_systems)
        described = {x.labels.resource: x.labels for x in stored}
        return tuple(x.merge(described.get(x.resource, x)) for x in of.details)
    return of.details


def core_counts(snapshots: Snapshots, feeding: Sequence[SeriesBatch]) -> dict[str, int]:
    """Return how many cores each instance shows, where its type is known."""
    types = {
        labels.instance: labels.instance_type
        for source in feeding
        for labels in source.labels
        if labels.instance_type
    }
    return {
        id: snapshots.types[name].cores
        for id, name in {**types, **snapshots.instance_types()}.items()
        if name in snapshots.types
    }


_SILENT = timedelta(days=1)
"""After so long without a metric an instance that no snapshot named is not called running."""
_LATE = timedelta(minutes=10)
"""How long a running node's newest points may be on their way when its place is described."""


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
        described, nodes = self._snapshots.at(now), self._nodes
        n_nodes = nodes.visible(end) if nodes else 0
        if nodes is None or self._last_seen is None or not n_nodes:
            return described.inventory

        undescribed = self._undescribed.get(
            (described.key, n_nodes),
            lambda: [
                i
                for i, labels in enumerate(nodes.details[:n_nodes])
                if labels.instance not in described.inventory.instances
            ],
        )
        last = self._last_seen(end, n_nodes)
        running = self._running(nodes, undescribed, now, end, last)
        return self._recent.get(
            (described.key, n_nodes, running.tobytes()),
            lambda: _joined(nodes, described.inventory, running, last),
        )

    def _running(
        self, nodes: MetricGrid, undescribed: Sequence[int], now: datetime, end: int, last: Ints
    ) -> Mask:
        """Return which nodes run as far as their `last` readings tell, shape (n,).

        A node reported within the last day. One that no answer names ended before its place was
        described without it.
        """
        running = np.asarray((end - last) * nodes.step <= _SILENT.total_seconds())
        for i in undescribed:
            if running[i] and (at := self._snapshots.described_at(nodes.details[i], now)):
                running[i] = int(last[i]) * nodes.step > (at - _LATE).timestamp()
        return running


def _joined(nodes: MetricGrid, described: Inventory, running: Mask, last: Ints) -> Inventory:
    """Return the inventory with the nodes that metrics show, and the labels these give."""
    instances = dict(described.instances)
    for i, details in enumerate(nodes.details[: len(running)]):
        labels, instance = details.only(_NODE), instances.get(details.instance)
        if instance is None:
            # Metrics alone show it: it began when they did, and ended with the last of them.
            instance = Instance(
                labels=labels, launched_at=datetime.fromtimestamp(int(nodes.seen[i]), UTC)
            )
            if not running[i]:
                instance = replace(
                    instance,
                    state="unknown",
                    ended_at=datetime.fromtimestamp(int(last[i]) * nodes.step, UTC),
                )
        elif (merged := labels.merge(instance.labels)) != instance.labels:
            instance = replace(instance, labels=merged)
        instances[details.instance] = instance
    return replace(described, instances=instances)


_NODE = ("cluster", "instance", "region", "account", "instance_type")


def last_seen(nodes: MetricGrid) -> LastSeen:
    """Return a function of `end` and `n`.

    The newest bin by `end` with any reading of each of the first `n` nodes, absolute.
    """
    reported = np.isfinite(nodes.values[0])
    for metric in range(1, len(nodes.metrics)):
        reported |= np.isfinite(nodes.values[metric])
    rows = np.where(reported, np.arange(reported.shape[0])[:, None], -1)
    return partial(_newest_by, np.maximum.accumulate(rows, axis=0).astype(np.int64), nodes.base)


# A function of the module, so that an opened recording can be kept on disk.
def _newest_by(newest_row: Ints, base: int, end: int, n: int) -> Ints:
    return np.asarray(newest_row[min(end - base, len(newest_row) - 1), :n] + base)
