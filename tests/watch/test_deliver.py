"""A message is held while it is sent, and let go whatever becomes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from threading import Event
from typing import Any

import pytest

from adapters.store.memory import MemoryStore
from bot.cards.card import Card, Tone
from bot.errors import Unavailable
from bot.model.notification import Line, Notification, NotificationLogEntry, Reason
from bot.ports import StateUpdate
from bot.watch.deliver import Delivery, Parcel
from bot.watch.notify import log_entry_of
from tests.builders import NOON, alert
from tests.house.fakes import Chat


class Locks:
    """An outbox that owes nothing, or fails, and remembers which messages are held."""

    def __init__(self, failure: Exception | None) -> None:
        self.failure = failure
        self.held: set[str] = set()
        self.asked: list[bool] = []

    def owed(
        self, notification: str, channel: str
    ) -> tuple[NotificationLogEntry | None, Sequence[Line]]:
        self.asked.append(f"{channel} {notification}" in self.held)
        if self.failure:
            raise self.failure
        return None, ()

    def hold(self, name: str) -> int:
        if name in self.held:
            return 0
        self.held.add(name)
        return 1

    def holds(self, name: str, token: int) -> bool:
        return name in self.held and token == 1

    def release(self, name: str, token: int) -> None:
        if self.holds(name, token):
            self.held.discard(name)


@pytest.mark.parametrize("failure", [None, Unavailable("The database is away.")])
def test_a_message_is_held_while_it_is_sent_and_let_go_after(failure: Exception | None) -> None:
    outbox = Locks(failure)

    async def run() -> None:
        delivery = Delivery({}, MemoryStore(), outbox, lambda channel: None)
        await delivery.send([Parcel("slack:C1", "n1")], 5.0)
        await delivery.settle()

    asyncio.run(run())
    assert outbox.asked == [True]
    assert not outbox.held


class SlowLocks(Locks):
    """An outbox whose first answer takes as long as the test wants."""

    def __init__(self) -> None:
        super().__init__(None)
        self.began, self.going_on = Event(), Event()

    def owed(
        self, notification: str, channel: str
    ) -> tuple[NotificationLogEntry | None, Sequence[Line]]:
        self.began.set()
        self.going_on.wait(10)
        return super().owed(notification, channel)


def test_a_newer_state_that_comes_while_the_older_is_sent_is_sent_after_it() -> None:
    outbox = SlowLocks()

    async def run() -> None:
        delivery = Delivery({}, MemoryStore(), outbox, lambda channel: None)
        older, newer = (Parcel("slack:C1", "n1", card=Card(x, Tone.INFO)) for x in ("1", "2"))
        first = asyncio.create_task(delivery.send([older], 10.0))
        await asyncio.to_thread(outbox.began.wait, 10)
        second = asyncio.create_task(delivery.send([newer], 10.0))
        await asyncio.sleep(0)
        outbox.going_on.set()
        await asyncio.gather(first, second)

    asyncio.run(run())
    assert outbox.asked == [True, True]


class Database:
    """A store in whose place a backup may be put."""

    def __init__(self) -> None:
        self.content = MemoryStore()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.content, name)


def test_what_was_posted_is_looked_for_anew_once_the_database_knows_less() -> None:
    chat, database = Chat(), Database()
    entry = log_entry_of(Notification("n1", "chat:ops", Reason.FIRST, NOON, (alert(),)), "")

    async def run() -> None:
        delivery = Delivery({"chat": chat}, database, database, lambda channel: None)
        for _ in range(2):
            database.content = MemoryStore()
            delivery.forget()
            delivery.fresh([entry.id])
            database.save(StateUpdate(notification_log=[entry]))
            await delivery.send([Parcel("chat:ops", entry.id, entry, Card("1", Tone.INFO))], 10.0)

    asyncio.run(run())
    assert list(chat.messages) == ["m0"]
