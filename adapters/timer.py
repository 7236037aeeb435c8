"""Tick the watch: by the wall clock, or by a recording's own time played faster."""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

from apscheduler.triggers.interval import IntervalTrigger

from bot.errors import Standby, TrnbotError
from bot.model.money import counted
from bot.model.window import Window
from bot.ports import Clock

TickFunction = Callable[[datetime], Awaitable[object]]
OnMissed = Callable[[int, str], None]
Sleep = Callable[[float], Awaitable[None]]
LONGEST_PAUSE_S = 30
"""The longest wait between two attempts at one tick."""
LONGEST_LAG = timedelta(hours=1)
"""How far back the watch by the clock of the wall goes for ticks that did not run."""
MOST_LOGGED = 10
"""Different sentences of one failure that are logged: those with a number always differ."""

_log = logging.getLogger("trnbot.timer")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def grid_floor(at: datetime, interval: timedelta) -> datetime:
    """Return the last multiple of `interval` since 1970 that is not after `at`."""
    return at - (at - _EPOCH) % interval


def grid_ceiling(at: datetime, interval: timedelta) -> datetime:
    """Return the first multiple of `interval` since 1970 that is not before `at`."""
    return at + (_EPOCH - at) % interval


JUMP = timedelta(seconds=10)
"""How far the clock of the wall must leave the steady one to have jumped.

Slewing moves it by half a millisecond a second (ntp_adjtime), between two looks far less than this.
"""
LOOK_S = 5.0
"""The longest time between two looks at the clocks."""


def boot_seconds() -> float:
    """Return real seconds that nobody sets, those counted in which the machine was suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class SteadyClock:
    """Tell the time by a monotonic clock, named by the clock of the wall.

    The wall's small steps are followed. A jump is reported at once, by how far it went, and
    believed once it has lasted `patience`: a clock that is wrong for a moment names no tick.
    """

    def __init__(
        self,
        wall: Clock,
        patience: timedelta,
        on_jump: Callable[[timedelta], None],
        monotonic: Callable[[], float] = boot_seconds,
    ) -> None:
        self._wall, self._patience, self._on_jump = wall, patience, on_jump
        self.monotonic = monotonic
        self._at, self._since_s = wall().astimezone(UTC), monotonic()
        self._jump, self._jumped_s = timedelta(0), 0.0
        self.shifts = 0
        """Jumps that were believed."""

    def __call__(self) -> datetime:
        """Return the time."""
        wall, seconds = self._wall().astimezone(UTC), self.monotonic()
        steady = self._at + timedelta(seconds=seconds - self._since_s)
        jump = wall - steady
        if abs(jump) >= JUMP:
            if abs(jump - self._jump) >= JUMP:
                self._jump, self._jumped_s = jump, seconds
                self._on_jump(jump)
            if seconds - self._jumped_s < self._patience.total_seconds():
                return steady
            self.shifts += 1

        self._at, self._since_s, self._jump = wall, seconds, timedelta(0)
        return wall


class Attempts:
    """Run ticks.

    One that fails is counted, logged once a sentence until a tick passes, and run again after a
    while.
    """

    def __init__(self, tick: TickFunction, sleep: Sleep = asyncio.sleep) -> None:
        self._tick, self._sleep = tick, sleep
        self.stopping = asyncio.Event()
        """Nothing is run any more once it is set, and nothing waits."""
        self._logged: set[str] = set()
        self.in_a_row: Counter[str] = Counter()
        """Failures since the last tick that passed, by the class of the error."""
        self.error: Exception | None = None
        """Why the last one failed."""

    async def run(self, now: datetime) -> bool:
        """Tick at `now` and return whether it passed; never raises, except when cancelled."""
        try:
            await self._tick(now)
        except Standby:
            self.error = None
            return False
        except Exception as error:  # noqa: BLE001,RUF100 - the watch outlives any failure
            kind = type(error).__name__
            self.error = error
            self.in_a_row[kind] += 1
            if str(error) not in self._logged and len(self._logged) < MOST_LOGGED:
                self._logged.add(str(error))
                # What the bot says itself is clear; anything else is a fault, and needs its trace.
                _log.error(
                    "The tick of %s failed: %s: %s",
                    f"{now:%Y-%m-%d %H:%M}",
                    kind,
                    error,
                    exc_info=None if isinstance(error, TrnbotError) else error,
                )
            return False

        # A tick that passes ends what failed before, and is told once.
        if self.in_a_row:
            kinds = ", ".join(f"{kind} {count}×" for kind, count in sorted(self.in_a_row.items()))
            _log.info("The tick of %s passed after failing: %s.", f"{now:%Y-%m-%d %H:%M}", kinds)
        self.error = None
        self._logged.clear()
        self.in_a_row.clear()
        return True

    async def run_until_passed(self, now: datetime) -> bool:
        """Tick at `now` again and again until it passes.

        Return False where it was stopped, or is another process's, before.
        """
        while not self.stopping.is_set():
            if await self.run(now):
                return True
            if self.error is None or not await self.wait(self.pause_s()):
                return False
        return False

    def pause_s(self) -> float:
        """Return how long to wait before the next attempt: longer after each failure."""
        return float(min(LONGEST_PAUSE_S, 2 ** min(self.in_a_row.total() - 1, 10)))

    async def wait(self, seconds: float) -> bool:
        """Wait, and return whether the time passed before `stop`."""
        waiting = asyncio.ensure_future(self._sleep(seconds))
        stop = asyncio.create_task(self.stopping.wait())
        try:
            await asyncio.wait({waiting, stop}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            stop.cancel()
        return not self.stopping.is_set()


class _Ticking(ABC):
    """Tick in a task of its own from start to stop."""

    def __init__(self, attempts: Attempts) -> None:
        self.attempts = attempts
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to tick."""
        self._task = asyncio.create_task(self.play(), name=type(self).__name__)

    async def stop(self) -> None:
        """Let the tick under way finish, then stop."""
        self.attempts.stopping.set()
        if self._task:
            await self._task

    @abstractmethod
    async def play(self) -> None:
        """Tick to the end, or until `stop`."""


