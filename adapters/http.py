"""Serve every listener on the one HTTP port, from start to signal.

A caller who is late, or one too many, is let go.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address
from pathlib import Path
from weakref import WeakSet

from aiohttp import web, web_response
from aiohttp.typedefs import Handler, Middleware

from bot.errors import TrnbotError, Unavailable
from bot.ports.chat import ANY_PAGE, Listener
from bot.ports.work import CONNECTION, Asker

_log = logging.getLogger("trnbot.http")
_BODY_BYTES = 4 * 1024 * 1024
_PATH_MOST = 200
_IDLE_S = 75.0
"""A connection without a whole header for so long is closed; proxies keep theirs a minute."""
_LATE_S = 20.0
"""A body that has not arrived by then ends its connection."""
_LINGER_S = 2.0
_HEADER_S = 10.0
"""A newcomer who has not sent a whole header by then is let go."""
_CONNECTIONS = 512
"""At most, so that files and the database keep their descriptors."""
_AN_ADDRESS = 128
"""Of one address, unless a proxy's: pages of several people and their streams."""
_RESERVED = 64
"""Of all, for platforms that sign what they send: only they are answered on the last ones."""
SIGNED = ("/slack/events", "/api/messages")
"""Where those platforms send to; a signature is checked there before anything is parsed."""
_RETRY_S = 30
STOP_S = 8.0
"""How long all listeners together may take to stop.

With what is answered still, a process ends in 12 s: `deploy/` gives it 15.
"""
_LEAST_STOP_S = 0.2
"""For each that comes after."""
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Tell the browser, on every response whatever its status, to load nothing from elsewhere.

And to show it nowhere else.
"""


def application(
    listeners: Sequence[Listener], connections: Connections | None = None
) -> web.Application:
    """Return the application of these listeners.

    It protects every response, errors too, and names no server.
    """
    bounded = [connections.answer] if connections else []
    routes = [route for listener in listeners for route in listener.routes()]
    pages = [route.handler for route in routes if route.path == ANY_PAGE]
    served = web.Application(
        client_max_size=_BODY_BYTES,
        middlewares=[contain, *bounded, tell_leaving, *map(missing_page, pages)],
    )
    served.on_response_prepare.append(_protect)
    # What is no HTTP is answered past the signal.
    web_response.SERVER_SOFTWARE = "trnbot"  # type: ignore[attr-defined]
    served.add_routes(route for route in routes if route.path != ANY_PAGE)
    return served


def missing_page(page: Handler) -> Middleware:
    """Return what answers a GET of an address that nobody listens at by this page.

    A route would also take addresses where something else than GET is listened for.
    """

    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        unknown = isinstance(request.match_info.http_exception, web.HTTPNotFound)
        return await (page if unknown and request.method == "GET" else handler)(request)

    return answer


async def _protect(_: web.Request, response: web.StreamResponse) -> None:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.pop("Server", None)


@web.middleware
async def contain(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer a handler's failure in one sentence, logged in one line without the request's words.

    Wait for no late body.
    """

    def abandon() -> None:
        if request.transport is not None and not request.content.is_eof():
            request.transport.abort()

    late = asyncio.get_running_loop().call_later(_LATE_S, abandon)
    try:
        return await handler(request)
    except (web.HTTPException, ConnectionError):
        raise
    except Exception as error:  # noqa: BLE001,RUF100 - the caller learns nothing of it
        # Its kind and its line of code are logged; its words may quote the request.
        place = type(error).__name__
        if frames := traceback.extract_tb(error.__traceback__):
            place += f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}"
        _log.error("%s %r failed: %s", request.method, request.path[:_PATH_MOST], place)

        # An answer that has begun cannot become another one.
        if request.writer.output_size:
            raise ConnectionResetError from None
        return web.Response(status=500, text="Something went wrong here; it was logged.")
    finally:
        late.cancel()


