"""Stories of compiles: how long they take, what comes of them, and whether their work ran before."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
from builder import HBM, START, STEP, Fleet, World, hours
from stories import NAN, ONE, SOME, STILL, every, policy, story, unread

from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.policy import Policy
from bot.model.run import CompileMark, Mark
from bot.policy.schema import default_policy

BUSY = {"host_cpu": 0.8}


@story("compiles", 30.5, *every(5, 30.9, 31.2), 32, 33.1, 33.4)
def one_of_four_nodes_compiles_for_three_hours():
    return World(Fleet(4).stop(hours(30), hours(33), ONE, **BUSY))


@story("compiles", 31, 31.2)
def a_compile_goes_on_while_its_newest_readings_are_missing():
    fleet = Fleet(4).stop(hours(30), hours(40), ONE, **BUSY)
    return World(fleet.silence(hours(31.1), hours(40), ONE))


@story("compiles", 31.1)
def two_of_four_nodes_compile_for_an_hour():
    return World(Fleet(4).stop(hours(30), hours(40), SOME, **BUSY))


@story("compiles", *every(5, 31, 31.3))
def six_nodes_of_a_new_job_compile_at_once():
    return World(Fleet(6).stop(hours(30), hours(40), **BUSY))


@story("compiles", *every(5, 30.6, 31))
def the_grace_of_a_compile_is_a_setting():
    rules = policy(compiling__grace=timedelta(minutes=45))
    return World(Fleet(4).stop(hours(30), hours(40), ONE, **BUSY), policy=rules)


@story("compiles", 31.1)
def long_compiles_are_switched_off_and_those_of_a_cold_cache_are_not():
    rules = policy(long_compile__on=False)
    return World(Fleet(4).stop(hours(30), hours(40), ONE, **BUSY), policy=rules)


@story("compiles", 31.1)
def long_compiles_and_those_of_a_cold_cache_are_switched_off():
    rules = policy(long_compile__on=False, cold_cache__on=False)
    return World(Fleet(4).stop(hours(30), hours(40), ONE, **BUSY), policy=rules)


@story("compiles", 30.5, *every(5, 31, 31.2))
def a_compile_needs_no_host_cpu_to_be_seen():
    little = STILL | {"neuroncore_memory": 0.004 * HBM, "neuron_runtime": 1e9}
    return World(unread(Fleet(4).set(hours(30), hours(34), ONE, **little), "host_cpu"))


def two_jobs_at_once() -> list[Fleet]:
    fleets = [
        Fleet(2, job=job, seed=i).stop(hours(30), hours(40), **BUSY)
        for i, job in enumerate(("tune", "probe"))
    ]
    fleets[1].ids = ["i-other0", "i-other1"]
    return fleets


@story("compiles", 31.1)
def nodes_of_several_jobs_that_compile_at_once_lost_the_cache_that_they_share():
    return World(*two_jobs_at_once())


@story("compiles", 31.1)
def nodes_of_several_jobs_compile_for_long_where_nobody_asks_for_their_cache():
    return World(*two_jobs_at_once(), policy=policy(cold_cache__on=False))


@story("compiles", 30.6, *every(5, 30.7, 31.1), 31.6)
def a_node_that_compiled_before_compiles_again_until_its_cold_cache_is_told_and_after():
    return World(
        Fleet(4).stop(hours(20), hours(20.75), **BUSY).stop(hours(30), hours(30.75), **BUSY)
    )


@story("compiles", *every(5, 30.4, 30.7), 31, 31.1, 31.3)
def where_tags_name_the_job_it_is_told_while_it_compiles():
    fleet = Fleet(4, job="tune").stop(hours(20), hours(20.75), **BUSY)
    return World(fleet.stop(hours(30), hours(31), **BUSY))


@story("compiles", 31.2)
def nodes_of_a_start_begin_and_end_one_step_after_the_other():
    fleet = Fleet(4, job="tune").stop(hours(20), hours(20.75), **BUSY)
    fleet.stop(hours(30), hours(31), SOME, **BUSY)
    return World(fleet.stop(hours(30) + STEP, hours(31) + STEP, slice(2, 4), **BUSY))


@story("compiles", 30.8)
def where_no_memory_is_read_one_node_of_a_start_tells_nothing():
    fleet = unread(Fleet(8), "neuroncore_memory", "neuron_runtime")
    fleet.stop(hours(20), hours(20.75), slice(0, 3), **BUSY)
    return World(fleet.stop(hours(30), hours(30.75), slice(2, 5), **BUSY))


@story("compiles", 30.8)
def where_no_memory_is_read_most_nodes_of_a_start_tell_its_work():
    fleet = unread(Fleet(8), "neuroncore_memory", "neuron_runtime")
    fleet.stop(hours(20), hours(20.75), slice(0, 3), **BUSY)
    return World(fleet.stop(hours(30), hours(30.75), slice(1, 4), **BUSY))


@story("compiles", *every(5, 31, 31.2))
def a_compile_of_an_hour_that_compiled_before():
    fleet = Fleet(4).stop(hours(20), hours(20.7), ONE, **BUSY)
    return World(fleet.stop(hours(30), hours(40), ONE, **BUSY))


@story("compiles", *every(5, 31.1, 31.4))
def restarts_that_follow_each_other_within_an_hour_count_as_one_start():
    fleet = Fleet(4)
    for begin in (30, 30.9):
        fleet.stop(hours(begin), hours(begin) + 4 * STEP, **BUSY)
    return World(fleet)


@story("compiles", *every(5, 31.9, 32.2))
def restarts_an_hour_and_a_half_apart_are_two_short_starts():
    fleet = Fleet(4)
    for begin in (30, 31.6):
        fleet.stop(hours(begin), hours(begin) + 4 * STEP, **BUSY)
    return World(fleet)


@story("compiles", 30.8)
def ten_minutes_at_the_start_before_are_no_compile_that_its_work_has_shown():
    fleet = Fleet(4).stop(hours(20), hours(20) + 2 * STEP, **BUSY)
    return World(fleet.stop(hours(30), hours(30.75), **BUSY))


@story("compiles", *every(5, 30.75, 31.2))
def what_compiled_again_compiles_once_more_after_ten_minutes_of_work():
    fleet = Fleet(4).stop(hours(20), hours(20.75), **BUSY).stop(hours(30), hours(30.75), **BUSY)
    return World(fleet.stop(hours(30.75) + 2 * STEP, hours(31.1), **BUSY))


def days_later(minutes: float) -> World:
    """Return a job that compiles again for some minutes, and four days later once more."""
    fleet, again = Fleet(2, days=5.2), hours(28) + timedelta(minutes=minutes)
    fleet.stop(hours(24), hours(24.75), **BUSY).stop(hours(28), again, **BUSY)
    return World(fleet.stop(hours(120), hours(120.75), **BUSY), policy=policy(odd__on=False))


@story("compiles", 120.8)
def what_an_alert_counted_days_ago_is_not_counted_again():
    return days_later(45)


@story("compiles", 120.8)
def what_raised_no_alert_days_ago_is_counted():
    return days_later(20)


def with_starts(fleet: Fleet, *begins: float) -> Fleet:
    """Let a job start anew within minutes, as from a cache that has its graphs."""
    for begin in begins:
        fleet.stop(hours(begin), hours(begin) + 2 * STEP)
    return fleet


FIFTY_MINUTES = hours(30), hours(30) + 10 * STEP
LOADING = STILL | {"neuroncore_memory": 0.01 * HBM, "neuron_runtime": 0.01 * HBM}


@story("compiles", 30.6, *every(5, 30.8, 31.1))
def a_job_that_started_in_minutes_takes_fifty_and_most_nodes_wait_for_the_slowest():
    fleet = with_starts(Fleet(8), 8, 16, 24).stop(*FIFTY_MINUTES, **BUSY)
    return World(fleet.set(hours(30.5), FIFTY_MINUTES[1], slice(0, 6), **LOADING))


@story("compiles", 31)
def a_job_that_started_but_once_takes_fifty_minutes():
    return World(with_starts(Fleet(8), 24).stop(*FIFTY_MINUTES, **BUSY))


@story("compiles", 31)
def a_job_that_started_in_minutes_takes_fifty_in_another_memory():
    fleet = with_starts(Fleet(8), 8, 16, 24).stop(*FIFTY_MINUTES, **BUSY)
    return World(fleet.scale(hours(30), hours(48), neuroncore_memory=0.9, neuron_runtime=0.9))


@story("compiles", 31)
def a_job_of_a_name_that_began_other_work_in_minutes_takes_fifty():
    fleet = with_starts(Fleet(8, job="tune"), 8, 16, 24)
    other = {"neuroncore_memory": 0.9, "neuron_runtime": 0.9, "neuron_execution_latency": 1.3}
    return World(fleet.scale(hours(24), hours(48), **other).stop(*FIFTY_MINUTES, **BUSY))


@story("compiles", *every(5, 31, 31.5))
def nodes_that_have_compiled_wait_in_a_long_compile_for_the_slowest_of_their_job():
    fleet = Fleet(4).stop(hours(30), hours(31.4), **BUSY)
    return World(fleet.set(hours(30.8), hours(31.4), slice(0, 3), **LOADING))


NIGHT = 24


def nightly(compiles: list[int], memory: tuple[float, ...] = ()) -> Fleet:
    """Return a job that runs from midnight to six on two new nodes a night, and how long it compiles at each start."""
    fleet = Fleet(2 * len(compiles), days=len(compiles))
    for night, length in enumerate(compiles):
        nodes, begin = slice(2 * night, 2 * night + 2), hours(NIGHT * night)
        works = begin + timedelta(minutes=10 + length), begin + timedelta(hours=6.2), nodes
        fleet.silence(START, begin, nodes).silence(works[1], hours(NIGHT * len(compiles)), nodes)
        fleet.stop(begin, works[0], nodes, **BUSY).stop(begin, begin + 2 * STEP, nodes)
        for row in range(nodes.start, nodes.stop):
            fleet.launched[row], fleet.ended[row] = begin, works[1]
        if memory:
            held = HBM * memory[night]
            fleet.set(*works, neuroncore_memory_used=held, neuron_runtime_memory=held)
    return fleet


def nightly_runs(compiles: list[int], name: str = "tune-{:%Y%m%d}") -> dict[str, Frame]:
    """Return the progress of its runs: each night another, from the end of its compile."""
    a_night = NIGHT * 12
    values = np.full((len(compiles), a_night * len(compiles), 1), NAN, dtype=np.float32)
    for night, length in enumerate(compiles):
        steps = np.arange(a_night * night + (10 + length) // 5, a_night * night + 72)
        values[night, steps, 0] = (steps - steps[0]) * 50.0
    things = tuple(
        Labels(cluster="llama", job=name.format(hours(NIGHT * i))) for i in range(len(compiles))
    )
    return {"run": Frame("run", things, START, STEP, ("run_step_count",), values)}


@story("compiles", 25.1, *every(5, 48.8, 49.1), 49.4)
def a_nightly_job_compiles_again_on_new_nodes():
    return World(nightly([5, 45, 40]))


@story("compiles", 25.1, 49.1, 73.2)
def a_nightly_job_of_a_name_compiles_again_for_the_third_time():
    compiles = [5, 45, 40, 50]
    return World(nightly(compiles), frames=nightly_runs(compiles))


@story("compiles", 49.1, 73.2)
def a_start_of_twenty_minutes_raised_no_alert_so_the_next_one_counts_it():
    compiles = [5, 45, 20, 50]
    return World(nightly(compiles), frames=nightly_runs(compiles))


@story("compiles", *every(5, 72.9, 73.2))
def after_three_runs_that_hardly_compiled_the_fourth_one_does():
    compiles = [5, 5, 5, 45]
    return World(nightly(compiles), frames=nightly_runs(compiles))


@story("compiles", 73.1)
def a_nightly_job_whose_graph_changed_compiles_for_the_first_time():
    compiles = [5, 5, 5, 45]
    fleet = nightly(compiles, memory=(0.7, 0.7, 0.7, 0.6))
    return World(fleet, frames=nightly_runs(compiles))


@story("compiles", 48.9, 49)
def two_trials_of_the_same_memory_are_told_apart_by_their_pace():
    fleet = nightly([5, 45, 40])
    work = hours(2 * NIGHT) + timedelta(minutes=50), hours(2 * NIGHT + 6.2), slice(4, 6)
    return World(fleet.scale(*work, neuron_execution_latency=1.3))


@story("compiles", 48.9, 49)
def a_start_that_may_be_of_a_new_job_or_of_an_old_one():
    compiles = [5, 45, 40]
    run = nightly_runs(compiles)["run"]
    old = tuple(Labels(cluster="llama", job=f"old-2026110{night}") for night in (2, 3, 4))
    values = np.concatenate([run.values, np.roll(run.values, 1, axis=1)])
    both = replace(run, things=(*run.things, *old), values=values)
    return World(nightly(compiles), frames={"run": both})


def cut_off(until: float = 40, cluster: str = "llama") -> Fleet:
    """Compile for half an hour on two nodes, then stand without any process."""
    fleet = Fleet(4, cluster=cluster).stop(hours(30), hours(30.5), SOME, **BUSY)
    return fleet.stop(hours(30.5), hours(until), SOME)


@story("compiles", 30.25, *every(5, 30.5, 31), 31.4, 31.5, 31.8)
def a_compile_is_cut_off_and_nothing_comes_of_it():
    return World(cut_off())


@story("compiles", *every(5, 30.7, 30.9), *every(5, 31, 31.5))
def a_compile_is_cut_off_and_its_work_comes_late():
    return World(cut_off(until=31.1))


@story("compiles", 30.8)
def of_two_clusters_whose_compiles_are_cut_off_one_is_not_asked():
    lax = Policy(default_policy().values, ((Labels(cluster="llama"), "killed_compile.on", False),))
    return World(cut_off(), cut_off(cluster="vision"), policy=lax)


@story("compiles", 30.75, *every(5, 31, 31.5))
def launched_again_it_compiles_again_and_the_first_was_for_nothing():
    return World(cut_off(until=30.75).stop(hours(30.75), hours(31.25), SOME, **BUSY))


@story("compiles", *every(5, 30.5, 31))
def a_node_is_terminated_amid_its_compile():
    fleet = Fleet(4).stop(hours(30), hours(30.5), ONE, **BUSY)
    fleet.silence(hours(30.5), hours(48), ONE).ended[0] = hours(30.5)
    return World(fleet)


@story("compiles", 30.75, 31.25, *every(5, 31.5, 31.75))
def a_node_is_terminated_an_hour_after_its_last_reading_amid_a_compile():
    fleet = Fleet(4).stop(hours(30), hours(30.5), ONE, **BUSY)
    fleet.silence(hours(30.5), hours(48), ONE).ended[0] = hours(31.5)
    return World(fleet)


@story("compiles", *every(5, 30.5, 31))
def a_node_that_nobody_lists_any_more_was_gone_amid_its_compile():
    fleet = Fleet(4).stop(hours(30), hours(30.5), ONE, **BUSY)
    world = World(fleet.silence(hours(30.5), hours(48), ONE))
    plain = world.inventory

    def listed(now: datetime):
        nodes = dict(plain(now).instances)
        if now > hours(30.5):
            del nodes["i-llama000"]
        return replace(plain(now), instances=nodes)

    world.inventory = listed
    return world


@story("compiles", *every(5, 30.6, 30.9))
def nodes_fall_silent_after_their_compile():
    fleet = Fleet(4).stop(hours(30), hours(30.5), SOME, **BUSY)
    return World(fleet.silence(hours(30.5), hours(40), SOME))


@story("compiles", *every(5, 30.6, 30.9))
def a_pod_left_where_no_runtime_is_read():
    fleet = unread(cut_off(), "neuron_runtime", "neuroncore_memory")
    fleet.set(START, hours(30.5), neuroncore_reserved=32)
    return World(fleet.set(hours(30.5), hours(48), neuroncore_reserved=0))


@story("compiles", 31.25, *every(5, 31.5, 31.9))
def a_long_compile_that_is_cut_off_goes_on_as_its_own_alert():
    fleet = Fleet(2).stop(hours(30), hours(31.5), ONE, **BUSY)
    return World(fleet.stop(hours(31.5), hours(40), ONE))


@story("compiles", 31.25, *every(5, 31.5, 31.9))
def of_two_long_compiles_one_is_cut_off_and_the_other_goes_on():
    fleet = Fleet(4).stop(hours(30), hours(33), SOME, **BUSY)
    return World(fleet.stop(hours(31.5), hours(40), ONE))


@story("compiles", 31.2)
def weights_are_loaded_for_long_after_a_compile():
    fleet = Fleet(2).stop(hours(30), hours(30.5), ONE, **BUSY)
    loads = STILL | {"neuron_runtime_memory": 0.6 * HBM, "host_cpu": 0.1}
    return World(fleet.set(hours(30.5), hours(32), ONE, **loads))


@story("compiles", *every(5, 31.1, 31.5))
def weights_are_loaded_after_a_compile_and_the_process_is_gone():
    loads = {"neuroncore_utilization": 0, "neuron_execution_latency": NAN, "host_cpu": 0.1}
    fleet = Fleet(2).stop(hours(30), hours(30.5), ONE, **BUSY)
    fleet.set(hours(30.5), hours(31), ONE, **loads, neuron_runtime_memory=0.6 * HBM)
    return World(fleet.stop(hours(31), hours(34), ONE))


@story("compiles", 30.5, *every(5, 30.9, 31.2))
def graphs_are_traced_between_two_compiles():
    fleet = Fleet(2).stop(hours(30), hours(32), ONE, **BUSY)
    tracing = {"neuroncore_utilization": 0, "neuron_execution_latency": NAN, "host_cpu": 0.05}
    return World(fleet.set(hours(30.5), hours(30.5) + 2 * STEP, ONE, **tracing, neuron_runtime=1e9))


@story("compiles", *every(5, 30.4, 31.2))
def peers_that_rest_since_a_compile_began_wait_for_it():
    fleet = Fleet(4).stop(hours(30), hours(32), ONE, **BUSY)
    return World(
        fleet.stop(hours(29.75), hours(32), slice(1, 3)).stop(hours(29.25), hours(32), slice(3, 4))
    )


@story("compiles", *every(5, 30.4, 30.7), 31.1)
def peers_with_pods_wait_for_the_pod_that_compiles():
    fleet = Fleet(4).set(hours(0), hours(48), neuroncore_reserved=32)
    fleet.stop(hours(30.1), hours(32), ONE, **BUSY).stop(hours(30), hours(32), slice(1, 2))
    return World(fleet.stop(hours(29.5), hours(32), slice(2, 3)))


def line(
    minute: float, mark: Mark, module: str = "M1", node: str = "i-llama000", stream: str = "s"
):
    return CompileMark(hours(30) + timedelta(minutes=minute), node, mark, module, stream)


class Logged(World):
    """Read fleets, and the lines of compilers' logs that were written by then."""

    def reading(self, now: datetime):
        marks = tuple(x for x in self.more["marks"] if x.at <= now)
        return replace(super().reading(now), marks=marks)


