"""Look at the console as people hold it: tables that sort and filter, rows that open, and a phone that clips nothing."""

from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from urllib.parse import urljoin

import pytest
from aiohttp.test_utils import TestServer

from adapters.http import application
from bot.cards.card import Align, Card, Chart, ChartKind, Heading, Series, Table
from bot.model.request import CommandHint
from tests.builders import NOON
from tests.e2e import samples
from tests.e2e.browser import until
from tests.e2e.console_server import surface

pytestmark = pytest.mark.e2e
NODES = Table(
    (Heading("node"), Heading("type"), Heading("for", Align.RIGHT), Heading("$/h", Align.RIGHT)),
    tuple((f"i-{i:02}", "trn1.32xlarge", f"{i} h", f"${i * 700:,}") for i in range(1, 13)),
    lines=tuple(f"why i-{i:02}" for i in range(1, 13)),
)
CUT = """() => [...document.querySelectorAll(".table td, .rail a, .head *, .status > :not(.gap)")].filter((one) => {
  if (one.matches(".times *, .head .tabs *")) return false; // a line of controls that a finger moves along
  const box = one.getBoundingClientRect();
  const table = one.closest(".table")?.getBoundingClientRect();
  return box.width && (box.right > Math.min(innerWidth, table?.right ?? innerWidth) + 1 || box.left < -1);
}).map((one) => one.textContent)"""


@asynccontextmanager
async def served(answer, **changed):
    """Serve a console with this one answer on loopback."""
    made = surface(answer=answer, **changed)
    server = TestServer(application([made]))
    await server.start_server()
    yield str(server.make_url("/"))
    await made.stop()
    await server.close()


async def test_a_table_sorts_and_filters_by_its_own_figures(browser):
    async def answer(_):
        return Card("12 nodes", blocks=(replace(NODES, total=("total", "", "", "$54,600")),))

    async with served(answer) as address:
        opened = await browser.new_page()
        await opened.goto(urljoin(address, "/fleet"))
        await opened.get_by_role("button", name="for").click()
        assert (await opened.locator("tbody td:first-child").all_inner_texts())[0] == "i-12"
        await opened.get_by_role("button", name="for").click()
        assert (await opened.locator("tbody td:first-child").all_inner_texts())[:2] == [
            "i-01",
            "i-02",
        ]
        assert await opened.locator("th[aria-sort]").get_attribute("aria-sort") == "ascending"
        assert await opened.get_by_text("$54,600").is_visible()
        await opened.get_by_label("Filter rows").fill("i-1")
        assert await opened.locator("tbody tr:visible").count() == 3
        assert not await opened.get_by_text("$54,600").is_visible(), "it is of all twelve"
        assert "3 of 12 rows" in await opened.locator(".filter").inner_text()
        await (
            opened.locator("tbody tr:visible").first.locator("td").last.click(force=True)
        )  # anywhere on the row
        assert "line=why%20i-10" in opened.url


@pytest.mark.parametrize("width", [360, 390, 820, 1440])
async def test_nothing_is_clipped_at_any_width(browser, width):
    async def answer(_):
        return Card("12 nodes", blocks=(NODES, samples.bar_chart()))

    async with served(answer) as address:
        opened = await browser.new_page(viewport={"width": width, "height": 800})
        for path in ("/", "/fleet", "/cost", "/ask", "/help"):
            await opened.goto(urljoin(address, path))
            assert await opened.evaluate(CUT) == [], path
            assert await opened.evaluate("document.documentElement.scrollWidth") <= width


async def test_a_phone_breaks_no_word_and_reaches_every_page(browser):
    async def answer(_):
        return Card("12 nodes", blocks=(NODES,))

    async with served(answer) as address:
        opened = await browser.new_page(viewport={"width": 360, "height": 800})
        await opened.goto(urljoin(address, "/fleet"))
        tall = "[...document.querySelectorAll('tbody td')].filter((one) => one.getClientRects().length && one.offsetHeight > 30).length"
        assert await opened.evaluate(tall) == 0
        for link in await opened.locator(".rail a:visible").all():
            box = await link.bounding_box()
            assert box["width"] >= 44, await link.inner_text()
            assert box["height"] >= 44, await link.inner_text()


