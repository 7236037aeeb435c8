"""Ask one series several questions, and weigh each answer so that 1 is worth speaking of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from detectors.novelty import Pace, Values, delayed, excess, flat_rows, forward_fill, highest_before, trailing_mean
from detectors.novelty_scale import spreads, tails, youth
from detectors.series_season import seasonal_residuals

HALF_READ = 0.5
"""Of rows, in what is still called a window."""
TAILS = 2.0
"""Scales of a tail that a single reading must leave behind: by chance one in seven of those that are the highest so far do."""


@dataclass(frozen=True)
class Series:
    """Hold one metric: seconds since 1970 that never fall, values with nan for no reading, both (n,)."""

    seconds: Values
    values: Values
    pace: Pace


@dataclass(frozen=True)
class Voice:
    """Derive a quantity from a series; `worth` is the excess, in spreads of its history, at which it speaks.

    It must leave `tail` scales of its own tail behind as well, and hold for `rows` rows. `delays` multiplies how long a row is
    too new for history: what is to find a drift must not learn from its beginning.
    """

    name: str
    derive: Callable[[Series], Values]
    worth: float
    tail: float = 0.0
    rows: int = 1
    delays: int = 1

    def loudness(self, series: Series) -> Values:
        """Return the excess in multiples of what is asked of it; (n,) >= 0."""
        pace = replace(series.pace, delay=self.delays * series.pace.delay)
        values = self.derive(series)
        needed = self.worth * spreads(values, pace)
        if self.tail:
            needed = np.fmax(needed, self.tail * tails(values, pace))
        return excess(values, needed * youth(values, pace), pace, self.rows)


def level(series: Series) -> Values:
    """Return the readings themselves: a spike, or a drop."""
    return series.values


def sustained(series: Series) -> Values:
    """Return the mean of the last two hours: an extreme that lasts, or is drifted to, though no reading is new."""
    return mean_read(series.values, 2 * series.pace.hour)


def swing(series: Series) -> Values:
    """Return highest minus lowest of the last four hours, half of it read: a series that grows restless, or dies down."""
    length = 4 * series.pace.hour
    reach = highest_before(series.values, length) + highest_before(-series.values, length)
    return np.where(delayed(part_read(series.values, length), 1) >= HALF_READ, reach, np.nan)


def daily(series: Series) -> Values:
    """Return how far each reading is from what its time of day usually shows, nan where its time of week says more."""
    by_day: Values = seasonal_residuals(series.seconds, series.values, 12 * series.pace.hour)[0]
    return by_day


def weekly(series: Series) -> Values:
    """Return how far each reading is from what its time of week usually shows, nan where its time of day says more."""
    by_week: Values = seasonal_residuals(series.seconds, series.values, 12 * series.pace.hour)[1]
    return by_week


VOICES = (
    Voice("level", level, 0.17, tail=TAILS),
    Voice("sustained", sustained, 0.45, delays=5),
    Voice("swing", swing, 0.17),
    Voice("daily", daily, 0.45, tail=TAILS, rows=2),
    Voice("weekly", weekly, 0.45, tail=TAILS, rows=2),
)
"""Chosen once, for all kinds of series; `python -m benchmarks.score --sensitivity` tells what each one matters."""


def mean_read(values: Values, length: int) -> Values:
    """Return the mean of the newest `length` rows, a missing one as the last before it; nan where fewer than half are read."""
    return np.where(part_read(values, length) >= HALF_READ, trailing_mean(forward_fill(values), length), np.nan)


def part_read(values: Values, length: int) -> Values:
    """Return which part of the newest `length` rows has a reading; nan before there are as many rows."""
    return trailing_mean((~np.isnan(values)).astype(np.float64), length)


def strangeness(series: Series, voices: tuple[Voice, ...] = VOICES) -> Values:
    """Return the loudest voice at each row, 1 is worth speaking of; (n,) >= 0, 0 where there is no reading."""
    if (~np.isnan(series.values)).sum() < 2:
        return np.zeros(len(series.values))
    loudest = flat_rows(series.values, 4 * series.pace.hour)
    loudest[: series.pace.learning] = 0
    for voice in voices:
        loudest = np.maximum(loudest, voice.loudness(series))
    loudest[np.isnan(series.values)] = 0
    return loudest
