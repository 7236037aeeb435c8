from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import pytest

from bot.model.anomaly import Detection, NodeState
from bot.model.causes import Cause
from bot.model.fleet import Launcher, LauncherKind
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.reading import Gap, Reading
from bot.watch.track import recent, track
from tests.builders import FIVE, NOON, alert, anomaly, nodes, reading

QUIET = timedelta(minutes=15)
EMPTY = Detection()


def test_a_new_anomaly_opens_an_alert() -> None:
    opened = track([], Detection((anomaly(),)), reading(), QUIET)
    assert [(a.opened, a.things_at_peak) for a in opened] == [(NOON, 4)]


def test_a_new_alert_claims_its_namespace_and_whoever_launched_its_nodes_but_no_machine() -> None:
    seen = reading()
    dana, node_group = (
        Launcher("dana", LauncherKind.PERSON),
        Launcher("EKS node group a", LauncherKind.MACHINE),
    )
    by = dict(zip(nodes(4), (node_group, node_group, dana, None), strict=True))
    known = {
        name: replace(one, launched_by=by[name]) for name, one in seen.inventory.instances.items()
    }
    launched = replace(seen, inventory=replace(seen.inventory, instances=known))
    found = anomaly(labels=anomaly().labels.merge(Labels(namespace="nlp")))
    (opened,) = track([], Detection((found,)), launched, QUIET)
    assert opened.claims == ("namespace:nlp", "launcher:dana")


def test_the_same_tick_again_opens_the_same_alert() -> None:
    first, second = (track([], Detection((anomaly(),)), reading(), QUIET) for _ in range(2))
    assert first == second


def test_a_seen_anomaly_keeps_its_alert_and_its_earliest_onset() -> None:
    later = anomaly(at=NOON + FIVE, n=6)
    (kept,) = track([alert()], Detection((later,)), reading(NOON + FIVE), QUIET)
    assert (kept.id, kept.seen, kept.things_at_peak) == ("a1", NOON + FIVE, 6)
    assert kept.anomaly.window.start == NOON - timedelta(minutes=10)
    fewer = anomaly(at=NOON + 2 * FIVE, n=2)
    (still,) = track([kept], Detection((fewer,)), reading(NOON + 2 * FIVE), QUIET)
    assert (len(still.anomaly.things), still.things_at_peak) == (2, 6)


def test_who_launched_the_nodes_is_learnt_once_though_it_is_told_late() -> None:
    seen, dana = reading(NOON + FIVE), Launcher("dana", LauncherKind.PERSON)
    launched = {
        name: replace(node, launched_by=dana) for name, node in seen.inventory.instances.items()
    }
    later = replace(seen, inventory=replace(seen.inventory, instances=launched))
    unknown = alert()
    known = alert(launched_by="kim", claims=("launcher:kim",))
    found = [
        track([before], Detection((anomaly(at=NOON + FIVE),)), later, QUIET)[0]
        for before in (unknown, known)
    ]
    assert [(a.launched_by, a.claims) for a in found] == [
        ("dana", ("launcher:dana",)),
        ("kim", ("launcher:kim",)),
    ]


@pytest.mark.parametrize(
    ("sentence", "after", "gaps", "states", "ends"),
    [
        ("unseen for a moment is no end", 10, (), {}, False),
        ("unseen for long enough is the end", 15, (), {}, True),
        (
            "not seeing, because the source failed, is no recovery",
            60,
            (Gap("CloudWatch did not answer"),),
            {},
            False,
        ),
        (
            "nor is it where its own region failed",
            60,
            (Gap("Throttled", region="us-west-2"),),
            {},
            False,
        ),
        (
            "another region's failure does not matter",
            60,
            (Gap("Throttled", region="eu-west-1"),),
            {},
            True,
        ),
        (
            "not seeing, because a node fell silent, is no recovery",
            60,
            (),
            {nodes(1)[0]: NodeState.NO_DATA},
            False,
        ),
        ("another node's silence does not matter", 60, (), {"i-other": NodeState.NO_DATA}, True),
    ],
)
def test_when_an_alert_ends(
    sentence: str, after: int, gaps: tuple[Gap, ...], states: dict[str, NodeState], ends: bool
) -> None:
    now = NOON + timedelta(minutes=after)
    (found,) = track([alert()], Detection(states=states), reading(now, gaps=gaps), QUIET)
    assert (found.closed == now) is ends, sentence


