"""A fleet, a detector and a chat that do what a test says, and a bot over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from adapters.store.memory import MemoryStore
from bot.answers import all as commands
from bot.app import App
from bot.cards.card import Card
from bot.errors import Unavailable
from bot.grammar.access import Access
from bot.knowledge import load_knowledge
from bot.model.alert import Alert
from bot.model.anomaly import Anomaly, Detection
from bot.model.claims import Claims
from bot.model.policy import Policy
from bot.model.price import AccountRates, Price
from bot.model.reading import Reading
from bot.model.request import Request, User
from bot.model.window import Window
from tests.belonging import MEMBER
from tests.builders import NOON, ports_over, price, reading

assert commands.ANSWERS


class Fleet:
    """A source, a bill and a price list of four nodes."""

    def read(self, now: datetime) -> Reading:
        return reading(now)

    def extent(self) -> Window | None:
        return Window(NOON, NOON + timedelta(hours=2))

    def problems(self) -> Sequence[str]:
        return ()

    def deltas(self, now: datetime, days: int) -> Reading:
        return Reading(now)

    def rates(self, now: datetime) -> AccountRates:
        return AccountRates()

    def tally(self, *_: Any) -> Any:
        raise Unavailable("There is no bill here.")

    def quotes(self, *_: Any) -> Sequence[Price]:
        return (price("20.00"),)

    def spot_history(self, *_: Any) -> Sequence[tuple[datetime, Price]]:
        return ()

    def placement(self, *_: Any) -> Sequence[Any]:
        return ()

    def interruptions(self, *_: Any) -> Sequence[Any]:
        return ()

    def commitment_offers(self, *_: Any) -> Sequence[Any]:
        return ()

    def claims(self) -> Claims:
        return load_knowledge().claims()

    def types(self) -> Mapping[str, Any]:
        return {}

    def storage_prices(self) -> Sequence[Any]:
        return ()

    def fallback_prices(self) -> Sequence[Price]:
        return ()


class Script:
    """Detects what the test says for each tick."""

    def __init__(self, *ticks: Anomaly | None) -> None:
        self.ticks = list(ticks)

    def __call__(self, reading: Reading, policy: Policy, known: Sequence[Alert]) -> Detection:
        found = self.ticks.pop(0) if self.ticks else None
        return Detection((found,) if found else ())


class Crash(BaseException):
    """What no `except Exception` catches."""


class Chat:
    """Remembers messages by id, and fails when told to."""

    def __init__(self) -> None:
        self.messages: dict[str, Card] = {}
        self.keys: dict[str, str] = {}
        self.threads: list[str] = []
        self.fail_before = self.fail_after = False

    async def post(self, channel: str, card: Card, key: str) -> str:
        if self.fail_before:
            raise Unavailable("the chat is away")
        message = f"m{len(self.messages)}"
        self.messages[message], self.keys[key] = card, message
        if self.fail_after:
            raise Crash
        return message

    async def edit(self, channel: str, message: str, card: Card, key: str) -> str:
        self.messages[message] = card
        return message

    async def reply(self, channel: str, message: str, card: Card, key: str) -> str:
        self.threads.append(card.title)
        self.keys[key] = f"{message}.{len(self.threads)}"
        return self.keys[key]

    async def posted(self, channel: str, thread: str = "") -> dict[str, str]:
        return dict(self.keys)


def app(
    script: Script,
    chat: Chat,
    store: MemoryStore | None = None,
    admins: tuple[str, ...] = (),
    fleet: Any = None,
) -> App:
    fleet, state = fleet or Fleet(), store or MemoryStore()
    ports = ports_over(fleet, state, detect=script, surfaces={"chat": chat})
    return App(ports, ("chat:ops",), Access(admins), stopwatch=lambda: 0.0)


def ask(line: str, user: str = "chat:U1", at: datetime = NOON) -> Request:
    return Request(line, User(user, "dana"), at, "chat", MEMBER, "chat:ops")
