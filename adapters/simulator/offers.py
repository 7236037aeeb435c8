"""Make AWS's offers and the account's commitments: Savings Plans, spot prices, Capacity Blocks, the Price List, quotas."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from math import inf
from typing import Any

from adapters.simulator.fleet import (
    ACCOUNT,
    BLOCK_DAYS,
    Fleet,
    Hardware,
    Row,
    SimulatedNode,
    billed_from,
    block_nodes,
    hardware,
    identifier,
    location,
    reservation_id,
    rows_of,
    usage_prefix,
)
from adapters.simulator.scenario import PlannedCluster, Scenario
from adapters.simulator.workload import generator

# The shares are the invented account's own: AWS states a Savings Plan's rate for each type.
SAVINGS_PLAN_DISCOUNT = Decimal("0.37")
SPARE_COMMITMENT = Decimal("0.04")
"""Share of the commitment that even a good month leaves unused."""


def commitments(scenario: Scenario) -> dict[str, Decimal]:
    """Return USD an hour committed by a Savings Plan for each instance type that has covered nodes."""
    hourly: dict[str, Decimal] = {}
    for cluster in scenario.clusters:
        for job in cluster.jobs:
            if job.market == "savings-plan":
                each = savings_plan_rate(hardware(cluster.instance_type))
                hourly[cluster.instance_type] = (
                    hourly.get(cluster.instance_type, Decimal(0)) + each * job.nodes
                )
    return {
        name: (usd * (1 + SPARE_COMMITMENT)).quantize(Decimal("0.001"))
        for name, usd in hourly.items()
    }


def savings_plan_rate(machine: Hardware) -> Decimal:
    """Return the USD of an hour that a Savings Plan covers."""
    return (machine.usd_per_hour * (1 - SAVINGS_PLAN_DISCOUNT)).quantize(Decimal("0.00001"))


def savings_plan_arn(instance_type: str, seed: int) -> str:
    """Return the plan's ARN."""
    return f"arn:aws:savingsplans::{ACCOUNT}:savingsplan/{identifier(seed, '', 'sp', instance_type, length=12)}"


_DISCOUNTS = {
    (1, "No Upfront"): SAVINGS_PLAN_DISCOUNT,
    (1, "Partial Upfront"): Decimal("0.39"),
    (1, "All Upfront"): Decimal("0.40"),
    (3, "No Upfront"): Decimal("0.54"),
    (3, "Partial Upfront"): Decimal("0.56"),
    (3, "All Upfront"): Decimal("0.57"),
}
"""What a commitment takes off the on-demand price by years and payment.

The invented account's own too.
"""
_YEAR = timedelta(days=365)


def savings_plan_rates(clusters: Sequence[PlannedCluster]) -> dict[str, Any]:
    """Return the rates of EC2 Instance Savings Plans for every type that is sold on demand."""
    return {
        "searchResults": [
            _plan_rate(*kind, *of) for kind in _kinds(clusters) for of in _DISCOUNTS.items()
        ]
    }


def _kinds(clusters: Sequence[PlannedCluster]) -> list[tuple[str, str]]:
    """Return the types that can be committed to, each with its region."""
    kinds = {(cluster.instance_type, cluster.region) for cluster in clusters}
    return sorted((name, region) for name, region in kinds if hardware(name).market == "on-demand")


def _plan_rate(name: str, region: str, term: tuple[int, str], discount: Decimal) -> dict[str, Any]:
    properties = {"region": region, "instanceType": name, "instanceFamily": hardware(name).family}
    properties |= {"productDescription": "Linux/UNIX", "tenancy": "shared"}
    hexes = identifier(0, "", name, region, str(term), length=32)
    return {
        "savingsPlanOffering": {
            "offeringId": "-".join(
                (hexes[:8], hexes[8:12], hexes[12:16], hexes[16:20], hexes[20:])
            ),
            "paymentOption": term[1],
            "planType": "EC2Instance",
            "durationSeconds": term[0] * int(_YEAR.total_seconds()),
            "currency": "USD",
            "planDescription": f"{term[0]} year {term[1]} {hardware(name).family} EC2 Instance Savings Plan in {region}",
        },
        "rate": str((hardware(name).usd_per_hour * (1 - discount)).quantize(Decimal("0.00001"))),
        "unit": "Hrs",
        "productType": "EC2",
        "serviceCode": "AmazonEC2",
        "usageType": f"{usage_prefix(region)}BoxUsage:{name}",
        "operation": "RunInstances",
        "properties": [{"name": key, "value": value} for key, value in properties.items()],
    }


def reserved_offerings(clusters: Sequence[PlannedCluster]) -> dict[str, Any]:
    """Return a region's standard reserved instances, at the same discounts."""
    kinds = _kinds(clusters)
    return {
        "ReservedInstancesOfferings": [
            _reserved_offering(*kind, *of) for kind in kinds for of in _DISCOUNTS.items()
        ]
    }


