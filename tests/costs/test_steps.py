"""What is expected of coming days, and the steps that others take."""

import numpy as np
import pytest

from bot.model.projection import Forecasts, steps_of_others


def test_most_days_change_nothing_and_of_an_old_account_fewer():
    young, old = steps_of_others(14, 20), steps_of_others(100, 20)
    assert np.mean(young != 0) > 2 * np.mean(old != 0) > 0
    assert np.mean((old != 0).any(axis=1)) < 0.2


def test_half_of_the_accounts_that_nothing_is_known_of_change_within_a_month():
    assert np.mean((steps_of_others(0, 30) != 0).any(axis=1)) == pytest.approx(0.5, abs=0.03)


def test_each_coming_day_adds_less_growth_than_the_one_before_and_the_first_adds_all_of_it():
    week, growth = np.full((2, 1, 7), 100.0), np.array([[0.0], [10.0]])
    coming = Forecasts(week, growth).days(20)[0]
    added = np.diff(coming, prepend=100.0)
    assert added[0] == pytest.approx(10.0)
    assert (np.diff(added) < 0).all()
    assert (added > 0).all()
