"""Describe a simulation: clusters, their jobs, and planned incidents; `scenarios.yaml` has some.

All times are hours from the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from importlib import resources
from typing import Any

import yaml

from bot.errors import find_named
from bot.model.causes import Cause
from bot.model.codec import decode

FOREVER = 1e9


class Kind(StrEnum):
    """Name how a job loads its nodes."""

    TRAINING = "training"
    INFERENCE = "inference"
    RESEARCH = "research"
    """Single-node runs that come and go."""
    NOTHING = "nothing"
    """Nodes without any pod."""


@dataclass(frozen=True)
class PlannedJob:
    """Describe one workload on `nodes` nodes of its own; `usual` is its mean utilization, 0..1."""

    name: str
    nodes: int
    kind: Kind = Kind.TRAINING
    usual: float = 0.90
    memory: float = 0.78
    """Share of the device memory in use."""
    efa: float = 0.32
    """Share of the NIC's rate used while training."""
    step_seconds: float = 6.0
    tokens_per_step: float = 4_194_304
    steps_per_epoch: float = 6_000
    parameters: float = 70e9
    checkpoint_minutes: int = 45
    eval_hours: float = 7.0
    """Hours between evaluation phases; 0 = none."""
    run_hours: float = 90.0
    """Hours between restarts."""
    compile_minutes: int = 0
    """How long a fresh start compiles; 0 = the cache is warm."""
    begins: float = -FOREVER
    ends: float = FOREVER
    """When the nodes are launched and terminated."""
    joins: tuple[tuple[int, float], ...] = ()
    """(node, hour) of nodes that are launched later: a scale-up."""
    leaves: tuple[tuple[int, float], ...] = ()
    """(node, hour) of nodes that are stopped as planned."""
    replaced: tuple[tuple[int, float], ...] = ()
    """(node, hour) of spot nodes that are taken away and replaced."""
    market: str = ""
    """`savings-plan`, `spot`, or "" for what the type is usually bought as."""
    pods: int = 4
    """Pods that report pod-level metrics."""
    cores_reported: int = 0
    """Nodes that also report per-core metrics."""


@dataclass(frozen=True)
class PlannedCluster:
    """Describe one EKS cluster."""

    name: str
    instance_type: str
    region: str
    jobs: tuple[PlannedJob, ...]
    team: str = ""
    project: str = ""
    owner: str = ""
    file_system_tib: float = 0.0
    reserved: int = 0
    """Instances held by an On-Demand Capacity Reservation."""
    scattered_zones: bool = False
    waits: tuple[tuple[float, float, int], ...] = ()
    """(hour, hours, pods) in which pods wait for nodes that EC2 has none of."""


@dataclass(frozen=True)
class PlannedIncident:
    """Describe one incident; `nodes` is a half-open range of the job's nodes, None = all."""

    cause: Cause
    cluster: str
    at: float
    hours: float
    job: str = ""
    nodes: tuple[int, int] | None = None
    level: float = 0.0
    """The strength of the effect, in the unit of the cause: a utilization, a factor, USD a day."""
    labelled: bool = True
    note: str = ""


@dataclass(frozen=True)
class Scenario:
    """Describe a whole recording."""

    description: str
    days: float
    period_seconds: int
    clusters: tuple[PlannedCluster, ...]
    incidents: tuple[PlannedIncident, ...] = ()
    bill_days: int = 2
    """Days of bill before the first metric."""
    start: datetime = datetime(2026, 11, 17, tzinfo=UTC)
    missing: float = 0.0
    """Share of scrapes that never arrive."""


def scenario_named(name: str) -> Scenario:
    """Return a scenario; raise `WrongInput` with the nearest name."""
    return find_named(f"'{name}' is not a scenario", name, SCENARIOS)


def _scenario(described: Mapping[str, Any]) -> Scenario:
    """Return a scenario of the file."""
    for incident in described.get("incidents", ()):
        if "day" in incident:
            incident["at"] = incident["day"] * 24.0
    return decode(Scenario, described)


_DESCRIBED = resources.files(__package__).joinpath("scenarios.yaml").read_text(encoding="utf-8")
SCENARIOS: Mapping[str, Scenario] = {
    name: _scenario(described)
    for name, described in yaml.load(_DESCRIBED, Loader=yaml.CSafeLoader).items()
}
"""The scenarios that can be asked for by name."""
