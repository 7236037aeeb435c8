"""What is held while something is done is let go however that ends, and what is kept ends by its key or its time."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from adapters import http
from adapters.chat import work
from adapters.chat.slack.client import BRIEF_S, BY_CHANNEL
from adapters.chat.slack.client import Pace as SlackPace
from adapters.chat.teams import client as teams
from adapters.web.live import Shared
from bot.cards.card import Card
from bot.errors import Limited, OutOfTime, OverBudget, Unavailable
from bot.grammar.turns import LaneLimits, Limits, Queue, Turns
from bot.model.request import LOCAL, Request, User
from bot.ports.work import ASKER, Lane, LaneLoad, Work
from tests.cases import in_one_run
from tests.house.fakes import NOON
from tests.house.test_http import Wire
from tests.storm.loop import simulate

Doing = Callable[[], Awaitable[object]]


async def passes() -> str:
    return "done"


async def fails() -> str:
    raise ValueError("it failed")


async def waits() -> str:
    await asyncio.Event().wait()
    return "never"


async def end(doing: Awaitable[object], ending: Doing) -> None:
    """Let something end as it does; what waits for ever is cancelled."""
    task = asyncio.ensure_future(doing)
    for _ in range(9):
        await asyncio.sleep(0)
    if ending is waits:
        task.cancel()
    await asyncio.wait([task])
    assert task.cancelled() is (ending is waits)
    assert task.cancelled() or (task.exception() is not None) is (ending is fails)


def asked(line: str) -> Request:
    return Request(line, User("slack:U1"), NOON, "chat", LOCAL)


ENDINGS = pytest.mark.parametrize("ending", [passes, fails, waits])


@in_one_run
@ENDINGS
def test_a_channels_turn_is_let_go_and_the_next_keeps_its_distance(ending: Doing) -> None:
    async def play() -> None:
        pace, loop = SlackPace(1.0), asyncio.get_running_loop()

        async def turn() -> None:
            async with pace.turn("C1", "chat.update"):
                await ending()

        await end(turn(), ending)
        async with pace.turn("C2", "chat.update"):
            assert loop.time() == 0
        async with pace.turn("C1", "chat.update"):
            assert loop.time() == 1

    simulate(play())


@in_one_run
@pytest.mark.parametrize("method", ["chat.postMessage", "chat.update"])
def test_a_method_is_closed_where_and_for_as_long_as_it_was_asked(method: str) -> None:
    async def play() -> None:
        pace = SlackPace()
        pace.hold("C1", method, 30)
        pace.hold("C1", method, 10)
        pace.hold("C1", method, 0)
        everywhere = method not in BY_CHANNEL
        assert pace.closed_s("C1", method) == 30
        assert pace.closed_s("C2", method) == (30 if everywhere else 0)
        assert pace.closed_s("C1", "chat.delete") == 0
        with pytest.raises(Limited, match="retried in 30 s"):
            pace.check("C1", method)

        # A second channel at a time tells that it is the workspace's limit.
        pace.hold("C2", method, 40)
        assert pace.closed_s("C3", method) == 40
        await asyncio.sleep(40)
        pace.check("C1", method)
        pace.hold("C1", method, 5)
        assert pace.closed_s("C2", method) == (5 if everywhere else 0)

    simulate(play())


def test_only_the_newest_state_of_a_message_is_sent_and_then_forgotten() -> None:
    pace = SlackPace()
    first, second = pace.claim("C1", "m"), pace.claim("C1", "m")
    assert [pace.is_newest("C1", "m", number) for number in (first, second)] == [False, True]
    assert pace.claim("C2", "m") == 1
    pace.release("C1", "m", first)
    assert pace.is_newest("C1", "m", second)
    pace.release("C1", "m", second)
    assert pace.claim("C1", "m") == 1


def test_no_span_of_a_conversation_has_more_messages_than_its_limit() -> None:
    async def play() -> list[float]:
        pace, loop, times = teams.Pace(), asyncio.get_running_loop(), list[float]()
        while len(times) < 70:
            try:
                await pace.turn("19:x")
            except Limited as limit:
                assert limit.seconds > teams.BRIEF_S
                await asyncio.sleep(limit.seconds)
                continue
            times.append(loop.time())
        return times

    # Seven at once, the eighth a second later, the ninth when two have passed, and 60 in 30.
    times = simulate(play())
    assert times[:10] == [0] * 7 + [1, 2, 2]
    assert times[60] == 30
    for most, span in ((7, 1.0), (8, 2.0), (60, 30.0), (1800, 3600.0)):
        for number, at in enumerate(times):
            assert sum(at <= x < at + span for x in times[number:]) <= most


def test_a_conversation_that_was_closed_twice_opens_when_the_longer_time_is_over() -> None:
    async def play() -> None:
        pace, loop = teams.Pace(), asyncio.get_running_loop()
        pace.hold("19:x", 4)
        pace.hold("19:x", 1)
        await pace.turn("19:y")
        assert loop.time() == 0
        await pace.turn("19:x")
        assert loop.time() == 4
        pace.hold("19:x", teams.BRIEF_S + 0.5)
        with pytest.raises(Limited):
            await pace.turn("19:x")
        await asyncio.sleep(teams.BRIEF_S + 0.5)
        await pace.turn("19:x")

    simulate(play())


LANES = {
    Lane.QUICK: LaneLimits(running=1, waiting=1, at_once=2, seconds=20),
    Lane.HEAVY: LaneLimits(running=1, waiting=1, at_once=1, seconds=120),
}


@in_one_run
@ENDINGS
@pytest.mark.parametrize(
    ("line", "lane"), [("help", Lane.QUICK), ("cost", Lane.HEAVY), ("cost", None)]
)
def test_a_turn_and_a_share_are_let_go(ending: Doing, line: str, lane: Lane | None) -> None:
    """Nobody is left counted as running: as many lines as before may be asked at once."""

    async def play() -> None:
        loads = {name: LaneLoad() for name in Lane}
        turns = Turns(asyncio.get_running_loop().time, loads, Limits(lanes=LANES))
        equal = None if lane else "cost of all"
        for _ in range(5):
            await end(turns.take(asked(line), ending, equal), ending)
            await asyncio.sleep(0.01)
        assert await turns.take(asked(line), passes, equal) == "done"
        assert not any(load.waiting for load in loads.values())

    simulate(play())


def test_what_lasts_too_long_is_stopped_at_the_limit_of_its_lane() -> None:
    async def play() -> None:
        loads = {name: LaneLoad() for name in Lane}
        turns = Turns(asyncio.get_running_loop().time, loads, Limits(lanes=LANES))
        for line, lane in (("help", Lane.QUICK), ("cost", Lane.HEAVY)):
            began = asyncio.get_running_loop().time()
            with pytest.raises(OutOfTime, match=f"longer than {LANES[lane].seconds:g} s"):
                await turns.take(asked(line), waits)
            assert asyncio.get_running_loop().time() - began == LANES[lane].seconds
            assert loads[lane].stopped == 1

    simulate(play())


def test_who_used_less_comes_first_and_one_too_many_who_used_most_is_refused() -> None:
    async def play() -> None:
        queue, order = Queue(LaneLimits(running=1, waiting=2, at_once=9, seconds=9)), []
        await queue.turn(0)

        async def ask(name: str, used: float) -> None:
            await queue.turn(used)
            order.append(name)

        much = asyncio.create_task(ask("much", 9))
        gone = asyncio.create_task(ask("gone", 0))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.wait([gone])
        less = [asyncio.create_task(ask(name, used)) for name, used in (("some", 5), ("least", 1))]
        with pytest.raises(OverBudget, match="1 lines are running and 2 are waiting"):
            await much

        queue.next()
        await asyncio.wait(less, return_when=asyncio.FIRST_COMPLETED)
        queue.next()
        await asyncio.wait(less)
        queue.next()
        assert order == ["least", "some"]
        await queue.turn(0)

    simulate(play())


def test_a_line_is_over_once_with_the_last_of_its_threads() -> None:
    ended: list[float] = []
    line = Work(9)
    for _ in range(2):
        line.thread_began()
    line.thread_ended(1.5)
    line.close(lambda: ended.append(line.seconds))
    assert ended == []
    line.thread_ended(2.0)
    assert ended == [3.5]
    idle = Work(9)
    idle.close(lambda: ended.append(idle.seconds))
    assert ended == [3.5, 0.0]
    with pytest.raises(OutOfTime):
        idle.thread_began()


@in_one_run
@ENDINGS
async def test_a_connection_that_was_answered_waits_again(ending: Doing) -> None:
    """Its place is anybody's once its request has ended, and it is the newest of those that wait."""
    connections = http.Connections()
    wires = [Wire("192.0.2.1"), Wire("192.0.2.2")]
    assert all(connections.admit(wire) for wire in wires)

    async def handler(_: web.Request) -> web.StreamResponse:
        assert Counter(connections._answered) == {wires[0]: 1}
        await ending()
        return web.Response()

    request = make_mocked_request("GET", "/page", transport=wires[0])
    await end(connections.answer(request, handler), ending)
    assert not connections._answered
    assert list(connections._open) == [wires[1], wires[0]]

    # One that asked something stays; one that did not is let go.
    for wire in wires:
        connections.let_go(wire)
    assert [wire.is_closing() for wire in wires] == [False, True]


