"""Answer programs by the door that people's lines go through.

What reads is answered, what would change is only previewed.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from importlib.util import find_spec
from typing import Any

from adapters.terminal.render import render
from adapters.web.api import Api
from adapters.web.auth import RequestHandler
from adapters.web.links import address
from adapters.web.people import READER
from bot.answers.about.document import (
    ASK,
    csv_text,
    envelope,
    line_with,
    primary_line,
    pure,
    tool_line,
    tools,
    unapplied_card,
    with_apply,
)
from bot.app import App
from bot.cards.card import Card
from bot.errors import TrnbotError
from bot.grammar.line import Call, attempted, read_line
from bot.grammar.registry import Command
from bot.model.request import LOCAL, Manner, Request, User
from bot.ports import Listener
from bot.ports.chat import Answered, ToolPorts
from bot.ports.work import ASKER
from bot.wiring.environment import product_version
from bot.wiring.surfaces import command_hints

_WIDTH = 160
"""Columns of an answer in plain text: no person reads it in a window."""
_FAULT = (
    "Something went wrong in trnbot, not in the call; it was logged. "
    "Call 'doctor' to see what is missing."
)
log = logging.getLogger("trnbot.programs")

Now = Callable[[], Awaitable[datetime]]
Guard = Callable[[RequestHandler], RequestHandler]
Opened = Callable[[str], Awaitable[tuple[App, datetime]]]
"""Return the bot for a line, plain words too, and the time that "now" means."""


class ToolCalls:
    """Implement `bot.ports.chat.Call` for programs behind one door, which speak for one person."""

    def __init__(self, opened: Opened, user: User, surface: str) -> None:
        self._opened, self._user, self._surface = opened, user, surface

    async def __call__(
        self, tool: str, arguments: Mapping[str, Any], console: str = "", /
    ) -> Answered:
        """Return the answer; raise `TrnbotError` with one sentence.

        A tool that would change something changes nothing.
        """
        with _contained():
            line, plain = tool_line(tool, arguments), tool == ASK.name
            command = attempted(line) if plain else read_line(line).runs
            app, time = await self._opened(line)
            request = Request(line, self._asker, time, self._surface, LOCAL)
            if command and command.changes:
                return await _preview(app, request, command, console)
            return _answered(request, *await app.ask(request, plain=plain))

    async def read(self, line: str, arguments: Mapping[str, Any]) -> Answered:
        """Return the answer of a line that does no more than read, plain words too.

        Raise `TrnbotError` with one sentence.
        """
        with _contained():
            whole = line_with(line, arguments) if arguments else line
            app, time = await self._opened(whole)
            request = Request(whole, self._asker, time, self._surface, LOCAL, manner=Manner.VIEWED)
            return _answered(request, *await app.ask(request))

    @property
    def _asker(self) -> User:
        """Return who the door says is asking, else the person that the programs speak for."""
        asker = ASKER.get()
        named = asker.user if asker else None
        return named if named and named.id != self._user.id else self._user


def installed() -> bool:
    """Return whether the package of the Model Context Protocol is here; it is an extra."""
    return find_spec("mcp") is not None


def program_listeners(
    app: App, now: Now, guard: Guard, public_url: str = "", *, mcp: bool = True
) -> list[Listener]:
    """Return the doors for programs on the one port.

    `guard` lets in whom the console lets in, as who reads that; `mcp` = the tools are offered where
    their package is installed.
    """

    async def opened(_: str) -> tuple[App, datetime]:
        return app, await now()

    calls = ToolCalls(opened, User(READER.id, "a program"), "web")
    ports = tool_ports(calls)
    api = Api(calls.read, tools(), ports.version, guard)
    if not mcp or not installed():
        return [api]
    from adapters.mcp.server import ToolListener

    return [api, ToolListener(ports, guard, public_url)]


def tool_ports(call: ToolCalls) -> ToolPorts:
    """Return what a door for programs is given."""
    command_hints()  # every command is registered
    return ToolPorts((ASK, *tools()), call, lambda card: render(card, _WIDTH), product_version())


async def _preview(app: App, request: Request, command: Command, console: str) -> Answered:
    """Return what a change would do, and the line by which a person makes it."""
    if command.previews:
        call, card = await app.ask(request, plain=False)
        line = primary_line(card)
    else:
        call, line = await app.weigh(request), request.line
        card = unapplied_card(command, line)
    if not line:
        return _answered(request, call, card, {"changed": False})
    apply, page = {"line": line}, ""
    if console:
        apply["address"] = page = f"{console.rstrip('/')}{address(line)}"
    unchanged = {"changed": False, "apply": apply}
    return _answered(request, call, with_apply(card, line, page), unchanged)


def _answered(
    request: Request, call: Call, card: Card, more: Mapping[str, Any] | None = None
) -> Answered:
    document = pure({**envelope(call, card, request.at), **(more or {})})
    return Answered(card, document, partial(csv_text, request.line, card))


@contextmanager
def _contained() -> Iterator[None]:
    """Let refusals pass; of a fault in the bot itself a program learns only that it was one."""
    try:
        yield
    except TrnbotError:
        raise
    except Exception:
        log.exception("a tool failed")
        raise TrnbotError(_FAULT) from None
