"""A drop under the usual: who is told, when, and what it is called."""

import itertools
from datetime import timedelta

import numpy as np
import pytest
from builder import STEP, Fleet, World, hours

from bot.model.causes import Cause


def test_what_a_drop_lost_is_summed_step_by_step():
    """Two hours at a fifth of the usual and one at two fifths: what was lost is not what the newest readings lose."""
    fleet = Fleet(8, days=1.5).starve(hours(30), hours(33))
    fleet.scale(hours(31), hours(32), neuroncore_utilization=2.0)
    lost, seen = 0.0, None
    for now, detection in World(fleet).ticks(hours(29), hours(34.5)):
        for drop in detection.anomalies:
            lost += np.mean(drop.shares_since) * (
                (now - (seen or drop.window.start)) / timedelta(hours=1)
            )
            seen = now
    assert lost == pytest.approx(0.78 * 2 + 0.56, abs=0.1)


@pytest.mark.parametrize(
    ("minutes", "level"),
    [(5, 0.0), (5, 0.3), (20, 0.6), (30, 0.55)],
    ids=["checkpoint", "slow checkpoint", "evaluation", "long evaluation"],
)
def test_what_training_does_anyway_is_not_told(minutes, level):
    fleet = Fleet(8)
    for hour in np.arange(26, 46, 2.5):
        fleet.scale(
            hours(hour),
            hours(hour) + timedelta(minutes=minutes),
            neuroncore_utilization=level,
            efa=level,
        )
    assert World(fleet).run(hours(30), hours(46)) == []


def test_a_checkpoint_of_a_job_whose_executions_grew_longer_is_not_told():
    """Half as long since this morning at the same utilization: in a pause of four minutes over two steps they are no slower."""
    fleet = Fleet(8, days=2.5).scale(hours(40), hours(60), neuron_execution_latency=1.5)
    for hour in range(42, 58, 4):
        fleet.scale(hours(hour), hours(hour) + STEP, neuroncore_utilization=0.8, efa=0.8)
        fleet.scale(hours(hour) + STEP, hours(hour) + 2 * STEP, neuroncore_utilization=0.4, efa=0.4)
    assert World(fleet).run(hours(41), hours(58)) == []


def test_the_end_of_a_job_is_no_starvation():
    fleet = (
        Fleet(8)
        .scale(hours(30), hours(30) + STEP, neuroncore_utilization=0.3)
        .stop(hours(30) + STEP, hours(30.4))
    )
    assert World(fleet).run(hours(29), hours(30.4)) == []


def test_other_memory_is_another_job():
    fleet = Fleet(4).scale(
        hours(30), hours(40), neuroncore_utilization=0.3, neuroncore_memory=0.3, neuron_runtime=0.3
    )
    assert World(fleet).run(hours(29), hours(34)) == []


def test_inference_follows_its_own_hours():
    fleet = Fleet(3, days=6, cluster="serving", instance_type="inf2.48xlarge")
    hour = (np.arange(fleet.metrics["efa_tx_bytes_per_second"].shape[1]) / 12) % 24
    fleet.metrics["neuroncore_utilization_ratio"] *= 0.45 + 0.4 * np.cos(
        (hour - 14) / 24 * 2 * np.pi
    )
    assert World(fleet).run(hours(72), hours(110), timedelta(minutes=15)) == []
    fleet.scale(hours(104), hours(108), neuroncore_utilization=0.3)
    (alert,) = World(fleet).run(hours(103), hours(108), timedelta(minutes=5))
    assert alert.cause is Cause.ALLOCATED_UNUSED


def test_a_shallow_drop_of_what_serves_is_told_after_twice_the_time():
    fleet = Fleet(3, days=6, cluster="serving", instance_type="inf2.48xlarge")
    (alert,) = World(fleet.scale(hours(104), hours(108), neuroncore_utilization=0.7)).run(
        hours(103), hours(108)
    )
    assert timedelta(minutes=115) <= alert.opened - hours(104) <= timedelta(minutes=125)


@pytest.mark.parametrize(("before", "told"), [(1.0, 1), (0.85, 1), (0.5, 0)])
def test_a_job_that_holds_more_memory_is_another_one_for_a_while(before, told):
    fleet = (
        Fleet(4)
        .scale(hours(0), hours(30), neuroncore_memory=before, neuron_runtime=before)
        .starve(hours(30), hours(34))
    )
    assert len(World(fleet).run(hours(29), hours(30.3))) == told


def test_an_evaluation_amid_grown_memory_is_no_drop():
    fleet = Fleet(8)
    for start in np.arange(29, 40, 1.5):
        at, end = hours(start), hours(start) + 3 * STEP
        fleet.scale(at, end, neuron_execution_latency=2.0, efa=0.06).set(
            at, end, neuroncore_utilization=0.37
        )
    assert World(fleet).run(hours(29), hours(40)) == []


