"""The same tools beside the console, on the one port: official client, real server, the console's token."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from aiohttp.test_utils import TestClient, TestServer

from adapters.http import application
from adapters.store.memory import MemoryStore
from adapters.web.surface import WebConfig, WebSurface
from adapters.web.views import Console
from bot.answers.about.document import csv_text
from bot.cards.card import Tone
from bot.grammar.line import effect_of, window_of
from bot.ports.work import ASKER
from bot.settings.settings import read_settings
from bot.wiring.programs import program_listeners
from tests.guarded import Guarded, guarded, later
from tests.house.fakes import ask

if TYPE_CHECKING:  # imported where it is used: each worker would pay for it
    from mcp import Client

TOKEN = "a-token-of-the-console"


@asynccontextmanager
async def serving(
    bot: Guarded, token: str = "", public_url: str = "", *, mcp: bool = True
) -> AsyncIterator[TestClient]:
    """Serve a bot's console and its tools on one port."""
    console = Console(bot.answer, later, dict, str, effect_of, window_of, csv_text)
    web = WebSurface(WebConfig(secret=token), console, MemoryStore())

    async def now() -> datetime:
        return later()

    programs = program_listeners(bot.bot, now, web.admitting, public_url, mcp=mcp)
    client = TestClient(TestServer(application([web, *programs])))
    await client.start_server()
    for each in programs:
        await each.start()
    try:
        yield client
    finally:
        for each in programs:
            await each.stop()
        assert "mcp" not in {task.get_name() for task in asyncio.all_tasks()}, "it goes on"
        await client.close()


@asynccontextmanager
async def programs_of(
    served: TestClient, token: str = "", mode: str = "auto"
) -> AsyncIterator[Client]:
    """Return the official client at /mcp."""
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
        transport = streamable_http_client(str(served.make_url("/mcp")), http_client=http)
        async with Client(transport, mode=mode) as programs:
            yield programs


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_program_lists_calls_and_is_refused_over_http(mode: str) -> None:
    bot = await guarded("chat:U1")
    async with serving(bot, TOKEN) as served, programs_of(served, TOKEN, mode) as programs:
        assert {"cost", "alerts", "ask"} <= {
            tool.name for tool in (await programs.list_tools()).tools
        }
        answered = await programs.call_tool("alerts", {})
        wrong = await programs.call_tool("alerts", {"clutser": "x"})
        kept = await programs.call_tool("doctor", {})
    assert [alert["cause"] for alert in answered.structured_content["data"]["alerts"]] == [
        "starved"
    ]
    assert wrong.content[0].text == "'alerts' has no argument 'clutser'; did you mean 'cluster'?"
    assert kept.content[0].text.startswith("'doctor' is for admins")


async def test_a_person_applies_in_chat_what_was_previewed_over_http() -> None:
    bot = await guarded("chat:U1")
    before = bot.state()
    async with serving(bot) as served, programs_of(served) as programs:
        document = (
            await programs.call_tool("snooze", {"name": bot.alert, "length": "2h"})
        ).structured_content
        assert bot.state() == before, "a program changed something"
        assert document["apply"]["address"].startswith(str(served.make_url("/ask?line=snooze")))
        page = await (
            await served.get(
                document["apply"]["address"].removeprefix(str(served.make_url("/"))[:-1])
            )
        ).text()
        assert "It runs when you press Run." in page
        assert bot.state() == before, "opening the address changed something"
    card = await bot.bot.answer(ask(document["apply"]["line"], "chat:U1", later()))
    assert card.tone is Tone.GOOD, card


async def test_the_public_address_is_the_one_that_people_are_given() -> None:
    async with (
        serving(await guarded(), public_url="https://trn.example") as served,
        programs_of(served) as programs,
    ):
        document = (await programs.call_tool("silences_drop", {"name": "m1"})).structured_content
    assert document["apply"]["address"].startswith("https://trn.example/")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_program_has_a_share_of_its_own_as_a_browser_has(mode: str) -> None:
    shares = list[str | None]()
    bot = await guarded()
    answering = bot.bot.ask

    async def ask_noted(*asked: Any, **how: Any) -> Any:
        asker = ASKER.get()
        shares.append(asker.share if asker else None)
        return await answering(*asked, **how)

    bot.bot.ask = ask_noted
    async with serving(bot) as served, programs_of(served, mode=mode) as programs:
        await programs.call_tool("about", {})
    assert shares == ["web:127.0.0.1"]


CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
SPEAKS = {"Accept": "application/json, text/event-stream"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": f"Bearer {TOKEN}"}, 200),
        ({"Authorization": f"Bearer {TOKEN}", "Origin": "https://elsewhere.example"}, 403),
        ({"Authorization": f"Bearer {TOKEN}", "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Authorization": f"Bearer {TOKEN}", "Host": "rebound.example"}, 421),
    ],
    ids=[
        "no token",
        "wrong token",
        "token",
        "another site's page",
        "a page that hides its origin",
        "rebound name",
    ],
)
async def test_the_door_admits_whom_the_console_admits(
    headers: dict[str, str], status: int
) -> None:
    async with serving(await guarded(), TOKEN) as served:
        answer = await served.post("/mcp", json=CALL, headers={**SPEAKS, **headers})
        assert answer.status == status, await answer.text()


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"jsonrpc":"2.0"}', b"x" * 300_000], ids=len)
async def test_what_is_no_call_is_refused(body: bytes) -> None:
    async with serving(await guarded()) as served:
        answer = await served.post(
            "/mcp", data=body, headers={**SPEAKS, "Content-Type": "application/json"}
        )
        assert 400 <= answer.status < 500
        assert (await served.get("/mcp")).status == 405
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


async def test_it_is_not_there_where_the_settings_turn_it_off_and_the_api_is() -> None:
    async with serving(await guarded(), mcp=False) as served:
        answer = await served.post("/mcp", json=CALL, headers=SPEAKS)
        assert answer.status == 404
        assert (await served.get("/api/v1/alerts")).status == 200
    assert read_settings({})["mcp"] is True
    assert read_settings({"TRNBOT_MCP": "0"})["mcp"] is False
