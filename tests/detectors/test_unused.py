"""Storage, reservations and checkpoints."""

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import numpy as np
import pytest
from builder import HBM, START, Fleet, World, hours, only

from bot.model.causes import Cause
from bot.model.fleet import FileSystem, Reservation, Volume
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.reading import FILE_SYSTEM_METRICS, RUN_METRICS, VOLUME_METRICS

HOUR = timedelta(hours=1)
LONG_AGO = START - timedelta(days=60)


def frame(kind, names, values, labels, step=HOUR):
    """Return a frame of one thing; metrics not given are nan."""
    n = len(next(iter(values.values())))
    every = np.full((1, n, len(names)), np.nan, np.float32)
    for name, column in values.items():
        every[0, :, list(names).index(name)] = column
    return Frame(kind, (labels,), START, step, tuple(names), every)


def volume(state="available", attached="", detached_at=None):
    labels = Labels(resource="vol-1", region="us-west-2")
    return Volume(labels, 4000, "gp3", state, LONG_AGO, attached, detached_at=detached_at)


@pytest.mark.parametrize(
    ("one", "causes"), [(volume(), [Cause.ORPHANED_STORAGE]), (volume("in-use", "i-1"), [])]
)
def test_an_available_volume_is_an_orphan(one, causes):
    world = World(Fleet(2), inventory={"volumes": (one,)})
    assert [a.cause for a in world.at(hours(30)).anomalies] == causes


@pytest.mark.parametrize(("hour", "told"), [(90, False), (100, True)])
def test_a_volume_that_was_attached_is_given_three_days(hour, told):
    metrics = frame(
        "volume",
        VOLUME_METRICS,
        {"ebs_read_bytes": np.where(np.arange(120) < 24, 1.0, np.nan)},
        volume().labels,
    )
    world = World(Fleet(2, days=5), inventory={"volumes": (volume(),)}, frames={"volume": metrics})
    found = world.at(hours(hour)).anomalies
    assert bool(found) is told
    assert not told or (found[0].window.start, found[0].wasted_shares) == (hours(24), (1.0,))


@pytest.mark.parametrize(("hour", "told"), [(90, False), (100, True)])
def test_a_volume_without_metrics_is_orphaned_since_it_was_seen_detached_after_its_grace(
    hour, told
):
    found = (
        World(Fleet(2, days=5), inventory={"volumes": (volume(detached_at=hours(24)),)})
        .at(hours(hour))
        .anomalies
    )
    assert [a.window.start for a in found] == [hours(24)] * told


@pytest.mark.parametrize(("quiet", "told"), [("all", True), ("used", False), ("unread", False)])
def test_a_file_system_without_clients_is_an_orphan(quiet, told):
    clients, reads = np.zeros(120), np.zeros(120)
    if quiet == "used":
        reads[80] = 1
    if quiet == "unread":
        clients[30:] = reads[30:] = np.nan
    labels = Labels(resource="fs-1", cluster="llama")
    values = {"fsx_client_connections_count": clients, "fsx_read_operations_count": reads}
    system = FileSystem(labels, 9600, "PERSISTENT_2", 125, LONG_AGO)
    frames = {"file_system": frame("file_system", FILE_SYSTEM_METRICS, values, labels)}
    found = (
        World(Fleet(2, days=5), inventory={"file_systems": (system,)}, frames=frames)
        .at(hours(110))
        .anomalies
    )
    assert [a.cause for a in found] == [Cause.ORPHANED_STORAGE] * told


@pytest.mark.parametrize(("available", "told"), [(4, True), (0, False)])
def test_empty_places_of_a_reservation_are_told(available, told):
    one = Reservation(
        Labels(resource="cr-1", instance_type="trn1.32xlarge"), 8, available, hours(20), None
    )
    found = World(Fleet(2), inventory={"reservations": (one,)}).at(hours(30)).anomalies
    assert [(a.cause, a.wasted_shares) for a in found] == [(Cause.UNUSED_CAPACITY, (0.5,))] * told


@pytest.mark.parametrize(("hour", "told"), [(30.25, False), (31.5, True)])
def test_a_place_that_a_node_just_left_is_not_empty_yet(hour, told):
    one = Reservation(Labels(resource="cr-1", instance_type="trn1.32xlarge"), 4, 1, START, None)
    fleet = Fleet(4, ended={3: hours(30)}).silence(hours(30), hours(48), slice(3, 4))
    found = World(fleet, inventory={"reservations": (one,)}).at(hours(hour)).anomalies
    assert [a.cause for a in found] == [Cause.UNUSED_CAPACITY] * told


def saved(until, steps_go_on=True):
    """Return a run that saves every 45 minutes until an hour, then no more."""
    step = timedelta(minutes=5)
    minutes = np.arange(576) * 5.0
    last = np.minimum(minutes, until * 60) // 45 * 45
    progress = minutes if steps_go_on else np.minimum(minutes, until * 60)
    values = {"run_checkpoint_age_seconds": (minutes - last) * 60, "run_step_count": progress * 10}
    return frame("run", RUN_METRICS, values, Labels(cluster="llama", job="llama-70b"), step)


