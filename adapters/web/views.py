"""Answer the console's pages: each takes a line to the bot and shows the card that comes back."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from aiohttp import web

from adapters.web.api import CSV
from adapters.web.auth import OWN_HEADER, Sender, sender_of
from adapters.web.config import Console, StoryTeller
from adapters.web.html import FOR_EVER, PageRenderer, digest, plain_json
from adapters.web.links import (
    PAGES,
    Rail,
    address,
    between,
    cost_controls,
    offered_by,
    page_of,
    undoubled,
)
from adapters.web.live import LEAD, LEAD_S, LINES, Hub, Shared, WasteStrip, lead_of, standing
from adapters.web.messages import Messages, SlotDrawer, excerpt, story
from bot.cards.card import Card, Form, Table, Tone, text
from bot.cards.lines import file_name, form_line, quote, spreadsheet
from bot.errors import TrnbotError, WrongInput
from bot.model.request import LOCAL, Effect, Manner, Request, User
from bot.ports import Surface

CHANNEL = "alerts"
READER = User("web:local", "you")

_NAME = re.compile(r"[^\w.-]", re.ASCII)
"""What no argument's name has, and no header may."""
_LONGEST = 4_000
"""Characters of a line."""
LATER = "<!-- the answer -->"
"""Stands in a page where what depends on the answer begins."""
STARTERS = ("cost 7d by team", "fleet", "idle", "savings", "quota", "help")
"""What an empty channel offers to ask."""
WOULD = {
    Effect.READS: "reads and changes nothing",
    Effect.WORKS: "changes nothing and may work for long",
    Effect.SHARES: "answers for everyone who reads this console",
    Effect.CHANGES: "changes something, or tells other people",
    Effect.NOTHING: "means no command",
}
"""Says of a line that waits for a press how far it reaches."""


