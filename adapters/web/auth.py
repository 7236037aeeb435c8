"""Ask for the console's token where others can reach it.

Once in the browser, in a header from a program.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

from aiohttp import web

from adapters.web.html import PageRenderer
from bot.ports import DocumentStore

LOGIN_PATH = "/login"
LOGOUT_PATH = "/logout"
_ENDED = "web.sign-outs"
"""The collection of sessions that were signed out of, kept until their cookies end by themselves."""
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
            self._wrong = {one: recent for one in self._wrong if (recent := self._recent(one))}

    def _recent(self, network: str) -> list[float]:
        since = self._seconds() - _WITHIN_S
        return [at for at in self._wrong.get(network, ()) if at > since]


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
        self._token, self._documents, self._secure, self._seconds = (
            token.encode(),
            documents,
            secure,
            seconds,
        )
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
        kind, _, shown = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self.opens(shown.strip(), request.remote or "")
        session = self._session(request)
        return session is not None and not await self._ended(session)

    def reader(self, request: web.Request) -> str:
        """Name who reads, among those admitted.

        The session of a browser that signed in, else the address.
        """
        session = (
            self._session(request)
            if self._token and "Authorization" not in request.headers
            else None
        )
        return session.id if session else _network(request.remote or "")

    def opens(self, shown: str, address: str) -> bool:
        """Return whether this is the token.

        Raise 429 for an address that guessed too often, whatever it shows.
        """
        if self._guesses.exhausted(address):
            raise web.HTTPTooManyRequests(
                text=f"{_REFUSED}\n", headers={"Retry-After": str(int(_WITHIN_S))}
            )
        right = hmac.compare_digest(shown.encode(errors="replace"), self._token)
        if not right:
            self._guesses.count(address)
        return right

    def begin(self, answer: web.StreamResponse) -> None:
        """Give the browser the cookie of a new session, which no script reads and no other site sends."""
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
        if session := self._session(request):
            await asyncio.to_thread(self._forget, session)
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
        id_, _, rest = request.cookies.get(self._cookie, "").partition(".")
        until, _, sign = rest.partition(".")
        if not until.isdecimal() or not until.isascii() or len(until) > 12:  # digits of a second
            return None
        session = Session(id_, int(until))
        genuine = hmac.compare_digest(sign.encode(errors="replace"), self._sign(session).encode())
        return session if genuine and session.until >= self._seconds() else None

    def _sign(self, session: Session) -> str:
        return hmac.digest(
            self._token, f"session {session.id} {session.until}".encode(errors="replace"), "sha256"
        ).hex()

    async def _ended(self, session: Session) -> bool:
        return await asyncio.to_thread(self._documents.get, _ENDED, session.id) is not None

    def _forget(self, session: Session) -> None:
        """Keep that a session ended, and drop those whose cookies are over anyway."""
        for id_, document in self._documents.newest(_ENDED, _ADDRESSES):
            if int(document.get("until", 0)) < self._seconds():
                self._documents.drop(_ENDED, id_)
        self._documents.put(_ENDED, session.id, {"until": session.until})


class LoginPage:
    """Ask for the token in the browser, give the cookie for it, and take it back."""

    def __init__(self, auth: ConsoleAuth, pages: PageRenderer) -> None:
        self._auth, self._pages = auth, pages

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Ask for the console's token."""
        there = own_path(request.query.get("to", ""))
        return _to(there) if await self._auth.admits(request) else self._form(200, there=there)

    async def enter(self, request: web.Request) -> web.StreamResponse:
        """Let in who knows the token; who does not waits, so that guessing takes its time."""
        filled = await request.post()
        shown, there = str(filled.get("secret", "")), own_path(str(filled.get("to", "")))
        try:
            opened = self._auth.opens(shown, request.remote or "")
        except web.HTTPTooManyRequests as error:
            return self._form(error.status, _REFUSED, there)
        if not opened:
            await asyncio.sleep(_WRONG_S)
            return self._form(403, "That token is wrong.", there)
        answer = _to(there)
        self._auth.begin(answer)
        return answer

    async def leave(self, request: web.Request) -> web.StreamResponse:
        """Sign this browser out."""
        answer = _to(LOGIN_PATH)
        await self._auth.end(request, answer)
        return answer

    def _form(self, status: int, problem: str = "", there: str = "/") -> web.Response:
        page = self._pages.page("login.html", problem=problem, there=there)
        return web.Response(status=status, text=page, content_type="text/html")


def refusal(request: web.Request) -> web.StreamResponse:
    """Send a person to the page that asks for the token; tell a program that it is missing."""
    if request.method == "GET" and "text/html" in request.headers.get("Accept", ""):
        there = own_path(request.path_qs)
        return _to(LOGIN_PATH if there == "/" else f"{LOGIN_PATH}?to={quote(there, safe='')}")
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
        known = ipaddress.ip_address(address)
    except ValueError:
        return address
    return (
        str(ipaddress.ip_network((known, 64), strict=False)) if known.version == 6 else str(known)
    )
