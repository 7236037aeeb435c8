"""Order points by series and time, and put them on the grid of visible time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from adapters.aws.files import chunked
from adapters.aws.metrics.points import (
    LAST_SECOND,
    Gatherer,
    Ints,
    MetricSeries,
    Points,
    Statistic,
)
from bot.model.frame import Doubles

A = TypeVar("A")
B = TypeVar("B")
PARALLEL = 2
"""Pieces at a time; more would wait for memory."""


def parallel_map(work: Callable[[A], B], pieces: Iterable[A]) -> list[B]:
    """Return the results of the work on each piece, in order; raise the first failure."""
    work_pieces = list(pieces)
    if len(work_pieces) < PARALLEL:
        return [work(piece) for piece in work_pieces]
    with ThreadPoolExecutor(PARALLEL, thread_name_prefix="beside") as pool:
        return list(pool.map(work, work_pieces))


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

    def pick(self, series: Sequence[int]) -> PointBatch:
        """Return only the series at these places."""
        if len(series) == len(self.keys):
            return self

        # Places that are not picked are -1, and so are their points.
        place = np.full(len(self.keys), -1, dtype=np.int64)
        place[list(series)] = np.arange(len(series))
        picked = self.points.take(place[self.points.series] >= 0)
        points = replace(picked, series=place[picked.series])
        return PointBatch(
            tuple(self.keys[i] for i in series), _starts(points.series, len(series)), points
        )

    def earlier(self, seconds: Ints) -> PointBatch:
        """Return the same with each series' times moved back.

        A report is written at the end of its period.
        """
        points = self.points
        return replace(
            self, points=replace(points, seconds=points.seconds - seconds[points.series])
        )

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
        tuple(alike) for _, alike in groupby(ordered, attrgetter("namespace", "metric", "names"))
    ]
    place, shape_of = np.empty(len(spoken), dtype=np.int64), np.empty(len(spoken), dtype=np.int16)
    for shape, keys in enumerate(shapes):
        for i, series in enumerate(keys):
            place[gatherer.numbers[series]], shape_of[gatherer.numbers[series]] = i, shape
    by_shape = _apart(parts, shape_of, len(shapes))
    del parts

    def batch(shape: int) -> PointBatch:
        points = _sorted([replace(part, series=place[part.series]) for part in by_shape[shape]])
        by_shape[shape].clear()

        # Where a set has no largest sample its mean stands for it.
        unsaid = np.isnan(points.peak)
        if unsaid.any():
            points = replace(points, peak=np.where(unsaid, points.mean(), points.peak))
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

        # A part of many shapes is cut once, by a stable order, so that later reads still win.
        order = shapes.argsort(kind="stable")
        bounds = shapes[order].searchsorted(np.arange(n_shapes + 1, dtype=np.int16))
        for shape in np.flatnonzero(np.diff(bounds)).tolist():
            by_shape[shape].append(part.take(order[bounds[shape] : bounds[shape + 1]]))
    return by_shape


def _at_once(parts: Sequence[Points]) -> Iterator[Points]:
    """Join parts of a few hundred points, as lines give them, to some that are worth a look each.

    Larger ones stay alone.
    """
    for large, alike in groupby(parts, lambda part: len(part.series) >= _ALONE):
        if large:
            yield from alike
        else:
            yield from map(Points.joined, chunked(alike, lambda part: len(part.series), _AT_ONCE))


def merged(batch: PointBatch, owners: Sequence[MetricSeries]) -> PointBatch:
    """Add the parts of each owner up: one statistic set for each owner and time.

    `owners` is parallel to `batch.keys`.
    """
    keys = sorted(set(owners))
    place = {key: i for i, key in enumerate(keys)}
    owner = np.array([place[key] for key in owners], dtype=np.int64)[batch.points.series]
    order = np.argsort(owner * LAST_SECOND + batch.points.seconds, kind="stable")
    points, series = batch.points.take(order), owner[order]
    new = np.flatnonzero(differs(series) | differs(points.seconds))
    sums = Points(
        series[new],
        points.seconds[new],
        np.add.reduceat(points.count, new),
        np.add.reduceat(points.total, new),
        np.maximum.reduceat(points.peak, new),
    )
    return PointBatch(tuple(keys), _starts(sums.series, len(keys)), sums)


def _sorted(parts: Sequence[Points]) -> Points:
    """Return the points by series and time, of two of one time the later.

    Mostly whole stretches only change their places.
    """
    keys = [part.series * LAST_SECOND + part.seconds for part in parts]
    starts = [
        np.flatnonzero(differs(part.series) | np.append(True, key[1:] <= key[:-1]))
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


def differs(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return whether each value is another than the one before; the first is."""
    return np.append(True, values[1:] != values[:-1])[: len(values)]


