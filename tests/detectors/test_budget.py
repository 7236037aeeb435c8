"""Budgets of a month, and commitments that nothing uses."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import numpy as np
import pytest
from builder import START, Fleet, World, only

from bot.model.alert import Alert, Waste
from bot.model.causes import Cause, Severity
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.reading import BILLED_METRIC, SPEND_METRIC
from bot.policy.schema import default_policy
from bot.watch.mute import mute
from detectors.bill.judge import budgets_of

DAY = timedelta(days=1)
MID = datetime(2026, 11, 16, tzinfo=UTC)  # the day of 11-14 has settled: 16 days are left
SEARCH, VISION = Labels(team="search"), Labels(team="vision")


def bill(now, **teams):
    """Return a frame of USD a day of each team up to the newest settled day; a single figure is every day's."""
    days = 40
    values = np.full((len(teams), days, 1), np.nan, np.float32)
    for i, usd in enumerate(teams.values()):
        series = (
            [usd] * (days - 1)
            if np.ndim(usd) == 0
            else [usd[0]] * (days - 1 - len(usd)) + list(usd)
        )
        values[i, : days - 1, 0] = series
    things = tuple(
        Labels(account="1", region="us-west-2", service="AmazonEC2", usage_type="Serving", team=t)
        for t in teams
    )
    return Frame("spend", things, now - days * DAY, DAY, (SPEND_METRIC,), values)


def policy(everything="0", **teams):
    base = default_policy()
    scoped = tuple(
        (Labels(team=t), "budget_burn.month_usd", Decimal(usd)) for t, usd in teams.items()
    )
    quiet = {"spend_jump.on": False}
    return replace(
        base,
        values={**base.values, **quiet, "budget_burn.month_usd": Decimal(everything)},
        overrides=scoped,
    )


def found(now, rules, **teams):
    return (
        World(Fleet(2, days=16), policy=rules, frames={"spend": bill(now, **teams)})
        .at(now)
        .anomalies
    )


def test_no_budget_burns_by_default():
    assert budgets_of(default_policy()) == {}


@pytest.mark.parametrize(
    ("usd", "told"),
    [
        (100, False),  # 3,000 a month
        (105, False),  # a little over, within the slow rate
        (125, True),  # used up six days early
        (
            [68] * 13 + [400],
            True,
        ),  # the fast window: a day at many times what the rest allows, the week over it too
        ([40] * 13 + [300], False),  # one dear day, the week still fits
        ([200] * 8 + [60] * 6, False),  # was too fast, is not any more
    ],
)
def test_both_windows_must_burn_too_fast(usd, told):
    assert [a.cause for a in found(MID, policy(search="3000"), search=usd)] == [
        Cause.BUDGET_BURN
    ] * told


def test_it_says_what_is_spent_when_it_is_used_up_and_how_sure_that_is():
    burn = only_of(found(MID, policy(search="3000"), search=125, vision=900))
    assert burn.key == "budget_burn/team=search"
    assert (
        "Budget of team search: $1,750 of $3,000 (58 %) was billed through 2026-11-14" in burn.why
    )
    assert "at $125 a day used up about 2026-11-25, 6 days early (estimate)" in burn.why
    # The same forecast as `cost` tells: 30 days of $125.
    assert any(line.startswith("about $3,750 by month end ($3,") for line in burn.evidence)
    assert burn.usd_per_hour == pytest.approx(Decimal("1.95"), abs=Decimal("0.1"))
    assert burn.severity is Severity.WARNING


def only_of(anomalies):
    assert len(anomalies) == 1
    return anomalies[0]


def test_what_is_used_up_is_critical_though_it_burns_slowly():
    burn = only_of(found(MID, policy(search="1000"), search=[100] * 10 + [5] * 4))
    assert burn.severity is Severity.CRITICAL
    assert "it is used up" in burn.why


def test_each_scope_has_its_own_budget_and_everything_one():
    keys = [
        a.key
        for a in found(MID, policy("4000", search="3000", vision="90000"), search=125, vision=50)
    ]
    assert keys == ["budget_burn", "budget_burn/team=search"]


