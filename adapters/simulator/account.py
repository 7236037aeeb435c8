"""Make what an account would say of its clusters, its quotas, and who launched its nodes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from adapters.simulator.fleet import ACCOUNT, Fleet, Node, identifier
from adapters.simulator.scenario import Cluster

QUOTAS = (
    ("Running On-Demand Trn instances", "L-2C3B7624", "trn", 1.25),
    ("Running On-Demand Inf instances", "L-1945791B", "inf", 2.0),
    ("Running On-Demand P instances", "L-417A185B", "p", 1.5),
)
"""Name, code and family of a quota, and how much of what runs it allows."""
_LEAST_VCPUS = 256
_VERSION = "1.33"


def eks_clusters(clusters: Sequence[Cluster]) -> dict[str, Any]:
    """Return the names of a region's clusters."""
    return {"clusters": sorted(c.name for c in clusters)}


def eks_cluster(cluster: Cluster, fleet: Fleet) -> dict[str, Any]:
    """Return one cluster."""
    return {
        "cluster": {
            "name": cluster.name,
            "arn": f"arn:aws:eks:{cluster.region}:{ACCOUNT}:cluster/{cluster.name}",
            "createdAt": fleet.at(-60 * 24 * 90),
            "version": _VERSION,
            "status": "ACTIVE",
            "resourcesVpcConfig": {"clusterSecurityGroupId": identifier(fleet.seed, "sg-", cluster.name)},
        }
    }


def eks_node_groups(cluster: Cluster) -> dict[str, Any]:
    """Return the names of a cluster's node groups."""
    return {"nodegroups": [f"{cluster.name}-nodes"]}


def eks_node_group(cluster: Cluster, fleet: Fleet) -> dict[str, Any]:
    """Return a cluster's node group."""
    name = f"{cluster.name}-nodes"
    return {
        "nodegroup": {
            "nodegroupName": name,
            "clusterName": cluster.name,
            "version": _VERSION,
            "status": "ACTIVE",
            "capacityType": "ON_DEMAND",
            "instanceTypes": [cluster.instance_type],
            "scalingConfig": {"minSize": 0, "maxSize": 256, "desiredSize": sum(job.nodes for job in cluster.jobs)},
            "resources": {"autoScalingGroups": [{"name": f"eks-{name}-{identifier(fleet.seed, '', cluster.name, length=8)}"}]},
        }
    }


def service_quotas(nodes: Sequence[Node], region: str) -> dict[str, Any]:
    """Return a region's vCPU quotas, some way above what runs there."""
    return {"Quotas": [_quota(nodes, region, *row) for row in QUOTAS]}


def _quota(nodes: Sequence[Node], region: str, name: str, code: str, family: str, room: float) -> dict[str, Any]:
    mine = (n for n in nodes if n.cluster.instance_type.startswith(family) and n.market not in ("spot", "capacity-block"))
    used = sum(n.hardware.vcpus for n in mine)
    return {
        "ServiceCode": "ec2",
        "ServiceName": "Amazon Elastic Compute Cloud (Amazon EC2)",
        "QuotaArn": f"arn:aws:servicequotas:{region}:{ACCOUNT}:ec2/{code}",
        "QuotaCode": code,
        "QuotaName": name,
        "Value": float(max(_LEAST_VCPUS, round(used * room / 64) * 64)),
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": False,
    }


def launches(nodes: Sequence[Node], fleet: Fleet) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (a resource, what CloudTrail tells when asked about it): one event for what was launched at a time."""
    ordered = sorted(nodes, key=lambda n: (n.cluster.name, n.job.name, n.launched_minute, n.id))
    for _, alike in groupby(ordered, key=lambda n: (n.cluster.name, n.job.name, n.launched_minute)):
        together = list(alike)
        yield together[0].id, {"Events": [_event(together, fleet)]}


def _event(together: Sequence[Node], fleet: Fleet) -> dict[str, Any]:
    first = together[0]
    at, who = fleet.at(first.launched_minute), _session(first.cluster)
    role = "AWSReservedSSO_MachineLearning_0123456789abcdef"
    told = {
        "eventName": "RunInstances",
        "userIdentity": {
            "type": "AssumedRole",
            "arn": f"arn:aws:sts::{ACCOUNT}:assumed-role/{role}/{who}",
            "sessionContext": {"sessionIssuer": {"type": "Role", "userName": role}},
        },
    }
    return {
        "EventId": identifier(fleet.seed, "", "event", first.id),
        "EventName": "RunInstances",
        "EventSource": "ec2.amazonaws.com",
        "EventTime": at,
        "Username": who,
        "Resources": [{"ResourceType": "AWS::EC2::Instance", "ResourceName": n.id} for n in together],
        "CloudTrailEvent": json.dumps(told),
    }


def _session(cluster: Cluster) -> str:
    return f"{cluster.owner or cluster.team or 'kim'}@example.com"
