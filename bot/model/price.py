"""State the price of an hour, where and when it was read, and the cost of the bot's own calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum

from bot.model.fleet import Market
from bot.model.money import MILLIONTH
from bot.model.window import calendar_day


class Basis(StrEnum):
    """Name where a price comes from, best first."""

    BILLED = "billed"
    LISTED = "price list"
    SPOT = "spot history"
    CAPACITY_BLOCK = "capacity block offering"
    FALLBACK = "dated fallback"

    @property
    def unsure(self) -> Decimal:
        """Return how far the true price may lie from the quoted one, as a share: our own estimate."""
        return _UNSURE.get(self, Decimal("0.25"))


_UNSURE = {Basis.BILLED: Decimal("0.05"), Basis.LISTED: Decimal("0.10")}


class Whose(StrEnum):
    """Name whose billed hours a rate is of, the nearest to a thing first."""

    OWN = "own hours"
    CLUSTER = "its cluster's hours"
    MARKET = "hours of its market in the account"
    ACCOUNT = "the account's mean"


@dataclass(frozen=True)
class Price:
    """State the USD for one hour of one thing of `instance_type` in `region`."""

    instance_type: str
    usd_per_hour: Decimal
    market: Market
    basis: Basis
    region: str
    asof: date
    source: str
    zone: str = ""
    hours: float = 0.0
    """Instance-hours behind a billed rate; 0 for a quote."""
    whose: Whose | None = None
    """Whose hours a billed rate is of; None for a quote."""
    on_demand_share: Decimal | None = None
    """The share of the USD that ends when the thing does; None: all or nothing, by the market."""
    lapses: date | None = None
    """The day on which the last of the commitments ends that paid for it, where the bill says so."""

    @property
    def committed_usd_per_hour(self) -> Decimal:
        """Return what is billed whether the thing runs or not."""
        if self.on_demand_share is not None:
            return (self.usd_per_hour * (1 - self.on_demand_share)).quantize(MILLIONTH)
        return self.usd_per_hour if self.market.is_committed else Decimal(0)

    @property
    def found_by(self) -> str:
        """Read as `billed, own hours` or `price list`.

        Which of the steps to a price of an hour gave this one.
        """
        return f"{self.basis}, {self.whose}" if self.whose else str(self.basis)

    @property
    def origin(self) -> str:
        """Read as `price list of Nov 20, 2026`, or `billed on Nov 20, 2026`."""
        # The date of a price is part of it: an old one is to look old.
        return (
            f"{self.basis} {'on' if self.basis is Basis.BILLED else 'of'} {calendar_day(self.asof)}"
        )

    def __str__(self) -> str:
        """Read as `$21.50 an hour, on-demand, price list of Nov 20, 2026`."""
        by = f"{self.found_by} of {calendar_day(self.asof)}" if self.whose else self.origin
        return f"${self.usd_per_hour:,.2f} an hour, {self.market}, {by}"


class Payment(StrEnum):
    """Name when a commitment is paid."""

    NONE = "no upfront"
    PARTIAL = "partial upfront"
    ALL = "all upfront"


@dataclass(frozen=True)
class CommitmentOffer:
    """State the price that AWS asks for committing to an hour of one instance over a term.

    A Savings Plan, or a reserved instance.
    """

    instance_type: str
    region: str
    plan: str
    """As AWS names it.

    `EC2 Instance Savings Plan`, `Compute Savings Plan`, `standard reserved instance`, `convertible
    ...`.
    """
    years: int
    payment: Payment
    usd_per_hour: Decimal
    """Effective: what is paid upfront is spread over the term."""
    upfront_usd: Decimal
    """Paid at its start for one instance."""
    asof: date
    source: str

    @property
    def hours(self) -> int:
        """Return the hours of the term."""
        return self.years * HOURS_A_YEAR


HOURS_A_YEAR = 365 * 24


@dataclass(frozen=True)
class AccountRates:
    """Hold the price that the account itself pays for an hour, as its bill has it.

    By type, by cluster, and of each instance.
    """

    by_type: tuple[Price, ...] = ()
    """One for each type, region and market."""
    by_cluster: Mapping[str, tuple[Price, ...]] = field(default_factory=dict)
    """The same over the hours of one cluster."""
    by_instance: Mapping[str, tuple[Price, ...]] = field(default_factory=dict)
    """The same over the hours of one instance."""
    by_reservation: Mapping[str, tuple[Price, ...]] = field(default_factory=dict)
    """The same over the hours in which an instance's place in a reservation stood empty."""


@dataclass(frozen=True)
class StoragePrice:
    """State the USD a month for one GiB of a kind of storage.

    `ebs:gp3`, or `fsx:125` (MB/s per TiB).
    """

    kind: str
    region: str
    usd_per_gib_month: Decimal
    source: str
    asof: date


@dataclass(frozen=True)
class PlacementScore:
    """State how likely EC2 calls it that a spot request is met.

    1 (least) to 10, for `target` instances in one zone.
    """

    instance_types: tuple[str, ...]
    """The request takes any of them: asked for one or two, EC2 calls every request unlikely."""
    region: str
    zone_id: str
    score: int
    asof: datetime


@dataclass(frozen=True)
class Interruption:
    """State the Spot Advisor's band of a type in a region.

    The share of a month's spot instances that were reclaimed.
    """

    instance_type: str
    region: str
    band: str
    """`<5%`, `5-10%`, `10-15%`, `15-20%` or `>20%`, as the advisor writes it."""
    savings_ratio: float
    """Against the on-demand price, 0..1."""
    asof: datetime


@dataclass(frozen=True)
class CallUse:
    """State the use of one AWS operation within a UTC day; `price_usd` is for one `unit`."""

    operation: str
    calls: int
    units: int
    unit: str
    usd: Decimal
    failed: int = 0
    stopped: int = 0
    """Calls that were not made because the day's budget was used."""
    price_usd: Decimal = Decimal(0)
    source: str = ""
    asof: str = ""


@dataclass(frozen=True)
class SelfCost:
    """State the bill of the bot's own AWS calls.

    An estimate from counted calls and dated list prices.
    """

    day: date
    uses: tuple[CallUse, ...]
    usd: Decimal
    month_usd: Decimal
    """At the pace of the last whole day, else of the ticks so far without the start's."""
    budget_usd: Decimal | None = None
    """For one day; optional calls stop one after the other as it is used."""
    retries: int = 0
    throttled: int = 0
    days: tuple[tuple[date, Decimal], ...] = ()
    """USD of each day on record, oldest first."""
    stops: tuple[tuple[int, tuple[str, ...]], ...] = field(default=())
    """(percent of the budget, operations that stop there), the first to stop first."""
