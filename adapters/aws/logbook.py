"""Keep the lines of compilers' logs that were heard, and give those that were visible at a time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from adapters.aws.compile_log import kind_of, marks_of
from adapters.aws.lines import blocks
from adapters.aws.points import Series
from adapters.aws.problems import Problems, why
from bot.model.compile import CompileMark

Event = Mapping[str, Any]
WAITING = 1000
"""Lines of nodes not known yet that are kept: a group may hold those of clusters that nobody watches."""
_ENDINGS = (".jsonl", ".jsonl.gz")


class Logbook:
    """Hold marks by the time at which they were visible; one event is kept once, by its id."""

    def __init__(self) -> None:
        self._seen: dict[str, datetime] = {}
        self._waiting: list[Event] = []
        self._visible: list[datetime] = []
        self._marks: list[CompileMark] = []

    def add(self, events: Iterable[Event], nodes: Mapping[str, str]) -> int:
        """Take events in, and return how many said something of a known instance; raise as `marks_of` does.

        A new node may log before any metric names it: its lines wait until then.
        """
        found, waiting = [], list(self._waiting)
        for event in events:
            name = str(event.get("eventId", ""))
            if name not in self._seen:
                waiting.append(event)
            if name:
                self._seen[name] = _visible(event)
        self._waiting = []
        for event in waiting:
            marks = [(_visible(event), mark) for mark in marks_of([event], nodes)]
            found += marks
            if not marks and kind_of(str(event["message"])):
                self._waiting.append(event)
        self._waiting = self._waiting[-WAITING:]
        kept = sorted([*zip(self._visible, self._marks, strict=True), *found], key=lambda x: x[0])
        self._visible, self._marks = [at for at, _ in kept], [mark for _, mark in kept]
        return len(found)

    def forget(self, before: datetime) -> None:
        """Drop what was visible before a time: a process that never stops would keep every line."""
        self._seen = {name: at for name, at in self._seen.items() if at >= before}
        first = bisect_left(self._visible, before)
        self._visible, self._marks = self._visible[first:], self._marks[first:]

    def at(self, now: datetime, history: timedelta) -> tuple[CompileMark, ...]:
        """Return what was visible at `now` and is not older than `history`."""
        first, last = (bisect_right(self._visible, at) for at in (now - history, now))
        return tuple(self._marks[first:last])


def read_logs(folder: Path, nodes: Mapping[str, str], problems: Problems) -> Logbook:
    """Read `logs/**/*.jsonl[.gz]` of a recording: events of FilterLogEvents, one a line; name the broken lines and skip them."""
    book = Logbook()
    for path in sorted((folder / "logs").rglob("*")):
        if path.name.endswith(_ENDINGS) and path.is_file():
            book.add(_events(path, str(path.relative_to(folder)), problems), nodes)
    return book


def node_names(series: Iterable[Series]) -> dict[str, str]:
    """Return the instance of each Kubernetes node that a metric names with it."""
    pairs = (dict(one.dimensions) for one in series if "NodeName" in one.names and "InstanceId" in one.names)
    return {pair["NodeName"]: pair["InstanceId"] for pair in pairs}


def _visible(event: Event) -> datetime:
    return datetime.fromtimestamp(max(int(event.get("ingestionTime", 0)), int(event["timestamp"])) / 1000, UTC)


def _events(path: Path, name: str, problems: Problems) -> Iterable[Event]:
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
            except (KeyError, TypeError, ValueError, AttributeError, OverflowError, OSError) as error:
                problems.add(name, f"not a log event ({why(error)}); skipped.", number)
