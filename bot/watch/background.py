"""Do rounds of work apart from the ticks, such as dropping old documents."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol

from bot.errors import TrnbotError


class Background(ABC):
    """Implement `bot.ports.Listener`: a round, then `every_s` real seconds, until it is stopped."""

    def __init__(self, name: str, every_s: float) -> None:
        self._name, self._every_s = name, every_s
        self._task: asyncio.Task[None] | None = None

    def routes(self) -> Sequence[Any]:
        """Serve nothing."""
        return ()

    async def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._go(), name=self._name)

    async def stop(self) -> None:
        """End, whatever the round under way does; what it does in a thread is finished."""
        if self._task:
            self._task.cancel()

    async def _go(self) -> None:
        while True:
            await self.work()
            await asyncio.sleep(self._every_s)

    @abstractmethod
    async def work(self) -> None:
        """Do one round; what it raises ends them all."""


log = logging.getLogger("trnbot.retention")
EVERY_S = 6 * 3600.0
REPEATED = timedelta(days=1)
"""How long a platform may repeat an event, with much to spare."""


class Prunes(Protocol):
    """Drop old documents."""

    def prune(self, kept: Mapping[str, timedelta], told: timedelta) -> int:
        """Drop documents of these shelves written longer ago, and return how many."""
        ...


class Retention(Background):
    """Drop old documents in rounds.

    `repeats` are the shelves of keys that come once, `messages` those of messages.
    """

    def __init__(
        self, store: Prunes, retention: timedelta, repeats: Sequence[str], messages: Sequence[str]
    ) -> None:
        super().__init__("retention", EVERY_S)
        self._store, self._retention = store, retention
        self._kept = {**dict.fromkeys(repeats, REPEATED), **dict.fromkeys(messages, retention)}

    async def work(self) -> None:
        """Drop what is old; a database that is away for now is asked again in the next round."""
        try:
            dropped = await asyncio.to_thread(self._store.prune, self._kept, self._retention)
            log.debug("%d old documents dropped", dropped)
        except TrnbotError as error:
            log.warning("old documents were not dropped: %s", error)
