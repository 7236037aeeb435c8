"""Buffer the grids of every kind of thing as points arrive: only the newest bins are built anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from adapters.aws.live.poller import NewPoints
from adapters.aws.metrics.batch import batches
from adapters.aws.metrics.believed import believed
from adapters.aws.metrics.catalogue import Catalogue, standard
from adapters.aws.metrics.metric_grid import MetricGrid, SeriesBatch, build_grid, series_batches
from adapters.aws.metrics.points import Gatherer, Ints, MetricSeries, Points
from adapters.aws.metrics.runs import TrainingRuns
from adapters.aws.metrics.time_grid import TimeGrid
from bot.model.labels import Labels

_SPARE_BINS = 288
_SPARE_THINGS = 16
Cube = npt.NDArray[np.float32]


class GridRing:
    """Hold values of shape (metrics, bins, things) with room to grow; readers keep views, so arrays are never moved in place."""

    def __init__(self, most: int, end: int) -> None:
        self._most = most
        self.base = end - most + 1
        self.things: tuple[Labels, ...] = ()
        self.metrics: tuple[str, ...] = ()
        self._values: Cube = np.full((0, most + _SPARE_BINS, 0), np.nan, dtype=np.float32)

    def renew(self, newest: MetricGrid, horizon: int, end: int) -> None:
        """Take the axes of a grid, and its bins from `horizon` on in place of those here; earlier ones fill holes only."""
        self._fit(newest, end)
        self._values[:, max(0, horizon - self.base) :] = np.nan
        self._write(newest, horizon, fill=False)

    def fill(self, older: MetricGrid, before: int) -> None:
        """Write the grid's bins before `before` where nothing is known yet."""
        self._write(older, before, fill=True)

    def cut(self, axes: MetricGrid, since: int) -> MetricGrid:
        """Return the bins from `since` on as a grid with the axes of the newest one."""
        base = max(self.base, since)
        return replace(axes, base=base, values=self._values[: len(self.metrics), base - self.base :, : len(self.things)])

    def _write(self, grid: MetricGrid, edge: int, *, fill: bool) -> None:
        low, high = (grid.base, edge) if fill else (edge, grid.base + grid.values.shape[1])
        low = max(low, grid.base, self.base)
        high = min(high, grid.base + grid.values.shape[1], self.base + self._values.shape[1])
        if high <= low:
            return
        at = {thing: i for i, thing in enumerate(self.things)}
        columns = np.array([at[thing] for thing in grid.things], dtype=np.intp)
        for i, metric in enumerate(grid.metrics):
            rows = self._values[self.metrics.index(metric), low - self.base : high - self.base]
            new = grid.values[i, low - grid.base : high - grid.base]
            rows[:, columns] = np.where(np.isnan(rows[:, columns]), new, rows[:, columns]) if fill else new

    def _fit(self, axes: MetricGrid, end: int) -> None:
        self._move(end)
        _, n_bins, room = self._values.shape
        grown = axes.things[: len(self.things)] == self.things and len(axes.things) <= room
        if not grown or axes.metrics != self.metrics:
            values = np.full((len(axes.metrics), n_bins, len(axes.things) + _SPARE_THINGS), np.nan, dtype=np.float32)
            here = {thing: i for i, thing in enumerate(axes.things)}
            old = [i for i, thing in enumerate(self.things) if thing in here]
            new = [here[self.things[i]] for i in old]
            for i, metric in enumerate(self.metrics):
                if metric in axes.metrics:
                    values[axes.metrics.index(metric)][:, new] = self._values[i][:, old]
            self._values = values
        self.things, self.metrics = axes.things, axes.metrics

    def _move(self, end: int) -> None:
        """Drop the oldest bins where there is no room for those up to `end` and some more."""
        n_bins = self._values.shape[1]
        if end + _SPARE_BINS // 8 < self.base + n_bins:
            return
        base = end - self._most + 1
        moved = np.full_like(self._values, np.nan)
        kept = self._values[:, base - self.base :]
        moved[:, : kept.shape[1]] = kept
        self._values, self.base = moved, base


