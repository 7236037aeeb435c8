"""Stories of nodes that work under their usual, of what they wait for, and of what only looks like it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
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

from bot.model.fleet import FileSystem
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.policy import Policy
from bot.policy.schema import default_policy

CALM = policy(odd__on=False)
"""Without the forest, whose learning takes the time of a hundred looks."""


@story("drops", *every(5, 30, 30.4), 31, 32, *every(5, 32.9, 33.4))
def eight_nodes_starve_for_three_hours():
    return World(Fleet(8, days=1.5).starve(hours(30), hours(33)))


@story("drops", *every(5, 30, 30.5))
def an_agent_that_sends_a_reading_each_ten_minutes_reads_a_drop_twice():
    return World(rarely_read(Fleet(8, days=1.5).starve(hours(30), hours(33))))


@story("drops", *every(5, 30, 30.5))
def one_reading_may_hold_the_end_of_a_job_and_the_next_one():
    fleet, changes = Fleet(2, days=1.5), hours(30) + 2 * STEP
    fleet.scale(hours(0), hours(30), neuroncore_memory=0.3, neuron_runtime=0.3)
    fleet.scale(hours(30), changes, neuroncore_memory=0.4, neuron_runtime=0.4)
    fleet.scale(hours(30), changes, neuroncore_utilization=0.4, efa=0.4)
    fleet.scale(changes, hours(36), neuroncore_utilization=0.8, neuron_execution_latency=1.5)
    return World(rarely_read(fleet))


@story("drops", 30.1, 30.25, 31)
def a_drop_whose_host_rests():
    return World(Fleet(4).starve(hours(30), hours(33), host_cpu=0.2))


@story("drops", 30.5)
def a_drop_whose_host_is_half_as_free_as_usual():
    return World(Fleet(4).starve(hours(30), hours(33), host_cpu=0.65))


@story("drops", 30.5)
def a_drop_whose_host_is_busier_than_usual_and_more_than_half_as_free():
    return World(Fleet(4).starve(hours(30), hours(33), host_cpu=0.45))


@story("drops", *every(5, 30.8, 31.2), 33)
def a_shallow_drop_is_told_after_an_hour():
    return World(
        Fleet(8).scale(hours(30), hours(33), neuroncore_utilization=0.7, efa=0.7, network_in=0.7)
    )


@story("drops", *every(5, 30.1, 30.5))
def a_shallow_drop_with_a_busy_host_is_told_sooner():
    return World(Fleet(8).starve(hours(30), hours(33), share=0.7))


@story("drops", 30.4)
def a_shallow_drop_whose_host_is_half_as_free_as_usual_is_told_soon():
    return World(Fleet(8).starve(hours(30), hours(33), share=0.7, host_cpu=0.6))


@story("drops", 30.4)
def a_shallow_drop_whose_host_is_more_than_half_as_free_is_not_told_soon():
    return World(Fleet(8).starve(hours(30), hours(33), share=0.7, host_cpu=0.5))


@story("drops", *every(5, 30.1, 30.4))
def a_host_is_busy_from_the_second_step_of_a_drop_on():
    fleet = Fleet(8).starve(hours(30), hours(33), share=0.4)
    return World(fleet.set(hours(30), hours(30) + STEP, host_cpu=0.11))


@story("drops", 31, 33, *every(5, 33.1, 33.4), *every(60, 34, 36), 36.1, 36.4)
def an_open_drop_stays_until_most_of_the_usual_is_back():
    fleet = Fleet(4).starve(hours(30), hours(33))
    return World(fleet.scale(hours(33), hours(36), neuroncore_utilization=0.8))


def dips(
    fleet: Fleet, every_hours: float, minutes: float, start: float = 26, **shares: float
) -> Fleet:
    """Let work dip again and again."""
    for hour in np.arange(start, 24 * fleet.days - 2, every_hours):
        fleet.scale(hours(hour), hours(hour) + timedelta(minutes=minutes), **shares)
    return fleet


@story("drops", *every(5, 36, 36.4), *every(5, 38.5, 38.9))
def checkpoints_of_ten_minutes_are_not_told():
    return World(dips(Fleet(8), 2.5, 10, neuroncore_utilization=0.3, efa=0.3))


@story("drops", *every(5, 36, 36.6))
def evaluations_of_half_an_hour_are_not_told():
    return World(
        dips(Fleet(8), 2.5, 30, neuroncore_utilization=0.55, efa=0.06, neuron_execution_latency=0.5)
    )


@story("drops", *every(10, 38.5, 39), 39.5, 40.5)
def evaluations_that_no_memory_tells_are_usual_until_one_lasts_far_longer():
    shares = {"neuroncore_utilization": 0.45, "efa": 0.06}
    fleet = dips(Fleet(8), 2.5, 30, **shares)
    return World(fleet.scale(hours(39), hours(41), **shares))


@story("drops", *every(5, 38.5, 39))
def executions_slow_where_a_job_is_as_low_by_habit():
    fleet = dips(Fleet(8), 2.5, 20, neuroncore_utilization=0.45, efa=0.45)
    fleet.scale(hours(38.5), hours(40), neuron_execution_latency=2.0)
    return World(fleet.scale(hours(38.5) + 4 * STEP, hours(40), neuroncore_utilization=0.45))


@story("drops", *every(10, 30, 31.2))
def a_job_starts_again_with_its_ramp():
    fleet = Fleet(8).stop(hours(30), hours(30.25))
    for i, share in enumerate((0.2, 0.3, 0.4, 0.6)):
        at = hours(30.25) + i * STEP
        fleet.scale(at, at + STEP, neuroncore_utilization=share)
    return World(fleet)


@story("drops", *every(5, 30.25, 31))
def starvation_begins_right_after_a_restart():
    return World(Fleet(8).stop(hours(30), hours(30.25)).starve(hours(30.25), hours(33)))


@story("drops", *every(15, 30.25, 31.5))
def other_work_after_a_restart():
    fleet = Fleet(8).stop(hours(30), hours(30.25))
    return World(fleet.scale(hours(30.25), hours(33), neuroncore_utilization=0.4))


def slowed(share: float = 0.5, latency: float = 2.0, nodes: int = 8, **more: float) -> Fleet:
    """Let executions take longer and the cores rest for it."""
    fleet = Fleet(nodes).scale(
        hours(30), hours(34), neuroncore_utilization=share, neuron_execution_latency=latency
    )
    return fleet.set(hours(30), hours(34), **more)


@story("drops", *every(5, 30, 30.4), 31, 34.1, 34.4)
def the_network_is_full():
    return World(slowed(efa_tx=9.3e10, efa_rx_bytes=9.3e10))


@story("drops", 30.5)
def the_network_drops_packets():
    fleet = slowed().scale(hours(30), hours(34), efa=0.5)
    fleet.metrics["efa_rx_dropped_per_second"][:] = 1.0
    return World(fleet.set(hours(30), hours(34), efa_rx_dropped=900.0))


@story("drops", 30.5)
def work_waits_for_the_network_in_the_same_proportion():
    return World(slowed(nodes=2).scale(hours(30), hours(34), efa=0.5, network_in=0.5))


@story("drops", 30.5)
def a_loader_and_the_network_slow_the_work_together():
    return World(slowed(host_cpu=0.97).scale(hours(30), hours(34), efa=0.5, network_in=0.5))


@story("drops", 30.5, 31)
def collectives_go_over_ena():
    return World(slowed(0.45, 2.1, network_out=2.5e9).scale(hours(30), hours(34), efa=0.1))


@story("drops", 30.5, 31)
def slow_executions_send_nothing_over_efa():
    fleet = slowed(0.45, 2.1).scale(hours(30), hours(34), efa=0.1)
    return World(unread(fleet, "network_out"))


@story("drops", 30.5)
def slow_executions_send_as_little_as_their_pace_requires():
    fleet = slowed(0.45, 2.1).scale(hours(30), hours(34), efa=0.25)
    return World(unread(fleet, "network_out"))


@story("drops", 31)
def collectives_leave_efa_and_a_little_goes_over_ena():
    return World(slowed(0.45, 2.1, network_out=1e7).scale(hours(30), hours(34), efa=0.1))


@story("drops", 30.5)
def a_job_that_always_sends_over_ena_slows_down():
    return World(slowed(0.45, 2.1).set(START, hours(48), network_out=2.5e9))


@story("drops", 31.25)
def a_job_of_many_nodes_sends_ten_times_as_much():
    fleet = slowed(latency=1.0).set(START, hours(30), efa=2e9, efa_rx_dropped=NAN)
    return World(fleet.set(hours(30), hours(34), efa=2e10, efa_rx_dropped=NAN))


@story("drops", 30.5)
def the_only_node_at_work_of_its_cluster_slows_with_its_traffic():
    fleet = slowed(nodes=2).scale(hours(30), hours(34), efa=0.5)
    spare = fleet.stop(START, hours(48), slice(1, 2))
    return with_nodes(World(spare), tags={"Purpose": "standby"})


@story("drops", *every(5, 30, 30.4), 31)
def work_on_a_single_node_sends_over_efa():
    fleet = Fleet(2).set(hours(0), hours(48), efa=1e6)
    fleet.scale(hours(30), hours(34), ONE, neuroncore_utilization=0.42)
    return World(
        fleet.set(hours(30), hours(34), ONE, efa=3e10, efa_rx_dropped=0, network_out=1.9e9)
    )


@story("drops", 31)
def work_on_a_single_node_fills_the_nic():
    fleet = Fleet(2).set(hours(0), hours(48), efa=1e6)
    fleet.scale(hours(30), hours(34), ONE, neuroncore_utilization=0.42)
    return World(fleet.set(hours(30), hours(34), ONE, efa_tx=9.5e10, efa_rx_bytes=9.5e10))


@story("drops", 30.5)
def executions_of_a_single_node_and_its_traffic_slow_in_proportion():
    return World(slowed(nodes=1).scale(hours(30), hours(34), efa=0.5))


@story("drops", 30.5, 31.5, *every(20, 32, 33), 34)
def a_cause_is_named_by_most_of_a_drop_s_life():
    fleet = Fleet(8).scale(hours(30), hours(36), neuroncore_utilization=0.5)
    fleet.set(hours(30), hours(31), efa_tx=9.3e10, efa_rx_bytes=9.3e10)
    return World(fleet.set(hours(31.5), hours(36), host_cpu=0.96))


@story("drops", 30.25, *every(5, 31.9, 32.5), *every(15, 32.75, 33.25), 36, 36.1, 36.4)
def a_drop_goes_on_over_a_restart_of_the_job():
    fleet = Fleet(6).scale(
        hours(30), hours(36), neuroncore_utilization=0.5, neuron_execution_latency=2.0, efa=0.5
    )
    return World(fleet.stop(hours(32), hours(32.2)))


@story("drops", 31, *every(5, 31.6, 32.2))
def in_a_drop_that_was_told_a_process_ends_twice():
    fleet = Fleet(6).starve(hours(30), hours(34), share=0.5)
    fleet.stop(hours(31), hours(31.25))
    return World(fleet.stop(hours(31.6), hours(32)))


def evaluation(fleet: Fleet, start: float, end: float, level: float = 0.35) -> Fleet:
    """Evaluate: longer executions of a graph that needs half the memory, and next to nothing over EFA."""
    half = {"neuroncore_memory": 0.5, "neuron_runtime_memory": 0.5, "efa": 0.06}
    fleet.scale(hours(start), hours(end), neuron_execution_latency=2.0, **half)
    return fleet.set(hours(start), hours(end), neuroncore_utilization=level)


@story("drops", *every(10, 30, 31.5), 32)
def starvation_goes_on_after_evaluations():
    fleet = Fleet(8).starve(hours(30), hours(34), host_cpu=0.12, share=0.45)
    return World(evaluation(evaluation(fleet, 30 + 1 / 12, 30.4), 30.75, 31.1))


@story("drops", 30.25, *every(5, 30.9, 31.1))
def the_pods_of_a_slow_job_leave_within_a_step():
    fleet = Fleet(8, days=1.5).set(hours(0), hours(31), neuroncore_reserved=32)
    fleet.starve(hours(30), hours(31), share=0.45)
    fleet.scale(hours(31) - STEP, hours(31), neuroncore=0.2, neuron_runtime=0.2)
    return World(fleet.stop(hours(31), hours(36), neuroncore_reserved=0))


@story("drops", 30.25, *every(5, 30.75, 31))
def an_evaluation_that_begins_and_ends_within_steps_of_a_slow_job():
    """Its memory at the edges is that of two halves."""
    slow = {"neuron_execution_latency": 2, "neuroncore_utilization": 0.45, "efa": 1.5}
    fleet = Fleet(8, days=1.5).scale(hours(30), hours(33), **slow)
    for i, held in enumerate((0.58, 0.47, 0.47, 0.79)):
        at = hours(30.5) + i * STEP
        fleet.scale(at, at + STEP, neuroncore_memory=held, neuron_runtime=held, efa=0.1)
    return World(fleet)


@story("drops", 31, *every(10, 33.9, 34.7), 36)
def an_evaluation_at_the_usual_level_ends_no_starvation():
    fleet = Fleet(8).starve(hours(30), hours(38), host_cpu=0.12, share=0.4)
    return World(evaluation(fleet, 34, 34.5, level=0.88))


@story("drops", 30.5, *every(30, 31, 33.5))
def a_node_that_frees_memory_amid_a_slow_job_evaluates_nothing_alone():
    fleet = Fleet(8).starve(hours(30), hours(34), share=0.5, host_cpu=0.2)
    fleet.scale(hours(30), hours(34), neuron_execution_latency=2.0)
    return World(
        fleet.scale(hours(31), hours(33), SOME, neuroncore_memory=0.61, neuron_runtime=0.61)
    )


@story("drops", 30.5, *every(5, 31, 31.7), 33)
def nodes_that_stand_still_in_a_wide_drop_lose_all_of_their_work():
    fleet = Fleet(8).starve(hours(30), hours(34), share=0.5, host_cpu=0.2)
    still = {"neuroncore_utilization": 0, "neuron_execution_latency": NAN, "efa": 0}
    return World(fleet.set(hours(31), hours(34), SOME, **still))


@story("drops", 30.5, *every(5, 31, 31.5), 33)
def nodes_fall_silent_in_a_wide_drop():
    fleet = Fleet(8).starve(hours(30), hours(34), share=0.5)
    return World(fleet.silence(hours(31), hours(34), SOME))


def fallen_and_silent(cluster: str, seed: int = 1) -> Fleet:
    """Return a job that falls, of which two nodes are silent from the next step on."""
    fleet = Fleet(8, cluster=cluster, seed=seed).starve(hours(30), hours(34), share=0.4)
    return fleet.silence(hours(30) + STEP, hours(34), slice(6, 8))


@story("drops", *every(5, 30.2, 30.5))
def two_nodes_of_each_of_two_clusters_fall_silent_a_step_after_their_jobs_fell():
    return World(fallen_and_silent("llama"), fallen_and_silent("vision", seed=2))


@story("drops", 31, 31.25, 31.5)
def nodes_that_work_as_ever_fall_silent_beside_a_wide_drop():
    fleet = Fleet(8).starve(hours(30), hours(34), slice(0, 6), share=0.5)
    return World(fleet.silence(hours(31), hours(34), slice(6, 8)))


@story("drops", 30.5, 31.25, 31.75)
def one_of_three_nodes_that_fall_stops_later():
    fleet = Fleet(8).starve(hours(30), hours(34), slice(0, 3), share=0.5)
    return World(fleet.stop(hours(31), hours(34), ONE))


@story("drops", 30.5, 31.25, 31.75)
def of_eight_nodes_that_fell_one_goes_on_four_stop_and_three_work_again():
    fleet = Fleet(8).starve(hours(30), hours(31), share=0.5)
    fleet.starve(hours(31), hours(34), ONE, share=0.5)
    return World(fleet.stop(hours(31), hours(34), slice(1, 5)))


@story("drops", 30.25, 30.5, 31)
def nodes_stop_as_the_others_of_their_job_fall_and_one_had_stopped_before():
    fleet = Fleet(9).starve(hours(30), hours(34), slice(0, 6), share=0.5)
    fleet.stop(hours(30), hours(34), slice(6, 8))
    return World(fleet.stop(hours(29.5), hours(34), slice(8, 9)))


@story("drops", *every(5, 30, 30.4), 31.2)
def nodes_of_the_job_that_are_under_their_usual_too_join_an_open_drop():
    fleet = Fleet(8).scale(hours(30), hours(36), slice(0, 4), neuroncore_utilization=0.6, efa=0.6)
    return World(
        fleet.scale(hours(30), hours(36), slice(4, 8), neuroncore_utilization=0.78, efa=0.78)
    )


@story("drops", 31, *every(5, 32, 32.5))
def nodes_are_launched_amid_a_drop():
    fleet, started = Fleet(8).starve(hours(30), hours(34), slice(0, 6), share=0.5), slice(6, 8)
    fleet.silence(hours(0), hours(32), started).launched.update({6: hours(32), 7: hours(32)})
    return World(fleet.stop(hours(32), hours(32.5), started))


@story("drops", *every(10, 30.25, 31))
def a_node_that_joins_its_job_as_it_slows_down_has_the_usual_of_the_job():
    slowed = {"neuroncore_utilization": 0.5, "neuron_execution_latency": 2.0, "efa": 0.5}
    fleet = Fleet(8).scale(hours(30), hours(34), **slowed)
    fleet.silence(hours(0), hours(30), slice(6, 8)).launched.update(
        {6: hours(29.8), 7: hours(29.8)}
    )
    return World(fleet)


@story("drops", *every(5, 30, 30.4))
def four_nodes_fall_together_within_a_step():
    fleet = Fleet(4).scale(hours(30), hours(30) + STEP, neuroncore_utilization=0.7)
    return World(fleet.starve(hours(30) + STEP, hours(33)))


def in_step(late: int) -> World:
    """Return four nodes that begin to fall within a step, the last of them some steps later."""
    fleet, last = Fleet(4), slice(3, 4)
    fleet.scale(hours(30), hours(30) + STEP, slice(0, 3), neuroncore_utilization=0.7)
    fleet.starve(hours(30) + STEP, hours(33), slice(0, 3))
    return World(fleet.starve(hours(30) + (1 + late) * STEP, hours(33), last))


@story("drops", *every(5, 30.1, 30.5))
def of_four_nodes_that_fall_together_one_falls_a_step_later():
    return in_step(late=1)


@story("drops", *every(5, 30.1, 30.5))
def of_four_nodes_one_falls_two_steps_later_than_the_others():
    return in_step(late=2)


@story("drops", *every(5, 30, 30.4))
def three_nodes_fall_together_within_a_step():
    fleet = Fleet(3).scale(hours(30), hours(30) + STEP, neuroncore_utilization=0.7)
    return World(fleet.starve(hours(30) + STEP, hours(33)))


@story("drops", 30.5, *every(5, 31.8, 32.6))
def the_reading_in_which_a_drop_ends_is_not_what_it_was():
    fleet = Fleet(8, days=1.5).starve(hours(30), hours(32))
    return World(fleet.scale(hours(32), hours(32) + STEP, neuroncore_utilization=0.6))


def in_turns(
    fleet: Fleet,
    start: float,
    end: float,
    shares: Sequence[float],
    metrics: tuple[str, ...] = ("neuroncore_utilization", "efa", "network_in"),
) -> Fleet:
    """Let work go on at one share of its usual in each step, again and again."""
    for step in range(round((end - start) * 12)):
        at = hours(start) + step * STEP
        fleet.scale(at, at + STEP, **dict.fromkeys(metrics, shares[step % len(shares)]))
    return fleet


@story("drops", *every(5, 30.9, 31.2), 33, *every(10, 34, 34.5))
def a_loader_flutters():
    return World(in_turns(Fleet(8), 30, 34, (0.35, 0.88, 0.55)))


@story("drops", *every(5, 12.1, 12.5), *every(10, 12.9, 13.5))
def a_loader_flutters_at_fine_steps():
    fleet = Fleet(4, days=0.6, step=timedelta(minutes=1))
    for minute in range(60):
        at, share = hours(12) + minute * STEP / 5, (0.3, 0.35, 0.95)[minute % 3]
        fleet.scale(at, at + STEP / 5, neuroncore_utilization=share, efa=share)
    return World(fleet)


@story("drops", *every(10, 49.5, 52.5))
def work_in_bursts_is_as_low_for_as_long_each_time():
    shares = (1,) * 22 + (0.55,) * 15
    return World(in_turns(Fleet(4, days=2.5), 0, 60, shares), policy=CALM)


@story("drops", *every(5, 50.9, 51.2), 53, *every(15, 54, 55))
def a_drop_comes_and_goes():
    shares = (0.06, 0.06, 0.5, 1, 1, 1)
    return World(in_turns(Fleet(8, days=2.5), 50, 54, shares), policy=CALM)


@story("drops", *every(10, 51, 51.5), *every(15, 53, 57))
def a_drop_that_comes_and_goes_fades_and_goes_on():
    fleet = in_turns(Fleet(8, days=2.5), 50, 53, (0.06, 0.06, 0.5, 1, 1, 1))
    return World(in_turns(fleet, 53, 56, (0.6, 0.6, 0.6, 0.75, 1, 1, 1)), policy=CALM)


@story("drops", *every(15, 50, 53))
def a_job_whose_hours_always_lack_as_much():
    fleet = Fleet(8, days=2.5)
    for start in range(2, 58, 6):
        in_turns(fleet, start, start + 3, (0.06, 0.06, 0.5, 1, 1, 1))
    return World(fleet, policy=CALM)


@story("drops", *every(15, 51, 55))
def a_job_of_phases_whose_hours_lack_a_little_more():
    fleet = Fleet(8, days=2.5)
    for start in range(0, 51, 3):
        in_turns(fleet, start, start + 2, (0.3, 1, 1, 1))
        in_turns(fleet, start + 2, start + 3, (0.3, 1))
    return World(in_turns(fleet, 51, 55, (0.3, 0.3, 1)), policy=CALM)


def evenings(*minutes: float, shares: Sequence[float] = (0.45,) * 3, begin: float = 18) -> World:
    """Return a job that works less on three evenings, the first two of which may begin earlier."""
    fleet = Fleet(4, days=3)
    for day, (length, share) in enumerate(zip(minutes, shares, strict=True)):
        start = hours(24 * day + (18 if day == 2 else begin))
        end = start + timedelta(minutes=length)
        fleet.scale(start, end, neuroncore_utilization=share, efa=share, network_in=share)
    return World(fleet, policy=CALM)


@story("drops", *every(10, 18, 19.2), *every(10, 42.5, 43), *every(10, 66, 67))
def what_a_job_does_at_the_same_hour_of_each_day_is_usual():
    return evenings(40, 40, 50)


@story("drops", 19.1, 19.5, 43.1, 43.5, 66.5)
def what_a_job_does_every_evening_is_far_deeper():
    return evenings(75, 75, 75, shares=(0.7, 0.7, 0.3))


@story("drops", 17, 18.75, 41, 42.75, *every(10, 66, 67))
def on_the_days_before_a_job_was_low_all_afternoon_and_did_not_fall_in_the_evening():
    return evenings(400, 400, 50, begin=12)


@story("drops", *every(10, 66, 67.5))
def what_a_job_does_every_evening_lasts_for_longer():
    return evenings(40, 40, 75)


def crashes(fleet: Fleet, start: float, end: float, nodes: slice = slice(None)) -> Fleet:
    """Let processes end again and again: twenty minutes of work, then twenty-five without one."""
    while start < end:
        fleet.stop(hours(start) + 4 * STEP, hours(start) + 9 * STEP, nodes)
        start += 0.75
    return fleet


@story("drops", *every(15, 51.5, 53), 55, *every(15, 56, 57.5))
def a_process_ends_again_and_again():
    return World(crashes(Fleet(4, days=3), 50, 56), policy=CALM)


@story("drops", 49, 50, *every(15, 51.5, 53))
def a_process_ends_again_and_again_after_a_starvation_that_was_told():
    fleet = Fleet(4, days=3).starve(hours(48.5), hours(49.5))
    return World(crashes(fleet, 50, 54), policy=CALM)


@story("drops", *every(30, 52, 54))
def servers_end_again_and_again():
    servers = Fleet(4, days=3, cluster="answers", instance_type="inf2.48xlarge")
    return World(crashes(servers, 50, 56), policy=CALM)


@story("drops", *every(30, 52, 57))
def jobs_that_always_end_again_and_again():
    fleet = Fleet(4, days=3)
    for start in range(4, 60, 8):
        crashes(fleet, start, start + 4)
    return World(fleet, policy=CALM)


@story("drops", *every(15, 51, 54))
def five_short_trials_follow_each_other_where_many_are_short():
    fleet, begins, lengths = (
        Fleet(4, days=3),
        hours(0),
        itertools.cycle((240, 45, 300, 40, 180, 30)),
    )
    for length in itertools.chain(itertools.islice(lengths, 20), (40, 45, 35, 40, 45)):
        ends = begins + timedelta(minutes=length)
        begins = ends + 4 * STEP
        if begins < hours(54):
            fleet.stop(ends, begins)
    return World(fleet, policy=CALM)


@story("drops", *every(30, 35, 38), 39.5)
def a_slow_decay_over_ten_hours():
    return World(in_turns(Fleet(8), 30, 40, np.linspace(1, 0.5, 120)))


@story("drops", *every(60, 33, 39))
def a_slow_decay_of_a_job_that_saves_and_evaluates_amid_it():
    fleet = in_turns(Fleet(8), 30, 40, np.linspace(1, 0.5, 120))
    for hour in range(4, 40, 2):
        fleet.set(hours(hour), hours(hour) + 2 * STEP, **STILL)
    return World(evaluation(fleet, 34.5, 34.9))


@story("drops", *every(60, 32, 37))
def a_slow_decay_that_begins_half_an_hour_after_a_restart():
    fleet = Fleet(8).stop(hours(30), hours(30) + 2 * STEP)
    return World(in_turns(fleet, 30 + 8 / 12, 38, np.linspace(0.8, 0.5, 88)))


@story("drops", *every(60, 32, 37))
def a_slow_decay_since_a_restart_within_a_step():
    fleet = Fleet(8).scale(hours(30), hours(30) + STEP, neuroncore_memory=0.3, neuron_runtime=0.3)
    return World(in_turns(fleet, 30, 38, np.linspace(0.8, 0.5, 96)))


@story("drops", *every(60, 34, 36))
def a_slow_decay_is_dated_after_the_restart_of_its_job():
    fleet = Fleet(8, job="pretrain").scale(hours(27), hours(29.75), neuroncore_utilization=0.87)
    fleet.stop(hours(29.75), hours(30))
    return World(in_turns(fleet, 30, 38, np.linspace(0.95, 0.5, 96)))


@story("drops", *every(60, 34, 37))
def a_slow_decay_is_dated_before_an_evaluation_amid_it():
    fleet = in_turns(Fleet(8), 30, 40, np.linspace(1, 0.5, 120))
    return World(evaluation(fleet, 31.5, 31.9))


@story("drops", 28.5, 29.5, *every(60, 33, 36))
def a_slow_decay_after_a_starvation_that_was_told():
    fleet = Fleet(8).starve(hours(28), hours(29))
    return World(in_turns(fleet, 29, 37, np.linspace(1, 0.5, 96)))


@story("drops", *every(5, 30.3, 30.8))
def a_drop_with_high_peaks_within_each_step():
    fleet = Fleet(8)
    fleet.metrics["neuroncore_utilization_highest_ratio"][:] = 0.95
    fleet.starve(hours(30), hours(33), host_cpu=0.08, share=0.3)
    return World(fleet.set(hours(30), hours(33), neuroncore_utilization_highest=0.6))


def phased(busy_host: float, share: float) -> World:
    """Let work go through the phases of rollouts, and lose a share of it from the fiftieth hour on."""
    fleet = in_turns(Fleet(6, days=2.5), 0, 60, (0.42, 0.4, 0.95, 0.55))
    fleet.scale(hours(50), hours(56), neuroncore_utilization=share, efa=share)
    return World(fleet.set(hours(50), hours(56), host_cpu=busy_host), policy=CALM)


@story("drops", *every(10, 50.8, 51.5), 54, *every(10, 56, 56.7))
def a_loader_holds_up_the_phases_of_a_job():
    return phased(0.88, 0.75)


@story("drops", *every(30, 50.5, 54))
def phases_whose_host_is_busy_and_lose_nothing():
    return phased(0.88, 1.0)


# A job that waits for another one of its cluster.


def stages(*waits: float, pauses: range = range(80, 30 * 60, 100)) -> tuple[Fleet, Fleet]:
    """Return a job that pauses at some minutes for twenty, at some hours for 72, and one that starves from hour 30."""
    train, generate = Fleet(4, job="train"), Fleet(2, job="generate", seed=2)
    generate.ids = ["i-generate0", "i-generate1"]
    generate.scale(hours(0), hours(48), neuroncore_memory=0.5, neuron_runtime_memory=0.5, efa=0.2)
    for start, length in [(x / 60, 1 / 3) for x in pauses] + [(x, 1.2) for x in waits]:
        train.set(hours(start), hours(start + length), **STILL)
    return train, generate.starve(hours(30), hours(40), share=0.4)


@story("drops", *every(15, 31, 32.25), *every(5, 33.1, 33.3), 34.5)
def a_job_waits_longer_than_ever_for_one_that_starves():
    """One of its nodes was launched since, and one falls silent."""
    train, generate = stages(30.8, 32.8)
    train.silence(hours(0), hours(30.5), slice(2, 3)).launched[2] = hours(30.5)
    train.set(hours(30.5), hours(30.8), slice(2, 3), **STILL)
    return World(train.silence(hours(31.4), hours(33), slice(3, 4)), generate)


@story("drops", 31, 31.25, 31.5, 31.75)
def a_job_that_no_tag_names_waits_longer_than_ever():
    fleets = stages(30.8)
    for fleet in fleets:
        fleet.job = ""
    return World(*fleets)


@story("drops", 31, 31.25, 31.5, 31.75)
def a_job_that_waited_once_before_waits_longer_than_then():
    return World(*stages(30.8, pauses=range(1200, 1201)))


@story("drops", 31, 31.25, 31.5)
def a_job_that_never_waited_stands_still_beside_one_that_starves():
    return World(*stages(30.8, pauses=range(0)))


# One node for which all others wait.


def waiting(n: int = 8, busy: float = 1.06, slower: float = 2.0) -> Fleet:
    """Return a job in which the last node works on while the others rest for half of each step."""
    fleet = Fleet(n).scale(hours(30), hours(41), neuron_execution_latency=slower, efa=0.5)
    fleet.scale(hours(30), hours(41), slice(0, n - 1), neuroncore_utilization=0.5)
    return fleet.scale(hours(30), hours(41), slice(n - 1, n), neuroncore_utilization=busy)


@story("stragglers", *every(5, 30, 30.5), 33, 41.1, 41.4)
def seven_of_eight_wait_for_one():
    return World(waiting())


@story("stragglers", 31)
def they_wait_in_step_where_no_latency_is_read():
    return World(unread(waiting(), "neuron_execution_latency"))


@story("stragglers", *every(5, 30, 30.5))
def two_wait_for_the_third_whose_executions_alone_take_longer():
    fleet = Fleet(3).scale(hours(30), hours(41), efa=0.6, network_in=0.6)
    fleet.scale(hours(30), hours(41), SOME, neuroncore_utilization=0.6)
    return World(fleet.scale(hours(30), hours(41), slice(2, 3), neuron_execution_latency=1.7))


@story("stragglers", *every(5, 30, 30.4))
def the_host_of_one_node_is_saturated():
    fleet = Fleet(8).scale(
        hours(30), hours(34), neuroncore_utilization=0.4, efa=0.4, network_in=0.4
    )
    return World(fleet.set(hours(30), hours(34), slice(3, 4), host_cpu=0.97))


def saturated(**others: float) -> World:
    """Return a job whose fourth host is saturated, and whose sixth shows something too."""
    fleet = Fleet(8).starve(hours(30), hours(34), share=0.4, host_cpu=0.11)
    fleet.set(hours(30), hours(34), slice(3, 4), host_cpu=0.97)
    return World(fleet.set(hours(30), hours(34), slice(5, 6), **others))


@story("stragglers", 30.4)
def the_host_of_one_node_is_saturated_and_that_of_another_a_little_busier():
    return saturated(host_cpu=0.2)


@story("stragglers", 30.4)
def the_host_of_one_node_is_saturated_and_that_of_another_busy_too():
    return saturated(host_cpu=0.3)


@story("stragglers", 30.4)
def the_host_of_one_node_is_saturated_and_that_of_another_is_not_read():
    return saturated(host_cpu=NAN)


@story("stragglers", 31)
def the_others_take_longer_than_the_one_that_works_on():
    fleet = waiting().scale(hours(30), hours(41), slice(0, 7), neuron_execution_latency=1.5)
    return World(fleet)


@story("stragglers", 31)
def the_one_that_works_on_sends_as_ever():
    return World(waiting().scale(hours(30), hours(41), slice(7, 8), efa=2.0))


@story("stragglers", 31)
def beside_those_that_wait_is_one_of_another_job_that_no_tag_tells():
    as_ever = {"neuroncore_utilization": 2.0, "neuron_execution_latency": 0.5, "efa": 2.0}
    return World(waiting().scale(hours(30), hours(41), slice(6, 7), **as_ever))


@story("stragglers", 31.5)
def they_lack_too_little_to_tell_for_whom_they_wait():
    fleet = waiting(busy=0.97)
    return World(fleet.scale(hours(30), hours(41), slice(0, 7), neuroncore_utilization=1.48))


@story("stragglers", 31, *every(30, 31.5, 34))
def a_node_once_named_stays_named_while_the_drop_fades():
    fleet = waiting().set(hours(32), hours(41), neuron_execution_latency=NAN)
    return World(fleet.scale(hours(32), hours(41), efa=2.0))


@story("stragglers", 31)
def the_one_that_works_on_runs_another_job():
    half = {"neuroncore_memory": 0.5 * HBM, "neuron_runtime": 0.5 * HBM}
    return World(waiting().set(hours(0), hours(48), slice(7, 8), **half))


@story("stragglers", 31)
def the_one_that_works_on_is_as_quick_as_ever():
    return World(waiting(slower=1.0).scale(hours(30), hours(41), slice(7, 8), efa=2.0))


@story("stragglers", 31)
def two_of_eight_work_on():
    return World(waiting().scale(hours(30), hours(41), slice(6, 7), neuroncore_utilization=2.0))


@story("stragglers", 31)
def stragglers_are_switched_off():
    return World(waiting(), policy=policy(straggler__on=False))


@story("stragglers", 31)
def of_two_nodes_one_starves():
    return World(Fleet(2).starve(hours(30), hours(34), ONE))


# Runs, whose steps tell more than utilization.


@story("pace", *every(5, 30.25, 30.7), 33, *every(10, 34, 34.5))
def a_wait_that_looks_busy_is_told_by_the_steps_of_the_run():
    fleet = Fleet(8).scale(hours(30), hours(34), neuron_execution_latency=2.0, efa=0.5)
    return World(fleet, frames={"run": progress(fleet, 30, 34)})


@story("pace", *every(5, 30.25, 30.7))
def a_wait_that_looks_busy_is_told_by_its_executions_where_no_run_counts():
    return World(Fleet(8).scale(hours(30), hours(34), neuron_execution_latency=2.0, efa=0.5))


@story("pace", 30.5, 31)
def larger_steps_that_take_longer_are_no_loss():
    fleet = Fleet(8).scale(hours(30), hours(34), neuron_execution_latency=2.0)
    return World(fleet, frames={"run": progress(fleet, metric="run_tokens_count")})


@story("pace", *every(10, 30.25, 31.25))
def tokens_are_few_where_no_latency_is_read():
    fleet = unread(Fleet(8), "neuron_execution_latency")
    return World(fleet, frames={"run": progress(fleet, 30, 34, metric="run_tokens_count")})


@story("pace", 30.5, 31, 33)
def a_drop_of_utilization_is_no_loss_while_steps_go_on():
    fleet = Fleet(8).starve(hours(30), hours(34), share=0.4)
    return World(fleet, frames={"run": progress(fleet)})


@story("pace", 30.5, 31)
def a_drop_of_utilization_and_of_steps():
    fleet = Fleet(8).starve(hours(30), hours(34), share=0.4)
    return World(fleet, frames={"run": progress(fleet, 30, 34, 0.4)})


@story("pace", *every(5, 30.25, 30.7))
def a_drop_in_which_steps_stand_still():
    fleet = Fleet(8).starve(hours(30), hours(34), share=0.4)
    return World(fleet, frames={"run": progress(fleet, 30, 34, 0.0)})


@story("pace", 30.5)
def a_run_that_no_sign_names_says_nothing_of_three_nodes_that_fall():
    fleet = Fleet(8).starve(hours(30), hours(34), slice(0, 3), share=0.4)
    return World(fleet, frames={"run": progress(fleet)})


@story("pace", 30.5)
def a_run_that_its_tag_names_says_that_they_lose_nothing():
    fleet = Fleet(8, job="a").starve(hours(30), hours(34), slice(0, 3), share=0.4)
    return World(fleet, frames={"run": progress(fleet, job="a")})


@story("pace", 30.5, 31)
def the_pace_of_two_runs_of_a_cluster_is_nobody_s():
    fleet = Fleet(8)
    slow, quick = progress(fleet, 30, 34, job="a"), progress(fleet)
    both = replace(
        slow,
        things=(*slow.things, Labels(cluster="llama", job="b")),
        values=np.concatenate([slow.values, quick.values]),
    )
    return World(fleet, frames={"run": both})


@story("pace", *every(10, 30.1, 31.3))
def a_run_gives_up_half_of_its_nodes_and_makes_half_of_the_tokens():
    fleet = Fleet(8, job="a").stop(hours(30), hours(40), slice(4, 8))
    return World(fleet, frames={"run": progress(fleet, 30, 40, job="a", metric="run_tokens_count")})


@story("pace", *every(10, 30.25, 31.7))
def a_run_without_latency_gives_up_three_of_its_nodes_which_rest():
    fleet = unread(Fleet(8, job="a"), "neuron_execution_latency")
    fleet.stop(hours(30), hours(40), slice(5, 8))
    run = progress(fleet, 30, 40, share=0.625, job="a", metric="run_tokens_count")
    return World(fleet, frames={"run": run})


@story("pace", 30.5, *every(5, 30.9, 31.3))
def a_run_falls_back_to_its_checkpoint_amid_a_drop():
    fleet = Fleet(8).starve(hours(30), hours(34), share=0.4)
    run = progress(fleet, 30, 34, 0.4)
    run.values[:, fleet.cut(hours(31), hours(48))[1]] -= 300
    return World(fleet, frames={"run": run})


@story("pace", 30.5, 31)
def a_job_that_waits_beside_one_that_starves_as_tags_tell():
    starved, slow = Fleet(4, job="a"), Fleet(4, job="b", seed=2)
    slow.ids = [f"i-slow{node}" for node in range(4)]
    starved.starve(hours(29), hours(34))
    return World(starved, slow.scale(hours(30), hours(34), neuron_execution_latency=2.0, efa=0.5))


def slow_within(*spans: tuple[float, float], days: float = 2) -> tuple[Fleet, Frame]:
    """Return a job and its run that are slow from each hour to another."""
    fleet = Fleet(4, days=days)
    run = progress(fleet)
    moved = np.full(run.n_steps, 30.0)
    for start, end in spans:
        fleet.scale(hours(start), hours(end), neuron_execution_latency=2.0, efa=0.5)
        moved[fleet.cut(hours(start), hours(end))[1]] = 10
    run.values[0, :, 0] = np.cumsum(moved)
    return fleet, run


def slow_every_few_hours(usually: float, at_last: float) -> tuple[Fleet, Frame]:
    """Return a job, and its run, that are slow for some hours every few hours, then for longer."""
    usual = [(hour, hour + usually) for hour in range(4, 40, 4)]
    return slow_within(*usual, (40, 40 + at_last))


@story("pace", *every(20, 36, 37), *every(20, 40, 42.4))
def a_run_that_is_slow_for_an_hour_every_few_hours_then_for_longer():
    fleet, run = slow_every_few_hours(1, 2.5)
    return World(fleet, frames={"run": run})


@story("pace", *every(10, 36, 36.5), *every(10, 40, 41.5))
def executions_are_slow_for_half_an_hour_every_few_hours_then_for_longer():
    fleet, _ = slow_every_few_hours(0.5, 1.5)
    return World(fleet)


@story("pace", 36.5, *every(30, 38, 39), 44.25, 44.5)
def a_run_was_slow_until_somebody_started_it_again_and_is_slow_again():
    fleet, run = slow_within((36, 38), (44, 48))
    return World(fleet.stop(hours(38), hours(38) + 2 * STEP), frames={"run": run})


@story("pace", 36.5, *every(30, 38, 39), 44.25, 44.5)
def a_run_was_slow_beside_saturated_hosts_and_is_so_again():
    fleet, run = slow_within((36, 38), (44, 48))
    fleet.set(hours(36), hours(38), host_cpu=0.97).set(hours(44), hours(48), host_cpu=0.97)
    return World(fleet, frames={"run": run})


@story("pace", 85, *every(30, 86.5, 87.5), 87.75, 88)
def a_run_that_was_slow_is_so_again_before_anything_is_learnt_of_it():
    fleet, run = slow_within((84.5, 86.5), (87.5, 91), days=4)
    return World(fleet, frames={"run": run})


# File systems and zones of a drop.


def system(per_tib: int = 125, **labels: str) -> FileSystem:
    place = Labels(resource="fs-0123", region="us-west-2").merge(Labels(**labels))
    return FileSystem(place, 16_000, "PERSISTENT_2", per_tib, START - timedelta(days=30))


def loaded(reads: float | np.ndarray, writes: float, *systems: FileSystem) -> World:
    """Return a fleet that starves while a file system reads and writes so many MB/s."""
    columns = [np.broadcast_to(np.asarray(x) * 3e8, 576) for x in (reads, writes)]
    values = np.stack(columns, axis=1)[None].astype(np.float32)
    names = ("fsx_read_bytes", "fsx_write_bytes")
    frame = Frame("file_system", (systems[0].labels,), START, STEP, names, values)
    fleet = Fleet(4, zones=("us-west-2b", "us-west-2c"), job="a").starve(hours(30), hours(40))
    return World(fleet, inventory={"file_systems": systems}, frames={"file_system": frame})


@story("loads", 31)
def a_file_system_of_the_cluster_is_at_its_limit():
    return loaded(1900.0, 0.0, system(cluster="llama"))


@story("loads", 31)
def a_file_system_with_room_reads_and_writes():
    return loaded(
        150.0, 150.0, system(cluster="llama"), system(cluster="llama", resource="fs-unread")
    )


@story("loads", 31)
def a_file_system_that_no_tag_ties_to_a_cluster_is_named_near_its_limit():
    return loaded(30.0, 1700.0, system())


@story("loads", 31)
def a_file_system_that_no_tag_ties_to_a_cluster_has_room():
    return loaded(900.0, 0.0, system())


@story("loads", 31)
def a_file_system_of_another_cluster_and_one_of_another_region():
    return loaded(1900.0, 0.0, system(cluster="other"), system(region="us-east-1"))


@story("loads", 31)
def a_file_system_moves_more_than_it_is_provisioned_for():
    return loaded(3100.0, 0.0, system(cluster="llama"))


@story("loads", 31)
def a_file_system_moved_more_than_its_limit_once():
    reads = np.full(576, 1900.0)
    reads[300] = 6000.0
    return loaded(reads, 0.0, system(cluster="llama"))


@story("loads", 31)
def of_two_clusters_one_is_not_asked_about_drops():
    lax = Policy(default_policy().values, ((Labels(cluster="llama"), "starved.on", False),))
    fleets = [Fleet(4, cluster=name).starve(hours(30), hours(34)) for name in ("llama", "vision")]
    return World(*fleets, policy=lax)
