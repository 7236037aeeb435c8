"""Stops that look alike: a hang, a new process, a compile; with what is read and without it."""

import numpy as np
import pytest
from builder import HBM, START, STEP, Fleet, World, hours, only

from bot.model.anomaly import NodeState
from bot.model.causes import Cause
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.reading import RUN_METRICS

STILL = {
    "neuroncore_utilization": 0,
    "neuron_execution_latency": np.nan,
    "efa": 0,
    "host_cpu": 0.03,
}


def alone():
    """Return a node whose work sends nothing over EFA."""
    return Fleet(1).set(hours(0), hours(48), efa=1e3)


def pinned(fleet):
    return fleet.set(
        hours(30),
        hours(34),
        neuroncore_utilization=0.999,
        neuron_execution_latency=np.nan,
        host_cpu=0.09,
    )


def run_of(fleet, moves):
    """Return the steps of a run that goes on, or stands still from the thirtieth hour."""
    steps = np.arange(fleet.metrics["efa_tx_bytes_per_second"].shape[1], dtype=np.float32)
    values = np.full((1, len(steps), len(RUN_METRICS)), np.nan, np.float32)
    values[0, :, tuple(RUN_METRICS).index("run_step_count")] = (
        steps if moves else np.minimum(steps, 360)
    )
    return {
        "run": Frame(
            "run", (Labels(cluster="llama", job="r"),), START, STEP, tuple(RUN_METRICS), values
        )
    }


def test_a_single_node_that_spins_at_its_end_is_hung():
    world = World(pinned(alone()))
    assert world.at(hours(30.25)).anomalies == ()
    assert only(world.at(hours(30.5))).cause is Cause.HUNG


@pytest.mark.parametrize(("moves", "causes"), [(True, []), (False, [Cause.HUNG])])
def test_a_run_that_goes_on_is_not_hung(moves, causes):
    fleet = pinned(alone())
    assert [
        a.cause for a in World(fleet, frames=run_of(fleet, moves)).at(hours(31)).anomalies
    ] == causes


def test_a_lost_latency_is_no_hang():
    fleet = alone().set(hours(30), hours(34), neuron_execution_latency=np.nan)
    assert World(fleet).run(hours(30), hours(33)) == []


def test_pinned_cores_are_told_late_where_nothing_else_is_read():
    fleet = Fleet(4).set(hours(0), hours(48), neuron_execution_latency=np.nan, efa=np.nan)
    world = World(fleet.set(hours(30), hours(34), neuroncore_utilization=0.999))
    assert world.at(hours(30.75)).anomalies == ()
    assert only(world.at(hours(31.1))).cause is Cause.HUNG


def test_a_new_process_that_does_nothing_is_no_hang():
    fleet = Fleet(4).stop(hours(30), hours(30.25)).set(hours(30.25), hours(34), **STILL)
    (alert,) = World(fleet).run(hours(29), hours(32))
    assert alert.cause is Cause.ALLOCATED_UNUSED


@pytest.mark.parametrize(("minutes", "causes"), [(60, []), (70, [Cause.LONG_COMPILE])])
def test_a_compile_needs_no_host_cpu_to_be_seen(minutes, causes):
    fleet = Fleet(4).set(
        hours(30),
        hours(34),
        slice(0, 1),
        **(STILL | {"neuroncore_memory": 0.004 * HBM, "neuron_runtime": 1e9}),
    )
    fleet.metrics["host_cpu_utilization_ratio"][:] = np.nan
    detection = World(fleet).at(hours(30 + minutes / 60))
    assert [a.cause for a in detection.anomalies] == causes
    assert detection.states["i-llama000"] is NodeState.COMPILING
    assert all(a.confidence < 0.8 for a in detection.anomalies)


def blind(completed):
    """Return nodes of which no latency and no EFA is ever read, whose executions end at a rate; None = not counted either."""
    fleet = Fleet(4).set(hours(0), hours(48), neuron_execution_latency=np.nan, efa=np.nan)
    return (
        fleet
        if completed is None
        else fleet.set(hours(0), hours(48), neuron_executions_completed=completed)
    )


def test_no_execution_ends_although_the_cores_look_busy():
    fleet = blind(420).set(hours(30), hours(34), neuron_executions_completed=0)
    world = World(fleet)
    assert world.at(hours(30.15)).anomalies == ()
    hang = only(world.at(hours(30.5)))
    assert (hang.cause, len(hang.things)) == (Cause.HUNG, 4)


def test_executions_that_end_are_work_whatever_else_is_lost():
    fleet = Fleet(4).set(hours(0), hours(48), neuron_executions_completed=420)
    fleet.set(
        hours(30), hours(34), neuron_execution_latency=np.nan, efa=0, neuroncore_utilization=0.999
    )
    assert Cause.HUNG not in [a.cause for a in World(fleet).at(hours(31)).anomalies]


def test_a_source_that_always_counts_none_says_nothing():
    assert World(blind(0)).run(hours(30), hours(32)) == []


def test_a_live_process_that_does_no_work_shows_one_value_again_and_again():
    fleet = blind(None).set(hours(30), hours(34), neuroncore_utilization=0.87)
    world = World(fleet)
    assert world.at(hours(30.75)).anomalies == ()
    assert only(world.at(hours(31.2))).cause is Cause.HUNG


@pytest.mark.parametrize(("moves", "causes"), [(True, []), (False, [Cause.HUNG])])
def test_one_value_again_and_again_is_no_hang_while_the_run_goes_on(moves, causes):
    fleet = blind(None).set(hours(30), hours(34), neuroncore_utilization=0.87)
    assert [
        a.cause for a in World(fleet, frames=run_of(fleet, moves)).at(hours(31.2)).anomalies
    ] == causes


@pytest.mark.parametrize("ahead", [4, 10])
def test_the_node_that_stopped_first_is_named(ahead):
    """Two points of five minutes, or less than one point, before the others."""
    fleet = Fleet(4).set(hours(30), hours(34), **STILL)
    before = hours(30) - 2 * STEP
    if ahead == 10:
        fleet.set(before, hours(34), slice(2, 3), **STILL)
    else:
        fleet.scale(hours(30) - STEP, hours(30), slice(2, 3), neuroncore_utilization=0.2)
    (alert,) = World(fleet).run(hours(30), hours(31.5))
    assert alert.cause is Cause.HUNG
    assert [x for x in alert.anomaly.evidence if "stopped first" in x] == [
        f"i-llama002 stopped first, about {ahead} min before the others"
    ]


def test_nodes_that_stop_together_have_no_first():
    (alert,) = World(Fleet(4).set(hours(30), hours(34), **STILL)).run(hours(30), hours(31))
    assert not [x for x in alert.anomaly.evidence if "stopped first" in x]


def test_a_hang_is_over_when_its_process_is_gone():
    """The job starts anew with little memory held, and executes nothing for another half an hour."""
    fleet = Fleet(4).set(hours(30), hours(32.4), **STILL)
    fleet.set(hours(32), hours(32.4), neuroncore_memory=0.3 * HBM, neuron_runtime=0.3 * HBM)
    (alert,) = World(fleet).run(hours(29), hours(33))
    assert (alert.cause, alert.seen) == (Cause.HUNG, hours(32))
