"""Score any series of numbers, row by row, by nothing but the rows before."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np

from detectors.novelty import Flags, Pace, Values, speak_then_rest
from detectors.series_voices import Series, strangeness

SPACING_ROWS = 50
"""The first rows tell the spacing; it is not looked at again, so that later rows change nothing before them."""
LEAST_HOUR = 12
"""Rows that stand for an hour where fewer are read in one: less is too little to learn from."""
THRESHOLD = 0.5


def score_series(times: Sequence[datetime], values: Values) -> tuple[Values, Flags]:
    """Return a score in [0, 1], higher is stranger, and whether a row speaks, both (n,), for values (n, m).

    Causal: the first N rows give the same answer alone. nan is no reading.
    """
    matrix = np.asarray(values, dtype=np.float64)
    matrix = matrix[:, None] if matrix.ndim == 1 else matrix
    if not matrix.size:
        return np.zeros(len(times)), np.zeros(len(times), dtype=bool)
    seconds = np.maximum.accumulate(np.array([at.timestamp() for at in times]))
    pace = pace_of(seconds)
    found = np.max([strangeness(Series(seconds, column, pace)) for column in matrix.T], axis=0)
    scores = 1 - 2.0**-found
    return scores, speak_then_rest(scores, THRESHOLD, pace.rest)


def pace_of(seconds: Values) -> Pace:
    """Return the lengths in rows that the spacing of the first rows calls for."""
    gaps = np.diff(seconds[:SPACING_ROWS])
    gaps = gaps[gaps > 0]
    spacing = float(np.median(gaps)) if len(gaps) else 300.0
    hour = max(LEAST_HOUR, round(3600 / spacing))
    return Pace(hour, history=28 * 24 * hour, learning=24 * hour, delay=3 * hour // 2, rest=3 * hour)
