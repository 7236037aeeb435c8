"""Three kinds of zero have three names; a fourth, compiling, is none of them."""

from datetime import timedelta

import numpy as np
import pytest
from builder import HBM, Fleet, World, hours, only

from bot.model.anomaly import NodeState
from bot.model.causes import Cause
from bot.model.reading import Gap
from bot.policy.schema import default_policy

HELD = {"neuroncore_utilization": 0, "neuron_execution_latency": np.nan, "efa": 0, "host_cpu": 0.03}


def test_a_busy_fleet_is_calm():
    detection = World(Fleet(8)).at(hours(40))
    assert detection.anomalies == ()
    assert set(detection.states.values()) == {NodeState.BUSY}


def test_idle_is_told_after_half_an_hour_and_names_its_nodes():
    world = World(Fleet(4).stop(hours(30), hours(40), slice(0, 2)))
    assert world.at(hours(30.4)).anomalies == ()
    idle = only(world.at(hours(30.5)))
    assert (idle.cause, idle.things, idle.wasted_shares) == (
        Cause.IDLE,
        ("i-llama000", "i-llama001"),
        (1.0, 1.0),
    )
    assert idle.window.start == hours(30)
    assert idle.key == "idle/cluster=llama"
    assert world.at(hours(30.5)).states["i-llama000"] is NodeState.IDLE


def test_zero_with_memory_held_is_allocated_unused():
    world = World(
        Fleet(4).set(hours(30), hours(40), slice(0, 1), **HELD, neuroncore_memory=0.3 * HBM)
    )
    unused = only(world.at(hours(31)))
    assert unused.cause is Cause.ALLOCATED_UNUSED
    assert world.at(hours(31)).states["i-llama000"] is NodeState.LOADED_IDLE


def notebook(until):
    """Return a node whose notebook runs a cell every quarter of an hour from 30:00 until a time, and holds its memory."""
    fleet = (
        Fleet(4)
        .stop(hours(26), hours(30), slice(0, 1))
        .set(hours(30), hours(40), slice(0, 1), **HELD, neuroncore_memory=0.3 * HBM)
    )
    for quarter in range(round((until - hours(30)) / timedelta(minutes=15))):
        start = hours(30 + quarter / 4)
        fleet.set(
            start,
            start + timedelta(minutes=5),
            slice(0, 1),
            neuroncore_utilization=0.015,
            neuron_execution_latency=0.02,
        )
    return World(fleet)


def test_a_notebook_that_is_used_every_quarter_of_an_hour_is_not_unused():
    world = notebook(until=hours(34))
    assert not [
        a
        for h in (31, 32, 33, 34)
        for a in world.at(hours(h)).anomalies
        if a.cause is Cause.ALLOCATED_UNUSED
    ]
    unused = only(world.at(hours(35)))
    assert (unused.cause, unused.window.start) == (
        Cause.ALLOCATED_UNUSED,
        hours(33.75) + timedelta(minutes=5),
    )


def test_a_notebook_that_is_used_again_every_quarter_of_an_hour_ends_its_alert():
    fleet = notebook(until=hours(30)).fleets[0]
    for quarter in range(8, 24):
        start = hours(30 + quarter / 4)
        fleet.set(
            start,
            start + timedelta(minutes=5),
            slice(0, 1),
            neuroncore_utilization=0.015,
            neuron_execution_latency=0.02,
        )
    world = World(fleet)
    (alert,) = (a for a in world.run(hours(30), hours(36)) if a.cause is Cause.ALLOCATED_UNUSED)
    assert hours(32) < alert.closed <= hours(33.5)


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_a_job_that_stops_amid_its_work_is_hung(level):
    world = World(Fleet(4).set(hours(30), hours(40), **(HELD | {"neuroncore_utilization": level})))
    assert world.at(hours(30.2)).anomalies == ()
    hung = only(world.at(hours(30.5)))
    assert (hung.cause, len(hung.things), hung.wasted_shares[0]) == (Cause.HUNG, 4, 1.0)


def test_notebooks_that_are_left_at_once_wait_for_nobody_and_are_no_hang():
    """Each runs its cells when it likes: nodes of one job would have rested together."""
    fleet = Fleet(4).set(hours(0), hours(40), efa=np.nan)
    rests = np.random.default_rng(5).random((4, 360)) < 0.25
    for name in ("neuroncore_utilization_ratio", "neuron_execution_latency_seconds"):
        fleet.metrics[name][:, :360][rests] = 0 if "ratio" in name else np.nan
    fleet.set(hours(30), hours(40), **HELD)
    (alert,) = World(fleet).run(hours(29), hours(33))
    assert (alert.cause, len(alert.anomaly.things)) == (Cause.ALLOCATED_UNUSED, 4)


