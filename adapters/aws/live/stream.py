"""Read CloudWatch metric streams from S3: each object once, by the code that reads a recording."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from botocore.exceptions import BotoCoreError

from adapters.aws.api.calls import WORKERS, Calls, bucket_and_prefix
from adapters.aws.api.operations import Place
from adapters.aws.api.outcomes import code_of
from adapters.aws.files import MetricForm, Problems, form_of
from adapters.aws.live.frame_buffer import NewPoints
from adapters.aws.live.requests import SeriesBook
from adapters.aws.metrics.lines import read_jsonl
from adapters.aws.metrics.parquet import read_parquet
from adapters.aws.metrics.points import Gatherer, MetricSeries, Points
from bot.errors import Unavailable
from bot.model.reading import Gap

LOOK_BACK = timedelta(hours=2)
"""An object whose key stands before those of so long ago is not looked for any more."""
_LAYOUTS = (
    (re.compile(r"\d{4}/"), "%Y/%m/%d/%H"),
    (re.compile(r"year=\d{4}/"), "year=%Y/month=%m/day=%d/hour=%H"),
)
"""How Firehose begins a key after the prefix: by UTC hour, unless it was told otherwise."""


@dataclass(frozen=True)
class S3Object:
    """Name one object and when it was written."""

    key: str
    at: datetime


@dataclass
class S3Lister:
    """List the objects under `s3://BUCKET/PREFIX` that were not done yet.

    Raise `WrongInput` for another address.
    """

    calls: Calls
    address: str
    place: Place
    begin: timedelta
    """How far the first listing reaches back: what was written before is never read."""
    _after: str | None = None
    _since: datetime | None = None
    _done: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Read the address."""
        self.bucket, self._prefix = bucket_and_prefix(self.address, "a metric stream")

    def fresh(self, now: datetime) -> list[S3Object]:
        """Return the objects that are not done, the newest first.

        Raise `Unavailable` where a page fails.
        """
        if self._since is None:
            since = now - self.begin
            self._after = self._first_key(since)
            self._since = since
        listed = [x for x in self._listed() if x.at >= self._since]
        self._done &= {x.key for x in listed}
        fresh = [x for x in listed if x.key not in self._done]

        # Begin the next listing behind the last key before which all is done and old.
        waiting = {x.key for x in fresh}
        still = [x.key for x in listed if x.key in waiting or x.at >= now - LOOK_BACK]
        old = [x.key for x in listed if not still or x.key < min(still)]
        if old:
            self._after = max(old)

        return sorted(fresh, key=lambda x: (x.at, x.key), reverse=True)

    def done(self, key: str) -> None:
        """Take note that an object needs not be read again."""
        self._done.add(key)

    def _listed(self) -> list[S3Object]:
        return [
            S3Object(str(x["Key"]), x["LastModified"])
            for page in self._pages()
            for x in page.get("Contents", ())
            if x["Size"]
        ]

    def _pages(self) -> list[Mapping[str, Any]]:
        listing: dict[str, Any] = {"Bucket": self.bucket, "Prefix": self._prefix}
        if self._after:
            listing["StartAfter"] = self._after
        return list(self.calls.pages(self.place, "s3", "list_objects_v2", optional=0, **listing))

    def _first_key(self, since: datetime) -> str:
        """Return the key of the hour to begin at, "" where keys do not tell it.

        Then every key is listed once.
        """
        listing: dict[str, Any] = {"Bucket": self.bucket, "Prefix": self._prefix, "Delimiter": "/"}
        page = self.calls.call(self.place, "s3", "list_objects_v2", optional=0, **listing)
        folders = [
            str(x["Prefix"]).removeprefix(self._prefix).lstrip("/")
            for x in page.get("CommonPrefixes", ())
        ]
        for pattern, layout in _LAYOUTS:
            if folders and all(pattern.fullmatch(name) for name in folders):
                return f"{self._prefix}{since.strftime(layout)}"
        return ""


FIRST = timedelta(hours=1)
"""How much of a stream is read at a start; older history comes by GetMetricData at five minutes."""
_LATE_SECONDS = 900
"""What a stream brings is at most so old when it is written."""
_TRIES = 3
"""An object that cannot be read whole is fetched so often."""
StreamFilter = Callable[[Iterable[MetricSeries]], set[MetricSeries]]
_StreamFamily = tuple[str, str, str, str]
"""Namespace, metric, region and account."""


