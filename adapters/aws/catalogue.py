"""Tell which CloudWatch metric, at which dimension set, means what here; the facts are rows of `metrics.csv`."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files


class Statistic(StrEnum):
    """Name how a statistic set {count, sum, max} becomes one value of a step."""

    LEVEL = "level"
    """sum / count"""
    TOTAL = "total"
    """sum / scrapes: the whole thing's amount, of a metric that is reported by part (core, interface, disk)"""
    RATE = "rate"
    """sum / seconds of the period"""
    EVENTS = "events"
    """sum"""
    LARGEST = "largest"
    """max"""
    LAST = "last"
    """max of the newest point: a counter that may fall back"""

    @property
    def stands(self) -> bool:
        """Tell whether a value holds until the next report is due; events happened in one step only."""
        return self is not Statistic.EVENTS


@dataclass(frozen=True)
class Target:
    """State where points go: `metric` of `kind`; the lowest rank wins where several sources report the same.

    A ratio of another metric is multiplied by what the thing usually shows of that: `times`.
    A `part` target reports by part what the whole thing may report itself: it counts only where the whole is silent.
    """

    kind: str
    metric: str
    statistic: Statistic
    scale: float
    rank: int
    part: bool
    times: str = ""


Shape = tuple[str, str, frozenset[str]]
"""Namespace, metric name and exact set of dimension names."""


@cache
def catalogue() -> Mapping[Shape, tuple[Target, ...]]:
    """Return every known shape with its targets."""
    known: dict[Shape, tuple[Target, ...]] = {}
    rows = files(__package__).joinpath("metrics.csv").read_text(encoding="utf-8").splitlines()
    for row in csv.DictReader(rows):
        shape = (row["namespace"], row["metric"], frozenset(row["dimensions"].split()))
        known[shape] = (*known.get(shape, ()), _target(row))
    return known


def _target(row: Mapping[str, str]) -> Target:
    statistic, scale = Statistic(row["statistic"]), float(row["scale"])
    return Target(row["kind"], row["target"], statistic, scale, int(row["rank"]), row["part"] == "1", row["times"])


@cache
def known_metrics() -> frozenset[tuple[str, str]]:
    """Return the (namespace, metric name) pairs that mean something at some dimension set."""
    return frozenset((namespace, metric) for namespace, metric, _ in catalogue())


def targets(namespace: str, metric: str, dimensions: Iterable[str]) -> tuple[Target, ...]:
    """Return where the series' points go; empty for a metric or dimension set that means nothing here."""
    return catalogue().get((namespace, metric, frozenset(dimensions)), ())
