"""Sentences say what was seen: no number of a stretch counts silence, or is of another stretch."""

import re
from dataclasses import fields

import numpy as np
import pytest
from builder import Fleet, World, hours, only

from bot.model.causes import Cause
from detectors.nodes.drop_cause import Signs, _why
from detectors.numbers import gaps_up_to, seen_within


def test_silence_is_not_counted_as_idleness():
    fleet = Fleet(4).stop(hours(30), hours(40)).silence(hours(30.25), hours(30 + 25 / 60))
    world = World(fleet)
    assert world.at(hours(30.5)).anomalies == (), "of 30 minutes, ten were silence"
    assert world.at(hours(30 + 35 / 60)).anomalies == ()
    one = only(world.at(hours(30 + 40 / 60)))
    assert (one.cause, "for 30 min on 4 nodes" in one.why) == (Cause.IDLE, True), one.why


def test_a_long_silence_parts_what_was_before_from_what_came_after():
    fleet = Fleet(4).stop(hours(30), hours(40)).silence(hours(30.25), hours(31))
    assert Cause.IDLE not in [x.cause for x in World(fleet).at(hours(31.25)).anomalies]


def test_a_runtime_that_was_silent_is_not_counted_as_unused():
    held = {
        "neuroncore_utilization": 0,
        "neuron_execution_latency": np.nan,
        "efa": 0,
        "host_cpu": 0.03,
    }
    fleet = Fleet(1).set(hours(30), hours(40), **held).silence(hours(30.25), hours(30.5))
    world = World(fleet)
    assert world.at(hours(30.6)).anomalies == ()
    assert "for 30 min." in only(world.at(hours(30.75))).why


def test_the_level_of_an_idle_stretch_is_of_all_of_it():
    fleet = (
        Fleet(2)
        .stop(hours(30), hours(40))
        .set(hours(31.25), hours(31.5), neuroncore_utilization=0.02)
    )
    why = only(World(fleet).at(hours(31.5))).why
    assert re.match("NeuronCore utilization 0 % for 1 h 30 min on 2 nodes", why), why


def test_gaps_part_a_streak_by_their_length():
    unknown = np.array([[0, 1, 0, 1, 1, 1, 0, 1, 1, 1, 1]], dtype=bool)
    assert gaps_up_to(unknown, 2).astype(int).tolist() == [[0, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1]], (
        "the last one still goes on"
    )
    assert seen_within(~unknown, np.array([5])).tolist() == [1]


NOTHING_READ = dict.fromkeys([x.name for x in fields(Signs)], float("nan")) | {
    "level": 0.2,
    "usual": 0.9,
    "alone": False,
}


@pytest.mark.parametrize("cause", [Cause.STARVED, Cause.NETWORK_BOUND, Cause.COLLECTIVE_PATH])
def test_a_sentence_leaves_out_what_was_not_read(cause):
    said = _why(Signs(**NOTHING_READ), cause, "NeuronCore utilization")
    assert "nan" not in said
    assert "EFA" not in said


def test_steps_that_stand_still_go_on_at_no_pace():
    said = _why(Signs(**(NOTHING_READ | {"pace": 0.001})), Cause.STARVED, "NeuronCore utilization")
    assert "steps stand still" in said
    assert "0.00x" not in said
