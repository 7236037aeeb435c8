"""Plan and make GetMetricData calls.

Watermarks of every series, no more queries or points a call than one page holds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import numpy as np

from adapters.aws.api.calls import Calls, limit_of
from adapters.aws.api.operations import Place
from adapters.aws.files import chunked
from adapters.aws.metrics.points import (
    Catalogue,
    Ints,
    MetricSeries,
    Points,
    Statistic,
    Target,
    sound,
    standard,
)
from adapters.aws.metrics.promql import NAMESPACE as PROMQL
from adapters.aws.metrics.promql import SampleCounts
from bot.model.frame import Doubles

LATE_SECONDS = 900
"""How late a point may come and still be picked up by itself."""
_MINUTE = 60
_RIPE_SECONDS = 540
"""Age of a hole at the last answer from which the next request asks for it.

That one ends about `LATE_SECONDS` after it.
"""


@dataclass
class Watermark:
    """Hold how far one series was read; seconds since the epoch, 0 for never."""

    since: int
    """Nothing before is wanted."""
    asked: int = 0
    """All before was asked for and answered."""
    newest: int = 0
    """The newest point that was read."""
    previous: int = 0
    """The point before it: their distance tells how far the points of the series are apart."""
    hole: int = 0
    """The first missing minute, to be asked for once more."""

    @property
    def start(self) -> int:
        """Return the begin of the next request.

        Before all that is unanswered or may come late, and at a hole once more.
        """
        unread = self.newest + _MINUTE if self.newest else self.since
        start = max(unread, self.asked - LATE_SECONDS)
        return min(start, self.hole) if self._due() else start

    def answered(self, end: int, times: Ints) -> None:
        """Take note of an answer with all points from `start` to `end`."""
        if self._due():
            self.hole = 0
        known = [point for point in (self.previous, self.newest) if point]
        self.hole = self.hole or _first_missing(known, times, end - LATE_SECONDS)
        self.asked = max(self.asked, end)
        self.previous, self.newest = [0, 0, *sorted({*known, *times[-2:].tolist()})][-2:]

    def _due(self) -> bool:
        """Return whether the hole is old enough.

        It is asked for once, and may come late until then.
        """
        return bool(self.hole) and self.asked - self.hole >= _RIPE_SECONDS


def _first_missing(known: Sequence[int], times: Ints, floor: int) -> int:
    """Return the first minute from `floor` on without a point in a series of minutes.

    0 where none is missing; `known` are the newest points of before.
    """
    # Only a series of minutes tells by its spacing that one is missing.
    reported = np.append(known, times[times > known[-1]]) if known else times
    spacing = np.diff(reported)
    gaps = np.flatnonzero((spacing > _MINUTE) & (reported[1:] - _MINUTE >= floor))
    if not len(gaps) or spacing.min() != _MINUTE:
        return 0
    return max(int(reported[gaps[0]]) + _MINUTE, floor)


@dataclass
class SeriesBook:
    """Number every series ever met and keep its watermark; `active` ones are asked for."""

    series: list[MetricSeries] = field(default_factory=list)
    marks: list[Watermark] = field(default_factory=list)
    active: set[int] = field(default_factory=set)
    catalogue: Catalogue = field(default_factory=standard)
    samples: dict[Place, SampleCounts] = field(default_factory=dict)
    """What queries by PromQL about each place look at."""
    recorded: dict[Place, Mapping[str, float]] = field(default_factory=dict)
    """How many nodes each recorded series of a place's server tells of."""
    numbers: dict[MetricSeries, int] = field(default_factory=dict)
    """The place of each series among them."""

    def enter(self, listed: Iterable[MetricSeries], since: int) -> list[int]:
        """Return the numbers of series, in order; new ones get one, to be read from `since` on."""
        entered = sorted(listed)
        for series in entered:
            if series not in self.numbers:
                self.numbers[series] = len(self.series)
                self.series.append(series)
                self.marks.append(Watermark(since))
        return sorted(self.numbers[series] for series in entered)

    def resume(self, series: Sequence[MetricSeries], since: int) -> None:
        """Number series as an earlier process did, to be read from `since` on.

        This book is empty.
        """
        self.series.extend(series)
        self.marks.extend(Watermark(since) for _ in series)
        self.numbers |= {x: number for number, x in enumerate(series)}

    def newest(self, series: MetricSeries) -> int | None:
        """Return the second of the newest point that was read of a series, 0 for none.

        None where it was not asked for yet.
        """
        number = self.numbers.get(series)
        if number is None or not self.marks[number].asked:
            return None
        return self.marks[number].newest


