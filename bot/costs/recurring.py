"""Tell what comes once in every month: fees at their day, and runs of nodes about theirs."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from itertools import pairwise

from bot.model.spend import ZERO
from bot.model.window import DAY

Daily = Mapping[date, Decimal]


@dataclass(frozen=True)
class Due:
    """State a fee that is expected again: in USD, or as a share of what the rest of a month costs."""

    usd: Decimal = ZERO
    share: Decimal = ZERO


def fees_again(lumps: Daily, month: date, first: date, monthly: Daily) -> Iterator[Due]:
    """Yield what a line charged at once in the months before `month`, and not yet in this one.

    A fee of the 1st, which is when AWS bills what is the month's, once is enough; of another day it
    came in both months before. One that is a share of the charges so far grows with them. `monthly`
    is the cost of each month besides fees, `first` the first day of the bill.
    """
    last, earlier = month_before(month), month_before(month_before(month))
    before, previous, current = (
        {day: usd for day, usd in lumps.items() if day.replace(day=1) == start}
        for start in (earlier, last, month)
    )
    numbers = {day.day for day in before}
    for day, usd in previous.items():
        opens = day in (last, first)
        # Support is a share of the month's charges: what changes from month to month is taken so.
        share = ZERO
        if opens and usd not in before.values() and monthly.get(last):
            share = usd / monthly[last]

        # What came again is in the bill, whole or for the charges so far: it is nearer to either.
        if current:
            billed, grown = current.get(month, ZERO), share * monthly.get(month, ZERO)
            if share and billed and abs(billed - grown) < abs(billed - usd):
                yield Due(-billed, share)
        elif share:
            yield Due(share=share)
        elif opens or day.day in numbers:
            yield Due(usd)


def month_before(month: date) -> date:
    """Return the first day of the month before that of a date."""
    return (month.replace(day=1) - DAY).replace(day=1)


_RARE = 0.4
"""A line that is charged on no more of its days comes in runs."""
_APART = range(24, 38)
"""Days from the start of one monthly run to that of the next."""
_LATE = timedelta(days=10)
"""How long a run that did not come is waited for."""


@dataclass(frozen=True)
class Run:
    """State what a line that runs once a month still costs in this month, and one whole run."""

    coming: Decimal
    whole: Decimal


def monthly_run(series: Sequence[Decimal], days: Sequence[date], end: date) -> Run | None:
    """Return what the monthly run of a line still costs before `end`, None where it is none.

    It came once in every whole month that the days hold, about as far apart. One that runs now ends
    when it has cost what the last one did.
    """
    spans = _spans(series)
    if not spans or sum(stop - start for start, stop in spans) > _RARE * len(series):
        return None
    starts = [days[start] for start, _ in spans]
    apart = [(later - day).days for day, later in pairwise(starts)]
    running = spans[-1][1] == len(series)
    if any(n not in _APART for n in apart) or month_before(days[-1] + DAY) < days[0]:
        return None
    # One run alone is a monthly one where the days before it are too few for another.
    if len(spans) == 1 and (running or (starts[0] - days[0]).days >= _APART.stop):
        return None

    costs = [sum(series[start:stop], ZERO) for start, stop in spans]
    if running:
        return Run(max(ZERO, costs[-2] - costs[-1]), costs[-2])
    following = (starts[-1].replace(day=28) + 4 * DAY).replace(day=1)
    last_day = monthrange(following.year, following.month)[1]
    due = following.replace(day=min(starts[-1].day, last_day))
    if due + _LATE < days[-1]:
        return None
    length = spans[-1][1] - spans[-1][0]
    inside = (end - max(due, days[-1] + DAY)).days
    part = Decimal(min(max(inside, 0), length)) / length
    return Run(costs[-1] * part, costs[-1])


def _spans(series: Sequence[Decimal]) -> list[tuple[int, int]]:
    """Return the [start, stop) days of each run; a day without a charge does not end one."""
    spans: list[tuple[int, int]] = []
    for day, usd in enumerate(series):
        if not usd:
            continue
        if spans and day - spans[-1][1] <= 1:
            spans[-1] = (spans[-1][0], day + 1)
        else:
            spans.append((day, day + 1))
    return spans
