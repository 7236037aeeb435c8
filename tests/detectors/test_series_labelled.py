from datetime import UTC, datetime, timedelta
from functools import cache

import numpy as np
import pytest

from benchmarks.episodes import (
    DATA,
    Labelled,
    episodes,
    grade,
    labelled_series,
    labelled_services,
    total,
)
from benchmarks.invented import HELD_BACK, TUNING, invented
from benchmarks.invented_faults import FAULTS
from benchmarks.nab import nab_gain, nab_score
from benchmarks.score_search import measured, score_of
from detectors.series.score import score_series
from detectors.series.signals import ENVELOPE_WORTH, SIGNALS, TAILS

beside = pytest.mark.skipif(
    not DATA.is_dir(), reason="the labelled series are not beside the repository"
)


def graded(every):
    return total(grade(series, score_series(series.times, series.values)[1]) for series in every)


@beside
def test_most_windows_are_found_and_most_of_what_is_told_is_true():
    found = graded(labelled_series())
    assert found.f1 >= 0.74
    assert found.false / found.weeks < 0.15


@beside
@pytest.mark.parametrize("family", ["realAdExchange", "realKnownCause", "realTraffic"])
def test_no_kind_of_series_is_left_behind(family):
    assert graded(series for series in labelled_series() if series.family == family).f1 > 0.5


@cache
def unspoiled():
    return graded(invented(range(2000, 2002)))


def test_invented_series_of_other_seeds_are_told_as_well_as_those_tuned_on():
    tuned, others = graded(invented(TUNING[:3])), graded(invented(HELD_BACK[:3]))
    assert min(tuned.f1, others.f1) > 0.66
    assert others.false / others.weeks < 0.5


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(FAULTS[name], id=name, marks=[pytest.mark.slow] * (n % 3 > 0))
        for n, name in enumerate(FAULTS)
    ],
)
def test_a_fault_of_the_recording_brings_no_storm(spoil):
    usual, spoiled = unspoiled(), graded(map(spoil, invented(range(2000, 2002))))
    assert spoiled.false / spoiled.weeks < usual.false / usual.weeks + 1


@beside
@pytest.mark.slow
def test_events_of_many_metrics_are_found():
    assert graded(labelled_services()).f1 >= 0.65


@beside
@pytest.mark.parametrize(
    "name", ["realKnownCause/nyc_taxi.csv", "realAdExchange/exchange-4_cpm_results.csv"]
)
def test_half_of_a_labelled_series_scores_as_the_whole_did(name):
    [series] = [series for series in labelled_series() if series.name == name]
    half = len(series.times) // 2
    whole, alone = (
        score_series(series.times, series.values),
        score_series(series.times[:half], series.values[:half]),
    )
    assert np.array_equal(whole[0][:half], alone[0])
    assert np.array_equal(whole[1][:half], alone[1])


def test_episodes_join_near_flags_and_are_found_where_they_start():
    flags = np.zeros(100, dtype=bool)
    flags[[10, 22, 35, 36, 60]] = True
    assert episodes(flags) == [(10, 22), (35, 36), (60, 60)]
    at = [np.datetime64("2026-01-01") + np.timedelta64(n, "h") for n in range(100)]
    found = grade(
        Labelled("x/y", [time.item() for time in at], np.zeros((100, 1)), [(20, 36), (80, 90)], 5),
        flags,
    )
    assert (found.found, found.windows, found.false) == (1, 2, 2)
    assert found.f1 == pytest.approx(0.4)


def test_nab_gains_most_at_the_start_of_a_window():
    at = [datetime(2026, 1, 1, tzinfo=UTC) + n * timedelta(hours=1) for n in range(100)]
    series = Labelled("x/y", at, np.zeros((100, 1)), [(40, 50), (80, 90)], 15)
    gains = {row: nab_gain(series, np.arange(100) == row) for row in (5, 20, 40, 45, 49, 50, 70)}
    assert gains[40] == 0
    assert gains[40] > gains[45] > gains[49] > -1
    assert gains[5] == -2
    assert gains[20] == pytest.approx(-2.11)
    assert -2.11 < gains[50] < gains[5]
    assert nab_score([gains[5]], 2) == 0


@beside
def test_the_nab_score_holds_and_the_search_judges_as_the_detector_does():
    every = labelled_series()
    gains = [nab_gain(series, score_series(series.times, series.values)[1]) for series in every]
    worths = {
        **{signal.name: signal.worth for signal in SIGNALS},
        "tail": TAILS,
        "envelope": ENVELOPE_WORTH,
    }
    found, score = score_of([measured(series).judged(worths) for series in every])
    assert nab_score(gains, found.windows) == pytest.approx(score)
    assert score >= 72