def quiet_compile(*marks: CompileMark, length: float = 1, nodes: slice = ONE) -> World:
    """Compile on so few CPUs that nothing but a log shows it."""
    return Logged(Fleet(2).stop(hours(30), hours(30 + length), nodes), marks=marks)


@story("compiles", *every(5, 30.1, 30.4), 30.6, *every(5, 31, 31.2))
def a_log_tells_a_compile_that_no_metric_shows():
    return quiet_compile(line(2, Mark.BEGUN), length=2)


@story("compiles", *every(5, 30.1, 31))
def a_log_says_done_and_nobody_works():
    return quiet_compile(line(0, Mark.BEGUN), line(20, Mark.DONE))


@story("compiles", *every(5, 30.1, 30.9))
def graphs_of_one_log_follow_each_other():
    return quiet_compile(
        line(0, Mark.BEGUN),
        line(1, Mark.BEGUN, "M2"),
        line(12, Mark.DONE, ""),
        line(15, Mark.DONE),
        line(20, Mark.FAILED, "M2"),
        line(29, Mark.BEGUN, "M3"),
        line(40, Mark.BEGUN, "M4", stream="other"),
        line(42, Mark.OVER, ""),
    )


@story("compiles", *every(5, 30.3, 30.6))
def a_log_is_over_with_two_of_its_graphs_amid_their_compile():
    begun = line(0, Mark.BEGUN), line(1, Mark.BEGUN, "M2")
    return quiet_compile(*begun, line(20, Mark.OVER, ""))


