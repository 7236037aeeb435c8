"""State how a cluster's nodes were used over days."""

from __future__ import annotations

from dataclasses import dataclass

from bot.model.fleet import InstanceType
from bot.model.price import Price


@dataclass(frozen=True)
class Usage:
    """State a cluster's nodes of its most common type; None where nothing was read."""

    cluster: str
    type: InstanceType
    nodes: int
    region: str
    price: Price | None
    utilization: float | None
    spread: float | None
    """Standard deviation of the cluster's mean over time."""
    peak_gib: float | None
    """The highest accelerator memory of any node."""
    trains: bool
    """Whether a training run reports from it."""
    named_serving: bool
    """Whether its name or a tag says that it serves."""
