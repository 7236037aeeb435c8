"""Read the lines of Neuron's compiler from log events, recorded or in CloudWatch Logs."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters.aws.api.operations import Place
from adapters.aws.files import JSON_LINES, Problems, objects
from adapters.aws.metrics.points import MetricSeries
from bot.errors import Unavailable, WrongInput
from bot.model.codec import table
from bot.model.request import Check
from bot.model.run import CompileMark, Mark

if TYPE_CHECKING:
    from adapters.aws.api.calls import Calls  # boto3 is slow to load, and a recording needs none

_INSTANCE = re.compile(r"(?<![0-9a-z])i-[0-9a-f]{8,17}(?![0-9a-z])")
_NODE = re.compile(r"^(.+?)-(?:application|dataplane|host)\.")
"""How Fluent Bit of Container Insights begins a stream's name: the node's name."""
_KEPT = ("logStreamName", "timestamp", "ingestionTime", "eventId")
_MODULE = re.compile(r"MODULE_[0-9A-Za-z]+(?:\+[0-9a-f]+)?")


@cache
def compile_lines() -> Mapping[str, Mark]:
    """Return the words of each known line, and the mark it makes."""
    return {row["words"]: Mark(row["kind"]) for row in table(__package__, "compile_lines.csv")}


def filter_pattern() -> str:
    """Return CloudWatch Logs' pattern of events that hold any of the words."""
    return " ".join(f'?"{words}"' for words in compile_lines())


def marks_of(
    events: Iterable[Mapping[str, Any]], nodes: Mapping[str, str]
) -> Iterator[CompileMark]:
    """Yield the compile marks of FilterLogEvents' events.

    Of those whose stream names an instance or a node of `nodes`. Raise `KeyError`, `TypeError` or
    `ValueError` for what is no event.
    """
    for event in events:
        message, stream = str(event["message"]), str(event["logStreamName"])
        seconds, kind = int(event["timestamp"]) / 1000, kind_of(message)
        if kind and (instance := instance_of(stream, nodes)):
            module, time = _MODULE.search(message), datetime.fromtimestamp(seconds, UTC)
            yield CompileMark(time, instance, kind, module[0] if module else "", stream)


def kind_of(message: str) -> Mark | None:
    """Return the kind of compile mark that a line makes, None for none."""
    return next((kind for words, kind in compile_lines().items() if words in message), None)


