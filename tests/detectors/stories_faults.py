"""Stories of broken hardware, failing executions and full memory, and of the nodes that wait for them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from builder import HBM, START, STEP, Fleet, World, hours
from stories import NAN, ONE, STILL, every, policy, story

from bot.model.frame import Frame
from bot.model.labels import Labels

SICK = slice(3, 4)


def events(fleet: Fleet, start: float, end: float, nodes: slice = SICK, **values: float) -> Fleet:
    return fleet.set(hours(start), hours(end), nodes, **values)


@story("faults", 30, *every(5, 30.1, 30.7), 31.1)
def one_uncorrected_event():
    return World(
        events(Fleet(4), 30, 30.08, neuron_hardware_ecc_uncorrected=1, neuron_hardware_ecc_events=1)
    )


@story("faults", *every(5, 30, 30.4), 30.8)
def uncorrected_events_that_are_counted_apart():
    return World(events(Fleet(4), 30, 30.08, neuron_hardware_ecc_uncorrected=2))


@story("faults", 30.5)
def one_event_fewer_than_make_a_fault():
    return World(events(Fleet(4), 30, 30.08, neuron_hardware_ecc_events=9))


@story("faults", 30.5, 31, 31.75, *every(15, 32, 33))
def a_node_that_waited_for_a_sick_one_stops_once_that_is_well_again():
    fleet = events(Fleet(8), 30, 31, neuron_hardware_ecc_events=8)
    fleet.scale(hours(30), hours(31), neuroncore_utilization=0.4, efa=0.4)
    return World(fleet.stop(hours(31), hours(34), slice(5, 6)))


@story("faults", *every(5, 30, 30.3), 31.5)
def hardware_errors_of_executions_and_a_repair():
    fleet = events(Fleet(4), 30, 30.5, neuron_execution_errors_hardware=1)
    return World(fleet.stop(hours(30.5), hours(33), SICK))


@story("faults", *every(5, 30, 30.3), 31, 31.1, *every(15, 31.25, 32))
def status_checks_fail():
    return World(events(Fleet(4), 30, 31, status_check_failed=1))


@story("faults", 30.1, 30.25)
def one_failed_status_check_is_a_reboot():
    return World(events(Fleet(4), 30, 30.08, status_check_failed=5))


@story("faults", *every(5, 30, 30.5), 32, 33, 34.1, *every(10, 34.4, 35))
def a_device_breaks_and_its_job_falls_half_an_hour_later():
    fleet = events(Fleet(16), 30, 34, neuron_hardware_ecc_events=3)
    return World(fleet.scale(hours(30.5), hours(34), neuroncore_utilization=0.3))


@story("faults", *every(5, 30.1, 30.5), 33)
def a_device_slows_its_job_a_little():
    fleet = events(Fleet(8), 30, 34, neuron_hardware_ecc_events=4)
    return World(fleet.scale(hours(30), hours(34), neuroncore_utilization=0.8, efa=0.8))


@story("faults", *every(5, 30, 30.6))
def executions_fail_where_memory_errors_recur():
    broken = {"neuron_hardware_ecc_events": 1, "neuron_execution_errors_count": 1}
    fleet = events(Fleet(8), 30, 34, **broken)
    fleet.scale(hours(30), hours(34), neuroncore_utilization=0.7, efa=0.7)
    return World(fleet.scale(hours(30), hours(34), SICK, neuron_execution_latency=1.6))


@story("faults", 31, 31.5, *every(5, 32, 32.4), 33)
def a_job_that_was_slow_before_its_device_broke():
    fleet = events(Fleet(8), 32, 36, neuron_hardware_ecc_events=20)
    return World(fleet.scale(hours(30), hours(36), neuroncore_utilization=0.8, efa=0.8))


@story("faults", 30.5, *every(5, 31, 31.4), 33)
def errors_beside_a_fault():
    fleet = events(Fleet(16), 30, 34, neuron_hardware_ecc_events=25)
    return World(events(fleet, 31, 34, slice(4, 9), neuron_execution_errors_count=20))


@story("faults", 30.5, *every(5, 30.9, 31.2), 32.1, 32.5, 33.6)
def nodes_that_wait_for_a_sick_one_fall_silent():
    fleet = events(Fleet(16), 30, 34, neuron_hardware_ecc_events=8)
    fleet.scale(hours(31), hours(34), neuroncore_utilization=0.3, efa=0.3)
    return World(fleet.silence(hours(32), hours(33.5), slice(5, 7)))


@story("faults", 30.5, *every(5, 30.9, 31.2), 31.5, 34, 35.5, *every(10, 36, 36.8))
def a_node_is_under_repair_for_five_hours_after_its_fault():
    fleet = events(Fleet(6), 30, 31, slice(2, 3), neuron_hardware_ecc_events=5)
    return World(fleet.stop(hours(31), hours(36), slice(2, 3)))


@story("faults", 30.25, 31, 33, *every(10, 34, 34.8))
def after_one_uncorrected_event_its_node_is_under_repair_and_another_waits():
    fleet = events(Fleet(2), 30, 30.08, ONE, neuron_hardware_ecc_uncorrected=1)
    fleet.scale(hours(30), hours(30.6), slice(1, 2), neuroncore_utilization=0.3, efa=0.3)
    return World(fleet.stop(hours(30.1), hours(34), ONE))


@story("faults", 31, *every(10, 31.5, 32.5))
def nodes_that_pause_together_as_ever_do_not_fall_behind_a_broken_one():
    fleet = events(Fleet(4), 30, 33, slice(1, 2), neuron_hardware_ecc_events=4)
    for step in range(0, 564, 14):
        begin = hours(0) + step * STEP
        fleet.scale(begin, begin + 3 * STEP, neuroncore_utilization=0.6, efa=0.6)
    return World(fleet)


@story("faults", 30.5, *every(10, 31, 31.7))
def nodes_that_are_launched_while_a_fault_lasts():
    fleet = events(Fleet(6), 30, 34, slice(1, 2), neuron_hardware_ecc_events=8)
    fleet.scale(hours(30), hours(34), slice(0, 4), neuroncore_utilization=0.6)
    fleet.silence(hours(0), hours(31), slice(4, 6)).stop(hours(31), hours(34), slice(4, 6))
    fleet.launched = dict.fromkeys((4, 5), hours(31))
    return World(fleet)


@story("faults", 30.5)
def three_nodes_of_eight_are_sick():
    fleet = Fleet(8).set(hours(30), hours(31), slice(0, 3), neuron_hardware_ecc_events=20)
    return World(fleet)


@story("faults", 30.5)
def five_nodes_of_eight_are_sick():
    fleet = Fleet(8).set(hours(30), hours(31), slice(0, 5), neuron_hardware_ecc_events=20)
    return World(fleet)


@story("faults", *every(5, 30, 30.3), 31, *every(5, 31.4, 31.8))
def executions_fail_of_two_types():
    fleet = events(Fleet(2), 30, 31, ONE, neuron_execution_errors_count=9)
    fleet.set(hours(30), hours(31), ONE, neuron_execution_errors_numerical=7)
    return World(fleet.set(hours(30), hours(31), ONE, neuron_execution_errors_runtime=2))


@story("faults", 30.1, 30.25, 30.5)
def many_executions_fail_in_one_step_alone():
    return World(events(Fleet(4), 30, 30.08, ONE, neuron_execution_errors_count=50))


@story("faults", *every(5, 30, 30.6))
def a_few_executions_fail_that_never_are_six_in_half_an_hour():
    fleet = Fleet(4)
    for step in range(0, 48, 2):
        at = hours(30) + step * STEP
        fleet.set(at, at + STEP, ONE, neuron_execution_errors_count=1 + (step == 6))
    return World(fleet)


def failing_twice(**work: float) -> Fleet:
    """Return a node that works otherwise from an hour on, and on which executions fail in two steps."""
    fleet = Fleet(4).scale(hours(30), hours(34), ONE, **work)
    for minute in (40, 50):
        begin = hours(30) + minute * STEP / 5
        fleet.set(begin, begin + STEP, ONE, neuron_execution_errors_count=9)
    return fleet


@story("faults", *every(5, 30.9, 31.1))
def two_steps_of_errors_that_cost_nothing_are_history():
    return World(failing_twice())


@story("faults", *every(5, 30.9, 31.1))
def a_node_works_less_around_two_steps_of_errors():
    return World(failing_twice(neuroncore_utilization=0.6))


@story("faults", *every(5, 30.9, 31.1))
def a_node_that_holds_other_memory_and_works_less_may_do_other_work():
    other = {"neuroncore_memory": 0.6, "neuron_runtime": 0.6}
    return World(failing_twice(neuroncore_utilization=0.6, **other))


@story("faults", *every(5, 30.1, 30.4), 32, 34, *every(5, 34.1, 34.5))
def device_memory_fills_up_and_slows_the_job():
    fleet = events(Fleet(4), 30, 34, ONE, neuroncore_memory=0.97 * HBM, neuron_runtime=0.97 * HBM)
    return World(fleet.set(hours(30), hours(34), neuroncore_utilization=0.6))


def leaking(full: float, nodes: slice = slice(0, 2)) -> Fleet:
    """Return nodes whose host's memory climbs for five hours, and that work less and less from 88 % on."""
    fleet = Fleet(4)
    for step in range(72):
        at, held = hours(28) + step * STEP, min(full, 0.6 + 0.0075 * step)
        share = np.clip(1 - 6 * (held - 0.88), 0.4, 1)
        fleet.set(at, at + STEP, nodes, host_memory=held)
        fleet.scale(at, at + STEP, nodes, neuroncore_utilization=share, efa=share)
    return fleet


