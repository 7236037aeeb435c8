"""Budgets of a month, and commitments that nothing uses."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import numpy as np
from builder import START, Fleet, World, only

from bot.model.alert import Alert, Waste
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


def only_of(anomalies):
    assert len(anomalies) == 1
    return anomalies[0]


def test_a_new_month_begins_anew_at_the_old_pace():
    first = datetime(2026, 12, 1, 6, tzinfo=UTC)
    burn = only_of(found(first.replace(hour=0), policy(search="3000"), search=125))
    assert "$0 of $3,000 (0 %)" in burn.why
    assert found(first.replace(hour=0), policy(search="4000"), search=125) == ()


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


def test_growth_and_level_are_one_alert():
    jump = only(World(Fleet(2, days=2.5), frames={"spend": fees([5.0] * 14 + [45.0] * 5)}).at(NOW))
    level = only(World(Fleet(2, days=2.5), frames={"spend": fees(45.0)}).at(NOW))
    assert jump.key == level.key
