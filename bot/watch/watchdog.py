"""Tell a person once that the watch fails or cannot read its source, and once that it works again."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from bot.model.counts import counted
from bot.watch.background import Background
from bot.watch.health import Health

log = logging.getLogger("trnbot.health")


class Watchdog(Background):
    """Tell once that the watch fails or cannot read, and once that it does again.

    It stands apart from the ticks, so that neither waits for the other, and asks no database. What
    a second attempt mends is not told; a process that stands by tells only when the leader is
    silent, as the leader tells the rest.
    """

    def __init__(
        self, health: Health, tell: Callable[[str], Awaitable[None]], every_s: float = 1.0
    ) -> None:
        super().__init__("watchdog", every_s)
        self._health, self._tell = health, tell
        self._failures_before = 0
        self._told = self._told_blind = False

    async def work(self) -> None:
        """Look; a failure to tell is logged, and the next look tries again."""
        try:
            await self.look()
        except Exception:
            log.exception("admins were not told how the watch stands")

    async def look(self) -> None:
        """Tell what has changed since the last look."""
        health = self._health
        if not self._told:
            self._failures_before = health.failures - health.failed_in_a_row
        fault = health.overdue or (
            health.last_error if health.leading and health.failed_in_a_row > 1 else ""
        )
        if fault and not self._told:
            self._told = True
            await self._tell(f"The watch fails, and alerts wait until it works again: {fault}")
        elif self._told and not (health.last_error or health.overdue):
            self._told = False
            failed = counted(max(health.failures - self._failures_before, 0), "attempt")
            await self._tell(f"The watch works again; {failed} failed meanwhile.")
        await self._look_at_gaps()

    async def _look_at_gaps(self) -> None:
        health = self._health
        if health.leading and health.blind and not self._told_blind:
            self._told_blind = True
            await self._tell(health.blind)
        elif self._told_blind and not health.unread_in_a_row:
            self._told_blind = False
            await self._tell("Everything is read again.")