_PAID_FIRST = {
    "No Upfront": Decimal(0),
    "Partial Upfront": Decimal("0.5"),
    "All Upfront": Decimal(1),
}


def _reserved_offering(
    name: str, region: str, term: tuple[int, str], discount: Decimal
) -> dict[str, Any]:
    hours = term[0] * int(_YEAR.total_seconds()) // 3600
    usd = hardware(name).usd_per_hour * (1 - discount)
    first = (usd * hours * _PAID_FIRST[term[1]]).quantize(Decimal(1))
    return {
        "ReservedInstancesOfferingId": identifier(0, "", "ri", name, region, str(term), length=32),
        "InstanceType": name,
        "InstanceTenancy": "default",
        "ProductDescription": "Linux/UNIX",
        "OfferingClass": "standard",
        "OfferingType": term[1],
        "Scope": "Region",
        "Marketplace": False,
        "CurrencyCode": "USD",
        "Duration": term[0] * int(_YEAR.total_seconds()),
        "FixedPrice": float(first),
        "UsagePrice": 0.0,
        "RecurringCharges": [
            {"Amount": float(round(usd - first / hours, 5)), "Frequency": "Hourly"}
        ],
    }


def savings_plans(scenario: Scenario, fleet: Fleet) -> dict[str, Any]:
    """Return the Savings Plans in force."""
    return {
        "savingsPlans": [
            {
                "savingsPlanId": savings_plan_arn(name, fleet.seed).rpartition("/")[2],
                "savingsPlanArn": savings_plan_arn(name, fleet.seed),
                "start": f"{fleet.start - timedelta(days=90):%Y-%m-%dT%H:%M:%S.000Z}",
                "end": f"{fleet.start + timedelta(days=275):%Y-%m-%dT%H:%M:%S.000Z}",
                "state": "active",
                "ec2InstanceFamily": hardware(name).family,
                "savingsPlanType": "EC2Instance",
                "paymentOption": "No Upfront",
                "commitment": str(hourly),
                "currency": "USD",
                "termDurationInSeconds": 31_536_000,
            }
            for name, hourly in commitments(scenario).items()
        ]
    }


SPOT_SHARE = 0.31
"""Of the on-demand price, on average: the invented account's own, as spot prices move."""
_QUOTA_ROOM = {"trn": 1.25, "inf": 2.0, "p": 1.5}
"""How many times the running vCPUs the invented account's quotas allow, by family."""
_LEAST_VCPUS = 256


