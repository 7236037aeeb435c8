"""Join the parts of the console, and answer while the bot starts."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any

from aiohttp import web

from adapters.web.auth import LOGIN_PATH, LOGOUT_PATH, ConsoleAuth, Guard, LoginPage, RequestHandler
from adapters.web.config import Console, WebConfig
from adapters.web.html import PageRenderer, static_routes
from adapters.web.links import DOWNLOAD
from adapters.web.live import Hub
from adapters.web.messages import Messages, PageMessage
from adapters.web.views import CHANNEL, Downloads, StoryPages, Views
from bot.cards.card import Card
from bot.ports import DocumentStore
from bot.ports.work import CONNECTION, Asker, asked_by


class WebSurface:
    """Implement `bot.ports.Surface` and `bot.ports.Listener` for the browser."""

    def __init__(self, config: WebConfig, console: Console, documents: DocumentStore) -> None:
        self._auth = auth = ConsoleAuth(config.secret, documents, secure=config.secure)
        token = auth.form_token(secrets.token_urlsafe(24))
        self._pages = PageRenderer(token=token, title=config.title, locked=auth.locked)
        self._messages = Messages(documents, console.clock)
        self._hub = Hub(
            lambda: self._pages.page("status.html", health=dict(console.health())), auth.admits
        )
        self._views = Views(console, self._pages, self._messages, self._hub, self)
        self._downloads = Downloads(console, self._views.viewed)
        self._story = StoryPages(console.story, self._pages)
        self._login = LoginPage(auth, self._pages)
        self._guard = Guard(token=token, auth=auth, hosts=config.names)

    async def post(self, channel: str, card: Card, key: str) -> str:
        """Show a new message on every open page and return its id."""
        message = await self._messages.post(channel or CHANNEL, card, key)
        self._publish(message)
        return message.id

    async def edit(self, channel: str, message: str, card: Card, key: str) -> str:
        """Replace a message in place; post it afresh where it is gone."""
        edited = await self._messages.edit(message, card, key)
        if edited is None:
            return await self.post(channel, card, key)
        self._publish(edited)
        return edited.id

    async def reply(self, channel: str, message: str, card: Card, key: str) -> str:
        """Add a card to a message's thread; where the message is gone, it becomes one of its own."""
        answered = await self._messages.reply(message, card, key)
        if answered is None:
            return await self.post(channel, card, key)
        self._publish(answered)
        return key or answered.id

    async def find(self, channel: str, key: str, thread: str = "") -> str:
        """Return the id of the message of this key, or of the reply in `thread`.

        "" when there is none.
        """
        return await self._messages.find(channel or CHANNEL, key, thread)

    def routes(self) -> Sequence[web.RouteDef]:
        """Return every page, guarded."""
        views, everyone = self._views, self._guard.open
        read, write = self._asked(self._guard.read), self._asked(self._guard.write)
        return (
            web.get("/", read(views.channel)),
            web.get("/now", read(views.now)),
            web.get("/lead", read(views.lead)),
            *(web.get(path, read(views.fixed)) for path, rail in views.lines.items() if rail.line),
            web.get("/alert/{id}", read(views.alert)),
            web.get("/ask", read(views.typed)),
            web.get(DOWNLOAD, read(self._downloads.csv)),
            web.post("/ask", write(views.ask)),
            web.post("/form", write(views.form)),
            web.get("/events", read(views.events)),
            web.get(self._story.path, read(self._story.told)),
            web.post(self._story.path, write(self._story.again)),
            web.get(LOGIN_PATH, everyone(self._login.show)),
            web.post(LOGIN_PATH, self._guard.enter(self._login.enter)),
            web.post(LOGOUT_PATH, write(self._login.leave)),
            *static_routes(everyone),
            web.get("/hints/{version}", read(views.hints)),
            web.get("/healthz", self._guard.by_token(views.healthz, views.liveness)),
            web.get("/metrics", read(views.metrics)),
        )

    def admitting(self, handler: RequestHandler) -> RequestHandler:
        """Guard a handler that answers programs beside the pages: who reads these may ask there."""
        return self._asked(self._guard.read)(handler)

    def _asked(
        self, guard: Callable[[RequestHandler], RequestHandler]
    ) -> Callable[[RequestHandler], RequestHandler]:
        """Have a guarded page answer by the share of who reads it, for as long as they wait."""

        def guarded(handler: RequestHandler) -> RequestHandler:
            async def asked(request: web.Request) -> web.StreamResponse:
                asker = CONNECTION.get() or Asker()
                asker.share = f"web:{self._auth.reader(request)}"
                with asked_by(asker):
                    return await handler(request)

            return guard(asked)

        return guarded

    async def start(self) -> None:
        """Do nothing: the pages wait for their readers."""

    async def stop(self) -> None:
        """End the open event streams, so that the server can stop."""
        self._hub.close()

    def _publish(self, message: PageMessage) -> None:
        html = self._pages.page("message.html", message=message)
        self._hub.publish("message", id=message.id, channel=message.channel, html=html)


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
