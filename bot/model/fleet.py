"""State the inventory as AWS reports it, and the provider's own words about capacity."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import Any

from bot.model.codec import by_key
from bot.model.labels import Labels


@dataclass(frozen=True)
class NodeGroup:
    """State one EKS managed node group; `groups` are the Auto Scaling groups that it is made of."""

    name: str
    status: str
    version: str
    instance_types: tuple[str, ...]
    desired: int
    groups: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    """The Kubernetes labels that it gives its nodes."""


@dataclass(frozen=True)
class Cluster:
    """State one EKS cluster; `labels` carry its name, region and account.

    `security_group` is on every managed node.
    """

    labels: Labels
    version: str
    status: str
    created_at: datetime | None
    security_group: str = ""
    node_groups: tuple[NodeGroup, ...] = ()

    @property
    def name(self) -> str:
        """Return the cluster's name."""
        return self.labels.cluster


_SERVES = re.compile(r"(?<![a-z])(serve|serving|infer|inference|endpoint)(?![a-z])", re.IGNORECASE)
"""Whole words: `service` and `parameter-server` name training as well."""


class LauncherKind(StrEnum):
    """Name the kinds of principal that launch resources."""

    PERSON = "person"
    """A user, or a session that carries a person's name: someone who may own the thing."""
    ROLE = "role"
    """A role that a program or an unnamed person assumed."""
    MACHINE = "machine"
    """Auto Scaling, an EKS node group, Karpenter: nobody to ask."""


@dataclass(frozen=True)
class Launcher:
    """State one launch; `name` is text from AWS's records, never an address."""

    name: str
    kind: LauncherKind
    event: str = ""
    """CloudTrail's name of the call, "" where a tag says it."""
    at: datetime | None = None

    def __str__(self) -> str:
        """Read as `dana`, `role ci-deploy` or `EKS node group trn-a`."""
        return f"role {self.name}" if self.kind is LauncherKind.ROLE else self.name

    @property
    def person(self) -> str:
        """Return the name of a person, "" where it was none."""
        return self.name if self.kind is LauncherKind.PERSON else ""


class Market(StrEnum):
    """Name how an hour is bought (FOCUS: pricing category; EC2: instance lifecycle)."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    CAPACITY_BLOCK = "capacity-block"
    RESERVED = "reserved"
    SAVINGS_PLAN = "savings-plan"

    @property
    def is_committed(self) -> bool:
        """Return whether an hour is billed whether anything runs in it or not."""
        return self in (Market.CAPACITY_BLOCK, Market.RESERVED, Market.SAVINGS_PLAN)


@dataclass(frozen=True)
class InstanceType:
    """State a type's dated specification; zero means "not known"."""

    name: str
    family: str
    accelerator: str
    chips: int
    cores: int
    """Cores as Neuron shows them by default (logical cores, LNC=2 on Trainium2).

    GPUs for GPU types.
    """
    accelerator_memory_gib: int
    host_memory_gib: int
    vcpus: int
    network_gbps: float
    bf16_tflops: float
    fp8_tflops: float
    source: str
    asof: date
    note: str = ""
    memory_tb_per_second: float = 0.0
    """Bandwidth of the node's whole accelerator memory."""
    sold_in: int = 1
    """Nodes that are bought together: four make an UltraServer of Trn2."""

    @property
    def has_neuron(self) -> bool:
        """Return whether the type's cores are NeuronCores."""
        return self.accelerator.startswith(("Trainium", "Inferentia"))


class InstanceTypes(Mapping[str, InstanceType]):
    """Find specifications by the name of a type; SageMaker sells the same hardware as `ml.` NAME."""

    def __init__(self, types: Iterable[InstanceType]) -> None:
        self._by_name = {kind.name: kind for kind in types}

    def __getitem__(self, name: str) -> InstanceType:
        """Return the specification of a type; raise `KeyError` for one that is not known."""
        return self._by_name[hardware_of(name)]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names that EC2 has."""
        return iter(self._by_name)

    def __len__(self) -> int:
        """Return how many types are known."""
        return len(self._by_name)

    def __repr__(self) -> str:
        """Return all that is known: what is kept on disk is named after it."""
        return f"InstanceTypes({list(self._by_name.values())})"


def hardware_of(instance_type: str) -> str:
    """Return EC2's name of the hardware of a type: that of `ml.trn2.48xlarge` is `trn2.48xlarge`."""
    return instance_type.removeprefix("ml.")


