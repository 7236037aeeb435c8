"""Put statistic sets on the grid of visible time.

Bin k holds what became visible in `((k - 1) * step, k * step]`, seconds since the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from adapters.aws.batch import Batch
from adapters.aws.catalogue import Statistic
from adapters.aws.points import Doubles, Ints


@dataclass(frozen=True)
class Grid:
    """Hold the step and the lag of visibility, seconds."""

    step: int
    lag: int

    def visible(self, seconds: Ints, period: Ints) -> Ints:
        """Return when points become visible: one period after their timestamp, and the lag."""
        return seconds + period + self.lag

    def bin(self, visible: Ints) -> Ints:
        """Return the bin of a visible time."""
        return np.asarray(-(-visible // self.step))

    def span(self, batch: Batch, period: Ints) -> tuple[Ints, Ints]:
        """Return each series' first bin and the last one it says anything about."""
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


def binned(batch: Batch, statistic: Statistic, period: Ints, things: Doubles, grid: Grid) -> Binned:
    """Return the values of a batch on the grid; `period` and `things` a scrape are by series."""
    points = batch.points
    visible = grid.visible(points.seconds, period[points.series])
    at = grid.bin(visible)
    new = np.append(True, (points.series[1:] != points.series[:-1]) | (at[1:] != at[:-1]))
    first = np.flatnonzero(new)
    last = np.append(first[1:], len(at)) - 1
    series, place = points.series[first], at[first]
    value = _value(batch, statistic, period, things, first, last)
    due = grid.bin(visible[last] + period[series])
    stands = np.maximum(due - 1 - place, 0) if statistic.stands else np.zeros_like(place)
    same = series[1:] == series[:-1]
    stands[:-1] = np.where(same, np.minimum(stands[:-1], place[1:] - place[:-1] - 1), stands[:-1])
    return Binned(series, place, value, stands)


def _value(batch: Batch, statistic: Statistic, period: Ints, things: Doubles, first: Ints, last: Ints) -> Doubles:
    points = batch.points
    if statistic is Statistic.LAST:
        return points.peak[last]
    if statistic is Statistic.LARGEST:
        return _reduced(np.maximum, points.peak, first)
    total = _reduced(np.add, points.total, first)
    if statistic is Statistic.EVENTS:
        return total
    share = _reduced(np.add, _weight(batch, statistic, period, things), first)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(share > 0, total / share, np.nan))


def _reduced(by: np.ufunc, values: Doubles, first: Ints) -> Doubles:
    """Return the values of each bin reduced to one; mostly each bin has one."""
    return values if len(first) == len(values) else np.asarray(by.reduceat(values, first))


def _weight(batch: Batch, statistic: Statistic, period: Ints, things: Doubles) -> Doubles:
    """Return what each point's sum is to be divided by: samples, scrapes or seconds."""
    if statistic is Statistic.LEVEL:
        return batch.points.count
    if statistic is Statistic.TOTAL:
        return np.asarray(batch.points.count / things[batch.points.series])
    return period[batch.points.series].astype(np.float64)
