"""Translate responses of EC2, FSx, EKS and Service Quotas into the fleet's nouns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from adapters.aws.api.responses import Pages, ResponseInfo, instant, members, required
from adapters.aws.inventory.ownership import TagNames, first, tagged_launcher, tags_of
from bot.model.fleet import (
    Cluster,
    FileSystem,
    Instance,
    Launcher,
    LauncherKind,
    Market,
    NodeGroup,
    Quota,
    Reservation,
    Volume,
    hardware_of,
)
from bot.model.labels import Labels

_MARKETS = {"spot": Market.SPOT, "capacity-block": Market.CAPACITY_BLOCK}
_TRANSITION = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) GMT\)")


def instances(pages: Pages, answer: ResponseInfo, tags: TagNames) -> dict[str, Instance]:
    """Translate DescribeInstances, by instance id."""
    described = (
        _instance(member, str(reservation.get("OwnerId", "")), answer, tags)
        for reservation in members(pages, "Reservations")
        for member in reservation["Instances"]
    )
    return {instance.id: instance for instance in described}


ACCELERATED_TYPES = ("trn", "inf", "p4", "p5", "p6", "g")
"""How the names of types with an accelerator begin."""

HYPERPOD_TAG = "sagemaker:cluster-name"
"""The key under which a node of HyperPod carries its cluster: it has no tags of its own."""

_RUNNING_NODES = {
    "Running": "running",
    "SystemUpdating": "running",
    "DeepHealthCheckInProgress": "running",
    "Failure": "running",
    "Pending": "pending",
    "ShuttingDown": "shutting-down",
}
"""EC2's states for those of a HyperPod node; one that failed is paid for until it is replaced.

