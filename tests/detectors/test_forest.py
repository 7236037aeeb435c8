from datetime import timedelta

import numpy as np
import pytest
from builder import Fleet, World, hours

from bot.model.causes import Cause
from bot.policy.schema import default_policy
from detectors.forest import (
    FAR,
    MANY,
    METRICS,
    SAMPLE,
    TREES,
    JobUsual,
    Scale,
    distances,
    fit,
    in_proportion,
    median_of,
    with_background,
)
from detectors.nodes.odd import OddModel
from detectors.roster import Limits, build_roster


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(3).normal(0, 1, (4000, 6)).astype(np.float32)


def plain(rows):
    from sklearn.ensemble import IsolationForest

    model = IsolationForest(n_estimators=TREES, max_samples=min(SAMPLE, len(rows)), random_state=0)
    return model.fit(with_background(rows))


@pytest.mark.parametrize("copies", [1, 10])
def test_scores_are_scikit_learns_to_the_bit_with_the_sign_flipped(rows, copies):
    some = np.vstack([rows[:1000], np.full((5, 6), 6, np.float32), np.zeros((5, 6), np.float32)])
    shifted = np.vstack([some + np.float32(i) / 7 for i in range(copies)])
    assert (len(shifted) > MANY) == (copies > 1)
    assert (fit(rows).score(shifted) == -plain(rows).score_samples(shifted)).all()


def test_a_forest_of_one_row_scores_as_scikit_learns(rows):
    assert (fit(rows[:1]).score(rows[:9]) == -plain(rows[:1]).score_samples(rows[:9])).all()


def test_higher_is_stranger_even_beyond_what_was_seen(rows):
    near, far, farther = fit(rows).score(np.array([[0] * 6, [4] * 6, [9] * 6], np.float32))
    assert near < far < farther <= 1


def test_the_same_rows_give_the_same_forest(rows):
    assert (fit(rows).score(rows[:50]) == fit(rows).score(rows[:50])).all()


def test_nothing_to_score_is_nothing(rows):
    assert fit(rows).score(rows[:0]).shape == (0,)


def test_what_was_not_read_is_not_strange():
    scale = Scale(np.full((1, 3), 5, np.float32), np.full((1, 3), 1, np.float32))
    assert distances(np.array([[np.nan, 5, 50]], np.float32), scale).tolist() == [[0, 0, FAR]]


def test_traffic_that_goes_with_the_work_is_the_same_at_any_work():
    levels = np.ones((len(METRICS), 2), np.float32)
    levels[[i for i, name in enumerate(METRICS) if name.startswith("efa_")]] = 3e10, 1e10
    levels[0] = 0.9, 0.3
    in_proportion(levels)
    assert levels[1:, 0] == pytest.approx(levels[1:, 1])


def test_a_median_leaves_out_what_was_not_read():
    values = np.array([[[1.0], [np.nan], [3.0], [9.0]]], np.float32)
    assert median_of(values).tolist() == [[3.0]]


@pytest.mark.parametrize(
    ("per_week", "limit"), [(10, 0.62), (1, 0.6 + 0.03 * np.log(4)), (0.1, 0.6 + 0.03 * np.log(40))]
)
def test_the_threshold_is_an_expected_number_of_false_alerts(per_week, limit):
    scope = np.array([0.6]), np.array([0.03]), np.array([4.0]), np.array([0.605])
    assert OddModel(None, None, None, *scope).threshold(0, per_week) == pytest.approx(limit)


def odd(fleet, start, end, nodes):
    fleet.scale(start, end, nodes, efa=0.06, neuron_execution_latency=0.58, network_in=0.1)
    return fleet.set(start, end, nodes, host_cpu=0.72, host_memory=0.2)


def test_an_odd_combination_is_told_once_with_the_metrics_that_made_it():
    world = World(odd(Fleet(8, days=4), hours(60), hours(64), slice(0, 2)))
    (alert,) = world.run(hours(58), hours(66))
    assert (alert.cause, alert.anomaly.things) == (Cause.ODD, ("i-llama000", "i-llama001"))
    assert alert.opened - hours(60) <= timedelta(minutes=40)
    assert "host CPU" in alert.anomaly.why


def test_the_forest_is_silent_for_two_days():
    assert (
        World(odd(Fleet(8, days=2), hours(30), hours(34), slice(0, 2))).run(hours(28), hours(36))
        == []
    )


def test_the_forest_is_silent_on_calm_fleets():
    world = World(*(Fleet(12, days=5, cluster=f"c{i}", seed=i) for i in range(3)))
    assert world.run(hours(49), hours(119), timedelta(minutes=10)) == []


def test_the_forest_is_silent_where_a_rule_explains():
    fleet = odd(Fleet(8, days=4), hours(60), hours(64), slice(0, 2)).starve(
        hours(60), hours(64), slice(0, 2)
    )
    assert {a.cause for a in World(fleet).run(hours(58), hours(66))} == {Cause.STARVED}


def test_after_it_spoke_it_rests():
    fleet = odd(
        odd(Fleet(8, days=5), hours(60), hours(62), slice(0, 2)), hours(70), hours(72), slice(0, 2)
    )
    assert len(World(fleet).run(hours(58), hours(74))) == 1


def test_a_planned_event_told_days_ahead_makes_no_rule_look_back_so_far():
    world, policy = World(Fleet(1, days=1)), default_policy()
    roster = build_roster(world.whole.things, world.inventory(hours(1)))
    ahead = type(policy)({**policy.values, "interruption_notice.ahead": timedelta(days=20)})
    assert Limits(ahead, roster).longest == Limits(policy, roster).longest < timedelta(days=2)


def test_it_can_be_off():
    policy = default_policy()
    off = type(policy)({**policy.values, "odd.on": False})
    assert (
        World(odd(Fleet(8, days=4), hours(60), hours(62), slice(0, 2)), policy=off).run(
            hours(59), hours(62)
        )
        == []
    )


@pytest.mark.parametrize(("sample", "shown"), [(2, True), (15, False)], ids=["before", "since"])
def test_a_state_is_the_jobs_own_where_it_showed_it_before_a_time(sample, shown):
    ones = np.ones((1, len(METRICS)), np.float32)
    samples = np.zeros((1, 16, len(METRICS)), np.float32)
    samples[0, sample] = 9
    usual = JobUsual(hours(10), Scale(0 * ones, ones), np.zeros(1, np.float32), samples)
    assert usual.showed(9 * ones, np.array([0]), hours(8)).tolist() == [shown]
