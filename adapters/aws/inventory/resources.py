"""Translate responses of EC2, FSx, EKS and Service Quotas into the fleet's nouns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from adapters.aws.api.responses import Pages, ResponseInfo, instant, members, required
from adapters.aws.inventory.ownership import TagNames, first, tagged_launcher
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
    nodes = {}
    described_nodes = (
        (reservation, member)
        for reservation in members(pages, "Reservations")
        for member in reservation["Instances"]
    )
    for reservation, member in described_nodes:
        described = _described(
            member,
            answer,
            tags,
            instance=str(member["InstanceId"]),
            instance_type=str(member.get("InstanceType", "")),
            zone=str((member.get("Placement") or {}).get("AvailabilityZone", "")),
            account=str(reservation.get("OwnerId", "")) or answer.account,
        )
        state, ended = str((member.get("State") or {}).get("Name", "running")), None
        if state == "terminated":
            # EC2 gives the time within a sentence; else it is when it was first seen so.
            stated = _TRANSITION.search(str(member.get("StateTransitionReason", "")))
            ended = datetime.fromisoformat(stated[1]).replace(tzinfo=UTC) if stated else answer.at
        nodes[str(member["InstanceId"])] = Instance(
            **described,
            launched_at=required(member["LaunchTime"], "LaunchTime"),
            state=state,
            market=_MARKETS.get(str(member.get("InstanceLifecycle", "")), Market.ON_DEMAND),
            ended_at=ended,
            project=first(described["tags"], tags.project),
            launched_by=tagged_launcher(described["tags"]),
            security_groups=tuple(
                str(x["GroupId"]) for x in member.get("SecurityGroups") or () if x.get("GroupId")
            ),
            node_group=first(described["tags"], _NODE_GROUPS),
            reservation=str(member.get("CapacityReservationId", "")),
        )
    return nodes


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
    return {
        str(x["InstanceId"]): Instance(
            labels=Labels(
                cluster=cluster,
                instance=str(x["InstanceId"]),
                instance_type=str(x["InstanceType"]),
                region=answer.region,
                account=answer.account,
            ),
            launched_at=required(x["LaunchTime"], "LaunchTime"),
            state=_RUNNING_NODES.get(status, "unknown"),
            tags={HYPERPOD_TAG: cluster},
            launched_by=Launcher(f"HyperPod cluster {cluster}", LauncherKind.MACHINE),
            node_group=str(x["InstanceGroupName"]),
        )
        for x in members(pages, "ClusterNodeSummaries")
        if hardware_of(str(x["InstanceType"])).startswith(ACCELERATED_TYPES)
        for status in [str((x.get("InstanceStatus") or {}).get("Status", "Running"))]
    }


TRAINING_FACTS = (
    "TrainingJobName",
    "TrainingJobStatus",
    "ResourceConfig",
    "TrainingStartTime",
    "TrainingEndTime",
    "EnableManagedSpotTraining",
    "WarmPoolStatus",
)
"""What is kept of DescribeTrainingJob: its hyperparameters and environment may hold secrets."""


def hosts_of(job: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return type and name of each accelerated host of a training job, none before it started.

    SageMaker numbers the hosts of a job through all of its groups: `JOB/algo-1`, as its metrics do.
    """
    config = job.get("ResourceConfig") or {}
    groups = config.get("InstanceGroups") or (
        {
            "InstanceType": config.get("SelectedInstanceType") or config.get("InstanceType", ""),
            "InstanceCount": config.get("SelectedInstanceCount") or config.get("InstanceCount", 0),
        },
    )
    kinds = [str(x["InstanceType"]) for x in groups for _ in range(int(x["InstanceCount"]))]
    return [
        (kind, f"{job['TrainingJobName']}/algo-{number}")
        for number, kind in enumerate(kinds, 1)
        if "TrainingStartTime" in job and hardware_of(kind).startswith(ACCELERATED_TYPES)
    ]


