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


def test_the_usual_of_an_hour_is_the_lowest_within_an_hour_of_it():
    levels = np.arange(24, dtype=np.float32)[:, None].repeat(2, axis=1)
    levels[12, 1] = np.nan
    assert around(levels, START.replace(hour=12, minute=30)).tolist() == [11.0, 11.0]
    assert around(levels, START.replace(minute=30)).tolist() == [0.0, 0.0]
    assert around(levels, START.replace(hour=23, minute=30)).tolist() == [0.0, 0.0]
