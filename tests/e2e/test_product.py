"""The product in the real clients: ask, be alerted, acknowledge, hear the end, in one message."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from adapters.store.open import open_store
from tests.e2e.playground import playground
from tests.e2e.product import Product, product, recording
from tests.e2e.slackserver import (
    ALICE,
    APP_TOKEN,
    BOT_TOKEN,
    FINANCE,
    GENERAL,
    SECRET,
    SlackServer,
    free_port,
    slack_server,
)

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]
SPEED = "600"
"""Recorded time per real time: the idle hour of the tiny fleet lasts six seconds."""


async def until(look: Callable[[], Awaitable[Any]], what: str, seconds: float = 90) -> Any:
    """Return the first true result of `look`, or fail naming what never came."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := await look():
            return found
        await asyncio.sleep(0.1)
    raise AssertionError(f"never came: {what}")


async def message(
    server: SlackServer, channel: str, words: str, seconds: float = 90
) -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        every = await server.messages(channel)
        return next((m for m in every if words in json.dumps(m, ensure_ascii=False)), None)

    found: dict[str, Any] = await until(look, f"'{words}' in {channel}", seconds)
    return found


async def edited(
    server: SlackServer, channel: str, posted: dict[str, Any], words: str, seconds: float = 90
) -> dict[str, Any]:
    """Wait until a posted message says `words` itself: a line of its thread may say them first."""

    async def look() -> dict[str, Any] | None:
        now = next(m for m in await server.messages(channel) if m["ts"] == posted["ts"])
        return now if words in json.dumps(now, ensure_ascii=False) else None

    found: dict[str, Any] = await until(
        look, f"'{words}' in the message {posted['ts']} of {channel}", seconds
    )
    return found


async def answered(server: SlackServer, line: str, words: str) -> dict[str, Any]:
    """Type a line until it is answered: Slack drops what comes before the bot's socket is open, and a person types it again."""
    for _ in range(20):
        await server.control("command", channel=GENERAL, user=ALICE, command="/trn", text=line)
        with contextlib.suppress(AssertionError):
            return await message(
                server, GENERAL, words, 4
            )  # the idle hour lasts six seconds: a long wait would miss it
    return await message(server, GENERAL, words)


def button(posted: dict[str, Any], label: str) -> dict[str, Any]:
    rows = [b["elements"] for b in posted["blocks"] if b["type"] == "actions"]
    found: dict[str, Any] = next(e for row in rows for e in row if e["text"]["text"] == label)
    return found


def slack_settings(server: SlackServer, mode: str) -> dict[str, str]:
    base = {
        "TRNBOT_SOURCE": f"recording:{recording('tiny')}",
        "TRNBOT_SPEED": SPEED,
        "TRNBOT_ROUTE": f"slack:{FINANCE}",
        "TRNBOT_ADMINS": f"slack:{ALICE}",
        "SLACK_BOT_TOKEN": BOT_TOKEN,
        "SLACK_SIGNING_SECRET": SECRET,
        "SLACK_API_URL": server.api_url,
    }
    return base | ({"SLACK_APP_TOKEN": APP_TOKEN} if mode == "socket" else {})


@pytest.mark.parametrize("mode", ["socket", "events"])
async def test_slack_from_question_to_the_end_of_an_alert(mode: str, tmp_path: Path) -> None:
    port = free_port()
    with (
        slack_server(mode, tmp_path, port) as server,
        product(tmp_path, port, slack_settings(server, mode)) as bot,
    ):
        answer = await answered(server, "cost 7d by team", "Amortised")
        assert answer["ephemeral_to"] == ALICE
        assert "search" in json.dumps(answer)
        alert = await message(server, FINANCE, "FIRING")
        assert "idle" in alert["text"]
        assert "an hour" in json.dumps(alert)
        await server.press(FINANCE, alert, button(alert, "Acknowledge"))
        await edited(server, FINANCE, alert, "Acknowledged by")
        over = await edited(server, FINANCE, alert, "OVER after")
        assert "acknowledged by" in over["text"]
        assert bot.health()["ok"]
        if mode == "events":
            await refuses_forgery(bot.url)


async def refuses_forgery(url: str) -> None:
    headers = {
        "X-Slack-Signature": "v0=" + "0" * 64,
        "X-Slack-Request-Timestamp": str(int(time.time())),
    }
    body = "command=%2Ftrn&text=alerts&user_id=U01ALICE&channel_id=C01GEN"
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/slack/events", data=body, headers=headers) as answer,
    ):
        assert answer.status == 401


