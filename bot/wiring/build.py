"""Join settings, adapters, detectors and the bot: the only file that knows every folder."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from importlib.util import find_spec
from pathlib import PurePath
from pkgutil import resolve_name
from threading import Lock
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from adapters.web.links import address, download
from adapters.web.people import READER, Known, OidcConfig, OidcProvider, Proxy, Roles
from bot.answers.about.document import csv_text
from bot.app import App
from bot.cards.card import Card
from bot.errors import Unavailable
from bot.grammar.access import Access
from bot.grammar.line import effect_of, window_of
from bot.grammar.turns import Turns, limits_for
from bot.model.alert import Alert, Decision
from bot.model.anomaly import Detection
from bot.model.codec import decode
from bot.model.labels import Labels
from bot.model.policy import Policy
from bot.model.reading import Reading, Report, Shares
from bot.model.request import Request
from bot.model.window import Window
from bot.ports import (
    REPORTS,
    SHARES,
    AlertStore,
    ChatPorts,
    Clock,
    Detect,
    DocumentStore,
    Listener,
    People,
    Ports,
    Site,
    State,
    StateUpdate,
    Stores,
    Surface,
    Tell,
)
from bot.ports.work import LANE, WORK, Lane, LaneLoad
from bot.settings.settings import LOOPBACK, Settings
from bot.watch.health import Health
from bot.watch.preview import replay
from bot.wiring.environment import product_version, terminal_user
from bot.wiring.kept import kept, lazy
from bot.wiring.source import CONSOLE, OpenedSource, memory_stores
from bot.wiring.surfaces import ADMINS, StoryTeller, chats, command_hints

if TYPE_CHECKING:
    from adapters.store.sql import SqlStore


@dataclass
class Bot:
    """Hold the parts of a running bot; `tell` reaches an admin, or else a channel."""

    app: App
    tell: Tell
    listeners: list[Listener]


def terminal_app(
    settings: Settings, source: str, stores: Stores | None, console: str = ""
) -> tuple[App, OpenedSource]:
    """Build the bot for one line.

    Without stores, the alerts are those of a replay up to the time asked about.

    `console` is the public address of the console that answers alike, "" for none.
    """
    opened = OpenedSource(source, settings)
    ports = opened.ports(stores or _replayed(opened, settings), settings.policy)
    if not stores:
        world = replace(ports.world, detect=_kept_detect(opened, ports.world.detect))
        ports = replace(ports, world=world)
    ports = replace(ports, site=site_of(ports.site, settings, opened, console))
    access = Access((*settings["admins"], terminal_user()))
    return App(ports, ports.site.channels, access, time.monotonic), opened


def site_of(site: Site, settings: Settings, opened: OpenedSource, console: str) -> Site:
    """Return the site with its facts, its checks, and its addresses at a console."""
    return replace(
        site,
        facts={"version": product_version(), **settings.facts()},
        checks=partial(lazy(partial(resolve_name, "bot.wiring.checks:examine")), settings, opened),
        self_cost=opened.self_cost,
        permalink=partial(at_console, console, address),
        download=partial(at_console, console, download),
    )


def at_console(console: str, path: Callable[[str], str], line: str) -> str:
    """Return the address of a line's page or file at a console, "" where it has no public one."""
    return f"{console.rstrip('/')}{path(line)}" if console else ""


class ReplayedStore:
    """Implement `Store` over one that a replay fills up to the first time that is asked for."""

    def __init__(self, store: AlertStore, fill: Callable[[datetime], None]) -> None:
        self._store, self._fill = store, fill
        self._filled = False

    def load(self, now: datetime) -> State:
        """Return the state that the watch would have had at `now`."""
        return self._ready(now).load(now)

    def save(self, changes: StateUpdate) -> None:
        """Write all of it or none of it."""
        self._store.save(changes)

    def history(self, window: Window, selector: Labels) -> Sequence[Alert]:
        """Return the alerts that were open within the window."""
        return self._ready(window.end).history(window, selector)

    def decisions(self, *alerts: str) -> Sequence[Decision]:
        """Return people's decisions about some alerts."""
        return self._store.decisions(*alerts)

    def _ready(self, now: datetime) -> AlertStore:
        if not self._filled:
            self._fill(now)
            # Only now: after a replay that failed there is nothing to tell.
            self._filled = True
        return self._store


def _replayed(opened: OpenedSource, settings: Settings) -> Stores:
    """Return stores in memory.

    Alerts are asked of a replay, which runs when they are first asked for.
    """
    replayed = memory_stores()

    def ticked(now: datetime) -> AlertStore:
        replay(opened.ports(replayed, settings.policy), CONSOLE, now)
        return replayed.alerts

    def fill(now: datetime) -> None:
        filled = kept("replay", opened.depends_on(now), partial(ticked, now))
        vars(replayed.alerts).update(vars(filled))

    alerts = ReplayedStore(replayed.alerts, fill)
    return replace(memory_stores(), alerts=alerts, outbox=replayed.outbox, persistent=False)


