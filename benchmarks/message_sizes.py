"""Measure how tall messages are in the clients, on a phone and on a desk.

`python -m benchmarks.message_sizes [PICTURES [DRAWN]]`.

The sample cards of the tests are drawn as Slack and Teams get them, and shown by local-slack's page
and by the reference renderer of Adaptive Cards; each is measured in CSS pixels, and in screens of a
phone of 390 by 844. Letters are of condensed DejaVu, about as wide as those of Lato and Segoe; a
chart that Teams draws itself is its picture here. With PICTURES each is left there as a picture, in
both themes. DRAWN is a JSON file of messages that another version drew, as `drawn` returns them.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from playwright.async_api import Browser, Page

from adapters.charts.png import draw
from adapters.chat.slack.render import Around, chart_places, draws, message
from adapters.chat.teams.render import render
from bot.cards.card import Chart
from tests.cards.samples import SAMPLES
from tests.e2e.browser import chromium
from tests.e2e.playground import TEAMS_DARK, installed
from tests.e2e.slackpage import AS_SLACK_SHOWS, DARK
from tests.e2e.slackserver import BOT_TOKEN, FINANCE, SlackServer, slack_server

LINES: Mapping[str, str] = {
    "notice_first": "",
    "notice_storm": "",
    "notice_over": "",
    "cost": "cost 7d by team",
    "summary": "summary",
    "fleet": "fleet",
    "why": "why a9ba409518",
}
"""The sample cards that are measured, with the lines that they answer."""
SCREEN, WIDE = (390, 844), (1280, 900)
NOTIFICATION = 60
"""Characters that a phone shows of a notification at least."""
PLACED = (
    "* { font-family: 'DejaVu Sans Condensed', sans-serif !important }"
    " .sidebar, .thread-pane, .composer, .msg-hover-actions { display: none !important }"
    " .app, .body, .main, .messages { display: block !important; height: auto !important;"
    " overflow: visible !important } .msg { padding: 8px 16px !important }"
    " .bk-image { margin: 6px 0 !important }"
)
"""Leaves only the messages on local-slack's page, as a phone shows them."""
TEAMS_PAGE = (
    "<!doctype html><meta charset=utf-8><style>body { margin: 0; padding: 8px 16px; max-width: 640px;"
    " font: 14px 'DejaVu Sans Condensed', sans-serif } .ac-adaptiveCard { border: 1px solid #ddd; border-radius:"
    " 8px } .ac-pushButton { font: 600 14px 'DejaVu Sans Condensed', sans-serif; padding: 5px 12px; border: 1px"
    " solid #ddd; border-radius: 4px; background: none } p { margin: 0 }"
    " td, .ac-tableCell, .ac-textRun, .ac-richTextBlock { overflow-wrap: anywhere }</style><body>"
)
TEAMS_HOST = {
    "fontFamily": "'DejaVu Sans Condensed', sans-serif",
    "fontSizes": {"small": 12, "default": 14, "medium": 14, "large": 18, "extraLarge": 24},
    "spacing": {"small": 8, "default": 12, "medium": 16, "large": 20, "padding": 16},
    "actions": {"buttonSpacing": 8, "maxActions": 6, "actionsOrientation": "horizontal"},
    "supportsInteractivity": True,
    "containerStyles": {
        name: {"backgroundColor": color}
        for name, color in (
            ("default", "#ffffff"),
            ("emphasis", "#f0f0f0"),
            ("accent", "#c7def9"),
            ("good", "#cceaca"),
            ("warning", "#ffe2b2"),
            ("attention", "#ffc5b2"),
        )
    },
}
DRAW_CARD = """([card, host]) => {
  const mark = markdownit();
  AdaptiveCards.AdaptiveCard.onProcessMarkdown = (text, result) => {
    result.outputHtml = mark.render(text);
    result.didProcess = true;
  };
  const drawn = new AdaptiveCards.AdaptiveCard();
  drawn.hostConfig = new AdaptiveCards.HostConfig(host);
  drawn.parse(card);
  document.body.replaceChildren(drawn.render());
}"""
BOX = """element => {
  const {height} = element.getBoundingClientRect();
  return [Math.ceil(height), element.innerText.trim().length];
}"""
PICTURED = """pictures => Promise.all([...document.querySelectorAll(".bk-image img:not([src])")].map(img => {
  const done = new Promise(shown => { img.onload = img.onerror = shown; });
  img.src = pictures[img.alt] ?? "";
  img.style.width = "min(480px, 100%)";
  return img.src ? done : null;
}))"""


@dataclass(frozen=True)
class Measured:
    """Hold the size of a message in a client: CSS pixels, characters and blocks."""

    surface: str
    name: str
    width: int
    height: int
    characters: int
    blocks: int


def drawn() -> dict[str, Any]:
    """Return each message as Slack and Teams get it, with the pictures of its charts."""
    messages: dict[str, Any] = {}
    for name, line in LINES.items():
        card = SAMPLES[name]()
        native = draws(card)
        charts = chart_places(card, native=native)
        images = {place: f"F{place}" for place in charts}
        body = message(card, Around(line=line, images=images, native=native))
        messages[name] = {
            "text": body.text,
            "slack": body.blocks,
            "pictures": {f"F{place}": _address(chart) for place, chart in charts.items()},
            "teams": json.loads(json.dumps(render(card, draw))),
        }
    return messages


