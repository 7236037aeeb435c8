"""Be the console: a surface that keeps its messages, and the listener that serves its pages."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from aiohttp import web

from adapters.web.auth import LOGIN_PATH, ConsoleAuth, host_of
from adapters.web.events import Hub
from adapters.web.guard import Guard
from adapters.web.html import Pages
from adapters.web.messages import Message, Messages
from adapters.web.views import CHANNEL, Console, Views
from bot.cards.card import Card
from bot.ports import Answer, Clock, CommandHint, DocumentStore


class WebSurface:
    """Implement `bot.ports.Surface` and `bot.ports.Listener` for the browser.

    `health()` may say `ok`, `problem`, `now`, `live`, `speed`, `ticked_at`, `open_alerts`, `usd_per_hour`, `source`; what it
    does not say is left out of the status strip. `metrics()` returns Prometheus text. `hosts` names the hosts under which a
    proxy on this machine offers the console, `public_url` its whole address; without either a loopback address answers to
    loopback names alone. With `secret`, every page but `/healthz` asks for it.
    """

    def __init__(
        self,
        *,
        answer: Answer,
        clock: Clock,
        shelf: DocumentStore,
        health: Callable[[], Mapping[str, Any]],
        metrics: Callable[[], str],
        hints: Sequence[CommandHint],
        title: str = "trnbot",
        hosts: Collection[str] = (),
        secret: str = "",
        public_url: str = "",
    ) -> None:
        door = ConsoleAuth(secret, secure=public_url.startswith("https://"))
        token = door.form_token(secrets.token_urlsafe(24))
        self._pages = Pages(token=token, title=title)
        self._messages = Messages(shelf, clock)
        console = Console(answer, clock, health, metrics, tuple(hints))
        self._hub = Hub(lambda: self._pages.page("status.html", health=dict(health())))
        self._views = Views(console, self._pages, self._messages, self._hub, self, door)
        self._guard = Guard(token=token, door=door, hosts=(*hosts, *host_of(public_url)))

    async def post(self, channel: str, card: Card, key: str) -> str:
        """Show a new message on every open page and return its id."""
        message = await self._messages.post(channel or CHANNEL, card, key)
        self._tell(message)
        return message.id

    async def edit(self, channel: str, message: str, card: Card, key: str) -> str:
        """Replace a message in place; post it afresh where it is gone."""
        found = await self._messages.edit(message, card, key)
        if found is None:
            return await self.post(channel, card, key)
        self._tell(found)
        return found.id

    async def reply(self, channel: str, message: str, card: Card) -> None:
        """Add a card to a message's thread; where the message is gone, it becomes one of its own."""
        found = await self._messages.reply(message, card)
        if found is None:
            await self.post(channel, card, "")
        else:
            self._tell(found)

    async def find(self, channel: str, key: str) -> str:
        """Return the id of the message of this key, "" when there is none."""
        return await self._messages.find(channel or CHANNEL, key)

    def routes(self) -> Sequence[web.RouteDef]:
        """Return every page, guarded."""
        views, read, write, everyone = self._views, self._guard.read, self._guard.write, self._guard.open
        return (
            web.get("/", read(views.channel)),
            web.get("/now", read(views.now)),
            *(web.get(path, read(views.fixed)) for path in views.lines),
            web.get("/alert/{id}", read(views.alert)),
            web.get("/ask", read(views.typed)),
            web.post("/ask", write(views.ask)),
            web.post("/form", write(views.form)),
            web.get("/events", read(views.events)),
            web.get(LOGIN_PATH, everyone(views.login)),
            web.post(LOGIN_PATH, self._guard.enter(views.enter)),
            web.get("/static/{name}", everyone(views.static)),
            web.get("/healthz", everyone(views.healthz)),
            web.get("/metrics", read(views.metrics)),
        )

    async def start(self) -> None:
        """Do nothing: the pages wait for their readers."""

    async def stop(self) -> None:
        """End the open event streams, so that the server can stop."""
        self._hub.close()

    def _tell(self, message: Message) -> None:
        html = self._pages.page("message.html", message=message)
        self._hub.publish("message", id=message.id, channel=message.channel, html=html)