@story("compiles", 30.5, 31)
def a_log_skips_graphs_and_names_nobody_here():
    return quiet_compile(
        line(0, Mark.WAITING), line(5, Mark.SKIPPED), line(0, Mark.BEGUN, node="i-nobody")
    )


@story("compiles", *every(5, 30.3, 31))
def a_log_without_an_end_is_cut_off_where_the_pod_leaves():
    world = quiet_compile(line(0, Mark.BEGUN), length=2)
    fleet = world.fleets[0].set(START, hours(30.4), neuroncore_reserved=32)
    return Logged(
        fleet.set(hours(30.4), hours(48), neuroncore_reserved=0), marks=world.more["marks"]
    )


@story("compiles", *every(5, 30.3, 31))
def a_log_without_an_end_is_cut_off_where_the_runtime_that_it_loaded_is_gone():
    world = quiet_compile(line(0, Mark.BEGUN), length=2)
    fleet = world.fleets[0].set(hours(30.1), hours(30.4), ONE, neuron_runtime_memory=1e9)
    return Logged(fleet, marks=world.more["marks"])


@story("compiles", *every(5, 30.1, 30.9))
def a_log_ends_what_metrics_still_take_for_a_compile():
    fleet = Fleet(2).stop(hours(30), hours(32), ONE, **BUSY)
    return Logged(fleet, marks=(line(0, Mark.BEGUN), line(10, Mark.DONE)))


@story("compiles", 32, 55)
def a_log_that_never_ends_is_over_after_a_day():
    fleet = Fleet(2, days=3).stop(hours(30), hours(60), ONE)
    return Logged(fleet, marks=(line(0, Mark.BEGUN),), policy=policy(odd__on=False))
