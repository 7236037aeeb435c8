"""What the tests of the config message share: a bot over a recording, and how to ask and press."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any
from weakref import WeakKeyDictionary

from bot.answers.all import ANSWERS
from bot.app import App
from bot.cards.card import Button, Buttons, Card, Form, Tone
from bot.grammar.access import Access
from bot.model.labels import Labels
from bot.model.policy import Policy
from bot.model.request import Request, User
from bot.ports import Stores
from bot.settings.settings import read_settings
from bot.wiring.environment import settings_of
from bot.wiring.source import OpenedSource
from tests.belonging import MEMBER
from tests.builders import with_parts
from tests.e2e.product import recording

assert ANSWERS, "every command is known once its module is imported"
ADMIN, ANYONE = "chat:U1", "chat:U2"
TINY = Labels(cluster="tiny")
SET = "config set idle.below 15% for 10m cluster=tiny"


def opened_every(interval: str) -> OpenedSource:
    """Return six hours of three nodes of which two idle, with a tick in each interval."""
    source = f"recording:{recording('tiny')}"
    return OpenedSource(
        source, read_settings({"TRNBOT_SOURCE": source, "TRNBOT_INTERVAL": interval})
    )


DETECTORS = WeakKeyDictionary[OpenedSource, Any]()
"""One detector for all bots over a recording: what it has learnt of it once, it learns for none again."""


def app(opened: OpenedSource, store: Any, policy: Policy | None = None, **more: Any) -> App:
    chosen = policy or settings_of({}).policy
    ports = opened.ports(Stores(store, store, store, store), chosen)
    parts = {"detect": DETECTORS.setdefault(opened, ports.world.detect), **more}
    ports = with_parts(ports, **parts)
    return App(ports, ports.site.channels, Access((ADMIN, "chat:U3")), time.monotonic)


def end(bot: App) -> datetime:
    extent = bot.ports.world.source.extent()
    assert extent
    return extent.end


async def ask(bot: App, line: str, user: str = ADMIN, **more: Any) -> Card:
    return await bot.answer(
        Request(
            line,
            User(user, "dana"),
            more.get("at") or end(bot),
            more.get("surface", "chat"),
            MEMBER,
        )
    )


async def changed(bot: App, line: str = SET, user: str = ADMIN) -> Card:
    """Preview and apply."""
    seen = await ask(bot, line, user)
    assert seen.tone is not Tone.ERROR, seen
    return await ask(bot, f"config apply {seen.data['preview']}", user)


def refused(card: Card) -> str:
    assert card.tone is Tone.ERROR, card
    return str(card.data["error"])


def buttons(card: Card) -> dict[str, Button]:
    return {b.text: b for block in card.blocks if isinstance(block, Buttons) for b in block.buttons}


def form(card: Card) -> Form:
    return next(block for block in card.blocks if isinstance(block, Form))


def below(bot: App) -> float:
    return bot.ports.policy.at(TINY).number("idle.below")
