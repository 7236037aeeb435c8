"""Answer which storage nobody uses."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta

from bot.cards.card import Card
from bot.cards.storage import Unused, storage_card
from bot.commands.registry import arg, command
from bot.model.fleet import FileSystem, Volume
from bot.model.reading import Reading
from bot.model.request import Request
from bot.model.storage import detached_since, own_frame, quiet_since, quiet_steps
from bot.ports import Ports
from bot.pricing import Pricing

_HOUR = timedelta(hours=1)


@command(
    "storage",
    "Volumes attached to nothing and file systems nobody uses, with what each costs a month.",
    examples=("storage", "storage llama"),
)
async def storage(ports: Ports, request: Request, cluster: str = arg("", "only of this cluster")) -> Card:
    """List them all, however small or young: alerts tell only of what is worth one."""
    found = await asyncio.to_thread(_look, ports, request.at)
    return storage_card([one for one in found if cluster in ("", one.thing.labels.cluster)], cluster)


def _look(ports: Ports, at: datetime) -> list[Unused]:
    reading = ports.source.read(at)
    pricing = Pricing(ports).at(at)
    return [Unused(thing, since, pricing(thing.labels.resource, reading.inventory)) for thing, since in _unused(reading)]


def _unused(reading: Reading) -> Iterator[tuple[Volume | FileSystem, datetime]]:
    """Yield what nobody used in the last hour that was read, and since when."""
    for volume in reading.inventory.volumes:
        if (since := detached_since(volume, reading.frame("volume"))) is not None:
            yield volume, since
    for system in reading.inventory.file_systems:
        own = own_frame(reading.frame("file_system"), system.labels.resource)
        if own is not None:
            quiet, read = quiet_steps(own.last(_HOUR))
            if quiet.all() and read.any():
                yield system, quiet_since(own)
