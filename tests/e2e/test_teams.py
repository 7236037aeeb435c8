"""The bot in Microsoft's own client: typed, pressed, posted and edited, as a person sees it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from adapters.charts.png import draw
from adapters.chat.config import TeamsConfig, TeamsSdk
from adapters.chat.manifest import icons
from adapters.chat.teams.render import render
from adapters.chat.teams.surface import TeamsSurface
from adapters.store.memory import MemoryStore
from bot.answers.all import ANSWERS
from bot.cards.card import (
    Button,
    Buttons,
    Card,
    Chart,
    Code,
    Facts,
    Field,
    FieldKind,
    Form,
    Mention,
    Strong,
    Table,
    Text,
    Tone,
    text,
)
from bot.grammar.line import effect_of
from bot.model.request import Request
from bot.ports import ChatPorts, CommandHint
from tests.e2e import samples
from tests.e2e.playground import installed, playground

assert ANSWERS
pytestmark = pytest.mark.e2e

SHOTS = os.environ.get("TRNBOT_SHOTS", "")
"""A folder to leave pictures in; none are taken without it."""
EVIL = "[x](http://evil) **b** _i_ <at>all</at> <b>h</b> {{DATE(2020-01-01T00:00:00Z)}} `c`\n# h\n- l\n1. n"


@dataclass
class Shelf:
    """Keep documents in memory."""

    documents: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)

    def put(self, shelf: str, key: str, document: Mapping[str, Any]) -> None:
        self.documents[shelf, key] = document

    def get(self, shelf: str, key: str) -> Mapping[str, Any] | None:
        return self.documents.get((shelf, key))

    def newest(self, shelf: str, most: int) -> Sequence[tuple[str, Mapping[str, Any]]]:
        return [(key, d) for (name, key), d in reversed(self.documents.items()) if name == shelf][
            :most
        ]

    def drop(self, shelf: str, key: str) -> None:
        self.documents.pop((shelf, key), None)


async def answer(request: Request) -> Card:
    """Answer the lines of the samples; say back every other."""
    match request.line.split()[0]:
        case "alert":
            return samples.alert_card()
        case "cost" if not request.line.endswith("cluster"):
            return samples.cost_card()
        case "snooze" if "=" not in request.line:
            return samples.form_card()
    return Card("Heard", Tone.GOOD, (text("You typed ", Code(request.line)),))


@dataclass
class Client:
    """Hold the client's page and the bot behind it."""

    page: Any
    surface: TeamsSurface
    shelf: Shelf

    async def type(self, line: str) -> None:
        box = self.page.locator("[contenteditable=true]:visible").first
        await box.click()
        await self.page.keyboard.type(line)
        await self.page.keyboard.press("Enter")

    async def sees(self, words: str, n: int = 1) -> None:
        """Wait until the words stand on the page, `n` times."""
        await self.page.get_by_text(words).nth(n - 1).wait_for(timeout=15_000)
        await self.shot(words)

    async def shot(self, name: str) -> None:
        if SHOTS:
            await self.page.wait_for_timeout(400)
            await self.page.screenshot(
                path=f"{SHOTS}/teams-{''.join(c for c in name.lower() if c.isalnum())[:24]}.png"
            )

    async def conversation(self) -> str:
        """Return the personal chat's id, once the client has introduced the bot to it."""
        for _ in range(100):
            kept = self.shelf.newest("teams.conversations", 1)
            if kept:
                return kept[0][0]
            await asyncio.sleep(0.1)
        raise AssertionError("the client never introduced the bot")


async def nobody(_: str) -> None:
    """Tell no admin: nobody strange writes here."""


