"""Name the arrays of numbers that detectors pass to each other, and measure how long states last.

A docstring states the shape of each array; n is the number of nodes. `constants.csv` holds the
numbers that are neither set nor learnt. All are put in words here.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bot.model.frame import Floats, Mask, runs_of
from bot.model.window import DAY, HOUR, WEEK, duration_text

__all__ = [
    "CONSTANTS",
    "DAY",
    "HOUR",
    "LISTED",
    "NAMED",
    "WEEK",
    "Constant",
    "Counts",
    "Floats",
    "Mask",
    "Numbers",
    "Rows",
    "bridge",
    "cadence_of",
    "close_gaps",
    "count",
    "drop_singles",
    "duration",
    "gaps_up_to",
    "lasted",
    "lately",
    "mean_of",
    "mean_where_read",
    "middle_of",
    "narrowed",
    "newest_of",
    "number",
    "percent",
    "rate",
    "runs_of",
    "seconds",
    "seen_within",
    "share_before",
    "since_last",
    "size",
    "span",
    "summed",
    "sustained",
    "trailing",
    "volume_rate",
]

Numbers = npt.NDArray[np.float64]
"""Thresholds, sums, scores: computed, not read."""
Counts = npt.NDArray[np.intp]
"""Numbers of steps or of things."""
Rows = npt.NDArray[np.intp]
"""Positions along an axis: rows of nodes, or steps."""


def mean_of(values: Floats) -> float:
    """Return the mean of the readings, 0 where there is none."""
    return float(np.nanmean(values)) if np.isfinite(values).any() else 0.0


def mean_where_read(values: Floats, axis: int) -> Floats:
    """Return the mean of the readings along an axis, nan where there is none."""
    reported = ~np.isnan(values)
    total, count = np.where(reported, values, 0).sum(axis=axis), reported.sum(axis=axis)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan).astype(np.float32)


def middle_of(values: npt.NDArray[np.floating]) -> float:
    """Return the median of the finite values, nan where there are none."""
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if len(finite) else float("nan")


def narrowed(mask: Mask, condition: Callable[[], Mask]) -> Mask:
    """Return where a mask and a condition hold, (n,).

    The condition is worked out only where the mask holds anywhere, as at few ticks.
    """
    return mask & condition() if mask.any() else mask


def summed(values: npt.NDArray[np.generic], at: Rows, n: int) -> Numbers:
    """Return the rows of `values`, (k, m), added up where `at`, (k,), puts each of them, (n, m).

    Ten times `np.add.at`.
    """
    total = np.zeros((n, values.shape[1]))
    if len(at):
        order = at.argsort(kind="stable")
        placed = at[order]
        first = np.flatnonzero(np.append(True, placed[1:] != placed[:-1]))
        total[placed[first]] = np.add.reduceat(values[order], first, axis=0, dtype=np.float64)
    return total


def placed(values: npt.NDArray[Any], rows: Rows, n: int, none: float = 0) -> npt.NDArray[Any]:
    """Return the values of the nodes at `rows` among those of all `n`, which else have `none`."""
    whole = np.full(n, none, dtype=values.dtype)
    whole[rows] = values
    return whole


def newest_of(n_steps: int, steps: npt.NDArray[np.number]) -> Mask:
    """Return which of `n_steps` are the newest `steps`, (n,), of each row, (n, n_steps)."""
    return np.asarray(np.arange(n_steps) >= (n_steps - steps)[:, None])


def newest_read(values: Floats) -> Floats:
    """Return the newest reading of each row, (n, n_steps) -> (n,); nan where there is none."""
    if not values.shape[1]:
        return np.full(len(values), np.nan, dtype=np.float32)
    last = np.where(np.isnan(values), -1, np.arange(values.shape[1])).max(axis=1)
    return np.asarray(values[np.arange(len(values)), last])


def trailing(holds: Mask, unknown: Mask | None = None) -> Counts:
    """Return how many steps, up to and with the last, a state has held, (n, n_steps) -> (n,).

    Steps that are `unknown` neither end a streak nor begin one: a streak starts at the first step
    that surely holds.
    """
    n_steps = holds.shape[1]
    lasted: Counts = np.zeros(len(holds), dtype=np.intp)
    may_hold = holds[:, -1:] if unknown is None else holds[:, -1:] | unknown[:, -1:]
    rows = may_hold.nonzero()[0]
    if not len(rows):
        return lasted

    # Most often few rows hold at the end, or all of them: then nothing is copied.
    if len(rows) < len(holds):
        holds, unknown = holds[rows], None if unknown is None else unknown[rows]
    breaks = ~holds if unknown is None else ~(holds | unknown)
    length = np.where(breaks.any(axis=1), breaks[:, ::-1].argmax(axis=1), n_steps)
    if unknown is not None:
        inside = holds & newest_of(n_steps, length)
        length = np.where(inside.any(axis=1), n_steps - inside.argmax(axis=1), 0)
    lasted[rows] = length
    return lasted


def seen_within(holds: Mask, steps: Counts) -> Counts:
    """Return in how many of the last `steps` of each row a state was seen, (n,)."""
    return np.asarray((holds & newest_of(holds.shape[1], steps)).sum(axis=1), dtype=np.intp)


def gaps_up_to(unknown: Mask, steps: int) -> Mask:
    """Return the gaps of up to `steps`, and the one that still goes on, (n, n_steps).

    A longer one parts the state before it from the state after it.
    """
    if not unknown.any():
        return unknown
    goes_on = newest_of(unknown.shape[1], since_last(~unknown))
    return np.asarray(unknown & (~sustained(unknown, steps + 1) | goes_on))


def cadence_of(work: Floats | Numbers, most: int) -> Counts:
    """Return in how many steps each row is read once, at `most` so many, (n, n_steps) -> (n,).

    One reading fills all of them with the same value. It is learnt from readings of work.
    """
    begins = np.ones(work.shape, dtype=bool)
    begins[:, 1:] = work[:, 1:] != work[:, :-1]
    readings = begins & (work > 0)
    cadence, count = np.ones(len(work), dtype=np.intp), readings.sum(axis=1)
    for steps in range(2, min(most, work.shape[1] - 1) + 1):
        readings[:, : 1 - steps] &= ~begins[:, steps - 1 :]
        readings[:, 1 - steps :] = False
        cadence[(count > 0) & (2 * readings.sum(axis=1) > count)] = steps
    return cadence


def bridge(holds: Mask, gap: Mask) -> Mask:
    """Return a state that also holds in the gaps that follow a step of it, (n, n_steps)."""
    if not gap.any():
        return holds
    last_read = np.maximum.accumulate(np.where(gap, 0, np.arange(holds.shape[1])), axis=1)
    return np.asarray(np.take_along_axis(holds, last_read, axis=1))


def lately(holds: Mask, steps: int) -> Mask:
    """Return where a state held in the step or in one of the `steps` before it, (n, n_steps)."""
    spread = holds.copy()
    for ago in range(1, min(steps, holds.shape[1] - 1) + 1):
        spread[:, ago:] |= holds[:, :-ago]
    return spread


def since_last(holds: Mask) -> Counts:
    """Return how many steps ago a state last held, (n, n_steps) -> (n,).

    0 = in the last step, n_steps = never.
    """
    n_steps = holds.shape[1]
    if not n_steps:
        return np.zeros(holds.shape[0], dtype=np.intp)
    return np.asarray(np.where(holds.any(axis=1), holds[:, ::-1].argmax(axis=1), n_steps))


def close_gaps(holds: Mask) -> Mask:
    """Fill single steps between two that hold, so that one noisy reading ends no streak."""
    filled = holds.copy()
    filled[:, 1:-1] |= holds[:, :-2] & holds[:, 2:]
    return filled


def drop_singles(holds: Mask) -> Mask:
    """Clear steps that hold alone, so that one noisy reading begins nothing."""
    paired = np.zeros_like(holds)
    paired[:, 1:] |= holds[:, 1:] & holds[:, :-1]
    paired[:, :-1] |= holds[:, 1:] & holds[:, :-1]
    return paired


def sustained(holds: Mask, steps: int) -> Mask:
    """Return the streaks of `steps` or more in a row, (n, n_steps)."""
    n_steps = holds.shape[1]
    if steps > n_steps or not holds.any():
        return np.zeros_like(holds)
    whole = np.logical_and.reduce([holds[:, i : n_steps - steps + 1 + i] for i in range(steps)])
    streaks = np.zeros_like(holds)
    for i in range(steps):
        streaks[:, i : n_steps - steps + 1 + i] |= whole
    return streaks


def share_before(holds: Mask, known: Mask, steps: Counts, length: int) -> Numbers:
    """Return the share of known steps that hold in the `length` steps before a streak, (n,).

    The streak is the last `steps`, (n,); nan = no step before it is known.
    """
    start, step = (holds.shape[1] - steps)[:, None], np.arange(holds.shape[1])
    before = (step < start) & (step >= start - length) & known
    count = before.sum(axis=1)
    return np.where(count > 0, (holds & before).sum(axis=1) / np.maximum(count, 1), np.nan)


class Constant(NamedTuple):
    """Hold one row of the table; a length of time is written with its unit."""

    name: str
    value: str
    meaning: str
    source: str


_TEXT = (files("detectors") / "constants.csv").read_text(encoding="utf-8")
CONSTANTS: Mapping[str, Constant] = {
    row["name"]: Constant(**row) for row in csv.DictReader(_TEXT.splitlines())
}


@cache
def number(name: str) -> float:
    """Return a share, factor or level."""
    return float(CONSTANTS[name].value)


@cache
def count(name: str) -> int:
    """Return a number of things."""
    return int(CONSTANTS[name].value)


@cache
def duration(name: str) -> timedelta:
    """Return a length of time."""
    amount, unit = CONSTANTS[name].value.split()
    return timedelta(**{unit: float(amount)})


NAMED = count("words.NAMED")
LISTED = count("words.LISTED")


def percent(ratio: float) -> str:
    """Read as `20 %`."""
    return f"{100 * ratio:.0f} %"


def span(low: float, high: float) -> str:
    """Read as `85-95 %`."""
    return (
        percent(low)
        if round(100 * low) == round(100 * high)
        else f"{100 * low:.0f}-{100 * high:.0f} %"
    )


def lasted(length: timedelta) -> str:
    """Write how long something has lasted, to the nearest minute.

    `25 min`, `1 h 10 min` or `3 d 4 h`.
    """
    return duration_text(timedelta(minutes=round(length.total_seconds() / 60)))


def size(bytes_: float) -> str:
    """Read as `410 GiB` or `3.2 GiB`."""
    gib = bytes_ / 2**30
    return f"{gib:,.0f} GiB" if gib >= 10 else f"{gib:.1f} GiB"


def rate(bytes_per_second: float) -> str:
    """Read as `320 Gbps`, `1.9 Gbps` or `2 Mbps`."""
    gbps = bytes_per_second * 8 / 1e9
    if gbps < 0.1:
        return f"{1000 * gbps:.0f} Mbps"
    return f"{gbps:,.0f} Gbps" if gbps >= 10 else f"{gbps:.1f} Gbps"


def volume_rate(used: float, of: float) -> str:
    """Read as `1.9 of 2.0 GB/s` or `90 of 240 MB/s`.

    What is used of a limit, both in bytes a second.
    """
    if of >= 1e9:
        return f"{used / 1e9:,.1f} of {of / 1e9:,.1f} GB/s"
    return f"{used / 1e6:,.0f} of {of / 1e6:,.0f} MB/s"


def seconds(length: float) -> str:
    """Read as `1.4 s` or `46 ms`."""
    return f"{length:.2g} s" if length >= 0.1 else f"{1000 * length:.2g} ms"
