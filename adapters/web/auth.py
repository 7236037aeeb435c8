"""Let readers in: by the console's token where others can reach it.

What another site makes a browser send is refused; a link from there shows pages and does nothing.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from enum import Enum, auto
from urllib.parse import quote, urlsplit

from aiohttp import web

from adapters.web.html import PageRenderer
from bot.ports import DocumentStore

LOGIN_PATH = "/login"
LOGOUT_PATH = "/logout"
_ENDED = "web.sign-outs"
"""The collection of sessions that were signed out of, until their cookies end by themselves."""
_LASTS_S = 7 * 86_400
_WRONG_S = 1.0
"""Seconds that a wrong token waits for its refusal."""
_GUESSES, _WITHIN_S = 10, 60.0
"""Wrong tokens that one address may show within so many seconds, one after the other or at once."""
_ADDRESSES = 10_000
_OWN_PATH = re.compile(r"/(?:[\w.~%-][\w.~%/-]*)?(?:\?[\w.~%&=+/-]*)?", re.ASCII)
"""A path whose second letter is no slash, which would make it another site's address."""
_REFUSED = "Too many wrong tokens came from this address; wait a minute."

Seconds = Callable[[], float]


class Guesses:
    """Count the wrong tokens of each address in memory.

    Past the most, the right one is not looked at either.
    """

    def __init__(self, seconds: Seconds) -> None:
        self._seconds = seconds
        self._wrong: dict[str, list[float]] = {}

    def exhausted(self, address: str) -> bool:
        """Return whether the address must wait."""
        return len(self._recent(_network(address))) >= _GUESSES

    def count(self, address: str) -> None:
        """Remember one wrong token."""
        network = _network(address)
        self._wrong[network] = [*self._recent(network), self._seconds()]
        if len(self._wrong) > _ADDRESSES:
            self._wrong = {name: times for name in self._wrong if (times := self._recent(name))}

    def _recent(self, network: str) -> list[float]:
        since = self._seconds() - _WITHIN_S
        return [second for second in self._wrong.get(network, ()) if second > since]


@dataclass(frozen=True)
class Session:
    """Hold one signing in: an id of its own, and the second in which it ends."""

    id: str
    until: int


class ConsoleAuth:
    """Let in who shows the token, or a cookie of a session that began with it.

    With an empty token, everyone.
    """

    def __init__(
        self, token: str, documents: DocumentStore, *, secure: bool, seconds: Seconds = time.time
    ) -> None:
        self._token, self._documents = token.encode(), documents
        self._secure, self._seconds = secure, seconds
        self._guesses = Guesses(seconds)
        self._cookie = "__Host-trnbot_console" if secure else "trnbot_console"
        """Browsers take a cookie of the first name by TLS alone, for this one host.

        No sister site can plant it.
        """

    @property
    def locked(self) -> bool:
        """Return whether a token is asked for."""
        return bool(self._token)

    async def admits(self, request: web.Request) -> bool:
        """Return whether a request may see the console.

        Every comparison takes the same time whatever is wrong.
        """
        if not self._token:
            return True
        kind, _, secret = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self.opens(secret.strip(), request.remote or "")

        session = self._session(request)
        if session is None:
            return False
        return await asyncio.to_thread(self._documents.get, _ENDED, session.id) is None

    def reader(self, request: web.Request) -> str:
        """Name who reads, among those admitted.

        The session of a browser that signed in, else the address.
        """
        session = None
        if self._token and "Authorization" not in request.headers:
            session = self._session(request)
        return session.id if session else _network(request.remote or "")

    def opens(self, secret: str, address: str) -> bool:
        """Return whether this is the token.

        Raise 429 for an address that guessed too often, whatever it shows.
        """
        if self._guesses.exhausted(address):
            raise web.HTTPTooManyRequests(
                text=f"{_REFUSED}\n", headers={"Retry-After": str(int(_WITHIN_S))}
            )
        # The same time is taken whichever letter is wrong.
        right = hmac.compare_digest(secret.encode(errors="replace"), self._token)
        if not right:
            self._guesses.count(address)
        return right

    def begin(self, answer: web.StreamResponse) -> None:
        """Give the browser the cookie of a new session: no script reads it, no other site sends it."""
        session = Session(secrets.token_hex(16), int(self._seconds()) + _LASTS_S)
        cookie = f"{session.id}.{session.until}.{self._sign(session)}"
        answer.set_cookie(
            self._cookie,
            cookie,
            max_age=_LASTS_S,
            path="/",
            httponly=True,
            samesite="Strict",
            secure=self._secure,
        )

    async def end(self, request: web.Request, answer: web.StreamResponse) -> None:
        """End the session of a request.

        Whoever holds its cookie, this browser or a thief, is let in no more.
        """

        def forget(session: Session) -> None:
            # Those whose cookies are over anyway need no longer be kept.
            for id_, document in self._documents.newest(_ENDED, _ADDRESSES):
                if int(document.get("until", 0)) < self._seconds():
                    self._documents.drop(_ENDED, id_)
            self._documents.put(_ENDED, session.id, {"until": session.until})

        if session := self._session(request):
            await asyncio.to_thread(forget, session)
        answer.del_cookie(
            self._cookie, path="/", httponly=True, samesite="Strict", secure=self._secure
        )

    def form_token(self, fallback: str) -> str:
        """Return the proof that the console's own forms carry.

        The same in every process that shares the token.
        """
        return hmac.digest(self._token, b"form", "sha256").hex() if self._token else fallback

    def _session(self, request: web.Request) -> Session | None:
        """Return the session whose cookie this is, None where we did not write it or it is over."""
        id_, _, signed = request.cookies.get(self._cookie, "").partition(".")
        until, _, sign = signed.partition(".")
        if not until.isdecimal() or not until.isascii() or len(until) > 12:  # digits of a second
            return None

        session = Session(id_, int(until))
        genuine = hmac.compare_digest(sign.encode(errors="replace"), self._sign(session).encode())
        return session if genuine and session.until >= self._seconds() else None

    def _sign(self, session: Session) -> str:
        return hmac.digest(
            self._token, f"session {session.id} {session.until}".encode(errors="replace"), "sha256"
        ).hex()


