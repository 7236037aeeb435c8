"""Serve: the watch on its clock and every surface on one port, until a signal."""

from __future__ import annotations

import asyncio
import logging
import os
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from adapters.http import serve
from adapters.store.open import open_store
from adapters.timer import ReplayClock, ReplayTimer
from bot import build
from bot.errors import Unavailable
from bot.model.window import Window
from bot.options import Options
from bot.ports import Listener
from bot.settings import Settings
from bot.watch import grid

DEMO_SPEED = 120.0
DEMO_SHOWN = timedelta(hours=10)
"""How much of the end of a recording a demo plays before people's eyes; what lies before is caught up with at once."""
log = logging.getLogger("trnbot")


@dataclass(frozen=True)
class Plan:
    """Tell how to serve."""

    demo: bool = False
    browser: bool = False


def run(options: Options, plan: Plan) -> int:
    """Serve until a signal; return the exit code."""
    level = logging.DEBUG if "verbose" in options.switches else logging.INFO
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("apscheduler").setLevel(logging.WARNING)
    settings = build.settings_of(_with_defaults(options, plan))
    asyncio.run(_serve(settings, plan))
    return 0


def _with_defaults(options: Options, plan: Plan) -> dict[str, str]:
    return {"source": "simulator:7", **options.values} if plan.demo else options.values


async def _serve(settings: Settings, plan: Plan) -> None:
    store = await asyncio.to_thread(open_store, database(settings, demo=plan.demo))
    if not store.acquire_lead():
        raise Unavailable("Another trnbot watches with this database; stop it, or set TRNBOT_DATABASE_URL to another one.")
    print("Opening the source…", flush=True)
    opened = build.Opened(settings.source, settings)
    extent = await asyncio.to_thread(lambda: opened.recording().extent())
    since = store.load(extent.end).ticked_at
    play = Play(settings, extent, since, plan)
    bot = build.running_bot(settings, store, opened, play.clock, play.speed)
    play.bot = bot
    try:
        await serve([*bot.listeners, play], settings["host"], settings["port"], lambda address: _ready(address, plan))
    finally:
        store.release_lead()


class Play:
    """Tick through a recording: catch up where a demo wants it, then at its speed; a `bot.ports.Listener`."""

    def __init__(self, settings: Settings, extent: Window, since: datetime | None, plan: Plan) -> None:
        self._interval: timedelta = settings["interval"]
        start = since + self._interval if since else extent.start
        shown = max(start, extent.end - DEMO_SHOWN) if plan.demo else start
        self._ahead = [at for at in grid(start, shown, self._interval) if at < shown]
        self._rest = Window(min(shown, extent.end), extent.end)
        self.speed = DEMO_SPEED if plan.demo and settings["speed"] == 1 else settings["speed"]
        self._at = min(start, extent.end)
        self._replay: ReplayClock | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: Listener | None = None
        self.bot: build.Bot | None = None

    def clock(self) -> datetime:
        """Return the recorded now."""
        return self._replay() if self._replay else self._at

    def routes(self) -> Sequence[Any]:
        """Serve nothing."""
        return ()

    async def start(self) -> None:
        """Begin to tick in the background, so that the console answers meanwhile."""
        self._task = asyncio.create_task(self._go(), name="play")

    async def stop(self) -> None:
        """Let the tick under way finish."""
        if self._timer:
            await self._timer.stop()
        elif self._task:
            self._task.cancel()

    async def _go(self) -> None:
        assert self.bot
        if self._ahead:
            log.info("catching up with %d ticks of the recording", len(self._ahead))
        for at in self._ahead:
            await self.bot.app.tick(at)
            self._at = at
        self._replay = ReplayClock(self._rest, self.speed, self._interval)
        self._timer = ReplayTimer(self.bot.app.tick, self._replay)
        await self._timer.start()


def _ready(address: str, plan: Plan) -> None:
    print(f"trnbot is at {address}", flush=True)
    if plan.browser:
        webbrowser.open(address)


def database(settings: Settings, *, demo: bool) -> str:
    """Return the database's address: a demo begins afresh in a file of its own, unless one is set."""
    url = settings.text("database_url")
    if demo and "TRNBOT_DATABASE_URL" not in os.environ and url.endswith("/.trnbot/trnbot.db"):
        for path in Path(".trnbot").glob("demo.db*"):
            if not path.name.endswith(".lead"):
                path.unlink()
        return "sqlite:///.trnbot/demo.db"
    return url
