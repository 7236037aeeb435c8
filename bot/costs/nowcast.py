"""Forecast the cost of the month at its end, with an honest range."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import cached_property
from itertools import pairwise

import numpy as np

from bot.costs.recurring import Daily, Due, due_again, rare_days
from bot.costs.running import Booking, Fleet, Line, Running, fleet_of
from bot.costs.tally import Tallies, known_rows, settled_by
from bot.errors import WrongInput
from bot.model.fleet import Market, Reservation
from bot.model.frame import Doubles
from bot.model.money import cents, cents_of, summed, summed_apart
from bot.model.projection import FEWEST, MOST, Forecasts, project
from bot.model.reading import Reading
from bot.model.spend import ZERO, Filter, Forecast, Money, Spend, Tally
from bot.model.window import DAY, Window, month_of
from bot.ports import Outlook, Ports

_LINES: tuple[Line, ...] = (
    ("service", "usage_type", "purchase", "cluster"),
    ("service", "usage_type"),
)
"""By what the lines of a bill are told apart; not every bill knows all of it."""
_BLOCKS: Line = (Market.CAPACITY_BLOCK,)
_RUNS_INSTANCE = re.compile(r"((?:Box|Spot)Usage:[\w.-]+)$")


@dataclass(frozen=True)
class MonthBill:
    """Hold the parts of a forecast, amortised.

    What recurs by line and day, and one-off charges at their day.
    """

    lines: Mapping[Line, Daily]
    fees: Daily = field(default_factory=dict)
    due: Mapping[Line, Due] = field(default_factory=dict)
    """What lines that are seldom charged are expected to cost yet in this month."""
    ahead: Decimal | None = None
    """What Capacity Blocks cost yet, up to their known ends; None where no fee of any is known."""
    bookings: Sequence[Booking] = ()
    """What AWS has promised and no bill tells of yet."""
    lapsing: Daily = field(default_factory=dict)
    """USD a day that nodes cost more from the day on which what covers them ends."""
    whole: date | None = None
    """The day before which every line was billed for whole days, None where that has settled."""
    through: datetime | None = None
    """The hour up to which it is billed."""
    currency: str = "USD"

    @cached_property
    def daily(self) -> Daily:
        """Return the recurring cost by day."""
        return summed(pair for amounts in self.lines.values() for pair in amounts.items())


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
    """From when on it rests on the nodes that ran, as no bill of these days is whole.

    None where they are not known.
    """
    lapses: Daily = field(default_factory=dict)
    """Of it what nodes cost more once a commitment has ended, by the day of its end."""
    bookings: Sequence[Booking] = ()
    """Of it what AWS has promised and no bill tells of yet."""
    currency: str = "USD"
    held: float = 1.0
    """The share of months that end within the range."""


def month_end(
    bill: MonthBill, month: Window, settled: datetime, running: Running | None = None
) -> Nowcast | None:
    """Forecast from the days billed (those of the months before count), None with fewer than three.

    `running` is the cost of the nodes that ran, up to now: it tells how the days since the bill
    differ. Low is never under what is billed, unless days were negative.
    """
    start, end = month.start.date(), month.end.date()
    until = min(settled.date(), end)
    whole = min(max(bill.whole or until, until), end)
    days = _days_on_end(bill.daily, whole)
    if len(days) < FEWEST:
        return None

    going = {
        line: usd
        for line, amounts in bill.lines.items()
        if any(usd := [amounts.get(day, ZERO) for day in days])
        and (line != _BLOCKS or bill.ahead is None)
    }

    # What nodes ran since the newest whole day of the bill counts as if it were billed.
    ran: dict[Line, Doubles] = {}
    newest = days[-1] + DAY
    if running:
        begin = datetime.combine(newest, time(), UTC)
        since = running.since(begin, bill.through or begin, bill.lines)
        ran = {
            line: usd[: (end - newest).days] for line, usd in since.items() if line not in bill.due
        }
    seen, expected = _seen(going, ran, len(days))
    today = newest + (seen.shape[1] - len(days)) * DAY
    ahead = range(max(0, (start - today).days), (end - today).days)

    unsure = sum(float(booking.usd * booking.price.basis.unsure) for booking in bill.bookings)
    unsure += sum(float(fee.unsure) for fee in bill.due.values())
    fees = _sum(bill.fees, start, end)
    spent = _sum(bill.daily, start, until) + fees
    counted = spent + _sum(bill.daily, max(start, until), whole)
    counted += cents_of(seen[:, len(days) + max(0, (start - newest).days) :].sum())
    counted += bill.ahead or ZERO
    lapses = {
        day: cents(usd * (end - max(day, start)).days)
        for day, usd in bill.lapsing.items()
        if whole <= day < end
    }
    counted += sum((*lapses.values(), *(booking.usd for booking in bill.bookings)), ZERO)
    due = sum((fee.usd for fee in bill.due.values()), ZERO)
    share = sum((fee.share for fee in bill.due.values()), ZERO)
    projection = project(seen, ahead, unsure, float(counted + due), expected)
    assert projection

    def ended(usd: float) -> Decimal:
        besides = counted + cents_of(usd)
        return besides + due + cents((besides - fees) * share)

    # What is billed stays billed. Refunds may take all of it and no more, which credits alone do.
    least, daily = _sum(bill.daily, start, end) + fees, [bill.daily[day] for day in days]
    if min(daily) < 0:
        least = min(least, ZERO) if sum(daily) > 0 else ended(projection.low)
    return Nowcast(
        month,
        settled,
        spent,
        forecast=max(least, ended(projection.middle)),
        low=max(least, ended(projection.low)),
        high=max(least, ended(projection.high)),
        held=projection.held,
        days_used=sum(day < until for day in days),
        fees=fees + due + cents((counted + cents_of(projection.middle) - fees) * share),
        running_since=newest if today > newest else None,
        lapses=lapses,
        bookings=bill.bookings,
        currency=bill.currency,
    )


def _days_on_end(daily: Daily, whole: date) -> list[date]:
    """Return the newest days before `whole` that follow each other without a gap."""
    days = sorted(day for day in daily if day < whole)[-MOST:]
    # Days before a gap tell of another time.
    gaps = [n for n, (day, after) in enumerate(pairwise(days), 1) if after - day > DAY]
    return days[max(gaps, default=0) :]


def _sum(daily: Daily, start: date, end: date) -> Decimal:
    """Return the sum of the days from `start` until before `end`."""
    return sum((usd for day, usd in daily.items() if start <= day < end), ZERO)


def _seen(
    lines: Mapping[Line, Sequence[Decimal]], ran: Mapping[Line, Doubles], days: int
) -> tuple[Doubles, Forecasts]:
    """Return lines of so many days up to today, shape (n, days), and their expected days.

    A line of nodes goes on as its nodes ran, another as is usual, from which nothing is learnt.
    """
    amounts = {line: np.array(usd, dtype=np.float64) for line, usd in lines.items()}
    since = max((len(usd) for usd in ran.values()), default=0)
    followed = [np.append(amounts.pop(line, np.zeros(days)), usd) for line, usd in ran.items()]
    nodes = np.array(followed).reshape(-1, days + since)
    others = np.array(list(amounts.values())).reshape(-1, days)
    usual = Forecasts.of(others)
    seen = np.append(nodes, np.append(others, usual.days(since), axis=1), axis=0)
    return seen, Forecasts.of(nodes).beside(usual.held(since))


_NOWCAST_BACK = timedelta(days=MOST)
"""How far before the month its bill is looked at."""


Amount = Callable[[Money], Decimal]


def amortised(money: Money) -> Decimal:
    """Return the amount that a forecast is of, where no other is asked for."""
    return money.amortised


@dataclass(frozen=True)
class Part:
    """Name what of the bill is forecast: charges, which of their amounts, and of which month.

    Without one the month that goes on.
    """

    where: Sequence[Filter] = ()
    amount: Amount = amortised
    month: Window | None = None


def forecast_month(
    billing: Tallies, at: datetime, part: Part | None = None, fleet: Fleet | None = None
) -> Nowcast | None:
    """Forecast a month, that of `at` or one after it, from what was billed by then.

    None where too few days have settled. May block.
    """
    part, fleet = part or Part(), fleet or Fleet()
    month = part.month or month_of(at)
    bill, settled = month_bill(billing, month, at, part.where, part.amount)
    if settled is None:
        return None
    paid = block_fees(billing, month) if fleet.blocks else ()
    spreads = part.amount is amortised
    # What is paid at once is in the bill already; amortised it is spread over days to come.
    if spreads and any(row.money.net > 0 for row in paid):
        whole = datetime.combine(bill.whole or settled.date(), time(), UTC)
        remaining = Window(min(max(whole, month.start), month.end), month.end)
        bill = replace(bill, ahead=cost_ahead(fleet.blocks, paid, remaining))

    bookings = [
        replace(booking, usd=booking.cost(month) if spreads else booking.paid(month, settled))
        for booking in fleet.bookings
        if not (booking.is_block and _fees_of(booking.reservation, paid))
    ]
    bill = replace(bill, bookings=[booking for booking in bookings if booking.usd])
    return month_end(replace(bill, lapsing=fleet.lapsing), month, settled, fleet.running)


def block_fees(billing: Tallies, month: Window) -> tuple[Spend, ...]:
    """Return the rows of Capacity Blocks by day and, where the bill tells it, resource; may block.

    Of the whole bill, as a fee carries no tag of those that its hours are for.
    """
    prepaid = [Filter("purchase", (Market.CAPACITY_BLOCK,))]
    bought = Window(month.start - _NOWCAST_BACK, month.end)
    return known_rows(billing, bought, ("day", "resource"), prepaid) or known_rows(
        billing, bought, ("day",), prepaid
    )


def _fees_of(block: Reservation, paid: Sequence[Spend]) -> list[Spend]:
    """Return the fees of a block: those that name it, else of the day of its purchase or start."""
    moments = filter(None, (block.bought_at, block.starts_at))
    days = {f"{moment + n * DAY:%Y-%m-%d}" for moment in moments for n in (-1, 0, 1)}
    return [
        row
        for row in paid
        for name in [row.key.get("resource", "")]
        if row.money.net > 0
        and (block.labels.resource in name or (not name and row.key["day"] in days))
    ]


def cost_ahead(blocks: Sequence[Reservation], paid: Sequence[Spend], remaining: Window) -> Decimal:
    """Return what Capacity Blocks that were paid for cost in the hours that are left.

    A fee is spread over its block's hours, as the bill does; one that the bill leaves on its day is
    not.
    """
    usd = ZERO
    for block in blocks:
        lasts = Window(block.starts_at, block.ends_at or block.starts_at)
        fees = [row.money for row in _fees_of(block, paid) if row.money.amortised < row.money.net]
        if fees and lasts.hours:
            share = Decimal(str(lasts.within(remaining).hours / lasts.hours))
            usd += share * sum(fee.net for fee in fees)
    return cents(usd)


def month_bill(
    billing: Tallies,
    month: Window,
    at: datetime,
    where: Sequence[Filter] = (),
    amount: Amount = amortised,
) -> tuple[MonthBill, datetime | None]:
    """Return what a forecast of a month is made of, and until when the bill has settled.

    May block.
    """
    tally = _by_line(billing, Window(month.start - _NOWCAST_BACK, min(month.end, at)), where)
    settled = settled_by(tally, at)
    if settled is None:
        return MonthBill({}), None
    rows = [(row.key, date.fromisoformat(row.key["day"]), amount(row.money)) for row in tally.rows]
    lines = summed_apart((_line(key), day, usd) for key, day, usd in rows)
    until, start, now = settled.date(), month.start.date(), month_of(at).start.date()
    first = min((day for _, day, _ in rows), default=start)
    through = min(tally.billed_through or at, at)
    whole = _whole(
        summed_apart((key.get("service", ""), day, usd) for key, day, usd in rows), through, until
    )

    # What goes on is parted from what is charged on few days, of which some comes each month.
    rare = {
        line: days
        for line, amounts in lines.items()
        if any(line) and (days := rare_days(amounts, until))
    }
    monthly = summed(
        (day.replace(day=1), usd)
        for line, amounts in lines.items()
        if line not in rare
        for day, usd in amounts.items()
    )
    due: dict[Line, Due] = {}
    for line, days in rare.items():
        # Of a month to come whole ones tell, and what this one began with.
        known = {day: usd for day, usd in days.items() if start == now or day < now}
        fee = due_again(known, now, whole if start == now else now, first, monthly)
        if start > now and now in days:
            fee = fee or Due(days[now])
        # A block that is bought again is one that AWS tells of.
        if fee and line != _BLOCKS:
            due[line] = fee

    # A charge that stands alone and is not due again is a fee, except for the hours of nodes.
    fee_lines = {
        line
        for line, days in rare.items()
        if line in due
        or not (_RUNS_INSTANCE.match(line[0]) or any(day + DAY in days for day in days))
    }
    fees = summed((day, usd) for line in fee_lines for day, usd in lines[line].items())
    lines = {line: amounts for line, amounts in lines.items() if line not in fee_lines}
    if where:
        # A day without a charge of this part cost nothing, where the bill holds the day.
        daily = billing.tally(tally.window, ("day",)).rows
        lines[()] = dict.fromkeys((date.fromisoformat(row.key["day"]) for row in daily), ZERO)
    bill = MonthBill(lines, fees, due, whole=whole, through=through, currency=tally.currency)
    return bill, settled


def _by_line(billing: Tallies, window: Window, where: Sequence[Filter]) -> Tally:
    """Sum a window by day and line, as finely as the bill tells lines apart."""
    for dimensions in _LINES:
        with suppress(WrongInput):
            return billing.tally(window, ("day", *dimensions), where)
    return billing.tally(window, ("day",), where)


def _line(key: Mapping[str, str]) -> Line:
    """Return the line by which a row is projected.

    The nodes of a cluster are one, however each hour of them is paid.
    """
    if key.get("purchase") == Market.CAPACITY_BLOCK:
        return _BLOCKS
    if usage := _RUNS_INSTANCE.search(key.get("usage_type", "")):
        return usage[1], key.get("cluster", "")
    return key.get("service", ""), key.get("usage_type", ""), key.get("cluster", "")


_SLIGHT = Decimal("0.02")
"""Share of a usual day under which a service that is late keeps no day from counting as whole."""
_LATEST = Decimal("0.9")
"""Share of a usual day with which a service's newest day counts as whole."""
_NEWEST = 3
"""Days of which a usual one is made."""