def kept_warm(job: Mapping[str, Any]) -> timedelta:
    """Return how long a training job's warm pool was paid for without being reused."""
    pool = job.get("WarmPoolStatus") or {}
    if pool.get("Status") == "Reused":
        return timedelta(0)
    return timedelta(seconds=int(pool.get("ResourceRetainedBillableTimeInSeconds", 0)))


def training_nodes(pages: Pages, answer: ResponseInfo) -> dict[str, Instance]:
    """Translate DescribeTrainingJob into its nodes.

    Their cluster is the job itself, for they run nothing else.
    """
    (page,) = pages
    name, ended = str(page["TrainingJobName"]), instant(page.get("TrainingEndTime"))
    return {
        host: Instance(
            labels=Labels(
                cluster=name,
                job=name,
                instance=host,
                instance_type=kind,
                region=answer.region,
                account=answer.account,
            ),
            launched_at=required(page["TrainingStartTime"], "TrainingStartTime"),
            state="terminated" if ended else "running",
            market=Market.SPOT if page.get("EnableManagedSpotTraining") else Market.ON_DEMAND,
            ended_at=ended,
            launched_by=Launcher(f"SageMaker training job {name}", LauncherKind.MACHINE),
            kept_warm=kept_warm(page),
        )
        for kind, host in hosts_of(page)
    }


def volumes(pages: Pages, answer: ResponseInfo, tags: TagNames) -> tuple[Volume, ...]:
    """Translate DescribeVolumes."""
    return tuple(
        Volume(
            **_described(
                x,
                answer,
                tags,
                instance=attached,
                resource=str(x["VolumeId"]),
                zone=str(x.get("AvailabilityZone", "")),
            ),
            size_gib=int(x["Size"]),
            volume_type=str(x.get("VolumeType", "")),
            state=str(x["State"]),
            created_at=required(x["CreateTime"], "CreateTime"),
            attached_to=attached,
        )
        for x in members(pages, "Volumes")
        for instances in [(str(a.get("InstanceId") or "") for a in x.get("Attachments") or ())]
        for attached in [next(filter(None, instances), "")]
    )


def file_systems(pages: Pages, answer: ResponseInfo, tags: TagNames) -> tuple[FileSystem, ...]:
    """Translate DescribeFileSystems; only Lustre, and none that is being deleted."""
    return tuple(
        FileSystem(
            **_described(x, answer, tags, resource=str(x["FileSystemId"])),
            storage_gib=int(x.get("StorageCapacity") or 0),
            deployment=str(lustre.get("DeploymentType", "")),
            throughput_mbps_per_tib=int(lustre.get("PerUnitStorageThroughput") or 0),
            created_at=instant(x.get("CreationTime")),
            throughput_mbps=int(lustre.get("ThroughputCapacity") or 0),
        )
        for x in members(pages, "FileSystems")
        if x.get("FileSystemType", "LUSTRE") == "LUSTRE" and x.get("Lifecycle") != "DELETING"
        for lustre in [x.get("LustreConfiguration") or {}]
    )


_BILLED = {
    Market.RESERVED: ("active", "scheduled"),
    Market.CAPACITY_BLOCK: ("active", "payment-pending", "scheduled", "expired"),
}
"""States in which a reservation is billed, or will be or was; a block is prepaid."""


def reservations(pages: Pages, answer: ResponseInfo, tags: TagNames) -> tuple[Reservation, ...]:
    """Translate DescribeCapacityReservations.

    What holds capacity now or from a day to come on, and Capacity Blocks at any time.
    """
    translated = [
        Reservation(
            **_described(
                x,
                answer,
                tags,
                resource=str(x["CapacityReservationId"]),
                instance_type=str(x["InstanceType"]),
                zone=str(x.get("AvailabilityZone", "")),
            ),
            total=int(x["TotalInstanceCount"]),
            available=int(x["AvailableInstanceCount"]),
            starts_at=required(x.get("StartDate") or x.get("CreateDate"), "StartDate"),
            ends_at=instant(x.get("EndDate")),
            market=_MARKETS.get(str(x.get("ReservationType", "")), Market.RESERVED),
            state=str(x.get("State", "active")),
            bought_at=instant(x.get("CreateDate")),
        )
        for x in members(pages, "CapacityReservations")
    ]
    return tuple(x for x in translated if x.state in _BILLED[x.market])


