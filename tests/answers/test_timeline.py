"""The story of an alert: what was seen, said and decided, in order."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from itertools import permutations

import pytest

from adapters.store.memory import MemoryStore
from bot.answers.alerts.alerts import alerts_card, find_alert
from bot.answers.alerts.judge import feedback_card, silences_card
from bot.answers.alerts.savings import savings_card
from bot.answers.alerts.why import events, timeline_card, why_card
from bot.app import App
from bot.cards.card import Buttons, Table, Tone
from bot.errors import WrongInput
from bot.grammar.access import Access
from bot.model.alert import Decision, DecisionKind, Pattern, Silence
from bot.model.labels import Labels
from bot.model.money import usd
from bot.model.notification import Coverage, Known, NotificationLogEntry, Reason
from bot.model.window import Window, parse_duration
from bot.ports import StateUpdate
from bot.watch.feedback import RuleScore, Saving
from tests.answers.configuring import ask, buttons, end, form, refused
from tests.builders import NOON, alert, anomaly, ports_over, waste
from tests.house import fakes

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
    assert [event.kind for event in story] == ["seen", "seen", "sent", "sent", "decided", "decided"]
    assert story[0].words == "Began on 2 nodes, as estimated from the readings"
    assert story[3].words == "That it became worse was sent to slack:C1, at $669 an hour"
    assert story[2].words == "Sent for the first time"
    assert (story[4].words, story[4].by) == ("Acknowledged: looking", "dana")
    assert story[5].words.startswith("Snoozed until ")
    assert story[5].words.endswith(": migration")


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


def test_what_costs_nothing_is_sent_without_dollars():
    one, _ = told()
    sent = NotificationLogEntry("n1", "c", Reason.FIRST, NOON, (one.id,), 1, Decimal(0), "")
    assert events(one, [], [], [sent])[-1].words == "Sent to c"


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
    *_, said = (event for event in events(one, [], [], [sent]) if event.kind == "sent")
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


def over(**alerts):
    """Return a bot whose store holds these alerts, named by their words, and nothing else."""
    store = MemoryStore()
    store.save(StateUpdate([replace(found, id=name) for name, found in alerts.items()]))
    return App(ports_over(fakes.Fleet(), store), (), Access(), lambda: 0.0)


async def typed(bot, line, at=NOON, **about):
    return await bot.answer(replace(fakes.ask(line, at=at), **about))


def of(cluster="llama", **more):
    """Return an alert of a cluster; `usd` is its waste an hour."""
    if usd := more.pop("usd", ""):
        more["waste"] = waste(usd)
    things = (f"i-{cluster}",)
    return alert(anomaly(cluster=cluster, things=things, wasted_shares=(0.5,)), **more)


RANKED = {
    "dear": of("dear", usd="90"),
    "cheap": of("cheap", usd="10"),
    "free": of("free"),
    "muted": of("muted", usd="200", muted_by="silence:s1"),
    "over": of("over", usd="500", closed=NOON),
    "over-muted": of("over-muted", usd="400", muted_by="silence:s1", closed=NOON),
}
"""Alerts as a list shows them, the first first."""


def test_alerts_stand_firing_unmuted_and_dearest_first_and_only_those_that_speak_are_added_up():
    alerts = [replace(found, id=name) for name, found in RANKED.items()]
    for some in list(permutations(alerts))[::17]:
        card = alerts_card(some, None, Coverage())
        assert [row["id"] for row in card.data["alerts"]] == list(RANKED)
        assert card.title == "3 open alerts, wasting $100 an hour and $200 muted"
    (table,) = (block for block in card.blocks if isinstance(block, Table))
    columns = [column.name for column in table.columns]
    rows = [dict(zip(columns, row, strict=True)) for row in table.rows]
    assert [row["$/h"] for row in rows] == ["$90.00", "$10.00", "–", "$200", "–", "–"]
    assert [row["so far"] for row in rows] == [
        "$50.00",
        "$50.00",
        "–",
        "$50.00",
        "$50.00",
        "$50.00",
    ]
    states = [row["state"] for row in rows]
    assert states == ["open"] * 3 + [states[3]] + ["over"] * 2
    assert states[3] not in ("open", "over")
    assert table.lines == tuple(f"alert {name}" for name in RANKED)
    assert [button.line for button in buttons(card).values()] == list(table.lines[:4])


@pytest.mark.parametrize(
    ("names", "title"),
    [
        ("muted", "1 alert, all muted"),
        ("muted over", "2 alerts, none open"),
        ("cheap", "1 open alert, wasting $10.00 an hour"),
        ("", "Nothing is wrong"),
    ],
)
def test_the_title_of_a_list_says_how_many_speak(names, title):
    card = alerts_card([RANKED[name] for name in names.split()], None, Coverage())
    assert card.title == title
    assert (card.tone is Tone.GOOD) is not names
    named = alerts_card([RANKED[name] for name in names.split()], None, Coverage(), "llama")
    assert named.title.replace(" in llama", "", 1) == title != named.title


def test_a_list_of_a_fleet_that_is_not_seen_says_so_and_of_a_window_says_which():
    blind = Coverage(Known.UNKNOWN, "The readings are late.")
    week = Window(NOON - timedelta(days=7), NOON)
    now, then = (alerts_card([], window, blind) for window in (None, week))
    assert (now.tone, then.tone) == (Tone.WARNING, Tone.WARNING)
    assert ("·" in now.title, "·" in then.title) == (False, True)
    assert then.title.partition(" · ")[0] != now.title
    assert "The readings are late." in str(alerts_card([RANKED["dear"]], None, blind).blocks)
    assert "The readings are late." not in str(alerts_card([RANKED["dear"]], week, blind).blocks)


def test_an_alert_is_found_by_its_id_or_key_before_a_cluster_a_run_or_a_node_of_its_name():
    labels = replace(anomaly(cluster="llama").labels, job="pretrain")
    first = alert(anomaly(labels=labels, things=("i-1",)), closed=NOON)
    again = replace(first, opened=NOON + HOUR, seen=NOON + HOUR, closed=NOON + HOUR)
    other = of("starved:vision", opened=NOON + 2 * HOUR)
    bot = over(first=first, again=again, named=other, llama=of("else"))
    request = fakes.ask("", at=NOON + 3 * HOUR)

    def found(name):
        return find_alert(bot.ports, request, name).id

    assert found("first") == "first"
    assert found("llama") == "llama", "an id before a cluster of the same name"
    assert found(other.key) == "named"
    # Of those about it one that fires is meant, else the newest.
    assert [found(name) for name in ("pretrain", "i-1")] == ["again", "again"]
    bot.ports.stores.alerts.save(StateUpdate([replace(first, id="first", closed=None)]))
    assert [found(name) for name in ("pretrain", "i-1")] == ["first", "first"]
    with pytest.raises(WrongInput, match="did you mean 'pretrain'"):
        found("pretrian")
    # Of what is over neither id is offered, and after 15 days it is not found at all.
    with pytest.raises(WrongInput) as unknown:
        found("zzzz")
    assert "again" not in str(unknown.value)
    long_ago = replace(fakes.ask(""), at=NOON + timedelta(days=15, hours=2))
    with pytest.raises(WrongInput):
        find_alert(bot.ports, long_ago, "again")


async def test_in_a_thread_its_dearest_alert_is_meant_and_in_another_channel_none():
    bot = over(small=of("a", usd="1"), large=of("b", usd="2"), apart=of("c", usd="9"))
    sent = NotificationLogEntry(
        "n1", "chat:ops", Reason.FIRST, NOON, ("small", "large"), 1, Decimal(3), "", "m1"
    )
    bot.ports.stores.alerts.save(StateUpdate(notification_log=[sent]))

    card = await typed(bot, "alert", thread="m1")
    assert card.data["id"] == "large"
    assert "small" in str(card.data)
    assert (await typed(bot, "ack looking at it", thread="m1")).data["alert"] == "large"
    (kept,) = bot.ports.stores.alerts.decisions("large")
    assert (kept.doing, kept.note) == (DecisionKind.ACKNOWLEDGE, "looking at it")
    # A chat with one person has no address.
    assert (await typed(bot, "why", thread="m1", channel="")).data["id"] == "large"
    assert (await typed(bot, "alert apart", thread="m1")).data["id"] == "apart"
    await typed(bot, "not-an-anomaly 2h", thread="m1")
    await typed(bot, "snooze 1h", thread="m1")
    judged, napping = sorted(
        bot.ports.stores.alerts.load(NOON).silences, key=lambda x: x.pattern is None
    )
    assert (judged.pattern.scope, judged.ends) == (Labels(cluster="b"), NOON + 2 * HOUR)
    assert (napping.selector, napping.alert) == (Labels(cluster="b"), "large")
    for elsewhere in ({"thread": "m2"}, {"thread": "m1", "channel": "chat:fin"}, {"thread": ""}):
        assert "Which alert?" in refused(await typed(bot, "alert", **elsewhere)), elsewhere


async def test_a_ceiling_that_is_reached_already_is_refused_with_a_higher_one():
    bot = over(cheap=of("a", usd="100"))
    spent = bot.ports.stores.alerts.load(NOON).alerts[0].waste.so_far
    said = refused(await typed(bot, f"snooze cheap 1h ceiling={spent}"))
    assert said.startswith(f"It has cost {usd(spent)} so far: name a higher ceiling")
    assert not bot.ports.stores.alerts.load(NOON).silences
    card = await typed(bot, f"snooze cheap 1h {said.split()[-1].rstrip('.')}")
    assert "or until it has cost" in card.title


@pytest.mark.parametrize(
    ("line", "asks"),
    [
        ("snooze cheap 1d", False),
        ("snooze cheap 25h", True),
        ("snooze cheap 25h sure=yes", False),
        ("snooze dear 1h", True),
        ("snooze dear 1h ceiling=500", False),
        ("snooze dear 25h ceiling=500 reason=move", True),
        ("not-an-anomaly cheap 30d", False),
        ("not-an-anomaly cheap 31d", True),
        ("not-an-anomaly dear 1h", True),
        ("not-an-anomaly dear 1h sure=yes", False),
    ],
)
async def test_what_mutes_for_long_or_mutes_a_dear_alert_is_asked_about_first(line, asks):
    bot = over(cheap=of("a", usd="1"), dear=of("b", usd="100", costly=True))
    card = await typed(bot, line)
    held = bot.ports.stores.alerts.load(NOON).silences
    assert ("asks" in card.data, len(held)) == (asks, not asks)
    if asks:
        again = next(x for x in buttons(card).values() if x.line.startswith(line.split()[0]))
        assert again.line == f"{line} sure=yes"
        card = await typed(bot, again.line)
        (held,) = bot.ports.stores.alerts.load(NOON).silences
        assert held.ceiling_usd == (Decimal(500) if "ceiling" in line else None)
        assert held.reason == ("move" if "move" in line else held.reason)
    undone = await typed(bot, buttons(card)["Undo"].line)
    assert (undone.tone, list(bot.ports.stores.alerts.load(NOON).silences)) == (Tone.GOOD, [])


@pytest.mark.parametrize(
    ("line", "fits"),
    [
        ("snooze cheap 30d sure=yes", True),
        ("snooze cheap 721h sure=yes", False),
        ("snooze cheap 0h", False),
        ("snooze cheap until=2026-11-20T12:00Z", False),
        ("snooze cheap until=2026-11-20T12:01Z", True),
        ("not-an-anomaly cheap 1h", True),
        ("not-an-anomaly cheap 59min", False),
        ("not-an-anomaly cheap 180d sure=yes", True),
        ("not-an-anomaly cheap 181d sure=yes", False),
    ],
)
async def test_the_ends_of_the_length_of_a_silence_are_within(line, fits):
    bot = over(cheap=of("a"))
    assert ((await typed(bot, line)).tone is not Tone.ERROR) is fits
    assert len(bot.ports.stores.alerts.load(NOON).silences) == fits


async def test_a_question_says_the_dollars_of_what_fires_and_what_is_to_come_where_it_goes_on():
    lasting, passing = waste("100"), replace(waste("100"), month_end=Decimal(50))
    bot = over(
        lasting=of("a", waste=lasting),
        passing=of("b", waste=passing),
        ended=of("c", waste=lasting, closed=NOON),
        free=of("d"),
    )
    words = {
        name: str((await typed(bot, f"snooze {name} 2d")).blocks[0])
        for name in ("lasting", "passing", "ended", "free")
    }
    assert [("$100 an hour" in x, "$4,800" in x) for x in words.values()] == [
        (True, True),
        (True, False),
        (False, False),
        (False, False),
    ]


def silence(name, ends, **more):
    return Silence(name, Labels(), NOON, NOON + ends * HOUR, "slack:U1", "dana", **more)


def test_silences_stand_by_how_many_alerts_they_keep_quiet_and_then_by_their_ends():
    quiet = [replace(RANKED[name], id=name) for name in ("dear", "cheap")]
    rows = [
        (silence("s-late", 9, alert="a"), None, []),
        (silence("s-one", 9, alert="b"), None, quiet[:1]),
        (silence("s-soon", 1, alert="c", ceiling_usd=Decimal(500)), None, []),
        (silence("m-two", 9, pattern=Pattern("idle", Labels(cluster="x"))), None, quiet),
        (silence("s-last", 10, alert="d"), None, []),
    ]
    for some in (rows, rows[::-1]):
        card = silences_card(some)
        names = [row["id"] for row in card.data["silences"]]
        assert names == ["m-two", "s-one", "s-soon", "s-late", "s-last"]
    assert card.title == "5 silences, 2 firing alerts muted"
    assert [row["kind"] for row in card.data["silences"]] == ["pattern", *["snooze"] * 4]
    assert [row["rule"] for row in card.data["silences"]] == ["idle", *[""] * 4]
    # What mutes nothing now is dropped without a question.
    drops = list(buttons(card).values())
    assert [button.line for button in drops] == [f"silences drop {name}" for name in names[:4]]
    assert [bool(button.confirm) for button in drops] == [True, True, False, False]
    assert "2 firing alerts" in drops[0].confirm
    assert silences_card(()).tone is Tone.GOOD

    named = [
        (silence("s1", 1, alert="gone", reason="moving"), None, []),
        (silence("s2", 2, alert="dear"), RANKED["dear"], []),
        (replace(silence("s3", 3), selector=Labels(cluster="lab")), None, []),
        (silence("m4", 4, pattern=Pattern("idle", Labels(cluster="x", region="y"))), None, []),
    ]
    (table,) = (block for block in silences_card(named).blocks if isinstance(block, Table))
    subjects, ways = zip(*(row[:2] for row in table.rows), strict=True)
    assert [subjects[0], subjects[3]] == ["gone", "idle · x y"]
    assert ("dear" in subjects[1], "lab" in subjects[2]) == (True, True)
    assert subjects[1] != "dear", "its cause and place, where they are known"
    assert ways[:2] == ("snoozed: moving", "snoozed")


async def test_a_judgment_taken_back_is_withdrawn_of_its_alert_alone():
    opened = NOON - 2 * HOUR
    bot = over(one=of("a", opened=opened), two=of("b", opened=opened))
    await typed(bot, "not-an-anomaly two 1d", at=NOON - HOUR)
    card = await typed(bot, "not-an-anomaly one 1d")
    snoozed = await typed(bot, "snooze two 1h")
    later = NOON + HOUR / 2
    assert "No pattern" in refused(
        await typed(bot, f"not-an-anomaly undo {buttons(snoozed)['Undo'].line.split()[-1]}", later)
    )
    assert (await typed(bot, buttons(card)["Undo"].line, later)).data == {"alert": "one"}
    withdrawn = {name: bot.ports.stores.alerts.decisions(name)[-1].doing for name in ("one", "two")}
    assert withdrawn == {"one": DecisionKind.UNJUDGED, "two": DecisionKind.NOT_AN_ANOMALY}
    assert len(bot.ports.stores.alerts.load(later).silences) == 2
    data = (await typed(bot, "feedback 1d", at=NOON + 2 * HOUR)).data
    assert (data["useful"], data["wrong"]) == (0, 1)

    # A decision of another kind is no judgment, and what is useful is muted no longer.
    await typed(bot, "ack two", at=later)
    assert (await typed(bot, "feedback 1d", at=NOON + 2 * HOUR)).data["wrong"] == 1
    assert len((await typed(bot, "useful two", later)).title) > len(
        (await typed(bot, "useful one", later)).title
    )
    assert [x.id for x in bot.ports.stores.alerts.load(later).silences] == [
        buttons(snoozed)["Undo"].line.split()[-1]
    ]


async def test_a_judgment_of_the_instant_at_which_the_alert_opened_is_taken_back_too():
    bot = over(one=of("a"))
    card = await typed(bot, "not-an-anomaly one 1d")
    undone = await typed(bot, buttons(card)["Undo"].line, at=NOON + HOUR)
    assert undone.data == {"alert": "one"}


async def test_only_what_fires_counts_as_alike_as_muted_and_as_open():
    alike = {name: of("a", usd="2") for name in ("one", "two")}
    bot = over(
        **alike,
        ended=of("a", usd="2", closed=NOON),
        dearer=of("a", usd="9", muted_by="silence:x"),
        elsewhere=of("b", usd="2"),
    )
    asked = await typed(bot, "not-an-anomaly one")
    assert asked.data["alike"] == 2
    (field,) = form(asked).fields
    lengths = [parse_duration(value) for value, _ in field.options]
    assert lengths == sorted(lengths)
    assert field.value in dict(field.options)
    listed = (await typed(bot, "alerts")).data["alerts"]
    assert sorted(row["id"] for row in listed) == ["dearer", "elsewhere", "one", "two"]

    await typed(bot, "not-an-anomaly one 1d")
    await typed(bot, "snooze elsewhere 1h reason=moving")
    rows = (await typed(bot, "silences")).data["silences"]
    assert [sorted(row["quiet"]) for row in rows] == [["one", "two"], ["elsewhere"]]
    # Which alert might be meant: one that speaks.
    quiet = over(a_muted=of("a", muted_by="silence:x"), loud=of("b"))
    assert "for example loud" in refused(await typed(quiet, "alert"))
    assert "for example" not in refused(await typed(over(), "alert"))


async def test_an_alert_about_spend_is_drawn_from_the_bill_and_no_other_is():
    class Billed(fakes.Fleet):
        asked = 0

        def deltas(self, now, days):
            self.asked += 1
            return super().deltas(now, days)

    counts = []
    for kind in ("spend", "node"):
        fleet, store = Billed(), MemoryStore()
        found = replace(anomaly(), kind=kind)
        store.save(StateUpdate([alert(found)]))
        await typed(App(ports_over(fleet, store), (), Access(), lambda: 0.0), "alert a1")
        counts.append(fleet.asked)
    assert counts == [1, 0]


def test_feedback_offers_a_line_for_each_rule_that_has_a_suggestion_four_at_most():
    rules = [RuleScore("fine", 3, 1), *(RuleScore(f"r{n}", 0, 3, f"config r{n}") for n in range(5))]
    card = feedback_card(rules, Window(NOON - HOUR, NOON))
    assert [button.line for button in buttons(card).values()] == [f"config r{n}" for n in range(4)]
    assert str(card.blocks).count("is mostly wrong") == 4
    assert (card.data["useful"], card.data["wrong"]) == (3, 16)
    calm = feedback_card(rules[:1], Window(NOON - HOUR, NOON))
    assert not any(isinstance(block, Buttons) for block in calm.blocks)


def test_savings_are_added_up_and_the_committed_part_is_said_only_where_there_is_one():
    ended = replace(RANKED["over"], id="x")
    some = [
        Saving(ended, "dana", Decimal(5), Decimal(7), Decimal(0)),
        Saving(ended, "", Decimal(2), Decimal(1), Decimal(0)),
    ]
    window = Window(NOON - HOUR, NOON)
    card = savings_card(some, window, Coverage())
    assert [card.data[x] for x in ("usd_per_hour", "committed_usd_per_hour", "usd_so_far")] == [
        7,
        0,
        8,
    ]
    assert "committed" not in str(card.blocks)
    assert "more alert" not in str(savings_card(some * 6, window, Coverage()).blocks)
    assert "and 2 more alerts" in str(savings_card(some * 7, window, Coverage()).blocks)
    none = savings_card((), window, Coverage(Known.PARTLY, "Late."))
    assert (none.tone, "Late." in str(none.blocks)) == (Tone.INFO, True)
    part = replace(some[0], committed_usd_per_hour=Decimal(3))
    assert "$3.00 an hour of it is committed" in str(
        savings_card([part], window, Coverage()).blocks
    )


def test_an_end_a_nap_and_its_end_are_told_and_a_pattern_only_by_its_judgment():
    found = of("a", opened=NOON, seen=NOON + 3 * HOUR, closed=NOON + 4 * HOUR)
    nap = silence("s1", 2, alert=found.id, ended_at=NOON + HOUR)
    pattern = silence("m1", 2, alert=found.id, pattern=Pattern("idle", Labels()))
    ack = Decision("d1", found.id, DecisionKind.ACKNOWLEDGE, "u", "dana", NOON + 2 * HOUR)
    story = events(found, [ack], [pattern, nap], [])
    assert [event.at for event in story[1:]] == [NOON + n * HOUR for n in (0, 0, 1, 2, 3, 4)]
    assert [event.kind for event in story[1:]] == [
        "seen",
        "decided",
        "seen",
        "decided",
        "seen",
        "seen",
    ]
    # What is about one place and has no nodes counts none.
    spend = replace(found, anomaly=replace(found.anomaly, kind="spend"))
    assert (" on " in story[0].words, " on " in events(spend, [], [], [])[0].words) == (True, False)


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        ("score", "0.12 to 0.62"),
        ("USD an hour", "$0.12 to $0.62 an hour"),
        ("ratio", "12 to 62 %"),
    ],
)
def test_the_ends_of_the_usual_share_their_unit_and_no_figure(unit: str, words: str) -> None:
    alert = of("a", usd="5")
    odd = replace(alert, anomaly=replace(alert.anomaly, unit=unit, usual=(0.12, 0.62)))
    assert f"'Usually', '{words}'" in str(why_card(odd, (), None, NOON).blocks)


def test_why_says_the_usual_the_rivals_and_when_a_reading_is_of_the_past():
    open_ = of("a", usd="5")
    narrow = replace(open_.anomaly, usual=(0.5, 0.5), suggestions=("Look.",) * 9)
    ended = replace(open_, closed=NOON, anomaly=replace(narrow, usual=None))
    words = [
        str(why_card(x, (), None, NOON).blocks)
        for x in (open_, replace(open_, anomaly=narrow), ended)
    ]
    assert ["'Usually', '85 to 95 %'" in x for x in words] == [True, False, False]
    assert ["'Usually', '50 %'" in x for x in words] == [False, True, False]
    assert ["'Usually', 'not known'" in x for x in words] == [False, False, True]
    assert ["At its peak" in x for x in words] == [False, False, True]
    judged = ((), RuleScore("starved", 2, 1))
    assert "2 of 3 alerts of the rule" in str(why_card(open_, (), None, NOON, judged).blocks)
    assert "Judged useful" not in words[0]
    assert "('Other causes', 'none')" in words[0]

    marked = {
        mark: str(why_card(replace(open_, muted_by=mark), (), None, NOON, judged).blocks)
        for mark in ("", "inhibit:k", "silence:s1", "policy:p")
    }
    assert ["Muted" in x for x in marked.values()] == [False, True, True, True]
    assert len({x.partition("Muted")[2][:20] for x in marked.values()}) == 4
    nap = ((silence("s1", 1, alert="a1", reason="moving house"),), None)
    told = [
        "moving house" in str(why_card(replace(open_, muted_by=mark), (), None, NOON, nap).blocks)
        for mark in ("silence:s1", "silence:s2", "policy:p", "")
    ]
    assert told == [True, False, False, False]
    much = replace(open_.anomaly, evidence=tuple(f"fact {n}." for n in range(9)))
    shown = str(why_card(replace(open_, anomaly=much), (), None, NOON).blocks)
    assert ("fact 7." in shown, "fact 8." in shown) == (True, False)