def is_neuron(instance_type: str) -> bool:
    """Return whether a type is of a Neuron family, known or not."""
    return hardware_of(instance_type).startswith(("trn", "inf"))


@dataclass(frozen=True)
class Instance:
    """State one EC2 instance as last described.

    `labels` carry cluster, team, job, type, zone, region, account.
    """

    labels: Labels
    launched_at: datetime
    state: str = "running"
    market: Market = Market.ON_DEMAND
    ended_at: datetime | None = None
    owner: str = ""
    project: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    launched_by: Launcher | None = None
    security_groups: tuple[str, ...] = ()
    node_group: str = ""
    node_labels: Mapping[str, str] = field(default_factory=dict)
    """The Kubernetes labels that its node group gives its node."""
    labelled_owner: str = ""
    """The owner whom those labels name."""
    reservation: str = ""
    """The Capacity Reservation or Capacity Block that it runs in, "" where none is named."""
    kept_warm: timedelta = timedelta()
    """How long its warm pool kept it, paid, after its training job; 0 where a job reused it."""

    @property
    def id(self) -> str:
        """Return the EC2 instance id."""
        return self.labels.instance

    @property
    def running(self) -> bool:
        """Return whether EC2 reports the instance as `running`."""
        return self.state == "running"


def serves(labels: Labels, instance: Instance | None) -> bool:
    """Return whether a node serves inference: by its family, or by a name or tag that says so."""
    if hardware_of(labels.instance_type).startswith("inf"):
        return True
    # No tag is made for it, but people call their services what they are.
    words = [labels.cluster, labels.namespace, labels.job, labels.team, labels.pod]
    if instance:
        words += [instance.project, *instance.tags.keys(), *instance.tags.values()]
    return any(_SERVES.search(word) for word in words if word)


@dataclass(frozen=True)
class Volume:
    """State one EBS volume; `labels.resource` is its id."""

    labels: Labels
    size_gib: int
    volume_type: str
    state: str
    created_at: datetime
    attached_to: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    launched_by: Launcher | None = None
    owner: str = ""
    detached_at: datetime | None = None
    """When it was first described as attached to nothing, after it was attached or unknown.

    None where nobody tells.
    """


@dataclass(frozen=True)
class FileSystem:
    """State one FSx for Lustre file system; `labels.resource` is its id."""

    labels: Labels
    storage_gib: int
    deployment: str
    throughput_mbps_per_tib: int
    created_at: datetime | None
    tags: Mapping[str, str] = field(default_factory=dict)
    launched_by: Launcher | None = None
    owner: str = ""
    throughput_mbps: int = 0
    """MB/s of the whole, where that is what is bought (Intelligent-Tiering)."""

    @property
    def provisioned(self) -> float | None:
        """Return the bytes a second that it is provisioned for, None where that is not known.

        AWS calls 1,200 GiB 1.2 TiB; a scratch file system has 200 MB/s of each (FSx for Lustre User
        Guide, SSD storage, 2026-11).
        """
        if self.throughput_mbps:
            return self.throughput_mbps * 1e6
        # A scratch system names no throughput: it is a property of its kind.
        per_tib = self.throughput_mbps_per_tib or (
            _SCRATCH_MBPS_PER_TIB if self.deployment.startswith("SCRATCH") else 0
        )
        return self.at(per_tib) or None

    def at(self, mbps_per_tib: int) -> float:
        """Return the bytes a second of its size at a throughput a TiB."""
        return self.storage_gib / 1000 * mbps_per_tib * 1e6

    @property
    def tiers(self) -> tuple[int, ...]:
        """Return the MB/s a TiB that it can be given, the least first; none where it cannot be."""
        return tuple(
            mbps for kind, mbps in _NETWORK_MBPS_PER_TIB if mbps and kind == self.deployment
        )

    @property
    def network(self) -> float | None:
        """Return the bytes a second that its network carries at most, None where AWS states none.

        Network throughput a TiB of SSD storage, the burst where there is one (FSx for Lustre User
        Guide, SSD storage, 2026-11).
        """
        per_tib = _NETWORK_MBPS_PER_TIB.get((self.deployment, self.throughput_mbps_per_tib))
        return (
            self.storage_gib / 1000 * per_tib * 1e6
            if per_tib and not self.throughput_mbps
            else None
        )


