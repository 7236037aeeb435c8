"""Forecast a month anew from the rows of the bill.

The same model, solved as a kriging system over the days that settled.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import exp, log, sqrt
from typing import Any

import numpy as np

from bot.costs.allocation import Allocation
from bot.costs.formulas import UnknownTerm
from bot.costs.nowcast import Tallies, running_of
from bot.costs.reconcile import ESTIMATES, LAG, MonthForecast
from bot.costs.tally import BilledBy, settled_by
from bot.errors import WrongInput
from bot.model.frame import Doubles
from bot.model.projection import (
    COVERAGE,
    FEWEST,
    LEAST,
    MOST,
    is_seldom,
    moves_of,
    noise,
    priors,
    steps_of,
)
from bot.model.receipt import exact
from bot.model.spend import Filter, Tally
from bot.model.window import Window, month_of
from bot.ports import Ports

_DAY, _BACK = timedelta(days=1), timedelta(days=62)
_LINE = ("service", "usage_type")
_ALIKE = 3
Amounts = Mapping[date, Decimal]
Row = Mapping[str, Any]


class ForecastRows:
    """Name the terms of forecasts."""

    def __init__(self, ports: Ports, at: datetime) -> None:
        self._ports, self._at = ports, at
        self._made: dict[tuple[Any, ...], Row] = {}

    def names(self) -> Row:
        """Return the terms by name."""
        return {
            "month_bill": self.month_bill,
            "month_then": self.month_then,
            "kept_estimate": self.kept_estimate,
        }

    def month_bill(self, where: Sequence[Filter] = ()) -> Row:
        """Return the terms of this month's forecast, as of now."""
        allocation = Allocation(self._ports, self._at)
        running = (
            running_of(self._ports, allocation.reading) if allocation.reading and not where else {}
        )
        return self._once(("now", tuple(where)), allocation, self._at, tuple(where), running)

    def month_then(self, at: datetime) -> Row:
        """Return the terms of a month's forecast at an earlier time, over the bill as it stood."""
        return self._once((at,), BilledBy(self._ports.world.billing, at, LAG), at, (), {})

    def kept_estimate(self, at: datetime) -> MonthForecast:
        """Return the forecast that was kept at a time."""
        kept = ESTIMATES.get(self._ports.stores.documents, f"{at:%Y-%m-%d}")
        if kept is None or kept.at != at:
            raise UnknownTerm("no forecast was kept")
        return kept

    def _once(
        self,
        key: tuple[Any, ...],
        billing: Tallies,
        at: datetime,
        where: Sequence[Filter],
        running: Amounts,
    ) -> Row:
        if key not in self._made:
            self._made[key] = _month(billing, at, where, running)
        return self._made[key]


def _month(billing: Tallies, at: datetime, where: Sequence[Filter], running: Amounts) -> Row:
    month = month_of(at)
    tally = _lines_of(billing, Window(month.start - _BACK, min(month.end, at)), where)
    settled = settled_by(tally, at)
    if settled is None:
        raise UnknownTerm("settled days")
    until, (start, end) = min(settled, month.end).date(), (month.start.date(), month.end.date())
    every, fees = _by_day(tally), _fees(billing, tally, settled.date(), where)
    at_once = {
        day: sum((usd for (_, of), usd in fees.items() if of == day), Decimal(0))
        for day in {day for _, day in fees}
    }
    daily = {day: usd - at_once.get(day, Decimal(0)) for day, usd in every.items()}
    days = _unbroken([day for day in daily if day < until])
    if len(days) < FEWEST:
        raise UnknownTerm("settled days")
    ahead = max(0, (end - max(until, start)).days)
    known = _since(running, days, daily)[:ahead] if until >= start else []
    charged = sum((usd for day, usd in at_once.items() if start <= day < end), Decimal(0))
    return {
        "days": [daily[day] for day in days],
        "known": sum(known, Decimal(0)),
        "fees": charged,
        "due": _due(fees, start) if until < end else Decimal(0),
        "spent": sum((usd for day, usd in daily.items() if start <= day < until), Decimal(0))
        + charged,
        "billed": sum((usd for day, usd in every.items() if day >= start), Decimal(0)),
        **_coming([*(daily[day] for day in days), *known], ahead - len(known)),
    }


def _lines_of(billing: Tallies, window: Window, where: Sequence[Filter]) -> Tally:
    try:
        return billing.tally(window, ("day", *_LINE), where)
    except WrongInput:
        return billing.tally(window, ("day",), where)


def _by_day(tally: Tally) -> dict[date, Decimal]:
    sums: defaultdict[date, Decimal] = defaultdict(Decimal)
    for row in tally.rows:
        sums[date.fromisoformat(row.key["day"])] += row.money.amortised
    return dict(sums)


def _fees(
    billing: Tallies, tally: Tally, until: date, where: Sequence[Filter]
) -> Mapping[tuple[tuple[str, ...], date], Decimal]:
    """Return by line and day the charges at once: on few of its days, and within one hour of them."""
    lines: defaultdict[tuple[str, ...], dict[date, Decimal]] = defaultdict(dict)
    for row in tally.rows:
        if name := tuple(row.key.get(part, "") for part in _LINE):
            lines[name][date.fromisoformat(row.key["day"])] = row.money.amortised
    fees = {}
    for name, amounts in lines.items():
        charged = [day for day, usd in amounts.items() if usd]
        if not any(name) or not charged or not is_seldom(len(charged), (until - min(charged)).days):
            continue
        hours = _hours(billing, name, amounts, where)
        for day, usd in amounts.items():
            if hours[day] == 1 if hours is not None else max(amounts) < until - _DAY:
                fees[name, day] = usd
    return fees


