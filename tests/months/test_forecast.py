"""The forecast held against blind months: a few of them here, all of them at length."""

from statistics import fmean, median

import pytest

from benchmarks.months import HELD_BACK, asked, asked_of_all


def test_months_that_change_nothing_are_told_from_their_first_week_on():
    forecasts = [forecast for seed in (103,) for forecast in asked(seed)]
    assert median(abs(forecast.error) for forecast in forecasts) <= 0.02
    for forecast in forecasts:
        assert forecast.nowcast.low <= forecast.nowcast.forecast <= forecast.nowcast.high


def test_a_savings_plan_that_ends_on_the_22nd_is_told_on_the_15th():
    (forecast,) = asked(358, [15])
    assert abs(forecast.error) <= 0.02
    assert forecast.held


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_sixty_months_that_nobody_tuned_on():
    forecasts = asked_of_all(HELD_BACK)
    assert median(abs(x.error) for x in forecasts) <= 0.02
    assert median(abs(x.error) for x in forecasts if x.day == 8) <= 0.05
    assert fmean(x.held for x in forecasts) >= 0.75