class Reader:
    """Counts how often it was read, and waits until it is told."""

    def __init__(self) -> None:
        self.read, self.go = 0, asyncio.Event()
        self.shares: list[str | None] = []

    async def __call__(self) -> int:
        self.read += 1
        asker = ASKER.get()
        self.shares.append(asker.share if asker else None)
        await self.go.wait()
        return self.read


async def test_one_reading_serves_all_who_ask_meanwhile_and_its_version_alone() -> None:
    reader = Reader()
    shared = Shared(reader)
    asked = [asyncio.create_task(shared.get("1")) for _ in range(3)]
    await asyncio.sleep(0)
    asked[0].cancel()
    newer = asyncio.create_task(shared.get("2"))
    await asyncio.sleep(0)
    reader.go.set()
    assert [await x for x in asked[1:]] == [2, 2]
    assert await newer == 2
    assert (reader.read, reader.shares) == (2, ["", ""])

    # What is not kept is read anew, what is kept is not, unless a newer version is asked for.
    assert await shared.get("2") == 3
    kept = Shared(reader, keep_s=3600)
    assert [await kept.get(version) for version in ("1", "1", "2", "2")] == [4, 4, 5, 5]


def test_a_brief_limit_is_one_that_a_person_waits_out() -> None:
    assert (BRIEF_S, teams.BRIEF_S) == (5.0, 4.0)


