"""Remember what was handled: Teams sends a message again when it believes the first try lost, to any process."""

from __future__ import annotations

import asyncio
import logging

from bot.errors import Unavailable
from bot.ports import Turnstile

SHELF = "teams.seen"
_log = logging.getLogger("trnbot.teams")


class Seen:
    """Ask the store, which every process shares."""

    def __init__(self, turnstile: Turnstile) -> None:
        self._turnstile = turnstile

    async def again(self, key: str) -> bool:
        """Tell whether the key came before, and remember it; "" is never remembered, and without a store nothing is known."""
        try:
            return bool(key) and not await asyncio.to_thread(self._turnstile.first, SHELF, key)
        except Unavailable as error:
            _log.warning("whether it is answered already is not known: %s", error)
            return False
