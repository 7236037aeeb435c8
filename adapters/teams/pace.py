"""Keep to Teams' limits.

Messages per bot and conversation (learn.microsoft.com, "Optimize your bot with rate limiting").
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from bot.errors import Limited
from bot.model.notification import Delays

_LIMITS = ((7, 1.0), (8, 2.0), (60, 30.0), (1800, 3600.0))
_KEPT = max(most for most, _ in _LIMITS)
BRIEF_S = 4.0
"""A longer wait is the caller's.

The message is given back, and whoever sends it does something else meanwhile.
"""

Monotonic = Callable[[], float]
Sleep = Callable[[float], Awaitable[object]]


def loop_time() -> float:
    """Return the running loop's own time, by which everything here waits."""
    return asyncio.get_running_loop().time()


class Pace:
    """Let one message through at a time, when every limit of its conversation has room."""

    def __init__(
        self,
        monotonic: Monotonic = loop_time,
        sleep: Sleep = asyncio.sleep,
        delays: Delays | None = None,
    ) -> None:
        self._delays = delays or Delays()
        self._monotonic = monotonic
        self._sleep = sleep
        self._sent: dict[str, deque[float]] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._closed_s: dict[str, float] = {}

    async def turn(self, conversation: str) -> None:
        """Return when a message may be sent, counting it as sent.

        Raise `Limited` where it must wait for long.
        """
        with self._delays.held(self._monotonic):
            async with self._locks.setdefault(conversation, asyncio.Lock()):
                sent = self._sent.setdefault(conversation, deque(maxlen=_KEPT))
                while (wait := self._wait_s(conversation, sent)) > 0:
                    if wait > BRIEF_S:
                        raise Limited(
                            f"Teams limits how fast the bot may post there; it will be retried in {wait:.0f} s.",
                            wait,
                        )
                    await self._sleep(wait)
                sent.append(self._monotonic())

    def hold(self, conversation: str, seconds: float) -> None:
        """Let nothing through for so long, as Teams asked."""
        self._closed_s[conversation] = max(
            self._closed_s.get(conversation, 0.0), self._monotonic() + seconds
        )

    def _wait_s(self, conversation: str, sent: deque[float]) -> float:
        now = self._monotonic()
        return max(_wait_s(sent, now), self._closed_s.get(conversation, 0.0) - now)


def _wait_s(sent: deque[float], now: float) -> float:
    """Return the seconds until one more message keeps every limit."""
    return max(
        (sent[-most] + span - now for most, span in _LIMITS if len(sent) >= most), default=0.0
    )
