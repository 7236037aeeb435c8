"""A channel gets the summary daily or weekly, by the same machinery as the digest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from adapters.store.open import open_store
from bot.app import App
from bot.errors import WrongInput
from bot.model.route import Routes
from bot.model.window import read_recurring, read_weekly
from tests.builders import with_parts
from tests.house.fakes import Chat, Script, app, ask

HOUR = timedelta(hours=1)
MONDAY = datetime(2026, 11, 23, 8, tzinfo=UTC)
"""09:00 in Berlin, in winter."""
USUAL = read_weekly("mon 09:00 Europe/Berlin")


@pytest.fixture
def store(sqlite_url: str) -> Iterator[Any]:
    opened = open_store(sqlite_url)
    yield opened
    opened.close()


def bot(chat: Chat, store: Any) -> App:
    made = app(Script(), chat, store, admins=("chat:U1",))
    made.ports = with_parts(made.ports, routes=Routes(digest=("chat:leads",), digest_at=str(USUAL)))
    return made


def summaries(chat: Chat) -> list[str]:
    return [name for name, card in chat.messages.items() if "no open alert" in card.title.lower()]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "mon 09:00 Europe/Berlin"),
        ("weekly", "mon 09:00 Europe/Berlin"),
        ("daily", "daily 09:00 Europe/Berlin"),
        ("every day", "daily 09:00 Europe/Berlin"),
        ("fri", "fri 09:00 Europe/Berlin"),
        ("daily 8:30 America/New_York", "daily 08:30 America/New_York"),
        ("every Friday 16:00", "fri 16:00 UTC"),
    ],
)
def test_what_is_left_out_of_a_time_is_as_usual(text: str, said: str) -> None:
    assert str(read_recurring(text, USUAL)) == said
    assert read_recurring(said, USUAL) == read_recurring(text, USUAL)


@pytest.mark.parametrize(
    "text", ["noon", "09:00", "daily 25:00", "hourly", "daily 09:00 Europe/Berlni"]
)
def test_a_time_that_does_not_recur_is_told_in_a_sentence(text: str) -> None:
    with pytest.raises(WrongInput, match=r"is not a time (of the week or day|zone)"):
        read_recurring(text, USUAL)


def test_a_day_is_over_where_its_clock_says_so() -> None:
    daily = read_recurring("daily 02:30 Europe/Berlin", USUAL)
    assert daily.latest(datetime(2026, 10, 25, 12, tzinfo=UTC)) == datetime(
        2026, 10, 25, 0, 30, tzinfo=UTC
    )
    assert daily.latest(datetime(2026, 10, 26, 1, tzinfo=UTC)) == datetime(
        2026, 10, 25, 0, 30, tzinfo=UTC
    )


@pytest.mark.parametrize(
    ("line", "posted"), [("subscribe summary daily", 7), ("subscribe summary", 1)]
)
async def test_a_channel_gets_the_summary_daily_or_weekly_from_the_next_time_on(
    store: Any, line: str, posted: int
) -> None:
    chat = Chat()
    here = replace(ask(line, at=MONDAY + HOUR), channel="chat:team")
    assert "This channel gets the summary, " in (await bot(chat, store).answer(here)).title
    await bot(chat, store).tick(MONDAY + 2 * HOUR)
    assert summaries(chat) == []
    for hours in range(3, 24 * 7 + 4, 4):
        await bot(chat, store).tick(MONDAY + hours * HOUR)
    assert len(summaries(chat)) == posted


async def test_a_channel_takes_the_summary_back_and_keeps_the_digest(store: Any) -> None:
    chat = Chat()
    here = replace(ask("subscribe summary daily", at=MONDAY - 2 * HOUR), channel="chat:leads")
    made = bot(chat, store)
    await made.answer(here)
    assert (
        "no longer gets the summary"
        in (await made.answer(replace(here, line="unsubscribe summary"))).title
    )
    assert "does not get the summary" in str(
        (await made.answer(replace(here, line="unsubscribe summary"))).data["error"]
    )
    await made.tick(MONDAY)
    assert summaries(chat) == []
    assert [card.title[:8] for card in chat.messages.values()] == ["The week"]


async def test_a_summary_that_a_platform_did_not_take_comes_later_and_once(store: Any) -> None:
    chat = Chat()
    await bot(chat, store).answer(
        replace(ask("subscribe summary", at=MONDAY - HOUR), channel="chat:team")
    )
    chat.fail_before = True
    first = bot(chat, store)
    await first.tick(MONDAY)
    assert {one.partition(":")[2].partition(":")[0] for one in first.health.undelivered} == {
        "leads",
        "team",
    }
    chat.fail_before = False
    for hours in range(1, 4):
        await bot(chat, store).tick(MONDAY + hours * HOUR)
    assert len(summaries(chat)) == 1