def spot_history(fleet: Fleet, clusters: Sequence[PlannedCluster], minute: int) -> dict[str, Any]:
    """Return 14 days of spot price changes before a minute, by zone; newest first as EC2 does."""
    changes = []
    for name, region in sorted({(cluster.instance_type, cluster.region) for cluster in clusters}):
        if hardware(name).market != "on-demand":
            continue
        for zone in "abc":
            rng = generator(fleet.seed, "spot", name, region, zone)
            level = float(hardware(name).usd_per_hour) * SPOT_SHARE * rng.uniform(0.85, 1.2)
            for eighth in range(-60, fleet.minutes // 480):
                level *= float(rng.normal(1, 0.012))
                at = fleet.at(eighth * 480 + int(rng.integers(0, 400)))
                if fleet.at(minute - 14 * 1440) <= at <= fleet.at(minute):
                    changes.append((at, region + zone, name, level))
    return {
        "SpotPriceHistory": [
            {
                "AvailabilityZone": zone,
                "InstanceType": name,
                "ProductDescription": "Linux/UNIX",
                "SpotPrice": f"{price:.6f}",
                "Timestamp": at,
            }
            for at, zone, name, price in sorted(
                changes, key=lambda x: (-x[0].timestamp(), x[1], x[2])
            )
        ]
    }


def capacity_block_offerings(fleet: Fleet, clusters: Sequence[PlannedCluster]) -> dict[str, Any]:
    """Return one offering for each type that is sold as Capacity Blocks."""
    names = sorted(
        {
            cluster.instance_type
            for cluster in clusters
            if hardware(cluster.instance_type).market == "capacity-block"
        }
    )
    return {
        "CapacityBlockOfferings": [_offering(name, clusters[0].region, fleet) for name in names]
    }


def _offering(name: str, region: str, fleet: Fleet) -> dict[str, Any]:
    begin = (fleet.start + timedelta(days=9)).replace(hour=11, minute=30, second=0, microsecond=0)
    return {
        "CapacityBlockOfferingId": identifier(fleet.seed, "cbr-", name),
        "InstanceType": name,
        "AvailabilityZone": f"{region}c",
        "InstanceCount": 4,
        "StartDate": begin,
        "EndDate": begin + timedelta(days=14),
        "CapacityBlockDurationHours": 336,
        "UpfrontFee": str(hardware(name).usd_per_hour * 4 * 336),
        "CurrencyCode": "USD",
        "Tenancy": "default",
    }


def price_list(clusters: Sequence[PlannedCluster]) -> dict[str, Any]:
    """Return the Price List's products.

    A type without on-demand price has only a Capacity Block term at $0.
    """
    kinds = sorted({(cluster.instance_type, cluster.region) for cluster in clusters})
    return {
        "FormatVersion": "aws_v1",
        "PriceList": [json.dumps(_product(name, region)) for name, region in kinds],
    }


def _product(name: str, region: str) -> dict[str, Any]:
    machine = hardware(name)
    listed = machine.market == "on-demand"
    sku = identifier(0, "", name, region, length=16).upper()
    usd = machine.usd_per_hour if listed else Decimal("0.0000000000")
    rate = {
        "unit": "Hrs",
        "pricePerUnit": {"USD": f"{usd:.10f}"},
        "beginRange": "0",
        "endRange": "Inf",
    }
    term = {"offerTermCode": "JRTCKXETXF", "sku": sku, "effectiveDate": "2026-09-01T00:00:00Z"}
    return {
        "serviceCode": "AmazonEC2",
        "publicationDate": "2026-09-01T00:00:00Z",
        "product": {
            "productFamily": "Compute Instance",
            "sku": sku,
            "attributes": {
                "instanceType": name,
                "regionCode": region,
                "location": location(region),
                "operatingSystem": "Linux",
                "tenancy": "Shared",
                "preInstalledSw": "NA",
                "capacitystatus": "Used",
                "marketoption": "OnDemand" if listed else "CapacityBlock",
                "usagetype": f"{usage_prefix(region)}BoxUsage:{name}",
            },
        },
        "terms": {
            "OnDemand": {
                f"{sku}.JRTCKXETXF": term
                | {"priceDimensions": {f"{sku}.JRTCKXETXF.6YS6EN2CT7": rate}}
            }
        },
    }


def service_quotas(nodes: Sequence[SimulatedNode], region: str) -> dict[str, Any]:
    """Return a region's vCPU quotas, some way above the running fleet."""
    return {"Quotas": [_quota(row, nodes, region) for row in rows_of("quotas")]}


def _quota(row: Row, nodes: Sequence[SimulatedNode], region: str) -> dict[str, Any]:
    family = row["family"]
    counted = (
        n
        for n in nodes
        if n.cluster.instance_type.startswith(family) and n.market not in ("spot", "capacity-block")
    )
    vcpus = sum(n.hardware.vcpus for n in counted)
    return {
        "ServiceCode": "ec2",
        "ServiceName": "Amazon Elastic Compute Cloud (Amazon EC2)",
        "QuotaArn": f"arn:aws:servicequotas:{region}:{ACCOUNT}:ec2/{row['code']}",
        "QuotaCode": row["code"],
        "QuotaName": row["name"],
        "Value": float(max(_LEAST_VCPUS, round(vcpus * _QUOTA_ROOM[family] / 64) * 64)),
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": False,
    }


def describe_reservations(
    scenario: Scenario, fleet: Fleet, clusters: Sequence[PlannedCluster], minute: int
) -> dict[str, Any]:
    """Return the capacity reservations with their free instances at a minute."""
    held = [_reservation(cluster, fleet, minute) for cluster in clusters if cluster.reserved]
    begin = billed_from(scenario, fleet)
    blocks = [
        _block(cluster, begin, fleet, minute) for cluster in clusters if block_nodes(cluster, fleet)
    ]
    return {"CapacityReservations": held + blocks}


def _block(cluster: PlannedCluster, begin: datetime, fleet: Fleet, minute: int) -> dict[str, Any]:
    """Return the Capacity Block that a cluster's nodes run in; its price is a fee of the bill."""
    nodes = block_nodes(cluster, fleet)
    reserved = _reservation(replace(cluster, reserved=len(nodes)), fleet, minute)
    return reserved | {
        "StartDate": begin,
        "EndDate": begin + timedelta(days=BLOCK_DAYS),
        "EndDateType": "limited",
        "ReservationType": "capacity-block",
    }


def _reservation(cluster: PlannedCluster, fleet: Fleet, minute: int) -> dict[str, Any]:
    running = [
        n
        for n in fleet.of(cluster.name)
        if n.launched_minute <= minute < (inf if n.ended_minute is None else n.ended_minute)
    ]
    return {
        "CapacityReservationId": reservation_id(cluster, fleet.seed),
        "OwnerId": ACCOUNT,
        "InstanceType": cluster.instance_type,
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": f"{cluster.region}b",
        "TotalInstanceCount": cluster.reserved,
        "AvailableInstanceCount": max(0, cluster.reserved - len(running)),
        "State": "active",
        "StartDate": fleet.start - timedelta(days=20),
        "EndDateType": "unlimited",
        "ReservationType": "default",
        "Tags": tag_list(
            {
                "Name": f"{cluster.name}-reserved",
                "team": cluster.team or "unknown",
                "eks:cluster-name": cluster.name,
            }
        ),
    }


def tag_list(tags: dict[str, str]) -> list[dict[str, str]]:
    """Return tags as EC2 lists them."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]
