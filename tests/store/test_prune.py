"""Keys come through once whoever asks, and what is old goes."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from sqlalchemy import func, insert, select, update

from adapters.store.open import open_store
from adapters.store.sql import KEEP_TICKS
from adapters.store.tables import ALERTS, ATTEMPTS, DECISIONS, SAID, SHELF, SILENCES, TICKS
from bot.errors import Unavailable
from bot.model.alert import Decision, DecisionKind, Silence
from bot.model.labels import Labels
from bot.model.notification import Line, NotificationLogEntry, Reason
from bot.model.policy import Attempt
from bot.ports import StateUpdate
from bot.watch.background import Retention
from tests.builders import alert

NOW = datetime(2026, 11, 20, 9, tzinfo=UTC)
SOON, LATER = timedelta(seconds=-60), timedelta(days=1)
"""So long ago is everything, and nothing."""


def test_a_key_comes_through_once(store):
    assert [store.first("seen", key) for key in ("a", "b", "a")] == [True, True, False]
    assert store.first("other", "a")


def test_of_processes_that_ask_at_once_one_hears_yes(url):
    stores = [open_store(url) for _ in range(4)]
    with ThreadPoolExecutor(16) as pool:
        for key in "abcde":
            heard = list(pool.map(lambda store, key=key: store.first("seen", key), stores * 4))
            assert heard.count(True) == 1
    for store in stores:
        store.close()


@pytest.fixture
def opened(url):
    store = open_store(url)
    yield store
    store.close()


def count(store, table):
    with store._reader.begin() as connection:
        return connection.execute(select(func.count()).select_from(table)).scalar()


def test_only_old_documents_of_the_named_shelves_go(opened):
    opened.first("seen", "a")
    opened.put("messages", "b", {"message": "1"})
    opened.put("installations", "c", {"token": "t"})
    assert opened.prune({"seen": LATER, "messages": LATER}, LATER) == 0
    assert opened.prune({"seen": SOON, "messages": LATER}, LATER) == 1
    assert count(opened, SHELF) == 2
    assert opened.first("seen", "a")


def test_ticks_and_what_was_told_long_ago_go_and_what_goes_on_stays(opened):
    ticks = [{"at": NOW + timedelta(minutes=i)} for i in range(KEEP_TICKS + 5)]
    with opened._writer.begin() as connection:
        connection.execute(insert(TICKS), ticks)
    rest = {
        "reason": Reason.FIRST,
        "alerts": ("a1",),
        "things": 1,
        "usd_per_hour": Decimal(1),
        "digest": "",
    }
    said = [
        NotificationLogEntry(
            "old and over", "c", at=NOW - 9 * LATER, message="1", over=True, **rest
        ),
        NotificationLogEntry("old and going on", "c", at=NOW - 9 * LATER, message="2", **rest),
        NotificationLogEntry("over since today", "c", at=NOW, message="3", over=True, **rest),
    ]
    opened.save(StateUpdate(notification_log=said))
    opened.prune({}, 2 * LATER)
    assert (count(opened, TICKS), count(opened, SAID)) == (KEEP_TICKS, 2)
    assert opened.load(NOW).ticked_at == ticks[-1]["at"]


def test_what_the_bill_may_still_correct_stays_however_short_the_retention(opened):
    rest = {
        "reason": Reason.OVER,
        "alerts": ("a1",),
        "things": 1,
        "usd_per_hour": Decimal(1),
        "digest": "",
        "over": True,
    }
    ended = [
        NotificationLogEntry(f"{days}", "c", at=NOW - days * LATER, message="1", **rest)
        for days in (1, 5, 6)
    ]
    opened.save(StateUpdate(notification_log=ended, ticked_at=NOW))
    opened.prune({}, timedelta(hours=1))
    assert count(opened, SAID) == 2


def test_a_message_of_what_is_over_is_known_until_the_bill_has_come_and_its_lines_for_a_day(opened):
    facts = {"alerts": ("a1",), "things": 1, "usd_per_hour": Decimal(1), "digest": ""}
    days = (0.5, 3, 6)
    over = [
        NotificationLogEntry(
            f"{n}", "c", Reason.OVER, at=NOW - n * LATER, message="1", over=True, **facts
        )
        for n in days
    ]
    lines = [Line(f"{n}", f"{n}", "c", NOW - n * LATER, {}) for n in days]
    opened.save(StateUpdate(notification_log=over, lines=lines, ticked_at=NOW))
    state = opened.load(NOW)
    assert {entry.id for entry in state.notification_log} == {"0.5", "3"}
    assert [line.id for line in state.lines] == ["0.5"]


async def test_tidying_goes_on_when_the_database_is_away_and_ends_when_told():
    class Away:
        asked = 0

        def prune(self, kept, told, tables):
            self.asked += 1
            self.kept, self.tables = kept, tables
            raise Unavailable("The database is away.")

    away = Away()
    tidy = Retention(away, 90 * LATER, ("seen",), ("messages",), {"alerts": LATER})
    await tidy.start()
    while not away.asked:
        await asyncio.sleep(0.01)
    await tidy.stop()
    assert away.kept == {"seen": LATER, "messages": 90 * LATER}
    assert away.tables == {"alerts": LATER}


def test_what_is_younger_than_its_retention_stays(opened):
    """Both retentions count: that of a shelf's documents, and that of what was told."""
    current = datetime.now(UTC)
    for days in (3, 9):
        opened.put("seen", f"{days}", {})
        aged = update(SHELF).where(SHELF.c.key == f"{days}")
        with opened._writer.begin() as connection:
            connection.execute(aged.values(written=current - days * LATER))
    told = [(f"{days}", NOW - days * LATER) for days in (3, 9)]
    facts = {"alerts": ("a1",), "things": 1, "usd_per_hour": Decimal(1), "digest": ""}
    over = [
        NotificationLogEntry(name, "c", Reason.OVER, at=at, message="1", over=True, **facts)
        for name, at in told
    ]
    lines = [Line(name, name, "c", at, {}) for name, at in told]
    opened.save(StateUpdate(notification_log=over, lines=lines, ticked_at=NOW))

    assert opened.prune({"seen": 5 * LATER}, 5 * LATER) == 1
    assert opened.get("seen", "3") == {}
    assert [opened.owed(name, "c") for name, _ in told] == [(over[0], tuple(lines[:1])), (None, ())]


