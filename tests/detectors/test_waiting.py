"""Peers that wait for a compiling leader share its grace."""

import numpy as np
import pytest
from builder import HBM, Fleet, World, hours

from bot.model.causes import Cause

COMPILES = {"neuroncore_memory": 0.004 * HBM, "neuron_runtime": 1e9, "host_cpu": 0.6}
HELD = {"neuroncore_utilization": 0, "neuron_execution_latency": np.nan, "efa": 0, "host_cpu": 0.03}


def job(peers, reserved=32):
    """Return eight nodes of which the first compiles from the thirtieth hour, and the others do what is given."""
    fleet = (
        Fleet(8).stop(hours(30), hours(40)).set(hours(0), hours(40), neuroncore_reserved=reserved)
    )
    fleet.set(hours(30), hours(40), slice(1, 8), **peers)
    return fleet.set(hours(30), hours(40), slice(0, 1), **COMPILES)


@pytest.mark.parametrize(
    "peers", [{}, HELD | {"neuroncore_memory": 0.01 * HBM, "neuron_runtime": 1e9}]
)
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


def test_another_job_of_the_cluster_waits_for_nobody():
    fleet = job({}).stop(hours(29.7), hours(40), slice(5, 8))
    (other,) = World(fleet).at(hours(30.5)).anomalies
    assert (other.cause, other.things) == (
        Cause.ALLOCATED_UNUSED,
        ("i-llama005", "i-llama006", "i-llama007"),
    )


def test_a_job_whose_pods_come_together_waits_however_long_its_nodes_had_rested():
    fleet = job({}).stop(hours(29), hours(30), neuroncore_reserved=0)
    assert [
        x.cause for _, tick in World(fleet).ticks(hours(30.2), hours(30.9)) for x in tick.anomalies
    ] == []


@pytest.mark.parametrize(("theirs", "waits"), [("tune", True), ("", True), ("probe", False)])
def test_nodes_whose_tag_names_another_job_wait_for_nobody(theirs, waits):
    leader = Fleet(1, job="tune").stop(hours(30), hours(40)).set(hours(30), hours(40), **COMPILES)
    peers = Fleet(2, job=theirs, seed=2).stop(hours(30), hours(40))
    peers.ids = ["i-peer0", "i-peer1"]
    for fleet in (leader, peers):
        fleet.set(hours(0), hours(40), neuroncore_reserved=32)
    assert (World(leader, peers).at(hours(30.75)).anomalies == ()) is waits
