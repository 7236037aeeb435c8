"""Order points by series and time, each point once, one batch for each shape of series.

Work on batches in parallel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from adapters.aws.metrics.catalogue import Catalogue, Target
from adapters.aws.metrics.points import LAST_SECOND, Gatherer, Ints, MetricSeries, Points

A = TypeVar("A")
B = TypeVar("B")
PARALLEL = 2
"""Pieces at a time; more would wait for memory."""


def parallel_map(work: Callable[[A], B], pieces: Iterable[A]) -> list[B]:
    """Return the results of the work on each piece, in order; raise the first failure."""
    every = list(pieces)
    if len(every) < PARALLEL:
        return [work(piece) for piece in every]
    with ThreadPoolExecutor(PARALLEL, thread_name_prefix="beside") as pool:
        return list(pool.map(work, every))


_AT_ONCE = 1 << 19
_ALONE = 1 << 13
_STRETCH = 16
"""Points of a stretch on average from which moving it whole is quicker than moving each."""


@dataclass(frozen=True)
class PointBatch:
    """Hold the points of `keys`, sorted by series and time.

    `points.series` counts from 0 within the batch.

    Series i has the points `starts[i]` to `starts[i + 1]`.
    """

    keys: tuple[MetricSeries, ...]
    starts: Ints
    points: Points

    def targets(self, catalogue: Catalogue) -> tuple[Target, ...]:
        """Return where its points go."""
        return catalogue.targets(self.keys[0].namespace, self.keys[0].metric, self.keys[0].names)

    def pick(self, series: Sequence[int]) -> PointBatch:
        """Return only the series at these places."""
        if len(series) == len(self.keys):
            return self
        place = np.full(len(self.keys), -1, dtype=np.int64)
        place[list(series)] = np.arange(len(series))
        mine = self.points.take(place[self.points.series] >= 0)
        numbers = place[mine.series]
        points = Points(numbers, mine.seconds, mine.count, mine.total, mine.peak)
        return PointBatch(
            tuple(self.keys[i] for i in series), _starts(numbers, len(series)), points
        )

    def earlier(self, seconds: Ints) -> PointBatch:
        """Return the same with each series' times moved back.

        A report is written at the end of its period.
        """
        moved = replace(self.points, seconds=self.points.seconds - seconds[self.points.series])
        return replace(self, points=moved)

    def copy(self) -> PointBatch:
        """Return the same with arrays of its own."""
        return PointBatch(
            self.keys, self.starts, self.points.take(np.arange(len(self.points.series)))
        )


def batches(gatherer: Gatherer) -> list[PointBatch]:
    """Return a batch for each shape, taking the points out of the gatherer.

    Of two records of one point the later read wins.
    """
    parts, gatherer.parts = gatherer.parts, []
    spoken = np.zeros(len(gatherer.numbers), dtype=np.bool_)
    for part in parts:
        spoken[part.series] = True
    ordered = sorted(series for series, number in gatherer.numbers.items() if spoken[number])
    shapes = [
        tuple(alike)
        for _, alike in groupby(
            ordered, key=lambda series: (series.namespace, series.metric, series.names)
        )
    ]
    place, shape_of = np.empty(len(spoken), dtype=np.int64), np.empty(len(spoken), dtype=np.int16)
    for shape, keys in enumerate(shapes):
        for i, series in enumerate(keys):
            place[gatherer.numbers[series]], shape_of[gatherer.numbers[series]] = i, shape
    apart = _apart(parts, shape_of, len(shapes))
    del parts

    def batch(shape: int) -> PointBatch:
        points = _in_order(apart[shape], place)
        apart[shape].clear()
        return PointBatch(shapes[shape], _starts(points.series, len(shapes[shape])), points)

    return parallel_map(batch, range(len(shapes)))


def _apart(
    parts: Sequence[Points], shape_of: npt.NDArray[np.int16], n_shapes: int
) -> list[list[Points]]:
    """Return the points by shape, in the order they were read.

    A shape at a time fits the cache, all points would not.
    """
    by_shape: list[list[Points]] = [[] for _ in range(n_shapes)]
    for part in _at_once(parts):
        shapes = shape_of[part.series]
        if (shapes == shapes[0]).all():
            by_shape[int(shapes[0])].append(part)
            continue
        order = shapes.argsort(kind="stable")
        bounds = shapes[order].searchsorted(np.arange(n_shapes + 1, dtype=np.int16))
        for shape in np.flatnonzero(np.diff(bounds)).tolist():
            by_shape[shape].append(part.take(order[bounds[shape] : bounds[shape + 1]]))
    return by_shape


def _at_once(parts: Sequence[Points]) -> Iterator[Points]:
    """Join parts of a few hundred points, as lines give them, to some that are worth a look each.

    Larger ones stay alone.
    """
    few: list[Points] = []
    points = 0
    for part in parts:
        if len(part.series) >= _ALONE:
            if few:
                yield Points.joined(few)
            yield part
            few, points = [], 0
            continue
        few.append(part)
        points += len(part.series)
        if points >= _AT_ONCE:
            yield Points.joined(few)
            few, points = [], 0
    if few:
        yield Points.joined(few)


def merged(batch: PointBatch, owners: Sequence[MetricSeries]) -> PointBatch:
    """Add the parts of each owner up: one statistic set for each owner and time.

    `owners` is parallel to `batch.keys`.
    """
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
    return PointBatch(tuple(keys), _starts(sums.series, len(keys)), sums)


def _in_order(parts: Sequence[Points], place: Ints) -> Points:
    """Return the points by the place of their series and by time, each once.

    Of two of one time the later stays.
    """
    local = _sorted([replace(part, series=place[part.series]) for part in parts])
    unsaid = np.isnan(local.peak)
    if unsaid.any():
        return replace(
            local, peak=np.where(unsaid, local.total / np.maximum(local.count, 1), local.peak)
        )
    return local


def _sorted(parts: Sequence[Points]) -> Points:
    """Return the points by series and time, of two of one time the later.

    Mostly whole stretches only change their places.
    """
    keys = [part.series * LAST_SECOND + part.seconds for part in parts]
    starts = [
        np.flatnonzero(_differs(part.series) | np.append(True, key[1:] <= key[:-1]))
        for part, key in zip(parts, keys, strict=True)
    ]
    lows = np.concatenate([key[start] for key, start in zip(keys, starts, strict=True)])
    highs = np.concatenate(
        [key[np.append(start[1:], len(key)) - 1] for key, start in zip(keys, starts, strict=True)]
    )
    turn = lows.argsort(kind="stable")
    if len(turn) * _STRETCH <= sum(map(len, keys)) and (highs[turn[:-1]] < lows[turn[1:]]).all():
        stretches = [
            stretch
            for part, start in zip(parts, starts, strict=True)
            for stretch in part.split(start)
        ]
        return Points.joined([stretches[i] for i in turn.tolist()])
    key = np.concatenate(keys)
    order = np.argsort(key, kind="stable")
    key = key[order]
    return Points.joined(list(parts)).take(order[np.append(key[1:] != key[:-1], True)])


def _starts(series: Ints, n_series: int) -> Ints:
    return np.searchsorted(series, np.arange(n_series + 1)).astype(np.int64)


def _differs(values: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    return np.append(True, values[1:] != values[:-1])