def _kept_detect(opened: OpenedSource, detect: Detect) -> Detect:
    """Return a detector of which the next process finds its detections: no forest is grown anew."""

    def detected(reading: Reading, policy: Policy, known: Sequence[Alert]) -> Detection:
        depends_on = (*opened.depends_on(reading.now), policy, known)
        return kept("detection", depends_on, lambda: detect(reading, policy, known))

    return detected


def stores_in(store: SqlStore, shards: StoreShards | None = None) -> Stores:
    """Return the stores of a database, which keeps everything."""
    return Stores(store, store, store, store, shards=shards)


@dataclass(frozen=True)
class StoreShards:
    """Implement `bot.ports.Shards` by the leases and documents of a database.

    A report is waited for until `patience_s`, which is longer than a lease: who stands still is
    known to be gone before that.
    """

    store: SqlStore
    patience_s: float
    pause_s: float
    """Seconds between two looks."""

    def processes(self) -> Sequence[str]:
        """Return the processes that live, this one first."""
        return self.store.processes()

    def reports(self, shares: Shares) -> Sequence[Report] | None:
        """Wait for the reports of all others that hold a share; None once one of them is gone."""
        awaited, found = set(shares.holders.values()) - {shares.lead}, list[Report]()
        began = time.monotonic()
        while awaited and time.monotonic() - began < self.patience_s:
            for process in sorted(awaited):
                # A report on other shares may be as large: it is not read for its number.
                document = self.store.get(REPORTS.collection, process) or {}
                if document.get("number") == shares.number:
                    found.append(decode(Report, document))
                    awaited.discard(process)
            if not awaited <= set(self.processes()):
                return None
            if awaited:
                time.sleep(self.pause_s)
        return found

    def due(self, answered: str) -> tuple[Shares, str] | None:
        """Return shares that are newer than those answered, and this process, unless it leads."""
        process, key = self.processes()[0], SHARES.collection
        document = self.store.get(key, key) or {}
        if document.get("number", answered) == answered or document["lead"] == process:
            return None
        return decode(Shares, document), process


@dataclass(frozen=True)
class Database:
    """Hold the database of a process that serves, and its documents with secrets sealed."""

    store: SqlStore
    documents: DocumentStore
    shards: StoreShards | None = None
    """By which processes share the watch out, None where they do not."""


@dataclass(frozen=True)
class Shown:
    """Hold how time runs before people's eyes.

    The clock, its speed (0 where it is real), and the story of a demonstration.
    """

    clock: Clock
    speed: float = 0
    story: StoryTeller | None = None


def running_bot(settings: Settings, database: Database, opened: OpenedSource, shown: Shown) -> Bot:
    """Build the bot that serves: every surface that is configured, on one core.

    The app speaks on its surfaces and they answer by the app, so it is built over mappings that are
    filled afterwards.
    """
    from adapters.charts.png import draw
    from adapters.web.surface import WebConfig, WebSurface
    from adapters.web.views import Console
    from bot.wiring.programs import program_listeners

    # Filled below, once there is an app that they can ask.
    surfaces: dict[str, Surface] = {}
    people: dict[str, People] = {}
    store, clock, story = database.store, shown.clock, shown.story
    ports = opened.ports(stores_in(store, database.shards), settings.policy)
    reached = replace(ports, site=replace(ports.site, surfaces=surfaces, people=people))
    app = _serving_app(settings, opened, reached, ADMINS if story else ())
    extent = opened.metrics().extent()
    newest = newest_time(app, store, extent.end + settings["interval"] if extent else None, clock)

    async def answer(request: Request) -> Card:
        return await app.answer(replace(request, at=await newest(request.at)))

    def metrics() -> str:
        calls = opened.account().calls.exposition() if opened.live else ""
        return app.health.exposition() + calls

    hints = command_hints()
    console = Console(
        answer,
        clock,
        health=lambda: health(app, settings, clock, shown.speed),
        metrics=metrics,
        effect=effect_of,
        window=window_of,
        csv=csv_text,
        hints=hints,
        story=story,
    )
    config = WebConfig(
        secret=settings.text("web.token"),
        public_url=settings["public_url"],
        known=known_people(settings),
    )
    web = WebSurface(config, console, store)
    if story:
        story.app, story.surface = app, web

    chat_ports = ChatPorts(
        answer,
        clock,
        draw,
        documents=database.documents,
        keys=store,
        outbox=store,
        hints=hints,
        effect=effect_of,
    )
    chat = chats(settings, chat_ports, app.tell_admins)
    surfaces.update({"web": web, **chat})
    people.update(chat)
    app.health.delays = {name: surface.delays for name, surface in chat.items()}

    programs = program_listeners(
        app, lambda: newest(clock()), web.admitting, config.public_url, mcp=settings["mcp"]
    )
    return Bot(app, partial(app.tell_admins, widely=True), [web, *chat.values(), *programs])


