"""Poll metrics on from their watermarks, and their history in the background."""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from threading import Lock, Thread

import orjson

from adapters.aws.api.calls import WORKERS, Calls, DatapointPace
from adapters.aws.api.operations import Place
from adapters.aws.api.responses import KEPT
from adapters.aws.live.discovery import SeriesLister
from adapters.aws.live.frame_buffer import NewPoints, PastGrids
from adapters.aws.live.promql import fetch
from adapters.aws.live.requests import (
    MOST_QUERIES,
    MetricRequest,
    RequestScope,
    SeriesBook,
    SeriesValues,
    Watermark,
    plan_requests,
    statistics_of,
)
from adapters.aws.metrics.points import MetricSeries, Points, reporter
from bot.errors import Unavailable
from bot.model.reading import Gap

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
            ready, self._read = self._read, []
        return [grids for _, grids in ready]

    def pending(self) -> tuple[HistoryBlock, ...]:
        """Return all that no reading has had yet."""
        with self._lock:
            return (*(block for block, _ in self._read), *self._under_way, *self._wanted)

    def unread(self) -> tuple[str, ...]:
        """Return a sentence on how much history is still to be read; not a gap.

        All that is newer is whole.
        """
        unread = sum(len(block.numbers) for block in self.pending())
        if not unread:
            return ()
        done = max(0, self._asked - unread)
        return (
            f"The history of {done:,} of {self._asked:,} series is read; alerts that need none are told meanwhile.",
        )

    def _together(self, numbers: Iterable[int]) -> Iterator[tuple[int, ...]]:
        """Yield the series of some things at a time."""
        series, own = self.book.series, self.book.catalogue.instance
        ordered = sorted((reporter(series[n], own), n) for n in numbers)
        block: list[int] = []
        queries = 0
        for _, members in groupby(ordered, key=lambda entry: entry[0]):
            thing = [n for _, n in members]
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
                    scope = RequestScope(block.end, block.start, period=BACKFILL_PERIOD)
                    requests = plan_requests(self.book, block.numbers, block.place, scope)
                    answers = list(
                        pool.map(lambda request: self.fetch(request, deadline), requests)
                    )
                    grids = binned([values.points() for answer in answers for values in answer])
                except (
                    Unavailable,
                    RuntimeError,
                ):  # the pool takes no more work once the interpreter ends
                    return
                finally:
                    with self._lock:
                        self._under_way = []
                        if grids is None:
                            self._wanted.append(block)
                        else:
                            self._read.append((block, grids))


RECENT_SECONDS = 6 * 3600
_SILENT_SECONDS = 3 * 3600


