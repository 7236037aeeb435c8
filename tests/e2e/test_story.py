"""The tour's story in a real browser: every chapter in its time, by people who are called simulated, and again at a press."""

from __future__ import annotations

import json
import os
import re
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from bot.watch.story import NOTHING_SEEN
from bot.wiring import source
from bot.wiring.environment import STATE
from bot.wiring.surfaces import SOURCE
from tests.e2e.product import Product, product
from tests.e2e.slackserver import free_port

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400), pytest.mark.first]
TOUR = Path(__file__).parents[2] / "docs" / "tour.md"
SLOW = float(os.environ.get("TRNBOT_TEST_PATIENCE", "1"))
"""How many times longer than promised a loaded machine may take."""


async def said(page: Any, words: str, seconds: float) -> float:
    """Wait until the story says words, and return after how long it did."""
    begun = time.monotonic()
    await page.locator(".demo-now", has_text=words).wait_for(timeout=seconds * SLOW * 1000)
    return time.monotonic() - begun


async def ticked(page: Any, chapter: str, seconds: float) -> None:
    """Wait until a chapter has its tick, and the tick says what was seen."""
    done = page.locator(".demo-chapters .seen", has_text=chapter)
    await done.wait_for(timeout=seconds * SLOW * 1000)
    assert await done.get_attribute("title")


def firing(bot: Product) -> str:
    """Return what the page of open alerts lists."""
    with urllib.request.urlopen(f"{bot.url}/alerts", timeout=20) as answer:
        page: str = answer.read().decode()
    return page.partition('id="scroll"')[2].partition("</main>")[0]


async def test_the_tour_s_story_is_told_in_90_seconds_and_begins_again_at_a_press(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, browser: Any
) -> None:
    monkeypatch.setattr(source, "STATE", tmp_path / STATE)
    source.folder_of(SOURCE)  # made before the clock runs, as on every call but the first
    words = ("demo", "--no-browser", "--source", SOURCE)
    with product(tmp_path, free_port(), {"TRNBOT_DATABASE_URL": ""}, words) as bot:
        page = await browser.new_page(viewport={"width": 1280, "height": 900}, timezone_id="UTC")
        await page.goto(bot.url)
        begun = time.monotonic()
        await said(page, "Simulated: the fleet, its bill, and the people named here", 10)
        await follow(page, bot, begun)
        await begins_again(page, bot)


async def follow(page: Any, bot: Product, begun: float) -> None:
    """Walk the tour's chapters, each as the tour tells it."""
    starved, taken, saved, compiled, jumped, tried = (
        chapter.title for chapter in NOTHING_SEEN.chapters()
    )
    await ticked(page, starved, 60)
    assert time.monotonic() - begun < 60 * SLOW
    assert "64 nodes of llama have waited for data" in await page.inner_text(".demo-now")
    await ticked(page, taken, 30)
    await page.get_by_text(re.compile(r"Acknowledged by\s+Dana \(simulated\)")).first.wait_for(
        timeout=10_000 * SLOW
    )
    await ticked(page, saved, 60)
    await page.get_by_text("acknowledged by Dana (simulated)").first.wait_for(timeout=10_000 * SLOW)
    await ticked(page, compiled, 30)
    assert "no alert was sent" in await page.locator(
        ".demo-chapters .seen", has_text=compiled
    ).get_attribute("title")
    assert "frontier" not in firing(bot)
    await ticked(page, jumped, 45)
    await ticked(page, tried, 60)
    await page.get_by_text("Mei (simulated) typed").first.wait_for(timeout=10_000 * SLOW)
    await said(page, "The story is over", 60)
    await stands_in_saved(page, bot)


async def stands_in_saved(page: Any, bot: Product) -> None:
    """Look at the dollars, and that a preview changed nothing."""
    await page.goto(f"{bot.url}/saved")
    row = page.locator("tr", has_text="Dana (simulated)")
    assert re.search(r"\$[1-9]", await row.inner_text())
    await page.goto(f"{bot.url}/ask?line=config%20history")
    assert "starved.for" not in await page.locator(
        "#answers, .page"
    ).first.inner_text() or "applied" not in await page.inner_text("#scroll")


async def begins_again(page: Any, bot: Product) -> None:
    """Press the button: the same process begins anew, and nothing of before is left."""
    process = bot.process.pid
    await page.goto(bot.url)
    await page.get_by_role("button", name="Start again").click()
    # It catches up within seconds, so the page may come back to a story that has begun.
    anew = page.locator(".demo-now").filter(has_not_text="The story is over")
    await anew.wait_for(timeout=90_000 * SLOW)
    assert bot.process.pid == process
    assert bot.process.poll() is None
    assert "Dana (simulated)" not in await page.inner_text("#scroll")
    assert json.dumps(bot.health())
