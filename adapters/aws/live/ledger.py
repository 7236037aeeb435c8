"""Turn points into frames as they arrive: only the newest bins are built anew, by the code that reads a recording."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from adapters.aws.batch import batches
from adapters.aws.catalogue import Catalogue, standard
from adapters.aws.grid import Grid
from adapters.aws.live.poll import Read
from adapters.aws.live.roll import Roll
from adapters.aws.points import Gatherer, Ints, Points, Series
from adapters.aws.runs import Runs
from adapters.aws.sheet import Sheet, Source, sheet, sources

KINDS = ("node", "pod", "cluster", "file_system", "volume", "run", "core", "device")
Cores = Callable[[Sequence[Source]], Mapping[str, int]]
_HEAD = 13
"""Points of a series from which its rhythm is inferred (`rhythm.py`)."""
_ANEW_SECONDS = 3600
_UNSETTLED_SECONDS = 6 * 3600
"""How long a part may stay unread before what is older only fills holes."""
_MARGIN_SECONDS = 1800
"""What lies before the newest bins but still reaches into them."""


@dataclass
class Ledger:
    """Keep each series' first points, the newest of all, and a roll for each kind."""

    grid: Grid
    history: int
    series: list[Series]
    """Numbered by the points; grows outside."""
    catalogue: Catalogue = field(default_factory=standard)

    def __post_init__(self) -> None:
        """Begin empty."""
        self.sheets: dict[str, Sheet] = {}
        self.runs = Runs([], self.grid)
        self.last_seen: Ints = np.zeros(0, dtype=np.int64)
        """The newest bin with a reading of each node, in the order of the node sheet."""
        self._rolls: dict[str, Roll] = {}
        self._heads = self._tail = self._of_runs = Points.joined([])
        self._spoke: dict[int, int] = {}
        self._horizon = 0

    def absorb(self, read: Read, end: int, cores: Cores) -> None:
        """Take in new points, and older ones of history; `end` is the bin of now.

        What is not settled is built anew too, so that a part that was not read for hours comes in as if it had been.
        """
        horizon = min(end - max(2, _ANEW_SECONDS // self.grid.step), read.settled // self.grid.step - 1)
        # Never back behind the last one: points from before are no longer at hand, and what a new series says of then fills.
        horizon = self._horizon = max(horizon, end - _UNSETTLED_SECONDS // self.grid.step, self._horizon)
        since = horizon * self.grid.step - _MARGIN_SECONDS
        new = Points.joined(read.points)
        past = spread(Points.joined(read.older), self.series, new, self._heads)
        self._remember(new, past, since)
        if not len(self._heads.series):
            return
        feeding = self._feeding(Points.joined([self._heads, self._of_runs, self._tail]))
        known = cores([source for found in feeding.values() for source in found])
        newest_of = {}
        for kind, found in feeding.items():
            newest = newest_of[kind] = sheet(kind, found, self.grid, horizon, known)
            roll = self._rolls.setdefault(kind, Roll(max(1, self.history // self.grid.step), end))
            roll.renew(newest, horizon, end)
        begin = min(int(x.first[0]) for x in newest_of.values())
        self.sheets = {kind: self._rolls[kind].sheet(axes, begin) for kind, axes in newest_of.items()}
        edge = horizon * self.grid.step + _MARGIN_SECONDS
        self._fill(Points.joined([past, new.take(new.seconds < edge)]), horizon, known)
        self.runs = Runs(feeding.get("run", []), self.grid)
        self._see(end)

    def _fill(self, past: Points, horizon: int, known: Mapping[str, int]) -> None:
        """Write what lies before the horizon where nothing is known yet."""
        if not (past.seconds < horizon * self.grid.step).any():
            return
        spoken = np.unique(past.series)
        heads = self._heads.take(np.isin(self._heads.series, spoken))
        first = int(past.seconds.min()) // self.grid.step
        for kind, found in self._feeding(Points.joined([heads, past])).items():
            self._rolls[kind].fill(sheet(kind, found, self.grid, first, known), horizon)

    def _remember(self, new: Points, past: Points, since: int) -> None:
        every = Points.joined([self._heads, past, new])
        self._heads = _first(every, _HEAD)
        told = Points.joined([self._of_runs, past, new])
        runs = [number for number, series in enumerate(self.series) if series.namespace == "Trn/Training"]
        self._of_runs = told.take(np.isin(told.series, runs) & (told.seconds >= since - self.history))
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

    def _feeding(self, points: Points) -> dict[str, list[Source]]:
        numbers = np.unique(points.series)
        dense = Points(np.searchsorted(numbers, points.series), points.seconds, points.count, points.total, points.peak)
        gatherer = Gatherer({self.series[n]: i for i, n in enumerate(numbers.tolist())}, [dense], catalogue=self.catalogue)
        ordered = batches(gatherer)
        return {kind: found for kind in KINDS if (found := sources(ordered, kind, self.catalogue))}

    def _see(self, end: int) -> None:
        """Note when each node last reported."""
        nodes = self.sheets.get("node")
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


def spread(past: Points, series: Sequence[Series], *recent: Points) -> Points:
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
