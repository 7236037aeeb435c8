"""Let readers in: by who they are or by the console's token where others can reach it.

What another site makes a browser send is refused; a link from there shows pages and does nothing.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from urllib.parse import quote, urlsplit

from aiohttp import web

from adapters.web.html import PageRenderer
from adapters.web.people import (
    READER,
    Known,
    SigningIn,
    Visitor,
    is_token,
    packed,
    token_visitor,
    unpacked,
)
from bot.errors import NotAllowed
from bot.ports import DocumentStore
from bot.ports.work import CONNECTION, Asker, asked_by, audit

LOGIN_PATH = "/login"
_ENDED = "web.sign-outs"
"""The collection of sessions that were signed out of, until their cookies end by themselves."""
_LASTS_S = 7 * 86_400
_PERSON_LASTS_S = 12 * 3_600
"""A person signs in each working day, so that who left the provider is out by the next."""
_SIGNING_IN_S = 600
"""How long a person may take at the provider."""
_GUESSES, _WITHIN_S = 10, 60.0
"""Wrong tokens that one address may show within so many seconds, one after the other or at once."""
_ADDRESSES = 10_000
_OWN_PATH = re.compile(r"/(?:[\w.~%-][\w.~%/-]*)?(?:\?[\w.~%&=+/-]*)?", re.ASCII)
"""A path whose second letter is no slash, which would make it another site's address."""
TOO_MANY = "Too many wrong tokens came from this address; wait a minute."

Seconds = Callable[[], float]


class Guesses:
    """Count the wrong tokens of each address in memory.

    Past the most, the right one is not looked at either.
    """

    def __init__(self, seconds: Seconds) -> None:
        self._seconds = seconds
        self._wrong: dict[str, list[float]] = {}

    def check(self, address: str) -> None:
        """Raise 429 for an address that must wait."""
        if len(self._recent(_network(address))) >= _GUESSES:
            raise web.HTTPTooManyRequests(
                text=f"{TOO_MANY}\n", headers={"Retry-After": str(int(_WITHIN_S))}
            )

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
    """Hold one signing in: an id of its own, the second in which it ends, and the person."""

    id: str
    until: int
    person: str = ""
    """Name, name to show and groups as `packed`; "" where the shared token was shown."""


