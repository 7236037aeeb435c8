"""Gather statistic sets of CloudWatch series as columns, and say which metric each becomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, cached_property, lru_cache
from itertools import chain, pairwise
from sys import intern
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from bot.model.codec import table
from bot.model.frame import Doubles, OwnNames
from bot.model.labels import Labels
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
        names, own = frozenset(dimensions), self.own
        standard_targets = self.shapes.get((namespace, metric, names), ())
        if own is None or namespace != own.namespace or own.instance not in names:
            return standard_targets
        meaning = next((x for x in own.meanings if x.name == metric), None)
        if meaning is None:
            return standard_targets

        # Any dimension but the instance's names a part of the node.
        reads = tuple(x for x in ((own.instance, "instance"), (own.core, "core")) if x[0] in names)
        target = Target(
            "node", "", Statistic.LEVEL, meaning.scale, OWN_RANK, len(names) > 1, reads=reads
        )
        targets = [
            replace(target, metric=name, statistic=way, even=way is Statistic.TOTAL)
            for name, way in self._statistics[meaning.metric]
        ]
        if own.core in names and meaning.metric in CORE_METRICS:
            targets.append(replace(target, kind="core", metric=meaning.metric, part=False))
        return tuple(targets)

    def targets_of(self, series: MetricSeries) -> tuple[Target, ...]:
        """Return where the points of a series go."""
        return self.targets(series.namespace, series.metric, series.names)

    @cached_property
    def metrics(self) -> frozenset[tuple[str, str]]:
        """Return the (namespace, metric name) pairs that mean something at some dimension set."""
        standard_metrics = frozenset((namespace, metric) for namespace, metric, _ in self.shapes)
        if self.own is None:
            return standard_metrics
        return standard_metrics | {(self.own.namespace, x.name) for x in self.own.meanings}

    @property
    def instance(self) -> str:
        """Return the dimension that names the instance in the own namespace.

        "" where there is none.
        """
        return self.own.instance if self.own else ""

    @cached_property
    def _statistics(self) -> Mapping[str, list[tuple[str, Statistic]]]:
        """Return how each metric of a node is counted where AWS reports it.

        Utilization also shows its highest core.
        """
        ways = {
            x.metric: [(x.metric, x.statistic)]
            for x in sorted(chain(*self.shapes.values()), key=lambda x: -x.rank)
            if x.kind == "node" and not x.times
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
    for row in table(__package__, "metrics.csv"):
        shape = (row["namespace"], row["metric"], frozenset(row["dimensions"].split()))
        shapes[shape] = (
            *shapes.get(shape, ()),
            Target(
                row["kind"],
                row["target"],
                Statistic(row["statistic"]),
                float(row["scale"]),
                int(row["rank"]),
                row["part"] == "1",
                row["times"],
            ),
        )
    return Catalogue(shapes)


Ints = npt.NDArray[np.int64]
IGNORED = -1


DETAILS = ("core", "device")
"""Kinds that are read of few, suspicious nodes for a while."""
LAST_SECOND = 1 << 33
"""The year 2242; a later time is not a time."""
KEPT_DAYS = 455
"""CloudWatch keeps no point for longer than 455 days (CloudWatch User Guide, Metrics retention).

