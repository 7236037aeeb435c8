"""State the evidence from the cores and devices of suspicious nodes, where they were read."""

from datetime import timedelta

import numpy as np
import pytest
from builder import START, Fleet, World, hours, only

from bot.model.frame import Frame
from bot.model.labels import Labels

FIVE = timedelta(minutes=5)
FAULTY = "i-llama002"


def frame(kind, metric, rows):
    """Build a frame of things with one level each, over the fleet's two days."""
    values = np.array([[[level]] * 576 for _, level in rows], dtype=np.float32)
    return Frame(kind, tuple(labels for labels, _ in rows), START, FIVE, (metric,), values)


def cores(levels):
    rows = [
        (Labels(instance=FAULTY, core=str(i), resource=f"device{i // 2}"), x)
        for i, x in enumerate(levels)
    ]
    return frame("core", "neuroncore_utilization_ratio", rows)


def fault(**frames):
    fleet = Fleet(4).set(hours(30), hours(31), slice(2, 3), neuron_hardware_ecc_events=20)
    return only(World(fleet, frames=frames).at(hours(30.5)))


def test_cores_that_stand_still_are_counted_and_placed():
    found = fault(core=cores([0.9, 0.85, 0.0, 0.0, 0.91, 0.9]))
    assert (
        f"{FAULTY}: 2 of 6 cores at 0 % (core 2, 3 of device1), the others at 85-91 %"
        in found.evidence
    )


def test_cores_that_all_work_alike_say_so():
    assert f"{FAULTY}: all 4 cores at 88-90 %" in fault(core=cores([0.9, 0.88, 0.89, 0.9])).evidence


def test_the_device_of_a_fault_is_named():
    events = [(Labels(instance=FAULTY, resource=f"device{i}"), 5.0 * (i == 3)) for i in range(4)]
    found = fault(device=frame("device", "neuron_hardware_ecc_events_count", events))
    assert found.why.endswith(f"on {FAULTY} (device3 of {FAULTY}).")
    assert any(x.startswith(f"device3 of {FAULTY}: ") for x in found.evidence)


def test_a_closer_look_changes_no_alert():
    near = fault(core=cores([0.0] * 4))
    assert (near.key, near.things, near.window, near.score) == (
        (far := fault()).key,
        far.things,
        far.window,
        far.score,
    )
    assert near.why == far.why


HIGHEST = "neuroncore_utilization_highest_ratio"


def half_used():
    """Return a fleet of which half of the cores stand still, the others as busy as ever."""
    fleet = Fleet(4)
    fleet.metrics[HIGHEST] = fleet.metrics["neuroncore_utilization_ratio"] + 0.02
    fleet.metrics["neuroncore_utilization_ratio"][fleet.cut(hours(30), hours(34))] *= 0.62
    return fleet.scale(hours(30), hours(34), efa=0.62)


def test_cores_that_were_read_are_counted_and_not_estimated():
    """The job works harder on the cores it has, so the mean alone says that more of them work."""
    read = cores([0.97] * 16 + [0.0] * 16)
    (alert,) = World(half_used(), frames={"core": read}).run(hours(29), hours(32))
    assert alert.anomaly.why.startswith("Only 16 of 32 cores work on 4 nodes for ")
    still = "(core 16, 17, 18, 19, ... of device8, device9, device10, device11)"
    assert f"{FAULTY}: 16 of 32 cores at 0 % {still}, the others at 97 %" in alert.anomaly.evidence


def test_the_others_may_work_a_little_less_while_some_cores_stand_still():
    fleet, less = half_used(), {HIGHEST: 0.85, "neuroncore_utilization_ratio": 0.85}
    for hour in (31, 31.5, 32):
        fleet.scale(hours(hour), hours(hour) + FIVE, slice(0, 2), **less)
    (alert,) = World(fleet).run(hours(30), hours(32.5))
    assert len(alert.anomaly.things) == 4


def pods(**levels):
    """Return pods of namespaces and how busy their cores are: eight each, but one and none of two."""
    held = {"kepler_1": 1.0, "viewer_0": 0.0}
    things = tuple(
        Labels(cluster="llama", namespace=name.partition("_")[0], pod=name) for name in levels
    )
    newest = [[level, held.get(name, 8.0)] for name, level in levels.items()]
    values = np.array([[reading] * 576 for reading in newest], dtype=np.float32)
    metrics = ("neuroncore_utilization_ratio", "neuroncore_request_count")
    return Frame("pod", things, START, FIVE, metrics, values)


@pytest.mark.parametrize(
    ("levels", "namespace"),
    [
        ({"atlas_0": 0.9, "kepler_0": 0.0, "kepler_1": 0.0, "viewer_0": 0.0}, "kepler"),
        ({"atlas_0": 0.0, "kepler_0": 0.0}, ""),
        ({"atlas_0": 0.9}, ""),
        ({"atlas_0": 0.9, "default_0": 0.0}, ""),
    ],
)
def test_an_alert_about_cores_is_of_the_namespace_whose_pods_stand_still(levels, namespace):
    alert = only(World(half_used(), frames={"pod": pods(**levels)}).at(hours(31)))
    assert alert.labels.namespace == namespace
    evidence = "9 cores held for nothing by 2 pods of kepler: kepler_0, kepler_1"
    assert (evidence in alert.evidence) == bool(namespace)
