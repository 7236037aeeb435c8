"""Who snoozed an alert is woken when they asked to be; a reminder goes to the owner; nobody is pinged for a press."""

from __future__ import annotations

from datetime import timedelta

import pytest

from adapters.store.memory import MemoryStore
from adapters.store.open import open_store
from bot.cards.card import Card, Mention
from bot.model.causes import Cause, Severity
from tests.builders import FIVE, NOON, anomaly
from tests.house.fakes import Chat, Script, app, ask

ALICE = Mention("chat:U1", "dana")


class Threads(Chat):
    """Keeps the cards of threads."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[Card] = []

    async def reply(self, channel: str, message: str, card: Card, key: str) -> str:
        self.lines.append(card)
        return key


async def lines(*said: str, ticks: int, store: object = None, after: str = "") -> list[Card]:
    """Return the thread of an alert that wastes some dollars an hour, announced at noon, after what is said a minute later.

    `after` is said when the last tick was run.
    """
    chat = Threads()
    bot = app(Script(*[anomaly(at=NOON + i * FIVE) for i in range(ticks)]), chat, store)  # type: ignore[arg-type]
    await bot.tick(NOON)
    (alert,) = bot.ports.stores.alerts.load(NOON).alerts
    for i, line in enumerate(said):
        card = await bot.answer(
            ask(line.replace("ID", alert.id), at=NOON + timedelta(minutes=1, seconds=i))
        )
        assert "error" not in card.data, card
    for i in range(1, ticks):
        await bot.tick(NOON + i * FIVE)
    if after:
        at = NOON + (ticks - 1) * FIVE + timedelta(minutes=1)
        await bot.answer(ask(after.replace("ID", alert.id), at=at))
    return chat.lines


async def test_what_passes_its_ceiling_wakes_who_asked_for_it() -> None:
    snoozed, awake = await lines("snooze ID 1d ceiling=30", ticks=5)
    assert (snoozed.title, snoozed.mentions) == (
        "Snoozed by dana until Nov 21, 12:01 UTC or $30.00",
        (),
    )
    assert awake.title.startswith("Snooze ended: it has cost $")
    assert awake.title.endswith("and dana asked to be notified at $30.00")
    assert awake.mentions == (ALICE,)


async def test_what_has_slept_long_enough_wakes_who_asked_for_it(url: str) -> None:
    store = open_store(url)
    snoozed, awake = await lines("snooze ID until=12:11", ticks=5, store=store)
    store.close()
    assert (snoozed.mentions, awake.mentions) == ((), (ALICE,))
    assert awake.title.startswith(
        "Snooze ended: the time set by dana is over; so far it has cost $"
    )


async def test_it_wakes_once_and_an_acknowledgement_after_it_says_so() -> None:
    seen = await lines("snooze ID 1h", "ack ID", "unack ID", ticks=15)
    assert [card.title.partition(":")[0] for card in seen] == [
        *(
            "Snoozed by dana until Nov 20, 13",
            "Acknowledged by dana",
            "Snoozed by dana until Nov 20, 13",
            "Snooze ended",
        ),
    ]


async def test_a_decision_after_the_end_is_told_and_the_end_no_more() -> None:
    *_, awake, acknowledged = await lines("snooze ID until=12:11", ticks=5, after="ack ID")
    assert awake.title.startswith("Snooze ended")
    assert (acknowledged.title, acknowledged.mentions) == ("Acknowledged by dana", ())


@pytest.mark.parametrize("line", ["ack ID", "snooze ID 1h", "not-an-anomaly ID 30d", "useful ID"])
async def test_nobody_is_pinged_for_what_they_did(line: str) -> None:
    assert [card.mentions for card in await lines(line, ticks=2) if card.mentions] == []


async def test_the_store_keeps_who_is_to_be_woken_for_a_day() -> None:
    store = MemoryStore()
    await lines("snooze ID 10m", ticks=2, store=store)
    ended = NOON + timedelta(minutes=11)
    assert [len(store.load(at).slept) for at in (NOON, ended, ended + timedelta(days=1))] == [
        0,
        1,
        0,
    ]
    assert [len(store.load(at).silences) for at in (NOON, ended)] == [1, 0]


async def test_a_reminder_asks_the_owner() -> None:
    chat = Threads()
    hung = [anomaly(Cause.HUNG, severity=Severity.CRITICAL, at=NOON + i * FIVE) for i in range(60)]
    bot = app(Script(*hung), chat)
    for i in range(60):
        await bot.tick(NOON + i * FIVE)
    assert [card.title.partition(":")[0] for card in chat.lines] == [
        "Nobody has acknowledged this yet"
    ]
