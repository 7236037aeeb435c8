"""What is meant, or is of the collector, is no waste: tags of purpose, silence of all, clocks that change."""

from dataclasses import replace

import numpy as np
import pytest
from builder import START, Fleet, World, hours
from test_rarity import progress

from bot.model.causes import Cause
from bot.model.fleet import Market, Reservation
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


@pytest.mark.parametrize(
    ("ends", "reservation", "raised"),
    [
        (31.8, "cr-1", set()),
        (40, "cr-1", {Cause.IDLE}),
        (31.8, "", set()),
        (31.8, "cr-2", {Cause.IDLE}),
    ],
)
def test_nobody_begins_anything_in_the_last_hour_of_a_capacity_block(ends, reservation, raised):
    world = World(Fleet(4).stop(hours(31), hours(34), slice(0, 2)))
    plain = world.inventory

    def in_a_block(now):
        inventory = plain(now)
        nodes = {
            name: replace(instance, market=Market.CAPACITY_BLOCK, reservation=reservation)
            for name, instance in inventory.instances.items()
        }
        labels = replace(next(iter(nodes.values())).labels, instance="", resource="cr-1")
        block = Reservation(labels, 4, 0, hours(0), hours(ends), Market.CAPACITY_BLOCK)
        return replace(inventory, instances=nodes, reservations=(block,))

    world.inventory = in_a_block
    assert {a.cause for a in world.at(hours(31.7)).anomalies} == raised


def test_all_nodes_silent_at_once_while_their_run_reports_is_the_collector():
    fleet = Fleet(8).silence(hours(30), hours(34))
    blind = World(fleet, frames={"run": progress(fleet)})
    assert blind.at(hours(30.7)).anomalies == ()
    (told,) = blind.at(hours(31.2)).anomalies
    assert told.cause is Cause.NO_DATA
    assert "collector" in told.why
    # Without a run that reports, silence of all is told as soon as that of one.
    assert {a.cause for a in World(fleet).at(hours(30.5)).anomalies} == {Cause.NO_DATA}


def test_lost_packets_name_the_network_though_the_nic_is_not_full():
    fleet = Fleet(8)
    fleet.metrics["efa_rx_dropped_per_second"][:] = 0.0
    fleet.scale(hours(30), hours(34), neuroncore_utilization=0.5, efa_tx=0.5, efa_rx_bytes=0.5)
    fleet.scale(hours(30), hours(34), neuron_execution_latency=2.0)
    fleet.set(hours(30), hours(34), efa_rx_dropped=900.0)
    (told,) = World(fleet).at(hours(31)).anomalies
    assert told.cause is Cause.NETWORK_BOUND
    assert "EFA drops 900 packets a second" in told.evidence


def test_the_usual_of_an_hour_is_the_lowest_within_an_hour_of_it():
    levels = np.arange(24, dtype=np.float32)[:, None].repeat(2, axis=1)
    levels[12, 1] = np.nan
    assert around(levels, START.replace(hour=12, minute=30)).tolist() == [11.0, 11.0]
    assert around(levels, START.replace(minute=30)).tolist() == [0.0, 0.0]
    assert around(levels, START.replace(hour=23, minute=30)).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(("share", "raised"), [(0.5, set()), (0.2, {Cause.STARVED})])
def test_a_job_of_a_shared_node_that_ends_takes_its_share_along(share, raised):
    fleet = Fleet(4)
    fleet.metrics["neuroncore_reserved_count"][:] = 32.0
    fleet.set(hours(30), hours(40), slice(0, 1), neuroncore_reserved=16.0)
    fleet.scale(hours(30), hours(40), slice(0, 1), neuroncore_utilization=share)
    assert {a.cause for a in World(fleet).at(hours(31.2)).anomalies} == raised