async def test_migrate_is_answered_for_a_busy_cluster_and_refused_for_a_starved_one(
    tmp_path: Path,
) -> None:
    port = free_port()
    with slack_server("socket", tmp_path) as server:
        settings = slack_settings(server, "socket") | {
            "TRNBOT_SOURCE": f"recording:{recording('reference')}",
            "TRNBOT_SPEED": "100000",
        }
        with product(tmp_path, port, settings):
            await message(server, FINANCE, "starved")
            await server.control(
                "command", channel=GENERAL, user=ALICE, command="/trn", text="migrate llama"
            )
            await message(server, GENERAL, "starved")
            await message(server, FINANCE, "OVER after")
            await server.control(
                "command", channel=GENERAL, user=ALICE, command="/trn", text="migrate llama"
            )
            await message(server, GENERAL, "trn2.48xlarge")


async def test_teams_from_question_to_the_end_of_an_alert(tmp_path: Path, browser: Any) -> None:
    port = free_port()
    settings = {
        "TRNBOT_SOURCE": f"recording:{recording('tiny')}",
        "TRNBOT_SPEED": "1",
        "TRNBOT_TEAMS_DEVELOPMENT": "1",
        "MicrosoftAppId": "",
    }
    with playground(f"http://127.0.0.1:{port}/api/messages") as url:
        page = await browser.new_page(viewport={"width": 1280, "height": 1100})
        with product(tmp_path, port, settings):
            await page.goto(url)
            await page.get_by_text("Hello, trnbot watches").first.wait_for(timeout=30_000)
            await ask(page, "cost 7d by team")
            await page.get_by_text("Amortised").first.wait_for(timeout=30_000)
        heard = settings | {
            "TRNBOT_ROUTE": f"teams:{conversation(tmp_path)}",
            "TRNBOT_SPEED": "360",
        }
        with product(tmp_path, port, heard):
            await page.get_by_text("FIRING").first.wait_for(timeout=90_000)
            await page.get_by_role("button", name="Acknowledge").last.click()
            await page.get_by_text("Acknowledged by").first.wait_for(timeout=30_000)
            await page.get_by_text("OVER after").first.wait_for(timeout=90_000)
            assert await page.get_by_text("FIRING").count() == 0


@pytest.mark.slow
async def test_migrate_is_answered_and_refused_in_teams_too(tmp_path: Path, browser: Any) -> None:
    port = free_port()
    settings = {
        "TRNBOT_SOURCE": f"recording:{recording('reference')}",
        "TRNBOT_SPEED": "100000",
        "TRNBOT_TEAMS_DEVELOPMENT": "1",
    }
    with playground(f"http://127.0.0.1:{port}/api/messages") as url:
        page = await browser.new_page(viewport={"width": 1280, "height": 1100})
        with product(tmp_path, port, settings | {"TRNBOT_SPEED": "20000"}) as bot:
            await until(lambda: reached(bot, "2026-11-19T00:30"), "the starved hours")
        with product(tmp_path, port, settings | {"TRNBOT_SPEED": "1"}):
            await page.goto(url)
            await page.get_by_text("Hello, trnbot watches").first.wait_for(timeout=30_000)
            await ask(page, "migrate llama")
            await page.get_by_text("starved").first.wait_for(timeout=30_000)
            assert await page.get_by_text("same work costs").count() == 0
        with product(tmp_path, port, settings) as bot:
            await until(lambda: reached(bot, "2026-11-19T12:00"), "the end of the recording")
            await ask(page, "migrate llama")
            await page.get_by_text("same work costs").first.wait_for(timeout=30_000)


async def reached(bot: Product, end: str) -> bool:
    return str(bot.health()["ticked_at"] or "") >= end


async def ask(page: Any, line: str) -> None:
    await page.locator("[contenteditable=true]:visible").first.click()
    await page.keyboard.type(line)
    await page.keyboard.press("Enter")


def conversation(folder: Path) -> str:
    """Return the id under which the bot remembers the chat it was greeted in."""
    store = open_store(f"sqlite:///{folder}/trnbot.db")
    (key, _), *_ = store.newest("teams.conversations", 1)
    return key
