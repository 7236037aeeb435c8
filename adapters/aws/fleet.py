"""Translate EC2 and FSx responses into instances, volumes, file systems and reservations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from adapters.aws.identity import TagNames, first, tags_of
from adapters.aws.launchers import tagged
from adapters.aws.responses import Answer, Pages, instant, members
from bot.model.fleet import FileSystem, Instance, Market, Reservation, Volume

_MARKETS = {"spot": Market.SPOT, "capacity-block": Market.CAPACITY_BLOCK}
_TRANSITION = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) GMT\)")


def instances(pages: Pages, answer: Answer, tags: TagNames) -> dict[str, Instance]:
    """Translate DescribeInstances, by instance id."""
    found = (
        _instance(member, str(reservation.get("OwnerId", "")), answer, tags)
        for reservation in members(pages, "Reservations")
        for member in reservation["Instances"]
    )
    return {instance.id: instance for instance in found}


def volumes(pages: Pages, answer: Answer, tags: TagNames) -> tuple[Volume, ...]:
    """Translate DescribeVolumes."""
    return tuple(_volume(member, answer, tags) for member in members(pages, "Volumes"))


def file_systems(pages: Pages, answer: Answer, tags: TagNames) -> tuple[FileSystem, ...]:
    """Translate DescribeFileSystems; only Lustre, and only what is not being deleted."""
    lustre = (x for x in members(pages, "FileSystems") if x.get("FileSystemType", "LUSTRE") == "LUSTRE")
    return tuple(_file_system(member, answer, tags) for member in lustre if member.get("Lifecycle") != "DELETING")


def reservations(pages: Pages, answer: Answer, tags: TagNames) -> tuple[Reservation, ...]:
    """Translate DescribeCapacityReservations; only active ones."""
    active = (x for x in members(pages, "CapacityReservations") if x.get("State", "active") == "active")
    return tuple(_reservation(member, answer, tags) for member in active)


def required(text: str | None, name: str) -> datetime:
    """Read a time that must be there; raise `KeyError` naming the member otherwise."""
    at = instant(text)
    if at is None:
        raise KeyError(name)
    return at


def _instance(member: Mapping[str, Any], account: str, answer: Answer, tags: TagNames) -> Instance:
    own = tags_of(member)
    state = str((member.get("State") or {}).get("Name", "running"))
    labels = replace(
        tags.labels(own),
        instance=str(member["InstanceId"]),
        instance_type=str(member.get("InstanceType", "")),
        zone=str((member.get("Placement") or {}).get("AvailabilityZone", "")),
        region=answer.region,
        account=account or answer.account,
    )
    return Instance(
        labels=labels,
        launched_at=required(member["LaunchTime"], "LaunchTime"),
        state=state,
        market=_MARKETS.get(str(member.get("InstanceLifecycle", "")), Market.ON_DEMAND),
        ended_at=_ended(member, answer) if state == "terminated" else None,
        owner=first(own, tags.owner),
        project=first(own, tags.project),
        tags=own,
        launched_by=tagged(own),
        security_groups=tuple(str(x["GroupId"]) for x in member.get("SecurityGroups") or () if x.get("GroupId")),
    )


def _ended(member: Mapping[str, Any], answer: Answer) -> datetime:
    """Return when the instance was terminated: EC2 says it in words; else the time it was seen so."""
    found = _TRANSITION.search(str(member.get("StateTransitionReason", "")))
    return datetime.fromisoformat(found[1]).replace(tzinfo=UTC) if found else answer.at


def _volume(member: Mapping[str, Any], answer: Answer, tags: TagNames) -> Volume:
    own = tags_of(member)
    attached = next((str(x["InstanceId"]) for x in member.get("Attachments") or () if x.get("InstanceId")), "")
    labels = replace(
        tags.labels(own),
        instance=attached,
        resource=str(member["VolumeId"]),
        zone=str(member.get("AvailabilityZone", "")),
        region=answer.region,
        account=answer.account,
    )
    return Volume(
        labels=labels,
        size_gib=int(member["Size"]),
        volume_type=str(member.get("VolumeType", "")),
        state=str(member["State"]),
        created_at=required(member["CreateTime"], "CreateTime"),
        attached_to=attached,
        tags=own,
    )


def _file_system(member: Mapping[str, Any], answer: Answer, tags: TagNames) -> FileSystem:
    own = tags_of(member)
    lustre = member.get("LustreConfiguration") or {}
    labels = replace(
        tags.labels(own),
        resource=str(member["FileSystemId"]),
        region=answer.region,
        account=str(member.get("OwnerId", "")) or answer.account,
    )
    return FileSystem(
        labels=labels,
        storage_gib=int(member.get("StorageCapacity") or 0),
        deployment=str(lustre.get("DeploymentType", "")),
        throughput_mbps_per_tib=int(lustre.get("PerUnitStorageThroughput") or 0),
        created_at=instant(member.get("CreationTime")),
        tags=own,
    )


def _reservation(member: Mapping[str, Any], answer: Answer, tags: TagNames) -> Reservation:
    labels = replace(
        tags.labels(tags_of(member)),
        resource=str(member["CapacityReservationId"]),
        instance_type=str(member["InstanceType"]),
        zone=str(member.get("AvailabilityZone", "")),
        region=answer.region,
        account=str(member.get("OwnerId", "")) or answer.account,
    )
    block = member.get("ReservationType") == "capacity-block"
    return Reservation(
        labels=labels,
        total=int(member["TotalInstanceCount"]),
        available=int(member["AvailableInstanceCount"]),
        starts_at=required(member.get("StartDate") or member.get("CreateDate"), "StartDate"),
        ends_at=instant(member.get("EndDate")),
        market=Market.CAPACITY_BLOCK if block else Market.RESERVED,
    )
