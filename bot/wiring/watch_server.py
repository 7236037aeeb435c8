"""Tick while this process leads: through a recording at its speed, or by the clock of the wall."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from adapters.timer import Attempts, ReplayClock, ReplayTimer, Timer
from bot.app import App
from bot.errors import Unavailable
from bot.model.window import Window
from bot.ports import Clock, State
from bot.ports.work import LANE, Lane
from bot.watch.tick import grid

DEMO_SPEED = 120.0
DEMO_SHOWN = timedelta(hours=10)
"""How much of the end of a recording a demo plays before people's eyes; what lies before is caught up with at once."""
STANDBY_S = 2.0
"""How often a process that does not lead asks for the lead: well within the half minute that a watch may pause."""
log = logging.getLogger("trnbot.play")


class Leading(Protocol):
    """Share state between processes of which one leads."""

    def load(self, now: datetime) -> State:
        """Return the state of the watch."""
        ...

    def acquire_lead(self) -> bool:
        """Tell whether this process leads now, taking the lead when it is free."""
        ...


@dataclass(frozen=True)
class Tempo:
    """Tell how a recording is played: `shown` is the part at its end that is played, None for all of it."""

    interval: timedelta
    speed: float
    shown: timedelta | None = None


class ReplayServer:
    """Implement `bot.ports.Listener`: the watch over a recording, by the one process that leads."""

    def __init__(self, extent: Window, tempo: Tempo, store: Leading) -> None:
        self._extent, self._tempo, self._store = extent, tempo, store
        self._at = extent.start
        self._replay: ReplayClock | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: ReplayTimer | None = None
        self._lost = asyncio.Event()
        self.app: App | None = None

    def clock(self) -> datetime:
        """Return the recorded now; of a process that does not lead, the leader's last tick."""
        return self._replay() if self._replay else self._at

    def routes(self) -> Sequence[Any]:
        """Serve nothing."""
        return ()

    async def start(self) -> None:
        """Begin in the background, so that the console answers meanwhile."""
        self._task = asyncio.create_task(self._go(), name="play")

    async def stop(self) -> None:
        """Let the messages under way be finished."""
        if self.app:
            self.app.leave()
        if self._task:
            self._task.cancel()
        if self._timer:
            await self._timer.stop()

    async def tick(self, at: datetime) -> None:
        """Tick while leading; raise `Unavailable` when another process has taken over."""
        assert self.app
        if not await asyncio.to_thread(self._store.acquire_lead):
            self._lost.set()
            raise Unavailable("Another process leads the watch now.")
        await self.app.tick(at)

    async def _go(self) -> None:
        LANE.set(Lane.WATCH)  # for all that this task begins
        while True:
            try:
                await self._wait_for_lead()
                await self._play()
            except Unavailable as error:  # a database that is away for a moment must not end the waiting
                log.warning("the watch waits: %s", error)
                await asyncio.sleep(STANDBY_S)
                continue
            await self._lost.wait()
            if self._timer:
                await self._timer.stop()
            self._timer = self._replay = None
            self._lost.clear()

    async def _wait_for_lead(self) -> None:
        waited = False
        while not await asyncio.to_thread(self._store.acquire_lead):
            if not waited:
                log.info("another process leads; this one answers, and takes over when that ends")
            waited = True
            ticked_at = await asyncio.to_thread(self._ticked_at)
            self._at = ticked_at or self._at
            await asyncio.sleep(STANDBY_S)
        if waited:
            log.info("this process leads now")

    async def _play(self) -> None:
        """Go on after the last tick that was saved, by whomever."""
        since = await asyncio.to_thread(self._ticked_at)
        start = since + self._tempo.interval if since else self._extent.start
        end = self._extent.end
        shown = max(start, end - self._tempo.shown) if self._tempo.shown else start
        await self._catch_up([at for at in grid(start, shown, self._tempo.interval) if at < shown])
        if self._lost.is_set():
            return
        self._replay = ReplayClock(Window(min(shown, end), end), self._tempo.speed, self._tempo.interval)
        self._timer = ReplayTimer(self.tick, self._replay)
        await self._timer.start()

    async def _catch_up(self, ticks: Sequence[datetime]) -> None:
        if ticks:
            log.info("catching up with %d ticks of the recording", len(ticks))
        attempts = Attempts(self.tick)
        for at in ticks:
            if self._lost.is_set():
                return
            await attempts.run(at)
            self._at = at

    def _ticked_at(self) -> datetime | None:
        return self._store.load(self._extent.end).ticked_at


class LiveServer:
    """Implement `bot.ports.Listener`: the watch by the clock of the wall, by the one process that leads."""

    def __init__(self, interval: timedelta, clock: Clock, store: Leading) -> None:
        self.clock = clock
        self.app: App | None = None
        self._store = store
        self._timer = Timer(self._tick, clock, interval, self._missed)

    def routes(self) -> Sequence[Any]:
        """Serve nothing."""
        return ()

    async def start(self) -> None:
        """Begin to tick."""
        await self._timer.start()

    async def stop(self) -> None:
        """Let the messages under way be finished."""
        if self.app:
            self.app.leave()
        await self._timer.stop()

    async def _tick(self, at: datetime) -> None:
        assert self.app
        LANE.set(Lane.WATCH)  # of the timer's task, which does nothing else
        if await asyncio.to_thread(self._store.acquire_lead):
            await self.app.tick(at)

    def _missed(self, sentence: str) -> None:
        assert self.app
        logging.getLogger("trnbot.watch").warning(sentence)
        self.app.health.missed_tick()
