"""Keep open pages up to date: the events they are sent, and the strip of what is wasted now."""

from __future__ import annotations

import asyncio
import itertools
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from time import monotonic
from typing import Any, Generic, TypeVar

from aiohttp import web

from bot.cards.card import Card, Strong, Table, Text, Tone, plain
from bot.model.notification import Coverage, Known
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
                # The page comes back and reads everything anew.
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
        hello = f"retry: 2000\n{_event('hello', {'version': self.version})}"
        words: str | None = ""
        drawn, quiet = "", 0.0
        try:
            await response.write(hello.encode())
            while not self.closed and words is not None:
                status = self._status()
                if status != drawn:
                    drawn, words = status, words + _event("status", {"html": status})
                if words:
                    if not await self._admits(request):  # signed out meanwhile
                        break
                    quiet = 0.0
                    await response.write(words.encode())
                try:
                    words = await asyncio.wait_for(page.get(), _BEAT)
                except TimeoutError:
                    quiet += _BEAT
                    words = "" if quiet < _SILENCE else _event("beat", {})
        except ConnectionError:
            pass  # the reader left: nothing is owed to a closed page
        finally:
            self._pages.discard(page)
        return response

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

    `lasted` is in words, `todo` the first thing to try, `holder` who looks after it.
    """

    id: str
    cause: str
    where: str
    lasted: str
    since: datetime
    usd_per_hour: Decimal | None
    usd_so_far: Decimal | None
    todo: str
    holder: str = ""

    @staticmethod
    def of(alert: Mapping[str, Any], words: Sequence[str]) -> Wasting:
        """Return an alert by its record, and by the words of its row of the card's table."""
        (cause, where, lasted), waste = words[:3], alert["waste_usd"] or {}
        person = alert.get("assigned_to")
        return Wasting(
            id=alert["id"],
            cause=cause,
            where=where,
            lasted=lasted,
            since=alert["onset"],
            usd_per_hour=waste.get("per_hour"),
            usd_so_far=waste.get("so_far"),
            todo=next(iter(alert.get("suggestions", ())), "").replace("`", ""),
            holder=f"assigned to {person}" if person else "",
        )


@dataclass(frozen=True)
class WasteStrip:
    """Hold the figures of the strip.

    `answered` is False where the answers hold no numbers, such as a failure's.
    """

    answered: bool
    rows: tuple[Wasting, ...] = ()
    hidden: int = 0
    seen: Coverage = field(default_factory=Coverage)
    usd_per_hour: Decimal = Decimal(0)
    saved_usd_per_hour: Decimal = Decimal(0)
    saved_usd: Decimal = Decimal(0)
    firing: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The record of each alert that fires, by its id."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """Return the facts of the header by the same reading; nothing where none is known."""
        shown = {
            "open_alerts": len(self.rows) + self.hidden,
            "usd_per_hour": self.usd_per_hour,
            **self.seen.data,
        }
        return shown if self.answered else {}


class Shared(Generic[T]):
    """Read once for all pages that ask meanwhile, and within `keep_s`, whoever of them leaves.

    It uses nobody's share.
    """

    def __init__(self, read: Callable[[], Awaitable[T]], keep_s: float = 0) -> None:
        self._read, self._keep_s = read, keep_s
        self._reading: asyncio.Future[T] | None = None
        self._version, self._until = "", 0.0

    async def get(self, version: str = "") -> T:
        """Return the reading, which began after the newest message."""
        reading = self._reading
        fresh = reading is not None and (not reading.done() or monotonic() < self._until)
        if reading is None or not fresh or version != self._version:
            self._version, self._until = version, monotonic() + self._keep_s
            # Whoever asked first must not pay for all who read it.
            with asked_by(Asker(share="")):
                self._reading = reading = asyncio.ensure_future(self._read())
        return await asyncio.shield(reading)


LEAD_S = 60.0
"""How long the money of the first page is kept: a bill moves a few times a day."""
LEAD = "summary money"


def lead_of(summary: Card) -> Sequence[tuple[str, str]]:
    """Return name and words of each line of a summary."""
    if summary.tone is Tone.ERROR:
        return ()
    return tuple(
        (spans[0].text, plain(spans[1:]).removeprefix(": "))
        for spans in (block.spans for block in summary.each(Text))
        if spans and isinstance(spans[0], Strong)
    )


def standing(alerts: Card, savings: Card) -> WasteStrip:
    """Return the strip of an answer to `alerts` and one to `savings`."""
    if "alerts" not in alerts.data:
        return WasteStrip(False)

    # The card's table has a row for each alert, in the order of its data.
    table = next((block.rows for block in alerts.each(Table)), ())
    firing = [
        (alert, words)
        for alert, words in itertools.zip_longest(alerts.data["alerts"], table)
        if alert is not None and alert["closed_at"] is None
    ]
    loud = [(alert, words) for alert, words in firing if not alert["muted_by"]]
    listed = [(alert, words) for alert, words in loud if words is not None][:MOST]
    rows = [Wasting.of(alert, words) for alert, words in listed]
    return WasteStrip(
        True,
        tuple(rows),
        len(loud) - len(rows),
        Coverage(Known(alerts.data["known"]), alerts.data["because"]),
        alerts.data.get("usd_per_hour", Decimal(0)),
        savings.data.get("usd_per_hour", Decimal(0)),
        savings.data.get("usd_so_far", Decimal(0)),
        {alert["id"]: alert for alert, _ in firing},
    )
