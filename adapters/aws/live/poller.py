"""Poll metrics on from their watermarks, and their history in the background."""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from pathlib import Path
from threading import Lock, Thread

import orjson

from adapters.aws.api.calls import WORKERS, Calls, DatapointPace, in_time
from adapters.aws.api.operations import Place
from adapters.aws.api.responses import KEPT
from adapters.aws.files import chunked, write_whole
from adapters.aws.live.discovery import SeriesLister
from adapters.aws.live.frame_buffer import NewPoints, PastGrids
from adapters.aws.live.promql import fetch
from adapters.aws.live.requests import (
    MOST_QUERIES,
    MetricRequest,
    RequestScope,
    SeriesBlock,
    SeriesBook,
    SeriesValues,
    Watermark,
    plan_requests,
    statistics_of,
)
from adapters.aws.metrics.points import MetricSeries, Points, reporter
from bot.errors import Unavailable
from bot.model.codec import by_key

BACKFILL_PERIOD = 300
"""History older than the newest hours is read at five minutes.

A fifth of the points to carry and parse.
"""
_AT_ONCE = 138
"""Queries that are read and put on the grid together, so that memory stays small.

6 calls of 15 days, 0.6 million points.
"""


def _coarse(second: int) -> int:
    """Return the begin of the period of history that a second lies in."""
    return second // BACKFILL_PERIOD * BACKFILL_PERIOD


Bin = Callable[[list[Points]], PastGrids]


@dataclass
class Backfill:
    """Hold the history that is still to be read, and read it between ticks."""

    book: SeriesBook
    fetch: Callable[[MetricRequest, float], list[SeriesValues]]
    stopwatch: Callable[[], float]
    _wanted: deque[SeriesBlock] = field(default_factory=deque)
    _read: list[tuple[SeriesBlock, PastGrids]] = field(default_factory=list)
    _under_way: list[SeriesBlock] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)
    _thread: Thread | None = None
    _asked: int = 0
    """Series queued since there was nothing to read."""

    def queue(
        self, place: Place, numbers: Iterable[int], start: int, end: int, *, first: bool = False
    ) -> None:
        """Want the history of some series; `first` before all that is wanted already."""
        begin = _coarse(start)
        if begin >= end:
            return

        # All series of a thing are read together, as some of its values are counted by others.
        series, instance = self.book.series, self.book.catalogue.instance
        queries = {
            n: len(statistics_of(self.book.catalogue.targets_of(series[n]))) for n in numbers
        }
        by_thing = by_key(sorted((reporter(series[n], instance), n) for n in queries))
        things = chunked(by_thing.values(), lambda thing: sum(queries[n] for n in thing), _AT_ONCE)
        blocks = [SeriesBlock(place, begin, end, tuple(chain(*together))) for together in things]
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

    def pending(self) -> tuple[SeriesBlock, ...]:
        """Return all that no reading has had yet."""
        with self._lock:
            return (*(block for block, _ in self._read), *self._under_way, *self._wanted)

    def unread(self) -> tuple[str, ...]:
        """Return a sentence on how much history is still to be read; not a gap.

        All that is newer is whole.
        """
        if not (unread := sum(len(block.numbers) for block in self.pending())):
            return ()
        n_read = max(0, self._asked - unread)
        return (
            f"The history of {n_read:,} of {self._asked:,} series is read; alerts that need none are"
            " sent meanwhile.",
        )

    def _read_on(self, deadline: float, binned: Bin) -> None:
        with ThreadPoolExecutor(WORKERS, thread_name_prefix="history") as pool:
            while self._wanted and self.stopwatch() < deadline:
                with self._lock:
                    block = self._wanted.popleft()
                    self._under_way = [block]
                grids = None
                scope = RequestScope(block.end, block.start, period=BACKFILL_PERIOD)
                try:
                    requests = plan_requests(self.book, block.numbers, block.place, scope)
                    answers = list(
                        pool.map(lambda request: self.fetch(request, deadline), requests)
                    )
                    grids = binned([values.points() for answer in answers for values in answer])
                except (Unavailable, RuntimeError):
                    return  # the pool takes no more work once the interpreter ends
                finally:
                    # A block that failed is read after all others.
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
        first, recent = place not in self._places, _coarse(now - RECENT_SECONDS)
        resumed = self._resumed.pop(place, now)
        since = recent if first else min(now - _SILENT_SECONDS, resumed)
        numbers = set(self.book.enter(listed, since))
        new = sorted(numbers - set(self._places[place]))
        self._places[place] += new
        self.book.active -= set(self._places[place])
        self.book.active |= numbers
        if first:
            self.backfill.queue(place, new, now - self.history, recent)
        streamed = [number for number in numbers if self.elsewhere(self.book.series[number])]
        until = _coarse(now - self.elsewhere_seconds)
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
        """Return whether the series of a place are known from an earlier process.

        And no other can have come and gone since.
        """
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

    def pin(self, place: Place, listed: Iterable[MetricSeries], now: int, until: int) -> None:
        """Read some series from now until then whatever discovery finds."""
        numbers = set(self.book.enter(listed, now))
        self._places[place] += sorted(numbers - set(self._places[place]))
        for number in numbers - self.book.active:
            if self._pinned.get(number, 0) <= now:
                self.book.marks[number] = Watermark(now)
        self._pinned |= dict.fromkeys(numbers, until)

    def read(self, end: int, deadline: float) -> NewPoints:
        """Read up to `end` (seconds), until `deadline` by the stopwatch.

        The next tick makes the calls that are left.
        """
        # Due is what is active, or had a point within three hours, or is looked at closely.
        pinned, spoke = self._pinned, end - _SILENT_SECONDS
        close = {n for n, until in pinned.items() if until > end and not self.calls.spent}
        due = {
            place: [
                n
                for n in numbers
                if n in self.book.active
                or n in close
                or (n not in pinned and self.book.marks[n].newest > spoke)
                if not self.elsewhere(self.book.series[n])
            ]
            for place, numbers in self._places.items()
        }
        marks = [self.book.marks[n] for numbers in due.values() for n in numbers]
        new = NewPoints(settled=min((max(mark.asked, mark.since) for mark in marks), default=end))
        scope = RequestScope(
            end, since=_coarse(end - RECENT_SECONDS), most_queries=self.most_queries
        )
        requests = [
            request
            for place, numbers in due.items()
            for request in plan_requests(self.book, numbers, place, scope)
        ]
        paced, seconds = partial(self._paced, deadline=deadline), deadline - self.stopwatch()
        lacking: Counter[Place] = Counter()
        for request, answers in in_time(paced, requests, seconds, "cloudwatch"):
            if answers is None:
                lacking[request.place] += len(request.numbers)
            else:
                self._take(request, answers, new)
        new.unread = frozenset(
            n for numbers in due.values() for n in numbers if self.book.marks[n].asked < end
        )
        for place, n in lacking.items():
            unread = f"The newest metrics of {n} series in {place} could not be read"
            new.gaps.append(place.gap(f"{unread}; the next tick reads them."))
        return new

    def _take(
        self, request: MetricRequest, answers: Sequence[SeriesValues], new: NewPoints
    ) -> None:
        """Keep an answer's points, and queue what an outage left unread before them."""
        place, start = request.place, request.start

        # An outage that was longer than a request reaches back leaves history unread.
        skipped: dict[int, list[int]] = defaultdict(list)
        for values in answers:
            mark = self.book.marks[values.number]
            if mark.start < start:
                skipped[mark.start].append(values.number)
            newest = int(values.times[-1]) + request.period if len(values.times) else start
            mark.answered(request.end if values.whole else newest, values.times)
            if len(values.times):
                new.points.append(values.points())

        for since, numbers in sorted(skipped.items()):
            self.backfill.queue(place, numbers, max(since, start - self.history), start, first=True)
        if lacking := len(request.numbers) - len(answers):
            new.gaps.append(
                place.gap(f"{lacking} metrics in {place} were not in CloudWatch's answer.")
            )

    def _paced(self, request: MetricRequest, deadline: float) -> list[SeriesValues]:
        """Make a call when CloudWatch's quota of points has room for it.

        Raise `Unavailable` where that is not in time.
        """
        age = self.calls.clock().timestamp() - request.start
        if not self.pace.wait(request.place, request.points, age, deadline):
            raise Unavailable("This tick ran out of time before it.")
        return fetch(self.calls, self.book, request)


