from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import pytest
from builder import START
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.series.score import pace_of, score_series
from detectors.series.signals import ENVELOPE_MOST, SIGNALS, ScoredSeries, strangeness

DAY = 288


def times(n, minutes=5):
    return [START + i * timedelta(minutes=minutes) for i in range(n)]


def calm(n=3000, m=1, seed=0):
    rng = np.random.default_rng(seed)
    return 10 + np.sin(np.arange(n) / DAY * 2 * np.pi)[:, None] + rng.normal(0, 0.1, (n, m))


def spoken(values, minutes=5):
    return score_series(times(len(values), minutes), values)[1].nonzero()[0].tolist()


def test_a_new_height_is_told_once_and_scored_high():
    values = calm()
    values[2000:2006] = 25
    scores, flags = score_series(times(3000), values)
    assert flags.nonzero()[0].tolist() == [2000]
    assert scores.min() >= 0
    assert 0.75 < scores[2000] < 1
    assert scores[1500] < 0.2


@pytest.mark.parametrize("seed", range(5))
def test_a_calm_series_is_silent(seed):
    assert spoken(calm(seed=seed)) == []


def test_a_step_is_told_at_its_edge_and_then_usual():
    values = calm()
    values[2000:] += 8
    found = spoken(values)
    assert found[0] == 2000
    assert found[-1] < 2000 + DAY


def test_a_flat_line_is_told_once():
    values = calm()
    values[2000:2400] = values[1999]
    found = spoken(values)
    assert 2000 < found[0] <= 2000 + 48
    assert len([row for row in found if row < 2400]) == 1


def test_a_series_that_is_mostly_flat_may_be_flat():
    values = np.zeros((3000, 1))
    values[::100] = 1
    assert spoken(values) == []


def test_a_slow_rise_is_told_though_each_row_is_hardly_above_the_last():
    values = calm()
    values[2000:2300] += np.linspace(0, 6, 300)[:, None]
    assert 2000 < spoken(values)[0] < 2150


def test_a_drift_of_a_day_is_told_though_no_hour_changes_much():
    values = 50 + np.random.default_rng(0).normal(0, 1, (4000, 1))
    values[3000:] += np.interp(np.arange(1000), [0, DAY], [0, 4])[:, None]
    assert 3000 < spoken(values)[0] < 3000 + DAY // 2


