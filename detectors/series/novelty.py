"""Measure how far a series leaves everything its history has shown.

Causal, unsupervised, linear in the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import log

import numpy as np

from detectors.arrays import Mask, Numbers


@dataclass(frozen=True)
class SeriesPace:
    """Hold lengths in rows.

    Of an hour, of history, of learning only, of a delay before history, of the rest after an alert.

    A history of `young` rows is trusted half: the shorter, the more often chance exceeds it.
    `delay` keeps the newest rows out of history: a slow rise must not teach history its own first
    steps.
    """

    hour: int
    history: int
    learning: int
    young: int
    delay: int
    rest: int


def beyond(values: Numbers, pace: SeriesPace, rows: int = 1) -> Numbers:
    """Return how far the newest `rows` rows all lie above the highest, and below the lowest, of their history; (2, n) >= 0.

    nan rows are 0: nothing is known of them. So are the first `learning` rows since the first that
    is not nan.
    """
    outside = np.stack(
        [
            side - delayed(highest_before(side, pace.history), pace.delay)
            for side in (values, -values)
        ]
    )
    held = outside.copy()
    for age in range(1, rows):
        held[:, age:] = np.minimum(held[:, age:], outside[:, :-age])
    held[:, : int(np.argmax(~np.isnan(values))) + pace.learning] = 0
    return np.asarray(np.maximum(np.nan_to_num(held, nan=0.0), 0))


def excess(outside: Numbers, needed: Numbers) -> Numbers:
    """Return the larger side of what is beyond history (2, n) in multiples of `needed`, (2, n) or (n,); (n,), 0 where unknown."""
    return np.asarray(np.nan_to_num(outside / needed, nan=0.0, posinf=0.0).max(axis=0))


def flat_rows(values: Numbers, least: int) -> Numbers:
    """Return 1 at the row where a series has not moved for `least` rows and twice as long as ever before, else 0; (n,)."""
    filled = forward_fill(values)
    still = run_lengths(np.concatenate([[False], filled[1:] == filled[:-1]]))
    before = np.concatenate([[0.0], np.maximum.accumulate(_finished(still))[:-1]])
    return np.asarray(still == np.maximum(least, 2 * before), dtype=np.float64)


def speak_then_rest(scores: Numbers, threshold: float, pace: SeriesPace) -> Mask:
    """Return the rows that speak.

    At or over the threshold, with none that spoke `rest` rows and none so high an hour before.

    An alert that goes on has been raised already.
    """
    flags = np.zeros(len(scores), dtype=bool)
    silent_until = 0
    for row in np.flatnonzero(scores >= threshold).tolist():
        if row >= silent_until:
            flags[row] = True
            silent_until = row + pace.rest
        silent_until = max(silent_until, row + pace.hour)
    return flags


def forward_fill(values: Numbers) -> Numbers:
    """Return the values with each nan replaced by the last reading before it.

    Nan only before the first.
    """
    at = np.where(np.isnan(values), -1, np.arange(len(values)))
    last = np.maximum.accumulate(at)
    return np.where(last >= 0, values[np.maximum(last, 0)], np.nan)


def delayed(values: Numbers, rows: int) -> Numbers:
    """Return the values as they stood `rows` rows ago; nan before there were any."""
    kept = max(0, len(values) - rows)
    return np.concatenate([np.full(len(values) - kept, np.nan), values[:kept]])


def trailing_mean(values: Numbers, length: int) -> Numbers:
    """Return the mean of the newest `length` rows at each row.

    Nan before there are as many since the first reading.
    """
    first = int(np.argmax(~np.isnan(values)))
    shifted = np.nan_to_num(values) - values[first]
    total = np.cumsum(shifted)
    mean: Numbers = (total - np.nan_to_num(delayed(total, length))) / length + values[first]
    mean[: first + length - 1] = np.nan
    return mean


def highest_before(values: Numbers, length: int) -> Numbers:
    """Return the largest of the `length` rows before each row (not itself), nan at the first.

    O(n) by blocks (van Herk).
    """
    n = len(values)
    whole = -(-n // length) * length
    padded = np.full(whole, -np.inf)
    padded[:n] = np.where(np.isnan(values), -np.inf, values)
    blocks = padded.reshape(-1, length)
    ahead = np.maximum.accumulate(blocks, axis=1).ravel()
    behind = np.maximum.accumulate(blocks[:, ::-1], axis=1)[:, ::-1].ravel()
    at = np.arange(n)
    start = at - length
    highest = np.maximum(ahead[at - 1], np.where(start >= 0, behind[np.maximum(start, 0)], -np.inf))
    highest[start < 0] = np.maximum.accumulate(padded)[at[start < 0] - 1]
    highest[0] = -np.inf
    return np.where(np.isinf(highest), np.nan, highest)


def run_lengths(holds: Mask) -> Numbers:
    """Return for each row how many rows up to it hold without a break."""
    at = np.arange(len(holds))
    breaks = np.maximum.accumulate(np.where(holds, -1, at))
    return np.asarray(at - breaks, dtype=np.float64)


def _finished(lengths: Numbers) -> Numbers:
    """Return at each row the length of the run that has just ended before it, else 0."""
    ended = np.concatenate([[0.0], np.where(lengths[1:] == 0, lengths[:-1], 0.0)])
    return np.asarray(ended)


LEAST_KNOWN = 8
"""Readings below which nothing is said of a spread."""
EXTREMES = 20
"""Of the highest hours, to tell how a tail thins out."""


def spreads(values: Numbers, pace: SeriesPace, asked: Mask | None = None) -> Numbers:
    """Return the spread of history at each row, learnt anew every half day.

    (n,), nan before the first time.

    5th to 95th percentile, but at least a third of all between lowest and highest (a series of rare
    bursts has no other spread) and a thousandth of the level (a constant has none at all). Half
    days without a row that is `asked` for, which are most, are left out and nan.
    """
    spread = np.full(len(values), np.nan)
    for rows, part in _histories(values, pace, asked):
        readings = part[~np.isnan(part)]
        if len(readings) >= LEAST_KNOWN:
            low, high = np.quantile(readings, (0.05, 0.95))
            least = 1e-3 * max(abs(float(low)), abs(float(high))) + 1e-12
            spread[rows] = max(float(high - low), float(np.ptp(readings)) / 3, least)
    return spread


def tails(values: Numbers, pace: SeriesPace, asked: Mask | None = None) -> Numbers:
    """Return how slowly the highest and the lowest hours of history thin out.

    (2, n), nan where too few are known.

    The scale of an exponential tail over the 21st highest hour, by the median: one extreme more or
    less changes little. Coles, "An introduction to statistical modeling of extreme values", 2001,
    chapter 4.
    """
    scales = np.full((2, len(values)), np.nan)
    for rows, part in _histories(values, pace, asked):
        hours = part[len(part) % pace.hour :].reshape(-1, pace.hour)
        for side, readings in enumerate((hours, -hours)):
            highest = np.sort(np.where(np.isnan(readings), -np.inf, readings).max(axis=1))[::-1][
                : EXTREMES + 1
            ]
            if len(highest) > EXTREMES and np.isfinite(highest[-1]):
                scales[side, rows] = np.median(highest[:-1] - highest[-1]) / log(2)
    return scales


def youth(values: Numbers, pace: SeriesPace) -> Numbers:
    """Return the factor by which an excess over so short a history must be larger, 2 where it is `young` rows long; (n,)."""
    return np.asarray(1 + (pace.young / np.maximum(np.cumsum(~np.isnan(values)), 1)) ** 1.5)


def _histories(
    values: Numbers, pace: SeriesPace, asked: Mask | None
) -> Iterator[tuple[slice, Numbers]]:
    """Yield each half day's rows that are asked for, and the history before the first of them.

    The first by doubling parts.
    """
    every = max(1, 12 * pace.hour)
    parts = (every >> halvings for halvings in range(every.bit_length()))
    starts = sorted(part for part in parts if part >= min(every, pace.learning)) + list(
        range(2 * every, len(values), every)
    )
    for row, end in zip(starts, [*starts[1:], len(values)], strict=True):
        if asked is None or asked[row:end].any():
            yield slice(row, end), values[max(0, row - pace.history) : row]
