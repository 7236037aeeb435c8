"""Score any series of numbers, row by row, by nothing but the rows before."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from math import log2

import numpy as np

from detectors.novelty import Flags, Pace, Values, excess, flat, speak_then_rest

HISTORY = timedelta(days=14)
LEARNING = timedelta(days=1)
REST = timedelta(hours=12)
LEAST = 150
"""Rows that are only learnt, however far apart they lie."""
SPACING_ROWS = 50
"""The first rows tell the spacing; it is not looked at again, so that later rows change nothing before them."""
THRESHOLD = 0.5


def score_series(times: Sequence[datetime], values: Values) -> tuple[Values, Flags]:
    """Return a score in [0, 1], higher is stranger, and whether a row speaks, both (n,), for values (n, m).

    Causal: the first N rows give the same answer alone. Of several metrics the strangest counts, and more when several are.
    """
    matrix = np.asarray(values, dtype=np.float64)
    matrix = matrix[:, None] if matrix.ndim == 1 else matrix
    if not matrix.size:
        return np.zeros(len(times)), np.zeros(len(times), dtype=bool)
    pace = pace_of(times)
    beyond = np.stack([excess(column, pace) for column in matrix.T], axis=1)
    stuck = np.stack([flat(column, pace) for column in matrix.T], axis=1)
    strongest = np.sort(beyond, axis=1)[:, ::-1]
    weights = 0.5 ** np.arange(strongest.shape[1])
    scores = np.maximum(1 - 2.0 ** (-(strongest * weights).sum(axis=1) / unit(matrix.shape[1])), 0.6 * stuck.max(axis=1))
    return scores, speak_then_rest(scores, THRESHOLD, pace.rest)


def unit(metrics: int) -> float:
    """Return the excess, in ranges, that scores one half: more metrics leave their range more often by chance."""
    return 0.05 * (1 + 0.5 * log2(max(1, metrics)))


def pace_of(times: Sequence[datetime]) -> Pace:
    """Return the lengths in rows that the spacing of the first rows calls for."""
    first = [at.timestamp() for at in times[:SPACING_ROWS]]
    gaps = np.diff(first)
    gaps = gaps[gaps > 0]
    spacing = timedelta(seconds=float(np.median(gaps))) if len(gaps) else timedelta(minutes=5)
    return Pace(max(LEAST, int(HISTORY / spacing)), max(LEAST, int(LEARNING / spacing)), max(12, int(REST / spacing)))
