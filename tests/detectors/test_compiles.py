"""A compile has a beginning, an end, and something that came of it: executions, nothing, or nobody knows."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from builder import HBM, START, Fleet, World, hours, only

from bot.model.anomaly import NodeState
from bot.model.causes import Cause
from bot.model.run import CompileMark, Ending, Mark
from bot.model.window import Window
from bot.policy.schema import default_policy
from detectors import compiles_since

BUSY = {"host_cpu": 0.8}


def minutes(n):
    return timedelta(minutes=n)


def compiled(fleet, now, since=START):
    """Return what compiled, as (nodes, start in hours, hours, ending)."""
    world = World(fleet)
    found = compiles_since(world.reading(now), world.policy, since)
    return [(x.instance, (x.window.start - START) / hours_(1), x.hours, x.ending) for x in found]


def hours_(h):
    return timedelta(hours=h)


def cut_off(nodes=4, **more):
    """Compile from 30.0 to 30.5 on two nodes, then stand without any process."""
    return (
        Fleet(nodes, **more)
        .stop(hours(30), hours(30.5), slice(0, 2), **BUSY)
        .stop(hours(30.5), hours(40), slice(0, 2))
    )


def test_a_compile_whose_work_runs_is_used():
    fleet = Fleet(2).stop(hours(30), hours(30.5), slice(0, 1), **BUSY)
    assert compiled(fleet, hours(32)) == [("i-llama000", 30.0, 0.5, Ending.USED)]
    assert compiled(fleet, hours(30.25)) == [("i-llama000", 30.0, 0.25, Ending.GOING)]


def test_the_load_of_the_weights_is_no_end():
    fleet = Fleet(2).stop(hours(30), hours(30.5), slice(0, 1), **BUSY)
    held = {
        "neuroncore_utilization": 0,
        "neuron_execution_latency": np.nan,
        "neuron_runtime_memory": 0.6 * HBM,
    }
    fleet.set(hours(30.5), hours(31), slice(0, 1), **held, host_cpu=0.1)
    assert compiled(fleet, hours(31)) == [("i-llama000", 30.0, 0.5, Ending.UNKNOWN)]
    assert [x.cause for x in World(fleet).at(hours(30.9)).anomalies] == []


def test_a_compile_that_is_cut_off_is_told_with_its_hours():
    world = World(cut_off())
    assert world.at(hours(30.6)).anomalies == ()
    killed = only(world.at(hours(30.8)))
    assert (killed.cause, killed.things, killed.lost_hours) == (
        Cause.KILLED_COMPILE,
        ("i-llama000", "i-llama001"),
        (0.5, 0.5),
    )
    assert (killed.window.start, set(killed.wasted_shares)) == (hours(30), {0.0})
    assert "--retry_failed_compilation" in killed.suggestions[0]
    assert Cause.KILLED_COMPILE not in {x.cause for x in world.at(hours(32)).anomalies}


def test_points_that_are_missing_are_no_kill():
    fleet = (
        Fleet(4)
        .stop(hours(30), hours(30.5), slice(0, 2), **BUSY)
        .silence(hours(30.5), hours(40), slice(0, 2))
    )
    assert [x[3] for x in compiled(fleet, hours(30.6))] == [Ending.GOING] * 2
    assert [x[3] for x in compiled(fleet, hours(33))] == [Ending.UNKNOWN] * 2
    assert [x.cause for x in World(fleet).at(hours(30.9)).anomalies] == [Cause.NO_DATA]


def test_a_node_that_is_terminated_amid_its_compile_cuts_it_off():
    fleet = (
        Fleet(4)
        .stop(hours(30), hours(30.5), slice(0, 1), **BUSY)
        .silence(hours(30.5), hours(48), slice(0, 1))
    )
    fleet.ended[0] = hours(30.5)
    assert [x[3] for x in compiled(fleet, hours(31))] == [Ending.CUT]
    assert only(World(fleet).at(hours(31))).cause is Cause.KILLED_COMPILE


def test_a_pod_that_left_says_it_where_no_runtime_is_read():
    fleet = cut_off().set(START, hours(48), neuron_runtime=np.nan, neuroncore_memory=np.nan)
    assert [x[3] for x in compiled(fleet, hours(31))] == [Ending.UNKNOWN] * 2
    fleet.set(START, hours(30.5), neuroncore_reserved=32).set(
        hours(30.5), hours(48), neuroncore_reserved=0
    )
    assert [x[3] for x in compiled(fleet, hours(31))] == [Ending.CUT] * 2


def test_a_pre_compile_that_is_used_later_was_not_for_nothing():
    fleet = (
        Fleet(2)
        .stop(hours(30), hours(30.5), slice(0, 1), **BUSY)
        .stop(hours(30.5), hours(32), slice(0, 1))
    )
    assert [x[3] for x in compiled(fleet, hours(31))] == [Ending.CUT]
    assert [x[3] for x in compiled(fleet, hours(33))] == [Ending.USED]


def test_launched_again_it_compiles_again_and_the_first_was_for_nothing():
    fleet = (
        Fleet(2)
        .stop(hours(30), hours(30.5), slice(0, 1), **BUSY)
        .stop(hours(30.5), hours(30.75), slice(0, 1))
    )
    fleet.stop(hours(30.75), hours(31.25), slice(0, 1), **BUSY)
    assert [(x[2], x[3]) for x in compiled(fleet, hours(33))] == [
        (0.5, Ending.CUT),
        (0.5, Ending.USED),
    ]


def test_graphs_that_are_traced_in_between_make_one_compile():
    fleet = Fleet(2).stop(hours(30), hours(31), slice(0, 1), **BUSY)
    tracing = {
        "neuroncore_utilization": 0,
        "neuron_execution_latency": np.nan,
        "neuron_runtime_memory": 1e9,
    }
    fleet.set(hours(30.5), hours(30.5) + minutes(10), slice(0, 1), **tracing, host_cpu=0.05)
    assert [x[2] for x in compiled(fleet, hours(33))] == [1.0]


def test_a_long_compile_that_is_cut_off_goes_on_as_its_own_alert():
    fleet = (
        Fleet(2)
        .stop(hours(30), hours(31.5), slice(0, 1), **BUSY)
        .stop(hours(31.5), hours(40), slice(0, 1))
    )
    alerts = World(fleet).run(hours(30), hours(31.85))
    assert [(a.anomaly.rule, a.cause) for a in alerts] == [("long_compile", Cause.KILLED_COMPILE)]


@pytest.mark.parametrize(("after", "cause"), [(45, None), (46, Cause.LONG_COMPILE)])
def test_with_a_grace_of_45_minutes_the_46th_makes_it_long(after, cause):
    fleet = Fleet(2, days=1.4, step=minutes(1)).stop(hours(30), hours(33), slice(0, 1), **BUSY)
    policy = default_policy()
    world = World(fleet, policy=type(policy)({**policy.values, "compiling.grace": minutes(45)}))
    detection = world.at(hours(30) + minutes(after))
    assert [x.cause for x in detection.anomalies] == ([cause] if cause else [])
    assert detection.states["i-llama000"] is NodeState.COMPILING


def test_the_second_start_of_a_job_that_compiles_again_has_a_cache_that_went_cold():
    fleet = Fleet(4).stop(hours(20), hours(20.75), **BUSY).stop(hours(30), hours(30.75), **BUSY)
    policy = default_policy()
    patient = World(fleet, policy=type(policy)({**policy.values, "cold_cache.again": minutes(60)}))
    assert patient.at(hours(31)).anomalies == ()
    cold = only(World(fleet).at(hours(31)))
    assert (cold.cause, "the cache missed" in cold.why, "batch size" in cold.why) == (
        Cause.COLD_CACHE,
        True,
        True,
    )


def test_a_first_compile_that_was_cut_off_leaves_no_cache_to_go_cold():
    fleet = (
        Fleet(4)
        .stop(hours(29), hours(29.5), **BUSY)
        .stop(hours(29.5), hours(30))
        .stop(hours(30), hours(31), **BUSY)
    )
    assert Cause.COLD_CACHE not in {
        x.cause for x in World(fleet).at(hours(30) + minutes(40)).anomalies
    }


def test_a_switch_keeps_it_silent():
    policy = default_policy()
    off = type(policy)({**policy.values, "killed_compile.on": False})
    assert World(cut_off(), policy=off).at(hours(30.8)).anomalies == ()


def line(minute, mark, module="M1", node="i-llama000", stream="s"):
    return CompileMark(hours(30) + minutes(minute), node, mark, module, stream)


def logged(fleet, now, *marks, **more):
    """Return the detection and the compiles where a log holds some lines, those of later left out."""
    world = World(fleet, **more)
    reading = replace(world.reading(now), marks=tuple(x for x in marks if x.at <= now))
    detection = world.detector(reading, world.policy, ())
    return detection, compiles_since(reading, world.policy, START)


def quiet_compile(**more):
    """Compile on so few CPUs that nothing shows it."""
    return Fleet(2, **more).stop(hours(30), hours(31), slice(0, 1))


def test_a_log_tells_a_compile_that_no_metric_shows():
    told, found = logged(quiet_compile(), hours(30.75), line(2, Mark.BEGUN))
    assert (told.anomalies, told.states["i-llama000"]) == ((), NodeState.COMPILING)
    assert [(x.told, x.ending) for x in found] == [(True, Ending.GOING)]
    silent, _ = logged(quiet_compile(), hours(30.75))
    assert only(silent).cause is Cause.IDLE


def test_a_log_that_says_done_ends_what_metrics_still_take_for_a_compile():
    busy = Fleet(2).stop(hours(30), hours(31), slice(0, 1), **BUSY)
    told, _ = logged(busy, hours(30.5), line(0, Mark.BEGUN), line(10, Mark.DONE))
    assert told.states["i-llama000"] is not NodeState.COMPILING
    later, _ = logged(busy, hours(31), line(0, Mark.BEGUN), line(10, Mark.DONE))
    assert later.states["i-llama000"] is NodeState.COMPILING, "a new process may log elsewhere"


def test_a_long_compile_that_the_log_confirms_is_sure():
    told, _ = logged(
        Fleet(2).stop(hours(30), hours(32), slice(0, 1)), hours(31.25), line(0, Mark.BEGUN)
    )
    long = only(told)
    assert (long.cause, long.confidence, long.runners_up) == (Cause.LONG_COMPILE, 0.98, ())
    assert "the compiler's log says that it goes on" in long.evidence


@pytest.mark.parametrize(
    ("marks", "compiling"),
    [
        ((line(0, Mark.BEGUN), line(20, Mark.DONE)), False),
        ((line(0, Mark.BEGUN), line(20, Mark.DONE, "")), False),
        ((line(0, Mark.BEGUN), line(20, Mark.FAILED)), False),
        ((line(0, Mark.BEGUN), line(20, Mark.DONE, "M2")), True),
        ((line(0, Mark.BEGUN), line(20, Mark.DONE, stream="other")), True),
        ((line(0, Mark.BEGUN), line(1, Mark.BEGUN, "M2"), line(20, Mark.DONE)), True),
        ((line(0, Mark.BEGUN), line(1, Mark.BEGUN, "M2"), line(20, Mark.DONE, "")), True),
        ((line(0, Mark.BEGUN), line(1, Mark.BEGUN, "M2"), line(20, Mark.OVER, "")), False),
        ((line(0, Mark.BEGUN), line(5, Mark.DONE), line(14, Mark.BEGUN, "M2")), True),
        ((line(0, Mark.WAITING), line(5, Mark.SKIPPED)), False),
        ((line(0, Mark.BEGUN, node="i-nobody"),), False),
    ],
)
def test_every_line_ends_what_it_names(marks, compiling):
    told, _ = logged(quiet_compile(), hours(30.6), *marks)
    assert (told.states["i-llama000"] is NodeState.COMPILING) is compiling


def test_a_log_without_an_end_is_cut_off_where_the_pod_leaves():
    fleet = (
        quiet_compile()
        .set(START, hours(30.4), neuroncore_reserved=32)
        .set(hours(30.4), hours(48), neuroncore_reserved=0)
    )
    told, found = logged(fleet, hours(30.75), line(0, Mark.BEGUN))
    assert [(x.ending, x.told) for x in found] == [(Ending.CUT, True)]
    assert Cause.KILLED_COMPILE in {x.cause for x in told.anomalies}


def test_executions_end_a_compile_whose_log_never_says_so():
    told, found = logged(
        Fleet(2).stop(hours(30), hours(30.5), slice(0, 1)), hours(31), line(0, Mark.BEGUN)
    )
    assert told.states["i-llama000"] is NodeState.BUSY
    assert [(x.hours, x.ending) for x in found] == [(0.5, Ending.USED)]


def test_a_compile_begins_and_ends_when_its_log_says_so():
    """Work that still ran in the step of the first line moved the start to the next step, and its dollars with it."""
    late = Fleet(2).stop(hours(30) + minutes(5), hours(31), slice(0, 1), **BUSY)
    _, going = logged(late, hours(30.5), line(2, Mark.BEGUN))
    assert [x.window for x in going] == [Window(hours(30) + minutes(2), hours(30.5))]
    _, over = logged(late, hours(33), line(2, Mark.BEGUN), line(57, Mark.DONE))
    assert [(x.window.start, x.window.end) for x in over] == [
        (hours(30) + minutes(2), hours(30) + minutes(57))
    ]