def test_no_reading_is_no_zero():
    world = World(Fleet(4).silence(hours(30), hours(40), slice(1, 2)))
    assert world.at(hours(30.2)).anomalies == ()
    silent = only(world.at(hours(30.25)))
    assert (silent.cause, silent.things, silent.wasted_shares) == (
        Cause.NO_DATA,
        ("i-llama001",),
        (),
    )
    assert world.at(hours(30.25)).states["i-llama001"] is NodeState.NO_DATA


def test_a_stopped_instance_is_not_silent():
    fleet = Fleet(4).silence(hours(30), hours(48), slice(1, 2))
    fleet.ended[1] = hours(30)
    detection = World(fleet).at(hours(31))
    assert detection.anomalies == ()
    assert "i-llama001" not in detection.states


def test_an_instance_that_never_reported_is_missed_where_its_peers_do():
    fleet, extra = Fleet(4), Fleet(1, cluster="llama")
    extra.ids = ["i-never"]
    world = World(fleet)
    world.fleets = (fleet, extra)
    extra.launched[0] = hours(20)
    silent = only(world.at(hours(30)))
    assert (silent.cause, silent.things) == (Cause.NO_DATA, ("i-never",))


@pytest.mark.parametrize(("minutes", "causes"), [(10, []), (75, [Cause.NO_DATA])])
def test_where_a_source_has_just_begun_nobody_was_missed(minutes, causes):
    """An old node of which the first points are lost may report with the next ones."""
    fleet, extra = Fleet(4), Fleet(1, cluster="llama")
    extra.ids = ["i-late"]
    world = World(fleet)
    world.fleets = (fleet, extra)
    detection = world.at(hours(0) + timedelta(minutes=minutes))
    assert [anomaly.cause for anomaly in detection.anomalies] == causes


def test_a_failed_source_is_not_a_silent_fleet():
    fleet = Fleet(4).silence(hours(30), hours(40))
    assert World(fleet, gaps=(Gap("CloudWatch throttled"),)).at(hours(31)).anomalies == ()
    assert (
        World(fleet, gaps=(Gap("CloudWatch throttled", region="us-west-2"),))
        .at(hours(31))
        .anomalies
        == ()
    )
    assert (
        only(World(fleet, gaps=(Gap("denied", region="eu-north-1"),)).at(hours(31))).cause
        is Cause.NO_DATA
    )
    assert only(World(fleet).at(hours(31))).cause is Cause.NO_DATA


def test_a_node_that_nobody_could_ask_about_is_not_silent_though_its_peers_report():
    fleet = Fleet(4).silence(hours(30), hours(40), slice(1, 2))
    assert World(fleet, unread={"i-llama001"}).at(hours(31)).anomalies == ()
    assert only(World(fleet, unread={"i-llama002"}).at(hours(31))).cause is Cause.NO_DATA


def test_idle_goes_on_while_nothing_is_read():
    world = World(Fleet(2).stop(hours(30), hours(40)).silence(hours(32), hours(40)))
    alerts = world.run(hours(30), hours(33))
    assert {a.cause for a in alerts} == {Cause.IDLE, Cause.NO_DATA}
    assert all(a.firing for a in alerts)


def test_a_new_node_may_do_nothing_for_the_grace():
    fleet = (
        Fleet(2).silence(hours(0), hours(30), slice(0, 1)).stop(hours(30), hours(40), slice(0, 1))
    )
    fleet.launched[0] = hours(30)
    world = World(fleet)
    early = world.at(hours(30.75))
    assert (early.anomalies, early.states["i-llama000"]) == ((), NodeState.NEW)
    assert only(world.at(hours(31.25))).cause is Cause.IDLE


@pytest.mark.parametrize(("minutes", "causes"), [(40, []), (60, []), (65, [Cause.LONG_COMPILE])])
def test_a_compile_is_told_past_its_grace(minutes, causes):
    world = World(Fleet(4).stop(hours(30), hours(40), slice(0, 1), host_cpu=0.8))
    detection = world.at(hours(30) + timedelta(minutes=minutes))
    assert [a.cause for a in detection.anomalies] == causes
    assert detection.states["i-llama000"] is NodeState.COMPILING


def test_the_grace_is_a_setting():
    policy = default_policy()
    shorter = type(policy)({**policy.values, "compiling.grace": timedelta(minutes=45)})
    world = World(Fleet(4).stop(hours(30), hours(40), slice(0, 1), host_cpu=0.8), policy=shorter)
    assert world.at(hours(30.75)).anomalies == ()
    assert only(world.at(hours(30) + timedelta(minutes=50))).cause is Cause.LONG_COMPILE


