"""The fleet of an invented account: hardware, clusters, instances, and one array a quantity.

Every quantity is an array (slots, steps) of five-minute means. A slot is a place for a node; the
instances that stand in it come and go. What a node shows while nobody uses it is the arrays'
first state; jobs paint over it, incidents over them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np

STEP = timedelta(minutes=5)
HOUR = 12
DAY = 24 * HOUR
FOREVER = 30 * DAY
"""Steps before the recording since when an old instance has run."""


@dataclass(frozen=True)
class Hardware:
    """Hold what a node of one type has, and what an hour of it costs (USD, listed 2026-07)."""

    usd_per_hour: float
    cores: int
    devices: int
    memory_gib: int
    interfaces: int = 0
    efa_bytes_per_second: float = 0


HARDWARE = {
    "trn1.2xlarge": Hardware(1.34375, 2, 1, 32),
    "trn1.32xlarge": Hardware(21.50, 32, 16, 512, 8, 100e9),
    "ml.trn1.32xlarge": Hardware(24.725, 32, 16, 512, 8, 100e9),
    "trn2.48xlarge": Hardware(35.76, 64, 16, 1536, 16, 400e9),
    "inf2.48xlarge": Hardware(12.98127, 24, 12, 384),
}


@dataclass
class Cluster:
    """Name a cluster and its place."""

    name: str
    region: str
    hyperpod: bool = False


@dataclass
class Group:
    """Hold the slots that one kind of work uses, and the steps in which incidents need it steady."""

    name: str
    cluster: Cluster
    slots: list[int]
    instance_type: str
    team: str
    tags: dict[str, str] = field(default_factory=dict)
    steady: list[tuple[int, int]] = field(default_factory=list)
    run: Run | None = None

    @property
    def hardware(self) -> Hardware:
        """Return what each of its nodes has."""
        return HARDWARE[self.instance_type]

    def is_free(self, start: int, end: int, margin: int = HOUR) -> bool:
        """Return whether nothing needs the group steady around [start, end)."""
        return all(end + margin <= a or b + margin <= start for a, b in self.steady)


@dataclass
class Instance:
    """Hold one instance in a slot, from its first step to the one after its last."""

    id: str
    slot: int
    group: Group
    start: int
    end: int
    node: str


@dataclass
class Pod:
    """Hold a pod on a node: the cores it was given, and how busy it keeps them (None = as the node)."""

    group: Group
    name: str
    slot: int
    start: int
    end: int
    cores: int
    utilization: np.ndarray | None = None


@dataclass
class Run:
    """Hold what a training run says of itself: its speed in each step (1 = as ever, nan = silent)."""

    name: str
    group: Group
    speed: np.ndarray
    steps_per_minute: float
    tokens_per_step: int
    checkpoint_every: int
    missed: list[tuple[int, int]] = field(default_factory=list)
    restarts: list[int] = field(default_factory=list)

    def checkpoints(self) -> list[int]:
        """Return the steps in which a checkpoint was finished."""
        done, age = [], 0
        for step, speed in enumerate(self.speed):
            age += 1
            allowed = not any(start <= step < end for start, end in self.missed)
            if age >= self.checkpoint_every and speed > 0 and allowed:
                done.append(step)
                age = 0
        return done


QUANTITIES = {
    "util": 0.0,  # percent, mean over cores
    "peak": np.nan,  # highest of any core; nan = mean and spread
    "floor": np.nan,
    "spread": 0.0,
    "tensors": 0.0,  # share of the device memory
    "code": 0.0,
    "latency": 0.0,  # seconds; 0 = nothing executes
    "efa": 0.0,  # share of the line rate
    "dropped": 0.0,  # packets a second
    "resent": 0.0,
    "cpu": 1.5,
    "host": 4.0,  # percent of the host's memory
    "reserved": 0.0,  # cores
    "errors": 0.0,  # within the step
    "ecc": 0.0,
}


@dataclass
class World:
    """Hold everything that happens, before it is written."""

    scenario: str
    seed: int
    start: datetime
    steps: int
    zone: str
    account: str
    rng: np.random.Generator
    slots: int
    groups: dict[str, Group] = field(default_factory=dict)
    instances: list[Instance] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    labels: list[dict] = field(default_factory=list)
    benign: list[dict] = field(default_factory=list)
    jumps: list[tuple[str, int, int, float]] = field(default_factory=list)
    block: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        shape = (self.slots, self.steps)
        self.signals = {
            name: np.full(shape, value, np.float32) for name, value in QUANTITIES.items()
        }
        self.alive = np.zeros(shape, bool)
        self.read = np.ones(shape, bool)

    def at(self, step: int) -> str:
        """Return the beginning of a step as text."""
        return f"{self.start + int(step) * STEP:%Y-%m-%dT%H:%M:%SZ}"

    def integer(self, low: int, high: int) -> int:
        """Draw a whole number from [low, high]."""
        return int(self.rng.integers(low, high + 1))

    def hexadecimal(self, digits: int) -> str:
        """Draw the end of an identity of AWS."""
        return "".join("0123456789abcdef"[i] for i in self.rng.integers(0, 16, digits))

    def launch(self, group: Group, slot: int, start: int, end: int) -> Instance:
        """Put a new instance into a slot for [start, end)."""
        identity = "i-0" + self.hexadecimal(16)
        address = ".".join(map(str, (10, *self.rng.integers(2, 250, 3))))
        node = f"ip-{address.replace('.', '-')}.{group.cluster.region}.compute.internal"
        if group.cluster.hyperpod:
            node = f"hyperpod-{identity}"
        instance = Instance(identity, slot, group, start, end, node)
        self.instances.append(instance)
        self.alive[slot, max(0, start) : max(0, end)] = True
        return instance

    def clear(self, slots: list[int], start: int, end: int) -> None:
        """Make nodes as nobody uses them; what they count of the hardware stays."""
        for name in self.signals.keys() - {"ecc", "reserved"}:
            self.signals[name][slots, start:end] = QUANTITIES[name]

    def noise(self, rows: int, columns: int, slowness: int = 6) -> np.ndarray:
        """Draw noise of variance one and less that wanders within about `slowness` steps."""
        knots = self.rng.standard_normal((rows, columns // slowness + 2))
        places = np.arange(columns) / slowness
        left = places.astype(int)
        weight = places - left
        return knots[:, left] * (1 - weight) + knots[:, left + 1] * weight

    def place(self, cluster: Cluster) -> dict[str, str]:
        """Return the labels of what happens in a cluster."""
        return {"account": self.account, "region": cluster.region, "cluster": cluster.name}

    def ids(self, slots: list[int], start: int, end: int) -> list[str]:
        """Return the instances that stood in some slots within [start, end)."""
        here = set(slots)
        return sorted(
            x.id for x in self.instances if x.slot in here and x.start < end and start < x.end
        )
