"""Drop old documents now and then, in whichever process, apart from the watch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Protocol

from bot.errors import TrnbotError
from bot.watch.background import Background

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
