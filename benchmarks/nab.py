"""Score flags as the Numenta Anomaly Benchmark does, standard profile.

100 is every window at its start, 0 is silence.

Lavin and Ahmad, "Evaluating real-time anomaly detection algorithms", 2015.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import exp

import numpy as np

from benchmarks.episodes import Flags, Labelled

FALSE = 0.11
"""What a flag outside all windows costs, of a window."""


def nab_gain(series: Labelled, flags: Flags) -> float:
    """Return what the flags gain.

    Up to 1 for a window that is found, the sooner the more, and -1 for one that is not.
    """
    rows = np.flatnonzero(flags)
    rows = rows[rows >= series.start]
    first = [
        next((row for row in rows.tolist() if low <= row < high), None)
        for low, high in series.windows
    ]
    found = sum(
        -1.0 if row is None else _sigmoid((row - high) / (high - low)) / _sigmoid(-1.0)
        for row, (low, high) in zip(first, series.windows, strict=True)
    )
    return found + FALSE * sum(_outside(series, row) for row in rows.tolist())


def nab_score(gains: Iterable[float], windows: int) -> float:
    """Return the score of many series from what each gained, and the windows of all."""
    return 50 * (sum(gains) / windows + 1)


def _outside(series: Labelled, row: int) -> float:
    """Return what a flag costs, in [-1, 0]: less soon after a window; 0 within one."""
    if any(low <= row < high for low, high in series.windows):
        return 0.0
    passed = [(low, high) for low, high in series.windows if high <= row]
    return (
        _sigmoid((row - passed[-1][1] + 1) / (passed[-1][1] - passed[-1][0] - 1))
        if passed
        else -1.0
    )


def _sigmoid(at: float) -> float:
    return 2 / (1 + exp(5 * at)) - 1 if at <= 3 else -1.0
