"""A message is held while it is sent, and let go whatever becomes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from adapters.store.memory import MemoryStore
from bot.errors import Unavailable
from bot.model.notification import Line, NotificationLogEntry
from bot.watch.deliver import Delivery, Parcel


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