So long may a recording be.
"""


def sound(seconds: Doubles, count: Doubles, total: Doubles) -> npt.NDArray[np.bool_]:
    """Return a mask of the points that have a time, a count and a sum."""
    numbers = np.isfinite(seconds) & np.isfinite(count) & np.isfinite(total)
    with np.errstate(invalid="ignore"):
        return np.asarray(numbers & (seconds >= 0) & (seconds < LAST_SECOND) & (count >= 0))


@dataclass(frozen=True, slots=True, order=True)
class MetricSeries:
    """Identify one CloudWatch series; `dimensions` are sorted (name, value) pairs."""

    namespace: str
    metric: str
    names: tuple[str, ...]
    dimensions: tuple[tuple[str, str], ...]
    region: str = ""
    account: str = ""


COLUMNS = ("series", "seconds", "count", "total", "peak")


@dataclass(frozen=True)
class Points:
    """Hold points as columns of one length.

    `series` numbers, `seconds` since the epoch, statistic sets.
    """

    series: Ints
    seconds: Ints
    count: Doubles
    total: Doubles
    peak: Doubles

    @staticmethod
    def joined(many: list[Points]) -> Points:
        """Return many parts as one, in order."""
        parts = [part for part in many if len(part.series)]
        if not parts:
            none = np.empty(0)
            return Points(none.astype(np.int64), none.astype(np.int64), none, none, none)
        if len(parts) == 1:
            return parts[0]
        return Points(
            *(np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS)
        )

    def mean(self) -> Doubles:
        """Return the mean sample of each set."""
        return self.total / np.maximum(self.count, 1)

    def take(self, index: npt.NDArray[np.intp] | npt.NDArray[np.bool_] | slice) -> Points:
        """Return the points at `index`; these themselves where that is all of them."""
        if isinstance(index, np.ndarray) and index.dtype == np.bool_ and index.all():
            return self
        return Points(*(getattr(self, name)[index] for name in COLUMNS))

    def split(self, starts: Ints) -> list[Points]:
        """Return the stretches that begin at `starts`, of which 0 is the first.

        Without copying any.
        """
        return [
            self.take(slice(start, end))
            for start, end in pairwise([*starts.tolist(), len(self.series)])
        ]


@dataclass
class Gatherer:
    """Number series as they are met, keep their points in reading order.

    Count the points that mean nothing here.
    """

    numbers: dict[MetricSeries, int] = field(default_factory=dict)
    parts: list[Points] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)
    """Points of metric names that mean nothing here, by `namespace metric`."""
    catalogue: Catalogue = field(default_factory=standard)
    number_of: dict[tuple[Any, ...], int] = field(default_factory=dict)
    """The number of each series, or `IGNORED`, by what stands for it in a file."""
    sets: dict[int, Mapping[str, str] | None] = field(default_factory=dict)
    """Dimension sets by DuckDB's hash, None for what is none."""
    lock: Lock = field(default_factory=Lock)

    def fresh(self) -> Gatherer:
        """Return one without points that numbers series together with this, in any thread."""
        return replace(self, parts=[], ignored=Counter())

    def number(
        self, namespace: str, metric: str, dimensions: Mapping[str, str], region: str, account: str
    ) -> int:
        """Return the series' number, or `IGNORED` where it has no target."""
        if not self.catalogue.targets(namespace, metric, dimensions):
            return IGNORED
        if not all(isinstance(value, str) for value in dimensions.values()):
            raise ValueError("a dimension's value is not text")
        # The metrics of a node repeat its names: each is held once.
        pairs = tuple(sorted((name, intern(value)) for name, value in dimensions.items()))
        names = tuple(name for name, _ in pairs)
        series = MetricSeries(namespace, metric, names, pairs, region, account)
        with self.lock:
            return self.numbers.setdefault(series, len(self.numbers))

    def add(self, points: Points) -> None:
        """Keep the points whose series is not `IGNORED`."""
        meaningful = points.series >= 0
        known_points = points if meaningful.all() else points.take(meaningful)
        if len(known_points.series):
            self.parts.append(known_points)

    def take(self, later: Gatherer) -> None:
        """Add the points of reports that were gathered beside this, none of which was ignored."""
        numbers = np.array(
            [self.numbers.setdefault(series, len(self.numbers)) for series in later.numbers],
            dtype=np.int64,
        )
        self.parts += [replace(part, series=numbers[part.series]) for part in later.parts]

    def drop_astray(self) -> int:
        """Leave out the points of another age than the rest and return how many.

        They would stretch a replay by years.
        """
        first = min(int(part.seconds.min()) for part in self.parts)
        last = max(int(part.seconds.max()) for part in self.parts)
        if last - first <= KEPT_DAYS * 86400:
            return 0

        # A wrong clock or unit is told from a long recording by the point in the middle.
        points = Points.joined(self.parts)
        astray = np.abs(points.seconds - np.median(points.seconds)) > KEPT_DAYS * 86400
        self.parts[:] = [points.take(~astray)]
        return int(astray.sum())

    def ignore(self, namespace: str, metric: str, times: int = 1) -> None:
        """Count points of a metric name that is unknown.

        A known name at another dimension set is no news.
        """
        if (namespace, metric) not in self.catalogue.metrics:
            self.ignored[f"{namespace} {metric}"] += times


_LABELS: Mapping[str, str] = {
    "ClusterName": "cluster",
    "InstanceId": "instance",
    "Host": "instance",
    "NeuronCore": "core",
    "FullPodName": "pod",
    "PodName": "job",
    "Namespace": "namespace",
    "FileSystemId": "resource",
    "VolumeId": "resource",
    "NeuronDevice": "resource",
    "Run": "job",
    "InstanceType": "instance_type",
}
_IDENTITY: Mapping[str, tuple[str, ...]] = {
    "node": ("instance",),
    "core": ("instance", "core"),
    "device": ("instance", "resource"),
    "pod": ("cluster", "namespace", "pod"),
    "cluster": ("cluster",),
    "file_system": ("resource",),
    "volume": ("resource",),
    "run": ("cluster", "job"),
}


_MOST_THINGS = 1 << 19
"""Things whose labels are kept: those of 32,000 nodes with their devices."""


def labels_of(series: MetricSeries, target: Target) -> Labels:
    """Return the labels in a series' dimensions; `core3` reads as core 3."""
    return _labels(target.reads, series.dimensions, series.region, series.account)


@lru_cache(_MOST_THINGS)
def _labels(
    reads: tuple[tuple[str, str], ...],
    dimensions: tuple[tuple[str, str], ...],
    region: str,
    account: str,
) -> Labels:
    # Kept, for each reading asks of every series, and all that one thing reports say the same.
    labels = dict(reads) or _LABELS
    values = {labels[name]: value for name, value in dimensions if name in labels}
    if "core" in values:
        values["core"] = values["core"].removeprefix("core")
    return Labels(**values, region=region, account=account)


@lru_cache(_MOST_THINGS)
def identity(kind: str, labels: Labels) -> Labels:
    """Keep the labels that tell one thing of the kind from another."""
    return labels.only(_IDENTITY[kind])


_PARTS = frozenset({"NeuronCore", "NeuronDevice", "NetworkInterfaceId", "GpuDevice"})


def whole_series(series: MetricSeries, target: Target) -> MetricSeries:
    """Return the series that the whole thing would report itself.

    This one without the dimensions that name the part.
    """
    whole = {name for name, label in target.reads if label in _IDENTITY[target.kind]}
    pairs = tuple(
        (name, value)
        for name, value in series.dimensions
        if (name in whole if whole else name not in _PARTS)
    )
    return replace(series, names=tuple(name for name, _ in pairs), dimensions=pairs)


def instance_of(series: MetricSeries, own: str = "") -> str:
    """Return the instance that a series is of (by the dimension `own` too).

    "" where it is of none.
    """
    dimensions = dict(series.dimensions)
    return dimensions.get("InstanceId") or dimensions.get("Host") or dimensions.get(own, "")


def reporter(series: MetricSeries, own: str = "") -> str:
    """Return the thing whose series tell of each other.

    The instance, else what the series names itself.
    """
    return instance_of(series, own) or " ".join(
        f"{name}={value}" for name, value in series.dimensions
    )
