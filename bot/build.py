"""Join settings, adapters, detectors and the bot: the only file that knows every folder."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bot.app import App
from bot.cards.card import Card
from bot.chats import chats, command_hints
from bot.conflicts import LOOPBACK
from bot.errors import TrnbotError, Unavailable, WrongInput
from bot.folders import folder_of, size_of
from bot.knowledge import load_knowledge
from bot.lazy import LazyBilling, LazyPrices, LazySource, Once, ReplayedStore, SharedSource
from bot.model.own import OwnBill
from bot.model.policy import Policy
from bot.model.replay import Replay
from bot.model.request import Request
from bot.model.route import Routes
from bot.model.window import NO_TIME
from bot.outlook import LazyOutlook, Outlook
from bot.ports import Billing, Check, Clock, Listener, Ports, Store
from bot.replay import replay
from bot.settings import Settings, read_settings, settings_text

if TYPE_CHECKING:
    from adapters.aws.live import Live
    from adapters.aws.recording.recording import Recording

HISTORY = timedelta(days=15)
_MUCH = 32 << 20
"""Bytes of metrics that take longer to read than the forest's library to load."""
CONSOLE = ("web:alerts",)
"""Hears every alert; who else hears which is said by routes."""


def settings_of(options: Mapping[str, str]) -> Settings:
    """Read the environment, the settings file, and what the terminal said over both."""
    said = {"TRNBOT_SOURCE": options.get("source"), "TRNBOT_PORT": options.get("port"), "TRNBOT_CONFIG": options.get("config")}
    environ = {**os.environ, **{name: value for name, value in said.items() if value is not None}}
    return read_settings(environ, settings_text(environ, Path.cwd()))


def product_version() -> str:
    """Return the installed version."""
    try:
        return version("trnbot")
    except PackageNotFoundError:
        return "unpacked"


class Opened:
    """Open a source's parts when they are first asked."""

    def __init__(self, source: str, settings: Settings) -> None:
        self.knowledge = load_knowledge()
        self._settings = settings
        self._folder = Once(lambda: folder_of(source))
        self.live = source == "aws"
        self.recording: Callable[[], Any] = Once(self._open_live if self.live else self._open_recording)
        self.bill: Callable[[], Billing] = Once(self._open_bill)
        self.outlook: Callable[[], Outlook] = Once(self._open_outlook)

    def ports(self, store: Store, base: Policy, kept: Any = None, **more: Any) -> Ports:
        """Return the ports over this source; `kept` holds the policy's versions and previews, none where left out."""
        from detectors import Detector

        kept, detector = kept or _memory(), Detector()
        return Ports(
            source=LazySource(self.recording),
            billing=LazyBilling(self.bill),
            prices=LazyPrices(self.recording),
            knowledge=self.knowledge,
            store=store,
            detect=detector,
            compiles=detector.compiles,
            base=base,
            versions=kept,
            shelf=kept,
            replays=Replays(self._settings, self),
            interval=self._settings["interval"],
            channels=CONSOLE,
            routes=self._settings.routes,
            outlook=LazyOutlook(self.outlook),
            prepare=self._prepare,
            **more,
        )

    def _prepare(self) -> None:
        """Load the bill, and beside metrics that take longer to read than it, the library of the forest.

        Whoever asks the bill next is told what is wrong with it.
        """
        if self.live:
            return
        with suppress(TrnbotError):
            if size_of(self._folder() / "metrics") > _MUCH:
                from detectors.forest import load_library

                load_library()
            self.bill().problems()

    def own_bill(self) -> OwnBill | None:
        """Return what the bot's own calls cost, None where no account is read."""
        found: OwnBill | None = self.recording().calls.tab.bill() if self.live else None
        return found

    def end(self) -> datetime | None:
        """Return the time that "now" means in a recording: its last metric, else the bill's last hour."""
        try:
            end: datetime | None = self.recording().extent().end
            return end
        except Unavailable as no_metrics:
            try:
                return self.bill().tally(NO_TIME, ()).billed_through
            except Unavailable as no_bill:
                raise Unavailable(f"{no_metrics} {no_bill}") from None

    def _open_live(self) -> Live:
        from bot.account import open_account

        return open_account(self._settings, self.knowledge.types())

    def _open_recording(self) -> Recording:
        from adapters.aws.inventory.ownership import TagNames
        from adapters.aws.recording.opening import open_recording

        s = self._settings
        tags = replace(TagNames(), **{name: tuple(names) for name, names in s.tags().items()})
        spans = {"interval": s["interval"], "lag": s["metrics.lag"], "history": HISTORY}
        return open_recording(self._folder(), **spans, types=self.knowledge.types(), tags=tags, own=s.own_names)

    def _open_bill(self) -> Billing:
        from bot.bills import open_account_bill, open_recorded_bill

        if self.live:
            return open_account_bill(self._settings, self.recording())
        return open_recorded_bill(self._settings, self._folder())

    def _open_outlook(self) -> Outlook:
        from bot.bills import FOLDER, open_outlook

        return (
            open_outlook(self._settings, self.recording(), FOLDER)
            if self.live
            else open_outlook(self._settings, None, self._folder())
        )


