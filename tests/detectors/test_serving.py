"""What serves has hours: a lull that comes every day is no waste, and a service is judged as a whole."""

from datetime import timedelta

import pytest
from builder import World, hours
from stories_jobs import QUIET, service

QUARTER = timedelta(minutes=15)


@pytest.mark.parametrize("gained", [2, 1])
def test_servers_that_others_replaced_are_told_within_hours(gained):
    """Two servers do what one did before: what is left of the deployment before them is waste.

    Where they do what they did, it was to spare: requests are as many as ever.
    """
    fleet, replaced = service(4), hours(24 * 3 + 12)
    fleet.set(replaced, hours(24 * 8), slice(0, 2), **QUIET)
    fleet.scale(replaced, hours(24 * 8), slice(2, 4), neuroncore_utilization=gained)
    (alert,) = World(fleet).run(replaced, replaced + timedelta(hours=3), QUARTER)
    assert alert.anomaly.things == ("i-answers000", "i-answers001")
    assert alert.opened - replaced <= timedelta(hours=2, minutes=15)
    assert alert.anomaly.window.start == replaced


@pytest.mark.parametrize(("teams", "told"), [(("search", "search"), 0), (("search", "chat"), 1)])
def test_requests_that_servers_of_the_team_gained_elsewhere_have_moved(teams, told):
    noon, evening = hours(24 * 3 + 12), hours(24 * 3 + 16)
    here, there = service(nights=()), service(nights=())
    here.team, there.team = teams
    here.scale(noon, evening, neuroncore_utilization=0.2)
    there.cluster, there.ids = "answers-east", [f"i-east{i}" for i in range(4)]
    there.scale(noon, evening, neuroncore_utilization=1.8)
    assert len(World(here, there).run(noon, hours(24 * 3 + 17), QUARTER)) == told


def test_what_is_low_on_one_day_of_the_week_is_no_lack_on_it():
    """Where it is Sunday evening still, few ask anything in the first hours of a Monday of UTC."""
    fleet = service(nights=())
    for monday in (0, 7):
        fleet.scale(hours(24 * monday), hours(24 * monday + 6), neuroncore_utilization=0.5)
    assert not World(fleet).run(hours(24 * 7 + 1), hours(24 * 7 + 5), 2 * QUARTER)
