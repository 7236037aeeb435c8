"""Write the answers of AWS's describe calls: one file for each change of the fleet and each day."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from math import inf
from pathlib import Path
from typing import Any

from adapters.simulator.fleet import (
    ACCOUNT,
    FileSystemSpec,
    Fleet,
    SimulatedNode,
    VolumeSpec,
    file_systems,
    identifier,
    volumes,
)
from adapters.simulator.offers import (
    capacity_block_offerings,
    describe_reservations,
    price_list,
    reserved_offerings,
    savings_plan_rates,
    savings_plans,
    service_quotas,
    spot_history,
    tag_list,
)
from adapters.simulator.scenario import PlannedCluster, Scenario

KEPT_AFTER_END_MINUTES = 60
"""EC2 shows a terminated instance for about an hour."""


@dataclass(frozen=True)
class ApiWriter:
    """Write answers of AWS's calls into one recording."""

    folder: Path
    fleet: Fleet

    def put(
        self, call: str, region: str, minute: int, response: dict[str, Any], about: str = ""
    ) -> None:
        """Write one answer as `api/SERVICE/OPERATION/REGION/TIME.json`.

        `about` names the thing that was asked about.
        """
        at = self.fleet.at(minute)
        name = f"{at:%Y%m%dT%H%M%SZ}.{about}.json" if about else f"{at:%Y%m%dT%H%M%SZ}.json"
        path = self.folder / "api" / call / region / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(response, default=_iso) + "\n", encoding="utf-8")


def write_api(folder: Path, scenario: Scenario, fleet: Fleet) -> None:
    """Write every call that the bot reads."""
    writer = ApiWriter(folder, fleet)
    for region in sorted({cluster.region for cluster in scenario.clusters}):
        local = [n for n in fleet.nodes if n.cluster.region == region]
        for minute in _changes(fleet, local):
            writer.put(
                "ec2/describe_instances", region, minute, describe_instances(local, fleet, minute)
            )
        clusters = [cluster for cluster in scenario.clusters if cluster.region == region]
        for minute in _days(fleet, scenario):
            _write_day(writer, scenario, clusters, minute)
        _write_account(writer, clusters, local)
        reserved = reserved_offerings(clusters)
        if reserved["ReservedInstancesOfferings"]:
            writer.put("ec2/describe_reserved_instances_offerings", region, 0, reserved)
        offers = capacity_block_offerings(fleet, clusters)
        if offers["CapacityBlockOfferings"]:
            writer.put("ec2/describe_capacity_block_offerings", region, 0, offers)
    writer.put(
        "savingsplans/describe_savings_plans", "us-east-1", 0, savings_plans(scenario, fleet)
    )
    rates = savings_plan_rates(scenario.clusters)
    writer.put("savingsplans/describe_savings_plans_offering_rates", "us-east-1", 0, rates)
    writer.put("pricing/get_products", "us-east-1", 0, price_list(scenario.clusters))


def _write_day(
    writer: ApiWriter, scenario: Scenario, clusters: Sequence[PlannedCluster], minute: int
) -> None:
    fleet, region = writer.fleet, clusters[0].region
    writer.put(
        "ec2/describe_volumes", region, minute, describe_volumes(scenario, fleet, clusters, minute)
    )
    writer.put(
        "fsx/describe_file_systems",
        region,
        minute,
        describe_file_systems(scenario, fleet, clusters),
    )
    writer.put(
        "ec2/describe_capacity_reservations",
        region,
        minute,
        describe_reservations(scenario, fleet, clusters, minute),
    )
    writer.put(
        "ec2/describe_spot_price_history", region, minute, spot_history(fleet, clusters, minute)
    )


def _write_account(
    writer: ApiWriter, clusters: Sequence[PlannedCluster], local: Sequence[SimulatedNode]
) -> None:
    fleet, region = writer.fleet, clusters[0].region
    writer.put("eks/list_clusters", region, 0, eks_clusters(clusters))
    for cluster in clusters:
        name = cluster.name
        writer.put("eks/describe_cluster", region, 0, eks_cluster(cluster, fleet), name)
        writer.put("eks/list_nodegroups", region, 0, eks_node_groups(cluster), name)
        writer.put(
            "eks/describe_nodegroup",
            region,
            0,
            eks_node_group(cluster, fleet),
            f"{name}.{name}-nodes",
        )
    writer.put("service-quotas/list_service_quotas", region, 0, service_quotas(local, region))
    for resource, events in launches(local, fleet):
        writer.put("cloudtrail/lookup_events", region, 0, events, resource)


