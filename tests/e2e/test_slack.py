"""Use Slack as its people do, against a server that speaks Slack's own protocols."""

import asyncio
import json
from dataclasses import replace

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from adapters.charts.png import draw
from adapters.chat.config import SlackConfig
from adapters.chat.slack.surface import SlackSurface
from adapters.store.memory import MemoryStore
from bot.answers.all import ANSWERS
from bot.cards.card import Button, Buttons, Card, Code, Tone, text
from bot.grammar.line import effect_of
from bot.ports import ChatPorts
from tests.e2e import samples
from tests.e2e.console_server import HINTS
from tests.e2e.slackserver import (
    ALICE,
    APP_TOKEN,
    BOB,
    BOT_TOKEN,
    FINANCE,
    GENERAL,
    SECRET,
    free_port,
    slack_server,
)

assert ANSWERS
pytestmark = pytest.mark.e2e


async def answer(request):
    """Answer a few lines as the bot would."""
    word = request.line.removeprefix("share ").split()[0]
    if word == "cost":
        card = samples.cost_card()
        share = Buttons((Button("Share", f"share {request.line}"),))
        return (
            replace(card, public=True)
            if request.line.startswith("share ")
            else replace(card, blocks=(*card.blocks, share))
        )
    if request.line == "snooze a1":
        return samples.form_card()
    return Card(f"{word} done", Tone.GOOD, (text("You typed ", Code(request.line)),))


def surface_for(server, mode):
    app_token = APP_TOKEN if mode == "socket" else ""
    config = SlackConfig(
        bot_token=BOT_TOKEN, app_token=app_token, signing_secret=SECRET, api_url=server.api_url
    )
    store = MemoryStore()
    return SlackSurface(
        config, ChatPorts(answer, lambda: samples.NOW, draw, store, store, HINTS, effect_of)
    )


@pytest_asyncio.fixture(params=["socket", "events"], loop_scope="session")
async def slack(request, tmp_path):
    """Yield the server with a surface connected to it, by Socket Mode and by signed HTTP."""
    port = free_port()
    with slack_server(request.param, tmp_path, port) as server:
        surface = surface_for(server, request.param)
        app = web.Application()
        app.add_routes(surface.routes())
        async with TestServer(app, port=port):
            await surface.start()
            yield server, surface
            await surface.stop()


async def until(found, seconds=15):
    """Return the first true result of `found`, or fail."""
    for _ in range(seconds * 20):
        if result := await found():
            return result
        await asyncio.sleep(0.05)
    pytest.fail("it did not happen")


async def message(server, channel, words):
    async def found():
        return next(
            (
                one
                for one in await server.messages(channel)
                if words in json.dumps(one, ensure_ascii=False)
            ),
            None,
        )

    return await until(found)


def button(posted, label):
    every = [
        one for block in posted["blocks"] if block["type"] == "actions" for one in block["elements"]
    ]
    return next(one for one in every if one["text"]["text"] == label)


async def test_a_command_is_answered_privately_and_shared_by_its_button(slack):
    server, _ = slack
    await server.control(
        "command", channel=GENERAL, user=ALICE, command="/trn", text="cost 7d by team"
    )
    private = await message(server, GENERAL, "$261,730")
    assert private["ephemeral_to"] == ALICE
    await server.press(GENERAL, private, button(private, "Share"))

    async def shared():
        return [
            one
            for one in await server.messages(GENERAL)
            if "$261,730" in one["text"] and "ephemeral_to" not in one
        ]

    assert await until(shared)


async def test_a_notice_is_posted_found_edited_and_answered_in_its_thread(slack):
    server, surface = slack
    ts = await surface.post(FINANCE, samples.alert_card(), "incident-1")
    assert (await surface.posted(FINANCE)).get("incident-1", "") == ts
    assert (await surface.posted(FINANCE)).get("incident-2", "") == ""
    assert await surface.edit(FINANCE, ts, samples.over_card(), "incident-1") == ts
    await surface.reply(FINANCE, ts, samples.good_card(), "k1")
    edited, reply = await server.messages(FINANCE)
    assert edited["text"].startswith("⚪ OVER after 1 h 10 min")
    assert reply["thread_ts"] == ts


async def test_a_deleted_notice_is_posted_fresh(slack):
    server, surface = slack
    ts = await surface.post(FINANCE, samples.alert_card(), "incident-1")
    await server.control("delete-message", channel=FINANCE, ts=ts, user="U0BOT")
    fresh = await surface.edit(FINANCE, ts, samples.over_card(), "incident-1")
    assert fresh != ts
    assert (await surface.posted(FINANCE)).get("incident-1", "") == fresh


async def test_a_mention_in_a_thread_is_answered_there_once(slack):
    server, surface = slack
    ts = await surface.post(GENERAL, samples.alert_card(), "incident-1")
    await server.control("message", channel=GENERAL, user=BOB, text="<@U0BOT> why a1", thread_ts=ts)
    assert (await message(server, GENERAL, "why done"))["thread_ts"] == ts
    assert sum("why done" in one["text"] for one in await server.messages(GENERAL)) == 1


async def test_app_home_is_published(slack):
    server, _ = slack
    await server.control("open-home", user=ALICE)

    async def published():
        return "views.publish" in json.dumps(await server.control("log"))

    assert await until(published)


@pytest_asyncio.fixture(loop_scope="session")
async def page(slack, browser):
    """Open the channel in a browser as Alice."""
    opened = await browser.new_page()
    await opened.goto(slack[0].url)
    await opened.get_by_text("finops-alerts").first.click()
    return opened


async def test_a_button_opens_a_form_in_a_modal_and_its_answer_is_private(slack, page):
    server, surface = slack
    await surface.post(FINANCE, samples.alert_card(), "incident-1")
    await page.get_by_role("button", name="Snooze…").click()
    await page.get_by_text("Snooze this alert").wait_for()
    await page.locator("select.bk-select").select_option("1d")
    await page.locator("input.bk-plain-input").nth(0).fill("$5,000")
    await page.locator("input.bk-plain-input").nth(1).fill('moving "data" to <FSx>')
    await page.get_by_role("button", name="Snooze", exact=True).click()
    private = await message(server, FINANCE, "snooze done")
    assert private["ephemeral_to"] == ALICE
    typed = 'snooze a1 for=1d ceiling=$5,000 reason="moving \\"data\\" to &lt;FSx&gt;"'
    assert typed in private["blocks"][1]["text"]["text"]


async def test_what_nobody_chose_in_a_form_is_sent_as_it_began(slack, page):
    server, surface = slack
    await surface.post(FINANCE, samples.alert_card(), "incident-1")
    await page.get_by_role("button", name="Snooze…").click()
    await page.get_by_text("Snooze this alert").wait_for()
    assert await page.locator("select.bk-select").input_value() == "2h"
    await page.locator("input.bk-plain-input").nth(1).fill("disks move")
    await page.get_by_role("button", name="Snooze", exact=True).click()
    private = await message(server, FINANCE, "snooze done")
    assert 'snooze a1 for=2h reason="disks move" others=off' in private["blocks"][1]["text"]["text"]
