"""Estimate the energy and the emissions of node-hours."""

from __future__ import annotations

from dataclasses import dataclass

PUE = 1.2
"""Power usage effectiveness that Cloud Carbon Footprint takes for AWS (its constants file, read 2026-11-21)."""


@dataclass(frozen=True)
class Footprint:
    """State node-hours with their kWh and kg of CO2 equivalents; None where a factor is not known."""

    instance_type: str
    region: str
    node_hours: float
    watts: float | None
    kwh: float | None
    kg: float | None


def footprint(
    instance_type: str, region: str, chips: int, node_hours: float, watts: float | None, kg_per_kwh: float | None
) -> Footprint:
    """Return kWh = node-hours x chips x watts a chip x PUE / 1000, and kg = kWh x the grid's factor."""
    kwh = node_hours * chips * watts * PUE / 1000 if watts is not None else None
    return Footprint(
        instance_type, region, node_hours, watts, kwh, kwh * kg_per_kwh if kwh is not None and kg_per_kwh is not None else None
    )
