"""What serves has hours: a lull that comes every day is no waste, and a service is judged as a whole."""

from datetime import timedelta

import numpy as np
import pytest
from builder import STEP, Fleet, World, hours

from bot.model.causes import Cause

QUARTER = timedelta(minutes=15)
QUIET = {
    "neuroncore_utilization": 0.0,
    "neuron_execution_latency": np.nan,
    "efa": 0,
    "host_cpu": 0.03,
}
UNLOADED = QUIET | {"neuroncore_memory": 0, "neuron_runtime_memory": 0}
UNREAD = QUIET | {"neuroncore_memory": np.nan, "neuron_runtime_memory": np.nan}


def service(nodes=4, days=8, nights=range(8), quiet=QUIET):
    """Return nodes that serve by day and rest about 01:00 to 05:00, not to the minute, on the nights given."""
    fleet = Fleet(nodes, days=days, cluster="answers", instance_type="inf2.48xlarge")
    fleet.metrics["neuroncore_utilization_ratio"] *= 0.5
    late = (0, 20, -15, 10, 25, -20, 5, 15)
    for night in nights:
        start = hours(24 * night + 1) + timedelta(minutes=late[night])
        fleet.set(start, start + timedelta(hours=4), **quiet)
        for i in range(nodes):  # somebody asks something now and then
            at = start + timedelta(minutes=40 + 50 * i)
            fleet.set(at, at + STEP, slice(i, i + 1), neuroncore_utilization=0.2)
    return fleet


def test_a_service_that_holds_fewer_cores_is_as_busy_as_ever_at_its_hour():
    fleet = service().set(hours(0), hours(192), neuroncore_reserved=24)
    usual = World(fleet).view(hours(180)).levels
    fewer = World(fleet.set(hours(179), hours(192), neuroncore_reserved=12)).view(hours(180)).levels
    assert np.array_equal(usual, fewer)


@pytest.mark.parametrize("quiet", [QUIET, UNLOADED, UNREAD], ids=["loaded", "unloaded", "not read"])
def test_a_lull_of_every_night_is_not_told_from_the_third_on(quiet):
    assert World(service(quiet=quiet)).run(hours(48), hours(170), QUARTER) == []


def test_a_lull_that_is_new_is_told_twice_and_then_known():
    alerts = World(service(nights=range(3, 8))).run(hours(48), hours(190), QUARTER)
    assert [(a.opened - hours(0)).days for a in alerts] == [3, 4]
    assert {a.cause for a in alerts} == {Cause.ALLOCATED_UNUSED}


def test_a_weekend_is_another_kind_of_day():
    """From Monday to Friday requests come all day long; on the first Saturday nobody knows what is usual."""
    assert World(service(nights=(5, 6))).run(hours(110), hours(160), QUARTER) == []


def test_a_service_without_requests_at_noon_is_told():
    fleet = service().set(hours(24 * 3 + 12), hours(24 * 3 + 18), **QUIET)
    (alert,) = World(fleet).run(hours(24 * 3 + 11), hours(24 * 3 + 17), QUARTER)
    assert (alert.cause, len(alert.anomaly.things)) == (Cause.ALLOCATED_UNUSED, 4)
    assert alert.opened - hours(24 * 3 + 12) <= timedelta(hours=1, minutes=15)


def test_a_node_to_which_no_request_comes_is_judged_with_its_service():
    """Its peers answer: nothing is told for a day, and then that one node too many runs."""
    fleet = service().set(hours(24 * 3 + 12), hours(24 * 8), slice(0, 1), **QUIET)
    (alert,) = World(fleet).run(hours(24 * 3 + 11), hours(24 * 4 + 14), QUARTER)
    assert (alert.cause, alert.anomaly.things) == (Cause.ALLOCATED_UNUSED, ("i-answers000",))
    assert alert.opened == hours(24 * 4 + 12)
    assert alert.anomaly.window.start == hours(24 * 3 + 12)


