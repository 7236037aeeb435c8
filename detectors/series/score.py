"""Score any series of numbers, row by row, by nothing but the rows before.

Each metric alone, and all of them together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import log2

import numpy as np

from detectors.numbers import Mask, Numbers, count, number
from detectors.series.signals import (
    SIGNALS,
    ScoredSeries,
    SeriesPace,
    SeriesSignal,
    beyond,
    counted,
    excess,
    forward_fill,
    mean_read,
    speak_then_rest,
    spreads,
    strangeness,
    youth,
)

LEAST_HOUR, MOST_HOUR = count("score.LEAST_HOUR"), count("score.MOST_HOUR")
LEAST_LEARNT, MOST_LEARNT = count("score.LEAST_LEARNT"), count("score.MOST_LEARNT")
EVEN = number("score.EVEN")
THRESHOLD = number("score.THRESHOLD")


def score_series(times: Sequence[datetime], values: Numbers) -> tuple[Numbers, Mask]:
    """Return a score in [0, 1], higher is more worth telling, and whether a row speaks, both (n,).

    A row that speaks scores THRESHOLD or more. One that does not is ranked below: what is strange
    there has been told, or is too little. Values are (n, m). Causal: the first N rows give the same
    answer alone. nan and infinity are no reading. A time before the one above it is read as that one.
    """
    matrix = np.asarray(values, dtype=np.float64)
    matrix = matrix[:, None] if matrix.ndim == 1 else matrix
    matrix = np.where(np.isfinite(matrix), matrix, np.nan)
    if not matrix.size:
        return np.zeros(len(times)), np.zeros(len(times), dtype=bool)
    seconds = np.maximum.accumulate(np.array([at.timestamp() for at in times]))
    pace = pace_of(seconds)
    columns = np.stack([counted(column, pace.learning) for column in matrix.T], axis=1)
    apart = habit_residual(columns, pace)
    rarity = np.where(
        np.isnan(columns).all(axis=1), 0.0, percentile(mean_read(apart, pace.hour), pace)
    )
    strange = graded(strangeness_of_all(seconds, columns, apart, pace), rarity)
    speaks = speak_then_rest(strange, THRESHOLD, pace)
    return np.where(speaks, strange, THRESHOLD * strange), speaks


def strangeness_of_all(
    seconds: Numbers,
    columns: Numbers,
    apart: Numbers,
    pace: SeriesPace,
    signals: tuple[SeriesSignal, ...] = SIGNALS,
) -> Numbers:
    """Return how strange each row is, 1 is worth speaking of.

    Metric by metric, and the odd combination as one more signal.
    """
    chosen = tuple(signal for signal in signals if columns.shape[1] == 1 or not signal.alone)
    strange = np.stack(
        [strangeness(ScoredSeries(seconds, column, pace), chosen) for column in columns.T], axis=1
    )
    if strange.shape[1] > 1:
        outside = beyond(apart, pace)
        needed = (
            number("score.HABIT_WORTH")
            * spreads(apart, pace, outside.max(axis=0) > 0)
            * youth(apart, pace)
        )
        strange[:, 0] = np.maximum(strange[:, 0], excess(outside, needed))
    return together(strange)


def graded(strangeness: Numbers, rarity: Numbers) -> Numbers:
    """Return scores in [0, 1), 0.5 and more where strangeness is 1 and more.

    Below, rarity in [0, 1) ranks the rows as well.

    Logarithms of strangeness never reach 1, so that rows stay ranked while everything is loud.
    """
    loud = np.log2(1 + strangeness)
    loud = loud / (1 + loud)
    ranked = number("score.RARE_PART") * (EVEN * rarity + (1 - EVEN) * rarity**8)
    quiet = np.minimum(THRESHOLD * (1 - (1 - ranked) * (1 - 2 * loud)), np.nextafter(THRESHOLD, 0))
    return np.asarray(np.where(loud >= THRESHOLD, loud, quiet))


def percentile(values: Numbers, pace: SeriesPace) -> Numbers:
    """Return which part of history lies below each value, in [0, 1), 0 where it is not known.

    (n,), learnt as habits are.

    Vovk, Gammerman and Shafer, "Algorithmic learning in a random world", 2005: a conformal p-value,
    from 1 downwards.
    """
    parts = np.zeros(len(values))
    for row in range(pace.learning, len(values), pace.learning):
        history = np.sort(values[:row][-pace.history :])
        history = history[~np.isnan(history)]
        day = values[row : row + pace.learning]
        parts[row : row + pace.learning] = np.where(
            np.isnan(day), 0.0, np.searchsorted(history, day) / (len(history) + 1)
        )
    return parts


def pace_of(seconds: Numbers) -> SeriesPace:
    """Return the lengths in rows that the spacing of the first rows calls for."""
    gaps = np.diff(seconds[: count("score.SPACING_ROWS")])
    gaps = gaps[gaps > 0]
    spacing = float(np.median(gaps)) if len(gaps) else 300.0
    hour = min(MOST_HOUR, max(LEAST_HOUR, round(3600 / spacing)))
    return SeriesPace(
        hour,
        history=count("score.HISTORY") * 24 * hour,
        learning=min(MOST_LEARNT, max(LEAST_LEARNT, round(86_400 / spacing))),
        young=count("score.YOUNG") * hour,
        delay=int(number("score.DELAY") * hour),
        rest=count("score.REST") * hour,
    )


CLIP = number("score.CLIP")
LOUDEST = 60.0
"""Where 1 - 2^-x has reached 1 in double precision."""


@dataclass(frozen=True)
class Habit:
    """Hold how metrics lie and move: middle, half spread and mean (m,), directions (m, k)."""

    middle: Numbers
    half_spread: Numbers
    mean: Numbers
    directions: Numbers

    def residual(self, rows: Numbers) -> Numbers:
        """Return the root mean square of the part that the usual directions do not explain.

        (n,), from rows (n, m).
        """
        scaled = _scaled(rows, self.middle, self.half_spread) - self.mean
        unexplained = scaled - (scaled @ self.directions) @ self.directions.T
        return np.asarray(np.sqrt((unexplained**2).mean(axis=1)))


def together(strangeness: Numbers) -> Numbers:
    """Return one strangeness a row from those of all metrics (n, m), 1 is worth speaking of; (n,).

    Logarithms are added, so two metrics are stranger than one but none can shout down all others;
    the more metrics, the more of them leave their range by chance, and the more is needed. One
    metric alone keeps its strangeness.
    """
    metrics = strangeness.shape[1]
    needed = (
        number("score.MANY") * (1 + number("score.MORE") * log2(metrics)) if metrics > 1 else 1.0
    )
    return np.asarray(2 ** np.minimum(np.log2(1 + strangeness).sum(axis=1) / needed, LOUDEST) - 1)


def habit_residual(values: Numbers, pace: SeriesPace) -> Numbers:
    """Return how far each row (n, m) is from the way its metrics moved together so far.

    (n,), nan before that is learnt.

    Principal components of the robustly scaled history, fitted anew every day of rows, each fit
    from earlier rows only. Jackson and Mudholkar, "Control procedures for residuals associated with
    principal component analysis", 1979.
    """
    filled = np.stack([forward_fill(column) for column in values.T], axis=1)
    residuals = np.full(len(filled), np.nan)
    for row in range(pace.learning, len(filled), pace.learning):
        habit = learn(filled[:row][-pace.history :])
        day = filled[row : row + pace.learning]

        # A product of another shape rounds otherwise, and the newest rows are a part of a day.
        whole_day = np.pad(day, ((0, pace.learning - len(day)), (0, 0)))
        residuals[row : row + pace.learning] = habit.residual(whole_day)[: len(day)]
    return residuals


def learn(rows: Numbers) -> Habit:
    """Return the habit of history rows (n, m); a metric never read, or never moving, takes no part.

    Of one metric nothing is explained: what is left of it is its distance from its mean.
    """
    readings = np.where(np.isnan(rows).all(axis=0), 0.0, rows)
    low, middle, high = np.nanquantile(readings, (0.05, 0.5, 0.95), axis=0)
    half_spread = np.where(high > low, (high - low) / 2, np.inf)
    scaled = _scaled(readings, middle, half_spread)
    mean = scaled.mean(axis=0)
    centred = scaled - mean
    variances, directions = np.linalg.eigh(np.einsum("ni,nj->ij", centred, centred) / len(centred))
    explained = np.cumsum(variances[::-1]) / max(float(variances.sum()), 1e-12)
    n_directions = min(
        int(np.searchsorted(explained, number("score.EXPLAINED"))) + 1, len(variances) - 1
    )
    return Habit(middle, half_spread, mean, directions[:, ::-1][:, :n_directions])


def _scaled(rows: Numbers, middle: Numbers, half_spread: Numbers) -> Numbers:
    return np.clip(np.nan_to_num((rows - middle) / half_spread), -CLIP, CLIP)
