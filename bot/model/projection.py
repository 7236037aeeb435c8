"""Project the sum of the coming days from daily series, each by the habits that it has shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bot.model.frame import Doubles

FEWEST = 3
"""Days under which nothing is projected."""
MOST = 120
"""Newest days that are looked at."""
LEAST_HELD = 0.8
"""Share of futures that a range holds at least, as the one that AWS's own forecast gives."""
_WEEK = 7
_LEVELS = (1, 2, 3, 7, 14, 28, 56)
"""Days over which a habit takes the level of a line."""
_SAME_WEEKDAYS = (1, 2, 4)
"""Weeks over which a habit takes each weekday's level."""
_SCALED_WEEKS = (3, 7)
"""Days over which a habit takes the level of the usual week."""
_USUAL_WEEK = 42
_TREND = 14
_LASTS = 0.99
"""Days over which a growth is taken, and the share of it that is left the day after."""
_MEMORY = 0.95
"""Weight of an error beside that of one made a day later."""
_FLOOR = 0.01
"""Of a line's usual day: errors under it tell no habit from another."""

_SIDE = 3
"""Days on either side of a step that must agree on it."""
_LEAST, _NOISE = 0.04, 5.0
"""How far a step leads at least.

As a share of the level, and beside how far the days on either side usually differ.
"""
_STEPS, _DAYS = 0.5, 15.0
"""Steps in so many days that an account counts as having had before its history begins."""
_WEIGHT = 6.0
"""Steps of other fleets that stand beside the sizes of its own."""
_UP, _SIZE, _SPREAD, _DOWN = 0.55, 0.15, 0.6, 0.8
"""Of other fleets.

Share of steps up, how far one leads and its spread in logarithms, and what part of that one down
leads.
"""
_NEW, _SETTLES = 14, 7
"""Days under which a line is new, and those that it counts as having lasted before."""
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
    """The share of futures within the range."""


