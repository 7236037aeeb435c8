"""Nobody is held up by another: shares, lanes, limits of time and of size, and work that ends when its asker leaves."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import ClientSession, ClientTimeout, web

from adapters.http import application
from adapters.store.memory import MemoryStore
from adapters.web.surface import WebConfig, WebSurface
from adapters.web.views import Console
from bot.answers.about.document import csv_text
from bot.cards.card import Card
from bot.errors import OutOfTime, OverBudget, WrongInput
from bot.grammar import turns as budgets
from bot.grammar.line import attempted, effect_of, understand, window_of
from bot.grammar.turns import (
    Bucket,
    LaneLimits,
    Limits,
    Shares,
    Turns,
    equal_of,
    limits_for,
)
from bot.model.request import LOCAL, Request, User
from bot.ports.work import LANE, Lane, LaneLoad, Work, checkpoint, interruptible, within
from bot.wiring.build import LanedExecutor
from tests.belonging import STRANGER
from tests.house.fakes import NOON, Chat, Script, app

OWN = {"X-Trnbot": "1", "Sec-Fetch-Site": "same-origin"}
TAGS = ",".join(f"tag:a{n}" for n in range(300))


def asked(line: str, user: str = "chat:U1") -> Request:
    return Request(line, User(user), NOON, "chat", LOCAL)


class Bill:
    """A bill that works for `seconds`, in steps between which it may be stopped."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.steps, self.running = seconds, 0, 0

    async def answer(self, _: Request) -> Card:
        return await asyncio.to_thread(self._work)

    def _work(self) -> Card:
        self.running += 1
        try:
            end = time.monotonic() + self.seconds
            while time.monotonic() < end:
                self.steps += 1
                checkpoint()
                time.sleep(0.01)
        finally:
            self.running -= 1
        return Card("done")


class Bot:
    """The turns of a bot whose heavy lines are a slow bill and whose quick lines answer at once."""

    def __init__(self, bill: Bill, limits: Limits = budgets.LIMITS) -> None:
        self.bill, self.loads = bill, {lane: LaneLoad() for lane in Lane}
        self.turns = Turns(time.monotonic, self.loads, limits)
        asyncio.get_running_loop().set_default_executor(LanedExecutor(self.loads))

    async def answer(self, request: Request) -> Card:
        command = attempted(request.line)
        heavy = command is not None and command.long

        async def job() -> Card:
            return await (self.bill.answer(request) if heavy else asyncio.to_thread(Card, "quick"))

        try:
            return await self.turns.take(request, job)
        except (OverBudget, Exception) as error:  # as App.answer does
            return Card("That did not work", data={"error": str(error)})


