"""One port, many listeners: one that cannot start does not hold up the others, and all are stopped."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import urlencode

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestClient, TestServer
from yarl import URL

from adapters import http
from adapters.chat.slack.surface import EVENTS_PATH, SlackSurface
from adapters.chat.teams.surface import PATH
from adapters.store.memory import MemoryStore
from bot.errors import Unavailable
from bot.ports.chat import ANY_PAGE
from tests.e2e.slackserver import free_port
from tests.slack.conftest import Bot, FakeSlack, config, ports, slack
from tests.slack.test_forged import signed

fake_slack = slack

SECRET = "a token\nTRACE forged line"


class Door:
    """A listener with one page; it fails to start as often as it is told to."""

    def __init__(self, path: str, failures: int = 0, stopped: list[str] | None = None) -> None:
        self.path, self.failures, self.events = path, failures, list[str]()
        self.stopped = [] if stopped is None else stopped

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
        self.stopped.append(self.path)


async def test_a_door_that_cannot_open_does_not_close_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "_RETRY_S", 0.05)
    stopped: list[str] = []
    good, late = Door("/good", stopped=stopped), Door("/late", 2, stopped)
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
    assert stopped == ["/late", "/good"]


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
    monkeypatch.setattr(http, "_HEADER_S", 0.3)
    monkeypatch.setattr(http, "_LATE_S", 0.3)
    url = URL(await served(Door("/page"), Failing("/fails")))
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(sent)
    assert await closed_after(reader) == b""
    writer.close()


async def test_a_caller_who_has_asked_once_may_ask_again_later(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_HEADER_S", 0.05)
    url = URL(await served(Door("/page")))
    reader, writer = await asyncio.open_connection(url.host, url.port)
    for _ in range(2):
        writer.write(b"GET /page HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n/page")).startswith(b"HTTP/1.1 200")
        await asyncio.sleep(0.1)
    writer.close()


async def test_connections_are_bounded_and_a_newcomer_takes_the_place_of_who_waits_longest(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_CONNECTIONS", 3)
    monkeypatch.setattr(http, "_RESERVED", 1)
    url = URL(await served(Door("/page"), Waiting("/waits"), Door("/api/messages")))
    first, *others = [await asyncio.open_connection(url.host, url.port) for _ in range(3)]
    await asyncio.sleep(0.05)
    async with ClientSession() as session, session.get(url / "page") as answer:
        assert await answer.text() == "/page"
    assert await closed_after(first[0]) == b""

    # Who is answered keeps the place; the last ones are for what a platform has signed.
    for _, writer in others:
        writer.write(b"GET /waits HTTP/1.1\r\nHost: x\r\n\r\n")
    await asyncio.sleep(0.1)
    async with ClientSession() as session:
        async with session.get(url / "page") as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (503, "2")
        async with session.get(url / "api" / "messages") as answer:
            assert answer.status == 200
    for _, writer in (first, *others):
        writer.close()


async def test_an_address_has_a_bound_of_its_own_unless_it_is_a_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "_AN_ADDRESS", 2)
    connections = http.Connections([ipaddress.ip_network("10.0.0.0/8")])
    crowd = [Wire("192.0.2.1") for _ in range(4)]
    others = [Wire("192.0.2.2"), *(Wire("10.1.2.3") for _ in range(4)), Wire("::1")]
    admitted = [connections.admit(wire) for wire in (*others, *crowd)]
    assert all(admitted)
    assert [wire.is_closing() for wire in crowd] == [True, True, False, False]
    assert not any(wire.is_closing() for wire in others)


class Waiting(Door):
    """A listener whose page is never finished."""

    def routes(self) -> Sequence[Any]:
        async def page(_: web.Request) -> web.Response:
            await asyncio.sleep(60)
            return web.Response()

        return [web.get(self.path, page)]


def test_the_reserve_is_for_the_paths_of_the_platforms() -> None:
    assert set(http.SIGNED) == {EVENTS_PATH, PATH}


class Wire(asyncio.Transport):
    """Stand for a connection from an address."""

    def __init__(self, address: str) -> None:
        super().__init__({"peername": (address, 1)})
        self._aborted = False

    def is_closing(self) -> bool:
        return self._aborted

    def abort(self) -> None:
        self._aborted = True


async def test_500_idle_and_200_slow_connections_keep_no_platform_waiting(
    served: Served, slack: FakeSlack, caplog: pytest.LogCaptureFixture
) -> None:
    """Of one address, as from behind one proxy: half of the slow ones drip a header, half a body."""
    bot, shelf = Bot(), MemoryStore()
    surface = SlackSurface(config(slack, bot_token="xoxb-secret-token"), ports(bot, shelf))
    url = URL(await served(surface, Door("/page")))
    head = b"GET /page HTTP/1.1\r\nHost: x\r\nX-Slow: "
    body = b"POST /slack/events HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n"
    held = []
    for sent in [b""] * 500 + [head, body] * 100:
        _, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(sent)
        held.append(writer)

    fields = {"command": "/trn", "team_id": "T1", "user_id": "U1", "channel_id": "C1"}
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    slowest_s = 0.0
    async with ClientSession() as session:
        for number in range(10):
            began, sent_body = time.monotonic(), urlencode(fields | {"text": f"cost {number + 1}d"})
            headers = signed(sent_body) | form
            events = url / "slack" / "events"
            async with session.post(events, data=sent_body, headers=headers) as answer:
                assert answer.status == 200
            slowest_s = max(slowest_s, time.monotonic() - began)
    caplog.set_level("INFO")
    logging.getLogger("tests").info("the slowest of ten signed requests: %.3f s", slowest_s)
    for writer in held:
        writer.close()


async def test_an_unknown_address_is_a_page_for_who_reads_and_a_refusal_for_all_else() -> None:
    async def lost(_: web.Request) -> web.StreamResponse:
        return web.Response(status=404, text="lost")

    class Pages(Door):
        def routes(self) -> Sequence[Any]:
            return [*super().routes(), web.get(ANY_PAGE, lost)]

    async with TestClient(TestServer(http.application([Pages("/page")]))) as client:
        answers = [
            (method, path, answer.status, await answer.text() == "lost")
            for method, path in (("GET", "/x"), ("POST", "/x"), ("POST", "/page"), ("GET", "/page"))
            for answer in [await client.request(method, path)]
        ]
    assert answers == [
        ("GET", "/x", 404, True),
        ("POST", "/x", 404, False),
        ("POST", "/page", 405, False),
        ("GET", "/page", 200, False),
    ]
