"""Join settings, adapters, detectors and the bot: the only file that knows every folder."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from adapters.web.config import Console, WebConfig
from bot.app import App
from bot.cards.card import Card
from bot.model.request import Request
from bot.ports import ChatPorts, Check, Clock, Listener
from bot.settings.rules import LOOPBACK
from bot.settings.settings import Settings
from bot.watch.replay import replay
from bot.wiring.environment import product_version, terminal_user
from bot.wiring.lazy import ReplayedStore
from bot.wiring.source import CONSOLE, OpenedSource, memory_store
from bot.wiring.surfaces import chats, command_hints


@dataclass
class Bot:
    """Hold the parts of a running bot."""

    app: App
    clock: Clock
    listeners: list[Listener]


def terminal_app(settings: Settings, source: str, replays: bool) -> tuple[App, OpenedSource]:
    """Build the bot for one line: with `replays`, state is what a replay up to the asked time would know."""
    opened = OpenedSource(source, settings)
    inner = memory_store() if replays else _database(settings)

    def fill(now: datetime) -> None:
        replay(opened.ports(inner, settings.policy), CONSOLE, now)

    store = ReplayedStore(inner, fill) if replays else inner
    more: dict[str, Any] = {"settings": facts(settings), "checks": lambda: checks(settings, opened)}
    more |= {"own_bill": opened.own_bill, "remembers": not replays}
    ports = opened.ports(store, settings.policy, inner, **more)
    return App(ports, ports.channels, (*settings["admins"], terminal_user()), time.monotonic), opened


def _database(settings: Settings) -> Any:
    from adapters.store.open import open_store

    return open_store(settings.text("database_url"))


def running_bot(settings: Settings, store: Any, opened: OpenedSource, clock: Clock, speed: float) -> Bot:
    """Build the bot that serves: every surface that is configured, on one core."""
    from adapters.charts.png import draw
    from adapters.web.surface import WebSurface

    door: list[App] = []

    async def answer(request: Request) -> Card:
        return await door[0].answer(request)

    def standing() -> Mapping[str, Any]:
        return door[0].health.facts()

    async def tell(sentence: str) -> None:
        await door[0].tell_admins(sentence, clock())

    hints = command_hints()
    console = Console(
        answer,
        clock,
        health=lambda: health(door[0], settings, clock, speed),
        metrics=lambda: door[0].health.exposition() + (opened.recording().calls.exposition() if opened.live else ""),
        hints=hints,
    )
    web = WebSurface(WebConfig(secret=settings.text("web.token"), public_url=settings["public_url"]), console, store)
    chat = chats(settings, ChatPorts(answer, clock, draw, documents=store, keys=store, hints=hints), tell)
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


def checks(settings: Settings, opened: OpenedSource) -> list[Check]:
    """Look at everything the bot needs; may block."""
    from bot.wiring.checks import examine

    return examine(settings, opened.recording, opened.bill)
