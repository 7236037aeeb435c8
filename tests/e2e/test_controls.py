"""Press every control of every page of the product itself: what the page says is what the server did."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.product import Product, product, recording
from tests.e2e.slackserver import free_port
from tests.e2e.test_life import FAST, STARVED, STILL
from tests.e2e.test_product import reached, until
from tests.e2e.test_teams import CHROMIUM, FLAGS

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]
PAGES = ("/", "/alerts", "/fleet", "/cost", "/saved", "/help", "/ask?line=alerts")
CONTROLS = "main form[method=post] button:visible"


async def test_no_control_of_any_page_says_a_failure_that_did_not_happen(tmp_path: Path) -> None:
    port = free_port()
    settings = {"TRNBOT_SOURCE": f"recording:{recording('reference')}", "TRNBOT_ROUTE": "web:alerts"}
    api = pytest.importorskip("playwright.async_api")
    if not os.access(CHROMIUM, os.X_OK):
        pytest.skip(f"needs {CHROMIUM}")
    with product(tmp_path, port, settings | FAST) as bot:
        await until(lambda: reached(bot, STARVED), "the starved hours")
    with product(tmp_path, port, settings | STILL) as bot:
        async with api.async_playwright() as driver:
            browser = await driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
            page = await browser.new_page(viewport={"width": 1400, "height": 900})
            pressed = [said for path in (*PAGES, await alert_of(page, bot)) for said in await press_all(page, bot, path)]
            await browser.close()
    assert len(pressed) > 20
    assert not [one for one in pressed if "failure" in one], pressed


async def alert_of(page: Any, bot: Product) -> str:
    """Return the path of the page of an open alert."""
    await page.goto(bot.url)
    await page.wait_for_selector("body.ready")
    link = await page.locator("a[href^='/alert/']").first.get_attribute("href")
    return str(link)


async def press_all(page: Any, bot: Product, path: str) -> list[str]:
    """Press each control of a page as it is when opened anew; return what became of each."""
    await page.goto(bot.url + path)
    await page.wait_for_selector("body.ready")
    labels = [await one.inner_text() for one in await page.locator(CONTROLS).all()]
    return [await press(page, bot, path, at, label) for at, label in enumerate(labels)]


async def press(page: Any, bot: Product, path: str, at: int, label: str) -> str:
    """Press one control; a page that is no longer as it was has lost it to an earlier press."""
    await page.goto(bot.url + path)
    await page.wait_for_selector("body.ready")
    control = page.locator(CONTROLS).nth(at)
    if not await control.count() or await control.inner_text() != label:
        return f"{path} {label}: gone"
    problems: list[str] = []
    page.once("pageerror", lambda error: problems.append(str(error)))
    async with page.expect_response(lambda response: response.request.method == "POST", timeout=30_000) as answer:
        await control.click(timeout=10_000)
    response = await answer.value
    await response.finished()
    await page.wait_for_timeout(150)
    failures = await page.locator(".failure:visible").all_inner_texts()
    shown = await page.locator("dialog[open], .private:visible, .problem:visible").count()
    told = failures or problems or ([] if shown or response.status == 204 else ["nothing shown"])
    return f"{path} {label}: {'failure ' + '; '.join(told) if told else 'well'}"
