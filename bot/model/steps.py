"""Find the steps of a daily series, and draw how later ones may change the sum of the coming days.

A fleet changes of a sudden: a cluster joins, a job ends. How often and how far an account has
stepped tells how it may step again. Where its history is short or calm, what is usual among fleets
stands beside it: more steps up than down, and larger ones.
"""

from __future__ import annotations

import numpy as np

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
    levels = _middles(_without_week(series), _SIDE)
    before, moved = levels[:-_SIDE], levels[_SIDE:] - levels[:-_SIDE]
    far = np.abs(moved)
    far[far <= np.maximum(_LEAST * np.abs(before), _NOISE * np.median(far))] = 0.0
    found = []
    while far.any():
        at = int(far.argmax())
        found.append(moved[at] / max(abs(before[at]), abs(moved[at]) * _LEAST))
        far[max(0, at - _SIDE + 1) : at + _SIDE] = 0.0
    return np.array(found)


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
    """Return the median of each so many days in a row: a step leaves it at one level or the other."""
    return np.asarray(np.median(np.lib.stride_tricks.sliding_window_view(series, days), axis=1))


def scenarios(steps: Doubles, days: int, ahead: int) -> Doubles:
    """Return by scenario the factor by which steps change the sum of the `ahead` days, given the `steps` of the `days` seen."""
    return np.asarray(
        np.exp(np.cumsum(np.log1p(moves_of(steps, days, ahead)), axis=1)).mean(axis=1)
    )


def moves_of(steps: Doubles, days: int, ahead: int) -> Doubles:
    """Draw by scenario and day the share by which the level moves, 0 on most days.

    The draws are the same each time, so that one bill has one forecast.
    """
    rng = np.random.default_rng(0)
    rate = rng.gamma(_STEPS + len(steps), 1 / (_DAYS + days), _DRAWS)
    sizes = _sizes(rng, steps, (_DRAWS, ahead))
    return np.where(rng.random(sizes.shape) < rate[:, None], sizes, 0.0)


def _sizes(rng: np.random.Generator, steps: Doubles, shape: tuple[int, int]) -> Doubles:
    """Draw how far each step leads: as one of its own did, or one of another fleet."""
    sizes = _SIZE * np.exp(_SPREAD * rng.standard_normal(shape))
    sizes = np.where(rng.random(shape) < _UP, sizes, -_DOWN * sizes)
    if len(steps):
        own = rng.random(shape) < len(steps) / (len(steps) + _WEIGHT)
        sizes = np.where(own, rng.choice(steps, shape), sizes)
    return np.clip(sizes, -0.9, 3.0)
