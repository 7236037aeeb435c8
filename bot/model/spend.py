"""State spend and the provider's own view of it: gross, discounts, credits, tax and net apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum

from bot.model.labels import Labels
from bot.model.window import Window

ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class Money:
    """Hold the six amounts of a sum, in the bill's currency.

    `net = gross + discounts + credits + tax`.
    """

    gross: Decimal = ZERO
    discounts: Decimal = ZERO
    credits: Decimal = ZERO
    tax: Decimal = ZERO
    net: Decimal = ZERO
    amortised: Decimal = ZERO

    def __neg__(self) -> Money:
        """Return the money with the sign of every amount turned."""
        return Money(
            -self.gross, -self.discounts, -self.credits, -self.tax, -self.net, -self.amortised
        )

    def __add__(self, other: Money) -> Money:
        """Return the sum, amount by amount."""
        return Money(
            self.gross + other.gross,
            self.discounts + other.discounts,
            self.credits + other.credits,
            self.tax + other.tax,
            self.net + other.net,
            self.amortised + other.amortised,
        )


@dataclass(frozen=True, slots=True)
class Filter:
    """Keep rows whose dimension has (or, negated, has not) one of the values."""

    dimension: str
    values: tuple[str, ...]
    negated: bool = False

    def keeps(self, key: Mapping[str, str]) -> bool:
        """Return whether a row of this key passes; a dimension that it lacks has no value."""
        return (key.get(self.dimension, "") in self.values) is not self.negated

    def __str__(self) -> str:
        """Read as it is typed."""
        return f"{self.dimension}{'!=' if self.negated else '='}{','.join(self.values)}"


@dataclass(frozen=True, slots=True)
class Derived:
    """State the derived part of a row's amortised cost.

    Split by NeuronCores, or with a derived owner.
    """

    amortised: Decimal = ZERO
    unused: Decimal = ZERO
    """Of it the share of cores that pods held and did not use, as far as utilization was read."""
    idle: Decimal = ZERO
    """The cost of cores that no pod held, in the row of no pod."""
    owners: tuple[tuple[str, str], ...] = ()
    """Teams of pods that carry none, each with what it was derived from: `namespace` or `job`."""

    def __add__(self, other: Derived) -> Derived:
        """Add amounts, join the ways."""
        return Derived(
            self.amortised + other.amortised,
            self.unused + other.unused,
            self.idle + other.idle,
            # The same owner derived twice is one, in the order of the first.
            tuple(dict.fromkeys((*self.owners, *other.owners))),
        )


@dataclass(frozen=True)
class Spend:
    """State one group's money within a window; `estimated` while AWS may still rewrite it."""

    key: Mapping[str, str]
    money: Money
    estimated: bool = False
    derived: Derived | None = None
    hours: float = 0.0
    """Instance-hours that were metered, 0 where the bill tells none."""


@dataclass(frozen=True)
class Folded:
    """State the rows of an answer beyond its page: how many, and their sum."""

    count: int
    money: Money
    has_estimated: bool
    has_final: bool


@dataclass(frozen=True)
class Tally:
    """Answer one question to the bill: the rows that were asked for, and the total of all."""

    window: Window
    by: tuple[str, ...]
    rows: tuple[Spend, ...]
    total: Money
    currency: str = "USD"
    billed_through: datetime | None = None
    sources: tuple[str, ...] = field(default_factory=tuple)
    split: Window | None = None
    """The hours for which pods' requests were known, where nodes were split by them."""
    seen: datetime | None = None
    """The hour before which all was billed at the time of the question.

    None where the bill holds nothing later.
    """
    folded: Folded | None = None
    """The rows beyond the page that was asked for; None where every row is here."""


@dataclass(frozen=True)
class Forecast:
    """State the provider's forecast of a span.

    Amortised USD without credits and tax, with an 80 % interval.
    """

    window: Window
    mean: Decimal
    low: Decimal
    high: Decimal
    asof: datetime


class CommitmentPlan(StrEnum):
    """Name the kinds of commitment."""

    SAVINGS_PLANS = "Savings Plans"
    RESERVATIONS = "reservations"


@dataclass(frozen=True)
class Commitment:
    """State how one day's commitments of a kind were used, in USD.

    `coverage` is the covered share of usage, None unsaid.
    """

    plan: CommitmentPlan
    day: date
    committed: Decimal
    unused: Decimal
    coverage: Decimal | None = None

    @property
    def utilization(self) -> Decimal:
        """Return the used share, 1 where nothing is committed."""
        return 1 - self.unused / self.committed if self.committed else Decimal(1)


@dataclass(frozen=True)
class Finding:
    """State one anomaly that the provider's own detection found.

    Its root causes by impact, the dearest first.
    """

    id: str
    first: date
    last: date
    impact: Decimal
    """USD over the usual, all days together."""
    actual: Decimal
    expected: Decimal
    causes: tuple[Labels, ...]
    dismissed: bool = False
    """A person told the provider that it is none, or was planned."""

    @property
    def days(self) -> int:
        """Return how many days it has lasted."""
        return (self.last - self.first).days + 1
