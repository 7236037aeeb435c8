"""Buffer the grids of every kind of thing as points arrive: only the newest bins are built anew."""

from __future__ import annotations

import fcntl
import math
import mmap
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import mkstemp
from threading import Lock
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from adapters.aws.files import flush
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
_LOOKED_AT = 12
"""Bins that are searched at once for the newest value: an hour of five-minute ones."""
_SPARE_THINGS = 16
_SPARE_SHARE = 32
"""One more thing in so many finds room before all columns are laid out anew."""
_LAYOUT = f"1 {np.dtype(np.float32).str}"
"""How columns lie in a file."""
Places = slice | npt.NDArray[np.intp]
Shape = tuple[int, int, int]
Columns = tuple[Floats, Path | None]
"""Values of shape (metrics, bins, things), and the file that they are mapped from, if any."""


class ColumnRoom:
    """Make columns, all nan: in memory, or mapped from files that the next process can open.

    Files are made once some columns have more than `most_in_memory` bytes: the system lets go of
    the days that nobody asks for. Where there is no folder, or no place can be reserved on its
    disk, all are in memory.
    """

    def __init__(self, folder: Path | None, most_in_memory: int = 1 << 30) -> None:
        self._folder, self._most_in_memory = folder, most_in_memory
        self._in_files = False

    def make(self, shape: Shape) -> Columns:
        """Return new columns, and remove the files that no process has open."""
        size = math.prod(shape) * np.dtype(np.float32).itemsize
        self._in_files |= size > self._most_in_memory
        values, path = np.empty(shape, dtype=np.float32), None
        if self._folder is not None and self._in_files and size:
            with suppress(OSError, AttributeError):  # macOS has no way to reserve
                self._folder.mkdir(parents=True, exist_ok=True)
                for left in self._folder.iterdir():
                    with suppress(OSError), _locked(left):
                        left.unlink()
                descriptor, name = mkstemp(dir=self._folder)
                try:
                    # Reserved now: a disk that is full later would end the process.
                    os.posix_fallocate(descriptor, 0, size)
                    values, path = self.open(Path(name).name, shape)
                finally:
                    os.close(descriptor)
                    if path is None:
                        os.unlink(name)
        values.fill(np.nan)
        return values, path

    def open(self, name: str, shape: Shape) -> Columns:
        """Return the columns of a file.

        Raise `OSError` where there is none or another process has it, `ValueError` where it is
        shorter than they are.
        """
        path = (self._folder or Path()) / name
        with _locked(path) as file:
            # The lock lasts as long as the mapping, which keeps the file open.
            buffer = mmap.mmap(file.fileno(), math.prod(shape) * np.dtype(np.float32).itemsize)
        return np.ndarray(shape, dtype=np.float32, buffer=buffer), path


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """Open a file that this process alone may write; raise `BlockingIOError` if another does."""
    with path.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield file


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

    def __init__(self, most: int, end: int, room: ColumnRoom) -> None:
        self._most, self._room = most, room
        self.base = end - most + 1
        self.things: tuple[Labels, ...] = ()
        self.metrics: tuple[str, ...] = ()
        self._values, self.file = room.make((0, most + _SPARE_BINS, 0))
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
            remaining = self._values[:, base - self.base :]
            self._lay_out(self._values.shape)
            self._values[:, : remaining.shape[1]] = remaining
            self.base = base
        grown = newest.things[: len(self.things)] == self.things and len(newest.things) <= room
        written = self._values[:, : max(0, self._written - self.base)]
        before = GridPart(self.base, self.things, self.metrics, written)
        n_things = len(newest.things)
        self.things, self.metrics = newest.things, newest.metrics
        if not grown or newest.metrics != before.metrics:
            spare = _SPARE_THINGS + n_things // _SPARE_SHARE
            self._lay_out((len(newest.metrics), n_bins, n_things + spare))
            self.write(before, self.base, fill=False)
        elif self.file is not None and n_things > len(before.things):
            # Columns that were spare are no longer blank: whoever was told so finds no such file.
            with suppress(OSError):
                self.file = self.file.rename(self.file.with_suffix(f".{n_things}"))

        # Who reads a view now meets the values of before or after, and none that is blank between.
        self.write(newest, horizon, fill=False)
        last = newest.base + newest.values.shape[1]
        self._values[:, max(0, last - self.base) : max(0, self._written - self.base)] = np.nan

    def _lay_out(self, shape: Shape) -> None:
        """Take new columns; the file of those before ends with its last reader."""
        if self.file is not None:
            with suppress(OSError):
                self.file.unlink()
        self._values, self.file = self._room.make(shape)

    def left(self) -> dict[str, Any]:
        """Return what the next process must know to `go_on` with the columns of the file."""
        return {
            "layout": _LAYOUT,
            "file": self.file and self.file.name,
            "shape": self._values.shape,
            "base": self.base,
            "metrics": self.metrics,
            "things": [dict(thing) for thing in self.things],
        }

    def go_on(self, left: Mapping[str, Any], settled: int) -> None:
        """Go on with the columns of an earlier process, blank from the bin `settled` on.

        Raise `OSError`, `ValueError` or `KeyError` where they cannot be these.
        """
        metrics, n_bins, room = shape = tuple(left["shape"])
        things = tuple(Labels(**thing) for thing in left["things"])
        expected = len(left["metrics"]), self._values.shape[1]
        if left["layout"] != _LAYOUT or (metrics, n_bins) != expected or len(things) > room:
            raise ValueError("the columns are laid out another way")

        self._values, self.file = self._room.open(left["file"], shape)
        self.base, self.things, self.metrics = left["base"], things, tuple(left["metrics"])
        self._values[:, max(0, settled - self.base) :] = np.nan
        self._written = settled

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
        end = grid.base + grid.values.shape[1]
        low, high = (grid.base, min(edge, end)) if fill else (edge, end)
        for rows, columns, new in self._beside(grid, low, high):
            rows[:, columns] = (
                np.where(np.isnan(rows[:, columns]), new, rows[:, columns]) if fill else new
            )
            self._written = max(self._written, min(high, self.base + self._values.shape[1]))

    def holds(self, grid: GridPart) -> bool:
        """Return whether the values of a grid are here too, of its bins and things that are."""
        beside = self._beside(grid, grid.base, grid.base + grid.values.shape[1])
        return all(
            ((rows[:, columns] == new) | np.isnan(new)).all() for rows, columns, new in beside
        )

    def _beside(
        self, grid: GridPart, low: int, high: int
    ) -> Iterator[tuple[Floats, Places, Floats]]:
        """Yield the rows here of each metric of a grid, the columns of its things, its values."""
        low = max(low, grid.base, self.base)
        high = min(high, self.base + self._values.shape[1])
        if high <= low:
            return

        # What was silent for all of history has left. Hour after hour has the same things.
        if self._looked_up[0] is not grid.things or self._looked_up[1] is not self.things:
            place = {thing: i for i, thing in enumerate(self.things)}
            present = [i for i, thing in enumerate(grid.things) if thing in place]
            places = _places([place[grid.things[i]] for i in present])
            self._looked_up = grid.things, self.things, _places(present), places
        _, _, shared, columns = self._looked_up
        for i, metric in enumerate(grid.metrics):
            if metric in self.metrics:
                rows = self._values[self.metrics.index(metric), low - self.base : high - self.base]
                yield rows, columns, grid.values[i, low - grid.base : high - grid.base][:, shared]


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
    room: ColumnRoom = field(default_factory=lambda: ColumnRoom(None))
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
        self._going_on = False
        """Whether nothing was read since `resume`."""

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
        if self._going_on:
            # All that is read from where the last process settled is built, and nothing fills.
            horizon = min(horizon, self.horizon)
        # Never back behind the last one: points from before are no longer at hand, and what a new
        # series says of then fills.
        before = self.horizon
        horizon = self.horizon = max(
            horizon, end - _UNSETTLED_SECONDS // self.grid.step, self.horizon
        )
        since = horizon * self.grid.step - MARGIN_SECONDS

        # What is no reading is left out before anything learns from it.
        new = self._believed(read.points)

        remembered = Points.joined([x.kept for x in past])
        self._heads = self._first_with(Points.joined([remembered, new]))
        of_runs = [x.take(self._is_of_runs(x)) for x in (self._of_runs, remembered, new)]
        run_points = Points.joined(of_runs)
        self._of_runs = run_points.take(run_points.seconds >= since - self.history)
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
            if kind not in self._rings:
                self._rings[kind] = self._ring(end)
            self._rings[kind].renew(newest, horizon, end)

        # All kinds share one begin, so that their frames fit each other.
        begin = min(int(x.first[0]) for x in newest_of.values())
        self.grids = {kind: self._rings[kind].cut(axes, begin) for kind, axes in newest_of.items()}
        if self._recalled:
            filled = set(self.filled)
            for grids in self._recalled:
                self._fill(grids)
            self.filled, self._recalled = filled, ()
        late = new.take(new.seconds < horizon * self.grid.step + MARGIN_SECONDS)
        known = self._going_on and horizon == before
        if (late.seconds < horizon * self.grid.step).any() and not known:
            self._fill(self._grids_of(late))
        self._going_on = False
        for past_grids in past:
            self._fill(past_grids.grids)
        self.runs = TrainingRuns(feeding.get("run", []), self.grid)

        nodes = self.grids.get("node")
        if nodes is not None and nodes.base <= end:
            self.last_seen = nodes.base + _last_rows(nodes.values[:, : end - nodes.base + 1])

    def _ring(self, end: int) -> GridRing:
        return GridRing(max(1, self.history // self.grid.step), end, self.room)

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

    def columns(self) -> dict[str, Any]:
        """Return what `opened` takes of each kind, nothing where some columns are in memory.

        What is settled in them is on the disk then.
        """
        with self.lock:
            rings = [(kind, ring) for kind, ring in self._rings.items() if kind not in DETAILS]
            left = {kind: ring.left() for kind, ring in rings}
            files = [ring.file for _, ring in rings if ring.file is not None]
        try:
            for file in files:
                flush(file)
        except FileNotFoundError:  # laid out anew meanwhile
            return {}
        return left if len(files) == len(rings) else {}

    def opened(self, left: Mapping[str, Any], settled: int) -> dict[str, GridRing]:
        """Return rings of the columns that an earlier process left, by kind."""
        rings = {kind: self._ring(settled) for kind in left}
        for kind, ring in rings.items():
            ring.go_on(left[kind], settled)
        return rings

    def resume(
        self,
        known: Remembered,
        settled: int,
        grids: Iterable[Mapping[str, GridPart]],
        rings: dict[str, GridRing],
    ) -> None:
        """Go on from where an earlier process settled.

        Bins before `settled` are those of `grids` and `rings`.
        """
        self._rings = rings
        self._heads, self._of_runs, self._spoke = (
            known.heads,
            known.of_runs,
            dict(known.spoke.tolist()),
        )
        self.horizon, self._recalled, self._going_on = settled, grids, True

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

    def _first_with(self, points: Points) -> Points:
        """Return the first points of each series, these among them.

        Mostly all are known, and no later one can be among them.
        """
        heads, n_series = self._heads, len(self.series)
        last = np.zeros(n_series, dtype=np.int64)
        np.maximum.at(last, heads.series, heads.seconds)
        incomplete = np.bincount(heads.series, minlength=n_series) < _HEAD
        early = points.take(incomplete[points.series] | (points.seconds < last[points.series]))
        return _first(Points.joined([heads, early]), _HEAD) if len(early.series) else heads

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


def _last_rows(values: Floats) -> Ints:
    """Return the last row with a value of each thing, -1 without: back from now, some bins at a time.

    Most have one in the newest hour, so that days that lie in a file are not read.
    """
    newest = np.full(values.shape[2], -1, dtype=np.int64)
    unseen = np.arange(values.shape[2])
    for end in range(values.shape[1], 0, -_LOOKED_AT):
        start = max(0, end - _LOOKED_AT)
        reports: Mask = np.asarray(
            np.isfinite(values[:, start:end, unseen]).any(axis=0), dtype=np.bool_
        )
        last = end - start - 1 - np.argmax(reports[::-1], axis=0)
        newest[unseen] = np.where(reports.any(axis=0), start + last, -1)
        unseen = unseen[newest[unseen] < 0]
        if not len(unseen):
            break
    return newest


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