@dataclass(frozen=True)
class TimeGrid:
    """Hold the step and the lag of visibility, seconds."""

    step: int
    lag: int

    def visible(self, seconds: Ints, period: Ints) -> Ints:
        """Return when points become visible: one period after their timestamp, and the lag."""
        return seconds + period + self.lag

    def bin(self, visible: Ints) -> Ints:
        """Return the bin of a visible time."""
        return np.asarray(-(-visible // self.step))

    def span(self, batch: PointBatch, period: Ints) -> tuple[Ints, Ints]:
        """Return each series' first bin and the last one it covers."""
        seconds = batch.points.seconds
        first = self.bin(self.visible(seconds[batch.starts[:-1]], period))
        return first, self.bin(self.visible(seconds[batch.starts[1:] - 1], period) + period)


@dataclass(frozen=True)
class Binned:
    """Hold one value for each (series, bin) with a reading.

    For how many more bins it stands.
    """

    series: Ints
    bin: Ints
    value: Doubles
    stands: Ints


def binned(
    batch: PointBatch, statistic: Statistic, period: Ints, things: Doubles, grid: TimeGrid
) -> Binned:
    """Return the values of a batch on the grid; `period` and `things` a scrape are by series."""
    points = batch.points
    visible = grid.visible(points.seconds, period[points.series])
    bins = grid.bin(visible)
    first = np.flatnonzero(differs(points.series) | differs(bins))
    series, place = points.series[first], bins[first]
    value = _value(batch, statistic, period, things, first)
    due = grid.bin(visible[_last(first, len(bins))] + period[series])
    stands = np.maximum(due - 1 - place, 0) if statistic.stands else np.zeros_like(place)
    until_next = np.where(series[1:] == series[:-1], np.diff(place) - 1, stands[:-1])
    stands[:-1] = np.minimum(stands[:-1], until_next)
    return Binned(series, place, value, stands)


def _value(
    batch: PointBatch, statistic: Statistic, period: Ints, things: Doubles, first: Ints
) -> Doubles:
    """Return one value for each bin, of the points from each `first` on."""
    points = batch.points
    if statistic is Statistic.LAST:
        return points.peak[_last(first, len(points.peak))]
    if statistic is Statistic.LARGEST:
        return _reduced(np.maximum, points.peak, first)
    total = _reduced(np.add, points.total, first)
    if statistic is Statistic.EVENTS:
        return total

    # The divisor of each point's sum: samples, scrapes or seconds.
    if statistic is Statistic.LEVEL:
        weight = points.count
    elif statistic is Statistic.TOTAL:
        weight = np.asarray(points.count / things[points.series])
    else:
        weight = period[points.series].astype(np.float64)
    share = _reduced(np.add, weight, first)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(share > 0, total / share, np.nan))


def _last(first: npt.NDArray[np.intp] | Ints, n_points: int) -> Ints:
    """Return the place of the last point of each bin, from those of the first."""
    return np.asarray(np.append(first[1:], n_points) - 1)


def _reduced(by: np.ufunc, values: Doubles, first: Ints) -> Doubles:
    """Return the values of each bin reduced to one; mostly each bin has one."""
    return values if len(first) == len(values) else np.asarray(by.reduceat(values, first))


_FIRST = 12
_ENOUGH = 3
"""Spacings from which a series' own period is inferred."""
_PERIODS = np.array([1, 5, 10, 20, 30, 60, 300, 900, 3600, 21_600, 86_400])
"""Periods that CloudWatch metrics come in, seconds."""
_USUAL_PERIOD = 60
_SCRAPE_SECONDS = 60
"""The CloudWatch agent scrapes once a minute."""


def periods(batch: PointBatch) -> Ints:
    """Return the period of each series, seconds.

    Its spacing, else that of its like, else one minute.
    """
    spacings = np.diff(_first(batch, batch.points.seconds.astype(np.float64), _FIRST + 1), axis=1)
    # A spacing within a tenth of a usual period is taken for that period.
    nearest = _PERIODS[np.abs(np.nan_to_num(spacings)[..., None] - _PERIODS).argmin(axis=-1)]
    spacings = np.where(np.abs(spacings - nearest) <= nearest / 10, nearest, spacings)

    n_spacings = np.isfinite(spacings).sum(axis=1)
    common, share = _most_common(spacings, ties=np.fmin)
    common = np.where(share * 2 >= n_spacings, common, _divisor(spacings))
    spoken = n_spacings >= _ENOUGH
    alike = _most_common(common[spoken][None, :], ties=np.fmin)[0][0] if spoken.any() else np.nan
    inferred = np.where(spoken, common, alike if np.isfinite(alike) else _divisor(spacings))
    usual = np.where(np.isfinite(inferred), inferred, _USUAL_PERIOD)
    return np.clip(usual, 1, _PERIODS[-1]).astype(np.int64)


def evened(batch: PointBatch) -> PointBatch:
    """Return the same levels with a sample a minute, whatever the samples were.

    Then counts tell the number of parts.
    """
    points = batch.points
    count = (periods(batch) / _SCRAPE_SECONDS)[points.series]
    level = np.divide(
        points.total, points.count, out=np.zeros_like(points.total), where=points.count > 0
    )
    return replace(
        batch,
        points=replace(points, count=np.where(points.count > 0, count, 0), total=level * count),
    )


def usual_counts(batch: PointBatch) -> Doubles:
    """Return the sample count that each series shows most often at first.

    The larger of two as frequent.
    """
    return _most_common(_first(batch, batch.points.count, _FIRST), ties=np.fmax)[0]


def scrape_rates(batch: PointBatch, period: Ints, cores: Doubles) -> Doubles:
    """Return scrapes a minute of each series of a per-core metric.

    One where `cores` is unknown (0) or does not fit.

    A node may show twice the cores that are known (logical cores can be split), never more than one
    scrape a minute.
    """
    usual = usual_counts(batch)
    with np.errstate(invalid="ignore", divide="ignore"):
        rates = usual / cores / (period / _SCRAPE_SECONDS)
        fits = (cores > 0) & (usual % np.maximum(cores, 1) == 0) & (rates > 0) & (rates <= 1)
    return np.where(fits, rates, 1.0)


def things_a_scrape(batch: PointBatch, period: Ints, rates: Doubles) -> Doubles:
    """Return how many things (cores, interfaces, disks) report in one scrape of each series.

    At least one.
    """
    return np.fmax(1.0, usual_counts(batch) / np.maximum(1.0, rates * period / _SCRAPE_SECONDS))


def _first(batch: PointBatch, values: Doubles, n: int) -> Doubles:
    """Return the first `n` values of each series, shape (n_series, n), nan where it has fewer."""
    index = batch.starts[:-1, None] + np.arange(n)
    inside = index < batch.starts[1:, None]
    return np.where(inside, values[np.where(inside, index, 0)], np.nan)


def _most_common(rows: Doubles, ties: np.ufunc) -> tuple[Doubles, npt.NDArray[np.intp]]:
    """Return each row's most frequent value and how often it stands there; nan does not count."""
    ordered = np.sort(rows, axis=1)
    place = np.broadcast_to(np.arange(rows.shape[1]), rows.shape)

    # How often a value stood in its row up to each place: a run of equal ones begins anew.
    begins = np.where(ordered == np.roll(ordered, 1, axis=1), 0, place)
    often = np.where(np.isnan(ordered), 0, place - np.maximum.accumulate(begins, axis=1) + 1)
    most = often.max(axis=1, initial=0)
    common = np.where((often == most[:, None]) & (often > 0), ordered, np.nan)
    return ties.reduce(common, axis=1), most


def _divisor(spacings: Doubles) -> Doubles:
    """Return the largest usual period that divides all of a row's spacings.

    Nan for an empty row.
    """
    common = np.gcd.reduce(np.nan_to_num(spacings).astype(np.int64), axis=1)
    fits = (common[:, None] % _PERIODS == 0) & (common[:, None] > 0)
    return np.where(
        fits.any(axis=1), _PERIODS[fits.shape[1] - 1 - fits[:, ::-1].argmax(axis=1)], np.nan
    )
