"""Answer the console's pages: each takes a line to the bot and shows the card that comes back."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeVar

from aiohttp import web

from adapters.web.api import CSV
from adapters.web.auth import OWN_HEADER, Sender, sender_of
from adapters.web.html import FOR_EVER, PageRenderer, digest, plain_json
from adapters.web.links import (
    ALERTS,
    HOME,
    PAGES,
    Page,
    address,
    controls_of,
    page_of,
    paged,
    span,
)
from adapters.web.live import LEAD, LEAD_S, LINES, Hub, Shared, WasteStrip, lead_of, standing
from adapters.web.messages import Messages, PageMessage, SlotDrawer, excerpt, moments_of
from adapters.web.people import READER
from bot.cards.card import Card, Form, Table, Tone, text
from bot.cards.lines import file_name, form_line, quote, spreadsheet
from bot.errors import TrnbotError, WrongInput
from bot.model.request import LOCAL, CommandHint, Effect, LineWindow, Manner, Request
from bot.ports import Surface
from bot.ports.chat import Answer, Clock, Story
from bot.ports.work import ASKER

T = TypeVar("T")
CHANNEL = "alerts"

_NAME = re.compile(r"[^\w.-]", re.ASCII)
"""What no argument's name has, and no header may."""
_LEAVE_S = 0.2
"""How long the answer to the button of a demonstration has before the process stops."""
_LONGEST = 4_000
"""Characters of a line."""
LATER = "<!-- the answer -->"
"""Stands in a page where what depends on the answer begins."""
QUICK_S = 0.25
"""How long a page waits for its answer before it sends its frame to a browser."""
STARTERS = ("cost 7d by team", "fleet", "idle", "savings", "quota", "help")
"""What an empty channel offers to ask."""
WOULD = {
    Effect.READS: "reads and changes nothing",
    Effect.WORKS: "changes nothing but may take a while",
    Effect.SHARES: "answers for everyone who reads this console",
    Effect.CHANGES: "prepares or makes a change, or notifies other people",
    Effect.NOTHING: "means no command",
}
"""Says of a line that waits for a press how far it reaches."""


class StoryTeller(Protocol):
    """Tell a demonstration, and begin it again."""

    def told(self) -> Story:
        """Return it as it stands."""
        ...

    @property
    def again(self) -> Callable[[], None] | None:
        """Stop the process when called, which then begins anew; None where it cannot."""
        ...


@dataclass(frozen=True)
class Console:
    """Hold the parts of the bot that the pages ask.

    `health()` may hold `ok`, `problem`, `now`, `live`, `ended`, `speed`, `ticked_at`,
    `open_alerts`, `usd_per_hour`, `source`; the status strip leaves out the facts that are missing.
    `metrics()` returns Prometheus text.
    """

    answer: Answer
    clock: Clock
    health: Callable[[], Mapping[str, Any]]
    metrics: Callable[[], str]
    effect: Callable[[str], Effect]
    """Tells how far a line reaches: the console reads no line itself."""
    window: Callable[[str, datetime], LineWindow | None]
    """Tells the window of a line at a time, None where it has none."""
    csv: Callable[[str, Card], str]
    """Writes the table of a line's answer; raises `WrongInput` where it has none."""
    hints: Sequence[CommandHint] = ()
    story: StoryTeller | None = None