def test_each_table_has_a_retention_of_its_own(opened):
    """Alerts go with what was decided about them; what goes on stays, and what ended lately too."""
    ages = {"open": None, "lately": 20, "long ago": 40}
    alerts = [
        replace(
            alert(opened=NOW - 50 * LATER), id=name, closed=NOW - days * LATER if days else None
        )
        for name, days in ages.items()
    ]
    decisions = [
        Decision(f"d {name}", name, DecisionKind.ACKNOWLEDGE, "slack:U1", "dana", NOW - 50 * LATER)
        for name in ages
    ]
    silences = [
        Silence(
            f"{days}",
            Labels(cluster="llama"),
            NOW - 50 * LATER,
            NOW - days * LATER,
            "slack:U1",
            "dana",
        )
        for days in (20, 40)
    ]
    opened.save(StateUpdate(alerts=alerts, decisions=decisions, silences=silences, ticked_at=NOW))
    for days in (20, 40):
        opened.note(Attempt(NOW - days * LATER, "slack:U1", "dana", "config undo"))

    def left():
        return [count(opened, table) for table in (ALERTS, DECISIONS, SILENCES, ATTEMPTS)]

    kept = {"alerts": 30 * LATER, "silences": 30 * LATER, "attempts": 30 * LATER}
    assert left() == [3, 3, 2, 2]
    opened.prune({}, LATER)
    assert left() == [3, 3, 2, 2]
    opened.prune({}, LATER, kept)
    assert left() == [2, 2, 1, 1]
    opened.prune({}, LATER, dict.fromkeys(kept, LATER))
    assert left() == [1, 1, 0, 0]


def test_what_ended_within_two_weeks_stays_however_short_the_retention(opened):
    """The watch goes on by it: what fires again is the same alert, and people name it."""
    ended = [
        replace(alert(opened=NOW - 50 * LATER), id=f"{days}", closed=NOW - days * LATER)
        for days in (1, 14, 16)
    ]
    opened.save(StateUpdate(alerts=ended, ticked_at=NOW))
    assert opened.prune({}, LATER, {"alerts": timedelta(hours=1)}) == 1
    assert [kept.id for kept in opened.load(NOW).alerts] == ["1", "14"]


def test_an_end_that_a_channel_still_waits_for_is_not_forgotten(opened):
    """A channel that was away for longer than the retention hears it once it is back."""
    rest = {"reason": Reason.OVER, "alerts": ("a1",), "things": 1, "usd_per_hour": Decimal(1)}
    old = NOW - 9 * LATER
    entries = [
        NotificationLogEntry(name, "c", at=old, message="1", over=True, digest="", **state, **rest)
        for name, state in (("sent", {}), ("owed", {"pending": True}))
    ]
    opened.save(StateUpdate(notification_log=entries, ticked_at=NOW))
    opened.prune({}, LATER)
    assert [entry.id for entry in opened.load(NOW).notification_log] == ["owed"]
