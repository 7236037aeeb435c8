"""Sentences say what was seen: no number of a stretch counts silence, or is of another stretch."""

from dataclasses import fields

import numpy as np
import pytest
from builder import Fleet, World, hours, only

from bot.model.causes import Cause, Severity
from detectors.nodes.drop_cause import Signs, _why
from detectors.numbers import gaps_up_to, seen_within


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


@pytest.mark.parametrize(
    ("of", "silent", "severity"),
    [
        (4, 1, Severity.WARNING),
        (4, 2, Severity.CRITICAL),
        (4, 4, Severity.CRITICAL),
        (5, 2, Severity.WARNING),
        (1, 1, Severity.WARNING),
    ],
)
def test_a_place_of_which_half_is_silent_is_critical_and_a_node_beside_others_is_not(
    of, silent, severity
):
    fleet = Fleet(of).silence(hours(30), hours(40), slice(0, silent))
    assert only(World(fleet).at(hours(31.5))).severity is severity
