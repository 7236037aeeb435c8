"""The weekly digest comes once a week to each channel that wants it, whatever ends in between."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from adapters.billing.bill import open_billing
from adapters.store.open import open_store
from bot.app import App
from bot.cards.card import Card, Text, plain
from bot.errors import Unavailable, WrongInput
from bot.model.alert import Decision, DecisionKind, Silence
from bot.model.labels import Labels
from bot.model.route import Routes
from bot.model.window import read_weekly
from bot.ports import StateUpdate
from tests.builders import NOON, alert, anomaly, waste, with_parts
from tests.house.fakes import Chat, Crash, Script, app, ask

HOUR = timedelta(hours=1)
MONDAY = datetime(2026, 11, 23, 8, tzinfo=UTC)
"""09:00 in Berlin, in winter."""


@pytest.fixture
def store(sqlite_url: str) -> Iterator[Any]:
    opened = open_store(sqlite_url)
    yield opened
    opened.close()


def bot(chat: Chat, store: Any, *anomalies: Any, **routes: Any) -> App:
    made = app(Script(*anomalies), chat, store, admins=("chat:U1",))
    named = Routes(digest=("chat:leads",), digest_at="mon 09:00 Europe/Berlin")
    made.ports = with_parts(made.ports, routes=replace(named, **routes))
    return made


def digests(chat: Chat) -> list[str]:
    return [card.title for card in chat.messages.values() if card.title.startswith("The week")]


@pytest.mark.parametrize(
    ("text", "now", "latest"),
    [
        ("mon 09:00 Europe/Berlin", MONDAY, MONDAY),
        ("mon 09:00 Europe/Berlin", MONDAY - timedelta(seconds=1), MONDAY - timedelta(days=7)),
        ("Monday 9:00", MONDAY + HOUR, MONDAY + HOUR),
        (
            "sun 02:30@Europe/Berlin",
            datetime(2026, 3, 29, 12, tzinfo=UTC),
            datetime(2026, 3, 29, 1, 30, tzinfo=UTC),
        ),
        (
            "fri 16:00 America/New_York",
            datetime(2026, 11, 20, 20, 59, tzinfo=UTC),
            datetime(2026, 11, 13, 21, tzinfo=UTC),
        ),
    ],
)
def test_a_moment_of_the_week_is_that_of_its_zone(
    text: str, now: datetime, latest: datetime
) -> None:
    assert read_weekly(text).latest(now) == latest


@pytest.mark.parametrize(
    "text", ["", "09:00", "mon", "mon 25:00", "day 09:00", "mon 09:00 Europe/Berlni"]
)
def test_a_wrong_moment_is_told_in_a_sentence(text: str) -> None:
    with pytest.raises(WrongInput, match=r"is not a time (of the week|zone)"):
        read_weekly(text)


async def test_it_comes_once_a_week_across_restarts(store: Any) -> None:
    chat = Chat()
    for hours in range(-2, 30):
        await bot(chat, store).tick(MONDAY + hours * HOUR)
    assert len(digests(chat)) == 1
    await bot(chat, store).tick(MONDAY + timedelta(days=7))
    assert len(digests(chat)) == 2


async def test_it_is_not_doubled_by_a_crash_after_sending(store: Any) -> None:
    chat = Chat()
    chat.fail_after = True
    with pytest.raises(Crash):
        await bot(chat, store).tick(MONDAY)
    chat.fail_after = False
    for hours in range(1, 4):
        await bot(chat, store).tick(MONDAY + hours * HOUR)
    assert len(digests(chat)) == 1


async def test_it_is_not_lost_by_a_crash_before_sending_nor_by_a_platform_that_is_away(
    store: Any,
) -> None:
    chat = Chat()
    chat.fail_before = True
    first = bot(chat, store)
    await first.tick(MONDAY)
    assert first.health.undelivered == ("chat:leads: the chat is away",)
    chat.fail_before = False
    await first.tick(MONDAY + HOUR)
    await bot(chat, store).tick(MONDAY + 2 * HOUR)
    assert len(digests(chat)) == 1
    assert first.health.undelivered == ()


async def test_one_channel_that_is_away_holds_up_no_other(store: Any) -> None:
    class Half(Chat):
        async def post(self, channel: str, card: Card, key: str) -> str:
            if channel == "leads":
                raise Unavailable("gone")
            return await super().post(channel, card, key)

    chat = Half()
    await bot(chat, store, digest=("chat:leads", "chat:cfo")).tick(MONDAY)
    assert len(digests(chat)) == 1


async def test_one_that_nobody_could_send_for_a_day_is_left_out(store: Any) -> None:
    chat = Chat()
    await bot(chat, store).tick(MONDAY + 25 * HOUR)
    assert digests(chat) == []


async def test_it_tells_what_was_saved_what_is_open_and_what_is_kept_quiet_by_whom(
    store: Any,
) -> None:
    hours = 50 * HOUR
    ended = alert(
        name="a1", opened=MONDAY - hours, closed=MONDAY - hours / 2, waste=waste("100", "900")
    )
    acked = Decision("d1", "a1", DecisionKind.ACKNOWLEDGE, "chat:U1", "dana", MONDAY - hours / 1.5)
    snooze = Silence(
        "s1",
        Labels(cluster="bert"),
        MONDAY - HOUR,
        MONDAY + 90 * HOUR,
        "chat:U2",
        "kim",
        "on leave",
    )
    still = alert(
        anomaly(cluster="gpt", at=MONDAY, usd_per_hour=Decimal(40)),
        name="a2",
        opened=MONDAY - HOUR,
        owner="lee",
    )
    quiet = alert(
        anomaly(cluster="bert", at=MONDAY, usd_per_hour=Decimal(30)),
        name="a3",
        opened=MONDAY - HOUR,
    )
    store.save(StateUpdate(alerts=[ended, still, quiet], silences=[snooze], decisions=[acked]))
    chat = Chat()
    made = bot(chat, store)
    made.ports = with_parts(made.ports, detect=Both(still.anomaly, quiet.anomaly))
    made._watch._ports = made.ports
    await made.tick(MONDAY)
    (card,) = [card for card in chat.messages.values() if card.title.startswith("The week")]
    assert card.public, "it is for all who read the channel"
    words = repr(card.blocks)
    assert (card.data["saved"]["alerts"], str(card.data["saved"]["usd_per_hour"])) == (1, "100")
    assert (card.data["open"]["alerts"], card.data["muted"]["alerts"]) == (["a2"], ["a3"])
    assert all(
        part in words
        for part in ("acknowledged by dana", "lee", "snoozed by kim until Nov 27: on leave")
    )


class Both:
    """Detects the same two things for ever."""

    def __init__(self, *found: Any) -> None:
        self.found = found

    def __call__(self, reading: Any, policy: Any, known: Any) -> Any:
        from bot.model.anomaly import Detection

        return Detection(self.found)


async def test_a_channel_subscribes_at_a_time_of_its_own_and_takes_it_back(store: Any) -> None:
    chat = Chat()
    made = bot(chat, store, digest=())
    here = replace(ask("subscribe digest fri 16:00 America/New_York"), channel="chat:team")
    assert "fri 16:00 America/New_York" in (await made.answer(here)).title
    await made.tick(MONDAY)
    assert digests(chat) == []
    await made.tick(datetime(2026, 11, 27, 21, tzinfo=UTC))
    assert len(digests(chat)) == 1
    assert "no longer gets" in (await made.answer(replace(here, line="unsubscribe digest"))).title
    await made.tick(datetime(2026, 12, 4, 21, tzinfo=UTC))
    assert len(digests(chat)) == 1


async def test_what_cannot_be_subscribed_says_why(store: Any) -> None:
    made = bot(Chat(), store)
    at = replace(ask("subscribe digest noon"), channel="chat:team")
    assert "not a time of the week" in str((await made.answer(at)).data["error"])
    assert "from within it" in str(
        (await made.answer(replace(at, line="subscribe digest", channel=""))).data["error"]
    )
    named = replace(at, line="unsubscribe digest", channel="chat:leads")
    assert "TRNBOT_DIGEST" in str((await made.answer(named)).data["error"])
    assert "does not get the weekly digest" in str(
        (await made.answer(replace(named, channel="chat:x"))).data["error"]
    )
    assert "The week" in (await made.answer(ask("digest", at=NOON))).title


async def test_it_says_where_the_whole_bill_ends_as_cost_does(store: Any, tmp_path: Path) -> None:
    """$10 an hour since November 1 are $7,200 by month end."""
    hours = [MONDAY.replace(day=1, hour=0) + n * HOUR for n in range(22 * 24)]
    rows = [
        f"Usage,AmazonEC2,BoxUsage:trn1.32xlarge,{at.isoformat()},{(at + HOUR).isoformat()},10"
        for at in hours
    ]
    kinds = (
        "line_item_type",
        "product_code",
        "usage_type",
        "usage_start_date",
        "usage_end_date",
        "unblended_cost",
    )
    (tmp_path / "bill.csv").write_text(
        "\n".join([",".join(f"line_item_{kind}" for kind in kinds), *rows])
    )
    made = bot(Chat(), store)
    made.ports = with_parts(made.ports, billing=open_billing(tmp_path))
    week, cost = [await made.answer(ask(line, at=MONDAY)) for line in ("digest", "cost this-month")]
    assert week.data["forecast"] == cost.data["forecast"]
    assert week.data["forecast"]["amortised_usd"] == 7200
    (said,) = [
        plain(block.spans)
        for block in week.blocks
        if isinstance(block, Text) and "month end" in plain(block.spans)
    ]
    assert said.startswith("The whole bill: about $7,200 by month end (")


async def test_a_bill_that_cannot_be_read_holds_no_digest_up(store: Any) -> None:
    class Away:
        def tally(self, *_: Any) -> Any:
            raise Unavailable("the bill is away")

        rates = deltas = tally

    chat = Chat()
    made = bot(chat, store)
    made.ports = with_parts(made.ports, billing=Away())
    assert "forecast" not in (await made.answer(ask("digest", at=MONDAY))).data
    await made.tick(MONDAY)
    assert len(digests(chat)) == 1
