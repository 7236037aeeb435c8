"""Drop old documents now and then, in whichever process, apart from the watch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol

from bot.errors import TrnbotError

log = logging.getLogger("trnbot.retention")
EVERY_S = 6 * 3600.0
REPEATED = timedelta(days=1)
"""How long a platform may repeat an event, with much to spare."""


class Prunes(Protocol):
    """Drop old documents."""

    def prune(self, kept: Mapping[str, timedelta], told: timedelta) -> int:
        """Drop documents of these shelves written longer ago, and return how many."""
        ...


class Retention:
    """Implement `bot.ports.Listener`: `repeats` are the shelves of keys that come once, `messages` those of messages."""

    def __init__(self, store: Prunes, retention: timedelta, repeats: Sequence[str], messages: Sequence[str]) -> None:
        self._store, self._retention = store, retention
        self._kept = {**dict.fromkeys(repeats, REPEATED), **dict.fromkeys(messages, retention)}
        self._task: asyncio.Task[None] | None = None

    def routes(self) -> Sequence[Any]:
        """Serve nothing."""
        return ()

    async def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._go(), name="retention")

    async def stop(self) -> None:
        """End between two rounds, or with the one under way."""
        if self._task:
            self._task.cancel()

    async def _go(self) -> None:
        while True:
            try:
                dropped = await asyncio.to_thread(self._store.prune, self._kept, self._retention)
                log.debug("%d old documents dropped", dropped)
            except TrnbotError as error:
                log.warning("old documents were not dropped: %s", error)
            await asyncio.sleep(EVERY_S)