@story("faults", *every(5, 31.5, 32.3), 33.9, 34.3)
def a_host_leaks_memory_until_its_work_slows():
    return World(leaking(0.97))


@story("faults", *every(5, 31.5, 32.3), 33.9)
def a_host_leaks_memory_in_a_task_that_nothing_is_known_of():
    fleet = leaking(0.97, ONE).stop(hours(28), hours(28.2), ONE)
    task = {"neuroncore_memory": 0.5, "neuron_runtime": 0.5, "neuron_execution_latency": 0.4}
    return World(fleet.scale(hours(28), hours(34), ONE, neuroncore_utilization=0.7, **task))


@story("faults", 33.9)
def a_host_whose_memory_is_always_full_starves():
    return World(leaking(0.97).set(START, hours(28), host_memory=0.97))


@story("faults", 33.9)
def a_full_host_that_works_as_ever_is_no_trouble():
    return World(Fleet(4).set(hours(30), hours(34), host_memory=0.97))


@story("faults", 31, 32.5)
def device_memory_that_was_full_stays_so_while_little_of_it_is_free():
    fleet = events(Fleet(4), 30, 32, ONE, neuroncore_memory=0.96 * HBM)
    return World(events(fleet, 32, 34, ONE, neuroncore_memory=0.94 * HBM))


