"""Serve: the watch on its clock and every surface on one port, until a signal."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
import webbrowser
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from adapters.http import Port, serve
from adapters.store.open import open_store, tighten
from adapters.timer import Attempts, ReplayClock, ReplayTimer, Standby, Timer
from adapters.web.surface import StartingPages
from bot.app import App
from bot.errors import TrnbotError, Unavailable, WrongInput
from bot.model.money import counted
from bot.model.window import Window, age_text
from bot.ports import Clock
from bot.ports.work import LANE, Lane
from bot.settings.options import Options
from bot.settings.settings import Settings
from bot.watch.health import Prunes, Retention, Watchdog, sentence_of
from bot.watch.tick import TickResult, grid
from bot.wiring.build import Database, Shown, running_bot
from bot.wiring.environment import STATE, settings_of, wall_clock
from bot.wiring.lanes import LanedExecutor
from bot.wiring.logs import start_log
from bot.wiring.secrets import sealed_documents
from bot.wiring.source import OpenedSource
from bot.wiring.story import SHOWN as STORY_SHOWN
from bot.wiring.story import SOURCE, StoryTeller, tells

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
watch_log = logging.getLogger("trnbot.play")


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
            watch_log.warning("the watch waits: %s", sentence, exc_info=trace)
        self._sentence = sentence

    def passed(self) -> None:
        """Note that it works."""
        if self._count:
            watch_log.info("the watch waits no longer, after %s", counted(self._count, "failure"))
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
                    watch_log.info("this process leads now")
                return ticked_at
            if leads is False:
                if not waited:
                    watch_log.info(
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
            watch_log.info("catching up with %d ticks of the recording", len(ticks))
        attempts, said = Attempts(self.tick), time.monotonic()
        for count, at in enumerate(ticks, 1):
            if not await attempts.run_until_passed(at):
                return False
            self._at = at
            if time.monotonic() - said >= SAID_S:
                watch_log.info("caught up with %d of %d ticks", count, len(ticks))
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


SWITCH_S = 0.0005
"""How long one thread may keep the interpreter from another that waits.

A quick answer takes it back many times.
"""
_DEMO_DATABASE = "sqlite:///.trnbot/demo.db"
log = logging.getLogger("trnbot")


@dataclass(frozen=True)
class ServePlan:
    """Tell how to serve."""

    demo: bool = False
    browser: bool = False


def run(options: Options, plan: ServePlan) -> int:
    """Serve until a signal; return the exit code."""
    level = logging.DEBUG if "verbose" in options.switches else logging.INFO
    start_log(level)
    settings = settings_of(_with_defaults(options, plan))
    sys.setswitchinterval(SWITCH_S)
    with asyncio.Runner() as runner:
        again = Again()
        runner.run(_serve(settings, plan, again))
        _end(again)
    return 0


class Again:
    """Have the process stop as by a signal, and begin anew as it was called."""

    def __init__(self) -> None:
        self.wanted = False

    def __call__(self) -> None:
        """Stop, and begin anew."""
        self.wanted = True
        signal.raise_signal(signal.SIGTERM)


def _end(again: Again) -> None:
    """End now.

    Threads that still read would hold the process for as long as they read, and whatever writes has
    ended.
    """
    logging.shutdown()
    sys.stdout.flush()
    if again.wanted:
        quiet = (
            [] if "--no-browser" in sys.orig_argv else ["--no-browser"]
        )  # the browser that asked is open already
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:], *quiet])  # noqa: S606 - itself, as it was called
    os._exit(0)


def _with_defaults(options: Options, plan: ServePlan) -> dict[str, str]:
    """Give a demo something to watch where nobody said what."""
    return (
        {"source": SOURCE, **options.values}
        if plan.demo and not os.environ.get("TRNBOT_SOURCE")
        else options.values
    )


async def _serve(settings: Settings, plan: ServePlan, again: Again) -> None:
    if settings.unservable:
        raise WrongInput(" ".join(settings.unservable))
    url = database(settings, demo=plan.demo)
    tighten([STATE, *STATE.rglob("*")])
    store = await asyncio.to_thread(open_store, url)
    if not store.acquire_lead() and not url.startswith("postgres"):
        raise Unavailable(
            "Another trnbot watches with this database; stop it, or set TRNBOT_DATABASE_URL to another one."
        )
    documents = await asyncio.to_thread(sealed_documents, settings, store)
    opened = OpenedSource(settings.source, settings)
    port = Port(settings["host"], settings["port"])
    extent = await _opened(opened, settings.source, port)
    tempo = _tempo(settings, plan)
    play = (
        ReplayServer(extent, tempo, store)
        if extent
        else LiveServer(settings["interval"], wall_clock, store)
    )
    story = (
        StoryTeller(again if url == _DEMO_DATABASE else None)
        if plan.demo and tells(settings.source)
        else None
    )
    shown = Shown(play.clock, tempo.speed if extent else 0, story)
    bot = running_bot(settings, Database(store, documents), opened, shown)
    play.app = bot.app
    if isinstance(play, ReplayServer):
        play.story = story
    asyncio.get_running_loop().set_default_executor(LanedExecutor(bot.app.health.lanes))
    try:
        await serve(
            [
                *bot.listeners,
                play,
                Watchdog(bot.app.health, bot.tell),
                retention_of(settings, store),
            ],
            port,
            lambda address: _ready(address, plan),
        )
    finally:
        store.release_lead()


async def _opened(opened: OpenedSource, source: str, port: Port) -> Window | None:
    """Open the source, and say on the port meanwhile that the bot starts.

    Return the time that a recording tells of.
    """
    began = time.monotonic()
    await port.answer_by(
        [
            StartingPages(
                lambda: f"Opening {source}, for {age_text(time.monotonic() - began)} so far."
            )
        ]
    )
    print("Opening the source…", flush=True)
    opening = asyncio.create_task(asyncio.to_thread(lambda: opened.metrics().extent()))
    while not (await asyncio.wait({opening}, timeout=SAID_S))[0]:
        log.info("opening %s, for %s so far", source, age_text(time.monotonic() - began))
    return opening.result()


def _tempo(settings: Settings, plan: ServePlan) -> Tempo:
    if not plan.demo:
        return Tempo(settings["interval"], settings["speed"])
    shown = STORY_SHOWN if tells(settings.source) else DEMO_SHOWN
    return Tempo(
        settings["interval"], DEMO_SPEED if settings["speed"] == 1 else settings["speed"], shown
    )


def retention_of(settings: Settings, store: Prunes) -> Retention:
    """Return the job that keeps the database small.

    It keeps events for a day, messages for the retention.
    """
    repeats = ("slack.seen", "slack.oauth", "teams.seen")
    return Retention(store, settings["retention"], repeats, ("slack-pictures", "teams.messages"))


def _ready(address: str, plan: ServePlan) -> None:
    print(f"trnbot is at {address}", flush=True)
    if plan.browser:
        webbrowser.open(address)


def database(settings: Settings, *, demo: bool) -> str:
    """Return the database's address: a demo begins afresh in a file of its own, unless one is set."""
    url = settings.text("database_url")
    if demo and not os.environ.get("TRNBOT_DATABASE_URL") and url.endswith("/.trnbot/trnbot.db"):
        for path in STATE.glob("demo.db*"):
            if not path.name.endswith(".lead"):
                path.unlink()
        return _DEMO_DATABASE
    return url
