"""Tell what comes once in every month: fees at their day, and runs of nodes about theirs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from bot.model.spend import ZERO
from bot.model.window import DAY

Daily = Mapping[date, Decimal]


@dataclass(frozen=True)
class Due:
    """State what is expected to be charged yet: USD, or a share of what all else costs."""

    usd: Decimal = ZERO
    share: Decimal = ZERO
    unsure: Decimal = ZERO
    """USD by which it differed from month to month."""


_RARE = 0.4
"""A line that is charged on no more of its days comes in runs, or once."""
_RUNS = 2
"""Of a month; what comes more often is a habit of the week."""
_NEAR = 10
"""Days by which a run may begin before or after its day of the month."""
_APART = 31
"""Days from one run to the next."""


def rare_days(amounts: Daily, until: date) -> Daily:
    """Return the days on which a line is charged, none where those are many or of every week."""
    charged = {day: usd for day, usd in amounts.items() if usd}
    known = (until - min(charged, default=until)).days
    runs = sum(not {day - DAY, day - 2 * DAY} & charged.keys() for day in charged)
    is_rare = len(charged) <= max(1, _RARE * known) and runs <= _RUNS * (1 + known / _APART)
    return charged if is_rare else {}


def due_again(charged: Daily, month: date, today: date, first: date, monthly: Daily) -> Due | None:
    """Return what a line that comes once a month costs yet in this one, None where it does not.

    As much as in the month before, where it came about the same day of two months. Of the 1st, when
    AWS bills what is the month's, once is enough, and of a run of days where the bill is too young
    for another. `monthly` is the cost of each month besides such lines, `first` the first day of
    the bill.
    """
    last = month_before(month)
    before, previous, current = (
        {day: usd for day, usd in charged.items() if day.replace(day=1) == start}
        for start in (month_before(last), last, month)
    )
    if not previous:
        return None
    begin, again = min(previous), min(before or current, default=None)
    opens = begin in (last, first)
    alone = len(previous) > 1 and (begin - first).days < _APART
    if not (opens or alone or (again and abs(again.day - begin.day) <= _NEAR)):
        return None

    # Support is a share of the month's charges: what changes from month to month is taken so.
    earlier, whole, billed = (sum(days.values(), ZERO) for days in (before, previous, current))
    if opens and len(previous) == 1 and whole != earlier and monthly.get(last):
        share = whole / monthly[last]
        grown = share * monthly.get(month, ZERO)
        # What came is in the bill, whole or for the charges so far: it is nearer to either.
        is_whole = billed and abs(billed - whole) <= abs(billed - grown)
        return Due() if is_whole else Due(-billed, share)

    # What came already goes on until it has cost as much, or is over but for another of the month.
    if current and max(current) >= today - DAY:
        return Due(max(ZERO, whole - billed))
    late = (today - month).days - _NEAR
    if current:
        late = max(late, begin.day + _NEAR, max(current).day + _NEAR)
    awaited = opens and not current
    usd = sum((usd for day, usd in previous.items() if awaited or day.day > late), ZERO)
    return Due(usd, unsure=abs(whole - earlier) if usd and before else ZERO)


def month_before(month: date) -> date:
    """Return the first day of the month before that of a date."""
    return (month.replace(day=1) - DAY).replace(day=1)