class LoginPage:
    """Ask for the token in the browser, give the cookie for it, and take it back."""

    def __init__(self, auth: ConsoleAuth, pages: PageRenderer) -> None:
        self._auth, self._pages = auth, pages

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Ask for the console's token."""
        target = own_path(request.query.get("to", ""))
        if await self._auth.admits(request):
            return _to(target)
        return self._form(200, target=target)

    async def enter(self, request: web.Request) -> web.StreamResponse:
        """Let in who knows the token; who does not waits, so that guessing takes its time."""
        filled = await request.post()
        secret, target = (str(filled.get(name, "")) for name in ("secret", "to"))
        target = own_path(target)
        try:
            opened = self._auth.opens(secret, request.remote or "")
        except web.HTTPTooManyRequests as error:
            return self._form(error.status, _REFUSED, target)
        if not opened:
            await asyncio.sleep(_WRONG_S)
            return self._form(403, "That token is wrong.", target)

        answer = _to(target)
        self._auth.begin(answer)
        return answer

    async def leave(self, request: web.Request) -> web.StreamResponse:
        """Sign this browser out."""
        answer = _to(LOGIN_PATH)
        await self._auth.end(request, answer)
        return answer

    def _form(self, status: int, problem: str = "", target: str = "/") -> web.Response:
        return self._pages.response("login.html", status, problem=problem, target=target)


def refusal(request: web.Request) -> web.StreamResponse:
    """Send a person to the page that asks for the token; tell a program that it is missing."""
    if request.method == "GET" and "text/html" in request.headers.get("Accept", ""):
        target = own_path(request.path_qs)
        return _to(LOGIN_PATH if target == "/" else f"{LOGIN_PATH}?to={quote(target, safe='')}")

    headers = {"WWW-Authenticate": "Bearer"}
    return web.Response(
        status=401, text="The console asks for its token (TRNBOT_WEB_TOKEN).\n", headers=headers
    )


def own_path(address: str) -> str:
    """Return a path of this console, with its query; "/" for anything that could lead elsewhere."""
    return address if _OWN_PATH.fullmatch(address) else "/"


def _to(path: str) -> web.Response:
    return web.Response(status=303, headers={"Location": path})


def _network(address: str) -> str:
    """Return the address, of IPv6 the 64 bits that one subscriber is given."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((ip, 64), strict=False) if ip.version == 6 else ip)


RequestHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]

OWN_HEADER = "X-Trnbot"
"""No other site may set it without asking first (CORS preflight), which the console never grants."""

_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
_FORM_BYTES = 64 * 1024
"""A form holds one line, whose every letter may take 12 bytes on the way."""
_FORM, _NOTHING = "application/x-www-form-urlencoded", "application/octet-stream"
_AGAIN = (
    '<!doctype html><meta http-equiv="refresh" content="0"><title>Opening…</title><p>Opening…</p>\n'
)
"""Loads the same address again, this time as the console's own page.