@dataclass
class MetricPoller:
    """Keep the watermarks of every series and read on from them."""

    calls: Calls
    history: int
    stopwatch: Callable[[], float]
    book: SeriesBook = field(default_factory=SeriesBook)
    elsewhere: Callable[[MetricSeries], bool] = lambda _: False
    """Tell what a metric stream brings: only its history from before the stream is asked for."""
    elsewhere_seconds: int = 0
    """How far back the stream is read itself."""
    pause: Callable[[float], None] = time.sleep
    most_queries: int = MOST_QUERIES
    _places: dict[Place, list[int]] = field(default_factory=lambda: defaultdict(list))
    _pinned: dict[int, int] = field(default_factory=dict)
    _resumed: dict[Place, int] = field(default_factory=dict)
    """From when on the series of a place, as an earlier process left them, are to be read.

    Until they are listed.
    """

    def __post_init__(self) -> None:
        """Begin with the quotas unused."""
        self.pace = DatapointPace(self.stopwatch, self.pause)
        self.backfill = Backfill(self.book, self._paced, self.stopwatch)

    def enter(self, place: Place, listed: Iterable[MetricSeries], now: int) -> None:
        """Take in the series discovered at a place; the first time, their history is queued too."""
        first = place not in self._places
        recent = (now - RECENT_SECONDS) // BACKFILL_PERIOD * BACKFILL_PERIOD
        entered = list(listed)
        resumed = self._resumed.pop(place, now)
        self.book.enter(entered, recent if first else min(now - _SILENT_SECONDS, resumed))
        numbers = {self.book.number(series) for series in entered}
        new = sorted(numbers - set(self._places[place]))
        self._places[place] += new
        self.book.active -= set(self._places[place])
        self.book.active |= numbers
        if first:
            self.backfill.queue(place, new, now - self.history, recent)
        streamed = [number for number in numbers if self.elsewhere(self.book.series[number])]
        until = (now - self.elsewhere_seconds) // BACKFILL_PERIOD * BACKFILL_PERIOD
        if first or resumed < until:
            self.backfill.queue(place, streamed, recent if first else resumed, until, first=True)

    def resume(self, place: Place, known: Sequence[int], active: Iterable[int], since: int) -> None:
        """Go on from where an earlier process left the series of a place.

        All before `since` is known.
        """
        self._places[place] += known
        self.book.active.update(active)
        self._resumed[place] = since

    def resumed(self, place: Place, now: int) -> bool:
        """Return whether the series of a place are known from an earlier process, and no other can have come and gone since."""
        return now - self._resumed.get(place, 0) < _SILENT_SECONDS

    def known(self) -> Mapping[Place, Sequence[int]]:
        """Return the series of each place but those that are looked at for a while only."""
        return {
            place: [n for n in numbers if n not in self._pinned]
            for place, numbers in self._places.items()
        }

    def refill(self, start: int, end: int) -> None:
        """Want the history of all that is read, from start to end, once more."""
        for place, numbers in self.known().items():
            self.backfill.queue(
                place, sorted(self.book.active & set(numbers)), start, end, first=True
            )

    def pin(self, place: Place, listed: Iterable[MetricSeries], now: int, until: int) -> int:
        """Read some series from now until then whatever discovery finds.

        Return how many were not read just before.
        """
        entered = list(listed)
        self.book.enter(entered, now)
        numbers = {self.book.number(series) for series in entered}
        new = [n for n in numbers if self._pinned.get(n, 0) <= now]
        self._places[place] += sorted(numbers - set(self._places[place]))
        for number in new:
            if number not in self.book.active:
                self.book.marks[number] = Watermark(now)
        self._pinned |= dict.fromkeys(numbers, until)
        return len(new)

    def read(self, end: int, deadline: float) -> NewPoints:
        """Read up to `end` (seconds), until `deadline` by the stopwatch.

        The next tick makes the calls that are left.
        """
        marks = [
            self.book.marks[n] for numbers in self._places.values() for n in self._due(numbers, end)
        ]
        new = NewPoints(settled=min((max(mark.asked, mark.since) for mark in marks), default=end))
        recent = (end - RECENT_SECONDS) // BACKFILL_PERIOD * BACKFILL_PERIOD
        due = {place: self._due(numbers, end) for place, numbers in self._places.items()}
        newest = [
            request
            for place, numbers in due.items()
            for request in self._asked(place, numbers, end, recent)
        ]
        missing = self._make(
            newest, deadline, lambda request, answers: self._take(request, answers, new)
        )
        new.unread = frozenset(
            n for numbers in due.values() for n in numbers if self.book.marks[n].asked < end
        )
        if missing:
            new.gaps += _gaps("The newest metrics", missing)
        return new

    def _due(self, numbers: Sequence[int], end: int) -> list[int]:
        """Return the series that are active, or had a point within three hours."""
        marks, pinned = self.book.marks, self._pinned
        spoke = end - _SILENT_SECONDS
        close = {n for n, until in pinned.items() if until > end and not self.calls.spent}
        due = [
            n
            for n in numbers
            if n in self.book.active or n in close or (n not in pinned and marks[n].newest > spoke)
        ]
        return [n for n in due if not self.elsewhere(self.book.series[n])]

    def _take(
        self, request: MetricRequest, answers: Sequence[SeriesValues], read: NewPoints
    ) -> None:
        skipped: dict[int, list[int]] = defaultdict(list)
        for values in answers:
            mark = self.book.marks[values.number]
            if mark.start < request.start:
                skipped[mark.start].append(values.number)
            newest = int(values.times[-1]) + request.period if len(values.times) else request.start
            mark.answered(request.end if values.whole else newest, values.times)
            if len(values.times):
                read.points.append(values.points())
        for since, numbers in sorted(skipped.items()):
            self.backfill.queue(
                request.place,
                numbers,
                max(since, request.start - self.history),
                request.start,
                first=True,
            )
        if len(answers) < len(request.numbers):
            lacking = len(request.numbers) - len(answers)
            read.gaps.append(
                request.place.gap(
                    f"{lacking} metrics in {request.place} were not in CloudWatch's answer."
                )
            )

    def _asked(
        self, place: Place, numbers: Sequence[int], end: int, since: int
    ) -> Iterator[MetricRequest]:
        return plan_requests(
            self.book,
            numbers,
            place,
            RequestScope(end, since=since, most_queries=self.most_queries),
        )

    def _make(
        self,
        wanted: Sequence[MetricRequest],
        deadline: float,
        take: Callable[[MetricRequest, Sequence[SeriesValues]], None],
    ) -> list[MetricRequest]:
        """Make the calls in parallel and take the answers that come in time.

        Return the rest of the calls.
        """
        if not wanted:
            return []
        pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="cloudwatch")
        waiting: dict[Future[list[SeriesValues]], MetricRequest] = {
            pool.submit(self._paced, request, deadline): request for request in wanted
        }
        done, late = wait(waiting, timeout=max(0.0, deadline - self.stopwatch()))
        # A call that is under way may end after its tick: nobody takes its answer, and the next
        # tick asks again.
        pool.shutdown(wait=False, cancel_futures=True)
        failed = [waiting[future] for future in waiting if future in late]
        for future, request in waiting.items():
            if future in done:
                try:
                    take(request, future.result())
                except Unavailable:
                    failed.append(request)
        return failed

    def _paced(self, request: MetricRequest, deadline: float) -> list[SeriesValues]:
        """Make a call when CloudWatch's quota of points has room for it.

        Raise `Unavailable` where that is not in time.
        """
        age = self.calls.clock().timestamp() - request.start
        if not self.pace.wait(request.place, request.points, age, deadline):
            raise Unavailable("The time of this tick was used up before.")
        return fetch(self.calls, self.book, request)


