"""What is not read is unknown, on every surface: no card, page or probe says that all is well."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from adapters.store.memory import MemoryStore
from adapters.web.live import standing
from bot.cards.card import Card, Tone
from bot.model.notification import Known
from bot.model.reading import Gap, Reading
from tests.builders import FIVE, NOON, reading
from tests.house.fakes import Chat, Fleet, Script, app, ask
from tests.model.test_coverage import DENIED, billed, silenced

CALM = ("Nothing is wrong", "Nothing is wasting", "No node is idle", "no open alert wastes")
LINES = ("alerts", "alerts window=7d", "idle", "storage", "summary", "digest", "home")


class Seen(Fleet):
    """A source that shows one reading at any time."""

    def __init__(self, read: Reading) -> None:
        self.shown = read

    def read(self, now: datetime) -> Reading:
        return self.shown


@pytest.mark.parametrize(
    ("read", "known"),
    [
        (Reading(NOON, gaps=(Gap("AWS sts is without valid credentials."),)), Known.UNKNOWN),
        (reading(gaps=(DENIED,)), Known.UNKNOWN),
        (silenced(4), Known.UNKNOWN),
        (silenced(1), Known.PARTLY),
        (billed(timedelta(days=7)), Known.PARTLY),
        (reading(), Known.WHOLE),
    ],
    ids=["no credentials", "metrics denied", "silent", "a silent node", "an old bill", "all"],
)
async def test_every_surface_says_how_much_is_known(read: Reading, known: Known) -> None:
    bot = app(Script(None, None, None), Chat(), MemoryStore(), fleet=Seen(read))
    for ago in (2, 1, 0):
        await bot.tick(NOON - ago * FIVE)
    cards = {line: await bot.answer(ask(line, at=NOON)) for line in LINES}
    for line, card in cards.items():
        assert card.data["known"] == known, line
        calm = any(words in text_of(card) for words in CALM) and "as far as" not in text_of(card)
        assert not calm or known is Known.WHOLE, line
        assert card.tone is not Tone.GOOD or known is Known.WHOLE, line

    strip = standing(cards["alerts"], Card("t"))
    assert strip.seen.known is known
    assert bot.health.facts()["known"] == known
    assert bot.health.ok == (known is not Known.UNKNOWN)


async def test_a_source_that_falls_silent_is_no_more_well_than_one_that_never_spoke() -> None:
    fleet = Seen(reading())
    bot = app(Script(*[None] * 4), Chat(), MemoryStore(), fleet=fleet)
    await bot.tick(NOON)
    fleet.shown = silenced(4)
    for tick in (1, 2, 3):
        assert bot.health.ok
        await bot.tick(NOON + tick * FIVE)
    assert not bot.health.ok
    assert "4 of 4 nodes sent no metrics" in bot.health.fault


async def test_a_source_that_is_read_again_is_known_again() -> None:
    fleet = Seen(silenced(4))
    bot = app(Script(None, None), Chat(), MemoryStore(), fleet=fleet)
    await bot.tick(NOON)
    fleet.shown = reading(NOON + FIVE)
    await bot.tick(NOON + FIVE)
    assert (bot.health.ok, bot.health.facts()["known"]) == (True, Known.WHOLE)
    card = await bot.answer(ask("alerts", at=NOON + FIVE))
    assert card.title == "Nothing is wrong"


def text_of(card: Any) -> str:
    return f"{card.title} {card.blocks}"
