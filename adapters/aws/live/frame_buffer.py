"""Buffer the grids of every kind of thing as points arrive: only the newest bins are built anew."""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock

import numpy as np
import numpy.typing as npt

from adapters.aws.metrics.batch import TimeGrid, batches, differs
from adapters.aws.metrics.believed import believed
from adapters.aws.metrics.metric_grid import (
    GridPart,
    MetricGrid,
    SeriesBatch,
    TrainingRuns,
    build_grid,
    series_batches,
)
from adapters.aws.metrics.points import (
    DETAILS,
    Catalogue,
    Gatherer,
    Ints,
    MetricSeries,
    Points,
    reporter,
    standard,
)
from bot.model.frame import Floats, Mask
from bot.model.labels import Labels
from bot.model.reading import Gap

_SPARE_BINS = 288
_SPARE_THINGS = 16
_SPARE_SHARE = 32
"""One more thing in so many finds room before all columns are laid out anew."""
Places = slice | npt.NDArray[np.intp]
Room = Callable[[tuple[int, int, int]], Floats]
"""Makes columns of a shape, all nan."""


def room_in(folder: Path | None, most_in_memory: int = 1 << 30) -> Room:
    """Return a maker of columns, of which those of more bytes lie in a nameless file of the folder.

    They are mapped: the system lets go of the days that nobody asks for. Where there is no folder,
    or no place can be reserved on its disk, all are in memory.
    """

    def room(shape: tuple[int, int, int]) -> Floats:
        size = math.prod(shape) * np.dtype(np.float32).itemsize
        buffer: mmap.mmap | None = None
        if folder is not None and size > most_in_memory:
            with suppress(OSError, AttributeError):  # macOS has no way to reserve
                folder.mkdir(parents=True, exist_ok=True)
                with TemporaryFile(dir=folder) as file:
                    # Reserved now: a disk that is full later would end the process.
                    os.posix_fallocate(file.fileno(), 0, size)
                    buffer = mmap.mmap(file.fileno(), size)
        columns: Floats = np.ndarray(shape, dtype=np.float32, buffer=buffer)
        columns.fill(np.nan)
        return columns

    return room


@dataclass(frozen=True)
class PastGrids:
    """Hold some series' history as grids by kind.

    The points of it that the buffer remembers.
    """

    grids: Mapping[str, GridPart]
    kept: Points


class GridRing:
    """Hold values of shape (metrics, bins, things) with room to grow.

    Readers keep views, so arrays are never moved in place.
    """

    def __init__(self, most: int, end: int, room: Room) -> None:
        self._most, self._room = most, room
        self.base = end - most + 1
        self.things: tuple[Labels, ...] = ()
        self.metrics: tuple[str, ...] = ()
        self._values = room((0, most + _SPARE_BINS, 0))
        self._looked_up: tuple[tuple[Labels, ...], tuple[Labels, ...], Places, Places]
        self._looked_up = (), (), slice(0), slice(0)
        self._written = self.base
        """The bin after the last one that was ever written."""

    def renew(self, newest: MetricGrid, horizon: int, end: int) -> None:
        """Take the axes of a grid, and its bins from `horizon` on in place of those here.

        Earlier ones fill holes only.
        """
        _, n_bins, room = self._values.shape
        # The oldest bins go where there is no room for those up to `end` and some more.
        if end + _SPARE_BINS // 8 >= self.base + n_bins:
            base = end - self._most + 1
            moved = self._room(self._values.shape)
            remaining = self._values[:, base - self.base :]
            moved[:, : remaining.shape[1]] = remaining
            self._values, self.base = moved, base
        grown = newest.things[: len(self.things)] == self.things and len(newest.things) <= room
        written = self._values[:, : max(0, self._written - self.base)]
        before = GridPart(self.base, self.things, self.metrics, written)
        self.things, self.metrics = newest.things, newest.metrics
        if not grown or newest.metrics != before.metrics:
            n_things = len(newest.things)
            spare = _SPARE_THINGS + n_things // _SPARE_SHARE
            self._values = self._room((len(newest.metrics), n_bins, n_things + spare))
            self.write(before, self.base, fill=False)

        # Who reads a view now meets the values of before or after, and none that is blank between.
        self.write(newest, horizon, fill=False)
        last = newest.base + newest.values.shape[1]
        self._values[:, max(0, last - self.base) : max(0, self._written - self.base)] = np.nan

    def cut(self, axes: MetricGrid, since: int) -> MetricGrid:
        """Return the bins from `since` on as a grid with the axes of the newest one."""
        base = max(self.base, since)
        return replace(
            axes,
            base=base,
            values=self._values[: len(self.metrics), base - self.base :, : len(self.things)],
        )

    def part(self, start: int, end: int) -> GridPart:
        """Return a copy of the bins from `start` until before `end`.

        Of the things that report within.
        """
        start = max(start, self.base)
        rows = self._values[
            : len(self.metrics), start - self.base : max(start, end) - self.base, : len(self.things)
        ]
        reporting = np.flatnonzero(np.isfinite(rows).any(axis=(0, 1)))
        return GridPart(
            start, tuple(self.things[i] for i in reporting), self.metrics, rows[:, :, reporting]
        )

    def write(self, grid: GridPart, edge: int, *, fill: bool) -> None:
        """Write a grid's bins from `edge` on, or fill with those before where nothing is known."""
        low, high = (grid.base, edge) if fill else (edge, grid.base + grid.values.shape[1])
        low = max(low, grid.base, self.base)
        high = min(high, grid.base + grid.values.shape[1], self.base + self._values.shape[1])
        if high <= low:
            return
        self._written = max(self._written, high)

        # What was silent for all of history has left. Hour after hour has the same things.
        if self._looked_up[0] is not grid.things or self._looked_up[1] is not self.things:
            place = {thing: i for i, thing in enumerate(self.things)}
            present = [i for i, thing in enumerate(grid.things) if thing in place]
            places = _places([place[grid.things[i]] for i in present])
            self._looked_up = grid.things, self.things, _places(present), places
        _, _, shared, columns = self._looked_up
        for i, metric in enumerate(grid.metrics):
            if metric not in self.metrics:
                continue
            rows = self._values[self.metrics.index(metric), low - self.base : high - self.base]
            new = grid.values[i, low - grid.base : high - grid.base][:, shared]
            if fill:
                new = np.where(np.isnan(rows[:, columns]), new, rows[:, columns])
            rows[:, columns] = new


