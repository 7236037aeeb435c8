"""Send changes to open pages, by server-sent events."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable

from aiohttp import web

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
