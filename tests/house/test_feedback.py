"""People judge an alert, over both databases and two replicas: its like stays quiet, in the open, until it is dropped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from adapters.store.memory import MemoryStore
from adapters.store.open import open_store
from bot.app import App
from bot.cards.alert_words import pattern_words
from bot.cards.card import Buttons, Facts, Form, Tone
from bot.grammar.access import Access
from bot.model.alert import Pattern
from bot.model.labels import Labels
from bot.model.policy import Policy
from bot.model.request import Belonging, Request, Standing
from bot.ports import NoFiles, Ports
from tests.builders import FIVE, NOON, anomaly, with_parts
from tests.house.fakes import Chat, Script, app, ask

DAY = timedelta(days=1)


@pytest.fixture
def store(sqlite_url: str) -> Iterator[object]:
    opened = open_store(sqlite_url)
    yield opened
    opened.close()


async def judged(store, line="not-an-anomaly {} 30d"):
    """Tick once, judge the alert, let it end; return its id and the message."""
    chat = Chat()
    bot = app(Script(anomaly(), *[None] * 6), chat, store)
    (alert,) = (await bot.tick(NOON)).outcome.alerts
    card = await bot.answer(ask(line.format(alert.id)))
    shown = repr(chat.messages["m0"].blocks)
    for i in range(1, 7):
        await bot.tick(NOON + i * FIVE)
    return alert.id, card, shown


async def test_the_like_of_a_wrong_alert_stays_quiet_on_every_replica_and_says_by_whom(
    store,
) -> None:
    _, card, shown = await judged(store)
    assert "similar alerts are muted until Dec 20, 12:00 UTC" in card.title
    assert "Muted as not an anomaly by" in shown
    assert "dana" in shown
    chat, later = Chat(), NOON + 2 * DAY
    replica = app(Script(anomaly(at=later)), chat, store)
    (again,) = (await replica.tick(later)).outcome.alerts
    assert again.muted_by.startswith("silence:m")
    assert chat.messages == {}
    why = repr((await replica.answer(ask(f"why {again.id}", at=later))).blocks)
    assert "Muted as not an anomaly by" in why
    assert "at 10 to 30 %" in why
    listed = (await replica.answer(ask("silences", at=later))).data["silences"]
    assert [(row["kind"], row["rule"], row["by_name"], row["quiet"]) for row in listed] == [
        ("pattern", "starved", "dana", [again.id])
    ]


async def test_what_is_worse_speaks_all_the_same(store) -> None:
    await judged(store)
    chat, later = Chat(), NOON + 2 * DAY
    await app(Script(anomaly(at=later, value=0.02)), chat, store).tick(later)
    assert len(chat.messages) == 1


async def test_a_dropped_pattern_speaks_again(store) -> None:
    await judged(store)
    chat, later = Chat(), NOON + 2 * DAY
    bot = app(Script(anomaly(at=later), anomaly(at=later + FIVE)), chat, store)
    await bot.tick(later)
    (row,) = (await bot.answer(ask("silences", at=later))).data["silences"]
    await bot.answer(ask(f"silences drop {row['id']}", at=later))
    assert len(chat.messages) == 1
    assert (await bot.answer(ask("silences", at=later))).data["silences"] == []


async def test_useful_drops_what_would_mute_it(store) -> None:
    name, *_ = await judged(store)
    bot = app(Script(), Chat(), store)
    card = await bot.answer(ask(f"useful {name}", at=NOON + DAY))
    assert "is dropped" in card.title
    assert (await bot.answer(ask("silences", at=NOON + DAY))).data["silences"] == []


async def test_feedback_counts_by_rule(store) -> None:
    await judged(store, "useful {}")
    card = await app(Script(), Chat(), store).answer(ask("feedback", at=NOON + DAY))
    assert (card.data["useful"], card.data["wrong"]) == (1, 0)
    assert card.data["rules"] == [
        {"rule": "starved", "useful": 1, "wrong": 0, "precision": 1.0, "suggestion": ""}
    ]


class Again:
    """Opens a replay in which the same happened a day before the judgement."""

    def __init__(self, ports: Ports) -> None:
        self.ports = ports

    def open(self, source: str, policy: Policy) -> Ports:
        fresh = MemoryStore()
        found = Script(*(anomaly(at=NOON + i * FIVE) for i in range(25)))
        return with_parts(self.ports, store=fresh, detect=found)

    def truth(self, source: str) -> None:
        return None


class Anything(NoFiles):
    """Offers whatever is named."""

    def recording(self, named: str, _: Request, /) -> str:
        return named


async def test_why_says_how_the_alerts_of_its_rule_were_judged(store) -> None:
    name, *_ = await judged(store, "useful {}")
    card = await app(Script(), Chat(), store).answer(ask(f"why {name}", at=NOON + DAY))
    pairs = [pair for block in card.blocks if isinstance(block, Facts) for pair in block.pairs]
    assert ("Judged useful", "1 of 1 alerts of the rule in 90 days") in pairs


@pytest.mark.parametrize(("remembers", "told"), [(True, 0), (False, 1)])
async def test_a_backtest_hears_what_people_judged_later(store, remembers: bool, told: int) -> None:
    bot = app(Script(anomaly(at=NOON + DAY)), Chat(), store)
    (alert,) = (await bot.tick(NOON + DAY)).outcome.alerts
    await bot.answer(ask(f"not-an-anomaly {alert.id} 30d", at=NOON + DAY))
    ports = with_parts(bot.ports, replays=Again(bot.ports), files=Anything(), persistent=remembers)  # type: ignore[arg-type]
    admin = App(ports, ("chat:ops",), Access(("chat:U1",)), stopwatch=lambda: 0.0)
    seen = (await admin.answer(ask("backtest recording:x", at=NOON + DAY))).data
    assert len([one for one in seen["alerts"] if not one["muted_by"]]) == told
    assert len(seen["alerts"]) == 1


@pytest.mark.parametrize(
    ("line", "says"),
    [("silences drop m1", "Nothing is muted by 'm1'"), ("not-an-anomaly llama 1y", "")],
)
async def test_wrong_lines_are_told(store, line: str, says: str) -> None:
    bot = app(Script(anomaly()), Chat(), store)
    await bot.tick(NOON)
    card = await bot.answer(ask(line))
    assert card.tone is Tone.ERROR
    assert says in str(card.data["error"])
    assert store.load(NOON).silences == ()


async def firing(store):
    """Tick once; return the bot, its chat and the alert."""
    chat = Chat()
    bot = app(Script(anomaly(), *[anomaly(at=NOON + i * FIVE) for i in range(1, 5)]), chat, store)
    (alert,) = (await bot.tick(NOON)).outcome.alerts
    return bot, chat, alert


def buttons_of(card):
    return {
        button.text: button.line
        for block in card.blocks
        if isinstance(block, Buttons)
        for button in block.buttons
    }


async def test_one_press_of_not_an_anomaly_mutes_nothing_and_asks_what_would_be_muted(
    store,
) -> None:
    bot, chat, alert = await firing(store)
    (press,) = [
        button
        for block in chat.messages["m0"].blocks
        if isinstance(block, Buttons)
        for button in block.buttons
        if "not-an-anomaly" in button.line
    ]
    card = await bot.answer(ask(press.line))
    (form,) = [block for block in card.blocks if isinstance(block, Form)]
    assert press.opens, "surfaces with windows ask in one"
    assert (store.load(NOON).silences, list(store.decisions(alert.id))) == ((), [])
    assert (form.line, form.fields[0].value, form.submit) == (
        f"not-an-anomaly {alert.id} sure=yes",
        "30d",
        "Mute",
    )
    assert card.data["alike"] == 1
    assert "1 firing alert now" in repr(card.blocks)


async def test_who_judged_is_named_and_undo_takes_it_all_back(store) -> None:
    bot, chat, alert = await firing(store)
    card = await bot.answer(ask(f"not-an-anomaly {alert.id} length=30d"))
    assert card.title.startswith(
        "Noted as not an anomaly by dana; similar alerts are muted until Dec 20"
    )
    assert "Muted as not an anomaly by" in repr(chat.messages["m0"].blocks)
    await bot.tick(NOON + FIVE)
    undone = await bot.answer(ask(buttons_of(card)["Undo"], at=NOON + FIVE))
    assert undone.title == "The judgment by dana is taken back; its alerts are sent again"
    later = NOON + 2 * FIVE
    await bot.tick(later)
    assert store.load(later).silences == ()
    assert "Muted as" not in repr(chat.messages["m0"].blocks)
    assert (await bot.answer(ask("feedback", at=later))).data["rules"] == []
    assert "Judgment withdrawn by dana" in repr(
        (await bot.answer(ask(f"why {alert.id}", at=later))).blocks
    )
    again = await bot.answer(ask(buttons_of(card)["Undo"], at=later))
    assert "No pattern is called" in str(again.data["error"])


@pytest.mark.parametrize(
    ("low", "high", "unit", "words"),
    [
        (0.09869, 0.2961, "ratio", "at 9.9 to 29.6 %"),
        (9.869, 29.61, "GB/s", "at 9.9 to 29.6 GB/s"),
        (0.1, 0.3, "%", "at 10 to 30 %"),
        (12345.6, 99999.9, "steps", "at 12,346 to 100,000 steps"),
    ],
)
def test_the_level_of_a_pattern_is_written_in_few_digits(
    low: float, high: float, unit: str, words: str
) -> None:
    assert pattern_words(Pattern("starved", Labels(), unit, low, high)) == words
    empty = pattern_words(Pattern("unused_capacity", Labels(), unit, low, high))
    assert empty == words.replace("events", "instances")


async def test_a_snooze_has_an_undo_too(store) -> None:
    bot, _, alert = await firing(store)
    card = await bot.answer(ask(f"snooze {alert.id} 7d sure=yes"))
    await bot.answer(ask(buttons_of(card)["Undo"], at=NOON + FIVE))
    assert store.load(NOON + FIVE).silences == ()


async def test_who_may_not_judge_may_not_undo(store) -> None:
    bot, _, alert = await firing(store)
    line = buttons_of(await bot.answer(ask(f"not-an-anomaly {alert.id} 30d")))["Undo"]
    guest = replace(ask(line), belonging=Belonging("T1", Standing.GUEST))
    assert (await bot.answer(guest)).tone is Tone.ERROR
    assert len(store.load(NOON).silences) == 1
