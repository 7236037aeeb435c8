"""Forecast the cost of the month at its end, with an honest range."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from bot.model.outlook import Forecast
from bot.model.window import Window

_FEWEST, _MOST = 3, 14
# Student's t at 90 % (two-sided 80 %) for 2 to 13 degrees of freedom.
_T80 = (1.886, 1.638, 1.533, 1.476, 1.440, 1.415, 1.397, 1.383, 1.372, 1.363, 1.356, 1.350)


@dataclass(frozen=True)
class Nowcast:
    """State a month's end: `spent` over its settled days, and the forecast with an 80 % range."""

    month: Window
    settled: datetime
    spent: Decimal
    forecast: Decimal
    low: Decimal
    high: Decimal
    days_used: int


def month_end(daily: Mapping[date, Decimal], month: Window, settled: datetime) -> Nowcast | None:
    """Forecast from the last 3 to 14 settled days (days of the month before count), None with fewer.

    Range: the prediction interval of a sum of m further days after n observed, t s sqrt(m + m²/n); low is never under `spent`
    unless days were negative.
    """
    until = min(settled, month.end).date()
    days = sorted(day for day in daily if day < until)[-_MOST:]
    if len(days) < _FEWEST:
        return None
    spent = sum((daily[day] for day in daily if month.start.date() <= day < until), Decimal(0))
    left = Decimal(max(0, (month.end.date() - max(until, month.start.date())).days))
    values = [daily[day] for day in days]
    n = Decimal(len(values))
    mean = sum(values, Decimal(0)) / n
    spread = (sum(((value - mean) ** 2 for value in values), Decimal(0)) / (n - 1)).sqrt()
    reach = Decimal(str(_T80[len(values) - _FEWEST])) * spread * (left + left * left / n).sqrt()
    forecast = spent + left * mean
    floor = spent if min(values) >= 0 else forecast - reach
    return Nowcast(month, settled, spent, forecast, max(floor, forecast - reach), forecast + reach, len(values))


@dataclass(frozen=True)
class Expected:
    """State where the provider expects the month to end, with its own 80 % interval; shown beside a nowcast, never instead."""

    mean: Decimal
    low: Decimal
    high: Decimal
    asof: datetime


def expected(spent: Decimal, forecast: Forecast) -> Expected:
    """Return the month's end by the provider: amortised USD billed before its forecast begins, and the forecast."""
    return Expected(spent + forecast.mean, spent + forecast.low, spent + forecast.high, forecast.asof)
