from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from bot.cards.card import Card
from bot.model.alert import Alert, Decision, DecisionKind
from bot.model.causes import Cause, Severity
from bot.model.labels import Labels
from bot.model.notification import Notification, Reason, State
from bot.policy.schema import default_policy
from bot.watch.deliver import Decided, decide
from bot.watch.notify import (
    Incident,
    decided_entry,
    group,
    group_key,
    log_entry_of,
    notification_of,
    sendable,
)
from tests.builders import FIVE, NOON, alert, anomaly, waste

POLICY = default_policy()
LATER = NOON + timedelta(hours=5)
ACK = Decision("d1", "a1", DecisionKind.ACKNOWLEDGE, "web:local", "dana", NOON)
FIRST = alert(waste=waste())
CUT_OFF = alert(
    anomaly(Cause.KILLED_COMPILE, rule="long_compile", lost_hours=(1.0,) * 4), waste=waste("0")
)
MUTED = replace(FIRST, muted_by="silence:s1")
CRITICAL = alert(anomaly(severity=Severity.CRITICAL), waste=waste())


def told(*alerts: Alert) -> Notification:
    return Notification("n1", "web:alerts", Reason.FIRST, NOON, alerts)


@pytest.mark.parametrize(
    ("sentence", "before", "now", "reason"),
    [
        ("nothing new is no news", FIRST, FIRST, None),
        ("a few more nodes are no news", FIRST, replace(FIRST, anomaly=anomaly(n=4)), None),
        ("many more nodes are", FIRST, replace(FIRST, anomaly=anomaly(n=8)), Reason.MORE),
        ("many fewer are", FIRST, replace(FIRST, anomaly=anomaly(n=2)), Reason.FEWER),
        ("a long compile that was cut off is told so", FIRST, CUT_OFF, Reason.FEWER),
        ("and once", CUT_OFF, CUT_OFF, None),
        (
            "that no price is known for now is no news",
            FIRST,
            replace(FIRST, waste=waste("0")),
            None,
        ),
        ("twice the dollars are worse", FIRST, replace(FIRST, waste=waste("200")), Reason.WORSE),
        (
            "what has cost twice as much as told is worse",
            FIRST,
            replace(FIRST, waste=waste("100", "160")),
            Reason.WORSE,
        ),
        (
            "twice very little is no news, and shown after an hour",
            FIRST,
            replace(FIRST, waste=waste("100", "120")),
            Reason.UPDATED,
        ),
        (
            "the dollars of a muted one are shown too",
            MUTED,
            replace(MUTED, waste=waste("100", "120")),
            Reason.UPDATED,
        ),
        ("the end is told", FIRST, replace(FIRST, closed=LATER), Reason.OVER),
        (
            "the end is told though it was muted",
            FIRST,
            replace(FIRST, closed=LATER, muted_by="silence:s1"),
            Reason.OVER,
        ),
        ("an acknowledgement is shown", FIRST, replace(FIRST, acknowledged=ACK), Reason.DECIDED),
        ("a silence is shown", FIRST, replace(FIRST, muted_by="silence:s1"), Reason.DECIDED),
        (
            "what became muted by another speaks no more",
            FIRST,
            replace(FIRST, muted_by="inhibit:x", anomaly=anomaly(n=9)),
            None,
        ),
        ("an unacknowledged critical alert is told again", CRITICAL, CRITICAL, Reason.REMINDER),
    ],
)
def test_why_a_channel_hears(
    sentence: str, before: Alert, now: Alert, reason: Reason | None
) -> None:
    said = log_entry_of(told(before), "m1")
    found = notification_of(Incident("n1", "web:alerts", (now,), said), POLICY, LATER)
    assert (found.reason if found else None) is reason, sentence


def test_of_two_alerts_the_end_of_one_means_fewer_nodes() -> None:
    other = alert(anomaly(Cause.ODD), name="a2", waste=waste())
    said = log_entry_of(told(FIRST, other), "m1")
    found = notification_of(
        Incident("n1", "web:alerts", (FIRST, replace(other, closed=LATER)), said), POLICY, LATER
    )
    assert said.things == 8
    assert found is not None
    assert found.reason is Reason.FEWER


