from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from builder import START
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.novelty import forward_fill, highest_before, run_lengths, speak_then_rest, trailing_mean
from detectors.series import score_series

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "series"


def times(n, minutes=5):
    return [START + i * timedelta(minutes=minutes) for i in range(n)]


def calm(n=3000, m=1, seed=0):
    rng = np.random.default_rng(seed)
    return 10 + np.sin(np.arange(n) / 288 * 2 * np.pi)[:, None] + rng.normal(0, 0.1, (n, m))


def test_a_new_height_is_told_once_and_scored_high():
    values = calm()
    values[2000:2006] = 25
    scores, flags = score_series(times(3000), values)
    assert flags.nonzero()[0].tolist() == [2000]
    assert scores.min() >= 0
    assert 0.9 < scores[2000] <= 1
    assert scores[1500] < 0.2


def test_a_flat_line_is_told():
    values = calm()
    values[2000:2100] = values[1999]
    assert 2000 < score_series(times(3000), values)[1].nonzero()[0][0] <= 2030


def test_a_calm_series_is_silent():
    assert not score_series(times(3000), calm())[1].any()


def test_one_metric_of_many_is_enough():
    values = calm(m=6)
    values[2500:2510, 3] = -20
    assert score_series(times(3000), values)[1].nonzero()[0].tolist() == [2500]


@pytest.mark.parametrize("rows", [0, 1, 2, 40])
def test_short_series_are_silent(rows):
    scores, flags = score_series(times(rows), np.zeros((rows, 1)))
    assert (scores.shape, flags.any()) == ((rows,), False)


def test_what_was_not_read_is_not_strange():
    values = calm()
    values[1000:1400] = np.nan
    assert not score_series(times(3000), values)[0][1000:1400].any()


@given(st.integers(1, 700), st.integers(0, 5), st.integers(1, 3))
@settings(max_examples=30, deadline=None)
def test_the_first_rows_give_the_same_alone(cut, seed, metrics):
    values = calm(700, metrics, seed)
    values[400:410] *= 3
    values[100 * seed : 100 * seed + 50] = np.nan
    scores, flags = score_series(times(700, 60), values)
    alone, alone_flags = score_series(times(cut, 60), values[:cut])
    assert np.array_equal(scores[:cut], alone)
    assert np.array_equal(flags[:cut], alone_flags)


@given(st.lists(st.floats(-9, 9), min_size=1, max_size=60), st.integers(1, 20))
def test_highest_before_is_the_plain_maximum(values, length):
    found = highest_before(np.array(values), length)
    plain = [max(values[max(0, i - length) : i], default=np.nan) for i in range(len(values))]
    assert np.array_equal(found, plain, equal_nan=True)


def test_small_parts():
    assert forward_fill(np.array([np.nan, 1, np.nan, 3]))[1:].tolist() == [1, 1, 3]
    assert trailing_mean(np.array([1.0, 2, 3, 4]), 2)[1:].tolist() == [1.5, 2.5, 3.5]
    assert run_lengths(np.array([False, True, True, False, True])).tolist() == [0, 1, 2, 0, 1]
    assert speak_then_rest(np.array([1.0, 1, 0, 1, 1]), 0.5, 3).nonzero()[0].tolist() == [0, 3]


@pytest.mark.skipif(not DATA.is_dir(), reason="the labelled series are not on this machine")
@pytest.mark.parametrize("name", ["ec2_request_latency_system_failure", "cpu_utilization_asg_misconfiguration"])
def test_known_failures_are_found_with_few_false_alarms(name):
    rows = [line.split(",") for line in (DATA / "realKnownCause" / f"{name}.csv").read_text().splitlines()[1:]]
    _, flags = score_series([datetime.fromisoformat(r[0]) for r in rows], np.array([[float(r[1])] for r in rows]))
    assert 1 <= flags.sum() <= 12
