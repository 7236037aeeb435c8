"""Poll the inventory of every place: resources, EKS clusters, launchers and refused launches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import orjson

from adapters.aws.api.calls import Poller
from adapters.aws.api.operations import Place, operations
from adapters.aws.api.responses import KEPT, ApiCall, required
from adapters.aws.inventory.ownership import (
    OPERATION,
    REFUSALS,
    REFUSED_CALLS,
    SERVICE,
    SPACING_SECONDS,
    event_id,
    refusals_in,
    trail,
    trimmed_events,
)
from adapters.aws.inventory.resources import ACCELERATED_TYPES, TRAINING_FACTS, hosts_of
from bot.errors import Unavailable
from bot.model.fleet import FileSystem, Instance, Inventory, Reservation, Volume, hardware_of
from bot.model.labels import Labels
from bot.model.reading import Gap

TYPES = tuple(f"{family}*" for family in ACCELERATED_TYPES)
"""Instance types with an accelerator, as a filter of EC2 writes them."""
_EKS = ("kubernetes.io/cluster/", "eks:cluster-name", "aws:eks:cluster-name")
_OFTEN, _HOURLY, _DAILY = timedelta(0), timedelta(minutes=59), timedelta(hours=23, minutes=59)


@dataclass(frozen=True)
class Description:
    """Name one describe call, its arguments, and how often it is made."""

    service: str
    operation: str
    every: timedelta
    given: Mapping[str, Any] = field(default_factory=dict)
    needed: bool = False
    """Without it nobody can tell whether a node is gone: alerts must wait."""
    argument: str = ""
    """What of a place is described, "" for all of it."""


@dataclass(frozen=True)
class Missing:
    """Hold a missing answer; one that is `needed` is a gap of the reading."""

    gap: Gap
    needed: bool
    place: Place


DESCRIPTIONS = (
    Description(
        "ec2",
        "describe_instances",
        _OFTEN,
        {"Filters": [{"Name": "instance-type", "Values": list(TYPES)}]},
        needed=True,
    ),
    Description("ec2", "describe_capacity_reservations", _OFTEN),
    Description("ec2", "describe_volumes", _HOURLY),
    Description("fsx", "describe_file_systems", _HOURLY),
    Description("service-quotas", "list_service_quotas", _DAILY, {"ServiceCode": "ec2"}),
    Description("sagemaker", "list_clusters", _HOURLY),
    Description("sagemaker", "list_training_jobs", _OFTEN, {"StatusEquals": "InProgress"}),
)
_AGAIN = timedelta(minutes=59)
"""What is not asked at each tick and failed is asked again after so long."""


@dataclass
class ResourcePoller(Poller):
    """Keep the answers of the describe calls fresh."""

    _failed: dict[ApiCall, datetime] = field(default_factory=dict)

    def refresh(self, places: Sequence[Place], now: datetime) -> Iterator[Missing]:
        """Poll the descriptions that are due; yield those that are missing."""
        for place in places:
            for description in DESCRIPTIONS:
                yield from self._describe(place, description, now)

            # A cluster that is no longer listed has no nodes: asked for them it would be an error.
            listed, nodes = self._hyperpods(place), ("sagemaker", "list_cluster_nodes")
            if self.responses.newest(ApiCall("sagemaker", "list_clusters", place)):
                for name in sorted(self.responses.arguments(*nodes, place) - set(listed)):
                    self.responses.put(
                        ApiCall(*nodes, place, name), now, [{"ClusterNodeSummaries": []}]
                    )
            for name in listed:
                yield from self._describe(
                    place, Description(*nodes, _OFTEN, {"ClusterName": name}, argument=name), now
                )
            yield from self._train(place, now)

    def _train(self, place: Place, now: datetime) -> Iterator[Missing]:
        """Describe the training jobs that began, are about to, or ended since the last look."""
        running, job = self._training_jobs(place), ("sagemaker", "describe_training_job")
        for name in sorted({*running, *self.responses.arguments(*job, place)}):
            (known,) = self.responses.last(ApiCall(*job, place, name)) or [{}]
            # What a warm pool costs is told when its job has ended, until it is given up.
            warm = (known.get("WarmPoolStatus") or {}).get("Status") in ("Available", "InUse")
            ended = "TrainingEndTime" in known and not warm
            if ended or ("TrainingStartTime" in known and name in running):
                continue
            yield from self._describe(
                place, Description(*job, _OFTEN, {"TrainingJobName": name}, argument=name), now
            )

    def _describe(self, place: Place, wanted: Description, now: datetime) -> Iterator[Missing]:
        call = ApiCall(wanted.service, wanted.operation, place, wanted.argument)
        self.responses.recall(wanted.service, wanted.operation, place)
        answered, failed = self.responses.newest(call), self._failed.get(call)
        if failed and operations()[wanted.service, wanted.operation].optional:
            due = now - failed >= _AGAIN
        else:
            due = not answered or now - answered[0] >= max(wanted.every, timedelta(seconds=1))
        if not due:
            return
        try:
            pages = list(self.calls.pages(place, wanted.service, wanted.operation, **wanted.given))
        except Unavailable as error:
            self._failed[call] = now
            yield Missing(place.gap(str(error)), wanted.needed, place)
        else:
            self._failed.pop(call, None)
            if wanted.operation == "describe_training_job":
                pages = [{x: page[x] for x in TRAINING_FACTS if x in page} for page in pages]
            self.responses.put(call, now, pages)

    def instances(self, place: Place) -> frozenset[str]:
        """Return the ids of accelerated instances last described at a place."""
        return frozenset(x["InstanceId"] for x in self._instances(place))

    def types(self, place: Place) -> frozenset[str]:
        """Return the types of the instances last described at a place."""
        return frozenset(x["InstanceType"] for x in self._instances(place))

    def running(self, place: Place) -> list[str]:
        """Return the type of each instance that ran when a place was last described."""
        return [
            x["InstanceType"]
            for x in self._instances(place)
            if (x.get("State") or {}).get("Name", "running") in ("pending", "running")
        ]

    def in_eks(self, place: Place) -> bool:
        """Return whether an accelerated instance of a place belongs to a Kubernetes cluster."""
        return any(
            str(tag["Key"]).startswith(_EKS)
            for x in self._instances(place)
            for tag in x.get("Tags", ())
        )

    def volumes(self, place: Place) -> frozenset[str]:
        """Return the ids of volumes attached to accelerated instances of a place."""
        instances = self.instances(place)
        return frozenset(
            x["VolumeId"]
            for page in self._pages(place, "describe_volumes")
            for x in page["Volumes"]
            if any(a.get("InstanceId") in instances for a in x.get("Attachments", ()))
        )

    def _instances(self, place: Place) -> Iterator[Mapping[str, Any]]:
        for page in self._pages(place, "describe_instances"):
            for reservation in page["Reservations"]:
                yield from reservation["Instances"]
        for name in self._hyperpods(place):
            for page in self._pages(place, "list_cluster_nodes", "sagemaker", name):
                for node in page["ClusterNodeSummaries"]:
                    if hardware_of(node["InstanceType"]).startswith(ACCELERATED_TYPES):
                        yield node
        for name in self._training_jobs(place):
            call = ApiCall("sagemaker", "describe_training_job", place, name)
            if job := self.responses.last(call):
                for kind, host in hosts_of(job[0]):
                    yield {"InstanceId": host, "InstanceType": kind}

    def _training_jobs(self, place: Place) -> list[str]:
        """Return the names of the training jobs that ran when they were last listed."""
        return [
            str(x["TrainingJobName"])
            for page in self._pages(place, "list_training_jobs", "sagemaker")
            for x in page["TrainingJobSummaries"]
        ]

    def _hyperpods(self, place: Place) -> list[str]:
        """Return the names of the HyperPod clusters last listed at a place."""
        return [
            str(x["ClusterName"])
            for page in self._pages(place, "list_clusters", "sagemaker")
            for x in page["ClusterSummaries"]
        ]

    def _pages(
        self, place: Place, operation: str, service: str = "ec2", argument: str = ""
    ) -> list[Mapping[str, Any]]:
        newest = self.responses.newest(ApiCall(service, operation, place, argument))
        return list(orjson.loads(newest[1])) if newest else []


class ClusterPoller(Poller):
    """Keep EKS's answers fresh; a cluster that cannot be described costs only itself."""

    def refresh(self, places: Sequence[Place], now: datetime) -> Iterator[str]:
        """Poll the clusters of places that are due.

        Yield a sentence for each answer that is missing.
        """
        for place in places:
            listed = self.responses.newest(ApiCall("eks", "list_clusters", place))
            if listed and now - listed[0] < _HOURLY:
                continue
            try:
                names = self._ask(place, "list_clusters", "", now, "clusters")
            except Unavailable as error:
                yield str(error)
                continue
            for name in names:
                try:
                    self._ask(place, "describe_cluster", name, now, name=name)
                    for group in self._ask(
                        place, "list_nodegroups", name, now, "nodegroups", clusterName=name
                    ):
                        self._ask(
                            place,
                            "describe_nodegroup",
                            f"{name}.{group}",
                            now,
                            clusterName=name,
                            nodegroupName=group,
                        )
                except Unavailable as error:
                    yield str(error)

    def _ask(
        self,
        place: Place,
        operation: str,
        about: str,
        now: datetime,
        member: str = "",
        **parameters: Any,
    ) -> list[str]:
        """Keep an answer, and return the names that its pages list under `member`."""
        pages = list(self.calls.pages(place, "eks", operation, **parameters))
        self.responses.put(ApiCall("eks", operation, place, about), now, pages)
        return [str(name) for page in pages for name in page[member]] if member else []


