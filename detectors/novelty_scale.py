"""Say how far is far for a series: its spread, how its extremes thin out, and how short its history still is."""

from __future__ import annotations

from collections.abc import Iterator
from math import log

import numpy as np

from detectors.novelty import Pace, Values

LEAST_KNOWN = 8
"""Readings below which nothing is said of a spread."""
EXTREMES = 20
"""Of the highest hours, to tell how a tail thins out."""


def spreads(values: Values, pace: Pace) -> Values:
    """Return the spread of history at each row, learnt anew every half day; (n,), nan before the first time.

    5th to 95th percentile, but at least a third of all between lowest and highest (a series of rare bursts has no other
    spread) and a thousandth of the level (a constant has none at all).
    """
    found = np.full(len(values), np.nan)
    for rows, part in _histories(values, pace):
        known = part[~np.isnan(part)]
        if len(known) >= LEAST_KNOWN:
            low, high = np.quantile(known, (0.05, 0.95))
            least = 1e-3 * max(abs(float(low)), abs(float(high))) + 1e-12
            found[rows] = max(float(high - low), float(np.ptp(known)) / 3, least)
    return found


def tails(values: Values, pace: Pace) -> Values:
    """Return how slowly the highest and the lowest hours of history thin out; (2, n), nan where too few are known.

    The scale of an exponential tail over the 21st highest hour, by the median: one extreme more or less changes little.
    Coles, "An introduction to statistical modeling of extreme values", 2001, chapter 4.
    """
    found = np.full((2, len(values)), np.nan)
    for rows, part in _histories(values, pace):
        hours = part[len(part) % pace.hour :].reshape(-1, pace.hour)
        for side, readings in enumerate((hours, -hours)):
            highest = np.sort(np.where(np.isnan(readings), -np.inf, readings).max(axis=1))[::-1][: EXTREMES + 1]
            if len(highest) > EXTREMES and np.isfinite(highest[-1]):
                found[side, rows] = np.median(highest[:-1] - highest[-1]) / log(2)
    return found


def youth(values: Values, pace: Pace) -> Values:
    """Return how many times more is asked of what exceeds so short a history, 2 where it is `young` rows long; (n,)."""
    return np.asarray(1 + (pace.young / np.maximum(np.cumsum(~np.isnan(values)), 1)) ** 1.5)


def _histories(values: Values, pace: Pace) -> Iterator[tuple[slice, Values]]:
    """Yield each half day's rows, and the history before the first of them; the first half day by doubling parts."""
    every = max(1, 12 * pace.hour)
    parts = (every >> halvings for halvings in range(every.bit_length()))
    starts = sorted(part for part in parts if part >= min(every, pace.learning)) + list(range(2 * every, len(values), every))
    for row, end in zip(starts, [*starts[1:], len(values)], strict=True):
        yield slice(row, end), values[max(0, row - pace.history) : row]
