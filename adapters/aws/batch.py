"""Order points by series and time, each point once, one batch for each shape of series."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
import numpy.typing as npt

from adapters.aws.catalogue import Catalogue, Target
from adapters.aws.points import LAST_SECOND, Gatherer, Ints, Points, Series


@dataclass(frozen=True)
class Batch:
    """Hold the points of `keys`, sorted by series and time; `points.series` counts from 0 within the batch.

    Series i has the points `starts[i]` to `starts[i + 1]`.
    """

    keys: tuple[Series, ...]
    starts: Ints
    points: Points

    def targets(self, catalogue: Catalogue) -> tuple[Target, ...]:
        """Return where its points go."""
        return catalogue.targets(self.keys[0].namespace, self.keys[0].metric, self.keys[0].names)

    def pick(self, series: Sequence[int]) -> Batch:
        """Return only the series at these places."""
        if len(series) == len(self.keys):
            return self
        place = np.full(len(self.keys), -1, dtype=np.int64)
        place[list(series)] = np.arange(len(series))
        mine = self.points.take(place[self.points.series] >= 0)
        numbers = place[mine.series]
        points = Points(numbers, mine.seconds, mine.count, mine.total, mine.peak)
        return Batch(tuple(self.keys[i] for i in series), _starts(numbers, len(series)), points)

    def earlier(self, seconds: Ints) -> Batch:
        """Return the same with each series' times moved back: a report is written at the end of its period."""
        moved = replace(self.points, seconds=self.points.seconds - seconds[self.points.series])
        return replace(self, points=moved)

    def copy(self) -> Batch:
        """Return the same with arrays of its own."""
        return Batch(self.keys, self.starts, self.points.take(np.arange(len(self.points.series))))


def batches(gatherer: Gatherer) -> Iterator[Batch]:
    """Yield a batch for each shape; of two records of one point the later read wins."""
    ordered = sorted(gatherer.numbers)
    rank = np.empty(len(ordered), dtype=np.int64)
    for place, series in enumerate(ordered):
        rank[gatherer.numbers[series]] = place
    points = _in_order(Points.joined(gatherer.parts), rank)
    starts = _starts(points.series, len(ordered))
    first = 0
    for _, alike in groupby(ordered, key=lambda series: (series.namespace, series.metric, series.names)):
        keys = tuple(alike)
        last = first + len(keys)
        cut = points.take(slice(int(starts[first]), int(starts[last])))
        local = Points(cut.series - first, cut.seconds, cut.count, cut.total, cut.peak)
        yield Batch(keys, starts[first : last + 1] - starts[first], local)
        first = last


def merged(batch: Batch, owners: Sequence[Series]) -> Batch:
    """Add the parts of each owner up: one statistic set for each owner and time. `owners` is parallel to `batch.keys`."""
    keys = sorted(set(owners))
    place = {key: i for i, key in enumerate(keys)}
    owner = np.array([place[key] for key in owners], dtype=np.int64)[batch.points.series]
    order = np.argsort(owner * LAST_SECOND + batch.points.seconds, kind="stable")
    points, series = batch.points.take(order), owner[order]
    new = np.flatnonzero(_differs(series) | _differs(points.seconds))
    sums = Points(
        series[new],
        points.seconds[new],
        np.add.reduceat(points.count, new),
        np.add.reduceat(points.total, new),
        np.maximum.reduceat(points.peak, new),
    )
    return Batch(tuple(keys), _starts(sums.series, len(keys)), sums)


def _in_order(points: Points, rank: Ints) -> Points:
    series = rank[points.series] if len(rank) else points.series
    key = series * LAST_SECOND + points.seconds
    order = np.argsort(key, kind="stable")
    key = key[order]
    if len(key) and (again := key[1:] == key[:-1]).any():
        last = np.append(~again, True)
        key, order = key[last], order[last]
    count, total, peak = points.count[order], points.total[order], points.peak[order]
    if (unsaid := np.isnan(peak)).any():
        peak[unsaid] = total[unsaid] / np.maximum(count[unsaid], 1)
    series, seconds = np.divmod(key, LAST_SECOND)
    return Points(series, seconds, count, total, peak)


def _starts(series: Ints, n_series: int) -> Ints:
    return np.searchsorted(series, np.arange(n_series + 1)).astype(np.int64)


def _differs(values: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    return np.append(True, values[1:] != values[:-1])
