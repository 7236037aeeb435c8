"""Answer which storage nobody uses, what S3 costs by bucket, and how busy file systems are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from bot.cards.card import Button, Buttons, Card, Tone, compose, quiet, text
from bot.cards.columns import COUNT, DAY, DURATION, MEGABYTES, SHARE, USD, Column, Columns
from bot.cards.words import doubted, period, unseen
from bot.costs.pricing import HOURS_A_MONTH, Pricing
from bot.costs.tally import KEPT, REQUESTS, Bucket, Buckets, buckets_of
from bot.grammar.names import refuse_unseen
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.fleet import FileSystem, Volume
from bot.model.money import cents, counted, usd
from bot.model.notification import Coverage
from bot.model.price import Price
from bot.model.reading import (
    AT_LIMIT,
    BEYOND,
    HARDLY,
    Reading,
    Throughput,
    coverage_of,
    detached_since,
    own_frame,
    quiet_since,
    quiet_steps,
    throughput_of,
)
from bot.model.request import Request
from bot.ports import Ports
from bot.watch.tick import Watch

_MOST = 20


@dataclass(frozen=True)
class Unused:
    """Hold a volume or file system, since when nobody is known to use it, and its hour's price."""

    thing: Volume | FileSystem
    since: datetime
    price: Price | None

    @property
    def usd_per_month(self) -> Decimal:
        """Return its cost in a month of 730 hours, to the cent; 0 where no price is known."""
        return cents(self.price.usd_per_hour * HOURS_A_MONTH) if self.price else Decimal(0)

    @property
    def gib(self) -> int:
        """Return its provisioned size."""
        thing = self.thing
        return thing.size_gib if isinstance(thing, Volume) else thing.storage_gib

    @property
    def kind(self) -> str:
        """Return its service and type: `EBS gp3`."""
        thing = self.thing
        if isinstance(thing, Volume):
            return f"EBS {thing.volume_type}".strip()
        return f"FSx {thing.deployment}".strip()

    @property
    def owner(self) -> str:
        """Return the team, else who launched it, else its name, else its cluster."""
        labels, tags = self.thing.labels, self.thing.tags
        launcher = str(self.thing.launched_by or "")
        return labels.team or launcher or tags.get("Name", "") or labels.cluster

    @property
    def basis(self) -> str | None:
        """Return where its price comes from and of when it is."""
        price = self.price
        return f"{price.origin}, {price.source}" if price else None


def _verdict(load: Throughput) -> str:
    """Say whether a file system is too small or too large for its use, "" for neither."""
    verdicts = {
        "beyond its network: check its metrics": load.beyond_network,
        "beyond its limit: cache or burst credits": load.peak_share >= BEYOND,
        "reaches its limit": load.peak_share >= AT_LIMIT,
        "more than is needed": load.peak_share < HARDLY and load.looked >= MOST_OF_A_WEEK,
    }
    return next((words for words, holds in verdicts.items() if holds), "")


MOST_OF_A_WEEK = timedelta(days=6)
"""After so much was read, a file system that was never busy has too much."""
UNUSED = Columns[Unused](
    Column("storage", lambda x: x.thing.labels.resource, key="resource"),
    Column("kind", lambda x: x.kind, key="kind"),
    Column("GiB", lambda x: x.gib, COUNT, "gib", "provisioned size, by inventory"),
    Column("unused since", lambda x: x.since, DAY, "unused_since"),
    Column("whose", lambda x: x.owner),
    Column("", lambda x: dict(x.thing.labels), key="labels"),
    Column(
        "$/month",
        lambda x: x.usd_per_month if x.price else None,
        USD,
        "usd_per_month",
        "price of an hour x 730: the resource's own lines of a settled week, else the list price of"
        " its kind x GiB",
        total=True,
        missing="?",
    ),
    Column("", lambda x: x.basis, key="price"),
)
BUCKETS = Columns[Bucket](
    Column("bucket", lambda x: x.name, key="bucket", missing="(no bucket named)"),
    Column(
        "bytes kept",
        lambda x: x.kept,
        USD,
        "kept_usd",
        "amortised cost of the line S3 of the bucket over the last settled week: the bytes that it"
        " keeps",
        total=True,
    ),
    Column(
        "requests",
        lambda x: x.requests,
        USD,
        "requests_usd",
        "amortised cost of the line S3-requests of the bucket over the last settled week",
        total=True,
    ),
    Column("both", lambda x: x.total, USD, "total_usd", "bytes kept + requests", total=True),
)
LOADS = Columns[Throughput](
    Column("file system", lambda x: x.system.labels.resource, key="resource"),
    Column("cluster", lambda x: x.system.labels.cluster),
    Column("", lambda x: dict(x.system.labels), key="labels"),
    Column(
        "provisioned MB/s",
        lambda x: x.provisioned,
        MEGABYTES,
        "provisioned_bytes_per_second",
        "throughput that the file system is provisioned for, by inventory",
    ),
    Column("now", lambda x: x.share, SHARE),
    Column("busiest", lambda x: x.peak_share, SHARE),
    Column(
        "",
        lambda x: x.now,
        key="bytes_per_second",
        source="mean of bytes read and written over the last quarter of an hour",
    ),
    Column(
        "",
        lambda x: x.peak,
        key="peak_bytes_per_second",
        source="most bytes read and written within one step of the readings",
    ),
    Column(
        "of the last",
        lambda x: x.looked,
        DURATION,
        "looked_seconds",
        "length of the readings that the peak is of",
    ),
    Column("verdict", _verdict, key="verdict"),
)


