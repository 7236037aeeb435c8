"""State the progress of a training run, and a node's compile."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from bot.model.labels import Labels
from bot.model.window import Window

_ATTEMPT = re.compile(
    r"(?:[-_.](?:\d{6,}(?:[-_.T]?\d{4,6}Z?)?|(?:r|run|trial|try|retry|attempt)[-_]?\d+))+$",
    re.ASCII,
)


def job_of(name: str) -> str:
    """Return the name of a run or job without the date or the number of the attempt at its end."""
    return _ATTEMPT.sub("", name) or name


@dataclass(frozen=True)
class Run:
    """State a run (`labels.job`) as last reported; None where nothing was reported."""

    labels: Labels
    started_at: datetime
    seen_at: datetime
    epochs: float | None = None
    steps: float | None = None
    tokens: float | None = None
    parameters: float | None = None
    loss: float | None = None
    checkpoint_age_seconds: float | None = None
    attempts: int = 1


class Ending(StrEnum):
    """Name the ways in which a compile ends."""

    GOING = "going on"
    USED = "executions followed"
    CUT = "cut off"
    """Its process, pod or node was gone before anything executed.

    A pre-compile that nobody used yet looks the same.
    """
    UNKNOWN = "not known"


@dataclass(frozen=True)
class Compile:
    """State one compile of one node.

    `scope` is the scope of alerts about it, `told` whether a log said its ends.
    """

    instance: str
    scope: Labels
    window: Window
    ending: Ending
    told: bool = False

    @property
    def hours(self) -> float:
        """Return the node-hours of the compile."""
        return self.window.hours


class Mark(StrEnum):
    """Name the meanings of lines in the compiler's log."""

    BEGUN = "begun"
    DONE = "done"
    FAILED = "failed"
    OVER = "over"
    """All that its process compiles is done."""
    SKIPPED = "skipped"
    """A graph is cached as failed, so it is not compiled."""
    WAITING = "waiting"
    """Another process is to compile the same graph, and holds its lock."""


@dataclass(frozen=True)
class CompileMark:
    """State one line of a compiler's log.

    Of which graph, "" where it does not say, and in which log stream.
    """

    at: datetime
    instance: str
    mark: Mark
    module: str = ""
    stream: str = ""