def _places(places: Sequence[int]) -> Places:
    """Return places as a slice where they follow each other, which copies nothing."""
    indices = np.array(places, dtype=np.intp)
    consecutive = len(indices) and (np.diff(indices) == 1).all()
    return slice(places[0], places[-1] + 1) if consecutive else indices


KINDS = ("node", "pod", "cluster", "file_system", "volume", "run", "core", "device")
Cores = Callable[[Sequence[SeriesBatch]], Mapping[str, int]]
_HEAD = 13
"""Points of a series from which its rhythm is inferred."""
ANEW_SECONDS = 3600
"""Bins so new are built again from their points: a point that comes later fills holes alone."""
_UNSETTLED_SECONDS = 6 * 3600
"""How long a part may stay unread before what is older only fills holes."""
MARGIN_SECONDS = 1800
"""What lies before the newest bins but still reaches into them."""


@dataclass(frozen=True)
class Remembered:
    """Hold each series' first points, all points of training runs, and when each series spoke last.

    (number, second).
    """

    heads: Points
    of_runs: Points
    spoke: Ints


@dataclass
class FrameBuffer:
    """Keep each series' first points, the newest of all, and a ring for each kind."""

    grid: TimeGrid
    history: int
    series: list[MetricSeries]
    """Numbered by the points; grows outside."""
    catalogue: Catalogue = field(default_factory=standard)
    room: Room = field(default_factory=lambda: room_in(None))
    """Makes the columns of the history."""

    def __post_init__(self) -> None:
        """Begin without a point."""
        self.grids: dict[str, MetricGrid] = {}
        self.runs = TrainingRuns([], self.grid)
        self.last_seen: Ints = np.zeros(0, dtype=np.int64)
        """The newest bin with a reading of each node, in the order of the node grid."""
        self._rings: dict[str, GridRing] = {}
        self._heads = self._tail = self._of_runs = Points.joined([])
        self._spoke: dict[int, int] = {}
        self.horizon = 0
        """Bins before it are settled: nothing but history that is read later changes them."""
        self.filled: set[int] = set()
        """Settled bins that were written since somebody took note; see `GridCache`."""
        self.lock = Lock()
        self._cores: Mapping[str, int] = {}
        self._reporters: list[int] = []
        self._reporter_numbers: dict[str, int] = {}
        self._refused: dict[str, str] = {}
        self._recalled: Iterable[Mapping[str, GridPart]] = ()

    def refused(self) -> tuple[str, ...]:
        """Return one sentence for each metric that had values beyond belief."""
        return tuple(self._refused.values())

    def absorb(
        self, read: NewPoints, end: int, cores: Cores, past: Iterable[PastGrids] = ()
    ) -> None:
        """Take in new points, and older ones of history; `end` is the bin of now.

        What is not settled is built anew too, so that a part that was not read for hours comes in
        as if it had been.
        """
        with self.lock:
            self._absorb(read, end, cores, list(past))

    def _absorb(self, read: NewPoints, end: int, cores: Cores, past: Sequence[PastGrids]) -> None:
        horizon = min(
            end - max(2, ANEW_SECONDS // self.grid.step), read.settled // self.grid.step - 1
        )
        # Never back behind the last one: points from before are no longer at hand, and what a new
        # series says of then fills.
        horizon = self.horizon = max(
            horizon, end - _UNSETTLED_SECONDS // self.grid.step, self.horizon
        )
        since = horizon * self.grid.step - MARGIN_SECONDS

        # What is no reading is left out before anything learns from it.
        new = self._believed(read.points)

        remembered = Points.joined([x.kept for x in past])
        self._heads = _first(Points.joined([self._heads, remembered, new]), _HEAD)
        run_points = Points.joined([self._of_runs, remembered, new])
        self._of_runs = run_points.take(
            self._is_of_runs(run_points) & (run_points.seconds >= since - self.history)
        )
        tail = Points.joined([self._tail, new])
        self._tail = tail.take(tail.seconds >= since)

        # Drop the first points of series that have been silent for longer than history reaches.
        for points in (remembered, new):
            numbers, first = np.unique(points.series[::-1], return_index=True)
            self._spoke.update(
                zip(numbers.tolist(), points.seconds[::-1][first].tolist(), strict=True)
            )
        if silent := [n for n, last in self._spoke.items() if last < since - self.history]:
            self._heads = self._heads.take(np.isin(self._heads.series, silent, invert=True))
            for number in silent:
                del self._spoke[number]

        if not len(self._heads.series):
            return
        feeding = self._feeding(Points.joined([self._heads, self._of_runs, self._tail]))
        self._cores = cores([source for series in feeding.values() for source in series])
        newest_of = {}
        for kind, series in feeding.items():
            newest = newest_of[kind] = build_grid(kind, series, self.grid, horizon, self._cores)
            self._rings.setdefault(
                kind, GridRing(max(1, self.history // self.grid.step), end, self.room)
            ).renew(newest, horizon, end)

        # All kinds share one begin, so that their frames fit each other.
        begin = min(int(x.first[0]) for x in newest_of.values())
        self.grids = {kind: self._rings[kind].cut(axes, begin) for kind, axes in newest_of.items()}
        if self._recalled:
            filled = set(self.filled)
            for grids in self._recalled:
                self._fill(grids)
            self.filled, self._recalled = filled, ()
        late = new.take(new.seconds < horizon * self.grid.step + MARGIN_SECONDS)
        if (late.seconds < horizon * self.grid.step).any():
            self._fill(self._grids_of(late))
        for past_grids in past:
            self._fill(past_grids.grids)
        self.runs = TrainingRuns(feeding.get("run", []), self.grid)

        # Note when each node last reported.
        nodes = self.grids.get("node")
        if nodes is None or nodes.base > end:
            return
        rows = np.asarray(
            np.isfinite(nodes.values[:, : end - nodes.base + 1]).any(axis=0), dtype=np.bool_
        )
        newest_row = rows.shape[0] - 1 - np.argmax(rows[::-1], axis=0)
        self.last_seen = np.where(rows.any(axis=0), newest_row, -1) + nodes.base

    def past(self, parts: list[Points]) -> PastGrids:
        """Return points of five minutes as grids, as `absorb` takes them.

        Any thread may, between two readings too.

        All series that one thing reports are to come together: some of its values are counted by
        others.
        """
        spread_out = spread(self._believed(parts), self.series, self._heads)
        past = spread_out.take(np.lexsort((spread_out.seconds, spread_out.series)))
        remembered = Points.joined(
            [
                _first(past, _HEAD),
                past.take(np.append(np.diff(past.series) != 0, True)[: len(past.series)]),
                past.take(self._is_of_runs(past)),
            ]
        )
        return PastGrids(self._grids_of(past), remembered)

    def remembered(self) -> Remembered:
        """Return the points that tell rhythm and order of series; see `resume`."""
        return Remembered(
            self._heads,
            self._of_runs,
            np.array([*self._spoke.items()], dtype=np.int64).reshape(-1, 2),
        )

    def resume(
        self, known: Remembered, settled: int, grids: Iterable[Mapping[str, GridPart]]
    ) -> None:
        """Go on from where an earlier process settled.

        Bins before `settled` are those of `grids`.
        """
        self._heads, self._of_runs, self._spoke = (
            known.heads,
            known.of_runs,
            dict(known.spoke.tolist()),
        )
        self.horizon, self._recalled = settled, grids

    def part(self, start: int, end: int) -> dict[str, GridPart]:
        """Return a copy of some bins by kind, of the things that report within."""
        with self.lock:
            parts = {
                kind: ring.part(start, end)
                for kind, ring in self._rings.items()
                if kind not in DETAILS
            }
        return {kind: part for kind, part in parts.items() if part.things}

    def _believed(self, parts: list[Points]) -> Points:
        """Return what is a reading; of each metric with others the first sentence stays."""
        points, refused = believed(Points.joined(parts), self.series, self.catalogue)
        for refusal in refused:
            self._refused.setdefault(refusal.name, str(refusal))
        return points

    def _grids_of(self, past: Points) -> dict[str, MetricGrid]:
        """Return the grids of points, with the first points of all that their things report."""
        if not len(past.series):
            return {}

        # A number for each series: the same for all that one thing reports.
        own = self.catalogue.instance
        numbers = self._reporter_numbers
        self._reporters += [
            numbers.setdefault(reporter(series, own), len(numbers))
            for series in self.series[len(self._reporters) :]
        ]
        heads, of = self._heads, np.array(self._reporters, dtype=np.int64)

        first = int(past.seconds.min()) // self.grid.step
        fellows = heads.take(np.isin(of[heads.series], np.unique(of[past.series])))
        return {
            kind: build_grid(kind, series, self.grid, first, self._cores)
            for kind, series in self._feeding(Points.joined([fellows, past])).items()
        }

    def _fill(self, grids: Mapping[str, GridPart]) -> None:
        """Write the values before the horizon where nothing is known yet."""
        for kind, grid in grids.items():
            if kind in self._rings:
                self._rings[kind].write(grid, self.horizon, fill=True)
                self.filled.update(
                    range(grid.base, min(self.horizon, grid.base + grid.values.shape[1]))
                )

    def _is_of_runs(self, points: Points) -> Mask:
        """Return a mask of the points that training runs report."""
        return np.isin(
            points.series,
            [n for n, series in enumerate(self.series) if series.namespace == "Trn/Training"],
        )

    def _feeding(self, points: Points) -> dict[str, list[SeriesBatch]]:
        numbers = np.unique(points.series)
        gatherer = Gatherer(
            {self.series[n]: i for i, n in enumerate(numbers.tolist())},
            [replace(points, series=np.searchsorted(numbers, points.series))],
            catalogue=self.catalogue,
        )
        ordered = batches(gatherer)
        return {
            kind: series
            for kind in KINDS
            if (series := series_batches(ordered, kind, self.catalogue))
        }


def _first(points: Points, most: int) -> Points:
    """Return the first `most` points of each series, in order, each time once."""
    ordered = points.take(np.lexsort((points.seconds, points.series)))
    ordered = ordered.take(differs(ordered.series) | differs(ordered.seconds))
    starts = np.searchsorted(ordered.series, ordered.series)
    return ordered.take(np.arange(len(starts)) - starts < most)


def spread(past: Points, series: Sequence[MetricSeries], *recent: Points) -> Points:
    """Return points of five minutes as five of one minute.

    Where series of the same metric report every minute.

    Sums and counts are shared out evenly, so that totals and levels of a step stay what they were.
    """
    if not len(past.series):
        return past
    minutely = set()
    for points in recent:
        ordered = points.take(np.lexsort((points.seconds, points.series)))
        each_minute = (np.diff(ordered.series) == 0) & (np.diff(ordered.seconds) == 60)
        minutely |= {
            (series[n].namespace, series[n].metric)
            for n in np.unique(ordered.series[1:][each_minute]).tolist()
        }
    names = [(x.namespace, x.metric) in minutely for x in series]
    cut = np.array(names, dtype=np.bool_)[past.series]
    whole, coarse = past.take(~cut), past.take(cut)
    later = np.tile(np.arange(5) * 60, len(coarse.series))
    fine = coarse.take(np.repeat(np.arange(len(coarse.series)), 5))
    return Points.joined(
        [
            whole,
            Points(fine.series, fine.seconds + later, fine.count / 5, fine.total / 5, fine.peak),
        ]
    )


@dataclass
class NewPoints:
    """Hold the points that a tick read, and the gaps."""

    points: list[Points] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    settled: int = 0
    """Before this second every series had been answered by the tick before."""
    unread: frozenset[int] = frozenset()
    """Numbers of the series whose newest points are not known to be there or not."""

    def joined(self, other: NewPoints) -> NewPoints:
        """Return both together: a time that either has not settled is not settled."""
        return NewPoints(
            [*self.points, *other.points],
            [*self.gaps, *other.gaps],
            min(self.settled, other.settled),
            self.unread | other.unread,
        )