_SCRATCH_MBPS_PER_TIB = 200
_NETWORK_MBPS_PER_TIB = {
    ("SCRATCH_2", 0): 1_300,
    ("PERSISTENT_2", 125): 1_300,
    ("PERSISTENT_2", 250): 1_300,
    ("PERSISTENT_2", 500): 1_300,
    ("PERSISTENT_2", 1_000): 2_600,
}


@dataclass(frozen=True)
class Reservation:
    """State one On-Demand Capacity Reservation or Capacity Block; `labels.resource` is its id."""

    labels: Labels
    total: int
    available: int
    starts_at: datetime
    ends_at: datetime | None
    market: Market = Market.RESERVED
    launched_by: Launcher | None = None
    state: str = "active"
    tags: Mapping[str, str] = field(default_factory=dict)
    owner: str = ""
    bought_at: datetime | None = None

    @property
    def active(self) -> bool:
        """Return whether EC2 reports it as `active`.

        A Capacity Block is known before and after that as well.
        """
        return self.state == "active"


Stored = Volume | FileSystem | Reservation
"""What is no node, and is bought and tagged all the same."""


@dataclass(frozen=True)
class Quota:
    """State one EC2 quota in vCPU.

    Instance types count whose names begin with one of `families` (`trn`, `inf`, `p`).
    """

    name: str
    code: str
    labels: Labels
    """Account and region."""
    families: tuple[str, ...]
    market: Market
    """ON_DEMAND or SPOT. Capacity Blocks count against neither."""
    vcpus: float
    asof: datetime

    def counts(self, instance_type: str) -> bool:
        """Return whether a type's vCPUs count against the quota.

        `p` counts p4d and p5, `p5` counts p5en alone.
        """
        family = instance_type.partition(".")[0]
        # `p5en` begins with `p5` and with `p`; only one of the two names means its family.
        prefixes = (name for name in self.families if family.startswith(name))
        return any(
            family.removeprefix(name)[:1].isdigit() != name[-1].isdigit() for name in prefixes
        )


