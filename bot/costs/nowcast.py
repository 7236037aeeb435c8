"""Forecast the cost of the month at its end, with an honest range."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Protocol

import numpy as np

from bot.costs.pricing import Pricing
from bot.costs.tally import settled_by
from bot.errors import WrongInput
from bot.model.fleet import Instance, Market
from bot.model.frame import Frame, Mask
from bot.model.labels import Labels
from bot.model.money import cents
from bot.model.price import Price
from bot.model.projection import FEWEST, MOST, is_seldom, project
from bot.model.reading import Reading
from bot.model.spend import Filter, Forecast, Tally
from bot.model.window import Window, month_of
from bot.ports import Ports

Daily = Mapping[date, Decimal]
_DAY = timedelta(days=1)
_NONE = Decimal(0)


class Tallies(Protocol):
    """Ask the bill for sums, pods split or not."""

    def tally(self, window: Window, by: Sequence[str], where: Sequence[Filter] = ()) -> Tally:
        """Sum the rows of a window by dimensions."""
        ...


@dataclass(frozen=True)
class MonthBill:
    """Hold what a forecast is made of, amortised.

    What recurs day by day, and one-off charges at their day.
    """

    daily: Daily
    fees: Daily = field(default_factory=dict)
    due: Daily = field(default_factory=dict)
    """Fees of the month before that come each month, at the day when they are expected again."""
    billed: Decimal = Decimal(0)
    """All of the month that was billed by now, unsettled days included."""
    currency: str = "USD"


@dataclass(frozen=True)
class Nowcast:
    """State a month's end: `spent` over its settled days, and the forecast with its range."""

    month: Window
    settled: datetime
    spent: Decimal
    forecast: Decimal
    low: Decimal
    high: Decimal
    days_used: int
    fees: Decimal = Decimal(0)
    """Of it one-off charges and monthly fees, which are counted once."""
    running_since: date | None = None
    """From when on it rests on the nodes that ran, as no bill of these days has settled.

    None where they are not known.
    """
    currency: str = "USD"


def month_end(
    bill: MonthBill, month: Window, settled: datetime, running: Daily | None = None
) -> Nowcast | None:
    """Forecast from the settled days (those of the month before count), None with fewer than three.

    `running` is the cost of the nodes that ran, by day, up to today: it tells how the days since
    the bill differ from the settled ones. Low is never under what is billed, unless days were
    negative.
    """
    until = min(settled, month.end).date()
    days: list[date] = []
    for day in sorted((day for day in bill.daily if day < until), reverse=True)[:MOST]:
        if days and days[0] - day > _DAY:
            break  # days before a gap tell of another time
        days.insert(0, day)
    if len(days) < FEWEST:
        return None
    start, end = month.start.date(), month.end.date()
    values = [bill.daily[day] for day in days]
    ahead = max(0, (end - max(until, start)).days)
    running_usd: list[float] = []
    if running and until >= start:
        running_usd = [float(usd) for usd in _since(running, bill.daily, days)][:ahead]
    projection = project([*map(float, values), *running_usd], ahead - len(running_usd))
    assert projection

    fees = _sum(bill.fees, start, end)
    due = _sum(bill.due, until, end)
    spent = _sum(bill.daily, start, until) + fees

    sure = spent + due + _usd(sum(running_usd))
    least = max(spent, bill.billed) if min(values) >= 0 else sure + _usd(projection.low)
    return Nowcast(
        month,
        settled,
        spent,
        forecast=max(least, sure + _usd(projection.middle)),
        low=max(least, sure + _usd(projection.low)),
        high=max(least, sure + _usd(projection.high)),
        days_used=len(days),
        fees=fees + due,
        running_since=until if running_usd else None,
        currency=bill.currency,
    )


def _sum(daily: Daily, start: date, end: date) -> Decimal:
    """Return the sum of the days from `start` until before `end`."""
    return sum((usd for day, usd in daily.items() if start <= day < end), _NONE)


def _usd(amount: float) -> Decimal:
    return cents(Decimal(repr(amount)))


_ALIKE = 3
"""Settled days that the days since are held against."""


