"""Post the weekly digest to the channels that want it: once a week each, across restarts and processes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from bot.alerts.saved import saved_within
from bot.cards.digest import Week, digest_card
from bot.deliver import surface_of
from bot.errors import TrnbotError
from bot.model.fleet import Inventory
from bot.model.hours import read_weekly
from bot.model.labels import Labels
from bot.model.memory import Memory
from bot.model.window import Window
from bot.ports import Ports, Shelf
from bot.runs import parities

log = logging.getLogger("trnbot.digest")
SENT, SUBSCRIBED = "digests", "digest.subscriptions"
WEEK = timedelta(days=7)
LATE = timedelta(days=1)
"""How long after its moment a digest is still worth sending, where nobody ticked in time."""
MOST = 200


@dataclass(frozen=True)
class Due:
    """Name one digest that a channel has not got yet."""

    channel: str
    moment: datetime
    begun: bool
    """It was about to be sent when something ended: look for it first."""

    @property
    def key(self) -> str:
        """Return what the message is found again by."""
        return f"digest-{self.moment:%Y%m%dT%H%M}-{self.channel}"


def wanted(ports: Ports) -> dict[str, str]:
    """Return each channel that wants a digest and the time of the week it comes at; may block."""
    subscribed = {channel: str(document["at"]) for channel, document in ports.shelf.newest(SUBSCRIBED, MOST)}
    return {**dict.fromkeys(ports.routes.digest, ports.routes.digest_at), **subscribed}


def due(ports: Ports, now: datetime) -> list[Due]:
    """Return the digests that are to be sent at `now`; may block."""
    found = []
    for channel, at in wanted(ports).items():
        moment = read_weekly(at).latest(now)
        sent = ports.shelf.get(SENT, channel) or {}
        this = sent.get("moment") == moment.isoformat()
        if now - moment < LATE and not (this and sent.get("message")):
            found.append(Due(channel, moment, this))
    return found


async def post_digests(ports: Ports, memory: Memory, inventory: Inventory, now: datetime) -> tuple[str, ...]:
    """Send what is due, and return a sentence for each that could not be sent: it stays due, and the next tick tries again."""
    failed = []
    for one in await asyncio.to_thread(due, ports, now):
        try:
            await _post(one, ports, memory, inventory, now)
        except (TrnbotError, OSError, TimeoutError) as error:
            log.warning("the digest to %s was not delivered: %s", one.channel, error)
            failed.append(f"{one.channel}: {error}")
    return tuple(failed)


async def _post(one: Due, ports: Ports, memory: Memory, inventory: Inventory, now: datetime) -> None:
    """Write the intent, send, write what was sent; after a crash in between the message is looked for, not repeated."""
    surface, channel = surface_of(one.channel, ports.surfaces)
    message = await surface.find(channel, one.key) if one.begun else ""
    if not message:
        await _note(ports.shelf, one, "")
        week = await asyncio.to_thread(week_of, ports, memory, inventory, Window(one.moment - WEEK, one.moment), now)
        message = await surface.post(channel, replace(digest_card(week), public=True), one.key)
    await _note(ports.shelf, one, message)


async def _note(shelf: Shelf, one: Due, message: str) -> None:
    await asyncio.to_thread(shelf.put, SENT, one.channel, {"moment": one.moment.isoformat(), "message": message})


def week_of(ports: Ports, memory: Memory, inventory: Inventory, window: Window, now: datetime) -> Week:
    """Return what a digest of the window tells at `now`; may block."""
    known = ports.store.history(window, Labels())
    saved = saved_within(known, window, inventory.running, now)
    firing = [alert for alert in memory.alerts if alert.firing]
    return Week(window, saved, firing, memory.silences, parities(ports, now))


def subscribe_digest(shelf: Shelf, channel: str, at: str) -> None:
    """Write when a channel gets the digest; "" for never, by subscription."""
    document: Mapping[str, Any] = {"at": at}
    if at:
        shelf.put(SUBSCRIBED, channel, document)
    else:
        shelf.drop(SUBSCRIBED, channel)