def test_a_drop_is_over_once_its_work_is_back_though_the_hosts_are_busy_on():
    """The mean of a quarter of an hour is low for as long after it: it is no drop by itself."""
    fleet = Fleet(8, days=1.5).starve(hours(30), hours(30.25), share=0.1)
    fleet.set(hours(30.25), hours(31.25), host_cpu=0.96)
    (alert,) = World(fleet).run(hours(29.5), hours(32))
    assert alert.closed <= hours(30.5)


def in_turns(fleet, start, end, shares, metrics=("neuroncore_utilization", "efa", "network_in")):
    """Let work go on at one share of its usual in each step, again and again."""
    for step in range(round((end - start) / STEP)):
        at = start + step * STEP
        fleet.scale(at, at + STEP, **dict.fromkeys(metrics, shares[step % len(shares)]))
    return fleet


def lost_node_hours(world, start, end):
    """Return the node-hours that one drop lost from one time to another, as its ticks count them."""
    lost, seen = 0.0, None
    for now, detection in world.ticks(start, end):
        for drop in detection.anomalies:
            lost += sum(drop.shares_since) * (
                (now - (seen or drop.window.start)) / timedelta(hours=1)
            )
            seen = now
    return lost


def test_a_drop_that_comes_and_goes_is_one_alert_by_what_its_hours_lack():
    """Ten of every thirty minutes stand nearly still: each is but a pause, an hour of them is rare."""
    fleet = in_turns(Fleet(8, days=2.5), hours(50), hours(54), (0.06, 0.06, 0.5, 1, 1, 1))
    world = World(fleet)
    lost = lost_node_hours(world, hours(49), hours(56))
    (alert,) = world.known
    assert (alert.cause, len(alert.anomaly.things)) == (Cause.STARVED, 8)
    assert alert.opened - hours(50) <= timedelta(minutes=75)
    assert abs(alert.anomaly.window.start - hours(50)) <= timedelta(minutes=10)
    assert hours(54) <= alert.closed <= hours(54.5)
    assert "on average" in alert.anomaly.why
    assert lost == pytest.approx(8 * 4 * 0.397, rel=0.1)


@pytest.mark.parametrize(("minutes", "is_told"), [(50, False), (240, True)])
def test_an_hour_a_little_under_those_of_a_job_of_phases_is_a_drop_once_it_lasts(minutes, is_told):
    """Some of its hours lack a fifth of the work; this one lacks a third, as the next may."""
    fleet, end = Fleet(8, days=2.5), hours(51) + timedelta(minutes=minutes)
    for start in range(0, 51, 3):
        in_turns(fleet, hours(start), hours(start + 2), (0.3, 1, 1, 1))
        in_turns(fleet, hours(start + 2), hours(start + 3), (0.3, 1))
    in_turns(fleet, hours(51), end, (0.3, 0.3, 1))
    in_turns(fleet, end, hours(60), (0.3, 1, 1, 1))
    assert bool(World(fleet).run(hours(51), hours(55))) is is_told


def test_two_pauses_of_an_hour_are_no_drop_that_comes_and_goes():
    fleet = in_turns(Fleet(8, days=2.5), hours(50), hours(51), (1, 0.06, 0.06, 0.5, 1, 1))
    assert World(fleet).run(hours(49), hours(52)) == []


def crashes(fleet, start, end, nodes=slice(None)):
    """Let processes end again and again: twenty minutes of work, then twenty-five without one."""
    while start < end:
        fleet.stop(start + timedelta(minutes=20), start + timedelta(minutes=45), nodes)
        start += timedelta(minutes=45)
    return fleet


def test_a_job_whose_process_ends_again_and_again_is_one_drop_by_what_its_hours_lack():
    """No stop lasts long enough to be told, and no error is counted."""
    world = World(crashes(Fleet(4, days=3), hours(50), hours(56)))
    lost = lost_node_hours(world, hours(51.5), hours(58))
    (alert,) = world.known
    assert alert.cause is Cause.STARVED
    assert alert.opened - hours(50) <= timedelta(minutes=165)
    assert alert.anomaly.window.start == hours(50) + timedelta(minutes=20)
    assert hours(56) <= alert.closed <= hours(57)
    assert lost == pytest.approx(4 * 6 * 25 / 45, rel=0.15)


