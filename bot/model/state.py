"""Hold the state that the watch keeps between ticks, the update that one step writes, and the result of a replay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from bot.model.alert import Alert, Decision, Silence
from bot.model.notification import Line, Notification, NotificationLogEntry, Receipt
from bot.model.window import Window


@dataclass(frozen=True)
class State:
    """Hold the state that the watch needs at its next tick."""

    alerts: tuple[Alert, ...] = ()
    """Every open alert, and those closed within the last 15 days.

    `acknowledged` filled from the decisions.
    """
    notification_log: tuple[NotificationLogEntry, ...] = ()
    """The entries of incidents that are not over, over within the last day, or over and not shown so yet."""
    silences: tuple[Silence, ...] = ()
    """Silences that hold now, or will."""
    ticked_at: datetime | None = None
    """The last tick that was saved whole."""
    slept: tuple[Silence, ...] = ()
    """Silences that time has ended within the last day: who asked to be woken, and when."""
    lines: tuple[Line, ...] = ()
    """Lines of threads that were decided within the last day and are not said yet, in their order."""


@dataclass(frozen=True)
class StateUpdate:
    """Hold the writes of one step, made in one transaction; existing ids are replaced.

    An entry without a message leaves the one that is known, and a line that is not sent leaves the
    one that is.
    """

    alerts: Sequence[Alert] = ()
    notification_log: Sequence[NotificationLogEntry] = ()
    silences: Sequence[Silence] = ()
    decisions: Sequence[Decision] = ()
    lines: Sequence[Line] = ()
    receipts: Sequence[Receipt] = ()
    ticked_at: datetime | None = None


@dataclass
class ReplayResult:
    """Hold the outcome of a replay.

    Every opening of every alert as it stood last, every notification, the ticks run.
    """

    window: Window
    ticks: int = 0
    alerts: dict[str, Alert] = field(default_factory=dict)
    notifications: list[Notification] = field(default_factory=list)
