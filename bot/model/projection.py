"""Project the sum of the coming days from daily series, each by the habits that it has shown."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bot.model.frame import Doubles

FEWEST = 3
"""Days under which nothing is projected."""
MOST = 120
"""Newest days that are looked at."""
LEAST_HELD = 0.8
"""Share of months that a range holds at least, as the one that AWS's own forecast gives."""
_FORESEEN = 0.92
"""Share of months that go as futures are drawn; the others change as none of them does.

Of the ranges for months that nobody tuned on, those that hold 93 % of the futures held 85 %.
"""
_WEEK = 7
_LEVELS = (1, 7, 28)
"""Days over which a habit takes the level of a line."""
_SAME_WEEKDAYS = (1, 2, 4)
"""Weeks over which a habit takes each weekday's level."""
_TREND = 14
_LASTS = 0.95
"""Days over which a growth is taken, and the share of it that is left the day after."""
_FLOOR = 0.01
"""Of a line's usual day: errors under it tell no habit from another."""

_STEPS, _DAYS = 1.0, 30.0
"""Steps in so many days that an account counts as having had before its history begins.

Of accounts that nothing is known of, half change their level within a month.
"""
_UP, _SIZE, _SPREAD, _DOWN = 0.55, 0.15, 0.6, 0.8
"""Of other fleets.

Share of steps up, how far one leads and its spread in logarithms, and what part of that one down
leads.
"""
_LEAST_NOISE = 0.002
"""The noise that a day has at least, as a share of the level."""
_DRAWS = 2000
_FREE = 3
"""Days that make one free number of the noise: neighbours are alike."""
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
    held: float = 1.0
    """The share of months that end within the range."""


def project(
    lines: ArrayLike,
    coming: range,
    unsure: float = 0.0,
    besides: float = 0.0,
    forecasts: Forecasts | None = None,
) -> Projection | None:
    """Return the sum of the `coming` days, 0 the first after `lines`, shape (days,) or (n, days).

    Days before them are lived through and not counted: a month that is yet to begin. It is added to
    `besides`, of which `unsure` is the spread. None with fewer than three days.
    """
    skipped, ahead = coming.start, coming.stop
    seen = np.atleast_2d(np.asarray(lines, dtype=np.float64))
    if forecasts is None:
        seen = seen[:, -MOST:]
    if seen.shape[1] < FEWEST:
        return None
    if not coming or not seen.any():
        return Projection(-unsure, 0.0, unsure)

    forecasts = forecasts or Forecasts.of(seen)
    expected = forecasts.days(ahead)
    middle = float(expected[:, skipped:].sum())
    errors = _errors(seen.sum(axis=0), forecasts, ahead, skipped, unsure)
    ends = np.sort(middle + errors)

    # A range is widened by a per cent of the whole where that holds a per cent more of the futures:
    # most are alike, and few lead far to one side. Where none are alike, it is the narrowest.
    worth = np.arange(len(ends)) / len(ends) - ends / max(abs(besides + middle), 1e-9)
    last = int((worth - np.minimum.accumulate(worth)).argmax())
    first = int(worth[: last + 1].argmin())
    least = int(np.ceil(LEAST_HELD / _FORESEEN * len(ends)))
    if last - first + 1 < least:
        first = int((ends[least - 1 :] - ends[: len(ends) - least + 1]).argmin())
        last = first + least - 1
    low, high = min(float(ends[first]), middle), max(float(ends[last]), middle)
    return Projection(low, middle, high, _FORESEEN * float(np.mean((ends >= low) & (ends <= high))))


