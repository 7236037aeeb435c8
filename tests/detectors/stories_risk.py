"""Stories of work that may be lost, and of storage and capacity that nobody uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
from builder import HBM, START, STEP, Fleet, World, hours
from stories import NAN, STILL, every, policy, story

from bot.model.fleet import FileSystem, Market, Notice, NoticeKind, Reservation, Volume
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.reading import FILE_SYSTEM_METRICS, VOLUME_METRICS

COUNTS, AGES = "run_step_count", "run_checkpoint_age_seconds"
N_STEPS = 576


def run(
    saved: float = 29.25,
    stands_from: float = 48.0,
    job: str = "llama-70b",
    silent_from: float = 48.0,
) -> Frame:
    """Return a run that saves every 45 minutes until an hour, stands still from another on, and reports until a third."""
    minutes = np.arange(N_STEPS) * 5.0
    last = np.minimum(minutes, saved * 60) // 45 * 45
    values = np.stack([np.minimum(minutes, stands_from * 60) * 10, (minutes - last) * 60], axis=1)
    values[minutes > silent_from * 60] = NAN
    things = (Labels(cluster="llama", job=job),)
    return Frame("run", things, START, STEP, (COUNTS, AGES), values[None].astype(np.float32))


def together(first: Frame, second: Frame) -> Frame:
    values = np.concatenate([first.values, second.values])
    return replace(first, things=first.things + second.things, values=values)


@story("checkpoints", 30.5, *every(5, 30.9, 31.3), 33)
def a_run_saves_no_more():
    return World(Fleet(4), frames={"run": run()})


@story("checkpoints", 31.5, 32.5)
def a_run_that_stands_still_has_nothing_new_to_lose():
    return World(Fleet(4), frames={"run": run(stands_from=29.5)})


@story("checkpoints", 31.5, *every(15, 32, 33.5))
def half_of_the_nodes_of_a_run_rest_meanwhile():
    fleet = Fleet(4).set(hours(29.5), hours(31.5), slice(0, 3), **STILL)
    return World(fleet, frames={"run": run()})


@story("checkpoints", 31.5, 32.5)
def full_memory_on_the_nodes_of_another_job_explains_no_missing_checkpoint():
    full = {"neuroncore_memory": 0.97 * HBM, "neuron_runtime": 0.97 * HBM}
    return World(Fleet(4).set(hours(30), hours(34), slice(0, 3), **full), frames={"run": run()})


@story("checkpoints", 30, 30.25, 31.5)
def a_broken_device_says_what_a_stop_of_its_job_loses():
    fleet = Fleet(4).set(hours(30) - STEP, hours(31), slice(1, 2), neuron_hardware_ecc_events=9)
    return World(fleet, frames={"run": run()})


@story("checkpoints", *every(5, 30.3, 30.6), 32)
def a_hang_counts_the_work_before_it():
    fleet = Fleet(4).set(hours(30), hours(36), **STILL)
    return World(fleet, frames={"run": run(stands_from=30)})


@story("checkpoints", 30.5, 32)
def a_hang_in_which_the_run_falls_silent_too():
    fleet = Fleet(4).set(hours(30), hours(36), **STILL)
    return World(fleet, frames={"run": run(stands_from=30, silent_from=30)})


class Called(Fleet):
    """Nodes that are called by their run: two by one, the others by another."""

    def instances(self, now: datetime):
        called = ("llama-70b-0", "llama-70b-1", "llama-8b-0", "llama-8b-1")
        found = super().instances(now).items()
        tagged = zip(found, called, strict=True)
        return {name: replace(x, tags={"Name": tag}) for (name, x), tag in tagged}


@story("checkpoints", 32)
def of_two_runs_of_a_cluster_nobody_knows_the_nodes():
    return World(Fleet(4), frames={"run": together(run(job="llama-8b", saved=48), run())})


@story("checkpoints", 32)
def of_two_runs_of_a_cluster_names_tell_the_nodes():
    return World(Called(4), frames={"run": together(run(job="llama-8b", saved=48), run())})


@story("checkpoints", 32)
def a_failure_loses_no_work_from_before_the_newest_start():
    frame = run()
    frame.values[:, 372:, 0] -= 500
    return World(Fleet(4), frames={"run": frame})


@story("checkpoints", 32)
def a_failure_loses_no_work_from_before_a_silence():
    frame = run()
    frame.values[:, 372:377] = NAN
    return World(Fleet(4), frames={"run": frame})


@story("checkpoints", 32, 32.5)
def time_in_which_a_run_was_silent_is_no_work():
    frame = run()
    frame.values[:, 355:380] = NAN
    return World(Fleet(4), frames={"run": frame})


@story("checkpoints", 31, 31.25)
def checkpoints_that_a_silence_parts_make_no_interval():
    frame = run()
    for step in range(14, 340, 27):
        frame.values[:, step : step + 10] = NAN
    return World(Fleet(4), frames={"run": frame})


def trial(every_minutes: int, starts: Sequence[int], until: int) -> Frame:
    """Return a run that saves after each start at once and then every so often, as five-minute means of its age tell it."""
    minutes, begins = np.arange(2880), (0, *starts)
    ends = (*starts, until)
    saves = [
        minute
        for begin, end in zip(begins, ends, strict=True)
        for minute in (begin, begin + 8, *range(begin + 30, end, every_minutes))
    ]
    age = minutes - np.array([max(x for x in saves if x <= minute) for minute in minutes])
    begun = np.array([max(x for x in begins if x <= minute) for minute in minutes])
    values = np.stack(
        [10.0 * (minutes - begun)[4::5], age.reshape(-1, 5).mean(axis=1) * 60], axis=1
    )
    things = (Labels(cluster="llama", job="llama-70b"),)
    return Frame("run", things, START, STEP, (COUNTS, AGES), values[None].astype(np.float32))


@story("checkpoints", *every(60, 2, 6), 10, *every(10, 10.5, 11.2))
def the_interval_of_a_trial_is_that_of_its_newest_attempt():
    return World(Fleet(4), frames={"run": trial(90, (120, 250), 250 + 30 + 181)})


@story("checkpoints", 10, *every(10, 10.5, 11.2))
def checkpoints_that_fall_within_a_reading_date_none():
    return World(Fleet(4), frames={"run": trial(73, (123,), 123 + 30 + 360)})


# What AWS says that it will take away.

AT = hours(30) - timedelta(minutes=3)
PLACE = Labels(region="us-west-2", account="111122223333")
SPOT = NoticeKind.INTERRUPTION


def notice(
    *nodes: str, kind: NoticeKind = SPOT, at: datetime = AT, due: float | None = 2, **more: str
) -> Notice:
    """Return a notice of some nodes that is due after so many minutes."""
    name = more.pop("id", f"{kind}-{at:%H%M}-{'-'.join(nodes)}")
    ends = None if due is None else at + timedelta(minutes=due)
    return Notice(name, kind, at, PLACE, nodes, due=ends, **more)


class Noticed(World):
    """Read fleets, and the notices that were said by then."""

    def reading(self, now: datetime):
        told = tuple(x for x in self.more["notices"] if x.at <= now)
        return replace(super().reading(now), notices=told)


def noticed(*notices: Notice, fleet: Fleet | None = None, **more: object) -> World:
    frames = more.pop("frames", {"run": run(saved=29.6, job="pretrain")})
    return Noticed(fleet or Fleet(4), notices=notices, frames=frames, **more)


@story("notices", 29.9, *every(5, 30, 30.7))
def a_spot_node_is_taken_back():
    return noticed(notice("i-llama001", at=hours(30) - timedelta(minutes=1), what="terminate"))


@story("notices", 30, 30.2)
def four_nodes_are_taken_back_one_after_the_other():
    return noticed(
        *(notice(f"i-llama00{i}", at=AT + timedelta(seconds=20 * i)) for i in (2, 0, 1, 3))
    )


@story("notices", 30)
def three_nodes_are_named_one_by_one():
    return noticed(*(notice(f"i-llama00{i}") for i in range(3)))


@story("notices", 29.98, 30.2)
def a_node_that_is_being_taken_loses_all_since_its_checkpoint():
    frames = {"run": run(saved=29.3, stands_from=29.5, job="pretrain")}
    return noticed(notice("i-llama001"), frames=frames)


@story("notices", 30)
def a_rebalance_recommendation_came_before_and_health_reports_trouble():
    before = notice("i-llama002", kind=NoticeKind.REBALANCE, at=AT - timedelta(minutes=1), due=None)
    return noticed(
        notice("i-llama003", kind=NoticeKind.HEALTH, due=None), before, notice("i-llama001")
    )


@story("notices", 30)
def many_notices_of_one_node():
    kinds = [NoticeKind.REBALANCE] * 6
    return noticed(
        *(notice("i-llama001", kind=kind, due=None, id=str(i)) for i, kind in enumerate(kinds))
    )


@story("notices", 29.9, 30)
def a_node_that_is_none_of_ours_and_a_notice_of_yesterday():
    return noticed(notice("i-webserver"), notice("i-llama001", at=hours(6)))


@story("notices", 30, *every(10, 30.2, 30.8))
def a_node_that_has_gone_meanwhile():
    fleet = Fleet(4).silence(hours(30), hours(48), slice(1, 2))
    fleet.ended[1] = hours(30)
    return noticed(notice("i-llama001"), fleet=fleet)


@story("notices", 30, *every(10, 41.8, 42.1))
def a_retirement_is_told_two_days_ahead():
    plan = {"kind": NoticeKind.RETIREMENT, "due": 60 * 89.0, "subject": "AWS_EC2_R_1"}
    return noticed(notice("i-llama001", at=hours(1), **plan))


@story("notices", 30, *every(10, 33, 34))
def a_maintenance_is_told_until_half_an_hour_after_it():
    plan = {"kind": NoticeKind.MAINTENANCE, "due": 60 * 32.0, "subject": "AWS_EC2_M_1"}
    return noticed(notice("i-llama001", "i-llama002", at=hours(1.25), **plan))


@story("notices", 30, 30.2)
def a_capacity_block_ends():
    """Two nodes are in it, one in a block of another zone, and one is on demand."""
    fleet = Fleet(4, zones=("us-west-2d", "us-west-2d", "us-west-2c", "us-west-2d"))
    place = Labels(instance_type="trn1.32xlarge", zone="us-west-2d", region="us-west-2")
    block = Reservation(
        place.merge(Labels(resource="cr-1")), 2, 0, START, hours(31), Market.CAPACITY_BLOCK
    )
    end = notice(kind=NoticeKind.BLOCK_END, due=10, reservation="cr-1", subject="cr-1")
    world = noticed(end, fleet=fleet, inventory={"reservations": (block,)})
    inventory = world.inventory(hours(30))
    nodes = dict(inventory.instances)
    for name in fleet.ids[:3]:
        nodes[name] = replace(nodes[name], market=Market.CAPACITY_BLOCK)
    world._inventories = {key: replace(inventory, instances=nodes) for key in world._inventories}
    return world


@story("notices", 30)
def the_age_of_the_checkpoint_is_not_known():
    return noticed(notice("i-llama001"), frames={})


@story("notices", 30)
def of_two_runs_without_job_tags_none_is_guessed():
    return noticed(notice("i-llama001"), frames={"run": together(run(job="a"), run(job="b"))})


@story("notices", 30)
def the_job_of_a_node_is_in_its_tag():
    frames = {"run": together(run(job="a", saved=29.6), run(job="b"))}
    return noticed(notice("i-llama001"), fleet=Fleet(4, job="a"), frames=frames)


def beside_a_run(taken: str) -> World:
    """Take back a node of a cluster in which three nodes start again for a run, and one works on."""
    start, report = hours(28), hours(28.5)
    fleet = Fleet(4).stop(start, report, nodes=slice(0, 3))
    attempt = run(saved=29.6, job="pretrain")
    attempt.values[:, fleet.cut(start, report)[1]] = NAN
    return noticed(notice(taken), fleet=fleet, frames={"run": attempt})


@story("notices", 30)
def a_node_that_worked_on_as_the_run_began_is_taken_back():
    return beside_a_run("i-llama003")


@story("notices", 30)
def a_node_that_began_with_the_run_is_taken_back():
    return beside_a_run("i-llama001")


@story("notices", 30)
def a_node_that_never_reported_is_taken_back():
    fleet, extra = Fleet(4), Fleet(1, seed=2)
    extra.ids = ["i-never"]
    world = noticed(notice("i-never"), fleet=fleet)
    world.fleets = (fleet, extra)
    return world


@story("notices", 30)
def a_node_outside_any_cluster():
    return noticed(notice("i-000"), fleet=Fleet(2, cluster=""))


# Storage and capacity.


HOUR = timedelta(hours=1)
LONG_AGO = START - timedelta(days=60)


def measured(
    kind: str,
    names: Sequence[str],
    values: Mapping[str, np.ndarray],
    labels: Labels,
    step: timedelta = HOUR,
) -> dict[str, Frame]:
    """Return the frame of one thing; metrics not given are nan."""
    n = len(next(iter(values.values())))
    columns = np.full((1, n, len(names)), NAN, np.float32)
    for name, column in values.items():
        columns[0, :, list(names).index(name)] = column
    return {kind: Frame(kind, (labels,), START, step, tuple(names), columns)}


def volume(name: str = "vol-1", state: str = "available", **more: object) -> Volume:
    labels = Labels(resource=name, region="us-west-2", team=str(more.pop("team", "a")))
    return Volume(labels, 4000, "gp3", state, LONG_AGO, **more)


CALM = policy(odd__on=False)


@story("storage", 30, 31)
def a_volume_is_attached_to_nothing_and_one_is_in_use():
    volumes = (volume(), volume("vol-2", "in-use", attached_to="i-1"))
    return World(Fleet(2), inventory={"volumes": volumes})


@story("storage", 95, 95.9, *every(5, 96, 96.2), 120)
def a_volume_was_attached_for_a_day():
    reads = np.where(np.arange(144) < 24, 1.0, NAN)
    frames = measured("volume", VOLUME_METRICS, {"ebs_read_bytes": reads}, volume().labels)
    return World(Fleet(2, days=6), inventory={"volumes": (volume(),)}, frames=frames, policy=CALM)


def let_go() -> World:
    """Return volumes of two teams that were let go, three of them within minutes of each other."""
    let_go = {"vol-1": 24, "vol-2": 24.1, "vol-3": 26, "vol-4": 24}
    volumes = tuple(
        volume(name, detached_at=hours(hour), team="b" if name == "vol-4" else "a")
        for name, hour in let_go.items()
    )
    return World(Fleet(2, days=6), inventory={"volumes": volumes}, policy=CALM)


@story("storage", *every(5, 96, 96.3), 98.1)
def volumes_that_one_event_let_go_are_one_finding():
    return let_go()


@story("storage", 98.1)
def volumes_that_one_event_let_go_are_one_finding_at_first_sight():
    return let_go()


def file_system(clients: np.ndarray, reads: np.ndarray) -> World:
    values = {"fsx_client_connections_count": clients, "fsx_read_operations_count": reads}
    labels = Labels(resource="fs-1", cluster="llama")
    system = FileSystem(labels, 9600, "PERSISTENT_2", 125, LONG_AGO)
    frames = measured("file_system", FILE_SYSTEM_METRICS, values, labels)
    return World(
        Fleet(2, days=6), inventory={"file_systems": (system,)}, frames=frames, policy=CALM
    )


@story("storage", 71, 72, 73, 110)
def a_file_system_has_no_clients():
    return file_system(np.zeros(144), np.zeros(144))


@story("storage", 71, *every(60, 100, 104), 130)
def a_file_system_is_read_for_a_day_and_again_at_the_end():
    reads = np.zeros(144)
    reads[10:30], reads[125] = 1, 1
    return file_system(np.zeros(144), reads)


@story("storage", 110)
def a_file_system_of_which_nothing_is_read():
    clients = np.zeros(144)
    clients[30:] = NAN
    return file_system(clients, clients)


@story("storage", *every(60, 72, 76))
def a_file_system_of_which_every_tenth_hour_is_read_less():
    clients = np.zeros(144)
    clients[::9] = NAN
    return file_system(clients, np.where(np.arange(144) < 2, 1.0, clients))


def reserved(
    total: int, available: int, start: float, end: float | None = None, **labels: str
) -> Reservation:
    place = Labels(resource="cr-1", instance_type="trn1.32xlarge").merge(Labels(**labels))
    return Reservation(place, total, available, hours(start), None if end is None else hours(end))


@story("storage", 20.5, *every(5, 20.9, 21.1), 30, 39, 40, 40.3)
def half_of_the_places_of_a_reservation_are_empty():
    return World(Fleet(2), inventory={"reservations": (reserved(8, 4, 20, 40),)})


@story("storage", 30)
def reservations_without_a_place_left_or_any():
    full, none = reserved(8, 0, 20), replace(reserved(0, 0, 20), labels=Labels(resource="cr-2"))
    return World(Fleet(2), inventory={"reservations": (full, none)})


@story("storage", 30.25, *every(15, 30.75, 31.5))
def a_node_just_left_its_place_in_a_reservation():
    fleet = Fleet(4, ended={3: hours(30)}).silence(hours(30), hours(48), slice(3, 4))
    return World(fleet, inventory={"reservations": (reserved(4, 1, 0),)})


@story("storage", 30.25)
def a_node_of_another_region_and_one_of_another_type_left():
    fleet = Fleet(4, ended={3: hours(30)}).silence(hours(30), hours(48), slice(3, 4))
    apart = (
        reserved(4, 1, 0, region="us-east-1"),
        replace(reserved(4, 1, 0), labels=Labels(resource="cr-2", instance_type="trn2.48xlarge")),
    )
    return World(fleet, inventory={"reservations": apart})