class Replays:
    """Implement `bot.ports.Replays`: each replay has a source, a detector and a store of its own."""

    def __init__(self, settings: Settings, watched: Opened) -> None:
        self._settings, self._watched = settings, watched

    def open(self, source: str, policy: Policy) -> Ports:
        """Return ports over another source with an empty store; no route of this installation speaks of it."""
        return replace(Opened(source, self._settings).ports(_memory(), policy), routes=Routes())

    def again(self, policies: Sequence[Policy]) -> Sequence[Ports]:
        """Return ports over the watched source for each policy; they go on side by side and read once."""
        made = [self._watched.ports(_memory(), policy) for policy in policies]
        shared = SharedSource(made[0].source)
        return [replace(ports, source=shared) for ports in made]

    def truth(self, source: str) -> Sequence[Mapping[str, Any]] | None:
        """Return the labelled incidents of a recording, None when it has none."""
        import orjson

        path = folder_of(source) / "labels.json"
        try:
            return list(orjson.loads(path.read_bytes())) if path.is_file() else None
        except (orjson.JSONDecodeError, TypeError) as error:
            raise WrongInput(f"{path} is not a list of labelled incidents: {error}.") from None

    def grade(self, seen: Replay, truth: Sequence[Mapping[str, Any]], clusters: int) -> Mapping[str, Any]:
        """Return how well the alerts of a replay over so many clusters meet the truth."""
        from detectors.grade import grade

        return grade(list(seen.alerts.values()), truth, seen.notices, seen.window, clusters)


@dataclass
class Bot:
    """Hold the parts of a running bot."""

    app: App
    clock: Clock
    listeners: list[Listener]


def terminal_app(settings: Settings, source: str, replays: bool) -> tuple[App, Opened]:
    """Build the bot for one line: with `replays`, state is what a replay up to the asked time would know."""
    opened = Opened(source, settings)
    inner = _memory() if replays else _database(settings)

    def fill(now: datetime) -> None:
        replay(opened.ports(inner, settings.policy), CONSOLE, now)

    store = ReplayedStore(inner, fill) if replays else inner
    more: dict[str, Any] = {"settings": facts(settings), "checks": lambda: checks(settings, opened)}
    more |= {"own_bill": opened.own_bill, "remembers": not replays}
    ports = opened.ports(store, settings.policy, inner, **more)
    return App(ports, ports.channels, (*settings["admins"], terminal_user()), time.monotonic), opened


def _memory() -> Any:
    from adapters.store.memory import MemoryStore

    return MemoryStore()


def _database(settings: Settings) -> Any:
    from adapters.store.open import open_store

    return open_store(settings.text("database_url"))


def running_bot(settings: Settings, store: Any, opened: Opened, clock: Clock, speed: float) -> Bot:
    """Build the bot that serves: every surface that is configured, on one core."""
    from adapters.web.surface import WebSurface

    door: list[App] = []

    async def answer(request: Request) -> Card:
        return await door[0].answer(request)

    def standing() -> Mapping[str, Any]:
        return door[0].health.facts()

    async def tell(sentence: str) -> None:
        await door[0].tell_admins(sentence, clock())

    hints = command_hints()
    web = WebSurface(
        answer=answer,
        clock=clock,
        shelf=store,
        health=lambda: health(door[0], settings, clock, speed),
        metrics=lambda: door[0].health.exposition() + (opened.recording().calls.exposition() if opened.live else ""),
        hints=hints,
        secret=settings.text("web.token"),
        public_url=settings["public_url"],
    )
    chat = chats(settings, answer, tell, clock, store, hints)
    surfaces: dict[str, Any] = {"web": web, **chat}
    more = {"surfaces": surfaces, "people": chat, "settings": facts(settings), "checks": lambda: checks(settings, opened)}
    more |= {"own_bill": opened.own_bill, "standing": standing}
    more |= {"drill": opened.recording().drill} if opened.live else {}
    ports = opened.ports(store, settings.policy, store, **more)
    admins = (*settings["admins"], *(("web:local",) if settings["host"] in LOOPBACK else ()))
    door.append(App(ports, ports.channels, admins, time.monotonic))
    door[0].health.delays = {name: surface.delays for name, surface in chat.items()}
    return Bot(door[0], clock, list(surfaces.values()))


def facts(settings: Settings) -> dict[str, str]:
    """Return what an answer may show of this installation."""
    return {"version": product_version(), **{name: str(value) for name, value in settings.facts().items()}}


def health(app: App, settings: Settings, clock: Clock, speed: float) -> dict[str, Any]:
    """Return how the watch stands, for the console's strip and `/healthz`."""
    return {**app.health.facts(), "now": clock(), "live": not speed, "speed": speed or None, "source": settings.source}


def checks(settings: Settings, opened: Opened) -> list[Check]:
    """Look at everything the bot needs; may block."""
    from bot.checks import examine

    return examine(settings, opened.recording, opened.bill)


def terminal_user() -> str:
    """Name who types here."""
    return f"terminal:{os.environ.get('USER') or os.environ.get('LOGNAME') or 'you'}"


def wall_clock() -> datetime:
    """Return the real now: the only clock the bot ever reads."""
    return datetime.now(UTC)