def describe_instances(nodes: Sequence[SimulatedNode], fleet: Fleet, minute: int) -> dict[str, Any]:
    """Return the instances EC2 shows at a minute, terminated ones for an hour more."""
    shown = [n for n in nodes if n.launched_minute <= minute < _forgotten(n)]
    return {
        "Reservations": [
            {
                "ReservationId": identifier(fleet.seed, "r-", n.id),
                "OwnerId": ACCOUNT,
                "Groups": [],
                "Instances": [_instance(n, fleet, minute)],
            }
            for n in shown
        ]
    }


def _forgotten(node: SimulatedNode) -> float:
    """Return the minute since when EC2 no longer shows a node."""
    return (
        inf
        if node.ended_minute is None or node.stops
        else node.ended_minute + KEPT_AFTER_END_MINUTES
    )


def describe_volumes(
    scenario: Scenario, fleet: Fleet, clusters: Sequence[PlannedCluster], minute: int
) -> dict[str, Any]:
    """Return the data volumes; one that is attached to nothing is `available`."""
    return {
        "Volumes": [
            _volume(volume, fleet, minute)
            for volume in volumes(scenario, fleet)
            if volume.cluster in clusters
        ]
    }


def describe_file_systems(
    scenario: Scenario, fleet: Fleet, clusters: Sequence[PlannedCluster]
) -> dict[str, Any]:
    """Return the FSx for Lustre file systems."""
    return {
        "FileSystems": [
            _file_system(file_system, fleet)
            for file_system in file_systems(scenario, fleet)
            if file_system.cluster in clusters
        ]
    }


def _changes(fleet: Fleet, nodes: Sequence[SimulatedNode]) -> list[int]:
    launches = {n.launched_minute + 1 for n in nodes if n.launched_minute >= 0}
    ends = {n.ended_minute for n in nodes if n.ended_minute is not None}
    gone = {end + KEPT_AFTER_END_MINUTES for end in ends}
    return sorted(
        m
        for m in {0, *range(0, fleet.minutes, 1440), *launches, *ends, *gone}
        if m <= fleet.minutes
    )


def _days(fleet: Fleet, scenario: Scenario) -> list[int]:
    """Return each day's first minute, and the times when incidents change storage or reservations."""
    edges = {
        round(x.at * 60)
        for x in scenario.incidents
        if not x.job or x.cause in ("orphaned_storage", "unused_capacity")
    }
    return sorted(m for m in {*range(0, fleet.minutes, 1440), *edges} if m <= fleet.minutes)


def _iso(value: object) -> str:
    assert isinstance(value, datetime), value
    return value.isoformat()


def _instance(node: SimulatedNode, fleet: Fleet, minute: int) -> dict[str, Any]:
    ended = node.ended_minute is not None and minute >= node.ended_minute
    shown = {
        "InstanceId": node.id,
        "InstanceType": node.cluster.instance_type,
        "LaunchTime": fleet.at(node.launched_minute),
        "State": _state(node, ended),
        "Placement": {"AvailabilityZone": node.zone, "Tenancy": "default"},
        "PrivateDnsName": node.name,
        "StateTransitionReason": f"User initiated ({fleet.at(node.ended_minute or 0):%Y-%m-%d %H:%M:%S} GMT)"
        if ended
        else "",
        "Tags": tag_list(node.tags),
    }
    lifecycle = {"spot": "spot", "capacity-block": "capacity-block"}.get(node.market)
    return shown | ({"InstanceLifecycle": lifecycle} if lifecycle else {})


def _state(node: SimulatedNode, ended: bool) -> dict[str, Any]:
    if not ended:
        return {"Code": 16, "Name": "running"}
    return {"Code": 80, "Name": "stopped"} if node.stops else {"Code": 48, "Name": "terminated"}