def test_the_end_of_a_few_dear_nodes_among_many_is_shown_and_once() -> None:
    """The message is drawn of the dearest of its alerts, and would say that it still fires."""
    dear = alert(anomaly(n=1, cluster="dear"), name="a2", waste=waste("900"))
    entry = log_entry_of(told(dear, FIRST, alert(anomaly(n=40), name="a3")), "m1")
    over = replace(dear, closed=NOON + FIVE)
    incident = Incident("n1", "web:alerts", (over, FIRST, alert(anomaly(n=40), name="a3")), entry)
    found = notification_of(incident, POLICY, NOON + FIVE)
    assert found
    assert found.reason is Reason.FEWER
    shown = replace(incident, entry=replace(decided_entry(found, entry), pending=False))
    assert notification_of(shown, POLICY, NOON + 2 * FIVE) is None


@pytest.mark.parametrize(
    ("ago", "reason"), [(timedelta(hours=23, minutes=59), Reason.OVER), (timedelta(days=1), None)]
)
def test_the_end_of_what_may_never_have_been_told_is_told_for_a_day(
    ago: timedelta, reason: Reason | None
) -> None:
    over, unsent = replace(FIRST, closed=NOON), log_entry_of(told(FIRST), "")
    found = notification_of(Incident("n1", "web:alerts", (over,), unsent), POLICY, NOON + ago)
    assert (found.reason if found else None) is reason


def test_an_alert_that_joins_a_message_is_reminded_of_from_its_own_opening() -> None:
    said = log_entry_of(told(CRITICAL), "m1")
    joined = replace(CRITICAL, id="a2", opened=NOON + timedelta(hours=1))
    again = replace(
        said,
        alerts=("a1", "a2"),
        things=8,
        usd_per_hour=said.usd_per_hour * 2,
        usd_so_far=said.usd_so_far * 2,
    )
    found = notification_of(
        Incident("n1", "web:alerts", (replace(CRITICAL, acknowledged=ACK), joined), again),
        POLICY,
        LATER,
    )
    assert found is not None
    quiet = replace(again, digest=log_entry_of(found, "m1").digest)
    soon = NOON + timedelta(hours=1) + FIVE
    about = Incident("n1", "web:alerts", (replace(CRITICAL, acknowledged=ACK), joined), quiet)
    assert notification_of(about, POLICY, soon) is None


def test_an_acknowledged_critical_alert_is_not_repeated() -> None:
    quiet = replace(CRITICAL, acknowledged=ACK)
    said = log_entry_of(told(quiet), "m1")
    assert notification_of(Incident("n1", "web:alerts", (quiet,), said), POLICY, LATER) is None


def test_a_first_message_that_never_left_is_still_a_first() -> None:
    said = log_entry_of(told(FIRST), "")
    found = notification_of(Incident("n1", "web:alerts", (FIRST,), said), POLICY, LATER)
    assert found is not None
    assert found.reason is Reason.FIRST


def test_muted_alerts_begin_no_incident_and_channels_hear_apart() -> None:
    loud, muted = alert(name="a1"), alert(anomaly(Cause.ODD), name="a2", muted_by="inhibit:x")
    assert [i.alerts for i in group([loud, muted], [], "web:alerts")] == [(loud,)]
    assert group([loud], [], "web:alerts")[0].id != group([loud], [], "web:other")[0].id


def test_an_alert_stays_with_the_message_that_told_of_it() -> None:
    said = replace(log_entry_of(told(FIRST), "m1"), alerts=("a1",))
    second = alert(name="a2", opened=LATER)
    (incident,) = group([FIRST, second], [said], "web:alerts")
    assert (incident.id, [a.id for a in incident.alerts]) == ("n1", ["a1", "a2"])


@pytest.mark.parametrize(("usd", "messages"), [("40", 1), ("100", 1), ("900", 2)])
def test_what_costs_more_than_a_message_about_the_bill_says_has_one_of_its_own(
    usd: str, messages: int
) -> None:
    small = alert(anomaly(Cause.SPEND_JUMP), waste=waste())
    said = replace(log_entry_of(told(small), "m1"), alerts=("a1",))
    large = alert(anomaly(Cause.SPEND_JUMP), name="a2", opened=LATER, waste=waste(usd))
    incidents = group([small, large], [said], "web:alerts")
    assert len(incidents) == messages
    again = [replace(log_entry_of(told(large), "m2"), id=incidents[-1].id, alerts=("a2",))]
    if messages == 2:
        assert len(group([small, large], [said, *again], "web:alerts")) == 2


