"""Stand a whole bot behind a door, and compare everything it remembers before and after."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from adapters.store.memory import MemoryStore
from bot.cards.card import Card, Tone
from bot.grammar.line import attempted
from bot.grammar.plain.ask import LEARNT
from bot.knowledge import load_knowledge
from bot.model.request import Request, Role
from tests.builders import FIVE, NOON, anomaly, with_parts
from tests.house.fakes import Chat, Script, app


class Guarded:
    """Hold a bot with one alert firing, and judge each answer: who may change nothing must have changed nothing.

    The door before it keeps its conversations and people in a store of its own: it writes while the bot answers, and
    such a write is to be told of no line.
    """

    def __init__(self, *admins: str) -> None:
        self.store, self.door, self.chat, self.asked = (
            MemoryStore(),
            MemoryStore(),
            Chat(),
            list[Request](),
        )
        self._admins = admins
        self.bot = app(
            Script(*(anomaly(at=NOON + i * FIVE) for i in range(2))), self.chat, self.store, admins
        )
        self.bot.ports = with_parts(self.bot.ports, knowledge=load_knowledge())
        self.alert, self.wrong = "", list[str]()
        self._turn = asyncio.Lock()

    async def begin(self) -> None:
        """Look twice at the fleet, so that an alert fires and is told."""
        for i in range(2):
            (alert,) = (await self.bot.tick(NOON + i * FIVE)).outcome.alerts
        self.alert = alert.id

    def state(self) -> str:
        """Return everything that is remembered or shown, as text."""
        return repr((vars(self.store), vars(self.door), self.chat.messages, self.chat.threads))

    def kept_by_the_door(self) -> set[str]:
        """Return the shelves that the door wrote to; raise where it wrote anything but documents."""
        rest = [
            {name: rows for name, rows in vars(store).items() if name != "_shelves"}
            for store in (self.door, MemoryStore())
        ]
        assert rest[0] == rest[1]
        return {name for name, rows in self.door._shelves.items() if rows}

    def decided(self) -> str:
        """Return what people can decide: alerts, silences, decisions, the policy, what is kept.

        Not who tried in vain, nor what a line in plain words was learnt to mean.
        """
        kept = {name: value for name, value in vars(self.store).items() if name != "_attempts"}
        kept["_shelves"] = {
            name: rows for name, rows in kept["_shelves"].items() if name != LEARNT.collection
        }
        return repr((kept, self.chat.messages, self.chat.threads))

    def lines(self) -> tuple[str, ...]:
        """Return lines that all would change something."""
        return (
            f"ack {self.alert}",
            f"snooze {self.alert} 2h reason=forged",
            f"not-an-anomaly {self.alert} 90d",
            "config set idle.below 15%",
            "config undo",
            "subscribe cause=idle",
            "unsubscribe",
            "subscribe digest",
            "silences drop m0",
            f"useful {self.alert}",
        )

    async def answer(self, request: Request) -> Card:
        """Answer, and note a failure of our own, or a change that this line or this person may not make.

        One at a time: doors answer side by side, and a change is to be told of the line that made it.
        """
        async with self._turn:
            return await self._judged(request)

    async def _judged(self, request: Request) -> Card:
        self.asked.append(request)
        before = self.decided()
        card = await self.bot.answer(request)
        if "Something went wrong" in str(card.data.get("error", "")):
            self.wrong.append(f"failed: {request.line!r}")
        if self.decided() != before and not await self._may(request, card):
            self.wrong.append(f"changed: {request.line!r} by {request.user.id}: {card}")
        return card

    async def _may(self, request: Request, card: Card) -> bool:
        command = attempted(request.line)
        if command is None or not command.changes or card.tone is Tone.ERROR:
            return False
        return command.who is Role.ANYONE or request.user.id in self._admins


async def guarded(*admins: str) -> Guarded:
    """Return a bot that has begun."""
    made = Guarded(*admins)
    await made.begin()
    return made


def later() -> datetime:
    """Return when people press: a minute after the last look."""
    return NOON + FIVE + timedelta(minutes=1)