def storage_card(
    things: Sequence[Unused],
    loads: Sequence[Throughput],
    cluster: str,
    s3: Buckets | None = None,
    seen: Coverage | None = None,
) -> Card:
    """List what is unused, dearest first, then S3 by bucket, then how busy file systems are."""
    where = f" of {cluster}" if cluster else ""
    ranked = sorted(things, key=lambda item: (-item.usd_per_month, item.thing.labels.resource))
    total = sum((item.usd_per_month for item in ranked), Decimal(0))
    buckets = s3 and {
        "since": s3.week.start,
        "until": s3.week.end,
        "buckets": BUCKETS.data(s3.buckets),
        **BUCKETS.pick("kept_usd", "requests_usd", "total_usd").record(s3.total),
    }
    seen = seen or Coverage()
    data = {
        **seen.data,
        "storage": UNUSED.data(ranked),
        "usd_per_month": total,
        "estimate": True,
        "file_systems": LOADS.data(loads),
        "s3": buckets,
    }

    # What is used stands below whatever is not.
    used = compose(
        BUCKETS.table(
            s3.buckets,
            most=_MOST,
            total="all buckets",
            caption=f"S3, amortised, {period(s3.week)}: lines “{KEPT}” (bytes kept, their retrieval"
            f" and upkeep) and “{REQUESTS}” of the bill",
        )
        if s3 and s3.buckets
        else None,
        LOADS.table(
            sorted(loads, key=lambda load: (-load.peak_share, load.system.labels.resource)),
            most=_MOST,
            caption="Throughput of file systems: reads and writes, mean of the last quarter of an"
            " hour, and the busiest step",
        )
        if loads
        else None,
    )

    calm = f"No storage{where} is unused"
    if not ranked and seen.because:
        title = doubted(calm, "Which storage is unused is not known", seen)
        return Card(title, Tone.WARNING, (*unseen(seen), *used), data)
    if not ranked:
        nothing = text(
            "Every volume is attached, and every file system that was read had clients or"
            " operations within the last hour."
        )
        return Card(calm, Tone.GOOD, (nothing, *used), data)

    volumes = sum(isinstance(item.thing, Volume) for item in ranked)
    kinds = [(volumes, "volume"), (len(ranked) - volumes, "file system")]
    things_counted = " and ".join(counted(n, noun) for n, noun in kinds if n)
    bases = sorted({item.basis for item in ranked if item.basis})
    unpriced = sum(item.price is None for item in ranked)
    priced = f" at 730 hours a month. Prices: {'; '.join(bases[:3])}." if bases else "."
    beside = f" {unpriced} without a known price." if unpriced else ""

    return Card(
        f"{things_counted}{where} unused: {usd(total)} a month",
        Tone.WARNING,
        (
            *unseen(seen),
            UNUSED.table(ranked, most=_MOST, total="total"),
            quiet(f"Estimated{priced}{beside}"),
            *used,
            Buttons((Button("Alerts", "alerts"), Button("Cost by line", "cost 7d by line"))),
        ),
        data,
    )


def unused_of(reading: Reading, pricing: Pricing) -> list[Unused]:
    """Return the volumes that are attached to nothing, and the file systems without a client."""
    since: list[tuple[Volume | FileSystem, datetime]] = [
        (volume, min(detached, reading.now))
        for volume in reading.inventory.volumes
        if (detached := detached_since(volume, reading.frame("volume"))) is not None
    ]

    for system in reading.inventory.file_systems:
        frame = own_frame(reading.frame("file_system"), system.labels.resource)
        if frame is not None:
            # One reading without clients or operations is enough, where no other had any.
            quiet_now, read_steps = quiet_steps(frame.last(timedelta(hours=1)))
            if quiet_now.all() and read_steps.any():
                since.append((system, quiet_since(frame)))

    return [
        Unused(thing, at, pricing(thing.labels.resource, reading.inventory)) for thing, at in since
    ]


@command(
    "storage",
    "Unattached volumes and unused file systems, S3 by bucket with its requests apart, and file"
    " systems near their throughput limit.",
    needs=Needs.METRICS,
    may=Needs.BILL,
    topic=Topic.COSTS,
    examples=("storage", "storage llama"),
    figures={
        **UNUSED.sources("storage"),
        "usd_per_month": "sum over what is listed and has a price",
        **LOADS.sources("file_systems"),
        **BUCKETS.sources("buckets"),
        **dict.fromkeys(("s3/kept_usd", "s3/requests_usd", "s3/total_usd"), "sum over the buckets"),
    },
)
def storage(ports: Ports, request: Request, cluster: str = arg("", "only of this cluster")) -> Card:
    """List them all, however small or young: alerts tell only of those worth one."""
    s3 = buckets_of(ports.world.billing, request.at, cluster)
    reading = Watch(ports, ()).read(request.at)
    if not (s3 and s3.buckets):
        refuse_unseen(cluster, reading)  # a cluster with buckets need not run anything
    frame = reading.frame("file_system")
    loads = [
        load
        for system in reading.inventory.file_systems
        if (load := throughput_of(system, frame, timedelta(days=7)))
    ]
    unused = unused_of(reading, Pricing(ports).at(request.at))

    return storage_card(
        [item for item in unused if cluster in ("", item.thing.labels.cluster)],
        [load for load in loads if cluster in ("", load.system.labels.cluster)],
        cluster,
        s3,
        coverage_of(reading),
    )
