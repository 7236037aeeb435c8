"""A job whose starts compile again has a cold cache; the first compile of a new one is its due."""

from datetime import timedelta

import numpy as np
import pytest
from builder import HBM, START, STEP, Fleet, World, hours, only

from bot.model.causes import Cause
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.run import job_of

BUSY = {"host_cpu": 0.8}
NIGHT = 24
FRESH = timedelta(minutes=10)


def minutes(m):
    return timedelta(minutes=m)


def nightly(compiles, memory=()):
    """Return a job that runs from midnight to six on two new nodes a night, and how long it compiles at each start."""
    fleet = Fleet(2 * len(compiles), days=len(compiles))
    for night, length in enumerate(compiles):
        nodes, begin = slice(2 * night, 2 * night + 2), hours(NIGHT * night)
        fleet.silence(START, begin, nodes).silence(
            begin + timedelta(hours=6.2), hours(NIGHT * len(compiles)), nodes
        )
        fleet.stop(begin, begin + minutes(10 + length), nodes, **BUSY).stop(
            begin, begin + minutes(10), nodes
        )
        for row in range(nodes.start, nodes.stop):
            fleet.launched[row], fleet.ended[row] = begin, begin + timedelta(hours=6.2)
        if memory:
            held = HBM * memory[night]
            work = begin + minutes(10 + length), begin + timedelta(hours=6.2), nodes
            fleet.set(*work, neuroncore_memory_used=held, neuron_runtime_memory=held)
    return fleet


def runs(compiles, name="tune-{:%Y%m%d}"):
    """Return the progress of its runs: each night another, from the end of its compile."""
    n_steps = NIGHT * 12 * len(compiles)
    values = np.full((len(compiles), n_steps, 1), np.nan, dtype=np.float32)
    for night, length in enumerate(compiles):
        first = NIGHT * 12 * night + (10 + length) // 5
        values[night, first : NIGHT * 12 * night + 6 * 12, 0] = (
            np.arange(NIGHT * 12 * night + 6 * 12 - first) * 50.0
        )
    things = tuple(
        Labels(cluster="llama", job=name.format(hours(NIGHT * i))) for i in range(len(compiles))
    )
    return Frame("run", things, START, STEP, ("run_step_count",), values)


def told(fleet, night, length, **frames):
    """Return what is told of a start, some minutes after its compile."""
    return (
        World(fleet, frames=frames)
        .at(hours(NIGHT * night) + minutes(10 + length) + FRESH)
        .anomalies
    )


@pytest.mark.parametrize(
    ("compiles", "memory", "is_told"),
    [
        ([5, 5, 5, 45], (), True),
        ([5, 5, 45], (), False),
        ([45, 5, 5, 40], (), False),
        ([45, 5, 5, 5, 45], (), True),
        ([5, 5, 5, 25], (), False),
        ([5, 5, 5, 45], (0.7, 0.7, 0.7, 0.6), False),
    ],
)
def test_after_several_runs_without_a_compile_the_first_one_is_told(compiles, memory, is_told):
    """Its memory says that it is the very work of before: the graph has not changed."""
    fleet, last = nightly(compiles, memory), len(compiles) - 1
    anomalies = told(fleet, last, compiles[-1], run=runs(compiles))
    assert len(anomalies) == is_told
    for cold in anomalies:
        assert cold.cause is Cause.COLD_CACHE
        assert "this work ran before, and its job hardly compiled at 3 starts" in cold.why
        assert cold.evidence[0] == "1.5 node-hours of compiling at this start"
        assert sum(cold.lost_hours) == pytest.approx(2 * 45 / 60)


def test_a_new_job_that_compiles_once_more_is_not_told():
    compiles = [45, 40]
    assert told(nightly(compiles), 1, 40, run=runs(compiles)) == ()


@pytest.mark.parametrize("compiles", [[5, 20, 25], [5, 45, 8]])
def test_short_starts_are_not_told(compiles):
    assert told(nightly(compiles), 2, compiles[2], run=runs(compiles)) == ()


def test_a_job_of_another_memory_compiles_for_the_first_time():
    assert told(nightly([5, 45, 40], memory=(0.7, 0.7, 0.5)), 2, 40) == ()


@pytest.mark.parametrize(
    ("level", "times", "is_told"), [(1.0, 1.0, True), (0.75, 1.0, False), (1.0, 1.3, False)]
)
def test_two_trials_that_hold_the_same_memory_by_chance_are_told_apart_by_their_pace(
    level, times, is_told
):
    fleet, last = nightly([5, 45, 40]), slice(4, 6)
    work = hours(2 * NIGHT) + minutes(50), hours(2 * NIGHT + 6.2), last
    fleet.scale(*work, neuroncore_utilization=level, neuron_execution_latency=times)
    assert bool(told(fleet, 2, 40)) == is_told


def test_work_of_another_pace_did_not_run_before_though_it_held_the_same_memory():
    fleet = nightly([5, 45, 40])
    fleet.scale(START, hours(NIGHT), slice(0, 6), neuron_execution_latency=1.3)
    assert told(fleet, 2, 40) == ()


def test_a_job_of_another_name_compiles_for_the_first_time_though_its_memory_is_alike():
    compiles = [5, 45, 40]
    other = runs(compiles)
    things = (*other.things[:2], Labels(cluster="llama", job="probe-20261104"))
    assert (
        told(
            nightly(compiles),
            2,
            40,
            run=Frame("run", things, START, STEP, other.metrics, other.values),
        )
        == ()
    )


def test_many_nodes_of_one_new_job_compile_for_the_first_time():
    fleet = Fleet(6, job="tune").stop(hours(0), hours(40), **BUSY)
    assert only(World(fleet).at(hours(31.2))).cause is Cause.LONG_COMPILE


@pytest.mark.parametrize(
    ("name", "job"),
    [
        ("rank-lora-20260501", "rank-lora"),
        ("rank-lora-20260501-0130", "rank-lora"),
        ("t5-xl-r3", "t5-xl"),
        ("t5-xl-trial-12", "t5-xl"),
        ("tune-29384756", "tune"),
        ("tune_attempt_2", "tune"),
        ("llama3-8b", "llama3-8b"),
        ("gpt-2", "gpt-2"),
        ("20260501", "20260501"),
    ],
)
def test_a_run_is_named_after_its_job(name, job):
    assert job_of(name) == job


def test_a_start_after_its_alert_is_over_for_good_counts_what_no_alert_has_counted():
    compiles = [5, 45, 40, 5, 5, 5, 20, 50]
    (cold,) = told(nightly(compiles), 7, 50, run=runs(compiles))
    assert "4 starts since" in cold.why
    assert cold.evidence[0] == "5.2 node-hours of compiling at these starts"
    assert sum(cold.lost_hours) == pytest.approx(2 * 70 / 60)


def test_a_first_start_past_the_grace_was_counted_as_a_long_compile():
    compiles = [5, 90, 40]
    (cold,) = told(nightly(compiles), 2, 40, run=runs(compiles))
    assert sum(cold.lost_hours) == pytest.approx(2 * 40 / 60)


def test_short_compiles_of_several_jobs_that_follow_each_other_are_no_long_start():
    """Nine minutes on one node after nine on another are no compile of eighteen."""
    fleet = Fleet(4)
    for n in range(4):
        fleet.stop(hours(20) + n * minutes(5), hours(20) + (n + 2) * minutes(5), [n], **BUSY)
    fleet.stop(hours(40), hours(40.75), slice(0, 2), **BUSY)
    assert World(fleet).at(hours(40.75) + FRESH).anomalies == ()
