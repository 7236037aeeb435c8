"""Sum minute-by-minute signals into CloudWatch statistic sets of a period: count = scrapes x things a scrape."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from adapters.simulator.signals import Array


@dataclass(frozen=True)
class Sets:
    """Hold the four statistics, each of shape (n_series, n_points)."""

    count: Array
    sum: Array
    max: Array
    min: Array

    def total(self) -> Sets:
        """Return the statistic set of all series together, shape (1, n_points)."""
        low = np.where(self.count > 0, self.min, np.inf).min(axis=0, keepdims=True)
        return Sets(
            self.count.sum(axis=0, keepdims=True),
            self.sum.sum(axis=0, keepdims=True),
            np.where(self.count > 0, self.max, -np.inf).max(axis=0, keepdims=True),
            np.where(np.isfinite(low), low, 0),
        )


def gather(
    mean: Array, visible: Array, minutes: int, things: int = 1, high: Array | None = None, low: Array | None = None
) -> Sets:
    """Gather `mean` (per thing and minute, shape (n, minutes)) into periods of `minutes`; unseen or nan minutes do not count.

    `high` and `low` are the largest and smallest thing of a minute where things differ.
    """
    n, whole = mean.shape[0], mean.shape[1] // minutes
    cut = slice(0, whole * minutes)
    seen = (visible[:, cut] > 0) & np.isfinite(mean[:, cut])
    high, low = (mean if high is None else high), (mean if low is None else low)

    def fold(values: Array, where_not: float) -> Array:
        return np.where(seen, values[:, cut], where_not).reshape(n, whole, minutes)

    scrapes = seen.reshape(n, whole, minutes).sum(axis=2)
    return Sets(
        (scrapes * things).astype(np.float64),
        fold(mean, 0.0).sum(axis=2) * things,
        fold(high, -np.inf).max(axis=2),
        fold(low, np.inf).min(axis=2),
    )
