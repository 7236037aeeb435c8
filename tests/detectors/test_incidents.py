"""Two jobs of one cluster: the trouble of the second is an incident of its own, and a story that began goes on."""

import numpy as np
import pytest
from builder import Fleet, World, hours

from bot.cards.alert_words import where
from bot.model.causes import Cause, Family
from bot.watch.feedback import fits, pattern_of
from bot.watch.notify import group
from detectors.jobs import incidents

STILL = {
    "neuroncore_utilization": 0,
    "neuron_execution_latency": np.nan,
    "efa": 0,
    "host_cpu": 0.03,
}
FIRST, SECOND = slice(0, 4), slice(4, 8)


def two_jobs(spare=4):
    """Return a cluster whose second four nodes run another graph, and some more that run a third."""
    fleet = Fleet(8 + spare).scale(
        hours(0), hours(48), SECOND, neuroncore_memory=0.6, neuron_runtime=0.6, neuron_execution=2
    )
    return fleet.scale(
        hours(0),
        hours(48),
        slice(8, None),
        neuroncore_memory=0.3,
        neuron_runtime=0.3,
        neuron_execution=4,
    )


def things(alerts):
    return [sorted(int(thing[-3:]) for thing in alert.anomaly.things) for alert in alerts]


def test_a_second_job_that_hangs_hours_later_is_another_incident():
    fleet = (
        two_jobs()
        .set(hours(30), hours(40), FIRST, **STILL)
        .set(hours(32), hours(40), SECOND, **STILL)
    )
    alerts = World(fleet).run(hours(30), hours(34))
    assert [a.cause for a in alerts] == [Cause.HUNG, Cause.HUNG]
    assert things(alerts) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert [str(a.anomaly.scope) for a in alerts] == [
        "cluster=llama",
        "cluster=llama job=of i-llama004",
    ]
    assert alerts[1].anomaly.window.start == hours(32)
    assert len(group(alerts, (), "slack")) == 2


def test_another_role_of_a_job_that_a_tag_names_joins_its_incident():
    """Trainers that wait for hung rollouts hold other memory, and may wait for longer."""
    fleet = two_jobs().set(hours(30), hours(40), FIRST, **STILL)
    fleet.set(hours(32), hours(40), SECOND, **STILL).job = "rl"
    (alert,) = World(fleet).run(hours(30), hours(33))
    assert things([alert]) == [[0, 1, 2, 3, 4, 5, 6, 7]]


def test_each_of_two_incidents_keeps_its_key_to_its_end():
    fleet = (
        two_jobs()
        .set(hours(30), hours(33), FIRST, **STILL)
        .set(hours(32), hours(36), SECOND, **STILL)
    )
    world = World(fleet)
    alerts = world.run(hours(30), hours(37))
    assert things(alerts) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert alerts[0].closed < hours(33.5)
    assert hours(36) < alerts[1].closed


def test_a_second_job_that_starves_hours_later_is_another_incident():
    fleet = two_jobs().starve(hours(30), hours(40), FIRST).starve(hours(32), hours(40), SECOND)
    alerts = World(fleet).run(hours(30), hours(34))
    assert [a.cause for a in alerts] == [Cause.STARVED, Cause.STARVED]
    assert things(alerts) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_more_nodes_of_the_job_join_its_alert():
    fleet = (
        two_jobs()
        .set(hours(30), hours(40), slice(0, 2), **STILL)
        .set(hours(32), hours(40), slice(2, 4), **STILL)
    )
    (alert,) = World(fleet).run(hours(30), hours(34))
    assert things([alert]) == [[0, 1, 2, 3]]


def test_what_befalls_two_jobs_within_ten_minutes_is_one_incident():
    fleet = (
        two_jobs()
        .set(hours(30), hours(40), FIRST, **STILL)
        .set(hours(30.1), hours(40), SECOND, **STILL)
    )
    (alert,) = World(fleet).run(hours(30), hours(34))
    assert len(alert.anomaly.things) == 8


def test_what_began_with_an_alert_is_of_its_incident_though_it_is_told_later():
    """The drop of the second job is shallow, so it must last for an hour."""
    fleet = two_jobs().starve(hours(30), hours(40), FIRST)
    fleet.starve(hours(30), hours(40), SECOND, share=0.7, host_cpu=0.11)
    (alert,) = World(fleet).run(hours(30), hours(32))
    assert things([alert]) == [[0, 1, 2, 3, 4, 5, 6, 7]]


