"""Recognise the lines of Neuron's compiler among log events; what else an event says is neither kept nor shown."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any

from bot.model.compile import CompileMark, Mark

_INSTANCE = re.compile(r"(?<![0-9a-z])i-[0-9a-f]{8,17}(?![0-9a-z])")
_NODE = re.compile(r"^(.+?)-(?:application|dataplane|host)\.")
"""How Fluent Bit of Container Insights begins a stream's name: the node's name."""
_MODULE = re.compile(r"MODULE_[0-9A-Za-z]+(?:\+[0-9a-f]+)?")


@cache
def compile_lines() -> Mapping[str, Mark]:
    """Return the words that each known line holds, and what it says."""
    text = files(__package__).joinpath("compile_lines.csv").read_text(encoding="utf-8")
    return {row["words"]: Mark(row["kind"]) for row in csv.DictReader(text.splitlines())}


def filter_pattern() -> str:
    """Return CloudWatch Logs' pattern of events that hold any of the words."""
    return " ".join(f'?"{words}"' for words in compile_lines())


def marks_of(events: Iterable[Mapping[str, Any]], nodes: Mapping[str, str]) -> Iterator[CompileMark]:
    """Yield what events of FilterLogEvents say of compiles, where their stream names an instance or a node of `nodes`.

    Raise `KeyError`, `TypeError` or `ValueError` for what is no event.
    """
    for event in events:
        message, stream, at = str(event["message"]), str(event["logStreamName"]), int(event["timestamp"]) / 1000
        kind = kind_of(message)
        instance = instance_of(stream, nodes) if kind else ""
        if kind and instance:
            module = _MODULE.search(message)
            yield CompileMark(datetime.fromtimestamp(at, UTC), instance, kind, module[0] if module else "", stream)


def kind_of(message: str) -> Mark | None:
    """Return what a line says of compiles, None for nothing."""
    return next((kind for words, kind in compile_lines().items() if words in message), None)


def trimmed(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the event with no more of its message than the words that are known, and the module."""
    message = str(event["message"])
    known = [words for words in compile_lines() if words in message][:1]
    module = _MODULE.search(message)
    kept = " ".join([*known, *([module[0]] if module else [])])
    return {name: event[name] for name in ("logStreamName", "timestamp", "ingestionTime", "eventId") if name in event} | {
        "message": kept
    }


def instance_of(stream: str, nodes: Mapping[str, str]) -> str:
    """Return the instance that a log stream is of: named by its id, or by the name of its Kubernetes node; else ""."""
    named = _INSTANCE.search(stream)
    if named:
        return named[0]
    node = _NODE.match(stream)
    return nodes.get(node[1], "") if node else ""
