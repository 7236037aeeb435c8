"""Make AWS's offers, limits and prices, and the commitments that the account has."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from itertools import product
from typing import Any
from uuid import UUID

from adapters.simulator.fleet import (
    ACCOUNT,
    BLOCK_DAYS,
    Fleet,
    Hardware,
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
    """Return USD an hour committed by a Savings Plan, by instance type with covered nodes."""
    covered: Counter[str] = Counter()
    for cluster in scenario.clusters:
        for job in cluster.jobs:
            if job.market == "savings-plan":
                covered[cluster.instance_type] += job.nodes
    return {
        name: (savings_plan_rate(hardware(name)) * nodes * (1 + SPARE_COMMITMENT)).quantize(
            Decimal("0.001")
        )
        for name, nodes in covered.items()
    }


def savings_plan_rate(machine: Hardware) -> Decimal:
    """Return the USD of an hour that a Savings Plan covers."""
    return (machine.usd_per_hour * (1 - SAVINGS_PLAN_DISCOUNT)).quantize(Decimal("0.00001"))


def savings_plan_arn(instance_type: str, seed: int) -> str:
    """Return the plan's ARN."""
    name = identifier(seed, "", "sp", instance_type, length=12)
    return f"arn:aws:savingsplans::{ACCOUNT}:savingsplan/{name}"


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
_YEAR_SECONDS = 365 * 86_400


def savings_plan_rates(clusters: Sequence[PlannedCluster]) -> dict[str, Any]:
    """Return the rates of EC2 Instance Savings Plans for every type that is sold on demand."""
    rates = []
    for (name, region), ((years, payment), discount) in product(
        _on_demand(clusters), _DISCOUNTS.items()
    ):
        family, usd = hardware(name).family, hardware(name).usd_per_hour * (1 - discount)

        # Offers are AWS's, not the account's: no seed changes their ids.
        hexes = identifier(0, "", name, region, str((years, payment)), length=32)
        properties = {
            "region": region,
            "instanceType": name,
            "instanceFamily": family,
            "productDescription": "Linux/UNIX",
            "tenancy": "shared",
        }
        rates.append(
            {
                "savingsPlanOffering": {
                    "offeringId": str(UUID(hexes)),
                    "paymentOption": payment,
                    "planType": "EC2Instance",
                    "durationSeconds": years * _YEAR_SECONDS,
                    "currency": "USD",
                    "planDescription": f"{years} year {payment} {family} EC2 Instance Savings Plan"
                    f" in {region}",
                },
                "rate": str(usd.quantize(Decimal("0.00001"))),
                "unit": "Hrs",
                "productType": "EC2",
                "serviceCode": "AmazonEC2",
                "usageType": f"{usage_prefix(region)}BoxUsage:{name}",
                "operation": "RunInstances",
                "properties": [{"name": key, "value": value} for key, value in properties.items()],
            }
        )
    return {"searchResults": rates}


def _on_demand(clusters: Sequence[PlannedCluster]) -> list[tuple[str, str]]:
    """Return the types that are sold on demand, each with its region."""
    kinds = {(cluster.instance_type, cluster.region) for cluster in clusters}
    return sorted(kind for kind in kinds if hardware(kind[0]).market == "on-demand")


_PAID_FIRST = {
    "No Upfront": Decimal(0),
    "Partial Upfront": Decimal("0.5"),
    "All Upfront": Decimal(1),
}


