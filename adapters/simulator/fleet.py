"""Lay out the simulated account: machines and their prices, nodes, volumes, file systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from hashlib import blake2b

from adapters.simulator.scenario import (
    FOREVER,
    PlannedCluster,
    PlannedIncident,
    PlannedJob,
    Scenario,
)
from bot.model.causes import Cause
from bot.model.codec import table

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
    """State the USD of one unit of a usage type, whatever its region."""

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
def rows_of(name: str) -> Sequence[Row]:
    """Return the rows of one CSV file."""
    return tuple(table(__package__, f"{name}.csv"))


@cache
def catalogue() -> Mapping[str, Hardware]:
    """Return every known instance type by name."""
    return {
        row["instance_type"]: Hardware(
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
        for row in rows_of("hardware")
    }


def hardware(instance_type: str) -> Hardware:
    """Return one type, by its name in a scenario."""
    return catalogue()[instance_type]


@cache
def rates() -> Mapping[str, Rate]:
    """Return every rate by its usage type."""
    return {
        row["usage_type"]: Rate(row["product"], row["operation"], row["unit"], Decimal(row["usd"]))
        for row in rows_of("rates")
    }


_ADDED: Mapping[Cause, tuple[str, str]] = {
    Cause.SPEND_JUMP: ("Requests-Tier1", ""),
    Cause.SPEND_NEW: ("BoxUsage:p5.48xlarge", "eu-west-1"),
    Cause.TRANSFER_ROUTE: ("NatGateway-Bytes", ""),
    Cause.UNUSED_CAPACITY: ("UnusedBox:{}", ""),
}
"""Usage type ("{}" = the cluster's instance type) and region ("" = the cluster's)."""


def usage_of(incident: PlannedIncident, cluster: PlannedCluster) -> BilledUsage | None:
    """Return the usage an incident adds to the bill, or None when it adds none."""
    if incident.cause not in _ADDED:
        return None
    name, elsewhere = _ADDED[incident.cause]
    region, name = elsewhere or cluster.region, name.format(cluster.instance_type)
    usage_type = usage_prefix(region) + name
    if name in rates():
        return BilledUsage(rates()[name].product, usage_type, region, rates()[name].usd)

    # Usage without a listed rate is an instance type's, at its hourly price.
    hourly = hardware(name.partition(":")[2]).usd_per_hour
    return BilledUsage("AmazonEC2", usage_type, region, hourly)


def usage_prefix(region: str) -> str:
    """Return the prefix of a region's usage types (none in us-east-1)."""
    return _regions().get(region, {"usage_prefix": f"{region.upper()}-"})["usage_prefix"]


def location(region: str) -> str:
    """Return the Price List's name of a region, its code where the name is not known."""
    return _regions().get(region, {"location": region})["location"]


@cache
def _regions() -> Mapping[str, Row]:
    return {row["region"]: row for row in rows_of("regions")}


ACCOUNT = "111122223333"
BLOCK_DAYS = 60
"""The invented account's Capacity Blocks last so long, from the first billed hour on."""
SPOT_WAIT_MINUTES = 6
"""From the loss of a spot node to the launch of the next."""


@dataclass(frozen=True)
class SimulatedNode:
    """State one EC2 instance.

    `row` is its place in the arrays of its job, minutes count from the recording's start.
    """

    id: str
    name: str
    cluster: PlannedCluster
    job: PlannedJob
    row: int
    zone: str
    market: str
    launched_minute: int
    ended_minute: int | None

    @property
    def hardware(self) -> Hardware:
        """Return the hardware of its instance type."""
        return hardware(self.cluster.instance_type)

    @property
    def tags(self) -> dict[str, str]:
        """Return its EC2 tags; empty values are left out."""
        tags = {
            "Name": f"{self.cluster.name}-{self.job.name}-{self.row}",
            "eks:cluster-name": self.cluster.name,
            "team": self.cluster.team,
            "project": self.cluster.project,
            "owner": self.cluster.owner,
        }
        return {key: value for key, value in tags.items() if value}

    @property
    def stops(self) -> bool:
        """Return whether its end is a planned stop, which EC2 keeps showing, no termination."""
        return self.row in dict(self.job.leaves)

    @property
    def pod(self) -> str:
        """Return the full name of the pod it runs."""
        return f"{self.job.name}-worker-{self.row}"


@dataclass(frozen=True)
class Fleet:
    """Hold every node of a recording that begins at `start` and lasts `minutes`."""

    start: datetime
    minutes: int
    seed: int
    nodes: tuple[SimulatedNode, ...]

    def of(self, cluster: str, job: str = "") -> tuple[SimulatedNode, ...]:
        """Return a cluster's nodes, or one job's."""
        return tuple(n for n in self.nodes if n.cluster.name == cluster and job in ("", n.job.name))

    def at(self, minute: float) -> datetime:
        """Return the time of a minute."""
        return self.start + timedelta(minutes=minute)


