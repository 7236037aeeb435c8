"""One tick on stored state: what an ended cause still mutes, and what is written of messages; and when ticks fall."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

import numpy as np

from adapters.store.memory import MemoryStore
from bot.errors import Unavailable
from bot.model.alert import Alert, Waste, WastedHours
from bot.model.anomaly import Detection
from bot.model.causes import Cause, Severity
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.notification import Notification, NotificationLogEntry, Reason, State, StateUpdate
from bot.model.policy import Policy
from bot.model.price import AccountRates
from bot.model.reading import Reading
from bot.model.route import Routes
from bot.model.spend import Filter, Money, Spend, Tally
from bot.model.window import DAY, HOUR, Window
from bot.policy.schema import default_policy
from bot.watch.budget import HELD, MOST
from bot.watch.notify import decided_entry, log_entry_of
from bot.watch.tick import Outcome, Rules, TickResult, Watch, grid, step
from tests.builders import (
    FIVE,
    NOON,
    alert,
    anomaly,
    inventory,
    nodes,
    ports_over,
    price,
    reading,
    waste,
)

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


class HourlyBill:
    """A bill of $40 an hour of each node, which keeps the windows that it was asked for."""

    def __init__(self) -> None:
        self.asked: list[Window] = []
        self.error: Exception | None = None

    def tally(self, window: Window, by: Sequence[str], where: Sequence[Filter]) -> Tally:
        self.asked.append(window)
        if self.error:
            raise self.error
        money = Money(Decimal(40), net=Decimal(40), amortised=Decimal(40))
        first = window.start.replace(minute=0)
        rows = [
            Spend({"resource": node, "hour": (first + n * HOUR).isoformat()}, money, hours=1.0)
            for node in nodes(1)
            for n in range(-(-(window.end - first) // HOUR))
        ]
        return Tally(window, tuple(by), tuple(rows), Money())

    def rates(self, _: datetime) -> AccountRates:
        return AccountRates()


class Billed:
    """A watch over a store in which one alert has ended at noon, estimated at $10 for its hour."""

    def __init__(self) -> None:
        found = anomaly(Cause.IDLE, n=1, wasted_shares=(1.0,))
        found = replace(found, window=Window(NOON - HOUR, NOON))
        estimate = replace(waste("10", "10"), hours=(WastedHours(Decimal(10), Decimal(1)),))
        over = alert(found, closed=NOON + 3 * FIVE, waste=estimate)
        self.store, self.bill = MemoryStore(), HourlyBill()
        ended = Notification("n", "web:alerts", Reason.OVER, over.closed or NOON, (over,))
        self.store.save(StateUpdate(alerts=(over,), notification_log=(log_entry_of(ended, "m1"),)))
        self.restart()

    def restart(self) -> None:
        self._watch = Watch(ports_over(self.bill, self.store), ("web:alerts",))

    def tick(self, at: datetime, billed: datetime | None) -> list[Notification]:
        """Tick at a time at which the bill reaches so far, and return what is to be said."""
        frames = {}
        if billed:
            values = np.ones((1, (at - NOON + DAY) // HOUR, 1), np.float32)
            values[:, (billed - NOON + DAY) // HOUR :] = np.nan
            things = (Labels(instance_type="trn1.32xlarge"),)
            frames = {"spend_hour": Frame("spend_hour", things, NOON - DAY, HOUR, ("usd",), values)}
        result = self._watch.judge(Reading(at, frames, inventory=inventory(nodes(1))))
        changes, said = result.changes(), list(result.outcome.notifications)
        before = {entry.id: entry for entry in result.state.notification_log}
        sent = [replace(decided_entry(x, before[x.id]), pending=False) for x in said]
        self.store.save(replace(changes, notification_log=[*changes.notification_log, *sent]))
        return said

    @property
    def waste(self) -> Waste:
        """The waste of the alert as it is remembered."""
        (remembered,) = self.store.load(NOON + DAY).alerts
        assert remembered.waste
        return remembered.waste


def test_an_ended_alert_is_priced_by_the_bill_once_and_its_message_edited_once() -> None:
    billed, at = Billed(), NOON + 2 * DAY
    # The frame of the bill reaches up to now, its hours do not: nothing is asked of them.
    assert [billed.tick(at + n * HOUR, NOON - HOUR) for n in range(2)] == [[], []]
    assert (billed.bill.asked, billed.waste.billed) == ([], False)

    (edit,) = billed.tick(at + 3 * HOUR, NOON + HOUR)
    assert edit.reason is Reason.UPDATED
    assert billed.bill.asked == [Window(NOON - HOUR, NOON)]
    assert (billed.waste.so_far, billed.waste.billed) == (40, True)

    billed.restart()
    assert [billed.tick(at + n * HOUR, NOON + n * HOUR) for n in (4, 5)] == [[], []]
    assert len(billed.bill.asked) == 1


def test_a_bill_that_is_away_or_refuses_is_asked_again_once_it_has_come_further() -> None:
    billed, at = Billed(), NOON + 2 * DAY
    billed.bill.error = Unavailable("Nothing of the bill could be read.")
    ticks = [(None, 0), (NOON + HOUR, 1), (NOON + HOUR, 1), (None, 1), (NOON + HOUR, 1)]
    for n, (through, asked) in enumerate(ticks):
        assert billed.tick(at + n * FIVE, through) == []
        assert len(billed.bill.asked) == asked
    billed.bill.error = None
    assert len(billed.tick(at + HOUR, NOON + 2 * HOUR)) == 1

    # A process that starts has heard of no bill, and finds the same.
    anew = Billed()
    anew.restart()
    assert len(anew.tick(at + HOUR, NOON + 2 * HOUR)) == 1
    assert anew.waste == billed.waste


def test_a_message_is_not_corrected_by_what_the_state_has_forgotten() -> None:
    """Of two alerts of a message the older is known no more: its dollars stay in the message."""
    older = alert(name="a0", closed=NOON - DAY, waste=waste(so_far="30"))
    newer = alert(closed=NOON, waste=replace(waste(so_far="50"), billed=True))
    entry = log_entry_of(Notification("n", "web:alerts", Reason.OVER, NOON, (older, newer)), "m1")
    outcome = step(
        State((newer,), (entry,)), reading(NOON + FIVE), Detection(), lambda *_: price(), RULES
    )
    assert outcome.notifications == ()


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
