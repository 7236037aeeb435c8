"""Watch by the one process that leads: a recording at its tempo, or an account by the clock."""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from adapters.store.open import LEASE_S
from adapters.store.sql import SqlStore
from adapters.timer import Attempts, ReplayClock, ReplayTimer, SteadyClock, Timer
from bot.app import App
from bot.errors import Standby, TrnbotError
from bot.model.money import counted
from bot.model.window import Window, age_text, duration_text
from bot.ports import Clock
from bot.ports.work import LANE, Lane, leading
from bot.watch.health import sentence_of
from bot.watch.tick import TickResult, grid
from bot.wiring.build import StoreShards
from bot.wiring.surfaces import StoryTeller

STANDBY_S = 2.0
"""How often the lead is asked for at least, or renewed."""
PROGRESS_S = 5.0
"""How often the log says how far work is that nobody sees."""
FIRST_LOOK = "the first look at the fleet"
"""What a process that serves awaits before it is ready, beside its chats."""
watch_log = logging.getLogger("trnbot.play")


@dataclass(frozen=True)
class Tempo:
    """Hold how a recording is played.

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
        self._sentence, self._count = "", 0

    def failed(self, error: Exception) -> None:
        """Note a failure."""
        self._count += 1
        if (sentence := sentence_of(error)) != self._sentence:
            trace = None if isinstance(error, TrnbotError) else error
            watch_log.warning("the watch waits: %s", sentence, exc_info=trace)
        self._sentence = sentence

    def passed(self) -> bool:
        """Note that it works; return whether it had failed."""
        had_failed = bool(self._count)
        if had_failed:
            watch_log.info("the watch waits no longer, after %s", counted(self._count, "failure"))
        self._sentence, self._count = "", 0
        return had_failed


class WatchServer(ABC):
    """Implement `bot.ports.Listener`: the watch, by the one process that leads.

    It renews the lead for as long as it has it, and asks for it while another has.
    """

    app: App
    """The bot that ticks; it is built by the clock of this server, and named before the start."""

    shards: StoreShards | None = None
    """By which several processes share the watch out; None where the one that leads does it all."""

    def __init__(self, store: SqlStore, lease_s: float = LEASE_S) -> None:
        self._store, self._lease_s = store, lease_s
        self._reported = Reported()
        self._epoch = 0
        self._lost = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._shard: asyncio.Task[None] | None = None
        self._timer: Timer | ReplayTimer | None = None

    def routes(self) -> Sequence[Any]:
        """Serve nothing."""
        return ()

    async def start(self) -> None:
        """Begin in the background, so that the console answers meanwhile."""
        self._task = asyncio.create_task(self._run(), name="watch")
        if self.shards:
            self._shard = asyncio.create_task(self._take_part(self.shards), name="shard")

    async def stop(self) -> None:
        """Let the messages under way be finished, and give the lead to who waits for it."""
        self.app.leave()
        for task in filter(None, (self._task, self._shard)):
            task.cancel()
        if self._timer:
            await self._timer.stop()
        await self.app.settle()
        await asyncio.to_thread(self._store.release_lead)

    async def tick(self, at: datetime) -> TickResult | None:
        """Tick while leading; raise `Standby` once another process has taken over."""
        with self.app.health.noting():
            epoch = await asyncio.to_thread(self._store.acquire_lead)
        try:
            if not epoch or epoch != self._epoch:
                raise Standby("Another process leads now.")
            with leading(epoch, self._still_leads):
                result = await self.app.tick(at)
                await self.app.shortlist(at)
                return result
        except Standby:
            self._lost.set()
            raise

    async def _still_leads(self) -> None:
        if not await asyncio.to_thread(self._store.leads, self._epoch):
            raise Standby("Another process leads now; nothing more of this tick is sent.")

    async def _run(self) -> None:
        LANE.set(Lane.WATCH)  # for all that this task begins
        while True:
            since = await self._wait_for_lead()
            self._lost.clear()
            renewing = asyncio.create_task(self._keep_lead(), name="lease")
            try:
                await self._watch(since)
            except Exception as error:  # noqa: BLE001,RUF100 - the watch outlives any failure
                self._failed(error)
                await asyncio.sleep(STANDBY_S)
            finally:
                renewing.cancel()

            if self._timer:
                await self._timer.stop()
            self._timer = None

    async def _take_part(self, shards: StoreShards) -> None:
        """Report on this process's share of each tick to whoever leads, until it does itself."""
        LANE.set(Lane.WATCH)
        answered, failures = "", Reported()
        while True:
            await asyncio.sleep(shards.pause_s)
            try:
                if due := await asyncio.to_thread(shards.due, answered):
                    await self.app.report(*due)
                    answered = due[0].number
                    failures.passed()
            except Exception as error:  # noqa: BLE001,RUF100 - the lead says who did not report
                failures.failed(error)

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
            epoch, ticked_at = await self._ask()
            if epoch:
                if waited:
                    watch_log.info("this process leads now")
                self._epoch = epoch
                return ticked_at
            if epoch == 0:
                if not waited:
                    waited = True
                    watch_log.info(
                        "another process leads; this one answers, and takes over when that ends"
                    )
                await self._stand_by(ticked_at)
            await asyncio.sleep(self._renewal_s)

    async def _keep_lead(self) -> None:
        """Renew the lead until another process has it.

        It may have it for want of a word from this one, which stood still or lost the database.
        """
        while True:
            await asyncio.sleep(self._renewal_s)
            epoch, _ = await self._ask()
            if epoch is None:
                continue
            if epoch != self._epoch:
                watch_log.warning("another process has taken over; this one answers on")
                self.app.step_back()
                self._lost.set()
                return

    @property
    def _renewal_s(self) -> float:
        return min(STANDBY_S, self._lease_s / 3)

    async def _ask(self) -> tuple[int | None, datetime | None]:
        """Return the epoch in which this process leads, and the last tick that was saved.

        None where that cannot be told now.
        """
        try:
            epoch = await asyncio.to_thread(self._store.acquire_lead)
            ticked_at = await asyncio.to_thread(self._store.ticked_at)
        except Exception as error:  # noqa: BLE001,RUF100 - the database may be back soon
            self._failed(error)
            return None, None
        if self._reported.passed() and epoch:
            self.app.health.recovered()
        return epoch, ticked_at

    def _failed(self, error: Exception) -> None:
        self.app.health.hindered(sentence_of(error))
        self._reported.failed(error)


