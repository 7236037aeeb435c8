"""Use the console as a reader does, in a real browser."""

import json
from html import escape
from urllib.parse import quote, urljoin

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from adapters.http import application
from bot.cards.card import Card, Tone
from bot.model.request import Manner
from tests.e2e import samples
from tests.e2e.browser import until
from tests.e2e.console_server import answer, filled, surface

pytestmark = pytest.mark.e2e


@pytest_asyncio.fixture(loop_scope="session")
async def console():
    """Serve the sample console on loopback."""
    asked = []

    async def noted(request):
        asked.append(request)
        return await answer(request)

    async def served(request, response):
        made.served.append((request.headers.get("Sec-Fetch-Dest"), response.status))

    made = surface(answer=noted)
    app = application([made])
    app.on_response_prepare.append(served)
    server = TestServer(app)
    await server.start_server()
    made.address, made.asked, made.served = str(server.make_url("/")), asked, []
    yield made
    await made.stop()
    await server.close()


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser, console):
    """Open the channel; any script error or blocked resource fails the test."""
    context = await browser.new_context(
        viewport={"width": 1400, "height": 900}, timezone_id="Asia/Tokyo", locale="en-GB"
    )
    opened = await context.new_page()
    problems = []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    await filled(console)
    await opened.goto(console.address)
    await opened.wait_for_selector("body.ready")
    yield opened
    assert problems == []


async def test_a_message_changes_in_place_while_it_is_read(page, console):
    posted = (await console.posted("alerts")).get("k2", "")
    await console.edit(
        "alerts", posted, Card("OVER after 1 h 10 min · cost $1,263", Tone.OVER), "k2"
    )
    await page.wait_for_selector(f"#{posted} .card.over")
    assert await page.locator(".slot").count() == 3


async def test_a_new_message_appears_by_itself(page, console):
    posted = await console.post("alerts", samples.idle_card(), "k7")
    await page.wait_for_selector(f"#{posted}")
    assert await page.locator("#messages > .slot").last.get_attribute("id") == posted


NOTIFIES = """
  globalThis.notes = [];
  globalThis.Notification = class {
    static permission = "default";
    static async requestPermission() { return Notification.permission = "granted"; }
    constructor(title, { body }) { notes.push([title, body]); }
    addEventListener() {}
  };
"""
HIDE = "Object.defineProperty(document, 'hidden', { get: () => true, configurable: true })"


async def test_the_bell_notifies_of_new_messages_while_nobody_sees_the_page(page, console):
    await page.add_init_script(NOTIFIES)
    await page.reload()
    await page.wait_for_selector("body.live")
    bell = page.get_by_role("button", name="Notify me of new messages")
    await bell.click()
    assert await bell.get_attribute("aria-pressed") == "true"
    await console.post("alerts", samples.idle_card(), "k7")  # in sight: the page shows it
    await until(page, "document.querySelectorAll('#messages > .slot').length === 4")
    await page.evaluate(HIDE)
    posted = await console.post("alerts", samples.alert_card(), "k8")
    await until(page, "notes.length === 1")
    title, body = await page.evaluate("notes[0]")
    assert "llama-70b" in title
    assert "$1,083 an hour" in body
    await console.edit("alerts", posted, samples.over_card(), "k8")  # no news that rings
    await page.wait_for_selector(f"#{posted} .card.over")
    assert await page.evaluate("notes.length") == 1
    await bell.click()
    assert await bell.get_attribute("aria-pressed") == "false"


async def test_times_are_the_readers(page):
    time = page.locator("#status time")
    assert await time.inner_text() == "Nov 20, 23:25 GMT+9"
    assert await time.get_attribute("title") == "2026-11-20 14:25:00 UTC"


async def test_a_button_answers_under_its_message_for_the_reader_alone(page, console):
    await page.get_by_role("button", name="Why").last.click()
    answer = page.locator(".slot .private")
    await answer.wait_for()
    assert "Only you see this" in await answer.inner_text()
    await answer.get_by_role("button", name="Dismiss").click()
    assert await page.locator(".private").count() == 0


async def test_a_form_opens_in_a_dialog_and_submits_its_line(page):
    await page.get_by_role("button", name="Snooze…").last.click()
    dialog = page.locator("dialog[open]")
    await dialog.wait_for()
    await dialog.get_by_label("Reason").fill("known issue")
    await dialog.get_by_label("Also other alerts").check()
    await dialog.get_by_role("button", name="Snooze").click()
    answer = page.locator(".private")
    await answer.wait_for()
    assert 'snooze a1 for=2h reason="known issue" others=on' in await answer.inner_text()
    assert await page.locator("dialog[open]").count() == 0


async def test_typing_completes_and_asks(page):
    await page.keyboard.press("/")
    await page.keyboard.type("co")
    await page.locator("#complete li").wait_for()
    await page.keyboard.press("Tab")
    assert await page.input_value("#line") == "cost 7d by team"
    await page.keyboard.press("Enter")
    await page.locator("#answers .private svg.chart.bar").wait_for()


async def test_pointing_at_a_chart_tells_the_value(page):
    await page.locator(".chart.line .hit").nth(72).hover()
    assert await page.locator("figure .tip").last.inner_text() == "Nov 20, 14:25 UTC\n20 %"
    assert await page.locator("figure .cross").last.is_visible()


async def test_the_chosen_theme_stays(page):
    before = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    await page.get_by_role("button", name="Switch between light and dark").click()
    after = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    await page.reload()
    assert before != after == await page.evaluate("getComputedStyle(document.body).backgroundColor")


