"""Fleets of many kinds, made apart from the product's simulator: silent while well, told with the cause when not."""

from datetime import timedelta

import pytest
from crew import DAY, START
from minutes import Fleet, spoken
from sentences import faults_of
from variants import AT, CALM, INCIDENTS, steady


def sampled(names, chosen):
    """Return all names, of which `make test` tries the chosen ones."""
    return [
        pytest.param(name, marks=[] if name in chosen else [pytest.mark.slow]) for name in names
    ]


ONE_OF_EACH_CAUSE = {cause: name for name, (cause, _, _) in INCIDENTS.items()}.values()


@pytest.mark.parametrize("name", sampled(CALM, list(CALM)[::20]))
def test_a_fleet_that_is_well_is_silent(name):
    assert [a.anomaly.why for a in spoken(CALM[name](21).replay())] == []


@pytest.mark.parametrize("name", sampled(INCIDENTS, ONE_OF_EACH_CAUSE))
def test_what_goes_wrong_is_told_once_with_its_cause(name):
    cause, bend, within = INCIDENTS[name]
    (alert,) = spoken(Fleet((bend(steady(21)),), watched_from=AT - DAY // 4).replay())
    assert alert.cause.value == cause
    assert faults_of(alert.anomaly) == []
    assert timedelta(0) <= alert.opened - START - timedelta(minutes=AT) <= timedelta(minutes=within)
