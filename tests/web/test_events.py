import asyncio
import json

from bot.cards.card import Card, Tone
from tests.e2e import samples


async def read_event(stream, name):
    """Return the data of the next event of this name."""
    async with asyncio.timeout(10):
        while True:
            line = (await stream.content.readline()).decode().strip()
            if line == f"event: {name}":
                return json.loads((await stream.content.readline()).decode().removeprefix("data: "))


async def test_an_open_page_hears_posts_edits_and_replies(open_console):
    console, client = await open_console()
    async with client.get("/events") as stream:
        assert stream.headers["Content-Type"] == "text/event-stream"
        assert "$1,225" in (await read_event(stream, "status"))["html"]
        posted = await console.post("alerts", samples.alert_card(), "k")
        heard = await read_event(stream, "message")
        assert (heard["id"], heard["channel"]) == (posted, "alerts")
        assert "FIRING 25 min" in heard["html"]
        await console.edit("alerts", posted, Card("OVER after 1 h", Tone.OVER), "k")
        assert "OVER after 1 h" in (await read_event(stream, "message"))["html"]
        await console.reply("alerts", posted, samples.good_card(), "")
        assert "1 reply" in (await read_event(stream, "message"))["html"]


async def test_a_page_knows_whether_it_missed_something(open_console):
    console, client = await open_console()
    page = await (await client.get("/")).text()
    async with client.get("/events") as stream:
        assert f'data-version="{(await read_event(stream, "hello"))["version"]}"' in page
    await console.post("alerts", samples.over_card(), "k")
    async with client.get("/events") as stream:
        assert (await read_event(stream, "hello"))["version"] not in page


async def test_text_cannot_forge_an_event(open_console):
    console, client = await open_console()
    async with client.get("/events") as stream:
        await read_event(stream, "status")
        await console.post("alerts", Card("a\n\nevent: status\ndata: {}\n\n"), "k")
        assert "event: status" in (await read_event(stream, "message"))["html"]


async def test_stopping_ends_the_streams(open_console):
    console, client = await open_console()
    async with client.get("/events") as stream:
        await read_event(stream, "status")
        await console.stop()
        async with asyncio.timeout(5):
            await stream.content.read()
    assert stream.content.at_eof()


async def test_a_page_too_slow_to_follow_is_closed_and_the_others_go_on(open_console):
    console, client = await open_console()
    async with client.get("/events") as stream:
        await read_event(stream, "status")
        for page in list(console._hub._pages):
            while not page.full():
                page.put_nowait(": filler\n\n")
        console._hub.publish("message", id="x", channel="alerts", html="y")
        async with asyncio.timeout(5):
            await stream.content.read()
    async with client.get("/events") as again:
        await read_event(again, "status")
