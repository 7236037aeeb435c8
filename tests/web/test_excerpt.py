"""The channel's page shows as many messages as a page may weigh; the others are a link away, and none is lost between two pages."""

import re

from adapters.web.messages import HEAVIEST, MOST, Messages, SlotDrawer
from bot.cards.card import Card, Heading, Table, Tone, text
from tests.e2e import samples
from tests.e2e.console_server import MemoryShelf

HEAVY = Table(
    (Heading("node"), Heading("dollars")), tuple((f"i-{n:017x}", f"${n:,}.00") for n in range(250))
)
PAGE = 300_000
"""Characters, with all that it loads."""


def shown(page):
    """Return the titles of the messages of a page, and where its links lead to earlier and to the newest ones."""
    turns = dict(re.findall(r'<p class="turn"><a href="([^"]*)">(\w+) messages', page))
    return re.findall(r"<h2>(Message \d+)</h2>", page), {
        words: href for href, words in turns.items()
    }


async def test_a_channel_of_heavy_messages_is_read_in_pages_that_are_light(open_console):
    console, client = await open_console()
    for n in range(30):
        await console.post("alerts", Card(f"Message {n}", blocks=(HEAVY,)), f"k{n}")
    read, href = [], "/"
    for _ in range(30):
        page = await (await client.get(href)).text()
        loads = [
            await (await client.get(path)).read()
            for path in set(re.findall(r'(?:src|href)="(/static/[^"]+)"', page))
        ]
        assert len(page) + sum(map(len, loads)) < PAGE
        titles, turns = shown(page)
        assert 1 < len(titles) < 30
        assert ("Newest" in turns) is (href != "/")
        read = titles + read
        if "Earlier" not in turns:
            break
        href = turns["Earlier"]
    assert read == [f"Message {n}" for n in range(30)]


async def test_light_messages_stand_on_one_page_up_to_a_count(open_console):
    console, client = await open_console()
    for n in range(MOST):
        await console.post("alerts", Card(f"Message {n}"), f"k{n}")
    titles, turns = shown(await (await client.get("/")).text())
    assert (len(titles), turns) == (MOST, {})
    await console.post("alerts", Card("Message 60"), "k60")
    titles, turns = shown(await (await client.get("/")).text())
    assert (titles[0], titles[-1], list(turns)) == ("Message 1", "Message 60", ["Earlier"])


async def test_one_message_is_shown_however_heavy_it_is(open_console):
    console, client = await open_console()
    for n in range(2):
        await console.post("alerts", Card(f"Message {n}", blocks=(text("x" * HEAVIEST),)), f"k{n}")
    assert shown(await (await client.get("/")).text())[0] == ["Message 1"]


async def test_a_link_to_a_message_opens_the_page_that_ends_with_it(open_console):
    console, client = await open_console()
    posted = [await console.post("alerts", Card(f"Message {n}"), f"k{n}") for n in range(3)]
    page = await (await client.get("/", params={"until": posted[1]})).text()
    assert shown(page) == (["Message 0", "Message 1"], {"Newest": "/"})
    assert "data-past" in page  # what is new does not follow on these
    for gone in ("", "m0", posted[2]):
        page = await (await client.get("/", params={"until": gone})).text()
        assert shown(page) == (["Message 0", "Message 1", "Message 2"], {})
        assert "data-past" not in page


class Counted:
    """Draw templates as the words of their message, and count them."""

    def __init__(self):
        self.drawn = []

    def page(self, template, message):
        self.drawn.append(message.id)
        return str(message.card.blocks)


async def test_a_message_is_drawn_anew_where_its_alerts_changed_and_else_once():
    messages, pages = Messages(MemoryShelf(), lambda: samples.NOW), Counted()
    firing = Card("FIRING", blocks=(text("$100 an hour"),), data={"id": "a1", "alerts": ["a1"]})
    first = (await messages.post("alerts", firing, "k1")).id
    records = Card("Shared", data={"alerts": [{"id": "a1"}]})  # as the answer of `alerts` has them
    second = (await messages.post("alerts", records, "k2")).id
    answers = {first: Card("FIRING", blocks=(text("$150 an hour"),))}

    async def redraw(message):
        return answers[message.id]

    drawer = SlotDrawer(pages, redraw)

    async def drawn(firing):
        pages.drawn.clear()
        newest = (await messages.back_from("alerts"))[1]
        return [await drawer.draw(message, firing) for message in newest], sorted(pages.drawn)

    assert (await drawn({}))[1] == sorted([first, second])
    (_, told), again = await drawn({"a1": {"seen": 1}})
    assert again == [first]
    assert "$150 an hour" in told
    assert (await drawn({"a1": {"seen": 1}}))[1] == []
    await messages.reply(second, Card("Good"), "")
    assert (await drawn({"a1": {"seen": 1}}))[1] == [second]
    # What is not answered now stands as it was sent.
    answers[first] = Card("That did not work", Tone.ERROR)
    (_, told), _ = await drawn({"a1": {"seen": 2}})
    assert "$100 an hour" in told