Only then the browser sends its cookie.
"""


class Sender(Enum):
    """Name the page that made a browser send a request, as the browser itself tells it."""

    OWN = auto()
    """A page of this console."""
    DIRECT = auto()
    """Nothing: a person opened the address, or a program asks, which is no browser."""
    LINK = auto()
    """A link on another site, which the person followed: the page opens in sight of its address."""
    OTHER = auto()
    """Another site, without the person: an image, a script, a frame, a form, a call."""


def sender_of(request: web.Request) -> Sender:
    """Return what made the browser send this.

    By Fetch Metadata, by `Origin` and `Referer` where there is none.

    Browsers leave Fetch Metadata out on plain HTTP to another machine, and some old ones always do.
    """
    site, origin, referer = (
        request.headers.get(name) for name in ("Sec-Fetch-Site", "Origin", "Referer")
    )
    if origin is not None and not _ours(origin, request):
        return Sender.OTHER
    if site in ("same-origin", "none"):
        return Sender.OWN if site == "same-origin" else Sender.DIRECT

    if site is not None:
        # The browser opens it as a page of its own: not in a frame, not as a part of another.
        mode, kind = (request.headers.get(name) for name in ("Sec-Fetch-Mode", "Sec-Fetch-Dest"))
        navigates = (mode, kind) == ("navigate", "document")
    elif origin is not None or (referer and _ours(referer, request)):
        return Sender.OWN
    elif not referer:
        return Sender.DIRECT
    else:
        navigates = "text/html" in request.headers.get("Accept", "")
    return Sender.LINK if navigates and request.method == "GET" else Sender.OTHER


class Guard:
    """Wrap handlers; `hosts` are names under which a proxy on this machine offers the console."""

    def __init__(self, *, token: str, auth: ConsoleAuth, hosts: Collection[str] = ()) -> None:
        self._token = token
        self._auth = auth
        self._hosts = frozenset(host.lower() for host in hosts)

    def open(self, handler: RequestHandler) -> RequestHandler:
        """Check the host name, and that no other site sends this behind the person's back."""

        async def guarded(request: web.Request) -> web.StreamResponse:
            self._check_host(request)
            if sender_of(request) is Sender.OTHER:
                raise web.HTTPForbidden(
                    text="Another site sent this; open the console and type the line there.\n"
                )
            return await handler(request)

        return guarded

    def read(self, handler: RequestHandler) -> RequestHandler:
        """Check also that the reader showed the console's token, where it asks for one."""

        async def guarded(request: web.Request) -> web.StreamResponse:
            if await self._auth.admits(request):
                return await handler(request)
            if sender_of(request) is Sender.LINK:
                return web.Response(text=_AGAIN, content_type="text/html")
            return refusal(request)

        return self.open(guarded)

    def by_token(self, full: RequestHandler, partial: RequestHandler) -> RequestHandler:
        """Serve one handler to readers who showed the token, and another to everyone else."""

        async def guarded(request: web.Request) -> web.StreamResponse:
            return await (full if await self._auth.admits(request) else partial)(request)

        return self.open(guarded)

    def write(self, handler: RequestHandler) -> RequestHandler:
        """Check also that this console's own page sent it, and that it is no longer than a form."""
        return self.read(self._own(handler))

    def enter(self, handler: RequestHandler) -> RequestHandler:
        """Check that the console's own page sent it, of a reader who did not show the token yet."""
        return self.open(self._own(handler))

    def _own(self, handler: RequestHandler) -> RequestHandler:
        async def guarded(request: web.Request) -> web.StreamResponse:
            if request.content_type not in (_FORM, _NOTHING):
                raise web.HTTPUnsupportedMediaType(text=f"Forms are sent as {_FORM}.\n")
            if sender_of(request) is not Sender.OWN:
                raise web.HTTPForbidden(
                    text="No page of this console sent this;"
                    " a program may read, and a person presses.\n"
                )

            short = request.clone(client_max_size=_FORM_BYTES)
            if OWN_HEADER not in request.headers:
                token = str((await short.post()).get("token", ""))
                if not hmac.compare_digest(token.encode(errors="replace"), self._token.encode()):
                    raise web.HTTPForbidden(
                        text="The page is older than the console; reload it and try again.\n"
                    )
            return await handler(short)

        return guarded

    def _check_host(self, request: web.Request) -> None:
        """Refuse foreign names for a loopback address.

        DNS rebinding makes the browser believe such a name is ours.
        """
        transport = request.transport
        local = transport.get_extra_info("sockname") if transport else None
        try:
            loopback = ipaddress.ip_address(str(local[0]) if local else "").is_loopback
        except ValueError:
            loopback = False
        try:
            # Without its port; an IPv6 address without its brackets.
            name = urlsplit(f"//{request.headers.get('Host', '')}").hostname or ""
        except ValueError:
            name = ""

        if loopback and name.lower() not in {*_LOOPBACK_NAMES, *self._hosts}:
            raise web.HTTPMisdirectedRequest(
                text="This console answers to localhost and 127.0.0.1 only.\n"
            )


def _ours(address: str, request: web.Request) -> bool:
    """Return whether an address is of the host that this request is for."""
    try:
        return urlsplit(address).netloc.lower() == request.headers.get("Host", "").lower() != ""
    except ValueError:
        return False
