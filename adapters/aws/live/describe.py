"""Describe the fleet: who runs, what is stored, what is reserved, in every place; a failure keeps what was known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import orjson

from adapters.aws.live.calls import Calls, Place
from adapters.aws.live.heard import Call, Heard
from adapters.aws.live.operations import operations
from bot.errors import Unavailable
from bot.model.reading import Gap

TYPES = ("trn*", "inf*", "p4*", "p5*", "p6*", "g*")
"""Instance types with an accelerator, as a filter of EC2 writes them."""
_EKS = ("kubernetes.io/cluster/", "eks:cluster-name", "aws:eks:cluster-name")
_OFTEN, _HOURLY, _DAILY = timedelta(0), timedelta(minutes=59), timedelta(hours=23, minutes=59)


@dataclass(frozen=True)
class Description:
    """Name one describe call, what it is given, and how often it is made."""

    service: str
    operation: str
    every: timedelta
    given: Mapping[str, Any] = field(default_factory=dict)
    needed: bool = False
    """Without it nobody can tell whether a node is gone: alerts must wait."""


@dataclass(frozen=True)
class Missing:
    """Hold an answer that could not be had; one that is `needed` is a gap of the reading."""

    gap: Gap
    needed: bool
    place: Place


DESCRIPTIONS = (
    Description(
        "ec2", "describe_instances", _OFTEN, {"Filters": [{"Name": "instance-type", "Values": list(TYPES)}]}, needed=True
    ),
    Description("ec2", "describe_capacity_reservations", _OFTEN),
    Description("ec2", "describe_volumes", _HOURLY),
    Description("fsx", "describe_file_systems", _HOURLY),
    Description("service-quotas", "list_service_quotas", _DAILY, {"ServiceCode": "ec2"}),
)
_AGAIN = timedelta(minutes=59)
"""What is not asked at each tick and failed is asked again after so long."""


@dataclass
class Describer:
    """Keep what the describe calls answer fresh."""

    calls: Calls
    heard: Heard
    _failed: dict[Call, datetime] = field(default_factory=dict)

    def refresh(self, places: Sequence[Place], now: datetime) -> Iterator[Missing]:
        """Ask again what is due; yield what could not be had."""
        for place in places:
            for one in DESCRIPTIONS:
                call = Call(one.service, one.operation, place)
                self.heard.recall(one.service, one.operation, place)
                if not self._due(one, call, now):
                    continue
                try:
                    pages = list(self.calls.pages(place, one.service, one.operation, **one.given))
                except Unavailable as error:
                    self._failed[call] = now
                    yield Missing(place.gap(str(error)), one.needed, place)
                else:
                    self._failed.pop(call, None)
                    self.heard.put(call, now, pages)

    def _due(self, one: Description, call: Call, now: datetime) -> bool:
        known, failed = self.heard.newest(call), self._failed.get(call)
        if failed and operations()[one.service, one.operation].optional:
            return now - failed >= _AGAIN
        return not known or now - known[0] >= max(one.every, timedelta(seconds=1))

    def instances(self, place: Place) -> frozenset[str]:
        """Return the ids of accelerated instances last described at a place."""
        found = self._pages(place, "describe_instances")
        return frozenset(i["InstanceId"] for page in found for r in page["Reservations"] for i in r["Instances"])

    def types(self, place: Place) -> frozenset[str]:
        """Return the types of the instances last described at a place."""
        found = self._pages(place, "describe_instances")
        return frozenset(i["InstanceType"] for page in found for r in page["Reservations"] for i in r["Instances"])

    def in_eks(self, place: Place) -> bool:
        """Tell whether any of them carries a tag of a Kubernetes cluster."""
        found = self._pages(place, "describe_instances")
        every = [i for page in found for r in page["Reservations"] for i in r["Instances"]]
        return any(str(tag["Key"]).startswith(_EKS) for i in every for tag in i.get("Tags", ()))

    def volumes(self, place: Place) -> frozenset[str]:
        """Return the ids of volumes attached to them."""
        mine = self.instances(place)
        every = [volume for page in self._pages(place, "describe_volumes") for volume in page["Volumes"]]
        return frozenset(x["VolumeId"] for x in every if any(a.get("InstanceId") in mine for a in x.get("Attachments", ())))

    def _pages(self, place: Place, operation: str) -> list[Mapping[str, Any]]:
        known = self.heard.newest(Call("ec2", operation, place))
        return list(orjson.loads(known[1])) if known else []