async def test_ask_completes_arguments_and_brings_back_what_was_asked(browser):
    hints = (
        CommandHint(
            "cost",
            "What it costs.",
            "cost 7d by team",
            changes=False,
            examples=("cost 7d by team", "cost mtd by service"),
            arguments=(("by=", "dimensions"), ("window=", "which days")),
        ),
    )
    async with served(samples_answer, hints=hints) as address:
        opened = await browser.new_page()
        await opened.goto(urljoin(address, "/ask"))
        await opened.wait_for_selector("body.ready")
        await opened.fill("#line", "cost m")
        await opened.wait_for_selector("#complete code", state="attached")
        assert await opened.locator("#complete code").all_inner_texts() == ["cost mtd by service"]
        await opened.fill("#line", "cost 7d b")
        await opened.keyboard.press("ArrowDown")
        await opened.keyboard.press("ArrowDown")
        await opened.keyboard.press("Enter")
        assert await opened.input_value("#line") == "cost 7d by="
        await opened.fill("#line", "cost 7d by=team")
        await opened.keyboard.press("Enter")
        await opened.locator("#answers .private").wait_for()
        await opened.fill("#line", "")
        await opened.locator("#line").press("ArrowUp")
        assert await opened.input_value("#line") == "cost 7d by=team"
        await opened.goto(urljoin(address, "/ask"))
        assert await opened.locator("#asked code").all_inner_texts() == ["cost 7d by=team"]


async def samples_answer(_):
    return samples.cost_card()


STATE = """(chart) => ({
  box: chart.querySelector(".plot").getAttribute("viewBox"),
  hits: [...chart.querySelectorAll(".hit")].filter((hit) => hit.getBoundingClientRect().width > 0).length,
  ticks: [...chart.querySelectorAll(".tick[text-anchor=middle]")].filter((tick) => tick.getBoundingClientRect().width > 0).map((tick) => tick.textContent),
})"""


async def test_a_drag_zooms_a_chart_over_time_and_escape_or_the_button_shows_all_again(browser):
    hours = tuple(NOON + timedelta(minutes=15 * i) for i in range(49))
    chart = Chart(
        ChartKind.LINE,
        "Utilization",
        "%",
        (Series("use", tuple(50.0 + i % 7 for i in range(49))),),
        hours,
        band=(50.0, 56.0),
    )

    async def answer(_):
        return Card("One chart", blocks=(chart,))

    async with served(answer) as address:
        page = await browser.new_page()
        await page.goto(urljoin(address, "/fleet"))
        drawn = page.locator(".chart.line")
        whole = await drawn.evaluate(STATE)
        assert whole["hits"] == 49
        for undo in ("Escape", "button"):
            area = await drawn.bounding_box()
            await page.mouse.move(area["x"] + area["width"] * 0.25, area["y"] + 40)
            await page.mouse.down()
            await page.mouse.move(area["x"] + area["width"] * 0.5, area["y"] + 60)
            await page.mouse.up()
            part = await drawn.evaluate(STATE)
            begin, _, length, _ = map(float, part["box"].split())
            assert (round(begin, -1), round(length, -1)) == (250, 250)
            assert 12 <= part["hits"] <= 14
            assert len(part["ticks"]) == 5
            assert all("15:00" <= tick <= "18:00" for tick in part["ticks"])
            await (
                page.keyboard.press("Escape")
                if undo == "Escape"
                else page.get_by_role("button", name="Show all").click()
            )
            assert await drawn.evaluate(STATE) == whole
        await drawn.click(position={"x": 40, "y": 40})  # a press zooms nothing
        assert await drawn.evaluate(STATE) == whole


MANY = Table(
    NODES.columns,
    tuple((f"i-{i:03}", "trn1.32xlarge", f"{i} h", f"${i}") for i in range(1, 251)),
    lines=tuple(f"why i-{i:03}" for i in range(1, 251)),
)
CELLS = "tbody tr:visible td:first-child"