def test_many_nodes_that_compile_at_once_are_those_of_a_new_job():
    long = only(
        World(Fleet(6).stop(hours(30), hours(40), host_cpu=0.8)).at(
            hours(31) + timedelta(minutes=12)
        )
    )
    assert (long.cause, len(long.things)) == (Cause.LONG_COMPILE, 6)
    assert any("NEURON_COMPILE_CACHE_URL" in text for text in long.suggestions)
    assert long.evidence[0] == "6 nodes compile; one would do, and would save 5.8 of 7.0 node-hours"


def test_a_job_that_compiled_before_has_a_cold_cache():
    fleet = (
        Fleet(4)
        .stop(hours(20), hours(20.7), slice(0, 1), host_cpu=0.8)
        .stop(hours(30), hours(40), slice(0, 1), host_cpu=0.8)
    )
    assert only(World(fleet).at(hours(31.2))).cause is Cause.COLD_CACHE


def test_without_any_metric_nothing_is_guessed():
    fleet = Fleet(3).silence(hours(0), hours(48))
    fleet.metrics["host_cpu_utilization_ratio"][:] = 0.02
    assert [a.cause for a in World(fleet).at(hours(30)).anomalies] in ([], [Cause.NO_DATA])


def test_idle_needs_no_knowledge_of_runtimes():
    fleet = Fleet(3).stop(hours(30), hours(40), slice(0, 1))
    for name in (
        "neuroncore_memory_used_bytes",
        "neuron_runtime_memory_used_bytes",
        "host_cpu_utilization_ratio",
    ):
        fleet.metrics[name][:] = np.nan
    idle = only(World(fleet).at(hours(31)))
    assert (idle.cause, "not known" in idle.why) == (Cause.IDLE, True)


@pytest.mark.parametrize(
    ("cpu_read", "after", "unsure"), [(False, 1, True), (True, 1, False), (False, 3, False)]
)
def test_without_the_host_cpu_idle_may_be_a_compile_until_no_compile_lasts_so_long(
    cpu_read, after, unsure
):
    fleet = Fleet(3).stop(hours(30), hours(40), slice(0, 1))
    if not cpu_read:
        fleet.metrics["host_cpu_utilization_ratio"][:] = np.nan
    idle = only(World(fleet).at(hours(30 + after)))
    assert idle.cause is Cause.IDLE
    assert ("idle or compiling, not known which" in idle.why) is unsure
    assert ([cause for cause, _ in idle.runners_up] == [Cause.COMPILING]) is unsure
    assert ("neuronx-cc" in idle.suggestions[0]) is unsure


def test_a_rule_that_is_off_says_nothing():
    policy = default_policy()
    off = type(policy)({**policy.values, "idle.on": False})
    assert World(Fleet(2).stop(hours(30), hours(40)), policy=off).at(hours(31)).anomalies == ()


def test_no_nodes_no_findings():
    detection = World().at(hours(1))
    assert (detection.anomalies, dict(detection.states)) == ((), {})


def test_a_node_without_neuron_pods_says_so():
    """EKS: nodes that no pod asks cores of are idle past the grace, and the alert tells that from nodes held for nothing."""
    fleet = Fleet(2).stop(hours(30), hours(48), neuroncore_reserved=0)
    assert World(fleet).at(hours(30.25)).anomalies == ()
    idle = only(World(fleet).at(hours(31)))
    assert idle.cause is Cause.IDLE
    assert "no pod has reserved a core there" in idle.evidence
    assert idle.wasted_shares == (1.0, 1.0)

    # Of a node whose pods are not read nobody knows what they reserved.
    fleet.set(hours(30), hours(48), slice(1), neuroncore_reserved=np.nan)
    assert not any("no pod" in words for words in only(World(fleet).at(hours(31))).evidence)


def test_a_pod_that_sleeps_holds_its_cores_for_nothing():
    fleet = Fleet(2).stop(hours(30), hours(48), neuroncore_reserved=32)
    assert World(fleet).at(hours(30.25)).anomalies == ()
    asleep = only(World(fleet).at(hours(31)))
    assert (asleep.cause, asleep.wasted_shares) == (Cause.ALLOCATED_UNUSED, (1.0, 1.0))
    assert (
        asleep.why
        == "Pods hold the cores of 2 nodes without a runtime, but NeuronCore utilization 0 % for 1 h."
    )
    assert asleep.evidence == ("no runtime seen, host CPU 2 %", "no executions")