MOST = 8
"""Nodes looked at closer at a time: 64 cores each are 1,024 metrics a tick, a cent."""
HELD = timedelta(minutes=30)
"""How long a node is looked at after it was last suspicious."""


@dataclass
class DetailPoller:
    """Read cores and devices of suspicious nodes, few at a time, within the budget.

    `journal` remembers which for recordings.
    """

    lister: SeriesLister
    metrics: MetricPoller
    journal: Path | None
    _watched: dict[str, tuple[int, set[MetricSeries]]] = field(default_factory=dict)
    """Until when each instance is looked at, seconds, and its series."""

    def watch(self, wanted: Sequence[tuple[Place, str]], now: datetime) -> None:
        """Read cores and devices of the first `MOST` instances from now on.

        Raise `Unavailable` where they cannot be listed. Each series costs as much as any other.
        """
        begin = int(now.timestamp())
        until = begin + int(HELD.total_seconds())
        self._watched = {x: watch for x, watch in self._watched.items() if watch[0] > begin}
        room = MOST - len(self._watched.keys() - {instance for _, instance in wanted})
        for place, instance in wanted[: max(0, room)]:
            if self.lister.calls.spent:
                break
            watch = self._watched.get(instance)
            series = watch[1] if watch else self.lister.details(place, instance)
            self.metrics.pin(place, series, begin, until)
            self._watched[instance] = (until, series)
            if self.journal:
                # A recording asks for the same details of the same times.
                spans_of = detail_spans(self.journal)
                oldest = begin - KEPT.total_seconds()
                spans = [span for span in spans_of.get(instance, []) if span[1] > oldest]
                if spans and spans[-1][1] >= begin:
                    spans[-1][1] = until
                else:
                    spans.append([begin, until])
                write_whole(self.journal / _FILE, orjson.dumps(spans_of | {instance: spans}))

    def instances(self) -> set[str]:
        """Return the instances whose cores and devices are read now."""
        return set(self._watched)


_FILE = "closer.json"


def detail_spans(journal: Path | None) -> dict[str, list[list[int]]]:
    """Return when a watch read the cores and devices of each instance: begins and ends, seconds.

    None where nothing was kept.
    """
    try:
        return dict(orjson.loads((journal / _FILE).read_bytes())) if journal else {}
    except (OSError, ValueError):
        return {}