KINDS = ("node", "pod", "cluster", "file_system", "volume", "run", "core", "device")
Cores = Callable[[Sequence[SeriesBatch]], Mapping[str, int]]
_HEAD = 13
"""Points of a series from which its rhythm is inferred."""
_ANEW_SECONDS = 3600
_UNSETTLED_SECONDS = 6 * 3600
"""How long a part may stay unread before what is older only fills holes."""
_MARGIN_SECONDS = 1800
"""What lies before the newest bins but still reaches into them."""


@dataclass
class FrameBuffer:
    """Keep each series' first points, the newest of all, and a ring for each kind."""

    grid: TimeGrid
    history: int
    series: list[MetricSeries]
    """Numbered by the points; grows outside."""
    catalogue: Catalogue = field(default_factory=standard)

    def __post_init__(self) -> None:
        """Begin without a point."""
        self.grids: dict[str, MetricGrid] = {}
        self.runs = TrainingRuns([], self.grid)
        self.last_seen: Ints = np.zeros(0, dtype=np.int64)
        """The newest bin with a reading of each node, in the order of the node grid."""
        self._rings: dict[str, GridRing] = {}
        self._heads = self._tail = self._of_runs = Points.joined([])
        self._spoke: dict[int, int] = {}
        self._horizon = 0
        self._refused: dict[str, str] = {}

    def refused(self) -> tuple[str, ...]:
        """Return one sentence for each metric that had values beyond belief."""
        return tuple(self._refused.values())

    def absorb(self, read: NewPoints, end: int, cores: Cores) -> None:
        """Take in new points, and older ones of history; `end` is the bin of now.

        What is not settled is built anew too, so that a part that was not read for hours comes in as if it had been.
        """
        horizon = min(end - max(2, _ANEW_SECONDS // self.grid.step), read.settled // self.grid.step - 1)
        # Never back behind the last one: points from before are no longer at hand, and what a new series says of then fills.
        horizon = self._horizon = max(horizon, end - _UNSETTLED_SECONDS // self.grid.step, self._horizon)
        since = horizon * self.grid.step - _MARGIN_SECONDS
        new = self._believed(read.points)
        past = spread(self._believed(read.older), self.series, new, self._heads)
        self._remember(new, past, since)
        if not len(self._heads.series):
            return
        feeding = self._feeding(Points.joined([self._heads, self._of_runs, self._tail]))
        cores_by_instance = cores([source for series in feeding.values() for source in series])
        newest_of = {}
        for kind, series in feeding.items():
            newest = newest_of[kind] = build_grid(kind, series, self.grid, horizon, cores_by_instance)
            ring = self._rings.setdefault(kind, GridRing(max(1, self.history // self.grid.step), end))
            ring.renew(newest, horizon, end)
        begin = min(int(x.first[0]) for x in newest_of.values())
        self.grids = {kind: self._rings[kind].cut(axes, begin) for kind, axes in newest_of.items()}
        edge = horizon * self.grid.step + _MARGIN_SECONDS
        self._fill(Points.joined([past, new.take(new.seconds < edge)]), horizon, cores_by_instance)
        self.runs = TrainingRuns(feeding.get("run", []), self.grid)
        self._see(end)

    def _believed(self, parts: list[Points]) -> Points:
        """Return what is a reading; of each metric with others the first sentence stays."""
        points, refused = believed(Points.joined(parts), self.series, self.catalogue)
        for one in refused:
            self._refused.setdefault(one.name, str(one))
        return points

    def _fill(self, past: Points, horizon: int, cores_by_instance: Mapping[str, int]) -> None:
        """Write the values before the horizon where nothing is known yet."""
        if not (past.seconds < horizon * self.grid.step).any():
            return
        spoken = np.unique(past.series)
        heads = self._heads.take(np.isin(self._heads.series, spoken))
        first = int(past.seconds.min()) // self.grid.step
        for kind, series in self._feeding(Points.joined([heads, past])).items():
            self._rings[kind].fill(build_grid(kind, series, self.grid, first, cores_by_instance), horizon)

    def _remember(self, new: Points, past: Points, since: int) -> None:
        every = Points.joined([self._heads, past, new])
        self._heads = _first(every, _HEAD)
        run_points = Points.joined([self._of_runs, past, new])
        runs = [number for number, series in enumerate(self.series) if series.namespace == "Trn/Training"]
        self._of_runs = run_points.take(np.isin(run_points.series, runs) & (run_points.seconds >= since - self.history))
        tail = Points.joined([self._tail, new])
        self._tail = tail.take(tail.seconds >= since)
        self._forget(new, past, since)

    def _forget(self, new: Points, past: Points, since: int) -> None:
        """Drop the first points of series that have been silent for longer than history reaches."""
        for points in (past, new):
            numbers, first = np.unique(points.series[::-1], return_index=True)
            self._spoke.update(zip(numbers.tolist(), points.seconds[::-1][first].tolist(), strict=True))
        silent = [number for number, at in self._spoke.items() if at < since - self.history]
        if silent:
            self._heads = self._heads.take(np.isin(self._heads.series, silent, invert=True))
            for number in silent:
                del self._spoke[number]

    def _feeding(self, points: Points) -> dict[str, list[SeriesBatch]]:
        numbers = np.unique(points.series)
        dense = Points(np.searchsorted(numbers, points.series), points.seconds, points.count, points.total, points.peak)
        gatherer = Gatherer({self.series[n]: i for i, n in enumerate(numbers.tolist())}, [dense], catalogue=self.catalogue)
        ordered = batches(gatherer)
        return {kind: series for kind in KINDS if (series := series_batches(ordered, kind, self.catalogue))}

    def _see(self, end: int) -> None:
        """Note when each node last reported."""
        nodes = self.grids.get("node")
        if nodes is None:
            return
        rows = np.asarray(np.isfinite(nodes.values[:, : end - nodes.base + 1]).any(axis=0), dtype=np.bool_)
        newest = rows.shape[0] - 1 - np.argmax(rows[::-1], axis=0)
        self.last_seen = np.where(rows.any(axis=0), newest, -1) + nodes.base


def _first(points: Points, most: int) -> Points:
    """Return the first `most` points of each series, in order, each time once."""
    order = np.lexsort((points.seconds, points.series))
    ordered = points.take(order)
    fresh = np.ones(len(order), dtype=np.bool_)
    fresh[1:] = (np.diff(ordered.series) != 0) | (np.diff(ordered.seconds) != 0)
    ordered = ordered.take(fresh)
    starts = np.searchsorted(ordered.series, ordered.series)
    return ordered.take(np.arange(len(starts)) - starts < most)


def spread(past: Points, series: Sequence[MetricSeries], *recent: Points) -> Points:
    """Return points of five minutes as five of one minute, where series of the same metric report every minute.

    Sums and counts are shared out evenly, so that totals and levels of a step stay what they were.
    """
    if not len(past.series):
        return past
    minutely = {(series[n].namespace, series[n].metric) for points in recent for n in _minutely(points)}
    names = [(one.namespace, one.metric) in minutely for one in series]
    cut = np.array(names, dtype=np.bool_)[past.series]
    whole, coarse = past.take(~cut), past.take(cut)
    each = np.repeat(np.arange(len(coarse.series)), 5)
    later = np.tile(np.arange(5) * 60, len(coarse.series))
    fine = coarse.take(each)
    return Points.joined([whole, Points(fine.series, fine.seconds + later, fine.count / 5, fine.total / 5, fine.peak)])


def _minutely(points: Points) -> set[int]:
    order = np.lexsort((points.seconds, points.series))
    series, seconds = points.series[order], points.seconds[order]
    next_minute = (np.diff(series) == 0) & (np.diff(seconds) == 60)
    return set(series[1:][next_minute].tolist())
