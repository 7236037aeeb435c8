"""Set the console up, join its parts, let people sign in, and answer while the bot starts."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any
from urllib.parse import quote, urlsplit

from aiohttp import web

from adapters.web.api import ROOT as API
from adapters.web.auth import (
    AGAIN,
    LOGIN_PATH,
    TOO_MANY,
    ConsoleAuth,
    Guard,
    RequestHandler,
    own_path,
    redirect,
)
from adapters.web.html import PageRenderer, static_routes
from adapters.web.links import DOWNLOAD, PAGES
from adapters.web.live import Hub
from adapters.web.messages import Messages, PageMessage
from adapters.web.people import READER, Known, packed
from adapters.web.views import CHANNEL, Console, Views
from bot.cards.card import Card
from bot.errors import NotAllowed, TrnbotError
from bot.ports import DocumentStore
from bot.ports.chat import ANY_PAGE
from bot.ports.work import audit

PROVIDER_PATH = "/login/provider"
BACK_PATH = "/login/back"
_WRONG_S = 1.0
"""Seconds that a wrong token waits for its refusal."""


@dataclass(frozen=True)
class WebConfig:
    """Hold the console's public address and its token.

    A loopback address answers to loopback names, and to that of `public_url`.
    """

    secret: str = field(default="", repr=False)
    """The token that every page but `/healthz` asks for, "" for none."""
    public_url: str = ""
    known: Known = field(default_factory=Known)
    """How people are known, beside that token."""

    @property
    def secure(self) -> bool:
        """Return whether browsers reach the console by TLS alone."""
        return self.public_url.startswith("https://")

    @property
    def host(self) -> str:
        """Return the name under which a proxy offers the console, "" for none."""
        return urlsplit(self.public_url).hostname or ""


class WebSurface:
    """Implement `bot.ports.Surface` and `bot.ports.Listener` for the browser."""

    def __init__(self, config: WebConfig, console: Console, documents: DocumentStore) -> None:
        self._auth = auth = ConsoleAuth(
            config.secret, documents, secure=config.secure, known=config.known
        )
        token = auth.form_token(secrets.token_urlsafe(24))
        self._pages = PageRenderer(token=token, title="trnbot", locked=auth.locked)
        self._messages = Messages(documents, console.clock)
        self._hub = Hub(
            lambda: self._pages.page("status.html", health=dict(console.health())), auth.admits
        )
        self._views = Views(console, self._pages, self._messages, self._hub, self)
        self._login = LoginPage(auth, self._pages, config.public_url)
        self._guard = Guard(token=token, auth=auth, pages=self._pages, host=config.host)

    async def post(self, channel: str, card: Card, key: str) -> str:
        """Show a new message on every open page and return its id."""
        message = await self._messages.post(channel or CHANNEL, card, key)
        self._publish(message, posted="1")
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

    async def posted(self, channel: str, thread: str = "") -> Mapping[str, str]:
        """Return the ids of the newest messages, or of the replies in `thread`, by their keys."""
        return await self._messages.posted(channel or CHANNEL, thread)

    def routes(self) -> Sequence[web.RouteDef]:
        """Return every page, guarded."""
        views, everyone = self._views, self._guard.open
        reading, writing = self._guard.read, self._guard.write
        return (
            web.get("/", reading(views.channel)),
            web.get("/now", reading(views.now)),
            web.get("/lead", reading(views.lead)),
            *(web.get(path, reading(views.fixed)) for path, page in PAGES.items() if page.line),
            web.get("/alert/{id}", reading(views.alert)),
            web.get("/ask", reading(views.typed)),
            web.get(DOWNLOAD, reading(views.csv)),
            web.post("/ask", writing(views.ask)),
            web.post("/form", writing(views.form)),
            web.get("/events", reading(self._hub.serve)),
            web.get("/demo", reading(views.story)),
            web.post("/demo", writing(views.again)),
            web.get(LOGIN_PATH, everyone(self._login.show)),
            web.post(LOGIN_PATH, self._guard.enter(self._login.enter)),
            web.get(PROVIDER_PATH, everyone(self._login.to_provider)),
            web.get(BACK_PATH, everyone(self._login.back)),
            web.post("/logout", writing(self._login.leave)),
            *static_routes(everyone),
            web.get("/hints/{version}", reading(views.hints)),
            web.get("/healthz", self._guard.by_token(views.healthz, views.wellness)),
            web.get("/livez", everyone(views.livez)),
            web.get("/readyz", everyone(views.readyz)),
            web.get("/metrics", reading(views.metrics)),
            web.get(ANY_PAGE, reading(views.missing)),
        )

    def admitting(self, handler: RequestHandler) -> RequestHandler:
        """Guard a handler that answers programs beside the pages: who reads these may ask there."""
        return self._guard.read(handler)

    async def start(self) -> None:
        """Do nothing: the pages wait for their readers."""

    async def stop(self) -> None:
        """End the open event streams, so that the server can stop."""
        self._hub.close()

    def _publish(self, message: PageMessage, posted: str = "") -> None:
        html = self._pages.page("message.html", message=message)
        self._hub.publish(
            "message", html=html, id=message.id, channel=message.channel, posted=posted
        )


class LoginPage:
    """Ask who a person is or for the token, give the cookie for it, and take it back."""

    def __init__(self, auth: ConsoleAuth, pages: PageRenderer, public_url: str = "") -> None:
        self._auth, self._pages, self._public_url = auth, pages, public_url

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Ask how the person signs in."""
        target = own_path(request.query.get("to", ""))
        if await self._auth.admits(request):
            return redirect(target)
        return self._form(200, self._auth.misnamed(request), target)

    async def enter(self, request: web.Request) -> web.StreamResponse:
        """Let in who knows the token; who does not waits, so that guessing takes its time."""
        filled = await request.post()
        target, origin = own_path(str(filled.get("to", ""))), self._auth.origin(request)
        try:
            opened = self._auth.opens(str(filled.get("secret", "")), origin)
        except web.HTTPTooManyRequests as error:
            return self._form(error.status, TOO_MANY, target)
        audit("sign in", "done" if opened else "refused", READER, origin=origin, by="token")
        if not opened:
            await asyncio.sleep(_WRONG_S)
            return self._form(403, "That token is wrong.", target)

        answer = redirect(target)
        self._auth.begin(answer)
        return answer

    async def leave(self, request: web.Request) -> web.StreamResponse:
        """Sign this browser out."""
        audit("sign out", "done")
        answer: web.StreamResponse = redirect(LOGIN_PATH)
        if self._auth.proxied(request):
            # The next page would be theirs again, with no word that nothing has ended.
            answer = self._form(200, "The proxy keeps you signed in; sign out there.")
        await self._auth.end(request, answer)
        return answer

    async def to_provider(self, request: web.Request) -> web.StreamResponse:
        """Send a person to the provider that knows them."""
        provider, target = self._auth.known.provider, own_path(request.query.get("to", ""))
        if provider is None:
            raise web.HTTPNotFound(text="No provider for signing in is set up here.\n")
        try:
            address, begun = await asyncio.to_thread(provider.begin, self._back(request), target)
        except TrnbotError as error:
            return self._form(503, str(error), target)
        answer = redirect(address)
        self._auth.keep_begun(answer, begun)
        return answer

    async def back(self, request: web.Request) -> web.StreamResponse:
        """Begin the session of a person whom the provider sent back."""
        provider, begun = self._auth.known.provider, self._auth.begun(request)
        state, code = (request.query.get(name, "") for name in ("state", "code"))
        origin = self._auth.origin(request)
        if (
            provider is None
            or begun is None
            or not hmac.compare_digest(state.encode(errors="replace"), begun.state.encode())
        ):
            return self._form(403, "This browser did not start signing in here; start again.")
        if not code:
            return self._form(403, "The provider signed nobody in; start again.", begun.target)
        try:
            person = await asyncio.to_thread(provider.finish, self._back(request), code, begun)
            user = self._auth.known.roles.user(*person)
        except TrnbotError as error:
            audit("sign in", "refused", origin=origin, by="provider", because=str(error))
            status = 403 if isinstance(error, NotAllowed) else 503
            return self._form(status, str(error), begun.target)

        audit("sign in", "done", user, origin=origin, by="provider")
        # The browser sends its new cookie only to a page that this console itself leads to.
        again = web.Response(
            text=AGAIN.replace('content="0"', f'content="0; url={escape(begun.target)}"'),
            content_type="text/html",
        )
        self._auth.begin(again, packed(person))
        return again

    def _back(self, request: web.Request) -> str:
        site = self._public_url or f"{request.scheme}://{request.host}"
        return f"{site}{BACK_PATH}"

    def _form(self, status: int, problem: str = "", target: str = "/") -> web.Response:
        provider = ""
        if self._auth.known.provider:
            provider = f"{PROVIDER_PATH}?to={quote(target, safe='')}"
        return self._pages.response(
            "login.html",
            status,
            problem=problem,
            target=target,
            by_token=self._auth.by_token,
            provider=provider,
        )