def trimmed(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the event with no more of its message than the known words, and the module."""
    message = str(event["message"])
    words = [words for words in compile_lines() if words in message][:1]
    module = _MODULE.search(message)
    return {name: event[name] for name in _KEPT if name in event} | {
        "message": " ".join([*words, module[0]] if module else words)
    }


def instance_of(stream: str, nodes: Mapping[str, str]) -> str:
    """Return the instance that a log stream is of.

    Named by its id, or by the name of its Kubernetes node; else "".
    """
    if instance := _INSTANCE.search(stream):
        return instance[0]
    node = _NODE.match(stream)
    return nodes.get(node[1], "") if node else ""


LogEvent = Mapping[str, Any]
WAITING = 1000
"""Lines of nodes not known yet that are kept.

A group may hold those of clusters that nobody watches.
"""
_TIME = itemgetter(0)


class Logbook:
    """Hold marks by the time at which they were visible; one event is kept once, by its id."""

    def __init__(self) -> None:
        self._seen: dict[str, datetime] = {}
        self._waiting: list[LogEvent] = []
        self._marks: list[tuple[datetime, CompileMark]] = []
        """With the time at which each was visible, the oldest first."""

    def add(self, events: Iterable[LogEvent], nodes: Mapping[str, str]) -> int:
        """Take events in, and return how many marks they make of known instances.

        Raise as `marks_of` does. A new node may log before any metric names it: its lines wait
        until then.
        """
        # Lines of a node that no metric has named yet are tried again each time.
        waiting = list(self._waiting)
        for event in events:
            name = str(event.get("eventId", ""))
            if name not in self._seen:
                waiting.append(event)
            if name:
                self._seen[name] = _visible(event)

        self._waiting = []
        new: list[tuple[datetime, CompileMark]] = []
        for event in waiting:
            marks = [(_visible(event), mark) for mark in marks_of([event], nodes)]
            new += marks
            if not marks and kind_of(str(event["message"])):
                self._waiting.append(event)
        self._waiting = self._waiting[-WAITING:]
        self._marks = sorted([*self._marks, *new], key=_TIME)
        return len(new)

    def forget(self, before: datetime) -> None:
        """Drop the lines visible before a time.

        A process that never stops would keep every line.
        """
        self._seen = {name: time for name, time in self._seen.items() if time >= before}
        self._marks = self._marks[bisect_left(self._marks, before, key=_TIME) :]

    def at(self, now: datetime, history: timedelta) -> tuple[CompileMark, ...]:
        """Return the marks visible at `now` that are not older than `history`."""
        first, last = (bisect_right(self._marks, x, key=_TIME) for x in (now - history, now))
        return tuple(mark for _, mark in self._marks[first:last])


def read_logs(folder: Path, nodes: Mapping[str, str], problems: Problems) -> Logbook:
    """Read `logs/**/*.jsonl[.gz]` of a recording: events of FilterLogEvents, one a line.

    Name the broken lines and skip them.
    """

    def checked(event: LogEvent) -> LogEvent:
        list(marks_of([event], {}))
        return event

    book = Logbook()
    for path in sorted((folder / "logs").rglob("*")):
        if path.name.endswith(JSON_LINES) and path.is_file():
            events = objects(path, str(path.relative_to(folder)), problems, checked, "log event")
            book.add((event for event, _ in events), nodes)
    return book


def node_names(series: Iterable[MetricSeries]) -> dict[str, str]:
    """Return the instance of each Kubernetes node that a metric names with it."""
    dimensions = (dict(x.dimensions) for x in series if {"NodeName", "InstanceId"} <= {*x.names})
    return {x["NodeName"]: x["InstanceId"] for x in dimensions}


def _visible(event: LogEvent) -> datetime:
    return datetime.fromtimestamp(
        max(int(event.get("ingestionTime", 0)), int(event["timestamp"])) / 1000, UTC
    )


FIRST = timedelta(hours=3)
"""How far the first look reaches back: a compile that goes on has begun since."""
_AGAIN = timedelta(minutes=5)
"""Events may come in so late, and are asked for again; one that was seen is known by its id."""
PAGES = 30
"""Pages of one group and tick.

CloudWatch Logs allows 5 to 25 requests a second, and a page may be empty.
"""


@dataclass(frozen=True)
class LogGroup:
    """Name one log group, and the region that it is in, "" for the first one that is read."""

    name: str
    region: str = ""

    def __str__(self) -> str:
        """Read as `us-west-2:/aws/containerinsights/llama/application`."""
        return f"{self.region}:{self.name}" if self.region else self.name


def read_log_group(text: str) -> LogGroup:
    """Read `GROUP` or `REGION:GROUP`; raise `WrongInput` for a text that is no group's name."""
    region, _, name = text.rpartition(":")
    sound = 0 < len(name) <= 512 and all(x.isalnum() or x in "_-/.#" for x in name)
    if not sound or "/" in region:
        raise WrongInput(
            f"'{text}' is not a log group; write GROUP or REGION:GROUP,"
            " such as us-west-2:/aws/containerinsights/llama/application."
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

    def examined(self, places: Sequence[Place], now: datetime) -> Iterator[Check]:
        """Yield for each group whether it can be read.

        How many compile lines it holds lately.
        """
        groups = self._wanted(places)
        hours = FIRST // timedelta(hours=1)
        for place, group in groups:
            name = f"log group {group.name} in {place}"
            try:
                lines = len(list(self.events(place, group, now - FIRST, now)))
            except Unavailable as error:
                yield Check(name, False, str(error))
            else:
                yield Check(name, True, f"{lines} compile lines within the last {hours} h")
        regions = ", ".join(sorted({x.region for x in places}))
        for group in self.groups:
            if not any(x is group for _, x in groups):
                yield Check(
                    f"log group {group}", False, f"no region of that name is read: {regions}"
                )

    def events(
        self, place: Place, group: LogGroup, start: datetime, end: datetime, pages: int = PAGES
    ) -> Iterator[LogEvent]:
        """Yield the events that hold a compiler's line.

        Raise `Unavailable` where a page fails or there are too many.
        """
        answers = self.calls.pages(
            place,
            "logs",
            "filter_log_events",
            logGroupName=group.name,
            startTime=int(start.timestamp() * 1000),
            endTime=int(end.timestamp() * 1000),
            filterPattern=filter_pattern(),
        )
        for number, page in enumerate(answers, 1):
            yield from page["events"]
            if number >= pages and page.get("nextToken"):
                raise Unavailable(
                    f"Log group {group.name} in {place} is too large to be searched in time"
                    f" ({pages} pages); name a group that holds the training jobs alone."
                )

    def _wanted(self, places: Sequence[Place]) -> list[tuple[Place, LogGroup]]:
        return [
            (place, group)
            for group in self.groups
            for place in places
            if place.region == (group.region or self.home)
        ]
