"""One port, many listeners: one that cannot start does not hold up the others, and all are stopped."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest
from aiohttp import ClientSession, web
from yarl import URL

from adapters import http
from bot.errors import Unavailable
from tests.e2e.slackserver import free_port

SECRET = "a token\nTRACE forged line"


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


async def test_a_door_that_cannot_open_does_not_close_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "_RETRY_S", 0.05)
    good, late = Door("/good"), Door("/late", failures=2)
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    begun: list[object] = []
    port = http.Port("127.0.0.1", free_port())
    serving = asyncio.create_task(http.serve([late, good], port, address.set_result, begun.append))
    async with ClientSession() as session, session.get(f"{await address}good") as answer:
        assert await answer.text() == "/good"
    while not late.events:
        await asyncio.sleep(0.01)
    os.kill(os.getpid(), signal.SIGTERM)
    await serving
    assert good.events == late.events == ["started", "stopped"]
    assert begun == [good, late]


async def test_a_taken_port_is_one_sentence() -> None:
    port = free_port()
    taken = await asyncio.start_server(lambda _, __: None, "127.0.0.1", port)
    with pytest.raises(Unavailable, match=f"Port {port} on 127.0.0.1 cannot be used"):
        await http.serve([], http.Port("127.0.0.1", port), print)
    taken.close()


async def test_the_port_is_open_before_its_listeners_are_there_and_hands_over_without_a_gap() -> (
    None
):
    port = http.Port("127.0.0.1", free_port())
    await port.answer_by([Door("/page")])
    first = port.address
    async with ClientSession() as session:
        async with session.get(f"{first}page") as answer:
            assert await answer.text() == "/page"
        await port.answer_by([Door("/other")])
        assert port.address == first
        async with session.get(f"{first}other") as answer:
            assert await answer.text() == "/other"
    await port.cleanup()


class Failing(Door):
    """A listener whose page fails, quoting the body that it was sent."""

    def routes(self) -> Sequence[Any]:
        async def page(request: web.Request) -> web.Response:
            raise ValueError(await request.text())

        return [web.post(self.path, page)]


Served = Callable[..., Awaitable[str]]


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    """Serve listeners on a free port as the bot does, until the test is over."""
    serving: list[asyncio.Task[None]] = []

    async def begin(*listeners: Door) -> str:
        address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        serving.append(
            asyncio.create_task(
                http.serve(listeners, http.Port("127.0.0.1", free_port()), address.set_result)
            )
        )
        return await address

    yield begin
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.gather(*serving)


async def closed_after(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(10):
        return await reader.read()


async def test_a_handler_that_fails_answers_one_sentence_and_logs_one_line_without_the_body(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    url = await served(Failing("/fails"))
    async with ClientSession() as session, session.post(f"{url}fails", data=SECRET) as answer:
        assert (answer.status, await answer.text()) == (
            500,
            "Something went wrong here; it was logged.",
        )
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert record.getMessage().startswith("POST '/fails' failed: ValueError at test_http.py:")
    assert record.exc_info is None
    assert "token" not in caplog.text


async def test_a_request_that_is_no_http_is_logged_in_one_line_without_its_words(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    url = URL(await served(Door("/page")))
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(b"GET /page HTTP/1.1\r\nHost: x\r\nAuthoriz\x00ation: a token\r\n\r\n")
    assert b" 400 " in await closed_after(reader)
    writer.close()
    assert [record for record in caplog.records if record.exc_info] == []
    assert "token" not in caplog.text


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /page HTTP/1.1\r\nHost: x\r\nX-Slow: ",
        b"POST /fails HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab",
    ],
    ids=["nothing", "half a header", "half a body"],
)
async def test_a_caller_who_does_not_finish_is_let_go(
    served: Served, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(http, "_IDLE_S", 0.3)
    monkeypatch.setattr(http, "_LATE_S", 0.3)
    url = URL(await served(Door("/page"), Failing("/fails")))
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(sent)
    assert await closed_after(reader) == b""
    writer.close()


async def test_connections_are_bounded_and_one_that_ends_makes_room(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_CONNECTIONS", 3)
    url = URL(await served(Door("/page")))
    held = [await asyncio.open_connection(url.host, url.port) for _ in range(3)]
    await asyncio.sleep(0.05)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    assert await closed_after(reader) == b"", "one too many is closed at once"
    for one in (writer, *(writer for _, writer in held)):
        one.close()
    await asyncio.sleep(0.05)
    async with ClientSession() as session, session.get(url / "page") as answer:
        assert await answer.text() == "/page"
