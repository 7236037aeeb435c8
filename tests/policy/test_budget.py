"""A budget of messages: how it is read, what floors send, and how surely a promise holds."""

import itertools
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.errors import WrongInput
from bot.model.alert import Peak
from bot.model.causes import Cause
from bot.model.window import Window
from bot.policy.schema import default_policy
from bot.watch.budget import FLOOR, SURE, WEEK, Budget, frontier, messages_of, read_budget, week_of
from tests.builders import NOON, alert, anomaly, waste

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
TWO_WEEKS = Window(NOON, NOON + 2 * WEEK)


def idle(name, per_hour, so_far=None, opened=NOON, cluster=None, hours=1):
    found = anomaly(Cause.IDLE, cluster=cluster or name, at=opened)
    spent = waste(per_hour=str(per_hour), so_far=str(so_far or per_hour))
    made = alert(found, name=name, opened=opened, closed=opened + hours * HOUR, waste=spent)
    return replace(made, peak=Peak(found, Decimal(per_hour), Decimal(per_hour)))


def seen(*alerts):
    return frontier(alerts, TWO_WEEKS, default_policy())


FIVE_ALERTS = [idle(f"a{n}", per_hour, so_far=10 * per_hour) for n, per_hour in enumerate((2, 5, 20, 60, 300))]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "budget"),
    [
        ("at most 2 messages a week", Budget(2)),
        ('"at most 2 messages a week" and "at least 90 % of wasted dollars"', Budget(2, 0.9)),
        ("no more than 1 alert per day, and catch at least 75.5%", Budget(7, 0.755)),
        ("90 percent of the waste", Budget(0, 0.9)),
        ("0.5/week", Budget(0.5)),
    ],
)
def test_a_budget_is_read_as_people_write_it(words, budget):
    assert read_budget(words) == budget


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("few messages", "'few' is not part of a budget"),
        ("at most 2 messages a week for vision", "'for vision' is not part"),
        ("at most", "No number was given"),
        ("at least 120%", "at most 100 %"),
        ("0 messages a week", "turns rules off"),
    ],
)
def test_what_is_not_understood_is_named(words, wrong):
    with pytest.raises(WrongInput, match=wrong):
        read_budget(words)


def test_each_floor_sends_what_wastes_more_at_its_peak():
    points = seen(*FIVE_ALERTS).points
    assert [(point.messages, point.usd) for point in points] == [
        (0, 0),
        (1, 3000),
        (2, 3600),
        (3, 3800),
        (4, 3850),
        (5, 3870),
    ]
    assert all(a.usd_per_hour > b.usd_per_hour for a, b in itertools.pairwise(points))


def test_what_carries_no_dollars_no_floor_holds_back():
    silent = replace(idle("none", 1), waste=None, peak=None)
    assert [point.messages for point in seen(silent, FIVE_ALERTS[0]).points] == [1, 2]


def test_small_things_of_one_cluster_count_together():
    volumes = []
    for n in range(4):
        found = anomaly(Cause.ORPHANED_STORAGE, cluster="llama", at=NOON, things=(f"vol-{n}",))
        made = alert(found, name=f"v{n}", opened=NOON, waste=waste(per_hour="3", so_far="9"))
        volumes.append(replace(made, peak=Peak(found, Decimal(3), Decimal(3))))
    assert set(seen(*volumes).worths.values()) == {Decimal(12)}


def test_a_thing_without_a_price_adds_nothing_to_its_lot():
    first = anomaly(Cause.ORPHANED_STORAGE, cluster="llama", at=NOON, things=("vol-1",))
    priced = alert(first, name="v1", opened=NOON, waste=waste(per_hour="3", so_far="9"))
    found = seen(priced, replace(priced, id="v2", waste=None))
    assert found.worths == {"v1": Decimal(3), "v2": None}


def test_alerts_of_one_group_that_overlap_are_one_message():
    first, second = idle("a", 5, cluster="llama", hours=3), idle("b", 5, opened=NOON + HOUR, cluster="llama")  # fmt: skip
    later = idle("c", 5, opened=NOON + DAY, cluster="llama")
    assert messages_of([later, second, first]) == 2
    assert (
        messages_of([first, replace(second, anomaly=idle("d", 5, cluster="vision").anomaly)]) == 2
    )


def test_the_chosen_floor_catches_most_within_the_budget():
    frontier_ = seen(*FIVE_ALERTS)
    chosen = frontier_.chosen(Budget(2))
    assert (chosen.messages, frontier_.kept(chosen, Budget(2))) == (2, True)
    assert 20 < chosen.usd_per_hour <= 60
    # Two a week were promised and two in two weeks came: one more would hold in fewer weeks.
    more = frontier_.points[3]
    assert frontier_.held(chosen, 2) >= SURE > frontier_.held(more, 2)


def test_a_share_alone_takes_the_fewest_messages():
    chosen = seen(*FIVE_ALERTS).chosen(Budget(least_caught=0.9))
    assert chosen.messages == 2


def test_a_budget_that_no_floor_keeps_is_said():
    silent = [replace(idle(f"s{n}", 1), waste=None, peak=None) for n in range(9)]
    found = seen(*silent, *FIVE_ALERTS)
    assert not found.kept(found.chosen(Budget(1)), Budget(1))


@given(st.integers(0, 12), st.integers(0, 9), st.sampled_from([1.0, 0.5, 0.1]))
def test_a_promise_is_as_likely_as_drawn_weeks_say(messages, most, part):
    """Rates are drawn from what two weeks tell (Gamma), a part of a week from each (Poisson)."""
    alerts = [idle(f"a{n}", 5 + n, opened=NOON + n * HOUR) for n in range(messages)]
    found = seen(*alerts)
    rng = np.random.default_rng(4)
    weeks = rng.poisson(part * rng.gamma(messages + 0.5, 1 / 2, 40_000))
    likely = found.held(found.points[-1], most, part)
    assert likely == pytest.approx((weeks <= most).mean(), abs=0.01)


def test_a_week_is_judged_by_what_was_sent():
    muted = replace(idle("m", 1, so_far=100), muted_by=f"policy:{FLOOR}")
    snoozed = replace(idle("s", 50, so_far=900), muted_by="silence:s1")
    before = idle("b", 50, opened=NOON - DAY)
    week = week_of([*FIVE_ALERTS[3:], muted, snoozed, before], Window(NOON, NOON + WEEK))
    assert (week.messages, week.covered_usd, week.usd) == (2, 3600, 3700)
    assert week.keeps(Budget(2, 0.95))
    assert not week.keeps(Budget(1))
    assert not week.keeps(Budget(2, 0.99))


def test_a_floor_that_tells_of_nothing_is_not_chosen_for_a_sure_promise():
    week = frontier(FIVE_ALERTS, Window(NOON, NOON + WEEK), default_policy())
    chosen = week.chosen(Budget(1))
    assert chosen.messages == 1
    assert not week.kept(chosen, Budget(1))
