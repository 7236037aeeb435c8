"""Work out the expected cost of a job on spot capacity, zone by zone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import accumulate, groupby, pairwise

from bot.costs.pricing import HOURS_A_MONTH
from bot.model.money import cents
from bot.model.price import Interruption, PlacementScore, Price
from bot.model.window import Window

_ZERO = Decimal(0)
UPPER_SHARES: Mapping[str, tuple[float, bool]] = {
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
        # A window that begins above the cap counts as one rise.
        rises = sum(after and not before for before, after in pairwise([False, *above]))
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
        """Return how far the mean price is below on-demand, as a share; None without one."""
        return 1 - self.zone.mean / self.on_demand.usd_per_hour if self.on_demand else None


def zones(changes: Sequence[tuple[datetime, Price]], window: Window) -> tuple[Zone, ...]:
    """Return every zone that had a price within the window, by region and zone."""
    ordered = sorted(changes, key=lambda change: (change[1].region, change[1].zone, change[0]))
    priced = []
    for _, group in groupby(ordered, key=lambda change: (change[1].region, change[1].zone)):
        past = [(change, price) for change, price in group if change < window.end]

        # A price from before the window stands from its beginning on.
        starts = [max(change, window.start) for change, _ in past]
        ends = [*starts, window.end][1:]
        stood = [
            (price.usd_per_hour, end - start)
            for (_, price), start, end in zip(past, starts, ends, strict=True)
            if end > start
        ]
        if not stood:
            continue
        last_at, last = max(past, key=lambda change: change[0])
        whole = sum((length for _, length in stood), timedelta())
        mean = sum((price * _hours(length) for price, length in stood), _ZERO) / _hours(whole)
        priced.append(
            Zone(
                last.region,
                last.zone,
                last,
                last_at,
                mean.quantize(Decimal("0.0001")),
                quantile(stood, 0.5),
                quantile(stood, 0.95),
                max(price for price, _ in stood),
                sum(change >= window.start for change, _ in past),
                tuple(stood),
            )
        )

    return tuple(priced)


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

    return Offer(
        zone,
        share,
        at_least,
        cents(zone.mean * job.nodes * job.hours),
        transfer,
        on_demand,
        band,
        score,
    )


def lost_share(band: str, job: SpotJob) -> tuple[float | None, bool]:
    """Return the share of the work that is done twice, and whether it may be more.

    None for a band that is not known.

    Half a checkpoint interval and a restart are lost a reclaim; any of the nodes' reclaims stops
    the job. A band counts with its upper end, as the share of a month's nodes.
    """
    upper, open_ended = UPPER_SHARES.get(band, (None, False))
    if upper is None:
        return None, False
    loss = job.checkpoint / 2 + job.restart

    return job.nodes * upper / HOURS_A_MONTH * (loss / timedelta(hours=1)), open_ended


def ranked(offers: Sequence[Offer]) -> tuple[Offer, ...]:
    """Return the offers, the cheapest expected first.

    Those whose interruptions nobody states after those with a band.
    """
    return tuple(sorted(offers, key=lambda x: (x.band is None, x.expected, x.zone.zone)))


def quantile(stood: Sequence[tuple[Decimal, timedelta]], share: float) -> Decimal:
    """Return the lowest price that stood, or was undercut, for that share of the time."""
    ordered = sorted(stood)
    ends = list(accumulate(length for _, length in ordered))
    reached = (
        price for (price, _), end in zip(ordered, ends, strict=True) if end >= ends[-1] * share
    )

    return next(reached, ordered[-1][0])


def _hours(length: timedelta) -> Decimal:
    return Decimal(length // timedelta(seconds=1)) / 3600