async def test_what_is_kept_for_a_while_ends_with_its_age_and_the_oldest_makes_room() -> None:
    now, asked = [0.0], []
    kept = work.Recent[str](lambda: now[0], most=2)

    async def ask() -> str:
        asked.append(now[0])
        return f"at {now[0]:g}"

    for at, value in ((0.0, "at 0"), (10.0, "at 0"), (10.1, "at 10.1"), (20.0, "at 10.1")):
        now[0] = at
        assert await kept.of("a", 10.0, ask) == value
    assert asked == [0.0, 10.1]
    kept.put("b", "old", age_s=5.0)
    assert (kept.get("b", 5.0), kept.get("b", 4.9), kept.get("z")) == ("old", None, None)
    kept.put("a", "again")
    kept.put("c", "third")
    assert (kept.get("b"), kept.get("a"), len(kept)) == (None, "again", 2)


def test_a_stranger_is_told_once_an_hour_and_who_is_unknown_once_a_minute() -> None:
    for certain, wait_s in ((True, 3600.0), (False, 60.0)):
        now = [0.0]
        refusals = work.Refusals(lambda at=now: at[0])
        told = []
        for at in (0.0, 1.0, wait_s, wait_s + 0.1, wait_s + 1.0):
            now[0] = at
            told.append(refusals.is_due("U1", certain=certain))
        assert told == [True, False, False, True, False]
        assert refusals.is_due("U2", certain=certain)


@in_one_run
@pytest.mark.parametrize("after_s", [0.5, 60.0])
@pytest.mark.parametrize("said", [True, False])
def test_who_waits_is_told_so_and_answered_even_where_that_cannot_be_said(
    after_s: float, said: bool
) -> None:
    notes: list[float] = []

    async def answer() -> Card:
        await asyncio.sleep(after_s)
        return Card("answer")

    async def say() -> str:
        notes.append(asyncio.get_running_loop().time())
        if not said:
            raise Unavailable("The chat is away.")
        return "m1"

    async def wait() -> tuple[Card, str]:
        log = logging.getLogger("tests")
        return await work.answered(asyncio.ensure_future(answer()), say, 2.0, log)

    card, note = simulate(wait())
    slow = after_s > 2.0
    assert (card.title, note) == ("answer", "m1" if slow and said else "")
    assert notes == ([2.0] if slow else [])


def test_work_in_the_background_is_waited_for_then_given_up_and_its_failure_told_once() -> None:
    async def drain() -> tuple[list[str], list[bool], float]:
        told: list[str] = []
        tasks = work.Tasks(lambda error: told.append(str(error)))

        async def lasts(seconds: float) -> None:
            await asyncio.sleep(seconds)
            if seconds == 2:
                tasks.spawn(fails())

        spawned = [tasks.spawn(lasts(seconds)) for seconds in (1, 2, 99)]
        await tasks.drain(10.0)
        await asyncio.sleep(0)
        return told, [task.cancelled() for task in spawned], asyncio.get_running_loop().time()

    assert simulate(drain()) == (["it failed"], [False, False, True], 10.0)
