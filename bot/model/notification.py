"""Say why a channel is notified, and hold the state that the watch keeps between ticks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any

from bot.model.alert import Alert, Decision, Silence
from bot.model.window import Window, duration_text

TOO_LONG = timedelta(hours=1)
"""From then on what the last tick saw says nothing about now."""


class Known(StrEnum):
    """Name how much is known of the fleet."""

    WHOLE = "known"
    PARTLY = "partly known"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Coverage:
    """State how much of the fleet is known, and in a sentence why no more; "" for all of it."""

    known: Known = Known.WHOLE
    because: str = ""

    @property
    def data(self) -> dict[str, str]:
        """Return the same for scripts."""
        return {"known": self.known.value, "because": self.because}

    @staticmethod
    def joined(parts: Sequence[Coverage]) -> Coverage:
        """Return how much is known of parts of a fleet together, each reason once."""
        levels = {part.known for part in parts}
        known = levels.pop() if len(levels) == 1 else Known.PARTLY
        return Coverage(known, " ".join(dict.fromkeys(x.because for x in parts if x.because)))


class Reason(StrEnum):
    """Name the reason for a notification; FIRST makes a message, every other edits it."""

    FIRST = "FIRST"
    MORE = "MORE"
    FEWER = "FEWER"
    WORSE = "WORSE"
    OVER = "OVER"
    REMINDER = "REMINDER"
    DECIDED = "DECIDED"
    UPDATED = "UPDATED"
    """Only its dollars went on; once an hour the message says them anew."""


@dataclass(frozen=True)
class Notification:
    """Join alerts of one incident for one channel; `id` names the incident there."""

    id: str
    channel: str
    reason: Reason
    at: datetime
    alerts: tuple[Alert, ...]
    owed: bool = False
    """Whether it was decided before, and only its sending is still owed."""


@dataclass(frozen=True)
class NotificationLogEntry:
    """Remember the last notification of one incident in one channel, and the message that holds it.

    It is written before anything is sent, and is `pending` until the message shows it. `message` is
    "" until the platform's first answer.
    """

    id: str
    channel: str
    reason: Reason
    at: datetime
    alerts: tuple[str, ...]
    """Ids of the alerts in it."""
    things: int
    usd_per_hour: Decimal
    digest: str
    """Fingerprint of everything that was shown, so that an unchanged card is not sent again."""
    message: str = ""
    over: bool = False
    usd_so_far: Decimal = Decimal(0)
    pending: bool = False
    """Whether the message does not show this yet."""
    version: int = 1
    """Counts the decisions about this message, to tell an answer about an older state."""


@dataclass(frozen=True)
class Receipt:
    """State that a platform took a message, and which version of its state the message shows."""

    id: str
    channel: str
    message: str
    version: int


@dataclass(frozen=True)
class Line:
    """Hold one line of a message's thread.

    Written in words when it was decided, said once, after those before it.

    `id` is the key by which the platform finds it again; `notification` and `channel` name the
    message.
    """

    id: str
    notification: str
    channel: str
    at: datetime
    card: Mapping[str, Any]
    """The card, as a document."""
    sent: str = ""
    """Id of what says it: the line, or the message that was posted later and shows it.

    "" until then.
    """


@dataclass
class Delays:
    """Count how long messages have waited for a platform's limits, and those that wait now."""

    seconds: float = 0.0
    waiting: int = 0

    @contextmanager
    def held(self, monotonic: Callable[[], float]) -> Iterator[None]:
        """Count one message as waiting for as long as this lasts, by a clock in seconds."""
        began = monotonic()
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1
            self.seconds += monotonic() - began


@dataclass(frozen=True)
class State:
    """Hold the state that the watch needs at its next tick."""

    alerts: tuple[Alert, ...] = ()
    """Every open alert, and those closed within the last 15 days.

    `acknowledged` filled from the decisions.
    """
    notification_log: tuple[NotificationLogEntry, ...] = ()
    """Entries of incidents not over, over within the last day, or not shown so yet."""
    silences: tuple[Silence, ...] = ()
    """Silences that hold now, or will."""
    ticked_at: datetime | None = None
    """The last tick that was saved whole."""
    seen: Coverage | None = None
    """How much of the fleet that tick knew; None where it was not kept."""
    slept: tuple[Silence, ...] = ()
    """Silences that time has ended within the last day: who asked to be woken, and when."""
    lines: tuple[Line, ...] = ()
    """Lines of threads, in order, that were decided within the last day and are not said yet."""

    def coverage(self, now: datetime) -> Coverage:
        """Return how much of the fleet the open alerts are about, as of the last tick."""
        if self.ticked_at is None:
            return Coverage(Known.UNKNOWN, "The watch has not looked yet.")
        if now - self.ticked_at > TOO_LONG:
            ago = duration_text(now - self.ticked_at)
            return Coverage(Known.UNKNOWN, f"The watch last looked {ago} ago; is it running?")
        return self.seen or Coverage()


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
    seen: Coverage | None = None


@dataclass(frozen=True)
class ReplaySpan:
    """State the time that replays go over, their ticks, and who hears every alert in them."""

    window: Window
    times: Sequence[datetime]
    channels: Sequence[str]


@dataclass
class ReplayResult:
    """Hold the outcome of a replay.

    Every opening of every alert as it stood last, every notification, the ticks run.
    """

    window: Window
    ticks: int = 0
    alerts: dict[str, Alert] = field(default_factory=dict)
    notifications: list[Notification] = field(default_factory=list)