def test_a_pod_and_a_runtime_that_do_nothing_are_counted_apart():
    held = {"neuroncore_reserved": 32, "neuroncore_memory": 1e10, "neuron_runtime_memory": 1e10}
    fleet = (
        Fleet(3)
        .stop(hours(30), hours(48), neuroncore_reserved=32)
        .set(hours(30), hours(48), slice(0, 1), **held)
    )
    fleet.set(hours(29.5), hours(30), slice(0, 1), neuroncore_memory=0, neuron_runtime_memory=0)
    unused = only(World(fleet).at(hours(31)))
    assert unused.why.startswith(
        "Pods hold the cores of 2 nodes without a runtime, and a runtime is loaded on 1 more, but"
    )
    assert unused.evidence[0] == "9.3 GiB of device memory held"


def test_a_pod_that_slept_is_described_by_most_of_its_time_also_when_it_loads_a_runtime():
    fleet = Fleet(2).stop(hours(30), hours(48), neuroncore_reserved=32)
    fleet.set(hours(31), hours(48), neuroncore_memory=1e10, neuron_runtime_memory=1e10)
    for until, words in (
        (31.1, "Pods hold the cores of 2 nodes without a runtime, but"),
        (33, "Runtime loaded on 2 nodes, but"),
    ):
        (alert,) = World(fleet).run(hours(30), hours(until))
        assert alert.anomaly.why.startswith(words)


def test_after_a_hang_the_pod_of_the_next_start_has_its_own_time():
    fleet = (
        Fleet(4)
        .set(hours(30), hours(33), **HELD)
        .stop(hours(33), hours(33.4))
        .set(hours(0), hours(40), neuroncore_reserved=32)
    )
    alerts = World(fleet).run(hours(30), hours(34))
    assert [a.cause for a in alerts] == [Cause.HUNG]


def test_a_pod_that_comes_to_an_idle_node_has_its_own_time_to_start():
    fleet = (
        Fleet(2)
        .stop(hours(30), hours(30.4), neuroncore_reserved=0)
        .stop(hours(30.4), hours(30.8), neuroncore_reserved=32)
    )
    assert [
        a.cause for _, x in World(fleet).ticks(hours(30), hours(31.5)) for a in x.anomalies
    ] == []
    stays = (
        Fleet(2)
        .stop(hours(30), hours(31), neuroncore_reserved=0)
        .stop(hours(31), hours(33), neuroncore_reserved=32)
    )
    assert [a.cause for a in World(stays).run(hours(30), hours(32.5))] == [
        Cause.IDLE,
        Cause.ALLOCATED_UNUSED,
    ]


def test_without_the_host_cpu_a_pod_without_a_runtime_may_compile_and_is_idle_at_most():
    fleet = Fleet(2).stop(hours(30), hours(48), neuroncore_reserved=32, host_cpu=np.nan)
    fleet.set(hours(0), hours(30), host_cpu=np.nan)
    unsure = only(World(fleet).at(hours(31)))
    assert (unsure.cause, "not known which" in unsure.why) == (Cause.IDLE, True)
    assert "pods have reserved cores on 2 of the nodes" in unsure.evidence


def test_a_job_that_stands_still_with_its_memory_is_no_compile_where_no_cpu_is_read():
    fleet = Fleet(4).set(hours(0), hours(48), host_cpu=np.nan)
    fleet.set(hours(30), hours(40), **(HELD | {"host_cpu": np.nan}))
    detection = World(fleet).at(hours(30.5))
    assert only(detection).cause is Cause.HUNG
    assert NodeState.COMPILING not in detection.states.values()


def stages(nodes=2):
    """Return a job that waits for 20 minutes of every hundred, and another of its cluster that never does."""
    train, generate = Fleet(nodes), Fleet(nodes, seed=2)
    train.job, generate.job = "train", "generate"
    generate.ids = [f"i-generate{i}" for i in range(nodes)]
    generate.scale(hours(0), hours(48), neuroncore_memory=0.5, neuron_runtime_memory=0.5, efa=0.2)
    for minutes in range(80, 30 * 60, 100):
        train.set(hours(minutes / 60), hours(minutes / 60 + 1 / 3), **HELD)
    return train, generate


@pytest.mark.parametrize(("slow", "causes"), [(True, {"starved"}), (False, {"hung"})])
def test_a_job_that_waits_longer_for_a_slow_one_is_told_with_it(slow, causes):
    """Of one that waits for nobody known the first wait is called hung, and none that is as long."""
    train, generate = stages()
    if slow:
        generate.starve(hours(30), hours(48), share=0.4)
    for start in (30.8, 32.8, 34.8):
        train.set(hours(start), hours(start + 1.2), **HELD)
    (alert,) = World(train, generate).run(hours(30), hours(37))
    assert {alert.cause} == causes
    assert (alert.closed is None) == slow