def _address(chart: Chart) -> str:
    return f"data:image/png;base64,{base64.b64encode(draw(chart)).decode('ascii')}"


async def post(server: SlackServer, body: Mapping[str, Any]) -> str:
    """Post a message as the bot, and return its `ts`."""
    said = {"channel": FINANCE, "text": body["text"], "blocks": body["slack"]}
    headers = {"Authorization": f"Bearer {BOT_TOKEN}"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(f"{server.api_url}chat.postMessage", json=said) as response,
    ):
        answer = await response.json()

    return str(answer["ts"])


async def in_slack(browser: Browser, messages: Mapping[str, Any], pictures: str) -> list[Measured]:
    """Show every message in local-slack's page, and measure it at both widths."""
    found = []
    with tempfile.TemporaryDirectory() as folder, slack_server("socket", Path(folder)) as server:
        places = {name: await post(server, body) for name, body in messages.items()}
        for width, height in (SCREEN, WIDE):
            page = await browser.new_page(viewport={"width": width, "height": height})
            await page.goto(server.url)
            await page.get_by_text("finops-alerts").first.click()
            await page.wait_for_selector(".msg")
            await page.add_style_tag(content=PLACED)
            await page.evaluate(PICTURED, _by_alt(messages))
            await page.evaluate(AS_SLACK_SHOWS, FINANCE)
            for name, ts in places.items():
                place = page.locator(f'.msg[data-ts="{ts}"]')
                tall, characters = await place.evaluate(BOX)
                blocks = len(messages[name]["slack"])
                found.append(Measured("slack", name, width, tall, characters, blocks))
                await shoot(page, place, f"{pictures}/slack-{name}-{width}", DARK, pictures)
            await page.close()
    return found


def _by_alt(messages: Mapping[str, Any]) -> dict[str, str]:
    """Return the address of each picture by its words, as the page shows no file's id."""
    return {
        block["alt_text"]: body["pictures"].get(block["slack_file"]["id"], "")
        for body in messages.values()
        for block in body["slack"]
        if block["type"] == "image"
    }


async def in_teams(browser: Browser, messages: Mapping[str, Any], pictures: str) -> list[Measured]:
    """Draw every card by the reference renderer, and measure it at both widths."""
    found, modules = [], installed() / "node_modules"
    for width, height in (SCREEN, WIDE):
        page = await browser.new_page(viewport={"width": width, "height": height})
        await page.set_content(TEAMS_PAGE)
        for script in ("adaptivecards/dist/adaptivecards", "markdown-it/dist/markdown-it"):
            await page.add_script_tag(path=str(modules / f"{script}.min.js"))
        for name, body in messages.items():
            await page.evaluate(DRAW_CARD, [body["teams"], TEAMS_HOST])
            await page.wait_for_timeout(200)
            place = page.locator(".ac-adaptiveCard").first
            tall, characters = await place.evaluate(BOX)
            blocks = len(body["teams"]["body"])
            found.append(Measured("teams", name, width, tall, characters, blocks))
            await shoot(page, place, f"{pictures}/teams-{name}-{width}", TEAMS_DARK, pictures)
        await page.close()
    return found


async def shoot(page: Page, place: Any, path: str, dark: str, wanted: str) -> None:
    """Leave a picture in each theme, where pictures are wanted."""
    if not wanted:
        return
    await place.screenshot(path=f"{path}.png")
    style = await page.add_style_tag(content=dark)
    with suppress(Exception):
        await place.screenshot(path=f"{path}-dark.png")
    await style.evaluate("style => style.remove()")


def show(found: Sequence[Measured], messages: Mapping[str, Any]) -> None:
    """Print a line for each message and width, and what a notification begins with."""
    print(
        f"{'client':7}{'message':14}{'width':>6}{'pixels':>8}{'screens':>9}{'chars':>7}{'blocks':>8}"
    )
    for x in found:
        screens = f"{x.height / SCREEN[1]:.2f}"
        print(
            f"{x.surface:7}{x.name:14}{x.width:6}{x.height:8}{screens:>9}{x.characters:7}{x.blocks:8}"
        )
    for name, body in messages.items():
        print(f"{name:14} {body['text'][:NOTIFICATION]!r}")


async def measure(messages: Mapping[str, Any], pictures: str) -> list[Measured]:
    """Show the messages in both clients, and return their sizes."""
    async with chromium() as browser:
        found = await in_slack(browser, messages, pictures)
        found += await in_teams(browser, messages, pictures)
    return found


def main(pictures: str = "", source: str = "") -> None:
    """Draw, or read the drawn; show, measure and print."""
    messages = json.loads(Path(source).read_text(encoding="utf-8")) if source else drawn()
    if pictures:
        Path(pictures).mkdir(parents=True, exist_ok=True)
    show(asyncio.run(measure(messages, pictures)), messages)


if __name__ == "__main__":
    main(*sys.argv[1:])
