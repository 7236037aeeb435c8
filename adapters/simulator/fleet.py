"""Lay out the simulated account: what its machines are and cost, its nodes, volumes and file systems."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from hashlib import blake2b
from importlib import resources

from adapters.simulator.scenario import (
    FOREVER,
    PlannedCluster,
    PlannedIncident,
    PlannedJob,
    Scenario,
)
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
    serial: int

    @property
    def hardware(self) -> Hardware:
        """Return the hardware of its instance type."""
        return hardware(self.cluster.instance_type)

    @property
    def tags(self) -> dict[str, str]:
        """Return its EC2 tags; empty values are left out."""
        every = {
            "Name": f"{self.cluster.name}-{self.job.name}-{self.row}",
            "eks:cluster-name": self.cluster.name,
            "team": self.cluster.team,
            "project": self.cluster.project,
            "owner": self.cluster.owner,
        }
        return {key: value for key, value in every.items() if value}

    @property
    def stops(self) -> bool:
        """Return whether its end is a planned stop, which EC2 keeps showing, and not a termination."""
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
        for job in cluster.jobs:
            nodes += _Launches(cluster, job, minutes, seed, len(nodes)).nodes()
    return Fleet(start, minutes, seed, tuple(nodes))


def rows(job: PlannedJob) -> int:
    """Return how many rows the arrays of a job have."""
    return job.nodes + len(job.replaced)


@dataclass(frozen=True)
class _Launches:
    """Launch the nodes of one job; `before` is how many nodes the fleet has already."""

    cluster: PlannedCluster
    job: PlannedJob
    minutes: int
    seed: int
    before: int

    def nodes(self) -> list[SimulatedNode]:
        """Return the job's nodes, then those that replace lost spot nodes."""
        job = self.job
        joins, leaves, replaced = dict(job.joins), dict(job.leaves), dict(job.replaced)
        planned = [
            self._node(
                row, joins.get(row, job.begins), leaves.get(row, replaced.get(row, job.ends))
            )
            for row in range(job.nodes)
        ]
        later = [
            self._node(job.nodes + i, at + SPOT_WAIT_MINUTES / 60, job.ends)
            for i, (_, at) in enumerate(job.replaced)
        ]
        return planned + later

    def _node(self, row: int, begins: float, ends: float) -> SimulatedNode:
        cluster, job, serial = self.cluster, self.job, self.before + row
        launched = begins > -FOREVER
        return SimulatedNode(
            id=identifier(self.seed, "i-", cluster.name, job.name, row),
            name=f"ip-10-{20 + serial // 250}-{serial // 16 % 16}-{serial % 16 + 10}.{cluster.region}.compute.internal",
            cluster=cluster,
            job=job,
            row=row,
            zone=cluster.region + ("bc"[row % 2] if cluster.scattered_zones else "b"),
            market=job.market or hardware(cluster.instance_type).market,
            launched_minute=round(begins * 60) if launched else -60 * 24 * 40 - serial * 7,
            ended_minute=round(ends * 60) if ends * 60 < self.minutes else None,
            serial=serial,
        )


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


def orphans(scenario: Scenario) -> list[PlannedIncident]:
    """Return the incidents that leave storage behind."""
    return [incident for incident in scenario.incidents if incident.cause is Cause.ORPHANED_STORAGE]


def file_systems(scenario: Scenario, fleet: Fleet) -> list[FileSystemSpec]:
    """Return each cluster's file system, and those that incidents orphan (`level` >= 1 TiB says one is)."""
    own = [
        FileSystemSpec(
            identifier(fleet.seed, "fs-", cluster.name), cluster, cluster.file_system_tib
        )
        for cluster in scenario.clusters
        if cluster.file_system_tib
    ]
    by_name = {cluster.name: cluster for cluster in scenario.clusters}
    left = [
        FileSystemSpec(
            identifier(fleet.seed, "fs-", incident.cluster, "old"),
            by_name[incident.cluster],
            incident.level,
            round(incident.at * 60),
            round((incident.at + incident.hours) * 60),
        )
        for incident in orphans(scenario)
        if incident.level
    ]
    return own + left


def volumes(scenario: Scenario, fleet: Fleet) -> list[VolumeSpec]:
    """Return a data volume for each cluster's first two nodes, and two of 4,000 GiB that each orphaning incident leaves."""
    attached = [
        VolumeSpec(identifier(fleet.seed, "vol-", node.id), node.cluster, 1000, node.id)
        for cluster in scenario.clusters
        for node in fleet.of(cluster.name)[:2]
        if node.launched_minute < 0 and node.ended_minute is None
    ]
    by_name = {cluster.name: cluster for cluster in scenario.clusters}
    orphaned = [
        VolumeSpec(
            identifier(fleet.seed, "vol-", incident.cluster, "old", i),
            by_name[incident.cluster],
            12_000,
            "",
            round(incident.at * 60),
        )
        for incident in orphans(scenario)
        if not incident.level
        for i in range(2)
    ]
    return attached + orphaned
