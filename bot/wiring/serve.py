"""Serve: the watch on its clock and every surface on one port, until a signal."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
import webbrowser
from dataclasses import dataclass

from adapters.http import Port, serve
from adapters.store.open import open_store
from adapters.store.private import tighten
from adapters.web.starting import StartingPages
from bot.errors import Unavailable, WrongInput
from bot.model.durations import age_text
from bot.model.window import Window
from bot.settings.options import Options
from bot.settings.settings import Settings
from bot.watch.retention import Prunes, Retention
from bot.watch.watchdog import Watchdog
from bot.wiring.build import Database, Shown, running_bot
from bot.wiring.environment import STATE, settings_of, wall_clock
from bot.wiring.lanes import LanedExecutor
from bot.wiring.logs import start_log
from bot.wiring.secrets import sealed_documents
from bot.wiring.source import OpenedSource
from bot.wiring.story import SHOWN as STORY_SHOWN
from bot.wiring.story import SOURCE, StoryTeller, tells
from bot.wiring.watch_server import DEMO_SHOWN, DEMO_SPEED, SAID_S, LiveServer, ReplayServer, Tempo

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
