"""What is said in a thread is said once, whatever happens in between, and a channel that must wait holds nobody up."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from adapters.store.memory import MemoryStore
from bot.cards.card import Card
from bot.errors import Unanswered
from tests.builders import FIVE, NOON, anomaly
from tests.house.fakes import Chat, Crash, Script, app, ask
from tests.storm.faults import Faults
from tests.storm.loop import simulate
from tests.storm.slackside import SlackSide, limited
from tests.storm.teamsside import TeamsSide
from tests.storm.world import LEAD, MINUTE, OPS, Plan, World, world

HEARD, UNHEARD, REFUSED = "after it was heard", "before it was heard", "with a 500"


class Fragile(Chat):
    """Fails the first line of a thread: before or after it stands there, by a death or by an answer that is none."""

    def __init__(self, way: str, failure: BaseException) -> None:
        super().__init__()
        self.way, self.failure, self.whole = way, failure, False

    async def reply(self, channel: str, message: str, card: Card, key: str = "") -> str:
        if self.whole:
            return await super().reply(channel, message, card, key)
        self.whole = True
        if self.way == HEARD:
            await super().reply(channel, message, card, key)
        raise self.failure


@pytest.mark.parametrize(
    ("way", "failure"),
    [
        (HEARD, Crash()),
        (UNHEARD, Crash()),
        (HEARD, Unanswered("500")),
        (REFUSED, Unanswered("500")),
        (HEARD, TimeoutError()),
    ],
)
async def test_a_thread_line_survives_a_kill_after_the_edit(
    way: str, failure: BaseException
) -> None:
    chat, store = Fragile(way, failure), MemoryStore()
    first = app(Script(anomaly()), chat, store)
    await first.tick(NOON)
    (alert,) = store.load(NOON).alerts
    try:
        await first.answer(ask(f"ack {alert.id}", at=NOON + MINUTE))
    except Crash:
        await first.settle()
    second = app(Script(anomaly(at=NOON + FIVE), anomaly(at=NOON + 2 * FIVE)), chat, store)
    await second.tick(NOON + FIVE)
    await second.tick(NOON + 2 * FIVE)
    assert [
        line for line in chat.threads if line.startswith("Acknowledged by dana")
    ] == chat.threads
    assert len(chat.threads) == 1


async def test_the_end_survives_a_kill_after_the_edit_and_follows_the_lines_before_it() -> None:
    chat, store = Fragile(UNHEARD, Crash()), MemoryStore()
    first = app(Script(anomaly()), chat, store)
    await first.tick(NOON)
    (alert,) = store.load(NOON).alerts
    with pytest.raises(Crash):
        await first.run(ask(f"ack {alert.id}", at=NOON + MINUTE))
    await first.settle()
    chat.whole = True
    second = app(Script(), chat, store)
    for n in range(1, 13):
        await second.tick(NOON + n * FIVE)
    assert [line[:4] for line in chat.threads] == ["Ackn", "OVER"]


class Patient(SlackSide):
    """Takes no new message in one channel for half a minute from the first, and says so each time."""

    def __init__(self) -> None:
        super().__init__(Faults(0, 0, 0))
        self.until = 0.0
        self.refused = 0

    async def _call(self, request: web.Request) -> web.StreamResponse:
        if (
            request.match_info["method"] == "chat.postMessage"
            and (await request.json())["channel"] == OPS
        ):
            now = asyncio.get_running_loop().time()
            self.until = self.until or now + 30
            if now < self.until:
                self.refused += 1
                return limited(30)
        return await super()._call(request)


FLEET = {f"c{i:02}": Plan(0, 40, 300 + i, 99, False) for i in range(20)}


def test_a_channel_told_to_wait_does_not_hold_up_the_tick(tmp_path: Path) -> None:
    """Open 20 alerts, and let Slack answer `Retry-After: 30` in one of two channels; 30 seconds are 30 of the loop's."""
    slack = Patient()

    async def play(there: World) -> tuple[list[float], list[tuple[float, str]]]:
        loop, lasted = asyncio.get_running_loop(), []
        began = loop.time()
        for minute in range(3):
            await asyncio.sleep(began + 60 * minute - loop.time())
            at = loop.time()
            await there.bot.tick(NOON + minute * MINUTE)
            lasted.append(loop.time() - at)
        return lasted, [(at - began, channel) for at, channel, _ in slack.posted]

    async def run() -> Any:
        async with world(0, tmp_path, slack, TeamsSide(Faults(0, 0, 0)), found=FLEET) as there:
            return await play(there)

    lasted, posted = simulate(run())
    assert max(lasted) < 30, "a tick goes on without the channel that must wait"
    told = {channel: [at for at, where in posted if where == channel] for channel in (LEAD, OPS)}
    assert len(told[LEAD]) == 20
    assert told[LEAD][0] < 3
    assert max(told[LEAD]) < 45, "at Slack's one message a second and channel, with its picture"
    assert len(told[OPS]) == 20
    assert min(told[OPS]) >= 30
    assert max(told[OPS]) < 30 + 45
    assert slack.refused == 1, "nothing was asked again before the time that Slack named"
    for channel in (OPS, LEAD):
        titles = Counter(
            str(m["text"]).partition("·")[2].partition(",")[0] for m in slack.heads(channel)
        )
        assert sorted(titles.values()) == [1] * 20


async def test_lines_long_past_are_forgotten(tmp_path: Path) -> None:
    from adapters.store.open import open_store
    from bot.model.notification import Line
    from bot.ports import StateUpdate

    store = open_store(f"sqlite:///{tmp_path}/trnbot.db")
    lines = [
        Line(f"l{days}", "n", "chat:ops", NOON - timedelta(days=days), {"title": "x"})
        for days in (0, 3)
    ]
    store.save(StateUpdate(lines=lines, ticked_at=NOON))
    store.prune({}, timedelta(days=2))
    assert [line.id for line in store.owed("n", "chat:ops")[1]] == ["l0"]
    store.save(StateUpdate(lines=[Line("l0", "n", "chat:ops", NOON, {"title": "x"}, sent="1.1")]))
    store.save(StateUpdate(lines=lines[:1]))
    assert store.owed("n", "chat:ops")[1] == (), "what was said stays said"
    store.close()