class StartingPages:
    """Implement `bot.ports.Listener` for the time before anything can be answered.

    `/healthz` and the API say that the bot starts, and every page waits for the console instead of failing.
    `doing` says how far it is.
    """

    def __init__(self, doing: Callable[[], str]) -> None:
        self._doing = doing
        self._pages = PageRenderer(token="", title="trnbot")

    def routes(self) -> Sequence[Any]:
        """Return a route for whatever is asked."""

        async def healthz(_: web.Request) -> web.StreamResponse:
            health = {"ok": False, "starting": True, "problem": self._doing()}
            return _brief(web.json_response(health, status=503))

        async def livez(_: web.Request) -> web.StreamResponse:
            return _brief(web.json_response({"ok": True}))

        async def program(_: web.Request) -> web.StreamResponse:
            refusal = {"error": f"trnbot is starting: {self._doing()} Try again in a moment."}
            return _brief(web.json_response(refusal, status=503))

        async def page(_: web.Request) -> web.StreamResponse:
            # The console's frame without anything in it, which asks anew until the console answers.
            return _brief(self._pages.response("starting.html", 503, doing=self._doing()))

        async def later(_: web.Request) -> web.StreamResponse:
            # The sender of a press, a command or an event tries again.
            text = f"trnbot is starting: {self._doing()} Try again in a moment.\n"
            return _brief(web.Response(text=text, status=503))

        return (
            web.get("/livez", livez),
            web.get("/healthz", healthz),
            web.get("/readyz", healthz),
            web.route("*", f"{API}{{path:.*}}", program),
            *static_routes(),
            web.get("/{path:.*}", page),
            web.route("*", "/{path:.*}", later),
        )

    async def start(self) -> None:
        """Do nothing: the pages wait for their readers."""

    async def stop(self) -> None:
        """Do nothing."""


def _brief(response: web.Response) -> web.Response:
    """Let the connection go with the response: the next one is answered by whoever answers then."""
    response.headers["Retry-After"] = "2"
    response.force_close()
    return response
