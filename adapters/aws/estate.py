"""Answer what stands around the instances: EKS clusters, quotas, and who launched what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from adapters.aws import eks, launchers, quotas
from adapters.aws.responses import Heard, newest
from bot.model.fleet import Cluster, FileSystem, Instance, Quota, Reservation, Volume
from bot.model.labels import Labels
from bot.model.launcher import Launcher

Found = TypeVar("Found")
Thing = TypeVar("Thing", Volume, FileSystem, Reservation)


class Estate:
    """Hold what CloudTrail, EKS and Service Quotas had said; a launch is a fact, whenever it was asked for."""

    def __init__(self, responses: Heard) -> None:
        self._names = responses.histories("eks", "list_clusters", eks.listed)
        self._clusters = responses.histories("eks", "describe_cluster", eks.described)
        self._groups = responses.histories("eks", "describe_nodegroup", eks.node_group)
        self._quotas = responses.histories("service-quotas", "list_service_quotas", quotas.quotas)
        self._launchers: dict[str, Launcher] = {}
        for history in responses.histories("cloudtrail", "lookup_events", launchers.launched):
            for _, found in history:
                self._launchers.update({resource: by for resource, by in found.items() if resource not in self._launchers})

    def key(self, now: datetime) -> tuple[int, ...]:
        """Return the same for the same content."""
        every: tuple[Sequence[Sequence[tuple[datetime, object]]], ...] = (self._names, self._clusters, self._groups, self._quotas)
        return tuple(newest(history, now) for histories in every for history in histories)

    def clusters(self, now: datetime) -> tuple[Cluster, ...]:
        """Return the EKS clusters that the newest list names, each with its node groups."""
        known = {name for names in _newest(self._names, now) for name in names}
        described = [x for x in _newest(self._clusters, now) if x.created_at is None or x.created_at <= now]
        kept = [x for x in described if not self._names or (x.labels.region, x.name) in known]
        return eks.joined(kept, _newest(self._groups, now))

    def quotas(self, now: datetime) -> tuple[Quota, ...]:
        """Return the vCPU quotas of accelerated families."""
        found = (quota for quotas in _newest(self._quotas, now) for quota in quotas)
        return tuple(sorted(found, key=lambda x: (x.labels, x.name)))

    def instance(self, instance: Instance, members: eks.Membership) -> Instance:
        """Complete an instance by what its tags do not say: its cluster, and who launched it."""
        by = instance.launched_by or self._launchers.get(instance.id)
        cluster = instance.labels.cluster or members.cluster(instance.tags, instance.security_groups)
        if by is instance.launched_by and cluster == instance.labels.cluster:
            return instance
        return replace(instance, launched_by=by, labels=instance.labels.merge(Labels(cluster=cluster)))

    def stored(self, thing: Thing) -> Thing:
        """Complete a volume, a file system or a reservation by who created it."""
        by = self._launchers.get(thing.labels.resource)
        return replace(thing, launched_by=by) if by else thing


def _newest(histories: Sequence[Sequence[tuple[datetime, Found]]], now: datetime) -> list[Found]:
    return [history[newest(history, now)][1] for history in histories]
