import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detectors.series.score import together
from detectors.series.signals import (
    SeriesPace,
    counted,
    delayed,
    flat_rows,
    forward_fill,
    highest_before,
    run_lengths,
    speak_then_rest,
    trailing_mean,
)


@given(st.lists(st.floats(-9, 9), min_size=1, max_size=60), st.integers(1, 20))
def test_highest_before_is_the_plain_maximum(values, length):
    found = highest_before(np.array(values), length)
    plain = [max(values[max(0, i - length) : i], default=np.nan) for i in range(len(values))]
    assert np.array_equal(found, plain, equal_nan=True)


@given(st.lists(st.floats(-9, 9), min_size=1, max_size=60), st.integers(1, 20))
def test_trailing_mean_is_the_plain_mean(values, length):
    found = trailing_mean(np.array(values), length)
    plain = [
        np.mean(values[i + 1 - length : i + 1]) if i + 1 >= length else np.nan
        for i in range(len(values))
    ]
    assert np.allclose(found, plain, atol=1e-9, equal_nan=True)


def test_forward_fill_begins_at_the_first_reading():
    assert np.array_equal(
        forward_fill(np.array([np.nan, 1, np.nan, 3])), [np.nan, 1, 1, 3], equal_nan=True
    )


def test_delayed_is_never_longer_than_the_series():
    assert np.array_equal(delayed(np.array([1.0, 2]), 1), [np.nan, 1], equal_nan=True)
    assert np.isnan(delayed(np.array([1.0, 2]), 9)).all()


def test_run_lengths_count_to_the_row_itself():
    assert run_lengths(np.array([False, True, True, False, True])).tolist() == [0, 1, 2, 0, 1]


@pytest.mark.parametrize(
    ("loud", "spoken"),
    [
        ([0, 4], [0]),
        ([0, 5], [0, 5]),
        ([0, 4, 5, 6], [0]),
        ([0, 4, 6], [0, 6]),
        ([3, 8, 12, 14], [3, 8, 14]),
    ],
)
def test_speak_then_rest(loud, spoken):
    scores = np.zeros(20)
    scores[loud] = 1
    pace = SeriesPace(hour=2, history=100, learning=10, young=1, delay=1, rest=5)
    assert speak_then_rest(scores, 0.5, pace).nonzero()[0].tolist() == spoken


def test_a_flat_line_must_be_twice_as_long_as_any_before():
    values = np.concatenate([np.arange(5), np.full(10, 5), np.arange(6, 9), np.full(30, 9)]).astype(
        float
    )
    assert flat_rows(values, 4).nonzero()[0].tolist() == [9, 36]


def test_one_metric_keeps_its_strangeness_and_two_are_stranger_than_one():
    assert np.allclose(together(np.array([[0.0], [1], [7]])), [0, 1, 7])
    one, both = together(np.array([[2.0, 0], [2, 2]]))
    assert both > one


def test_a_restart_is_no_reading_and_a_gauge_stays_as_it_is():
    count = np.concatenate([np.arange(100.0), np.arange(20.0)])
    assert np.isnan(counted(count, 90)[100])
    assert np.nanmax(counted(count, 90)) == 1
    gauge = np.sin(count)
    assert counted(gauge, 90) is gauge
