"""Say how strange many metrics are together: how many are strange at once, and whether they still move as one."""

from __future__ import annotations

from dataclasses import dataclass
from math import log2

import numpy as np

from detectors.novelty import Pace, Values, forward_fill

EXPLAINED = 0.9
"""Part of the variance that counts as how the metrics usually move together."""
CLIP = 5.0
"""Half spreads beyond which a single metric's height is its own matter, told by its own voices."""
LOUDEST = 60.0
"""Where 1 - 2^-x has reached 1 in double precision."""


@dataclass(frozen=True)
class Habit:
    """Hold how metrics usually lie and move: middle, half spread and mean (m,), directions (m, k)."""

    middle: Values
    half_spread: Values
    mean: Values
    directions: Values

    def residual(self, rows: Values) -> Values:
        """Return the root mean square of what the usual directions do not explain; (n,), from rows (n, m)."""
        scaled = _scaled(rows, self.middle, self.half_spread) - self.mean
        left = scaled - (scaled @ self.directions) @ self.directions.T
        return np.asarray(np.sqrt((left**2).mean(axis=1)))


def together(strangeness: Values) -> Values:
    """Return one strangeness a row from those of all metrics (n, m), 1 is worth speaking of; (n,).

    Logarithms are added, so two metrics are stranger than one but none can shout down all others; the more metrics, the
    more of them leave their range by chance, and the more is needed. One metric alone keeps its strangeness.
    """
    needed = 1 + 0.4 * log2(max(1, strangeness.shape[1]))
    return np.asarray(2 ** np.minimum(np.log2(1 + strangeness).sum(axis=1) / needed, LOUDEST) - 1)


def habit_residual(values: Values, pace: Pace) -> Values:
    """Return how far each row (n, m) is from the way its metrics moved together so far; (n,), nan before that is learnt.

    Principal components of the robustly scaled history, fitted anew every day of rows, each fit from earlier rows only.
    Jackson and Mudholkar, "Control procedures for residuals associated with principal component analysis", 1979.
    """
    filled = np.stack([forward_fill(column) for column in values.T], axis=1)
    found = np.full(len(filled), np.nan)
    for row in range(pace.learning, len(filled), pace.learning):
        habit = learn(filled[max(0, row - pace.history) : row])
        day = filled[row : row + pace.learning]
        found[row : row + pace.learning] = habit.residual(_padded(day, pace.learning))[: len(day)]
    return found


def learn(rows: Values) -> Habit:
    """Return the habit of history rows (n, m); a metric never read, or never moving, takes no part."""
    read = np.where(np.isnan(rows).all(axis=0), 0.0, rows)
    low, middle, high = np.nanquantile(read, (0.05, 0.5, 0.95), axis=0)
    half_spread = np.where(high > low, (high - low) / 2, np.inf)
    scaled = _scaled(read, middle, half_spread)
    mean = scaled.mean(axis=0)
    centred = scaled - mean
    variances, directions = np.linalg.eigh(np.einsum("ni,nj->ij", centred, centred) / len(centred))
    explained = np.cumsum(variances[::-1]) / max(float(variances.sum()), 1e-12)
    kept = int(np.searchsorted(explained, EXPLAINED)) + 1
    return Habit(middle, half_spread, mean, directions[:, ::-1][:, :kept])


def _padded(rows: Values, length: int) -> Values:
    """Return the rows with zeros below: a product of another shape rounds otherwise, and the newest rows are a part of a day."""
    return np.pad(rows, ((0, length - len(rows)), (0, 0)))


def _scaled(rows: Values, middle: Values, half_spread: Values) -> Values:
    return np.clip(np.nan_to_num((rows - middle) / half_spread), -CLIP, CLIP)
