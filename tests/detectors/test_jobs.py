"""What is usual belongs to a job: another job on the same nodes has its own, and takes it along to other nodes."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from builder import START, STEP, Fleet, World, hours, only

from bot.model.causes import Cause
from bot.model.frame import Frame
from bot.model.labels import Labels
from detectors.jobs import _levels_around, fellows, restarts
from detectors.usual import MEMORY


def other_job(fleet, start, end, nodes=slice(None), level=0.6, memory=1.15, latency=2.0):
    """Let another job run after a stop: other memory, other executions, another level."""
    fleet.stop(start, start + 3 * STEP, nodes)
    changes = {
        "neuroncore_utilization": level / 0.9,
        "neuroncore_memory": memory,
        "neuron_runtime_memory": memory,
    }
    return fleet.scale(
        start + 3 * STEP, end, nodes, **changes, neuron_execution_latency=latency, efa=0.7
    )


def test_a_slower_job_is_no_drop_of_the_one_before():
    assert World(other_job(Fleet(2), hours(30), hours(48))).run(hours(29), hours(40)) == []


def test_a_job_is_judged_by_its_own_level_after_some_hours():
    fleet = other_job(Fleet(2), hours(30), hours(48)).starve(hours(33), hours(36), share=0.4)
    (alert,) = World(fleet).run(hours(29), hours(36))
    assert (alert.cause, alert.opened - hours(33) <= timedelta(minutes=15)) == (Cause.STARVED, True)
    assert alert.anomaly.usual == pytest.approx((0.6, 0.6), abs=0.05)


def moved():
    """A job of two nodes that goes on, after thirty hours, on two others that ran another one."""
    fleet = other_job(Fleet(6), hours(0), hours(30), slice(0, 2)).stop(
        hours(30), hours(48), slice(0, 2)
    )
    return other_job(fleet, hours(30), hours(48), slice(2, 4))


def test_a_job_takes_its_usual_along_to_other_nodes():
    drops = {Cause.STARVED, Cause.NETWORK_BOUND, Cause.COLLECTIVE_PATH}
    assert not [a for a in World(moved()).run(hours(29), hours(33)) if a.cause in drops]
    slow = moved().starve(hours(31), hours(34), slice(2, 4), share=0.3)
    (alert,) = [a for a in World(slow).run(hours(29), hours(33)) if a.cause in drops]
    assert alert.opened - hours(31) <= timedelta(minutes=15)
    assert alert.anomaly.usual == pytest.approx((0.6, 0.6), abs=0.05)


def test_a_drop_ends_with_the_job_that_it_was_about():
    fleet = other_job(
        Fleet(4).starve(hours(30), hours(31)), hours(31), hours(48), level=0.5, latency=1.0
    )
    (alert,) = World(fleet).run(hours(29), hours(36))
    assert alert.closed <= hours(31.75)


def counts(restarted_at):
    """Return a run of the cluster that goes on at hour 30 from `restarted_at`, with fewer steps."""
    steps = np.arange(40 * 12, dtype=np.float32) * 10
    steps[30 * 12 :] = restarted_at + np.arange(10 * 12) * 3
    steps[30 * 12 : 30 * 12 + 3] = np.nan
    labels = (Labels(cluster="llama", job="pretrain"),)
    return Frame("run", labels, START, STEP, ("run_step_count",), steps.reshape(1, -1, 1))


@pytest.mark.parametrize(
    ("job", "latency", "restarted_at", "told"),
    [
        ("pretrain", 1.0, None, True),
        ("", 1.0, None, False),
        ("", 1 / 0.3, None, True),
        ("", 2.0, 3_500, True),
        ("", 2.0, 0, False),
    ],
    ids=["its tag", "nothing says", "its executions wait", "its run goes on", "another run"],
)
def test_a_job_that_is_known_to_go_on_after_a_restart_keeps_its_usual(
    job, latency, restarted_at, told
):
    fleet = Fleet(3, days=40 / 24, job=job).stop(hours(30), hours(30.25))
    slow = {"neuroncore_utilization": 0.3, "neuron_execution_latency": latency}
    fleet.scale(hours(30.25), hours(40), efa=0.3, **slow)
    frames = {} if restarted_at is None else {"run": counts(restarted_at)}
    alerts = World(fleet, frames=frames).run(hours(31), hours(31.75))
    assert [len(alert.anomaly.things) for alert in alerts] == [3] * told


def test_a_job_without_a_usual_of_its_own_is_told_by_strong_signs_only():
    slow = other_job(Fleet(4), hours(30), hours(48), level=0.3)
    assert World(slow).run(hours(29), hours(31.25)) == []
    slow.set(hours(30.25), hours(48), host_cpu=0.97)
    (alert,) = World(slow).run(hours(29), hours(31.25))
    assert alert.cause is Cause.STARVED


def test_memory_that_grows_without_a_stop_is_no_other_job():
    fleet = Fleet(4).scale(hours(30), hours(48), neuroncore_memory=1.1, neuron_runtime_memory=1.1)
    assert only(World(fleet.starve(hours(31), hours(34))).at(hours(31.5))).cause is Cause.STARVED


def freed(change_memory=1.0, change_latency=1.0, evaluates=False, dip=0.3):
    """Return a fleet's frame in which memory is let go within the step of hour 30, and what follows."""
    fleet = Fleet(1)
    fleet.scale(hours(30), hours(30) + STEP, neuroncore_memory=dip)
    after = {"neuroncore_memory": change_memory, "neuron_execution_latency": change_latency}
    fleet.scale(hours(30) + STEP, hours(48), **after)
    if evaluates:
        fleet.scale(hours(30) + STEP, hours(30.4), neuron_execution_latency=0.5)
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
        (freed(change_memory=1.2, dip=1.0), 0),
        (halved_but_in_pauses(), 0),
    ],
    ids=["other memory", "other pace", "same job", "it evaluates", "none let go", "pauses amid it"],
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


def test_a_drop_is_followed_where_no_memory_is_read():
    class Unread(Fleet):
        def frame(self):
            frame = super().frame()
            kept = [i for i, name in enumerate(frame.metrics) if name != MEMORY]
            metrics = tuple(frame.metrics[i] for i in kept)
            return replace(frame, metrics=metrics, values=frame.values[:, :, kept])

    (alert,) = World(Unread(4).starve(hours(30), hours(31))).run(hours(29), hours(33))
    assert alert.cause is Cause.STARVED
    assert alert.closed