BILLED = replace(
    reading(NOON + timedelta(hours=1)),
    frames={"spend": Frame("spend", (), NOON, FIVE, (), np.zeros((0, 0, 0)))},
)


@pytest.mark.parametrize(
    ("sentence", "kind", "seen", "ends"),
    [
        ("without the bill, money has no recovery", "spend", replace(BILLED, frames={}), False),
        ("with it, it has", "spend", BILLED, True),
        ("nodes need no bill", "node", replace(BILLED, frames={}), True),
    ],
)
def test_the_end_of_what_the_bill_showed_is_seen_in_the_bill(
    sentence: str, kind: str, seen: Reading, ends: bool
) -> None:
    (found,) = track([alert(anomaly(Cause.SPEND_JUMP, kind=kind))], EMPTY, seen, QUIET)
    assert (found.closed is not None) is ends, sentence


def test_a_silent_node_that_is_gone_ends_its_no_data_alert() -> None:
    silent = alert(anomaly(Cause.NO_DATA))
    now = NOON + timedelta(hours=1)
    states = dict.fromkeys(nodes(4), NodeState.NO_DATA)
    for detection in (EMPTY, Detection(states=states)):
        (found,) = track([silent], detection, reading(now), QUIET)
        assert found.closed == now


def test_two_rules_on_one_cluster_are_two_alerts() -> None:
    both = Detection((anomaly(Cause.STARVED), anomaly(Cause.HUNG)))
    assert len({a.key for a in track([], both, reading(), QUIET)}) == 2
    assert replace(anomaly(), things=()).key == "starved/cluster=llama"


@pytest.mark.parametrize(("minutes", "opened"), [(29, NOON), (30, NOON + timedelta(minutes=30))])
def test_what_fires_again_soon_after_its_end_is_the_same_alert(
    minutes: int, opened: datetime
) -> None:
    now = NOON + timedelta(minutes=minutes)
    ended = recent([alert(closed=NOON)], now, timedelta(minutes=30))
    (found,) = track([], Detection((anomaly(at=now),)), reading(now), QUIET, ended)
    assert (found.closed, found.opened) == (None, opened)


@pytest.mark.parametrize(
    ("cause", "rule", "again"),
    [
        (Cause.COLD_CACHE, "cold_cache", True),
        (Cause.COLD_CACHE, "long_compile", False),
        (Cause.STARVED, "starved", False),
    ],
)
def test_a_cold_cache_that_is_seen_at_the_next_nights_start_is_the_same_incident(
    cause: Cause, rule: str, again: bool
) -> None:
    now = NOON + timedelta(days=1)
    before = alert(closed=NOON)
    before = replace(before, anomaly=replace(before.anomaly, cause=cause, rule=rule))
    assert bool(recent([before], now, timedelta(minutes=30))) is again


@pytest.mark.parametrize(("hours", "opened"), [(5, NOON), (24, NOON + timedelta(hours=24))])
def test_what_the_bill_tells_anew_within_a_day_is_the_same_alert(
    hours: int, opened: datetime
) -> None:
    now, bill = NOON + timedelta(hours=hours), Reading(NOON + timedelta(hours=hours))
    jump = anomaly(Cause.SPEND_JUMP, kind="spend", at=now)
    ended = recent(
        [alert(replace(jump, window=anomaly().window), closed=NOON)], now, timedelta(minutes=30)
    )
    (found,) = track([], Detection((jump,)), bill, QUIET, ended)
    assert (found.closed, found.opened) == (None, opened)


def test_of_two_that_ended_the_newest_goes_on() -> None:
    ended = [alert(name="a2", opened=NOON + FIVE, closed=NOON + FIVE), alert(closed=NOON)]
    (found,) = track([], Detection((anomaly(),)), reading(), QUIET, ended)
    assert found.id == "a2"


@pytest.mark.parametrize(("silent", "over"), [(1, True), (2, False)])
def test_a_few_nodes_that_fell_silent_do_not_keep_open_what_the_others_show_to_be_over(
    silent: int, over: bool
) -> None:
    seen = alert(opened=NOON - timedelta(hours=2))
    states = {
        name: NodeState.NO_DATA if i < silent else NodeState.BUSY for i, name in enumerate(nodes(4))
    }
    (found,) = track([seen], Detection((), states), reading(), timedelta(minutes=15))
    assert (found.closed is not None) is over
