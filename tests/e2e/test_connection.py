"""A console that is no longer live says so at once: its server died, its recording ended, its watch stopped; one that works, too."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from adapters.http import application
from bot.cards.card import Button, Buttons, Card
from bot.model.request import Request
from tests.e2e.browser import until
from tests.e2e.console_server import MemoryShelf, answer, filled, health, surface
from tests.e2e.slackserver import free_port

pytestmark = pytest.mark.e2e
AT_ONCE_MS = 4_000
"""The server looks at its own state every two seconds."""


@asynccontextmanager
async def serving(
    port: int,
    facts: Callable[[], dict[str, Any]] = health,
    shelf: MemoryShelf | None = None,
    **changed: Any,
) -> AsyncIterator[Any]:
    console = surface(health=facts, shelf=shelf, **changed)
    if shelf is None or not shelf.rows:
        await filled(console)
    runner = web.AppRunner(application([console]), shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield console
    finally:
        await console.stop()
        await runner.cleanup()


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser: Any) -> Any:
    return await browser.new_page(viewport={"width": 1400, "height": 900})


async def lamp_is_green(page: Any) -> bool:
    """Return whether the dot has the colour of what is well."""
    drawn = "getComputedStyle(document.querySelector('.lamp')).backgroundColor"
    well = "(() => { const one = document.body.appendChild(document.createElement('i')); one.style.color = 'var(--good)'; "
    return bool(
        await page.evaluate(
            f"{drawn} === {well} const is = getComputedStyle(one).color; one.remove(); return is; }})()"
        )
    )


@pytest.mark.parametrize("path", ["/", "/alerts", "/cost", "/ask"])
async def test_a_dead_server_is_told_at_once_and_so_is_its_return(page: Any, path: str) -> None:
    port = free_port()
    lost = page.get_by_role("alert").filter(has_text="The console does not answer")
    async with serving(port):
        await page.goto(f"http://127.0.0.1:{port}{path}")
        await page.wait_for_selector("body.live")
        assert await lamp_is_green(page)
        assert not await lost.is_visible()
    await lost.wait_for(timeout=AT_ONCE_MS)
    assert not await lamp_is_green(page)
    assert await page.locator(".state").inner_text() == "Not connected"
    async with serving(port):
        await lost.wait_for(state="hidden", timeout=10_000)
        await page.get_by_text("Replay 60×").wait_for()
        assert await lamp_is_green(page)


async def test_a_press_that_nobody_answers_promises_nothing(page: Any) -> None:
    port, shelf = free_port(), MemoryShelf()
    async with serving(port, shelf=shelf):
        await page.goto(f"http://127.0.0.1:{port}/")
        await page.wait_for_selector("body.live")
    await page.get_by_role("button", name="Why").last.click()
    await page.get_by_text("it is not known whether this was done").wait_for()
    async with serving(port, shelf=shelf):
        await page.wait_for_selector("body.live", timeout=10_000)
        await page.get_by_role("button", name="Why").last.click()
        await page.locator(".private").wait_for()
        assert await page.locator(".failure").count() == 0


async def test_an_ended_replay_and_a_stopped_watch_do_not_look_live(page: Any) -> None:
    state: dict[str, Any] = {}
    async with serving(port := free_port(), lambda: {**health(), **state}):
        await page.goto(f"http://127.0.0.1:{port}/")
        await page.wait_for_selector("body.live")
        for change, words in (
            ({"ended": True}, "Nothing more happens"),
            (
                {"ended": False, "ok": False, "problem": "No tick was run since Nov 20."},
                "No tick was run since Nov 20.",
            ),
        ):
            state.update(change)
            await page.locator(".banner").get_by_text(words).wait_for(timeout=AT_ONCE_MS)
            assert not await lamp_is_green(page)
        await page.reload()
        await page.locator(".banner").get_by_text("No tick was run").wait_for()


class Slow:
    """Answer as the samples do, once it is let."""

    def __init__(self) -> None:
        self.goes_on = asyncio.Event()
        self.goes_on.set()

    async def __call__(self, request: Request) -> Card:
        await self.goes_on.wait()
        return await answer(request)


async def test_what_takes_longer_than_two_seconds_says_that_it_is_worked_on(page: Any) -> None:
    slow = Slow()
    working = page.get_by_text("Working on it…")
    async with serving(port := free_port(), answer=slow):
        await page.goto(f"http://127.0.0.1:{port}/")
        await page.wait_for_selector("body.live")
        for ask in (
            page.get_by_role("button", name="Why").last.click,
            partial(typed, page),
            partial(submitted, page, slow),
        ):
            slow.goes_on.clear()
            began = time.monotonic()
            await ask()
            await working.wait_for(timeout=6_000)
            assert time.monotonic() - began > 1.9
            assert await page.locator("#told").inner_text() == "Working on it."
            slow.goes_on.set()
            await working.wait_for(state="hidden")
        slow.goes_on.clear()
        await page.get_by_role("link", name="Cost").click(no_wait_after=True)
        await working.wait_for(timeout=6_000)
        slow.goes_on.set()
        await page.wait_for_selector("body.ready")
        assert page.url.endswith("/cost")
        await working.wait_for(state="hidden")


async def typed(page: Any) -> None:
    await page.locator("#line").fill("cost 7d by team")
    await page.keyboard.press("Enter")


async def submitted(page: Any, slow: Slow) -> None:
    slow.goes_on.set()
    await page.get_by_role("button", name="Snooze…").last.click()
    await page.get_by_role("dialog").get_by_label("Reason").fill("known issue")
    slow.goes_on.clear()
    await page.get_by_role("dialog").get_by_role("button", name="Snooze").click()


async def test_a_press_that_reaches_far_is_asked_about_once(page: Any) -> None:
    asked: list[str] = []

    async def undo(request: Request) -> Card:
        asked.append(request.line)
        return Card(
            "Versions",
            blocks=(Buttons((Button("Go back further", "config undo", confirm="For everyone."),)),),
        )

    async with serving(port := free_port(), answer=undo):
        await page.goto(f"http://127.0.0.1:{port}/ask?line=config%20history")
        await page.wait_for_selector("body.live")
        begun, dialog = len(asked), page.get_by_role("dialog")
        for answer, lines in (("Leave it", []), ("Go back further", ["config undo"])):
            await page.locator("#page").get_by_role("button", name="Go back further").click()
            await dialog.get_by_text("For everyone.").wait_for()
            await dialog.get_by_role("button", name=answer).click()
            await dialog.wait_for(state="hidden")
            await until(page, "document.activeElement.textContent === 'Go back further'")
            assert [line for line in asked[begun:] if line == "config undo"] == lines
        await page.locator(".private").wait_for()
