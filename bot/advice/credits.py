"""Tell how fast credits burn, and when they are gone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import ROUND_FLOOR, Decimal

_FEWEST = 3


@dataclass(frozen=True)
class Burn:
    """State the mean of credits used a day over settled days, and where given what is left and until when it lasts."""

    usd_per_day: Decimal
    days: int
    since: date
    balance: Decimal | None
    gone_on: date | None
    """None where no balance was given or nothing burns."""


def burn_down(daily: Mapping[date, Decimal], settled: date, balance: Decimal | None) -> Burn | None:
    """Return the burn over the settled days, from credits as the bill has them (negative); None with fewer than three days.

    `balance` is what was left at the end of the last settled day: no API of AWS tells it.
    """
    known = sorted(day for day in daily if day < settled)
    if len(known) < _FEWEST:
        return None
    each = (-sum((daily[day] for day in known), Decimal(0)) / len(known)).quantize(Decimal("0.01"))
    gone = None
    if balance is not None and each > 0:
        lasts = int((balance / each).to_integral_value(ROUND_FLOOR))
        gone = settled + timedelta(days=min(lasts, 36_500))
    return Burn(each, len(known), known[0], balance, gone)
