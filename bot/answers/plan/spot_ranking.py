"""Rank where to run on spot.

By the prices of the last weeks, the loss by a reclaim, and the cost of moving the data.

Prices are weighted by time: a price stands until the next change, so a spike of a minute weighs a
minute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import groupby, pairwise

from bot.model.money import cents
from bot.model.price import Interruption, PlacementScore, Price
from bot.model.window import Window

Changes = Sequence[tuple[datetime, Price]]
_HOURS_A_MONTH = 730
_ZERO = Decimal(0)
_MILL = Decimal("0.0001")
_UPPER: Mapping[str, tuple[float, bool]] = {
    "<5%": (0.05, False),
    "5-10%": (0.10, False),
    "10-15%": (0.15, False),
    "15-20%": (0.20, False),
    ">20%": (0.20, True),
}
"""The share of a band that is counted with, and whether it is the least there is."""


@dataclass(frozen=True)
class SpotJob:
    """State a job: nodes, hours of work, and the loss by a reclaim of any of them."""

    nodes: int = 1
    hours: Decimal = Decimal(168)
    checkpoint: timedelta = timedelta(hours=1)
    restart: timedelta = timedelta(minutes=15)
    data_gb: Decimal = _ZERO
    home: str = ""
    """The region where its data lies; "" = it need not move."""


@dataclass(frozen=True)
class Zone:
    """State one zone's spot prices over a window, by time.

    `median` and `p95` are prices that stood, `mean` is the one paid.
    """

    region: str
    zone: str
    last: Price
    changed_at: datetime
    mean: Decimal
    median: Decimal
    p95: Decimal
    highest: Decimal
    changes: int
    spans: tuple[tuple[Decimal, timedelta], ...]
    """Every price with how long it stood, oldest first."""

    def over(self, cap: Decimal) -> Crossing:
        """Return how often and how long the price stood above a cap."""
        above = [price > cap for price, _ in self.spans]
        rises = int(bool(above) and above[0]) + sum(
            now and not before for before, now in pairwise(above)
        )
        length = sum((stood for price, stood in self.spans if price > cap), timedelta())
        whole = sum((stood for _, stood in self.spans), timedelta())
        return Crossing(cap, rises, length / whole if whole else 0.0)


@dataclass(frozen=True)
class Crossing:
    """State how a cap would have fared.

    Times that the price rose above it, and the share of time it stood there.
    """

    cap: Decimal
    times: int
    share: float


@dataclass(frozen=True)
class Offer:
    """State the expected cost of a job in one zone, in USD."""

    zone: Zone
    lost_share: float | None
    """Work done twice as a share of the job's hours.

    None where nobody says how often nodes are reclaimed.
    """
    at_least: bool
    """Whether the loss may be larger: the band has no upper end."""
    compute: Decimal
    transfer: Decimal
    on_demand: Price | None
    band: Interruption | None
    score: PlacementScore | None

    @property
    def expected(self) -> Decimal:
        """Return the cost of compute with the loss, and of moving the data."""
        return cents(self.compute * (1 + Decimal(str(self.lost_share or 0))) + self.transfer)

    @property
    def off(self) -> Decimal | None:
        """Return the mean price's distance below on-demand as a share of it, None where no such price is known."""
        return 1 - self.zone.mean / self.on_demand.usd_per_hour if self.on_demand else None


def zones(changes: Changes, window: Window) -> tuple[Zone, ...]:
    """Return every zone that had a price within the window, by region and zone."""
    ordered = sorted(changes, key=lambda change: (change[1].region, change[1].zone, change[0]))
    grouped = groupby(ordered, key=lambda change: (change[1].region, change[1].zone))
    return tuple(zone for _, group in grouped if (zone := _zone(list(group), window)))


def offer(
    zone: Zone,
    job: SpotJob,
    bands: Sequence[Interruption],
    scores: Sequence[PlacementScore],
    on_demand: Price | None,
    usd_per_gb: Decimal,
) -> Offer:
    """Return the expected cost of the job there, at the window's mean price."""
    band = next((x for x in bands if x.region == zone.region), None)
    share, at_least = lost_share(band.band, job) if band else (None, False)
    score = max((x for x in scores if x.region == zone.region), key=lambda x: x.score, default=None)
    moves = bool(job.home) and job.home != zone.region
    transfer = cents(job.data_gb * usd_per_gb) if moves else _ZERO
    compute = cents(zone.mean * job.nodes * job.hours)
    return Offer(zone, share, at_least, compute, transfer, on_demand, band, score)


def lost_share(band: str, job: SpotJob) -> tuple[float | None, bool]:
    """Return the share of the work that is done twice, and whether it may be more.

    None for a band that is not known.

    Half a checkpoint interval and a restart are lost a reclaim; any of the nodes' reclaims stops
    the job. A band counts with its upper end, as the share of a month's nodes.
    """
    upper, open_ended = _UPPER.get(band, (None, False))
    if upper is None:
        return None, False
    loss = job.checkpoint / 2 + job.restart
    return job.nodes * upper / _HOURS_A_MONTH * (loss / timedelta(hours=1)), open_ended


def ranked(offers: Sequence[Offer]) -> tuple[Offer, ...]:
    """Return the offers, the cheapest expected first.

    Those whose interruptions nobody states after those with a band.
    """
    return tuple(sorted(offers, key=lambda x: (x.band is None, x.expected, x.zone.zone)))


def _zone(changes: list[tuple[datetime, Price]], window: Window) -> Zone | None:
    steps = [(max(at, window.start), price) for at, price in changes if at < window.end]
    ends = [*(at for at, _ in steps), window.end][1:]
    stood = [
        (price.usd_per_hour, end - at)
        for (at, price), end in zip(steps, ends, strict=True)
        if end > at
    ]
    if not stood:
        return None
    last_at, last = max((x for x in changes if x[0] < window.end), key=lambda x: x[0])
    whole = sum((length for _, length in stood), timedelta())
    mean = sum((price * _hours(length) for price, length in stood), _ZERO) / _hours(whole)
    within = sum(window.start <= at < window.end for at, _ in changes)
    return Zone(
        last.region,
        last.zone,
        last,
        last_at,
        mean.quantize(_MILL),
        quantile(stood, 0.5),
        quantile(stood, 0.95),
        max(price for price, _ in stood),
        within,
        tuple(stood),
    )


def quantile(stood: Sequence[tuple[Decimal, timedelta]], share: float) -> Decimal:
    """Return the lowest price that stood, or was undercut, for that share of the time."""
    need, so_far = sum((length for _, length in stood), timedelta()) * share, timedelta()
    for price, length in sorted(stood):
        so_far += length
        if so_far >= need:
            return price
    return max(price for price, _ in stood)


def _hours(length: timedelta) -> Decimal:
    return Decimal(length // timedelta(seconds=1)) / 3600
