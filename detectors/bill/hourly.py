"""Find lines of the bill that left their usual hours since the last settled day.

A burst is told a day before its day is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from bot.model.labels import Labels
from bot.model.policy import Policy
from detectors.arrays import Mask, Numbers, Rows
from detectors.bill.growth import HOURS, Jump
from detectors.bill.jump import allowed, cause_of, never_billed, policy_of, usual_day
from detectors.bill.lines import DAY, HOUR, LEAST_DAYS, BillLines
from detectors.bill.use import used
from detectors.view import View

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
    return [jump for line in lines if (jump := _judge(bill, line, view))]


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


def _judge(bill: BillLines, hours: _HourRange, view: View) -> Jump | None:
    policy, line = policy_of(bill, hours.row, view), bill.lines[hours.row]
    run = _dearest_run(bill.values[hours.row], hours, policy)
    if run is None:
        return None
    start, end = run
    series, first, last = bill.values[hours.row], int(hours.at[start]), int(hours.at[end - 1]) + 1
    cause = cause_of(line, new=hours.new and never_billed(bill, hours.row, first))
    jump = Jump(
        line, cause, bill.at(first), bill.at(last), float(np.nanmean(series[first:last])),
        float(hours.low[start:end].mean()), float(hours.high[start:end].mean()), bill.step, _parts(bill, hours.row, first, last),
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
    """Tell whether the 24 hours up to `end` cost more than every such 24 hours of the two weeks before."""
    before = [
        np.nansum(series[end - 24 * (d + 1) : end - 24 * d])
        for d in range(1, 15)
        if end >= 24 * (d + 1)
    ]
    return bool(np.nansum(series[end - 24 : end]) >= max(before, default=0.0) + least)


def _parts(
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
    """Tell whether busy nodes explain it.

    Where the nodes are not known so far back, the settled day will tell.
    """
    unknown = bool(HOURS.search(jump.where.usage_type)) and jump.since - DAY < view.whole.start
    return unknown or used(jump, bill, view)
