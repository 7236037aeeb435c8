"""State the cost of the bot's own AWS calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal


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
    """At the pace of the last whole day, else of the ticks so far, without what a start asks once."""
    budget_usd: Decimal | None = None
    """For one day; optional calls stop one after the other as it is used."""
    retries: int = 0
    throttled: int = 0
    days: tuple[tuple[date, Decimal], ...] = ()
    """USD of each day on record, oldest first."""
    stops: tuple[tuple[int, tuple[str, ...]], ...] = field(default=())
    """(percent of the budget, operations that stop there), the first to stop first."""
