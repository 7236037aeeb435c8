"""Tick while this process leads: through a recording at its speed, or by the clock of the wall."""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from adapters.timer import Attempts, ReplayClock, ReplayTimer, Standby, Timer
from bot.app import App
from bot.errors import TrnbotError
from bot.model.counts import counted
from bot.model.window import Window
from bot.ports import Clock
from bot.ports.work import LANE, Lane
from bot.watch.health import sentence_of
from bot.watch.tick import TickResult, grid
from bot.wiring.story import StoryTeller

DEMO_SPEED = 120.0
DEMO_SHOWN = timedelta(hours=10)
"""How much of the end of a recording a demo plays before people's eyes.

What lies before is caught up with at once.
"""
STANDBY_S = 2.0
"""How often a process that does not lead asks for the lead.

Well within the half minute that a watch may pause.
"""
SAID_S = 5.0
"""How often the log says how far work is that nobody sees."""
log = logging.getLogger("trnbot.play")


class Leading(Protocol):
    """Share state between processes of which one leads."""

    def ticked_at(self) -> datetime | None:
        """Return the last tick that was run whole, by whichever process."""
        ...

    def acquire_lead(self) -> bool:
        """Tell whether this process leads now, taking the lead when it is free."""
        ...


@dataclass(frozen=True)
class Tempo:
    """Tell how a recording is played.

    `shown` is the part at its end that is played, None for all of it.
    """

    interval: timedelta
    speed: float
    shown: timedelta | None = None

    @property
    def interval_s(self) -> float:
        """Return the real seconds from tick to tick."""
        return self.interval.total_seconds() / self.speed


class Reported:
    """Log a failure that repeats once as it begins, once as it changes, and once as it ends."""

    def __init__(self) -> None:
        self._sentence = ""
        self._count = 0

    def failed(self, error: Exception) -> None:
        """Note a failure."""
        self._count += 1
        if (sentence := sentence_of(error)) != self._sentence:
            trace = None if isinstance(error, TrnbotError) else error
            log.warning("the watch waits: %s", sentence, exc_info=trace)
        self._sentence = sentence

    def passed(self) -> None:
        """Note that it works."""
        if self._count:
            log.info("the watch waits no longer, after %s", counted(self._count, "failure"))
        self._sentence, self._count = "", 0


class WatchServer(ABC):
    """Implement `bot.ports.Listener`: the watch, by the one process that leads."""

    def __init__(self, store: Leading) -> None:
        self.app: App | None = None
        self._store = store
        self._reported = Reported()
        self._lost = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._timer: Timer | ReplayTimer | None = None

    def routes(self) -> Sequence[Any]:
        """Serve nothing."""
        return ()

    async def start(self) -> None:
        """Begin in the background, so that the console answers meanwhile."""
        self._task = asyncio.create_task(self._go(), name="watch")

    async def stop(self) -> None:
        """Let the messages under way be finished."""
        if self.app:
            self.app.leave()
        if self._task:
            self._task.cancel()
        if self._timer:
            await self._timer.stop()
        if self.app:
            await self.app.settle()

    async def tick(self, at: datetime) -> TickResult | None:
        """Tick while leading; raise `Standby` when another process has taken over."""
        assert self.app
        with self.app.health.noting():
            leads = await asyncio.to_thread(self._store.acquire_lead)
        if not leads:
            self._lost.set()
            raise Standby
        return await self.app.tick(at)

    async def _go(self) -> None:
        LANE.set(Lane.WATCH)  # for all that this task begins
        while True:
            since = await self._wait_for_lead()
            self._lost.clear()
            try:
                await self._watch(since)
            except Exception as error:  # noqa: BLE001,RUF100 - the watch outlives any failure; it is logged, and begins anew
                self._failed(error)
                await asyncio.sleep(STANDBY_S)
            if self._timer:
                await self._timer.stop()
            self._timer = None

    @abstractmethod
    async def _watch(self, since: datetime | None) -> None:
        """Tick after the last tick that was saved, by whomever, until the lead is lost."""

    @abstractmethod
    async def _stand_by(self, ticked_at: datetime | None) -> None:
        """Note how far the leader is."""

    async def _wait_for_lead(self) -> datetime | None:
        """Ask for the lead until it is this process's, and return the last tick that was saved."""
        waited = False
        while True:
            leads, ticked_at = await self._ask()
            if leads:
                if waited:
                    log.info("this process leads now")
                return ticked_at
            if leads is False:
                if not waited:
                    log.info(
                        "another process leads; this one answers, and takes over when that ends"
                    )
                waited = True
                await self._stand_by(ticked_at)
            await asyncio.sleep(STANDBY_S)

    async def _ask(self) -> tuple[bool | None, datetime | None]:
        """Return whether this process leads, None where that cannot be told now, and the last tick that was saved."""
        try:
            leads = await asyncio.to_thread(self._store.acquire_lead)
            ticked_at = await asyncio.to_thread(self._store.ticked_at)
        except Exception as error:  # noqa: BLE001,RUF100 - a database that is away for a moment must not end the waiting
            self._failed(error)
            return None, None
        self._reported.passed()
        return leads, ticked_at

    def _failed(self, error: Exception) -> None:
        assert self.app
        self.app.health.hindered(sentence_of(error))
        self._reported.failed(error)


