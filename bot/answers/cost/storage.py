"""Answer which storage nobody uses, what S3 costs by bucket, and how much of their throughput file systems use."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from bot.cards.card import Align, Block, Button, Buttons, Card, Heading, Table, Tone, quiet, text
from bot.cards.words import day, period
from bot.costs.pricing import HOURS_A_MONTH, Pricing
from bot.costs.tally import KEPT, REQUESTS, Bucket, Buckets, buckets_of
from bot.grammar.names import refuse_unseen
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.fleet import FileSystem, Volume
from bot.model.money import cents, counted, usd
from bot.model.price import Price
from bot.model.reading import (
    AT_LIMIT,
    BEYOND,
    HARDLY,
    Reading,
    Throughput,
    detached_since,
    own_frame,
    quiet_since,
    quiet_steps,
    throughput_of,
)
from bot.model.request import Request
from bot.model.window import rounded_duration
from bot.ports import Ports

_MOST = 20
_COLUMNS = (
    Heading("storage"),
    Heading("kind"),
    Heading("GiB", Align.RIGHT),
    Heading("unused since"),
    Heading("whose"),
    Heading("$/month", Align.RIGHT),
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


def storage_card(
    things: Sequence[Unused], loads: Sequence[Throughput], cluster: str, s3: Buckets | None = None
) -> Card:
    """List what is unused, dearest first, then S3 by bucket, then the throughput of every file system, the fullest first."""
    where = f" of {cluster}" if cluster else ""
    ranked = sorted(
        things, key=lambda unused: (-unused.usd_per_month, unused.thing.labels.resource)
    )
    total = sum((unused.usd_per_month for unused in ranked), Decimal(0))
    data = {
        "storage": [_data(unused) for unused in ranked],
        "usd_per_month": total,
        "estimate": True,
    }
    data["file_systems"] = [_load_data(load) for load in loads]
    data["s3"] = _s3_data(s3)
    used = [*_buckets(s3), *_throughput(loads)]
    if not ranked:
        return Card(f"No storage{where} stands unused", Tone.GOOD, (text(_NONE), *used), data)
    rest = f"and {len(ranked) - _MOST:,} more" if len(ranked) > _MOST else ""
    table = Table(
        _COLUMNS,
        tuple(_row(unused) for unused in ranked[:_MOST]),
        ("total", "", "", "", "", usd(total)),
        rest=rest,
    )
    title = f"{_counted(ranked)}{where} unused: {usd(total)} a month"
    buttons = Buttons((Button("Alerts", "alerts"), Button("Cost by line", "cost 7d by line")))
    return Card(title, Tone.WARNING, (table, quiet(_basis(ranked)), *used, buttons), data)


_NONE = "Every volume is attached, and every file system that was read had clients or operations within the last hour."


def _counted(things: Sequence[Unused]) -> str:
    volumes = sum(isinstance(unused.thing, Volume) for unused in things)
    parts = [(volumes, "volume"), (len(things) - volumes, "file system")]
    return " and ".join(counted(n, name) for n, name in parts if n)


def _row(unused: Unused) -> tuple[str, ...]:
    thing = unused.thing
    month = usd(unused.usd_per_month) if unused.price else "?"
    return (
        thing.labels.resource,
        _kind(thing),
        f"{_gib(thing):,}",
        day(unused.since),
        _whose(thing) or "–",
        month,
    )


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
    bases = sorted(
        {f"{x.price.basis} of {x.price.asof:%Y-%m-%d}, {x.price.source}" for x in things if x.price}
    )
    sentence = (
        f"Estimated at 730 hours a month. Prices: {'; '.join(bases[:3])}."
        if bases
        else "Estimated."
    )
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
        "price": f"{unused.price.basis} of {unused.price.asof:%Y-%m-%d}, {unused.price.source}"
        if unused.price
        else None,
    }


def _buckets(s3: Buckets | None) -> list[Block]:
    """Draw what each bucket cost: bytes kept and requests apart, with their sums."""
    if s3 is None or not s3.buckets:
        return []
    rest = f"and {len(s3.buckets) - _MOST:,} more" if len(s3.buckets) > _MOST else ""
    foot = ("all buckets", *_amounts(s3.total))
    caption = f"S3, amortised, {period(s3.week)}: lines “{KEPT}” (bytes kept, their retrieval and upkeep) and “{REQUESTS}” of the bill"
    rows = tuple(
        (bucket.name or "(no bucket named)", *_amounts(bucket)) for bucket in s3.buckets[:_MOST]
    )
    columns = (
        Heading("bucket"),
        *(Heading(name, Align.RIGHT) for name in ("bytes kept", "requests", "both")),
    )
    return [Table(columns, rows, foot, caption=caption, rest=rest)]


def _amounts(bucket: Bucket) -> tuple[str, str, str]:
    return usd(bucket.kept), usd(bucket.requests), usd(bucket.total)


def _s3_data(s3: Buckets | None) -> dict[str, object] | None:
    """Return the same for scripts; None where no bill tells."""
    if s3 is None:
        return None
    each = [
        {"bucket": x.name, "kept_usd": x.kept, "requests_usd": x.requests, "total_usd": x.total}
        for x in s3.buckets
    ]
    total = s3.total
    sums = {"kept_usd": total.kept, "requests_usd": total.requests, "total_usd": total.total}
    return {"since": s3.week.start, "until": s3.week.end, "buckets": each, **sums}


def _throughput(loads: Sequence[Throughput]) -> list[Block]:
    """Draw what each file system moves beside what it is provisioned for."""
    if not loads:
        return []
    ranked = sorted(loads, key=lambda load: (-load.peak_share, load.system.labels.resource))
    rest = f"and {len(ranked) - _MOST:,} more" if len(ranked) > _MOST else ""
    caption = "Throughput of file systems: reads and writes, mean of the last quarter of an hour, and the busiest step"
    return [
        Table(_LOADS, tuple(_load_row(load) for load in ranked[:_MOST]), caption=caption, rest=rest)
    ]


_LOADS = (
    Heading("file system"),
    Heading("cluster"),
    Heading("provisioned MB/s", Align.RIGHT),
    Heading("now", Align.RIGHT),
    Heading("busiest", Align.RIGHT),
    Heading("of the last"),
    Heading("verdict"),
)
_WEEK = timedelta(days=7)
_MOST_OF_A_WEEK = timedelta(days=6)
"""After so much was read, a file system that was never busy has too much."""


def _load_row(load: Throughput) -> tuple[str, ...]:
    labels = load.system.labels
    provisioned = f"{load.provisioned / 1e6:,.0f}"
    shares = (f"{share * 100:.0f} %" for share in (load.share, load.peak_share))
    return (
        labels.resource,
        labels.cluster or "–",
        provisioned,
        *shares,
        rounded_duration(load.looked),
        _verdict(load),
    )


def _verdict(load: Throughput) -> str:
    if load.beyond_network:
        return "beyond its network: check its metrics"
    if load.peak_share >= BEYOND:
        return "beyond its limit: cache or burst credits"
    if load.peak_share >= AT_LIMIT:
        return "reaches its limit"
    return (
        "more than is needed"
        if load.peak_share < HARDLY and load.looked >= _MOST_OF_A_WEEK
        else "–"
    )


def _load_data(load: Throughput) -> dict[str, object]:
    return {
        "resource": load.system.labels.resource,
        "labels": dict(load.system.labels),
        "provisioned_bytes_per_second": load.provisioned,
        "bytes_per_second": load.now,
        "peak_bytes_per_second": load.peak,
        "looked_seconds": load.looked.total_seconds(),
        "verdict": _verdict(load),
    }


_HOUR = timedelta(hours=1)


@command(
    "storage",
    "Unattached volumes and unused file systems with the monthly cost of each; S3 by bucket, its requests apart; throughput of "
    "file systems against their limit.",
    needs=Needs.METRICS,
    may=Needs.BILL,
    topic=Topic.COSTS,
    examples=("storage", "storage llama"),
)
async def storage(
    ports: Ports, request: Request, cluster: str = arg("", "only of this cluster")
) -> Card:
    """List them all, however small or young: alerts tell only of those worth one."""
    s3 = await asyncio.to_thread(buckets_of, ports.world.billing, request.at, cluster)
    things, loads = await asyncio.to_thread(
        _look, ports, request.at, "" if s3 and s3.buckets else cluster
    )
    mine = [load for load in loads if cluster in ("", load.system.labels.cluster)]
    return storage_card(
        [unused for unused in things if cluster in ("", unused.thing.labels.cluster)],
        mine,
        cluster,
        s3,
    )


def _look(ports: Ports, at: datetime, cluster: str) -> tuple[list[Unused], list[Throughput]]:
    """Return unused storage and the load of file systems.

    Raise `WrongInput` where nothing carries the cluster.
    """
    reading = ports.world.source.read(at)
    refuse_unseen(cluster, reading)
    pricing = Pricing(ports).at(at)
    systems, frame = reading.inventory.file_systems, reading.frame("file_system")
    loads = [load for system in systems if (load := throughput_of(system, frame, _WEEK))]
    unused = [
        Unused(thing, since, pricing(thing.labels.resource, reading.inventory))
        for thing, since in _unused(reading)
    ]
    return unused, loads


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
