"""The life of an alert and of a setting, pressed and typed in the real clients; pictures for the docs on the way.

With TRNBOT_SHOTS=docs/pictures the pictures are taken again.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.model.window import day
from tests.e2e.playground import TEAMS_DARK, playground
from tests.e2e.product import product, recording
from tests.e2e.slackpage import AS_SLACK_SHOWS, DARK
from tests.e2e.slackserver import BOB, FINANCE, free_port, slack_server
from tests.e2e.test_product import ask, conversation, message, reached, slack_settings, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]
SHOTS = os.environ.get("TRNBOT_SHOTS", "")
STARVED = "2026-11-19T01:00"
"""A time of the recording when 64 nodes starve; from there on it stands still."""
DARKENED = {"", "assigned", "preview"}
"""The pictures that are taken in dark as well."""
FAST, STILL = {"TRNBOT_SPEED": "20000"}, {"TRNBOT_SPEED": "1"}
SOON_MS = 40_000


@dataclass
class Screen:
    """Hold a client's page, and take pictures of it."""

    page: Any
    name: str
    draws: str = ""
    """A script that draws what the client leaves out, run before a picture is taken."""
    dark: str = ""
    """A stylesheet of the client's dark colours."""

    async def sees(self, words: str) -> Any:
        """Wait until the words stand on the page, and return the newest place."""
        place = self.page.get_by_text(words).last
        try:
            await place.wait_for(timeout=SOON_MS)
        except Exception:
            await self.shot("failed")
            raise
        return place

    async def press(self, label: str) -> None:
        """Press the newest button of this label."""
        await self.page.get_by_role("button", name=label, exact=True).last.click(timeout=SOON_MS)

    def newest(self) -> Any:
        """Return the newest card of Teams, or the page."""
        return self.page.locator(".ac-adaptiveCard").last if self.name == "teams" else self.page

    async def shot(self, part: str = "", place: Any = None) -> None:
        """Leave a picture of a place, else of the newest card of Teams, else of the page."""
        if SHOTS:
            await self.page.mouse.move(1, 1)  # what the pointer is over shows more than a message
            await self.page.wait_for_timeout(500)
            if self.draws:
                await self.page.evaluate(self.draws, FINANCE)
            path = Path(SHOTS) / f"{self.name}{'-' if part else ''}{part}.png"
            await (place or self.newest()).screenshot(path=str(path))
            if part in DARKENED:
                await self.darken(place or self.newest(), path.with_stem(f"{path.stem}-dark"))

    async def darken(self, place: Any, path: Path) -> None:
        """Leave a picture of a place in the client's dark colours."""
        style = await self.page.add_style_tag(content=self.dark)
        await self.page.wait_for_timeout(200)
        await place.screenshot(path=str(path))
        await style.evaluate("style => style.remove()")


@asynccontextmanager
async def screen(browser: Any, url: str, name: str, height: int = 900) -> AsyncIterator[Screen]:
    """Open a client in a browser."""
    page = await browser.new_page(viewport={"width": 1000, "height": height})
    await page.goto(url)
    yield Screen(
        page,
        name,
        AS_SLACK_SHOWS if name.startswith("slack") else "",
        DARK if name.startswith("slack") else TEAMS_DARK,
    )
    await page.close()


async def say(slack: Screen, line: str) -> None:
    """Type into the composer as a person does."""
    await slack.page.locator(".composer-input").click()
    await slack.page.keyboard.type(line)
    await slack.page.keyboard.press("Enter")


def newest(slack: Screen) -> Any:
    return slack.page.locator(".msg").last


async def test_an_alert_and_a_setting_live_in_slack(tmp_path: Path, browser: Any) -> None:
    port = free_port()
    with slack_server("socket", tmp_path) as server:
        settings = slack_settings(server, "socket") | {
            "TRNBOT_SOURCE": f"recording:{recording('reference')}"
        }
        with product(tmp_path, port, settings | FAST) as bot:
            await message(server, FINANCE, "starved")
            await until(lambda: reached(bot, STARVED), "the starved hours")
        with product(tmp_path, port, settings | STILL):
            async with screen(browser, server.url, "slack") as slack:
                await slack.page.get_by_text("finops-alerts").first.click()
                await slack.sees("FIRING")
                await slack.shot(place=slack.page.locator(".msg").first)
                await decide_in_slack(slack)
                await configure_in_slack(slack)


