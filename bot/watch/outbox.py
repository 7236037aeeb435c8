"""Decide what is to be sent, in words and in order, so that it can be written before any of it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bot.cards.card import Card
from bot.model.alert import leading, usd_per_hour_of
from bot.model.causes import Severity
from bot.model.codec import encode
from bot.model.notification import Line, Notification, NotificationLogEntry, Reason
from bot.ports import State
from bot.watch.notify import decided_entry, log_entry_of, sendable

_THREADED = {Reason.DECIDED, Reason.WORSE, Reason.OVER, Reason.REMINDER}
CardOf = Callable[[Notification], Card]
LineOf = Callable[[Notification, NotificationLogEntry, Card], Card]
"""Draws the thread's line about the change since the log entry."""


@dataclass(frozen=True)
class Parcel:
    """Hold what one message is to show, and whether it may be posted where there is none.

    Without a card, its thread alone waits for something.
    """

    channel: str
    id: str
    entry: NotificationLogEntry | None = None
    card: Card | None = None
    postable: bool = True
    urgency: tuple[int, bool, float] = (2, True, 0.0)


@dataclass(frozen=True)
class Decided:
    """Hold what one step decided to send.

    The entries and lines to write first, then the parcels to send.
    """

    entries: Sequence[NotificationLogEntry]
    lines: Sequence[Line]
    parcels: Sequence[Parcel]

    def keys(self) -> list[str]:
        """Return the keys that no platform can have seen before."""
        return [
            *(entry.id for entry in self.entries if entry.version == 1),
            *(line.id for line in self.lines),
        ]


def decide(
    notifications: Sequence[Notification], state: State, card_of: CardOf, line_of: LineOf
) -> Decided:
    """Return what the notifications change, and what threads still wait for from before."""
    before = {entry.id: entry for entry in state.notification_log}
    entries, lines, parcels = [], [], {}
    for one in notifications:
        known, card = before.get(one.id), card_of(one)
        entry = decided_entry(one, known)
        parcels[one.id] = _parcel(one, entry, card)
        if one.owed:
            continue
        entries.append(entry)
        if known is not None and _threaded(one, known):
            lines.append(_line(entry, line_of(one, known, card)))
    waiting = {line.notification: Parcel(line.channel, line.notification) for line in state.lines}
    return Decided(
        entries,
        lines,
        [*parcels.values(), *(one for name, one in waiting.items() if name not in parcels)],
    )


def _parcel(one: Notification, entry: NotificationLogEntry, card: Card) -> Parcel:
    """Order what is to be sent: new messages, then edits, then new dollars.

    Critical before others, dearest before cheap.
    """
    critical = any(a.severity is Severity.CRITICAL and a.firing for a in one.alerts)
    per_hour = float(usd_per_hour_of(a for a in leading(one.alerts) if a.firing))
    kind = 0 if not entry.message else 1 if one.reason is not Reason.UPDATED else 2
    urgency = (kind, not critical, -per_hour)
    return Parcel(one.channel, one.id, entry, card, sendable(one.alerts, one.at), urgency)


def _line(entry: NotificationLogEntry, card: Card) -> Line:
    """Key a line by its decision, so that two processes that decide the same say it once."""
    key = f"{entry.id}-{entry.version}-{entry.reason.value.lower()}-{entry.digest[:8]}"
    return Line(key, entry.id, entry.channel, entry.at, encode(replace(card, data={})))


def _threaded(one: Notification, before: NotificationLogEntry) -> bool:
    """Return whether the change is worth a line in the thread."""
    if one.reason is Reason.FIRST or (one.reason is Reason.WORSE and not _faster(one, before)):
        return False
    return before.over or one.reason in _THREADED or _explained(one, before)


def _explained(one: Notification, before: NotificationLogEntry) -> bool:
    """Return whether what was told is now seen to be an effect of something else."""
    return all(alert.id not in before.alerts for alert in leading(one.alerts))


def _faster(one: Notification, before: NotificationLogEntry) -> bool:
    """Return whether more is lost an hour than before.

    Cost that merely adds up changes the message, not the thread.
    """
    return log_entry_of(one, "").usd_per_hour > before.usd_per_hour
