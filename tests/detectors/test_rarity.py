"""What is rare for a job is told; how it always pauses is not."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from builder import START, Fleet, World, hours
from stories import progress

from bot.model.causes import Cause
from bot.policy.schema import default_policy
from detectors.jobs import return_level, stretches_of
from detectors.nodes.idle import standing_still
from detectors.nodes.shortfall import far_under, under
from detectors.progress import busy_and_waiting, left_out

MINUTE = timedelta(minutes=1)


def phases(fleet, rows, wait_minutes, work_minutes, seed, until=None):
    """Let some nodes wait again and again with their process loaded, as trainers do for rollouts.

    Lengths are drawn to the minute between two bounds; a reading is the mean of its minutes.
    """
    rng = np.random.default_rng(seed)
    minutes = round(((until or hours(fleet.days * 24)) - START) / MINUTE)
    works = np.ones(minutes, dtype=bool)
    at = int(rng.integers(*work_minutes))
    while at < minutes:
        length = int(rng.integers(wait_minutes[0], wait_minutes[1] + 1))
        works[at : at + length] = False
        at += length + int(rng.integers(work_minutes[0], work_minutes[1] + 1))
    per_step = fleet.step // MINUTE
    share = works[: minutes // per_step * per_step].reshape(-1, per_step).mean(axis=1)
    steps = slice(0, len(share))
    for name in ("neuroncore_utilization_ratio", "efa_tx_bytes_per_second"):
        fleet.metrics[name][rows, steps] *= share
    fleet.metrics["efa_rx_bytes_per_second"][rows, steps] *= share
    latency = fleet.metrics["neuron_execution_latency_seconds"]
    latency[rows, steps] = np.where(share > 0, latency[rows, steps], np.nan)
    return fleet


def rollouts_and_trainers(seed, days=4.0, until=None):
    """Return eight nodes of a job: four roll out, four wait for them 5 to 22 minutes and train."""
    fleet = Fleet(8, days=days, seed=seed)
    for name in ("neuroncore_memory_used_bytes", "neuron_runtime_memory_used_bytes"):
        fleet.metrics[name][4:] *= 0.6
    phases(fleet, slice(0, 4), (5, 22), (15, 35), seed, until)
    return phases(fleet, slice(4, 8), (2, 9), (8, 30), seed + 1, until)


@pytest.mark.parametrize("state", [standing_still, under, far_under, busy_and_waiting, left_out])
def test_of_a_history_without_a_step_nothing_is_rare(state):
    """As in the first hour of an account, up to whose beginning nothing is learnt."""
    view = World(Fleet(2, cluster="llama", job="a")).view(hours(0.5))
    assert view.past.past.anchor == START
    assert view.stretches(state, ~view.nobody()).count.tolist() == [0, 0]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_wait_as_the_job_has_shown_is_not_told(seed):
    world = World(rollouts_and_trainers(seed))
    told = world.run(hours(0), hours(96))
    assert [(a.cause.value, a.anomaly.why) for a in told] == []


def test_a_wait_longer_than_the_job_ever_shows_is_a_hang():
    fleet = rollouts_and_trainers(5, until=hours(80))
    fleet.set(
        hours(80), hours(96), neuroncore_utilization=0, neuron_execution_latency=np.nan, efa=0
    )
    world = World(fleet)
    told = world.run(hours(70), hours(83))
    assert {a.cause for a in told} == {Cause.HUNG}
    assert told[0].opened <= hours(81.25)
    assert any("pauses in" in sentence for sentence in told[0].anomaly.evidence)


@pytest.mark.parametrize(("nodes", "known"), [(4, False), (1, True), (1, False)])
def test_saves_that_take_longer_and_longer_are_pauses_of_their_job(nodes, known):
    """Of one node alone only its run tells: what is not said to repeat a step may be left."""
    fleet, ends = Fleet(nodes, days=4), []
    run = progress(fleet)
    moved = np.full(run.n_steps, 30.0)
    for save in range(23):
        start = hours(4 + 4 * save)
        ends.append(start + timedelta(minutes=5 * round(1 + 0.4 * save)))
        fleet.set(start, ends[-1], neuroncore_utilization=0, efa=0, host_cpu=0.03)
        fleet.set(start, ends[-1], neuron_execution_latency=np.nan)
        moved[fleet.cut(start, ends[-1])[1]] = 0
    run.values[0, :, 0] = np.cumsum(moved)
    world = World(fleet, frames={"run": run} if known else {})
    causes = {x.cause for end in ends[-4:] for x in world.at(end).anomalies}
    assert causes == (set() if nodes > 1 or known else {Cause.ALLOCATED_UNUSED})


def test_a_role_that_pauses_as_ever_is_no_part_of_the_drop_of_another():
    """A tag names the job of both, and an execution takes as long in each."""
    fleet = rollouts_and_trainers(5).starve(hours(60), hours(66), slice(4, 8), share=0.3)
    fleet.job = "rl"
    dropped = {
        thing
        for _, detection in World(fleet).ticks(hours(60), hours(65), 2 * fleet.step)
        for anomaly in detection.anomalies
        for thing in anomaly.things
    }
    assert dropped == set(fleet.ids[4:])


def test_a_hang_that_was_told_is_no_pause_of_its_job():
    fleet = rollouts_and_trainers(5, until=hours(80))
    hang = {"neuroncore_utilization": 0, "neuron_execution_latency": np.nan, "efa": 0}
    fleet.set(hours(40), hours(45), **hang).set(hours(80), hours(96), **hang)
    default = default_policy()
    world = World(fleet, policy=replace(default, values={**default.values, "odd.on": False}))
    world.run(hours(41.5), hours(46), 6 * fleet.step)
    first, second = world.run(hours(81), hours(81.5), 6 * fleet.step)
    assert [first.cause, second.cause] == [Cause.HUNG] * 2


def test_the_return_level_is_passed_as_seldom_as_promised():
    rng = np.random.default_rng(3)
    passed = []
    for _ in range(200):
        past = rng.exponential(4, 300).round() + 1
        level = return_level(past, weeks_seen=2, weeks=8)
        later = rng.exponential(4, 1200).round() + 1
        passed.append((later > level).sum())
    # 1,200 pauses are those of 8 weeks, of which one is to be longer.
    assert 0.3 <= np.mean(passed) <= 1.0


def test_pauses_of_one_length_leave_little_room():
    assert return_level(np.full(50, 4.0), 2, 8) < 8


def test_a_stretch_in_which_the_job_was_gone_is_none_of_its_pauses():
    state, going_on = np.zeros((1, 60), dtype=bool), np.ones((1, 60), dtype=bool)
    state[0, 10:22], going_on[0, 15] = True, False
    state[0, 40:43] = True
    one = np.zeros(1, dtype=np.intp)
    seen = stretches_of(state, going_on, one, one, 4.0, 5 * MINUTE)
    assert (seen.count.tolist(), seen.longest.tolist()) == ([1], [3])