async def test_narrow_screens_never_scroll_sideways(page):
    await page.set_viewport_size({"width": 420, "height": 900})
    for path in ("/", "/cost", "/ask"):
        await page.goto(urljoin(page.url, path))
        assert await page.evaluate("document.documentElement.scrollWidth") <= 420


async def test_it_reads_and_asks_without_javascript(browser, console):
    await filled(console)
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(console.address)
    await page.fill("#line", "cost 7d by team")
    await page.get_by_role("button", name="Ask").click()
    assert "$261,730 in 7 days" in await page.locator("h2").first.inner_text()


async def test_a_message_taller_than_the_view_shows_its_beginning(page):
    await page.set_viewport_size({"width": 1000, "height": 460})
    await page.reload()
    await page.wait_for_selector("body.ready")
    newest = page.locator("#messages > .slot").last
    assert (await newest.bounding_box())["height"] > 300
    top = (await newest.locator("h2").bounding_box())["y"]
    assert (await page.locator("#scroll").bounding_box())["y"] < top < 300


LINES = ('config "undo"', 'config "apply" p1', "ack a1", "share cost", "cost 7d by team")
ELSEWHERE = """<!doctype html><title>elsewhere</title>
<link rel="prefetch" href="{ask}"><link rel="stylesheet" href="{ask}">
<img src="{ask}"><img src="{ask}" referrerpolicy="no-referrer"><script src="{ask}"></script>
<iframe src="{ask}"></iframe><object data="{ask}"></object><embed src="{ask}"><video src="{ask}"></video>
<iframe name="sunk"></iframe>
<form id="get" action="{console}ask" target="sunk"><input name="line" value="{line}"></form>
<form id="post" action="{console}ask" method="post" target="sunk"><input name="line" value="{line}"></form>
<a id="line" href="{ask}">line</a> <a id="alert" href="{console}alert/a1">alert</a>
<script>
const tried = [];
for (const mode of ["no-cors", "cors"]) tried.push(fetch("{ask}", {{ mode, credentials: "include" }}));
for (const path of ["ask", "form"])
  tried.push(fetch("{console}" + path, {{ method: "POST", mode: "no-cors", body: new URLSearchParams({{ line: {typed} }}) }}));
tried.push(fetch("{console}ask", {{ method: "POST", headers: {{ "X-Trnbot": "console" }}, body: "line=ack+a1" }}));
tried.push(new Promise((done) => {{ const events = new EventSource("{console}events"); events.onerror = events.onmessage = done; }}));
document.querySelector("#get").submit(); document.querySelector("#post").submit();
Promise.allSettled(tried).then(() => setTimeout(() => document.body.classList.add("tried"), 500));
</script>"""


@pytest_asyncio.fixture(loop_scope="session")
async def elsewhere(console):
    """Serve a page of another site that tries everything a page may try."""

    async def page(request):
        line = request.query["line"]
        ask = f"{console.address}ask?line={quote(line)}"
        shown = ELSEWHERE.format(
            ask=ask, console=console.address, line=escape(line), typed=json.dumps(line)
        )
        return web.Response(text=shown, content_type="text/html")

    app = web.Application()
    app.add_routes([web.get("/", page)])
    server = TestServer(app)
    await server.start_server()
    yield server
    await server.close()


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
@pytest.mark.parametrize("line", LINES)
async def test_a_page_of_another_site_asks_nothing_by_image_script_frame_form_or_call(
    browser, console, elsewhere, name, line
):
    page = await (await browser.new_context()).new_page()
    await page.goto(f"http://{name}:{elsewhere.port}/?line={quote(line)}")
    await page.wait_for_selector("body.tried", state="attached")
    assert console.asked == []
    assert {"image", "script", "style", "iframe", "object", "embed", "video", "empty"} <= {
        part for part, _ in console.served
    }
    assert {status for _, status in console.served} <= {403, 405}, console.served


async def test_a_link_of_another_site_opens_an_alert_and_a_line_that_waits(
    browser, console, elsewhere
):
    page = await (await browser.new_context()).new_page()
    for line in LINES:
        await page.goto(f"http://localhost:{elsewhere.port}/?line={quote(line)}")
        await page.click("#line")
        await page.get_by_text("It runs when you press Run.").wait_for()
        assert console.asked == []
    await page.get_by_role("button", name="Run").click()
    await page.get_by_text("$261,730 in 7 days").first.wait_for()
    await page.goto(f"http://localhost:{elsewhere.port}/?line=cost")
    await page.click("#alert")
    await page.locator(".page h2").wait_for()
    assert ("alert a1", Manner.VIEWED) in [(one.line, one.manner) for one in console.asked]
    assert Manner.ASKED in {one.manner for one in console.asked}


async def test_signing_in_following_a_link_and_signing_out(browser, elsewhere):
    locked = surface(secret="correct horse battery staple")
    server = TestServer(application([locked]))
    await server.start_server()
    address = str(server.make_url("/"))
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(address)
    await page.get_by_label("The console's token").fill("correct horse battery staple")
    await page.get_by_role("button", name="Sign in").click()
    await page.get_by_role("button", name="Sign out").wait_for()
    stolen = await context.cookies()
    await page.goto(f"http://localhost:{elsewhere.port}/?line=cost")
    await page.evaluate(
        "(at) => { document.body.innerHTML = `<a href='${at}'>go</a>` }", f"{address}alert/a1"
    )
    await page.click("a")
    await page.locator(
        ".page h2"
    ).wait_for()  # the cookie stays back at first; the page loads itself again
    await page.get_by_role("button", name="Sign out").click()
    await page.get_by_label("The console's token").wait_for()
    await context.add_cookies(stolen)
    await page.goto(address)
    await page.get_by_label("The console's token").wait_for()
    await locked.stop()
    await server.close()
