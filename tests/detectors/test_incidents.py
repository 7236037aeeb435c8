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


def test_nodes_that_fell_with_an_alert_are_of_its_incident_however_late_their_sign_shows():
    world = World(two_jobs().starve(hours(30), hours(40), FIRST))
    world.run(hours(30), hours(31))
    for fell, of_alert in ((30, True), (30.5, False)):
        later = World(two_jobs().starve(hours(fell), hours(40), SECOND))
        later.known = world.known
        view = later.view(hours(31))
        (incident,) = incidents(view, Family.DROP.rules, np.arange(4, 8), np.full(view.n, 3.0))
        assert (incident.alert is not None) == of_alert


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


COMPILES = {"host_cpu": 0.8}


def cut_off(fleet):
    """Return a fleet whose compile ended before anything executed."""
    return fleet.stop(hours(30), hours(31.5), **COMPILES).stop(hours(31.5), hours(34))


def compiled_again(fleet):
    """Return a fleet whose work ran, and compiled at both of its starts."""
    for start in (20, 30):
        fleet.stop(hours(start), hours(start + 0.75), **COMPILES)
    return fleet


@pytest.mark.parametrize(
    ("troubled", "cause"),
    [
        (cut_off, Cause.KILLED_COMPILE),
        (compiled_again, Cause.COLD_CACHE),
    ],
)
def test_compiles_of_two_owners_are_two_alerts(troubled, cause):
    alerts = World(troubled(two_owners())).run(hours(30.5), hours(32.5))
    alerts = [alert for alert in alerts if alert.cause is cause]
    assert things(alerts) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    first, second = alerts
    assert (str(second.anomaly.scope), second.closed) == ("cluster=llama job=of bob", first.closed)
    assert second.anomaly.wasted_shares == first.anomaly.wasted_shares
    assert second.anomaly.lost_hours == pytest.approx(first.anomaly.lost_hours)


def test_idle_nodes_of_another_owner_are_no_effect_of_a_hang_of_half_a_cluster():
    fleet = two_owners().set(hours(30), hours(34), FIRST, **STILL)
    alerts = World(fleet.set(hours(30), hours(34), slice(5, 8), **GONE)).run(hours(30), hours(32))
    assert sorted(a.cause for a in alerts) == [Cause.HUNG, Cause.IDLE]
    assert sorted(things(alerts)) == [[0, 1, 2, 3], [5, 6, 7]]


def stages(nodes=2):
    """Return a job that waits for 20 minutes of every hundred, and another of its cluster that never does."""
    train, generate = Fleet(nodes), Fleet(nodes, seed=2)
    train.job, generate.job = "train", "generate"
    generate.ids = [f"i-generate{i}" for i in range(nodes)]
    generate.scale(hours(0), hours(48), neuroncore_memory=0.5, neuron_runtime_memory=0.5, efa=0.2)
    for minutes in range(80, 30 * 60, 100):
        train.set(hours(minutes / 60), hours(minutes / 60 + 1 / 3), **STILL)
    return train, generate


def waits_of_72_minutes(train):
    """Return the job with three waits that are longer than ever."""
    for start in (30.8, 32.8, 34.8):
        train.set(hours(start), hours(start + 1.2), **STILL)
    return train


def test_a_job_that_waits_longer_for_a_slow_one_is_told_with_it_by_the_time_beyond_its_pauses():
    train, generate = stages()
    generate.starve(hours(30), hours(48), share=0.4)
    world, lost = World(waits_of_72_minutes(train), generate), dict.fromkeys(train.ids, 0.0)
    for _, detection in world.ticks(hours(30), hours(37)):
        for anomaly in detection.anomalies:
            shares = dict(zip(anomaly.things, anomaly.shares_since, strict=False))
            lost = {node: lost[node] + shares.get(node, 0) / 12 for node in lost}
    # Three waits of 72 minutes, of which 20 are as usual.
    assert lost == pytest.approx(dict.fromkeys(train.ids, 3 * 52 / 60), rel=0.1)
    (alert,) = world.known
    assert (alert.cause, alert.closed, len(alert.anomaly.things)) == (Cause.STARVED, None, 4)
    assert alert.anomaly.labels.job == "generate"
    assert "2 nodes of train wait for it longer than ever" in alert.anomaly.evidence


def test_of_one_that_waits_for_nobody_known_the_first_wait_is_called_hung_and_none_that_is_as_long():
    train, generate = stages()
    (alert,) = World(waits_of_72_minutes(train), generate).run(hours(30), hours(37))
    assert alert.cause is Cause.HUNG
    assert alert.closed
