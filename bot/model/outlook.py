"""State the provider's own view of the bill.

Its forecast, the use of commitments, and its findings.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum

from bot.model.labels import Labels
from bot.model.window import Window


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