class ReplayServer(WatchServer):
    """Watch a recording."""

    def __init__(self, extent: Window, tempo: Tempo, store: Leading) -> None:
        super().__init__(store)
        self._extent, self._tempo = extent, tempo
        self._at = extent.start
        self._replay: ReplayClock | None = None
        self.story: StoryTeller | None = None

    async def tick(self, at: datetime) -> TickResult | None:
        """Tick, and let the story of a demonstration go on."""
        result = await super().tick(at)
        if (
            self.story
            and result
            and self._tempo.shown
            and at >= self._extent.end - self._tempo.shown
        ):
            await self.story.ticked(result, last=at >= self._extent.end)
        return result

    def clock(self) -> datetime:
        """Return the recorded now; of a process that does not lead, the leader's last tick."""
        return self._replay() if self._replay else self._at

    async def _stand_by(self, ticked_at: datetime | None) -> None:
        assert self.app
        self._at = ticked_at or self._at
        ended = ticked_at is not None and ticked_at >= self._extent.end
        self.app.health.stands_by(ticked_at, None if ended else self._tempo.interval_s)

    async def _watch(self, since: datetime | None) -> None:
        assert self.app
        self.app.health.leads(self._tempo.interval_s)
        self._at = since or self._at
        start = since + self._tempo.interval if since else self._extent.start
        end = self._extent.end
        shown = max(start, end - self._tempo.shown) if self._tempo.shown else start
        if not await self._catch_up(
            [at for at in grid(start, shown, self._tempo.interval) if at < shown]
        ):
            return
        self._replay = ReplayClock(
            Window(min(shown, end), end), self._tempo.speed, self._tempo.interval
        )
        self._timer = timer = ReplayTimer(self.tick, self._replay)
        await timer.start()
        await self._until_lost(self._replay)
        self._at, self._replay = self._replay(), None

    async def _catch_up(self, ticks: Sequence[datetime]) -> bool:
        """Run these ticks, a failed one until it passes, and return whether this process still leads."""
        if ticks:
            log.info("catching up with %d ticks of the recording", len(ticks))
        attempts, said = Attempts(self.tick), time.monotonic()
        for count, at in enumerate(ticks, 1):
            if not await attempts.run_until_passed(at):
                return False
            self._at = at
            if time.monotonic() - said >= SAID_S:
                log.info("caught up with %d of %d ticks", count, len(ticks))
                said = time.monotonic()
        return True

    async def _until_lost(self, clock: ReplayClock) -> None:
        """Wait until another process leads.

        At the end of the recording, where no tick tells, by asking.
        """
        assert self.app
        while not self._lost.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._lost.wait(), STANDBY_S)
            if clock.next_tick is None and not self._lost.is_set():
                leads, _ = await self._ask()
                if leads is False:
                    return
                if leads:
                    self.app.health.leads(None)
                    self.app.health.recovered()


class LiveServer(WatchServer):
    """Watch by the clock of the wall."""

    def __init__(self, interval: timedelta, clock: Clock, store: Leading) -> None:
        super().__init__(store)
        self.clock = clock
        self._interval = interval

    async def _stand_by(self, ticked_at: datetime | None) -> None:
        assert self.app
        age = (self.clock() - ticked_at).total_seconds() if ticked_at else 0.0
        self.app.health.stands_by(ticked_at, self._interval.total_seconds(), age)

    async def _watch(self, since: datetime | None) -> None:
        assert self.app
        self.app.health.leads(self._interval.total_seconds())
        self._timer = timer = Timer(self.tick, self.clock, self._interval, self._missed, since)
        await timer.start()
        await self._lost.wait()

    def _missed(self, count: int, sentence: str) -> None:
        assert self.app
        logging.getLogger("trnbot.watch").warning(sentence)
        self.app.health.missed_ticks(count)
