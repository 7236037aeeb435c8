"""Say notices: write the intent, speak, write what was said; a crash in between is repaired by looking, not by repeating."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from bot.alerts.news import said_of
from bot.cards.alert import worth
from bot.cards.card import Card, Tone
from bot.cards.decided import decided_words
from bot.cards.money import usd
from bot.errors import TrnbotError
from bot.model.alert import Notice, Reason, Said
from bot.ports import Changes, Store, Surface

log = logging.getLogger("trnbot.deliver")
_THREADED = {Reason.DECIDED, Reason.WORSE, Reason.OVER, Reason.REMINDER}
CardOf = Callable[[Notice], Card]


@dataclass(frozen=True)
class Delivered:
    """Tell what was said and what was not."""

    said: tuple[Said, ...]
    failed: tuple[str, ...]


def intents(notices: Sequence[Notice], said: Sequence[Said]) -> list[Said]:
    """Return what to write before speaking: a first message that is about to be sent has no id yet."""
    known = {one.id for one in said}
    return [said_of(notice, "") for notice in notices if notice.reason is Reason.FIRST and notice.id not in known]


async def deliver(
    notices: Iterable[Notice], said: Sequence[Said], surfaces: Mapping[str, Surface], store: Store, card_of: CardOf
) -> Delivered:
    """Send each notice, dearest first, and write each as soon as it was said.

    A notice that fails stays unsaid: the next tick finds the same news and is the retry.
    """
    before = {one.id: one for one in said}
    done: list[Said] = []
    failed: list[str] = []
    for notice in sorted(notices, key=_urgency):
        try:
            message = await _send(notice, before.get(notice.id), surfaces, card_of(notice))
        except (TrnbotError, OSError, TimeoutError) as error:
            failed.append(f"{notice.channel}: {error}")
            log.warning("notice %s to %s was not delivered: %s", notice.id, notice.channel, error)
            continue
        done.append(said_of(notice, message))
        await asyncio.to_thread(store.save, Changes(said=done[-1:]))
    return Delivered(tuple(done), tuple(failed))


async def _send(notice: Notice, said: Said | None, surfaces: Mapping[str, Surface], card: Card) -> str:
    """Post a first message, unless a crash hid that it was posted; edit it for every other reason."""
    surface, channel = surface_of(notice.channel, surfaces)
    message = said.message if said else ""
    if not message and said:
        message = await surface.find(channel, notice.id)
    if not message:
        return await surface.post(channel, replace(card, public=True), notice.id)
    message = await surface.edit(channel, message, replace(card, public=True, mentions=()), notice.id)
    again = said is not None and said.over
    if (again or notice.reason in _THREADED) and not (notice.reason is Reason.WORSE and said and not _faster(notice, said)):
        await surface.reply(channel, message, thread_line(notice, card))
    return message


def _faster(notice: Notice, said: Said) -> bool:
    """Tell whether more is lost an hour than was told; cost that merely adds up changes the message, not the thread."""
    return said_of(notice, "").usd_per_hour > said.usd_per_hour


def surface_of(address: str, surfaces: Mapping[str, Surface]) -> tuple[Surface, str]:
    """Return the surface and the bare channel of `slack:C02FIN`; raise `Unavailable` when nothing serves it."""
    name, _, channel = address.partition(":")
    if name not in surfaces:
        raise Undeliverable(f"nothing here speaks '{name}', so {address} hears nothing; check TRNBOT_ROUTE")
    return surfaces[name], channel


class Undeliverable(TrnbotError):
    """Say that a channel has no surface."""


def thread_line(notice: Notice, card: Card) -> Card:
    """Return the short line that the thread keeps of a change."""
    worst = max(notice.alerts, key=worth)
    match notice.reason:
        case Reason.DECIDED:
            return Card(decided_words(worst), Tone.INFO)
        case Reason.WORSE if worst.waste:
            return Card(f"Worse: {usd(worst.waste.per_hour)} an hour now, {usd(worst.waste.so_far)} so far", card.tone)
        case Reason.REMINDER:
            return Card(f"Nobody has acknowledged this yet: {card.title}", card.tone)
        case Reason.MORE:
            return Card(f"Fires again: {card.title}", card.tone)
        case _:
            return Card(card.title, card.tone)


def _urgency(notice: Notice) -> tuple[int, float]:
    """Order notices: firsts before edits, dearest before cheap."""
    per_hour = sum(float(a.waste.per_hour) for a in notice.alerts if a.waste and a.firing)
    return (0 if notice.reason is Reason.FIRST else 1, -per_hour)