@story("faults", 31)
def device_memory_that_is_always_nearly_full_is_no_news_once_it_is():
    fleet = events(Fleet(4), 0, 30, slice(0, 4), neuroncore_memory=0.94 * HBM)
    return World(events(fleet, 30, 48, slice(0, 4), neuroncore_memory=0.97 * HBM))


@story("faults", 30.3, 31)
def device_memory_that_is_always_full_is_no_news():
    return World(events(Fleet(4), 0, 48, slice(0, 4), neuroncore_memory=0.97 * HBM))


def climbing(peak: float, every_minutes: int = 25) -> Fleet:
    """Return nodes whose memory climbs from hour 30 on, each time until their process ends."""
    fleet = Fleet(4)
    for minute in range(0, 240, every_minutes):
        begin = hours(30) + minute * STEP / 5
        for step in range(every_minutes // 5):
            share = 0.78 + (peak - 0.78) * step / (every_minutes // 5 - 2)
            at, held = begin + step * STEP, share * HBM
            fleet.set(at, at + STEP, neuroncore_memory=held, neuron_runtime_memory=held)
        fleet.stop(at, at + STEP).set(at, at + STEP, neuron_execution_errors_count=4)
    return fleet


@story("faults", *every(5, 30.3, 31), 32, 34, *every(10, 34.5, 35.2))
def a_process_ends_whenever_its_memory_runs_out():
    return World(climbing(0.93))


@story("faults", *every(5, 30.7, 31.1), 32)
def a_process_ends_with_memory_to_spare():
    return World(climbing(0.85))


@story("faults", *every(5, 30.3, 31), 32, *every(10, 33, 33.6))
def trials_that_die_in_minutes_lose_all_of_their_time():
    fleet = Fleet(4)
    for trial in range(12):
        begin, held = hours(30) + 3 * trial * STEP, (0.2 + 0.05 * (trial % 4)) * HBM
        dying = {
            "neuroncore_memory": held,
            "neuron_runtime": held,
            "neuron_execution_errors_count": 60,
        }
        fleet.set(begin, begin + 2 * STEP, ONE, neuroncore_utilization=0.3, **dying)
        fleet.stop(begin + 2 * STEP, begin + 3 * STEP, ONE)
    return World(fleet)


@story("faults", *every(5, 30.7, 31))
def where_memory_is_switched_off_errors_tell_that_processes_end():
    return World(climbing(0.93), policy=policy(memory_pressure__on=False))


@story("faults", 30.5, 31, *every(5, 31.3, 31.6))
def a_storm_of_symptoms_over_a_wide_drop():
    fleet = Fleet(12).starve(hours(30), hours(34), share=0.3)
    fleet.set(hours(30.5), hours(34), slice(0, 2), neuron_execution_errors_count=9)
    fleet.silence(hours(30.8), hours(32), slice(2, 4))
    fleet.set(hours(31), hours(34), slice(4, 6), **STILL)
    return World(fleet.set(hours(31.1), hours(34), slice(6, 7), neuron_hardware_ecc_events=4))


@story("faults", *every(5, 30.2, 30.6), 31)
def a_hang_of_most_nodes_takes_the_rest_along():
    fleet = Fleet(8).set(
        hours(30), hours(34), neuroncore_utilization=0, neuron_execution_latency=NAN, efa=0
    )
    return World(fleet.stop(hours(30), hours(34), ONE))


@story("faults", *every(5, 30.2, 30.6), 33, *every(5, 33.2, 33.6))
def a_node_that_frees_memory_as_its_job_hangs_is_part_of_the_hang():
    fleet = Fleet(8).set(hours(30), hours(33), **STILL)
    fleet.scale(hours(30.1), hours(33), ONE, neuroncore_memory=0.5, neuron_runtime=0.5)
    return World(fleet.stop(hours(33), hours(33.2)))


@story("faults", 30.5, 30.75)
def a_job_of_one_node_that_idles_takes_no_hang_along():
    alone = Fleet(1, cluster="alone").set(hours(30), hours(34), neuron_execution_errors_count=9)
    return World(alone.stop(hours(30.1), hours(34)), Fleet(2).stop(hours(30), hours(34), ONE))


@story("faults", 28.75, 29.5, 31)
def nodes_stop_one_after_the_other():
    fleet = Fleet(12)
    for i in range(12):
        fleet.stop(hours(28) + 3 * i * STEP, hours(34), slice(i, i + 1))
    return World(fleet)


def of_cores_and_devices(*levels: float, sick: str = "i-llama003") -> dict[str, Frame]:
    """Return the frames of a node's cores, two on each device, and of the events of its devices."""
    cores = tuple(
        Labels(instance=sick, core=str(i), resource=f"device{i // 2}") for i in range(len(levels))
    )
    devices = tuple(Labels(instance=sick, resource=f"device{i}") for i in range(4))
    at_work = np.repeat(np.array(levels, dtype=np.float32)[:, None], 576, axis=1)[:, :, None]
    counts = np.zeros((4, 576, 1), dtype=np.float32)
    counts[1:3, 355:365, 0] = [[1], [4]]
    return {
        "core": Frame("core", cores, START, STEP, ("neuroncore_utilization_ratio",), at_work),
        "device": Frame(
            "device", devices, START, STEP, ("neuron_hardware_ecc_events_count",), counts
        ),
    }


@story("faults", *every(5, 30, 30.2))
def a_broken_device_and_its_cores_are_named():
    fleet = events(Fleet(4), 30, 34, neuron_hardware_ecc_events=5)
    return World(fleet, frames=of_cores_and_devices(0.9, 0.85, 0.0, 0.0, 0.0, 0.0, 0.91, NAN))


@story("faults", 30.5)
def cores_of_a_sick_node_that_all_work_alike_and_of_one_that_stand_still():
    fleet = events(Fleet(4), 30, 34, slice(2, 4), neuron_hardware_ecc_events=5)
    alike, still = (
        of_cores_and_devices(*levels, sick=sick)
        for levels, sick in (((0.9, 0.88, 0.9), "i-llama003"), ((0.01, 0.0, 0.0), "i-llama002"))
    )
    both = zip(alike.items(), still.values(), strict=True)
    frames = {
        kind: replace(x, things=(*x.things, *y.things), values=np.concatenate([x.values, y.values]))
        for (kind, x), y in both
    }
    return World(fleet, frames=frames)


@story("faults", *every(5, 30.2, 30.5), 31)
def peers_fall_half_as_far_as_the_sick_node_and_one_a_third():
    fleet = events(Fleet(8), 30, 34, neuron_hardware_ecc_events=8)
    fleet.scale(hours(30), hours(34), neuroncore_utilization=0.65)
    fleet.scale(hours(30), hours(34), SICK, neuroncore_utilization=0.7)
    return World(fleet.scale(hours(30), hours(34), slice(7, 8), neuroncore_utilization=1.25))


@story("faults", 30.5, 31.75, 33, 35, 36.6)
def errors_go_on_while_half_of_their_cluster_falls_idle():
    fleet = Fleet(8).stop(hours(31), hours(40), slice(4, 8))
    fleet.scale(hours(30), hours(36), ONE, neuroncore_utilization=0.5)
    return World(fleet.set(hours(30), hours(36), ONE, neuron_execution_errors_count=20))


@story("faults", 20.5, 21.5, 23)
def executions_of_a_server_fail_and_its_peers_tell_what_it_lacks():
    fleet = Fleet(4, cluster="answers", instance_type="inf2.48xlarge")
    fleet.scale(hours(20), hours(23), ONE, neuroncore_utilization=0.4)
    return World(fleet.set(hours(20), hours(23), ONE, neuron_execution_errors_count=20))


@story("faults", *every(10, 30.75, 31.75))
def short_jobs_end_by_themselves_some_time_after_errors():
    fleet = Fleet(4)
    for minute in range(0, 240, 40):
        begin = hours(30) + minute * STEP / 5
        fleet.stop(begin, begin + 2 * STEP, ONE)
        fleet.set(begin + 4 * STEP, begin + 5 * STEP, ONE, neuron_execution_errors_count=8)
    return World(fleet)
