"""One tick on stored state: what an ended cause still mutes, and what is written of messages; and when ticks fall."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

import numpy as np
import pytest

from adapters.store.memory import MemoryStore
from bot.errors import Unavailable
from bot.model.alert import Alert, Waste, WastedHours
from bot.model.anomaly import Detection
from bot.model.causes import Cause, Severity
from bot.model.fleet import Volume
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.notification import (
    Coverage,
    Known,
    Notification,
    NotificationLogEntry,
    Reason,
    State,
    StateUpdate,
)
from bot.model.policy import Policy
from bot.model.price import AccountRates
from bot.model.reading import Reading, Report, Shares
from bot.model.route import Routes
from bot.model.spend import Filter, Money, Spend, Tally
from bot.model.window import DAY, HOUR, Window
from bot.policy.schema import default_policy
from bot.watch.budget import HELD, MOST
from bot.watch.notify import decided_entry, log_entry_of
from bot.watch.tick import (
    Outcome,
    Part,
    Rules,
    TickResult,
    Watch,
    given_out,
    grid,
    home,
    joined,
    share_out,
    step,
)
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


@pytest.mark.parametrize(
    ("sentence", "nodes", "before", "expected"),
    [
        ("one cluster has nowhere better to go", {"a": 2}, {}, "a:x"),
        ("one without nodes stays", {"a": 2, "b": 0}, {"a": "x", "b": "x"}, "a:x b:x"),
        (
            "an eighth more is about even",
            {"a": 8, "b": 1, "c": 7},
            {"a": "x", "b": "x", "c": "y"},
            "a:x b:x c:y",
        ),
        (
            "of those that may move the one that evens most does",
            {"a": 1, "b": 4, "c": 5},
            {"a": "x", "b": "x", "c": "x"},
            "a:x b:x c:y",
        ),
    ],
)
def test_clusters_move_only_where_it_evens_the_loads(
    sentence: str, nodes: dict[str, int], before: dict[str, str], expected: str
) -> None:
    shares = sorted(share_out(nodes, ["x", "y"], before).items())
    assert " ".join(f"{cluster}:{process}" for cluster, process in shares) == expected, sentence


def test_nodes_that_run_are_shared_out_and_a_cluster_is_its_processs_since_it_has_it() -> None:
    seen = reading(NOON, 2)
    names = list(seen.inventory.instances)
    stopped = replace(seen.inventory.instances[names[0]], state="stopped")
    instances = seen.inventory.instances | {names[0]: stopped}
    seen = replace(seen, inventory=replace(seen.inventory, instances=instances))
    first = given_out(None, "1", seen, ["x"])
    later = replace(seen, now=NOON + FIVE)
    same, moved = given_out(first, "2", later, ["x"]), given_out(first, "3", later, ["y"])
    assert [x.nodes["llama"] for x in (first, same, moved)] == [1, 1, 1]
    assert [x.since["llama"] for x in (first, same, moved)] == [NOON, NOON, NOON + FIVE]


def test_what_one_process_did_not_report_is_unknown_and_one_without_nodes_hides_nothing() -> None:
    shares = Shares("1", NOON, "x", {"llama": "x", "vision": "y"})
    blind = Coverage(Known.PARTLY, "Half of it is silent.")
    of_x, of_z = Report("1", "x"), Report("1", "z", coverage=Coverage(Known.UNKNOWN))
    both = [of_x, Report("1", "y"), of_z]
    assert joined(reading(), shares, both)[2:] == (Coverage(), ())
    said = joined(reading(), shares, [*both[:2], replace(of_z, coverage=blind)])[2]
    assert said.because == blind.because
    whole, _, coverage, absent = joined(reading(), shares, [of_x])
    assert (absent, [x.cluster for x in whole.gaps]) == (("vision",), ["vision"])
    assert (coverage.known, "vision" in coverage.because) == (Known.PARTLY, True)
    assert joined(reading(), replace(shares, holders={}), [of_z])[2] == Coverage()


def test_a_part_has_its_clusters_nodes_and_the_lead_alone_all_that_is_in_none() -> None:
    seen = reading()
    kinds = ("node", "file_system", "spend_hour", "volume")
    frames = dict.fromkeys(kinds, seen.frames["node"])
    volume = Volume(Labels(resource="vol-1"), 500, "gp3", "available", NOON)
    stored = replace(seen.inventory, volumes=(volume,))
    whole = replace(seen, frames=frames, inventory=stored)
    lead, other = (Part(frozenset({"llama"}), leads=leads).of(whole) for leads in (True, False))
    assert (len(lead.inventory.volumes), len(other.inventory.volumes)) == (1, 0)
    assert (len(lead.inventory.instances), len(other.inventory.instances)) == (0, 4)
    assert (set(lead.frames), set(other.frames)) == ({*kinds}, {*kinds[:3]})
    assert (len(lead.frames["node"].things), len(lead.frames["volume"].things)) == (0, 4)
    found = anomaly(labels=Labels())
    assert (home(found), home(anomaly(Cause.SPEND_JUMP))) == ("llama", "")


def test_what_a_setting_held_back_notifies_since_then_and_all_else_since_its_opening() -> None:
    found, beside = anomaly(), anomaly(Cause.IDLE, cluster="vision")
    held, silenced = (
        alert(x, name=mark, muted_by=mark, opened=NOON - DAY)
        for x, mark in (
            (found, "policy:alert.least_usd_per_hour"),
            (beside, "silence:s1"),
        )
    )
    detection = Detection((found, beside))
    outcome = step(State((held, silenced)), reading(), detection, lambda *_: price(), RULES)
    assert [a.notified for a in outcome.alerts] == [NOON, None]
    earlier = replace(held, notified=NOON - HOUR)
    outcome = step(State((earlier,)), reading(), Detection((found,)), lambda *_: price(), RULES)
    assert [a.notified for a in outcome.alerts] == [NOON - HOUR]


def test_of_an_alert_that_fires_again_what_lies_before_its_new_onset_is_not_counted() -> None:
    ended = alert(waste=waste("60", "10"), closed=NOON + FIVE)
    again = anomaly(at=NOON + 6 * FIVE)
    at = reading(NOON + 6 * FIVE)
    outcome = step(State((ended,)), at, Detection((again,)), lambda *_: price("20.00"), RULES)
    (found,) = outcome.alerts
    assert found.id == ended.id
    assert found.waste
    assert found.waste.so_far == 20


def test_what_was_shown_is_not_over_though_it_ended_long_ago() -> None:
    over = alert(closed=NOON)
    entry = log_entry_of(Notification("n", "web:alerts", Reason.OVER, NOON, (over,)), "")
    shown = replace(entry, pending=False)
    tick = TickResult(
        State((over,), (shown,)), reading(NOON + 2 * DAY), Detection(), Outcome((), ())
    )
    assert list(tick.changes().notification_log) == []


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
    found = anomaly(Cause.IDLE, n=4, cluster="vision"), anomaly(Cause.IDLE, n=2, cluster="lab")
    outcome = step(
        State(), reading(), Detection(found), lambda *_: price(), replace(RULES, policy=policy)
    )
    assert {a.anomaly.scope.cluster: a.muted_by for a in outcome.alerts} == {
        "vision": "",
        "lab": HELD,
    }
    assert [n.reason for n in outcome.notifications] == [Reason.FIRST]