class ConsoleAuth:
    """Let in who is known, shows a token, or a cookie of a session that began so.

    With an empty token and no way to know people, everyone.
    """

    def __init__(
        self,
        token: str,
        documents: DocumentStore,
        *,
        secure: bool,
        known: Known | None = None,
        seconds: Seconds = time.time,
    ) -> None:
        self._token, self._documents = token.encode(), documents
        self.known = known or Known()
        # Whoever knows the shared token must not be able to sign a session of somebody else.
        self._shared_key = self.known.secret or self._token
        self._key = self._shared_key or secrets.token_bytes(32)
        self._secure, self._seconds = secure, seconds
        self._guesses = Guesses(seconds)
        self._cookie = "__Host-trnbot_console" if secure else "trnbot_console"
        """Browsers take a cookie of the first name by TLS alone, for this one host.

        No sister site can plant it.
        """
        self._begun = "__Host-trnbot_signing_in" if secure else "trnbot_signing_in"

    @property
    def locked(self) -> bool:
        """Return whether anything is asked for."""
        return self.by_token or self.known.any

    @property
    def by_token(self) -> bool:
        """Return whether the shared token opens the console."""
        return bool(self._token)

    async def admits(self, request: web.Request) -> bool:
        """Return whether a request may see the console."""
        return await self.visitor(request) is not None

    async def visitor(self, request: web.Request) -> Visitor | None:
        """Return who asks, None for nobody who is let in.

        Every comparison takes the same time whatever is wrong. Raise 403 for a person without a
        role.
        """
        network = _network(self.origin(request))
        kind, _, secret = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() == "bearer" and (self.locked or is_token(secret.strip())):
            return await self._by_token(secret.strip(), network)
        if not self.locked:
            return Visitor(READER, f"web:{network}")
        try:
            if self.known.proxy and (user := self.known.proxy.named(request, self.known.roles)):
                return Visitor(user, user.id)
        except NotAllowed as error:
            audit("sign in", "refused", origin=network, by="proxy", because=str(error))
            raise web.HTTPForbidden(text=f"{error}\n") from None

        session = self._session(request)
        return await self._of_session(session) if session else None

    def proxied(self, request: web.Request) -> bool:
        """Return whether it is a proxy that says who asks, whatever this console ends or begins."""
        proxy = self.known.proxy
        return bool(proxy and proxy.user in request.headers and not proxy.stranger(request))

    def misnamed(self, request: web.Request) -> str:
        """Return why the headers that name a person do not count, "" where there are none."""
        address = self.known.proxy.stranger(request) if self.known.proxy else ""
        if not address:
            return ""
        return (
            f"The request came from {address}, which is none of TRNBOT_WEB_PROXIES, so its header"
            " that names a person does not count."
        )

    async def _of_session(self, session: Session) -> Visitor | None:
        """Return who signed in, None where they signed out or have no role any more."""
        if await asyncio.to_thread(self._documents.get, _ENDED, session.id) is not None:
            return None
        if not session.person:
            return Visitor(READER, f"web:{session.id}") if self._token else None
        # The role is that of now: a rule that was taken away ends what a session may do.
        try:
            user = self.known.roles.user(*unpacked(session.person))
        except NotAllowed:
            return None
        return Visitor(user, user.id)

    async def _by_token(self, shown: str, network: str) -> Visitor | None:
        """Return the program of a token, or the reader of the shared one."""
        if not is_token(shown):
            return Visitor(READER, f"web:{network}") if self.opens(shown, network) else None
        self._guesses.check(network)
        program = await asyncio.to_thread(token_visitor, self._documents, shown, self._seconds())
        if program is None:
            self._guesses.count(network)
            audit("token", "refused", origin=network)
        return program

    def origin(self, request: web.Request) -> str:
        """Return the address that a request came from."""
        proxy = self.known.proxy
        return proxy.origin(request) if proxy else request.remote or ""

    def opens(self, secret: str, address: str) -> bool:
        """Return whether this is the token.

        Raise 429 for an address that guessed too often, whatever it shows.
        """
        self._guesses.check(address)
        # The same time is taken whichever letter is wrong.
        right = hmac.compare_digest(secret.encode(errors="replace"), self._token)
        if not right or not self._token:
            self._guesses.count(address)
            return False
        return True

    def begin(self, answer: web.StreamResponse, person: str = "") -> None:
        """Give the browser the cookie of a new session: no script reads it, no other site sends it."""
        lasts = _PERSON_LASTS_S if person else _LASTS_S
        session = Session(secrets.token_hex(16), int(self._seconds()) + lasts, person)
        parts = (session.id, str(session.until), *filter(None, (person,)), self._sign(session))
        answer.set_cookie(
            self._cookie,
            ".".join(parts),
            max_age=lasts,
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
        key = self._shared_key
        return hmac.digest(key, b"form", "sha256").hex() if key else fallback

    def keep_begun(self, answer: web.StreamResponse, begun: SigningIn) -> None:
        """Have the browser keep what it began at the provider, until it is sent back."""
        word = packed((int(self._seconds()) + _SIGNING_IN_S, *vars(begun).values()))
        # The provider's page sends it back here, which the strictest cookie would not follow.
        answer.set_cookie(
            self._begun,
            f"{word}.{self._signed(f'begun {word}')}",
            max_age=_SIGNING_IN_S,
            path="/",
            httponly=True,
            samesite="Lax",
            secure=self._secure,
        )

    def begun(self, request: web.Request) -> SigningIn | None:
        """Return what this browser began, None where it began nothing or long ago."""
        word, _, sign = request.cookies.get(self._begun, "").partition(".")
        if not hmac.compare_digest(
            sign.encode(errors="replace"), self._signed(f"begun {word}").encode()
        ):
            return None
        until, *parts = unpacked(word)
        return SigningIn(*parts) if until >= self._seconds() else None

    def _session(self, request: web.Request) -> Session | None:
        """Return the session whose cookie this is, None where we did not write it or it is over."""
        id_, _, rest = request.cookies.get(self._cookie, "").partition(".")
        signed, _, sign = rest.rpartition(".")
        until, _, person = signed.partition(".")
        if not until.isdecimal() or not until.isascii() or len(until) > 12:  # digits of a second
            return None

        session = Session(id_, int(until), person)
        genuine = hmac.compare_digest(sign.encode(errors="replace"), self._sign(session).encode())
        if session.person and self.known.provider is None:
            return None
        return session if genuine and session.until >= self._seconds() else None

    def _sign(self, session: Session) -> str:
        # A session that the shared token began ends with that token, whatever key signs it.
        begun_by = session.person or hmac.digest(self._token, b"session", "sha256").hex()
        return self._signed(f"session {session.id} {session.until} {begun_by}")

    def _signed(self, text: str) -> str:
        return hmac.digest(self._key, text.encode(errors="replace"), "sha256").hex()


def refusal(
    request: web.Request, because: str = "", *, by_token: bool = True
) -> web.StreamResponse:
    """Send a person to the page where they sign in; tell a program that its token is missing."""
    if request.method == "GET" and "text/html" in request.headers.get("Accept", ""):
        target = own_path(request.path_qs)
        after = "" if target == "/" else f"?to={quote(target, safe='')}"
        return redirect(f"{LOGIN_PATH}{after}")

    if by_token:
        proof = "its token (TRNBOT_WEB_TOKEN), or one that 'trnbot tokens make' made"
    else:
        proof = "a person who signed in, or a token that 'trnbot tokens make' made"
    return web.Response(
        status=401,
        text=f"{because} The console asks for {proof}.\n".lstrip(),
        headers={"WWW-Authenticate": "Bearer"},
    )


def own_path(address: str) -> str:
    """Return a path of this console, with its query; "/" for anything that could lead elsewhere."""
    return address if _OWN_PATH.fullmatch(address) else "/"


def redirect(path: str) -> web.Response:
    """Send a browser to a path, which it opens by GET."""
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
AGAIN = (
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
    """Return the cause for which the browser sent this.

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
    """Wrap handlers; `host` is the name under which a proxy on this machine offers the console."""

    def __init__(
        self,
        *,
        token: str,
        auth: ConsoleAuth,
        pages: PageRenderer,
        host: str = "",
    ) -> None:
        self._token, self._auth, self._pages = token, auth, pages
        self._host = host

    def open(self, handler: RequestHandler) -> RequestHandler:
        """Check the host name, and that no other site sends this behind the person's back.

        A refusal is a page for a person, and a sentence for programs and the pages' own script.
        """

        async def guarded(request: web.Request) -> web.StreamResponse:
            try:
                self._check_host(request)
                if sender_of(request) is Sender.OTHER:
                    audit("request of another site", "refused", origin=self._auth.origin(request))
                    raise web.HTTPForbidden(
                        text="Another site sent this; open the console and type the line there.\n"
                    )
                return await handler(request)
            except web.HTTPClientError as error:
                by_person = "text/html" in request.headers.get("Accept", "")
                if not by_person or OWN_HEADER in request.headers:
                    raise
                page = self._pages.response("refused.html", error.status, sentence=error.text)
                if "Retry-After" in error.headers:
                    page.headers["Retry-After"] = error.headers["Retry-After"]
                return page

        return guarded

    def read(self, handler: RequestHandler) -> RequestHandler:
        """Check also that the console lets the reader in.

        The handler answers by their share, for as long as they wait.
        """

        async def guarded(request: web.Request) -> web.StreamResponse:
            if visitor := await self._auth.visitor(request):
                if not visitor.sees(request.path):
                    raise web.HTTPForbidden(
                        text="This token may only read /metrics and /healthz.\n"
                    )
                asker = CONNECTION.get() or Asker()
                asker.share, asker.lines = visitor.share, visitor.lines
                asker.user, asker.origin = visitor.user, self._auth.origin(request)
                with asked_by(asker):
                    return await handler(request)
            if sender_of(request) is Sender.LINK:
                return web.Response(text=AGAIN, content_type="text/html")
            if because := self._auth.misnamed(request):
                origin = self._auth.origin(request)
                audit("sign in", "refused", origin=origin, by="proxy", because=because)
            return refusal(request, because, by_token=self._auth.by_token)

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
                    text="Only this console's own pages may send this; a program may read.\n"
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
        local, loopback, name = request.get_extra_info("sockname"), False, ""
        with suppress(ValueError):
            loopback = ipaddress.ip_address(str(local[0]) if local else "").is_loopback
        with suppress(ValueError):
            # Without its port; an IPv6 address without its brackets.
            name = urlsplit(f"//{request.headers.get('Host', '')}").hostname or ""

        own = [self._host] if self._host else []
        if loopback and name.lower() not in (*_LOOPBACK_NAMES, *own):
            names = " and ".join(["localhost", *own])
            raise web.HTTPMisdirectedRequest(text=f"This console answers to {names} only.\n")


def _ours(address: str, request: web.Request) -> bool:
    """Return whether an address is of the host that this request is for."""
    try:
        return urlsplit(address).netloc.lower() == request.headers.get("Host", "").lower() != ""
    except ValueError:
        return False
