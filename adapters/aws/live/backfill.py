"""Read history in the background, thing by thing.

A tick takes in all that has come by then, and never waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby
from threading import Lock, Thread

from adapters.aws.api.calls import WORKERS, Place
from adapters.aws.live.grid_ring import PastGrids
from adapters.aws.live.requests import (
    MetricRequest,
    RequestScope,
    SeriesBook,
    SeriesValues,
    plan_requests,
    statistics_of,
)
from adapters.aws.metrics.points import Points, reporter
from bot.errors import Unavailable

BACKFILL_PERIOD = 300
"""History older than the newest hours is read at five minutes.

A fifth of the points to carry and parse.
"""
_AT_ONCE = 138
"""Queries that are read and put on the grid together, so that memory stays small.

6 calls of 15 days, 0.6 million points.
"""
Fetch = Callable[[MetricRequest, float], list[SeriesValues]]
Bin = Callable[[list[Points]], PastGrids]


@dataclass(frozen=True)
class HistoryBlock:
    """Name series that are read together: whole things, so that none is put on the grid by half.

    Times are seconds, half-open.
    """

    place: Place
    start: int
    end: int
    numbers: tuple[int, ...]


@dataclass
class Backfill:
    """Hold the history that is still to be read, and read it between ticks."""

    book: SeriesBook
    fetch: Fetch
    stopwatch: Callable[[], float]
    _wanted: deque[HistoryBlock] = field(default_factory=deque)
    _read: list[tuple[HistoryBlock, PastGrids]] = field(default_factory=list)
    _under_way: list[HistoryBlock] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)
    _thread: Thread | None = None
    _asked: int = 0
    """Series queued since there was nothing to read."""

    def queue(
        self, place: Place, numbers: Iterable[int], start: int, end: int, *, first: bool = False
    ) -> None:
        """Want the history of some series; `first` before all that is wanted already."""
        begin = start // BACKFILL_PERIOD * BACKFILL_PERIOD
        if begin >= end:
            return
        blocks = [HistoryBlock(place, begin, end, together) for together in self._together(numbers)]
        with self._lock:
            if not self._wanted and not self._read:
                self._asked = 0
            self._asked += sum(len(block.numbers) for block in blocks)
            self._wanted = deque([*blocks, *self._wanted] if first else [*self._wanted, *blocks])

    def start(self, deadline: float, binned: Bin) -> None:
        """Read on in the background until `deadline` by the stopwatch."""
        if self._wanted and not (self._thread and self._thread.is_alive()):
            self._thread = Thread(
                target=self._read_on, args=(deadline, binned), name="history", daemon=True
            )
            self._thread.start()

    def join(self) -> None:
        """Wait for the calls under way."""
        if self._thread:
            self._thread.join()

    def taken(self) -> list[PastGrids]:
        """Return all grids that have come since the last call."""
        with self._lock:
            read, self._read = self._read, []
        return [grids for _, grids in read]

    def pending(self) -> tuple[HistoryBlock, ...]:
        """Return all that no reading has had yet."""
        with self._lock:
            return (*(block for block, _ in self._read), *self._under_way, *self._wanted)

    def unread(self) -> tuple[str, ...]:
        """Return a sentence on how much history is still to be read; not a gap.

        All that is newer is whole.
        """
        left = sum(len(block.numbers) for block in self.pending())
        if not left:
            return ()
        done = max(0, self._asked - left)
        return (
            f"The history of {done:,} of {self._asked:,} series is read; alerts that need none are told meanwhile.",
        )

    def _together(self, numbers: Iterable[int]) -> Iterator[tuple[int, ...]]:
        """Yield the series of some things at a time."""
        series, own = self.book.series, self.book.catalogue.instance
        ordered = sorted((reporter(series[n], own), n) for n in numbers)
        block: list[int] = []
        queries = 0
        for _, mine in groupby(ordered, key=lambda one: one[0]):
            thing = [n for _, n in mine]
            more = sum(len(statistics_of(self.book.targets(series[n]))) for n in thing)
            if block and queries + more > _AT_ONCE:
                yield tuple(block)
                block, queries = [], 0
            block += thing
            queries += more
        if block:
            yield tuple(block)

    def _read_on(self, deadline: float, binned: Bin) -> None:
        with ThreadPoolExecutor(WORKERS, thread_name_prefix="history") as pool:
            while self._wanted and self.stopwatch() < deadline:
                with self._lock:
                    block = self._wanted.popleft()
                    self._under_way = [block]
                grids = None
                try:
                    grids = binned(self._points(block, pool, deadline))
                except (
                    Unavailable,
                    RuntimeError,
                ):  # the pool takes no more work once the interpreter ends
                    return
                finally:
                    self._ended(block, grids)

    def _points(
        self, block: HistoryBlock, pool: ThreadPoolExecutor, deadline: float
    ) -> list[Points]:
        scope = RequestScope(block.end, block.start, period=BACKFILL_PERIOD)
        requests = plan_requests(self.book, block.numbers, block.place, scope)
        answers = list(pool.map(lambda request: self.fetch(request, deadline), requests))
        return [values.points() for answer in answers for values in answer]

    def _ended(self, block: HistoryBlock, grids: PastGrids | None) -> None:
        """Keep the grids of a block; one that failed is read after all others."""
        with self._lock:
            self._under_way = []
            if grids is None:
                self._wanted.append(block)
            else:
                self._read.append((block, grids))
