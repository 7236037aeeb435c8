"""Say how far a series leaves everything its recent history has shown: causal, unsupervised, one pass per scale."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

SCALES = (1, 6, 36)
"""Rows averaged before the comparison: a spike, a sustained extreme, a shift of level."""
TRUST = (1.0, 1.0, 1.4)
"""Weight of each scale's excess: a mean leaves its range less often by chance."""
FLAT = 24
"""Rows without any change that make a flat line, where history hardly knew one."""


@dataclass(frozen=True)
class Pace:
    """Hold lengths in rows: how far history reaches, how long it is only learnt, how long a speaker rests."""

    history: int
    learning: int
    rest: int


def excess(values: Values, pace: Pace) -> Values:
    """Return how far each row of one series lies outside all that came before, in ranges of its recent history; (n,) >= 0.

    The largest over `SCALES` of the distance beyond the highest or lowest of the `history` rows before it, divided by the
    spread (5th to 95th percentile, learnt at fixed rows) of that history. nan rows are 0: nothing is known of them.
    """
    known = ~np.isnan(values)
    if known.sum() < 2:
        return np.zeros(len(values))
    filled = forward_fill(values)
    spread = spreads(filled, pace)
    found = np.zeros(len(values))
    for scale, trust in zip(SCALES, TRUST, strict=True):
        level = trailing_mean(filled, scale)
        beyond = np.maximum(level - highest_before(level, pace.history), -level - highest_before(-level, pace.history))
        found = np.maximum(found, trust * np.nan_to_num(beyond / spread, nan=0.0, posinf=0.0, neginf=0.0))
    found[: pace.learning] = 0
    found[~known] = 0
    return np.maximum(found, 0)


def flat(values: Values, pace: Pace) -> Values:
    """Return 1 where a series has just not moved for `FLAT` rows and twice as long as ever before, else 0; (n,)."""
    filled = forward_fill(values)
    still = run_lengths(np.concatenate([[False], filled[1:] == filled[:-1]]))
    before = np.concatenate([[0.0], np.maximum.accumulate(_finished(still))[:-1]])
    stuck = (still >= FLAT) & (still >= 2 * before) & (np.arange(len(values)) >= pace.learning)
    return np.asarray(stuck & ~np.isnan(values), dtype=np.float64)


def speak_then_rest(scores: Values, threshold: float, rest: int) -> Flags:
    """Return the rows that speak: at or over the threshold, with none that spoke within the `rest` rows before."""
    flags = np.zeros(len(scores), dtype=bool)
    silent_until = 0
    for row in np.flatnonzero(scores >= threshold).tolist():
        if row >= silent_until:
            flags[row] = True
            silent_until = row + rest
    return flags


def forward_fill(values: Values) -> Values:
    """Return the values with each nan replaced by the last reading before it; nan only before the first."""
    at = np.where(np.isnan(values), -1, np.arange(len(values)))
    last = np.maximum.accumulate(at)
    return np.where(last >= 0, values[np.maximum(last, 0)], np.nan)


def trailing_mean(values: Values, length: int) -> Values:
    """Return the mean of the newest `length` rows at each row; nan before there are as many."""
    if length == 1:
        return values
    total = np.cumsum(np.nan_to_num(values))
    mean = total.copy()
    mean[length:] = total[length:] - total[:-length]
    first = int(np.argmax(~np.isnan(values)))
    mean[: first + length - 1] = np.nan
    return mean / length


def highest_before(values: Values, length: int) -> Values:
    """Return the largest of the `length` rows before each row (not itself), nan at the first; O(n) by blocks (van Herk)."""
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


def spreads(filled: Values, pace: Pace) -> Values:
    """Return the spread of history at each row, learnt anew after each tenth of its length; nan before the first time."""
    every = max(1, pace.history // 10)
    found = np.full(len(filled), np.nan)
    for row in range(min(pace.learning, every), len(filled), every):
        part = filled[max(0, row - pace.history) : row]
        part = part[~np.isnan(part)]
        if len(part) >= 8:
            low, high = np.quantile(part, (0.05, 0.95))
            least = 1e-3 * max(abs(float(low)), abs(float(high))) + 1e-12
            found[row : row + every] = max(float(high - low), float(np.ptp(part)) / 6, least)
    return found


def run_lengths(holds: Flags) -> Values:
    """Return for each row how many rows up to it hold without a break."""
    at = np.arange(len(holds))
    breaks = np.maximum.accumulate(np.where(holds, -1, at))
    return np.asarray(at - breaks, dtype=np.float64)


def _finished(lengths: Values) -> Values:
    """Return at each row the length of the run that has just ended before it, else 0."""
    ended = np.concatenate([[0.0], np.where(lengths[1:] == 0, lengths[:-1], 0.0)])
    return np.asarray(ended)
