"""Ask one series several questions, and weigh each answer so that 1 is worth speaking of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from detectors.novelty import Pace, Values, delayed, excess, flat_rows, forward_fill, highest_before, trailing_mean
from detectors.series_season import seasonal_residual


@dataclass(frozen=True)
class Series:
    """Hold one metric: seconds since 1970 that never fall, values with nan for no reading, both (n,)."""

    seconds: Values
    values: Values
    pace: Pace


@dataclass(frozen=True)
class Voice:
    """Derive a quantity from a series; `worth` is the excess, in spreads of its history, at which it speaks."""

    name: str
    derive: Callable[[Series], Values]
    worth: float


def level(series: Series) -> Values:
    """Return the readings themselves: a spike, or a drop."""
    return series.values


def sustained(series: Series) -> Values:
    """Return the mean of the last hour: an extreme that lasts though no reading is new."""
    return trailing_mean(forward_fill(series.values), series.pace.hour)


def change(series: Series) -> Values:
    """Return the mean of the last half hour minus that of the half hour before: a step."""
    half = max(1, series.pace.hour // 2)
    mean = trailing_mean(forward_fill(series.values), half)
    return mean - delayed(mean, half)


def swing(series: Series) -> Values:
    """Return highest minus lowest of the last four hours: a series that grows restless, or dies down."""
    length = 4 * series.pace.hour
    reach = highest_before(series.values, length) + highest_before(-series.values, length)
    reach[:length] = np.nan
    return reach


def residual(series: Series) -> Values:
    """Return how far each reading is from what its time of day or week usually shows."""
    return seasonal_residual(series.seconds, series.values, 12 * series.pace.hour)


VOICES = (
    Voice("level", level, 0.2),
    Voice("sustained", sustained, 0.9),
    Voice("change", change, 0.9),
    Voice("residual", residual, 0.8),
    Voice("swing", swing, 0.3),
)


def strangeness(series: Series, voices: tuple[Voice, ...] = VOICES) -> Values:
    """Return the loudest voice at each row, 1 is worth speaking of; (n,) >= 0, 0 where there is no reading."""
    if (~np.isnan(series.values)).sum() < 2:
        return np.zeros(len(series.values))
    loudest = flat_rows(series.values, 4 * series.pace.hour)
    loudest[: series.pace.learning] = 0
    for voice in voices:
        loudest = np.maximum(loudest, excess(voice.derive(series), series.pace) / voice.worth)
    loudest[np.isnan(series.values)] = 0
    return loudest
