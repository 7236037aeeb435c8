"""One tick on stored state: what an ended cause still mutes, and what is written of messages; and when ticks fall."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from bot.model.alert import Alert
from bot.model.anomaly import Detection
from bot.model.causes import Cause, Severity
from bot.model.notification import Notification, NotificationLogEntry, Reason, State
from bot.model.policy import Policy
from bot.model.route import Routes
from bot.policy.schema import default_policy
from bot.watch.budget import HELD, MOST
from bot.watch.notify import decided_entry, log_entry_of
from bot.watch.tick import Outcome, Rules, TickResult, grid, step
from tests.builders import FIVE, NOON, alert, anomaly, price, reading, waste

RULES = Rules(default_policy(), ("web:alerts",), Routes())
MINUTE = timedelta(minutes=1)


def test_a_fault_that_just_ended_mutes_what_a_tick_finds_of_it() -> None:
    fault = alert(anomaly(Cause.HARDWARE_FAULT), closed=NOON - FIVE)
    outcome = step(State((fault,)), reading(), Detection((anomaly(),)), lambda *_: price(), RULES)
    assert [(a.cause, a.muted_by) for a in outcome.alerts] == [
        (Cause.STARVED, f"inhibit:{fault.key}")
    ]
    assert outcome.notifications == ()


def test_a_message_that_was_sent_waits_for_its_end_however_late() -> None:
    """What could not be edited for a day still shows that it fires: its end is news, unlike that of a message never sent."""
    over = alert(closed=NOON)
    sent, unsent = (
        log_entry_of(Notification(name, "web:alerts", Reason.FIRST, NOON, (over,)), name[1:])
        for name in ("nm1", "n")
    )
    # The end was decided, and could not be shown yet.
    sent = replace(sent, pending=True)
    tick = TickResult(
        State((over,), (sent, unsent)),
        reading(NOON + timedelta(days=2)),
        Detection(),
        Outcome((), ()),
    )
    assert [(one.id, one.over) for one in tick.changes().notification_log] == [("n", True)]


def test_a_message_of_an_end_is_edited_once_when_the_bill_changes_its_dollars() -> None:
    over = alert(closed=NOON, waste=replace(waste(so_far="50"), hours=()))
    ended = Notification("nm1", "web:alerts", Reason.OVER, NOON, (over,))
    entry = log_entry_of(ended, "m1")
    exact = replace(over, waste=replace(waste(so_far="70"), billed=True))

    def edits(entry: NotificationLogEntry, of: Alert) -> list[Notification]:
        state = State((of,), (entry,))
        outcome = step(state, reading(NOON + FIVE), Detection(), lambda *_: price(), RULES)
        return list(outcome.notifications)

    assert edits(entry, over) == []
    (edit,) = edits(entry, exact)
    assert edit.reason is Reason.UPDATED
    shown = replace(decided_entry(edit, entry), pending=False)
    assert shown.over
    assert edits(shown, exact) == []


def test_ticks_fall_on_multiples_of_the_interval_and_the_last_is_the_first_past_the_end() -> None:
    assert grid(NOON + MINUTE, NOON + 11 * MINUTE, FIVE) == [NOON + i * FIVE for i in (1, 2, 3)]
    assert grid(NOON, NOON + 2 * FIVE, FIVE) == [NOON + i * FIVE for i in (0, 1, 2)]


def test_reminders_of_what_a_setting_held_back_count_from_when_it_notifies() -> None:
    remind_after = RULES.policy.duration("alert.remind_after")
    fault = anomaly(Cause.HARDWARE_FAULT, severity=Severity.CRITICAL)
    held = alert(
        fault, opened=NOON - remind_after + FIVE, muted_by="policy:alert.least_usd_per_hour"
    )

    def reasons(state: State, at: datetime) -> list[Reason]:
        outcomes.append(step(state, reading(at), Detection((fault,)), lambda *_: price(), RULES))
        return [x.reason for x in outcomes[-1].notifications]

    outcomes: list[Outcome] = []
    assert reasons(State((held,)), NOON) == [Reason.FIRST]
    (first,) = outcomes[-1].notifications
    state = State(outcomes[-1].alerts, (log_entry_of(first, "m1"),))
    assert reasons(state, NOON + 2 * FIVE) == []
    assert reasons(state, NOON + remind_after) == [Reason.REMINDER]


def test_a_promise_of_messages_sends_the_dearest_and_holds_the_others_back() -> None:
    policy = Policy({**default_policy().values, MOST: 1.0})
    found = anomaly(Cause.IDLE, n=4, cluster="vision"), anomaly(Cause.IDLE, n=1, cluster="lab")
    outcome = step(
        State(), reading(), Detection(found), lambda *_: price(), replace(RULES, policy=policy)
    )
    assert {a.anomaly.scope.cluster: a.muted_by for a in outcome.alerts} == {
        "vision": "",
        "lab": HELD,
    }
    assert [n.reason for n in outcome.notifications] == [Reason.FIRST]
