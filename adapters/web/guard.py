"""Refuse requests that another site makes a browser send.

A link from elsewhere shows pages and does nothing.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Awaitable, Callable, Collection
from enum import Enum, auto
from urllib.parse import urlsplit

from aiohttp import web

from adapters.web.auth import ConsoleAuth, refusal

RequestHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]

OWN_HEADER = "X-Trnbot"
"""A header that no other site may set without asking first (CORS preflight), which the console never grants."""

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
    if site is not None:
        return {"same-origin": Sender.OWN, "none": Sender.DIRECT}.get(
            site, _elsewhere(request, _is_navigation(request))
        )
    if origin is not None or (referer and _ours(referer, request)):
        return Sender.OWN
    return (
        _elsewhere(request, "text/html" in request.headers.get("Accept", ""))
        if referer
        else Sender.DIRECT
    )


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
        """Check also that this console's own page sent the request, and that it is no longer than a form."""
        return self.read(self._own(handler))

    def enter(self, handler: RequestHandler) -> RequestHandler:
        """Check that the console's own page sent the request, of a reader who did not show the token yet."""
        return self.open(self._own(handler))

    def _own(self, handler: RequestHandler) -> RequestHandler:
        async def guarded(request: web.Request) -> web.StreamResponse:
            if request.content_type not in (_FORM, _NOTHING):
                raise web.HTTPUnsupportedMediaType(text=f"Forms are sent as {_FORM}.\n")
            short = request.clone(client_max_size=_FORM_BYTES)
            await self._check_page(short)
            return await handler(short)

        return guarded

    def _check_host(self, request: web.Request) -> None:
        """Refuse foreign names for a loopback address.

        DNS rebinding makes the browser believe such a name is ours.
        """
        transport = request.transport
        local = transport.get_extra_info("sockname") if transport else None
        name = _name(request.headers.get("Host", ""))
        if (
            local
            and _loopback(str(local[0]))
            and name not in _LOOPBACK_NAMES
            and name not in self._hosts
        ):
            raise web.HTTPMisdirectedRequest(
                text="This console answers to localhost and 127.0.0.1 only.\n"
            )

    async def _check_page(self, request: web.Request) -> None:
        if sender_of(request) is not Sender.OWN:
            raise web.HTTPForbidden(
                text="No page of this console sent this; a program may read, and a person presses.\n"
            )
        if OWN_HEADER in request.headers:
            return
        token = str((await request.post()).get("token", ""))
        if not hmac.compare_digest(token.encode(errors="replace"), self._token.encode()):
            raise web.HTTPForbidden(
                text="The page is older than the console; reload it and try again.\n"
            )


def _elsewhere(request: web.Request, navigates: bool) -> Sender:
    return Sender.LINK if navigates and request.method == "GET" else Sender.OTHER


def _is_navigation(request: web.Request) -> bool:
    """Return whether the browser opens this as a page of its own.

    Not in a frame, not as a part of another.
    """
    mode, kind = (request.headers.get(name) for name in ("Sec-Fetch-Mode", "Sec-Fetch-Dest"))
    return (mode, kind) == ("navigate", "document")


def _ours(address: str, request: web.Request) -> bool:
    """Return whether an address is of the host that this request is for."""
    try:
        return urlsplit(address).netloc.lower() == request.headers.get("Host", "").lower() != ""
    except ValueError:
        return False


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
