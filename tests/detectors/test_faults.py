"""Errors, hardware, memory; and who explains whom."""

import pytest
from builder import HBM, STEP, Fleet, World, hours, only

from bot.model.causes import Cause, Severity


@pytest.mark.parametrize(
    ("values", "cause"),
    [
        ({"neuron_hardware_ecc_events": 20}, Cause.HARDWARE_FAULT),
        ({"neuron_hardware_ecc_uncorrected": 1}, Cause.HARDWARE_FAULT),
        ({"neuron_execution_errors_hardware": 3}, Cause.HARDWARE_FAULT),
        ({"status_check_failed": 5}, Cause.HARDWARE_FAULT),
        ({"neuron_execution_errors_count": 9}, Cause.EXECUTION_ERRORS),
    ],
)
def test_errors_have_their_names(values, cause):
    found = only(World(Fleet(4).set(hours(30), hours(31), slice(2, 3), **values)).at(hours(30.5)))
    assert (found.cause, found.things) == (cause, ("i-llama002",))


@pytest.mark.parametrize(
    "values", [{"neuron_hardware_ecc_events": 1}, {"neuron_execution_errors_count": 1}]
)
def test_a_corrected_bit_now_and_then_is_no_fault(values):
    fleet = Fleet(4)
    for hour in range(25, 45):
        fleet.set(hours(hour), hours(hour + 0.1), slice(hour % 4, hour % 4 + 1), **values)
    assert World(fleet).run(hours(28), hours(45)) == []


def test_one_failed_status_check_is_a_reboot():
    assert (
        World(Fleet(4).set(hours(30), hours(30.08), slice(0, 1), status_check_failed=5))
        .at(hours(30.25))
        .anomalies
        == ()
    )


def test_types_of_errors_are_named():
    fleet = Fleet(2).set(hours(30), hours(31), slice(0, 1), neuron_execution_errors_count=9)
    fleet.set(hours(30), hours(31), slice(0, 1), neuron_execution_errors_numerical_count=9)
    assert "numerical" in only(World(fleet).at(hours(30.5))).why


def test_full_device_memory_is_told_where_it_is_new():
    world = World(Fleet(4).set(hours(30), hours(40), slice(0, 1), neuroncore_memory=0.985 * HBM))
    assert only(world.at(hours(30.5))).cause is Cause.MEMORY_PRESSURE
    assert (
        World(Fleet(4).set(hours(0), hours(48), neuroncore_memory=0.97 * HBM))
        .at(hours(31))
        .anomalies
        == ()
    )


def test_nodes_that_wait_for_a_sick_one_belong_to_its_fault():
    fleet = Fleet(16).set(hours(30), hours(34), slice(3, 4), neuron_hardware_ecc_events=25)
    fleet.scale(hours(30.5), hours(34), neuroncore_utilization=0.3)
    world = World(fleet)
    (alert,) = world.run(hours(29), hours(33))
    assert (alert.cause, alert.severity) == (Cause.HARDWARE_FAULT, Severity.CRITICAL)
    assert len(alert.anomaly.things) == 16
    assert alert.anomaly.wasted_shares[0] == pytest.approx(0.7, abs=0.05)


def test_peers_that_a_broken_device_slows_a_little_lose_with_it():
    fleet = Fleet(8).set(hours(30), hours(34), slice(3, 4), neuron_hardware_ecc_events=4)
    fleet.scale(hours(30), hours(34), neuroncore_utilization=0.8, efa=0.8)
    (alert,) = World(fleet).run(hours(29), hours(33))
    assert (alert.cause, len(alert.anomaly.things)) == (Cause.HARDWARE_FAULT, 8)
    assert alert.anomaly.shares_since == pytest.approx((0.2,) * 8, abs=0.05)


def test_executions_that_fail_where_memory_errors_recur_are_of_a_broken_device():
    fleet = Fleet(8).set(
        hours(30),
        hours(34),
        slice(3, 4),
        neuron_hardware_ecc_events=1,
        neuron_execution_errors_count=1,
    )
    fleet.scale(hours(30), hours(34), neuroncore_utilization=0.7, efa=0.7)
    fleet.scale(hours(30), hours(34), slice(3, 4), neuron_execution_latency=1.6)
    assert [alert.cause for alert in World(fleet).run(hours(29), hours(33))] == [
        Cause.HARDWARE_FAULT
    ]


def test_a_job_that_was_slow_before_its_device_broke_does_not_wait_for_it():
    fleet = Fleet(8).set(hours(32), hours(36), slice(3, 4), neuron_hardware_ecc_events=20)
    fleet.scale(hours(30), hours(36), neuroncore_utilization=0.8, efa=0.8)
    (alert,) = World(fleet).run(hours(29), hours(33))
    assert alert.anomaly.things == ("i-llama003",)


def test_errors_beside_a_fault_fold_into_it():
    fleet = Fleet(16).set(hours(30), hours(34), slice(3, 4), neuron_hardware_ecc_events=25)
    fleet.set(hours(31), hours(34), slice(4, 9), neuron_execution_errors_count=20)
    assert [a.cause for a in World(fleet).run(hours(29), hours(33))] == [Cause.HARDWARE_FAULT]


def test_a_hang_of_most_nodes_takes_the_rest_along():
    fleet = Fleet(8).set(
        hours(30), hours(34), neuroncore_utilization=0, neuron_execution_latency=float("nan"), efa=0
    )
    fleet.stop(hours(30), hours(34), slice(0, 1))
    assert {a.cause for a in World(fleet).run(hours(29), hours(32))} == {Cause.HUNG}


