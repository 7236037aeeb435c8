"""Keep to Slack's rate limits: about one message a second and channel, and the wait of its 429s.

Source: docs.slack.dev, apis/web-api/rate-limits.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from slack_sdk.errors import SlackApiError
from slack_sdk.http_retry.builtin_async_handlers import AsyncRateLimitErrorRetryHandler
from slack_sdk.http_retry.response import HttpResponse

from bot.errors import Unavailable
from bot.model.delays import Delays


class Pace:
    """Let the calls for one channel through in order, `interval_s` apart; channels do not wait for each other."""

    def __init__(self, interval_s: float = 1.0, delays: Delays | None = None) -> None:
        self._interval_s = interval_s
        self._delays = delays or Delays()
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._next_s: dict[str, float] = {}
        self._newest: dict[tuple[str, str], int] = {}

    @asynccontextmanager
    async def turn(self, channel: str) -> AsyncIterator[None]:
        """Wait for this channel's turn; raise `Unavailable` where Slack asked for a longer wait than a tick has."""
        loop, lock = asyncio.get_running_loop(), self._locks[channel]
        with self._delays.held(loop.time):
            await lock.acquire()
        try:
            if (wait := self._next_s.get(channel, 0.0) - loop.time()) > LONGEST_S:
                raise Unavailable(f"Slack limits how fast the bot may post in {channel}; it will be retried in {wait:.0f} s.")
            if wait > 0:
                with self._delays.held(loop.time):
                    await asyncio.sleep(wait)
            try:
                yield
            finally:
                self._next_s[channel] = max(self._next_s.get(channel, 0.0), loop.time() + self._interval_s)
        finally:
            lock.release()

    def hold(self, channel: str, seconds: float) -> None:
        """Let nothing through for so long, as Slack asked."""
        if seconds > 0:
            self._next_s[channel] = max(self._next_s.get(channel, 0.0), asyncio.get_running_loop().time() + seconds)

    def closed(self, channel: str) -> bool:
        """Return whether Slack asked for a wait that is not over."""
        return self._next_s.get(channel, 0.0) > asyncio.get_running_loop().time()

    def claim(self, channel: str, message: str) -> int:
        """Note that a newer state of a message is about to be sent, and return its number."""
        number = self._newest.get((channel, message), 0) + 1
        self._newest[channel, message] = number
        return number

    def is_newest(self, channel: str, message: str, number: int) -> bool:
        """Return whether nothing newer was claimed; an older state need not be sent any more."""
        return self._newest.get((channel, message), 0) == number

    def release(self, channel: str, message: str, number: int) -> None:
        """Forget a message whose newest state was sent."""
        if self.is_newest(channel, message, number):
            self._newest.pop((channel, message), None)


LONGEST_S = 30.0
"""A longer wait would hold up every other channel: the message is given back instead, and tried with a later tick."""


def retry_after_s(headers: Mapping[str, Any]) -> float:
    """Return the seconds that Slack asks to wait, 1 where it does not say."""
    asked = next((value for name, value in headers.items() if name.lower() == "retry-after"), "1")
    first = asked[0] if isinstance(asked, list | tuple) and asked else asked
    return float(str(first)) if str(first).isdecimal() else 1.0


def closed_s(error: SlackApiError) -> float:
    """Return for how long Slack takes no more of this, 0 where the failure is another."""
    limited = getattr(error.response, "status_code", 0) == 429
    return retry_after_s(error.response.headers) if limited else 0.0


class RateLimitRetry(AsyncRateLimitErrorRetryHandler):
    """Try again after `Retry-After` seconds, up to `most` times; not where that is longer than `LONGEST_S`."""

    def __init__(self, delays: Delays, most: int = 3) -> None:
        super().__init__(max_retry_count=most)
        self._delays = delays

    async def _can_retry_async(self, *, response: HttpResponse | None = None, **asked: Any) -> bool:
        limited = await super()._can_retry_async(response=response, **asked)
        return limited and response is not None and retry_after_s(response.headers) <= LONGEST_S

    async def prepare_for_next_attempt_async(self, **asked: Any) -> None:
        """Wait, and count it."""
        with self._delays.held(asyncio.get_running_loop().time):
            await super().prepare_for_next_attempt_async(**asked)
