"""Read a counter by what it counts between readings, so that its growth and its restart are nothing strange."""

from __future__ import annotations

import numpy as np

from detectors.novelty import Flags, Values, delayed, forward_fill

MOVES = 30
"""Changes that must have been seen before a series is called a counter."""
RESTART = 0.1
"""A fall to less than this part of the count is a restart from zero; any other is a real fall."""


def counted(values: Values, learning: int) -> Values:
    """Return the increases of a counter, nan at a restart, or the values themselves of anything else; (n,).

    The first `learning` rows, which are never judged, tell which it is: later rows change nothing before them.
    """
    filled = forward_fill(values)
    increases = filled - delayed(filled, 1)
    restarts = restarted(filled)
    if not is_counter(increases[:learning], restarts[:learning]):
        return values
    return np.where(restarts | np.isnan(values), np.nan, increases)


def restarted(filled: Values) -> Flags:
    """Return the rows where a count that never was negative has begun again near zero; (n,)."""
    before = delayed(filled, 1)
    return np.asarray((filled >= 0) & (filled < RESTART * before))


def is_counter(increases: Values, restarts: Flags) -> bool:
    """Tell a counter: it has only ever risen or restarted, and restarts are rare."""
    moves = increases[~np.isnan(increases) & (increases != 0)]
    falls, rises = int((moves < 0).sum()), int((moves > 0).sum())
    return rises >= MOVES and falls <= rises // MOVES and falls == int((restarts & (increases < 0)).sum())
