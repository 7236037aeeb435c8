"""Hold what the watch remembers between ticks, and what one step writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from bot.model.alert import Alert, Decision, Said, Silence


@dataclass(frozen=True)
class Memory:
    """Hold what the watch remembers between ticks."""

    alerts: tuple[Alert, ...] = ()
    """Every open alert, and those closed within the last 15 days; `with_acknowledgement` filled from the decisions."""
    said: tuple[Said, ...] = ()
    """What channels were told of incidents not over, or over within the last day."""
    silences: tuple[Silence, ...] = ()
    """What people keep quiet now."""
    ticked_at: datetime | None = None
    """The last tick that was saved whole."""
    slept: tuple[Silence, ...] = ()
    """Silences that time has ended within the last day: who asked to be woken, and when."""


@dataclass(frozen=True)
class Changes:
    """Hold what one step writes, in one transaction; existing ids are replaced."""

    alerts: Sequence[Alert] = ()
    said: Sequence[Said] = ()
    silences: Sequence[Silence] = ()
    decisions: Sequence[Decision] = ()
    ticked_at: datetime | None = None
