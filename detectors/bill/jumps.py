"""Find jumps of the bill: by the settled day, by the hours since, and of places whose small growths add up."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from bot.model.causes import Cause
from bot.model.labels import Labels
from bot.model.policy import Policy
from detectors.arrays import Mask, Numbers, Rows
from detectors.bill.growth import DAY, HOUR, HOURS, LEAST_DAYS, BillLines, Jump
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
    """Return whether the policy wants to hear of it; `before` = settled days before its first."""
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
    """Return whether a line is new.

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
    """Return whether a line is the fee of a commitment."""
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
    """Return whether its kindred lines together did not grow by as much.

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


DAYS, WEEKS = 7, 4
"""How many same hours are looked back at: of the days before, and of the same weekday."""
_BACK = 48
"""Hours that may hold the burst.

Those after the last settled day, and the day before them, when it may have begun.
"""


@dataclass(frozen=True)
class SettledDays:
    """Hold up to when days have settled, and the usual USD an hour of each of their lines."""

    end: datetime
    usual: Mapping[Labels, float]

    @staticmethod
    def of(days: BillLines) -> SettledDays:
        """Return it for the settled days: the same for every hour until another day has settled."""
        return SettledDays(
            days.end,
            {
                line: usual_day(days.values[i], days.n_steps)[1] / 24
                for i, line in enumerate(days.lines)
            },
        )


def hour_jumps(bill: BillLines, days: SettledDays, view: View) -> list[Jump]:
    """Return the lines with a run of hours out of the usual that the settled `days` do not hold yet.

    A run lasts `spend_jump.hours` and has cost `spend_jump.least` more than usual, and the 24 hours
    at its end more than any such 24 hours of the two weeks before: work that only comes at another
    hour of the day is no burst. A charge by the day is spread over the hours.
    """
    n = bill.n_steps
    if n < LEAST_DAYS * 24 + _BACK or days.end > bill.end:
        return []
    judged = min(
        (days.end - bill.start) // HOUR, n - 1
    )  # what reaches the newest hour goes on, though its day has settled
    at = np.arange(n - _BACK, n)
    low, high = usual_hours(bill.values, at)
    by_day = np.array([days.usual.get(line, 0.0) for line in bill.lines])
    high = np.fmax(high, by_day[:, None])
    over = np.nan_to_num(bill.values[:, at] - high)
    likely = np.flatnonzero(
        (over.clip(0).sum(axis=1) >= 1) & (over[:, max(0, judged - at[0]) :] > 0).any(axis=1)
    )
    lines = (
        _HourRange(int(row), at, low[row], high[row], judged, not by_day[row]) for row in likely
    )
    return [jump for line in lines if (jump := _hourly_judge(bill, line, view))]


@dataclass(frozen=True)
class _HourRange:
    """Hold the newest hours `at` of one line of the bill, with their usual range, each (n_hours,)."""

    row: int
    at: Rows
    low: Numbers
    high: Numbers
    judged: int
    """The first step that no settled day holds, the newest where all are settled."""
    new: bool
    """Whether the settled days never had the line."""


def usual_hours(values: Numbers, at: Rows) -> tuple[Numbers, Numbers]:
    """Return the usual range of the hours `at`, each (n, len(at)).

    By the same hour of the week before, and of four weekdays.

    High is the second highest of a week's days, or of three weeks and more; one day that was odd is
    not usual.
    """
    low, daily = _ranked(values, at, [24 * d for d in range(1, DAYS + 1)])
    _, weekly = _ranked(values, at, [168 * w for w in range(1, WEEKS + 1)])
    return np.nan_to_num(low), np.fmax(np.nan_to_num(daily), np.nan_to_num(weekly))


def _ranked(values: Numbers, at: Rows, back: list[int]) -> tuple[Numbers, Numbers]:
    """Return the middle and the second highest reading so many hours back.

    The highest where two or fewer are known.
    """
    seen = np.stack([np.where(at >= b, values[:, np.maximum(at - b, 0)], np.nan) for b in back])
    n_known = (~np.isnan(seen)).sum(axis=0)
    ranked = np.sort(seen, axis=0)
    top = np.where(n_known >= 3, n_known - 2, np.maximum(n_known - 1, 0))
    return _pick(ranked, n_known // 2 * (n_known > 1)), _pick(ranked, top)


def _pick(ranked: Numbers, rank: Rows) -> Numbers:
    return np.asarray(np.take_along_axis(ranked, rank[None].astype(np.intp), axis=0)[0])


def _hourly_judge(bill: BillLines, hours: _HourRange, view: View) -> Jump | None:
    policy, line = policy_of(bill, hours.row, view), bill.lines[hours.row]
    run = _dearest_run(bill.values[hours.row], hours, policy)
    if run is None:
        return None
    start, end = run
    series, first, last = bill.values[hours.row], int(hours.at[start]), int(hours.at[end - 1]) + 1
    cause = cause_of(line, new=hours.new and never_billed(bill, hours.row, first))
    jump = Jump(
        line, cause, bill.at(first), bill.at(last), float(np.nanmean(series[first:last])),
        float(hours.low[start:end].mean()), float(hours.high[start:end].mean()), bill.step, _hourly_parts(bill, hours.row, first, last),
    )  # fmt: skip
    return (
        jump if allowed(jump, policy, view, first // 24) and not _used(jump, bill, view) else None
    )


def _dearest_run(series: Numbers, hours: _HourRange, policy: Policy) -> tuple[int, int] | None:
    """Return the dearest run of hours out of the usual, half-open.

    None where none lasts, costs and is new enough.
    """
    at, high = hours.at, hours.high
    out = np.nan_to_num(series[at]) > high * (1 + policy.number("spend_jump.above")) + 0.01
    least, needed = policy.number("spend_jump.least"), int(policy.number("spend_jump.hours"))
    dearest: tuple[float, int, int] | None = None
    for start, end in _runs(out):
        cost = float(np.nansum(series[at[start:end]] - high[start:end]))
        if (
            at[end - 1] >= hours.judged
            and end - start >= needed
            and cost >= least
            and _new_day(series, int(at[end - 1]) + 1, least)
        ):
            dearest = max(dearest or (cost, start, end), (cost, start, end))
    return dearest[1:] if dearest else None


def _runs(out: Mask) -> list[tuple[int, int]]:
    """Return the runs of true values, half-open."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], out.astype(np.int8), [0]])))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _new_day(series: Numbers, end: int, least: float) -> bool:
    """Return whether the 24 hours up to `end` cost more than every such 24 hours of the two weeks before."""
    before = [
        np.nansum(series[end - 24 * (d + 1) : end - 24 * d])
        for d in range(1, 15)
        if end >= 24 * (d + 1)
    ]
    return bool(np.nansum(series[end - 24 : end]) >= max(before, default=0.0) + least)


def _hourly_parts(
    bill: BillLines, row: int, first: int, last: int
) -> tuple[tuple[Labels, float, float], ...]:
    rows = np.flatnonzero(bill.line_of == row)
    now = np.nan_to_num(bill.parts[rows, first:last].mean(axis=1))
    days = [
        bill.parts[rows, first - 24 * d : last - 24 * d].mean(axis=1)
        for d in range(1, DAYS + 1)
        if first >= 24 * d
    ]
    usual = np.nan_to_num(np.nanmedian(np.stack(days), axis=0))
    return tuple(
        (bill.things[i], float(n), float(u)) for i, n, u in zip(rows, now, usual, strict=True)
    )


def _used(jump: Jump, bill: BillLines, view: View) -> bool:
    """Return whether busy nodes explain it.

    Where the nodes are not known so far back, the settled day will tell.
    """
    unknown = bool(HOURS.search(jump.where.usage_type)) and jump.since - DAY < view.whole.start
    return unknown or used(jump, bill, view)