class ReplayServer(WatchServer):
    """Watch a recording."""

    def __init__(
        self, extent: Window, tempo: Tempo, store: SqlStore, lease_s: float = LEASE_S
    ) -> None:
        super().__init__(store, lease_s)
        self._extent, self._tempo = extent, tempo
        self._at = extent.start
        self._replay: ReplayClock | None = None
        self.story: StoryTeller | None = None

    async def tick(self, at: datetime) -> TickResult | None:
        """Tick, and let the story of a demonstration go on."""
        result = await super().tick(at)
        length, end = self._tempo.shown, self._extent.end
        if self.story and result and length and at >= end - length:
            await self.story.ticked(result, last=at >= end)
        return result

    def clock(self) -> datetime:
        """Return the recorded now; of a process that does not lead, the leader's last tick."""
        return self._replay() if self._replay else self._at

    async def _stand_by(self, ticked_at: datetime | None) -> None:
        self.app.health.awaited.discard(FIRST_LOOK)
        self._at = ticked_at or self._at
        ended = ticked_at is not None and ticked_at >= self._extent.end
        self.app.health.stands_by(ticked_at, None if ended else self._tempo.interval_s)

    async def _watch(self, since: datetime | None) -> None:
        health, tempo, end = self.app.health, self._tempo, self._extent.end
        health.leads(tempo.interval_s)
        self._at = since or self._at
        start = since + tempo.interval if since else self._extent.start
        begin = start if tempo.shown is None else max(start, end - tempo.shown)
        ticks = [tick for tick in grid(start, begin, tempo.interval) if tick < begin]
        if not await self._catch_up(ticks):
            return
        health.awaited.discard(FIRST_LOOK)

        self._replay = clock = ReplayClock(
            Window(min(begin, end), end), tempo.speed, tempo.interval
        )
        self._timer = timer = ReplayTimer(self.tick, clock)
        await timer.start()

        while not self._lost.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._lost.wait(), STANDBY_S)
            if clock.next_tick is None:
                health.leads(None)
        self._at, self._replay = clock(), None

    async def _catch_up(self, ticks: Sequence[datetime]) -> bool:
        """Run these ticks, a failed one until it passes; return whether this process still leads."""
        if ticks:
            watch_log.info("catching up with %d ticks of the recording", len(ticks))
        attempts, logged_at = Attempts(self.tick), time.monotonic()
        for count, at in enumerate(ticks, 1):
            self._at = at
            if not await attempts.run_until_passed(at):
                return False
            if time.monotonic() - logged_at >= PROGRESS_S:
                watch_log.info("caught up with %d of %d ticks", count, len(ticks))
                logged_at = time.monotonic()
        return True


class LiveServer(WatchServer):
    """Watch by a clock that the wall's names.

    Where that was set back, `again` begins anew: all that was read is of a time to come.
    """

    def __init__(
        self,
        interval: timedelta,
        wall: Clock,
        store: SqlStore,
        again: Callable[[], None],
        lease_s: float = LEASE_S,
    ) -> None:
        super().__init__(store, lease_s)
        self.clock = SteadyClock(wall, interval, self._jumped)
        self._interval, self._again = interval, again
        self._newest: datetime | None = None

    async def tick(self, at: datetime) -> TickResult | None:
        """Tick; from the first one on, people are answered by what it read."""
        if self._newest and self._newest - at >= self._interval:
            self._again()
        result = await super().tick(at)
        self._newest = at
        self.app.health.awaited.discard(FIRST_LOOK)
        return result

    async def _stand_by(self, ticked_at: datetime | None) -> None:
        self.app.health.awaited.discard(FIRST_LOOK)
        age = (self.clock() - ticked_at).total_seconds() if ticked_at else 0.0
        self.app.health.stands_by(ticked_at, self._interval.total_seconds(), age)

    async def _watch(self, since: datetime | None) -> None:
        self._newest = None
        self.app.health.leads(self._interval.total_seconds())
        self._timer = timer = Timer(self.tick, self.clock, self._interval, self._missed, since)
        await timer.start()
        await self._lost.wait()

    def _missed(self, count: int, sentence: str) -> None:
        logging.getLogger("trnbot.watch").warning(sentence)
        self.app.health.missed += count

    def _jumped(self, jump: timedelta) -> None:
        watch_log.warning(
            "The clock of this machine went %s by %s; the watch follows it once that has lasted"
            " %s. Check its time service.",
            "ahead" if jump > timedelta(0) else "back",
            age_text(round(abs(jump).total_seconds())),
            duration_text(self._interval),
        )
