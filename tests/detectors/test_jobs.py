"""What is usual belongs to a job: another job on the same nodes has its own, and takes it along to other nodes."""

from datetime import timedelta

import numpy as np
import pytest
from builder import START, STEP, Fleet, World, hours, only

from detectors.jobs import _levels_around, fellows, restarts


def freed(change_memory=1.0, change_latency=1.0, evaluates=False, dip=0.3, less_until=30):
    """Return a fleet's frame in which memory is let go within the step of hour 30, and what follows."""
    fleet = Fleet(1)
    fleet.scale(hours(30), hours(30) + STEP, neuroncore_memory=dip)
    after = {"neuroncore_memory": change_memory, "neuron_execution_latency": change_latency}
    fleet.scale(hours(30) + STEP, hours(48), **after)
    if evaluates:
        fleet.scale(hours(30) + STEP, hours(30.4), neuron_execution_latency=0.5)
    fleet.scale(hours(30) + STEP, max(hours(30) + STEP, hours(less_until)), neuroncore_memory=0.6)
    return fleet.frame()


def halved_but_in_pauses():
    """Return a frame of a job that holds half as much from hour 30 on, but while it saves."""
    fleet = Fleet(1).scale(hours(30), hours(48), neuroncore_memory=0.5)
    for quarter in range(8):
        start = hours(30 + quarter / 2) + STEP
        fleet.scale(start, start + STEP, neuroncore_memory=1.6, neuroncore_utilization=0.3)
    return fleet.scale(hours(30), hours(48), neuron_execution_latency=1.8).frame()


@pytest.mark.parametrize(
    ("frame", "begun"),
    [
        (freed(change_memory=1.2), 1),
        (freed(change_latency=1.5), 1),
        (freed(), 0),
        (freed(evaluates=True), 0),
        (freed(less_until=30.45), 0),
        (freed(change_memory=1.2, dip=1.0), 0),
        (halved_but_in_pauses(), 0),
    ],
    ids=[
        "other memory",
        "other pace",
        "same job",
        "it evaluates",
        "it holds less for a while",
        "none let go",
        "pauses amid it",
    ],
)
def test_another_job_begins_where_memory_was_let_go_and_what_runs_changed_for_good(frame, begun):
    assert restarts(frame).sum() == begun


def test_jobs_of_like_memory_are_apart_by_the_time_of_an_execution():
    fleet = Fleet(4).scale(hours(0), hours(48), slice(2, 4), neuron_execution_latency=2.0)
    view = World(fleet).view(hours(40))
    assert fellows(view, np.array([0])).tolist() == [True, True, False, False]


def test_jobs_that_work_alike_are_apart_by_their_tags():
    view = World(Fleet(2, job="a"), Fleet(2, cluster="llama", job="b", seed=2)).view(hours(40))
    assert fellows(view, np.array([0])).tolist() == [
        job == view.roster.jobs[0] for job in view.roster.jobs
    ]


def test_stages_of_a_named_job_that_hold_more_or_less_are_of_it():
    """An execution takes all of them as long; that of another role does not."""
    fleet = Fleet(4, job="a").scale(hours(0), hours(48), slice(1, 2), neuroncore_memory=0.9)
    fleet.scale(hours(0), hours(48), slice(3, 4), neuroncore_memory=0.9, neuron_execution_latency=2)
    view = World(fleet).view(hours(40))
    assert fellows(view, np.array([0])).tolist() == [True, True, True, False]


def test_what_the_job_before_was_slow_at_is_not_usual_for_this_one():
    """The next job's executions are quicker; as slow as those before for a quarter hour, they are slow."""
    fleet = Fleet(8, days=3).scale(
        START, hours(40), neuron_execution_latency=1.8, neuroncore_memory=1.03
    )
    fleet.scale(START, hours(40), neuron_runtime_memory=1.03).stop(hours(40), hours(40.25))
    for hour in range(4, 40, 7):
        fleet.scale(hours(hour), hours(hour + 0.25), neuron_execution_latency=0.4)
    slow = {"neuroncore_utilization": 0.45, "neuron_execution_latency": 1.9}
    fleet.scale(hours(60), hours(64), **slow).set(hours(60), hours(64), efa=9.8e10)
    drop = only(World(fleet).at(hours(60.5)))
    assert len(drop.things) == 8


def test_pauses_that_come_by_the_clock_are_known():
    """A checkpoint at the middle of each quarter is no loss, though the usual looks at its ends."""
    fleet, minutes = Fleet(4, days=3), np.arange(3 * 288) * 5
    fleet.metrics["neuroncore_utilization_ratio"][:, minutes % 15 == 5] *= 0.4
    usual = World(fleet)
    view = usual.detector.view(usual.reading(hours(60)), usual.policy, ())
    assert view.usual.unpaused == pytest.approx(0.8, abs=0.02)


def test_a_node_that_joins_an_alert_counts_since_its_onset():
    fleet = Fleet(4, days=2).stop(hours(30), hours(34), slice(0, 2))
    world = World(fleet.stop(hours(31), hours(34), slice(2, 4)))
    lost, seen = 0.0, None
    for now, detection in world.ticks(hours(30), hours(33)):
        for idle in detection.anomalies:
            shares = idle.shares_since or idle.wasted_shares
            lost += sum(shares) * ((now - (seen or idle.window.start)) / timedelta(hours=1))
            seen = now
    assert len(world.known) == 1
    assert lost == pytest.approx(2 * 3 + 2 * 2, rel=0.03)


def test_levels_are_those_of_the_steps_beside_and_of_none_beyond_the_ends():
    values, step = np.arange(10, dtype=np.float32)[None], np.array([5, 0, 8, 9])
    before, after = _levels_around(values, np.zeros(4, dtype=int), step, 3)
    assert before[1] == pytest.approx([4, np.nan, 7, 8], nan_ok=True)
    assert after[1] == pytest.approx([8, 3, 9, np.nan], nan_ok=True)
    assert (before[0, 0], after[0, 0]) == (3, 7)