async def decide_in_slack(slack: Screen) -> None:
    """Acknowledge, assign, snooze up to so many dollars, and look at what is muted and judged."""
    alert = slack.page.locator(".msg").first
    await slack.press("Acknowledge")
    await alert.get_by_text("Acknowledged by").wait_for(timeout=SOON_MS)
    await slack.shot("acknowledged", alert)
    modal = slack.page.locator(".modal, [role=dialog]").last
    await alert.get_by_role("button", name="Assign…").click()
    await modal.locator("select.bk-select").select_option(BOB, timeout=SOON_MS)
    await slack.shot("assign", modal)
    await modal.get_by_role("button", name="Assign", exact=True).click()
    await modal.wait_for(state="hidden", timeout=SOON_MS)
    await alert.get_by_text("Assigned to ").wait_for(timeout=SOON_MS)
    await slack.shot("assigned", alert)
    await alert.get_by_role("button", name="Snooze…").click()
    await modal.locator("input.bk-plain-input").first.wait_for(timeout=SOON_MS)
    await modal.locator("select.bk-select").select_option("1d")
    await modal.locator("input.bk-plain-input").nth(0).fill("$5,000")
    await modal.locator("input.bk-plain-input").nth(1).fill("moving the data to FSx")
    await slack.shot("snooze", modal)
    await slack.press("Snooze")
    await modal.wait_for(state="hidden", timeout=SOON_MS)
    await alert.get_by_text("Snoozed by").wait_for(timeout=SOON_MS)
    await slack.shot("snoozed", alert)
    await say(slack, "/trn silences")
    await slack.sees("moving the data to FSx")
    await slack.shot("silences", newest(slack))


async def configure_in_slack(slack: Screen) -> None:
    """Open the form, preview, apply, read the history, and undo."""
    await say(slack, "/trn config")
    await slack.press("Change settings")
    modal = slack.page.locator(".modal, [role=dialog]").last
    await modal.locator("select.bk-select").first.select_option("starved", timeout=SOON_MS)
    await slack.press("Show")
    await modal.get_by_text("Nothing changes yet").wait_for(timeout=SOON_MS)
    await slack.shot("config", modal)
    await modal.locator("input[type=checkbox]").check()
    for number in (1, 3):
        await modal.locator("input.bk-plain-input").nth(number).fill("4h")
    await slack.press("Preview")
    await slack.page.get_by_role("button", name="Apply", exact=True).wait_for(timeout=SOON_MS)
    await slack.shot("tried", modal)
    await slack.press("Apply")  # in the window that the preview came into, however long it took
    await modal.get_by_text("Applied as version 1").first.wait_for(timeout=SOON_MS)
    await slack.shot("applied-there", modal)
    await slack.press("Close")
    await say(slack, "/trn config set starved off")
    await slack.sees("Preview: 0 alerts instead of 1")
    await slack.shot("preview", newest(slack))
    await slack.press("Apply")
    await slack.sees("Applied as version 2")
    await slack.shot("applied", newest(slack))
    await say(slack, "/trn config history")
    await slack.sees("Who changed")
    await slack.shot("history", newest(slack))
    await say(slack, "/trn config undo")
    await slack.sees("Undone as version 3")
    await slack.shot("undone", newest(slack))


def teams_settings() -> dict[str, str]:
    """Return the settings of a bot whose admin is the person of the Playground."""
    return {
        "TRNBOT_SOURCE": f"recording:{recording('reference')}",
        "TRNBOT_TEAMS_DEVELOPMENT": "1",
        "TRNBOT_ADMINS": "teams:user-id-0",
        "MicrosoftAppId": "",
    }


