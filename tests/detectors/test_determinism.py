"""The same reading, policy and known alerts give the same detection, whatever the process has seen before."""

from datetime import timedelta

import numpy as np
import pytest
from builder import Fleet, World, hours

from detectors import Detector


@pytest.fixture(scope="module")
def eventful():
    fleet = Fleet(6, days=4).starve(hours(50), hours(53)).stop(hours(55), hours(62), slice(0, 2))
    fleet.scale(hours(66), hours(70), slice(3, 5), efa=0.06, neuron_execution_latency=0.58)
    return fleet.set(hours(66), hours(70), slice(3, 5), host_cpu=0.72, host_memory=0.2)


def test_a_restarted_process_finds_the_same(eventful):
    world = World(eventful)
    world.run(hours(46), hours(51))
    for now, detection in world.ticks(hours(51), hours(72)):
        if now.minute == 35:
            before = world.known
            again = Detector()(world.reading(now), world.policy, before)
            assert again == world.detector(world.reading(now), world.policy, before)
            assert again.states == detection.states


def test_the_future_changes_nothing(eventful):
    whole = World(eventful)
    part = World(Fleet(6, days=4))
    part.whole = whole.whole.until(hours(56))
    assert whole.run(hours(48), hours(56)) == part.run(hours(48), hours(56))


def test_one_minute_steps_find_the_same_story():
    step = timedelta(minutes=1)
    fleet = Fleet(6, days=1, step=step)
    for hour in np.arange(1, 24, 0.75):
        fleet.scale(
            hours(hour), hours(hour) + timedelta(minutes=3), neuroncore_utilization=0, efa=0
        )
    (alert,) = World(fleet.starve(hours(14), hours(16))).run(hours(13.5), hours(17), step)
    assert alert.cause == "starved"
    assert timedelta(0) < alert.opened - hours(14) <= timedelta(minutes=15)