class Views:
    """Hold one handler a page."""

    lines = PAGES

    def __init__(
        self, console: Console, pages: PageRenderer, messages: Messages, hub: Hub, surface: Surface
    ) -> None:
        self._console = console
        self._pages = pages
        self._messages = messages
        self._hub = hub
        self._surface = surface
        self._slots = SlotDrawer(pages)
        self._hints = json.dumps(
            [vars(hint) | {"example": hint.example or hint.name} for hint in console.hints]
        )
        self._hints_at = f"/hints/{digest(self._hints.encode())}"
        self._strip = Shared(self._standing)
        self._lead = Shared(self._money, LEAD_S)

    async def channel(self, request: web.Request) -> web.StreamResponse:
        """Show the channel of alerts."""
        version = self._hub.version
        newest, messages = await self._messages.back_from(CHANNEL, request.query.get("until", ""))
        now = await self._strip.get(self._hub.version)
        shown = excerpt(
            messages, lambda message: self._slots.draw(message, now.wastes), newest=newest
        )
        return self._page("channel.html", request, now.facts, shown=shown, now=now, version=version)

    async def now(self, _: web.Request) -> web.StreamResponse:
        """Show the strip above the channel anew."""
        return web.Response(
            text=self._pages.page("now.html", now=await self._strip.get(self._hub.version)),
            content_type="text/html",
        )

    async def lead(self, _: web.Request) -> web.StreamResponse:
        """Show the money lines of the summary, which the first page begins with.

        Its frame does not wait for the bill.
        """
        return web.Response(
            text=self._pages.page("lead.html", lead=await self._lead.get()),
            content_type="text/html",
        )

    async def fixed(self, request: web.Request) -> web.StreamResponse:
        """Show a page of the rail."""
        rail = self.lines[request.path]
        if {"first", "last", "rest"} <= request.query.keys():
            raise web.HTTPSeeOther(
                address(
                    _line(between(*(request.query[name] for name in ("first", "last", "rest"))))
                )
            )
        line = _line(request.query.get("line", "")) or rail.line
        if page_of(line) != request.path and line != rail.line:
            raise web.HTTPSeeOther(address(line))
        return await self._show_line(request, rail, line)

    async def alert(self, request: web.Request) -> web.StreamResponse:
        """Show one alert and its timeline."""
        line, told = (f"{word} {quote(request.match_info['id'])}" for word in ("alert", "timeline"))
        begun = await self._begin(request, "Alert", line)
        card, timeline = [await self._answer(each, "", Manner.VIEWED) for each in (line, told)]
        moments = story(
            timeline, await self._messages.about(CHANNEL, str(timeline.data.get("id", "")))
        )
        return await _finish(
            begun,
            self._page(
                "alert.html",
                request,
                name="Alert",
                line=line,
                told=told,
                it=card,
                more=(),
                moments=moments,
            ),
        )

    async def typed(self, request: web.Request) -> web.StreamResponse:
        """Show the answer of any line."""
        line, draft = (_line(request.query.get(name, "")) for name in ("line", "draft"))
        if draft and not line:
            return self._page("ask.html", request, name="Ask", draft=f"{draft} ")
        return await self._show_line(request, self.lines["/ask"], line)

    async def ask(self, request: web.Request) -> web.StreamResponse:
        """Answer a typed line or a pressed button."""
        filled = await request.post()
        return await self._respond(
            request, _line(str(filled.get("line", ""))), str(filled.get("where", ""))
        )

    async def form(self, request: web.Request) -> web.StreamResponse:
        """Answer a filled form: its fields become one line."""
        filled = await request.post()
        fields = {name[2:]: str(value) for name, value in filled.items() if name.startswith("f.")}
        line = form_line(str(filled.get("line", "")), fields)
        return await self._respond(request, _line(line), str(filled.get("where", "")))

    async def hints(self, request: web.Request) -> web.StreamResponse:
        """Return the completions of a line as JSON, which a browser asks for once."""
        keeps = f"private, {FOR_EVER}" if request.path == self._hints_at else "no-cache"
        return web.Response(
            text=self._hints, content_type="application/json", headers={"Cache-Control": keeps}
        )

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Keep a page up to date."""
        return await self._hub.serve(request)

    async def healthz(self, _: web.Request) -> web.StreamResponse:
        """Return as JSON whether the bot does its work: 200, or 503 when it does not."""
        return _health_json(self._console.health())

    async def liveness(self, _: web.Request) -> web.StreamResponse:
        """Return the same to a reader who shows no token, and nothing else."""
        return _health_json({"ok": self._console.health().get("ok", True)})

    async def metrics(self, _: web.Request) -> web.StreamResponse:
        """Say the counters as Prometheus text."""
        return web.Response(
            text=self._console.metrics(),
            headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
        )

    async def _standing(self) -> WasteStrip:
        alerts, savings = [await self._answer(line, "", Manner.VIEWED) for line in LINES]
        return standing(alerts, savings)

    async def viewed(self, line: str) -> Card:
        """Return the answer of a line that a page shows or a link brings."""
        return await self._answer(line, "", Manner.VIEWED)

    async def _money(self) -> Sequence[tuple[str, str]]:
        return lead_of(await self.viewed(LEAD))

    async def _show_line(self, request: web.Request, rail: Rail, line: str) -> web.StreamResponse:
        """Show a line's answer.

        What does more than read, and whatever another site brings, waits for a press.
        """
        effect = self._console.effect(line)
        runs = effect in (Effect.READS, Effect.NOTHING) and sender_of(request) is not Sender.LINK
        if line and (runs or line == rail.line):
            return await self._show_answer(request, rail.name, line, rail.more)
        if not line:
            return self._page("ask.html", request, name=rail.name)
        return self._page(
            "line.html", request, name=rail.name, line=line, it=None, more=(), would=WOULD[effect]
        )

    async def _show_answer(
        self, request: web.Request, name: str, line: str, more: tuple[tuple[str, str], ...] = ()
    ) -> web.StreamResponse:
        begun = None if line == LINES[0] else await self._begin(request, name, line)
        card = await self.viewed(line)
        facts = standing(card, Card("")).facts if line == LINES[0] else {}
        controls = cost_controls(card, line)
        rows = [row for block in card.blocks if isinstance(block, Table) for row in block.lines]
        offered = [*rows, *(other for _, other in more), *offered_by(controls)]
        shown = {
            "name": name,
            "line": line,
            "it": undoubled(card, offered),
            "more": more,
            "controls": controls,
        }
        whole = self._page("cost.html" if controls else "line.html", request, facts, **shown)
        return whole if begun is None else await _finish(begun, whole)

    async def _begin(self, request: web.Request, name: str, line: str) -> web.StreamResponse:
        """Send a page's frame and heading, so that it stands before the answer is known."""
        frame = self._page(
            "line.html", request, name=name, line=line, it=None, more=(), would="", waits=True
        )
        begun = web.StreamResponse(
            headers={"Content-Type": "text/html; charset=utf-8", "X-Accel-Buffering": "no"}
        )
        await begun.prepare(request)
        await begun.write(str(frame.text).partition(LATER)[0].encode())
        return begun

    async def _respond(self, request: web.Request, line: str, where: str) -> web.StreamResponse:
        """Show a private answer to who asked; put a public one where everyone reads it."""
        if not line:
            raise web.HTTPBadRequest(text="The line is empty; type 'help' for the commands.\n")
        card = await self._answer(line, where, Manner.ASKED)
        scripted = OWN_HEADER in request.headers
        if card.public:
            await self._publish(card, where)
            return web.Response(status=204, headers=self._told(line, card)) if scripted else _back()
        if not scripted:
            return self._page("line.html", request, name="Ask", line=line, it=card, more=())
        html = self._pages.page(
            "answer.html", line=line, it=card, where=where, at=self._console.clock()
        )
        return web.Response(text=html, content_type="text/html", headers=self._told(line, card))

    def _told(self, line: str, card: Card) -> dict[str, str]:
        """Return the headers by which the page's script knows an answer, beside its words."""
        return {
            "X-Trnbot-Tone": card.tone.value,
            "X-Trnbot-Form": _flag(any(isinstance(block, Form) for block in card.blocks)),
            "X-Trnbot-Changed": _flag(
                card.tone is not Tone.ERROR and self._console.effect(line) is Effect.CHANGES
            ),
            "X-Trnbot-Field": _NAME.sub("", str(card.data.get("argument", ""))),
            "X-Trnbot-Asks": _flag(card.data.get("asks", False)),
            "X-Trnbot-Posted": CHANNEL if card.public else "",
        }

    async def _publish(self, card: Card, where: str) -> None:
        if where and await self._messages.get(where) is not None:
            await self._surface.reply(CHANNEL, where, card, "")
        else:
            await self._surface.post(CHANNEL, card, "")

    async def _answer(self, line: str, where: str, manner: Manner) -> Card:
        channel = f"web:{CHANNEL}"
        request = Request(line, READER, self._console.clock(), "web", LOCAL, channel, where, manner)
        try:
            return await self._console.answer(request)
        except TrnbotError as error:
            return Card("That did not work", Tone.ERROR, (text(str(error)),))

    def _page(
        self,
        template: str,
        request: web.Request,
        facts: Mapping[str, Any] | None = None,
        **values: Any,
    ) -> web.Response:
        """Draw a page; `facts` are what its own reading says, and the header with it."""
        health = {**self._console.health(), **(facts or {})}
        shown = {
            "path": request.path,
            "here": request.path if request.path in self.lines else "",
            "lines": self.lines,
            "health": health,
            "hints": self._console.hints,
            "hints_at": self._hints_at,
            "starters": STARTERS,
            "draft": "",
            "version": self._hub.version,
            "reading": bool(facts),
            "waits": False,
            **values,
        }
        return web.Response(text=self._pages.page(template, **shown), content_type="text/html")


