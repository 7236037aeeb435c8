"""Leave out points that are no reading.

Values beyond what a metric can be, and the value that an agent writes for none.

The facts are rows of `values.csv`, by the bot's own metric and in its unit; they hold for one
sample of a statistic set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from adapters.aws.files import Problems
from adapters.aws.metrics.batch import parallel_map
from adapters.aws.metrics.points import Catalogue, Gatherer, Ints, MetricSeries, Points
from bot.model.codec import table
from bot.model.frame import Doubles

_ROUNDING = 1e-9
"""Share by which a bound may be passed: a sum that was divided again is not exact."""


@dataclass(frozen=True)
class ValueRange:
    """Hold what one sample of a metric may be, in its unit.

    `unread` is written where nothing was read, nan = no value is.
    """

    lowest: float
    highest: float
    unread: float = np.nan


_ANY = ValueRange(-np.inf, np.inf)


@cache
def value_ranges() -> Mapping[str, ValueRange]:
    """Return the range of each metric that has one."""
    return {
        row["metric"]: ValueRange(
            float(row["lowest"]), float(row["highest"]), float(row["unread"] or "nan")
        )
        for row in table(__package__, "values.csv")
    }


@dataclass(frozen=True)
class Refused:
    """Count the points of one metric, as its source names it, that were beyond belief.

    Keep the first.
    """

    name: str
    times: int
    value: float
    thing: str
    bounds: tuple[float, float]

    def __str__(self) -> str:
        """Return the sentence that names them."""
        low, high = self.bounds
        points = "a point" if self.times == 1 else f"{self.times:,} points"
        return (
            f"{points} of {self.name} beyond {low:g} to {high:g} (the first is {self.value:g}, of"
            f" {self.thing}); left out, as no real value can be that."
        )


@dataclass(frozen=True)
class _Bounds:
    """Hold the distinct bounds of many series as rows of (lowest, highest, unread).

    In the unit of their source.
    """

    table: Doubles
    row_of: Ints
    """The row of each series, by its number."""

    @classmethod
    def of(cls, series: Iterable[MetricSeries], catalogue: Catalogue) -> _Bounds:
        """Look up the bounds of each series, once for each shape."""
        shapes = [(x.namespace, x.metric, x.names) for x in series]
        row_of = {shape: row for row, shape in enumerate(dict.fromkeys(shapes))}
        table = np.array([_bounds_of(shape, catalogue) for shape in row_of], dtype=np.float64)
        return cls(
            table.reshape(-1, 3), np.array([row_of[shape] for shape in shapes], dtype=np.int64)
        )

    def at(self, series: Ints) -> Doubles:
        """Return the bounds of each point, (3, n_points).

        Or (3, 1) where they are the same for all of them.
        """
        rows = self.row_of[series]
        return self.table[rows[:1] if (rows == rows[:1]).all() else rows].T


def believe(gatherer: Gatherer, problems: Problems) -> None:
    """Leave out of what was gathered all that is no reading.

    Name each metric that had values beyond belief.
    """
    series = list(gatherer.numbers)
    bounds = _Bounds.of(series, gatherer.catalogue)
    judged = parallel_map(
        lambda part: _judged(part, bounds), gatherer.parts
    )  # a part at a time: all would fit no cache
    gatherer.parts[:] = [believable for believable, _ in judged if len(believable.series)]
    for refusal in _refused(
        Points.joined([beyond for _, beyond in judged]), series, gatherer.catalogue
    ):
        problems.add("metrics", str(refusal))


def believed(
    points: Points, series: Sequence[MetricSeries], catalogue: Catalogue
) -> tuple[Points, tuple[Refused, ...]]:
    """Return the points that are readings, and those metrics whose values were refused.

    `series` are numbered by the points.
    """
    believable, beyond = _judged(points, _Bounds.of(series, catalogue))
    return believable, _refused(beyond, series, catalogue)


def _judged(points: Points, bounds: _Bounds) -> tuple[Points, Points]:
    """Return the points that are readings, and those that are beyond belief.

    A largest sample beyond belief is only forgotten: the mean of the set was believed.
    """
    lowest, highest, unread = bounds.at(points.series)
    mean = points.mean()
    most = highest + _ROUNDING * np.abs(highest)
    beyond = (mean < lowest) | (mean > most)
    left_out = beyond | (mean == unread)
    loud = points.peak > most
    believable = replace(points, peak=np.where(loud, np.nan, points.peak)) if loud.any() else points
    return (believable.take(~left_out) if left_out.any() else believable), points.take(beyond)


def _bounds_of(
    shape: tuple[str, str, tuple[str, ...]], catalogue: Catalogue
) -> tuple[float, float, float]:
    """Return the bounds of a shape.

    What it becomes is one quantity, whatever the number of its targets.
    """
    targets = catalogue.targets(*shape)
    bounds = value_ranges().get(targets[0].metric, _ANY) if targets else _ANY
    scale = targets[0].scale if targets else 1.0
    return bounds.lowest / scale, bounds.highest / scale, bounds.unread / scale


def _refused(
    points: Points, series: Sequence[MetricSeries], catalogue: Catalogue
) -> tuple[Refused, ...]:
    """Return one for each metric whose points are beyond belief, by its first point."""
    values = points.mean()
    of = [series[number] for number in points.series.tolist()]
    names = [f"{x.namespace} {x.metric}" for x in of]
    refused = []
    for name, times in Counter(names).items():
        first = names.index(name)
        x, dimensions = of[first], dict(of[first].dimensions)
        thing = dimensions.get("InstanceId") or next(iter(dimensions.values()), "")
        lowest, highest, _ = _bounds_of((x.namespace, x.metric, x.names), catalogue)
        refused.append(Refused(name, times, float(values[first]), thing, (lowest, highest)))
    return tuple(refused)
