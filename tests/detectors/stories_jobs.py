"""Stories of jobs: two of one cluster, one that moves or begins again, one on some cores, and services with their hours."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
from builder import START, STEP, Fleet, World, hours
from stories import NAN, ONE, SOME, STILL, every, policy, story, unread

from bot.model.frame import Frame
from bot.model.labels import Labels

CALM = policy(odd__on=False)
FIRST, SECOND = slice(0, 4), slice(4, 8)


def two_jobs(spare: int = 4) -> Fleet:
    """Return a cluster whose second four nodes run another graph, and some more that run a third."""
    fleet, always = Fleet(8 + spare), (hours(0), hours(48))
    less = {"neuroncore_memory": 0.6, "neuron_runtime": 0.6, "neuron_execution_latency": 2}
    least = {"neuroncore_memory": 0.3, "neuron_runtime": 0.3, "neuron_execution_latency": 4}
    return fleet.scale(*always, SECOND, **less).scale(*always, slice(8, None), **least)


@story("incidents", 30.5, *every(5, 32.2, 32.5), 33.1, 33.4, 36.1, 36.4)
def a_second_job_hangs_hours_later():
    fleet = two_jobs().set(hours(30), hours(33), FIRST, **STILL)
    return World(fleet.set(hours(32), hours(36), SECOND, **STILL))


@story("incidents", 30.5, 32.5)
def another_role_of_a_job_that_a_tag_names_hangs_later():
    fleet = two_jobs().set(hours(30), hours(40), FIRST, **STILL)
    fleet.set(hours(32), hours(40), SECOND, **STILL).job = "rl"
    return World(fleet)


@story("incidents", 30.5, 31, 32.5, 33)
def a_second_job_starves_hours_later():
    return World(
        two_jobs().starve(hours(30), hours(40), FIRST).starve(hours(32), hours(40), SECOND)
    )


@story("incidents", 30.5, *every(5, 32.25, 32.5))
def more_nodes_of_a_hung_job_join_its_alert():
    fleet = two_jobs().set(hours(30), hours(40), SOME, **STILL)
    return World(fleet.set(hours(32), hours(40), slice(2, 4), **STILL))


@story("incidents", *every(5, 30.3, 30.6))
def what_befalls_two_jobs_within_ten_minutes_is_one_incident():
    fleet = two_jobs().set(hours(30), hours(40), FIRST, **STILL)
    return World(fleet.set(hours(30.1), hours(40), SECOND, **STILL))


@story("incidents", 30.25, *every(5, 30.9, 31.2))
def what_began_with_an_alert_is_of_its_incident_though_it_is_told_later():
    fleet = two_jobs().starve(hours(30), hours(40), FIRST)
    return World(fleet.starve(hours(30), hours(40), SECOND, share=0.7, host_cpu=0.11))


@story("incidents", 30.25, *every(5, 31, 31.4))
def a_second_job_that_fell_ten_minutes_later_is_told_with_the_first_and_a_third_is_not():
    fleet = two_jobs().starve(hours(30), hours(40), FIRST)
    for nodes, steps in ((SECOND, 2), (slice(8, 12), 3)):
        fleet.starve(hours(30) + steps * STEP, hours(40), nodes, share=0.7, host_cpu=0.11)
    return World(fleet)


@story("incidents", 30.5, 32.5)
def two_halves_of_a_cluster_hang_one_after_the_other():
    fleet = two_jobs(spare=0).set(hours(30), hours(40), FIRST, **STILL)
    return World(fleet.set(hours(32), hours(40), SECOND, **STILL))


@story("incidents", 31, *every(5, 32.4, 32.7))
def idle_nodes_of_two_jobs_are_one_alert():
    return World(two_jobs().stop(hours(30), hours(40), FIRST).stop(hours(32), hours(40), SECOND))


@story("incidents", 30.5, 32.5)
def a_job_with_a_tag_gives_its_name_to_the_incident():
    fleets = [Fleet(4, job=job, seed=seed) for seed, job in enumerate(("a", "b", "c"))]
    for fleet in fleets:
        fleet.ids = [f"i-{fleet.job}{i:03d}" for i in range(4)]
    fleets[0].set(hours(30), hours(40), **STILL)
    fleets[1].set(hours(32), hours(40), **STILL)
    return World(*fleets)


@story("incidents", 31, 31.5)
def nodes_outside_any_cluster_are_told_by_their_place():
    fleets = [Fleet(2, cluster="", seed=i).stop(hours(30), hours(40), ONE) for i in range(2)]
    fleets[1].ids = ["i-b0", "i-b1"]
    return World(*fleets)


# Another job on the same nodes, and the same on others.


def other_job(
    fleet: Fleet,
    start: float,
    end: float,
    nodes: slice = slice(None),
    level: float = 0.6,
    memory: float = 1.15,
    latency: float = 2.0,
) -> Fleet:
    """Let another job run after a stop: other memory, other executions, another level."""
    begins = hours(start) + 3 * STEP
    factors = {"neuroncore_memory": memory, "neuron_runtime_memory": memory, "efa": 0.7}
    factors |= {"neuroncore_utilization": level / 0.9, "neuron_execution_latency": latency}
    return fleet.stop(hours(start), begins, nodes).scale(begins, hours(end), nodes, **factors)


@story("jobs", *every(15, 30.25, 32), 36)
def a_slower_job_is_no_drop_of_the_one_before():
    return World(other_job(Fleet(2), 30, 48))


@story("jobs", 32, *every(5, 33, 33.3), 34)
def a_job_is_judged_by_its_own_level_after_some_hours():
    return World(other_job(Fleet(2), 30, 48).starve(hours(33), hours(36), share=0.4))


@story("jobs", 30.75, *every(5, 31, 31.3), 33)
def a_job_takes_its_usual_along_to_other_nodes():
    fleet = other_job(Fleet(6), 0, 30, SOME).stop(hours(30), hours(48), SOME)
    return World(
        other_job(fleet, 30, 48, slice(2, 4)).starve(hours(31), hours(34), slice(2, 4), share=0.3)
    )


@story("jobs", 30.5, *every(10, 31, 32.5))
def a_drop_ends_with_the_job_that_it_was_about():
    fleet = Fleet(4).starve(hours(30), hours(31))
    return World(other_job(fleet, 31, 48, level=0.5, latency=1.0))


@story("jobs", *every(20, 26, 31.4))
def a_drop_of_a_young_job_teaches_nothing_while_it_is_told():
    fleet = Fleet(4).stop(hours(24.5), hours(24.75))
    young = {"neuroncore_memory": 0.7, "neuron_runtime": 0.7, "neuron_execution_latency": 0.5}
    fleet.scale(hours(24.75), hours(48), neuroncore_utilization=0.8, **young)
    slow = {"neuroncore_utilization": 0.6, "efa": 0.6, "neuron_execution_latency": 1.5}
    return World(fleet.scale(hours(26), hours(31), **slow))


def counts(restarted_at: float) -> dict[str, Frame]:
    """Return a run of the cluster that goes on at hour 30 from `restarted_at`, with fewer steps."""
    steps = np.arange(40 * 12, dtype=np.float32) * 10
    steps[30 * 12 :] = restarted_at + np.arange(10 * 12) * 3
    steps[30 * 12 : 30 * 12 + 3] = NAN
    labels = (Labels(cluster="llama", job="pretrain"),)
    return {"run": Frame("run", labels, START, STEP, ("run_step_count",), steps.reshape(1, -1, 1))}


def resumed(job: str = "", latency: float = 1.0, level: float = 0.3) -> Fleet:
    """Return a job that begins again at hour 30, and works less since."""
    fleet = Fleet(3, days=40 / 24, job=job).stop(hours(30), hours(30.25))
    slow = {"neuroncore_utilization": level, "neuron_execution_latency": latency}
    return fleet.scale(hours(30.25), hours(40), efa=level, **slow)


@story("jobs", 31, *every(5, 31.25, 31.5))
def a_tag_says_that_a_job_goes_on_after_a_restart():
    return World(resumed("pretrain"))


@story("jobs", *every(5, 31.25, 31.5))
def nothing_says_that_a_job_goes_on_after_a_restart():
    return World(resumed())


@story("jobs", *every(5, 31.25, 31.5))
def executions_that_wait_say_that_a_job_goes_on_after_a_restart():
    return World(resumed(latency=1 / 0.3))


@story("jobs", *every(5, 31.25, 31.5))
def executions_that_wait_a_little_say_that_a_job_goes_on_after_a_restart():
    return World(resumed(latency=1 / 0.6, level=0.6))


@story("jobs", *every(15, 31, 32.5))
def a_job_that_holds_as_much_as_an_older_one_begins_after_another():
    fleet = other_job(Fleet(3, days=40 / 24), 26, 30, memory=1.3).stop(hours(30), hours(30.25))
    slow = {"neuroncore_utilization": 0.3, "neuron_execution_latency": 1 / 0.3, "efa": 0.3}
    return World(fleet.scale(hours(30.25), hours(40), **slow))


@story("jobs", *every(5, 31.25, 31.5))
def its_run_says_that_a_job_goes_on_after_a_restart():
    return World(resumed(latency=2.0), frames=counts(3_500))


@story("jobs", *every(5, 31.25, 31.5))
def its_run_says_nothing_of_a_cluster_whose_nodes_began_again_apart():
    fleet = resumed(latency=2.0).stop(hours(30.25), hours(30.75), ONE)
    return World(fleet, frames=counts(3_500))


@story("jobs", *every(5, 31.25, 31.5))
def another_run_begins_after_a_restart():
    return World(resumed(latency=2.0), frames=counts(0))


@story("jobs", *every(10, 30.9, 31.7))
def a_job_without_a_usual_of_its_own_is_told_by_strong_signs_only():
    fleet = other_job(Fleet(4), 30, 48)
    return World(fleet.starve(hours(31), hours(34)))


@story("jobs", *every(10, 30.25, 31.3))
def a_host_that_is_busy_since_its_job_began_is_no_sign_of_a_drop():
    fleet = other_job(Fleet(4), 30, 48, level=0.3)
    return World(fleet.set(hours(30.25), hours(48), host_cpu=0.97))


@story("jobs", 31, *every(10, 31, 31.5))
def memory_that_grows_without_a_stop_is_no_other_job():
    fleet = Fleet(4).scale(hours(30), hours(48), neuroncore_memory=1.1, neuron_runtime_memory=1.1)
    return World(fleet.starve(hours(31), hours(34)))


@story("jobs", *every(10, 30, 31.2))
def another_job_begins_within_a_step():
    fleet = Fleet(2).scale(hours(30), hours(30) + STEP, neuroncore_memory=0.3, neuron_runtime=0.3)
    after = {"neuroncore_memory": 1.2, "neuron_runtime": 1.2, "neuron_execution_latency": 2.0}
    return World(fleet.scale(hours(30) + STEP, hours(48), neuroncore_utilization=0.5, **after))


@story("jobs", 30.5, 31.25)
def a_job_of_a_shared_node_ends_and_takes_its_share_along():
    fleet = Fleet(4).set(hours(0), hours(48), neuroncore_reserved=32)
    fleet.set(hours(30), hours(40), slice(0, 1), neuroncore_reserved=16)
    fleet.scale(hours(30), hours(40), slice(0, 1), neuroncore_utilization=0.5)
    fleet.set(hours(30), hours(40), slice(1, 2), neuroncore_reserved=16)
    return World(fleet.scale(hours(30), hours(40), slice(1, 2), neuroncore_utilization=0.2))


@story("jobs", 31, 31.2, *every(10, 32.9, 33.4))
def a_drop_is_followed_where_no_memory_is_read():
    return World(
        unread(Fleet(4).starve(hours(31), hours(33)), "neuroncore_memory", "neuron_runtime")
    )


@story("jobs", 31, 31.5, 32)
def gpus_are_judged_like_neuron_cores():
    fleet = Fleet(4, instance_type="p5.48xlarge", cluster="gpu")
    fleet.metrics["gpu_utilization_ratio"] = fleet.metrics["neuroncore_utilization_ratio"].copy()
    unread(fleet, "neuron", "efa").stop(hours(31), hours(34), ONE, gpu_utilization=0)
    unread(fleet, "neuron", "efa").scale(hours(31), hours(34), slice(1, 4), gpu_utilization=0.3)
    return World(fleet.set(hours(31), hours(34), slice(1, 4), host_cpu=0.97))


# Some cores of a node.


def cores(nodes: int = 8, days: float = 2.0) -> Fleet:
    """Return a fleet whose busiest cores are read."""
    fleet = Fleet(nodes, days)
    highest = fleet.metrics["neuroncore_utilization_ratio"] + 0.02
    fleet.metrics["neuroncore_utilization_highest_ratio"] = highest
    return fleet


@story("cores", *every(5, 30.3, 30.7), 33, *every(10, 34, 34.5))
def a_quarter_of_the_cores_works_for_four_hours():
    fleet = cores().scale(hours(30), hours(34), efa=0.25)
    return World(fleet.scale(hours(30), hours(34), neuroncore_utilization_ratio=0.25))


@story("cores", *every(5, 30.4, 30.8))
def a_quarter_of_the_cores_works_and_ten_minutes_are_not_read():
    fleet = cores(2).scale(hours(30), hours(34), efa=0.25)
    fleet.scale(hours(30), hours(34), neuroncore_utilization_ratio=0.25)
    return World(fleet.silence(hours(30.2), hours(30.2) + 2 * STEP))


@story("cores", 31)
def the_cores_that_work_are_counted_where_they_are_read():
    fleet = cores().scale(hours(30), hours(34), efa=0.25)
    fleet.scale(hours(30), hours(34), slice(0, 4), neuroncore_utilization_ratio=0.25)
    busy = {
        f"i-llama00{i}": counts for i, counts in enumerate(((8, 32), (12, 30), (8, 32), (14, 32)))
    }
    things = tuple(
        Labels(instance=name, core=str(i)) for name, (_, n) in busy.items() for i in range(n)
    )
    levels = [0.9 * (i < at_work) for at_work, n in busy.values() for i in range(n)]
    at_work = np.repeat(np.array(levels, np.float32)[:, None, None], 576, axis=1)
    frame = Frame("core", things, START, STEP, ("neuroncore_utilization_ratio",), at_work)
    return World(fleet, frames={"core": frame})


@story("cores", 31)
def half_of_the_cores_of_a_type_that_nobody_knows():
    fleet = cores(2)
    fleet.instance_type = "trn9.48xlarge"
    return World(fleet.scale(hours(30), hours(34), efa=0.5, neuroncore_utilization_ratio=0.5))


@story("cores", 30.5, 31)
def starvation_lets_the_busiest_core_wait_too():
    return World(cores().starve(hours(30), hours(34), host_cpu=0.1))


@story("cores", 30.5, *every(10, 30.5, 31.4))
def a_starvation_that_flutters_leaves_no_core_unused():
    fleet, rng = cores(), np.random.default_rng(3)
    at = fleet.cut(hours(30), hours(34))
    for name, least, most in (("ratio", 0.43, 0.58), ("highest_ratio", 0.88, 1.0)):
        values = fleet.metrics[f"neuroncore_utilization_{name}"]
        values[at] *= rng.uniform(least, most, values[at].shape)
    return World(fleet.scale(hours(30), hours(34), efa=0.5))


@story("cores", *every(10, 31, 31.7))
def a_job_whose_memory_grows_leaves_no_core_unused():
    fleet = cores()
    for name in ("utilization_ratio", "utilization_highest_ratio"):
        fleet.metrics[f"neuroncore_{name}"][0] *= 0.72
    fleet.metrics["neuron_execution_latency_seconds"][0] *= 0.72
    for name in ("neuroncore_memory_used_bytes", "neuron_runtime_memory_used_bytes"):
        _, span = fleet.cut(hours(29), hours(33))
        fleet.metrics[name][0, : span.start] *= 0.6
        fleet.metrics[name][0, span] *= np.linspace(0.6, 1.2, span.stop - span.start)
    return World(fleet)


def halved(latency: float = 1.0) -> Fleet:
    """Return nodes of which half of the cores work from hour 30 to 39 after a start."""
    fleet = Fleet(4, days=2).set(hours(0), hours(48), neuroncore_utilization_highest=0.92)
    fleet.stop(hours(30), hours(30.2))
    fewer = {"neuroncore_memory": 0.5, "neuron_runtime_memory": 0.5}
    fleet.scale(hours(30.2), hours(39), neuron_execution_latency=latency, **fewer)
    return fleet.scale(hours(30), hours(39), neuroncore_utilization_ratio=0.5)


@story("cores", *every(5, 30.6, 31), 36, *every(10, 38.9, 39.7))
def a_job_starts_again_on_half_of_its_cores():
    return World(halved())


@story("cores", 31, 33)
def another_job_that_holds_half_of_the_memory():
    return World(halved(latency=0.6))


@story("cores", 30.5, *every(10, 30.6, 31.2), 34.5)
def cores_are_unused_beside_an_evaluation_and_a_broken_device():
    fleet = cores().scale(hours(30), hours(34), efa=0.25)
    fleet.scale(hours(30), hours(34), SOME, neuroncore_utilization_ratio=0.25)
    fleet.scale(hours(30.5), hours(30.75), SOME, neuron_execution_latency=1.5)
    return World(fleet.set(hours(30.9), hours(34), slice(3, 4), neuron_hardware_ecc_events=5))


@story("cores", 30.25, *every(10, 30.6, 31.2))
def cores_of_nodes_beside_a_broken_device_are_not_called_unused():
    fleet = cores().set(hours(30), hours(34), slice(3, 4), neuron_hardware_ecc_events=5)
    fleet.scale(hours(30.2), hours(34), efa=0.25)
    return World(fleet.scale(hours(30.2), hours(34), SOME, neuroncore_utilization_ratio=0.25))


# Services, which have hours.

QUIET = {"neuroncore_utilization": 0.0, "neuron_execution_latency": NAN, "efa": 0, "host_cpu": 0.03}
UNLOADED = QUIET | {"neuroncore_memory": 0, "neuron_runtime_memory": 0}


def service(nodes: int = 4, nights: tuple[int, ...] = tuple(range(8)), **quiet: float) -> Fleet:
    """Return nodes that serve by day and rest about 01:00 to 05:00, not to the minute, on the nights given."""
    fleet = Fleet(nodes, days=8, cluster="answers", instance_type="inf2.48xlarge")
    fleet.metrics["neuroncore_utilization_ratio"] *= 0.5
    late = (0, 20, -15, 10, 25, -20, 5, 15)
    for night in nights:
        start = hours(24 * night + 1) + timedelta(minutes=late[night])
        fleet.set(start, start + timedelta(hours=4), **(quiet or QUIET))
        for i in range(nodes):  # somebody asks something now and then
            at = start + timedelta(minutes=40 + 50 * i)
            fleet.set(at, at + STEP, slice(i, i + 1), neuroncore_utilization=0.2)
    return fleet


def at(day: int, hour: float) -> float:
    return 24 * day + hour


@story("services", *every(30, at(2, 1), at(2, 5)), *every(30, at(3, 1), at(3, 5.5)))
def a_lull_of_every_night():
    return World(service(), policy=CALM)


@story("services", *every(30, at(2, 1), at(2, 5)))
def a_lull_of_every_night_in_which_no_process_is_loaded():
    return World(service(**UNLOADED), policy=CALM)


@story(
    "services",
    *every(30, at(3, 1), at(3, 5.5)),
    *every(30, at(4, 1.5), at(4, 5.5)),
    *every(30, at(6, 1), at(6, 5)),
)
def a_lull_that_is_new_is_told_until_it_is_known():
    return World(service(nights=(3, 4, 5, 6)), policy=CALM)


@story("services", *every(15, at(3, 12.25), at(3, 13.5)), at(3, 18.1), at(3, 18.4))
def a_service_has_no_requests_at_noon():
    fleet = service().set(hours(at(3, 12)), hours(at(3, 18)), **QUIET)
    return World(fleet, policy=CALM)


@story("services", at(3, 12.25), at(3, 12.75))
def the_process_of_one_server_is_gone_at_noon():
    fleet = service().set(hours(at(3, 12)), hours(at(3, 18)), ONE, **UNLOADED)
    return World(fleet, policy=CALM)


@story("services", at(3, 12.5), at(3, 13.5))
def a_service_that_hardly_does_anything_rests_at_noon():
    fleet = service(nights=()).scale(hours(0), hours(at(8, 0)), neuroncore_utilization=0.17)
    return World(fleet.set(hours(at(3, 12)), hours(at(3, 18)), **QUIET), policy=CALM)


@story("services", at(3, 14), *every(15, at(4, 11.75), at(4, 12.25)))
def one_node_of_a_service_has_no_requests_for_a_day():
    return World(service().set(hours(at(3, 12)), hours(at(8, 0)), ONE, **QUIET), policy=CALM)


@story("services", *every(15, at(6, 13), at(6, 15.75)))
def a_server_that_is_left_out_for_hours_on_each_day():
    fleet = service(nights=())
    for day in range(8):
        fleet.set(hours(at(day, 10)), hours(at(day, 16)), ONE, **QUIET)
    return World(fleet, policy=CALM)


@story("services", at(0, 20), at(0, 23))
def a_spare_server_that_was_never_asked_beside_servers_at_work():
    return World(service(nights=()).set(START, hours(at(8, 0)), ONE, **QUIET), policy=CALM)


def deserted(**more: float) -> Fleet:
    """Return nodes of which little is asked from 22:00 of a Wednesday on, and next to nothing at night."""
    fleet = service(nights=()).set(hours(at(2, 22)), hours(at(8, 0)), **more)
    fleet.scale(hours(at(2, 22)), hours(at(8, 0)), neuroncore_utilization=0.2)
    for night in (3, 4):
        fleet.scale(hours(at(night, 2)), hours(at(night, 6)), neuroncore_utilization=0.3)
    return fleet


@story(
    "services",
    *every(15, at(2, 23.5), at(3, 0.5)),
    *every(60, at(3, 2), at(3, 8)),
    *every(15, at(3, 9), at(3, 10)),
)
def requests_leave_and_come_back_and_two_servers_are_newer():
    fleet = deserted().silence(hours(0), hours(at(2, 20)), slice(2, 4))
    fleet.silence(hours(0), hours(at(3, 3)), slice(3, 4))
    fleet.launched = {2: hours(at(2, 20)), 3: hours(at(3, 3))}
    fleet.scale(hours(at(3, 9)), hours(at(8, 0)), neuroncore_utilization=5)
    return World(fleet, policy=CALM)


@story("services", at(3, 0.5))
def little_is_asked_of_servers_beside_nodes_of_which_some_cores_work():
    late = hours(at(2, 22)), hours(at(8, 0))
    fleet = cores(2, days=8).scale(*late, efa=0.25, neuroncore_utilization_ratio=0.25)
    return World(deserted(), fleet, policy=CALM)


@story("services", *every(15, at(2, 23), at(3, 0.25)))
def servers_whose_hosts_are_saturated_starve():
    return World(deserted(host_cpu=0.97), policy=CALM)


def replaced(gain: float, hour: float = at(3, 12)) -> World:
    """Return a service of which two servers rest since an hour, while two with another model do more."""
    fleet, since = service(), (hours(hour), hours(at(8, 0)))
    fleet.scale(
        START, hours(at(8, 0)), slice(2, 4), neuroncore_memory=0.5, neuron_runtime_memory=0.5
    )
    fleet.set(*since, slice(0, 2), **QUIET)
    return World(fleet.scale(*since, slice(2, 4), neuroncore_utilization=gain), policy=CALM)


@story("services", at(3, 13), *every(15, at(3, 13.75), at(3, 14.25)))
def two_servers_do_what_two_others_did_before():
    return replaced(gain=1.9)


@story("services", at(3, 13), *every(15, at(3, 13.75), at(3, 14.25)))
def two_servers_do_half_of_what_two_others_did_before():
    return replaced(gain=1.5)


@story("services", *every(30, at(2, 6), at(2, 7.5)))
def two_servers_do_since_the_end_of_a_night_what_two_others_did_before():
    return replaced(gain=1.9, hour=at(2, 4.75))


@story("services", at(1, 6), at(1, 13), *every(30, at(2, 0.5), at(2, 2)))
def a_service_has_no_requests_after_its_first_day():
    fleet = service(nights=()).set(hours(at(1, 1)), hours(at(8, 0)), **QUIET)
    return World(fleet, policy=CALM)


def moved(team: str, share: float = 0.2, before: float = 1.0) -> World:
    """Return a service whose requests are few since a noon, and one of a team that has more since then."""
    noon, here, there = hours(at(3, 12)), service(nights=()), service(nights=())
    here.team, there.team, there.cluster = "search", team, "answers-east"
    there.ids = [f"i-east{i}" for i in range(4)]
    here.scale(hours(at(3, 0)), noon, neuroncore_utilization=before)
    here.scale(noon, hours(at(3, 16)), neuroncore_utilization=share)
    there.scale(noon, hours(at(3, 16)), neuroncore_utilization=1.8)
    return World(here, there, policy=CALM)


@story("services", at(3, 14.5))
def requests_moved_to_servers_of_the_same_team_elsewhere():
    return moved("search")


@story("services", at(3, 14.5))
def of_a_day_with_fewer_requests_some_moved_to_servers_of_the_same_team():
    return moved("search", share=0.56, before=0.8)


@story("services", at(3, 14.5))
def requests_left_while_another_team_has_more():
    return moved("chat")


@story("services", at(3, 12), at(3, 16))
def fewer_requests_to_one_node_are_no_drop_while_its_service_has_as_many():
    fleet, noon = service(nodes=3, nights=()), hours(at(3, 10))
    fleet.scale(noon, noon + timedelta(hours=8), ONE, neuroncore_utilization=0.5)
    return World(
        fleet.scale(noon, noon + timedelta(hours=8), slice(1, 3), neuroncore_utilization=1.25),
        policy=CALM,
    )


@story("services", *every(30, at(5, 1), at(5, 5)), *every(30, at(6, 3), at(6, 5)))
def a_weekend_is_another_kind_of_day():
    return World(service(nights=(5, 6)), policy=CALM)