def _health_json(health: Mapping[str, Any]) -> web.Response:
    return web.json_response(plain_json(health), status=200 if health.get("ok", True) else 503)


def _line(words: str) -> str:
    """Return a typed line; refuse one that nobody typed."""
    line = words.strip()
    if len(line) > _LONGEST:
        raise web.HTTPBadRequest(
            text=f"The line is longer than {_LONGEST} characters; shorten it.\n"
        )
    return line


async def _finish(begun: web.StreamResponse, whole: web.Response) -> web.StreamResponse:
    """Send the rest of a page, which depends on its answer, after the frame."""
    await begun.write(str(whole.text).partition(LATER)[2].encode())
    return begun


def _flag(holds: bool) -> str:
    return "1" if holds else "0"


def _back() -> web.Response:
    return web.Response(status=303, headers={"Location": "/"})


class Downloads:
    """Answer a line with its table as CSV; `answer` answers as a page that is opened does."""

    def __init__(self, console: Console, answer: Callable[[str], Awaitable[Card]]) -> None:
        self._console, self._answer = console, answer

    async def csv(self, request: web.Request) -> web.StreamResponse:
        """Send the table.

        Whatever does more than read, and what another site brings, is shown to be pressed first.
        """
        line = request.query.get("line", "").strip()
        if self._console.effect(line) is not Effect.READS or sender_of(request) is Sender.LINK:
            raise web.HTTPSeeOther(address(line))
        card = await self._answer(line)
        if card.tone is Tone.ERROR:
            raise web.HTTPSeeOther(address(line))
        try:
            written = self._console.csv(line, card)
        except WrongInput as error:
            raise web.HTTPNotFound(text=f"{error}\n") from None
        named = f'attachment; filename="{file_name(line)}"'
        return web.Response(
            body=spreadsheet(written), content_type=CSV, headers={"Content-Disposition": named}
        )


_PATH = "/demo"
_LEAVE_S = 0.2
"""How long the answer to the button has before the process stops."""


class StoryPages:
    """Serve the story as it stands, and its button."""

    path = _PATH

    def __init__(self, teller: StoryTeller | None, pages: PageRenderer) -> None:
        self._teller, self._pages = teller, pages
        pages.tell(teller.told if teller else None)

    async def told(self, _: web.Request) -> web.StreamResponse:
        """Return the story so far, for the page that shows it."""
        if self._teller is None:
            raise web.HTTPNotFound(text="No story is told here: this is no demonstration.\n")
        return web.Response(
            text=self._pages.page("demo_told.html", story=self._teller.told()),
            content_type="text/html",
        )

    async def again(self, request: web.Request) -> web.StreamResponse:
        """Begin again; a page without a script asks anew after a while."""
        if self._teller is None or self._teller.again is None:
            raise web.HTTPNotFound(text="Nothing begins again here: this is no demonstration.\n")
        asyncio.get_running_loop().call_later(_LEAVE_S, self._teller.again)
        if OWN_HEADER in request.headers:
            return web.Response(status=204)
        return web.Response(text=self._pages.page("again.html"), content_type="text/html")