@asynccontextmanager
async def console(answer: Callable[[Request], Any]) -> AsyncIterator[str]:
    """Serve the console on loopback."""
    surface = WebSurface(
        WebConfig(),
        Console(answer, lambda: NOON, lambda: {}, lambda: "", effect_of, window_of, csv_text),
        MemoryStore(),
    )
    runner = web.AppRunner(application([surface]), handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await surface.stop()
        await runner.cleanup()


def test_a_line_of_300_tags_is_refused_in_words() -> None:
    with pytest.raises(WrongInput, match="'by' takes 4 values at most; got 300"):
        understand(f"cost 7d by {TAGS}", NOON)


@pytest.mark.parametrize(
    ("line", "refusal"),
    [
        ("cost 9999d", "A window is 1,830 days long at most; '9999d' has 9,999."),
        (
            "cost 7d " + " ".join(f"team=a{n}" for n in range(21)),
            "A line takes 20 filters at most; got 21.",
        ),
        ("cost 7d team=" + ",".join("x" * 51), "A filter takes 50 values at most; team got 51."),
    ],
)
def test_a_line_that_asks_for_too_much_names_the_limit(line: str, refusal: str) -> None:
    with pytest.raises(WrongInput) as refused:
        understand(line, NOON)
    assert str(refused.value) == refusal


async def test_16_askers_of_300_tags_do_not_stop_fleet() -> None:
    bot = Bot(Bill(30))
    pestering = [
        asyncio.create_task(bot.answer(asked(f"cost 7d by {TAGS}", f"chat:U{n}")))
        for n in range(16)
    ]
    await asyncio.sleep(0.1)
    assert (await bot.answer(asked("fleet", "chat:U99"))).title == "quick"
    assert bot.bill.running == budgets.LIMITS.lanes[Lane.HEAVY].running
    refused = [task.result() for task in pestering if task.done()]
    assert refused
    assert all("ask again in a minute" in card.data["error"] for card in refused)
    for task in pestering:
        task.cancel()
    await asyncio.gather(*pestering, return_exceptions=True)


async def test_work_ends_after_the_asker_left() -> None:
    bot = Bot(Bill(30))
    async with console(bot.answer) as url, ClientSession() as session:

        async def asks() -> None:
            await session.post(f"{url}/ask", data={"line": "cost 7d"}, headers=OWN)

        asker = asyncio.create_task(asks())
        async with asyncio.timeout(20):
            while not bot.bill.running:
                await asyncio.sleep(0.01)
        asker.cancel()
        await asyncio.gather(asker, return_exceptions=True)
        async with asyncio.timeout(2):
            while bot.bill.running:
                await asyncio.sleep(0.01)
        steps = bot.bill.steps
        await asyncio.sleep(0.1)
        assert bot.bill.steps == steps
        assert bot.loads[Lane.HEAVY].stopped == 1


async def test_a_change_goes_on_after_the_asker_left() -> None:
    changed = asyncio.Event()
    turns = Turns(time.monotonic, {lane: LaneLoad() for lane in Lane})

    async def change() -> Card:
        await asyncio.sleep(0.3)
        changed.set()
        return Card("done")

    async def answer(request: Request) -> Card:
        return await turns.take(request, change)

    async with console(answer) as url, ClientSession(timeout=ClientTimeout(total=0.1)) as session:
        with pytest.raises(TimeoutError):
            await session.post(f"{url}/ask", data={"line": "ack 7"}, headers=OWN)
        async with asyncio.timeout(2):
            await changed.wait()


async def test_a_line_that_takes_too_long_is_stopped_in_words_and_its_share_is_kept_until_it_ends() -> (
    None
):
    limits = Limits(lanes={lane: LaneLimits(1, 1, 1, 0.2) for lane in (Lane.QUICK, Lane.HEAVY)})
    ending = threading.Event()

    class Deaf(Bill):
        def _work(self) -> Card:
            ending.wait(30)
            return Card("done")

    bot = Bot(Deaf(0), limits)
    card = await bot.answer(asked("cost 7d"))
    assert (
        card.data["error"] == "This took longer than 0.2 s and was stopped; ask for less at once."
    )
    card = await bot.answer(asked("cost 7d"))
    assert (
        card.data["error"]
        == "A long line of yours is still running; wait for the answer, then ask."
    )
    ending.set()
    async with asyncio.timeout(5):
        while (await bot.answer(asked("cost 7d"))).title != "done":
            await asyncio.sleep(0.1)


async def test_200_askers_of_the_worst_lines_hold_up_neither_the_tick_nor_fleet() -> None:
    bot, ticks, waits = Bot(Bill(0.3)), [], []
    watching = app(Script(*[None] * 50), Chat())
    until = time.monotonic() + 3

    async def tick() -> None:
        while not ticks or time.monotonic() < until:
            began = time.monotonic()
            with within(Lane.WATCH):
                await watching.tick(NOON)
            ticks.append(time.monotonic() - began)
            await asyncio.sleep(0.1)

    async def rely() -> None:
        while not waits or time.monotonic() < until:
            began = time.monotonic()
            assert (await bot.answer(asked("fleet", "chat:RELY"))).title == "quick"
            waits.append(time.monotonic() - began)
            await asyncio.sleep(0.1)

    async def pester(n: int) -> list[str]:
        words = []
        while time.monotonic() < until:
            card = await bot.answer(asked(f"cost 7d by {TAGS}", f"chat:U{n}"))
            words.append(card.data.get("error", "") if card.data else "")
            await asyncio.sleep(0.5)
        return words

    *answers, _, _ = await asyncio.gather(*(pester(n) for n in range(200)), tick(), rely())
    # Behind the lines of 200 askers, .3 s each, either would wait for half a minute.
    assert max(ticks) < 5
    assert max(waits) < 5
    assert bot.loads[Lane.HEAVY].refused > 100
    assert {word.partition(";")[2] for words in answers for word in words if word} == {
        " ask again in a minute."
    }


class Seconds:
    """A clock that stands until it is told."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_person_asks_60_lines_a_minute_and_is_told_when_to_ask_again() -> None:
    seconds = Seconds()
    shares = Shares(budgets.LIMITS, seconds)
    for _ in range(60):
        shares.begin("chat:U1", "chat", Lane.QUICK)
        shares.end("chat:U1", Lane.QUICK, 0)
    with pytest.raises(
        OverBudget, match=r"^You asked 60 lines within a minute; ask again in 2 s\.$"
    ):
        shares.begin("chat:U1", "chat", Lane.QUICK)
    shares.begin("chat:U2", "chat", Lane.QUICK)
    seconds.now = 2
    shares.begin("chat:U1", "chat", Lane.QUICK)


def test_a_token_that_is_made_anew_with_another_share_has_that_at_once() -> None:
    shares = Shares(budgets.LIMITS, Seconds())
    shares.begin("token:ci", "api", Lane.QUICK, lines=1)
    with pytest.raises(OverBudget):
        shares.begin("token:ci", "api", Lane.QUICK, lines=1)
    for _ in range(2):
        shares.begin("token:ci", "api", Lane.QUICK, lines=3)
    with pytest.raises(OverBudget):
        shares.begin("token:ci", "api", Lane.QUICK, lines=3)


def test_who_worked_for_long_waits_for_more() -> None:
    seconds = Seconds()
    shares = Shares(budgets.LIMITS, seconds)
    shares.begin("chat:U1", "chat", Lane.HEAVY)
    shares.end("chat:U1", Lane.HEAVY, 90)
    with pytest.raises(OverBudget, match="ran for 60 s without a pause; ask again in 61 s"):
        shares.begin("chat:U1", "chat", Lane.HEAVY)
    seconds.now = 61
    assert shares.begin("chat:U1", "chat", Lane.HEAVY) == pytest.approx(59.5)


def test_many_strange_names_take_no_memory_and_free_nobody_of_lines_under_way() -> None:
    seconds = Seconds()
    shares = Shares(Limits(people=10), seconds)
    shares.begin("chat:BUSY", "chat", Lane.HEAVY)
    for n in range(1_000):
        shares.begin(f"chat:U{n}", "chat", Lane.QUICK)
        shares.end(f"chat:U{n}", Lane.QUICK, 0)
    assert len(shares._people) <= 10
    shares.end("chat:BUSY", Lane.HEAVY, 1)


def test_a_bucket_fills_evenly_and_never_over() -> None:
    bucket = Bucket(10, 60, 0)
    bucket.take(15, 0)
    assert bucket.left(1) == -4
    assert bucket.seconds_until(0, 1) == 4
    assert bucket.left(1_000) == 10


async def test_the_watch_uses_threads_of_its_own() -> None:
    loads = {lane: LaneLoad() for lane in Lane}
    asyncio.get_running_loop().set_default_executor(LanedExecutor(loads))
    ending = threading.Event()
    quick = [asyncio.create_task(asyncio.to_thread(ending.wait, 5)) for _ in range(100)]
    await asyncio.sleep(0)
    with within(Lane.WATCH):
        async with asyncio.timeout(1):
            assert await asyncio.to_thread(
                lambda: threading.current_thread().name.startswith("watch")
            )
            assert await asyncio.to_thread(LANE.get) is Lane.WATCH
    ending.set()
    await asyncio.gather(*quick)
    assert loads[Lane.WATCH].seconds >= 0


def test_metrics_count_refused_waiting_and_work_by_lane() -> None:
    lines = app(Script(), Chat()).health.exposition()
    for name in (
        "lines_refused_total",
        "lines_stopped_total",
        "lines_waiting",
        "work_seconds_total",
    ):
        assert f'trnbot_{name}{{lane="heavy"}} 0' in lines


class Reading:
    """Reads for a moment, and counts how often."""

    def __init__(self) -> None:
        self.begun, self.goes_on = 0, asyncio.Event()

    async def __call__(self) -> Card:
        self.begun += 1
        await self.goes_on.wait()
        return Card(f"reading {self.begun}")


async def test_equal_lines_asked_at_once_are_answered_by_one_reading_and_take_one_turn() -> None:
    bot, read = Bot(Bill(0)), Reading()
    asking = [
        asyncio.create_task(bot.turns.take(asked("fleet", f"chat:U{n}"), read, "fleet"))
        for n in range(200)
    ]
    await asyncio.sleep(0.05)
    other = await bot.turns.take(
        asked("alerts", "chat:U999"), lambda: asyncio.to_thread(Card, "quick"), "alerts"
    )
    read.goes_on.set()
    assert other.title == "quick"
    assert {card.title for card in await asyncio.gather(*asking)} == {"reading 1"}


async def test_where_the_first_asker_gives_up_the_next_one_is_answered_all_the_same() -> None:
    bot, read = Bot(Bill(0)), Reading()
    first, second = (
        asyncio.create_task(bot.turns.take(asked("fleet", f"chat:U{n}"), read, "fleet"))
        for n in range(2)
    )
    await asyncio.sleep(0.05)
    first.cancel()
    await asyncio.sleep(0.05)
    read.goes_on.set()
    assert (await second).title == "reading 2"


async def _turned() -> None:
    """Let all that is ready go on until it waits again."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_who_gives_up_behind_an_equal_line_may_ask_as_much_as_before() -> None:
    bot, read = Bot(Bill(0)), Reading()
    first = asyncio.create_task(bot.turns.take(asked("fleet", "chat:U1"), read, "fleet"))
    for _ in range(budgets.LIMITS.lanes[Lane.QUICK].at_once):
        waiting = asyncio.create_task(bot.turns.take(asked("fleet", "chat:U2"), read, "fleet"))
        await _turned()
        waiting.cancel()
        await _turned()
        assert waiting.cancelled()
    asking = asyncio.create_task(bot.turns.take(asked("fleet", "chat:U2"), read, "fleet"))
    await _turned()
    read.goes_on.set()
    assert (await asking).title == (await first).title == "reading 1"


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("fleet", "/trn fleet", True),
        ("fleet", "alerts", False),
        ("ack a1", "ack a1", False),
        ("share fleet", "share fleet", False),
        ("backtest tiny", "backtest tiny", False),
        ("fleet", "not a command", False),
    ],
)
def test_only_what_reads_and_everyone_may_ask_is_answered_once(
    one: str, other: str, alike: bool
) -> None:
    ours, theirs = equal_of(asked(one, "chat:U1")), equal_of(asked(other, "chat:U2"))
    assert (ours is not None and ours == theirs) is alike


def test_who_belongs_otherwise_or_asks_elsewhere_is_answered_for_themselves() -> None:
    here = asked("fleet")
    strange = replace(here, belonging=STRANGER)
    assert (
        len(
            {
                equal_of(one)
                for one in (
                    here,
                    strange,
                    replace(here, channel="chat:C2"),
                    replace(here, surface="web"),
                )
            }
        )
        == 4
    )


@pytest.mark.parametrize(("cores", "running"), [(1, 1), (2, 1), (4, 2), (64, 4)])
def test_heavy_lines_leave_half_of_the_machine(cores: int, running: int) -> None:
    assert limits_for(cores, 60).lanes[Lane.HEAVY].running == running


def test_a_line_that_was_stopped_begins_nothing_more() -> None:
    work, begun = Work(rows=1), []
    with within(Lane.QUICK, work), interruptible(lambda: None):
        begun.append("before")
    work.stop("It took too long.")
    with (
        within(Lane.QUICK, work),
        pytest.raises(OutOfTime, match="too long"),
        interruptible(lambda: None),
    ):
        begun.append("after")
    assert begun == ["before"]
