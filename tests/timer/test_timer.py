import asyncio
import itertools
import logging
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from adapters.timer import (
    JUMP,
    Attempts,
    ReplayClock,
    ReplayTimer,
    SteadyClock,
    Timer,
    grid_ceiling,
    grid_floor,
)
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


def steady(wall, monotonic=None, jumps=None):
    """Return the steady clock of a wall's, by default one that nobody sets."""
    if monotonic is None:

        def monotonic():
            return wall().timestamp()

    return SteadyClock(wall, FIVE, [].append if jumps is None else jumps.append, monotonic)


class Ticks(list):
    """Remember each tick; fail those that `failing` names."""

    failing = ()

    async def __call__(self, now):
        self.append(now)
        if len(self) <= len(self.failing) and self.failing[len(self) - 1]:
            raise self.failing[len(self) - 1]


@pytest.mark.parametrize(
    ("minute", "below", "above"), [(0, 0, 0), (1, 0, 5), (4.99, 0, 5), (5, 5, 5)]
)
def test_the_grid_stands_on_multiples_of_the_interval(minute, below, above):
    at = NINE + timedelta(minutes=minute)
    assert [grid_floor(at, FIVE), grid_ceiling(at, FIVE)] == minutes(below, above)


class Missed(list):
    """Remember what is reported as missed."""

    def __call__(self, count, sentence):
        self.append((count, sentence))


async def test_a_tick_is_told_the_grid_time():
    hand, ticks, missed = Hand(), Ticks(), Missed()
    timer = Timer(ticks, steady(hand), FIVE, missed)
    for minute in (0, 5.01, 10.2):
        hand.now = NINE + timedelta(minutes=minute)
        await timer.fire()
    assert ticks == minutes(0, 5, 10)
    assert missed == []


async def test_a_restart_looks_at_once_though_the_tick_before_it_was_saved():
    hand, ticks, missed = Hand(), Ticks(), Missed()
    timer = Timer(ticks, steady(hand), FIVE, missed, since=NINE)
    for minute in (2, 4, 5):
        hand.now = NINE + timedelta(minutes=minute)
        await timer.fire()
    assert ticks == minutes(0, 5)
    assert missed == []


async def test_ticks_that_a_sleeping_machine_missed_are_run_at_their_own_times():
    hand, ticks, missed = Hand(), Ticks(), Missed()
    timer = Timer(ticks, steady(hand), FIVE, missed)
    await timer.fire()
    hand.now = NINE + timedelta(minutes=31)
    await timer.fire()
    assert ticks == minutes(0, 5, 10, 15, 20, 25, 30)
    assert missed == []


async def test_what_lies_further_back_than_an_hour_is_counted_as_missed_and_said():
    hand, ticks, missed = Hand(), Ticks(), Missed()
    timer = Timer(ticks, steady(hand), FIVE, missed, since=NINE)
    hand.now = NINE + timedelta(minutes=121)
    await timer.fire()
    assert ticks == minutes(*range(60, 121, 5))
    assert missed == [
        (
            11,
            "11 ticks from 2026-11-20 09:05 to 09:55 UTC did not run: they are too far in the past.",
        )
    ]


@pytest.mark.parametrize("failure", [Unavailable("away"), OSError("No space left on device")])
async def test_a_failed_tick_of_the_live_watch_is_run_again_and_then_those_behind_it(failure):
    hand, ticks, missed = Hand(), Ticks(), Missed()
    ticks.failing = [None, failure, failure]
    timer = Timer(ticks, steady(hand), FIVE, missed)
    timer.attempts = Attempts(ticks, sleep=passing(hand, 6))
    await timer.fire()
    hand.now += FIVE
    await timer.fire()
    assert ticks == minutes(0, 5, 5, 5, 10, 15)
    assert missed == []


async def test_a_fault_of_the_bots_own_does_not_hold_up_the_live_watch():
    hand, ticks, missed = Hand(), Ticks(), Missed()
    ticks.failing = [None, ValueError("bug"), ValueError("bug")]
    timer = Timer(ticks, steady(hand), FIVE, missed)
    timer.attempts = Attempts(ticks, sleep=passing(hand, 3))
    await timer.fire()
    hand.now += FIVE
    await timer.fire()
    assert ticks == minutes(0, 5, 5, 10)
    assert missed == [(1, "1 tick of 09:05 UTC did not run: it failed again and again.")]


