"""Answer which storage nobody uses, with its dollars a month."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from bot.answers.registry import Needs, Topic, arg, command
from bot.cards.card import Align, Button, Buttons, Card, Column, Table, Tone, quiet, text
from bot.cards.words import counted, day
from bot.costs.pricing import HOURS_A_MONTH, Pricing
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


def storage_card(found: Sequence[Unused], cluster: str) -> Card:
    """List them, dearest first."""
    where = f" of {cluster}" if cluster else ""
    ranked = sorted(found, key=lambda one: (-one.usd_per_month, one.thing.labels.resource))
    total = sum((one.usd_per_month for one in ranked), Decimal(0))
    data = {"storage": [_data(one) for one in ranked], "usd_per_month": total, "estimate": True}
    if not ranked:
        return Card(f"No storage{where} stands unused", Tone.GOOD, (text(_NONE),), data)
    rest = f"and {len(ranked) - _MOST:,} more" if len(ranked) > _MOST else ""
    table = Table(_COLUMNS, tuple(_row(one) for one in ranked[:_MOST]), ("total", "", "", "", "", usd(total)), rest=rest)
    title = f"{_counted(ranked)}{where} unused: {usd(total)} a month"
    buttons = Buttons((Button("Alerts", "alerts"), Button("Cost by line", "cost 7d by line")))
    return Card(title, Tone.WARNING, (table, quiet(_basis(ranked)), buttons), data)


_NONE = "Every volume is attached, and every file system that was read had clients or operations within the last hour."


def _counted(found: Sequence[Unused]) -> str:
    volumes = sum(isinstance(one.thing, Volume) for one in found)
    parts = [(volumes, "volume"), (len(found) - volumes, "file system")]
    return " and ".join(counted(n, name) for n, name in parts if n)


def _row(one: Unused) -> tuple[str, ...]:
    thing = one.thing
    month = usd(one.usd_per_month) if one.price else "?"
    return (thing.labels.resource, _kind(thing), f"{_gib(thing):,}", day(one.since), _whose(thing) or "–", month)


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


def _basis(found: Sequence[Unused]) -> str:
    """Name the sources of the prices, and how many volumes have none."""
    bases = sorted({f"{x.price.basis} of {x.price.asof:%Y-%m-%d}, {x.price.source}" for x in found if x.price})
    said = f"Estimated at 730 hours a month. Prices: {'; '.join(bases[:3])}." if bases else "Estimated."
    missing = sum(one.price is None for one in found)
    return f"{said} {missing} without a known price." if missing else said


def _data(one: Unused) -> dict[str, object]:
    return {
        "resource": one.thing.labels.resource,
        "kind": _kind(one.thing),
        "gib": _gib(one.thing),
        "unused_since": one.since,
        "labels": dict(one.thing.labels),
        "usd_per_month": one.usd_per_month if one.price else None,
        "price": f"{one.price.basis} of {one.price.asof:%Y-%m-%d}, {one.price.source}" if one.price else None,
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
    found = await asyncio.to_thread(_look, ports, request.at)
    return storage_card([one for one in found if cluster in ("", one.thing.labels.cluster)], cluster)


def _look(ports: Ports, at: datetime) -> list[Unused]:
    reading = ports.world.source.read(at)
    pricing = Pricing(ports).at(at)
    return [Unused(thing, since, pricing(thing.labels.resource, reading.inventory)) for thing, since in _unused(reading)]


def _unused(reading: Reading) -> Iterator[tuple[Volume | FileSystem, datetime]]:
    """Yield the storage that nobody used in the last hour that was read, and since when."""
    for volume in reading.inventory.volumes:
        if (since := detached_since(volume, reading.frame("volume"))) is not None:
            yield volume, since
    for system in reading.inventory.file_systems:
        own = own_frame(reading.frame("file_system"), system.labels.resource)
        if own is not None:
            quiet, read = quiet_steps(own.last(_HOUR))
            if quiet.all() and read.any():
                yield system, quiet_since(own)
