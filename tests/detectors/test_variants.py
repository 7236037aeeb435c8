"""Fleets of many kinds, made apart from the product's simulator: silent while well, told with the cause when not."""

from datetime import timedelta

import pytest
from crew import START
from minutes import Fleet, spoken
from variants import AT, CALM, INCIDENTS, steady


@pytest.mark.parametrize("name", CALM)
def test_a_fleet_that_is_well_is_silent(name):
    assert [a.anomaly.why for a in spoken(CALM[name](21).replay())] == []


@pytest.mark.parametrize("name", INCIDENTS)
def test_what_goes_wrong_is_told_once_with_its_cause(name):
    cause, bend, within = INCIDENTS[name]
    (alert,) = spoken(Fleet((bend(steady(21)),)).replay())
    assert alert.cause.value == cause
    assert timedelta(0) <= alert.opened - START - timedelta(minutes=AT) <= timedelta(minutes=within)