_REMEMBERED = timedelta(days=89)
"""CloudTrail's history reaches back 90 days (CloudTrail User Guide, event history, 2026-11)."""
_AROUND = timedelta(minutes=20)
"""The launch is looked for so long before and after the time that EC2 tells."""
_DELAY = timedelta(minutes=30)
"""An event may be delivered so late: until then, no answer is not an answer (CloudTrail.

About 5 minutes on average).
"""
MOST_LOOKUPS = 20
"""Lookups a tick: about ten seconds."""


@dataclass(frozen=True)
class Launch:
    """Name a resource, when it was made, and where."""

    resource: str
    at: datetime
    labels: Labels


@dataclass
class TrailPoller(Poller):
    """Ask CloudTrail for events, as often as it allows."""

    stopwatch: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep
    answers: int = 0
    """How many looks were answered so far."""

    def _looked_up(
        self, place: Place, name: str, value: str, start: datetime, end: datetime
    ) -> Iterator[Mapping[str, Any]]:
        """Yield the pages of the events whose attribute has a value."""
        began = self.stopwatch()
        for page in self.calls.pages(
            place,
            SERVICE,
            OPERATION,
            LookupAttributes=[{"AttributeKey": name, "AttributeValue": value}],
            StartTime=start,
            EndTime=end,
        ):
            self.pause(max(0.0, SPACING_SECONDS - (self.stopwatch() - began)))
            yield page
            began = self.stopwatch()