def test_of_two_messages_about_the_bill_the_newest_tells_what_comes() -> None:
    first, dear, later = (
        alert(anomaly(Cause.SPEND_JUMP), name=name, waste=waste(usd))
        for name, usd in (("a1", "100"), ("a2", "900"), ("a3", "40"))
    )
    entries = [log_entry_of(replace(told(x), id=f"n{x.id}"), x.id) for x in (first, dear)]
    incidents = group([first, dear, later], entries, "web:alerts")
    assert [incident.alerts for incident in incidents] == [(first,), (dear, later)]


def test_a_fault_joins_what_it_explains_before_what_is_like_it() -> None:
    faults = [
        alert(
            anomaly(Cause.HARDWARE_FAULT, scope=Labels(cluster="llama", instance=name)), name=name
        )
        for name in ("i-1", "i-2")
    ]
    effect = alert(name="a1", muted_by=faults[1].effect_mark)
    entries = [log_entry_of(replace(told(x), id=f"n{x.id}"), x.id) for x in (faults[0], effect)]
    incidents = group([*faults, effect], entries, "web:alerts")
    assert [incident.alerts for incident in incidents] == [(faults[0],), (effect, faults[1])]


def test_two_that_the_bill_shows_at_once_share_a_message_though_the_second_is_dearer() -> None:
    both = [alert(anomaly(Cause.SPEND_JUMP), name=usd, waste=waste(usd)) for usd in ("40", "900")]
    (incident,) = group(both, [], "web:alerts")
    assert incident.alerts == tuple(both)


def test_a_message_holds_the_alerts_of_its_channel_and_unsent_only_those_for_it() -> None:
    sent, unsent = (log_entry_of(told(FIRST), message) for message in ("m1", ""))
    (elsewhere,) = group([FIRST], [sent], "web:other")
    assert (elsewhere.id == "n1", elsewhere.entry) == (False, None)
    assert group([FIRST], [unsent], "web:alerts", set()) == []
    assert [x.id for x in group([FIRST], [sent], "web:alerts", set())] == ["n1"]


def test_what_comes_after_the_end_joins_no_message_that_still_shows_it_firing() -> None:
    """The end is not shown yet: neither a new opening nor an effect belongs to what is over."""
    over, entry = replace(FIRST, closed=LATER), log_entry_of(told(FIRST), "m1")
    second = alert(anomaly(n=2), name="a9", opened=LATER)
    first, new = group([over, second], [entry], "web:alerts")
    assert (first.id, first.alerts, new.alerts) == ("n1", (over,), (second,))
    (alone,) = group([over, explained()], [entry], "web:alerts")
    assert alone.alerts == (over,)


def test_what_is_planned_or_befalls_another_job_or_owner_is_an_incident_of_its_own() -> None:
    def key(cause: Cause, **scope: str) -> str:
        return group_key(alert(anomaly(cause, scope=Labels(**scope))))

    place = {"cluster": "llama"}
    assert key(Cause.HUNG, job="a", **place) != key(Cause.HUNG, job="b", **place)
    assert key(Cause.IDLE, job="of ann", **place) != key(Cause.IDLE, **place)
    assert key(Cause.IDLE, resource="a", **place) != key(Cause.IDLE, resource="b", **place)
    assert key(Cause.IDLE, resource="a") == key(Cause.IDLE, resource="b")


def test_growth_is_told_past_its_share_and_doubling_from_it() -> None:
    def reason(before: Alert, now: Alert) -> Reason | None:
        incident = Incident("n1", "web:alerts", (now,), log_entry_of(told(before), "m1"))
        found = notification_of(incident, POLICY, NOON + FIVE)
        return found.reason if found else None

    ten = replace(FIRST, anomaly=anomaly(n=10))
    things = {n: reason(ten, replace(ten, anomaly=anomaly(n=n))) for n in (13, 12, 8, 7)}
    assert things == {13: Reason.MORE, 12: None, 8: None, 7: Reason.FEWER}
    rates = {usd: reason(FIRST, replace(FIRST, waste=waste(usd))) for usd in ("150", "150.01")}
    assert rates == {"150": None, "150.01": Reason.WORSE}
    dear = replace(FIRST, waste=waste("100", "200"))
    so_far = {x: reason(dear, replace(FIRST, waste=waste("100", x))) for x in ("399", "400")}
    assert so_far == {"399": None, "400": Reason.WORSE}
    nothing = replace(FIRST, anomaly=anomaly(things=(), wasted_shares=()))
    assert log_entry_of(told(nothing), "m1").things == 1


