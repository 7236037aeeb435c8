"""Project the sum of the coming days from a daily series and the steps in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from bot.model.frame import Doubles

_WEEK, _SIDE = 7, 3
"""Days of a week, and days on either side of a step that must agree on it."""
_LEAST, _NOISE = 0.02, 5.0
"""How far a step leads at least.

As a share of the level before it, and beside how far the days on either side usually differ.
"""
_STEPS, _DAYS = 1.5, 40.0
"""Steps in so many days that an account counts as having had before its history begins."""
_WEIGHT = 3.0
"""Steps of other fleets that stand beside the sizes of its own."""
_UP, _SIZE, _SPREAD, _DOWN = 0.8, 0.2, 0.6, 0.5
"""Of other fleets.

Share of steps up, how far one leads and its spread in logarithms, and what part of that one down
leads.
"""
_DRAWS = 2000


def steps_of(series: Doubles) -> Doubles:
    """Return the steps of a daily series, each as a share of the level before it.

    Weekdays are no steps.
    """
    if len(series) < 2 * _SIDE:
        return np.zeros(0)
    # A weekday's rise is no step, and a single odd day moves no median of three.
    levels = _middles(_without_week(series), _SIDE)
    before, moved = levels[:-_SIDE], levels[_SIDE:] - levels[:-_SIDE]
    far = np.abs(moved)
    far[far <= np.maximum(_LEAST * np.abs(before), _NOISE * np.median(far))] = 0.0
    # The farthest first: the days beside it differ by the same step and are not counted again.
    steps = []
    while far.any():
        day = int(far.argmax())
        steps.append(moved[day] / max(abs(before[day]), abs(moved[day]) * _LEAST))
        far[max(0, day - _SIDE + 1) : day + _SIDE] = 0.0
    return np.array(steps)


def _without_week(series: Doubles) -> Doubles:
    """Return a series less each weekday's usual distance from the week about it.

    Unchanged under two weeks.
    """
    if len(series) < 2 * _WEEK:
        return series
    half = _WEEK // 2
    about = _middles(series, _WEEK)
    off, weekday = series[half:-half] - about, np.arange(len(series)) % _WEEK
    usual = np.array([np.median(off[weekday[half:-half] == day]) for day in range(_WEEK)])
    return np.asarray(series - usual[weekday])


def _middles(series: Doubles, days: int) -> Doubles:
    """Return the median of each so many days in a row, which a step moves at once."""
    return np.asarray(np.median(np.lib.stride_tricks.sliding_window_view(series, days), axis=1))


def scenarios(steps: Doubles, days: int, ahead: int) -> Doubles:
    """Return by scenario the factor by which steps change the sum of the `ahead` days.

    `steps` are those of the `days` seen.
    """
    return np.asarray(
        np.exp(np.cumsum(np.log1p(moves_of(steps, days, ahead)), axis=1)).mean(axis=1)
    )


def moves_of(steps: Doubles, days: int, ahead: int) -> Doubles:
    """Draw by scenario and day the share by which the level moves, 0 on most days.

    The draws are the same each time, so that one bill has one forecast.
    """
    rng = np.random.default_rng(0)
    # How often this fleet steps, by what it has shown and by other fleets while it is young.
    rate = rng.gamma(_STEPS + len(steps), 1 / (_DAYS + days), _DRAWS)
    shape = (_DRAWS, ahead)

    # How far each step leads: as one of the fleet's own did, or one of another fleet.
    sizes = _SIZE * np.exp(_SPREAD * rng.standard_normal(shape))
    sizes = np.where(rng.random(shape) < _UP, sizes, -_DOWN * sizes)
    if len(steps):
        like_own = rng.random(shape) < len(steps) / (len(steps) + _WEIGHT)
        sizes = np.where(like_own, rng.choice(steps, shape), sizes)
    # A fleet seldom falls to nothing, or grows more than fourfold, in a day.
    sizes = np.clip(sizes, -0.9, 3.0)
    return np.where(rng.random(shape) < rate[:, None], sizes, 0.0)


FEWEST = 3
"""Days under which nothing is projected."""
MOST = 42
"""Newest days that are looked at."""
COVERAGE = 0.9
"""Share of the sums that lie within the range, so the range says."""
_NEVER, _PROJECTION_WEEK = 0.0, 7
_WANDERS: tuple[tuple[float, float], ...] = (
    (1.0, 0.0),
    *product((4.0, 30.0, _NEVER), (0.3, 3.0, 30.0, 300.0)),
)
"""Days after which what wanders has come back, and its variance beside that of a day's noise."""
_WEEKDAYS = (0.0, 1.0, 30.0)
_GROWTHS = (0.0, 0.03, 1.0)
"""Variances of a weekday, and of a day's growth, beside that of a day's noise."""
_ODDS = 0.3
"""Odds of a week, and of growth, before the series is seen."""
_LASTS = 0.99
"""Share of a growth that is left the day after."""
LEAST = 0.0005
"""The noise of a day that a series has at least, as a share of its mean."""


_SELDOM = 7
"""A line that is charged on one day of so many, or on fewer, may be one of fees."""