def plan_ends(pages: Pages, _: ResponseInfo) -> dict[str, datetime]:
    """Translate DescribeSavingsPlans: when each plan that has begun ends, by its ARN."""
    return {
        str(plan["savingsPlanArn"]): required(plan["end"], "end")
        for plan in members(pages, "savingsPlans")
        if plan.get("state") not in _NOT_IN_FORCE
    }


_NOT_IN_FORCE = "payment-pending", "payment-failed", "queued", "queued-deleted", "returned"


def _described(
    member: Mapping[str, Any], answer: ResponseInfo, tags: TagNames, **labels: str
) -> dict[str, Any]:
    """Return labels, tags and owner of a thing: what its tags say, and what the answer says."""
    member_tags = {str(x["Key"]): str(x.get("Value", "")) for x in member.get("Tags") or ()}
    account = str(member.get("OwnerId", "")) or answer.account
    named = {"region": answer.region, "account": account} | labels
    return {
        "labels": replace(tags.labels(member_tags), **named),
        "tags": member_tags,
        "owner": first(member_tags, tags.owner),
    }


_NODE_GROUPS = (
    "eks:nodegroup-name",
    "karpenter.sh/nodepool",
    "parallelcluster:queue-name",
    "aws:pcs:compute-node-group-id",
)
"""Tags that launchers put on nodes: EKS, Karpenter, ParallelCluster, PCS (user guides, 2026-11).

ParallelCluster makes a Slurm partition of each queue.
"""


GROUP_TAG = "aws:autoscaling:groupName"


def cluster_names(pages: Pages, answer: ResponseInfo) -> tuple[tuple[str, str], ...]:
    """Translate ListClusters into (region, name)."""
    return tuple((answer.region, str(name)) for name in members(pages, "clusters"))


def described_cluster(pages: Pages, answer: ResponseInfo) -> Cluster:
    """Translate DescribeCluster."""
    (page,) = pages
    member: Mapping[str, Any] = page["cluster"]
    return Cluster(
        labels=Labels(
            cluster=str(member["name"]),
            region=answer.region,
            account=_account(member.get("arn")) or answer.account,
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
    return tuple(
        replace(
            x,
            node_groups=tuple(
                group
                for name, region, group in ordered
                if (name, region) == (x.name, x.labels.region)
            ),
        )
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
    def of(clusters: Sequence[Cluster]) -> Membership:
        """Return the groups of some clusters."""
        owned = [
            (name, x.name, group)
            for x in clusters
            for group in x.node_groups
            for name in group.groups
        ]
        return Membership(
            {name: cluster for name, cluster, _ in owned},
            {x.security_group: x.name for x in clusters if x.security_group},
            {name: group for name, _, group in owned},
        )

    def cluster(self, tags: Mapping[str, str], security_groups: Iterable[str]) -> str:
        """Return the cluster of a node, "" where no group tells."""
        return self.by_group.get(tags.get(GROUP_TAG, ""), "") or next(
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
    quotas = []
    for member in members(pages, "Quotas"):
        name = str(member.get("QuotaName", ""))
        running, spot = _RUNNING.fullmatch(name), _SPOT.fullmatch(name)
        words = re.findall(r"[a-z]+\d*", match[1].lower()) if (match := running or spot) else ()
        if families := tuple(word for word in words if word in _ACCELERATED):
            quotas.append(
                Quota(
                    name=name,
                    code=str(member.get("QuotaCode", "")),
                    labels=Labels(
                        region=answer.region,
                        account=_account(member.get("QuotaArn")) or answer.account,
                    ),
                    families=families,
                    market=Market.ON_DEMAND if running else Market.SPOT,
                    vcpus=float(member["Value"]),
                    asof=answer.at,
                )
            )
    return tuple(sorted(quotas, key=lambda x: x.name))


def _account(arn: object) -> str:
    """Return the account that an ARN names, "" where it names none."""
    return (str(arn or "").split(":") + [""] * 5)[4]