class _OneLine(logging.Filter):
    """Reduce what aiohttp logs of a request to its kind, in one line.

    Its words and traceback quote what the caller sent.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is kept, and shorten it."""
        if record.levelno < logging.WARNING:
            return False
        error = record.exc_info[1] if record.exc_info else None
        record.msg = "a request failed before it was understood (%s)"
        record.args = (type(error).__name__,)
        record.exc_info = record.exc_text = record.stack_info = None
        return True


_requests = logging.getLogger("trnbot.http.requests")
_requests.addFilter(_OneLine())


class Connections:
    """Bound the connections, of each address and of all.

    A newcomer who is one too many takes the place of who has waited longest and asks nothing.
    """

    def __init__(self, proxies: Sequence[IPv4Network | IPv6Network] = ()) -> None:
        self._proxies = proxies
        self._open: dict[asyncio.BaseTransport, str] = {}
        """Their addresses, in the order in which they last asked something."""
        self._answered: set[asyncio.BaseTransport] = set()
        self._asked: WeakSet[asyncio.BaseTransport] = WeakSet()

    def admit(self, transport: asyncio.Transport) -> bool:
        """Return whether a new connection may stay; let another one go where it must."""
        self._open = {link: at for link, at in self._open.items() if not link.is_closing()}
        address = str((transport.get_extra_info("peername") or ("",))[0])
        waiting = [link for link in self._open if link not in self._answered]
        crowd = ""
        if Counter(self._open.values())[address] >= _AN_ADDRESS and not self._shared(address):
            crowd = address
        elif len(self._open) >= _CONNECTIONS and waiting:
            # Of the address that has most of them: a crowd pushes out its like.
            ((crowd, _),) = Counter(map(self._open.__getitem__, waiting)).most_common(1)
        elif len(self._open) >= _CONNECTIONS:
            return False

        if crowd:
            oldest = next((link for link in waiting if self._open[link] == crowd), None)
            if not isinstance(oldest, asyncio.Transport):
                return False
            oldest.abort()
            del self._open[oldest]
        self._open[transport] = address
        return True

    def let_go(self, transport: asyncio.Transport) -> None:
        """End a connection that has asked nothing since it came."""
        if transport in self._open and transport not in self._asked:
            transport.abort()

    def _shared(self, address: str) -> bool:
        """Return whether many people come from an address: this machine's, or a proxy's."""
        try:
            ip = ip_address(address)
        except ValueError:
            return True
        return ip.is_loopback or any(ip in network for network in self._proxies)

    @web.middleware
    async def answer(
        self,
        request: web.Request,
        handler: Handler,
    ) -> web.StreamResponse:
        """Answer on one of the last connections only what a platform has signed."""
        transport = request.transport
        if transport is None:
            raise ConnectionResetError
        self._asked.add(transport)
        if len(self._answered) >= _CONNECTIONS - _RESERVED and request.path not in SIGNED:
            raise web.HTTPServiceUnavailable(
                text="Too many people are answered at once; try again in a moment.\n",
                headers={"Retry-After": "2"},
            )

        # Who has not sent the whole request may still be let go for another one.
        answering = True

        def whole() -> None:
            if answering:
                self._answered.add(transport)

        request.content.on_eof(whole)
        try:
            return await handler(request)
        finally:
            answering = False
            self._answered.discard(transport)
            if address := self._open.pop(transport, ""):
                self._open[transport] = address


class _Newcomer(asyncio.Protocol):
    """Hand a connection to who answers it, unless it is one too many or sends no whole header."""

    def __init__(self, connections: Connections, served: web.Server) -> None:
        self._connections, self._served = connections, served

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)
        if not self._connections.admit(transport):
            transport.close()
            return
        answering = self._served()
        transport.set_protocol(answering)
        answering.connection_made(transport)
        asyncio.get_running_loop().call_later(_HEADER_S, self._connections.let_go, transport)