def test_an_usual_height_at_an_unusual_hour_is_told():
    values = np.tile(np.repeat([1.0, 9.0], DAY // 2), 12)[:, None] + np.random.default_rng(
        0
    ).normal(0, 0.1, (12 * DAY, 1))
    hour = 9 * DAY + 60
    values[hour : hour + 12] = 9
    assert hour <= spoken(values)[0] <= hour + 1


def test_a_week_is_learnt_where_days_differ():
    rng = np.random.default_rng(0)
    week = np.repeat([9.0, 9, 9, 9, 9, 1, 1], 24)
    values = (np.tile(week, 8) + rng.normal(0, 0.1, len(week) * 8))[:, None]
    monday_off = 7 * len(week) + 24
    values[monday_off : monday_off + 24] = 1
    assert [row for row in spoken(values, 60) if row >= 4 * len(week)] == [monday_off + 1]


def days(weeks, seed=0):
    """Return a daily curve under noise so strong that no row tells much; (n, 1)."""
    n = weeks * 7 * DAY
    return (
        10
        + 3 * np.sin(np.arange(n) / DAY * 2 * np.pi)
        + np.random.default_rng(seed).normal(0, 1, n)
    )[:, None]


@pytest.mark.parametrize("seed", range(3))
def test_half_a_day_unlike_that_half_day_is_told_though_each_row_is_usual(seed):
    values = days(4, seed)
    half_day = slice(23 * DAY, 23 * DAY + DAY // 2)
    values[half_day] -= 1.5
    assert [row for row in spoken(values) if row >= 21 * DAY] == pytest.approx(
        [half_day.start], abs=DAY // 4
    )


def test_half_days_are_not_judged_before_the_weeks_are_known():
    values = days(3)[:, 0] - 3 * (np.arange(21 * DAY) // DAY % 7 >= 5)
    series = ScoredSeries(
        np.array([at.timestamp() for at in times(21 * DAY)]), values, pace_of(np.arange(50) * 300.0)
    )
    offset = next(signal for signal in SIGNALS if signal.knows_weeks)
    assert replace(offset, knows_weeks=False).strength(series)[: 14 * DAY].any()
    assert not offset.strength(series)[: 14 * DAY].any()


def test_a_load_that_metrics_share_is_not_the_news_of_each():
    shared = days(4)
    shared[23 * DAY : 23 * DAY + DAY // 2] -= 1.5
    values = shared * [1, 2, 3] + np.random.default_rng(1).normal(0, 0.1, (len(shared), 3))
    assert [row for row in spoken(values) if row >= 21 * DAY] == []


def test_what_was_not_read_is_not_strange():
    values = calm()
    values[1000:1400] = np.nan
    assert not score_series(times(3000), values)[0].any(where=np.isnan(values[:, 0]))
    assert spoken(values) == []


@pytest.mark.parametrize("nothing", [np.nan, np.inf, -np.inf])
def test_nothing_but_no_readings_is_silent(nothing):
    assert not score_series(times(900), np.full((900, 2), nothing))[0].any()


def test_readings_each_second_are_judged_before_a_day_is_over():
    values = 10 + np.random.default_rng(0).normal(0, 0.1, (3000, 1))
    values[2000:2005] = 99
    assert score_series([START + i * timedelta(seconds=1) for i in range(3000)], values)[
        1
    ].nonzero()[0].tolist() == [2000]


def test_a_gap_in_time_is_not_strange():
    at = times(3000)
    later = [time + timedelta(days=2) for time in at[1500:]]
    assert not score_series(at[:1500] + later, calm())[1].any()


def counter(n=3000, restart=2000):
    steps = 100 + np.random.default_rng(0).normal(0, 5, n)
    count = np.cumsum(steps)
    count[restart:] -= count[restart - 1]
    return count[:, None]


def test_a_counter_may_grow_and_restart():
    assert spoken(counter()) == []


def test_a_counter_that_stops_counting_is_told():
    values = counter(restart=2999)
    values[2000:2990] = values[1999]
    assert 2000 <= spoken(values)[0] <= 2010


def test_a_gauge_that_falls_is_no_counter():
    values = np.cumsum(np.full((3000, 1), 1.0), axis=0)
    values[2000:] -= 1000
    assert spoken(values)[:1] == [2000]


@pytest.mark.parametrize("rows", [0, 1, 2, 40])
def test_short_series_are_silent(rows):
    scores, flags = score_series(times(rows), np.zeros((rows, 1)))
    assert (scores.shape, flags.any()) == ((rows,), False)


def test_one_metric_of_many_is_enough():
    values = calm(m=6)
    values[2500:2510, 3] = -20
    assert spoken(values) == [2500]


def test_metrics_that_part_company_are_told_though_each_is_in_its_range():
    load = calm()[:, 0]
    values = load[:, None] * [1, 2, -1, 3] + np.random.default_rng(1).normal(0, 0.05, (3000, 4))
    quiet = spoken(values)
    values[2500:2506, 1] = 2 * values[2500 - DAY // 2 : 2506 - DAY // 2, 0]
    assert quiet == []
    assert 2500 <= spoken(values)[0] < 2506


@st.composite
def recordings(draw):
    """Return ten days or some months of times with gaps, repeats and steps back, and values with nan, bursts and shifts."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, metrics = 900, draw(st.integers(1, 3))
    steps = rng.choice([0, 60, 300, 300, 300, 300, 7200, -300], n)
    values = calm(n, metrics, draw(st.integers(0, 9)))
    values[rng.random((n, metrics)) < 0.02] *= 3
    values[rng.random((n, metrics)) < draw(st.sampled_from([0, 0.1]))] = np.nan
    start = draw(st.integers(0, n))
    values[start:] += draw(st.sampled_from([0, 5, -20]))
    slower = draw(st.sampled_from([1, 12]))
    return [START + timedelta(seconds=int(at)) for at in slower * np.cumsum(steps)], values


@given(recordings(), st.integers(1, 900))
@settings(max_examples=25, deadline=None)
def test_the_first_rows_give_the_same_alone(recording, cut):
    at, values = recording
    scores, flags = score_series(at, values)
    alone, alone_flags = score_series(at[:cut], values[:cut])
    assert np.array_equal(scores[:cut], alone)
    assert np.array_equal(flags[:cut], alone_flags)
    assert ((scores >= 0) & (scores <= 1)).all()
    assert np.array_equal(scores >= 0.5, flags)


def test_times_before_the_one_above_change_nothing_but_themselves():
    at = times(3000)
    at[1500] = datetime(2001, 1, 1, tzinfo=at[0].tzinfo)
    assert not score_series(at, calm())[1].any()


@pytest.mark.parametrize("metrics", [1, 6])
def test_rows_that_say_nothing_are_ranked_all_the_same(metrics):
    scores, flags = score_series(times(3000), calm(m=metrics))
    assert not flags.any()
    assert scores.max() < 0.5
    assert (np.round(scores[600:], 6) > 0).mean() > 0.95
    assert len(np.unique(np.round(scores[600:], 6))) > 300


def test_what_is_loud_for_a_day_stays_ranked_below_one():
    values = calm(m=6)
    values[2000:2200] += 1e6 * np.arange(1, 201)[:, None]
    scores = score_series(times(3000), values)[0][2000:2200]
    assert 0.5 < scores[0] < 0.999999


def test_the_envelope_never_speaks_alone():
    assert ENVELOPE_MOST < 1
    tops = np.tile(np.where(np.arange(DAY) < 12, 9.0, 1.0), 12)[:, None] + np.random.default_rng(
        0
    ).normal(0, 0.01, (12 * DAY, 1))
    series = ScoredSeries(
        np.array([at.timestamp() for at in times(12 * DAY)]),
        tops[:, 0],
        pace_of(np.arange(50) * 300.0),
    )
    assert not strangeness(series, ())[DAY:].any()


def test_a_series_that_trembles_in_its_usual_range_is_told():
    values = 10 + np.sin(np.arange(3000) / 20)[:, None]
    values[2400:2700] = 10 + np.where(np.arange(300) % 2, 0.9, -0.9)[:, None]
    assert 2400 <= spoken(values)[0] < 2500