async def test_an_alert_and_a_setting_live_in_teams(tmp_path: Path, browser: Any) -> None:
    port = free_port()
    settings = teams_settings()
    with playground(f"http://127.0.0.1:{port}/api/messages") as url:
        async with screen(browser, "about:blank", "teams", 1400) as teams:
            with product(tmp_path, port, settings | STILL):
                await teams.page.goto(url)
                await teams.sees("Hello, trnbot watches")
            heard = settings | {"TRNBOT_ROUTE": f"teams:{conversation(tmp_path)}"}
            with product(tmp_path, port, heard | FAST) as bot:
                await teams.sees("FIRING")
                await until(lambda: reached(bot, STARVED), "the starved hours")
            with product(tmp_path, port, heard | STILL):
                await decide_in_teams(teams)
                await configure_in_teams(teams)


async def decide_in_teams(teams: Screen) -> None:
    """Acknowledge, assign, and snooze up to so many dollars."""
    alert = teams.page.locator(
        ".ac-adaptiveCard", has=teams.page.get_by_role("button", name="Snooze…")
    ).last
    await teams.shot(place=alert)
    await teams.press("Acknowledge")
    await teams.sees("Acknowledged by")
    await teams.shot("acknowledged", alert)
    await assign_in_teams(teams, alert)
    await judge_in_teams(teams)
    await teams.press("Snooze…")
    await teams.page.get_by_placeholder("for example 500").fill("5000")
    await teams.page.get_by_placeholder("shown to everyone").fill("moving the data to FSx")
    await teams.shot("snooze")
    await teams.press("Snooze")
    await teams.sees("Snoozed by")
    await teams.shot("snoozed")
    await ask(teams.page, "silences")
    await teams.sees("moving the data to FSx")
    await teams.shot("silences")


async def assign_in_teams(teams: Screen, alert: Any) -> None:
    """Pick one of the people of the conversation by the client's own picker."""
    # A message that comes meanwhile closes the picker.
    await teams.page.get_by_text("Acknowledged by Alex Wilber", exact=True).last.wait_for(
        timeout=SOON_MS
    )
    await teams.press("Assign…")
    await teams.sees("Who looks into it")
    await teams.page.get_by_role("combobox").last.click()
    await teams.shot("assign")
    await teams.page.get_by_text("Alex Wilber", exact=True).last.click()
    await teams.press("Assign")
    await teams.sees("Assigned to Alex Wilber")
    await teams.shot("assigned", alert)


async def judge_in_teams(teams: Screen) -> None:
    """Mute as not an anomaly for as long as is usual, without a choice, and take it back."""
    await teams.press("Not an anomaly…")
    await teams.sees("Mute them for")
    await teams.shot("judge")
    await teams.press("Mute")
    await teams.sees("Muted as not an anomaly by")
    await teams.sees(f"muted until {day(datetime.fromisoformat(STARVED) + timedelta(days=30))}")
    await teams.shot("judged")
    await teams.press("Undo")
    await teams.sees("is taken back; its alerts are sent again")
    alert = teams.page.locator(
        ".ac-adaptiveCard", has=teams.page.get_by_role("button", name="Snooze…")
    )
    await alert.get_by_text("Muted as not an anomaly by").wait_for(state="hidden", timeout=SOON_MS)


async def configure_in_teams(teams: Screen) -> None:
    """Open the form, preview, apply, read the history, and undo."""
    await ask(teams.page, "config")
    await teams.page.get_by_role("combobox").first.click()
    await teams.page.get_by_role("option", name="starved", exact=True).click()
    await teams.press("Show")
    await teams.sees("Nothing changes yet")
    await teams.shot("config")
    await ask(teams.page, "config set starved off")
    await teams.sees("Preview: 0 alerts instead of 1")
    await teams.shot("preview")
    await teams.press("Apply")
    await teams.sees("Applied as version 1")
    await teams.shot("applied")
    await ask(teams.page, "config history")
    await teams.sees("Who changed")
    await teams.shot("history")
    await ask(teams.page, "config undo")
    await teams.sees("Undone as version 2")
    await teams.shot("undone")