def test_dollars_alone_edit_no_message_that_was_never_sent() -> None:
    unsent = log_entry_of(told(FIRST), "")
    dearer = replace(FIRST, waste=waste("100", "51"))
    found = notification_of(Incident("n1", "web:alerts", (dearer,), unsent), POLICY, LATER)
    assert found
    assert (found.reason, found.owed) == (Reason.FIRST, True)


def test_an_assignment_is_a_decision_that_is_shown() -> None:
    doing = DecisionKind.ASSIGN
    dana, kim = (Decision(x, "a1", doing, "web:local", x, NOON) for x in ("d1", "d2"))
    said = log_entry_of(told(replace(FIRST, assignment=dana)), "m1")
    found = [
        notification_of(
            Incident("n1", "web:alerts", (replace(FIRST, assignment=x),), said), POLICY, NOON
        )
        for x in (dana, kim)
    ]
    assert [x and x.reason for x in found] == [None, Reason.DECIDED]


def test_an_end_that_could_not_be_told_before_is_worth_a_message_for_a_day() -> None:
    over = replace(FIRST, closed=NOON)
    silent = replace(FIRST, muted_by="silence:s1")
    assert sendable([over], NOON + timedelta(hours=23))
    assert not sendable([over], NOON + timedelta(days=1))
    assert sendable([over, FIRST], NOON + timedelta(days=2))
    assert not sendable([over, silent], NOON)


def test_an_incident_that_ended_untold_is_a_first_when_it_speaks_again() -> None:
    entry = replace(log_entry_of(told(FIRST), ""), over=True)
    reasons = []
    for pending in (False, True):
        incident = Incident("n1", "web:alerts", (FIRST,), replace(entry, pending=pending))
        found = notification_of(incident, POLICY, LATER)
        reasons.append(found and found.reason)
    assert reasons == [Reason.FIRST, Reason.MORE]


def test_after_the_end_the_next_opening_is_a_new_incident() -> None:
    over = replace(log_entry_of(told(FIRST), "m1"), over=True)
    (incident,) = group([alert(name="a2", opened=LATER)], [over], "web:alerts")
    assert incident.id != "n1"


def test_a_reminder_comes_at_its_hours_however_often_the_message_was_edited() -> None:
    after = POLICY.duration("alert.remind_after")
    heard = []
    said = log_entry_of(told(CRITICAL), "m1")
    for hours in range(1, 13):
        at = NOON + timedelta(hours=hours)
        dearer = replace(CRITICAL, waste=waste("100", str(100 * 2**hours)))
        found = notification_of(Incident("n1", "web:alerts", (dearer,), said), POLICY, at)
        assert found is not None
        heard.append(found.reason)
        said = log_entry_of(found, "m1")
    every = int(after / timedelta(hours=1))
    assert [i + 1 for i, reason in enumerate(heard) if reason is Reason.REMINDER] == list(
        range(every, 13, every)
    )


def explained(name: str = "a2", by: str = "starved/cluster=llama", **more: object) -> Alert:
    return alert(
        anomaly(Cause.NO_DATA, n=2), name=name, waste=waste(), muted_by=f"inhibit:{by}", **more
    )  # type: ignore[arg-type]


def test_what_an_alert_explains_joins_its_message_though_it_came_by_way_of_another() -> None:
    chain = explained("a3", by="no_data/cluster=llama")
    (incident,) = group([chain, explained(), FIRST], [], "web:alerts")
    assert {a.id for a in incident.alerts} == {"a1", "a2", "a3"}


def test_what_explains_an_alert_told_minutes_before_takes_its_message_over() -> None:
    said = log_entry_of(told(explained(opened=NOON)), "m1")
    (incident,) = group([explained(opened=NOON), FIRST], [said], "web:alerts")
    assert ({a.id for a in incident.alerts}, incident.id) == ({"a1", "a2"}, "n1")
    found = notification_of(incident, POLICY, NOON + FIVE)
    assert (found and found.reason) is Reason.MORE


