"""Forecast what a month's invoice says: charges as they are paid, credits, tax, and prepaid cash."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from bot.costs.nowcast import Fleet, Tallies, forecast_month
from bot.errors import WrongInput
from bot.model.money import cents
from bot.model.projection import is_seldom
from bot.model.spend import Filter, Money
from bot.model.window import Window, month_of

_LEAST = Decimal(1)
"""USD of a day under which nothing counts as prepaid."""


@dataclass(frozen=True)
class Prepaid:
    """State cash that left on one day of the month for hours of other days."""

    day: date
    usd: Decimal
    usage_type: str


@dataclass(frozen=True)
class Invoice:
    """State a month's invoice as it is expected: `charges` are less discounts, `credits` negative."""

    charges: Decimal
    credits: Decimal
    tax: Decimal
    prepaid: tuple[Prepaid, ...] = ()

    @property
    def net(self) -> Decimal:
        """Return what leaves the account."""
        return self.charges + self.credits + self.tax


def invoice_of(
    billing: Tallies, at: datetime, where: Sequence[Filter] = (), fleet: Fleet | None = None
) -> Invoice | None:
    """Return the invoice that the month of `at` is expected to have.

    None where too few days have settled. May block.
    """
    charges = forecast_month(billing, at, where, fleet, _charges)
    if charges is None:
        return None
    credits = forecast_month(billing, at, where, None, _credits)
    credited = credits.forecast if credits else Decimal(0)

    # Tax is a share of what is paid, and is billed when the month is over.
    month = month_of(at)
    billed = billing.tally(month, (), where).total.tax
    before = billing.tally(month.previous(), (), where).total
    taxed = before.net - before.tax
    tax = billed
    if not billed and taxed > 0:
        tax = cents((charges.forecast + credited) * before.tax / taxed)
    return Invoice(charges.forecast, credited, tax, _prepaid(billing, month, at, where))


def _charges(money: Money) -> Decimal:
    return money.net - money.credits - money.tax


def _credits(money: Money) -> Decimal:
    return money.credits


_PREPAID = ("capacity-block", "savings-plan", "reserved")


def _prepaid(
    billing: Tallies, month: Window, at: datetime, where: Sequence[Filter]
) -> tuple[Prepaid, ...]:
    """Return what was paid at once for a commitment, by day."""
    window = Window(month.previous().start, min(month.end, at))
    try:
        bought = [*where, Filter("purchase", _PREPAID)]
        rows = billing.tally(window, ("day", "usage_type"), bought).rows
    except WrongInput:
        return ()
    paid = [
        Prepaid(date.fromisoformat(row.key["day"]), cents(ahead), row.key["usage_type"])
        for row in sorted(rows, key=lambda row: row.key["day"])
        if (ahead := _charges(row.money) - row.money.amortised) > _LEAST
    ]
    # The fee of each hour of a plan is paid for that hour.
    days = Counter(fee.usage_type for fee in paid)
    seen = round(window.hours / 24)
    return tuple(
        fee
        for fee in paid
        if fee.day >= month.start.date() and is_seldom(days[fee.usage_type], seen)
    )