@dataclass
class LaunchPoller(TrailPoller):
    """Keep the launchers fresh; the launcher of a thing never changes.

    So nothing is asked twice.
    """

    _found: set[str] = field(default_factory=set)
    _tried: dict[str, datetime] = field(default_factory=dict)

    def refresh(
        self, places: Sequence[Place], inventory: Inventory, now: datetime, deadline: float
    ) -> Iterator[str]:
        """Ask CloudTrail for some unknown launchers, the newest launches first.

        Yield a sentence for each place that fails.
        """
        room = MOST_LOOKUPS
        for place in places:
            self.responses.recall(SERVICE, OPERATION, place)

            labels = Labels(region=place.region, account=place.account)
            for launch in [
                launch
                for launch in sorted(_launches(inventory), key=lambda x: x.at, reverse=True)
                if labels.selects(launch.labels)
                and now - launch.at < _REMEMBERED
                and launch.resource not in self._found
                and now - self._tried.get(launch.resource, launch.at - _DELAY) >= _DELAY
                and not self.responses.knows(_lookup_call(place, launch))
            ]:
                if room <= 0 or self.stopwatch() >= deadline:
                    return
                room -= 1
                try:
                    self._look_up(place, launch, now)
                except Unavailable as error:
                    yield str(error)
                    break

    def _look_up(self, place: Place, launch: Launch, now: datetime) -> None:
        """Ask about one resource.

        One launch's event names all that came with it, so those are not asked for.
        """
        pages = self._looked_up(
            place, "ResourceName", launch.resource, launch.at - _AROUND, launch.at + _AROUND
        )
        creating = [{"Events": trimmed_events(event for page in pages for event in page["Events"])}]
        if not any(page["Events"] for page in creating) and now - launch.at < _DELAY:
            self._tried[launch.resource] = now
            return
        self.responses.put(_lookup_call(place, launch), now, creating)
        self.answers += 1
        histories = self.responses.histories(SERVICE, OPERATION, trail)
        self._found.update(*(answer.launchers for history in histories for _, answer in history))