def _since(running: Daily, daily: Daily, days: Sequence[date]) -> Iterator[Decimal]:
    """Yield the cost of each day since the settled ones.

    What those cost besides nodes, and the nodes that ran.
    """
    # Fewer days say nothing of what comes besides nodes.
    newest = [day for day in days if day in running][-_ALIKE:]
    if len(newest) < _ALIKE:
        return
    besides = sum((daily[day] - running[day] for day in newest), _NONE) / len(newest)
    day = days[-1] + _DAY
    while day in running:
        yield max(_NONE, besides + running[day])
        day += _DAY


_NOWCAST_BACK = timedelta(days=62)
"""How far before the month its bill is looked at.

What came in each of the two months before comes again.
"""


def forecast_month(
    billing: Tallies, at: datetime, where: Sequence[Filter] = (), running: Daily | None = None
) -> Nowcast | None:
    """Forecast the month of `at` from what was billed by then.

    None where too few days have settled. May block.
    """
    month = month_of(at)
    bill, settled = month_bill(billing, month, at, where)
    return month_end(bill, month, settled, running) if settled else None


def month_bill(
    billing: Tallies, month: Window, at: datetime, where: Sequence[Filter] = ()
) -> tuple[MonthBill, datetime | None]:
    """Return what a forecast of a month is made of, and until when the bill has settled.

    May block.
    """
    window = Window(month.start - _NOWCAST_BACK, min(month.end, at))
    try:
        tally = billing.tally(window, ("day", *_LINE), where)
    except WrongInput:
        # Not every bill tells services and usage types.
        tally = billing.tally(window, ("day",), where)

    settled = settled_by(tally, at)
    if settled is None:
        return MonthBill({}), None
    lines: defaultdict[Line, dict[date, Decimal]] = defaultdict(dict)
    for row in tally.rows:
        lines[_line(row.key)][date.fromisoformat(row.key["day"])] = row.money.amortised
    until, start = settled.date(), month.start.date()
    lumps = _lumps(billing, lines, until, where)

    # What recurs is parted from what is charged at once, of which some comes each month.
    daily: defaultdict[date, Decimal] = defaultdict(Decimal)
    fees: defaultdict[date, Decimal] = defaultdict(Decimal)
    due: defaultdict[date, Decimal] = defaultdict(Decimal)
    billed = _NONE
    for line, amounts in lines.items():
        at_once = lumps.get(line, {})
        for day, usd in amounts.items():
            daily[day] += usd - at_once.get(day, _NONE)
            billed += usd if day >= start else _NONE
        for day, usd in at_once.items():
            fees[day] += usd
        for day, usd in _again(at_once, start):
            due[max(day, until)] += usd
    return MonthBill(daily, fees, due, billed, tally.currency), settled


Line = tuple[str, ...]
_LINE = ("service", "usage_type")


def _line(key: Mapping[str, str]) -> Line:
    return tuple(key.get(name, "") for name in _LINE)


def _again(lumps: Daily, month: date) -> Iterator[tuple[date, Decimal]]:
    """Yield what a line charged at once in both months before, and not yet in this one.

    Each at its day of this month.
    """
    last = (month - _DAY).replace(day=1)
    before = (last - _DAY).replace(day=1)
    earlier, previous, current = (
        {day.day: usd for day, usd in lumps.items() if day.replace(day=1) == first}
        for first in (before, last, month)
    )
    # What came again already is in the bill.
    if not current:
        for number in earlier.keys() & previous.keys():
            yield month.replace(day=min(number, 28)), previous[number]


def _lumps(
    billing: Tallies, lines: Mapping[Line, Daily], until: date, where: Sequence[Filter]
) -> Mapping[Line, Daily]:
    """Return by line the charges of a day that stand in one of its hours, as they are no usage.

    Of lines that are charged seldom.
    """
    seldom = {}
    for line, amounts in lines.items():
        charged = [day for day, usd in amounts.items() if usd]
        if any(line) and charged and is_seldom(len(charged), (until - min(charged)).days):
            seldom[line] = amounts
    if not seldom:
        return {}
    days = sorted(day for amounts in seldom.values() for day in amounts)
    window = Window(_midnight(days[0]), _midnight(days[-1] + _DAY))
    try:
        usage_types = Filter("usage_type", tuple(sorted({line[-1] for line in seldom})))
        rows = billing.tally(window, ("hour", *_LINE), [*where, usage_types]).rows
    except WrongInput:
        # A bill by days: what came on one day and on none of those after it was no usage that
        # goes on.
        return {line: amounts for line, amounts in seldom.items() if max(amounts) < until - _DAY}
    hours: defaultdict[tuple[Line, date], int] = defaultdict(int)
    for row in rows:
        hours[_line(row.key), date.fromisoformat(row.key["hour"][:10])] += 1
    return {
        line: {day: usd for day, usd in amounts.items() if hours[line, day] == 1}
        for line, amounts in seldom.items()
    }


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


