"""The story of an alert: what was seen, said and decided, in order."""

from datetime import timedelta
from decimal import Decimal

import pytest

from bot.answers.alerts.why import events, timeline_card
from bot.cards.card import Table
from bot.model.alert import Decision, DecisionKind, Silence
from bot.model.labels import Labels
from bot.model.notification import NotificationLogEntry, Reason
from bot.ports import StateUpdate
from tests.answers.configuring import ask, end
from tests.builders import NOON, alert, anomaly

HOUR = timedelta(hours=1)


def told():
    one = alert(anomaly(things=("i-1", "i-2")))
    ack = Decision(
        "d1", one.id, DecisionKind.ACKNOWLEDGE, "slack:U1", "dana", one.opened + 2 * HOUR, "looking"
    )
    mute = Silence(
        "s1",
        Labels(),
        one.opened + 3 * HOUR,
        one.opened + 5 * HOUR,
        "slack:U1",
        "dana",
        "migration",
        alert=one.id,
    )
    other = Silence("s2", Labels(), one.opened, one.opened + HOUR, "slack:U1", alert="another")
    sent = NotificationLogEntry(
        "n1", "slack:C1", Reason.WORSE, one.opened + HOUR, (one.id,), 2, Decimal(669), "x"
    )
    return one, events(one, [ack], [mute, other], [sent])


def test_events_stand_in_the_order_in_which_they_happened():
    _, story = told()
    assert [event.kind for event in story] == ["seen", "seen", "sent", "decided", "decided"]
    assert story[0].words == "Began on 2 nodes, as estimated from the readings"
    assert story[2].words == "Sent: it became worse to slack:C1, at $669 an hour"
    assert (story[3].words, story[3].by) == ("Acknowledged: looking", "dana")
    assert story[4].words.startswith("Snoozed until ")
    assert story[4].words.endswith(": migration")


async def test_alerts_of_a_window_are_those_of_the_cluster_that_is_asked_about(bot):
    at = end(bot)
    alerts = [
        alert(anomaly(cluster=cluster), name=cluster, opened=at - HOUR)
        for cluster in ("tiny", "vision")
    ]
    bot.ports.stores.alerts.save(StateUpdate(alerts))
    for line, names in (
        ("alerts window=1d", ["tiny", "vision"]),
        ("alerts tiny", ["tiny"]),
        ("alerts tiny window=1d", ["tiny"]),
    ):
        listed = (await ask(bot, line)).data["alerts"]
        assert sorted(row["id"] for row in listed) == names


def test_the_card_lists_them_for_a_chat():
    one, story = told()
    card = timeline_card(one, story, NOON)
    table = next(block for block in card.blocks if isinstance(block, Table))
    assert [row[1] for row in table.rows] == [event.kind for event in story]
    assert card.data["id"] == one.id


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_to_notify_has_its_words(reason):
    one = alert()
    sent = NotificationLogEntry(
        "n1", "slack:C1", reason, one.opened, (one.id,), 1, Decimal(669), "x"
    )
    (said,) = (event for event in events(one, [], [], [sent]) if event.kind == "sent")
    assert said.words.endswith(" to slack:C1, at $669 an hour")


@pytest.mark.parametrize("doing", DecisionKind)
def test_every_decision_has_its_words(doing):
    one = alert()
    (decided,) = (
        event
        for event in events(one, [Decision("d1", one.id, doing, "u", "dana", NOON)], [], [])
        if event.by
    )
    assert (decided.kind, decided.by) == ("decided", "dana")
    assert decided.words
