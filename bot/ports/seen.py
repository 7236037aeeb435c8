"""Remember what was handled: a platform sends again what it believes was lost, to whichever process answers."""

from __future__ import annotations

import asyncio
import logging

from bot.errors import Unavailable
from bot.ports.state import IdempotencyKeys

_log = logging.getLogger("trnbot.seen")


class Deduplicator:
    """Ask the store, which every process shares; `shelf` keeps the keys of one platform."""

    def __init__(self, turnstile: IdempotencyKeys, shelf: str) -> None:
        self._turnstile, self._shelf = turnstile, shelf

    async def again(self, key: str) -> bool:
        """Tell whether the key came before, and remember it; "" is never remembered, and without a store nothing is known."""
        try:
            return bool(key) and not await asyncio.to_thread(self._turnstile.first, self._shelf, key)
        except Unavailable as error:
            _log.warning("whether it is answered already is not known: %s", error)
            return False
