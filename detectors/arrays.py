"""Name the kinds of arrays that detectors pass to each other, by element, as each docstring states the shape; and their sums."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bot.model.frame import Floats, Mask

__all__ = ["Counts", "Floats", "Mask", "Numbers", "Rows", "mean_of", "middle_of", "summed"]

Numbers = npt.NDArray[np.float64]
"""Thresholds, sums, scores: what is computed rather than read."""
Counts = npt.NDArray[np.intp]
"""Numbers of steps or of things."""
Rows = npt.NDArray[np.intp]
"""Positions along an axis: rows of nodes, or steps."""


def mean_of(values: Floats) -> float:
    """Return the mean of what was read, 0 where nothing was."""
    return float(np.nanmean(values)) if np.isfinite(values).any() else 0.0


def middle_of(values: npt.NDArray[np.floating]) -> float:
    """Return the median of the finite values, nan where there are none."""
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if len(finite) else float("nan")


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
