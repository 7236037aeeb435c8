"""Find jumps of the bill: by the settled day, by the hours since, and of small growths together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime

import numpy as np

from bot.model.causes import Cause
from bot.model.codec import by_key
from bot.model.labels import Labels
from bot.model.policy import Policy
from detectors.bill.growth import (
    CENT,
    LEAST_DAYS,
    LOOKBACK,
    BillLines,
    Jump,
    Parts,
    type_in,
)
from detectors.bill.use import grew_with_use, unexplained
from detectors.numbers import DAY, Numbers, Rows, count, runs_of, trailing
from detectors.view import View

ROUTES = (
    "NatGateway-Bytes",
    "DataTransfer-Regional|DataTransfer-xAZ",
    "AWS-Out-Bytes|DataTransfer-Out",
)
"""Usage types of a costly route, parallel to what `transfer_route` suggests against each."""
_ROUTE = re.compile("|".join(ROUTES), re.IGNORECASE)
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
DAYS = 7
"""How many same hours of the days before are looked back at."""
WEEKS = count("jumps.WEEKS")
_BACK = count("jumps.BACK")


def day_jumps(bill: BillLines, view: View) -> list[Jump]:
    """Return the lines whose newest settled day costs more than usual, and the places around them.

    It is more by share and by USD.
    """
    last = bill.n_steps - 1
    last -= bill.at(last).day == 1  # fees fall on the first of a month: the day before stands
    if last < LEAST_DAYS:
        return []
    jumps, judged = [], set()
    for row, line in enumerate(bill.lines):
        policy, series = policy_of(bill, row, view), bill.values[row]
        first = _onset(series, last, policy)
        if first is None:
            continue
        judged.add(row)
        cause = cause_of(line, new=never_billed(bill, row, first))
        jump = _day_jump(bill, bill.rows_of(row), line, cause, series, first, last)
        if not allowed(jump, policy, view, first):
            continue

        # The money may only have changed its line: its kindred together did not grow by as much.
        lines = bill.values[_like(bill, line)]
        total = np.where(np.isnan(lines).all(axis=0), np.nan, np.nansum(lines, axis=0))
        _, high = usual_day(total, first)
        least = view.policy.number("spend_jump.least")
        moved = total[last] - high < max(0.5 * (jump.value - jump.high), least)
        remaining = None if moved else unexplained(jump, bill, view)
        jumps += [remaining] if remaining else []
    return [*jumps, *_wide_jumps(bill, judged, last, view)]


def _day_jump(
    bill: BillLines,
    rows: Rows,
    where: Labels,
    cause: Cause,
    series: Numbers,
    first: int,
    last: int,
) -> Jump:
    """Return the jump of the `series` of the things at `rows` from its day `first` to `last`."""
    before, usual = bill.parts[rows, :first][:, -LOOKBACK:], np.zeros(len(rows))
    if not np.isnan(before).all():
        usual = np.nan_to_num(np.nanmedian(before, axis=1))
    parts = _parts_of(bill, rows, bill.parts[rows, last], usual)
    low, high = usual_day(series, first)
    value, until = float(series[last]), bill.at(last + 1)
    return Jump(where, cause, bill.at(first), until, value, low, high, bill.step, parts)


def policy_of(bill: BillLines, row: int, view: View) -> Policy:
    """Return the policy of a line: that of the tags which all of it shares."""
    if not view.policy.overrides:
        return view.policy
    return view.policy.at(Labels.shared(bill.things[i] for i in bill.rows_of(row)))


def allowed(jump: Jump, policy: Policy, view: View, before: int) -> bool:
    """Return whether the policy wants to hear of it; `before` = settled days before its first."""
    if jump.cause is Cause.UNUSED_CAPACITY and view.reading.inventory.reservations:
        return False
    little = before < LEAST_DAYS or jump.extra < policy.number("spend_new.least")
    if jump.cause is Cause.SPEND_NEW and little:
        return False
    return policy.on(f"{jump.cause}.on")


def cause_of(labels: Labels, *, new: bool = False) -> Cause:
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
    line = bill.lines[row]
    rows = _like(bill, line) if type_in(line.usage_type) else [row]
    return not (np.nan_to_num(bill.values[rows, :first]) > CENT).any()


def is_fee(labels: Labels) -> bool:
    """Return whether a line is the fee of a commitment."""
    return cause_of(labels) is Cause.COMMITMENT_UNUSED


def _onset(series: Numbers, last: int, policy: Policy) -> int | None:
    """Return the first of the newest days in a row that are out of the usual of before them.

    None when the last is not.
    """
    share, least = policy.number("spend_jump.above"), policy.number("spend_jump.least")
    first = None
    for day in range(last, max(LEAST_DAYS, last - count("jumps.ONSET")) - 1, -1):
        _, high = usual_day(series, day)
        limit = max(high * (1 + share), high + least)
        if not (series[last] > limit and series[day] > limit):
            break
        first = day
    return first


def usual_day(series: Numbers, day: int) -> tuple[float, float]:
    """Return the usual range of a day in USD.

    The median of the two weeks before, widened by the same weekdays before.
    """
    before = series[:day][-LOOKBACK:]
    billed = before[~np.isnan(before)]
    if not len(billed):
        return 0.0, 0.0
    middle = float(np.median(billed))
    weekdays = series[day - 7 :: -7][:WEEKS] if day >= 7 else series[:0]
    weekdays = weekdays[~np.isnan(weekdays)]
    high = float(np.quantile(billed, 0.8))
    if not len(weekdays):
        return middle, max(middle, 0.0, high)
    same = float(np.median(weekdays))
    return min(middle, same), max(middle, same, high)


def _parts_of(bill: BillLines, rows: Rows, now: Numbers, usual: Numbers) -> Parts:
    """Return the things at some rows, each with USD a step now and usually."""
    things = (bill.things[i] for i in rows)
    return tuple(zip(things, np.nan_to_num(now).tolist(), usual.tolist(), strict=True))


def _kind(line: Labels) -> tuple[str, ...]:
    """Return the family of lines that money moves within.

    Hours of one type in a region, bytes on their way, or all else of a service. Nodes that end in
    one region neither explain nor hide bytes, volumes or nodes elsewhere.
    """
    if kind := type_in(line.usage_type):
        return line.account, line.region, kind
    return line.account, line.service, "route" if _ROUTE.search(line.usage_type) else ""


def _like(bill: BillLines, line: Labels) -> list[int]:
    """Return the rows of the lines of one family with a line, itself included."""
    kind = _kind(line)
    return [i for i, x in enumerate(bill.lines) if _kind(x) == kind]


def _wide_jumps(bill: BillLines, judged: set[int], last: int, view: View) -> list[Jump]:
    """Return the services, tags and accounts that jumped although none of their lines did.

    Many small growths add up. The narrowest place that holds most of a growth has it; a growth with
    busier nodes of the place is their use.
    """
    unjudged = [
        i
        for i, line in enumerate(bill.line_of.tolist())
        if line not in judged and not is_fee(bill.things[i])
    ]
    jumps: list[Jump] = []
    for names in _PLACES:
        places = by_key(
            (bill.things[i].only(names), i)
            for i in unjudged
            if all(bill.things[i].get(name) for name in names)
        )
        for where, rows in places.items():
            policy, series = view.policy.at(where), bill.parts[rows].sum(axis=0)
            things = {bill.things[i] for i in rows}
            # Its things may be most of those of a jump already.
            covered = any(2 * len(things & jump.things) >= len(jump.things) for jump in jumps)
            if len(rows) < 2 or not policy.on("spend_jump.on") or covered:
                continue
            first = _onset(series, last, policy)
            if first is not None:
                at = np.array(rows, dtype=np.intp)
                jump = _day_jump(bill, at, where, Cause.SPEND_JUMP, series, first, last)
                jumps += [] if grew_with_use(jump, bill, view) else [jump]
    return jumps


def usual_by_hour(days: BillLines) -> dict[Labels, float]:
    """Return the usual USD an hour of each line over the settled days."""
    usual = (usual_day(values, days.n_steps)[1] / 24 for values in days.values)
    return dict(zip(days.lines, usual, strict=True))


def hour_jumps(
    bill: BillLines, settled: datetime, usual: Mapping[Labels, float], view: View
) -> list[Jump]:
    """Return the lines with a run of hours out of the usual that no settled day holds yet.

    A run lasts `spend_jump.hours` and has cost `spend_jump.least` more than usual, and the 24 hours
    at its end more than any such 24 hours of the two weeks before: work that only comes at another
    hour of the day is no burst. A charge by the day is spread over the hours: `usual` are USD an
    hour of the days, which are `settled` up to then.
    """
    n = bill.n_steps
    if n < LEAST_DAYS * 24 + _BACK or settled > bill.end:
        return []
    # A run that reaches the newest hour goes on, though its day has settled.
    judged = bill.index(settled)
    hours = np.arange(n - _BACK, n)
    low, high = usual_hours(bill.values, hours)
    by_day = np.array([usual.get(line, 0.0) for line in bill.lines])
    high = np.fmax(high, by_day[:, None])
    over = np.nan_to_num(bill.values[:, hours] - high)
    jumps = []
    for row in np.flatnonzero(over.clip(0).sum(axis=1) >= 1).tolist():
        policy, line, series = policy_of(bill, row, view), bill.lines[row], bill.values[row]
        runs = list(_runs(series, hours, high[row], judged, policy))
        if not runs:
            continue
        _, start, end = max(runs)
        first, last = int(hours[start]), int(hours[end - 1]) + 1
        # What began before the hours that are looked at is as new as it was then.
        began = first - int(trailing(np.nan_to_num(bill.values[[row], :first]) > CENT)[0])
        jump = Jump(
            line,
            cause_of(line, new=not by_day[row] and never_billed(bill, row, began)),
            bill.at(first),
            bill.at(last),
            value=float(np.nanmean(series[first:last])),
            low=float(low[row, start:end].mean()),
            high=float(high[row, start:end].mean()),
            step=bill.step,
            parts=_hourly_parts(bill, row, first, last),
        )
        # Where the nodes are not known so far back, the settled day says whether busy nodes
        # explain it.
        unknown = type_in(line.usage_type) and jump.since - DAY < view.whole.start
        if allowed(jump, policy, view, first // 24) and not unknown:
            remaining = unexplained(jump, bill, view)
            jumps += [remaining] if remaining else []
    return jumps


def usual_hours(values: Numbers, at: Rows) -> tuple[Numbers, Numbers]:
    """Return the usual range of the hours `at`, each (n, len(at)).

    By the same hour of the week before, and of four weekdays. High is the second highest of a
    week's days, or of three weeks and more; one day that was odd is not usual.
    """

    def ranked(back: list[int]) -> tuple[Numbers, Numbers]:
        """Return the middle and the second highest reading so many hours back.

        The highest where two or fewer are known.
        """
        stacked = np.stack(
            [np.where(at >= b, values[:, np.maximum(at - b, 0)], np.nan) for b in back]
        )
        n_known = (~np.isnan(stacked)).sum(axis=0)
        top = np.where(n_known >= 3, n_known - 2, np.maximum(n_known - 1, 0))
        ranks = np.stack([n_known // 2, top])
        middle, high = np.take_along_axis(np.sort(stacked, axis=0), ranks, axis=0)
        return middle, high

    low, daily = ranked([24 * d for d in range(1, DAYS + 1)])
    _, weekly = ranked([24 * DAYS * w for w in range(1, WEEKS + 1)])
    return np.nan_to_num(low), np.fmax(np.nan_to_num(daily), np.nan_to_num(weekly))


def _runs(
    series: Numbers, at: Rows, high: Numbers, judged: int, policy: Policy
) -> Iterator[tuple[float, int, int]]:
    """Yield the runs of hours out of the usual that last, cost and are new enough.

    Each with USD over the usual, and half-open as places in `at`; `judged` is the first step that
    no settled day holds.
    """
    least, needed = policy.number("spend_jump.least"), int(policy.number("spend_jump.hours"))
    out = np.nan_to_num(series[at]) > high * (1 + policy.number("spend_jump.above")) + CENT
    _, starts, ends = runs_of(out[None, :])
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        cost = float(np.nansum(series[at[start:end]] - high[start:end]))
        if at[end - 1] < judged or end - start < needed or cost < least:
            continue

        # The 24 hours up to its end cost more than any such 24 hours of the two weeks before.
        stop = int(at[end - 1]) + 1
        before = [
            np.nansum(series[stop - 24 * (d + 1) : stop - 24 * d])
            for d in range(1, LOOKBACK + 1)
            if stop >= 24 * (d + 1)
        ]
        if np.nansum(series[stop - 24 : stop]) >= max(before, default=0.0) + least:
            yield cost, start, end


def _hourly_parts(bill: BillLines, row: int, first: int, last: int) -> Parts:
    """Return the things of a line, each with USD an hour now and at these hours of past days."""
    rows = bill.rows_of(row)
    days = [
        bill.parts[rows, first - 24 * d : last - 24 * d].mean(axis=1) for d in range(1, DAYS + 1)
    ]
    usual = np.nan_to_num(np.nanmedian(np.stack(days), axis=0))
    return _parts_of(bill, rows, bill.parts[rows, first:last].mean(axis=1), usual)
