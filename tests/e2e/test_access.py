"""Read and press the product's pages as people do who see little, use keys or want nothing to move: axe-core finds nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from tests.e2e.browser import until
from tests.e2e.consoles import EVERY_WINDOW, WIDTHS, Tab, kept, starved, tab
from tests.e2e.product import Product

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
FOCUSED = (
    "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent.trim()"
)
SOON_MS = 20_000
LINK = re.compile(r'<a [^>]*href="(/(?!download)[^"]*)"')
MOST_PAGES = 250
"""Pages that are opened, nearest first: filters can be joined without end."""


@pytest.fixture(scope="module")
def bot(watched: Path) -> Iterator[Product]:
    with starved(watched) as served:
        yield served


async def violations(opened: Tab) -> list[str]:
    """Return what axe-core finds on a page: the rule and the first place."""
    axe = pytest.importorskip("axe_playwright_python.async_playwright")
    found = (await axe.Axe().run(opened.page)).response["violations"]
    return [
        f"{opened.page.url}: {one['id']}, {len(one['nodes'])} times, at {one['nodes'][0]['target']}"
        for one in found
    ]


@pytest.mark.parametrize(("device", "theme"), EVERY_WINDOW)
async def test_axe_finds_nothing_and_nothing_scrolls_sideways(
    bot: Product, browser: Any, device: str, theme: str
) -> None:
    found: list[str] = []
    async with tab(browser, bot.url, WIDTHS[device], theme) as opened:
        for path in await opened.paths():
            await opened.open(path)
            found += await violations(opened)
            wide = await opened.page.evaluate("document.documentElement.scrollWidth")
            found += [f"{path} is {wide} pixels wide"] if wide > WIDTHS[device] else []
        await opened.open("/")
        await button(opened, "Why").click()
        await opened.page.locator(".private").wait_for()
        await button(opened, "Snooze…").click()
        await opened.page.locator("dialog[open]").wait_for()
        found += await violations(opened)
        await opened.open("/fleet")
        for keys, dialog in (("Control+k", "#palette"), ("?", "#keys")):
            await opened.page.keyboard.press(keys)
            await opened.page.locator(dialog).wait_for()
            found += await violations(opened)
            await opened.page.keyboard.press("Escape")
        await opened.page.goto(f"{bot.url}/nothing")
        found += await violations(opened)
    assert found == []


REFUSED = {"/ask?line=why%20cost%20last-week"}
"""The recording has no bill of the week before."""


async def test_every_state_of_the_console_opens_by_its_address(bot: Product) -> None:
    ways, refused, titles = ["/"], [], set[str]()
    async with ClientSession(bot.url, headers={"Accept": "text/html"}) as fresh:
        for path in ways:  # it grows by the links of each page
            async with fresh.get(path) as said:
                page = await said.text()
            titles.add(page.partition("<title>")[2].partition("</title>")[0])
            if said.status != 200 or "That did not work" in page:
                refused.append(path)
            links = (unescape(link).partition("#")[0] for link in LINK.findall(page))
            known = dict.fromkeys([*ways, *links])
            ways += list(known)[len(ways) : MOST_PAGES]
    assert len(ways) == MOST_PAGES
    assert set(refused) <= REFUSED
    assert len(titles) > 100


def button(opened: Tab, name: str) -> Any:
    return opened.page.get_by_role("button", name=name, exact=True).first


async def enter(opened: Tab, name: str) -> None:
    """Press a button by the key."""
    await button(opened, name).focus()
    await opened.page.keyboard.press("Enter")


async def focused(opened: Tab, name: str) -> None:
    """Wait until the focus is on the control of this name."""
    await until(opened.page, f"(name) => ({FOCUSED}) === name", name, SOON_MS)


@pytest.mark.parametrize(("device", "theme"), EVERY_WINDOW)
async def test_keys_alone_do_it_and_the_focus_stays_with_its_control(
    bot: Product, browser: Any, device: str, theme: str
) -> None:
    async with tab(browser, bot.url, WIDTHS[device], theme) as opened:
        alert = (await opened.paths())[-5]
        assert alert.startswith("/alert/")
        for path in ("/", alert):
            await opened.open(path)
            await answer_and_dismiss(opened)
            await refuse_and_leave(opened, bot)
            await decide(opened, bot)


async def answer_and_dismiss(opened: Tab) -> None:
    await enter(opened, "Why")
    await opened.page.locator(".private").wait_for(timeout=SOON_MS)
    await focused(opened, "Why")
    assert "Why" in await opened.page.locator("#told").inner_text()
    await enter(opened, "Dismiss")
    assert await opened.page.locator(".private").count() == 0
    await focused(opened, "Why")


async def refuse_and_leave(opened: Tab, bot: Product) -> None:
    """Fill a form wrongly: it says so under the field that is wrong; Escape leads back to where it was opened."""
    before, form = kept(bot), opened.page.get_by_role("dialog")
    await enter(opened, "Snooze…")
    await form.wait_for(timeout=SOON_MS)
    assert await form.get_by_label("How long").evaluate("one => one === document.activeElement")
    for label, wrong, words in (
        ("Notify again once", "much", "'much' is not a number"),
        ("Or until", "someday", "'someday'"),
    ):
        await form.get_by_label(label).fill(wrong)
        await opened.page.keyboard.press("Enter")
        under = form.locator("label", has_text=label).locator(".problem")
        await under.get_by_text(words).wait_for(timeout=SOON_MS)
        field = form.get_by_label(label)
        assert await field.get_attribute("aria-invalid") == "true"
        assert await field.evaluate("one => one === document.activeElement")
        assert await form.locator(".problem").count() == 1
        await field.fill("")
    await opened.page.keyboard.press("Escape")
    await focused(opened, "Snooze…")
    assert kept(bot) == before


async def decide(opened: Tab, bot: Product) -> None:
    """Acknowledge and reopen: the page shows what the server keeps, and the focus goes to what took the button's place."""
    for name, other, doing in (
        ("Acknowledge", "Unacknowledge", "acknowledge"),
        ("Unacknowledge", "Acknowledge", "unacknowledge"),
    ):
        before = kept(bot)["decisions"]
        await enter(opened, name)
        await opened.page.locator(".private").wait_for(timeout=SOON_MS)
        await button(opened, other).wait_for(timeout=SOON_MS)
        await focused(opened, other)
        made = [row for row in kept(bot)["decisions"] if row not in before]
        assert [kind for _, _, kind in made] == [doing]
        await button(opened, "Dismiss").click()


async def test_nothing_moves_for_who_wants_nothing_to_move(bot: Product, browser: Any) -> None:
    async with tab(browser, bot.url, WIDTHS["desktop"], "light") as opened:
        await opened.page.emulate_media(reduced_motion="reduce")
        await opened.open("/")
        await opened.page.evaluate(
            "window.moved = 0; setInterval(() => { window.moved += document.getAnimations().length; }, 5)"
        )
        await button(opened, "Why").click()
        await opened.page.locator(".private").wait_for()
        await button(opened, "Acknowledge").click()
        await button(opened, "Unacknowledge").wait_for()
        await button(opened, "Unacknowledge").click()
        assert await opened.page.evaluate("window.moved") == 0


async def test_the_first_key_leads_past_the_rail(bot: Product, browser: Any) -> None:
    async with tab(browser, bot.url, WIDTHS["desktop"], "light") as opened:
        await opened.open("/alerts")
        await opened.page.keyboard.press("Tab")
        await focused(opened, "Skip to the content")
        await opened.page.keyboard.press("Enter")
        assert await opened.page.evaluate("document.activeElement.id") == "scroll"
