"""A tick that waits for AWS for minutes holds up nobody: lines are answered from the last whole reading, presses are done."""

import asyncio
from dataclasses import dataclass
from threading import Event, Thread

import pytest

import bot.answers.all  # noqa: F401 fills the registry
from adapters.aws.live.source import LastReading
from adapters.store.memory import MemoryStore
from bot.app import App
from bot.cards.card import Card
from bot.errors import Unavailable
from bot.grammar.access import Access
from bot.model.reading import Reading
from bot.model.request import Request, User
from bot.ports import Source, StateUpdate
from bot.ports.work import Lane, within
from bot.settings.settings import read_settings
from bot.wiring.source import OpenedSource, memory_stores
from tests.belonging import MEMBER
from tests.builders import FIVE, NOON, alert, with_parts
from tests.e2e.product import recording

SOON_S = 5


def test_a_line_has_the_last_reading_while_the_watch_asks():
    asked, go_on, kept = Event(), Event(), LastReading()

    def slowly(now):
        asked.set()
        assert go_on.wait(SOON_S)
        return Reading(now)

    def watch():
        with within(Lane.WATCH):
            kept.read(NOON + FIVE, slowly)

    kept.read(NOON, Reading)
    tick = Thread(target=watch)
    tick.start()
    assert asked.wait(SOON_S)
    assert kept.read(NOON + FIVE, Reading).now == NOON
    go_on.set()
    tick.join(SOON_S)
    assert kept.read(NOON + FIVE, Reading).now == NOON + FIVE


def test_a_line_that_comes_before_anything_was_read_is_told_so():
    kept = LastReading()
    holder = Thread(target=kept.asking.acquire)
    holder.start()
    holder.join()
    with pytest.raises(
        Unavailable,
        match=r"AWS is being read for the first time since the start; ask again in a minute\.",
    ):
        kept.read(NOON, Reading)


@dataclass
class SlowSource:
    """Read as `source` does; the watch waits for `go_on` first."""

    source: Source
    go_on: Event
    began: Event

    def read(self, now):
        if Lane.WATCH is _lane():
            self.began.set()
            assert self.go_on.wait(SOON_S * 2)
        return self.source.read(now)

    def extent(self):
        return self.source.extent()

    def problems(self):
        return self.source.problems()


def _lane() -> Lane:
    from bot.ports.work import LANE

    return LANE.get()


@pytest.fixture(scope="module")
def opened():
    settings = read_settings({"TRNBOT_SOURCE": f"recording:{recording('tiny')}"})
    return OpenedSource(settings.source, settings), settings


async def answers_in_the_middle(opened, lines, store) -> list[Card]:
    source, settings = opened
    ports, slow = (
        source.ports(memory_stores(), settings.policy),
        SlowSource(source.metrics(), Event(), Event()),
    )
    app = App(with_parts(ports, store=store, source=slow), (), Access(), lambda: 0.0)
    tick = asyncio.create_task(app.tick(source.end()))
    await asyncio.to_thread(slow.began.wait, SOON_S)
    asking = (
        app.answer(Request(line, User("u", ""), source.end(), "terminal", MEMBER)) for line in lines
    )
    cards = await asyncio.wait_for(asyncio.gather(*asking), SOON_S)
    assert not tick.done()
    slow.go_on.set()
    await asyncio.wait_for(tick, SOON_S * 4)
    await app.settle()
    return cards


def test_questions_are_answered_in_the_middle_of_a_tick(opened):
    cards = asyncio.run(
        answers_in_the_middle(opened, ["fleet", "idle", "alerts", "cost 7d"], MemoryStore())
    )
    assert [card.data.get("error") for card in cards] == [None] * 4


def test_a_decision_in_the_middle_of_a_tick_is_answered_and_kept(opened):
    store, now = MemoryStore(), opened[0].end()
    one = alert(opened=now - FIVE, seen=now - FIVE)
    store.save(StateUpdate(alerts=[one]))
    (card,) = asyncio.run(answers_in_the_middle(opened, [f"ack {one.id}"], store))
    assert card.data.get("error") is None
    (kept,) = (x for x in store.load(now).alerts if x.id == one.id)
    assert kept.acknowledged
