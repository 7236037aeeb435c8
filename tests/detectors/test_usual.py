"""What is usual for a node is learnt from when it was well, never from what was told of it."""

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from builder import START, STEP, Fleet, hours

from bot.model.causes import Cause
from bot.model.fleet import Inventory
from bot.model.frame import Frame
from bot.model.labels import Labels
from detectors.roster import build_roster
from detectors.usual import SAMPLE, Past, Usual, forget, learn, pause_spans, strange_spans
from tests.builders import FIVE, NOON, alert, anomaly

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


@pytest.mark.parametrize("block", [1, 3])
def test_a_fleet_of_many_blocks_learns_what_one_block_does(monkeypatch, block):
    fleet = Fleet(days=3).starve(*STARVED, slice(1, 3))
    frame = fleet.frame()
    roster = build_roster(frame.things, Inventory(START))
    roster = replace(roster, inference=np.array([False, True, False, True]))
    floor, spans = np.array([0.05, 0.95, 0.05, 0.3]), (((fleet.ids[2],), *STARVED),)

    def usual_of():
        return learn(frame, roster, floor, spans, whole=frame)

    whole = usual_of()
    monkeypatch.setattr("detectors.usual.BLOCK", block)
    parts = usual_of()
    for name in {x.name for x in fields(Usual)} - {"medians"}:
        assert np.array_equal(getattr(parts, name), getattr(whole, name), equal_nan=True), name
    assert parts.medians.keys() == whole.medians.keys()
    for name, median in whole.medians.items():
        assert np.array_equal(parts.medians[name], median, equal_nan=True), name


def test_what_lies_outside_of_what_is_learnt_from_blanks_nothing():
    fleet = Fleet(days=1)
    frame = fleet.frame()
    before = (tuple(fleet.ids), START - timedelta(days=3), START)
    after = (tuple(fleet.ids), START + timedelta(days=1), START + timedelta(days=2))
    roster = build_roster(frame.things, Inventory(START))
    usual, same = (learn(frame, roster, np.full(4, 0.05), spans) for spans in ((before, after), ()))
    assert np.array_equal(usual.middle, same.middle)
    assert STEP < SAMPLE


def test_a_step_that_was_strange_in_part_is_not_learnt():
    fleet = Fleet(days=1)
    frame, values = fleet.frame(), np.ones((4, fleet.frame().n_steps), dtype=np.float32)
    minute = timedelta(minutes=1)
    told = ((fleet.ids[0],), START + 2 * STEP + minute, START + 4 * STEP + minute)
    forget(values, frame, build_roster(frame.things, Inventory(START)), (told,))
    assert np.flatnonzero(np.isnan(values[0])).tolist() == [2, 3, 4]
    assert not np.isnan(values[1:]).any()


def test_what_is_strange_is_what_was_known_at_the_anchor():
    found = [
        alert(name=name, opened=NOON + n * FIVE, closed=NOON + 9 * FIVE)
        for n, name in enumerate(("a", "b", "c"))
    ]
    spans = strange_spans([*found, alert(name="d", opened=NOON - FIVE)], NOON + FIVE)
    assert [span.end for span in spans] == [NOON + FIVE] * 3, "those opened by then, clipped to it"


FRIDAY = datetime(2026, 11, 20, 9, tzinfo=UTC)


def two_weeks(nodes=2, cluster="serving", instance_type="inf2.48xlarge"):
    """Return 14 days from a Monday on in which nodes serve at 90 % on weekdays and 30 % on weekends."""
    fleet = Fleet(
        nodes, days=14, cluster=cluster, instance_type=instance_type, step=timedelta(minutes=15)
    )
    for week in (0, 1):
        fleet.set(
            hours(24 * (7 * week + 5)), hours(24 * (7 * week + 7)), neuroncore_utilization_ratio=0.3
        )
    return fleet


@pytest.mark.parametrize(("days", "level"), [(0, 0.9), (1, 0.3), (2, 0.3), (3, 0.9)])
def test_what_serves_has_a_usual_for_weekdays_and_one_for_weekends(days, level):
    fleet = two_weeks()
    frame = fleet.frame()
    roster = build_roster(frame.things, Inventory(START))
    assert roster.inference.all()
    usual = learn(frame, roster, np.full(2, 0.05), ())
    _, middle, _ = usual.at(FRIDAY + timedelta(days=days), roster.inference)
    assert middle == pytest.approx([level] * 2, abs=0.06)


def test_a_new_node_that_trains_borrows_nothing_of_those_that_serve():
    things = [
        Labels(instance=f"i-{n}", cluster="llama", instance_type=kind)
        for n, kind in enumerate(("trn1.32xlarge", *["inf2.48xlarge"] * 2, "trn1.32xlarge"))
    ]
    roster = build_roster(tuple(things), Inventory(START))
    assert roster.inference.tolist() == [False, True, True, False]
    level = np.repeat(np.array([0.9, 0.3, 0.3, np.nan], dtype=np.float32)[:, None, None], 96, 1)
    name = ("neuroncore_utilization_ratio",)
    frame = Frame("node", tuple(things), START, SAMPLE, name, level)
    usual = learn(frame, roster, np.full(4, 0.05), ())
    assert [x[3] for x in (usual.low, usual.middle, usual.high)] == pytest.approx([0.9] * 3)


def test_a_pause_with_the_span_of_a_trouble_leaves_the_trouble():
    told = [
        alert(anomaly(cause), name=cause, closed=NOON + FIVE)
        for cause in (Cause.HUNG, Cause.HARDWARE_FAULT)
    ]
    anchor = NOON + timedelta(hours=2)
    pauses = pause_spans(told, anchor, timedelta(hours=3))
    past = Past(anchor, 14, strange_spans(told, anchor), pauses)
    assert len(pauses) == 1
    assert past.troubles == pauses
