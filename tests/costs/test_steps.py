"""The steps of a daily series, and what later ones may do to the coming days."""

import numpy as np
import pytest

from bot.model.projection import Forecasts, moves_of, steps_of


def test_a_level_that_changes_is_one_step_of_its_share():
    _, steps = steps_of(np.array([100.0] * 14 + [130.0] * 10))
    assert steps == pytest.approx([0.3])


def test_steps_up_and_down_are_found_each():
    _, steps = steps_of(np.array([100.0] * 10 + [150.0] * 10 + [75.0] * 10))
    assert sorted(steps) == pytest.approx([-0.5, 0.5])


@pytest.mark.parametrize(
    "series",
    [
        [100.0] * 30,
        [100.0, 100.0, 100.0, 100.0, 100.0, 20.0, 20.0] * 4,
        [100.0 + 2 * n for n in range(30)],
        list(np.random.default_rng(3).normal(100, 6, 40)),
        [100.0] * 12 + [400.0] + [100.0] * 12,
        [100.0, 300.0],
        [0.0] * 20,
    ],
    ids=["flat", "weekends", "growth", "noise", "one day", "too short", "nothing"],
)
def test_what_is_no_step(series):
    days, steps = steps_of(np.array(series))
    assert len(days) == len(steps) == 0


def test_a_week_hides_no_step():
    week = [100.0, 100.0, 100.0, 100.0, 100.0, 20.0, 20.0]
    _, steps = steps_of(np.array(week * 3 + [day + 50 for day in week * 2]))
    assert steps == pytest.approx([0.5], abs=0.25)


def test_most_days_of_a_calm_fleet_change_nothing_and_an_old_one_is_the_calmer():
    young, old = moves_of(np.zeros(0), 14, 20), moves_of(np.zeros(0), 100, 20)
    assert np.mean(young != 0) > 3 * np.mean(old != 0) > 0
    assert np.mean((old != 0).any(axis=1)) < 0.1


def test_a_fleet_that_stepped_down_may_step_down_again():
    calm, fell = moves_of(np.zeros(0), 42, 20), moves_of(np.array([-0.3, -0.2, -0.3]), 42, 20)
    assert fell.sum(axis=1).mean() < calm.sum(axis=1).mean()
    assert np.quantile(fell.sum(axis=1), 0.05) < np.quantile(calm.sum(axis=1), 0.05) < 0


def test_each_coming_day_adds_less_growth_than_the_one_before_and_the_first_adds_all_of_it():
    week, growth = np.full((2, 1, 7), 100.0), np.array([[0.0], [10.0]])
    coming = Forecasts(week, growth).days(20)[0]
    added = np.diff(coming, prepend=100.0)
    assert added[0] == pytest.approx(10.0)
    assert (np.diff(added) < 0).all()
    assert (added > 0).all()
