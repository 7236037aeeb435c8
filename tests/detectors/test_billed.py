"""Dollars of alerts from the bill: the sum of its hours over their usual, an estimate since, and a month end for what goes on."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from builder import Fleet, World, only
from test_spend import DAY, HOUR, NOW, S3, SETTLED, bill, hourly

from bot.model.alert import Alert
from bot.model.frame import Frame
from bot.model.reading import SPEND_METRIC
from bot.model.window import Window
from bot.watch.track import value


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


def test_what_is_over_on_the_bill_costs_nothing_more_and_has_no_month_end():
    waste = dollars(world(hourly(S3, [41, 41, 41, 1, 1, 1])))
    assert waste.so_far == pytest.approx(Decimal(120), abs=Decimal(1))
    assert (
        waste.month_end
        == waste.month_end_low
        == waste.month_end_high
        == waste.so_far.quantize(Decimal("0.01"))
    )


def test_a_month_end_of_the_bill_has_a_range_and_never_lies_under_what_is_billed():
    waste = dollars(world(hourly(S3, [40, 40, 40])))
    assert Decimal(117) < waste.month_end_low < waste.month_end < waste.month_end_high


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