def _lookup_call(place: Place, launch: Launch) -> ApiCall:
    return ApiCall(SERVICE, OPERATION, place, launch.resource)


def _launches(inventory: Inventory) -> Iterator[Launch]:
    """Yield the launches without a known launcher.

    Nodes, unattached volumes, file systems, reservations.
    """
    instances = inventory.instances.values()
    dated: list[tuple[Instance | Volume | FileSystem | Reservation, datetime | None]] = [
        *((x, x.launched_at) for x in instances if x.running and x.labels.account),
        *((x, x.created_at) for x in inventory.volumes if not x.attached_to),
        *((x, x.created_at) for x in inventory.file_systems),
        *((x, x.starts_at) for x in inventory.reservations),
    ]
    for thing, begin in dated:
        if begin and thing.launched_by is None:
            yield Launch(thing.labels.resource or thing.labels.instance, begin, thing.labels)


_EVERY = timedelta(minutes=29)
_BACK = timedelta(days=1)
"""How far the first look reaches back."""
_LATE = timedelta(minutes=20)
"""So late an event may be delivered (CloudTrail User Guide: about 5 minutes on average).

It is looked for once more.
"""
_PAGES = 10
"""Pages of one call's events a look, 50 events each."""


@dataclass
class RefusalPoller(TrailPoller):
    """Look twice an hour for launches that were refused.

    All that are known are one answer, so the newest says them all.
    """

    _asked: dict[Place, datetime] = field(default_factory=dict)
    _read: dict[tuple[Place, str], datetime] = field(default_factory=dict)
    """Until when the events of a call were read whole."""

    def refresh(self, places: Sequence[Place], now: datetime, deadline: float) -> Iterator[str]:
        """Look at the places that are due.

        Yield a sentence for each that fails, or has more events than are read.
        """
        for place in places:
            if self.stopwatch() >= deadline:
                return
            if now - self._asked.get(place, now - _EVERY) >= _EVERY:
                self._asked[place] = now
                yield from self._look(place, now)

    def _look(self, place: Place, now: datetime) -> Iterator[str]:
        call = ApiCall(SERVICE, OPERATION, place, REFUSALS)
        info = call.answered(now)
        events_by_name = {
            event_id(event): event
            for page in self.responses.last(call)
            for event in page.get("Events", ())
        }
        for name in REFUSED_CALLS:
            try:
                events, whole = self._events(place, name, now)
            except Unavailable as error:
                yield str(error)
                return
            events_by_name |= {
                event_id(event): event
                for event in orjson.loads(orjson.dumps(trimmed_events(events)))
                if any(refusals_in(event, info))
            }
            self._read[place, name] = now
            if not whole:
                yield (
                    f"AWS cloudtrail:LookupEvents in {place}: only the newest {_PAGES * 50} events"
                    f" of {name} were read."
                )
        recent = sorted(
            (
                event
                for event in events_by_name.values()
                if required(event["EventTime"], "EventTime") > now - KEPT
            ),
            key=lambda event: (event["EventTime"], event_id(event)),
        )
        self.answers += 1
        self.responses.put(call, now, [{"Events": recent}])

    def _events(
        self, place: Place, name: str, now: datetime
    ) -> tuple[list[Mapping[str, Any]], bool]:
        since = self._read.get((place, name), now - _BACK + _LATE) - _LATE
        events: list[Mapping[str, Any]] = []
        for number, page in enumerate(self._looked_up(place, "EventName", name, since, now), 1):
            events += page["Events"]
            if number >= _PAGES and page.get("NextToken"):
                return events, False
        return events, True
