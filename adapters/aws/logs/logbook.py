"""Read the lines of Neuron's compiler from log events, recorded or in CloudWatch Logs."""

from __future__ import annotations

import csv
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import orjson

from adapters.aws.api.calls import Calls
from adapters.aws.api.operations import Place
from adapters.aws.files import Problems, blocks, why
from adapters.aws.metrics.points import MetricSeries
from bot.errors import Unavailable, WrongInput
from bot.model.run import CompileMark, Mark

_INSTANCE = re.compile(r"(?<![0-9a-z])i-[0-9a-f]{8,17}(?![0-9a-z])")
_NODE = re.compile(r"^(.+?)-(?:application|dataplane|host)\.")
"""How Fluent Bit of Container Insights begins a stream's name: the node's name."""
_MODULE = re.compile(r"MODULE_[0-9A-Za-z]+(?:\+[0-9a-f]+)?")


@cache
def compile_lines() -> Mapping[str, Mark]:
    """Return the words of each known line, and the mark it makes."""
    text = files(__package__).joinpath("compile_lines.csv").read_text(encoding="utf-8")
    return {row["words"]: Mark(row["kind"]) for row in csv.DictReader(text.splitlines())}


def filter_pattern() -> str:
    """Return CloudWatch Logs' pattern of events that hold any of the words."""
    return " ".join(f'?"{words}"' for words in compile_lines())


def marks_of(
    events: Iterable[Mapping[str, Any]], nodes: Mapping[str, str]
) -> Iterator[CompileMark]:
    """Yield the compile marks of FilterLogEvents' events whose stream names an instance or a node of `nodes`.

    Raise `KeyError`, `TypeError` or `ValueError` for what is no event.
    """
    for event in events:
        message, stream, at = (
            str(event["message"]),
            str(event["logStreamName"]),
            int(event["timestamp"]) / 1000,
        )
        kind = kind_of(message)
        instance = instance_of(stream, nodes) if kind else ""
        if kind and instance:
            module = _MODULE.search(message)
            yield CompileMark(
                datetime.fromtimestamp(at, UTC), instance, kind, module[0] if module else "", stream
            )


def kind_of(message: str) -> Mark | None:
    """Return the kind of compile mark that a line makes, None for none."""
    return next((kind for words, kind in compile_lines().items() if words in message), None)


