"""Serve: the watch and every surface on one port, until a signal."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import sys
import time
import webbrowser
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from adapters.http import Port, serve
from adapters.store.open import LEASE_S, open_store, tighten
from adapters.timer import boot_seconds
from adapters.web.surface import StartingPages
from bot.answers.cost.goodput import ClassShare, class_shares, goodput_total
from bot.app import App
from bot.costs.tally import as_of
from bot.errors import TrnbotError, Unavailable, WrongInput
from bot.model.window import WEEK, Window, age_text
from bot.ports import REPORTS, Clock, Listener
from bot.settings.settings import Settings
from bot.watch.background import Background, Prunes, Retention, Watchdog
from bot.wiring.build import Database, LanedExecutor, Shown, StoreShards, running_bot, source_name
from bot.wiring.environment import SCRATCH, STATE, settings_of, share_heaps, wall_clock
from bot.wiring.kept import AtMostEvery
from bot.wiring.logs import audit_to, start_log
from bot.wiring.secrets import sealed_documents
from bot.wiring.source import OpenedSource
from bot.wiring.surfaces import SOURCE, STORY_SHOWN, StoryTeller, tells
from bot.wiring.verbs import Options
from bot.wiring.watch import FIRST_LOOK, PROGRESS_S, LiveServer, ReplayServer, Tempo

DEMO_SPEED = 120.0
DEMO_SHOWN = timedelta(hours=10)
"""How much of the end of a recording a demo plays before people's eyes.

What lies before is caught up with at once.
"""
SHORTEST_LEASE_S = 3.0
"""Of a recording that is played so fast that a lease of several ticks would hold it up."""
_SHARD_PAUSE_S, _LEAST_PAUSE_S = 0.5, 0.02
"""How often shares and reports are looked for: at least so, and at most in a fast recording."""
SWITCH_S = 0.0005
"""How long one thread may keep the interpreter from another that waits.

