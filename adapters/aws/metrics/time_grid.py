"""Infer the periods of series, and put their statistic sets on the grid of visible time.

Bin k holds what became visible in `((k - 1) * step, k * step]`, seconds since the epoch. A period
and the number of things that report in one scrape are inferred from a series' first points only, so
that a recording cut short reads as the whole one does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from adapters.aws.metrics.batch import PointBatch
from adapters.aws.metrics.catalogue import Statistic
from adapters.aws.metrics.points import Ints
from bot.model.frame import Doubles


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
        last = self.bin(self.visible(seconds[batch.starts[1:] - 1], period) + period)
        return first, last


@dataclass(frozen=True)
class Binned:
    """Hold one value for each (series, bin) with a reading, and for how many more bins it stands."""

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
    at = grid.bin(visible)
    new = np.append(True, (points.series[1:] != points.series[:-1]) | (at[1:] != at[:-1]))
    first = np.flatnonzero(new)
    last = _last(first, len(at))
    series, place = points.series[first], at[first]
    value = _value(batch, statistic, period, things, first)
    due = grid.bin(visible[last] + period[series])
    stands = np.maximum(due - 1 - place, 0) if statistic.stands else np.zeros_like(place)
    same = series[1:] == series[:-1]
    stands[:-1] = np.where(same, np.minimum(stands[:-1], place[1:] - place[:-1] - 1), stands[:-1])
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
    share = _reduced(np.add, _weight(batch, statistic, period, things), first)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(share > 0, total / share, np.nan))


def _last(first: npt.NDArray[np.intp] | Ints, n_points: int) -> Ints:
    """Return the place of the last point of each bin, from those of the first."""
    return np.asarray(np.append(first[1:], n_points) - 1)


def _reduced(by: np.ufunc, values: Doubles, first: Ints) -> Doubles:
    """Return the values of each bin reduced to one; mostly each bin has one."""
    return values if len(first) == len(values) else np.asarray(by.reduceat(values, first))


def _weight(batch: PointBatch, statistic: Statistic, period: Ints, things: Doubles) -> Doubles:
    """Return the divisor of each point's sum: samples, scrapes or seconds."""
    if statistic is Statistic.LEVEL:
        return batch.points.count
    if statistic is Statistic.TOTAL:
        return np.asarray(batch.points.count / things[batch.points.series])
    return period[batch.points.series].astype(np.float64)


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
    spacings = _snapped(
        np.diff(_first(batch, batch.points.seconds.astype(np.float64), _FIRST + 1), axis=1)
    )
    n_spacings = np.isfinite(spacings).sum(axis=1)
    own, share = _most_common(spacings, ties=np.fmin)
    steady = share * 2 >= n_spacings
    own = np.where(steady, own, _divisor(spacings))
    spoken = n_spacings >= _ENOUGH
    alike = _most_common(own[spoken][None, :], ties=np.fmin)[0][0] if spoken.any() else np.nan
    inferred = np.where(spoken, own, alike if np.isfinite(alike) else _divisor(spacings))
    return np.where(
        np.isfinite(inferred), np.clip(inferred, 1, _PERIODS[-1]), _USUAL_PERIOD
    ).astype(np.int64)


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
    """Return the sample count that each series shows most often at first, the larger of two as frequent."""
    return _most_common(_first(batch, batch.points.count, _FIRST), ties=np.fmax)[0]


def scrape_rates(batch: PointBatch, period: Ints, cores: Doubles) -> Doubles:
    """Return scrapes a minute of each series of a per-core metric.

    One where `cores` is unknown (0) or does not fit.

    A node may show twice the cores that are known (logical cores can be split), never more than one
    scrape a minute.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        rates = usual_counts(batch) / cores / (period / _SCRAPE_SECONDS)
        fits = (
            (cores > 0)
            & (usual_counts(batch) % np.maximum(cores, 1) == 0)
            & (rates > 0)
            & (rates <= 1)
        )
    return np.where(fits, rates, 1.0)


def things_a_scrape(batch: PointBatch, period: Ints, rates: Doubles) -> Doubles:
    """Return how many things (cores, interfaces, disks) report in one scrape of each series, at least one."""
    scrapes = np.maximum(1.0, rates * period / _SCRAPE_SECONDS)
    return np.fmax(1.0, usual_counts(batch) / scrapes)


def _first(batch: PointBatch, values: Doubles, n: int) -> Doubles:
    """Return the first `n` values of each series, shape (n_series, n), nan where it has fewer."""
    at = batch.starts[:-1, None] + np.arange(n)
    inside = at < batch.starts[1:, None]
    return np.where(inside, values[np.where(inside, at, 0)], np.nan)


def _snapped(spacings: Doubles) -> Doubles:
    """Take a spacing within a tenth of a usual period for that period."""
    nearest = _PERIODS[np.abs(np.nan_to_num(spacings)[..., None] - _PERIODS).argmin(axis=-1)]
    return np.where(np.abs(spacings - nearest) <= nearest / 10, nearest, spacings)


def _most_common(rows: Doubles, ties: np.ufunc) -> tuple[Doubles, npt.NDArray[np.intp]]:
    """Return each row's most frequent value and how often it stands there; nan does not count."""
    often = (rows[:, :, None] == rows[:, None, :]).sum(axis=2)
    most = often.max(axis=1, initial=0)
    leading = np.where((often == most[:, None]) & (often > 0), rows, np.nan)
    return ties.reduce(leading, axis=1), most


def _divisor(spacings: Doubles) -> Doubles:
    """Return the largest usual period that divides all of a row's spacings, nan for an empty row."""
    common = np.gcd.reduce(np.nan_to_num(spacings).astype(np.int64), axis=1)
    fits = (common[:, None] % _PERIODS == 0) & (common[:, None] > 0)
    return np.where(
        fits.any(axis=1), _PERIODS[fits.shape[1] - 1 - fits[:, ::-1].argmax(axis=1)], np.nan
    )
