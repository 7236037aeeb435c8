"""Wait as long as Slack's 429 says, counting it: the same way for messages, threads, answers and pictures."""

from __future__ import annotations

import time
from typing import Any

from slack_sdk.http_retry.builtin_async_handlers import AsyncRateLimitErrorRetryHandler

from bot.model.delays import Delays


class Patience(AsyncRateLimitErrorRetryHandler):
    """Try again after `Retry-After` seconds, up to `most` times."""

    def __init__(self, delays: Delays, most: int = 3) -> None:
        super().__init__(max_retry_count=most)
        self._delays = delays

    async def prepare_for_next_attempt_async(self, **asked: Any) -> None:
        """Wait, and count it."""
        with self._delays.held(time.monotonic):
            await super().prepare_for_next_attempt_async(**asked)