def _volume(spec: VolumeSpec, fleet: Fleet, minute: int) -> dict[str, Any]:
    free = spec.detached is not None and minute >= spec.detached
    instance = spec.instance or identifier(fleet.seed, "i-", spec.id)
    attachment = {
        "InstanceId": instance,
        "VolumeId": spec.id,
        "State": "attached",
        "Device": "/dev/sdf",
    }
    return {
        "VolumeId": spec.id,
        "Size": spec.gib,
        "VolumeType": "gp3",
        "State": "available" if free else "in-use",
        "AvailabilityZone": f"{spec.cluster.region}b",
        "CreateTime": fleet.start - timedelta(days=40),
        "Attachments": [] if free else [attachment],
        "Tags": tag_list(
            {"Name": f"{spec.cluster.name}-scratch", "team": spec.cluster.team or "unknown"}
        ),
    }


def _file_system(spec: FileSystemSpec, fleet: Fleet) -> dict[str, Any]:
    return {
        "FileSystemId": spec.id,
        "OwnerId": ACCOUNT,
        "CreationTime": fleet.start - timedelta(days=60),
        "FileSystemType": "LUSTRE",
        "Lifecycle": "AVAILABLE",
        "StorageCapacity": round(spec.tib * 1000),
        "StorageType": "SSD",
        "LustreConfiguration": {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 250},
        "Tags": tag_list(
            {
                "Name": f"{spec.cluster.name}-data",
                "team": spec.cluster.team or "unknown",
                "eks:cluster-name": spec.cluster.name,
            }
        ),
    }


_VERSION = "1.33"


def eks_clusters(clusters: Sequence[PlannedCluster]) -> dict[str, Any]:
    """Return the names of a region's clusters."""
    return {"clusters": sorted(cluster.name for cluster in clusters)}


def eks_cluster(cluster: PlannedCluster, fleet: Fleet) -> dict[str, Any]:
    """Return one cluster."""
    return {
        "cluster": {
            "name": cluster.name,
            "arn": f"arn:aws:eks:{cluster.region}:{ACCOUNT}:cluster/{cluster.name}",
            "createdAt": fleet.at(-60 * 24 * 90),
            "version": _VERSION,
            "status": "ACTIVE",
            "resourcesVpcConfig": {
                "clusterSecurityGroupId": identifier(fleet.seed, "sg-", cluster.name)
            },
        }
    }


def eks_node_groups(cluster: PlannedCluster) -> dict[str, Any]:
    """Return the names of a cluster's node groups."""
    return {"nodegroups": [f"{cluster.name}-nodes"]}


def eks_node_group(cluster: PlannedCluster, fleet: Fleet) -> dict[str, Any]:
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
            "scalingConfig": {
                "minSize": 0,
                "maxSize": 256,
                "desiredSize": sum(job.nodes for job in cluster.jobs),
            },
            "resources": {
                "autoScalingGroups": [
                    {"name": f"eks-{name}-{identifier(fleet.seed, '', cluster.name, length=8)}"}
                ]
            },
        }
    }


def launches(nodes: Sequence[SimulatedNode], fleet: Fleet) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (a resource, CloudTrail's answer about it).

    One event for all nodes that were launched together.
    """
    ordered = sorted(nodes, key=lambda n: (n.cluster.name, n.job.name, n.launched_minute, n.id))
    for _, alike in groupby(ordered, key=lambda n: (n.cluster.name, n.job.name, n.launched_minute)):
        together = list(alike)
        yield together[0].id, {"Events": [_event(together, fleet)]}


def _event(together: Sequence[SimulatedNode], fleet: Fleet) -> dict[str, Any]:
    first = together[0]
    at, who = fleet.at(first.launched_minute), _session(first.cluster)
    role = "AWSReservedSSO_MachineLearning_0123456789abcdef"
    record = {
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
        "Resources": [
            {"ResourceType": "AWS::EC2::Instance", "ResourceName": n.id} for n in together
        ],
        "CloudTrailEvent": json.dumps(record),
    }


def _session(cluster: PlannedCluster) -> str:
    return f"{cluster.owner or cluster.team or 'kim'}@example.com"
