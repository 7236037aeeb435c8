"""Answer which storage nobody uses, with its dollars a month."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from bot.answers.registry import Needs, Topic, arg, command
from bot.cards.card import Align, Button, Buttons, Card, Column, Table, Tone, quiet, text
from bot.cards.words import day
from bot.costs.pricing import HOURS_A_MONTH, Pricing
from bot.model.counts import counted
from bot.model.fleet import FileSystem, Volume
from bot.model.money import cents, usd
from bot.model.price import Price
from bot.model.reading import Reading
from bot.model.request import Request
from bot.model.storage import detached_since, own_frame, quiet_since, quiet_steps
from bot.ports import Ports

_MOST = 20
_COLUMNS = (
    Column("storage"),
    Column("kind"),
    Column("GiB", Align.RIGHT),
    Column("unused since"),
    Column("whose"),
    Column("$/month", Align.RIGHT),
)


@dataclass(frozen=True)
class Unused:
    """Hold one volume or file system, since when nobody used it as far as is known, and the price of an hour of it."""

    thing: Volume | FileSystem
    since: datetime
    price: Price | None

    @property
    def usd_per_month(self) -> Decimal:
        """Return its cost in a month of 730 hours, to the cent; 0 where no price is known."""
        return cents(self.price.usd_per_hour * HOURS_A_MONTH) if self.price else Decimal(0)


def storage_card(things: Sequence[Unused], cluster: str) -> Card:
    """List them, dearest first."""
    where = f" of {cluster}" if cluster else ""
    ranked = sorted(things, key=lambda unused: (-unused.usd_per_month, unused.thing.labels.resource))
    total = sum((unused.usd_per_month for unused in ranked), Decimal(0))
    data = {"storage": [_data(unused) for unused in ranked], "usd_per_month": total, "estimate": True}
    if not ranked:
        return Card(f"No storage{where} stands unused", Tone.GOOD, (text(_NONE),), data)
    rest = f"and {len(ranked) - _MOST:,} more" if len(ranked) > _MOST else ""
    table = Table(_COLUMNS, tuple(_row(unused) for unused in ranked[:_MOST]), ("total", "", "", "", "", usd(total)), rest=rest)
    title = f"{_counted(ranked)}{where} unused: {usd(total)} a month"
    buttons = Buttons((Button("Alerts", "alerts"), Button("Cost by line", "cost 7d by line")))
    return Card(title, Tone.WARNING, (table, quiet(_basis(ranked)), buttons), data)


_NONE = "Every volume is attached, and every file system that was read had clients or operations within the last hour."


def _counted(things: Sequence[Unused]) -> str:
    volumes = sum(isinstance(unused.thing, Volume) for unused in things)
    parts = [(volumes, "volume"), (len(things) - volumes, "file system")]
    return " and ".join(counted(n, name) for n, name in parts if n)


def _row(unused: Unused) -> tuple[str, ...]:
    thing = unused.thing
    month = usd(unused.usd_per_month) if unused.price else "?"
    return (thing.labels.resource, _kind(thing), f"{_gib(thing):,}", day(unused.since), _whose(thing) or "–", month)


def _kind(thing: Volume | FileSystem) -> str:
    match thing:
        case Volume():
            return f"EBS {thing.volume_type}".strip()
        case FileSystem():
            return f"FSx {thing.deployment}".strip()


def _gib(thing: Volume | FileSystem) -> int:
    return thing.size_gib if isinstance(thing, Volume) else thing.storage_gib


def _whose(thing: Volume | FileSystem) -> str:
    """Return the team, else who launched it, else its name, else its cluster."""
    launcher = str(thing.launched_by) if thing.launched_by else ""
    return thing.labels.team or launcher or thing.tags.get("Name", "") or thing.labels.cluster


def _basis(things: Sequence[Unused]) -> str:
    """Name the sources of the prices, and how many volumes have none."""
    bases = sorted({f"{x.price.basis} of {x.price.asof:%Y-%m-%d}, {x.price.source}" for x in things if x.price})
    sentence = f"Estimated at 730 hours a month. Prices: {'; '.join(bases[:3])}." if bases else "Estimated."
    missing = sum(unused.price is None for unused in things)
    return f"{sentence} {missing} without a known price." if missing else sentence


def _data(unused: Unused) -> dict[str, object]:
    return {
        "resource": unused.thing.labels.resource,
        "kind": _kind(unused.thing),
        "gib": _gib(unused.thing),
        "unused_since": unused.since,
        "labels": dict(unused.thing.labels),
        "usd_per_month": unused.usd_per_month if unused.price else None,
        "price": f"{unused.price.basis} of {unused.price.asof:%Y-%m-%d}, {unused.price.source}" if unused.price else None,
    }


_HOUR = timedelta(hours=1)


@command(
    "storage",
    "Unattached volumes and unused file systems, with the monthly cost of each.",
    needs=Needs.METRICS,
    may=Needs.BILL,
    topic=Topic.COSTS,
    examples=("storage", "storage llama"),
)
async def storage(ports: Ports, request: Request, cluster: str = arg("", "only of this cluster")) -> Card:
    """List them all, however small or young: alerts tell only of those worth one."""
    things = await asyncio.to_thread(_look, ports, request.at)
    return storage_card([unused for unused in things if cluster in ("", unused.thing.labels.cluster)], cluster)


def _look(ports: Ports, at: datetime) -> list[Unused]:
    reading = ports.world.source.read(at)
    pricing = Pricing(ports).at(at)
    return [Unused(thing, since, pricing(thing.labels.resource, reading.inventory)) for thing, since in _unused(reading)]


def _unused(reading: Reading) -> Iterator[tuple[Volume | FileSystem, datetime]]:
    """Yield the storage that nobody used in the last hour that was read, and since when."""
    for volume in reading.inventory.volumes:
        if (since := detached_since(volume, reading.frame("volume"))) is not None:
            yield volume, min(since, reading.now)
    for system in reading.inventory.file_systems:
        own = own_frame(reading.frame("file_system"), system.labels.resource)
        if own is not None:
            quiet, read = quiet_steps(own.last(_HOUR))
            if quiet.all() and read.any():
                yield system, quiet_since(own)
