"""Ask GetMetricData: which series from when on, at most 500 queries a call, all pages or nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from adapters.aws.catalogue import Statistic, Target
from adapters.aws.live.calls import Calls, Place
from adapters.aws.live.watermarks import Book
from adapters.aws.points import Doubles, Ints, Points, Series, sound

MOST_QUERIES = 500
"""GetMetricData takes so many queries a call."""
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
class Ask:
    """Hold one call: numbers of series, their statistics, and the time it covers, seconds, half-open."""

    place: Place
    start: int
    end: int
    period: int
    numbers: tuple[int, ...]
    statistics: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Told:
    """Hold what one series answered: `whole` where nothing was held back."""

    number: int
    times: Ints
    sets: Mapping[str, Doubles]
    whole: bool

    def points(self) -> Points:
        """Return the points as statistic sets; a statistic that nobody needs is told from the others."""
        none = np.full(len(self.times), np.nan)
        peak = self.sets.get("Maximum", none)
        total = self.sets.get("Sum", peak)
        count = self.sets.get("SampleCount", np.ones(len(self.times)))
        good = sound(self.times.astype(np.float64), count, total)
        series = np.full(len(self.times), self.number, dtype=np.int64)
        return Points(series, self.times, count, total, peak).take(good)


def statistics_of(targets: Sequence[Target]) -> tuple[str, ...]:
    """Return the statistics that the meaning of a series needs."""
    wanted = {name for target in targets for name in _NEEDED[target.statistic]}
    return tuple(name for name in ALL if name in wanted)


def asks(
    book: Book,
    numbers: Sequence[int],
    place: Place,
    start: int | None,
    end: int,
    period: int = 60,
    statistics: tuple[str, ...] = (),
    since: int = 0,
    most: int = MOST_QUERIES,
) -> Iterator[Ask]:
    """Yield the calls that read some series of a place up to `end`, from `start` or from where each was read to.

    Nothing before `since` is asked for.

    All statistics of a series stand in one call: then it is billed as one metric.
    """
    at: dict[int, list[int]] = defaultdict(list)
    for number in numbers:
        begin = max(since, book.marks[number].start if start is None else start)
        if begin < end:
            at[begin].append(number)
    for begin, together in sorted(at.items(), reverse=True):
        chunk: list[tuple[int, tuple[str, ...]]] = []
        queries = 0
        for number in together:
            wanted = statistics or statistics_of(book.targets(book.series[number]))
            if queries + len(wanted) > most:
                yield _ask(place, begin, end, period, chunk)
                chunk, queries = [], 0
            chunk.append((number, wanted))
            queries += len(wanted)
        yield _ask(place, begin, end, period, chunk)


def _ask(place: Place, start: int, end: int, period: int, chunk: Sequence[tuple[int, tuple[str, ...]]]) -> Ask:
    return Ask(place, start, end, period, tuple(n for n, _ in chunk), tuple(s for _, s in chunk))


def tell(calls: Calls, book: Book, ask: Ask) -> list[Told]:
    """Make the call, all pages; raise `Unavailable` where one fails. A series that is not in the answer is not told."""
    queries = [
        _query(f"m{number}_{statistic.lower()}", book.series[number], statistic, ask.period)
        for number, wanted in zip(ask.numbers, ask.statistics, strict=True)
        for statistic in wanted
    ]
    times: dict[str, list[datetime]] = defaultdict(list)
    values: dict[str, list[float]] = defaultdict(list)
    status: dict[str, str] = {}
    for page in calls.pages(
        ask.place,
        "cloudwatch",
        "get_metric_data",
        units=len(ask.numbers),
        MetricDataQueries=queries,
        StartTime=datetime.fromtimestamp(ask.start, UTC),
        EndTime=datetime.fromtimestamp(ask.end, UTC),
        ScanBy="TimestampAscending",
    ):
        for result in page["MetricDataResults"]:
            times[result["Id"]] += result.get("Timestamps", ())
            values[result["Id"]] += result.get("Values", ())
            status[result["Id"]] = result.get("StatusCode", "Complete")
    found = (_told(number, wanted, times, values, status) for number, wanted in zip(ask.numbers, ask.statistics, strict=True))
    return [told for told in found if told]


def _query(id: str, series: Series, statistic: str, period: int) -> dict[str, Any]:
    dimensions = [{"Name": name, "Value": value} for name, value in series.dimensions]
    metric = {"Namespace": series.namespace, "MetricName": series.metric, "Dimensions": dimensions}
    return {"Id": id, "MetricStat": {"Metric": metric, "Period": period, "Stat": statistic}, "ReturnData": True}


def _told(
    number: int,
    wanted: Sequence[str],
    times: Mapping[str, list[datetime]],
    values: Mapping[str, list[float]],
    status: Mapping[str, str],
) -> Told | None:
    ids = {statistic: f"m{number}_{statistic.lower()}" for statistic in wanted}
    if any(status.get(id) not in ("Complete", "PartialData") or len(times[id]) != len(values[id]) for id in ids.values()):
        return None
    read = {s: _column(times[id], values[id]) for s, id in ids.items()}
    shared = next(iter(read.values()))[0]
    whole = all(status[id] == "Complete" for id in ids.values())
    for at, _ in read.values():
        if not np.array_equal(at, shared):
            # One statistic of the newest point can be out a moment before the other: it is read next time.
            shared, whole = np.intersect1d(shared, at), False
    return Told(number, shared, {s: value[np.isin(at, shared)] for s, (at, value) in read.items()}, whole)


def _column(times: Sequence[datetime], values: Sequence[float]) -> tuple[Ints, Doubles]:
    """Return seconds in order, each once, and the values."""
    at, first = np.unique(np.array([int(t.timestamp()) for t in times], dtype=np.int64), return_index=True)
    return at, np.array(values, dtype=np.float64)[first]
