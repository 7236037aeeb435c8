"""Errors, hardware, memory; and who explains whom."""

import pytest
from builder import HBM, STEP, Fleet, World, hours, only

from bot.model.causes import Cause


@pytest.mark.parametrize(
    "values", [{"neuron_hardware_ecc_events": 1}, {"neuron_execution_errors_count": 1}]
)
def test_a_corrected_bit_now_and_then_is_no_fault(values):
    fleet = Fleet(4)
    for hour in range(25, 45):
        fleet.set(hours(hour), hours(hour + 0.1), slice(hour % 4, hour % 4 + 1), **values)
    assert World(fleet).run(hours(28), hours(45)) == []


@pytest.mark.parametrize(
    ("level", "dip", "evaluates"), [(0.9, 0.1, 0), (0.86, 0.5, 0), (0.9, 0.5, 5)]
)
@pytest.mark.parametrize(
    "trouble",
    [{"neuroncore_memory": 0.985 * HBM}, {"neuron_execution_errors_count": 9}],
    ids=["memory", "errors"],
)
def test_a_trouble_that_slows_nothing_loses_nothing_though_its_job_saves_checkpoints(
    trouble, level, dip, evaluates
):
    fleet = Fleet(2).set(hours(30), hours(34), slice(0, 1), **trouble)
    fleet.set(hours(30), hours(34), neuroncore_utilization=level)
    for minute in range(0, 240, 40):
        begin = hours(30) + minute * STEP / 5
        fleet.set(begin, begin + 2 * STEP, neuroncore_utilization=dip)
    fleet.set(hours(31), hours(31) + evaluates * STEP, neuroncore_utilization=0.6)
    found = [
        share
        for step in range(12, 46)
        for x in World(fleet).at(hours(30) + step * STEP).anomalies
        for share in (*x.wasted_shares, *x.shares_since)
    ]
    assert found
    assert not any(found)


def test_nodes_that_hardly_lose_anything_do_not_fall_behind_a_broken_one():
    fleet = Fleet(4).set(hours(30), hours(32), slice(1, 2), neuron_hardware_ecc_events=4)
    fleet.scale(hours(30), hours(32), neuroncore_utilization=0.93)
    for _, detection in World(fleet).ticks(hours(30.3), hours(31.5)):
        assert "behind" not in only(detection).why


def climbing(peak, every=25, ends=True):
    """Return nodes whose memory climbs from hour 30 on, each time until their process ends."""
    fleet = Fleet(4)
    for minute in range(0, 240, every):
        begin = hours(30) + minute * STEP / 5
        for step in range(every // 5):
            share = 0.78 + (peak - 0.78) * step / (every // 5 - 2)
            at = begin + step * STEP
            fleet.set(
                at, at + STEP, neuroncore_memory=share * HBM, neuron_runtime_memory=share * HBM
            )
        if ends:
            fleet.stop(at, at + STEP).set(at, at + STEP, neuron_execution_errors_count=4)
    return fleet


def test_what_a_process_freed_is_measured_by_what_it_held():
    """It climbs to 1.7 times the usual; the next one holds half of that by the end of the step."""
    fleet, steps = Fleet(4), (0.58, 0.79, 0.61, 0.32)
    for name in ("neuroncore_memory_used_bytes", "neuron_runtime_memory_used_bytes"):
        fleet.metrics[name] *= 0.57 / 0.78
    for step in range(24):
        at, held = hours(30) + step * STEP, steps[step % 4] * HBM
        fleet.set(at, at + STEP, neuroncore_memory=held, neuron_runtime_memory=held)
    (alert,) = World(fleet).run(hours(29), hours(32))
    assert alert.cause is Cause.MEMORY_PRESSURE
    assert alert.opened <= hours(31)


@pytest.mark.parametrize("peak", [0.79, 0.93], ids=["errors", "memory"])
def test_a_process_that_ends_again_and_again_loses_the_time_in_which_it_does_not_train(peak):
    """One step of five, ten times, of four nodes, whatever the trouble is called."""
    world, lost, seen = World(climbing(peak)), 0.0, hours(30)
    for now, _ in world.ticks(hours(30), hours(35)):
        for alert in (alert for alert in world.known if alert.seen == now):
            shares = alert.anomaly.shares_since or alert.anomaly.wasted_shares
            begun = max(seen, alert.anomaly.window.start)
            lost, seen = lost + sum(shares) * ((now - begun) / STEP), now
    assert len(world.known) == 1
    assert lost == pytest.approx(4 * 10, rel=0.08)


def test_a_few_errors_that_pass_soon_and_cost_nothing_are_not_told():
    fleet = Fleet(4).set(
        hours(30), hours(30) + 2 * STEP, slice(0, 1), neuron_execution_errors_count=4
    )
    assert World(fleet).run(hours(30), hours(31)) == []


def test_a_process_that_fails_minutes_after_each_start_is_told_and_saves_nothing():
    """Its errors come in one step of each half hour, as its work does."""
    fleet, ill = Fleet(4), slice(0, 1)
    for n in range(8):
        at = hours(30) + 6 * n * STEP
        fleet.set(at + STEP, at + 2 * STEP, ill, neuron_execution_errors_count=200)
        fleet.stop(at + 2 * STEP, at + 6 * STEP, ill)
    (alert,) = World(fleet).run(hours(30), hours(34))
    assert alert.cause is Cause.EXECUTION_ERRORS
    assert alert.opened <= hours(31)
    assert alert.anomaly.wasted_shares == pytest.approx([1], abs=0.05)


def test_nodes_that_are_seen_late_to_wait_for_a_broken_one_lose_since_they_fell():
    """Their job has worked as little before, so the drop shows first once it has lasted an hour."""
    fleet = Fleet(4).scale(hours(20), hours(22.5), neuroncore_utilization=0.82)
    fleet.set(hours(40), hours(42), slice(3, 4), neuron_hardware_ecc_events=4)
    fleet.scale(hours(40), hours(42), neuroncore_utilization=0.66)
    lost = dict.fromkeys(fleet.ids, 0.0)
    for _, detection in World(fleet).ticks(hours(40), hours(42)):
        for fault in detection.anomalies:
            shares = dict(zip(fault.things, fault.shares_since or fault.wasted_shares, strict=True))
            lost = {node: lost[node] + shares.get(node, 0) / 12 for node in lost}
    assert lost == pytest.approx(dict.fromkeys(fleet.ids, 2 * 0.34), rel=0.1)