def test_a_new_month_begins_anew_at_the_old_pace():
    first = datetime(2026, 12, 1, 6, tzinfo=UTC)
    burn = only_of(found(first.replace(hour=0), policy(search="3000"), search=125))
    assert "$0 of $3,000 (0 %)" in burn.why
    assert found(first.replace(hour=0), policy(search="4000"), search=125) == ()


def test_a_quiet_weekend_does_not_end_it():
    world = World(
        Fleet(2, days=16),
        policy=policy(search="3000"),
        frames={"spend": bill(MID, search=[130] * 13 + [20])},
    )
    assert world.at(MID).anomalies == ()
    earlier = only_of(found(MID - DAY, policy(search="3000"), search=130))
    world.known = [Alert("a1", earlier, MID - DAY, MID - DAY)]
    assert [a.key for a in world.at(MID).anomalies] == [earlier.key]


def test_the_fees_of_a_first_day_are_spent_but_no_pace():
    now = datetime(2026, 11, 4, tzinfo=UTC)
    usd = [100.0] * 12 + [1000.0, 100.0]  # 11-01 and 11-02
    assert found(now, policy(search="4400"), search=usd) == ()
    assert "$1,100 of" in only_of(found(now, policy(search="3000"), search=usd)).why


def test_small_budgets_are_told():
    burn = only_of(found(MID, policy(search="30"), search=1.5))
    alert = Alert(
        "a1", burn, MID, MID, waste=Waste(burn.usd_per_hour, *[Decimal(0)] * 4, basis="the bill")
    )
    assert burn.usd_per_hour < 1
    assert mute([alert], [], default_policy(), MID)[0].muted_by == ""


NOW = START + 2 * DAY


def fees(unused, fee=100.0):
    """Return a frame of one Savings Plan's fee: USD a day in all, and of it unused."""
    days = 20
    thing = Labels(
        account="1",
        region="us-west-2",
        service="ComputeSavingsPlans",
        usage_type="EC2SP:trn1.1yrNoUpfront",
    )
    values = np.full((1, days, 2), np.nan, np.float32)
    values[0, :-1, 0] = unused
    values[0, :-1, 1] = fee
    return Frame("spend", (thing,), NOW - days * DAY, DAY, (SPEND_METRIC, BILLED_METRIC), values)


@pytest.mark.parametrize(
    ("unused", "told"),
    [
        (20.0, False),
        (45.0, True),
        ([5.0] * 14 + [45.0] * 5, True),
        ([45.0] * 18 + [10.0], False),
        (0.0, False),
    ],
)
def test_a_commitment_that_is_long_under_used_is_told(unused, told):
    anomalies = World(Fleet(2, days=2.5), frames={"spend": fees(unused)}).at(NOW).anomalies
    assert [a.cause for a in anomalies] == [Cause.COMMITMENT_UNUSED] * told


def test_under_use_says_share_and_usd_a_day():
    one = only(World(Fleet(2, days=2.5), frames={"spend": fees(45.0)}).at(NOW))
    assert "55 % of $100 a day was used over 7 settled days, so $45 a day is lost" in one.why
    assert (one.usd_per_hour, one.things) == (Decimal("1.875"), ("EC2SP:trn1.1yrNoUpfront",))


def test_growth_and_level_are_one_alert():
    jump = only(World(Fleet(2, days=2.5), frames={"spend": fees([5.0] * 14 + [45.0] * 5)}).at(NOW))
    level = only(World(Fleet(2, days=2.5), frames={"spend": fees(45.0)}).at(NOW))
    assert jump.key == level.key


@pytest.mark.parametrize(("days_unpaid", "named"), [(2, True), (0, False)])
def test_hours_that_a_plan_paid_until_it_ended_name_it(days_unpaid, named):
    plan = fees(0.0)
    hours = replace(plan.things[0], service="AmazonEC2", usage_type="USW2-BoxUsage:trn1.32xlarge")
    values = np.repeat(plan.values, 2, axis=0)
    values[0, -1 - days_unpaid : -1, 1] = 0.0
    values[1, :-1] = 900.0
    values[1, -3:-1] = 1600.0
    frame = replace(plan, things=(*plan.things, hours), values=values)
    jump = only(World(Fleet(2, days=2.5), frames={"spend": frame}).at(NOW))
    assert jump.cause is Cause.SPEND_JUMP
    assert ("EC2SP:trn1.1yrNoUpfront ended on" in jump.why) is named
