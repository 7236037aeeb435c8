"""The two doors over fakes: what is written before and after speaking, what a crash leaves, who may do what."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from adapters.store.memory import MemoryStore
from bot.app import App
from bot.cards.card import Buttons, Mention, Tone, text
from bot.errors import Unavailable
from bot.grammar.access import Access
from bot.grammar.registry import COMMANDS
from bot.knowledge import load_knowledge
from bot.model.alert import DecisionKind
from bot.model.causes import Cause
from bot.model.notification import Delays
from bot.model.reading import Reading
from bot.model.request import Role
from bot.ports import StateUpdate
from tests.belonging import MEMBER
from tests.builders import FIVE, NOON, alert, anomaly, reading, with_parts
from tests.house.fakes import Chat, Crash, Fleet, Script, app, ask


async def test_one_message_from_first_to_over() -> None:
    chat = Chat()
    bot = app(Script(anomaly(), anomaly(at=NOON + FIVE), None, None, None), chat)
    for i in range(5):
        await bot.tick(NOON + i * FIVE)
    assert len(chat.messages) == 1
    assert chat.messages["m0"].tone is Tone.OVER
    assert chat.messages["m0"].title.startswith("OVER after 15 min · cost $15.00 · starved, llama")
    assert chat.threads == [chat.messages["m0"].title]


async def test_a_failed_send_is_retried_by_the_next_tick() -> None:
    chat = Chat()
    bot = app(Script(anomaly(), anomaly(at=NOON + FIVE)), chat)
    chat.fail_before = True
    await bot.tick(NOON)
    assert bot.health.undelivered == ("chat:ops: the chat is away",)
    chat.fail_before = False
    await bot.tick(NOON + FIVE)
    assert len(chat.messages) == 1
    assert bot.health.undelivered == ()


class Slow(Fleet):
    """A source that reads for as long as it is let."""

    def __init__(self) -> None:
        self.reading, self.free, self.read_once = (threading.Event() for _ in range(3))

    def read(self, now: datetime) -> Reading:
        self.reading.set()
        self.free.wait(10)
        self.read_once.set()
        return reading(now)


async def test_a_bot_that_leaves_waits_for_no_look_and_writes_nothing() -> None:
    chat, store, slow = Chat(), MemoryStore(), Slow()
    bot = app(Script(anomaly()), chat, store, fleet=slow)
    tick = asyncio.create_task(bot.tick(NOON))
    await asyncio.to_thread(slow.reading.wait, 60)
    bot.leave()
    assert await tick is None
    slow.free.set()
    assert not chat.messages
    assert store.load(NOON).ticked_at is None


async def test_a_press_is_answered_while_the_first_tick_reads() -> None:
    store, slow = MemoryStore(), Slow()
    await app(Script(anomaly()), Chat(), store).tick(NOON)
    bot = app(Script(anomaly()), Chat(), store, fleet=slow)
    tick = asyncio.create_task(bot.tick(NOON + FIVE))
    await asyncio.to_thread(slow.reading.wait, 60)
    card = await bot.answer(ask(f"ack {store.load(NOON).alerts[0].id}"))
    assert card.tone is Tone.GOOD
    assert not slow.read_once.is_set()
    slow.free.set()
    await tick
    await bot.settle()


class Inbox:
    """Remembers in which order it was asked, and what the store held then."""

    def __init__(self, store: MemoryStore) -> None:
        self.store, self.asked = store, list[tuple[str, datetime | None]]()

    def receive(self, now: datetime) -> None:
        self.asked.append(("receive", self.store.load(now).ticked_at))

    def settle(self, now: datetime) -> None:
        self.asked.append(("settle", self.store.load(now).ticked_at))


async def test_before_a_tick_detectors_load_and_what_was_sent_is_taken_in_until_it_is_saved() -> (
    None
):
    store = MemoryStore()
    inbox = Inbox(store)
    bot = app(Script(anomaly()), Chat(), store)

    def load() -> None:
        inbox.asked.append(("load", store.load(NOON).ticked_at))

    ports = with_parts(bot.ports, inbox=inbox, load_detectors=load)
    await App(ports, ("chat:ops",), Access(()), stopwatch=lambda: 0.0).tick(NOON)
    assert inbox.asked == [("load", None), ("receive", None), ("settle", NOON)]


async def test_a_tick_that_crashes_takes_nothing_away() -> None:
    store, chat = MemoryStore(), Chat()
    inbox, chat.fail_after = Inbox(store), True
    bot = app(Script(anomaly()), chat, store)
    bot = App(with_parts(bot.ports, inbox=inbox), ("chat:ops",), Access(()), stopwatch=lambda: 0.0)
    with pytest.raises(Crash):
        await bot.tick(NOON)
    assert [name for name, _ in inbox.asked] == ["receive"]


async def test_a_question_takes_nothing_in() -> None:
    store = MemoryStore()
    inbox = Inbox(store)
    bot = App(
        with_parts(app(Script(), Chat(), store).ports, inbox=inbox),
        (),
        Access(()),
        stopwatch=lambda: 0.0,
    )
    await bot.answer(ask("alerts"))
    assert inbox.asked == []


async def test_a_crash_between_saying_and_writing_is_repaired_not_repeated() -> None:
    chat, store = Chat(), MemoryStore()
    chat.fail_after = True
    with pytest.raises(Crash):
        await app(Script(anomaly()), chat, store).tick(NOON)
    chat.fail_after = False
    await app(Script(anomaly(), anomaly()), chat, store).tick(NOON)
    memory = store.load(NOON)
    assert len(chat.messages) == 1
    assert [s.message for s in memory.notification_log] == ["m0"]
    assert memory.ticked_at == NOON


async def test_a_source_that_fails_leaves_the_state_whole_and_is_counted() -> None:
    bot = app(Script(), Chat())

    def broken(now: datetime) -> Reading:
        raise Unavailable("CloudWatch is away.")

    bot.ports.world.source.read = broken  # type: ignore[method-assign]
    with pytest.raises(Unavailable):
        await bot.tick(NOON)
    assert (bot.health.failures, bot.health.last_error) == (1, "CloudWatch is away.")


async def test_acknowledging_edits_the_message_at_once_and_says_who() -> None:
    chat = Chat()
    bot = app(Script(anomaly()), chat)
    look = await bot.tick(NOON)
    (alert,) = look.outcome.alerts
    card = await bot.answer(ask(f"ack {alert.id}", at=NOON + timedelta(minutes=1)))
    assert card.title == "Acknowledged by you"
    assert "Acknowledged by dana" in repr(chat.messages["m0"].blocks).replace(
        "', Strong(text='", ""
    ).replace("Strong(text='", "")
    labels = [
        b.text
        for block in chat.messages["m0"].blocks
        if isinstance(block, Buttons)
        for b in block.buttons
    ]
    assert "Unacknowledge" in labels


async def test_a_decision_lets_nothing_speak_that_is_an_effect_of_what_just_ended() -> None:
    chat, store = Chat(), MemoryStore()
    fault = alert(anomaly(Cause.HARDWARE_FAULT), closed=NOON - FIVE)
    effect = alert(name="a2", muted_by=f"inhibit:{fault.key}")
    store.save(StateUpdate(alerts=[fault, effect]))
    await app(Script(), chat, store).answer(ask(f"ack {effect.id}"))
    assert chat.messages == {}


async def test_of_several_alerts_of_a_cluster_the_one_that_fires_is_meant() -> None:
    store = MemoryStore()
    firing = alert(name="a1", opened=NOON - 2 * FIVE)
    store.save(StateUpdate(alerts=[firing, alert(name="a2", opened=NOON - FIVE, closed=NOON)]))
    card = await app(Script(), Chat(), store).answer(ask("ack llama"))
    assert card.data["alert"] == firing.id


async def test_an_alert_is_meant_by_the_run_that_it_is_about() -> None:
    found = anomaly()
    labels = replace(found.labels, job="llama-70b")
    store = MemoryStore()
    store.save(StateUpdate(alerts=[alert(replace(found, labels=labels), name="a1")]))
    card = await app(Script(), Chat(), store).answer(ask("ack llama-70b"))
    assert card.data["alert"] == "a1"


async def test_snoozing_without_a_length_asks_and_with_one_mutes() -> None:
    chat = Chat()
    bot = app(Script(anomaly(), anomaly(at=NOON + FIVE)), chat)
    (alert,) = (await bot.tick(NOON)).outcome.alerts
    form = await bot.answer(ask(f"snooze {alert.id}"))
    assert form.title.startswith("Snooze: starved")
    await bot.answer(ask(f"snooze {alert.id} length=1h ceiling=500 reason=moving"))
    assert "Snoozed by" in repr(chat.messages["m0"].blocks)
    (muted,) = (await bot.tick(NOON + FIVE)).outcome.alerts
    assert muted.muted_by.startswith("silence:")


async def test_only_admins_run_what_is_theirs() -> None:
    refused = await app(Script(), Chat(), admins=("chat:U9",)).answer(ask("doctor"))
    allowed = await app(Script(), Chat(), admins=("chat:U1",)).answer(ask("doctor"))
    assert refused.data["error"] == "'doctor' is for admins."
    assert refused.blocks == (
        text("'doctor' is for admins.", " Ask ", Mention("chat:U9", "an admin"), "."),
    )
    assert allowed.tone is not Tone.ERROR


@pytest.mark.parametrize(
    ("admins", "words"),
    [
        ((), "nobody is an admin yet: set TRNBOT_ADMINS, for example to chat:U1, which is you."),
        (("elsewhere:U9",), "'doctor' is for admins."),
    ],
)
async def test_a_refusal_shows_an_id_only_to_whom_it_helps(
    admins: tuple[str, ...], words: str
) -> None:
    refused = await app(Script(), Chat(), admins=admins).answer(ask("doctor"))
    assert refused.data["error"].endswith(words)
    assert "U9" not in repr(refused)


async def test_answers_are_private_until_shared() -> None:
    bot = app(Script(), Chat())
    private, shared = await bot.answer(ask("help")), await bot.answer(ask("share help"))
    assert (private.public, shared.public) == (False, True)
    assert "share help" in repr(private.blocks)
    assert "share help" not in repr(shared.blocks)


async def test_where_strangers_read_along_no_answer_is_for_everyone() -> None:
    bot, seen = app(Script(), Chat()), ask("routes seen")
    assert (await bot.answer(seen)).public
    assert not (await bot.answer(replace(seen, belonging=replace(MEMBER, shared=True)))).public


async def test_a_change_once_made_and_a_form_have_no_button_that_shows_them_to_everyone() -> None:
    bot = app(Script(anomaly()), Chat())
    (alert,) = (await bot.tick(NOON)).outcome.alerts
    asked, done = (
        await bot.answer(ask(f"snooze {alert.id}")),
        await bot.answer(ask(f"ack {alert.id}")),
    )
    assert (asked.public, done.public) == (False, False)
    assert "share " not in repr((asked.blocks, done.blocks))


async def test_a_decision_is_kept_by_id_and_name() -> None:
    bot = app(Script(anomaly()), Chat())
    (alert,) = (await bot.tick(NOON)).outcome.alerts
    await bot.answer(ask(f"ack {alert.id} on it"))
    (made,) = bot.ports.stores.alerts.decisions(alert.id)
    assert (made.by, made.by_name, made.doing, made.note) == (
        "chat:U1",
        "dana",
        DecisionKind.ACKNOWLEDGE,
        "on it",
    )


@pytest.mark.parametrize("length", ["30d", "1m"])
async def test_a_snooze_lasts_from_a_minute_to_thirty_days(length: str) -> None:
    bot = app(Script(anomaly()), Chat())
    (alert,) = (await bot.tick(NOON)).outcome.alerts
    for wrong in ("31d", "721h", "0m"):
        assert "lasts between 1m and 30d" in str(
            (await bot.answer(ask(f"snooze {alert.id} {wrong}"))).data.get("error")
        )
    assert (await bot.answer(ask(f"snooze {alert.id} {length} sure=yes"))).tone is Tone.GOOD


@pytest.mark.parametrize(
    "line",
    [
        "alerts",
        "home",
        "about",
        "fleet",
        "idle",
        "help",
        "help cost",
        "config show idle",
        "why llama",
        "alert llama",
    ],
)
async def test_every_answer_is_a_card(line: str) -> None:
    bot = app(Script(anomaly()), Chat())
    await bot.tick(NOON)
    card = await bot.answer(ask(line))
    assert card.tone is not Tone.ERROR, card


async def test_a_button_of_an_old_message_answers_one_sentence() -> None:
    card = await app(Script(), Chat()).answer(ask("ack a0000"))
    assert (
        card.data["error"]
        == "No alert of the last 15 days is called or about 'a0000'; 'alerts' lists those that are open."
    )
    assert replace(card).tone is Tone.ERROR


async def test_what_fires_again_goes_on_in_its_message() -> None:
    chat = Chat()
    bot = app(
        Script(
            anomaly(),
            None,
            None,
            None,
            None,
            anomaly(at=NOON + 5 * FIVE),
            anomaly(at=NOON + 6 * FIVE),
        ),
        chat,
    )
    for i in range(7):
        (seen,) = (await bot.tick(NOON + i * FIVE)).outcome.alerts or [None]
        if i == 4:
            assert chat.messages["m0"].tone is Tone.OVER
    assert seen is not None
    assert (seen.opened, seen.closed) == (NOON, None)
    assert [card.title[:6] for card in chat.messages.values()] == ["FIRING"]
    assert chat.threads[-1].startswith("Firing again: FIRING")


async def test_what_ended_after_somebody_acted_is_in_the_ledger_and_on_the_home_page() -> None:
    bot = app(Script(anomaly()), Chat())
    (alert,) = (await bot.tick(NOON)).outcome.alerts
    await bot.answer(ask(f"ack {alert.id}", at=NOON + timedelta(minutes=1)))
    for i in range(1, 5):
        await bot.tick(NOON + i * FIVE)
    at = NOON + timedelta(hours=2)
    card = await bot.answer(ask("savings 7d", at=at))
    assert [one["by"] for one in card.data["savings"]] == ["dana"]  # type: ignore[attr-defined]
    assert "1 alert ended after somebody acted" in repr(
        (await bot.answer(ask("home", at=at))).blocks
    )
    assert (await bot.answer(ask("savings yesterday", at=at))).data["savings"] == []


class Groups:
    """Knows one group, and can be away."""

    def __init__(self) -> None:
        self.away = False

    async def belongs(self, user: str, group: str) -> bool:
        if self.away:
            raise Unavailable("the chat does not tell who is in it")
        return (user, group) == ("U1", "GROUP")


@pytest.mark.parametrize(
    ("user", "admins", "allowed"),
    [
        ("chat:U1", ("chat:GROUP",), True),
        ("chat:U2", ("chat:GROUP",), False),
        ("other:U1", ("chat:GROUP",), False),
        ("chat:U1", ("other:GROUP",), False),
        ("chat:U2", ("chat:GROUP", "chat:U2"), True),
        ("chat:GROUP", ("chat:GROUP",), True),
    ],
)
async def test_admins_are_listed_by_themselves_or_by_a_group(
    user: str, admins: tuple[str, ...], allowed: bool
) -> None:
    bot = app(Script(), Chat(), admins=admins)
    bot.ports = with_parts(bot.ports, people={"chat": Groups()})
    refused = str((await bot.answer(ask("subscribe", user=user))).data.get("error", ""))
    assert ("is for admins" not in refused) is allowed


async def test_nobody_is_an_admin_because_a_platform_does_not_tell() -> None:
    bot, groups = app(Script(), Chat(), admins=("chat:GROUP", "chat:U2")), Groups()
    groups.away = True
    bot.ports = with_parts(bot.ports, people={"chat": groups})
    assert "does not tell" in str((await bot.answer(ask("subscribe"))).data["error"])
    assert "error" not in (await bot.answer(ask("subscribe", user="chat:U2"))).data


class Halves(Groups):
    """Tells of one group, and of no other."""

    async def belongs(self, user: str, group: str) -> bool:
        self.away = group != "GROUP"
        return await super().belongs(user, group)


async def test_who_is_in_one_group_is_an_admin_though_another_is_not_told() -> None:
    bot = app(Script(), Chat(), admins=("chat:AWAY", "chat:GROUP", "chat:ZZZ"))
    bot.ports = with_parts(bot.ports, people={"chat": Halves()})
    assert "error" not in (await bot.answer(ask("subscribe"))).data
    assert "does not tell" in str(
        (await bot.answer(ask("subscribe", user="chat:U3"))).data["error"]
    )


async def test_what_a_platform_holds_up_is_told_in_figures() -> None:
    health = app(Script(), Chat()).health
    assert "trnbot_messages_waiting" not in health.exposition()
    health.delays = {"chat": Delays(3.25, 2)}
    assert 'trnbot_delayed_by_limit_seconds_total{platform="chat"} 3.25' in health.exposition()
    assert 'trnbot_messages_waiting{platform="chat"} 2' in health.exposition()
    assert (health.facts()["delayed_by_chat_seconds"], health.facts()["waiting_for_chat"]) == (
        3.2,
        2,
    )


class FullShelf(MemoryStore):
    """Keeps nothing on its shelves."""

    def put(self, *_: Any, **__: Any) -> None:
        raise Unavailable("The disk is full.")


async def test_an_estimate_that_cannot_be_kept_fails_no_tick() -> None:
    bot = app(Script(anomaly()), chat := Chat(), FullShelf())
    assert await bot.tick(NOON)
    assert (len(chat.messages), bot.health.failures) == (1, 0)
    assert bot.ports.stores.alerts.load(NOON).ticked_at == NOON


HIDDEN = sorted(made.name for made in COMMANDS.values() if made.hidden and made.who is Role.ADMIN)


@pytest.mark.parametrize(
    "name", sorted({made.name for made in COMMANDS.values() if made.who is Role.ADMIN})
)
async def test_nobody_but_an_admin_runs_what_is_theirs_hidden_or_not(name: str) -> None:
    assert HIDDEN, "some are typed by buttons alone, and anybody can type what a button types"
    bot = app(Script(), Chat(), admins=("chat:U9",))
    bot.ports = with_parts(bot.ports, knowledge=load_knowledge())
    for line in (COMMANDS[name].examples[0], f"share {COMMANDS[name].examples[0]}"):
        refused = await bot.answer(ask(line))
        assert refused.data.get("error") == f"'{name}' is for admins."
