"""Serve every listener on the one HTTP port, from start to signal."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web

from bot.errors import TrnbotError, Unavailable
from bot.ports import Listener
from bot.ports.work import CONNECTION, Asker

_log = logging.getLogger("trnbot.http")
_BODY_BYTES = 4 * 1024 * 1024
_RETRY_S = 30
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
"""Tell the browser, on every response whatever its status, to load nothing from elsewhere and to show it nowhere else."""


def application(listeners: Sequence[Listener]) -> web.Application:
    """Return the application of these listeners, which protects every response, errors too, and names no server."""
    served = web.Application(client_max_size=_BODY_BYTES, middlewares=[tell_leaving])
    served.on_response_prepare.append(_protect)
    for listener in listeners:
        served.add_routes(listener.routes())
    return served


async def _protect(_: web.Request, response: web.StreamResponse) -> None:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.pop("Server", None)


async def serve(listeners: Sequence[Listener], host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; call `ready` with the console's address once it answers.

    Raises `Unavailable` when the port is taken. What was started is stopped in the reverse order, whatever happens.
    """
    runner = web.AppRunner(application(listeners), access_log=None, shutdown_timeout=3, handler_cancellation=True)
    await runner.setup()
    started: list[Listener] = []
    starting: list[asyncio.Task[None]] = []
    try:
        address = await _listen(runner, host, port)
        starting = [asyncio.create_task(_start(listener, started)) for listener in listeners]
        ready(address)
        await _signalled()
    finally:
        for task in starting:
            task.cancel()
        for listener in reversed(started):
            await _stopped(listener)
        await runner.cleanup()


@web.middleware
async def tell_leaving(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Finish every request, and tell its handler when nobody waits: it alone knows whether it is in the middle of a change."""
    asker = Asker()
    CONNECTION.set(asker)
    answering = asyncio.ensure_future(handler(request))
    answering.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        return await asyncio.shield(answering)
    except asyncio.CancelledError:
        asker.leave()
        raise


async def _start(listener: Listener, started: list[Listener]) -> None:
    """Start a listener; one that cannot be reached does not hold up the others, and is tried again."""
    logged = ""
    while True:
        try:
            await listener.start()
        except TrnbotError as error:
            if str(error) != logged:
                _log.error("%s did not start, trying again every %d s: %s", type(listener).__name__, _RETRY_S, error)
            logged = str(error)
            await asyncio.sleep(_RETRY_S)
        except Exception:
            _log.exception("%s did not start", type(listener).__name__)
            return
        else:
            started.append(listener)
            return


async def _listen(runner: web.AppRunner, host: str, port: int) -> str:
    site = web.TCPSite(runner, host, port)
    try:
        await site.start()
    except OSError as error:
        raise Unavailable(f"Port {port} on {host} cannot be used ({error.strerror}); set TRNBOT_PORT to a free one.") from error
    taken = runner.addresses[0][1]
    return f"http://{'[' + host + ']' if ':' in host else host}:{taken}/"


async def _signalled() -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stop.set)
    await stop.wait()


async def _stopped(listener: Listener) -> None:
    try:
        await asyncio.wait_for(listener.stop(), 10)
    except Exception as error:  # noqa: BLE001,RUF100 - the others must still be stopped; the failure is logged
        _log.warning("%s did not stop cleanly: %s", type(listener).__name__, error)
