"""Declare the port to programs: the commands as tools, and the call of one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from bot.cards.card import Card
from bot.model.tool import Tool


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
        ...


@dataclass(frozen=True)
class ToolPorts:
    """Hold the parts of the bot that a door for programs is given."""

    tools: Sequence[Tool]
    call: Call
    draw: Callable[[Card], str]
    """Draws a card as plain text."""
    version: str