@dataclass
class Streams:
    """Read on in every stream; `book` numbers the series."""

    calls: Calls
    listers: Sequence[S3Lister]
    book: SeriesBook
    problems: Problems
    stopwatch: Callable[[], float]
    _brings: set[_StreamFamily] = field(default_factory=set)
    _tried: Counter[str] = field(default_factory=Counter)
    _listed: bool = False
    _settled: int = 0

    def brings(self, series: MetricSeries) -> bool:
        """Return whether a stream brings the metric of a series.

        Any metric, until the streams were first listed.
        """
        if not self.listers:
            return False
        return (
            not self._listed
            or (series.namespace, series.metric, series.region, series.account) in self._brings
        )

    def read(self, now: datetime, deadline: float, wanted: StreamFilter) -> NewPoints:
        """Return the points of new objects, the newest first, as far as the time reaches.

        The next tick reads the rest.
        """
        new = NewPoints(settled=self._settled or int((now - FIRST).timestamp()))
        unread = 0
        for lister in self.listers:
            try:
                fresh = lister.fresh(now)
            except Unavailable as error:
                new.gaps.append(Gap(str(error)))
                continue
            unread += self._read(lister, fresh, deadline, wanted, new)
        self._listed = self._listed or not new.gaps
        if new.gaps or unread:
            new.unread = frozenset(
                n for n, series in enumerate(self.book.series) if self.brings(series)
            )
        if unread:
            new.gaps.append(
                Gap(
                    f"{unread} objects of the metric stream could not be read; the next tick reads them."
                )
            )
        elif not new.gaps:
            self._settled = int(now.timestamp()) - _LATE_SECONDS
        return new

    def examined(self, now: datetime) -> list[tuple[str, bool, str]]:
        """Return for each stream whether it has objects of the last hour, and the age of the newest."""
        return [(lister.address, *self._examined(lister, now)) for lister in self.listers]

    def _examined(self, lister: S3Lister, now: datetime) -> tuple[bool, str]:
        try:
            objects = S3Lister(self.calls, lister.address, lister.place, FIRST).fresh(now)
        except Unavailable as error:
            return False, str(error)
        if not objects:
            return False, "no object within the last hour"
        minutes = (now - objects[0].at).total_seconds() / 60
        return (
            True,
            f"{len(objects)} objects within the last hour, the newest {max(0, minutes):.0f} min old",
        )

    def _read(
        self,
        lister: S3Lister,
        fresh: Sequence[S3Object],
        deadline: float,
        wanted: StreamFilter,
        read: NewPoints,
    ) -> int:
        """Fetch and read objects in parallel; return how many are left for the next tick."""
        if not fresh:
            return 0
        pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="stream")
        waiting: dict[Future[tuple[Gatherer, Problems]], S3Object] = {
            pool.submit(self._parsed, lister, x): x for x in fresh
        }
        done, _ = wait(waiting, timeout=max(0.0, deadline - self.stopwatch()))
        # An object that is under way may end after its tick: nobody takes it, and the next tick
        # reads it again.
        pool.shutdown(wait=False, cancel_futures=True)
        read_whole = sum(
            self._take(lister, waiting[future], future, wanted, read)
            for future in waiting
            if future in done
        )
        return len(fresh) - read_whole

    def _take(
        self,
        lister: S3Lister,
        one: S3Object,
        future: Future[tuple[Gatherer, Problems]],
        wanted: StreamFilter,
        read: NewPoints,
    ) -> bool:
        """Keep an object's points, and return whether it is done.

        A broken one gives its sound part, and is tried again.
        """
        try:
            gatherer, problems = future.result()
        except Unavailable:
            return False
        read.points += [part for part in [self._numbered(gatherer, wanted)] if len(part.series)]
        for sentence in problems.sentences():
            self.problems.add("metric stream", sentence)
        self._tried[one.key] += 1
        if not problems.sentences() or self._tried[one.key] >= _TRIES:
            lister.done(one.key)
            del self._tried[one.key]
        return True

    def _numbered(self, gatherer: Gatherer, wanted: StreamFilter) -> Points:
        """Return the points of wanted series under the book's numbers."""
        self._brings |= {(x.namespace, x.metric, x.region, x.account) for x in gatherer.numbers}
        keep = wanted(gatherer.numbers)
        points = Points.joined(gatherer.parts)
        since = int(points.seconds.min()) if len(points.seconds) else 0
        self.book.enter(keep, since)
        numbers = np.full(len(gatherer.numbers) + 1, -1, dtype=np.int64)
        for series in keep:
            numbers[gatherer.numbers[series]] = self.book.number(series)
        place = numbers[points.series]
        points_kept = points.take(place >= 0)
        return Points(
            series[series >= 0],
            points_kept.seconds,
            points_kept.count,
            points_kept.total,
            points_kept.peak,
        )

    def _parsed(self, lister: S3Lister, one: S3Object) -> tuple[Gatherer, Problems]:
        """Fetch an object and read it, whatever its form.

        Raise `Unavailable` where it breaks off on the way.
        """
        gatherer, problems = Gatherer(catalogue=self.book.catalogue), Problems()
        with tempfile.TemporaryDirectory(prefix="trnbot-") as folder:
            path = Path(folder) / "object"

            answer = self.calls.call(
                lister.place, "s3", "get_object", optional=0, Bucket=lister.bucket, Key=one.key
            )
            try:
                with path.open("wb") as file:
                    for block in answer["Body"].iter_chunks(1 << 20):
                        file.write(block)
            except (BotoCoreError, OSError) as error:
                raise Unavailable(
                    f"An object of the metric stream broke off while it was read ({code_of(error)})."
                ) from error

            name = one.key.rpartition("/")[2]
            if form_of(path) is MetricForm.PARQUET:
                read_parquet([(path, name)], gatherer, problems)
            else:
                read_jsonl(path, name, gatherer, problems)
        return gatherer, problems