class Timer(_Ticking):
    """Tick once at the start, then at every multiple of `interval`.

    A tick that fails is run again until it passes, and then those that waited behind it are run,
    each at its own time. What lies further back than `LONGEST_LAG`, or was overtaken by a tick
    longer than the interval, is given up and reported by `on_missed`.
    """

    def __init__(
        self,
        tick: TickFunction,
        clock: SteadyClock,
        interval: timedelta,
        on_missed: OnMissed,
        since: datetime | None = None,
    ) -> None:
        super().__init__(Attempts(tick))
        self._clock, self._interval, self._on_missed = clock, interval, on_missed
        self._last = since and grid_floor(since, interval)
        """The last tick that is done with: it passed, or was given up."""
        self._trigger = IntervalTrigger(
            seconds=interval.total_seconds(), start_date=_EPOCH, timezone=UTC
        )
        self._shifts = clock.shifts
        self._ticked = False

    async def play(self) -> None:
        """Tick whenever a tick is due, until `stop`."""
        await self.fire()
        while await self.attempts.wait(self._pause_s()):
            await self.fire()

    def _pause_s(self) -> float:
        """Return the seconds until the next tick, or until the clocks are looked at again."""
        now = self._clock()
        # The trigger is asked by the steady clock: APScheduler's own loop sleeps by the wall's.
        due: datetime = self._trigger.get_next_fire_time(None, now + timedelta.resolution)
        return min(LOOK_S, (due - now).total_seconds())

    async def fire(self) -> None:
        """Run every tick that is due, in order; a failed one until it passes or is given up."""
        while not self.attempts.stopping.is_set() and (due := self._next()):
            begun_s = self._clock.monotonic()
            if await self.attempts.run(due):
                self._last, self._ticked = due, True
                if self._clock.monotonic() - begun_s > self._interval.total_seconds():
                    self._give_up(
                        grid_floor(self._clock(), self._interval),
                        "the one before took longer than the interval",
                    )
                continue

            error = self.attempts.error
            if error is None or not await self.attempts.wait(self.attempts.pause_s()):
                return
            # A fault of the bot's own would come again: its tick is given up for the next.
            outside = isinstance(error, (TrnbotError, OSError))
            if not outside and grid_floor(self._clock(), self._interval) > due:
                self._give_up(due + self._interval, "it failed again and again")

    def _next(self) -> datetime | None:
        """Return the tick to run, None where none is due; give up those that lie too far back."""
        newest = grid_floor(self._clock(), self._interval)
        # A clock that was set leaves no tick out, whatever lies between the names.
        shifted, self._shifts = self._clock.shifts != self._shifts, self._clock.shifts
        if self._last is None or shifted or (self._last >= newest and not self._ticked):
            self._last = newest - self._interval
        self._give_up(
            grid_ceiling(newest - LONGEST_LAG, self._interval), "they are too far in the past"
        )
        return self._last + self._interval if self._last < newest else None

    def _give_up(self, before: datetime, why: str) -> None:
        """Report the ticks between the last and `before` as missed, and go on with `before`."""
        missed = (before - self._last) // self._interval - 1 if self._last else 0
        if not self._last or missed <= 0:
            return

        # All of them are told in one sentence, by their first and last.
        first, last = self._last + self._interval, before - self._interval
        span = f"from {first:%Y-%m-%d %H:%M} to {last:%H:%M}"
        if missed == 1:
            span = f"of {first:%H:%M}"
        self._last = last
        self._on_missed(missed, f"{counted(missed, 'tick')} {span} UTC did not run: {why}.")


