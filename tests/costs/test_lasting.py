"""How much longer an alert goes on, by those that ended."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from bot.model.alert import Alert
from bot.model.causes import CAUSES, Cause
from bot.model.window import Window
from bot.watch.track import Lengths, value
from tests.builders import NOON, alert, anomaly, price

MONTH = Decimal(720)
USUAL = CAUSES[Cause.STARVED].lasts / timedelta(hours=1)


def lasting(hours: float, cause: Cause = Cause.STARVED, *, over: bool = False) -> Alert:
    window = Window(NOON - timedelta(hours=hours), NOON)
    made = alert(replace(anomaly(cause), window=window), name=f"a{hours}")
    return replace(made, closed=NOON if over else None)


def test_what_has_begun_goes_on_as_usual_and_what_outlived_the_usual_longer() -> None:
    young, old = (Lengths().left(lasting(hours), Decimal(10**9)) for hours in (0, 100))
    assert float(young.mean) == pytest.approx(USUAL, rel=1e-6)
    assert float(old.mean) == pytest.approx(USUAL + 100, rel=1e-6)


def test_those_that_lasted_longer_tell_how_much_longer() -> None:
    past = Lengths.of([lasting(hours, over=True) for hours in (3, 9, 9, 9)])
    # Three went on for two hours more, and the usual for its own length and seven.
    left = past.left(lasting(7), Decimal(10**9))
    assert float(left.mean) == pytest.approx((3 * 2 + USUAL + 7) / 4)
    others = Lengths.of([lasting(hours, Cause.IDLE, over=True) for hours in (9, 9)])
    assert others.left(lasting(7), MONTH) == Lengths().left(lasting(7), MONTH)


def test_what_is_still_open_was_no_shorter() -> None:
    past = [lasting(9, over=True)]
    still = Lengths.of([*past, lasting(200)]).left(lasting(7), MONTH)
    assert still.mean > Lengths.of(past).left(lasting(7), MONTH).mean
    whole = Lengths.of([*past, lasting(200)]).left(lasting(7), Decimal(10**9))
    assert float(whole.mean) == pytest.approx((USUAL + 7 + 2 + 193) / 2)
    as_long = Lengths.of([lasting(7, over=True), lasting(7)])
    assert as_long.left(lasting(7), MONTH) == Lengths().left(lasting(7), MONTH)


def test_a_month_that_ends_caps_it() -> None:
    left = Lengths().left(lasting(100, Cause.ORPHANED_STORAGE), Decimal(2))
    assert left.low <= left.mean < left.high == 2
    assert Lengths().left(lasting(1), Decimal(0)).high == 0


def test_an_incident_of_seven_hours_is_not_worth_ten_days() -> None:
    waste = value(lasting(7), None, lambda *_: price("200.00"), NOON).waste
    assert waste is not None
    assert waste.month_end - waste.so_far < 24 * waste.per_hour


@pytest.mark.parametrize("spread", [0.5, 1.0, 1.5])
def test_the_range_holds_and_the_mean_is_near_for_lengths_that_spread(spread: float) -> None:
    """Lengths about seven hours, whose logarithms spread so far, each looked at at any time of it.

    An alert is looked at as often as it is long.
    """
    dice = random.Random(3)
    looks = held = expected = lasted = 0.0
    for _ in range(800):
        *past, length = (dice.lognormvariate(2.0, spread) for _ in range(21))
        age = length * dice.random()
        ended = Lengths.of([lasting(hours, over=True) for hours in past])
        left = ended.left(lasting(age), MONTH)
        looks += length
        held += length * (float(left.low) <= length - age <= float(left.high))
        expected += length * float(left.mean)
        lasted += length * (length - age)
    assert held / looks == pytest.approx(0.9, abs=0.06)
    assert 1 < expected / lasted < 1.6
