"""Presses in the real clients: a preview that takes longer than Slack waits is applied in its window; alerts are judged."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from adapters.store.open import open_store
from bot.app import App
from bot.model.policy import Policy
from bot.model.window import day
from bot.settings.settings import read_settings
from bot.wiring.build import Database, Shown, running_bot
from bot.wiring.source import OpenedSource
from tests.builders import with_parts
from tests.e2e.consoles import starved
from tests.e2e.product import recording
from tests.e2e.slackserver import FINANCE, SlackServer, slack_server
from tests.e2e.test_life import SOON_MS, STARVED, Screen, newest, say, screen
from tests.e2e.test_product import message, slack_settings

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]
USUAL = "30d"
"""How long a judgement mutes where nobody chooses."""
LONG_S = 4.0
"""Longer than the three seconds that Slack waits for what a window shall do next."""
IDLE, END = datetime(2026, 11, 17, 3, 55, tzinfo=UTC), datetime(2026, 11, 17, 6, 0, tzinfo=UTC)


class Slow:
    """Replay as the bot does, and take long."""

    def __init__(self, replays: Any) -> None:
        self._replays = replays

    def again(self, policies: Sequence[Policy]) -> Any:
        time.sleep(LONG_S)
        return self._replays.again(policies)


@asynccontextmanager
async def serving(server: SlackServer, folder: Path, now: datetime) -> AsyncIterator[App]:
    """Let the bot answer in Slack at a time of a recording, in this process; its previews are slow."""
    settings = read_settings(slack_settings(server, "socket"))
    store = open_store(f"sqlite:///{folder}/trnbot.db")
    bot = running_bot(
        settings,
        Database(store, store),
        OpenedSource(settings.source, settings),
        Shown(lambda: now, 1),
    )
    bot.app.ports = with_parts(bot.app.ports, replays=Slow(bot.app.ports.world.replays))
    slack = bot.app.ports.site.surfaces["slack"]
    await slack.start()  # type: ignore[attr-defined]
    yield bot.app
    await slack.stop()  # type: ignore[attr-defined]
    store.close()


async def test_a_slow_preview_is_applied_in_its_window(tmp_path: Path, browser: Any) -> None:
    recording("tiny")
    with slack_server("socket", tmp_path) as server:
        async with (
            serving(server, tmp_path, END),
            screen(browser, server.url, "slack-modal") as slack,
        ):
            await slack.page.get_by_text("finops-alerts").first.click()
            await say(slack, "/trn config")
            await slack.press("Change settings")
            window = slack.page.locator(".modal")
            await window.locator("select.bk-select").first.select_option("idle", timeout=SOON_MS)
            await slack.press("Show")
            await window.get_by_text("Nothing changes yet").wait_for(timeout=SOON_MS)
            await window.locator("input[type=checkbox]").check()
            await window.locator("input.bk-plain-input").nth(0).fill("55%")
            await slack.press("Preview")
            await window.get_by_text("lies between 0% and 50%").wait_for(timeout=SOON_MS)
            await window.locator("input.bk-plain-input").nth(0).fill("25%")
            await slack.press("Preview")
            await window.get_by_text("Working on it").wait_for(timeout=SOON_MS)
            await window.get_by_text("Preview:").first.wait_for(timeout=SOON_MS)
            await apply(server, slack, window)


async def apply(server: SlackServer, slack: Screen, window: Any) -> None:
    """Press the window's own button; it is applied there, told to all, and kept."""
    await window.get_by_role("button", name="Apply", exact=True).click()
    await window.get_by_text("Applied as version 1").first.wait_for(timeout=SOON_MS)
    told = await message(server, FINANCE, "Applied as version 1")
    assert "ephemeral_to" not in told
    await slack.press("Close")
    await say(slack, "/trn config history")
    await newest(slack).get_by_text("Who changed").wait_for(timeout=SOON_MS)
    assert "25" in await newest(slack).inner_text()


async def test_an_alert_is_judged_wrong_then_useful(tmp_path: Path, browser: Any) -> None:
    recording("tiny")
    with slack_server("socket", tmp_path) as server:
        async with (
            serving(server, tmp_path, IDLE) as bot,
            screen(browser, server.url, "slack-judged") as slack,
        ):
            await bot.tick(IDLE - timedelta(minutes=5))
            await slack.page.get_by_text("finops-alerts").first.click()
            alert = slack.page.locator(".msg").first
            await alert.get_by_role("button", name="Not an anomaly").click(timeout=SOON_MS)
            window = slack.page.locator(".modal")
            await window.get_by_text("Mute them for").wait_for(timeout=SOON_MS)
            assert await window.locator("select.bk-select").input_value() == USUAL
            await window.get_by_role("button", name="Mute", exact=True).click(timeout=SOON_MS)
            await alert.get_by_text("Muted as not an anomaly by").wait_for(timeout=SOON_MS)
            await say(slack, "/trn feedback")
            await slack.sees("0 useful, 1 wrong")
            await alert.get_by_role("button", name="Why").click()
            await slack.press("Useful")
            await slack.sees("Noted as useful")
            await alert.get_by_text("Muted as not an anomaly by").wait_for(
                state="hidden", timeout=SOON_MS
            )
            await say(slack, "/trn feedback")
            await slack.sees("1 useful, 0 wrong")
            await say(slack, "/trn silences")
            await slack.sees("Nobody has muted anything")


async def test_a_judgement_in_the_console_needs_no_choice_and_is_taken_back(
    watched: Path, browser: Any
) -> None:
    with starved(watched) as bot:
        async with screen(browser, bot.url, "console") as console:
            await console.press("Not an anomaly…")
            asked = console.page.locator("dialog[open]")
            assert await asked.locator("select").input_value(timeout=SOON_MS) == USUAL
            await asked.get_by_role("button", name="Mute", exact=True).click()
            await console.sees(
                f"Muted as not an anomaly by you until {day(datetime.fromisoformat(STARVED) + timedelta(days=30))}"
            )
            await console.press("Undo")
            await console.sees("is taken back; its alerts are sent again")
            alert = console.page.locator(
                "#messages .live .card", has=console.page.get_by_role("button", name="Acknowledge")
            )
            muted = alert.get_by_text("Muted as not an anomaly by")
            await muted.wait_for(state="hidden", timeout=SOON_MS)
            await console.sees("Open again")
