"""Dollars of alerts from the bill: the sum of its hours over their usual, an estimate since, and a month end for what goes on."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from builder import Fleet, World, only
from test_spend import DAY, HOUR, HOURS_OF, NOW, S3, SETTLED, bill, hourly, usual

from bot.model.alert import Alert
from bot.model.causes import Cause
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.reading import SPEND_METRIC
from bot.model.window import Window
from bot.watch.track import value

CLOUD = Labels(account="1", region="us-west-2", service="AmazonEC2")


def dollars(world, now=NOW, known=()):
    """Return the waste of the one alert of the bill that opens at `now`."""
    world.known = list(known)
    anomaly = only(world.at(now))
    return value(Alert("a1", anomaly, now, now), None, lambda _: None, now).waste


def by_hour(*lines, end=NOW - DAY + 5 * HOUR, days=20):
    """Return a frame of (thing, usual USD an hour, USD of the newest hours) that ends at `end`."""
    n = days * 24 + 5
    values = np.zeros((len(lines), n, 1), np.float32)
    for i, (_, level, newest) in enumerate(lines):
        values[i, :, 0] = level
        values[i, n - len(newest) :, 0] = newest
    return Frame(
        "spend_hour",
        tuple(thing for thing, _, _ in lines),
        end - n * HOUR,
        HOUR,
        (SPEND_METRIC,),
        values,
    )


def world(hours, days=SETTLED):
    return World(Fleet(2, days=2.5), frames={"spend": days, "spend_hour": hours})


def test_so_far_is_the_sum_of_the_bills_hours_over_their_usual_and_an_estimate_since():
    """The first hour cost far more than the newest: the newest rate times the elapsed hours would be wrong for all of them."""
    waste = dollars(world(hourly(S3, [101, 11, 11, 11])))
    unbilled = (NOW - (NOW - DAY + 5 * HOUR)) / HOUR
    assert waste.so_far == pytest.approx(
        Decimal(100 + 3 * 10) + Decimal(10) * Decimal(unbilled), rel=Decimal("0.01")
    )


def test_what_is_over_on_the_bill_costs_nothing_more_and_has_no_month_end():
    waste = dollars(world(hourly(S3, [41, 41, 41, 1, 1, 1])))
    assert waste.so_far == pytest.approx(Decimal(120), abs=Decimal(1))
    assert (
        waste.month_end
        == waste.month_end_low
        == waste.month_end_high
        == waste.so_far.quantize(Decimal("0.01"))
    )


def test_what_comes_every_night_is_not_over_at_noon():
    nights = [41, 41, 41, *[1] * 21, 41, 41, 41, *[1] * 5]
    waste = dollars(
        world(hourly(S3, nights), bill(("AmazonS3", "Requests-Tier1", usual(144, 24.0))))
    )
    assert waste.per_hour == pytest.approx(Decimal(120) / 24, abs=Decimal("0.1"))
    assert waste.month_end > waste.so_far


def test_a_month_end_of_the_bill_has_a_range_and_never_lies_under_what_is_billed():
    waste = dollars(world(hourly(S3, [40, 40, 40])))
    assert Decimal(117) < waste.month_end_low < waste.month_end < waste.month_end_high


def test_hours_that_changed_from_spot_to_on_demand_cost_the_difference():
    spot = CLOUD.merge(Labels(usage_type="USW2-SpotUsage:trn1.32xlarge", cluster="sweep"))
    demand = CLOUD.merge(Labels(usage_type=HOURS_OF, cluster="sweep"))
    days = (NOW - DAY - (NOW - 21 * DAY)) // DAY
    values = np.full((2, days + 1, 1), np.nan, np.float32)
    values[0, :days, 0], values[1, :days, 0] = 1440, 0
    values[0, days - 1, 0], values[1, days - 1, 0] = 0, 4800
    frame = Frame("spend", (spot, demand), NOW - 21 * DAY, DAY, (SPEND_METRIC,), values)
    hours = by_hour((spot, 60.0, [0.0] * 29), (demand, 0.0, [200.0] * 29))
    waste = dollars(world(hours, frame))
    assert waste.per_hour == Decimal(140)
    assert waste.so_far == pytest.approx(Decimal(140 * (29 + 19)))


def test_a_cluster_whose_hours_stay_hides_nothing_of_anothers():
    """Only the place that grew is added up: what other teams do on the same line is their own."""
    other, ours = S3.merge(Labels(team="vision")), S3.merge(Labels(team="search"))
    hours = by_hour((other, 10.0, [4.0] * 5), (ours, 1.0, [41.0] * 5))
    days = bill(("AmazonS3", "Requests-Tier1", 24.0 * 11))
    assert dollars(world(hours, days)).so_far == pytest.approx(
        Decimal(40 * (5 + 19)), rel=Decimal("0.02")
    )


def test_hours_whose_rows_have_not_arrived_are_estimated_and_end_nothing():
    late = by_hour((S3, 1.0, [41.0] * 8 + [0.0] * 3))
    waste = dollars(world(late))
    assert waste.so_far == pytest.approx(Decimal(40 * (8 + 3 + 19)), rel=Decimal("0.02"))


def test_dollars_count_from_the_beginning_of_the_alert_that_is_open():
    """A calm day between is part of it: the dollars do not begin anew with the newest run of days."""
    hours = by_hour((S3, 1.0, [41.0] * 24 + [1.0] * 24 + [41.0] * 53))
    days = bill(("AmazonS3", "Requests-Tier1", [24.0] * 16 + [984.0, 24.0, 984.0, 984.0]))
    first = only(world(hours, days).at(NOW))
    since = NOW - 5 * DAY
    known = Alert("a1", replace(first, window=Window(since, NOW)), NOW - 3 * DAY, NOW - HOUR)
    assert dollars(world(hours, days)).so_far == pytest.approx(Decimal(40 * (53 + 19)))
    assert dollars(world(hours, days), known=[known]).so_far == pytest.approx(
        Decimal(40 * (24 + 53 + 19))
    )


def test_days_are_added_up_where_the_export_has_no_hours():
    days = bill(("AmazonS3", "Requests-Tier1", [24.0] * 17 + [264.0, 384.0, 144.0]))
    waste = dollars(World(Fleet(2, days=2.5), frames={"spend": days}))
    assert waste.so_far == pytest.approx(Decimal(240 + 360 + 120) + 5 * 24, rel=Decimal("0.02"))


def test_an_alert_from_the_hours_does_not_end_when_its_day_settles():
    """At midnight no hour is left that no settled day holds: the hours go on all the same."""
    hours = by_hour((S3, 1.0, [4.0] * 11), end=NOW - DAY)
    found = World(Fleet(2, days=2.5), frames={"spend": SETTLED, "spend_hour": hours}).at(NOW)
    assert [one.cause for one in found.anomalies] == [Cause.SPEND_JUMP]


def test_a_fee_that_nobody_uses_is_told_from_its_hours():
    hours = by_hour((FEE, 0.0, [476.0] * 4))
    found = only(world(hours, bill((FEE.service, FEE.usage_type, 0.01))).at(NOW))
    assert (found.cause, found.usd_per_hour) == (Cause.COMMITMENT_UNUSED, Decimal(476))


FEE = Labels(
    account="1",
    region="us-west-2",
    service="ComputeSavingsPlans",
    usage_type="EC2SP:trn1.1yrNoUpfront",
)


@pytest.mark.parametrize(("back", "unbilled"), [(None, 19), (6, 6)])
def test_a_commitment_whose_nodes_are_back_is_unused_no_more_though_the_bill_does_not_show_it_yet(
    back, unbilled
):
    through = NOW - DAY + 5 * HOUR
    fleet = Fleet(8, days=2.5)
    fleet.silence(through - 8 * HOUR, through + back * HOUR if back else NOW + DAY / 2)
    seen = World(
        fleet,
        frames={
            "spend": bill((FEE.service, FEE.usage_type, 0.01)),
            "spend_hour": by_hour((FEE, 0.0, [476.0] * 8)),
        },
    )
    found = next(one for one in seen.at(NOW).anomalies if one.cause is Cause.COMMITMENT_UNUSED)
    waste = value(Alert("a1", found, NOW, NOW), None, lambda _: None, NOW).waste
    assert waste.so_far == pytest.approx(Decimal(476 * (8 + unbilled)))
    assert (waste.month_end == waste.so_far.quantize(Decimal("0.01"))) is (back is not None)


def test_hours_of_nodes_that_are_gone_cost_nothing_more_though_the_bill_does_not_show_it_yet():
    through = NOW - DAY + 5 * HOUR
    fleet = Fleet(8, days=2.5).silence(NOW - 2 * DAY, through - 4 * HOUR, slice(4, 8))
    fleet.stop(through - 4 * HOUR, through + 3 * HOUR, slice(4, 8)).silence(
        through + 3 * HOUR, NOW + DAY / 2, slice(4, 8)
    )
    hours = CLOUD.merge(Labels(usage_type=HOURS_OF))
    frames = {
        "spend": bill(("AmazonEC2", HOURS_OF, 2064.0)),
        "spend_hour": by_hour((hours, 86.0, [172.0] * 4)),
    }
    found = next(
        one
        for one in World(fleet, frames=frames).at(NOW).anomalies
        if one.cause is Cause.SPEND_JUMP
    )
    waste = value(Alert("a1", found, NOW, NOW), None, lambda _: None, NOW).waste
    assert waste.so_far == pytest.approx(Decimal(86 * (4 + 3)))
