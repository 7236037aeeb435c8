"""Say notices: write the intent, speak, write what was said; a crash in between is repaired by looking, not by repeating."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bot.cards.card import Card
from bot.errors import Refused, TrnbotError, Unanswered
from bot.model.alert import Notification, NotificationLogEntry, Reason
from bot.model.anomaly import Severity
from bot.ports import AlertStore, StateUpdate, Surface
from bot.watch.notify import log_entry_of

log = logging.getLogger("trnbot.deliver")
_THREADED = {Reason.DECIDED, Reason.WORSE, Reason.OVER, Reason.REMINDER}
AT_ONCE = 8
"""Channels spoken in at the same time; the one with the dearest notice begins."""
ENOUGH = 3
"""Failures of a channel in one tick after which it is left alone until the next."""
CardOf = Callable[[Notification], Card]
LineOf = Callable[[Notification, NotificationLogEntry, Card], Card]
"""Draws the thread's line of what changed since something was said."""


@dataclass(frozen=True)
class Delivered:
    """Tell what was said and what was not."""

    said: tuple[NotificationLogEntry, ...]
    failed: tuple[str, ...]
    failures: Mapping[str, Exception] = field(default_factory=dict)
    """The newest failure of each channel that took nothing."""


def intents(notices: Sequence[Notification], said: Sequence[NotificationLogEntry]) -> list[NotificationLogEntry]:
    """Return what to write before speaking: a first message that is about to be sent has no id yet."""
    known = {one.id for one in said}
    return [log_entry_of(notice, "") for notice in notices if notice.reason is Reason.FIRST and notice.id not in known]


async def deliver(
    notices: Iterable[Notification],
    said: Sequence[NotificationLogEntry],
    surfaces: Mapping[str, Surface],
    store: AlertStore,
    card_of: CardOf,
    line_of: LineOf,
) -> Delivered:
    """Send each channel its notices, dearest first, and write each as soon as it was said.

    A notice that fails stays unsaid: the next tick finds the same news, or newer, and is the retry. A channel that fails
    `ENOUGH` times is left alone until then, so that what is dead does not hold up what lives.
    """
    queues: dict[str, list[Notification]] = {}
    for notice in sorted(notices, key=_urgency):
        queues.setdefault(notice.channel, []).append(notice)
    mouth = _Mouth({one.id: one for one in said}, surfaces, store, card_of, line_of)
    spoken = await asyncio.gather(*(mouth.channel(queue) for queue in queues.values()), return_exceptions=True)
    told = [_whole(one) for one in spoken]
    failures = {name: errors for name, (_, errors) in zip(queues, told, strict=True) if errors}
    failed = tuple(f"{channel}: {error}" for channel, errors in failures.items() for error in errors)
    done = tuple(one for said_here, _ in told for one in said_here)
    took = {one.channel for one in done}
    return Delivered(done, failed, {name: errors[-1] for name, errors in failures.items() if name not in took})


Spoken = tuple[list[NotificationLogEntry], list[Exception]]
"""What a channel took, and what it did not."""


def _whole(spoken: Spoken | BaseException) -> Spoken:
    """Raise what was no failure of a channel, now that every other channel has been served."""
    if isinstance(spoken, BaseException):
        raise spoken
    return spoken


@dataclass(frozen=True)
class _Mouth:
    """Speak in several channels at once, so that one which is slow holds up no other; write one thing at a time."""

    before: Mapping[str, NotificationLogEntry]
    surfaces: Mapping[str, Surface]
    store: AlertStore
    card_of: CardOf
    line_of: LineOf
    free: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def channel(self, notices: Sequence[Notification]) -> Spoken:
        """Say one channel's notices in their order."""
        done: list[NotificationLogEntry] = []
        failures: list[Exception] = []
        async with self.free:
            for notice in notices:
                if len(failures) >= ENOUGH:
                    break
                try:
                    done.append(await _say(notice, self.before.get(notice.id), self, self.card_of(notice)))
                except (TrnbotError, OSError, TimeoutError) as error:
                    failures.append(error)
                    log.warning("notice %s to %s was not delivered: %s", notice.id, notice.channel, error)
        return done, failures

    async def write(self, said: NotificationLogEntry) -> None:
        """Keep what was said."""
        async with self.writing:
            await asyncio.to_thread(self.store.save, StateUpdate(said=[said]))


async def _say(notice: Notification, said: NotificationLogEntry | None, mouth: _Mouth, card: Card) -> NotificationLogEntry:
    """Post or edit the message, write that, then add the thread's line.

    The line follows the writing, so that a crash or an answer that never came cannot repeat it; a plain refusal takes the
    writing back, so that both are tried again.
    """
    surface, channel = surface_of(notice.channel, mouth.surfaces)
    message, new = await _send(notice, said, surface, channel, card)
    done = log_entry_of(notice, message)
    await mouth.write(done)
    if said is None or new or not _threaded(notice, said):
        return done
    try:
        await surface.reply(channel, message, mouth.line_of(notice, said, card))
    except (Unanswered, OSError, TimeoutError) as error:
        log.warning("the thread's line of %s to %s may be missing: %s", notice.id, notice.channel, error)
    except TrnbotError:
        await mouth.write(said)
        raise
    return done


async def _send(
    notice: Notification, said: NotificationLogEntry | None, surface: Surface, channel: str, card: Card
) -> tuple[str, bool]:
    """Return the message's id and whether it is a first: posted, unless a crash hid that it was; else edited."""
    message = said.message if said else ""
    if not message and said:
        message = await surface.find(channel, notice.id)
    if not message:
        return await surface.post(channel, replace(card, public=True), notice.id), True
    return await surface.edit(channel, message, replace(card, public=True, mentions=()), notice.id), False


def _threaded(notice: Notification, said: NotificationLogEntry) -> bool:
    """Tell whether the change is worth a line in the thread."""
    if notice.reason is Reason.WORSE and not _faster(notice, said):
        return False
    return said.over or notice.reason in _THREADED


def _faster(notice: Notification, said: NotificationLogEntry) -> bool:
    """Tell whether more is lost an hour than was told; cost that merely adds up changes the message, not the thread."""
    return log_entry_of(notice, "").usd_per_hour > said.usd_per_hour


def surface_of(address: str, surfaces: Mapping[str, Surface]) -> tuple[Surface, str]:
    """Return the surface and the bare channel of `slack:C02FIN`; raise `Unavailable` when nothing serves it."""
    name, _, channel = address.partition(":")
    if name not in surfaces:
        raise Undeliverable(f"nothing here speaks '{name}', so {address} hears nothing; check TRNBOT_ROUTE")
    return surfaces[name], channel


class Undeliverable(Refused):
    """Say that a channel has no surface."""


def _urgency(notice: Notification) -> tuple[int, bool, float]:
    """Order notices: firsts before edits, critical before others, dearest before cheap."""
    critical = any(a.severity is Severity.CRITICAL and a.firing for a in notice.alerts)
    per_hour = sum(float(a.waste.per_hour) for a in notice.alerts if a.waste and a.firing)
    return (0 if notice.reason is Reason.FIRST else 1, not critical, -per_hour)
