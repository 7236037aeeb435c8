"""Write the answers of AWS's describe calls: one file for each change of the fleet and each day."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from math import inf
from pathlib import Path
from typing import Any

from adapters.simulator.fleet import (
    ACCOUNT,
    Fleet,
    SimulatedNode,
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

_TRIED_EVERY_MINUTES = 20
"""How often the autoscaler of a cluster tries again to launch what its pods wait for."""
KEPT_AFTER_END_MINUTES = 60
"""EC2 shows a terminated instance for about an hour."""
_VERSION = "1.33"


def write_api(folder: Path, scenario: Scenario, fleet: Fleet) -> None:
    """Write every call that the bot reads."""

    def put(call: str, region: str, minute: int, response: object, about: str = "") -> None:
        """Write one answer as `api/SERVICE/OPERATION/REGION/TIME.json`, or that about a thing."""
        name = f"{fleet.at(minute):%Y%m%dT%H%M%SZ}"
        if about:
            name += f".{about}"
        path = folder / "api" / call / region / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(response, default=datetime.isoformat) + "\n", encoding="utf-8")

    midnights = range(0, fleet.minutes, 1440)
    # Storage and reservations change where an incident begins that is about them.
    turns = {
        round(incident.at * 60)
        for incident in scenario.incidents
        if not incident.job or incident.cause in ("orphaned_storage", "unused_capacity")
    }

    for region in sorted({cluster.region for cluster in scenario.clusters}):
        clusters = [cluster for cluster in scenario.clusters if cluster.region == region]
        nodes = [node for node in fleet.nodes if node.cluster.region == region]

        # EC2 is asked whenever the fleet changes, so that each change shows at its minute.
        launched = {node.launched_minute + 1 for node in nodes if node.launched_minute >= 0}
        ended = {node.ended_minute for node in nodes if node.ended_minute is not None}
        gone = {minute + KEPT_AFTER_END_MINUTES for minute in ended}
        for minute in sorted({0, *midnights, *launched, *ended, *gone}):
            if minute <= fleet.minutes:
                shown = describe_instances(nodes, fleet, minute)
                put("ec2/describe_instances", region, minute, shown)

        for minute in sorted({*midnights, *turns}):
            stored = {
                "ec2/describe_volumes": describe_volumes(scenario, fleet, clusters, minute),
                "fsx/describe_file_systems": describe_file_systems(scenario, fleet, clusters),
                "ec2/describe_capacity_reservations": describe_reservations(
                    scenario, fleet, clusters, minute
                ),
                "ec2/describe_spot_price_history": spot_history(fleet, clusters, minute),
            }
            for call, response in stored.items():
                if minute <= fleet.minutes:
                    put(call, region, minute, response)

        # What stands for the whole recording is answered once.
        standing: dict[tuple[str, str], dict[str, Any]] = {
            ("eks/list_clusters", ""): {"clusters": sorted(cluster.name for cluster in clusters)},
            ("service-quotas/list_service_quotas", ""): service_quotas(nodes, region),
            ("ec2/describe_reserved_instances_offerings", ""): reserved_offerings(clusters),
            ("ec2/describe_capacity_block_offerings", ""): capacity_block_offerings(
                fleet, clusters
            ),
        }
        for cluster in clusters:
            group = f"{cluster.name}-nodes"
            standing |= {
                ("eks/describe_cluster", cluster.name): eks_cluster(cluster, fleet),
                ("eks/list_nodegroups", cluster.name): {"nodegroups": [group]},
                ("eks/describe_nodegroup", f"{cluster.name}.{group}"): eks_node_group(
                    cluster, group, fleet
                ),
            }
        for resource, events in launches(nodes, fleet):
            standing["cloudtrail/lookup_events", resource] = events
        for minute, refused in refusals(clusters, fleet):
            put("cloudtrail/lookup_events", region, minute, refused, "refusals")
        for (call, about), response in standing.items():
            if any(response.values()):
                put(call, region, 0, response, about)

    # These answer for all regions from one.
    everywhere = {
        "savingsplans/describe_savings_plans": savings_plans(scenario, fleet),
        "savingsplans/describe_savings_plans_offering_rates": savings_plan_rates(scenario.clusters),
        "pricing/get_products": price_list(scenario.clusters),
    }
    for call, response in everywhere.items():
        put(call, "us-east-1", 0, response)


def describe_instances(nodes: Sequence[SimulatedNode], fleet: Fleet, minute: int) -> dict[str, Any]:
    """Return the instances EC2 shows at a minute, terminated ones for an hour more."""
    reservations = []
    for node in nodes:
        ended = node.ended_minute is not None and minute >= node.ended_minute

        # A stopped node stays listed, a terminated one is forgotten after a while.
        forgotten: float = inf
        if node.ended_minute is not None and not node.stops:
            forgotten = node.ended_minute + KEPT_AFTER_END_MINUTES
        if not node.launched_minute <= minute < forgotten:
            continue

        state, reason = {"Code": 16, "Name": "running"}, ""
        if ended:
            at = fleet.at(node.ended_minute or 0)
            reason = f"User initiated ({at:%Y-%m-%d %H:%M:%S} GMT)"
            state = {"Code": 48, "Name": "terminated"}
            if node.stops:
                state = {"Code": 80, "Name": "stopped"}
        instance = {
            "InstanceId": node.id,
            "InstanceType": node.cluster.instance_type,
            "LaunchTime": fleet.at(node.launched_minute),
            "State": state,
            "Placement": {"AvailabilityZone": node.zone, "Tenancy": "default"},
            "PrivateDnsName": node.name,
            "StateTransitionReason": reason,
            "Tags": tag_list(node.tags),
        }
        if node.market in ("spot", "capacity-block"):
            instance["InstanceLifecycle"] = node.market
        reservations.append(
            {
                "ReservationId": identifier(fleet.seed, "r-", node.id),
                "OwnerId": ACCOUNT,
                "Groups": [],
                "Instances": [instance],
            }
        )
    return {"Reservations": reservations}


def describe_volumes(
    scenario: Scenario, fleet: Fleet, clusters: Sequence[PlannedCluster], minute: int
) -> dict[str, Any]:
    """Return the data volumes; one that is attached to nothing is `available`."""
    described = []
    for volume in volumes(scenario, fleet):
        if volume.cluster not in clusters:
            continue
        free = volume.detached is not None and minute >= volume.detached

        # What is attached to nothing now was once on a node that is gone.
        attachment = {
            "InstanceId": volume.instance or identifier(fleet.seed, "i-", volume.id),
            "VolumeId": volume.id,
            "State": "attached",
            "Device": "/dev/sdf",
        }
        tags = {
            "Name": f"{volume.cluster.name}-scratch",
            "team": volume.cluster.team or "unknown",
        }
        described.append(
            {
                "VolumeId": volume.id,
                "Size": volume.gib,
                "VolumeType": "gp3",
                "State": "available" if free else "in-use",
                "AvailabilityZone": f"{volume.cluster.region}b",
                "CreateTime": fleet.start - timedelta(days=40),
                "Attachments": [] if free else [attachment],
                "Tags": tag_list(tags),
            }
        )
    return {"Volumes": described}


def describe_file_systems(
    scenario: Scenario, fleet: Fleet, clusters: Sequence[PlannedCluster]
) -> dict[str, Any]:
    """Return the FSx for Lustre file systems."""
    return {
        "FileSystems": [
            {
                "FileSystemId": system.id,
                "OwnerId": ACCOUNT,
                "CreationTime": fleet.start - timedelta(days=60),
                "FileSystemType": "LUSTRE",
                "Lifecycle": "AVAILABLE",
                "StorageCapacity": round(system.tib * 1000),
                "StorageType": "SSD",
                "LustreConfiguration": {
                    "DeploymentType": "PERSISTENT_2",
                    "PerUnitStorageThroughput": 250,
                },
                "Tags": tag_list(
                    {
                        "Name": f"{system.cluster.name}-data",
                        "team": system.cluster.team or "unknown",
                        "eks:cluster-name": system.cluster.name,
                    }
                ),
            }
            for system in file_systems(scenario, fleet)
            if system.cluster in clusters
        ]
    }


def eks_cluster(cluster: PlannedCluster, fleet: Fleet) -> dict[str, Any]:
    """Return one cluster."""
    group = identifier(fleet.seed, "sg-", cluster.name)
    return {
        "cluster": {
            "name": cluster.name,
            "arn": f"arn:aws:eks:{cluster.region}:{ACCOUNT}:cluster/{cluster.name}",
            "createdAt": fleet.at(-60 * 24 * 90),
            "version": _VERSION,
            "status": "ACTIVE",
            "resourcesVpcConfig": {"clusterSecurityGroupId": group},
        }
    }


def eks_node_group(cluster: PlannedCluster, name: str, fleet: Fleet) -> dict[str, Any]:
    """Return a cluster's node group."""
    scaled = f"eks-{name}-{identifier(fleet.seed, '', cluster.name, length=8)}"
    size = sum(job.nodes for job in cluster.jobs)
    return {
        "nodegroup": {
            "nodegroupName": name,
            "clusterName": cluster.name,
            "version": _VERSION,
            "status": "ACTIVE",
            "capacityType": "ON_DEMAND",
            "instanceTypes": [cluster.instance_type],
            "scalingConfig": {"minSize": 0, "maxSize": 256, "desiredSize": size},
            "resources": {"autoScalingGroups": [{"name": scaled}]},
        }
    }