class ReplayClock:
    """Map real time to recorded time, `speed` recorded seconds a real one.

    Call it for the recorded now.

    Recorded time never passes a tick that has not run: where ticks take longer than the speed
    allows, it waits.
    """

    def __init__(
        self,
        window: Window,
        speed: float,
        interval: timedelta,
        *,
        real_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self.end = max(grid_ceiling(window.end, interval), grid_ceiling(window.start, interval))
        self._speed, self._interval, self._real_seconds = speed, interval, real_seconds
        self.next_tick: datetime | None = grid_ceiling(window.start, interval)
        """The tick to run next, None after the last."""
        self._anchor, self._anchored = window.start, real_seconds()

    def __call__(self) -> datetime:
        """Return the recorded now; at the end it stands still."""
        return self.end if self.next_tick is None else min(self._raw(), self.next_tick)

    def seconds_left(self) -> float:
        """Return the real seconds until the next tick is due."""
        if self.next_tick is None:
            return 0.0
        return max(0.0, (self.next_tick - self._raw()).total_seconds() / self._speed)

    def ticked(self) -> None:
        """Let recorded time pass the tick that has just run.

        Time that ran ahead meanwhile is given back.
        """
        assert self.next_tick is not None
        after = self.next_tick + self._interval
        if self._raw() > after:
            self._anchor, self._anchored = after, self._real_seconds()

        # Past its last tick a recording has no next one.
        self.next_tick = after if after <= self.end else None

    def _raw(self) -> datetime:
        return self._anchor + timedelta(
            seconds=(self._real_seconds() - self._anchored) * self._speed
        )


class ReplayTimer(_Ticking):
    """Run every tick of a recording in order, none skipped, and end quietly."""

    def __init__(
        self, tick: TickFunction, clock: ReplayClock, *, sleep: Sleep = asyncio.sleep
    ) -> None:
        super().__init__(Attempts(tick, sleep))
        self._clock = clock

    async def play(self) -> None:
        """Tick to the end of the recording, or until `stop`.

        Recorded time waits for a tick that fails.
        """
        while due := self._clock.next_tick:
            in_time = await self.attempts.wait(self._clock.seconds_left())
            if not in_time or not await self.attempts.run_until_passed(due):
                return
            self._clock.ticked()
