"""Read CloudWatch metric streams from S3: each object once, by the code that reads a recording."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
from botocore.exceptions import BotoCoreError

from adapters.aws.api.calls import WORKERS, Calls
from adapters.aws.api.failures import code_of
from adapters.aws.api.s3 import S3Lister, S3Object
from adapters.aws.files import MetricForm, Problems, form_of
from adapters.aws.live.poller import NewPoints
from adapters.aws.live.requests import SeriesBook
from adapters.aws.metrics.lines import read_jsonl
from adapters.aws.metrics.parquet import read_parquet
from adapters.aws.metrics.points import Gatherer, MetricSeries, Points
from bot.errors import Unavailable
from bot.model.reading import Gap

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
        read = NewPoints(settled=self._settled or int((now - FIRST).timestamp()))
        left = 0
        for lister in self.listers:
            try:
                fresh = lister.fresh(now)
            except Unavailable as error:
                read.gaps.append(Gap(str(error)))
                continue
            left += self._read(lister, fresh, deadline, wanted, read)
        self._listed = self._listed or not read.gaps
        if read.gaps or left:
            read.unread = frozenset(
                n for n, series in enumerate(self.book.series) if self.brings(series)
            )
        if left:
            read.gaps.append(
                Gap(
                    f"{left} objects of the metric stream could not be read; the next tick reads them."
                )
            )
        elif not read.gaps:
            self._settled = int(now.timestamp()) - _LATE_SECONDS
        return read

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
        taken = sum(
            self._take(lister, waiting[future], future, wanted, read)
            for future in waiting
            if future in done
        )
        return len(fresh) - taken

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
        mine = numbers[points.series]
        kept = points.take(mine >= 0)
        return Points(mine[mine >= 0], kept.seconds, kept.count, kept.total, kept.peak)

    def _parsed(self, lister: S3Lister, one: S3Object) -> tuple[Gatherer, Problems]:
        """Fetch an object and read it, whatever its form.

        Raise `Unavailable` where it breaks off on the way.
        """
        gatherer, problems = Gatherer(catalogue=self.book.catalogue), Problems()
        with tempfile.TemporaryDirectory(prefix="trnbot-") as folder:
            path = Path(folder) / "object"
            self._fetch(lister, one.key, path)
            name = one.key.rpartition("/")[2]
            if form_of(path) is MetricForm.PARQUET:
                read_parquet([(path, name)], gatherer, problems)
            else:
                read_jsonl(path, name, gatherer, problems)
        return gatherer, problems

    def _fetch(self, lister: S3Lister, key: str, path: Path) -> None:
        answer = self.calls.call(
            lister.place, "s3", "get_object", optional=0, Bucket=lister.bucket, Key=key
        )
        try:
            with path.open("wb") as file:
                for block in answer["Body"].iter_chunks(1 << 20):
                    file.write(block)
        except (BotoCoreError, OSError) as error:
            raise Unavailable(
                f"An object of the metric stream broke off while it was read ({code_of(error)})."
            ) from error
