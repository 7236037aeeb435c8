"""Many tabs of one browser: each is kept up to date and answers presses, though a browser opens six connections to a host."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import pytest_asyncio

from bot.cards.card import Card, Tone
from tests.e2e.slackserver import free_port
from tests.e2e.test_connection import serving

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]
TABS = 8
SOON_MS = 10_000
WITHOUT_LOCKS = "Object.defineProperty(Navigator.prototype, 'locks', { value: undefined })"
"""As on plain HTTP to another machine."""
SEEN = "seen => { Object.defineProperty(document, 'hidden', { value: !seen, configurable: true }); \
    document.dispatchEvent(new Event('visibilitychange')); }"
"""Shows or hides a tab; without a window, a browser shows all of them."""


@pytest_asyncio.fixture(loop_scope="session")
async def context(browser: Any) -> Any:
    made = await browser.new_context(viewport={"width": 1000, "height": 800})
    made.set_default_timeout(SOON_MS)
    return made


async def opened(context: Any, url: str, path: str = "/") -> Any:
    page = await context.new_page()
    await page.goto(url + path)
    await page.wait_for_selector("body.live")
    return page


async def shows(page: Any, words: str) -> None:
    await page.locator("#messages").get_by_text(words).first.wait_for()


async def test_eight_tabs_are_kept_up_to_date_by_one_stream_and_each_answers(context: Any) -> None:
    async with serving(port := free_port()) as console:
        pages = [await opened(context, f"http://127.0.0.1:{port}") for _ in range(TABS)]
        assert len(console._hub._pages) == 1
        await console.post("alerts", Card("Nodes wait for data", Tone.WARNING), "k1")
        await asyncio.gather(*(shows(page, "Nodes wait for data") for page in pages))
        for page in pages:
            await page.get_by_role("button", name="Why").last.click()
            await page.locator(".private").first.wait_for()


async def test_another_tab_listens_once_the_one_that_did_is_closed(context: Any) -> None:
    async with serving(port := free_port()) as console:
        pages = [await opened(context, f"http://127.0.0.1:{port}") for _ in range(3)]
        for n in range(2):
            await pages.pop(0).close()
            await asyncio.sleep(0.5)
            await console.post("alerts", Card(f"Message {n}", Tone.WARNING), f"k{n}")
            await asyncio.gather(*(shows(page, f"Message {n}") for page in pages))
        assert len(console._hub._pages) == 1


async def test_a_tab_takes_over_from_one_that_sleeps(context: Any) -> None:
    async with serving(port := free_port()) as console:
        asleep, awake = [await opened(context, f"http://127.0.0.1:{port}") for _ in range(2)]
        await asleep.evaluate("() => { BroadcastChannel.prototype.postMessage = () => {}; }")
        await (
            awake.locator("#told")
            .get_by_text("The console is answering again.")
            .wait_for(state="attached", timeout=20_000)
        )
        await console.post("alerts", Card("Heard again", Tone.WARNING), "k1")
        await shows(awake, "Heard again")


async def test_where_tabs_cannot_share_one_that_nobody_sees_lets_go_and_reads_all_when_it_is_seen(
    context: Any,
) -> None:
    await context.add_init_script(WITHOUT_LOCKS)
    async with serving(port := free_port()) as console:
        pages = []
        for _ in range(TABS):
            for page in pages[-1:]:
                await page.evaluate(SEEN, False)
            pages.append(await opened(context, f"http://127.0.0.1:{port}"))
        await asyncio.sleep(3)  # the server notices a stream that was let go with the next event
        await console.post("alerts", Card("While nobody looked", Tone.WARNING), "k1")
        await shows(pages[-1], "While nobody looked")
        assert await pages[0].get_by_text("While nobody looked").count() == 0
        assert await pages[0].get_by_text("The console does not answer").is_hidden()
        await pages[-1].evaluate(SEEN, False)
        await pages[0].evaluate(SEEN, True)
        await shows(pages[0], "While nobody looked")