def test_nodes_that_fell_with_an_alert_are_of_its_incident_however_late_their_sign_shows():
    world = World(two_jobs().starve(hours(30), hours(40), FIRST))
    world.run(hours(30), hours(31))
    for fell, of_alert in ((30, True), (30.5, False)):
        later = World(two_jobs().starve(hours(fell), hours(40), SECOND))
        later.known = world.known
        view = later.view(hours(31))
        (incident,) = incidents(view, Family.DROP.rules, np.arange(4, 8), np.full(view.n, 3.0))
        assert (incident.alert is not None) == of_alert


def test_a_job_that_holds_half_of_the_cluster_does_not_take_in_another_one():
    fleet = (
        two_jobs(spare=0)
        .set(hours(30), hours(40), FIRST, **STILL)
        .set(hours(32), hours(40), SECOND, **STILL)
    )
    alerts = World(fleet).run(hours(30), hours(34))
    assert alerts[0].anomaly.wide
    assert things(alerts) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_idle_nodes_of_two_jobs_are_one_alert():
    fleet = two_jobs().stop(hours(30), hours(40), FIRST).stop(hours(32), hours(40), SECOND)
    (alert,) = World(fleet).run(hours(30), hours(34))
    assert (alert.cause, len(alert.anomaly.things)) == (Cause.IDLE, 8)


def test_a_job_with_a_tag_gives_its_name_to_the_incident():
    every = [Fleet(4, job=job, seed=seed) for seed, job in enumerate(("a", "b", "c"))]
    for fleet in every:
        fleet.ids = [f"i-{fleet.job}{i:03d}" for i in range(4)]
    every[0].set(hours(30), hours(40), **STILL), every[1].set(hours(32), hours(40), **STILL)
    alerts = World(*every).run(hours(30), hours(34))
    assert [str(a.anomaly.scope) for a in alerts] == ["cluster=llama", "cluster=llama job=b"]


def test_a_judgement_holds_for_the_place_whichever_job_met_it_first():
    fleet = (
        two_jobs()
        .set(hours(30), hours(40), FIRST, **STILL)
        .set(hours(32), hours(40), SECOND, **STILL)
    )
    first, second = World(fleet).run(hours(30), hours(34))
    assert fits(pattern_of(first), second)
    assert fits(pattern_of(second), first)


def test_the_second_alert_names_its_job():
    fleet = (
        two_jobs()
        .set(hours(30), hours(40), FIRST, **STILL)
        .set(hours(32), hours(40), SECOND, **STILL)
    )
    first, second = World(fleet).run(hours(30), hours(34))
    assert where(first) == "llama, 4 x trn1.32xlarge, us-west-2"
    assert where(second) == "llama, job of i-llama004, 4 x trn1.32xlarge, us-west-2"


GONE = STILL | {"neuroncore_memory": 0, "neuron_runtime": 0}


def two_owners(job=""):
    """Return a cluster in which two people have four nodes each."""
    return Fleet(8, job=job, owners={i: "ann" if i < 4 else "bob" for i in range(8)})


@pytest.mark.parametrize("later", [0, 1])
def test_idle_nodes_of_two_owners_are_two_alerts(later):
    fleet = two_owners().set(hours(30), hours(34), FIRST, **GONE)
    alerts = World(fleet.set(hours(30 + later), hours(34), SECOND, **GONE)).run(
        hours(30), hours(32.5)
    )
    assert [a.cause for a in alerts] == [Cause.IDLE] * 2
    assert things(alerts) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert where(alerts[1]) == "llama, of bob, 4 x trn1.32xlarge, us-west-2"
    assert len(group(alerts, (), "slack")) == 2


def test_nodes_that_name_no_owner_join_the_first_of_several():
    fleet = two_owners().set(hours(30), hours(34), **GONE)
    del fleet.owners[0], fleet.owners[1], fleet.owners[2]
    alerts = World(fleet).run(hours(30), hours(31))
    assert things(alerts) == [[0, 1, 2, 4, 5, 6, 7], [3]]


def test_a_job_that_a_tag_names_is_one_incident_though_its_nodes_name_two_owners():
    fleet = two_owners(job="a").set(hours(30), hours(34), **STILL)
    (alert,) = World(fleet).run(hours(30), hours(31))
    assert things([alert]) == [[*range(8)]]


def test_idle_nodes_of_another_owner_are_no_effect_of_a_hang_of_half_a_cluster():
    fleet = two_owners().set(hours(30), hours(34), FIRST, **STILL)
    alerts = World(fleet.set(hours(30), hours(34), slice(5, 8), **GONE)).run(hours(30), hours(32))
    assert sorted(a.cause for a in alerts) == [Cause.HUNG, Cause.IDLE]
    assert sorted(things(alerts)) == [[0, 1, 2, 3], [5, 6, 7]]
