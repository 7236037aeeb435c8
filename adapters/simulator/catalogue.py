"""Read AWS's hardware, list prices, regions, quotas and services.

Dated rows of CSV files, each with its source.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib import resources

from adapters.simulator.scenario import PlannedCluster, PlannedIncident
from bot.errors import WrongInput, nearest
from bot.model.causes import Cause

Row = Mapping[str, str]


@dataclass(frozen=True)
class Hardware:
    """State one instance type; `cores` as Neuron shows them by default (GPUs for GPU types)."""

    instance_type: str
    accelerator: str
    devices: int
    cores: int
    device_memory_bytes: float
    vcpus: int
    host_memory_gib: int
    nic_bytes_per_second: float
    efa_interfaces: int
    usd_per_hour: Decimal
    market: str

    @property
    def family(self) -> str:
        """Return the part before the dot."""
        return self.instance_type.partition(".")[0]


@dataclass(frozen=True)
class Rate:
    """State the USD of one unit of a usage type, named without its region."""

    usage_type: str
    product: str
    operation: str
    unit: str
    usd: Decimal


@dataclass(frozen=True)
class BilledUsage:
    """State the usage that an incident of money adds to the bill."""

    product: str
    usage_type: str
    region: str
    rate: Decimal


@cache
def rows_of(table: str) -> Sequence[Row]:
    """Return the rows of one CSV file."""
    text = resources.files(__package__).joinpath(f"{table}.csv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))


@cache
def catalogue() -> Mapping[str, Hardware]:
    """Return every known instance type by name."""
    return {row["instance_type"]: _hardware_of(row) for row in rows_of("hardware")}


def hardware(instance_type: str) -> Hardware:
    """Return one type; raise `WrongInput` with the nearest known name."""
    if instance_type not in catalogue():
        raise WrongInput(
            f"The simulator has no '{instance_type}'{nearest(instance_type, catalogue())}."
        )
    return catalogue()[instance_type]


@cache
def rates() -> Mapping[str, Rate]:
    """Return every rate by its usage type."""
    return {row["usage_type"]: _rate_of(row) for row in rows_of("rates")}


def usage_of(incident: PlannedIncident, cluster: PlannedCluster) -> BilledUsage | None:
    """Return the usage an incident adds to the bill, or None when it adds none."""
    if incident.cause not in _ADDED:
        return None
    name, elsewhere = _ADDED[incident.cause]
    region, name = elsewhere or cluster.region, name.format(cluster.instance_type)
    product, usd = _priced(name)
    return BilledUsage(product, usage_prefix(region) + name, region, usd)


def usage_prefix(region: str) -> str:
    """Return the prefix of a region's usage types (none in us-east-1)."""
    row = _region(region)
    return row["usage_prefix"] if row else f"{region.upper()}-"


def location(region: str) -> str:
    """Return the Price List's name of a region, its code where the name is not known."""
    row = _region(region)
    return row["location"] if row else region


def _region(region: str) -> Row | None:
    return next((row for row in rows_of("regions") if row["region"] == region), None)


def _priced(usage_type: str) -> tuple[str, Decimal]:
    """Return the product and the USD a unit: of an instance's hour, else of the rate."""
    kind, _, instance_type = usage_type.partition(":")
    if kind in {"BoxUsage", "UnusedBox"}:
        return "AmazonEC2", hardware(instance_type).usd_per_hour
    rate = rates()[usage_type]
    return rate.product, rate.usd


def _hardware_of(row: Row) -> Hardware:
    return Hardware(
        instance_type=row["instance_type"],
        accelerator=row["accelerator"],
        devices=int(row["devices"]),
        cores=int(row["cores"]),
        device_memory_bytes=int(row["device_memory_gib"]) * 2.0**30,
        vcpus=int(row["vcpus"]),
        host_memory_gib=int(row["host_memory_gib"]),
        nic_bytes_per_second=float(row["nic_gbps"]) * 1e9 / 8,
        efa_interfaces=int(row["efa_interfaces"]),
        usd_per_hour=Decimal(row["usd_per_hour"]),
        market=row["market"],
    )


def _rate_of(row: Row) -> Rate:
    return Rate(
        row["usage_type"], row["product"], row["operation"], row["unit"], Decimal(row["usd"])
    )


_ADDED: Mapping[Cause, tuple[str, str]] = {
    Cause.SPEND_JUMP: ("Requests-Tier1", ""),
    Cause.SPEND_NEW: ("BoxUsage:p5.48xlarge", "eu-west-1"),
    Cause.TRANSFER_ROUTE: ("NatGateway-Bytes", ""),
    Cause.UNUSED_CAPACITY: ("UnusedBox:{}", ""),
}
"""Usage type ("{}" = the cluster's instance type) and region ("" = the cluster's)."""
