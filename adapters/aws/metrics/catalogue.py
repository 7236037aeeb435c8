"""Map CloudWatch metrics, by their dimension sets, to the bot's metrics.

The facts are rows of `metrics.csv`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, cached_property
from importlib.resources import files

from bot.model.frame import OwnNames
from bot.model.reading import CORE_METRICS


class Statistic(StrEnum):
    """Name how a statistic set {count, sum, max} becomes one value of a step."""

    LEVEL = "level"
    """sum / count"""
    TOTAL = "total"
    """sum / scrapes.

    The whole thing's amount, of a metric that is reported by part (core, interface, disk)
    """
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
        """Return whether a value holds until the next report is due.

        Events happened in one step only.
        """
        return self is not Statistic.EVENTS


@dataclass(frozen=True)
class Target:
    """State where points go: `metric` of `kind`.

    The lowest rank wins where several sources report the same.

    A ratio of another metric is multiplied by what the thing usually shows of that: `times`. A
    `part` target reports by part what the whole thing may report itself: it counts only where the
    whole is silent. `reads` are (dimension, label) pairs where dimensions have names of their own;
    `even` tells that sample counts say nothing of how many parts report.
    """

    kind: str
    metric: str
    statistic: Statistic
    scale: float
    rank: int
    part: bool
    times: str = ""
    reads: tuple[tuple[str, str], ...] = ()
    even: bool = False


Shape = tuple[str, str, frozenset[str]]
"""Namespace, metric name and exact set of dimension names."""


@dataclass(frozen=True)
class Catalogue:
    """Know every shape that means something.

    The rows of `metrics.csv`, and names of an installation's own.
    """

    shapes: Mapping[Shape, tuple[Target, ...]]
    own: OwnNames | None = None

    def targets(self, namespace: str, metric: str, dimensions: Iterable[str]) -> tuple[Target, ...]:
        """Return where the series' points go.

        Empty for a metric or dimension set that means nothing here.
        """
        names = frozenset(dimensions)
        own = (
            self._own_targets(self.own, metric, names)
            if self.own and namespace == self.own.namespace
            else ()
        )
        return own or self.shapes.get((namespace, metric, names), ())

    @cached_property
    def metrics(self) -> frozenset[tuple[str, str]]:
        """Return the (namespace, metric name) pairs that mean something at some dimension set."""
        own = (
            {(self.own.namespace, meaning.name) for meaning in self.own.meanings}
            if self.own
            else set()
        )
        return frozenset({(namespace, metric) for namespace, metric, _ in self.shapes} | own)

    @property
    def instance(self) -> str:
        """Return the dimension that names the instance in the own namespace, "" where there is none."""
        return self.own.instance if self.own else ""

    def _own_targets(self, own: OwnNames, metric: str, names: frozenset[str]) -> tuple[Target, ...]:
        """Return the targets of a metric of the own namespace.

        Any dimension but the instance's names a part of the node.
        """
        meaning = next((x for x in own.meanings if x.name == metric), None)
        if meaning is None or own.instance not in names:
            return ()
        reads = ((own.instance, "instance"), *(((own.core, "core"),) if own.core in names else ()))
        part = len(names) > 1
        targets = [
            Target(
                "node",
                name,
                statistic,
                meaning.scale,
                OWN_RANK,
                part,
                "",
                reads,
                statistic is Statistic.TOTAL,
            )
            for name, statistic in self._statistics[meaning.metric]
        ]
        if own.core in names and meaning.metric in CORE_METRICS:
            targets.append(
                Target(
                    "core",
                    meaning.metric,
                    Statistic.LEVEL,
                    meaning.scale,
                    OWN_RANK,
                    False,
                    "",
                    reads,
                )
            )
        return tuple(targets)

    @cached_property
    def _statistics(self) -> Mapping[str, list[tuple[str, Statistic]]]:
        """Return how each metric of a node is counted where AWS reports it.

        Utilization also shows its highest core.
        """
        of_nodes = [
            x
            for targets in self.shapes.values()
            for x in targets
            if x.kind == "node" and not x.times
        ]
        ways = {
            x.metric: [(x.metric, x.statistic)] for x in sorted(of_nodes, key=lambda x: -x.rank)
        }
        ways["neuroncore_utilization_ratio"].append(
            ("neuroncore_utilization_highest_ratio", Statistic.LARGEST)
        )
        return ways


OWN_RANK = 5
"""Between what AWS's agent reports and what reports of neuron-monitor say."""


@cache
def standard() -> Catalogue:
    """Return the catalogue of the names that AWS gives."""
    shapes: dict[Shape, tuple[Target, ...]] = {}
    rows = files(__package__).joinpath("metrics.csv").read_text(encoding="utf-8").splitlines()
    for row in csv.DictReader(rows):
        shape = (row["namespace"], row["metric"], frozenset(row["dimensions"].split()))
        shapes[shape] = (*shapes.get(shape, ()), _target(row))
    return Catalogue(shapes)


def catalogue_with(own: OwnNames | None) -> Catalogue:
    """Return the standard catalogue, joined by names of an installation's own."""
    return Catalogue(standard().shapes, own) if own else standard()


def _target(row: Mapping[str, str]) -> Target:
    statistic, scale = Statistic(row["statistic"]), float(row["scale"])
    return Target(
        row["kind"],
        row["target"],
        statistic,
        scale,
        int(row["rank"]),
        row["part"] == "1",
        row["times"],
    )