def test_a_run_that_stopped_saving_is_at_risk():
    world = World(Fleet(4), frames={"run": saved(30)})
    assert world.at(hours(31)).anomalies == ()
    risk = only(world.at(hours(32.5)))
    assert (risk.cause, risk.scope, len(risk.things)) == (
        Cause.CHECKPOINT_AT_RISK,
        Labels(cluster="llama", job="llama-70b"),
        4,
    )
    assert "usually one at least every" in risk.why


def test_a_run_that_stands_still_has_nothing_new_to_lose():
    assert (
        World(Fleet(4), frames={"run": saved(30, steps_go_on=False)}).at(hours(32.5)).anomalies
        == ()
    )


def trial(every, starts, until):
    """Return a run that saves after each start at once and then every so often, as five-minute means of its age tell it."""
    minutes, starts = np.arange(2880), (0, *starts)
    saves = [m for a, b in pairwise([*starts, until]) for m in (a, a + 8, *range(a + 30, b, every))]
    age = minutes - np.array([max(x for x in saves if x <= m) for m in minutes])
    begun = np.array([max(x for x in starts if x <= m) for m in minutes])
    values = {
        "run_checkpoint_age_seconds": age.reshape(-1, 5).mean(axis=1) * 60,
        "run_step_count": 10.0 * (minutes - begun)[4::5],
    }
    return frame(
        "run", RUN_METRICS, values, Labels(cluster="llama", job="llama-70b"), timedelta(minutes=5)
    )


def test_what_a_restart_brings_is_no_interval_between_checkpoints():
    """A trial that is interrupted again and again has early first checkpoints; those it writes come every 90 minutes."""
    run = trial(90, starts=(30, 65, 100), until=2880)
    assert World(Fleet(4), frames={"run": run}).run(hours(1), hours(6)) == []


def test_the_interval_is_known_after_three_checkpoints_of_one_attempt():
    world = World(Fleet(4), frames={"run": trial(90, starts=(120, 250), until=250 + 30 + 181)})
    assert world.at(hours(10)).anomalies == ()
    risk = only(world.at(hours(11)))
    assert risk.cause is Cause.CHECKPOINT_AT_RISK
    assert risk.usual is not None
    assert risk.usual[1] == pytest.approx(95 * 60, abs=61)


def test_full_memory_on_the_nodes_of_another_job_explains_no_missing_checkpoint():
    fleet = Fleet(4).set(
        hours(30), hours(34), slice(0, 3), neuroncore_memory=0.97 * HBM, neuron_runtime=0.97 * HBM
    )
    found = {a.cause for a in World(fleet, frames={"run": saved(30)}).at(hours(32.5)).anomalies}
    assert found == {Cause.MEMORY_PRESSURE, Cause.CHECKPOINT_AT_RISK}


def test_volumes_that_one_event_let_go_are_one_finding():
    """What joins minutes later stays with the alert, another hour and another team are apart."""
    let_go = {"vol-1": 24, "vol-2": 24.1, "vol-3": 26, "vol-4": 24}
    volumes = tuple(
        replace(
            volume(detached_at=hours(hour)),
            labels=Labels(resource=name, region="us-west-2", team="b" if name == "vol-4" else "a"),
        )
        for name, hour in let_go.items()
    )
    world = World(Fleet(2, days=6), inventory={"volumes": volumes})
    *_, (_, detection) = world.ticks(hours(96), hours(99), HOUR / 12)
    found = {a.scope.resource: (a.things, a.wasted_shares) for a in detection.anomalies}
    assert found == {
        "vol-1": (("vol-1", "vol-2"), (1.0, 1.0)),
        "vol-3": (("vol-3",), (1.0,)),
        "vol-4": (("vol-4",), (1.0,)),
    }
    assert "2 volumes of 8,000 GiB together" in detection.anomalies[0].why


def halved(back, days=3.0, stopped=True):
    """Return nodes of which half of the cores work from hour 30 until another one."""
    fleet = Fleet(4, days=days).set(hours(0), hours(24 * days), neuroncore_utilization_highest=0.92)
    fleet.stop(hours(30), hours(30.2)) if stopped else None
    return fleet.scale(
        hours(30),
        hours(back),
        neuroncore_utilization_ratio=0.5,
        neuroncore_memory=0.5,
        neuron_runtime_memory=0.5,
    )


@pytest.mark.parametrize("back", [39, 45], ids=["for hours", "for longer than starts are known"])
def test_a_job_that_starts_again_on_half_of_its_cores_is_told_until_it_uses_them(back):
    alerts = World(halved(back)).run(hours(29), hours(back + 6))
    (alert,) = alerts
    assert alert.cause is Cause.ALLOCATED_UNUSED
    assert alert.anomaly.why.startswith("Only about 16 of 32 cores work on 4 nodes for ")
    assert "utilization 45 %, usually 89-9" in alert.anomaly.why
    assert alert.anomaly.wasted_shares == pytest.approx([0.5] * 4, abs=0.03)
    assert alert.opened <= hours(31)
    assert hours(back) <= alert.closed <= hours(back + 0.6)


def test_another_job_that_holds_half_of_the_memory_is_no_part_of_the_one_before():
    fleet = halved(39).scale(hours(30.2), hours(39), neuron_execution_latency=0.6)
    assert World(fleet).run(hours(29), hours(33)) == []
