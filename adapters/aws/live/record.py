"""Write a recording of a live account: what AWS answers, in the formats that a recording is read from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import orjson

from adapters.aws.api.calls import Place
from adapters.aws.api.history import ResponseHistory, file_of
from adapters.aws.live.discovery import detail_series, discover
from adapters.aws.live.poller import detail_spans
from adapters.aws.live.requests import ALL, MetricRequest, SeriesValues, fetch, plan_requests
from adapters.aws.live.source import Live
from adapters.aws.logs.logbook import trimmed
from adapters.aws.metrics.points import MetricSeries
from bot.errors import Unavailable, WrongInput

MINUTES_KEPT = timedelta(days=15)
"""CloudWatch keeps points of one minute so long (CloudWatch User Guide, metrics retention, 2026-11)."""
_PART = timedelta(hours=3)
"""So much of 500 queries fits into one answer of 100,800 points, so that no answer has a second page."""


@dataclass(frozen=True)
class Recorded:
    """Count what was written."""

    points: int
    answers: int
    usd: str
    missing: tuple[str, ...]


def record(live: Live, folder: Path, start: datetime, end: datetime, say: Callable[[str], None] = lambda _: None) -> Recorded:
    """Write metrics of [start, end) at one minute, and inventory and prices as they are now, into a new folder.

    The format is that of AWS's own metric streams and boto3 responses. Raise `WrongInput` for a folder in use or an empty
    time, `Unavailable` where nothing could be read.
    """
    if folder.exists() and any(folder.iterdir()):
        raise WrongInput(f"{folder} is not empty; name a new folder for the recording.")
    if start >= end:
        raise WrongInput(f"There is nothing between {start:%Y-%m-%d %H:%M} and {end:%Y-%m-%d %H:%M} UTC to record.")
    missing = list(live.describe(end))
    if not live.places():
        raise Unavailable(" ".join(missing) or "No AWS account answers.")
    answers = _write_answers(folder, live.heard)
    points = 0
    for place in live.places():
        say(f"reading {place}")
        points += _write_metrics(live, place, folder, start, end, missing)
    _write_logs(live, folder, start, end, missing)
    if not points:
        raise Unavailable(" ".join(["CloudWatch has no metric that means something here in that time.", *missing]))
    return Recorded(points, answers, f"{live.calls.tab.today().usd:.2f}", tuple(missing))


def _write_answers(folder: Path, heard: ResponseHistory) -> int:
    """Write the newest answers, and those that a watch kept while it ran: they tell what has ended since."""
    kept = heard.journal.glob("api/*/*/*/*.json") if heard.journal else ()
    found = {path.relative_to(heard.journal): path.read_bytes() for path in kept} if heard.journal else {}
    newest = {call: said for call in heard.calls() if (said := heard.newest(call))}
    found |= {file_of(call, at): raw + b"\n" for call, (at, raw) in newest.items()}
    for name, raw in found.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(raw)
    return len(found)


def _write_metrics(live: Live, place: Place, folder: Path, start: datetime, end: datetime, missing: list[str]) -> int:
    known, attached = live.about(place)
    found = discover(live.calls, place, known, attached, live.poll.book.catalogue, recent=False)
    book = live.poll.book
    book.enter(found, int(start.timestamp()))
    numbers = sorted(book.number(series) for series in found)
    closer = list(_closer(live, place, missing))
    path = folder / "metrics" / (place.account or "own") / place.region
    path.mkdir(parents=True, exist_ok=True)
    written = 0
    for begin, stop in _parts(start, end):
        lines: list[bytes] = []
        wanted = list(plan_requests(book, numbers, place, int(begin.timestamp()), int(stop.timestamp()), statistics=ALL))
        for at, until, close in closer:
            low, high = max(at, int(begin.timestamp())), min(until, int(stop.timestamp()))
            wanted += plan_requests(book, close, place, low, high, statistics=ALL)
        for ask in wanted:
            lines += [line for told in _told(live, ask, missing) for line in _lines(told, book.series[told.number])]
        if lines:
            (path / f"{begin:%Y%m%dT%H%MZ}.jsonl").write_bytes(b"".join(lines))
        written += len(lines)
    return written


def _write_logs(live: Live, folder: Path, start: datetime, end: datetime, missing: list[str]) -> None:
    """Write what events say of compiles, some hours at a time; no more of a log is asked for, and none of its text is kept."""
    for number, group in enumerate(live.logs.groups):
        for place in (x for x in live.places() if x.region == (group.region or live.home)):
            found: list[bytes] = []
            for begin, stop in _parts(start, end):
                try:
                    found += [orjson.dumps(trimmed(event)) + b"\n" for event in live.logs.events(place, group, begin, stop)]
                except Unavailable as error:
                    missing.append(str(error))
            path = folder / "logs" / (place.account or "own") / place.region
            path.mkdir(parents=True, exist_ok=True)
            (path / f"{number}.jsonl").write_bytes(b"".join(found))


def _closer(live: Live, place: Place, missing: list[str]) -> Iterator[tuple[int, int, list[int]]]:
    """Yield from when to when the watch looked closer at a node of the place, and the numbers of what it read then."""
    book, (known, _) = live.poll.book, live.about(place)
    for instance, spans in detail_spans(live.heard.journal).items():
        if instance not in known:
            continue
        try:
            found = detail_series(live.calls, place, instance, book.catalogue)
        except Unavailable as error:
            missing.append(str(error))
            continue
        book.enter(found, 0)
        yield from ((at, until, sorted(book.number(x) for x in found)) for at, until in spans)


def _told(live: Live, ask: MetricRequest, missing: list[str]) -> Sequence[SeriesValues]:
    try:
        return fetch(live.calls, live.poll.book, ask)
    except Unavailable as error:
        missing.append(str(error))
        return ()


def _parts(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    while start < end:
        yield start, min(start + _PART, end)
        start += _PART


def _lines(told: SeriesValues, series: MetricSeries) -> Iterator[bytes]:
    points = told.points()
    low = told.sets.get("Minimum", np.full(len(told.times), np.nan))
    shared = {
        "account_id": series.account,
        "region": series.region,
        "namespace": series.namespace,
        "metric_name": series.metric,
        "dimensions": dict(series.dimensions),
    }
    for at, count, total, peak, least in zip(
        points.seconds.tolist(), points.count.tolist(), points.total.tolist(), points.peak.tolist(), low.tolist(), strict=True
    ):
        value = {"count": count, "sum": total, "max": peak, "min": least}
        yield orjson.dumps({**shared, "timestamp": at * 1000, "value": value, "unit": "None"}) + b"\n"
