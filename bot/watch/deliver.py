"""Decide what is to be sent, so that it is written before any of it is, and deliver it."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from bot.cards.card import Card
from bot.errors import Limited, Refused, Standby, StoreFailed, TrnbotError, Unanswered
from bot.model.alert import leading, usd_per_hour_of
from bot.model.causes import Severity
from bot.model.codec import decode, encode
from bot.model.notification import Line, Notification, NotificationLogEntry, Reason, Receipt
from bot.ports import AlertStore, Outbox, State, StateUpdate, Surface
from bot.ports.work import EPOCH, PERMIT, permitted
from bot.watch.notify import decided_entry, log_entry_of, sendable

_THREADED = {Reason.DECIDED, Reason.WORSE, Reason.OVER, Reason.REMINDER}
CardOf = Callable[[Notification], Card]
LineOf = Callable[[Notification, NotificationLogEntry, Card], Card]
"""Draws the thread's line about the change since the log entry."""


@dataclass(frozen=True)
class Parcel:
    """Hold the card of one message, and whether it may be posted where there is none.

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
    """Hold the notifications that one step decided to send.

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
    """Return the changes of the notifications, and the lines that threads still wait for."""
    log_entries = {entry.id: entry for entry in state.notification_log}
    entries, lines, parcels = [], [], {}
    for notification in notifications:
        before, card = log_entries.get(notification.id), card_of(notification)
        entry = decided_entry(notification, before)

        # New messages go before edits, and those before new dollars alone; critical alerts before
        # others, dear ones before cheap.
        firing = [alert for alert in notification.alerts if alert.firing]
        edit = 2 if notification.reason is Reason.UPDATED else 1
        critical = any(alert.severity is Severity.CRITICAL for alert in firing)
        per_hour = usd_per_hour_of(a for a in leading(notification.alerts) if a.firing)
        urgency = (edit if entry.message else 0, not critical, -float(per_hour))
        parcels[notification.id] = Parcel(
            notification.channel,
            notification.id,
            entry,
            card,
            sendable(notification.alerts, notification.at),
            urgency,
        )
        if notification.owed:
            continue
        entries.append(entry)
        if before is not None and _threaded(notification, before):
            # Keyed by its decision, so that two processes that decide the same say it once.
            key = f"{entry.id}-{entry.version}-{entry.reason.value.lower()}-{entry.digest[:8]}"
            line = replace(line_of(notification, before, card), data={})
            lines.append(Line(key, entry.id, entry.channel, entry.at, encode(line)))

    unchanged = {
        line.notification: Parcel(line.channel, line.notification)
        for line in state.lines
        if line.notification not in parcels
    }
    return Decided(entries, lines, [*parcels.values(), *unchanged.values()])


def _threaded(notification: Notification, before: NotificationLogEntry) -> bool:
    """Return whether the change is worth a line in the thread."""
    reason = notification.reason
    if reason in (Reason.FIRST, Reason.UPDATED):
        return False
    # Cost that merely adds up changes the message, not the thread.
    per_hour = log_entry_of(notification, "").usd_per_hour
    if reason is Reason.WORSE and per_hour <= before.usd_per_hour:
        return False
    # What the message was about is now seen to be an effect of something else.
    explained = all(alert.id not in before.alerts for alert in leading(notification.alerts))
    return before.over or reason in _THREADED or explained


T = TypeVar("T")
log = logging.getLogger("trnbot.deliver")
AT_ONCE = 8
"""Channels that are sent to at the same time; the one with the dearest notification begins."""
ENOUGH = 3
"""Failures of a channel in one pass after which it is left alone until the next."""
TICK_S = 15.0
"""How long a tick waits for everything that it sends.

What is left is sent beside the ticks that follow.
"""
PRESS_S = 3.0
"""The same for a person's press, who sees an answer anyway."""
ASIDE_S = 5.0
"""The same for digests, and for sentences to admins about channels."""
AGAIN_S = (2.0, 5.0, 15.0, 60.0)
"""When a channel that failed is tried again, the last for as long as it fails."""
MOST_PLACES = 1_000
"""Channels and threads of which is remembered what stood there before."""
LEAST_S = 0.1
"""No try follows another sooner, whatever a platform says."""


@dataclass(frozen=True)
class Delivered:
    """Hold the outcome of one delivery: the entries of the messages sent, and the failures."""

    entries: tuple[NotificationLogEntry, ...]
    failed: tuple[str, ...]
    failures: Mapping[str, Exception] = field(default_factory=dict)
    """The newest failure of each channel that took nothing."""


@dataclass
class _Pass:
    """Collect the outcome of one pass over a channel's parcels."""

    entries: list[NotificationLogEntry] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    limits: list[Limited] = field(default_factory=list)
    broken: StoreFailed | None = None
    """The failure of the bot's own database, which is no fault of the channel."""


