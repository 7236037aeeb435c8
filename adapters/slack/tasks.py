"""Hold what goes on after Slack was acknowledged, so that it can be waited for; a failure is logged once, without secrets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from slack_sdk.errors import SlackApiError

from adapters.slack.failures import code_of
from adapters.slack.redact import redact
from bot.errors import TrnbotError

_log = logging.getLogger("trnbot.slack")


class Tasks:
    """Start work and wait for it."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start work that goes on after Slack was acknowledged."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    async def drain(self, timeout_s: float = 10.0) -> None:
        """Wait for what is under way and what that begins, then give it up."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        while self._tasks and loop.time() < until:
            await asyncio.wait(self._tasks, timeout=until - loop.time())
        for task in self._tasks:
            task.cancel()

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or task.exception() is None:
            return
        error = task.exception()
        if isinstance(error, TrnbotError):
            _log.warning("an answer was not delivered: %s", error)
        elif isinstance(error, SlackApiError):
            _log.warning("an answer was not delivered: %s", code_of(error))
        else:
            _log.error("an answer failed: %s: %s", type(error).__name__, redact(str(error)))