@pytest.mark.parametrize(
    ("cluster", "drop_in", "messages"), [("llama", "llama", 1), ("llama", "vision", 2), ("", "", 2)]
)
def test_a_symptom_told_first_has_the_drop_of_its_cluster_join_before_it_is_wide(
    cluster: str, drop_in: str, messages: int
) -> None:
    """Nothing mutes the symptom yet: the drop is seen on few of the nodes so far."""
    silent = alert(anomaly(Cause.NO_DATA, n=2, cluster=cluster), name="a2", waste=waste())
    drop = alert(anomaly(n=2, cluster=drop_in), waste=waste(), opened=NOON + FIVE)
    incidents = group([silent, drop], [log_entry_of(told(silent), "m1")], "web:alerts")
    assert len(incidents) == messages
    assert sorted(a.id for incident in incidents for a in incident.alerts) == ["a1", "a2"]


@pytest.mark.parametrize(("later", "messages"), [(timedelta(0), 1), (timedelta(seconds=1), 2)])
def test_an_effect_was_told_no_sooner_than_its_cause_is_seen_to_begin(
    later: timedelta, messages: int
) -> None:
    effect = explained(opened=FIRST.anomaly.window.start - later)
    assert len(group([effect, FIRST], [log_entry_of(told(effect), "m1")], "web:alerts")) == messages


@pytest.mark.parametrize(
    ("cause", "minutes", "more", "messages"),
    [
        (Cause.EXECUTION_ERRORS, 15, {}, 1),
        (Cause.EXECUTION_ERRORS, 16, {}, 2),
        (Cause.IDLE, 5, {}, 2),
        (Cause.EXECUTION_ERRORS, 5, {"owner": "dana"}, 2),
        (Cause.EXECUTION_ERRORS, 5, {"muted_by": "silence:s1"}, 1),
    ],
)
def test_symptoms_of_one_cluster_that_begin_together_are_one_message(
    cause: Cause, minutes: int, more: dict[str, str], messages: int
) -> None:
    silent = alert(anomaly(Cause.NO_DATA, n=2), name="a2", waste=waste())
    later = silent.opened + timedelta(minutes=minutes)
    second = alert(anomaly(cause, n=2), waste=waste(), opened=later, **more)
    assert (
        len(group([silent, second], [log_entry_of(told(silent), "m1")], "web:alerts")) == messages
    )
    assert len(group([silent, second], [], "web:alerts")) == messages


def test_what_is_over_has_no_cause_join_its_message() -> None:
    effect = explained(opened=NOON)
    over = replace(effect, closed=NOON + FIVE)
    beside = alert(anomaly(Cause.ODD, cluster="vision"), name="a4")
    entry = log_entry_of(told(effect, beside), "m1")
    names = [x.id for x in group([over, beside, FIRST], [entry], "web:alerts") if FIRST in x.alerts]
    assert names != ["n1"]


def test_a_second_opening_begins_a_message_beside_that_of_the_first() -> None:
    """Its effects were told with the first, which has ended."""
    over = replace(FIRST, id="a0", closed=NOON)
    entry = log_entry_of(told(over, explained(opened=NOON)), "m1")
    incidents = group([over, explained(opened=NOON), FIRST], [entry], "web:alerts")
    assert [[a.id for a in x.alerts] for x in incidents] == [["a0", "a2"], ["a1"]]


def test_what_explains_an_alert_of_yesterday_is_news_of_its_own() -> None:
    old = explained(opened=NOON - timedelta(days=1))
    incidents = group([old, FIRST], [log_entry_of(told(old), "m1")], "web:alerts")
    assert [[a.id for a in incident.alerts] for incident in incidents] == [["a2"], ["a1"]]


def test_an_incident_is_over_with_what_explains_the_rest_and_its_dollars_count_once() -> None:
    said = log_entry_of(told(FIRST, explained()), "m1")
    assert (said.things, said.usd_per_hour) == (4, 100)
    gone = Incident("n1", "web:alerts", (replace(FIRST, closed=LATER), explained()), said)
    found = notification_of(gone, POLICY, LATER)
    assert found is not None
    assert found.reason is Reason.OVER


def test_what_outlasts_its_cause_is_told_again_in_the_same_message() -> None:
    over, left = replace(FIRST, closed=LATER), replace(explained(), muted_by="")
    said = replace(log_entry_of(told(over, explained()), "m1"), over=True)
    (incident,) = group([left], [said], "web:alerts")
    found = notification_of(incident, POLICY, LATER)
    assert (incident.id, found and found.reason) == ("n1", Reason.MORE)