@dataclass(frozen=True)
class Inventory:
    """Hold everything described at or before `asof`."""

    asof: datetime | None = None
    instances: Mapping[str, Instance] = field(default_factory=dict)
    volumes: tuple[Volume, ...] = ()
    file_systems: tuple[FileSystem, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    """What holds capacity now."""
    blocks: tuple[Reservation, ...] = ()
    """Every Capacity Block that is known, before it starts and after it ended as well."""
    scheduled: tuple[Reservation, ...] = ()
    """Reservations on demand that begin on a day to come."""
    types: Mapping[str, InstanceType] = field(default_factory=dict)
    eks: tuple[Cluster, ...] = ()
    quotas: tuple[Quota, ...] = ()

    def launcher(self, thing: str) -> Launcher | None:
        """Return who launched a thing, None where nobody tells."""
        described = self.instances.get(thing) or self.resource(thing)
        return described.launched_by if described else None

    def resource(self, thing: str) -> Stored | None:
        """Return the volume, the file system or the reservation of an id, None for another."""
        return self._resources.get(thing)

    @cached_property
    def _resources(self) -> Mapping[str, Stored]:
        resources: tuple[Stored, ...] = (*self.reservations, *self.file_systems, *self.volumes)
        return {resource.labels.resource: resource for resource in resources}

    @cached_property
    def accelerated(self) -> Mapping[str, Instance]:
        """Return the running instances of a Neuron family, or of a type that is known."""
        kinds = {node.labels.instance_type for node in self.instances.values()}
        kinds = {kind for kind in kinds if is_neuron(kind) or kind in self.types}
        return {
            name: node
            for name, node in self.instances.items()
            if node.labels.instance_type in kinds and node.running
        }

    @cached_property
    def claims(self) -> dict[tuple[Labels, ...], Mapping[Labels, Any]]:
        """Hold the claims on the instances by the runs that were asked about last.

        An inventory is the same object while nothing changes, and each tick asks again.
        """
        return {}

    @property
    def running(self) -> frozenset[str]:
        """Return the ids of the instances that run."""
        return frozenset(name for name, instance in self.instances.items() if instance.running)

    def clusters(self) -> tuple[str, ...]:
        """Return the clusters that have instances, sorted; "" stands for instances outside any."""
        return tuple(sorted({instance.labels.cluster for instance in self.instances.values()}))


MOMENT = timedelta(hours=1)
"""What comes so soon after its notice is no appointment: nobody plans for it."""


class NoticeKind(StrEnum):
    """Name the kinds of notice, the most pressing first."""

    INTERRUPTION = "interruption"
    """Spot capacity, or an interruptible reservation, is taken back within two minutes."""
    BLOCK_END = "end of the Capacity Block"
    REBALANCE = "rebalance recommendation"
    RETIREMENT = "retirement"
    MAINTENANCE = "scheduled maintenance"
    HEALTH = "AWS Health event"

    @property
    def rank(self) -> int:
        """Return its place among the kinds: 0 is the most pressing."""
        return list(NoticeKind).index(self)


@dataclass(frozen=True)
class Notice:
    """State that the provider told of nodes: they will be taken away, or their hardware needs work.

    One event that is delivered twice has one `id`; what several events are about has one `subject`.
    """

    id: str
    kind: NoticeKind
    at: datetime
    """When the provider said it, however late it was delivered."""
    labels: Labels
    """Account and region."""
    instances: tuple[str, ...] = ()
    reservation: str = ""
    """The reservation whose instances it is about, "" where it names instances."""
    due: datetime | None = None
    """When it happens, None where nobody tells."""
    subject: str = ""
    """What a planned event is called by the provider, "" where each notice stands for itself."""
    what: str = ""
    """The provider's own word for it: `terminate`, `AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED`."""
    over: bool = False
    """The provider took it back, or calls it done."""

    @property
    def planned(self) -> bool:
        """Return whether it happens so long after the notice that people can plan for it."""
        return self.due is not None and self.due - self.at > MOMENT


@dataclass(frozen=True)
class Refusal:
    """State that the provider had no capacity for one request to launch."""

    id: str
    at: datetime
    labels: Labels
    """Account, region, zone and instance type, as far as the request names them."""
    spot: bool = False
    by: str = ""
    """The call that was refused: `RunInstances`."""


@dataclass(frozen=True)
class Scarcity:
    """Count the requests of one type in one zone that were refused for lack of capacity."""

    instance_type: str
    zone: str
    """The zone, else the region."""
    refused: int
    spot: int
    """Of them on spot."""
    first: datetime
    newest: datetime


def scarcities(refusals: Iterable[Refusal], instance_type: str = "") -> tuple[Scarcity, ...]:
    """Count the refusals of a type, "" for every type, by zone, the zone refused most first."""
    by_place = by_key(
        ((refusal.labels.instance_type, refusal.labels.zone or refusal.labels.region), refusal)
        for refusal in refusals
        if instance_type in ("", refusal.labels.instance_type)
    )
    counts = [
        Scarcity(
            *place,
            len(refused),
            sum(r.spot for r in refused),
            min(r.at for r in refused),
            max(r.at for r in refused),
        )
        for place, refused in by_place.items()
    ]
    return tuple(sorted(counts, key=lambda x: (-x.refused, x.instance_type, x.zone)))