MOST_QUERIES = limit_of("cloudwatch", "get_metric_data", "queries")
MOST_POINTS = limit_of("cloudwatch", "get_metric_data", "datapoints")
MOST_SERIES = limit_of("promql", "query_range", "series") * 4 // 5
"""Things asked for by PromQL at a time.

An answer with as many series as there can be would not tell that it is whole.
"""
ALL = ("SampleCount", "Sum", "Maximum", "Minimum")
_NEEDED = {
    Statistic.LEVEL: ("SampleCount", "Sum"),
    Statistic.TOTAL: ("SampleCount", "Sum"),
    Statistic.RATE: ("Sum",),
    Statistic.EVENTS: ("Sum",),
    Statistic.LARGEST: ("Maximum",),
    Statistic.LAST: ("Maximum",),
}


@dataclass(frozen=True)
class SeriesBlock:
    """Name series that are read together, and the time that is read, seconds, half-open."""

    place: Place
    start: int
    end: int
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class MetricRequest(SeriesBlock):
    """Hold one call, and the statistics of each series."""

    period: int
    statistics: tuple[tuple[str, ...], ...]

    @property
    def points(self) -> int:
        """Return how many points the answer may have."""
        return sum(map(len, self.statistics)) * _points(self.start, self.end, self.period)


@dataclass(frozen=True)
class SeriesValues:
    """Hold the values of one series: `whole` where nothing was held back."""

    number: int
    times: Ints
    sets: Mapping[str, Doubles]
    whole: bool

    def points(self) -> Points:
        """Return the points as statistic sets.

        A statistic that nobody needs is inferred from the others.
        """
        peak = self.sets.get("Maximum", np.full(len(self.times), np.nan))
        total = self.sets.get("Sum", peak)
        count = self.sets.get("SampleCount", np.ones(len(self.times)))
        series = np.full(len(self.times), self.number, dtype=np.int64)
        return Points(series, self.times, count, total, peak).take(
            sound(self.times.astype(np.float64), count, total)
        )


def statistics_of(targets: Sequence[Target]) -> tuple[str, ...]:
    """Return the statistics that the meaning of a series needs."""
    return tuple(
        name for name in ALL if any(name in _NEEDED[target.statistic] for target in targets)
    )


@dataclass(frozen=True)
class RequestScope:
    """Hold the time to read, in seconds and half-open, and how to read it."""

    end: int
    start: int | None = None
    """None reads each series on from its watermark."""
    since: int = 0
    """Nothing before is asked for."""
    period: int = 60
    statistics: tuple[str, ...] = ()
    """None named: those that the meaning of each series needs."""
    most_queries: int = MOST_QUERIES