class Views:
    """Hold one handler a page."""

    def __init__(
        self, console: Console, pages: PageRenderer, messages: Messages, hub: Hub, surface: Surface
    ) -> None:
        self._console, self._surface = console, surface
        self._pages, self._messages, self._hub = pages, messages, hub
        self._slots = SlotDrawer(pages, self._redrawn)
        pages.tell(console.story.told if console.story else None)
        self._hints = json.dumps([vars(hint) for hint in console.hints])
        self._hints_at = f"/hints/{digest(self._hints.encode())}"

        async def strip() -> WasteStrip:
            alerts, savings = [await self._viewed(line) for line in LINES]
            return standing(alerts, savings)

        async def lead() -> Sequence[tuple[str, str]]:
            return lead_of(await self._viewed(LEAD))

        self._strip, self._lead = Shared(strip), Shared(lead, LEAD_S)

    async def channel(self, request: web.Request) -> web.StreamResponse:
        """Show the channel of alerts."""
        version = self._hub.version
        newest, messages = await self._messages.back_from(CHANNEL, request.query.get("until", ""))
        strip = await self._strip.get(self._hub.version)

        async def draw(message: PageMessage) -> str:
            return await self._slots.draw(message, strip.firing)

        return self._page(
            "channel.html",
            request,
            strip.facts,
            name="Alerts",
            shown=await excerpt(messages, draw, newest=newest),
            now=strip,
            version=version,
            tabs=ALERTS,
        )

    async def now(self, _: web.Request) -> web.StreamResponse:
        """Show the strip above the channel anew."""
        return self._pages.response("now.html", now=await self._strip.get(self._hub.version))

    async def lead(self, _: web.Request) -> web.StreamResponse:
        """Show the money lines of the summary, which the first page begins with.

        Its frame does not wait for the bill.
        """
        return self._pages.response("lead.html", lead=await self._lead.get())

    async def fixed(self, request: web.Request) -> web.StreamResponse:
        """Show a page of the rail."""
        page = PAGES[request.path]
        line = self._asked_line(request) or page.line
        if page_of(line) != request.path and line != page.line:
            raise web.HTTPSeeOther(address(line))
        return await self._show(request, page, line)

    async def alert(self, request: web.Request) -> web.StreamResponse:
        """Show one alert and its timeline; 404 where there is none of this name."""
        name = quote(request.match_info["id"])
        line, log = f"alert {name}", f"timeline {name}"

        async def both() -> tuple[Card, Card]:
            return await self._viewed(line), await self._viewed(log)

        crumbs, title = (("Alerts", HOME),), f"Alert {request.match_info['id']}"
        frame, (card, timeline) = await self._soon(request, both(), name=title, crumbs=crumbs)
        messages = await self._messages.about(CHANNEL, str(timeline.data.get("id", "")))
        page = self._page(
            "alert.html",
            request,
            status=404 if _status(card) == 400 else _status(card),
            name=title,
            crumbs=crumbs,
            line=line,
            log=log,
            it=paged(card, request.path, request.query),
            moments=moments_of(timeline, messages),
        )
        return await _finish(frame, page)

    async def typed(self, request: web.Request) -> web.StreamResponse:
        """Show the answer of any line."""
        line, draft = self._asked_line(request), _line(request.query.get("draft", ""))
        if draft and not line:
            return self._page("ask.html", request, name="Ask", draft=f"{draft} ")
        return await self._show(request, PAGES["/ask"], line)

    async def missing(self, request: web.Request) -> web.StreamResponse:
        """Say that no page is here, and how to go on."""
        sentence = f"There is no page {request.path[:80]} here."
        if "text/html" not in request.headers.get("Accept", ""):
            raise web.HTTPNotFound(text=f"{sentence}\n")
        return self._page("missing.html", request, status=404, name="Not found", words=sentence)

    async def ask(self, request: web.Request) -> web.StreamResponse:
        """Answer a typed line or a pressed button."""
        filled = await request.post()
        return await self._respond(
            request, str(filled.get("line", "")), str(filled.get("where", ""))
        )

    async def form(self, request: web.Request) -> web.StreamResponse:
        """Answer a filled form: its fields become one line."""
        filled = await request.post()
        fields = {name[2:]: str(value) for name, value in filled.items() if name.startswith("f.")}
        return await self._respond(
            request, form_line(str(filled.get("line", "")), fields), str(filled.get("where", ""))
        )

    async def hints(self, request: web.Request) -> web.StreamResponse:
        """Return the completions of a line as JSON, which a browser asks for once."""
        keeps = f"private, {FOR_EVER}" if request.path == self._hints_at else "no-cache"
        return web.Response(
            text=self._hints, content_type="application/json", headers={"Cache-Control": keeps}
        )

    async def story(self, _: web.Request) -> web.StreamResponse:
        """Return the story of a demonstration so far, for the page that shows it."""
        if self._console.story is None:
            raise web.HTTPNotFound(text="There is no story here: this is not a demonstration.\n")
        return self._pages.response("demo_told.html", story=self._console.story.told())

    async def again(self, request: web.Request) -> web.StreamResponse:
        """Begin a demonstration again; a page without a script asks anew after a while."""
        restart = self._console.story.again if self._console.story else None
        if restart is None:
            raise web.HTTPNotFound(
                text="Nothing can be started again here: this is not a demonstration.\n"
            )
        asyncio.get_running_loop().call_later(_LEAVE_S, restart)
        by_script = OWN_HEADER in request.headers
        return web.Response(status=204) if by_script else self._pages.response("again.html")

    async def healthz(self, _: web.Request) -> web.StreamResponse:
        """Return as JSON whether the bot does its work, and for people: 200, or 503 when not."""
        return _health_json(_ready(self._console.health()))

    async def wellness(self, _: web.Request) -> web.StreamResponse:
        """Return the same to a reader who shows no token, and nothing else."""
        return _health_json({"ok": _ready(self._console.health())["ok"]})

    async def livez(self, _: web.Request) -> web.StreamResponse:
        """Return that the process answers, whatever its watch does: nothing else mends by a restart."""
        return _health_json({"ok": True, "up_seconds": self._console.health().get("up_seconds")})

    async def readyz(self, _: web.Request) -> web.StreamResponse:
        """Return whether people are answered, though the watch may fail."""
        health = self._console.health()
        starting, up_seconds = health.get("starting") or "", health.get("up_seconds")
        return _health_json({"ok": not starting, "starting": starting, "up_seconds": up_seconds})

    async def metrics(self, _: web.Request) -> web.StreamResponse:
        """Say the counters as Prometheus text."""
        return web.Response(
            text=self._console.metrics(),
            headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
        )

    async def csv(self, request: web.Request) -> web.StreamResponse:
        """Send the table of an answer as a file.

        Whatever does more than read, and what another site brings, is shown to be pressed first.
        """
        line = request.query.get("line", "").strip()
        if self._console.effect(line) is not Effect.READS or sender_of(request) is Sender.LINK:
            raise web.HTTPSeeOther(address(line))
        card = await self._viewed(line)
        if card.tone is Tone.ERROR:
            raise web.HTTPSeeOther(address(line))
        try:
            body = spreadsheet(self._console.csv(line, card))
        except WrongInput as error:
            raise web.HTTPNotFound(text=f"{error}\n") from None
        headers = {"Content-Disposition": f'attachment; filename="{file_name(line)}"'}
        return web.Response(body=body, content_type=CSV, headers=headers)

    async def _viewed(self, line: str) -> Card:
        """Return the answer of a line that a page shows or a link brings."""
        return await self._answer(line, "", Manner.VIEWED)

    async def _redrawn(self, message: PageMessage) -> Card:
        """Return the card of a message's alerts as they stand now: an answer in its thread."""
        return await self._answer("alert", message.id, Manner.VIEWED, channel="")

    def _asked_line(self, request: web.Request) -> str:
        """Return the line of an address; go to its own where the page's form named other days."""
        line = _line(request.query.get("line", ""))
        if {"first", "last"} <= request.query.keys():
            current = self._console.window(line, self._console.clock())
            days = span(request.query["first"], request.query["last"])
            raise web.HTTPSeeOther(address(_line(current.over(days) if current else line)))
        return line

    async def _show(self, request: web.Request, page: Page, line: str) -> web.StreamResponse:
        """Show a line's answer.

        What does more than read, and whatever another site brings, waits for a press.
        """
        if not line:
            return self._page("ask.html", request, name=page.name)
        effect = self._console.effect(line)
        runs = effect in (Effect.READS, Effect.NOTHING) and sender_of(request) is not Sender.LINK
        # A tab's line is known by the tab's name, any other by itself below the page's name.
        tab = next((words for words, tabbed in page.tabs if tabbed == line), "")
        by_itself = line != page.line and not tab
        values: dict[str, Any] = {
            "name": line if by_itself else page.name,
            "tab": tab,
            "crumbs": ((page.name, page.of or request.path),) if by_itself else (),
            "line": line,
            "tabs": page.tabs,
        }
        if not runs and line != page.line:
            return self._page("line.html", request, would=WOULD[effect], **values)

        # The header of the page of alerts goes by its own answer, so nothing is sent before that.
        alerts, answer = line == LINES[0], self._viewed(line)
        if alerts:
            frame, card = None, await answer
        else:
            frame, card = await self._soon(request, answer, **values)

        # A line in plain words is controlled by how it was read.
        clock, grammar_line = self._console.clock(), str(card.data.get("read_as", line))
        current = self._console.window(grammar_line, clock) if card.tone is not Tone.ERROR else None
        controls = controls_of(card, current, clock) if current else None
        offered = [
            *(row for block in card.each(Table) for row in block.lines),
            *(tabbed for _, tabbed in page.tabs),
            *(controls.offered if controls else ()),
        ]
        # The page offers these by its own links.
        undoubled = card.without_buttons(lambda button: button.line in offered)
        drawn = self._page(
            "line.html",
            request,
            standing(card, Card("")).facts if alerts else {},
            status=_status(card),
            it=paged(undoubled, request.path, request.query),
            controls=controls,
            grammar_line=grammar_line,
            **values,
        )
        return await _finish(frame, drawn)

    async def _soon(
        self, request: web.Request, answer: Coroutine[Any, Any, T], **values: Any
    ) -> tuple[web.StreamResponse | None, T]:
        """Return an answer; before one that takes long send the page's frame and heading.

        A frame's status is 200 before the answer is known, so only a person gets it, whom the page
        tells of a mistake; a program waits for the answer and its status.
        """
        answering = asyncio.ensure_future(answer)
        try:
            await asyncio.wait({answering}, timeout=QUICK_S)
            if answering.done() or request.headers.get("Sec-Fetch-Mode") != "navigate":
                return None, await answering
            page = self._page("line.html", request, waits=True, **{"line": "", **values})
            frame = web.StreamResponse(
                headers={"Content-Type": "text/html; charset=utf-8", "X-Accel-Buffering": "no"}
            )
            await frame.prepare(request)
            await frame.write(str(page.text).partition(LATER)[0].encode())
            return frame, await answering
        finally:
            answering.cancel()

    async def _respond(self, request: web.Request, line: str, where: str) -> web.StreamResponse:
        """Show a private answer to who asked; put a public one where everyone reads it."""
        line = _line(line)
        if not line:
            raise web.HTTPBadRequest(text="The line is empty; type 'help' for the commands.\n")
        card = await self._answer(line, where, Manner.ASKED)
        if card.public:
            if where and await self._messages.get(where) is not None:
                await self._surface.reply(CHANNEL, where, card, "")
            else:
                await self._surface.post(CHANNEL, card, "")

        effect = self._console.effect(line)
        if OWN_HEADER not in request.headers:
            if card.public:
                return web.Response(status=303, headers={"Location": HOME})
            return self._page(
                "line.html", request, status=_status(card), name="Ask", line=line, it=card
            )

        # By these the page's script knows an answer, beside its words.
        changed = card.tone is not Tone.ERROR and effect is Effect.CHANGES
        reads = effect in (Effect.READS, Effect.NOTHING)
        headers = {
            "X-Trnbot-Tone": card.tone.value,
            "X-Trnbot-Form": _flag(any(card.each(Form))),
            "X-Trnbot-Changed": _flag(changed),
            "X-Trnbot-Field": _NAME.sub("", str(card.data.get("argument", ""))),
            "X-Trnbot-Asks": _flag(card.data.get("asks", False)),
            "X-Trnbot-Posted": CHANNEL if card.public else "",
            "X-Trnbot-Address": address(line) if reads else "",
        }
        if card.public:
            return web.Response(status=204, headers=headers)
        response = self._pages.response(
            "answer.html", line=line, it=card, where=where, at=self._console.clock(), reads=reads
        )
        response.headers.update(headers)
        return response

    async def _answer(
        self, line: str, where: str, manner: Manner, channel: str = f"web:{CHANNEL}"
    ) -> Card:
        asker = ASKER.get()
        user = (asker and asker.user) or READER
        request = Request(
            line, user, self._console.clock(), "web", LOCAL, channel, where, manner, whole=False
        )
        try:
            return await self._console.answer(request)
        except TrnbotError as error:
            return Card("That did not work", Tone.ERROR, (text(str(error)),))

    def _page(
        self,
        template: str,
        request: web.Request,
        facts: Mapping[str, Any] | None = None,
        status: int = 200,
        **values: Any,
    ) -> web.Response:
        """Draw a page; `facts` are what its own reading says, and the header with it."""
        common = {
            "code": status,
            "path": request.path,
            "here": HOME if request.path.startswith("/alert") else request.path,
            "lines": PAGES,
            "health": {**self._console.health(), **(facts or {})},
            "hints": self._console.hints,
            "hints_at": self._hints_at,
            "starters": STARTERS,
            "draft": "",
            "version": self._hub.version,
            "reading": bool(facts),
            "waits": False,
            "it": None,
            "tabs": (),
            "tab": "",
            "crumbs": (),
            "controls": None,
            "would": "",
            "grammar_line": values.get("line", ""),
        }
        return self._pages.response(template, status, **{**common, **values})


def _ready(health: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return how the bot stands for whoever asks whether people are answered."""
    starting = health.get("starting", "")
    if not starting:
        return {"ok": True, **health}
    return {**health, "ok": False, "problem": health.get("problem") or starting}


def _health_json(health: Mapping[str, Any]) -> web.Response:
    return web.json_response(plain_json(health), status=200 if health["ok"] else 503)


def _status(card: Card) -> int:
    """Return how HTTP calls an answer."""
    return int(card.data.get("status", 400)) if card.tone is Tone.ERROR else 200


def _line(words: str) -> str:
    """Return a typed line; refuse one that nobody typed."""
    line = words.strip()
    if len(line) > _LONGEST:
        raise web.HTTPBadRequest(
            text=f"The line is longer than {_LONGEST} characters; shorten it.\n"
        )
    return line


async def _finish(frame: web.StreamResponse | None, page: web.Response) -> web.StreamResponse:
    """Return the page; where its frame was sent, send the part that depends on its answer."""
    if frame is None:
        return page
    await frame.write(str(page.text).partition(LATER)[2].encode())
    return frame


def _flag(holds: bool) -> str:
    return "1" if holds else "0"
