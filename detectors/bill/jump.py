"""Find jumps of the bill.

Lines that left their usual by the settled day, and places whose many small growths add up.
"""

from __future__ import annotations

import re

import numpy as np

from bot.model.causes import Cause
from bot.model.labels import Labels
from bot.model.policy import Policy
from detectors.arrays import Numbers
from detectors.bill.growth import HOURS, Jump
from detectors.bill.lines import LEAST_DAYS, BillLines
from detectors.bill.use import grew_with_use, used
from detectors.view import View

_ROUTE = re.compile(
    r"NatGateway-Bytes|DataTransfer-Regional|DataTransfer-xAZ|AWS-Out-Bytes|DataTransfer-Out",
    re.IGNORECASE,
)
_FEE = re.compile(r"Savings ?Plan|^(?:\w+-)?(?:EC2SP|ComputeSP):|HeavyUsage", re.IGNORECASE)
_EMPTY = re.compile(r"Unused(?:Box|Ded)", re.IGNORECASE)
_PLACES = (
    ("account", "region", "service"),
    ("account", "service"),
    ("cluster",),
    ("team",),
    ("project",),
    ("account",),
)
"""Places whose growths are added up, the narrowest first."""


def day_jumps(bill: BillLines, view: View) -> list[Jump]:
    """Return the lines whose newest settled day costs more than usual by share and by USD, and the places around them."""
    last = bill.n_steps - 1
    last -= bill.at(last).day == 1  # fees fall on the first of a month: the day before stands
    if last < LEAST_DAYS:
        return []
    judged = [one for row in range(len(bill.lines)) if (one := _judge(bill, row, last, view))]
    return [jump for _, jump, anomalous in judged if anomalous] + _wide(
        bill, [row for row, _, _ in judged], last, view
    )


def policy_of(bill: BillLines, row: int, view: View) -> Policy:
    """Return the policy of a line: that of the tags which all of it shares."""
    if not view.policy.overrides:
        return view.policy
    return view.policy.at(
        Labels.shared(bill.things[i] for i in np.flatnonzero(bill.line_of == row))
    )


def _judge(bill: BillLines, row: int, last: int, view: View) -> tuple[int, Jump, bool] | None:
    """Return a line that is out of its usual, and whether that is an anomaly."""
    policy, series = policy_of(bill, row, view), bill.values[row]
    share, least = policy.number("spend_jump.above"), policy.number("spend_jump.least")
    first = None if np.isnan(series[last]) else _onset(series, last, share, least)
    if first is None:
        return None
    low, high = usual_day(series, first)
    cause = cause_of(bill.lines[row], new=never_billed(bill, row, first))
    parts = _parts(bill, [int(i) for i in np.flatnonzero(bill.line_of == row)], first, last)
    jump = Jump(
        bill.lines[row],
        cause,
        bill.at(first),
        bill.at(last + 1),
        float(series[last]),
        low,
        high,
        bill.step,
        parts,
    )
    anomalous = allowed(jump, policy, view, first) and not (
        _moved(bill, jump, first, last, view) or used(jump, bill, view)
    )
    return row, jump, anomalous


def allowed(jump: Jump, policy: Policy, view: View, before: int) -> bool:
    """Tell whether the policy wants to hear of it; `before` = settled days before its first."""
    if jump.cause is Cause.UNUSED_CAPACITY and view.reading.inventory.reservations:
        return False
    if jump.cause is Cause.SPEND_NEW and (
        before < LEAST_DAYS or jump.extra < policy.number("spend_new.least")
    ):
        return False
    return policy.on(f"{jump.cause}.on")


def cause_of(labels: Labels, *, new: bool) -> Cause:
    """Return the cause that the growth of a line stands for.

    A fee that grows is commitment that usage no longer covers.
    """
    if _ROUTE.search(labels.usage_type):
        return Cause.TRANSFER_ROUTE
    if _FEE.search(labels.usage_type) or _FEE.search(labels.service):
        return Cause.COMMITMENT_UNUSED
    if _EMPTY.search(labels.usage_type):
        return Cause.UNUSED_CAPACITY
    return Cause.SPEND_NEW if new else Cause.SPEND_JUMP


def never_billed(bill: BillLines, row: int, first: int) -> bool:
    """Tell whether a line is new.

    Neither it nor, of an instance type, its hours on another market were billed before.
    """
    hours = HOURS.search(bill.lines[row].usage_type)
    rows = (
        [row]
        if hours is None
        else [i for i, x in enumerate(bill.lines) if _kind(x) == _kind(bill.lines[row])]
    )
    return not (np.nan_to_num(bill.values[rows, :first]) > 0.01).any()


def is_fee(labels: Labels) -> bool:
    """Tell whether a line is the fee of a commitment."""
    return cause_of(labels, new=False) is Cause.COMMITMENT_UNUSED