def plan_requests(
    book: SeriesBook, numbers: Sequence[int], place: Place, scope: RequestScope
) -> Iterator[MetricRequest]:
    """Yield the calls that read some series of a place.

    All statistics of a series stand in one call: then it is billed as one metric. What a call may
    answer fits into one page: each page is billed anew.
    """
    by_start: dict[int, list[int]] = defaultdict(list)
    for number in numbers:
        start = max(scope.since, book.marks[number].start if scope.start is None else scope.start)
        if start < scope.end:
            by_start[start].append(number)

    for start, together in sorted(by_start.items(), reverse=True):
        empty = MetricRequest(place, start, scope.end, (), scope.period, ())

        # By PromQL one metric of one kind of thing is asked for, of some hundred things.
        alike: dict[tuple[str, tuple[str, ...]], list[int]] = defaultdict(list)
        for number in sorted(together):
            series = book.series[number]
            if series.namespace == PROMQL:
                alike[series.metric, series.names].append(number)
        for queried in alike.values():
            for first in range(0, len(queried), MOST_SERIES):
                yield replace(empty, numbers=tuple(queried[first : first + MOST_SERIES]))

        polled = [
            (n, scope.statistics or statistics_of(book.catalogue.targets_of(book.series[n])))
            for n in together
            if book.series[n].namespace != PROMQL
        ]
        fitting = MOST_POINTS // _points(start, scope.end, scope.period)
        for chunk in chunked(polled, lambda x: len(x[1]), min(scope.most_queries, fitting)):
            yield replace(
                empty, numbers=tuple(n for n, _ in chunk), statistics=tuple(s for _, s in chunk)
            )


def _points(start: int, end: int, period: int) -> int:
    """Return how many points one query may have in a time; CloudWatch rounds its begin down."""
    return -(-end // period) - start // period


def fetch_metric_data(calls: Calls, book: SeriesBook, request: MetricRequest) -> list[SeriesValues]:
    """Make the call, all pages; raise `Unavailable` where one fails.

    A series that is not in the answer is left out.
    """
    asked_for = list(zip(request.numbers, request.statistics, strict=True))
    metrics = {
        number: {
            "Namespace": series.namespace,
            "MetricName": series.metric,
            "Dimensions": [{"Name": name, "Value": value} for name, value in series.dimensions],
        }
        for number in request.numbers
        for series in [book.series[number]]
    }
    queries = [
        {
            "Id": f"m{number}_{statistic.lower()}",
            "MetricStat": {"Metric": metrics[number], "Period": request.period, "Stat": statistic},
            "ReturnData": True,
        }
        for number, statistics in asked_for
        for statistic in statistics
    ]

    times: dict[str, list[datetime]] = defaultdict(list)
    values: dict[str, list[float]] = defaultdict(list)
    status: dict[str, str] = {}
    for page in calls.pages(
        request.place,
        "cloudwatch",
        "get_metric_data",
        units=len(request.numbers),
        MetricDataQueries=queries,
        StartTime=datetime.fromtimestamp(request.start, UTC),
        EndTime=datetime.fromtimestamp(request.end, UTC),
        ScanBy="TimestampAscending",
    ):
        for result in page["MetricDataResults"]:
            times[result["Id"]] += result.get("Timestamps", ())
            values[result["Id"]] += result.get("Values", ())
            status[result["Id"]] = result.get("StatusCode", "Complete")

    return list(filter(None, (_series_values(*x, times, values, status) for x in asked_for)))


def _series_values(
    number: int,
    statistics: Sequence[str],
    times: Mapping[str, list[datetime]],
    values: Mapping[str, list[float]],
    status: Mapping[str, str],
) -> SeriesValues | None:
    """Return the values at the times that every statistic has, None where one is not answered."""
    columns: dict[str, tuple[Ints, Doubles]] = {}
    whole = True
    for statistic in statistics:
        id = f"m{number}_{statistic.lower()}"
        if status.get(id) not in ("Complete", "PartialData") or len(times[id]) != len(values[id]):
            return None
        whole = whole and status[id] == "Complete"
        stamps = np.array([int(t.timestamp()) for t in times[id]], dtype=np.int64)
        seconds, first = np.unique(stamps, return_index=True)
        columns[statistic] = (seconds, np.array(values[id], dtype=np.float64)[first])

    shared = next(iter(columns.values()))[0]
    for seconds, _ in columns.values():
        # One statistic of the newest point can be out a moment before the other: it is read next
        # time.
        if not np.array_equal(seconds, shared):
            shared, whole = np.intersect1d(shared, seconds), False
    sets = {s: column[np.isin(seconds, shared)] for s, (seconds, column) in columns.items()}
    return SeriesValues(number, shared, sets, whole)
