"""Run rounds beside the ticks: a watchdog, and one that drops old documents."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol

from bot.errors import TrnbotError
from bot.model.money import counted
from bot.watch.health import LEAST_S, Health


class Background(ABC):
    """Implement `bot.ports.Listener`: a round, then `every_s` real seconds, until it is stopped."""

    def __init__(self, name: str, every_s: float) -> None:
        self._name, self._every_s = name, every_s
        self._task: asyncio.Task[None] | None = None

    def routes(self) -> Sequence[Any]:
        """Serve nothing."""
        return ()

    async def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._go(), name=self._name)

    async def stop(self) -> None:
        """End, whatever the round under way does; what it does in a thread is finished."""
        if self._task:
            self._task.cancel()

    async def _go(self) -> None:
        while True:
            await self.work()
            await asyncio.sleep(self._every_s)

    @abstractmethod
    async def work(self) -> None:
        """Do one round; what it raises ends them all."""


_retention_log = logging.getLogger("trnbot.retention")


EVERY_S = 6 * 3600.0


REPEATED = timedelta(days=1)
"""How long a platform may repeat an event, with much to spare."""


class Prunes(Protocol):
    """Drop old documents."""

    def prune(
        self, ages: Mapping[str, timedelta], log: timedelta, tables: Mapping[str, timedelta]
    ) -> int:
        """Drop what is older, and return how many rows.

        `ages` are those of the documents of collections, `log` that of the notification log,
        `tables` those of alerts that ended, silences, and attempts to change the policy.
        """
        ...


class Retention(Background):
    """Drop old documents in rounds.

    `repeats` are the collections of keys that come once, `messages` those of messages.
    """

    def __init__(
        self,
        store: Prunes,
        retention: timedelta,
        repeats: Sequence[str],
        messages: Sequence[str],
        tables: Mapping[str, timedelta] | None = None,
    ) -> None:
        super().__init__("retention", EVERY_S)
        self._store, self._retention, self._tables = store, retention, tables or {}
        self._ages = dict.fromkeys(repeats, REPEATED) | dict.fromkeys(messages, retention)

    async def work(self) -> None:
        """Drop old documents; a database that is away is asked again in the next round."""
        try:
            dropped = await asyncio.to_thread(
                self._store.prune, self._ages, self._retention, self._tables
            )
            _retention_log.debug("%d old documents dropped", dropped)
        except TrnbotError as error:
            _retention_log.warning("old documents were not dropped: %s", error)


_watchdog_log = logging.getLogger("trnbot.health")
QUIET_S = 3600.0
"""How long after it told of a failure the watchdog tells of no other, unless that lasts."""


LASTING_S = 900.0
"""What lasts so long is told whenever it was told of another."""


class Watchdog(Background):
    """Tell once that the watch fails or cannot read, and once that it does again.

    It stands apart from the ticks, so that neither waits for the other, and asks no database. What
    a second attempt mends is not told; a process that stands by tells only when the leader is
    silent, as the leader tells the rest. Failures that follow one another, as where leaders come
    and go, are told once an hour.
    """

    def __init__(self, health: Health, tell: Callable[[str], Awaitable[None]]) -> None:
        super().__init__("watchdog", 1.0)
        self._health, self._tell = health, tell
        self._failures_before = 0
        self._told = self._told_blind = False
        self._told_s, self._failing_s, self._looked_s = -QUIET_S, -1.0, health.stopwatch()

    async def work(self) -> None:
        """Look; a failure to tell is logged, and the next look tries again."""
        try:
            await self.look()
        except Exception:
            _watchdog_log.exception("admins were not told how the watch stands")

    async def look(self) -> None:
        """Tell of every change since the last look."""
        health, now_s = self._health, self._health.stopwatch()
        # A process that stood still itself knows only what was: it learns first who leads now.
        stood_still = now_s - self._looked_s > LEAST_S
        self._looked_s = now_s
        if stood_still:
            return

        if not self._told:
            self._failures_before = health.failures - health.failed_in_a_row
        fault = health.overdue
        if not fault and health.leading and health.failed_in_a_row > 1:
            fault = health.last_error
        if not fault:
            self._failing_s = -1.0
        elif self._failing_s < 0:
            self._failing_s = now_s

        due = now_s - self._told_s >= QUIET_S or now_s - self._failing_s >= LASTING_S
        if fault and not self._told and due:
            self._told, self._told_s = True, now_s
            await self._tell(f"The watch fails, and alerts wait until it works again: {fault}")
        elif self._told and not (health.last_error or health.overdue):
            self._told = False
            failures = max(health.failures - self._failures_before, 0)
            failed = f"; {counted(failures, 'attempt')} failed meanwhile" if failures else ""
            await self._tell(f"The watch works again{failed}.")

        if health.leading and health.blind and not self._told_blind:
            self._told_blind = True
            await self._tell(health.blind)
        elif self._told_blind and not health.unread_in_a_row:
            self._told_blind = False
            await self._tell("Everything is read again.")
