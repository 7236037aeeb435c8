"""Peers that wait for a compiling leader share its grace."""

import numpy as np
import pytest
from builder import HBM, Fleet, World, hours

from bot.model.causes import Cause

COMPILES = {"neuroncore_memory": 0.004 * HBM, "neuron_runtime": 1e9, "host_cpu": 0.6}
HELD = {"neuroncore_utilization": 0, "neuron_execution_latency": np.nan, "efa": 0, "host_cpu": 0.03}


def job(peers, reserved=32):
    """Return eight nodes of which the first compiles from the thirtieth hour, and the others do what is given."""
    fleet = Fleet(8).stop(hours(30), hours(40)).set(hours(0), hours(40), neuroncore_reserved=reserved)
    fleet.set(hours(30), hours(40), slice(1, 8), **peers)
    return fleet.set(hours(30), hours(40), slice(0, 1), **COMPILES)


@pytest.mark.parametrize("peers", [{}, HELD | {"neuroncore_memory": 0.01 * HBM, "neuron_runtime": 1e9}])
def test_peers_of_a_compiling_leader_are_not_told_within_its_grace(peers):
    world = World(job(peers))
    assert [x.cause for x in world.at(hours(30.75)).anomalies] == []
    assert world.at(hours(31.1)).anomalies, "past the grace it is waste"


def test_a_node_without_a_pod_waits_for_nobody():
    fleet = job({}).set(hours(30), hours(40), slice(4, 8), neuroncore_reserved=0)
    (one,) = World(fleet).at(hours(30.75)).anomalies
    assert (one.cause, len(one.things)) == (Cause.IDLE, 4)


def test_a_node_that_did_nothing_long_before_the_compile_waits_for_nobody():
    fleet = job({}).stop(hours(29.25), hours(40), slice(6, 8))
    (one,) = World(fleet).at(hours(30.5)).anomalies
    assert (one.cause, len(one.things)) == (Cause.ALLOCATED_UNUSED, 2)