@dataclass(frozen=True)
class Forecasts:
    """Hold what was expected of some lines after each of their days, day 0 before the first.

    `week` is USD by weekday (day number modulo seven) and `growth` USD that each coming day adds,
    shapes (days + 1, n, 7) and (days + 1, n).
    """

    week: Doubles
    growth: Doubles

    @staticmethod
    def of(lines: Doubles) -> Forecasts:
        """Return the forecasts of lines, shape (n, days).

        Each habit counts by how little worse than the best of them it told the seven days after
        each day so far.
        """
        n, days = lines.shape
        week, growth = _habits(lines)

        # By how much more than the best each habit was off: over the whole weeks after each day of
        # the newest two months, then over what there was of the weeks that had not ended.
        regret = np.zeros((days + 1, *week.shape[1:3]))
        for after in reversed(range(1, min(_WEEK + 1, days))):
            missed = _missed(lines, week, growth, after)
            if after < _WEEK:
                regret[after + 1 :] += missed
                continue
            for day in range(_WEEK + 1, days + 1):
                first = max(1, day - MOST // 2)
                regret[day] = missed[first - 1 : day - _WEEK].sum(axis=0)

        # By the day, so that a young line's errors are as large as an old one's.
        today = np.arange(1, days + 1)
        usual = (np.abs(lines).cumsum(axis=1) / today).T[:, None]
        regret = regret[1:] / np.clip(today - 1, 1, MOST // 2)[:, None, None]
        weights = (regret + _FLOOR * usual + 1e-9) ** -2
        weights /= weights.sum(axis=1)[:, None]

        # Day by day, as all at once would take the memory of every habit once more.
        mixed = Forecasts(np.zeros((days + 1, n, _WEEK)), np.zeros((days + 1, n)))
        mixed.growth[1:] = (growth[1:] * weights).sum(axis=1)
        for day, weight in enumerate(weights, 1):
            mixed.week[day] = (week[day] * weight[:, :, None]).sum(axis=0)
        return mixed

    def days(self, ahead: int) -> Doubles:
        """Return what each of the `ahead` days after the last is expected to cost, (n, ahead)."""
        last = len(self.week) - 1
        coming = np.arange(last, last + ahead) % _WEEK
        lasting = np.cumsum(_LASTS ** np.arange(ahead))
        return np.asarray(self.week[-1][:, coming] + self.growth[-1][:, None] * lasting)

    def held(self, days: int) -> Forecasts:
        """Return what was expected, and for so many days more that nothing new was learnt."""
        last = -np.ones(days, dtype=int)
        return Forecasts(
            np.concatenate([self.week, self.week[last]]),
            np.concatenate([self.growth, self.growth[last]]),
        )

    def beside(self, others: Forecasts) -> Forecasts:
        """Return the forecasts of these lines, and of others after them."""
        return Forecasts(
            np.concatenate([self.week, others.week], axis=1),
            np.concatenate([self.growth, others.growth], axis=1),
        )

    def moves(self, total: Doubles) -> tuple[Doubles, Doubles]:
        """Return how far each day of the total was off, and by how much it moved the level."""
        days = np.arange(1, len(total))
        expected = self.week.sum(axis=1)[days, days % _WEEK] + self.growth.sum(axis=1)[days]
        level = self.week.sum(axis=1).mean(axis=1)
        return total[1:] - expected, np.diff(level)[1:] - self.growth.sum(axis=1)[1:-1]


def _habits(lines: Doubles) -> tuple[Doubles, Doubles]:
    """Return what each habit expects after each day, (days + 1, habits, n, 7), and its growth."""
    n, days = lines.shape
    habits = len(_LEVELS) + len(_SAME_WEEKDAYS) + 1
    week = np.zeros((days + 1, habits, n, _WEEK))
    growth = np.zeros((days + 1, habits, n))

    ended = np.arange(1, days + 1)
    sums = np.concatenate([np.zeros((n, 1)), lines.cumsum(axis=1)], axis=1)
    for habit, span in enumerate(_LEVELS):
        summed = sums[:, ended] - sums[:, np.maximum(0, ended - span)]
        week[1:, habit] = (summed / np.minimum(span, ended)).T[:, :, None]

    # The same weekdays, where there was one; the level of a week where there was none.
    usual = week[:, _LEVELS.index(_WEEK)]
    for habit, weeks in enumerate(_SAME_WEEKDAYS, len(_LEVELS)):
        for number in range(_WEEK):
            week[1 : number + 1, habit, :, number] = usual[1 : number + 1, :, number]
            for newest in range(number, days, _WEEK):
                same = lines[:, max(number, newest - (weeks - 1) * _WEEK) : newest + 1 : _WEEK]
                week[newest + 1 : newest + 1 + _WEEK, habit, :, number] = same.mean(axis=1)

    for day in range(1, days + 1):
        growth[day, -1], end = _trend(lines[:, max(0, day - _TREND) : day])
        week[day, -1] = end[:, None]
    return week, growth


def _missed(lines: Doubles, week: Doubles, growth: Doubles, after: int) -> Doubles:
    """Return by how much more than the best each habit was off a day, (days, habits, n).

    Over the `after` days that followed each day, from day 1 on, where so many have followed.
    """
    day = np.arange(1, lines.shape[1] + 1 - after)
    summed = sum(week[day, :, :, (day + n) % _WEEK] for n in range(after))
    summed = summed + growth[day] * after * (after + 1) / 2
    seen = np.stack([lines[:, n : n + after].sum(axis=1) for n in day])
    error = np.abs(summed - seen[:, None]) / after
    return np.asarray(error - error.min(axis=1)[:, None])


def _trend(seen: Doubles) -> tuple[Doubles, Doubles]:
    """Return the slope of a straight line through the days, and where it ends."""
    days = seen.shape[1]
    if days < _WEEK:
        return np.zeros(len(seen)), seen[:, -1]
    from_middle = np.arange(days) - (days - 1) / 2
    slope = seen @ from_middle / (from_middle @ from_middle)
    return slope, seen.mean(axis=1) + slope * (days - 1) / 2


def _errors(
    total: Doubles, forecasts: Forecasts, ahead: int, skipped: int, unsure: float
) -> Doubles:
    """Draw by how much the forecast of the coming days is off, shape (draws,).

    A month ends off its forecast by what each day to come is off, and by how far it moves the level
    of the days after it. Weeks of this account are drawn again, its own steps among them; what it
    has not shown yet is a step as others take. The draws are the same each time, so that one bill
    has one forecast.
    """
    rng = np.random.default_rng(0)
    level = max(float(np.abs(forecasts.days(1)).sum()), float(np.abs(total[-_WEEK:]).mean()))
    counted = np.arange(ahead) >= skipped
    days_after = np.minimum(ahead - 1 - np.arange(ahead), ahead - skipped)

    # A habit is found out within a week.
    known = slice(max(0, min(_WEEK, len(total) - 1 - FEWEST)), None)
    off, moved = (by_day[known] for by_day in forecasts.moves(total))
    # One step of its own says little of how large the next is: no day counts for more than a large
    # step of others, which a forecast has followed after a week, or twice what its days usually do.
    large = level * _SIZE * np.exp(_SPREAD)
    off, moved = (
        np.clip(by_day, -most, most)
        for by_day, at_once in ((off, large), (moved, large / _WEEK))
        for most in [max(at_once, 2 * np.abs(by_day).mean())]
    )
    weeks = -(-ahead // _WEEK)
    begins = rng.integers(0, len(off), (_DRAWS, weeks))
    inside = (begins[:, :, None] + np.arange(_WEEK)) % len(off)
    drawn = inside.reshape(_DRAWS, -1)[:, :ahead]
    # What was off to one side may be off to the other.
    sides = np.repeat(rng.choice((-1.0, 1.0), (_DRAWS, weeks)), _WEEK, axis=1)[:, :ahead]
    shown = (sides * (counted * off[drawn] + days_after * moved[drawn])).sum(axis=1)
    # Few weeks seen say little of how far off others are: Student's factor.
    freedom = max(FEWEST, len(off) // _FREE)
    shown *= np.sqrt(freedom / rng.chisquare(freedom, _DRAWS))

    steps = ((counted + days_after) * steps_of_others(len(total), ahead)).sum(axis=1)
    unsure += _LEAST_NOISE * level * np.sqrt(ahead - skipped)
    return np.asarray(shown + steps * level + unsure * rng.standard_normal(_DRAWS))


def steps_of_others(days: int, ahead: int) -> Doubles:
    """Draw by future and day the share by which the level moves as in other accounts, mostly 0.

    The rarer, the more `days` an account has shown of itself.
    """
    rng = np.random.default_rng(1)
    rate = rng.gamma(_STEPS, 1 / (_DAYS + days), _DRAWS)
    shape = (_DRAWS, ahead)
    sizes = _SIZE * np.exp(_SPREAD * rng.standard_normal(shape))
    sizes = np.where(rng.random(shape) < _UP, sizes, -_DOWN * sizes)
    # A fleet seldom falls to nothing, or more than doubles, in a day.
    sizes = np.clip(sizes, -0.9, 1.0)
    return np.where(rng.random(shape) < rate[:, None], sizes, 0.0)