def passing(hand, minutes):
    """Return a sleep in which the clock goes on."""

    async def sleep(_):
        hand.now += timedelta(minutes=minutes)

    return sleep


def utc_now():
    return datetime.now(UTC)


async def test_it_ticks_at_the_start_and_then_on_the_grid():
    step, ticks, third = timedelta(milliseconds=50), Ticks(), asyncio.Event()

    async def tick(now):
        await ticks(now)
        if len(ticks) == 3:
            third.set()

    timer = Timer(tick, steady(utc_now), step, Missed())
    await timer.start()
    await asyncio.wait_for(third.wait(), 10)
    await timer.stop()
    assert all(grid_floor(at, step) == at for at in ticks)
    assert sorted(set(ticks)) == ticks


async def test_a_tick_that_overruns_is_never_doubled_and_the_skipped_ones_are_reported():
    running, most, ticks, missed = 0, 0, [], Missed()

    async def slow(now):
        nonlocal running, most
        running += 1
        most = max(most, running)
        ticks.append(now)
        await asyncio.sleep(0.2 if len(ticks) == 1 else 0)
        running -= 1

    step = timedelta(milliseconds=50)
    timer = Timer(slow, steady(utc_now), step, missed)
    await timer.start()
    async with asyncio.timeout(10):
        while len(ticks) < 2:
            await asyncio.sleep(0.01)
    await timer.stop()
    assert most == 1
    assert (ticks[1] - ticks[0]) // step == missed[0][0] + 1 >= 3
    assert "did not run: the one before took longer than the interval." in missed[0][1]


class Clocks:
    """A clock of the wall and one of real seconds, apart; `set_by` says how the first is wrong when."""

    def __init__(self, set_by, zone=UTC):
        self.seconds, self.set_by, self.zone = 0.0, set_by, zone

    def real(self):
        return self.seconds

    def wall(self):
        right = NINE + timedelta(seconds=self.seconds)
        return (right + self.set_by(timedelta(seconds=self.seconds))).astimezone(self.zone)


async def watched(clocks, hours=3.0, look_s=5.0):
    """Tick for some hours; return (real minutes, name) of each tick, the jumps, and what was missed."""
    ticks, jumps, missed = [], [], Missed()

    async def tick(now):
        ticks.append((clocks.seconds / 60, now))

    timer = Timer(tick, steady(clocks.wall, clocks.real, jumps), FIVE, missed)
    await timer.fire()
    while clocks.seconds < hours * 3600:
        clocks.seconds += min(look_s, max(timer._pause_s(), 0.001))
        await timer.fire()
    return ticks, jumps, missed


SPANS = [timedelta(minutes=1), timedelta(hours=1), timedelta(days=1), timedelta(days=365)]
AN_HOUR, LATER = timedelta(hours=1), timedelta(hours=1, seconds=20)


@pytest.mark.parametrize("way", [1, -1])
@pytest.mark.parametrize("span", SPANS, ids=str)
async def test_a_clock_that_is_wrong_for_a_moment_names_no_tick_and_is_told_once(span, way):
    clocks = Clocks(lambda at: way * span if AN_HOUR <= at < LATER else timedelta(0))
    ticks, jumps, missed = await watched(clocks)
    assert [name for _, name in ticks] == minutes(*range(0, 181, 5))
    assert max(b[0] - a[0] for a, b in itertools.pairwise(ticks)) < 5.2
    assert [round(jump / span * way, 1) for jump in jumps] == [1]
    assert missed == []