def launches(nodes: Sequence[SimulatedNode], fleet: Fleet) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (a resource, CloudTrail's answer about it).

    One event for all nodes that were launched together.
    """
    role = "AWSReservedSSO_MachineLearning_0123456789abcdef"
    ordered = sorted(nodes, key=lambda n: (n.cluster.name, n.job.name, n.launched_minute, n.id))
    for _, alike in groupby(ordered, key=lambda n: (n.cluster.name, n.job.name, n.launched_minute)):
        together = list(alike)
        first = together[0]
        user = f"{first.cluster.owner or first.cluster.team or 'kim'}@example.com"

        # One call launches all nodes of a job, and its event names them all.
        record = {
            "eventName": "RunInstances",
            "userIdentity": {
                "type": "AssumedRole",
                "arn": f"arn:aws:sts::{ACCOUNT}:assumed-role/{role}/{user}",
                "sessionContext": {"sessionIssuer": {"type": "Role", "userName": role}},
            },
        }
        event = {
            "EventId": identifier(fleet.seed, "", "event", first.id),
            "EventName": "RunInstances",
            "EventSource": "ec2.amazonaws.com",
            "EventTime": fleet.at(first.launched_minute),
            "Username": user,
            "Resources": [
                {"ResourceType": "AWS::EC2::Instance", "ResourceName": node.id} for node in together
            ],
            "CloudTrailEvent": json.dumps(record),
        }
        yield first.id, {"Events": [event]}


def refusals(
    clusters: Sequence[PlannedCluster], fleet: Fleet
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (a minute, CloudTrail's answer about the launches that EC2 refused by then).

    The first names none: it was asked, and nothing had been refused.
    """
    refused = []
    for cluster in clusters:
        zone = fleet.of(cluster.name)[0].zone
        record = {
            "eventName": "RunInstances",
            "userIdentity": {"type": "AWSService", "invokedBy": "autoscaling.amazonaws.com"},
            "errorCode": "Server.InsufficientInstanceCapacity",
            "requestParameters": {"instanceType": cluster.instance_type, "availabilityZone": zone},
        }
        for at, hours, _ in cluster.waits:
            end = min(fleet.minutes, round((at + hours) * 60))
            for minute in range(round(at * 60), end, _TRIED_EVERY_MINUTES):
                event = {
                    "EventId": identifier(fleet.seed, "", "refused", cluster.name, minute),
                    "EventName": "RunInstances",
                    "EventSource": "ec2.amazonaws.com",
                    "EventTime": fleet.at(minute),
                    "Username": "AutoScaling",
                    "Resources": [],
                    "CloudTrailEvent": json.dumps(record),
                }
                refused.append((minute, event))

    for last in sorted({0, *(minute for minute, _ in refused)}):
        yield last, {"Events": [event for minute, event in refused if minute <= last]}
