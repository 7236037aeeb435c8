"""Some cores of a node work and the others are held for nothing."""

from datetime import timedelta

import numpy as np
import pytest
from builder import Fleet, World, hours, only

from bot.model.causes import Cause

HIGHEST = "neuroncore_utilization_highest_ratio"


def fleet(nodes=8):
    """Return a fleet whose busiest cores are read."""
    made = Fleet(nodes)
    made.metrics[HIGHEST] = made.metrics["neuroncore_utilization_ratio"] + 0.02
    return made


def part_used(share):
    """Let a share of the cores work as ever from the thirtieth hour on."""
    made = fleet().scale(hours(30), hours(34), efa=share)
    made.metrics["neuroncore_utilization_ratio"][made.cut(hours(30), hours(34))] *= share
    return made


@pytest.mark.parametrize(("share", "cores"), [(0.125, 4), (0.25, 8), (0.5, 16)])
def test_cores_that_do_not_work_are_counted(share, cores):
    (alert,) = World(part_used(share)).run(hours(29), hours(34.5))
    assert (alert.cause, alert.opened - hours(30) <= timedelta(minutes=40)) == (
        Cause.ALLOCATED_UNUSED,
        True,
    )
    assert f"Only about {cores} of 32 cores work on 8 nodes" in alert.anomaly.why
    assert alert.anomaly.wasted_shares[0] == pytest.approx(1 - share, abs=0.03)
    assert alert.closed <= hours(34.5)


def test_starvation_lets_the_busiest_core_wait_too():
    assert (
        only(World(fleet().starve(hours(30), hours(34), host_cpu=0.1)).at(hours(31))).cause
        is Cause.STARVED
    )


def test_checkpoints_leave_no_core_unused():
    made = fleet()
    for hour in range(29, 36):
        made.metrics["neuroncore_utilization_ratio"][
            made.cut(hours(hour), hours(hour) + timedelta(minutes=10))
        ] *= 0.5
    assert World(made).run(hours(29), hours(36)) == []


def test_a_starvation_that_flutters_leaves_no_core_unused():
    made, rng = fleet(), np.random.default_rng(3)
    at = made.cut(hours(30), hours(34))
    for name, least, most in (("neuroncore_utilization_ratio", 0.43, 0.58), (HIGHEST, 0.88, 1.0)):
        made.metrics[name][at] *= rng.uniform(least, most, made.metrics[name][at].shape)
    told = World(made.scale(hours(30), hours(34), efa=0.5)).run(hours(29), hours(34.5))
    assert [alert.cause for alert in told] == [Cause.STARVED]


def test_a_job_that_works_less_as_a_whole_leaves_no_core_unused():
    made = fleet()
    for name, share in (("neuroncore_utilization_ratio", 0.72), (HIGHEST, 0.92)):
        made.metrics[name][made.cut(hours(30), hours(34))] *= share
    told = World(made.scale(hours(30), hours(34), efa=0.72)).run(hours(29), hours(34.5))
    assert [alert.cause for alert in told] == [Cause.STARVED]


def test_a_job_whose_memory_grows_leaves_no_core_unused():
    made = fleet()
    for name in ("neuroncore_utilization_ratio", HIGHEST, "neuron_execution_latency_seconds"):
        made.metrics[name][0] *= 0.72
    for name in ("neuroncore_memory_used_bytes", "neuron_runtime_memory_used_bytes"):
        _, span = made.cut(hours(29), hours(33))
        made.metrics[name][0, : span.start] *= 0.6
        made.metrics[name][0, span] *= np.linspace(0.6, 1.2, span.stop - span.start)
    told = World(made).run(hours(29), hours(37))
    assert Cause.ALLOCATED_UNUSED not in [alert.cause for alert in told]


def test_a_restart_on_half_of_the_cores_is_told_by_its_memory():
    made, rng = fleet(), np.random.default_rng(3)
    end = hours(36)
    made.stop(hours(30) - timedelta(minutes=10), hours(30)).scale(hours(30), end, efa=0.5)
    for name, share in (
        ("neuroncore_utilization_ratio", 0.52),
        ("neuroncore_memory_used_bytes", 0.5),
        ("neuron_runtime_memory_used_bytes", 0.5),
    ):
        made.metrics[name][made.cut(hours(30), end)] *= share
    # The highest of fewer readings moves: it tells half of the cores, but not steadily.
    at = made.cut(hours(30), end)
    made.metrics[HIGHEST][at] *= rng.uniform(0.95, 1.15, made.metrics[HIGHEST][at].shape)
    (alert,) = World(made).run(hours(29), hours(35))
    assert (alert.cause, alert.closed) == (Cause.ALLOCATED_UNUSED, None)
    assert alert.opened - hours(30) <= timedelta(minutes=35)
    assert "Only about 17 of 32 cores work on 8 nodes for 5 h" in alert.anomaly.why
    assert alert.anomaly.wasted_shares[0] == pytest.approx(0.48, abs=0.03)


def test_a_job_of_half_the_memory_on_all_cores_leaves_none_unused():
    made, end = fleet(), hours(36)
    made.stop(hours(30) - timedelta(minutes=10), hours(30)).scale(hours(30), end, efa=0.5)
    for name in (
        HIGHEST,
        "neuroncore_utilization_ratio",
        "neuroncore_memory_used_bytes",
        "neuron_runtime_memory_used_bytes",
    ):
        made.metrics[name][made.cut(hours(30), end)] *= 0.5
    assert World(made).run(hours(29), hours(35)) == []