@pytest_asyncio.fixture(params=list(TeamsSdk), loop_scope="session")
async def client(browser: Any, request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    shelf = Shelf()
    hints = [CommandHint("cost", "What Trainium costs.", "cost 7d by team")]
    ports = ChatPorts(
        answer, lambda: datetime.now(UTC), draw, shelf, MemoryStore(), hints, effect_of
    )
    surface = TeamsSurface(TeamsConfig(development=True, sdk=request.param), ports, nobody)
    app = web.Application()
    app.add_routes(surface.routes())
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    running = playground(f"http://127.0.0.1:{runner.addresses[0][1]}/api/messages")
    try:
        url = await asyncio.to_thread(running.__enter__)
        page = await browser.new_page(viewport={"width": 1280, "height": 1000})
        await page.goto(url)
        yield Client(page, surface, shelf)
    finally:
        await asyncio.to_thread(running.__exit__, None, None, None)
        await surface.stop()
        await runner.cleanup()


async def test_a_person_asks_presses_and_submits(client: Client) -> None:
    await client.sees("Hello, trnbot watches your Trainium clusters")
    await client.type("cost 7d by team")
    await client.sees("$261,730 in 7 days, by team")
    await client.page.get_by_role("button", name="By cluster").click()
    await client.sees("cost 7d by cluster")
    assert await client.page.get_by_text("$261,730 in 7 days, by team").count() == 0
    await client.type("snooze a1")
    await client.page.get_by_placeholder("shown to the channel").fill('disk "7" moves')
    await client.page.get_by_role("button", name="Snooze").click()
    await client.sees('snooze a1 for=2h reason="disk \\"7\\" moves" others=off')


async def test_an_alert_is_posted_edited_and_answered_under_it(client: Client) -> None:
    chat = await client.conversation()
    made = await client.surface.post(chat, samples.alert_card(), "incident 7")
    assert made == (await client.surface.posted(chat)).get("incident 7", "") != ""
    await client.sees("FIRING 25 min · starved")
    await client.page.get_by_role("button", name="Why").click()
    await client.sees("why a1")
    assert await client.page.get_by_text("FIRING 25 min · starved").count() >= 1
    assert await client.surface.edit(chat, made, samples.over_card(), "incident 7") == made
    await client.sees("OVER after 1 h 10 min")
    assert await client.page.get_by_text("FIRING 25 min · starved").count() == 0


async def test_a_mention_in_a_channel_is_answered_in_its_thread(client: Client) -> None:
    await client.sees("Hello, trnbot watches your Trainium clusters")
    await client.page.get_by_text("General").first.click()
    await client.sees("teams:team-id")
    await client.page.locator("[contenteditable=true]:visible").first.click()
    await client.page.keyboard.type("@")
    await client.page.get_by_text("Megan Bowen").wait_for()
    await client.page.get_by_text("Test Bot", exact=True).last.click()
    await client.page.keyboard.type(" fleet <now>")
    await client.page.get_by_role("button", name="Post").click()
    await client.sees("You typed fleet <now>")


def cards() -> dict[str, Card]:
    """Return the cards to draw with the renderer of Adaptive Cards itself."""
    evil = (
        text(EVIL, Strong(EVIL), Code(EVIL)),
        Text((Mention("teams:29:1", EVIL), EVIL, Code(EVIL))),
        Facts(((EVIL, EVIL),)),
        Table((), ((EVIL,),), caption=EVIL),
        Form(EVIL, "x", (Field("a", EVIL, hint=EVIL), Field("b", EVIL, FieldKind.SWITCH))),
        Buttons((Button(EVIL, "x"),)),
    )
    made = {
        name: getattr(samples, f"{name}_card")()
        for name in ("alert", "idle", "over", "cost", "form", "good")
    }
    return made | {"evil": Card(EVIL, blocks=evil)}


DRAW = """card => {
  const events = [];
  const mark = markdownit();
  AdaptiveCards.AdaptiveCard.onProcessMarkdown = (text, result) => { result.outputHtml = mark.render(text); result.didProcess = true; };
  const drawn = new AdaptiveCards.AdaptiveCard();
  const context = new AdaptiveCards.SerializationContext();
  drawn.parse(card, context);
  for (let i = 0; i < context.eventCount; i++) events.push(context.getEventAt(i).message);
  drawn.validateProperties().validationEvents.forEach(event => events.push(event.message));
  document.body.replaceChildren(drawn.render());
  return events;
}"""


@pytest_asyncio.fixture(loop_scope="session")
async def painter(browser: Any) -> Any:
    """Return a page with the reference renderer and a markdown reader."""
    modules = installed() / "node_modules"
    page = await browser.new_page(viewport={"width": 640, "height": 900})
    await page.set_content(
        "<!doctype html><meta charset=utf-8><body style='font: 14px sans-serif'>"
    )
    for script in (
        "adaptivecards/dist/adaptivecards.min.js",
        "markdown-it/dist/markdown-it.min.js",
    ):
        await page.add_script_tag(path=str(modules / script))
    return page


@pytest.mark.parametrize("name", cards())
async def test_the_reference_renderer_finds_no_fault(painter: Any, name: str) -> None:
    events = await painter.evaluate(
        DRAW, json.loads(json.dumps(render(cards()[name], lambda _: icons()["outline.png"])))
    )
    assert [event for event in events if "Chart." not in event] == []
    assert await painter.locator("img").count() == len(
        [b for b in cards()[name].blocks if isinstance(b, Chart)]
    )
    if SHOTS:
        await painter.screenshot(path=f"{SHOTS}/teams-card-{name}.png", full_page=True)


async def test_text_from_data_is_drawn_as_it_stands(painter: Any) -> None:
    await painter.evaluate(DRAW, render(cards()["evil"]))
    assert await painter.locator("a, b, em, h1, li, code").count() == 0
    assert await painter.locator("strong").count() == 0
    assert "[x](http://evil) **b** _i_" in await painter.inner_text("body")
