"""Recognise the lines of Neuron's compiler among log events, and keep them by the time they were visible."""

from __future__ import annotations

import csv
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import orjson

from adapters.aws.files import Problems, blocks, why
from adapters.aws.metrics.points import MetricSeries
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
