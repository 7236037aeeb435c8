"""One port, many listeners: one that cannot start does not hold up the others, and all are stopped."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from typing import Any

import pytest
from aiohttp import ClientSession, web

from adapters import http
from bot.errors import Unavailable
from tests.e2e.slackserver import free_port


class Door:
    """A listener with one page; it fails to start as often as it is told to."""

    def __init__(self, path: str, failures: int = 0) -> None:
        self.path, self.failures, self.events = path, failures, list[str]()

    def routes(self) -> Sequence[Any]:
        async def page(_: web.Request) -> web.Response:
            return web.Response(text=self.path)

        return [web.get(self.path, page)]

    async def start(self) -> None:
        if self.failures:
            self.failures -= 1
            raise Unavailable("The chat cannot be reached.")
        self.events.append("started")

    async def stop(self) -> None:
        self.events.append("stopped")


async def test_a_door_that_cannot_open_does_not_close_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_RETRY_S", 0.05)
    good, late = Door("/good"), Door("/late", failures=2)
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(http.serve([late, good], "127.0.0.1", free_port(), address.set_result))
    async with ClientSession() as session, session.get(f"{await address}good") as answer:
        assert await answer.text() == "/good"
    while not late.events:
        await asyncio.sleep(0.01)
    os.kill(os.getpid(), signal.SIGTERM)
    await serving
    assert good.events == late.events == ["started", "stopped"]


async def test_a_taken_port_is_one_sentence() -> None:
    port = free_port()
    taken = await asyncio.start_server(lambda _, __: None, "127.0.0.1", port)
    with pytest.raises(Unavailable, match=f"Port {port} on 127.0.0.1 cannot be used"):
        await http.serve([], "127.0.0.1", port, print)
    taken.close()
