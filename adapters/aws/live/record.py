"""Write a recording of a live account.

AWS's answers, in the formats that a recording is read from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import orjson

from adapters.aws.api.operations import Place
from adapters.aws.api.responses import argument_and_account, file_of
from adapters.aws.inventory.ownership import Aliases, with_trimmed_events
from adapters.aws.live.poller import detail_spans
from adapters.aws.live.promql import fetch
from adapters.aws.live.requests import ALL, RequestScope, SeriesValues, plan_requests
from adapters.aws.live.source import Live
from adapters.aws.logs.logbook import trimmed
from adapters.aws.metrics.points import MetricSeries
from bot.errors import Unavailable, WrongInput
from bot.model.money import counted
from bot.model.window import utc_text

MINUTES_KEPT = timedelta(days=15)
"""CloudWatch keeps minutes so long (CloudWatch User Guide, metrics retention, 2026-11)."""
_PART = timedelta(hours=3)
"""So much of 500 queries fits into one answer of 100,800 points.

So that no answer has a second page.
"""


@dataclass(frozen=True)
class Recorded:
    """Count the points and answers written."""

    points: int
    answers: int
    usd: str
    missing: tuple[str, ...]
    people: int | None
    """Of whom aliases were written; None where names were kept."""

    def kept(self) -> str:
        """Say what of identities is in the recording."""
        people = (
            "people's names are as AWS gives them"
            if self.people is None
            else f"{counted(self.people, 'person', 'people')} became aliases"
            " (--keep-identities keeps their names)"
        )
        return (
            "Kept: account and resource ids, names, tags, nodes' addresses, prices, and the bill as"
            f" it was exported; {people}. Left out: CloudTrail's access key ids, source addresses,"
            " user agents, request and principal ids."
        )


def record(
    live: Live,
    folder: Path,
    start: datetime,
    end: datetime,
    say: Callable[[str], None] = lambda _: None,
    *,
    keep_identities: bool = False,
) -> Recorded:
    """Write metrics of [start, end) at one minute, and inventory and prices as they are now.

    Aliases stand for people unless `keep_identities`.

    The format is that of AWS's own metric streams and boto3 responses. Raise `WrongInput` for a
    folder in use or an empty time, `Unavailable` where nothing could be read.
    """
    if folder.exists() and any(folder.iterdir()):
        raise WrongInput(f"{folder} is not empty; name a new folder for the recording.")
    if start >= end:
        raise WrongInput(
            f"There is nothing between {utc_text(start)} and {utc_text(end)} to record."
        )
    missing = list(live.describe(end))
    if not live.places():
        raise Unavailable(" ".join(missing) or "No AWS account answers.")
    aliases = None if keep_identities else Aliases()
    recorder = _Recorder(live, folder, start, end, missing, aliases)
    answers, points = recorder.write_answers(), 0
    for place in live.places():
        say(f"reading {place}")
        points += recorder.write_metrics(place)
    recorder.write_logs()
    if not points:
        raise Unavailable(
            " ".join(["CloudWatch has no metric that means something here in that time.", *missing])
        )
    people = None if aliases is None else len(aliases)
    return Recorded(points, answers, f"{live.calls.meter.today().usd:.2f}", tuple(missing), people)


@dataclass
class _Recorder:
    """Write a time of a live account into a folder.

    `missing` gathers a sentence for each missing answer.
    """

    live: Live
    folder: Path
    start: datetime
    end: datetime
    missing: list[str]
    aliases: Aliases | None

    def write_answers(self) -> int:
        """Write the newest answers, and those that a watch kept while it ran.

        They tell which nodes have ended since. Those of accounts that are read no more stay.
        """
        responses, files = self.live.responses, dict[Path, bytes]()
        accounts = {"", *(place.account for place in self.live.places())}
        if journal := responses.journal:
            files = {
                path.relative_to(journal): path.read_bytes()
                for path in journal.glob("api/*/*/*/*.json")
                if argument_and_account(path.stem.partition(".")[2])[1] in accounts
            }
        files |= {
            file_of(call, newest[0]): newest[1] + b"\n"
            for call in responses.calls()
            if (newest := responses.newest(call))
        }

        for name, content in files.items():
            # What must not leave the account is taken out of an answer. One that cannot be read
            # would not be read later either.
            events = name.parts[1:3] == ("cloudtrail", "lookup_events")
            redacted = with_trimmed_events(content) if events else content
            if self.aliases is not None:
                alias = self.aliases.in_events if events else self.aliases.in_text
                redacted = alias(content)
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_bytes(redacted)
        return len(files)

    def write_metrics(self, place: Place) -> int:
        """Write the metrics of a place, some hours a file; return how many points."""
        book = self.live.metrics.book
        numbers = book.enter(
            self.live.lister.discover(place, self.live.fleet(place), recent=False),
            int(self.start.timestamp()),
        )

        # Cores and devices are written for the times a watch looked at them.
        spans = [
            (int(self.start.timestamp()), int(self.end.timestamp()), numbers),
            *self._watched(place),
        ]
        path, written = self._folder_of("metrics", place), 0
        for begin, stop in self._parts():
            first, last = int(begin.timestamp()), int(stop.timestamp())
            lines: list[bytes] = []
            for since, until, details in spans:
                scope = RequestScope(min(until, last), max(since, first), statistics=ALL)
                for request in plan_requests(book, details, place, scope):
                    try:
                        for values in fetch(self.live.calls, book, request):
                            lines += _lines(values, book.series[values.number])
                    except Unavailable as error:
                        self.missing.append(str(error))
            if lines:
                (path / f"{begin:%Y%m%dT%H%MZ}.jsonl").write_bytes(b"".join(lines))
            written += len(lines)
        return written

    def write_logs(self) -> None:
        """Write the compile lines of logs, some hours at a time.

        No more of a log is asked for, and none of its text is kept.
        """
        for number, group in enumerate(self.live.logs.groups):
            for place in (
                x for x in self.live.places() if x.region == (group.region or self.live.home)
            ):
                lines: list[bytes] = []
                for begin, stop in self._parts():
                    try:
                        lines += [
                            orjson.dumps(trimmed(event)) + b"\n"
                            for event in self.live.logs.events(place, group, begin, stop)
                        ]
                    except Unavailable as error:
                        self.missing.append(str(error))
                (self._folder_of("logs", place) / f"{number}.jsonl").write_bytes(b"".join(lines))

    def _watched(self, place: Place) -> Iterator[tuple[int, int, list[int]]]:
        """Yield begin and end of each time that the watch read the details of a node of the place.

        The series of those.
        """
        book, lister = self.live.metrics.book, self.live.lister
        instances = self.live.fleet(place).instances
        for instance, spans in detail_spans(self.live.responses.journal).items():
            if instance not in instances:
                continue
            try:
                series = lister.details(place, instance)
            except Unavailable as error:
                self.missing.append(str(error))
                continue
            numbers = book.enter(series, 0)
            yield from ((since, until, numbers) for since, until in spans)

    def _folder_of(self, kind: str, place: Place) -> Path:
        path = self.folder / kind / (place.account or "own") / place.region
        path.mkdir(parents=True, exist_ok=True)
        return path

    def _parts(self) -> Iterator[tuple[datetime, datetime]]:
        start = self.start
        while start < self.end:
            yield start, min(start + _PART, self.end)
            start += _PART


def _lines(values: SeriesValues, series: MetricSeries) -> Iterator[bytes]:
    points = values.points()
    shared = {
        "account_id": series.account,
        "region": series.region,
        "namespace": series.namespace,
        "metric_name": series.metric,
        "dimensions": dict(series.dimensions),
    }
    for time, count, total, peak, least in zip(
        points.seconds.tolist(),
        points.count.tolist(),
        points.total.tolist(),
        points.peak.tolist(),
        values.sets.get("Minimum", np.full(len(values.times), np.nan)).tolist(),
        strict=True,
    ):
        value = {"count": count, "sum": total, "max": peak, "min": least}
        yield (
            orjson.dumps({**shared, "timestamp": time * 1000, "value": value, "unit": "None"})
            + b"\n"
        )
