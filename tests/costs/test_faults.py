"""What broken nodes cost: who broke, what the restart threw away, and how often it happens."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from itertools import permutations

import numpy as np
import pytest

from bot.answers.fleet.faults import (
    Fault,
    FaultRate,
    by_node,
    dossier_card,
    faults_card,
    faults_of,
    rates_of,
)
from bot.cards.card import Tone
from bot.costs.losses import lose
from bot.costs.node_time import CLASSES, GoodputClass, NodeTime
from bot.model.alert import WastedHours
from bot.model.causes import Cause
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.reading import HARDWARE_METRICS
from bot.model.window import Window
from tests.builders import FIVE, NOON, alert, anomaly, waste

START, STEPS = NOON.replace(hour=0), 72
ECC = HARDWARE_METRICS[2]
METRICS = ("neuroncore_utilization_ratio", "neuron_runtime_memory_used_bytes", ECC)
NAMES = [f"i-llama{n:03}" for n in range(3)]
DAY = Window(START, START + STEPS * FIVE)
HOUR_USD = Decimal(12)


def step(n):
    return START + n * FIVE


def time_of(*, broken=(), stood=slice(24, 36), lost=slice(20, 24), again=slice(36, 39)):
    """Three nodes of one job: work, a fault that stops all, the way back; `broken` had ECC events."""
    things = tuple(
        Labels(cluster="llama", instance=name, instance_type="trn1.32xlarge", zone=f"us-west-2{z}")
        for name, z in zip(NAMES, "aab", strict=True)
    )
    values = np.zeros((3, STEPS, 3), np.float32)
    values[..., 0], values[..., 1] = 0.9, 1e9
    for row in broken:
        values[row, [24, 50], 2] = 5
    time = NodeTime(Frame("node", things, START, FIVE, METRICS, values), np.full(3, 0.05))
    for part, kind in (
        (stood, GoodputClass.IDLE),
        (lost, GoodputClass.LOST),
        (again, GoodputClass.STARTING),
    ):
        time.base[:, part] = CLASSES.index(kind)
    return time


def fault(first=24, last=36, *, hours="3", usd="36", name="a1", **more):
    found = anomaly(Cause.HARDWARE_FAULT, n=3, window=Window(step(first), step(last)))
    found = replace(found, things=tuple(NAMES), **more)
    cost = replace(waste(so_far=usd), hours=(WastedHours(HOUR_USD, Decimal(hours)),))
    return alert(found, name=name, seen=step(last), closed=step(last + 3), waste=cost)


def faults(time, *alerts):
    lose(time, alerts)
    return faults_of(alerts, time, lambda _: HOUR_USD)


def test_of_a_job_that_one_node_stopped_that_node_has_all_of_it():
    time = time_of(broken=[1])
    found = faults(time, fault())
    # Four steps thrown away and three to start, on three nodes; the stop itself is the alert's.
    assert found[0].restart_hours == pytest.approx(7 * 3 / 12)
    assert (found[0].usd, found[0].restart_usd) == (Decimal("36.00"), Decimal("21.00"))
    (node,) = by_node(found, time)
    assert (node.id, node.usd, node.hours) == (NAMES[1], Decimal("57.00"), pytest.approx(4.75))


def test_the_suspect_of_a_straggler_is_the_node_that_broke():
    (only,) = faults(time_of(broken=[0, 1]), fault(suspect=NAMES[2]))
    assert only.nodes == (NAMES[2],)


def test_where_nobody_knows_who_broke_each_has_an_even_part():
    time = time_of()
    nodes = by_node(faults(time, fault()), time)
    assert [node.usd for node in nodes] == [Decimal("19.00")] * 3


def test_work_that_another_restart_threw_away_is_not_the_faults():
    time = time_of(broken=[0], lost=slice(4, 8), again=slice(65, 70))
    (only,) = faults(time, fault())
    assert only.restart_hours == 0


def test_two_faults_in_a_row_share_no_hour():
    time = time_of(broken=[0])
    first, second = faults(time, fault(), fault(30, 40, name="a2"))
    # The second alert has counted what the first one's restart took of its steps.
    assert first.restart_hours == pytest.approx(4 * 3 / 12)
    assert second.restart_hours == 0


def test_a_restart_counts_for_the_first_of_two_faults_alone():
    time = time_of(broken=[0])
    first, second = faults(time, fault(), fault(30, 36, hours="0", name="a2"))
    assert first.restart_hours == pytest.approx(7 * 3 / 12)
    assert second.restart_hours == 0


def test_how_often_a_type_breaks_is_counted_by_zone():
    time = time_of(broken=[0])
    nodes = by_node(faults(time, fault(), fault(50, 60, name="a2")), time)
    rates = rates_of(nodes, time, DAY)
    # Six hours were seen of each of three nodes, two of them in the first zone.
    assert [(x.zone, x.node_hours, x.faults) for x in rates] == [
        ("us-west-2a", 12, 2),
        ("us-west-2b", 6, 0),
    ]
    assert (rates[0].between, rates[1].between) == (6 * 12 * FIVE, None)
    card = faults_card(faults(time, fault()), nodes, rates, DAY)
    assert f"{NAMES[0]} (2 times)" in str(card)


def test_a_dossier_has_the_times_the_evidence_and_the_dollars():
    time = time_of(broken=[1])
    said = fault(why="9 ECC events on i-llama001.", evidence=("9 ECC events", "device 3"))
    (node,) = by_node(faults(time, said), time)
    written = str(dossier_card(node, (), DAY))
    for words in (NAMES[1], "trn1.32xlarge", "us-west-2a", "9 ECC events; device 3.", "57.00"):
        assert words in written or words in dossier_card(node, (), DAY).title


def test_faults_are_told_the_oldest_first_whatever_their_order_and_may_have_cost_nothing_yet():
    time = time_of(broken=[0])
    early, late = fault(name="early"), fault(50, 60, name="late")
    for some in permutations((early, replace(late, waste=None))):
        found = faults_of(some, time_of(broken=[0]), lambda _: HOUR_USD)
        assert [x.alert.id for x in found] == ["early", "late"]
        assert (found[1].hours, found[1].usd) == (0, 0)
    # A node that is not read any more has broken as well.
    gone = replace(early, anomaly=replace(early.anomaly, things=("i-gone", *NAMES)))
    (only,) = faults_of([gone], time, lambda _: None)
    assert (only.nodes, only.restart_usd) == ((NAMES[0],), 0)
    assert only.restart_hours > 0


def broke(usd: str, hours: float, *names: str) -> Fault:
    return Fault(fault(), names, hours, Decimal(usd), 0.0, Decimal(0))


def test_nodes_stand_by_what_they_cost_then_by_hours_then_by_name():
    found = [
        broke("9", 1, "dear"),
        broke("5", 3, "long"),
        broke("4", 2, "b", "a"),
        broke("3", 2, "b", "a"),
    ]
    for some in list(permutations(found))[::5]:
        nodes = by_node(some, time_of())
        assert [node.id for node in nodes] == ["dear", "long", "a", "b"]
    assert [node.usd for node in nodes] == [9, 5, Decimal("3.50"), Decimal("3.50")]
    assert [node.hours for node in nodes] == [1, 3, 2, 2]
    assert [node.returned for node in nodes] == [0, 0, 1, 1]


def test_the_card_names_those_that_broke_again_and_what_never_broke_stands_last():
    nodes = by_node(
        [broke("9", 1, "once"), broke("4", 2, "twice"), broke("3", 2, "twice")], time_of()
    )
    card = faults_card([x for node in nodes for x in node.faults], nodes, (), DAY)
    assert "Broke again after a repair: twice (2 times)." in str(card.blocks)
    assert "Broke again" not in str(faults_card(nodes[0].faults, nodes[:1], (), DAY).blocks)
    calm = faults_card((), (), (FaultRate("t", "z", 12.0, 0), FaultRate("t", "y", 6.0, 0)), DAY)
    assert calm.tone is Tone.GOOD
    assert "in 18 node-hours" in str(calm.blocks)

    time = time_of()
    rates = rates_of(by_node([broke("1", 1, NAMES[2])], time), time, DAY)
    assert [(x.zone, x.between) for x in rates] == [
        ("us-west-2b", timedelta(hours=6)),
        ("us-west-2a", None),
    ]
    assert rates_of((), time, Window(DAY.start - FIVE, DAY.start)) == []