SageMaker API Reference, ClusterInstanceStatusDetails, 2026-11.
"""


def hyperpod_nodes(pages: Pages, answer: ResponseInfo) -> dict[str, Instance]:
    """Translate ListClusterNodes, by instance id; EC2 describes none of these nodes."""
    cluster = answer.argument
    nodes = {}
    for member in members(pages, "ClusterNodeSummaries"):
        if not hardware_of(str(member["InstanceType"])).startswith(ACCELERATED_TYPES):
            continue
        labels = Labels(
            cluster=cluster,
            instance=str(member["InstanceId"]),
            instance_type=str(member["InstanceType"]),
            region=answer.region,
            account=answer.account,
        )
        status = str((member.get("InstanceStatus") or {}).get("Status", "Running"))
        nodes[labels.instance] = Instance(
            labels=labels,
            launched_at=required(member["LaunchTime"], "LaunchTime"),
            state=_RUNNING_NODES.get(status, "unknown"),
            tags={HYPERPOD_TAG: cluster},
            launched_by=Launcher(f"HyperPod cluster {cluster}", LauncherKind.MACHINE),
            node_group=str(member["InstanceGroupName"]),
        )
    return nodes


def volumes(pages: Pages, answer: ResponseInfo, tags: TagNames) -> tuple[Volume, ...]:
    """Translate DescribeVolumes."""
    return tuple(_volume(member, answer, tags) for member in members(pages, "Volumes"))


def file_systems(pages: Pages, answer: ResponseInfo, tags: TagNames) -> tuple[FileSystem, ...]:
    """Translate DescribeFileSystems; only Lustre, and none that is being deleted."""
    lustre = (
        x for x in members(pages, "FileSystems") if x.get("FileSystemType", "LUSTRE") == "LUSTRE"
    )
    return tuple(
        _file_system(member, answer, tags)
        for member in lustre
        if member.get("Lifecycle") != "DELETING"
    )


_PREPAID = ("payment-pending", "scheduled", "expired")
"""States of a Capacity Block outside its hours; one that failed or was cancelled costs nothing."""


def reservations(pages: Pages, answer: ResponseInfo, tags: TagNames) -> tuple[Reservation, ...]:
    """Translate DescribeCapacityReservations.

    What holds capacity now, and Capacity Blocks, which are prepaid, at any time.
    """
    translated = [
        _reservation(member, answer, tags) for member in members(pages, "CapacityReservations")
    ]
    return tuple(
        x
        for x in translated
        if x.active or (x.market is Market.CAPACITY_BLOCK and x.state in _PREPAID)
    )


_NODE_GROUPS = ("eks:nodegroup-name", "karpenter.sh/nodepool")
"""Tags that EKS and Karpenter put on the nodes they launch (their user guides, 2026-11)."""


def _instance(
    member: Mapping[str, Any], account: str, answer: ResponseInfo, tags: TagNames
) -> Instance:
    member_tags = tags_of(member)
    state = str((member.get("State") or {}).get("Name", "running"))
    labels = replace(
        tags.labels(member_tags),
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
        owner=first(member_tags, tags.owner),
        project=first(member_tags, tags.project),
        tags=member_tags,
        launched_by=tagged_launcher(member_tags),
        security_groups=tuple(
            str(x["GroupId"]) for x in member.get("SecurityGroups") or () if x.get("GroupId")
        ),
        node_group=first(member_tags, _NODE_GROUPS),
    )


def _ended(member: Mapping[str, Any], answer: ResponseInfo) -> datetime:
    """Return the time an instance was terminated: EC2 gives it within a sentence.

    Else the time it was first seen so.
    """
    stated = _TRANSITION.search(str(member.get("StateTransitionReason", "")))
    return datetime.fromisoformat(stated[1]).replace(tzinfo=UTC) if stated else answer.at


def _volume(member: Mapping[str, Any], answer: ResponseInfo, tags: TagNames) -> Volume:
    member_tags = tags_of(member)
    attached = next(
        (str(x["InstanceId"]) for x in member.get("Attachments") or () if x.get("InstanceId")), ""
    )
    labels = replace(
        tags.labels(member_tags),
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
        tags=member_tags,
        owner=first(member_tags, tags.owner),
    )


def _file_system(member: Mapping[str, Any], answer: ResponseInfo, tags: TagNames) -> FileSystem:
    member_tags = tags_of(member)
    lustre = member.get("LustreConfiguration") or {}
    labels = replace(
        tags.labels(member_tags),
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
        tags=member_tags,
        owner=first(member_tags, tags.owner),
        throughput_mbps=int(lustre.get("ThroughputCapacity") or 0),
    )


def _reservation(member: Mapping[str, Any], answer: ResponseInfo, tags: TagNames) -> Reservation:
    member_tags = tags_of(member)
    labels = replace(
        tags.labels(member_tags),
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
        state=str(member.get("State", "active")),
        tags=member_tags,
        owner=first(member_tags, tags.owner),
    )


GROUP_TAG = "aws:autoscaling:groupName"


def cluster_names(pages: Pages, answer: ResponseInfo) -> tuple[tuple[str, str], ...]:
    """Translate ListClusters into (region, name)."""
    return tuple((answer.region, str(name)) for name in members(pages, "clusters"))


def described_cluster(pages: Pages, answer: ResponseInfo) -> Cluster:
    """Translate DescribeCluster."""
    (page,) = pages
    member: Mapping[str, Any] = page["cluster"]
    account = str(member.get("arn", "")).split(":")[4:5]
    return Cluster(
        labels=Labels(
            cluster=str(member["name"]),
            region=answer.region,
            account=account[0] if account else answer.account,
        ),
        version=str(member.get("version", "")),
        status=str(member.get("status", "")),
        created_at=instant(member.get("createdAt")),
        security_group=str(
            (member.get("resourcesVpcConfig") or {}).get("clusterSecurityGroupId", "")
        ),
    )


def node_group(pages: Pages, answer: ResponseInfo) -> tuple[str, str, NodeGroup]:
    """Translate DescribeNodegroup into cluster, region and group."""
    (page,) = pages
    member: Mapping[str, Any] = page["nodegroup"]
    group = NodeGroup(
        name=str(member["nodegroupName"]),
        status=str(member.get("status", "")),
        version=str(member.get("version", "")),
        instance_types=tuple(member.get("instanceTypes") or ()),
        desired=int((member.get("scalingConfig") or {}).get("desiredSize") or 0),
        groups=tuple(
            str(x["name"]) for x in (member.get("resources") or {}).get("autoScalingGroups") or ()
        ),
        labels={str(name): str(value) for name, value in (member.get("labels") or {}).items()},
    )
    return str(member["clusterName"]), answer.region, group


def with_node_groups(
    clusters: Iterable[Cluster], groups: Iterable[tuple[str, str, NodeGroup]]
) -> tuple[Cluster, ...]:
    """Give each cluster its node groups."""
    ordered = sorted(groups, key=lambda entry: entry[2].name)
    groups_of = {
        x.labels: tuple(
            group for name, region, group in ordered if (name, region) == (x.name, x.labels.region)
        )
        for x in clusters
    }
    return tuple(
        replace(x, node_groups=groups_of[x.labels])
        for x in sorted(clusters, key=lambda x: x.labels)
    )


@dataclass(frozen=True)
class Membership:
    """Map Auto Scaling groups and security groups to the clusters of their nodes.

    Those of node groups to these.
    """

    by_group: Mapping[str, str] = field(default_factory=dict)
    by_security_group: Mapping[str, str] = field(default_factory=dict)
    node_groups: Mapping[str, NodeGroup] = field(default_factory=dict)
    """By Auto Scaling group."""

    @staticmethod
    def of(clusters: Iterable[Cluster]) -> Membership:
        """Return the groups of some clusters."""
        members = tuple(clusters)
        groups = {name: x.name for x in members for group in x.node_groups for name in group.groups}
        node_groups = {
            name: group for x in members for group in x.node_groups for name in group.groups
        }
        return Membership(
            groups, {x.security_group: x.name for x in members if x.security_group}, node_groups
        )

    def cluster(self, tags: Mapping[str, str], security_groups: Iterable[str]) -> str:
        """Return the cluster of a node, "" where no group tells."""
        by_group = self.by_group.get(tags.get(GROUP_TAG, ""), "")
        return by_group or next(
            (self.by_security_group[x] for x in security_groups if x in self.by_security_group), ""
        )

    def completed(self, instance: Instance, tags: TagNames) -> Instance:
        """Give a node its node group, and owner.

        Team and project by the group's labels where its tags name none.
        """
        group = self.node_groups.get(instance.tags.get(GROUP_TAG, ""))
        if group is None:
            return instance
        team = instance.labels.team or first(group.labels, tags.team)
        return replace(
            instance,
            labels=replace(instance.labels, team=team),
            project=instance.project or first(group.labels, tags.project),
            node_group=instance.node_group or group.name,
            node_labels=group.labels,
            labelled_owner=first(group.labels, tags.owner),
        )


_RUNNING = re.compile(r"Running On-Demand (.+) instances", re.IGNORECASE)
_SPOT = re.compile(r"All (.+) Spot Instance Requests", re.IGNORECASE)
_ACCELERATED = frozenset({"trn", "inf", "p", "g", "p2", "p3", "p4", "p5", "p6"})


def quotas(pages: Pages, answer: ResponseInfo) -> tuple[Quota, ...]:
    """Return the quotas of accelerated families (`Running On-Demand Trn instances`)."""
    translated = (_quota(member, answer) for member in members(pages, "Quotas"))
    return tuple(sorted((x for x in translated if x), key=lambda x: x.name))


def _quota(member: Mapping[str, Any], answer: ResponseInfo) -> Quota | None:
    name = str(member.get("QuotaName", ""))
    running, spot = _RUNNING.fullmatch(name), _SPOT.fullmatch(name)
    match = running or spot
    families = (
        tuple(w for w in re.findall(r"[a-z]+\d*", match[1].lower()) if w in _ACCELERATED)
        if match
        else ()
    )
    if not families:
        return None
    account = str(member.get("QuotaArn", "")).split(":")[4:5]
    return Quota(
        name=name,
        code=str(member.get("QuotaCode", "")),
        labels=Labels(
            region=answer.region, account=account[0] if account and account[0] else answer.account
        ),
        families=families,
        market=Market.ON_DEMAND if running else Market.SPOT,
        vcpus=float(member["Value"]),
        asof=answer.at,
    )