def _gaps(what: str, missing: Sequence[MetricRequest]) -> list[Gap]:
    counted = Counter({request.place: 0 for request in missing})
    for request in missing:
        counted[request.place] += len(request.numbers)
    after = "could not be read; the next tick reads them."
    return [place.gap(f"{what} of {n} series in {place} {after}") for place, n in counted.items()]


MOST = 8
"""Nodes looked at closer at a time: 64 cores each are 1,024 metrics a tick, a cent."""
HELD = timedelta(minutes=30)
"""How long a node is looked at after it was last suspicious."""
_Interval = list[int]
"""Begin and end, seconds."""


@dataclass
class DetailPoller:
    """Read cores and devices of suspicious nodes, few at a time, within the budget.

    `journal` remembers which for recordings.
    """

    lister: SeriesLister
    metrics: MetricPoller
    journal: Path | None
    _until: dict[str, int] = field(default_factory=dict)
    _series: dict[str, set[MetricSeries]] = field(default_factory=dict)

    def watch(self, wanted: Sequence[tuple[Place, str]], now: datetime) -> int:
        """Read cores and devices of the first `MOST` instances from now on.

        Return how many series that adds.

        Raise `Unavailable` where they cannot be listed. Each series costs as much as any other.
        """
        seconds, added = int(now.timestamp()), 0
        for instance in [x for x, until in self._until.items() if until <= seconds]:
            del self._until[instance]
            self._series.pop(instance, None)
        open_places = MOST - len(set(self._until) - {instance for _, instance in wanted})
        for place, instance in wanted[: max(0, open_places)]:
            if self.lister.calls.spent:
                break
            if instance not in self._series:
                self._series[instance] = self.lister.details(place, instance)
            added += self.metrics.pin(
                place, self._series[instance], seconds, seconds + int(HELD.total_seconds())
            )
            self._note(instance, seconds)
        return added

    def instances(self) -> set[str]:
        """Return the instances whose cores and devices are read now."""
        return set(self._until)

    def _note(self, instance: str, at: int) -> None:
        until = self._until[instance] = at + int(HELD.total_seconds())
        if self.journal is None:
            return
        spans_of = detail_spans(self.journal)
        spans = [x for x in spans_of.get(instance, []) if x[1] > at - KEPT.total_seconds()]
        if spans and spans[-1][1] >= at:
            spans[-1][1] = until
        else:
            spans.append([at, until])
        self.journal.mkdir(parents=True, exist_ok=True)
        part = self.journal / "closer.part"
        part.write_bytes(orjson.dumps(spans_of | {instance: spans}))
        part.replace(self.journal / _FILE)


_FILE = "closer.json"


def detail_spans(journal: Path | None) -> dict[str, list[_Interval]]:
    """Return when a watch read the cores and devices of each instance; none where nothing was kept."""
    try:
        return dict(orjson.loads((journal / _FILE).read_bytes())) if journal else {}
    except (OSError, ValueError):
        return {}