def reserved_offerings(clusters: Sequence[PlannedCluster]) -> dict[str, Any]:
    """Return a region's standard reserved instances, at the same discounts."""
    offerings = []
    for (name, region), ((years, payment), discount) in product(
        _on_demand(clusters), _DISCOUNTS.items()
    ):
        hours = years * _YEAR_SECONDS // 3600
        usd = hardware(name).usd_per_hour * (1 - discount)
        first = (usd * hours * _PAID_FIRST[payment]).quantize(Decimal(1))

        place = ("ri", name, region, str((years, payment)))
        offerings.append(
            {
                "ReservedInstancesOfferingId": identifier(0, "", *place, length=32),
                "InstanceType": name,
                "InstanceTenancy": "default",
                "ProductDescription": "Linux/UNIX",
                "OfferingClass": "standard",
                "OfferingType": payment,
                "Scope": "Region",
                "Marketplace": False,
                "CurrencyCode": "USD",
                "Duration": years * _YEAR_SECONDS,
                "FixedPrice": float(first),
                "UsagePrice": 0.0,
                "RecurringCharges": [
                    {"Amount": float(round(usd - first / hours, 5)), "Frequency": "Hourly"}
                ],
            }
        )
    return {"ReservedInstancesOfferings": offerings}


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
    for (name, region), letter in product(_on_demand(clusters), "abc"):
        rng = generator(fleet.seed, "spot", name, region, letter)
        level = float(hardware(name).usd_per_hour) * SPOT_SHARE * rng.uniform(0.85, 1.2)
        for eighth in range(-60, fleet.minutes // 480):
            # Every eight hours the price takes a small step, at some minute of them.
            level *= float(rng.normal(1, 0.012))
            changed = fleet.at(eighth * 480 + int(rng.integers(0, 400)))
            if fleet.at(minute - 14 * 1440) <= changed <= fleet.at(minute):
                changes.append((changed, region + letter, name, level))
    changes.sort(key=lambda change: (-change[0].timestamp(), change[1], change[2]))
    return {
        "SpotPriceHistory": [
            {
                "AvailabilityZone": zone,
                "InstanceType": name,
                "ProductDescription": "Linux/UNIX",
                "SpotPrice": f"{price:.6f}",
                "Timestamp": changed,
            }
            for changed, zone, name, price in changes
        ]
    }


def capacity_block_offerings(fleet: Fleet, clusters: Sequence[PlannedCluster]) -> dict[str, Any]:
    """Return one offering for each type that is sold as Capacity Blocks."""
    begin = (fleet.start + timedelta(days=9)).replace(hour=11, minute=30, second=0, microsecond=0)
    return {
        "CapacityBlockOfferings": [
            {
                "CapacityBlockOfferingId": identifier(fleet.seed, "cbr-", name),
                "InstanceType": name,
                "AvailabilityZone": f"{clusters[0].region}c",
                "InstanceCount": 4,
                "StartDate": begin,
                "EndDate": begin + timedelta(days=14),
                "CapacityBlockDurationHours": 336,
                "UpfrontFee": str(hardware(name).usd_per_hour * 4 * 336),
                "CurrencyCode": "USD",
                "Tenancy": "default",
            }
            for name in sorted({cluster.instance_type for cluster in clusters})
            if hardware(name).market == "capacity-block"
        ]
    }


def price_list(clusters: Sequence[PlannedCluster]) -> dict[str, Any]:
    """Return the Price List's products.

    A type without on-demand price has only a Capacity Block term at $0.
    """
    products = []
    for name, region in sorted({(cluster.instance_type, cluster.region) for cluster in clusters}):
        # A type that is not sold on demand is listed all the same, for nothing.
        usd, option = hardware(name).usd_per_hour, "OnDemand"
        if hardware(name).market != "on-demand":
            usd, option = Decimal(0), "CapacityBlock"
        sku = identifier(0, "", name, region, length=16).upper()
        attributes = {
            "instanceType": name,
            "regionCode": region,
            "location": location(region),
            "operatingSystem": "Linux",
            "tenancy": "Shared",
            "preInstalledSw": "NA",
            "capacitystatus": "Used",
            "marketoption": option,
            "usagetype": f"{usage_prefix(region)}BoxUsage:{name}",
        }
        term = {
            "offerTermCode": "JRTCKXETXF",
            "sku": sku,
            "effectiveDate": "2026-09-01T00:00:00Z",
            "priceDimensions": {
                f"{sku}.JRTCKXETXF.6YS6EN2CT7": {
                    "unit": "Hrs",
                    "pricePerUnit": {"USD": f"{usd:.10f}"},
                    "beginRange": "0",
                    "endRange": "Inf",
                }
            },
        }
        listed = {
            "serviceCode": "AmazonEC2",
            "publicationDate": "2026-09-01T00:00:00Z",
            "product": {
                "productFamily": "Compute Instance",
                "sku": sku,
                "attributes": attributes,
            },
            "terms": {"OnDemand": {f"{sku}.JRTCKXETXF": term}},
        }
        products.append(json.dumps(listed))
    return {"FormatVersion": "aws_v1", "PriceList": products}


def service_quotas(nodes: Sequence[SimulatedNode], region: str) -> dict[str, Any]:
    """Return a region's vCPU quotas, some way above the running fleet."""
    quotas = []
    for row in rows_of("quotas"):
        vcpus = sum(
            node.hardware.vcpus
            for node in nodes
            if node.cluster.instance_type.startswith(row["family"])
            and node.market not in ("spot", "capacity-block")
        )
        roomy = round(vcpus * _QUOTA_ROOM[row["family"]] / 64) * 64
        quotas.append(
            {
                "ServiceCode": "ec2",
                "ServiceName": "Amazon Elastic Compute Cloud (Amazon EC2)",
                "QuotaArn": f"arn:aws:servicequotas:{region}:{ACCOUNT}:ec2/{row['code']}",
                "QuotaCode": row["code"],
                "QuotaName": row["name"],
                "Value": float(max(_LEAST_VCPUS, roomy)),
                "Unit": "None",
                "Adjustable": True,
                "GlobalQuota": False,
            }
        )
    return {"Quotas": quotas}


def describe_reservations(
    scenario: Scenario, fleet: Fleet, clusters: Sequence[PlannedCluster], minute: int
) -> dict[str, Any]:
    """Return the capacity reservations with their free instances at a minute."""
    reserved = [
        _reservation(cluster, cluster.reserved, fleet, minute)
        for cluster in clusters
        if cluster.reserved
    ]

    # A Capacity Block stands there too; its price is a fee of the bill.
    begin = billed_from(scenario, fleet)
    block = {
        "StartDate": begin,
        "EndDate": begin + timedelta(days=BLOCK_DAYS),
        "EndDateType": "limited",
        "ReservationType": "capacity-block",
    }
    reserved += [
        _reservation(cluster, len(nodes), fleet, minute) | block
        for cluster in clusters
        if (nodes := block_nodes(cluster, fleet))
    ]
    return {"CapacityReservations": reserved}


def _reservation(
    cluster: PlannedCluster, instances: int, fleet: Fleet, minute: int
) -> dict[str, Any]:
    running = sum(
        node.launched_minute <= minute and (node.ended_minute is None or minute < node.ended_minute)
        for node in fleet.of(cluster.name)
    )
    tags = {
        "Name": f"{cluster.name}-reserved",
        "team": cluster.team or "unknown",
        "eks:cluster-name": cluster.name,
    }
    return {
        "CapacityReservationId": reservation_id(cluster, fleet.seed),
        "OwnerId": ACCOUNT,
        "InstanceType": cluster.instance_type,
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": f"{cluster.region}b",
        "TotalInstanceCount": instances,
        "AvailableInstanceCount": max(0, instances - running),
        "State": "active",
        "StartDate": fleet.start - timedelta(days=20),
        "EndDateType": "unlimited",
        "ReservationType": "default",
        "Tags": tag_list(tags),
    }


def tag_list(tags: dict[str, str]) -> list[dict[str, str]]:
    """Return tags as EC2 lists them."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]
