"""Keep open pages up to date: the events that they are sent, and the strip of what is wasted now."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from time import monotonic
from typing import Any, Generic, TypeVar

from aiohttp import web

from bot.cards.card import Card, Span, Strong, Table, Text, Tone, When, plain
from bot.model.money import usd
from bot.ports.work import Asker, asked_by

_BEAT = 2.0
"""Seconds between looks at the status strip."""
_SILENCE = 4.0
"""Seconds after which a quiet stream says that it is alive.

A page that hears nothing for longer says so.
"""


class Hub:
    """Fan events out to the open pages.

    A page too slow to follow is closed, and comes back to read everything.
    """

    def __init__(
        self, status: Callable[[], str], admits: Callable[[web.Request], Awaitable[bool]]
    ) -> None:
        self._status, self._admits = status, admits
        self._started, self._count = secrets.token_hex(4), 0
        self._pages: set[asyncio.Queue[str | None]] = set()
        self.closed = False

    @property
    def version(self) -> str:
        """Return the number of the last event and this start.

        A page that holds another has missed something.
        """
        return f"{self._started}-{self._count}"

    def publish(self, event: str, **data: str) -> None:
        """Send one event to every open page."""
        self._count += 1
        words = _event(event, {**data, "version": self.version})
        for page in list(self._pages):
            try:
                page.put_nowait(words)
            except asyncio.QueueFull:
                self._pages.discard(page)
                self._end(page)

    def close(self) -> None:
        """End every stream, so that the server can stop."""
        self.closed = True
        for page in list(self._pages):
            self._end(page)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Hold one page's stream until it leaves, its reader signs out, or the hub closes."""
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
        )
        await response.prepare(request)
        page: asyncio.Queue[str | None] = asyncio.Queue(maxsize=100)
        self._pages.add(page)
        try:
            await response.write(
                f"retry: 2000\n{_event('hello', {'version': self.version})}".encode()
            )
            await self._follow(page, request, response)
        except ConnectionError:
            pass  # the reader left: nothing is owed to a closed page
        finally:
            self._pages.discard(page)
        return response

    async def _follow(
        self, page: asyncio.Queue[str | None], request: web.Request, response: web.StreamResponse
    ) -> None:
        words: str | None = ""
        shown, quiet = "", 0.0
        while not self.closed and words is not None:
            status = self._status()
            if status != shown:
                shown, words = status, words + _event("status", {"html": status})
            if words:
                if not await self._admits(request):  # signed out meanwhile
                    return
                quiet = 0.0
                await response.write(words.encode())
            try:
                words = await asyncio.wait_for(page.get(), _BEAT)
            except TimeoutError:
                words = "" if (quiet := quiet + _BEAT) < _SILENCE else _event("beat", {})

    @staticmethod
    def _end(page: asyncio.Queue[str | None]) -> None:
        while not page.empty():
            page.get_nowait()
        page.put_nowait(None)


def _event(name: str, data: dict[str, str]) -> str:
    """Write one event.

    JSON keeps line ends within the data escaped, so that no text can forge another.
    """
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


T = TypeVar("T")
MOST = 3
"""Alerts that the strip names; it stands above every message, and must leave them room."""
LINES = "alerts", "savings 7d"


@dataclass(frozen=True)
class Wasting:
    """Hold one open alert, dearest first.

    `lasted` is in words, `todo` the first thing to try, `held` who looks after it.
    """

    id: str
    cause: str
    where: str
    lasted: str
    since: datetime
    usd_per_hour: Decimal | None
    usd_so_far: Decimal | None
    todo: str
    held: str = ""


@dataclass(frozen=True)
class WasteStrip:
    """Hold the figures of the strip.

    `known` is False where the answers hold no numbers, such as a failure's.
    """

    known: bool
    rows: tuple[Wasting, ...] = ()
    more: int = 0
    usd_per_hour: Decimal = Decimal(0)
    saved_usd_per_hour: Decimal = Decimal(0)
    saved_usd: Decimal = Decimal(0)
    wastes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """USD `per_hour` and `so_far` of each alert that fires, and as of when, by its id.

    Every figure of the page goes by it.
    """

    @property
    def facts(self) -> Mapping[str, Any]:
        """Return the facts of the header by the same reading; nothing where none is known."""
        return (
            {"open_alerts": len(self.rows) + self.more, "usd_per_hour": self.usd_per_hour}
            if self.known
            else {}
        )