def test_who_waits_for_the_sick_node_and_falls_silent_stays_with_the_fault():
    fleet = Fleet(16).set(hours(30), hours(34), slice(3, 4), neuron_hardware_ecc=8)
    fleet.scale(hours(31), hours(34), neuroncore_utilization=0.3, efa=0.3).silence(
        hours(32), hours(33.5), slice(5, 7)
    )
    (alert,) = World(fleet).run(hours(29), hours(35.5))
    assert (alert.cause, len(alert.anomaly.things)) == (Cause.HARDWARE_FAULT, 1)


@pytest.mark.parametrize(
    "apart", [0, 1, 3], ids=["a burst", "a node a tick", "a node a quarter of an hour"]
)
def test_nodes_that_stop_one_after_the_other_are_one_alert(apart):
    fleet = Fleet(12)
    for i in range(12):
        fleet.stop(hours(28) + i * apart * STEP, hours(34), slice(i, i + 1))
    (alert,) = World(fleet).run(hours(27), hours(33.9))
    assert (alert.cause, len(alert.anomaly.things)) == (Cause.IDLE, 12)


def test_many_errors_in_one_step_alone_are_not_told():
    fleet = Fleet(4).set(hours(30), hours(30) + STEP, slice(0, 1), neuron_execution_errors_count=50)
    assert World(fleet).at(hours(30.25)).anomalies == ()


def test_a_few_errors_that_pass_soon_and_cost_nothing_are_not_told():
    fleet = Fleet(4).set(
        hours(30), hours(30) + 2 * STEP, slice(0, 1), neuron_execution_errors_count=4
    )
    assert World(fleet).run(hours(30), hours(31)) == []


def test_a_process_that_fails_minutes_after_each_start_is_told_with_what_it_loses():
    """Its errors come in one step of each half hour, as its work does."""
    fleet, ill = Fleet(4), slice(0, 1)
    for n in range(8):
        at = hours(30) + 6 * n * STEP
        fleet.set(at + STEP, at + 2 * STEP, ill, neuron_execution_errors_count=200)
        fleet.stop(at + 2 * STEP, at + 6 * STEP, ill)
    (alert,) = World(fleet).run(hours(30), hours(34))
    assert alert.cause is Cause.EXECUTION_ERRORS
    assert alert.opened <= hours(31)
    assert alert.anomaly.wasted_shares == pytest.approx([0.67], abs=0.05)


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


def test_full_memory_that_slows_its_job_loses_what_it_slows():
    fleet = Fleet(2).set(hours(30), hours(34), slice(0, 1), neuroncore_memory=0.985 * HBM)
    fleet.set(hours(30), hours(34), neuroncore_utilization=0.6)
    found = [x for x in World(fleet).at(hours(32)).anomalies if x.cause is Cause.MEMORY_PRESSURE]
    assert [round(x.wasted_shares[0], 1) for x in found] == [0.3]


def test_nodes_that_pause_together_as_ever_do_not_fall_behind_a_broken_one():
    fleet = Fleet(4).set(hours(30), hours(32), slice(1, 2), neuron_hardware_ecc_events=4)
    for minute in range(0, 47 * 60, 70):
        begin = hours(0) + minute * STEP / 5
        fleet.scale(begin, begin + 3 * STEP, neuroncore_utilization=0.6, efa=0.6)
    alerts = World(fleet).run(hours(29), hours(33))
    assert [(x.cause, x.peak.anomaly.things if x.peak else x.anomaly.things) for x in alerts] == [
        (Cause.HARDWARE_FAULT, ("i-llama001",))
    ]


def test_nodes_that_hardly_lose_anything_do_not_fall_behind_a_broken_one():
    fleet = Fleet(4).set(hours(30), hours(32), slice(1, 2), neuron_hardware_ecc_events=4)
    fleet.scale(hours(30), hours(32), neuroncore_utilization=0.93)
    for _, detection in World(fleet).ticks(hours(30.3), hours(31.5)):
        assert "behind" not in only(detection).why


def test_a_node_that_is_launched_while_a_fault_lasts_did_not_fall_behind():
    """It starts: nothing is known of its job, and it has lost no work of the broken one's."""
    fleet = Fleet(6).set(hours(30), hours(34), slice(1, 2), neuron_hardware_ecc_events=8)
    fleet.scale(hours(30), hours(34), slice(0, 4), neuroncore_utilization=0.6)
    fleet.silence(hours(0), hours(31), slice(4, 6)).stop(hours(31), hours(34), slice(4, 6))
    fleet.launched = dict.fromkeys((4, 5), hours(31))
    (alert,) = World(fleet).run(hours(29.5), hours(31.7))
    assert (alert.cause, len(alert.anomaly.things)) == (Cause.HARDWARE_FAULT, 4)


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


def test_a_process_that_ends_whenever_its_memory_runs_out_is_told_once_as_memory():
    (alert,) = World(climbing(0.93)).run(hours(29), hours(34))
    assert alert.cause is Cause.MEMORY_PRESSURE
    assert alert.opened <= hours(31)
    assert alert.anomaly.why == (
        "Device memory ran full and the process ended 2 times within 1 h on 4 nodes:"
        " 93 % (476 GiB of 512 GiB) in the step before, usually 78 %."
    )
    assert alert.anomaly.wasted_shares == pytest.approx([0.2] * 4, abs=0.05)


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


@pytest.mark.parametrize("fleet", [climbing(0.79), climbing(0.85)], ids=["flat", "far from full"])
def test_a_process_that_ends_with_memory_to_spare_is_told_by_its_errors(fleet):
    assert {x.cause for x in World(fleet).run(hours(29), hours(32))} == {Cause.EXECUTION_ERRORS}


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