def _whole(services: Mapping[str, Daily], through: datetime, until: date) -> date:
    """Return the day before which every service that is charged daily was billed for whole days.

    That is after the settled days where services have been billed beyond them.
    """
    whole = through.astimezone(UTC).date()
    newest_days = [until - n * DAY for n in range(1, _NEWEST + 1)]
    spent = sum(_sum(amounts, newest_days[-1], until) for amounts in services.values())
    for amounts in services.values():
        usual = [amounts.get(day, ZERO) for day in newest_days]
        if not all(usual) or sum(usual) < _SLIGHT * spent:
            continue
        newest = max(amounts)
        if amounts[newest] >= _LATEST * sum(usual) / _NEWEST:
            newest += DAY
        whole = min(whole, newest)
    return max(whole, until)


def expected_by_provider(billing: Tallies, outlook: Outlook, at: datetime) -> Forecast | None:
    """Return the month's end by the provider, None where it tells none; may block.

    Amortised USD billed before its forecast begins, and the forecast with its own 80 % interval.
    Shown beside a nowcast, never instead.
    """
    month, forecast = month_of(at), outlook.forecast(at)
    if forecast is None:
        return None
    billed = Window(month.start, max(month.start, forecast.window.start))
    spent = billing.tally(billed, ()).total.amortised
    return Forecast(
        month, spent + forecast.mean, spent + forecast.low, spent + forecast.high, forecast.asof
    )


def forecast_of(
    ports: Ports, now: datetime, reading: Reading | None, month: Window | None = None
) -> Nowcast | None:
    """Forecast the month of `now`, or one after it, from its bill; may block.

    And from nodes and Capacity Blocks, where a reading tells of them.
    """
    fleet = fleet_of(ports, reading)
    return forecast_month(ports.world.billing, now, Part(month=month), fleet)
