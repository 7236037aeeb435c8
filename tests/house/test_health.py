"""The watch's health: whatever fails feeds it, silence is noticed, admins are told once, a standby knows what the database knows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from adapters.store.memory import MemoryStore
from adapters.store.open import open_store
from adapters.timer import Attempts, Timer
from bot.cards.card import Card
from bot.errors import Standby, StoreFailed, Unavailable
from bot.model.anomaly import Detection
from bot.model.labels import Labels
from bot.model.notification import Coverage
from bot.model.window import EVER, Window
from bot.ports import State, StateUpdate
from bot.watch.background import Watchdog
from bot.watch.health import Health
from bot.watch.track import track
from bot.wiring import watch as watch_server
from bot.wiring.build import Database, Shown, running_bot
from bot.wiring.environment import settings_of
from bot.wiring.source import OpenedSource
from bot.wiring.watch import FIRST_LOOK, LiveServer, ReplayServer, Tempo
from tests.builders import FIVE, NOON, anomaly, reading
from tests.e2e.product import recording
from tests.house.fakes import Chat, Script, app
from tests.house.test_crash import OF_A_PAGE
from tests.house.test_kill import Incidents
from tests.timer.test_timer import steady

FULL = StoreFailed("The database x failed: database or disk is full; free some space on its disk.")
HOUR = timedelta(hours=1)


class Disk(MemoryStore):
    """Fails at what the test says, while it says so."""

    def __init__(self, *failing: str) -> None:
        super().__init__()
        self.failing: tuple[str, ...] = failing
        self.is_leader = True
        self.ticked: datetime | None = None

    def _fail(self, name: str) -> None:
        if name in self.failing:
            raise FULL

    def load(self, now: datetime) -> State:
        self._fail("load")
        return super().load(now)

    def save(self, changes: StateUpdate) -> None:
        self._fail("ticked" if changes.ticked_at else "receipts" if changes.receipts else "save")
        self.ticked = changes.ticked_at or self.ticked
        super().save(changes)

    def acquire_lead(self) -> int:
        self._fail("lead")
        return int(self.is_leader)

    def leads(self, epoch: int) -> bool:
        return epoch == 1

    def release_lead(self) -> None:
        pass

    def ticked_at(self) -> datetime | None:
        self._fail("ticked_at")
        return self.ticked


class Hand:
    """A clock of recorded time and one of real seconds, moved by hand."""

    def __init__(self) -> None:
        self.now, self.seconds = NOON, 0.0

    def __call__(self) -> datetime:
        return self.now

    def real(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        await asyncio.sleep(0)


def live(disk: Disk, script: Script | None = None, chat: Chat | None = None) -> LiveServer:
    server = LiveServer(FIVE, Hand(), disk, lambda: None)
    server._epoch = 1
    server.app = app(script or Script(), chat or Chat(), disk)
    server.app.health.stopwatch = Hand().real
    return server


@pytest.mark.parametrize("where", ["load", "save", "receipts", "ticked", "lead"])
async def test_healthz_is_false_wherever_a_tick_fails_and_true_again_after_it(where: str) -> None:
    disk, chat = Disk(where), Chat()
    server = live(disk, Script(anomaly(), anomaly()), chat)
    assert server.app
    with pytest.raises(Unavailable):
        await server.tick(NOON)
    facts = server.app.health.facts()
    assert (facts["ok"], facts["problem"], facts["failures"]) == (False, str(FULL), 1)
    assert "\ntrnbot_ok 0\n" in server.app.health.exposition()
    disk.failing = ()
    await server.tick(NOON)
    facts = server.app.health.facts()
    assert (facts["ok"], facts["problem"], facts["ticks"], len(chat.messages)) == (True, "", 1, 1)
    assert "\ntrnbot_ok 1\n" in server.app.health.exposition()


class Retaken(Disk):
    """Another process led in between, so that this one leads by a later epoch."""

    def acquire_lead(self) -> int:
        return 3


async def test_who_has_the_lead_again_runs_no_tick_by_what_it_knew_before() -> None:
    disk, chat = Retaken(), Chat()
    server = live(disk, Script(anomaly()), chat)
    with pytest.raises(Standby):
        await server.tick(NOON)
    assert (chat.messages, disk.load(NOON).alerts) == ({}, ())


async def test_a_live_watch_is_ready_from_its_first_whole_tick_on() -> None:
    disk = Disk("load")
    server = live(disk, Script(anomaly(), anomaly()))
    assert server.app
    health = server.app.health
    health.awaited |= {FIRST_LOOK, "Slack"}
    with pytest.raises(Unavailable):
        await server.tick(NOON)
    assert health.starting == "Starting: Slack, the first look at the fleet."
    disk.failing = ()
    await server.tick(NOON)
    assert health.starting == "Starting: Slack."


async def test_a_process_that_stands_by_is_ready() -> None:
    server = live(Disk())
    assert server.app
    server.app.health.awaited |= {FIRST_LOOK}
    await server._stand_by(None)
    assert server.app.health.starting == ""


def watched() -> tuple[Health, Hand]:
    hand = Hand()
    return Health(stopwatch=hand.real), hand


def test_healthz_is_false_where_nothing_runs_at_all() -> None:
    health, hand = watched()
    health.leads(300)
    health.ticked(NOON, 20.0, (), (), Coverage())
    hand.seconds = 619
    assert health.ok
    hand.seconds = 621
    assert health.facts()["problem"].startswith(
        "No tick was run since that of Nov 20, 12:00 UTC, 10 min ago; see its log"
    )
    assert not health.ok
    assert "\ntrnbot_seconds_since_tick 621.0\n" in health.exposition()
    health.ticked(NOON + HOUR, 20.0, (), (), Coverage())
    assert health.ok


def test_nothing_is_due_at_the_end_of_a_recording() -> None:
    health, hand = watched()
    health.leads(1)
    health.ticked(NOON, 0.5, (), (), Coverage())
    health.leads(None)
    hand.seconds = 9999
    assert health.ok


def test_a_standby_is_well_and_says_so_until_the_leader_is_silent_too_long() -> None:
    health, hand = watched()
    health.stands_by(NOON, 300, age_s=60)
    facts = health.facts()
    assert (facts["ok"], facts["leading"], facts["ticked_at"], facts["ticks"]) == (
        True,
        False,
        NOON,
        0,
    )
    assert "\ntrnbot_leading 0\n" in health.exposition()
    hand.seconds = 530
    health.stands_by(NOON, 300, age_s=590)
    assert health.ok
    hand.seconds = 545
    health.stands_by(NOON, 300, age_s=605)
    assert not health.ok
    assert health.facts()["problem"].startswith(
        "The leader has run no tick since that of Nov 20, 12:00 UTC, 10 min ago"
    )
    health.stands_by(NOON + FIVE, 300)
    assert health.ok


class Mouth:
    """Remembers what admins were told."""

    def __init__(self) -> None:
        self.said: list[str] = []

    async def __call__(self, sentence: str) -> None:
        self.said.append(sentence)


async def test_an_admin_is_told_once_that_the_watch_fails_and_once_that_it_works_again() -> None:
    (health, _), mouth = watched(), Mouth()
    health.leads(300)
    dog = Watchdog(health, mouth)
    health.failed(str(FULL))
    await dog.look()
    assert mouth.said == []
    for _ in range(5):
        health.failed(str(FULL))
        await dog.look()
    health.ticked(NOON, 1, (), (), Coverage())
    await dog.look()
    await dog.look()
    assert mouth.said == [
        f"The watch fails, and alerts wait until it works again: {FULL}",
        "The watch works again; 6 attempts failed meanwhile.",
    ]


async def test_an_admin_is_told_once_that_aws_is_not_read_and_once_that_it_is_again() -> None:
    (health, _), mouth = watched(), Mouth()
    health.leads(300)
    dog, gap = (
        Watchdog(health, mouth),
        "AWS ec2:DescribeInstances in us-west-2 is denied (AccessDenied).",
    )
    for tick in range(14):
        health.ticked(NOON + tick * FIVE, 1, (), () if tick in (1, 13) else (gap,), Coverage())
        assert health.ok is not (4 <= tick < 13)
        await dog.look()
        await dog.look()
    assert mouth.said == [
        f"Not read for 3 ticks, so alerts may be missing: {gap}",
        "Everything is read again.",
    ]


async def test_a_failing_watch_and_a_gap_are_two_things() -> None:
    (health, _), mouth = watched(), Mouth()
    health.leads(300)
    dog = Watchdog(health, mouth)
    for _ in range(3):
        health.ticked(NOON, 1, (), ("A gap.", "Another."), Coverage())
    await dog.look()
    for _ in range(2):
        health.failed("The database is away.")
    await dog.look()
    health.ticked(NOON, 1, (), ("A gap.",), Coverage())
    await dog.look()
    assert mouth.said == [
        "Not read for 3 ticks, so alerts may be missing: A gap. (and 1 more gap)",
        "The watch fails, and alerts wait until it works again: The database is away.",
        "The watch works again; 2 attempts failed meanwhile.",
    ]


async def test_leaders_that_come_and_go_are_told_once_an_hour_and_what_lasts_is_told() -> None:
    (health, hand), mouth = watched(), Mouth()
    dog = Watchdog(health, mouth)

    async def pass_by(seconds: int) -> None:
        for _ in range(seconds):
            hand.seconds += 1
            await dog.look()

    for change in range(4):
        health.stands_by(NOON + change * FIVE, 5, age_s=30)
        await pass_by(60)
        health.ticked(NOON + change * FIVE, 1, (), (), Coverage())
        health.stands_by(NOON + change * FIVE, None)
        await pass_by(60)
    assert [said[:15] for said in mouth.said] == ["The watch fails", "The watch works"]
    assert mouth.said[1] == "The watch works again."

    health.stands_by(NOON, 5, age_s=30)
    await pass_by(1000)
    assert [said[:15] for said in mouth.said[2:]] == ["The watch fails"]


async def test_a_process_that_stood_still_says_nothing_until_it_knows_who_leads() -> None:
    (health, hand), mouth = watched(), Mouth()
    health.leads(5)
    dog = Watchdog(health, mouth)
    await dog.look()
    hand.seconds += 600
    await dog.look()
    assert health.overdue
    assert mouth.said == []
    health.stands_by(NOON, 5)
    hand.seconds += 1
    await dog.look()
    assert mouth.said == []


class Forgetful(Chat):
    """Keeps what has a key in the database, which is away."""

    async def post(self, channel: str, card: Card, key: str) -> str:
        if key:
            raise FULL
        return await super().post(channel, card, key)


async def test_admins_are_told_of_a_database_that_failed_without_it() -> None:
    chat = Forgetful()
    await app(Script(), chat, Disk("load", "save")).tell_admins("The watch fails.")
    assert [card.title for card in chat.messages.values()] == ["The watch fails."]


async def live_watch(failing: Callable[[datetime], tuple[str, ...]]) -> tuple[Any, ...]:
    """Run forty minutes of three incidents by the clock of the wall; return the alerts, the messages and what was missed."""
    disk, chat, hand = Disk(), Chat(), Hand()
    server = live(disk, Incidents(), chat)
    assert server.app

    async def sleep(seconds: float) -> None:
        await hand.sleep(seconds)
        disk.failing = failing(hand.now)

    timer = Timer(server.tick, steady(hand), FIVE, server._missed)
    timer.attempts = Attempts(server.tick, sleep=sleep)
    while hand.now < NOON + timedelta(minutes=45):
        disk.failing = failing(hand.now)
        await timer.fire()
        hand.now = hand.now - (hand.now - NOON) % FIVE + FIVE
    alerts = [(x.id, x.opened, x.closed, x.seen, x.waste) for x in disk.history(EVER, Labels())]
    return (
        alerts,
        {card.title for card in chat.messages.values()},
        server.app.health.missed,
        server.app.health.failures,
    )


@pytest.mark.parametrize("where", ["load", "save", "ticked", "lead"])
async def test_an_alert_that_opened_and_ended_in_failed_ticks_of_the_live_watch_is_not_lost(
    where: str,
) -> None:
    whole = await live_watch(lambda _: ())
    assert len(whole[0]) == 3
    # The shortest incident fires from 12:05 to 12:20, the next begins at 12:35.
    broken = await live_watch(
        lambda now: (where,) if timedelta(minutes=4) <= now - NOON < timedelta(minutes=33) else ()
    )
    assert broken[3] > 10
    assert (broken[0], broken[1], broken[2]) == (whole[0], whole[1], 0)


class Faults:
    """A database whose faults follow a script, then the lead."""

    def __init__(self, *said: str) -> None:
        self.said = list(said)

    def acquire_lead(self) -> int:
        if self.said and (sentence := self.said.pop(0)):
            raise Unavailable(sentence)
        return 1

    def leads(self, epoch: int) -> bool:
        return epoch == 1

    def release_lead(self) -> None:
        """Nobody waits."""

    def ticked_at(self) -> datetime | None:
        return NOON

    def load(self, now: datetime) -> State:
        return State(ticked_at=NOON)


async def test_a_standby_says_once_that_it_waits_once_what_changed_and_once_that_it_is_over(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "trnbot.play")
    monkeypatch.setattr(watch_server, "STANDBY_S", 0.001)
    server = ReplayServer(
        Window(NOON, NOON + HOUR),
        Tempo(FIVE, 900),
        Faults(*["It is away."] * 40, *["It starts."] * 40),
    )
    server.app = app(Script(), Chat())
    await server.start()
    async with asyncio.timeout(20):
        while not server.app.health.ticks:
            await asyncio.sleep(0.01)
    await server.stop()
    waits = [record.getMessage() for record in caplog.records if "waits" in record.getMessage()]
    assert waits == [
        "the watch waits: It is away.",
        "the watch waits: It starts.",
        "the watch waits no longer, after 80 failures",
    ]


class Clocked(ReplayServer):
    """Note what time it is for whoever is told of a tick."""

    async def tick(self, at: datetime) -> None:
        self.told_at = [*getattr(self, "told_at", ()), self.clock()]


async def test_a_message_of_a_replay_that_catches_up_bears_the_time_of_its_tick() -> None:
    server = Clocked(Window(NOON, NOON + HOUR), Tempo(FIVE, 900), Faults())
    assert await server._catch_up([NOON + FIVE, NOON + 2 * FIVE])
    assert server.told_at == [NOON + FIVE, NOON + 2 * FIVE]


async def test_a_recording_of_which_nothing_is_played_stands_at_its_end() -> None:
    end = NOON + HOUR
    server = Clocked(Window(NOON, end), Tempo(FIVE, 1, timedelta()), Faults())
    server.app = app(Script(), Chat())
    await server.start()
    async with asyncio.timeout(20):
        while end not in getattr(server, "told_at", ()):
            await asyncio.sleep(0.01)
    await server.stop()
    assert server.told_at[-2:] == [end - FIVE, end]


@pytest.mark.parametrize("complete", [True, False])
async def test_a_press_on_the_survivor_just_after_a_hand_over_finds_the_alert(
    url: str, complete: bool
) -> None:
    """The leader posted an alert and was killed, after its tick was saved or before; the standby's clock is three ticks behind."""
    source = f"recording:{recording('tiny')}"
    settings, leader, standby = (
        settings_of({"source": source, "database_url": url}),
        open_store(url),
        open_store(url),
    )
    opened = OpenedSource(source, settings)
    extent = opened.metrics().extent()
    assert extent
    play = ReplayServer(extent, Tempo(FIVE, 900.0), standby)
    bot = running_bot(settings, Database(standby, standby), opened, Shown(play.clock, 900.0))
    play.app = bot.app
    at = extent.start + HOUR
    found = anomaly(at=at, usd_per_hour=Decimal(50))
    (alert,) = track([], Detection((found,)), reading(at), FIVE, [])
    leader.save(StateUpdate(alerts=[alert], ticked_at=at if complete else None))
    application = web.Application()
    application.add_routes(bot.listeners[0].routes())
    async with TestClient(TestServer(application)) as client:
        answer = await client.post("/ask", data={"line": f"ack {alert.id}"}, headers=OF_A_PAGE)
        page = await answer.text()
    assert "No alert" not in page
    assert "Acknowledged by" in page
    assert [one.alert for one in standby.decisions(alert.id)] == [alert.id]
    for store in (leader, standby):
        store.close()


def test_a_mistake_in_the_mapping_of_owners_is_the_problem_where_nothing_is_worse() -> None:
    watched = Health(setup_problem=lambda: "owners.toml, line 3: no.")
    assert (watched.facts()["problem"], watched.ok) == ("owners.toml, line 3: no.", True)
    watched.failed("CloudWatch does not answer.")
    assert watched.facts()["problem"] == "CloudWatch does not answer."
