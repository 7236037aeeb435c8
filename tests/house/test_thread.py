"""In an alert's thread nothing needs to be named; what is long or dear is asked about once more before it is muted."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from adapters.store.memory import MemoryStore
from bot.cards.card import Buttons, Card, Form, Tone
from bot.model.alert import Alert
from bot.model.request import Request, User
from tests.builders import FIVE, NOON, anomaly
from tests.house.fakes import Chat, Script, app, ask


async def firing(*ticks: object) -> tuple[object, MemoryStore, Alert]:
    store = MemoryStore()
    bot = app(Script(*(ticks or (anomaly(),))), Chat(), store)
    (alert,) = (await bot.tick(NOON)).outcome.alerts
    return bot, store, alert


def in_thread(line: str, thread: str = "m0", channel: str = "chat:ops") -> Request:
    return replace(ask(line), thread=thread, channel=channel)


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("why", "Why: FIRING"),
        ("alert", "FIRING"),
        ("ack", "Acknowledged by you"),
        ("ack I look at the loader", "Acknowledged by you"),
        ("snooze 2h", "Snoozed until Nov 20, 14:00 UTC"),
        ("snooze", "Snooze: "),
        ("useful", "Noted as useful"),
        ("not-an-anomaly", "Not an anomaly? "),
        ("not-an-anomaly 7d", "Noted as not an anomaly"),
    ],
)
async def test_a_line_in_the_thread_of_an_alert_is_about_it(line: str, title: str) -> None:
    bot, _, alert = await firing()
    card = await bot.answer(in_thread(line))
    assert card.title.startswith(title), card
    assert alert.id in (card.data.get("alert"), card.data.get("id"))


async def test_the_words_after_ack_in_a_thread_are_its_note() -> None:
    bot, store, alert = await firing()
    await bot.answer(in_thread("ack I look at the loader"))
    assert [one.note for one in store.decisions(alert.id)] == ["I look at the loader"]


async def test_a_name_in_a_thread_means_what_it_names() -> None:
    bot, *_ = await firing()
    card = await bot.answer(in_thread("why nowhere"))
    assert "No alert of the last 15 days is called or about 'nowhere'" in card.data["error"]


@pytest.mark.parametrize(
    ("thread", "channel"), [("", "chat:ops"), ("m9", "chat:ops"), ("m0", "chat:elsewhere")]
)
async def test_elsewhere_the_answer_asks_which_alert(thread: str, channel: str) -> None:
    bot, _, alert = await firing()
    card = await bot.answer(in_thread("why", thread, channel))
    assert card.data["error"].startswith(
        f"Which alert? Name its id, its cluster, its run or a node, for example {alert.id};"
    )


async def test_a_thread_knows_its_alert_when_it_is_over() -> None:
    bot, *_ = await firing(anomaly(), *[None] * 6)
    for i in range(1, 7):
        await bot.tick(NOON + i * FIVE)
    assert (
        await bot.answer(replace(in_thread("why"), at=NOON + timedelta(hours=1)))
    ).title.startswith("Why: OVER after")


def pressed(card: Card) -> list[str]:
    return [
        button.line
        for block in card.blocks
        if isinstance(block, Buttons)
        for button in block.buttons
    ]


@pytest.mark.parametrize(
    "line", ['snooze {} 3d ceiling=900 reason="new nodes"', "not-an-anomaly {} 90d"]
)
async def test_a_long_mute_is_asked_about_and_then_has_an_undo(line: str) -> None:
    bot, store, alert = await firing()
    card = await bot.answer(ask(line.format(alert.id)))
    assert (card.tone, store.load(NOON).silences) == (Tone.WARNING, ())
    assert "$" in repr(card.blocks)
    (sure,) = (one for one in pressed(card) if "sure=yes" in one)
    done = await bot.answer(ask(sure))
    assert len(store.load(NOON).silences) == 1
    undo = next(line for line in pressed(done) if "drop" in line or "undo" in line)
    await bot.answer(ask(undo, at=NOON + FIVE))
    assert store.load(NOON + FIVE).silences == ()


async def test_what_was_asked_about_keeps_its_ceiling_and_reason() -> None:
    bot, store, alert = await firing()
    card = await bot.answer(ask(f'snooze {alert.id} 3d ceiling=900 reason="new nodes"'))
    await bot.answer(ask(next(one for one in pressed(card) if "sure" in one)))
    (silence,) = store.load(NOON).silences
    assert (str(silence.ceiling_usd), silence.reason, silence.ends - silence.starts) == (
        "900",
        "new nodes",
        timedelta(days=3),
    )


async def test_a_dear_alert_is_asked_about_however_short_unless_a_ceiling_ends_it() -> None:
    bot, store, alert = await firing(anomaly(usd_per_hour=Decimal(900)))
    assert alert.costly
    assert (
        await bot.answer(ask(f"snooze {alert.id} 1h"))
    ).title == "Snooze for 1h? Nothing is muted yet"
    assert store.load(NOON).silences == ()
    assert (await bot.answer(ask(f"snooze {alert.id} 1h ceiling=500"))).title.startswith(
        "Snoozed until"
    )


async def test_a_form_that_says_what_it_mutes_is_not_asked_about_again() -> None:
    bot, store, alert = await firing()
    (form,) = (
        block
        for block in (await bot.answer(ask(f"not-an-anomaly {alert.id}"))).blocks
        if isinstance(block, Form)
    )
    await bot.answer(ask(f"{form.line} length=90d"))
    assert len(store.load(NOON).silences) == 1


async def test_who_acknowledges_second_reads_who_has_it_already() -> None:
    """Also of two who press at once: each is answered by what stands once theirs is saved."""
    bot, store, alert = await firing()
    first = await bot.answer(ask(f"ack {alert.id}"))
    again = replace(ask(f"ack {alert.id}", "chat:U2", NOON + FIVE), user=User("chat:U2", "mei"))
    second = await bot.answer(again)
    assert (first.title, second.title) == (
        "Acknowledged by you",
        "Already acknowledged by dana, Nov 20, 12:00 UTC",
    )
    assert len(store.decisions(alert.id)) == 2


async def test_what_is_decided_about_an_alert_that_is_over_says_so() -> None:
    bot, _, alert = await firing(anomaly(), *[None] * 6)
    for i in range(1, 7):
        await bot.tick(NOON + i * FIVE)
    later = NOON + timedelta(hours=1)
    for line in ("ack {}", "snooze {} 1h"):
        card = await bot.answer(ask(line.format(alert.id), at=later))
        assert "over since Nov 20, 12:" in repr(card.blocks), card


@pytest.mark.parametrize("written", [str.upper, str.capitalize, lambda name: name[:5]])
async def test_an_alert_is_found_as_a_phone_writes_it_and_by_its_beginning(written) -> None:
    bot, _, alert = await firing()
    card = await bot.answer(ask(f"why {written(alert.id)}"))
    assert card.title.startswith("Why: FIRING")
    unknown = await bot.answer(ask(f"why {alert.id[:3]}"))
    assert "No alert of the last 15 days" in unknown.data["error"]


async def test_two_silences_of_one_alert_mute_one_alert() -> None:
    bot, _, alert = await firing(anomaly(), anomaly(at=NOON + FIVE))
    await bot.answer(ask(f"snooze {alert.id} 2h"))
    await bot.answer(ask(f"not-an-anomaly {alert.id} 2h"))
    await bot.tick(NOON + FIVE)
    card = await bot.answer(ask("silences", at=NOON + FIVE))
    assert card.title == "2 silences, 1 firing alert muted"


async def test_an_assignment_is_not_said_again_where_another_decision_is_withdrawn() -> None:
    store, chat = MemoryStore(), Chat()
    bot = app(Script(*(anomaly(at=NOON + i * FIVE) for i in range(4))), chat, store)
    (alert,) = (await bot.tick(NOON)).outcome.alerts
    for i, line in enumerate(("assign {} bob", "ack {}", "unack {}"), 1):
        await bot.answer(ask(line.format(alert.id), at=NOON + i * FIVE - timedelta(minutes=1)))
        await bot.tick(NOON + i * FIVE)
    assert chat.threads == [
        "Assigned to bob by dana",
        "Acknowledged by dana",
        "Open again, assigned to bob",
    ]
