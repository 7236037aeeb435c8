"""Deliver notifications: write the intent, send, write the log entry; a crash in between is repaired by asking the platform."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bot.cards.card import Card
from bot.errors import Refused, TrnbotError, Unanswered
from bot.model.alert import Notification, NotificationLogEntry, Reason
from bot.model.causes import Severity
from bot.ports import AlertStore, StateUpdate, Surface
from bot.watch.notify import log_entry_of

log = logging.getLogger("trnbot.deliver")
_THREADED = {Reason.DECIDED, Reason.WORSE, Reason.OVER, Reason.REMINDER}
AT_ONCE = 8
"""Channels that are sent to at the same time; the one with the dearest notification begins."""
ENOUGH = 3
"""Failures of a channel in one tick after which it is left alone until the next."""
CardOf = Callable[[Notification], Card]
LineOf = Callable[[Notification, NotificationLogEntry, Card], Card]
"""Draws the thread's line about the change since the log entry."""


@dataclass(frozen=True)
class Delivered:
    """Hold the outcome of one delivery: the entries of the messages sent, and the failures."""

    entries: tuple[NotificationLogEntry, ...]
    failed: tuple[str, ...]
    failures: Mapping[str, Exception] = field(default_factory=dict)
    """The newest failure of each channel that took nothing."""


@dataclass(frozen=True)
class _ChannelResult:
    """Hold the entries and the failures of one channel."""

    entries: tuple[NotificationLogEntry, ...]
    failures: tuple[Exception, ...]


def intents(notifications: Sequence[Notification], entries: Sequence[NotificationLogEntry]) -> list[NotificationLogEntry]:
    """Return the entries to write before sending: those of first messages, which have no id yet."""
    logged = {entry.id for entry in entries}
    first = [one for one in notifications if one.reason is Reason.FIRST and one.id not in logged]
    return [log_entry_of(one, "") for one in first]


@dataclass(frozen=True)
class Delivery:
    """Send notifications to several channels at once, so that a slow one holds up no other; write one entry at a time."""

    surfaces: Mapping[str, Surface]
    store: AlertStore
    card_of: CardOf
    line_of: LineOf
    _free: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def send(self, notifications: Iterable[Notification], entries: Sequence[NotificationLogEntry]) -> Delivered:
        """Send each channel its notifications, dearest first, and write the entry of each as soon as it was sent.

        A notification that fails stays unsent: the next tick makes the same one, or a newer, and is the retry. A channel that
        fails `ENOUGH` times is left alone until then, so that a dead channel does not hold up the others.
        """
        before = {entry.id: entry for entry in entries}
        queues: dict[str, list[Notification]] = {}
        for notification in sorted(notifications, key=_urgency):
            queues.setdefault(notification.channel, []).append(notification)
        sending = (self._send_channel(queue, before) for queue in queues.values())
        outcomes = await asyncio.gather(*sending, return_exceptions=True)
        return _delivered({channel: _whole(outcome) for channel, outcome in zip(queues, outcomes, strict=True)})

    async def _send_channel(self, queue: Sequence[Notification], before: Mapping[str, NotificationLogEntry]) -> _ChannelResult:
        """Send one channel's notifications in their order."""
        sent: list[NotificationLogEntry] = []
        failures: list[Exception] = []
        async with self._free:
            for notification in queue:
                if len(failures) >= ENOUGH:
                    break
                try:
                    sent.append(await self._send_one(notification, before.get(notification.id)))
                except (TrnbotError, OSError, TimeoutError) as error:
                    failures.append(error)
                    log.warning("notice %s to %s was not delivered: %s", notification.id, notification.channel, error)
        return _ChannelResult(tuple(sent), tuple(failures))

    async def _send_one(self, notification: Notification, before: NotificationLogEntry | None) -> NotificationLogEntry:
        """Post or edit the message, write its entry, then add the thread's line.

        The line follows the writing, so that a crash or an answer that never came cannot repeat it; a plain refusal takes the
        writing back, so that both are tried again.
        """
        card = self.card_of(notification)
        surface, channel = surface_of(notification.channel, self.surfaces)
        message, new = await _post_or_edit(notification, before, surface, channel, card)
        entry = log_entry_of(notification, message)
        await self._write(entry)
        if before is None or new or not _threaded(notification, before):
            return entry
        try:
            await surface.reply(channel, message, self.line_of(notification, before, card))
        except (Unanswered, OSError, TimeoutError) as error:
            log.warning("the thread's line of %s to %s may be missing: %s", notification.id, notification.channel, error)
        except TrnbotError:
            await self._write(before)
            raise
        return entry

    async def _write(self, entry: NotificationLogEntry) -> None:
        async with self._writing:
            await asyncio.to_thread(self.store.save, StateUpdate(notification_log=[entry]))


def _whole(outcome: _ChannelResult | BaseException) -> _ChannelResult:
    """Raise an exception that is no failure of a channel, now that every other channel has been served."""
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def _delivered(results: Mapping[str, _ChannelResult]) -> Delivered:
    failed = tuple(f"{channel}: {error}" for channel, result in results.items() for error in result.failures)
    entries = tuple(entry for result in results.values() for entry in result.entries)
    silent = {channel: result.failures[-1] for channel, result in results.items() if result.failures and not result.entries}
    return Delivered(entries, failed, silent)


async def _post_or_edit(
    notification: Notification, before: NotificationLogEntry | None, surface: Surface, channel: str, card: Card
) -> tuple[str, bool]:
    """Return the message's id and whether it is a first: posted, unless a crash hid that it was; else edited."""
    message = before.message if before else ""
    if not message and before:
        message = await surface.find(channel, notification.id)
    if not message:
        return await surface.post(channel, replace(card, public=True), notification.id), True
    return await surface.edit(channel, message, replace(card, public=True, mentions=()), notification.id), False


def _threaded(notification: Notification, before: NotificationLogEntry) -> bool:
    """Return whether the change is worth a line in the thread."""
    if notification.reason is Reason.WORSE and not _faster(notification, before):
        return False
    return before.over or notification.reason in _THREADED


def _faster(notification: Notification, before: NotificationLogEntry) -> bool:
    """Return whether more is lost an hour than before; cost that merely adds up changes the message, not the thread."""
    return log_entry_of(notification, "").usd_per_hour > before.usd_per_hour


def surface_of(address: str, surfaces: Mapping[str, Surface]) -> tuple[Surface, str]:
    """Return the surface and the bare channel of `slack:C02FIN`; raise `Unavailable` when nothing serves it."""
    name, _, channel = address.partition(":")
    if name not in surfaces:
        raise Undeliverable(f"no surface here is called '{name}', so {address} is not notified; check TRNBOT_ROUTE")
    return surfaces[name], channel


class Undeliverable(Refused):
    """Mean that a channel has no surface."""


def _urgency(notification: Notification) -> tuple[int, bool, float]:
    """Order notifications: firsts before edits, critical before others, dearest before cheap."""
    critical = any(a.severity is Severity.CRITICAL and a.firing for a in notification.alerts)
    per_hour = sum(float(a.waste.per_hour) for a in notification.alerts if a.waste and a.firing)
    return (0 if notification.reason is Reason.FIRST else 1, not critical, -per_hour)
