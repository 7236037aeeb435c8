"""Series of numbers of any kind, and at which rows `trnbot score` speaks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import numpy as np
from builder import START

Numbers = np.ndarray
DAY = 288
SERIES: dict[str, Callable[[], tuple[Numbers, int]]] = {}
"""The values of each series, (n, m), and the minutes between its rows."""


def series(make: Callable[[], Numbers]) -> None:
    title = make.__name__.replace("_", " ").strip().capitalize()
    SERIES[title] = lambda: (make(), 60 if "hourly" in title else 5)


def times(n: int, minutes: int) -> list:
    return [START + i * timedelta(minutes=minutes) for i in range(n)]


def calm(n: int = 2600, m: int = 1, seed: int = 0) -> Numbers:
    rng = np.random.default_rng(seed)
    return 10 + np.sin(np.arange(n) / DAY * 2 * np.pi)[:, None] + rng.normal(0, 0.1, (n, m))


def bent(start: int, change: Numbers | float, m: int = 1) -> Numbers:
    values = calm(m=m)
    values[start : start + len(np.atleast_1d(change)), 0] += change
    return values


@series
def a_calm_series():
    return calm()


@series
def a_height_that_was_never_reached():
    return bent(2000, np.full(6, 15.0))


@series
def a_step_that_stays():
    return bent(2000, np.full(600, 8.0))


@series
def a_slow_rise():
    return bent(2000, np.linspace(0, 6, 300))


@series
def a_line_that_becomes_flat_after_short_rests():
    values = calm()
    for start, length in ((600, 20), (1200, 30)):
        values[start : start + length] = values[start]
    values[2000:2400] = values[1999]
    return values


@series
def a_line_that_is_flat_for_less_than_twice_as_long_as_before():
    values = calm()
    values[1000:1100] = values[999]
    values[2000:2150] = values[1999]
    return values


@series
def a_tremble_within_its_range():
    values = 10 + np.sin(np.arange(2600) / 20)[:, None]
    values[2000:2300] = 10 + np.where(np.arange(300) % 2, 0.9, -0.9)[:, None]
    return values


@series
def a_day_s_height_at_the_wrong_hour():
    values = np.tile(np.repeat([1.0, 9.0], DAY // 2), 10)[:, None]
    values += np.random.default_rng(0).normal(0, 0.05, values.shape)
    values[7 * DAY + 20 : 7 * DAY + 60] = 9
    return values


@series
def a_series_that_is_missing_for_a_day_and_in_parts():
    values = bent(2000, np.full(6, 15.0))
    values[1200:1488] = np.nan
    values[::7] = np.nan
    return values


@series
def a_counter_that_restarts_and_hurries():
    rates = np.random.default_rng(2).uniform(90, 110, 2600)
    rates[2000:2060] *= 4
    counts = np.cumsum(rates)
    counts[1500:] -= counts[1500] - 3
    return counts[:, None]


@series
def two_of_six_metrics_leave_their_range():
    values = calm(m=6)
    values[2000:2020, :2] += [[3.0, -2.0]]
    return values


@series
def metrics_that_stop_moving_together():
    rng = np.random.default_rng(1)
    common = np.sin(np.arange(2600) / 40)[:, None]
    values = common * [1, 2, -1, 0.5] + rng.normal(0, 0.01, (2600, 4))
    values[2000:2100, 2] *= -1
    return values


@series
def two_metrics_that_move_against_each_other():
    common = np.sin(np.arange(2600) / 40)[:, None]
    values = common * [1, 2] + np.random.default_rng(1).normal(0, 0.05, (2600, 2))
    values[2000:2100, 1] *= -1
    return values


@series
def hourly_weeks_of_which_a_saturday_is_like_a_weekday():
    hours = np.arange(24 * 7 * 6)
    working = hours // 24 % 7 < 5
    values = np.where(working, 5 + 3 * np.sin(hours / 24 * 2 * np.pi), 1.0)
    values = values + np.random.default_rng(3).normal(0, 0.1, len(hours))
    values[24 * 33 : 24 * 34] = values[24 * 28 : 24 * 29]
    return values[:, None]


@series
def hourly_weeks_that_lose_half_a_day():
    hours = np.arange(24 * 7 * 5)
    values = (
        5 + 3 * np.sin(hours / 24 * 2 * np.pi) + np.random.default_rng(4).normal(0, 0.1, len(hours))
    )
    values[24 * 30 : 24 * 30 + 12] -= 1.2
    return values[:, None]


@series
def a_young_series_with_a_spike():
    values = calm(n=700)
    values[500] += 5
    return values


@series
def two_readings_and_nothing_else():
    values = np.full((400, 1), np.nan)
    values[10:12, 0] = 1, 2
    return values
