import numpy as np
import pytest

from detectors.series.signals import SeriesPace, spreads, tails, youth

PACE = SeriesPace(hour=4, history=4000, learning=10, young=10, delay=1, rest=5)


def test_an_exponential_tail_has_its_scale():
    values = np.random.default_rng(0).exponential(3.0, 8000)
    assert tails(values, PACE)[0, -1] == pytest.approx(3.0, rel=0.4)


def test_one_extreme_changes_a_tail_little_and_leaves_the_other_side_alone():
    values = np.random.default_rng(0).normal(0, 1, 4000)
    before = tails(values, PACE)[:, -1]
    values[2000] = 500
    above, below = tails(values, PACE)[:, -1] / before
    assert 1 <= above < 1.3
    assert below == 1


def test_a_tail_of_too_few_hours_is_not_known():
    assert np.isnan(tails(np.arange(80.0), PACE)).all()
    assert np.isnan(tails(np.full(900, np.nan), PACE)).all()


def test_the_spread_of_rare_bursts_is_a_third_of_their_height():
    values = np.zeros(1000)
    values[::100] = 9
    assert spreads(values, PACE)[-1] == 3


def test_the_spread_of_a_constant_is_a_thousandth_of_it():
    assert spreads(np.full(100, -50.0), PACE)[-1] == pytest.approx(0.05)


def test_more_is_asked_of_a_young_history():
    asked = youth(np.concatenate([np.full(5, np.nan), np.zeros(1000)]), PACE)
    assert asked[14] == 2
    assert (np.diff(asked) <= 0).all()
    assert asked[-1] < 1.01
