"""Keep to Teams' limits: messages per bot and conversation (learn.microsoft.com, "Optimize your bot with rate limiting")."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable

from bot.model.delays import Delays

_LIMITS = ((7, 1.0), (8, 2.0), (60, 30.0), (1800, 3600.0))
_KEPT = max(most for most, _ in _LIMITS)

Monotonic = Callable[[], float]
Sleep = Callable[[float], Awaitable[object]]


class Pace:
    """Let one message through at a time, when every limit of its conversation has room."""

    def __init__(self, monotonic: Monotonic = time.monotonic, sleep: Sleep = asyncio.sleep, delays: Delays | None = None) -> None:
        self._delays = delays or Delays()
        self._monotonic = monotonic
        self._sleep = sleep
        self._sent: dict[str, deque[float]] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def turn(self, conversation: str) -> None:
        """Return when a message may be sent, counting it as sent."""
        with self._delays.held(self._monotonic):
            async with self._locks.setdefault(conversation, asyncio.Lock()):
                sent = self._sent.setdefault(conversation, deque(maxlen=_KEPT))
                while (wait := _wait_s(sent, self._monotonic())) > 0:
                    await self._sleep(wait)
                sent.append(self._monotonic())


def _wait_s(sent: deque[float], now: float) -> float:
    """Return the seconds until one more message keeps every limit."""
    return max((sent[-most] + span - now for most, span in _LIMITS if len(sent) >= most), default=0.0)