async def test_sorting_filter_and_page_of_a_table_stand_in_its_address(browser):
    async def answer(_):
        return Card("250 nodes", blocks=(MANY,))

    async with served(answer) as address:
        page = await browser.new_page()
        await page.goto(urljoin(address, "/ask?line=fleet%20llama"))
        assert await page.locator(CELLS).count() == 100
        await page.get_by_role("link", name="Next").click()
        await page.wait_for_url("**from=101*")
        assert (await page.locator(CELLS).all_inner_texts())[0] == "i-101"
        await page.get_by_role("link", name="$/h").click()
        await page.wait_for_url("**sort=*")
        await page.get_by_role("link", name="Next").click()
        await page.wait_for_url("**from=101*")
        before = await page.locator(CELLS).all_inner_texts()
        assert before[0] == "i-150"
        again = await browser.new_page()
        await again.goto(page.url)
        assert await again.locator(CELLS).all_inner_texts() == before

        await page.get_by_label("Filter rows").fill("i-00")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**filter=i-00*")
        assert await page.locator(CELLS).count() == 9
        await again.goto(page.url)
        assert (await again.locator(CELLS).all_inner_texts())[0] == "i-009"
        assert await again.get_by_label("Filter rows").input_value() == "i-00"


async def test_keys_go_to_pages_alerts_rows_and_lines(browser):
    async def answer(_):
        return Card("12 nodes", blocks=(NODES,))

    async with served(answer) as address:
        page = await browser.new_page()
        await page.goto(urljoin(address, "/alerts"))
        await page.wait_for_selector("body.ready")
        for _ in range(2):
            await page.keyboard.press("j")
        assert await page.evaluate("document.activeElement.textContent") == "i-02"
        await page.keyboard.press("k")
        assert await page.evaluate("document.activeElement.textContent") == "i-01"
        await page.keyboard.press("?")
        assert "go to a page" in await page.locator("#keys").inner_text()
        await page.keyboard.press("Escape")
        assert not await page.locator("#keys").is_visible()

        await page.keyboard.press("Control+k")
        await page.keyboard.type("flee")
        await until(page, "document.querySelectorAll('#places li').length > 1")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/fleet**")
        await page.keyboard.press("Control+k")
        await page.keyboard.type("cost mtd by region")
        assert "ask this" in await page.locator("#places li").last.inner_text()
        await page.keyboard.press("Escape")
        assert not await page.locator("#palette").is_visible()
        await page.keyboard.press("j")  # the key goes on where the palette was opened
        assert await page.evaluate("document.activeElement.textContent") == "i-01"


async def test_a_typed_answer_has_an_address_that_can_be_copied(browser):
    async with served(samples_answer) as address:
        context = await browser.new_context(permissions=["clipboard-read", "clipboard-write"])
        page = await context.new_page()
        await page.goto(urljoin(address, "/ask"))
        await page.wait_for_selector("body.ready")
        await page.fill("#line", "cost 7d by team")
        await page.keyboard.press("Enter")
        answer = page.locator("#answers .private")
        await answer.wait_for()
        assert page.url == urljoin(address, "/cost?line=cost%207d%20by%20team")
        await answer.get_by_role("button", name="Copy link").click()
        await page.get_by_role("button", name="Copied").wait_for()
        assert await page.evaluate("navigator.clipboard.readText()") == page.url
        again = await context.new_page()
        await again.goto(page.url)
        assert await again.locator(".page .chart.bar").count() == 1
        await page.go_back()  # to the page before that answer
        await page.wait_for_url("**/ask")


@pytest.mark.parametrize("page_of", ["/", "/alerts", "/cost", "/fleet", "/saved"])
async def test_a_phone_shows_more_than_half_of_a_page(browser, page_of):
    async with served(samples_answer) as address:
        page = await browser.new_page(viewport={"width": 390, "height": 844})
        await page.goto(urljoin(address, page_of))
        await page.wait_for_selector("body.ready")
        share = "document.querySelector('#scroll').getBoundingClientRect().height / innerHeight"
        assert await page.evaluate(share) >= 0.5