class Delivery:
    """Send parcels, several channels at once, each message by one process at a time.

    Keep what is left and try it again.
    """

    def __init__(
        self,
        surfaces: Mapping[str, Surface],
        store: AlertStore,
        outbox: Outbox,
        done: Callable[[str], None],
    ) -> None:
        self._surfaces, self._store, self._outbox = surfaces, store, outbox
        self._done = done
        """Hears of a channel that waits for nothing any more."""
        self._waiting: defaultdict[str, dict[str, Parcel]] = defaultdict(dict)
        self._passes: dict[str, asyncio.Task[_Pass]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._failed: defaultdict[str, int] = defaultdict(int)
        self._unsent: set[str] = set()
        """Keys that this process has decided: only what was posted before it spoke can have them."""
        self._posted_before: dict[tuple[str, str], Mapping[str, str]] = {}
        """What a channel or a thread held before this process spoke there: ids by their keys.

        A database that was restored, or a replica that lagged, knows less than the channel.
        """
        self._free = asyncio.Semaphore(AT_ONCE)

    def fresh(self, keys: Iterable[str]) -> None:
        """Take note of keys that this process has just written, before anything is sent."""
        self._unsent.update(keys)

    def forget(self) -> None:
        """Send nothing that waits, and trust nothing remembered of what was sent.

        Another process leads, or the database knows less than it did.
        """
        for timer in self._timers.values():
            timer.cancel()
        for parcels in self._waiting.values():
            parcels.clear()  # for whoever sends them now, too
        self._unsent.clear()
        self._posted_before.clear()

    async def send(self, parcels: Sequence[Parcel], patience_s: float) -> Delivered:
        """Send the parcels, dearest first, for as long as `patience_s`.

        The rest goes on beside what follows.

        Raises `StoreFailed` where the database failed meanwhile, so that the tick fails too.
        """
        for parcel in sorted(parcels, key=lambda parcel: parcel.urgency):
            waiting = self._waiting[parcel.channel]
            if parcel.card or parcel.id not in waiting:
                waiting[parcel.id] = parcel
        passes = {parcel.channel: self._begin(parcel.channel) for parcel in parcels}
        if passes:
            await asyncio.wait(passes.values(), timeout=patience_s)

        entries, failed, silent = list[NotificationLogEntry](), list[str](), {}
        results = {channel: p.result() for channel, p in passes.items() if p.done()}
        unfinished = _Pass(failures=[Unanswered("Messages are still being sent.")])
        for result in results.values():
            if result.broken:
                raise result.broken
        for channel in passes:
            result = results.get(channel, unfinished)
            errors = [*result.failures, *result.limits]
            failed += [f"{channel}: {error}" for error in errors]
            entries += result.entries
            if channel in results and errors and not result.entries:
                silent[channel] = errors[0]
        return Delivered(tuple(entries), tuple(failed), silent)

    async def settle(self, patience_s: float = TICK_S) -> None:
        """Begin nothing more, and finish the messages that are being sent."""
        self.forget()
        if passes := [task for task in self._passes.values() if not task.done()]:
            await asyncio.wait(passes, timeout=patience_s)

    def _begin(self, channel: str) -> asyncio.Task[_Pass]:
        """Return the pass under way, which takes new parcels as well, or begin one."""
        if channel in self._timers:
            self._timers.pop(channel).cancel()
        running = self._passes.get(channel)
        if running is None or running.done():
            running = self._passes[channel] = asyncio.create_task(
                self._pass(channel), name=f"deliver {channel}"
            )
        return running

    async def _pass(self, channel: str) -> _Pass:
        """Try each of a channel's parcels once, the most urgent first.

        Plan to try again what is left: when a limit ends, else a while after a failure.
        """
        outcome, waiting, tried = _Pass(), self._waiting[channel], list[Parcel]()
        EPOCH.set(0)  # whoever holds a message writes what became of it, whoever leads by then
        async with self._free:
            while len(outcome.failures) < ENOUGH and not outcome.broken:
                untried = [p for p in waiting.values() if not any(p is parcel for parcel in tried)]
                if not untried:
                    break
                parcel = min(untried, key=lambda parcel: parcel.urgency)
                tried.append(parcel)
                try:
                    entry = await self._deliver(parcel)
                except Standby as standby:
                    log.info("notification %s to %s: %s", parcel.id, channel, standby)
                    waiting.pop(parcel.id, None)
                except Limited as limit:
                    outcome.limits.append(limit)
                    log.info("notification %s to %s waits: %s", parcel.id, channel, limit)
                except (TrnbotError, OSError, TimeoutError) as error:
                    outcome.failures.append(error)
                    outcome.broken = error if isinstance(error, StoreFailed) else None
                    log.warning(
                        "notification %s to %s was not delivered: %s", parcel.id, channel, error
                    )
                else:
                    outcome.entries += [entry] if entry else []
                    # A newer parcel of the message may have come while this one was sent.
                    if waiting.get(parcel.id) is parcel:
                        del waiting[parcel.id]

        if not waiting:
            self._failed.pop(channel, None)
            self._done(channel)
            return outcome
        if outcome.failures:
            self._failed[channel] += 1
        pauses = [limit.seconds for limit in outcome.limits]
        # What a person must mend waits for the next tick.
        if any(not isinstance(error, Refused) for error in outcome.failures):
            pauses.append(AGAIN_S[min(self._failed[channel], len(AGAIN_S)) - 1])
        if pauses:
            loop = asyncio.get_running_loop()
            self._timers[channel] = loop.call_later(max(LEAST_S, min(pauses)), self._begin, channel)
        return outcome

    async def _deliver(self, parcel: Parcel) -> NotificationLogEntry | None:
        """Bring one message up to date and say the lines that its thread waits for.

        No other process does so meanwhile.
        """
        name = f"{parcel.channel} {parcel.id}"
        token = await asyncio.to_thread(self._outbox.hold, name)
        if not token:
            raise Limited("Another process of the bot sends this message.", AGAIN_S[0])

        async def still_held() -> None:
            if not await asyncio.to_thread(self._outbox.holds, name, token):
                raise Standby("Another process of the bot has taken this message over.")

        PERMIT.set(still_held)
        try:
            entry, lines = await asyncio.to_thread(self._outbox.owed, parcel.id, parcel.channel)
            if entry is None:
                return None
            message = entry.message
            # A decision that another process has made since is for that one to show.
            current = parcel.entry and _decision(entry) == _decision(parcel.entry)
            if parcel.card and current and entry.pending:
                message, lines = await self._show(parcel, parcel.card, entry, lines)
            if not message:
                return None

            for line in lines:
                surface, channel = surface_of(line.channel, self._surfaces)
                sent = await self._posted(surface, channel, line.id, message)
                if not sent:
                    card = decode(Card, line.card)
                    sent = await self._once(
                        line.id, partial(surface.reply, channel, message, card, line.id)
                    )
                await self._write(StateUpdate(lines=[replace(line, sent=sent or message)]))
            return replace(entry, message=message)
        finally:
            await asyncio.to_thread(self._outbox.release, name, token)

    async def _show(
        self, parcel: Parcel, card: Card, entry: NotificationLogEntry, lines: Sequence[Line]
    ) -> tuple[str, Sequence[Line]]:
        """Edit the message, or post it where there is none; return its id and the lines to say.

        What was decided before a first post is shown by it.
        """
        surface, channel = surface_of(parcel.channel, self._surfaces)
        message, answered = entry.message, list[Line]()
        if not message:
            message = await self._posted(surface, channel, parcel.id)
        if not message and not parcel.postable:
            return "", ()

        card = replace(card, public=True)
        if message:
            await permitted()
            message = await surface.edit(channel, message, replace(card, mentions=()), parcel.id)
        else:
            message = await self._once(parcel.id, partial(surface.post, channel, card, parcel.id))
            self._posted_before[channel, message] = {}
            answered, lines = [replace(line, sent=message) for line in lines], ()
        receipt = Receipt(parcel.id, parcel.channel, message, entry.version)
        await self._write(StateUpdate(receipts=[receipt], lines=answered))
        return message, lines

    async def _posted(self, surface: Surface, channel: str, key: str, thread: str = "") -> str:
        """Return the id of what was posted with a key, "" where nothing was.

        The one way to find it: after a crash, and where the database cannot vouch that it knows all
        of the channel. What this process has decided itself is looked for in what stood there
        before it spoke, which is read once.
        """
        place = channel, thread
        if key not in self._unsent or place not in self._posted_before:
            if len(self._posted_before) >= MOST_PLACES:
                self._posted_before.clear()
            self._posted_before[place] = await surface.posted(channel, thread)
        return self._posted_before[place].get(key, "")

    async def _once(self, key: str, send: Callable[[], Awaitable[str]]) -> str:
        """Return the id that sending gives.

        Only where it surely was not carried out, the key stays one to send unlooked.
        """
        await permitted()
        unsent = key in self._unsent
        self._unsent.discard(key)
        try:
            return await send()
        except (Unanswered, Standby):
            raise
        except TrnbotError:
            if unsent:
                self._unsent.add(key)
            raise

    async def _write(self, changes: StateUpdate) -> None:
        await asyncio.to_thread(self._store.save, changes)


class Aside:
    """Do what is beside alerts for a while; what takes longer goes on beside the ticks."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Task[Any]] = {}

    async def run(self, name: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        """Return the result of the work.

        None where it takes longer, or the one before of its name still runs.
        """
        if name in self._running and not self._running[name].done():
            return None
        task = self._running[name] = asyncio.create_task(work(), name=name)
        await asyncio.wait({task}, timeout=ASIDE_S)
        return task.result() if task.done() else None


def _decision(entry: NotificationLogEntry) -> tuple[object, ...]:
    """Return the facts that tell one decision about a message from another."""
    return entry.version, entry.reason, entry.digest


def surface_of(address: str, surfaces: Mapping[str, Surface]) -> tuple[Surface, str]:
    """Return the surface and the bare channel of `slack:C02FIN`.

    Raise `Refused` when nothing serves it.
    """
    name, _, channel = address.partition(":")
    if name not in surfaces:
        raise Refused(
            f"no surface here is called '{name}', so {address} is not notified; check TRNBOT_ROUTE"
        )
    return surfaces[name], channel
