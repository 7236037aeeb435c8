import asyncio
import logging
from datetime import UTC, datetime, timedelta

import pytest

from adapters.timer import Attempts, ReplayClock, ReplayTimer, Timer, grid_ceiling, grid_floor
from bot.errors import Unavailable
from bot.model.window import Window

NINE = datetime(2026, 11, 20, 9, tzinfo=UTC)
FIVE = timedelta(minutes=5)


def minutes(*offsets):
    return [NINE + timedelta(minutes=n) for n in offsets]


class Hand:
    """A clock moved by hand."""

    def __init__(self):
        self.now, self.seconds = NINE, 0.0

    def __call__(self):
        return self.now

    def real(self):
        return self.seconds

    async def sleep(self, seconds):
        self.seconds += seconds
        await asyncio.sleep(0)


class Ticks(list):
    """Remember each tick; fail those that `failing` names."""

    failing = ()

    async def __call__(self, now):
        self.append(now)
        if len(self) <= len(self.failing) and self.failing[len(self) - 1]:
            raise self.failing[len(self) - 1]


@pytest.mark.parametrize(("minute", "below", "above"), [(0, 0, 0), (1, 0, 5), (4.99, 0, 5), (5, 5, 5)])
def test_the_grid_stands_on_multiples_of_the_interval(minute, below, above):
    at = NINE + timedelta(minutes=minute)
    assert [grid_floor(at, FIVE), grid_ceiling(at, FIVE)] == minutes(below, above)


async def test_a_tick_is_told_the_grid_time():
    hand, ticks, missed = Hand(), Ticks(), []
    timer = Timer(ticks, hand, FIVE, missed.append)
    for minute in (0, 5.01, 10.2):
        hand.now = NINE + timedelta(minutes=minute)
        await timer.fire()
    assert ticks == minutes(0, 5, 10)
    assert missed == []


async def test_ticks_that_a_sleeping_machine_missed_are_reported():
    hand, ticks, missed = Hand(), Ticks(), []
    timer = Timer(ticks, hand, FIVE, missed.append)
    await timer.fire()
    hand.now = NINE + timedelta(minutes=31)
    await timer.fire()
    assert ticks == minutes(0, 30)
    assert missed == ["5 tick(s) between 2026-11-20 09:00 and 09:30 UTC did not run."]


def utc_now():
    return datetime.now(UTC)


async def test_the_scheduler_ticks_at_the_start_and_then_on_the_grid():
    step, ticks, third = timedelta(milliseconds=50), Ticks(), asyncio.Event()

    async def tick(now):
        await ticks(now)
        if len(ticks) == 3:
            third.set()

    timer = Timer(tick, utc_now, step, lambda _: None)
    await timer.start()
    await asyncio.wait_for(third.wait(), 10)
    await timer.stop()
    assert all(grid_floor(at, step) == at for at in ticks)
    assert sorted(set(ticks)) == ticks


async def test_a_tick_that_overruns_is_never_doubled_and_the_skipped_one_is_reported():
    running, most, missed, skipped = 0, 0, [], asyncio.Event()

    async def slow(now):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await skipped.wait()
        running -= 1

    def on_missed(reason):
        missed.append(reason)
        skipped.set()

    timer = Timer(slow, utc_now, timedelta(milliseconds=50), on_missed)
    await timer.start()
    await asyncio.wait_for(skipped.wait(), 10)
    await timer.stop()
    assert most == 1
    assert "was skipped: the one before was still running" in missed[0]


async def test_stop_lets_the_tick_under_way_finish():
    begun, go, done = asyncio.Event(), asyncio.Event(), []

    async def tick(now):
        begun.set()
        await go.wait()
        done.append(now)

    timer = Timer(tick, utc_now, FIVE, lambda _: None)
    await timer.start()
    await begun.wait()
    stopping = asyncio.create_task(timer.stop())
    await asyncio.sleep(0)
    go.set()
    await stopping
    assert len(done) == 1


async def test_a_failing_tick_is_counted_and_told_once_until_one_succeeds(caplog):
    caplog.set_level(logging.INFO, "trnbot.timer")
    ticks = Ticks()
    ticks.failing = [
        Unavailable("AWS is away."),
        Unavailable("AWS is away."),
        ValueError("bug"),
        None,
        Unavailable("AWS is away."),
    ]
    attempts = Attempts(ticks)
    for _ in range(5):
        await attempts.run(NINE)
    assert attempts.failed == {"Unavailable": 3, "ValueError": 1}
    assert attempts.succeeded == 1
    assert [record.message.split(" ", 5)[5] for record in caplog.records] == [
        "failed: Unavailable: AWS is away.",
        "failed: ValueError: bug",
        "succeeded again after Unavailable, ValueError.",
        "failed: Unavailable: AWS is away.",
    ]
    assert [bool(record.exc_info) for record in caplog.records] == [False, True, False, False]


def replay(*, end=20.0, speed=60.0):
    hand = Hand()
    clock = ReplayClock(Window(NINE, NINE + timedelta(minutes=end)), speed, FIVE, real_seconds=hand.real)
    return hand, clock


def test_recorded_time_runs_at_the_speed_up_to_the_tick_that_is_due():
    hand, clock = replay()
    clock.ticked()
    hand.seconds = 3
    assert clock() == NINE + timedelta(minutes=3)
    assert clock.seconds_left() == 2
    hand.seconds = 60
    assert clock() == NINE + FIVE


async def test_a_replay_runs_every_tick_in_order_and_ends_quietly():
    hand, clock = replay()
    ticks = Ticks()
    await ReplayTimer(ticks, clock, sleep=hand.sleep).play()
    assert ticks == minutes(0, 5, 10, 15, 20)
    assert hand.seconds == 20
    hand.seconds = 9999
    assert clock() == NINE + timedelta(minutes=20)
    assert clock.next_tick is None


async def test_recorded_time_waits_for_ticks_that_are_slower_than_the_speed():
    hand, clock = replay()
    seen = []

    async def slow(now):
        hand.seconds += 30
        seen.append((now, clock()))

    await ReplayTimer(slow, clock, sleep=hand.sleep).play()
    assert seen == [(at, at) for at in minutes(0, 5, 10, 15, 20)]
    assert hand.seconds == 150


async def test_a_replay_goes_on_after_a_tick_that_fails():
    hand, clock = replay()
    ticks = Ticks()
    ticks.failing = [None, Unavailable("away")]
    timer = ReplayTimer(ticks, clock, sleep=hand.sleep)
    await timer.play()
    assert len(ticks) == 5
    assert (timer.attempts.succeeded, timer.attempts.failed["Unavailable"]) == (4, 1)


async def test_a_replay_stops_while_it_waits():
    _, clock = replay(speed=0.001)
    ticked, ticks = asyncio.Event(), []

    async def tick(now):
        ticks.append(now)
        ticked.set()

    timer = ReplayTimer(tick, clock)
    await timer.start()
    await ticked.wait()
    await timer.stop()
    assert ticks == minutes(0)


def test_a_recording_within_one_interval_still_ticks_once():
    _, clock = replay(end=0)
    assert clock.next_tick == NINE
    clock.ticked()
    assert clock.next_tick is None
