"""Score any series of numbers, row by row, by nothing but the rows before."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np

from detectors.joint import habit_residual, together
from detectors.novelty import Flags, Pace, Values, excess, speak_then_rest
from detectors.novelty_scale import spreads, youth
from detectors.series_counter import counted
from detectors.series_voices import VOICES, Series, Voice, strangeness

SPACING_ROWS = 50
"""The first rows tell the spacing; it is not looked at again, so that later rows change nothing before them."""
LEAST_HOUR, MOST_HOUR = 6, 60
"""Rows that stand for an hour where fewer are read in one, or more: fewer are too little to learn from, more take too long."""
LEAST_LEARNT, MOST_LEARNT = 200, 750
"""Rows that are only learnt where a day has fewer, or more."""
THRESHOLD = 0.5
HABIT_WORTH = 0.5
"""Excess, in spreads, at which metrics that part company speak."""


def score_series(times: Sequence[datetime], values: Values) -> tuple[Values, Flags]:
    """Return a score in [0, 1], higher is stranger, and whether a row speaks, both (n,), for values (n, m).

    Causal: the first N rows give the same answer alone. nan and infinity are no reading. A time before the one above it is
    read as that one.
    """
    matrix = np.asarray(values, dtype=np.float64)
    matrix = matrix[:, None] if matrix.ndim == 1 else matrix
    matrix = np.where(np.isfinite(matrix), matrix, np.nan)
    if not matrix.size:
        return np.zeros(len(times)), np.zeros(len(times), dtype=bool)
    seconds = np.maximum.accumulate(np.array([at.timestamp() for at in times]))
    pace = pace_of(seconds)
    scores = 1 - 2.0 ** -strangeness_of_all(seconds, matrix, pace)
    return scores, speak_then_rest(scores, THRESHOLD, pace)


def strangeness_of_all(seconds: Values, matrix: Values, pace: Pace, voices: tuple[Voice, ...] = VOICES) -> Values:
    """Return how strange each row is, 1 is worth speaking of: metric by metric, and the odd combination as one more voice."""
    columns = [counted(column, pace.learning) for column in matrix.T]
    found = np.stack([strangeness(Series(seconds, column, pace), voices) for column in columns], axis=1)
    if found.shape[1] > 1:
        apart = habit_residual(np.stack(columns, axis=1), pace)
        found[:, 0] = np.maximum(found[:, 0], excess(apart, HABIT_WORTH * spreads(apart, pace) * youth(apart, pace), pace))
    return together(found)


def pace_of(seconds: Values) -> Pace:
    """Return the lengths in rows that the spacing of the first rows calls for."""
    gaps = np.diff(seconds[:SPACING_ROWS])
    gaps = gaps[gaps > 0]
    spacing = float(np.median(gaps)) if len(gaps) else 300.0
    hour = min(MOST_HOUR, max(LEAST_HOUR, round(3600 / spacing)))
    learning = min(MOST_LEARNT, max(LEAST_LEARNT, round(86_400 / spacing)))
    return Pace(hour, history=28 * 24 * hour, learning=learning, young=48 * hour, delay=3 * hour // 2, rest=6 * hour)
