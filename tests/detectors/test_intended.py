"""What is meant, or is of the collector, is no waste: tags of purpose, silence of all, clocks that change."""

from dataclasses import replace

import numpy as np
import pytest
from builder import START, Fleet, World, hours

from bot.model.causes import Cause
from detectors.usual import around


def purposed(world, purpose):
    """Let the inventory tag each node with a purpose."""
    plain = world.inventory

    def tagged(now):
        inventory = plain(now)
        nodes = {
            name: replace(instance, tags={"Purpose": purpose})
            for name, instance in inventory.instances.items()
        }
        return replace(inventory, instances=nodes)

    world.inventory = tagged
    return world


@pytest.mark.parametrize(
    ("purpose", "raised"), [("warm-standby", set()), ("Debug", set()), ("training", {Cause.IDLE})]
)
def test_nodes_kept_ready_on_purpose_may_do_nothing(purpose, raised):
    world = purposed(World(Fleet(4).stop(hours(30), hours(40), slice(0, 2))), purpose)
    assert {a.cause for a in world.at(hours(32)).anomalies} == raised


@pytest.mark.parametrize(("clusters", "raised"), [(1, [4, 4]), (2, [0, 8])])
def test_what_falls_silent_with_another_cluster_waits_for_what_collects(clusters, raised):
    fleets = [Fleet(4, cluster=f"llama{i}") for i in range(3)]
    for fleet in fleets[:clusters]:
        fleet.silence(hours(30), hours(40))
    detections = (World(*fleets).at(hours(hour)) for hour in (30.5, 31.5))
    silent = [[x for a in found.anomalies for x in a.things] for found in detections]
    assert [len(nodes) for nodes in silent] == raised


def test_the_usual_of_an_hour_is_the_lowest_within_an_hour_of_it():
    levels = np.arange(24, dtype=np.float32)[:, None].repeat(2, axis=1)
    levels[12, 1] = np.nan
    assert around(levels, START.replace(hour=12, minute=30)).tolist() == [11.0, 11.0]
    assert around(levels, START.replace(minute=30)).tolist() == [0.0, 0.0]
    assert around(levels, START.replace(hour=23, minute=30)).tolist() == [0.0, 0.0]