def _hours(
    billing: Tallies, name: tuple[str, ...], days: Amounts, where: Sequence[Filter]
) -> Counter[date] | None:
    """Count the hours of each day in which a line was charged; None where the bill tells no hours."""
    span = Window(
        *(datetime(x.year, x.month, x.day, tzinfo=UTC) for x in (min(days), max(days) + _DAY))
    )
    filters = [*where, *(Filter(part, (value,)) for part, value in zip(_LINE, name, strict=True))]
    try:
        return Counter(
            date.fromisoformat(row.key["hour"][:10])
            for row in billing.tally(span, ("hour",), filters).rows
        )
    except WrongInput:
        return None


def _due(fees: Mapping[tuple[tuple[str, ...], date], Decimal], month: date) -> Decimal:
    """Return the fees of last month that came in the month before as well, on the same day, and not yet in this one."""
    last = (month - _DAY).replace(day=1)
    before = (last - _DAY).replace(day=1)
    total = Decimal(0)
    for (name, day), usd in fees.items():
        again = any(
            other == name and on.replace(day=1) == before and on.day == day.day
            for other, on in fees
        )
        if (
            day.replace(day=1) == last
            and again
            and not any(other == name and on >= month for other, on in fees)
        ):
            total += usd
    return total


def _unbroken(days: Sequence[date]) -> list[date]:
    """Return the newest days that follow each other."""
    newest: list[date] = []
    for day in sorted(days, reverse=True)[:MOST]:
        if newest and day != newest[-1] - _DAY:
            break
        newest.append(day)
    return newest[::-1]


def _since(running: Amounts, days: Sequence[date], daily: Amounts) -> list[Decimal]:
    """Return the cost of the days after the settled ones.

    Of the nodes that ran, and of the rest as it was.
    """
    both = [day for day in days if day in running][-_ALIKE:]
    if len(both) < _ALIKE:
        return []
    rest = sum((daily[day] - running[day] for day in both), Decimal(0)) / len(both)
    later, day = [], days[-1] + _DAY
    while day in running:
        later.append(max(Decimal(0), rest + running[day]))
        day += _DAY
    return later


def _coming(values: Sequence[Decimal], ahead: int) -> Mapping[str, Decimal]:
    """Return the sum of the days to come and its range, over every model of the grid by how well it fits the days seen."""
    series = np.array([float(x) for x in values[-MOST:]])
    scale, n = float(np.mean(np.abs(series))), len(series)
    if ahead <= 0 or not scale:
        return dict.fromkeys(("low", "middle", "high"), Decimal(0))
    fits = [
        (*_kriged(series / scale, covariance, ahead), odds) for covariance, odds in priors(n, ahead)
    ]
    best = max(evidence + log(odds) for _, _, evidence, odds in fits)
    weights = [exp(evidence + log(odds) - best) for _, _, evidence, odds in fits]
    mean = sum(w * x for w, (x, *_) in zip(weights, fits, strict=True)) / sum(weights)
    within = sum(
        w * (variance + (x - mean) ** 2) for w, (x, variance, *_) in zip(weights, fits, strict=True)
    ) / sum(weights)
    factors = [
        float(np.mean(np.cumprod(1 + moves)))
        for moves in moves_of(steps_of(series / scale), n, ahead)
    ]
    sums = sorted(
        (mean + sqrt(within) * off) * x
        for off, x in zip(noise(n - 1, len(factors)), factors, strict=True)
    )
    low, high = (_at(sums, (1 + side * COVERAGE) / 2) for side in (-1, 1))
    return {
        name: exact(x * scale)
        for name, x in (("low", low), ("middle", mean * _at(sorted(factors), 0.5)), ("high", high))
    }


def _at(ranked: Sequence[float], share: float) -> float:
    """Return the value under which a share of them lies, between its two neighbours in line."""
    place = share * (len(ranked) - 1)
    below = ranked[int(place)]
    return below + (place - int(place)) * (ranked[min(int(place) + 1, len(ranked) - 1)] - below)


def _kriged(series: Doubles, covariance: Doubles, ahead: int) -> tuple[float, float, float]:
    """Return the best unbiased sum of the days to come by one model, its variance, and the evidence of the days' differences."""
    n = len(series)
    seen, cross, whole = (
        covariance[:n, :n],
        covariance[:n, n:].sum(axis=1),
        covariance[n:, n:].sum(),
    )
    ones = np.ones((n, 1))
    solved = np.linalg.solve(
        np.block([[seen, ones], [ones.T, np.zeros((1, 1))]]), np.append(cross, ahead)
    )
    weights, multiplier = solved[:n], solved[n]
    contrasts = np.diff(np.eye(n), axis=0)
    spread, steps = contrasts @ seen @ contrasts.T, contrasts @ series
    squares = float(steps @ np.linalg.solve(spread, steps)) + LEAST**2 * n
    variance = squares / (n - 1) * max(0.0, float(whole - weights @ cross - multiplier * ahead))
    evidence = -0.5 * (float(np.linalg.slogdet(spread)[1]) + (n - 1) * log(squares))
    return float(weights @ series), variance, evidence
