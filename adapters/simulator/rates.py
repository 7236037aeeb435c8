"""Read what a unit of usage costs: dated rows of `rates.csv`, each with its source; an instance's hour is in `hardware.csv`."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib import resources

from adapters.simulator.hardware import hardware
from adapters.simulator.offers import usage_prefix
from adapters.simulator.scenario import Cluster, Incident
from bot.model.anomaly import Cause


@dataclass(frozen=True)
class Rate:
    """State the USD of one unit of a usage type, named without its region."""

    usage_type: str
    product: str
    operation: str
    unit: str
    usd: Decimal


@dataclass(frozen=True)
class Usage:
    """Name what an incident of money shows up as in the bill."""

    product: str
    usage_type: str
    region: str
    rate: Decimal


@cache
def rates() -> dict[str, Rate]:
    """Return every rate by its usage type."""
    text = resources.files(__package__).joinpath("rates.csv").read_text(encoding="utf-8")
    return {row["usage_type"]: _parse(row) for row in csv.DictReader(text.splitlines())}


def usage_of(incident: Incident, cluster: Cluster) -> Usage | None:
    """Return the usage an incident adds to the bill, or None when it adds none."""
    if incident.cause not in _ADDED:
        return None
    name, elsewhere = _ADDED[incident.cause]
    region, name = elsewhere or cluster.region, name.format(cluster.instance_type)
    product, usd = _priced(name)
    return Usage(product, usage_prefix(region) + name, region, usd)


def _priced(usage_type: str) -> tuple[str, Decimal]:
    """Return the product and the USD a unit: of an instance's hour, else of the rate."""
    kind, _, instance_type = usage_type.partition(":")
    if kind in {"BoxUsage", "UnusedBox"}:
        return "AmazonEC2", hardware(instance_type).usd_per_hour
    rate = rates()[usage_type]
    return rate.product, rate.usd


def _parse(row: Mapping[str, str]) -> Rate:
    return Rate(row["usage_type"], row["product"], row["operation"], row["unit"], Decimal(row["usd"]))


_ADDED: Mapping[Cause, tuple[str, str]] = {
    Cause.SPEND_JUMP: ("Requests-Tier1", ""),
    Cause.SPEND_NEW: ("BoxUsage:p5.48xlarge", "eu-west-1"),
    Cause.TRANSFER_ROUTE: ("NatGateway-Bytes", ""),
    Cause.UNUSED_CAPACITY: ("UnusedBox:{}", ""),
}
"""Usage type ("{}" = the cluster's instance type) and region ("" = the cluster's)."""
