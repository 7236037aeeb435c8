"""What is usual for a node is learnt from when it was well, never from what was told of it."""

from datetime import timedelta

import numpy as np
import pytest
from builder import START, STEP, Fleet, hours

from bot.model.fleet import Inventory
from detectors.roster import build_roster
from detectors.usual import SAMPLE, Usual, learn

STARVED = (hours(8), hours(20))
"""Twelve of twenty-four hours: whoever learns from them takes a node at 20 % for one that does as it always does."""


def learnt(told) -> Usual:
    """Learn from a day on whose twelve hours two of four nodes starved; `told` says of which nodes that was known."""
    fleet = Fleet(days=1).starve(*STARVED, slice(0, 2))
    frame = fleet.frame()
    spans = ((tuple(fleet.ids[i] for i in told), *STARVED),) if told else ()
    return learn(frame, build_roster(frame.things, Inventory(START)), np.full(4, 0.05), spans)


def test_what_was_flagged_is_not_learnt():
    usual = learnt(told=(0, 1))
    for level in (usual.low, usual.middle, usual.high):
        assert level == pytest.approx([0.9] * 4, abs=0.05)
    assert usual.medians["host_cpu_utilization_ratio"] == pytest.approx([0.11] * 4, abs=0.02)


def test_what_nobody_was_told_of_is_learnt():
    usual = learnt(told=())
    assert usual.low[:2] == pytest.approx([0.2] * 2, abs=0.03)
    assert usual.low[2:] == pytest.approx([0.9] * 2, abs=0.05)


def test_only_the_nodes_that_were_told_are_left_out():
    usual = learnt(told=(0,))
    assert usual.low == pytest.approx([0.9, 0.2, 0.9, 0.9], abs=0.05)


def test_what_lies_outside_of_what_is_learnt_from_blanks_nothing():
    fleet = Fleet(days=1)
    frame = fleet.frame()
    before = (tuple(fleet.ids), START - timedelta(days=3), START)
    after = (tuple(fleet.ids), START + timedelta(days=1), START + timedelta(days=2))
    roster = build_roster(frame.things, Inventory(START))
    usual, same = (learn(frame, roster, np.full(4, 0.05), spans) for spans in ((before, after), ()))
    assert np.array_equal(usual.middle, same.middle)
    assert STEP < SAMPLE