def is_seldom(charged: int, days: int) -> bool:
    """Return whether a line that was charged on so many of its days may be one of fees.

    It is no usage that goes on.
    """
    return 0 < charged <= max(1, days // _SELDOM)


@dataclass(frozen=True)
class Projection:
    """State the sum of the coming days: at least, about (as likely more as less), and at most."""

    low: float
    middle: float
    high: float


def project(values: Sequence[float], ahead: int) -> Projection | None:
    """Return the sum of the `ahead` days after `values`, one a day without a gap.

    None with fewer than three.
    """
    series = np.asarray(values[-MOST:], dtype=np.float64)
    scale = float(np.abs(series).mean()) if len(series) else 0.0
    if len(series) < FEWEST:
        return None
    if ahead <= 0 or not scale:
        return Projection(0.0, 0.0, 0.0)
    # Every model has its say by its odds, so the range is wide where they disagree.
    means, variances, odds = _fits(series / scale, _models(len(series), ahead))
    mean = float(odds @ means)
    reach = sqrt(float(odds @ (variances + (means - mean) ** 2)))
    factors = scenarios(steps_of(series / scale), len(series), ahead)
    sums = (mean + reach * noise(len(series) - 1, len(factors))) * factors
    low, high = np.quantile(sums, ((1 - COVERAGE) / 2, (1 + COVERAGE) / 2))
    return Projection(
        float(low) * scale, mean * float(np.median(factors)) * scale, float(high) * scale
    )


@lru_cache(maxsize=64)
def noise(freedom: int, draws: int) -> Doubles:
    """Draw by how many times its reach each scenario's sum is off.

    Student's, as the size of a day's noise is unknown.
    """
    return np.random.default_rng(1).standard_t(freedom, draws)


@dataclass(frozen=True)
class _Models:
    """Hold the models of the grid, one a row; variances are those beside a day's noise of 1."""

    inverse: Doubles
    """Of the covariance of the days seen."""
    determinant: Doubles
    cross: Doubles
    """Covariance of each day seen with the sum of the coming days."""
    sum: Doubles
    """Variance of that sum."""
    odds: Doubles
    ahead: int


def _fits(series: Doubles, models: _Models) -> tuple[Doubles, Doubles, Doubles]:
    """Return each model's projection, its variance, and its odds.

    The level and the size of the noise are unknown.
    """
    n = len(series)
    solved = models.inverse @ series
    ones = models.inverse.sum(axis=2)
    weight = ones.sum(axis=1)
    level = solved.sum(axis=1) / weight
    residual = solved - level[:, None] * ones
    # A bill without any noise, as of one commitment, would divide by nothing.
    squares = (residual * series).sum(axis=1) + LEAST**2 * n
    noise = squares / (n - 1)
    means = models.ahead * level + (models.cross * residual).sum(axis=1)
    explained = np.einsum("mi,mij,mj->m", models.cross, models.inverse, models.cross)
    # Of an unknown level the coming days are the less sure the fewer were seen.
    unsure = models.ahead - (models.cross * ones).sum(axis=1)
    variances = noise * np.maximum(models.sum - explained + unsure**2 / weight, 0)
    # The largest is taken off before exp, which would be 0 of all of them.
    evidence = np.log(models.odds) - 0.5 * (
        models.determinant + np.log(weight) + (n - 1) * np.log(squares)
    )
    odds = np.exp(evidence - evidence.max())
    return means, variances, odds / odds.sum()


@lru_cache(maxsize=32)
def _models(n: int, ahead: int) -> _Models:
    """Return every model of the grid, over `n` days seen and `ahead` to come."""
    covariances, odds = zip(*priors(n, ahead), strict=True)
    whole = np.stack(covariances)
    seen = whole[:, :n, :n]
    return _Models(
        np.linalg.inv(seen),
        np.linalg.slogdet(seen)[1],
        whole[:, :n, n:].sum(axis=2),
        whole[:, n:, n:].sum(axis=(1, 2)),
        np.array(odds),
        ahead,
    )


def priors(n: int, ahead: int) -> list[tuple[Doubles, float]]:
    """Return every model of the grid before a series is seen.

    The covariance of all its days beside a day's noise, its odds.
    """
    days = np.arange(n + ahead)
    same = ((days[:, None] - days[None, :]) % _PROJECTION_WEEK == 0).astype(np.float64)
    # How far a growth of one a day has come by each day, from the last seen on: it wears off.
    lasting = np.cumsum(_LASTS ** np.arange(1, ahead + 1))
    growth = np.concatenate([np.arange(1 - n, 1, dtype=np.float64), lasting])
    grown = np.outer(growth, growth)
    models = []
    for (back, size), weekly, growing in product(_WANDERS, _WEEKDAYS, _GROWTHS):
        if (weekly and n < 2 * _PROJECTION_WEEK) or (growing and n < _PROJECTION_WEEK):
            continue
        covariance = (
            np.eye(n + ahead) + size * _wander(days, back) + weekly * same + growing * grown
        )
        models.append((covariance, (_ODDS if weekly else 1.0) * (_ODDS if growing else 1.0)))
    return models


def _wander(days: NDArray[np.int_], back: float) -> Doubles:
    """Return the covariance of a walk from the first day on, or of one that comes back."""
    if back == _NEVER:
        return np.minimum(days[:, None], days[None, :]) / _PROJECTION_WEEK
    return np.asarray(np.exp(-np.abs(days[:, None] - days[None, :]) / back))