def project(
    lines: ArrayLike, ahead: int, unsure: float = 0.0, besides: float = 0.0
) -> Projection | None:
    """Return the sum of the `ahead` days after those of `lines`, shape (days,) or (n, days).

    It is added to `besides`, of which `unsure` is the spread. None with fewer than three days.
    """
    seen = np.atleast_2d(np.asarray(lines, dtype=np.float64))[:, -MOST:]
    if seen.shape[1] < FEWEST:
        return None
    if ahead <= 0 or not seen.any():
        return Projection(-unsure, 0.0, unsure)

    forecasts = Forecasts.of(seen)
    middle = float(forecasts.days(ahead).sum())
    errors = _errors(seen.sum(axis=0), forecasts, ahead, unsure)
    ends = np.sort(middle + errors - _cut_short(seen, forecasts.days(ahead)))

    # A range is widened by a per cent of the whole where that holds a per cent more of the futures:
    # most are alike, and few lead far to one side. Where none are alike, it is the narrowest.
    worth = np.arange(len(ends)) / len(ends) - ends / max(abs(besides + middle), 1e-9)
    last = int((worth - np.minimum.accumulate(worth)).argmax())
    first = int(worth[: last + 1].argmin())
    least = int(np.ceil(LEAST_HELD * len(ends)))
    if last - first + 1 < least:
        first = int((ends[least - 1 :] - ends[: len(ends) - least + 1]).argmin())
        last = first + least - 1
    low, high = min(float(ends[first]), middle), max(float(ends[last]), middle)
    return Projection(low, middle, high, float(np.mean((ends >= low) & (ends <= high))))


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
        usual = np.abs(lines).cumsum(axis=1) / np.arange(1, days + 1)
        mixed = Forecasts(np.zeros((days + 1, n, _WEEK)), np.zeros((days + 1, n)))
        whole: dict[int, Doubles] = {}
        for today in range(1, days + 1):
            regret = np.zeros(week.shape[1:3])
            for day in range(max(1, today - MOST // 2), today):
                after = min(_WEEK, today - day)
                error = whole.get(day)
                if error is None:
                    # What each habit expected of those days together, (habits, n).
                    coming = week[day][:, :, np.arange(day, day + after) % _WEEK].sum(axis=2)
                    summed = coming + growth[day] * after * (after + 1) / 2
                    error = np.abs(summed - lines[:, day : day + after].sum(axis=1)) / after
                    error -= error.min(axis=0)
                if after == _WEEK:
                    whole[day] = error
                regret += _MEMORY ** (today - day - 1) * error

            # A weight for each day's error, so that a young line's are as large as an old one's.
            counted = (1 - _MEMORY ** (today - 1)) / (1 - _MEMORY) or 1.0
            weights = (regret / counted + _FLOOR * usual[:, today - 1] + 1e-9) ** -2
            weights /= weights.sum(axis=0)
            mixed.week[today] = (week[today] * weights[:, :, None]).sum(axis=0)
            mixed.growth[today] = (growth[today] * weights).sum(axis=0)
        return mixed

    def days(self, ahead: int) -> Doubles:
        """Return what each of the `ahead` days after the last is expected to cost, (n, ahead)."""
        last = len(self.week) - 1
        coming = np.arange(last, last + ahead) % _WEEK
        lasting = np.cumsum(_LASTS ** np.arange(ahead))
        return np.asarray(self.week[-1][:, coming] + self.growth[-1][:, None] * lasting)

    def off(self, total: Doubles, day: int, ahead: int) -> float:
        """Return how far the days from `day` on together were off what was expected of them."""
        earlier = Forecasts(self.week[: day + 1], self.growth[: day + 1])
        return float(total[day : day + ahead].sum() - earlier.days(ahead).sum())

    def moves(self, total: Doubles) -> tuple[Doubles, Doubles]:
        """Return how far each day of the total was off, and by how much it moved the level."""
        days = np.arange(1, len(total))
        expected = self.week.sum(axis=1)[days, days % _WEEK] + self.growth.sum(axis=1)[days]
        level = self.week.sum(axis=1).mean(axis=1)
        return total[1:] - expected, np.diff(level)[1:] - self.growth.sum(axis=1)[1:-1]


def _habits(lines: Doubles) -> tuple[Doubles, Doubles]:
    """Return what each habit expects after each day, (days + 1, habits, n, 7), and its growth."""
    n, days = lines.shape
    habits = len(_LEVELS) + len(_SAME_WEEKDAYS) + len(_SCALED_WEEKS) + 1
    week = np.zeros((days + 1, habits, n, _WEEK))
    growth = np.zeros((days + 1, habits, n))
    sums = np.concatenate([np.zeros((n, 1)), lines.cumsum(axis=1)], axis=1)
    numbers = np.arange(days) % _WEEK
    for day in range(1, days + 1):
        levels = [(sums[:, day] - sums[:, max(0, day - span)]) / min(span, day) for span in _LEVELS]
        expected = [np.repeat(level[:, None], _WEEK, axis=1) for level in levels]
        usual = expected[_LEVELS.index(_WEEK)]

        # The same weekdays, where there was one; the level of a week where there was none.
        same = [lines[:, max(0, number % _WEEK) : day : _WEEK] for number in range(_WEEK)]
        for weeks in _SAME_WEEKDAYS:
            told = [
                same[number][:, -weeks:].mean(axis=1) if number < day else usual[:, number]
                for number in range(_WEEK)
            ]
            expected.append(np.stack(told, axis=1))
        expected += _scaled(lines[:, :day], same, numbers[:day], usual)

        slope, end = _trend(lines[:, max(0, day - _TREND) : day])
        growth[day, -1] = slope
        week[day] = np.stack([*expected, np.repeat(end[:, None], _WEEK, axis=1)])
    return week, growth


def _scaled(
    seen: Doubles, same: Sequence[Doubles], numbers: NDArray[np.int_], usual: Doubles
) -> list[Doubles]:
    """Return the usual week at the level of the newest days, for two weeks of history or more."""
    if seen.shape[1] < 2 * _WEEK:
        return [usual for _ in _SCALED_WEEKS]
    shape = np.stack([x[:, -_USUAL_WEEK // _WEEK :].mean(axis=1) for x in same], axis=1)
    mean = shape.mean(axis=1, keepdims=True)
    shape = np.divide(shape, mean, out=np.ones_like(shape), where=np.abs(mean) > 1e-9)
    scaled = []
    for span in _SCALED_WEEKS:
        part = shape[:, numbers[-span:]].mean(axis=1)
        level = seen[:, -span:].mean(axis=1)
        level = np.divide(level, part, out=usual[:, 0].copy(), where=part > 0.1)
        scaled.append(level[:, None] * shape)
    return scaled


def _trend(seen: Doubles) -> tuple[Doubles, Doubles]:
    """Return the slope of a straight line through the days, and where it ends."""
    days = seen.shape[1]
    if days < _WEEK:
        return np.zeros(len(seen)), seen[:, -1]
    from_middle = np.arange(days) - (days - 1) / 2
    slope = seen @ from_middle / (from_middle @ from_middle)
    return slope, seen.mean(axis=1) + slope * (days - 1) / 2


def _errors(total: Doubles, forecasts: Forecasts, ahead: int, unsure: float) -> Doubles:
    """Draw by how much the forecast of the coming days is off, shape (draws,).

    A month ends off its forecast by what each day to come is off, and by how far it moves the level
    of the days after it. Days of this account are drawn again; steps apart from them, as a history
    holds few. The draws are the same each time, so that one bill has one forecast.
    """
    rng = np.random.default_rng(0)
    level = max(float(np.abs(forecasts.days(1)).sum()), float(np.abs(total[-_WEEK:]).mean()))
    off, moved = forecasts.moves(total)
    days, steps = steps_of(total)
    steps_drawn = moves_of(steps, len(total), ahead) * level

    # A habit is found out within a week; what a step did is drawn apart.
    calm = np.ones(len(off), dtype=bool)
    calm[: min(_WEEK, len(off) - FEWEST + 1)] = False
    for day in days:
        calm[max(0, day - _SIDE) : day + _WEEK] = False
    if calm.sum() < FEWEST:
        calm[:] = True
    # A week is drawn at a time: what wanders is off to one side for days.
    weeks = -(-ahead // _WEEK)
    usable = np.flatnonzero(calm)
    begins = rng.integers(0, len(usable), (_DRAWS, weeks))
    inside = (begins[:, :, None] + np.arange(_WEEK)) % len(usable)
    drawn = usable[inside.reshape(_DRAWS, -1)[:, :ahead]]
    days_after = ahead - 1 - np.arange(ahead)
    # What was off to one side may be off to the other.
    sides = np.repeat(rng.choice((-1.0, 1.0), (_DRAWS, weeks)), _WEEK, axis=1)[:, :ahead]
    noise = (sides * (off[drawn] + days_after * moved[drawn])).sum(axis=1)
    # Few weeks seen say little of how large their noise is: Student's factor.
    freedom = max(FEWEST, len(usable) // _FREE)
    noise *= np.sqrt(freedom / rng.chisquare(freedom, _DRAWS))
    jumps = ((1 + days_after) * steps_drawn).sum(axis=1)
    unsure += _LEAST_NOISE * level * np.sqrt(ahead)
    return np.asarray(noise + jumps + unsure * rng.standard_normal(_DRAWS))


def _cut_short(lines: Doubles, expected: Doubles) -> Doubles:
    """Draw what lines that began lately cost less, as they end before the days do, (draws,).

    What is new lasts about as long again as it has lasted: a run of three days ends sooner than a
    cluster of three months.
    """
    n, days = lines.shape
    rng = np.random.default_rng(2)
    saved = np.zeros(_DRAWS)
    ahead = np.arange(expected.shape[1])
    for row in range(n):
        age = days - int((lines[row] != 0).argmax())
        runs = expected[row].sum() > 0 and lines[row, -1] != 0
        if age < _NEW and age < days and runs:
            ends = (age + _SETTLES) * (1 / rng.random(_DRAWS) - 1)
            saved += (expected[row] * (ahead >= ends[:, None])).sum(axis=1)
    return saved


def moves_of(steps: Doubles, days: int, ahead: int) -> Doubles:
    """Draw by scenario and day the share by which the level moves, 0 on most days.

    `steps` are those of the `days` seen.
    """
    rng = np.random.default_rng(1)
    # How often this fleet steps, by what it has shown and by other fleets while it is young.
    rate = rng.gamma(_STEPS + len(steps), 1 / (_DAYS + days), _DRAWS)
    shape = (_DRAWS, ahead)

    # How far each step leads: as one of the fleet's own did, or one of another fleet.
    sizes = _SIZE * np.exp(_SPREAD * rng.standard_normal(shape))
    sizes = np.where(rng.random(shape) < _UP, sizes, -_DOWN * sizes)
    if len(steps):
        like_own = rng.random(shape) < len(steps) / (len(steps) + _WEIGHT)
        sizes = np.where(like_own, rng.choice(steps, shape), sizes)
    # A fleet seldom falls to nothing, or more than doubles, in a day.
    sizes = np.clip(sizes, -0.9, 1.0)
    return np.where(rng.random(shape) < rate[:, None], sizes, 0.0)


def steps_of(series: Doubles) -> tuple[list[int], Doubles]:
    """Return the day from which each step of a daily series holds, and the steps.

    A step is a share of the level before it. Weekdays are no steps.
    """
    if len(series) < 2 * _SIDE:
        return [], np.zeros(0)
    # A weekday's rise is no step, and a single odd day moves no median of three.
    levels = _middles(_without_week(series), _SIDE)
    before, moved = levels[:-_SIDE], levels[_SIDE:] - levels[:-_SIDE]
    large = np.maximum(np.abs(before), abs(levels[-1]) / 2)
    far = np.abs(moved)
    far[far <= np.maximum(_LEAST * large, _NOISE * np.median(far))] = 0.0

    # The farthest first: the days beside it differ by the same step and are not counted again.
    days, steps = [], []
    while far.any():
        day = int(far.argmax())
        days.append(day + _SIDE)
        steps.append(moved[day] / max(large[day], abs(moved[day]) * _LEAST))
        far[max(0, day - _SIDE + 1) : day + _SIDE] = 0.0
    return days, np.array(steps)


def _without_week(series: Doubles) -> Doubles:
    """Return a series less each weekday's usual distance from the week about it.

    Unchanged under two weeks.
    """
    if len(series) < 2 * _WEEK:
        return series
    half = _WEEK // 2
    off, weekday = series[half:-half] - _middles(series, _WEEK), np.arange(len(series)) % _WEEK
    usual = np.array([np.median(off[weekday[half:-half] == day]) for day in range(_WEEK)])
    return np.asarray(series - usual[weekday])


def _middles(series: Doubles, days: int) -> Doubles:
    """Return the median of each so many days in a row, which a step moves at once."""
    return np.asarray(np.median(np.lib.stride_tricks.sliding_window_view(series, days), axis=1))
