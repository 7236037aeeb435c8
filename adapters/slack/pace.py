"""Keep to Slack's rate limits: about one message a second and channel, and the wait of its 429s.

Slack limits each method by workspace; `chat.postMessage` by channel too. A 429 names the method and
not which of the two limits it was: it closes the channel, and the workspace when another channel is
closed as well.

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

from bot.errors import Limited
from bot.model.notification import Delays


class Pace:
    """Let the calls for one channel through in order, `interval_s` apart.

    Channels do not wait for each other.
    """

    def __init__(self, interval_s: float = 1.0, delays: Delays | None = None) -> None:
        self._interval_s = interval_s
        self._delays = delays or Delays()
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._next_s: dict[str, float] = {}
        self._closed_s: dict[tuple[str, str], float] = {}
        """Until when a method is closed in a channel, or in the workspace ("")."""
        self._newest: dict[tuple[str, str], int] = {}

    @asynccontextmanager
    async def turn(self, channel: str, method: str) -> AsyncIterator[None]:
        """Wait for this channel's turn; raise `Limited` at once where Slack asked to wait."""
        loop, lock = asyncio.get_running_loop(), self._locks[channel]
        with self._delays.held(loop.time):
            await lock.acquire()
        try:
            self.check(channel, method)
            if (wait := self._next_s.get(channel, 0.0) - loop.time()) > 0:
                with self._delays.held(loop.time):
                    await asyncio.sleep(wait)
            try:
                yield
            finally:
                self._next_s[channel] = max(
                    self._next_s.get(channel, 0.0), loop.time() + self._interval_s
                )
        finally:
            lock.release()

    def check(self, channel: str, method: str) -> None:
        """Raise `Limited` where Slack asked for a wait that is not over."""
        if (wait := self.closed_s(channel, method)) > 0:
            words = f"Slack limits how fast the bot may post in {channel}; it will be retried in {wait:.0f} s."
            raise Limited(words, wait)

    def hold(self, channel: str, method: str, seconds: float) -> None:
        """Let nothing through by this method for so long, as Slack asked."""
        if seconds <= 0:
            return
        now = asyncio.get_running_loop().time()
        others = {
            place
            for (name, place), until in self._closed_s.items()
            if name == method and until > now
        } - {channel}
        by_channel = method in BY_CHANNEL and not others
        place = channel if by_channel else ""
        self._closed_s[method, place] = max(self._closed_s.get((method, place), 0.0), now + seconds)
        self._delays.seconds += seconds

    def closed_s(self, channel: str, method: str) -> float:
        """Return for how long a method is still closed in a channel, 0 where it is open."""
        until = max(self._closed_s.get((method, place), 0.0) for place in (channel, ""))
        return max(0.0, until - asyncio.get_running_loop().time())

    async def wait(self, seconds: float) -> None:
        """Wait for a limit to end, and count it."""
        with self._delays.held(asyncio.get_running_loop().time):
            await asyncio.sleep(seconds)

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


BY_CHANNEL = frozenset({"chat.postMessage", "chat.postEphemeral"})
"""Methods that Slack limits by channel, beside the workspace's limit."""
BRIEF_S = 5.0
"""How long a person's answer may wait for a limit. An alert does not wait here.

Whoever delivers it comes again.
"""


def retry_after_s(headers: Mapping[str, Any]) -> float:
    """Return the seconds that Slack asks to wait, 1 where it does not say."""
    asked = next((value for name, value in headers.items() if name.lower() == "retry-after"), "1")
    first = asked[0] if isinstance(asked, list | tuple) and asked else asked
    return float(str(first)) if str(first).isdecimal() else 1.0


def is_limited(error: SlackApiError) -> bool:
    """Return whether Slack refused for its limits alone."""
    return getattr(error.response, "status_code", 0) == 429


def closed_s(error: SlackApiError) -> float:
    """Return for how long Slack takes no more of this, 0 where the failure is another."""
    return retry_after_s(error.response.headers) if is_limited(error) else 0.0


class RateLimitRetry(AsyncRateLimitErrorRetryHandler):
    """Try again after `Retry-After` seconds, up to `most` times.

    Not where that is longer than `BRIEF_S`.
    """

    def __init__(self, delays: Delays, most: int = 3) -> None:
        super().__init__(max_retry_count=most)
        self._delays = delays

    async def _can_retry_async(self, *, response: HttpResponse | None = None, **asked: Any) -> bool:
        limited = await super()._can_retry_async(response=response, **asked)
        return limited and response is not None and retry_after_s(response.headers) <= BRIEF_S

    async def prepare_for_next_attempt_async(self, **asked: Any) -> None:
        """Wait, and count it."""
        with self._delays.held(asyncio.get_running_loop().time):
            await super().prepare_for_next_attempt_async(**asked)