@dataclass(frozen=True)
class Expected:
    """State where the provider expects the month to end, with its own 80 % interval.

    Shown beside a nowcast, never instead.
    """

    mean: Decimal
    low: Decimal
    high: Decimal
    asof: datetime


def expected(spent: Decimal, forecast: Forecast) -> Expected:
    """Return the month's end by the provider.

    Amortised USD billed before its forecast begins, and the forecast.
    """
    return Expected(
        spent + forecast.mean, spent + forecast.low, spent + forecast.high, forecast.asof
    )


def running_cost(
    reading: Reading, price_of: Callable[[Instance], Price | None], back: timedelta
) -> dict[date, Decimal]:
    """Return USD of the nodes that ran on each whole day of the last `back` which metrics tell of.

    Nodes that a commitment pays, or whose kind is held by a reservation, are left out: that goes on
    when they leave. Empty where no metrics tell of nodes, as one that ended is then forgotten.
    """
    frame = reading.frame("node")
    if frame is None or not frame.n_steps:
        return {}
    midnight = reading.now.replace(hour=0, minute=0, second=0, microsecond=0)
    # The frame's first day is cut off.
    first = max(midnight - back, frame.start.astimezone(UTC) + _DAY).replace(
        hour=0, minute=0, second=0, microsecond=0
    )
    days = Window(min(first, midnight), midnight).days()
    costs = {day.start.date(): _NONE for day in days}
    reserved = {_kind(reservation.labels) for reservation in reading.inventory.reservations}
    for instance, span in _spans(reading, frame):
        start, end = max(first, span.start), min(midnight, span.end)
        if start >= end or _kind(instance.labels) in reserved:
            continue
        price = price_of(instance)
        if price and price.market not in _PREPAID:
            for day in Window(start, end).days():
                costs[day.start.date()] += price.usd_per_hour * Decimal(str(round(day.hours, 6)))
    return costs


_BACK = timedelta(days=7)
"""How many days back nodes are priced: a bill settles within them."""


def running_of(ports: Ports, reading: Reading) -> dict[date, Decimal]:
    """Return the cost of the nodes that ran in the last days, at the price of each; may block."""
    return running_cost(reading, Pricing(ports).at(reading.now).instance, _BACK)


def forecast_of(ports: Ports, now: datetime, reading: Reading | None) -> Nowcast | None:
    """Forecast the month of `now` from its bill; may block.

    And from the nodes that ran, where a reading tells of them.
    """
    running = running_of(ports, reading) if reading else None
    return forecast_month(ports.world.billing, now, running=running)


_PREPAID = {Market.SAVINGS_PLAN, Market.RESERVED, Market.CAPACITY_BLOCK}


def _kind(labels: Labels) -> tuple[str, str]:
    return labels.instance_type, labels.region


def _spans(reading: Reading, frame: Frame) -> Iterator[tuple[Instance, Window]]:
    """Yield each node with the time it ran: as described, else from first metric to last."""
    described = reading.inventory.instances
    for instance in described.values():
        if instance.running or instance.ended_at:
            until = instance.ended_at or reading.now
            yield instance, Window(min(instance.launched_at, until), until)
    measured: Mask = np.any(~np.isnan(frame.values), axis=2)
    for row, labels in enumerate(frame.things):
        steps = np.flatnonzero(measured[row])
        if len(steps) and labels.instance not in described:
            begin = frame.start + int(steps[0]) * frame.step
            end = frame.start + (int(steps[-1]) + 1) * frame.step
            yield Instance(labels, begin, "terminated", ended_at=end), Window(begin, end)
