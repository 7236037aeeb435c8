"""Ask for the console's token where others can reach it: once in the browser, in a header from a program."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Callable

from aiohttp import web

from adapters.web.html import PageRenderer

COOKIE = "trnbot_console"
LOGIN_PATH = "/login"
_LASTS_S = 7 * 86_400
_WRONG_S = 1.0
"""Seconds that a wrong token waits for its refusal."""

Seconds = Callable[[], float]


class ConsoleAuth:
    """Let in who shows the token, or a cookie that was made of it; with an empty token, everyone."""

    def __init__(self, token: str, *, secure: bool, seconds: Seconds = time.time) -> None:
        self._token, self._secure, self._seconds = token.encode(), secure, seconds

    @property
    def locked(self) -> bool:
        """Return whether a token is asked for."""
        return bool(self._token)

    def admits(self, request: web.Request) -> bool:
        """Return whether a request may see the console; every comparison takes the same time whatever is wrong."""
        if not self._token:
            return True
        kind, _, shown = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self.opens(shown.strip())
        cookie = request.cookies.get(COOKIE, "")
        until, _, _ = cookie.partition(".")
        genuine = hmac.compare_digest(cookie.encode(errors="replace"), self._pass(until).encode(errors="replace"))
        return genuine and int(until) >= self._seconds()

    def opens(self, shown: str) -> bool:
        """Return whether this is the token."""
        return hmac.compare_digest(shown.encode(errors="replace"), self._token)

    def enter(self, answer: web.StreamResponse) -> None:
        """Give the browser its cookie, which no script reads and no other site sends."""
        cookie = self._pass(str(int(self._seconds()) + _LASTS_S))
        answer.set_cookie(COOKIE, cookie, max_age=_LASTS_S, httponly=True, samesite="Strict", secure=self._secure)

    def form_token(self, fallback: str) -> str:
        """Return the proof that the console's own forms carry: the same in every process that shares the token."""
        return hmac.digest(self._token, b"form", "sha256").hex() if self._token else fallback

    def _pass(self, until: str) -> str:
        return f"{until}.{hmac.digest(self._token, f'pass {until}'.encode(errors='replace'), 'sha256').hex()}"


class LoginPage:
    """Ask for the token in the browser, and give the cookie for it."""

    def __init__(self, auth: ConsoleAuth, pages: PageRenderer) -> None:
        self._auth, self._pages = auth, pages

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Ask for the console's token."""
        return _home() if self._auth.admits(request) else self._form(200, wrong=False)

    async def enter(self, request: web.Request) -> web.StreamResponse:
        """Let in who knows the token; who does not waits, so that guessing takes its time."""
        if not self._auth.opens(str((await request.post()).get("secret", ""))):
            await asyncio.sleep(_WRONG_S)
            return self._form(403, wrong=True)
        answer = _home()
        self._auth.enter(answer)
        return answer

    def _form(self, status: int, *, wrong: bool) -> web.Response:
        return web.Response(status=status, text=self._pages.page("login.html", wrong=wrong), content_type="text/html")


def _home() -> web.Response:
    return web.Response(status=303, headers={"Location": "/"})


def refusal(request: web.Request) -> web.StreamResponse:
    """Send a person to the page that asks for the token; tell a program that it is missing."""
    if request.method == "GET" and "text/html" in request.headers.get("Accept", ""):
        return web.Response(status=303, headers={"Location": LOGIN_PATH})
    headers = {"WWW-Authenticate": "Bearer"}
    return web.Response(status=401, text="The console asks for its token (TRNBOT_WEB_TOKEN).\n", headers=headers)
