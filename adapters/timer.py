"""Tick the watch: by the wall clock, or by a recording's own time played faster."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from apscheduler import events
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.interval import IntervalTrigger

from bot.errors import TrnbotError
from bot.model.window import Window
from bot.ports import Clock

TickFunction = Callable[[datetime], Awaitable[object]]
OnMissed = Callable[[str], None]

_log = logging.getLogger("trnbot.timer")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def grid_floor(at: datetime, interval: timedelta) -> datetime:
    """Return the last multiple of `interval` since 1970 that is not after `at`."""
    return at - (at - _EPOCH) % interval


def grid_ceiling(at: datetime, interval: timedelta) -> datetime:
    """Return the first multiple of `interval` since 1970 that is not before `at`."""
    return at + (_EPOCH - at) % interval


class Attempts:
    """Run a tick; one that fails is counted, logged once a kind until a tick succeeds, and retried by the next tick."""

    def __init__(self, tick: TickFunction) -> None:
        self._tick = tick
        self._logged_kinds: set[str] = set()
        self.succeeded = 0
        self.failed: Counter[str] = Counter()
        """Failed ticks by the class of the error."""

    async def run(self, now: datetime) -> None:
        """Tick at `now`; never raises, except when cancelled."""
        try:
            await self._tick(now)
        except Exception as error:  # noqa: BLE001,RUF100 - the watch outlives any failure; it is logged, counted and retried
            self._fail(now, error)
        else:
            self._succeed(now)

    def _fail(self, now: datetime, error: Exception) -> None:
        kind = type(error).__name__
        self.failed[kind] += 1
        if kind in self._logged_kinds:
            return
        self._logged_kinds.add(kind)
        # What the bot says itself is clear; anything else is a fault, and needs its trace.
        trace = None if isinstance(error, TrnbotError) else error
        _log.error("The tick of %s failed: %s: %s", f"{now:%Y-%m-%d %H:%M}", kind, error, exc_info=trace)

    def _succeed(self, now: datetime) -> None:
        self.succeeded += 1
        if self._logged_kinds:
            _log.info("The tick of %s succeeded again after %s.", f"{now:%Y-%m-%d %H:%M}", ", ".join(sorted(self._logged_kinds)))
        self._logged_kinds.clear()


class Timer:
    """Tick once at the start, then at every multiple of `interval`; a `bot.ports.Listener`.

    A tick that overruns makes the next one wait for its own time: the skipped ones are reported through `on_missed`.
    """

    def __init__(self, tick: TickFunction, clock: Clock, interval: timedelta, on_missed: OnMissed) -> None:
        self.attempts = Attempts(tick)
        self._clock = clock
        self._interval = interval
        self._on_missed = on_missed
        self._last: datetime | None = None
        self._busy = asyncio.Lock()
        self._scheduler = AsyncIOScheduler(timezone=UTC)

    def routes(self) -> Sequence[Any]:
        """Return no routes: a timer serves none."""
        return ()

    async def start(self) -> None:
        """Begin to tick."""
        now = self._clock()
        trigger = IntervalTrigger(
            seconds=self._interval.total_seconds(), start_date=grid_floor(now, self._interval) + self._interval, timezone=UTC
        )
        # A late tick is better than none, however late: the next would find the same.
        options = {"coalesce": True, "max_instances": 1, "misfire_grace_time": None}
        self._scheduler.add_listener(self._overran, events.EVENT_JOB_MAX_INSTANCES)
        self._scheduler.add_job(self.fire, trigger, id="tick", next_run_time=now, **options)
        self._scheduler.start()

    async def stop(self) -> None:
        """Let the tick under way finish, then stop."""
        self._scheduler.pause()
        async with self._busy:
            self._scheduler.shutdown(wait=False)

    async def fire(self) -> None:
        """Tick for the newest multiple of the interval, telling first of those that were missed."""
        async with self._busy:
            now = grid_floor(self._clock(), self._interval)
            self._tell_gap(now)
            self._last = now
            await self.attempts.run(now)

    def _overran(self, event: events.JobSubmissionEvent) -> None:
        for at in event.scheduled_run_times:
            self._last = grid_floor(at, self._interval)
            self._on_missed(f"The tick of {self._last:%H:%M} UTC was skipped: the one before was still running.")

    def _tell_gap(self, now: datetime) -> None:
        missed = (now - self._last) // self._interval - 1 if self._last else 0
        if missed > 0:
            self._on_missed(f"{missed} tick(s) between {self._last:%Y-%m-%d %H:%M} and {now:%H:%M} UTC did not run.")


class ReplayClock:
    """Map real time to recorded time, `speed` recorded seconds a real one; call it for the recorded now.

    Recorded time never passes a tick that has not run: where ticks take longer than the speed allows, it waits.
    """

    def __init__(
        self, window: Window, speed: float, interval: timedelta, *, real_seconds: Callable[[], float] = time.monotonic
    ) -> None:
        self.end = max(grid_ceiling(window.end, interval), grid_ceiling(window.start, interval))
        self._speed = speed
        self._interval = interval
        self._real_seconds = real_seconds
        self._next: datetime | None = grid_ceiling(window.start, interval)
        self._anchor = window.start
        self._anchored = real_seconds()

    def __call__(self) -> datetime:
        """Return the recorded now; at the end it stands still."""
        return self.end if self._next is None else min(self._raw(), self._next)

    @property
    def next_tick(self) -> datetime | None:
        """Return the tick to run next, None after the last."""
        return self._next

    def seconds_left(self) -> float:
        """Return the real seconds until the next tick is due."""
        return 0.0 if self._next is None else max(0.0, (self._next - self._raw()).total_seconds() / self._speed)

    def ticked(self) -> None:
        """Let recorded time pass the tick that has just run; time that ran ahead meanwhile is given back."""
        assert self._next is not None
        after = self._next + self._interval
        if self._raw() > after:
            self._anchor, self._anchored = after, self._real_seconds()
        self._next = after if after <= self.end else None

    def _raw(self) -> datetime:
        return self._anchor + timedelta(seconds=(self._real_seconds() - self._anchored) * self._speed)


class ReplayTimer:
    """Run every tick of a recording in order, none skipped, and end quietly; a `bot.ports.Listener`."""

    def __init__(
        self, tick: TickFunction, clock: ReplayClock, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self.attempts = Attempts(tick)
        self._clock = clock
        self._sleep = sleep
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def routes(self) -> Sequence[Any]:
        """Return no routes: a timer serves none."""
        return ()

    async def start(self) -> None:
        """Begin to play."""
        self._task = asyncio.create_task(self.play(), name="replay")

    async def stop(self) -> None:
        """Let the tick under way finish, then stop."""
        self._stopping.set()
        if self._task:
            await self._task

    async def play(self) -> None:
        """Tick to the end of the recording, or until `stop`."""
        while (at := self._clock.next_tick) and not self._stopping.is_set():
            if not await self._due():
                return
            await self.attempts.run(at)
            self._clock.ticked()

    async def _due(self) -> bool:
        """Wait until the next tick is due; tell whether it came before `stop`."""
        wait = asyncio.ensure_future(self._sleep(self._clock.seconds_left()))
        stop = asyncio.create_task(self._stopping.wait())
        await asyncio.wait({wait, stop}, return_when=asyncio.FIRST_COMPLETED)
        wait.cancel()
        stop.cancel()
        return not self._stopping.is_set()