def test_servers_that_others_replaced_are_told_within_hours():
    """Two servers do what one did before: what is left of the deployment before them is waste."""
    fleet, replaced = service(4), hours(24 * 3 + 12)
    fleet.set(replaced, hours(24 * 8), slice(0, 2), **QUIET)
    fleet.scale(replaced, hours(24 * 8), slice(2, 4), neuroncore_utilization=2)
    (alert,) = World(fleet).run(replaced, replaced + timedelta(hours=3), QUARTER)
    assert alert.anomaly.things == ("i-answers000", "i-answers001")
    assert alert.opened - replaced <= timedelta(hours=2, minutes=15)
    assert alert.anomaly.window.start == replaced


def deserted(nodes=4):
    """Return nodes of which little is asked from 22:00 of a Wednesday on, and next to nothing at night."""
    fleet = service(nodes, nights=())
    fleet.scale(hours(24 * 2 + 22), hours(24 * 8), neuroncore_utilization=0.2)
    for night in (3, 4):
        fleet.scale(hours(24 * night + 2), hours(24 * night + 6), neuroncore_utilization=0.3)
    return fleet


def test_servers_whose_requests_left_are_one_alert_by_day_and_night_however_new_they_are():
    fleet = deserted().silence(hours(0), hours(24 * 2 + 20), slice(2, 4))
    fleet.launched = dict.fromkeys((2, 3), hours(24 * 2 + 20))
    (alert,) = World(fleet).run(hours(24 * 2 + 21), hours(24 * 3 + 23), QUARTER)
    anomaly = alert.anomaly
    assert (alert.cause, alert.closed, len(anomaly.things)) == (Cause.ALLOCATED_UNUSED, None, 4)
    assert alert.opened - hours(24 * 2 + 22) <= timedelta(hours=2, minutes=15)
    assert anomaly.wasted_shares == pytest.approx([0.8] * 4, abs=0.03)
    assert anomaly.why == (
        "4 servers run although requests fell to about 20 % of the usual: NeuronCore utilization"
        " 9 %, usually 45 % at this hour."
    )


def test_an_alert_about_few_requests_ends_when_they_come_back():
    fleet = deserted().scale(hours(24 * 3 + 9), hours(24 * 8), neuroncore_utilization=5)
    (alert,) = World(fleet).run(hours(24 * 2 + 21), hours(24 * 3 + 12), QUARTER)
    assert timedelta() <= alert.closed - hours(24 * 3 + 9) <= timedelta(hours=1)


def test_servers_whose_hosts_are_saturated_starve():
    fleet = deserted().set(hours(24 * 2 + 22), hours(24 * 8), host_cpu=0.97)
    (alert,) = World(fleet).run(hours(24 * 2 + 21), hours(24 * 3 + 1), QUARTER)
    assert alert.cause is Cause.STARVED


@pytest.mark.parametrize(("others", "told"), [(1.25, 0), (0.5, 1)])
def test_fewer_requests_to_one_node_are_no_drop_while_its_service_has_as_many(others, told):
    fleet = service(nodes=3, nights=())
    noon = hours(24 * 3 + 10)
    fleet.scale(noon, noon + timedelta(hours=8), slice(0, 1), neuroncore_utilization=0.5)
    fleet.scale(noon, noon + timedelta(hours=8), slice(1, 3), neuroncore_utilization=others)
    assert [a.cause for a in World(fleet).run(noon, noon + timedelta(hours=7), QUARTER)] == [
        Cause.ALLOCATED_UNUSED
    ] * told


@pytest.mark.parametrize(("teams", "told"), [(("search", "search"), 0), (("search", "chat"), 1)])
def test_requests_that_servers_of_the_team_gained_elsewhere_have_moved(teams, told):
    noon, evening = hours(24 * 3 + 12), hours(24 * 3 + 16)
    here, there = service(nights=()), service(nights=())
    here.team, there.team = teams
    here.scale(noon, evening, neuroncore_utilization=0.2)
    there.cluster, there.ids = "answers-east", [f"i-east{i}" for i in range(4)]
    there.scale(noon, evening, neuroncore_utilization=1.8)
    assert len(World(here, there).run(noon, hours(24 * 3 + 17), QUARTER)) == told
