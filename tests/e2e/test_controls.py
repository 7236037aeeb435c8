"""Press every control of every page of the product itself, at three widths, light or dark: what the page says was done.

`test_access.py` looks at the same pages by axe-core, and presses by keys.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bot.answers.all import ANSWERS
from bot.grammar.line import effect_of
from bot.model.request import Effect
from tests.e2e.browser import until
from tests.e2e.consoles import WIDTHS, WINDOWS, Tab, kept, starved, tab
from tests.e2e.product import Product

assert ANSWERS
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]
ANSWER_MS = 30_000
CONTROLS = "main form[method=post]:not(#composer):not([data-plain]) button:visible"
LOCAL = "main button:visible:enabled:not(form button)"
"""What changes the page alone: sorting, dismissing, the theme."""
DIALOG = "dialog[open]"


SHORT = "the bill does not"
"""An example may ask for more of the bill than the small recording here has."""


@dataclass(frozen=True)
class Press:
    """Hold what became of one press: what was asked, what the page says, and whether the server keeps something else now."""

    line: str
    says: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]

    @property
    def changed(self) -> set[str]:
        return {name for name in self.before if self.before[name] != self.after[name]}


@pytest.fixture
def bot(watched: Path) -> Iterator[Product]:
    """Serve a bot of its own to each test: answers that one shares push the alert off the page of the next."""
    with starved(watched) as served:
        yield served


@pytest.mark.parametrize(("device", "theme"), WINDOWS)
async def test_every_control_of_every_page_does_what_the_page_says(
    bot: Product, browser: Any, device: str, theme: str
) -> None:
    async with tab(browser, bot.url, WIDTHS[device], theme) as opened:
        pressed = [
            press for path in await opened.paths() for press in await press_all(opened, bot, path)
        ]
    wrong = [mistake for press in pressed for mistake in mistakes(press)]
    assert wrong == []
    assert len(pressed) > 20
    lines = {press.line.split()[0] for press in pressed}
    assert {"share", "ack", "unack", "snooze", "not-an-anomaly", "why", "config"} <= lines, lines


async def test_every_link_of_every_page_opens(browser: Any, watched: Path) -> None:
    links: dict[str, str] = {}
    with starved(watched) as bot:  # one of its own: presses elsewhere take alerts away
        async with tab(browser, bot.url, WIDTHS["desktop"], "light") as opened:
            for path in await opened.paths():
                await opened.open(path)
                found = await opened.page.locator("a[href^='/']:not([download])").evaluate_all(
                    "every => every.map((one) => one.getAttribute('href'))"
                )
                links |= {link: path for link in found if link not in links}
                files = opened.page.locator("a[download]")
                for file in await files.evaluate_all(
                    "every => every.map((one) => one.getAttribute('href'))"
                ):
                    answer = await opened.page.request.get(bot.url + file)
                    assert answer.headers["content-type"] == "text/csv", (
                        f"{path}: {file} is {answer.status}"
                    )
            assert len(links) > 15
            for link, path in links.items():
                answer = await opened.page.goto(bot.url + link)
                refused = await opened.page.locator(".card.error").all_inner_texts()
                assert answer.status == (400 if refused else 200), f"{path} links to {link}"
                assert all(SHORT in words for words in refused), (
                    f"{path} links to {link}: {refused}"
                )


def mistakes(press: Press) -> list[str]:
    """Return how the page and the server disagree."""
    effect, told = effect_of(press.line), press.says.partition(":")[0]
    shown = f"{press.line!r} was said to be {press.says!r}, and {sorted(press.changed) or 'nothing'} changed"
    if told == "failure":
        return [shown]
    if told == "told":
        return [] if press.changed == {"told"} or effect is Effect.CHANGES else [shown]
    if effect is not Effect.CHANGES or told in ("refused", "asked"):
        return [shown] if press.changed else []
    return [] if press.changed - {"told"} else [shown]


async def press_all(opened: Tab, bot: Product, path: str) -> list[Press]:
    """Press each control of a page as it stands when it is opened; one that an earlier press took away is skipped."""
    await opened.open(path)
    labels = await opened.page.locator(CONTROLS).all_inner_texts()
    made: list[Press] = []
    for at, label in enumerate(labels):
        await opened.open(path)
        if (await opened.page.locator(CONTROLS).all_inner_texts())[at : at + 1] == [label]:
            made += await press_on(opened, bot, opened.page.locator(CONTROLS).nth(at))
    await opened.open(path)
    for control in await opened.page.locator(LOCAL).element_handles():
        # A browser that lets nobody be notified takes the bell away.
        if not await control.is_visible():
            continue
        await control.click()
        if await opened.page.locator(DIALOG).count():
            await opened.page.keyboard.press("Escape")
    return made


async def press_on(opened: Tab, bot: Product, control: Any) -> list[Press]:
    """Press a control, submit what it opens as it stands, and take back what can be taken back."""
    made = [await press(opened, bot, control)]
    while (
        len(made) < 5
        and await opened.page.locator(DIALOG).count()
        and not made[-1].says.startswith("refused")
    ):
        for field in await opened.page.locator(f"{DIALOG} input[required]").all():
            await field.fill(await field.input_value() or "Bob")
        made.append(
            await press(
                opened, bot, opened.page.locator(f"{DIALOG} form[method=post] button:visible").first
            )
        )
    if await opened.page.locator(DIALOG).count():
        await opened.page.keyboard.press("Escape")
    undo = opened.page.locator(".private").get_by_role("button", name="Undo", exact=True)
    if effect_of(made[-1].line) is Effect.CHANGES and await undo.count():
        made.append(await press(opened, bot, undo.first))
        assert made[-1].after["mutes"] == made[0].before["mutes"], "Undo leaves a mute"
    return made


async def press(opened: Tab, bot: Product, control: Any) -> Press:
    page, before = opened.page, kept(bot)
    answers = await page.locator(".private").count()
    line = await control.evaluate("one => one.form.elements.line.value")
    async with page.expect_response(
        lambda response: response.request.method == "POST", timeout=ANSWER_MS
    ) as answered:
        await control.click(timeout=10_000)
    response = await answered.value
    await response.finished()
    await until(page, "!document.querySelector('[aria-busy=true]')")
    says = await what_is_said(page, response, answers)
    decided = effect_of(line) is Effect.CHANGES and not says.startswith(("asked", "refused"))
    return Press(line, says, before, await settled(bot, before) if decided else kept(bot))


async def settled(bot: Product, before: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what the server keeps once the thread of a decision has been told, which no press waits for."""
    # On a busy machine the thread hears of it after the page. Once it has, a second without news is
    # enough; few decisions are told to no thread.
    still, last = 0, kept(bot)
    while still < (40 if last["told"] == before["told"] else 4):
        await asyncio.sleep(0.25)
        now = kept(bot)
        still, last = still + 1 if now == last else 0, now
    return last


async def what_is_said(page: Any, response: Any, answers: int) -> str:
    """Return what the page says after a press, as its reader would sum it up."""
    for kind, place in (("failure", ".failure:visible"), ("refused", f"{DIALOG} .problem:visible")):
        if found := await page.locator(place).all_inner_texts():
            return f"{kind}: {found[0]}"
    if response.status == 204:
        return (
            "told: everyone"
            if await page.locator(".noted:visible").count()
            else "failure: nothing is shown"
        )
    if await page.locator(DIALOG).count():
        return f"asked: {await page.locator(f'{DIALOG} h2').first.inner_text()}"
    if await page.locator(".private").count() <= answers:
        return "failure: nothing is shown"
    card = (
        page.locator(".private .card").last
        if await page.locator("#answers .private").count()
        else page.locator(".private .card").first
    )
    kind = "refused" if "error" in str(await card.get_attribute("class")) else "answered"
    return f"{kind}: {await card.locator('h2').inner_text()}"