A quick answer takes it back many times.
"""
_SCRATCH_LASTS_S = 86_400
_DEMO_DATABASE = "sqlite:///.trnbot/demo.db"
log = logging.getLogger("trnbot")


def run(options: Options) -> None:
    """Serve, or play a demonstration, until a signal."""
    start_log(logging.DEBUG if "verbose" in options.switches else logging.INFO)
    demo, values = options.verb == "demo", options.values
    if demo and not os.environ.get("TRNBOT_SOURCE"):
        values = {"source": SOURCE, **values}
    settings = settings_of(values)
    if settings.unservable:
        raise WrongInput(" ".join(settings.unservable))
    audit_to(settings["audit"])

    share_heaps()
    sys.setswitchinterval(SWITCH_S)
    browser = demo and "no-browser" not in options.switches
    with asyncio.Runner() as runner:
        again = Again()
        runner.run(_serve_until_signal(settings, again, demo=demo, browser=browser))

        # Whatever writes has ended, but threads that still read would hold the process for as
        # long as they read: it ends now.
        logging.shutdown()
        sys.stdout.flush()
        if again.wanted:
            # The browser that asked is open already.
            quiet = [] if "--no-browser" in sys.orig_argv else ["--no-browser"]
            os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:], *quiet])  # noqa: S606
        os._exit(0)


class Again:
    """Have the process stop as by a signal, and begin anew as it was called."""

    def __init__(self) -> None:
        self.wanted = False

    def __call__(self) -> None:
        """Stop, and begin anew."""
        self.wanted = True
        signal.raise_signal(signal.SIGTERM)


async def _serve_until_signal(
    settings: Settings, again: Again, *, demo: bool, browser: bool
) -> None:
    """Open database and source, and serve every surface beside the watch."""
    # Where there is nothing to watch it says so before it makes a file.
    opened = OpenedSource(settings.source, settings)
    url = database(settings, demo=demo)
    for left in SCRATCH.glob("*"):
        # A process that was killed left it; what works now is younger.
        if wall_clock().timestamp() - left.stat().st_mtime > _SCRATCH_LASTS_S:
            shutil.rmtree(left, ignore_errors=True)
    tighten([STATE, *STATE.rglob("*")])
    tempo = _tempo(settings, demo=demo)
    lease_s = min(LEASE_S, max(SHORTEST_LEASE_S, tempo.interval_s))
    store = await asyncio.to_thread(open_store, url, lease_s, boot_seconds)
    # Of several processes on PostgreSQL one leads; SQLite's file is for one alone.
    if not url.startswith("postgres") and not store.acquire_lead():
        raise Unavailable(
            "Another trnbot watches with this database; "
            "stop it, or set TRNBOT_DATABASE_URL to another one."
        )
    shards = None
    if settings["shards"]:
        pause_s = min(_SHARD_PAUSE_S, max(_LEAST_PAUSE_S, tempo.interval_s / 10))
        shards = StoreShards(store, max(2 * lease_s, tempo.interval_s), pause_s)
    documents = await asyncio.to_thread(sealed_documents, settings, store)
    port = Port(settings["host"], settings["port"], settings["web.proxies"])
    extent = await _opened(opened, settings.source, port)
    if extent and opened.recording().billed_alone:
        tempo = replace(tempo, shown=timedelta())  # a bill is asked as it stands at its end

    story = None
    if demo and tells(settings.source):
        story = StoryTeller(again if url == _DEMO_DATABASE else None)
    play: ReplayServer | LiveServer
    if extent:
        play = ReplayServer(extent, tempo, store, lease_s)
        play.story = story
    else:
        play = LiveServer(settings["interval"], wall_clock, store, again, lease_s)
    # Seconds of imports, as the port says that the bot starts.
    bot = await asyncio.to_thread(
        running_bot,
        settings,
        Database(store, documents, shards),
        opened,
        Shown(play.clock, tempo.speed if extent else 0, story),
    )
    play.app, play.shards = bot.app, shards

    def ready(address: str) -> None:
        print(f"trnbot is at {address}", flush=True)
        if browser:
            webbrowser.open(address)

    # From here on what blocks runs in the lane of who asked for it.
    asyncio.get_running_loop().set_default_executor(LanedExecutor(bot.app.health.lanes))
    listeners = [
        *bot.listeners,
        play,
        Watchdog(bot.app.health, bot.tell),
        retention_of(settings, store),
        GoodputRounds(bot.app, play.clock),
    ]

    # People are answered once the chats are connected and the fleet was looked at.
    awaited = {id(x): type(x).__name__.removesuffix("Surface") for x in bot.listeners}
    bot.app.health.awaited |= {FIRST_LOOK, *awaited.values()}

    def begun(listener: Listener) -> None:
        bot.app.health.awaited.discard(awaited.get(id(listener), ""))

    try:
        await serve(listeners, port, ready, begun)
    finally:
        store.release_lead()


async def _opened(opened: OpenedSource, source: str, port: Port) -> Window | None:
    """Open the source, and say on the port meanwhile that the bot starts.

    Return the time that a recording tells of.
    """
    began = time.monotonic()
    starting = StartingPages(
        lambda: f"Opening {source_name(source)}, for {age_text(time.monotonic() - began)} so far."
    )
    await port.answer_by([starting])
    print("Opening the source…", flush=True)
    opening = asyncio.create_task(asyncio.to_thread(lambda: opened.metrics().extent()))
    while not (await asyncio.wait({opening}, timeout=PROGRESS_S))[0]:
        log.info("opening %s, for %s so far", source, age_text(time.monotonic() - began))
    return opening.result()


def _tempo(settings: Settings, *, demo: bool) -> Tempo:
    """Return how a recording is played: faster in a demonstration, and only its end."""
    if not demo:
        return Tempo(settings["interval"], settings["speed"])
    speed = DEMO_SPEED if settings["speed"] == 1 else settings["speed"]
    return Tempo(settings["interval"], speed, STORY_SHOWN if tells(settings.source) else DEMO_SHOWN)


_GOODPUT_S, _GOODPUT_LOOK_S = 3600.0, 60.0
"""How often goodput is worked out, and how often a process looks whether that is due."""


class GoodputRounds(Background):
    """Work out every hour where the dollars of the last seven days went, for `/metrics`.

    The process that watches does it, once it has run a tick.
    """

    def __init__(self, app: App, clock: Clock) -> None:
        super().__init__("goodput", _GOODPUT_LOOK_S)
        self._app, self._clock = app, clock
        self._due = AtMostEvery(_GOODPUT_S, time.monotonic)

    async def work(self) -> None:
        """Ask for the classes; a bill that is away leaves them as they were."""
        health = self._app.health
        if health.leading and health.ticks and self._due():
            try:
                health.goodput = await asyncio.to_thread(self._classes, self._clock())
            except TrnbotError as error:
                log.warning("goodput is not known: %s", error)

    def _classes(self, now: datetime) -> Mapping[str, ClassShare]:
        ports, week = as_of(self._app.ports, now), Window(now - WEEK, now)
        total = goodput_total(ports, ports.world.source.read(now), week)
        return {x.kind.value: x for x in class_shares(total)} if total else {}


def retention_of(settings: Settings, store: Prunes) -> Retention:
    """Return the job that keeps the database small.

    It keeps events for a day, messages for the retention.
    """
    repeats = ("slack.seen", "slack.oauth", "slack.presses", "teams.seen", REPORTS.collection)
    messages = ("slack-pictures", "teams.messages")
    tables = {name: settings[f"keep.{name}"] for name in ("alerts", "silences", "attempts")}
    lengths = {name: length for name, length in tables.items() if length}
    return Retention(store, settings["retention"], repeats, messages, lengths)


def database(settings: Settings, *, demo: bool) -> str:
    """Return the database's address: of a demo a new file of its own, unless one is set."""
    url = settings.text("database_url")
    if demo and not os.environ.get("TRNBOT_DATABASE_URL") and url.endswith("/.trnbot/trnbot.db"):
        for path in STATE.glob("demo.db*"):
            # Another demo may hold the lock of that file.
            if not path.name.endswith(".lead"):
                path.unlink()
        return _DEMO_DATABASE
    return url