def _onset(series: Numbers, last: int, share: float, least: float) -> int | None:
    """Return the first of the newest days in a row that are out of the usual of before them.

    None when the last is not.
    """
    first = None
    for day in range(last, max(LEAST_DAYS, last - 10) - 1, -1):
        _, high = usual_day(series, day)
        limit = max(high * (1 + share), high + least)
        if not series[last] > limit or not series[day] > limit:
            break
        first = day
    return first


def usual_day(series: Numbers, day: int) -> tuple[float, float]:
    """Return the usual range of a day in USD.

    The median of the two weeks before, widened by the same weekdays before.
    """
    before = series[max(0, day - 14) : day]
    billed = before[~np.isnan(before)]
    if not len(billed):
        return 0.0, 0.0
    middle = float(np.median(billed))
    weekdays = series[day - 7 :: -7][:4] if day >= 7 else series[:0]
    same = weekdays[~np.isnan(weekdays)]
    high = max(
        middle, float(np.median(same)) if len(same) else 0.0, float(np.quantile(billed, 0.8))
    )
    low = min(middle, float(np.median(same)) if len(same) else middle)
    return low, high


def _parts(
    bill: BillLines, rows: list[int], first: int, last: int
) -> tuple[tuple[Labels, float, float], ...]:
    before = bill.parts[rows, max(0, first - 14) : first]
    usual = (
        np.nanmedian(before, axis=1)
        if before.size and not np.isnan(before).all()
        else np.zeros(len(rows))
    )
    now = bill.parts[rows, last]
    return tuple(
        (bill.things[i], float(n), float(u))
        for i, n, u in zip(rows, np.nan_to_num(now), np.nan_to_num(usual), strict=True)
    )


def _moved(bill: BillLines, jump: Jump, first: int, last: int, view: View) -> bool:
    """Tell whether its kindred lines together did not grow by as much.

    The money only changed its line.
    """
    kind = _kind(jump.where)
    same = [i for i, x in enumerate(bill.lines) if _kind(x) == kind]
    lines = bill.values[same]
    total = np.where(np.isnan(lines).all(axis=0), np.nan, np.nansum(lines, axis=0))
    _, high = usual_day(total, first)
    return bool(
        total[last] - high
        < max(0.5 * (jump.value - jump.high), view.policy.number("spend_jump.least"))
    )


def _kind(line: Labels) -> tuple[str, ...]:
    """Return what money moves within.

    Hours of one type in a region, bytes on their way, or all else of a service.

    Nodes that end in one region neither explain nor hide bytes, volumes or nodes elsewhere.
    """
    if hours := HOURS.search(line.usage_type):
        return line.account, line.region, hours[1]
    return line.account, line.service, "route" if _ROUTE.search(line.usage_type) else ""


def _wide(bill: BillLines, judged: list[int], last: int, view: View) -> list[Jump]:
    """Return the services, tags and accounts that jumped although none of their lines did.

    Many small growths add up.

    The narrowest place that holds most of a growth tells it; what grew with busier nodes of the
    place is their use.
    """
    rest = [
        i
        for i, line in enumerate(bill.line_of)
        if int(line) not in judged and not is_fee(bill.things[i])
    ]
    jumps: list[Jump] = []
    for names in _PLACES:
        places: dict[tuple[str, ...], list[int]] = {}
        for i in rest:
            places.setdefault(tuple(bill.things[i].get(name) for name in names), []).append(i)
        for values, rows in places.items():
            if (
                all(values)
                and len(rows) > 1
                and not any(_covered(one, bill, rows) for one in jumps)
            ):
                one = _add_up(
                    bill, Labels(**dict(zip(names, values, strict=True))), rows, last, view
                )
                jumps += [one] if one else []
    return jumps


def _covered(one: Jump, bill: BillLines, rows: list[int]) -> bool:
    """Return whether most of a place's things stand in a jump already."""
    things = {thing for thing, _, _ in one.parts}
    return 2 * sum(bill.things[i] in things for i in rows) >= len(things)


def _add_up(bill: BillLines, where: Labels, rows: list[int], last: int, view: View) -> Jump | None:
    policy = view.policy.at(where)
    share, least = policy.number("spend_jump.above"), policy.number("spend_jump.least")
    series = bill.parts[rows].sum(axis=0)
    first = (
        None
        if np.isnan(series[last]) or not policy.on("spend_jump.on")
        else _onset(series, last, share, least)
    )
    if first is None:
        return None
    low, high = usual_day(series, first)
    jump = Jump(
        where, Cause.SPEND_JUMP, bill.at(first), bill.at(last + 1), float(series[last]), low, high, bill.step,
        _parts(bill, rows, first, last),
    )  # fmt: skip
    return None if grew_with_use(jump, bill, view) else jump
