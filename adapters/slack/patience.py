"""Wait as long as Slack's 429 says, counting it: the same way for messages, threads and answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from slack_sdk.errors import SlackApiError
from slack_sdk.http_retry.builtin_async_handlers import AsyncRateLimitErrorRetryHandler
from slack_sdk.http_retry.response import HttpResponse

from bot.model.delays import Delays

LONGEST_S = 30.0
"""A longer wait would hold up every other channel: the message is given back instead, and tried with a later tick."""


def retry_after_s(headers: Mapping[str, Any]) -> float:
    """Return the seconds that Slack asks to wait, 1 where it does not say."""
    told = next((value for name, value in headers.items() if name.lower() == "retry-after"), "1")
    first = told[0] if isinstance(told, list | tuple) and told else told
    return float(str(first)) if str(first).isdecimal() else 1.0


def closed_s(error: SlackApiError) -> float:
    """Return for how long Slack takes no more of this, 0 where the failure is another."""
    limited = getattr(error.response, "status_code", 0) == 429
    return retry_after_s(error.response.headers) if limited else 0.0


class Patience(AsyncRateLimitErrorRetryHandler):
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
