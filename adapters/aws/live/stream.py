"""Read CloudWatch metric streams from S3: each object once, by the code that reads a recording."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from adapters.aws.api.calls import Calls, bucket_and_prefix, in_time
from adapters.aws.api.operations import Place
from adapters.aws.files import MetricForm, Problems, form_of
from adapters.aws.live.frame_buffer import ANEW_SECONDS, NewPoints
from adapters.aws.live.requests import SeriesBook
from adapters.aws.metrics.lines import read_jsonl
from adapters.aws.metrics.parquet import read_parquet
from adapters.aws.metrics.points import Gatherer, Ints, MetricSeries, Points
from bot.errors import Unavailable
from bot.model.reading import Gap
from bot.model.request import Check

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
        where: dict[str, Any] = {"Bucket": self.bucket, "Prefix": self._prefix, "optional": 0}
        if self._since is None:
            since = now - self.begin
            self._after, self._since = self._first_key(since), since
        if self._after:
            where["StartAfter"] = self._after
        listed = [
            S3Object(str(x["Key"]), x["LastModified"])
            for page in self.calls.pages(self.place, "s3", "list_objects_v2", **where)
            for x in page.get("Contents", ())
            if x["Size"] and x["LastModified"] >= self._since
        ]
        self._done &= {x.key for x in listed}
        fresh = [x for x in listed if x.key not in self._done]

        # The next listing begins behind the last key before which all is done and old.
        still = [x.key for x in listed if x.key not in self._done or x.at >= now - LOOK_BACK]
        self._after = max(
            [x.key for x in listed if not still or x.key < min(still)], default=self._after
        )
        return sorted(fresh, key=lambda x: (x.at, x.key), reverse=True)

    def done(self, key: str) -> None:
        """Take note that an object needs not be read again."""
        self._done.add(key)

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
_RELEARNED = timedelta(days=1)
"""How long the series of a stream are remembered."""
_UNWANTED, _UNDECIDED = -1, -2
StreamFilter = Callable[[Iterable[MetricSeries]], set[MetricSeries]]


@dataclass
class Streams:
    """Read on in every stream; `book` numbers the series."""

    calls: Calls
    listers: Sequence[S3Lister]
    book: SeriesBook
    problems: Problems
    stopwatch: Callable[[], float]
    folder: Path | None = None
    """Where objects are put while they are read; the system's own place where nothing is kept."""
    _met: Gatherer = field(default_factory=Gatherer)
    """Numbers every series that was met lately, wanted or not."""
    _numbers: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """The book's number of each of these, or `_UNWANTED`, or `_UNDECIDED`."""
    _since: datetime | None = None
    _scope: object = None
    _brings: set[tuple[str, str, str, str]] = field(default_factory=set)
    """Namespace, metric, region and account of what the streams bring."""
    _tried: Counter[str] = field(default_factory=Counter)
    _listed: bool = False
    _settled: int = 0
    _late: int = 0

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

    def read(
        self, now: datetime, deadline: float, wanted: StreamFilter, scope: object = None
    ) -> NewPoints:
        """Return the points of new objects, the newest first, as far as the time reaches.

        The next tick reads the rest. A series is held against `wanted` once, until `scope` is
        another.
        """
        if self._since is None or now - self._since >= _RELEARNED:
            # Most pods of a day do not come again.
            self._since, self._met = now, Gatherer(catalogue=self.book.catalogue)
            self._numbers = np.empty(0, dtype=np.int64)
        if scope != self._scope:
            self._numbers[:], self._scope = _UNDECIDED, scope
        new = NewPoints(settled=self._settled or int((now - FIRST).timestamp()))
        unread, settled = 0, min(self._settled, int(now.timestamp()) - ANEW_SECONDS)
        for lister in self.listers:
            try:
                fresh = lister.fresh(now)
            except Unavailable as error:
                new.gaps.append(Gap(str(error)))
                continue
            parse, seconds = partial(self._parsed, lister), deadline - self.stopwatch()
            for item, parsed in in_time(parse, fresh, seconds, "stream"):
                if parsed is None:
                    unread += 1
                    continue
                points = self._numbered(parsed[0], wanted)
                self._late += int((points.seconds < settled).sum())
                if len(points.series):
                    new.points.append(points)
                # A broken object gives its sound part, and is tried again.
                sentences = parsed[1].sentences()
                for sentence in sentences:
                    self.problems.add("metric stream", sentence)
                self._tried[item.key] += 1
                if not sentences or self._tried[item.key] >= _TRIES:
                    lister.done(item.key)
                    del self._tried[item.key]

        self._listed = self._listed or not new.gaps
        if new.gaps or unread:
            new.unread = frozenset(
                n for n, series in enumerate(self.book.series) if self.brings(series)
            )
        if unread:
            lacking = f"{unread} objects of the metric stream could not be read"
            new.gaps.append(Gap(f"{lacking}; the next tick reads them."))
        elif not new.gaps:
            self._settled = int(now.timestamp()) - _LATE_SECONDS
        return new

    def late(self) -> tuple[str, ...]:
        """Return a sentence on the points that came when their steps were settled, none for none."""
        if not self._late:
            return ()
        came = f"{self._late:,} points of the metric stream came over an hour late since the start"
        return (f"{came}: they fill only steps of which nothing else told.",)

    def examined(self, now: datetime) -> Iterator[Check]:
        """Yield for each stream whether it has objects of the last hour, and the newest's age."""
        for lister in self.listers:
            objects, finding = list[S3Object](), "no object within the last hour"
            try:
                objects = S3Lister(self.calls, lister.address, lister.place, FIRST).fresh(now)
            except Unavailable as error:
                finding = str(error)
            if objects:
                minutes = max(0, (now - objects[0].at).total_seconds() / 60)
                newest = f"the newest {minutes:.0f} min old"
                finding = f"{len(objects)} objects within the last hour, {newest}"
            yield Check(f"metric stream {lister.address}", bool(objects), finding)

    def _numbered(self, gatherer: Gatherer, wanted: StreamFilter) -> Points:
        """Return the points of wanted series under the book's numbers."""
        points, numbers = Points.joined(gatherer.parts), self._numbers
        if len(points.series) and (most := int(points.series.max())) >= len(numbers):
            numbers = self._numbers = np.concatenate(
                [numbers, np.full(2 * (most + 1) - len(numbers), _UNDECIDED, dtype=np.int64)]
            )

        # A stream brings all that an account has, and most of it means nothing here.
        places = np.unique(points.series[numbers[points.series] == _UNDECIDED])
        if len(places):
            series, known_numbers = list(gatherer.numbers), self.book.numbers
            met = [series[place] for place in places.tolist()]
            self._brings |= {(x.namespace, x.metric, x.region, x.account) for x in met}
            keep = wanted(met)
            self.book.enter((x for x in keep if x not in known_numbers), int(points.seconds.min()))
            numbers[places] = [known_numbers[x] if x in keep else _UNWANTED for x in met]
        points = replace(points, series=numbers[points.series])
        return points.take(points.series >= 0)

    def _parsed(self, lister: S3Lister, item: S3Object) -> tuple[Gatherer, Problems]:
        """Fetch an object and read it, whatever its form.

        Raise `Unavailable` where it breaks off on the way.
        """
        gatherer, problems = self._met.fresh(), Problems()
        if self.folder:
            self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="trnbot-", dir=self.folder) as folder:
            path, name = Path(folder) / "object", item.key.rpartition("/")[2]
            broken = "An object of the metric stream broke off while it was read"
            self.calls.download(lister.place, lister.bucket, item.key, path, broken, optional=0)
            form = form_of(path)
            if form is MetricForm.PARQUET:
                read_parquet([(path, name)], gatherer, problems)
            elif form is MetricForm.LINES:
                read_jsonl(path, name, gatherer, problems)
            else:
                problems.add(
                    name,
                    "neither JSON nor Parquet; choose JSON as the output format of the stream;"
                    " skipped.",
                )
        return gatherer, problems
