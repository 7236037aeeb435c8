"""State one node's compile: when, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from bot.model.labels import Labels
from bot.model.window import Window


class Ending(StrEnum):
    """Name what came of a compile."""

    GOING = "going on"
    USED = "executions followed"
    CUT = "cut off"
    """Its process, pod or node was gone before anything executed; a pre-compile that nobody used yet looks the same."""
    UNKNOWN = "not known"


@dataclass(frozen=True)
class Compile:
    """State one compile of one node; `scope` is the scope of alerts about it, `told` whether a log said its ends."""

    instance: str
    scope: Labels
    window: Window
    ending: Ending
    told: bool = False

    @property
    def hours(self) -> float:
        """Return node-hours."""
        return self.window.hours
