"""Refuse requests that another site makes a browser send, and tell the browser to load nothing from elsewhere."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Awaitable, Callable, Collection
from urllib.parse import urlsplit

from aiohttp import web

from adapters.web.auth import ConsoleAuth, refusal

RequestHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
OWN_HEADER = "X-Trnbot"
"""A header that no other site may set without asking first (CORS preflight), which the console never grants."""

_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


class Guard:
    """Wrap handlers; `hosts` are names under which a proxy on this machine offers the console."""

    def __init__(self, *, token: str, auth: ConsoleAuth, hosts: Collection[str] = ()) -> None:
        self._token = token
        self._auth = auth
        self._hosts = frozenset(host.lower() for host in hosts)

    def open(self, handler: RequestHandler) -> RequestHandler:
        """Check the host name, and send the protective headers."""

        async def guarded(request: web.Request) -> web.StreamResponse:
            self._check_host(request)
            response = await handler(request)
            if not response.prepared:
                for name, value in HEADERS.items():
                    response.headers.setdefault(name, value)
            return response

        return guarded

    def read(self, handler: RequestHandler) -> RequestHandler:
        """Check also that the reader showed the console's token, where it asks for one."""

        async def guarded(request: web.Request) -> web.StreamResponse:
            return await handler(request) if self._auth.admits(request) else refusal(request)

        return self.open(guarded)

    def by_token(self, full: RequestHandler, partial: RequestHandler) -> RequestHandler:
        """Serve one handler to readers who showed the token, and another to everyone else."""

        async def guarded(request: web.Request) -> web.StreamResponse:
            return await (full if self._auth.admits(request) else partial)(request)

        return self.open(guarded)

    def write(self, handler: RequestHandler) -> RequestHandler:
        """Check also that this console's own page sent the request."""
        return self.read(self._own(handler))

    def enter(self, handler: RequestHandler) -> RequestHandler:
        """Check that the console's own page sent the request, of a reader who did not show the token yet."""
        return self.open(self._own(handler))

    def _own(self, handler: RequestHandler) -> RequestHandler:
        async def guarded(request: web.Request) -> web.StreamResponse:
            await self._check_sender(request)
            return await handler(request)

        return guarded

    def _check_host(self, request: web.Request) -> None:
        """Refuse foreign names for a loopback address: DNS rebinding makes the browser believe such a name is ours."""
        transport = request.transport
        local = transport.get_extra_info("sockname") if transport else None
        name = _name(request.headers.get("Host", ""))
        if local and _loopback(str(local[0])) and name not in _LOOPBACK_NAMES and name not in self._hosts:
            raise web.HTTPMisdirectedRequest(text="This console answers to localhost and 127.0.0.1 only.\n")

    async def _check_sender(self, request: web.Request) -> None:
        site = request.headers.get("Sec-Fetch-Site")
        origin = request.headers.get("Origin")
        if site not in (None, "same-origin") or (origin and urlsplit(origin).netloc != request.headers.get("Host")):
            raise web.HTTPForbidden(text="Another site sent this; open the console and type the line there.\n")
        if OWN_HEADER in request.headers:
            return
        token = str((await request.post()).get("token", ""))
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            raise web.HTTPForbidden(text="The page is older than the console; reload it and try again.\n")


def own_page(request: web.Request) -> bool:
    """Return whether the browser says that one of the console's own pages made the request."""
    return request.headers.get("Sec-Fetch-Site") == "same-origin"


def _name(host: str) -> str:
    """Return the host without its port, in lower case; an IPv6 address without its brackets."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