class Port:
    """Hold the one HTTP port from the first moment.

    Whoever waits for the bot is answered by one listener, then by all.
    """

    def __init__(
        self, host: str, port: int, proxies: Sequence[IPv4Network | IPv6Network] = ()
    ) -> None:
        self._host, self._port = host, port
        self._connections = Connections(proxies)
        self._runner: web.AppRunner | None = None
        self._open: asyncio.Server | None = None

    @property
    def address(self) -> str:
        """Return the console's address, once the port is open."""
        assert self._open is not None, "opened before"
        port = self._open.sockets[0].getsockname()[1]
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{port}/"

    async def answer_by(self, listeners: Sequence[Listener]) -> None:
        """Have these listeners answer from now on, on the port that is open or is opened here.

        Raises `Unavailable` when the port is taken.
        """
        runner = web.AppRunner(
            application(listeners, self._connections),
            access_log=None,
            logger=_requests,
            shutdown_timeout=3,
            handler_cancellation=True,
            keepalive_timeout=_IDLE_S,
            lingering_time=_LINGER_S,
        )
        await runner.setup()

        # Whoever waits meanwhile is answered by the new listeners.
        before, self._runner = self._runner, runner
        if self._open is None:
            try:
                self._open = await asyncio.get_running_loop().create_server(
                    self._accept, self._host, self._port, backlog=128
                )
            except OSError as error:
                raise Unavailable(
                    f"Port {self._port} on {self._host} cannot be used ({error.strerror}); "
                    "set TRNBOT_PORT to a free one."
                ) from error
        if before is not None:
            await before.cleanup()

    def _accept(self) -> asyncio.BaseProtocol:
        """Answer a connection by whoever answers now."""
        assert self._runner is not None
        served = self._runner.server
        assert served is not None, "set up before"
        return _Newcomer(self._connections, served)

    def close(self) -> None:
        """Accept nothing any more."""
        if self._open is not None:
            self._open.close()

    async def cleanup(self) -> None:
        """End the requests that are still answered."""
        self.close()
        if self._runner is not None:
            await self._runner.cleanup()


async def serve(
    listeners: Sequence[Listener],
    port: Port,
    ready: Callable[[str], None],
    begun: Callable[[Listener], None] = lambda _: None,
) -> None:
    """Serve until SIGINT or SIGTERM; call `ready` with the console's address once it answers.

    And `begun` with each listener that has started. Raises `Unavailable` when the port is taken.
    What was started is stopped in the reverse order, whatever happens.
    """
    started: list[Listener] = []
    starting: list[asyncio.Task[None]] = []
    loop = asyncio.get_running_loop()
    try:
        await port.answer_by(listeners)

        async def start(listener: Listener) -> None:
            if await _start(listener):
                started.append(listener)
                begun(listener)

        starting = [asyncio.create_task(start(listener)) for listener in listeners]
        ready(port.address)
        stop = asyncio.Event()
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(name, stop.set)
        await stop.wait()
    finally:
        for task in starting:
            task.cancel()
        port.close()
        until_s = loop.time() + STOP_S
        for listener in reversed(started):
            try:
                await asyncio.wait_for(listener.stop(), max(_LEAST_STOP_S, until_s - loop.time()))
            except Exception as error:  # noqa: BLE001,RUF100 - the others must still be stopped
                _log.warning("%s did not stop cleanly: %s", type(listener).__name__, error)
        await port.cleanup()


@web.middleware
async def tell_leaving(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Finish every request, and tell its handler when nobody waits.

    It alone knows whether it is in the middle of a change.
    """
    asker = Asker()
    CONNECTION.set(asker)
    answering = asyncio.ensure_future(handler(request))
    answering.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        return await asyncio.shield(answering)
    except asyncio.CancelledError:
        asker.leave()
        raise


async def _start(listener: Listener) -> bool:
    """Start a listener; return whether it did.

    One that cannot be reached does not hold up the others, and is tried again.
    """
    name, logged = type(listener).__name__, ""
    while True:
        try:
            await listener.start()
        except TrnbotError as error:
            if str(error) != logged:
                _log.error("%s did not start, trying again every %d s: %s", name, _RETRY_S, error)
            logged = str(error)
            await asyncio.sleep(_RETRY_S)
        except Exception:
            _log.exception("%s did not start", name)
            return False
        else:
            return True
