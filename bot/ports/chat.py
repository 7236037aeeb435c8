"""Declare the ports to people and to programs, and the story of a demonstration that they show."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from bot.cards.card import Card, Chart, Tone
from bot.model.request import CommandHint, Effect, Request, Tool
from bot.ports.stores import DocumentStore, IdempotencyKeys, Outbox

Clock = Callable[[], datetime]

Answer = Callable[[Request], Awaitable[Card]]
"""The second door: every surface hands its lines to this."""

Tell = Callable[[str], Awaitable[None]]
"""Tell an admin one sentence about the bot itself."""

WORKING = Card("Working on it …", Tone.OVER)

Draw = Callable[[Chart], bytes]  # as PNG


@dataclass(frozen=True)
class ChatPorts:
    """Hold the parts of the bot that every chat surface is given."""

    answer: Answer
    clock: Clock
    draw: Draw
    documents: DocumentStore
    keys: IdempotencyKeys
    """Keys of events that came once, whichever process took them."""
    hints: Sequence[CommandHint] = ()
    effect: Callable[[str], Effect] = lambda _: Effect.NOTHING
    """Tells how far a line reaches: no surface reads a line itself."""
    outbox: Outbox | None = None
    """Lets one process answer what was pressed; without it, a press that a kill cuts off is lost."""
    working_after_s: float = 2.0
    """How long an answer may take before a chat says that it is worked on; Slack waits three."""


class Surface(Protocol):
    """Speak on one platform; `channel` is without the platform's prefix."""

    async def post(self, channel: str, card: Card, key: str) -> str:
        """Send a new message and return its id.

        `key` is remembered with the message where the platform can.
        """

    async def edit(self, channel: str, message: str, card: Card, key: str) -> str:
        """Replace a message and return its id.

        A new one when the old was deleted and it had to be posted fresh.
        """

    async def reply(self, channel: str, message: str, card: Card, key: str) -> str:
        """Add to the message's thread and return the line's id.

        `key` is remembered with the line where the platform can.
        """

    async def posted(self, channel: str, thread: str = "") -> Mapping[str, str]:
        """Return the ids of the newest messages, or of the lines in `thread`, by their keys.

        Nothing where that cannot be known.
        """


ANY_PAGE = "/{page:.*}"
"""The path of a route whose handler answers for every address that has none."""


class Listener(Protocol):
    """Start, serve and stop with the process, as surfaces and timers do."""

    def routes(self) -> Sequence[Any]:
        """Return the aiohttp route definitions it serves on the one HTTP port; empty when none."""

    async def start(self) -> None:
        """Connect."""

    async def stop(self) -> None:
        """Disconnect and finish the work under way."""


class People(Protocol):
    """Know who is called how and is in which group on one platform.

    Both are addresses without the platform.
    """

    async def belongs(self, user: str, group: str) -> bool:
        """Return whether a person is in a group, False where there is no such group.

        Raise `Unavailable` when nobody can tell.
        """

    async def name(self, user: str) -> str:
        """Return the name of a person who belongs here, "" where nobody does by that id.

        Raise `Unavailable` when untold.
        """


@dataclass(frozen=True)
class Answered:
    """Hold what answers a program: the card, and the document that `--json` prints."""

    card: Card
    document: Mapping[str, Any]
    csv: Callable[[], str]
    """Writes its table as CSV; raises `WrongInput` where it has none."""


class Call(Protocol):
    """Answer one tool for whoever stands behind the door.

    `console` is the address of the console there, "" for none.
    """

    async def __call__(
        self, tool: str, arguments: Mapping[str, Any], console: str = "", /
    ) -> Answered:
        """Return the answer; raise `TrnbotError` with one sentence.

        A tool that would change something changes nothing.
        """


@dataclass(frozen=True)
class ToolPorts:
    """Hold the parts of the bot that a door for programs is given."""

    tools: Sequence[Tool]
    call: Call
    draw: Callable[[Card], str]
    """Draws a card as plain text."""
    version: str


@dataclass(frozen=True)
class Chapter:
    """State one thing that a demonstration shows.

    `words` of what was seen, "" before it is, and the page that has more.
    """

    title: str
    words: str = ""
    page: str = ""


@dataclass(frozen=True)
class Story:
    """State a demonstration as it stands.

    What is made up in it, its chapters, whether it plays yet, and whether it has ended.
    """

    made_up: str
    chapters: tuple[Chapter, ...]
    begun: bool = False
    ended: bool = False
    repeats: bool = True
    """Whether it can begin again: not where its database is kept."""

    @property
    def newest(self) -> Chapter | None:
        """Return the last chapter that was seen, None before the first."""
        return next((one for one in reversed(self.chapters) if one.words), None)

    @property
    def whole(self) -> bool:
        """Return whether every chapter was seen."""
        return all(one.words for one in self.chapters)
