"""Answer while the bot starts.

`/healthz` says so, and every page waits for the console instead of failing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aiohttp import web

from adapters.web.files import static_routes
from adapters.web.html import PageRenderer


class StartingPages:
    """Implement `bot.ports.Listener` for the time before anything can be answered.

    `doing` says how far it is.
    """

    def __init__(self, doing: Callable[[], str]) -> None:
        self._doing = doing
        self._pages = PageRenderer(token="", title="trnbot")

    def routes(self) -> Sequence[Any]:
        """Return a route for whatever is asked."""
        return (
            web.get("/healthz", self._healthz),
            *static_routes(),
            web.get("/{path:.*}", self._page),
            web.route("*", "/{path:.*}", self._later),
        )

    async def start(self) -> None:
        """Do nothing: the pages wait for their readers."""

    async def stop(self) -> None:
        """Do nothing."""

    async def _healthz(self, _: web.Request) -> web.StreamResponse:
        """Say that the bot starts: it is not ok yet."""
        return _brief(
            web.json_response({"ok": False, "starting": True, "problem": self._doing()}, status=503)
        )

    async def _page(self, _: web.Request) -> web.StreamResponse:
        """Show the console's frame without anything in it, which asks anew until the console answers."""
        text = self._pages.page("starting.html", doing=self._doing())
        return _brief(web.Response(text=text, content_type="text/html", status=503))

    async def _later(self, _: web.Request) -> web.StreamResponse:
        """Refuse a press, a command or an event; its sender tries again."""
        return _brief(
            web.Response(
                text=f"trnbot starts: {self._doing()} Try again in a moment.\n", status=503
            )
        )


def _brief(response: web.Response) -> web.Response:
    """Let the connection go with the response: the next one is answered by whoever answers then."""
    response.headers["Retry-After"] = "2"
    response.force_close()
    return response