@pytest.mark.parametrize("way", [1, -1])
@pytest.mark.parametrize("span", SPANS, ids=str)
async def test_a_clock_that_was_set_is_believed_after_an_interval_and_no_tick_is_left_out(
    span, way
):
    clocks = Clocks(lambda at: way * span if at >= AN_HOUR else timedelta(0))
    ticks, jumps, missed = await watched(clocks)
    assert max(b[0] - a[0] for a, b in itertools.pairwise(ticks)) < 5.2
    assert 37 <= len(ticks) <= 38
    assert [name for at, name in ticks if at < 60] == minutes(*range(0, 60, 5))
    late = [(at, name) for at, name in ticks if at > 66]
    assert [name for _, name in late] == [
        grid_floor(NINE + timedelta(minutes=at) + way * span, FIVE) for at, _ in late
    ]
    assert [round(jump / span * way, 1) for jump in jumps] == [1]
    assert missed == []


async def test_slewing_is_followed_and_is_no_jump():
    slewed = await watched(Clocks(lambda at: at * 500e-6), hours=24)
    assert slewed[1:] == ([], [])
    assert [name for _, name in slewed[0]] == minutes(*range(0, 24 * 60 + 1, 5))
    assert JUMP.total_seconds() < 24 * 3600 * 500e-6


async def test_a_machine_that_was_suspended_runs_the_last_hour_of_ticks_and_is_told_of_no_jump():
    clocks = Clocks(lambda _: timedelta(0))
    jumps, ticks, missed = [], Ticks(), Missed()
    timer = Timer(ticks, steady(clocks.wall, clocks.real, jumps), FIVE, missed)
    await timer.fire()
    clocks.seconds = 8 * 3600.0
    await timer.fire()
    assert ticks == minutes(0, *range(7 * 60, 8 * 60 + 1, 5))
    assert (jumps, missed[0][0]) == ([], 83)


@pytest.mark.parametrize("month", [3, 10])
async def test_summer_time_begins_and_ends_without_a_word(month, monkeypatch):
    last_sunday = {3: 29, 10: 25}[month]
    monkeypatch.setattr(f"{__name__}.NINE", datetime(2026, month, last_sunday, tzinfo=UTC))
    ticks, jumps, missed = await watched(Clocks(lambda _: timedelta(0), ZoneInfo("Europe/Berlin")))
    assert [name for _, name in ticks] == minutes(*range(0, 181, 5))
    assert (jumps, missed) == ([], [])


async def test_stop_lets_the_tick_under_way_finish():
    begun, go, done = asyncio.Event(), asyncio.Event(), []

    async def tick(now):
        begun.set()
        await go.wait()
        done.append(now)

    timer = Timer(tick, steady(utc_now), FIVE, Missed())
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
    assert attempts.in_a_row == {"Unavailable": 1}
    assert [record.message.split(" ", 5)[5] for record in caplog.records] == [
        "failed: Unavailable: AWS is away.",
        "failed: ValueError: bug",
        "passed after failing: Unavailable 2×, ValueError 1×.",
        "failed: Unavailable: AWS is away.",
    ]
    assert [bool(record.exc_info) for record in caplog.records] == [False, True, False, False]


def replay(*, end=20.0, speed=60.0):
    hand = Hand()
    clock = ReplayClock(
        Window(NINE, NINE + timedelta(minutes=end)), speed, FIVE, real_seconds=hand.real
    )
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


async def test_a_failed_tick_of_a_replay_is_the_next_one_and_recorded_time_waits_for_it():
    hand, clock = replay()
    ticks, seen = Ticks(), []
    ticks.failing = [None, *[Unavailable("away")] * 7]

    async def tick(now):
        seen.append((now, clock()))
        await ticks(now)

    timer = ReplayTimer(tick, clock, sleep=hand.sleep)
    await timer.play()
    assert ticks == minutes(0, *[5] * 8, 10, 15, 20)
    assert all(now == shown for now, shown in seen)
    assert hand.seconds == 5 + (1 + 2 + 4 + 8 + 16 + 30 + 30) + 10


async def test_a_replay_that_waits_for_a_failed_tick_is_stopped_at_once():
    _, clock = replay()
    failed = asyncio.Event()

    async def tick(now):
        failed.set()
        raise Unavailable("away")

    timer = ReplayTimer(tick, clock)
    await timer.start()
    await failed.wait()
    await asyncio.wait_for(timer.stop(), 0.5)


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
