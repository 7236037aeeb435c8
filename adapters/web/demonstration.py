"""Show the story of a demonstration above every page, and begin it again by a button."""

from __future__ import annotations

import asyncio

from aiohttp import web

from adapters.web.config import StoryTeller
from adapters.web.guard import OWN_HEADER
from adapters.web.html import PageRenderer

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
