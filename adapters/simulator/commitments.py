"""Make the commitments of the invented account.

The Savings Plans that it has, and the ones that AWS offers it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from adapters.simulator.catalogue import Hardware, hardware, usage_prefix
from adapters.simulator.fleet import ACCOUNT, Fleet, identifier
from adapters.simulator.scenario import PlannedCluster, Scenario

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