@pytest.mark.parametrize(("before", "told"), [((240, 45, 300, 40, 180, 30), 0), ((600,), 1)])
def test_short_trials_follow_each_other_by_chance(before, told):
    """Five in a row are short, where every other one was, or where none was."""
    fleet, begins, lengths = Fleet(4, days=3), hours(0), itertools.cycle(before)
    while begins < hours(50):
        begins += timedelta(minutes=next(lengths) + 15)
        fleet.stop(begins - timedelta(minutes=15), begins)
    for length in (40, 45, 35, 40, 45):
        ends = begins + timedelta(minutes=length)
        fleet.stop(ends, ends + timedelta(minutes=20))
        begins = ends + timedelta(minutes=20)
    assert len(World(fleet).run(hours(49), begins)) == told


@pytest.mark.parametrize(("habit", "told"), [(True, 0), (False, 1)])
def test_a_new_node_whose_jobs_are_as_short_as_those_of_its_cluster_is_not_told(habit, told):
    fleet, new = Fleet(4, days=3), slice(3, 4)
    for start in range(4, 44, 8) if habit else ():
        crashes(fleet, hours(start), hours(start + 6), slice(0, 3))
    fleet.scale(hours(0), hours(72), new, neuroncore_memory=0.6, neuron_runtime_memory=0.6)
    fleet.silence(hours(0), hours(46), new).launched = {3: hours(46)}
    world = World(crashes(fleet, hours(50), hours(54), new))
    assert len(world.run(hours(50), hours(54))) == told


def test_a_slow_decay_is_told_from_its_beginning_though_no_step_of_it_fell():
    fleet, steps = Fleet(8), round(timedelta(hours=10) / STEP)
    in_turns(fleet, hours(30), hours(40), np.linspace(1, 0.5, steps))
    world = World(fleet)
    lost = lost_node_hours(world, hours(29), hours(39.5))
    (alert,) = world.known
    assert alert.cause is Cause.STARVED
    assert alert.opened <= hours(37)
    assert hours(30) <= alert.anomaly.window.start <= hours(31)
    assert lost == pytest.approx(8 * 9.5 * 0.475 / 2, rel=0.1)


def phased(busy_host, share=0.75):
    """Let work go through the phases of rollouts, and lose a share of it from the fiftieth hour on."""
    fleet = in_turns(Fleet(6, days=2.5), hours(0), hours(60), (0.42, 0.4, 0.95, 0.55))
    fleet.scale(hours(50), hours(56), neuroncore_utilization=share, efa=share)
    return fleet.set(hours(50), hours(56), host_cpu=busy_host)


def test_a_loader_that_holds_up_phases_is_told_by_their_mean():
    """No step is below those of every day, and the hour lacks a quarter: only its host is never as busy."""
    lost, seen, world = 0.0, None, World(phased(0.88))
    for now, detection in world.ticks(hours(49), hours(57.5)):
        for drop in detection.anomalies:
            lost += sum(drop.shares_since) * (
                (now - (seen or drop.window.start)) / timedelta(hours=1)
            )
            seen = now
    (alert,) = world.known
    assert (alert.cause, len(alert.anomaly.things)) == (Cause.STARVED, 6)
    assert alert.opened - hours(50) <= timedelta(minutes=75)
    assert hours(56) <= alert.closed <= hours(56.5)
    assert lost == pytest.approx(6 * 6 * 0.25, rel=0.1)


@pytest.mark.parametrize(("busy_host", "share"), [(0.12, 0.75), (0.88, 1.0)])
def test_phases_that_lose_without_a_sign_or_have_one_and_lose_nothing_are_not_told(
    busy_host, share
):
    assert World(phased(busy_host, share)).run(hours(49), hours(54)) == []


def paused(start):
    """Return a job that waits for 20 minutes of every hundred, and is slow from `start` to 35:00."""
    fleet = Fleet(4, job="train")
    held = {"neuroncore_utilization": 0, "neuron_execution_latency": np.nan, "efa": 0}
    slow = {"neuroncore_utilization": 0.4, "neuron_execution_latency": 2.4}
    fleet.scale(hours(start), hours(35), **slow, efa=0.05)
    for minutes in range(80, 48 * 60, 100):
        fleet.set(hours(minutes / 60), hours(minutes / 60 + 1 / 3), **held, host_cpu=0.05)
    return World(fleet)


def test_a_pause_of_the_job_ends_no_drop_and_costs_nothing():
    world, shares = paused(30.25), {}
    for now, detection in world.ticks(hours(30), hours(36)):
        shares[now] = [share for x in detection.anomalies for share in x.wasted_shares]
    (alert,) = world.known
    assert timedelta() <= alert.closed - hours(35) <= timedelta(minutes=50)
    assert set(shares[hours(33.25)]) == {0}
    assert shares[hours(32.25)] == pytest.approx([0.6] * 4, abs=0.08)


def test_a_drop_that_a_pause_cuts_is_told_by_the_work_after_it():
    (alert,) = paused(30.5).run(hours(31), hours(33))
    assert alert.opened - hours(31.67) <= timedelta(minutes=75)
