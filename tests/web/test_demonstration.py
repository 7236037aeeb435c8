"""The story above the pages: there in a demonstration alone, its button kept from other sites, every text escaped."""

import asyncio
from dataclasses import replace

from adapters.web.views import _LEAVE_S
from bot.ports.chat import Chapter, Story

HEARD = Story(
    "Simulated: all.",
    (Chapter("One <b>", "It <i>happened</i>.", "/alert/a1"), Chapter("Two")),
    begun=True,
)
OWN = {"Sec-Fetch-Site": "same-origin", "X-Trnbot": "console"}


class Teller:
    """Tell one story, and count how often it is to begin again."""

    def __init__(self, story: Story) -> None:
        self.story, self.count = story, 0

    def told(self) -> Story:
        return self.story

    def again(self) -> None:
        self.count += 1


async def test_no_story_is_told_outside_a_demonstration(open_console):
    _, client = await open_console()
    assert 'id="demo"' not in await (await client.get("/")).text()
    assert (await client.get("/demo")).status == 404
    assert (await client.post("/demo", headers=OWN)).status == 404


def test_the_newest_chapter_is_the_last_that_was_seen():
    seen = [Chapter("One", "It began."), Chapter("Two", "It grew."), Chapter("Three")]
    assert replace(HEARD, chapters=tuple(seen)).newest == seen[1]
    assert replace(HEARD, chapters=tuple(seen[2:])).newest is None


async def test_a_chapter_has_its_words_when_it_was_seen_and_every_text_is_escaped(open_console):
    _, client = await open_console(story=Teller(HEARD))
    page = await (await client.get("/")).text()
    assert "Simulated: all." in page
    assert "It &lt;i&gt;happened&lt;/i&gt;." in page
    assert '<a href="/alert/a1">One &lt;b&gt;</a>' in page
    assert '<li class="ahead">' in page


async def test_before_it_plays_the_strip_says_that_it_catches_up(open_console):
    _, client = await open_console(
        story=Teller(replace(HEARD, begun=False, chapters=(Chapter("One"),)))
    )
    assert "Catching up" in await (await client.get("/demo")).text()


async def test_it_begins_again_at_the_console_s_own_press_alone(open_console):
    teller = Teller(HEARD)
    _, client = await open_console(story=teller)
    assert (await client.post("/demo", headers={"Sec-Fetch-Site": "cross-site"})).status == 403
    assert (await client.post("/demo", headers=OWN)).status == 204
    assert teller.count == 0  # the answer is out before the process stops
    await asyncio.sleep(2 * _LEAVE_S)
    assert teller.count == 1


async def test_it_has_no_button_where_a_database_is_kept(open_console):
    _, client = await open_console(story=Teller(replace(HEARD, repeats=False)))
    assert "Start again" not in await (await client.get("/")).text()
    assert (
        "Start again" in await (await (await open_console(story=Teller(HEARD)))[1].get("/")).text()
    )