def newest_time(
    app: App, store: SqlStore, end: datetime | None, clock: Clock
) -> Callable[[datetime], Awaitable[datetime]]:
    """Return the newest time that the database knows of a recording, up to its end.

    Another process may be further in the recording than this one's clock. The process that ticks is
    the furthest itself.
    """

    async def newest(at: datetime) -> datetime:
        if end is None:
            return at
        if app.health.leading and app.health.ticks:
            return max(at, clock())  # what was pressed elsewhere came by another clock
        try:
            latest = await asyncio.to_thread(store.known_at)
        except Unavailable:
            return at  # the answer will complain of the database
        return latest if latest and at < latest <= end else at

    return newest


def _serving_app(
    settings: Settings, opened: OpenedSource, ports: Ports, simulated: Sequence[str]
) -> App:
    """Return the app of a process that serves; `simulated` are the admins of a demonstration."""
    watched = Health(stopwatch=time.monotonic, setup_problem=lambda: opened.owners.problem)
    site = site_of(ports.site, settings, opened, settings["public_url"])
    examine = site.checks
    site = replace(
        site,
        health=watched.facts,
        checks=lambda paid: [*examine(paid), *watched.checks],
    )
    # Behind a public address the one shared token is everybody's, and everybody is no admin.
    embedded = settings["host"] in LOOPBACK and not settings["public_url"]
    local = (READER.id,) if embedded else ()
    access = Access((*settings["admins"], *simulated, *local), guests=settings["guests"])
    turns = Turns(time.monotonic, watched.lanes, limits_for(os.cpu_count() or 1, settings["lines"]))
    return App(replace(ports, site=site), site.channels, access, time.monotonic, watched, turns)


def known_people(settings: Settings) -> Known:
    """Return the ways by which the console knows people; raise `Unavailable` without the library."""
    provider, secret = None, settings.text("oidc.client_secret")
    if settings["oidc.issuer"]:
        if not find_spec("authlib"):
            raise Unavailable(
                "TRNBOT_OIDC_ISSUER needs another package; install it with"
                ": pip install 'trnbot[oidc]'."
            )
        provider = OidcProvider(
            OidcConfig(
                settings["oidc.issuer"],
                settings["oidc.client_id"],
                secret,
                settings["oidc.claim"],
                settings["oidc.groups"],
            )
        )
    proxy = None
    if settings["web.proxies"]:
        proxy = Proxy(
            settings["web.proxies"], settings["web.proxy_user"], settings["web.proxy_groups"]
        )
    return Known(Roles(settings["web.roles"]), proxy, provider, secret.encode())


def health(app: App, settings: Settings, clock: Clock, speed: float) -> dict[str, Any]:
    """Return how the watch stands, for the console's strip and `/healthz`."""
    return {
        **app.health.facts(),
        "starting": app.health.starting,
        "now": clock(),
        "live": not speed,
        "speed": speed or None,
        "source": source_name(settings.source),
    }


def source_name(source: str) -> str:
    """Return a source as anybody may read it: of a recording its name, not where it lies."""
    kind, _, place = source.partition(":")
    return f"{kind}:{PurePath(place).name}" if kind == "recording" else source


P = ParamSpec("P")
T = TypeVar("T")
THREADS = {Lane.WATCH: 8, Lane.QUICK: 24, Lane.HEAVY: 6}
"""Threads of each lane.

More than lines run at once, so that a line which asks twice at once does not wait for itself.
"""


class LanedExecutor(ThreadPoolExecutor):
    """Be the event loop's executor.

    `asyncio.to_thread` submits in its caller's context, which names the lane.
    """

    def __init__(self, loads: Mapping[Lane, LaneLoad]) -> None:
        super().__init__(1)
        self._loads, self._counting = loads, Lock()
        self._lanes = {
            lane: ThreadPoolExecutor(n, thread_name_prefix=lane.value)
            for lane, n in THREADS.items()
        }

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a function in a thread of the lane of who calls, as part of the line worked on."""
        # Threads of a pool have contexts of their own, so both are taken here.
        lane, work = LANE.get(), WORK.get()
        load = self._loads[lane]

        def counted() -> T:
            if work:
                work.thread_began()
            started = time.monotonic()
            with self._counting:
                load.running += 1
            try:
                return fn(*args, **kwargs)
            finally:
                seconds = time.monotonic() - started
                with self._counting:
                    load.running -= 1
                    load.seconds += seconds
                if work:
                    work.thread_ended(seconds)

        return self._lanes[lane].submit(counted)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End every lane."""
        for pool in self._lanes.values():
            pool.shutdown(wait, cancel_futures=cancel_futures)
        super().shutdown(wait, cancel_futures=cancel_futures)
