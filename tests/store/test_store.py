"""Hold every store to the same contract."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from bot.model.alert import Alert, Decision, DecisionKind, Silence, Waste
from bot.model.anomaly import Anomaly
from bot.model.causes import Cause
from bot.model.labels import Labels
from bot.model.notification import Line, NotificationLogEntry, Reason, Receipt
from bot.model.window import Window
from bot.ports import State, StateUpdate

NOW = datetime(2026, 11, 20, 9, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def alert(name, *, opened=NOW - HOUR, closed=None, **labels):
    labels = Labels(**(labels or {"cluster": "llama"}))
    anomaly = Anomaly(
        "idle", Cause.IDLE, labels, labels, ("i-1",), Window(opened, NOW + DAY), 0.9, 0.0, "%"
    )
    waste = Waste(
        Decimal("21.50"), Decimal("0.1"), Decimal(100), Decimal(90), Decimal(110), "price list"
    )
    return Alert(name, anomaly, opened, NOW, closed, waste=waste)


def decision(name, doing=DecisionKind.ACKNOWLEDGE, *, minute=0, about="a"):
    return Decision(name, about, doing, "slack:U1", "dana", NOW + timedelta(minutes=minute))


def said(name, channel="slack:C1", *, at=NOW, over=False):
    return NotificationLogEntry(
        name, channel, Reason.FIRST, at, ("a",), 1, Decimal("21.50"), "digest", "m1", over
    )


def silence(name, *, ends=NOW + DAY, ended_at=None):
    return Silence(
        name,
        Labels(cluster="x"),
        NOW - HOUR,
        ends,
        "slack:U1",
        ceiling_usd=Decimal("5.00"),
        ended_at=ended_at,
    )


def test_an_empty_store_remembers_nothing(store):
    assert store.load(NOW) == State()


def test_what_was_saved_is_loaded(store):
    saved = StateUpdate([alert("a")], [said("n")], [silence("s")], ticked_at=NOW)
    store.save(saved)
    assert store.load(NOW) == State((alert("a"),), (said("n"),), (silence("s"),), NOW)


def test_an_existing_id_is_replaced(store):
    store.save(StateUpdate([alert("a")], [said("n"), said("n", "slack:C2")], [silence("s")]))
    store.save(
        StateUpdate([replace(alert("a"), muted_by="silence:s")], [replace(said("n"), message="m2")])
    )
    memory = store.load(NOW)
    assert [x.muted_by for x in memory.alerts] == ["silence:s"]
    assert {(x.channel, x.message) for x in memory.notification_log} == {
        ("slack:C1", "m2"),
        ("slack:C2", "m1"),
    }


def test_a_message_is_owed_until_the_receipt_of_its_newest_version(store):
    entry = replace(said("n"), message="", pending=True)
    for version in (1, 2):
        store.save(StateUpdate(notification_log=[replace(entry, version=version)]))
    for version, pending in ((1, True), (2, False)):
        store.save(StateUpdate(receipts=[Receipt("n", "slack:C1", "m1", version)]))
        owed, _ = store.owed("n", "slack:C1")
        assert (owed.message, owed.pending) == ("m1", pending)


def test_a_line_that_was_sent_is_owed_no_more_though_it_is_written_again(store):
    line = Line("l", "n", "slack:C1", NOW, {})
    for sent, owed in (("", [line]), ("m2", []), ("", [])):
        store.save(StateUpdate(lines=[replace(line, sent=sent)]))
        assert list(store.owed("n", "slack:C1")[1]) == owed


@pytest.mark.parametrize(
    ("closed", "kept"), [(None, True), (NOW - 14 * DAY, True), (NOW - 15 * DAY, False)]
)
def test_closed_alerts_stay_for_fifteen_days(store, closed, kept):
    store.save(StateUpdate([alert("a", opened=NOW - 30 * DAY, closed=closed)]))
    assert bool(store.load(NOW).alerts) is kept


@pytest.mark.parametrize(
    ("at", "over", "kept"),
    [(NOW - 9 * DAY, False, True), (NOW - 4 * DAY, True, True), (NOW - 5 * DAY, True, False)],
)
def test_what_was_said_of_an_end_stays_until_it_is_billed(store, at, over, kept):
    store.save(StateUpdate(notification_log=[said("n", at=at, over=over)]))
    assert bool(store.load(NOW).notification_log) is kept


def test_silences_that_ended_are_not_loaded(store):
    store.save(
        StateUpdate(
            silences=[
                silence("now"),
                silence("past", ends=NOW),
                silence("lifted", ended_at=NOW - HOUR),
            ]
        )
    )
    assert [x.id for x in store.load(NOW).silences] == ["now"]


def test_alerts_come_in_the_order_they_opened(store):
    store.save(StateUpdate([alert("b"), alert("c", opened=NOW - DAY), alert("a")]))
    store.save(StateUpdate([alert("c", opened=NOW - DAY, closed=NOW)]))
    assert [x.id for x in store.load(NOW).alerts] == ["c", "a", "b"]


def test_a_tick_never_overwrites_a_decision(store):
    before = alert("a")
    store.save(StateUpdate([before]))
    store.save(StateUpdate(decisions=[decision("d")]))
    store.save(StateUpdate([before], ticked_at=NOW))
    assert store.load(NOW).alerts[0].acknowledged == decision("d")


@pytest.mark.parametrize(
    ("doings", "by"),
    [
        ([DecisionKind.NOT_AN_ANOMALY, DecisionKind.USEFUL], None),
        ([DecisionKind.ACKNOWLEDGE, DecisionKind.ACKNOWLEDGE], "0"),
        ([DecisionKind.ACKNOWLEDGE, DecisionKind.UNACKNOWLEDGE], None),
        ([DecisionKind.ACKNOWLEDGE, DecisionKind.UNACKNOWLEDGE, DecisionKind.ACKNOWLEDGE], "2"),
    ],
)
def test_the_first_acknowledgement_that_stands_counts(store, doings, by):
    store.save(
        StateUpdate(
            [alert("a")],
            decisions=[decision(str(i), doing, minute=i) for i, doing in enumerate(doings)],
        )
    )
    found = store.load(NOW).alerts[0].acknowledged
    assert (found and found.id) == by


def test_an_acknowledgement_the_watch_carries_is_not_stored(store):
    store.save(StateUpdate([replace(alert("a"), acknowledged=decision("never decided"))]))
    assert store.load(NOW).alerts[0].acknowledged is None


def test_what_time_has_ended_is_remembered_for_a_day(store):
    ends = {
        "future": NOW + HOUR,
        "now": NOW,
        "today": NOW - 23 * HOUR,
        "yesterday": NOW - DAY,
        "long ago": NOW - 2 * DAY,
    }
    store.save(
        StateUpdate(
            silences=[
                Silence(name, Labels(), NOW - 9 * DAY, end, "slack:U1")
                for name, end in ends.items()
            ]
        )
    )
    found = store.load(NOW)
    assert ([one.id for one in found.silences], {one.id for one in found.slept}) == (
        ["future"],
        {"now", "today"},
    )


def test_decisions_are_only_ever_added(store):
    store.save(
        StateUpdate(
            decisions=[decision("2", minute=2), decision("1"), decision("other", about="b")]
        )
    )
    store.save(StateUpdate(decisions=[replace(decision("1"), note="rewritten")]))
    assert store.decisions("a") == [decision("1"), decision("2", minute=2)]


@pytest.mark.parametrize(
    ("opened", "closed", "found"),
    [
        (NOW - 3 * DAY, None, True),
        (NOW - 3 * DAY, NOW - 2 * DAY, False),
        (NOW - 3 * DAY, NOW - HOUR, True),
        (NOW - DAY, NOW - DAY, True),
        (NOW - 2 * DAY, NOW - 2 * DAY, True),
        (NOW - 3 * DAY, NOW - 2 * DAY + HOUR, True),
        (NOW - HOUR, None, True),
        (NOW, None, False),
    ],
)
def test_history_holds_what_was_open_within_the_window(store, opened, closed, found):
    store.save(StateUpdate([alert("a", opened=opened, closed=closed)]))
    assert bool(store.history(Window(NOW - 2 * DAY, NOW), Labels())) is found


def test_history_selects_by_any_label_newest_first(store):
    here = [alert("1", opened=NOW - DAY, cluster="x", job="j"), alert("2", cluster="x", job="j")]
    store.save(
        StateUpdate([*here, alert("3", cluster="y", job="j"), alert("4", cluster="x", job="k")])
    )
    found = store.history(Window(NOW - 2 * DAY, NOW), Labels(cluster="x", job="j"))
    assert list(found) == here[::-1]


class Breaking(list):
    """Fail after the first item, as a full disk would."""

    def __iter__(self):
        yield self[0]
        raise RuntimeError("midway")


@pytest.mark.parametrize(
    "broken",
    [
        StateUpdate([alert("a")], Breaking([said("n")])),
        StateUpdate([alert("a")], decisions=Breaking([decision("d")])),
    ],
)
def test_a_save_that_fails_midway_leaves_nothing(store, broken):
    with pytest.raises(RuntimeError, match="midway"):
        store.save(replace(broken, ticked_at=NOW))
    assert store.load(NOW) == State()
    assert not store.decisions("a")


def test_a_thousand_open_alerts_are_loaded(store):
    store.save(
        StateUpdate(
            [alert(str(i), cluster=f"c{i}") for i in range(1000)],
            decisions=[decision("d", about="999")],
        )
    )
    found = store.load(NOW).alerts
    assert len(found) == 1000
    assert [x.id for x in found if x.acknowledged] == ["999"]


def test_a_shelf_keeps_documents_by_key(store):
    store.put("web", "k", {"text": "ä \u2028 <b>", "n": [1, None]})
    store.put("web", "k", {"text": "2"})
    assert store.get("web", "k") == {"text": "2"}
    assert store.get("web", "other") is None
    assert store.get("teams", "k") is None


def test_a_shelf_gives_the_last_written_first(store):
    for key in ("a", "b", "c", "a"):
        store.put("web", key, {"key": key})
    store.put("teams", "z", {})
    assert [key for key, _ in store.newest("web", 2)] == ["a", "c"]


def test_a_dropped_document_is_gone(store):
    for shelf in ("web", "teams"):
        store.put(shelf, "a", {})
    store.drop("web", "a")
    store.drop("web", "never")
    assert store.get("web", "a") is None
    assert list(store.newest("web", 5)) == []
    assert store.get("teams", "a") == {}


def test_whom_an_alert_is_assigned_to_is_the_newest_decision_about_it(store):
    store.save(StateUpdate([alert("a")]))
    for minute, (kind, whom) in enumerate(
        [(DecisionKind.ASSIGN, "bob"), (DecisionKind.ACKNOWLEDGE, ""), (DecisionKind.ASSIGN, "eve")]
    ):
        given = replace(
            decision(f"d{minute}", kind, minute=minute),
            assignee=whom and f"slack:{whom}",
            assignee_name=whom,
        )
        store.save(StateUpdate(decisions=[given]))
    (told,) = store.load(NOW).alerts
    assert (told.assigned.assignee, told.assigned.whom, told.acknowledged.id) == (
        "slack:eve",
        "eve",
        "d1",
    )
    store.save(StateUpdate([told], decisions=[decision("d9", DecisionKind.UNASSIGN, minute=9)]))
    (told,) = store.load(NOW).alerts
    assert (told.assigned, told.assignment.id) == (None, "d9")
