"""Remember what was handled: Slack sends an event again when it believes the first try was lost, to whichever process answers."""

from __future__ import annotations

import asyncio
import logging

from bot.errors import Unavailable
from bot.ports import Turnstile

SHELF = "slack.seen"
_log = logging.getLogger("trnbot.slack")


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
