"""Say what a series usually shows at this hour, from the same hour of the days or weeks before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from detectors.novelty import Values

HOUR, DAY, WEEK = 3_600.0, 86_400.0, 604_800.0


@dataclass(frozen=True)
class Season:
    """Name a period in seconds, how many of it are looked back at, and how many of those must have a reading."""

    seconds: float
    back: int
    needed: int


SEASONS = (Season(DAY, 7, 3), Season(WEEK, 4, 2))


def seasonal_residuals(seconds: Values, values: Values, every: int) -> Values:
    """Return each value minus what is usual at its time of day, and of week; (2, n), nan where that is not the better guess.

    nan too where too little is known. `seconds` never falls. The choice is made anew every `every` rows, from the errors up
    to then, so that later rows change nothing before them.
    """
    residuals = np.stack([values - usual_at(seconds, values, season) for season in SEASONS])
    chosen = _fitting_better(np.abs(residuals), every)
    return np.where(chosen == np.arange(len(SEASONS))[:, None], residuals, np.nan)


def usual_at(seconds: Values, values: Values, season: Season) -> Values:
    """Return the median of the values a whole number of periods ago; (n,), nan where too few are known."""
    past = np.stack([_ago(seconds, values, season.seconds * n) for n in range(1, season.back + 1)])
    past.sort(axis=0)  # nan last
    known = (~np.isnan(past)).sum(axis=0)
    lower = np.take_along_axis(past, (np.maximum(known - 1, 0) // 2)[None], axis=0)[0]
    upper = np.take_along_axis(past, np.minimum(known // 2, season.back - 1)[None], axis=0)[0]
    return np.where(known >= season.needed, (lower + upper) / 2, np.nan)


def _ago(seconds: Values, values: Values, age: float) -> Values:
    """Return the newest value at least `age` seconds old, nan where it is an hour older than that."""
    row = np.searchsorted(seconds, seconds - age, side="right") - 1
    fresh = (row >= 0) & (seconds - age - seconds[np.maximum(row, 0)] <= HOUR)
    return np.where(fresh, values[np.maximum(row, 0)], np.nan)


def _fitting_better(errors: Values, every: int) -> np.ndarray:
    """Return which season had the smaller mean error before the last multiple of `every` rows, where both are known; (n,)."""
    both = ~np.isnan(errors).any(axis=0)
    total = np.cumsum(np.where(both, errors, 0.0), axis=1)
    row = np.arange(errors.shape[1]) // every * every
    settled = total[:, np.maximum(row - 1, 0)] * (row > 0)
    return np.asarray(settled.argmin(axis=0))