class Shared(Generic[T]):
    """Read once for all pages that ask meanwhile, and within `keep_s`, whoever of them leaves.

    It uses nobody's share.
    """

    def __init__(self, read: Callable[[], Awaitable[T]], keep_s: float = 0) -> None:
        self._read, self._keep_s = read, keep_s
        self._reading: asyncio.Future[T] | None = None
        self._version, self._until = "", 0.0

    async def get(self, version: str = "") -> T:
        """Return what was read after the newest message."""
        kept = self._reading and (not self._reading.done() or monotonic() < self._until)
        if self._reading is None or not kept or version != self._version:
            self._version, self._until = version, monotonic() + self._keep_s
            with asked_by(Asker(share="")):
                self._reading = asyncio.ensure_future(self._read())
        return await asyncio.shield(self._reading)


LEAD_S = 60.0
"""How long the money of the first page is kept: a bill moves a few times a day."""
LEAD = "summary money"


def lead_of(summary: Card) -> Sequence[tuple[str, str]]:
    """Return name and words of each line of a summary."""
    texts = (block.spans for block in summary.blocks if isinstance(block, Text))
    named = (
        (spans[0].text, plain(spans[1:]).removeprefix(": "))
        for spans in texts
        if spans and isinstance(spans[0], Strong)
    )
    return tuple(named) if summary.tone is not Tone.ERROR else ()


def standing(alerts: Card, savings: Card) -> WasteStrip:
    """Return the strip of an answer to `alerts` and one to `savings`."""
    if "alerts" not in alerts.data:
        return WasteStrip(False)
    rows = [
        _wasting(*pair)
        for pair in zip(alerts.data["alerts"], _words(alerts), strict=False)
        if _open(pair[0])
    ]
    count = sum(_open(alert) for alert in alerts.data["alerts"])
    saved = savings.data
    return WasteStrip(
        True,
        tuple(rows[:MOST]),
        count - len(rows[:MOST]),
        alerts.data.get("usd_per_hour", Decimal(0)),
        saved.get("usd_per_hour", Decimal(0)),
        saved.get("usd_so_far", Decimal(0)),
        {
            alert["id"]: alert["waste_usd"]
            for alert in alerts.data["alerts"]
            if alert["closed_at"] is None and alert["waste_usd"]
        },
    )


def retold(card: Card, wastes: Mapping[str, Mapping[str, Any]]) -> Card:
    """Return the message of an alert with its dollars as they are now.

    What was sent is as old as its last edit.
    """
    then: Mapping[str, Any] | None = card.data.get("waste_usd")
    now = wastes.get(str(card.data.get("id")))
    if not then or not now:
        return card
    words = {
        f"{usd(Decimal(str(then[name])))}{after}": f"{usd(now[name])}{after}"
        for name, after in (("per_hour", " an hour"), ("so_far", " so far"))
    }
    blocks = tuple(
        _reworded(block, words, now.get("as_of")) if isinstance(block, Text) else block
        for block in card.blocks
    )
    return replace(card, blocks=blocks, data={**card.data, "waste_usd": {**then, **now}})


def _reworded(said: Text, words: Mapping[str, str], as_of: datetime | None) -> Text:
    """Return a text with the words that hold now, and as of when."""
    before = ("", *said.spans)
    dated = (
        as_of and isinstance(span, When) and str(last).endswith("as of ")
        for last, span in zip(before, said.spans, strict=False)
    )
    spans = zip(said.spans, dated, strict=True)
    return replace(
        said,
        spans=tuple(When(as_of) if new and as_of else _span(span, words) for span, new in spans),
    )


def _span(span: Span, words: Mapping[str, str]) -> Span:
    """Return a span with the words that hold now.

    A text of several alerts is left, as it sums them.
    """
    match span:
        case Strong():
            return Strong(words.get(span.text, span.text))
        case str():
            return next(
                (span.replace(then, now) for then, now in words.items() if then in span), span
            )
        case _:
            return span


def _open(alert: Mapping[str, Any]) -> bool:
    return alert["closed_at"] is None and not alert["muted_by"]


def _words(card: Card) -> Sequence[tuple[str, ...]]:
    """Return the rows of the card's table, one an alert, in the order of its data."""
    return next((block.rows for block in card.blocks if isinstance(block, Table)), ())


def _wasting(alert: Mapping[str, Any], words: Sequence[str]) -> Wasting:
    waste = alert["waste_usd"] or {}
    todo = next(iter(alert.get("suggestions", ())), "").replace("`", "")
    cause, where, lasted = words[:3]
    held = f"assigned to {alert['assigned_to']}" if alert.get("assigned_to") else ""
    return Wasting(
        alert["id"],
        cause,
        where,
        lasted,
        alert["onset"],
        waste.get("per_hour"),
        waste.get("so_far"),
        todo,
        held,
    )