def test_the_dollars_of_a_message_are_never_older_than_an_hour_and_no_edit_comes_sooner_for_them() -> (
    None
):
    said, edits = log_entry_of(told(FIRST), "m1"), []
    for n in range(1, 73):  # every five minutes, a dollar more each time
        at, dearer = NOON + n * FIVE, replace(FIRST, waste=waste("100", str(60 + n)))
        if found := notification_of(Incident("n1", "web:alerts", (dearer,), said), POLICY, at):
            said = replace(decided_entry(found, said), pending=False)
            edits.append((found.reason, at - NOON))
    assert edits == [(Reason.UPDATED, timedelta(hours=hour)) for hour in range(1, 7)]


def test_what_grows_slowly_is_told_though_each_hour_it_grew_but_a_little() -> None:
    said, heard = log_entry_of(told(FIRST), "m1"), []
    for hours in range(1, 6):
        dearer = replace(FIRST, waste=waste(str(100 + 15 * hours), str(60 + hours)))
        found = notification_of(
            Incident("n1", "web:alerts", (dearer,), said), POLICY, NOON + timedelta(hours=hours)
        )
        assert found
        heard.append(found.reason)
        said = replace(decided_entry(found, said), pending=False)
    assert heard == [Reason.UPDATED] * 3 + [Reason.WORSE, Reason.UPDATED]


def test_new_dollars_add_no_line_to_the_thread_and_wait_for_everything_else() -> None:
    dearer = replace(FIRST, waste=waste("100", "120"))
    seen = Notification("n1", "web:alerts", Reason.UPDATED, LATER, (dearer,))
    state = State(notification_log=(log_entry_of(told(FIRST), "m1"),))
    decided = decide([seen], state, lambda _: Card("FIRING"), lambda *_: Card("line"))
    assert (decided.lines, decided.parcels[0].urgency[0]) == ([], 2)


def test_new_messages_go_before_edits_critical_before_others_and_dear_before_cheap() -> None:
    def decided(*alerts: Alert, reason: Reason = Reason.FIRST, sent: str | None = None) -> Decided:
        entry = () if sent is None else (log_entry_of(told(FIRST), sent),)
        seen = Notification("n1", "web:alerts", reason, NOON, alerts)
        draw = Card("FIRING")
        return decide([seen], State(notification_log=entry), lambda _: draw, lambda *_: draw)

    dear = replace(FIRST, waste=waste("200"))
    ended = alert(anomaly(Cause.ODD), name="a2", waste=waste("900"), closed=NOON)
    edited = decided(CRITICAL, reason=Reason.MORE, sent="m1")
    order = [decided(CRITICAL), decided(dear), decided(FIRST, ended), edited]
    urgencies = [x.parcels[0].urgency for x in order]
    assert urgencies == sorted(urgencies)
    assert len({*urgencies}) == 4
    assert urgencies[2] == decided(FIRST).parcels[0].urgency, "an end costs nothing now"
    assert decided(FIRST, reason=Reason.MORE, sent="").parcels[0].urgency[0] == 0
    new_keys = [x.keys() for x in (order[0], edited)]
    assert ["n1" in keys for keys in new_keys] == [True, False]


def test_a_thread_hears_what_its_message_was_not_about_and_what_began_again() -> None:
    def lines(now: Alert, *, over: bool = False) -> int:
        entry = replace(log_entry_of(told(FIRST), "m1"), over=over)
        more = Notification("n1", "web:alerts", Reason.MORE, LATER, (now,))
        state = State(notification_log=(entry,))
        return len(decide([more], state, lambda _: Card("A"), lambda *_: Card("line")).lines)

    other = replace(FIRST, id="a9")
    assert [lines(FIRST), lines(FIRST, over=True), lines(other)] == [0, 1, 1]


@pytest.mark.parametrize(("per_hour", "lines"), [("99", 0), ("100", 0), ("101", 1)])
def test_dollars_that_only_add_up_are_no_line_of_the_thread(per_hour, lines) -> None:
    dearer = replace(FIRST, waste=waste(per_hour, "120"))
    worse = Notification("n1", "web:alerts", Reason.WORSE, LATER, (dearer,))
    state = State(notification_log=(log_entry_of(told(FIRST), "m1"),))
    decided = decide([worse], state, lambda _: Card("FIRING"), lambda *_: Card("line"))
    assert len(decided.lines) == lines