def identifier(seed: int, prefix: str, *names: object, length: int = 17) -> str:
    """Return an AWS-like id that depends on nothing but the seed and the names."""
    digest = blake2b(
        "/".join(map(str, (seed, prefix, *names))).encode(), digest_size=16
    ).hexdigest()
    return f"{prefix}{digest[:length]}"


def reservation_id(cluster: PlannedCluster, seed: int) -> str:
    """Return the id of a cluster's capacity reservation."""
    return identifier(seed, "cr-", cluster.name)


def billed_from(scenario: Scenario, fleet: Fleet) -> datetime:
    """Return the first billed hour."""
    return (fleet.start - timedelta(days=scenario.bill_days)).replace(
        minute=0, second=0, microsecond=0
    )


def block_nodes(cluster: PlannedCluster, fleet: Fleet) -> tuple[SimulatedNode, ...]:
    """Return the nodes of a cluster that run in its Capacity Block."""
    return tuple(node for node in fleet.of(cluster.name) if node.market == "capacity-block")


def build_fleet(scenario: Scenario, start: datetime, minutes: int, seed: int) -> Fleet:
    """Lay out every node; replaced spot nodes stand as further rows of their job."""
    nodes: list[SimulatedNode] = []
    for cluster in scenario.clusters:
        market = hardware(cluster.instance_type).market
        for job in cluster.jobs:
            joins, leaves, replaced = dict(job.joins), dict(job.leaves), dict(job.replaced)
            spans = [
                (joins.get(row, job.begins), leaves.get(row, replaced.get(row, job.ends)))
                for row in range(job.nodes)
            ]

            # A spot node that was lost comes back as another one, in a row of its own.
            spans += [(lost + SPOT_WAIT_MINUTES / 60, job.ends) for _, lost in job.replaced]

            for row, (begins, ends) in enumerate(spans):
                serial = len(nodes)
                letter = "bc"[row % 2] if cluster.scattered_zones else "b"
                address = f"10-{20 + serial // 250}-{serial // 16 % 16}-{serial % 16 + 10}"

                # Who was there from the start came weeks before, a few minutes after each other.
                launched = -60 * 24 * 40 - serial * 7
                if begins > -FOREVER:
                    launched = round(begins * 60)
                node = SimulatedNode(
                    id=identifier(seed, "i-", cluster.name, job.name, row),
                    name=f"ip-{address}.{cluster.region}.compute.internal",
                    cluster=cluster,
                    job=job,
                    row=row,
                    zone=cluster.region + letter,
                    market=job.market or market,
                    launched_minute=launched,
                    ended_minute=round(ends * 60) if ends * 60 < minutes else None,
                )
                nodes.append(node)
    return Fleet(start, minutes, seed, tuple(nodes))


@dataclass(frozen=True)
class FileSystemSpec:
    """Describe one FSx for Lustre file system; from `unused_from` (a minute) nobody mounts it."""

    id: str
    cluster: PlannedCluster
    tib: float
    unused_from: int | None = None
    unused_until: int | None = None


@dataclass(frozen=True)
class VolumeSpec:
    """Describe one data volume; `detached` is the minute since when it is attached to nothing."""

    id: str
    cluster: PlannedCluster
    gib: int
    instance: str
    detached: int | None = None


def file_systems(scenario: Scenario, fleet: Fleet) -> list[FileSystemSpec]:
    """Return each cluster's file system, and those that incidents orphan (`level` says the TiB)."""
    systems = [
        FileSystemSpec(
            identifier(fleet.seed, "fs-", cluster.name), cluster, cluster.file_system_tib
        )
        for cluster in scenario.clusters
        if cluster.file_system_tib
    ]
    for incident, cluster in _orphaning(scenario):
        if incident.level:
            name = identifier(fleet.seed, "fs-", cluster.name, "old")
            unused = round(incident.at * 60), round((incident.at + incident.hours) * 60)
            systems.append(FileSystemSpec(name, cluster, incident.level, *unused))
    return systems


def volumes(scenario: Scenario, fleet: Fleet) -> list[VolumeSpec]:
    """Return a data volume for a cluster's first two nodes, and two that each incident orphans."""
    specs = [
        VolumeSpec(identifier(fleet.seed, "vol-", node.id), node.cluster, 1000, node.id)
        for cluster in scenario.clusters
        for node in fleet.of(cluster.name)[:2]
        if node.launched_minute < 0 and node.ended_minute is None
    ]
    for incident, cluster in _orphaning(scenario):
        if not incident.level:
            names = [identifier(fleet.seed, "vol-", cluster.name, "old", i) for i in range(2)]
            since = round(incident.at * 60)
            specs += [VolumeSpec(name, cluster, 12_000, "", since) for name in names]
    return specs


def _orphaning(scenario: Scenario) -> list[tuple[PlannedIncident, PlannedCluster]]:
    """Return the incidents that leave storage behind, each with its cluster."""
    clusters = {cluster.name: cluster for cluster in scenario.clusters}
    return [
        (incident, clusters[incident.cluster])
        for incident in scenario.incidents
        if incident.cause is Cause.ORPHANED_STORAGE
    ]