def trimmed(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the event with no more of its message than the words that are known, and the module."""
    message = str(event["message"])
    words_of_line = [words for words in compile_lines() if words in message][:1]
    module = _MODULE.search(message)
    kept = " ".join([*words_of_line, *([module[0]] if module else [])])
    return {
        name: event[name]
        for name in ("logStreamName", "timestamp", "ingestionTime", "eventId")
        if name in event
    } | {"message": kept}


def instance_of(stream: str, nodes: Mapping[str, str]) -> str:
    """Return the instance that a log stream is of.

    Named by its id, or by the name of its Kubernetes node; else "".
    """
    named = _INSTANCE.search(stream)
    if named:
        return named[0]
    node = _NODE.match(stream)
    return nodes.get(node[1], "") if node else ""


LogEvent = Mapping[str, Any]
WAITING = 1000
"""Lines of nodes not known yet that are kept.

A group may hold those of clusters that nobody watches.
"""
_ENDINGS = (".jsonl", ".jsonl.gz")


class Logbook:
    """Hold marks by the time at which they were visible; one event is kept once, by its id."""

    def __init__(self) -> None:
        self._seen: dict[str, datetime] = {}
        self._waiting: list[LogEvent] = []
        self._visible: list[datetime] = []
        self._marks: list[CompileMark] = []

    def add(self, events: Iterable[LogEvent], nodes: Mapping[str, str]) -> int:
        """Take events in, and return how many marks they make of known instances.

        Raise as `marks_of` does.

        A new node may log before any metric names it: its lines wait until then.
        """
        new, waiting = [], list(self._waiting)
        for event in events:
            name = str(event.get("eventId", ""))
            if name not in self._seen:
                waiting.append(event)
            if name:
                self._seen[name] = _visible(event)
        self._waiting = []
        for event in waiting:
            marks = [(_visible(event), mark) for mark in marks_of([event], nodes)]
            new += marks
            if not marks and kind_of(str(event["message"])):
                self._waiting.append(event)
        self._waiting = self._waiting[-WAITING:]
        kept = sorted([*zip(self._visible, self._marks, strict=True), *new], key=lambda x: x[0])
        self._visible, self._marks = [at for at, _ in kept], [mark for _, mark in kept]
        return len(new)

    def forget(self, before: datetime) -> None:
        """Drop the lines visible before a time: a process that never stops would keep every line."""
        self._seen = {name: at for name, at in self._seen.items() if at >= before}
        first = bisect_left(self._visible, before)
        self._visible, self._marks = self._visible[first:], self._marks[first:]

    def at(self, now: datetime, history: timedelta) -> tuple[CompileMark, ...]:
        """Return the marks visible at `now` that are not older than `history`."""
        first, last = (bisect_right(self._visible, at) for at in (now - history, now))
        return tuple(self._marks[first:last])


def read_logs(folder: Path, nodes: Mapping[str, str], problems: Problems) -> Logbook:
    """Read `logs/**/*.jsonl[.gz]` of a recording: events of FilterLogEvents, one a line.

    Name the broken lines and skip them.
    """
    book = Logbook()
    for path in sorted((folder / "logs").rglob("*")):
        if path.name.endswith(_ENDINGS) and path.is_file():
            book.add(_events(path, str(path.relative_to(folder)), problems), nodes)
    return book


def node_names(series: Iterable[MetricSeries]) -> dict[str, str]:
    """Return the instance of each Kubernetes node that a metric names with it."""
    pairs = (
        dict(one.dimensions)
        for one in series
        if "NodeName" in one.names and "InstanceId" in one.names
    )
    return {pair["NodeName"]: pair["InstanceId"] for pair in pairs}


def _visible(event: LogEvent) -> datetime:
    return datetime.fromtimestamp(
        max(int(event.get("ingestionTime", 0)), int(event["timestamp"])) / 1000, UTC
    )


def _events(path: Path, name: str, problems: Problems) -> Iterable[LogEvent]:
    for first, lines in blocks(path, name, problems):
        for number, line in enumerate(lines, first):
            if not line.strip():
                continue
            try:
                event = orjson.loads(line)
                list(marks_of([event], {}))
                yield event
            except orjson.JSONDecodeError as error:
                problems.add(name, f"not JSON ({why(error)}); skipped.", number)
            except (
                KeyError,
                TypeError,
                ValueError,
                AttributeError,
                OverflowError,
                OSError,
            ) as error:
                problems.add(name, f"not a log event ({why(error)}); skipped.", number)


FIRST = timedelta(hours=3)
"""How far the first look reaches back: a compile that goes on has begun since."""
_AGAIN = timedelta(minutes=5)
"""Events may come in so late, and are asked for again; one that was seen is known by its id."""
PAGES = 30
"""Pages of one group and tick.

CloudWatch Logs allows 5 to 25 requests a second, and a page may be empty.
"""
_LONGEST_NAME = 512


@dataclass(frozen=True)
class LogGroup:
    """Name one log group, and the region that it is in, "" for the first one that is read."""

    name: str
    region: str = ""

    def __str__(self) -> str:
        """Read as `us-west-2:/aws/containerinsights/llama/application`."""
        return f"{self.region}:{self.name}" if self.region else self.name


def read_log_group(text: str) -> LogGroup:
    """Read `GROUP` or `REGION:GROUP`; raise `WrongInput` for a text that cannot be a group's name."""
    region, _, name = text.rpartition(":")
    if (
        not name
        or len(name) > _LONGEST_NAME
        or not all(x.isalnum() or x in "_-/.#" for x in name)
        or "/" in region
    ):
        raise WrongInput(
            f"'{text}' is no log group; write GROUP or REGION:GROUP, such as us-west-2:/aws/containerinsights/llama/application."
        )
    return LogGroup(name, region)


@dataclass
class LogPoller:
    """Read on in every group, in each account that has its region.

    Failures are reported by the calls' own states.
    """

    calls: Calls
    groups: Sequence[LogGroup]
    home: str
    book: Logbook = field(default_factory=Logbook)
    _until: dict[tuple[Place, LogGroup], datetime] = field(default_factory=dict)

    def read(self, places: Sequence[Place], now: datetime, nodes: Mapping[str, str]) -> list[str]:
        """Take in the lines logged since the last poll.

        Return a sentence for each group that could not be read whole.
        """
        missing = []
        for place, group in self._wanted(places):
            since = self._until.get((place, group), now - FIRST) - _AGAIN
            try:
                self.book.add(self.events(place, group, since, now), nodes)
            except Unavailable as error:
                missing.append(str(error))
            else:
                self._until[place, group] = now
        return missing

    def examined(self, places: Sequence[Place], now: datetime) -> Iterator[tuple[str, bool, str]]:
        """Yield for each group whether it can be read, and how many compile lines of the last hours it holds."""
        for place, group in self._wanted(places):
            try:
                lines = len(list(self.events(place, group, now - FIRST, now)))
            except Unavailable as error:
                yield f"log group {group.name} in {place}", False, str(error)
            else:
                yield (
                    f"log group {group.name} in {place}",
                    True,
                    f"{lines} compile lines within the last {FIRST // timedelta(hours=1)} h",
                )
        for group in self.groups:
            if not any(x is group for _, x in self._wanted(places)):
                yield (
                    f"log group {group}",
                    False,
                    f"no region of that name is read: {', '.join(sorted({x.region for x in places}))}",
                )

    def events(
        self, place: Place, group: LogGroup, start: datetime, end: datetime, pages: int = PAGES
    ) -> Iterator[LogEvent]:
        """Yield the events that hold a compiler's line.

        Raise `Unavailable` where a page fails or there are too many.
        """
        given: dict[str, Any] = {
            "logGroupName": group.name,
            "startTime": int(start.timestamp() * 1000),
            "endTime": int(end.timestamp() * 1000),
            "filterPattern": filter_pattern(),
        }
        for number, page in enumerate(
            self.calls.pages(place, "logs", "filter_log_events", **given), 1
        ):
            yield from page["events"]
            if number >= pages and page.get("nextToken"):
                raise Unavailable(
                    f"Log group {group.name} in {place} is too large to be searched in time ({pages} pages);"
                    " name a group that holds the training jobs alone."
                )

    def _wanted(self, places: Sequence[Place]) -> list[tuple[Place, LogGroup]]:
        return [
            (place, group)
            for group in self.groups
            for place in places
            if place.region == (group.region or self.home)
        ]
