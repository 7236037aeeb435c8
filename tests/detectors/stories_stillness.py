"""Stories of nodes that execute nothing, and of nodes that do not report."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
from builder import HBM, START, STEP, Fleet, World, hours
from stories import (
    NAN,
    ONE,
    SOME,
    STILL,
    every,
    policy,
    progress,
    rarely_read,
    story,
    unread,
    with_nodes,
)

from bot.model.fleet import Market, Reservation, Volume
from bot.model.labels import Labels
from bot.model.reading import Gap

# What executes nothing.


@story("stillness", *every(5, 30.25, 30.75), 31, 33, 33.1, 33.25, 33.4)
def two_of_four_nodes_have_no_runtime_for_three_hours():
    return World(Fleet(4).stop(hours(30), hours(33), SOME))


@story("stillness", 30.75, *every(5, 31, 31.4))
def an_idle_node_begins_to_compile():
    fleet = Fleet(4).stop(hours(30), hours(31), ONE)
    return World(fleet.stop(hours(31), hours(34), ONE, host_cpu=0.8))


@story("stillness", 30.5, 31.9, 32, 33)
def without_the_host_cpu_idle_may_be_a_compile_for_two_hours():
    return World(unread(Fleet(3).stop(hours(30), hours(40), ONE), "host_cpu"))


@story("stillness", 30.5, 31)
def of_nodes_of_which_only_utilization_is_read_nobody_knows_a_runtime():
    return World(
        unread(Fleet(3).stop(hours(30), hours(40), ONE), "neuron_", "neuroncore_m", "host")
    )


@story("stillness", *every(5, 30.3, 30.55), *every(5, 30.9, 31.2))
def a_node_that_never_worked_since_its_launch_has_the_grace_of_a_compile():
    """The second one had stood for longer than a boot takes when it was first read."""
    fleet = Fleet(4).silence(hours(0), hours(30), SOME).stop(hours(30), hours(40), SOME)
    fleet.launched = {0: hours(29.5), 1: hours(29.4)}
    return World(fleet)


@story("stillness", *every(5, 30.4, 30.6), 31)
def nodes_without_pods_and_with_sleeping_ones_and_with_a_runtime_beside():
    held = {"neuroncore_reserved": 32, "neuroncore_memory": 1e10, "neuron_runtime_memory": 1e10}
    fleet = Fleet(8).set(hours(0), hours(48), neuroncore_reserved=32)
    fleet.stop(hours(30), hours(48), slice(0, 5), neuroncore_reserved=0)
    fleet.set(hours(30), hours(48), slice(2, 5), neuroncore_reserved=32)
    return World(fleet.set(hours(30.05), hours(48), slice(4, 5), **held))


@story("stillness", *every(5, 30.4, 30.6), 31, 32.5)
def pods_without_a_runtime_on_all_nodes():
    return World(Fleet(2).stop(hours(30), hours(48), neuroncore_reserved=32))


@story("stillness", *every(10, 31, 32.5))
def a_pod_that_slept_for_an_hour_loads_a_runtime():
    held = {"neuroncore_memory": 1e10, "neuron_runtime_memory": 1e10}
    fleet = Fleet(2).stop(hours(30), hours(48), neuroncore_reserved=32)
    return World(fleet.set(hours(31), hours(48), **held))


@story("stillness", *every(5, 30.4, 30.6), 31, 33.1, 33.25, 33.4)
def a_runtime_is_held_for_nothing_on_one_node():
    held = STILL | {"neuroncore_memory": 0.3 * HBM}
    return World(Fleet(4).set(hours(30), hours(33), ONE, **held))


@story("stillness", 30.75)
def a_runtime_holds_its_memory_for_nothing_while_the_host_is_busy():
    return World(Fleet(4).set(hours(30), hours(33), ONE, **(STILL | {"host_cpu": 0.8})))


@story("stillness", 30.5, 31)
def a_runtime_is_held_for_nothing_whose_memory_is_not_read():
    fleet = Fleet(4).set(hours(30), hours(33), ONE, **STILL)
    fleet.set(hours(0), hours(48), neuron_runtime_loaded=1)
    return World(unread(fleet, "neuroncore_memory", "neuron_runtime_memory", "neuron_execution"))


def notebook(fleet: Fleet, start: float, end: float) -> Fleet:
    """Run a cell every quarter of an hour."""
    for quarter in range(round((end - start) * 4)):
        at = hours(start + quarter / 4)
        values = {"neuroncore_utilization": 0.015, "neuron_execution_latency": 0.02}
        fleet.set(at, at + STEP, ONE, **values)
    return fleet


@story("stillness", 31, 33, *every(5, 34.2, 34.4), 36.5, *every(15, 37.25, 39.5))
def a_notebook_is_used_every_quarter_of_an_hour_then_left_then_used_again():
    held = STILL | {"neuroncore_memory": 0.3 * HBM, "neuron_runtime_memory": 0.3 * HBM}
    fleet = Fleet(4).stop(hours(26), hours(30), ONE).set(hours(30), hours(48), ONE, **held)
    return World(notebook(notebook(fleet, 30, 34), 37, 39))


def notebooks() -> Fleet:
    """Return nodes that each run cells when they like, and are all left at once."""
    fleet = Fleet(4).set(hours(0), hours(40), efa=NAN)
    rests = np.random.default_rng(5).random((4, 360)) < 0.25
    for name in ("neuroncore_utilization_ratio", "neuron_execution_latency_seconds"):
        fleet.metrics[name][:, :360][rests] = 0 if "ratio" in name else NAN
    return fleet.set(hours(30), hours(40), **STILL)


@story("stillness", *every(5, 30.25, 30.75))
def notebooks_that_are_left_at_once_wait_for_nobody():
    return World(notebooks())


@story("stillness", *every(5, 30.4, 31.5), 32)
def a_pod_that_comes_to_an_idle_node_has_its_own_time():
    fleet = Fleet(2).stop(hours(30), hours(31), neuroncore_reserved=0)
    return World(fleet.stop(hours(31), hours(33), neuroncore_reserved=32))


@story("stillness", 30.75, 31)
def nodes_kept_ready_on_purpose_may_do_nothing():
    held = STILL | {"neuroncore_memory": 0.3 * HBM}
    fleet = Fleet(4).stop(hours(30), hours(40), ONE).set(hours(30), hours(40), slice(1, 2), **held)
    return with_nodes(World(fleet), tags={"Purpose": "warm-Standby pool"})


def in_blocks(*ends: float, reservation: str = "") -> World:
    """Return nodes that rest, in a Capacity Block among some that end at different hours."""
    world = World(Fleet(4).stop(hours(31), hours(34), SOME))
    place = Labels(instance_type="trn1.32xlarge", region="us-west-2")
    world.more["inventory"] = {
        "reservations": tuple(
            Reservation(place.merge(Labels(resource=f"cr-{i}")), 4, 0, START, hours(end), Market.CAPACITY_BLOCK)
            for i, end in enumerate(ends)
        )
    }  # fmt: skip
    return with_nodes(world, market=Market.CAPACITY_BLOCK, reservation=reservation)


@story("stillness", *every(5, 31.4, 31.8))
def nobody_begins_anything_in_the_last_hour_of_a_capacity_block():
    return in_blocks(32.6)


@story("stillness", 31.6)
def of_two_blocks_of_a_place_a_node_is_in_the_one_that_ends_last():
    return in_blocks(31.8, 40)


@story("stillness", 31.6)
def a_node_that_names_its_block_is_in_no_other():
    return in_blocks(40, 31.8, reservation="cr-1")


@story("stillness", *every(5, 30, 30.6), 31, 34.05, 34.1, 34.25, 34.4)
def a_job_stops_amid_its_work_and_keeps_its_memory():
    return World(Fleet(4).set(hours(30), hours(34), **STILL))


@story("stillness", *every(5, 30.2, 30.6), 31)
def a_job_of_which_one_node_stopped_two_steps_before_the_others():
    fleet = Fleet(4).set(hours(30), hours(34), **STILL)
    return World(fleet.set(hours(30) - 2 * STEP, hours(34), slice(2, 3), **STILL))


@story("stillness", 30.5, 31)
def a_job_of_which_one_node_stopped_within_the_step_before_the_others():
    fleet = Fleet(4).set(hours(30), hours(34), **STILL)
    return World(fleet.scale(hours(30) - STEP, hours(30), slice(2, 3), neuroncore_utilization=0.2))


@story("stillness", *every(5, 30.1, 30.5))
def a_job_that_saved_half_an_hour_before_hangs():
    fleet = Fleet(4).set(hours(29.5), hours(29.5) + 2 * STEP, **STILL)
    return World(fleet.set(hours(30), hours(34), **STILL))


@story("stillness", 30.25, 30.5, 31, 31.25, *every(15, 33.25, 34))
def a_hang_that_passed_by_itself_was_a_wait():
    fleet = Fleet(4).set(hours(30), hours(30.7), **STILL)
    return World(fleet.set(hours(33), hours(35), **STILL))


def hung_twice() -> Fleet:
    """Return a job that stands still for forty minutes, and again eight hours later."""
    return Fleet(4).set(hours(30), hours(30.7), **STILL).set(hours(39), hours(41), **STILL)


@story("stillness", 30.5, 31, 31.25, *every(5, 39.25, 39.5))
def a_hang_that_somebody_ended_by_a_start_was_no_wait():
    start = {"neuroncore_memory": 0.7, "neuron_runtime_memory": 0.7}
    return World(hung_twice().scale(hours(30.7) - STEP, hours(30.7), **start))


@story("stillness", 30.5, 31, 31.25, *every(5, 39.25, 39.5))
def a_hang_whose_nodes_were_rebooted_was_no_wait():
    return World(hung_twice().silence(hours(30.7), hours(30.7) + STEP))


@story("stillness", 30.5, 31, 31.25, *every(5, 39.25, 39.5))
def a_hang_may_have_been_no_wait_where_no_memory_tells_of_the_process():
    fleet = unread(hung_twice(), "neuroncore_memory", "neuron_runtime_memory")
    return World(fleet.set(hours(0), hours(48), neuron_runtime_loaded=1))


@story("stillness", *every(5, 30.2, 30.5))
def one_node_stands_still_and_its_run_with_it():
    fleet = Fleet(4).set(hours(30), hours(34), ONE, **STILL)
    return World(fleet, frames={"run": progress(fleet, 30, 34, 0.0)})


@story("stillness", 30.75)
def two_nodes_that_stop_twenty_minutes_apart_hang_together():
    fleet = Fleet(4).set(hours(30), hours(34), ONE, **STILL)
    return World(fleet.set(hours(30) + 4 * STEP, hours(34), slice(1, 2), **STILL))


@story("stillness", 30.9)
def two_nodes_that_stop_half_an_hour_apart_do_not_hang_together():
    fleet = Fleet(4).set(hours(30), hours(34), ONE, **STILL)
    return World(fleet.set(hours(30.5), hours(34), slice(1, 2), **STILL))


@story("stillness", *every(5, 30.2, 30.6))
def one_node_stands_still_while_the_others_work_on():
    return World(Fleet(4).set(hours(30), hours(34), ONE, **STILL))


@story("stillness", *every(5, 30.2, 30.6), 32)
def cores_spin_while_no_execution_ends_and_next_to_nothing_is_sent():
    spinning = STILL | {"neuroncore_utilization": 1.0, "efa": 1e8}
    return World(Fleet(4).set(hours(30), hours(34), **spinning))


@story("stillness", *every(5, 30.25, 30.5))
def a_lost_latency_is_no_hang():
    fleet = Fleet(1).set(hours(0), hours(48), efa=1e3)
    return World(fleet.set(hours(30), hours(34), neuron_execution_latency=NAN))


@story("stillness", 30.5, 31)
def a_latency_that_is_lost_beside_the_usual_traffic_is_no_hang():
    return World(Fleet(4).set(hours(30), hours(34), neuron_execution_latency=NAN))


@story("stillness", 31)
def a_server_at_its_limit_of_which_no_execution_is_timed_serves_on():
    fleet = Fleet(4, cluster="answers", instance_type="inf2.48xlarge")
    fleet.set(START, hours(48), efa=0)
    busy = {"neuroncore_utilization": 1.0, "neuron_execution_latency": NAN}
    return World(fleet.set(hours(30), hours(34), **busy))


@story("stillness", 30.5, *every(5, 30.9, 31.1))
def a_reading_is_missing_while_cores_spin():
    fleet = Fleet(4).set(hours(30), hours(34), **(STILL | {"neuroncore_utilization": 1.0}))
    return World(fleet.silence(hours(31) - STEP, hours(31)))


@story("stillness", 30.5, 31)
def a_latency_and_a_traffic_that_are_lost_together_are_no_hang():
    return World(Fleet(4).set(hours(30), hours(34), neuron_execution_latency=NAN, efa=NAN))


@story("stillness", *every(5, 30.25, 30.5), 31)
def a_single_node_spins_at_its_end():
    fleet = Fleet(1).set(hours(0), hours(48), efa=1e3)
    spins = {"neuroncore_utilization": 0.999, "neuron_execution_latency": NAN, "host_cpu": 0.09}
    return World(fleet.set(hours(30), hours(34), **spins))


def blind(**values: float) -> Fleet:
    """Return nodes of which no latency and no EFA is ever read, and what they show from an hour on."""
    fleet = unread(Fleet(4), "neuron_execution_latency", "efa")
    return fleet.set(hours(30), hours(34), **values)


@story("stillness", 30.5, *every(5, 30.9, 31.2), 33)
def cores_are_pinned_where_little_is_read():
    return World(blind(neuroncore_utilization=0.999))


@story("stillness", 30.5, *every(5, 30.9, 31.2))
def a_process_shows_one_value_again_and_again():
    return World(blind(neuroncore_utilization=0.87))


@story("stillness", 31.5)
def a_process_that_always_shows_one_value_is_not_stuck():
    return World(blind().set(START, hours(34), neuroncore_utilization=0.87))


@story("stillness", 31.5)
def pinned_cores_that_complete_executions_are_at_work():
    fleet = blind(neuroncore_utilization=0.999)
    return World(fleet.set(hours(0), hours(48), neuron_executions_completed=1))


@story("stillness", 30.5)
def a_counter_of_executions_that_never_moves_tells_nothing():
    return World(Fleet(4).set(hours(0), hours(48), neuron_executions_completed=0))


@story("stillness", 31.5)
def cores_are_pinned_while_their_run_goes_on():
    fleet = blind(neuroncore_utilization=0.999)
    return World(fleet, frames={"run": progress(fleet)})


@story("stillness", *every(5, 30.1, 30.5))
def no_execution_ends_although_the_cores_look_busy():
    fleet = blind().set(hours(0), hours(30), neuron_executions_completed=420)
    return World(fleet.set(hours(30), hours(34), neuron_executions_completed=0))


@story("stillness", 31)
def executions_that_end_are_work_whatever_else_is_lost():
    fleet = Fleet(4).set(hours(0), hours(48), neuron_executions_completed=1)
    lost = {"neuron_execution_latency": NAN, "efa": 0, "neuroncore_utilization": 0.999}
    return World(fleet.set(hours(30), hours(34), **lost))


@story("stillness", *every(5, 30.2, 30.6), 31, 32)
def a_new_process_that_does_nothing_is_no_hang():
    return World(Fleet(4).stop(hours(30), hours(30.25)).set(hours(30.25), hours(34), **STILL))


@story("stillness", *every(5, 31.9, 32.5), *every(15, 32.5, 33.5))
def a_hang_is_over_when_its_process_is_gone():
    fleet = Fleet(4).set(hours(30), hours(33.5), **STILL)
    return World(
        fleet.set(hours(32), hours(33.5), neuroncore_memory=0.3 * HBM, neuron_runtime=0.3 * HBM)
    )


@story("stillness", 30.5, *every(10, 33, 34.2))
def after_a_hang_the_pod_of_the_next_start_has_its_own_time():
    fleet = Fleet(4).set(hours(30), hours(33), **STILL).stop(hours(33), hours(34))
    return World(fleet.set(hours(0), hours(40), neuroncore_reserved=32))


def saves(fleet: Fleet, minutes: float) -> Fleet:
    """Let a job stand still to save every four hours."""
    for hour in range(4, 34, 4):
        fleet.set(hours(hour), hours(hour) + timedelta(minutes=minutes), **STILL)
    return fleet


@story("stillness", *every(5, 32.25, 32.5), *every(5, 36.3, 36.9))
def a_job_that_always_stands_still_to_save_does_so_for_longer():
    return World(saves(Fleet(4), 25).set(hours(36), hours(40), **STILL))


@story("stillness", *every(10, 5.2, 5.8))
def a_job_of_some_hours_that_stood_still_once_does_so_again():
    fleet = Fleet(4).set(hours(2), hours(2) + 2 * STEP, **STILL)
    fleet.set(hours(4.5), hours(10), **STILL)
    rules = policy(hung__for=timedelta(hours=1), allocated_unused__for=timedelta(hours=2))
    return World(fleet, policy=rules)


@story("stillness", *every(5, 30.4, 30.8))
def an_idle_node_may_rest_for_a_span_that_is_no_whole_number_of_steps():
    rules = policy(idle__for=timedelta(minutes=33), no_data__for=timedelta(minutes=22))
    fleet = Fleet(4).stop(hours(30), hours(40), ONE).silence(hours(30), hours(40), slice(1, 2))
    return World(fleet, policy=rules)


# What does not report.


@story("silence", *every(5, 30.1, 30.3), 31, 34, 34.1, 34.25, 34.4)
def one_node_falls_silent_for_four_hours():
    return World(Fleet(4).silence(hours(30), hours(34), slice(1, 2)))


@story("silence", *every(5, 32.6, 33.1))
def a_machine_that_began_again_is_silent_since_then_and_its_agent_has_time_for_two_readings():
    fleet = rarely_read(Fleet(4)).silence(hours(30), hours(40), SOME)
    fleet.launched = dict.fromkeys((0, 1), hours(32.5))
    return World(fleet)


@story("silence", *every(5, 30.2, 30.5))
def an_agent_that_falls_silent_time_and_again_has_twice_the_time():
    fleet = Fleet(4).silence(hours(30), hours(34), ONE)
    for hour in (8, 13, 22):
        fleet.silence(hours(hour), hours(hour) + 2 * STEP, ONE)
    return World(fleet)


@story("silence", 30.25, 31)
def the_hosts_report_though_their_agents_do_not():
    fleet = Fleet(4)
    metrics = [name for name in fleet.metrics if not name.startswith(("host", "network"))]
    return World(fleet.set(hours(30), hours(34), SOME, **dict.fromkeys(metrics, NAN)))


@story("silence", 30.25)
def one_host_of_two_reports():
    fleet = Fleet(4)
    metrics = [name for name in fleet.metrics if not name.startswith(("host", "network"))]
    fleet.set(hours(30), hours(34), SOME, **dict.fromkeys(metrics, NAN))
    return World(fleet.silence(hours(30), hours(34), ONE))


@story("silence", 30.25, 30.5, *every(5, 30.9, 31.2))
def all_nodes_fall_silent_at_once_while_their_run_reports():
    fleet = Fleet(8).silence(hours(30), hours(34))
    return World(fleet, frames={"run": progress(fleet)})


@story("silence", 30.25, 31)
def all_nodes_fall_silent():
    return World(Fleet(4).silence(hours(30), hours(34)))


@story("silence", 31)
def the_source_failed_in_their_region():
    return World(
        Fleet(4).silence(hours(30), hours(40)), gaps=(Gap("throttled", region="us-west-2"),)
    )


@story("silence", 31)
def the_source_failed_in_another_region():
    return World(
        Fleet(4).silence(hours(30), hours(40)), gaps=(Gap("throttled", region="eu-north-1"),)
    )


@story("silence", 31)
def the_source_failed_in_their_region_and_three_of_four_report():
    fleet = Fleet(4).silence(hours(30), hours(40), ONE)
    return World(fleet, gaps=(Gap("throttled", region="us-west-2"),))


@story("silence", 31)
def nobody_could_ask_one_of_two_silent_nodes():
    return World(Fleet(4).silence(hours(30), hours(40), SOME), unread={"i-llama001"})


@story("silence", 30.5, 31)
def an_instance_that_ended_is_not_silent():
    fleet = Fleet(4).silence(hours(30), hours(48), slice(1, 2))
    fleet.ended[1] = hours(30)
    return World(fleet)


@story("silence", 20.5, *every(5, 21.1, 21.4), 30)
def two_instances_never_reported_where_their_peers_do():
    fleet, extra = Fleet(4), Fleet(2, cluster="llama", seed=2)
    extra.ids, extra.launched = ["i-never0", "i-never1"], {0: hours(20), 1: hours(20.1)}
    world = World(fleet.silence(hours(20), hours(40), ONE))
    world.fleets = (fleet, extra)
    return world


@story("silence", 0.5, *every(5, 1, 1.4))
def where_a_source_has_just_begun_nobody_was_missed():
    fleet, extra = Fleet(4), Fleet(1, cluster="llama", seed=2)
    extra.ids = ["i-late"]
    world = World(fleet)
    world.fleets = (fleet, extra)
    return world


@story("silence", 30, 36, 47)
def a_node_that_reported_long_ago_and_one_that_reported_today():
    """The window does not reach back so far, a day does; beyond that nobody else of the cluster reports."""
    fleet = Fleet(2).silence(hours(4), hours(48), ONE).silence(hours(20), hours(48), slice(1, 2))
    return World(fleet)


@story("silence", 30, 30.5)
def a_host_of_no_neuron_family_is_not_watched():
    hosts = Fleet(2, cluster="cpu", instance_type="m7i.48xlarge")
    return World(unread(hosts, "neuroncore", "neuron_", "efa"), Fleet(2))


@story("silence", 30.5, 32.2, 32.5, 33)
def idle_goes_on_while_nothing_is_read():
    return World(Fleet(2).stop(hours(30), hours(40)).silence(hours(32), hours(40)))


@story("silence", 30)
def nobody_is_there():
    return World()


@story("silence", 30.5, 31)
def a_process_that_reads_a_part_of_the_fleet_sees_storage_and_the_bill_of_all():
    part, whole = Fleet(2).stop(hours(30), hours(40), ONE), Fleet(2, cluster="other")
    volume = Volume(Labels(resource="vol-1"), 400, "gp3", "available", START - timedelta(days=60))
    fleet = World(part, whole, inventory={"volumes": (volume,)})
    world = World(part)
    plain = world.reading
    world.reading = lambda now: replace(plain(now), fleet=fleet.reading(now))
    return world


# Readings that are missing within a state.


@story("gaps", *every(5, 30.5, 31))
def readings_are_missing_for_ten_minutes_of_a_rest():
    return World(Fleet(4).stop(hours(30), hours(40)).silence(hours(30.25), hours(30.25) + 2 * STEP))


@story("gaps", *every(5, 30.5, 31.2))
def readings_are_missing_for_a_quarter_of_an_hour_of_a_rest():
    return World(Fleet(4).stop(hours(30), hours(40)).silence(hours(30.25), hours(30.5)))


@story("gaps", *every(5, 30.5, 31.2))
def readings_are_missing_for_twenty_minutes_of_a_rest():
    return World(Fleet(4).stop(hours(30), hours(40)).silence(hours(30.25), hours(30.5) + STEP))


@story("gaps", *every(5, 30.5, 31))
def readings_are_missing_within_a_hang_and_within_a_drop():
    hung = Fleet(4).set(hours(30), hours(40), **STILL).silence(hours(30.1), hours(30.25))
    low = Fleet(4, cluster="low", seed=2).starve(hours(30), hours(40), share=0.7, host_cpu=0.11)
    return World(hung, low.silence(hours(30.25), hours(30.5)))


@story("gaps", *every(5, 31.25, 31.7))
def a_moment_of_work_within_a_long_rest():
    fleet = Fleet(2).stop(hours(30), hours(40))
    return World(fleet.set(hours(31.25), hours(31.5), neuroncore_utilization=0.02))


# Nodes that wait for one that compiles.

COMPILES = {"neuroncore_memory": 0.004 * HBM, "neuron_runtime": 1e9, "host_cpu": 0.6}
LOADED = STILL | {"neuroncore_memory": 0.01 * HBM, "neuron_runtime": 1e9}


def led(**peers: float) -> Fleet:
    """Return eight nodes of which the first compiles from the thirtieth hour, and the others rest in a way."""
    fleet = Fleet(8).stop(hours(30), hours(40)).set(hours(0), hours(40), neuroncore_reserved=32)
    return fleet.set(hours(30), hours(40), slice(1, 8), **peers).set(
        hours(30), hours(40), ONE, **COMPILES
    )


@story("waiting", 30.75, *every(5, 31, 31.2))
def peers_of_a_compiling_leader_rest():
    return World(led())


@story("waiting", 30.75, *every(5, 31, 31.2))
def peers_of_a_compiling_leader_hold_a_runtime():
    return World(led(**LOADED))


@story("waiting", 30.75)
def peers_without_a_pod_wait_for_nobody():
    return World(led().set(hours(30), hours(40), slice(4, 8), neuroncore_reserved=0))


@story("waiting", *every(5, 30.2, 30.6))
def peers_that_rested_for_an_hour_and_for_a_quarter_before_the_compile():
    return World(
        led().stop(hours(29.25), hours(40), slice(6, 8)).stop(hours(29.75), hours(40), slice(4, 6))
    )


@story("waiting", *every(5, 30.5, 31))
def pods_come_together_to_nodes_that_had_rested_for_an_hour():
    return World(led().stop(hours(29), hours(30), neuroncore_reserved=0))


@story("waiting", *every(5, 30.9, 31.1))
def peers_begin_to_rest_a_quarter_of_an_hour_after_the_compile_began():
    fleet = Fleet(4).set(hours(0), hours(40), neuroncore_reserved=32)
    fleet.stop(hours(30), hours(40), ONE, **COMPILES).stop(hours(30.15), hours(40), slice(1, 2))
    return World(fleet.stop(hours(30.3), hours(40), slice(2, 3)))


@story("waiting", *every(5, 30.4, 30.7))
def peers_begin_to_rest_ten_minutes_and_a_quarter_of_an_hour_before_the_compile():
    fleet = Fleet(4).set(hours(0), hours(40), neuroncore_reserved=32)
    fleet.stop(hours(30), hours(40), ONE, **COMPILES)
    fleet.stop(hours(30) - 2 * STEP, hours(40), slice(1, 2))
    return World(fleet.stop(hours(30) - 3 * STEP, hours(40), slice(2, 3)))


@story("waiting", 30.75)
def a_cluster_that_rests_beside_one_that_compiles_waits_for_nobody():
    beside = Fleet(4, cluster="vision", seed=2).set(hours(0), hours(40), neuroncore_reserved=32)
    return World(led(), beside.stop(hours(30), hours(40), SOME))


@story("waiting", 30.75)
def nodes_whose_tag_names_another_job_wait_for_nobody():
    fleets = [Fleet(1, job="tune"), Fleet(2, job="", seed=2), Fleet(2, job="probe", seed=3)]
    for fleet in fleets:
        fleet.ids = [f"i-{fleet.job or 'untagged'}{i}" for i in range(fleet.nodes)]
        fleet.stop(hours(30), hours(40)).set(hours(0), hours(40), neuroncore_reserved=32)
    fleets[0].set(hours(30), hours(40), **COMPILES)
    return World(*fleets)
