"""Ask for the console's token where others can reach it: once in the browser, in a header from a program."""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from aiohttp import web

COOKIE = "trnbot_console"
LOGIN_PATH = "/login"
_LASTS_S = 7 * 86_400

Seconds = Callable[[], float]


class ConsoleAuth:
    """Let in who shows the token, or a cookie that was made of it; with an empty token, everyone."""

    def __init__(self, token: str, *, secure: bool, seconds: Seconds = time.time) -> None:
        self._token, self._secure, self._seconds = token.encode(), secure, seconds

    @property
    def locked(self) -> bool:
        """Tell whether a token is asked for."""
        return bool(self._token)

    def admits(self, request: web.Request) -> bool:
        """Tell whether a request may see the console; every comparison takes the same time whatever is wrong."""
        if not self._token:
            return True
        kind, _, shown = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self.opens(shown.strip())
        until, _, _ = (mine := request.cookies.get(COOKIE, "")).partition(".")
        genuine = hmac.compare_digest(mine.encode(errors="replace"), self._pass(until).encode(errors="replace"))
        return genuine and int(until) >= self._seconds()

    def opens(self, shown: str) -> bool:
        """Tell whether this is the token."""
        return hmac.compare_digest(shown.encode(errors="replace"), self._token)

    def enter(self, answer: web.StreamResponse) -> None:
        """Give the browser its cookie, which no script reads and no other site sends."""
        made = self._pass(str(int(self._seconds()) + _LASTS_S))
        answer.set_cookie(COOKIE, made, max_age=_LASTS_S, httponly=True, samesite="Strict", secure=self._secure)

    def form_token(self, otherwise: str) -> str:
        """Return what the console's own forms prove themselves by: the same in every process that shares the token."""
        return hmac.digest(self._token, b"form", "sha256").hex() if self._token else otherwise

    def _pass(self, until: str) -> str:
        return f"{until}.{hmac.digest(self._token, f'pass {until}'.encode(errors='replace'), 'sha256').hex()}"


def refusal(request: web.Request) -> web.StreamResponse:
    """Send a person to the page that asks for the token; tell a program that it is missing."""
    if request.method == "GET" and "text/html" in request.headers.get("Accept", ""):
        return web.Response(status=303, headers={"Location": LOGIN_PATH})
    headers = {"WWW-Authenticate": "Bearer"}
    return web.Response(status=401, text="The console asks for its token (TRNBOT_WEB_TOKEN).\n", headers=headers)


def host_of(public_url: str) -> tuple[str, ...]:
    """Return the name under which a proxy offers the console, none without one."""
    name = urlsplit(public_url).hostname
    return (name,) if name else ()
