"""Answer lines in turns, each person and surface within its share."""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar, cast

from bot.errors import OutOfTime, OverBudget, Unanswered, WrongInput
from bot.grammar.line import attempted, read_line
from bot.model.request import Effect, Request, Role
from bot.ports.work import ASKER, LINES_A_MINUTE, Asker, Lane, LaneLoad, Work, within


@dataclass(frozen=True)
class LaneLimits:
    """Limit the lines of one lane."""

    running: int
    """Lines that are worked on at once."""
    waiting: int
    """Lines that may wait for a turn."""
    at_once: int
    """Lines of one person that run or wait."""
    seconds: float
    """The longest that one line may take, waiting included."""


@dataclass(frozen=True)
class Limits:
    """Limit persons, surfaces and lanes.

    A minute's share may be used at once, and comes back evenly.
    """

    lines: float = LINES_A_MINUTE
    """Lines of one person a minute."""
    work: float = 60
    """Seconds in which the lines of one person work in threads, until that person must wait."""
    work_a_minute: float = 30
    """Seconds of work that a person gets back in each minute."""
    surface_lines: float = 6_000
    """Lines of one surface a minute."""
    people: int = 2_000
    """Persons and surfaces whose use is remembered; who asked longest ago is forgotten first."""
    rows: int = 50_000
    """Rows that one question to the bill may return."""
    lanes: Mapping[Lane, LaneLimits] = field(
        default_factory=lambda: {
            Lane.QUICK: LaneLimits(running=4, waiting=32, at_once=4, seconds=20),
            Lane.HEAVY: LaneLimits(running=2, waiting=12, at_once=2, seconds=120),
        }
    )


LIMITS = Limits()


def limits_for(cores: int, lines: int) -> Limits:
    """Return the limits on a machine of so many cores, for so many lines of one person a minute.

    Heavy lines leave half of the cores to the watch and to quick lines.
    """
    heavy = replace(LIMITS.lanes[Lane.HEAVY], running=min(4, max(1, cores // 2)))
    share = lines / LIMITS.lines
    return replace(
        LIMITS,
        lines=lines,
        work=LIMITS.work * share,
        work_a_minute=LIMITS.work_a_minute * share,
        lanes={**LIMITS.lanes, Lane.HEAVY: heavy},
    )


class Bucket:
    """Hold the rest of a share.

    It fills evenly, and may be overdrawn by work whose length nobody knew.
    """

    def __init__(self, size: float, a_minute: float, now: float) -> None:
        self._size, self._rate = size, a_minute / 60
        self._left, self._at = size, now

    def left(self, now: float) -> float:
        """Return what is left now."""
        self._left = min(self._size, self._left + (now - self._at) * self._rate)
        self._at = now
        return self._left

    def resize(self, size: float, a_minute: float) -> None:
        """Give it another size: what was used of it stays used."""
        self._left += size - self._size
        self._size, self._rate = size, a_minute / 60

    def take(self, amount: float, now: float) -> None:
        """Use some of it."""
        self._left = self.left(now) - amount

    def seconds_until(self, amount: float, now: float) -> float:
        """Return how long until so much is left, 0 where it is."""
        return max(0.0, (amount - self.left(now)) / self._rate)


@dataclass
class Share:
    """Hold one person's use of the bot."""

    lines: Bucket
    work: Bucket
    at_once: dict[Lane, int] = field(default_factory=dict)


class Shares:
    """Count what each person and each surface uses; `seconds` is a clock that never goes back."""

    def __init__(self, limits: Limits, seconds: Callable[[], float]) -> None:
        self._limits, self._seconds = limits, seconds
        self._people: dict[str, Share] = {}
        self._surfaces: dict[str, Bucket] = {}

    def begin(self, person: str, surface: str, lane: Lane, lines: float | None = None) -> float:
        """Count a line; return the seconds of work its person used lately.

        Raise `OverBudget` where the share is used up.

        A line of nobody, "", is not counted. `lines` is the person's own number a minute.
        """
        if not person:
            return 0
        now, limits = self._seconds(), self._limits
        lines = limits.lines if lines is None else lines
        share, size = self._share(person, now, lines), limits.surface_lines
        everyone = self._surfaces.setdefault(surface, Bucket(size, size, now))

        # In this order: a line that is refused for its surface counts for its person.
        for bucket, amount, used_up in (
            (share.lines, 1, f"You asked {lines:.0f} lines within a minute"),
            (everyone, 1, f"People asked {size:,.0f} lines here within a minute"),
            (share.work, 0, f"Your lines ran for {limits.work:.0f} s without a pause"),
        ):
            if wait := bucket.seconds_until(amount, now):
                raise OverBudget(f"{used_up}; ask again in {int(wait) + 1} s.")
            bucket.take(amount, now)

        running, most = share.at_once.get(lane, 0), limits.lanes[lane].at_once
        if running >= most:
            those = "A long line of yours is" if most == 1 else f"{most} lines of yours are"
            raise OverBudget(f"{those} still running; wait for the answer, then ask.")
        share.at_once[lane] = running + 1
        return limits.work - share.work.left(now)

    def end(self, person: str, lane: Lane, seconds: float) -> None:
        """Count a line that has ended, and the seconds that it worked."""
        if not person:
            return
        share = self._people[person]
        share.at_once[lane] -= 1
        share.work.take(seconds, self._seconds())

    def _share(self, person: str, now: float, lines: float) -> Share:
        """Return the share of a person, the newest last.

        Where too many are remembered, forget one who asks nothing now.
        """
        limits = self._limits
        share = self._people.pop(person, None) or Share(
            Bucket(lines, lines, now), Bucket(limits.work, limits.work_a_minute, now)
        )
        share.lines.resize(lines, lines)
        self._people[person] = share

        # Dictionaries keep their order: who asked longest ago comes first.
        if len(self._people) > limits.people:
            idle = (
                name
                for name, candidate in self._people.items()
                if candidate is not share and not any(candidate.at_once.values())
            )
            self._people.pop(next(idle, ""), None)
        return share


@dataclass(order=True)
class _Waiting:
    """Hold one line that waits: who used less comes first, then who came first."""

    used: float
    number: int
    turn: asyncio.Future[None] = field(compare=False)


class Queue:
    """Give turns to the lines of one lane.

    Where too many wait, the line of who used most is refused.
    """

    def __init__(self, limits: LaneLimits) -> None:
        self._limits = limits
        self._running = self._count = 0
        self._waiting: list[_Waiting] = []

    async def turn(self, used: float) -> None:
        """Wait for a turn; raise `OverBudget` where too many wait who used less."""
        if self._running < self._limits.running:
            self._running += 1
            return
        self._count += 1
        waiting = _Waiting(used, self._count, asyncio.get_running_loop().create_future())
        insort(self._waiting, waiting)
        if len(self._waiting) > self._limits.waiting:
            full = (
                f"{self._limits.running} lines are running and {self._limits.waiting} are"
                " waiting; ask again in a minute."
            )
            self._waiting.pop().turn.set_exception(OverBudget(full))
        try:
            await waiting.turn
        except asyncio.CancelledError:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
            elif waiting.turn.done() and not (waiting.turn.cancelled() or waiting.turn.exception()):
                self.next()  # the turn came while its line was given up
            raise

    def next(self) -> None:
        """End a turn, and give it to the line that waits first."""
        if self._waiting:
            self._waiting.pop(0).turn.set_result(None)
        else:
            self._running -= 1


T = TypeVar("T")
Equal = Hashable | None
"""Equal for lines of one answer whoever asks, None for a line answered for its own person."""
Job = Callable[[], Awaitable[T]]
_LEFT = "Nobody is waiting for this answer any more."


@dataclass(frozen=True)
class _Line:
    """Hold a line that is to be answered."""

    lane: Lane
    person: str
    used: float
    """Seconds of work that the person used lately."""
    work: Work
    equal: Equal


class Turns:
    """Hold the shares of people and the queues of the lanes; touched by the event loop alone."""

    def __init__(
        self, seconds: Callable[[], float], loads: Mapping[Lane, LaneLoad], limits: Limits = LIMITS
    ) -> None:
        self._limits, self._loads = limits, loads
        self._shares = Shares(limits, seconds)
        self._queues = {lane: Queue(of) for lane, of in limits.lanes.items()}
        self._ahead: dict[Hashable, asyncio.Task[Any]] = {}

    async def take(self, request: Request, job: Job[T], equal: Equal = None) -> T:
        """Do the work of a line in its turn.

        Raise `OverBudget`, `OutOfTime`, or `Unanswered` for a change that goes on.
        """
        command = attempted(request.line)
        asker = ASKER.get() or Asker()
        lane = Lane.HEAVY if command and command.long else Lane.QUICK
        person = request.user.id if asker.share is None else asker.share
        try:
            used = self._shares.begin(person, request.surface, lane, asker.lines)
        except OverBudget:
            self._loads[lane].refused += 1
            raise
        if command is None:  # it is refused in words, which takes no thread and no turn
            self._shares.end(person, lane, 0)
            return await job()

        ahead = (Lane.WATCH, Lane.QUICK) if lane is Lane.HEAVY else ()
        work = Work(self._limits.rows, [self._loads[busy] for busy in ahead])
        answering = asyncio.create_task(self._answered(_Line(lane, person, used, work, equal), job))
        try:
            return await self._waited(answering, work, lane, asker, changes=command.changes)
        except OverBudget:
            self._loads[lane].refused += 1
            raise

    async def _waited(
        self, answering: asyncio.Task[T], work: Work, lane: Lane, asker: Asker, *, changes: bool
    ) -> T:
        """Return the answer while somebody waits and there is time.

        What changes something goes on to its end.
        """
        seconds = self._limits.lanes[lane].seconds
        away = asyncio.Event()
        asker.on_leave(away.set)
        leaving: asyncio.Task[Any] = asyncio.create_task(away.wait())
        try:
            await asyncio.wait(
                [answering, leaving], timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if answering.done():
                return answering.result()

            self._loads[lane].stopped += 1
            late = f"This took longer than {seconds:g} s and"
            reason = _LEFT if away.is_set() else f"{late} was stopped; ask for less at once."
            work.stop(reason)
            if not changes:
                raise OutOfTime(reason)
            raise Unanswered(f"{late} may still be done; check before you type it again.")
        finally:
            leaving.cancel()
            # The failure of an answer that nobody waits for is taken, and not logged as forgotten.
            answering.add_done_callback(lambda task: task.cancelled() or task.exception())
            if not changes:
                work.stop(_LEFT)
                answering.cancel()

    async def _answered(self, line: _Line, job: Job[T]) -> T:
        """Answer a line by the answer of an equal one that is worked on, else work on it."""
        while line.equal is not None and (ahead := self._ahead.get(line.equal)):
            try:
                await asyncio.wait([ahead])
            except asyncio.CancelledError:
                self._shares.end(line.person, line.lane, 0)
                raise
            if not ahead.cancelled() and not isinstance(ahead.exception(), OutOfTime | OverBudget):
                self._shares.end(line.person, line.lane, 0)
                return cast("T", ahead.result())

        if line.equal is None:
            return await self._work(line, job)

        # Equal lines that come meanwhile wait for this task.
        current = asyncio.current_task()
        assert current
        self._ahead[line.equal] = current
        try:
            return await self._work(line, job)
        finally:
            del self._ahead[line.equal]

    async def _work(self, line: _Line, job: Job[T]) -> T:
        """Wait for a turn, work, and hold turn and share until the last thread has ended."""
        load, work, queue = self._loads[line.lane], line.work, self._queues[line.lane]
        load.waiting += 1
        try:
            await queue.turn(line.used)
        except BaseException:
            self._shares.end(line.person, line.lane, 0)
            raise
        finally:
            load.waiting -= 1

        def over() -> None:
            self._shares.end(line.person, line.lane, work.seconds)
            queue.next()

        try:
            with within(line.lane, work):
                return await job()
        finally:
            work.close(partial(asyncio.get_running_loop().call_soon_threadsafe, over))


def equal_of(request: Request) -> Hashable | None:
    """Return what is equal for requests of one answer.

    None where the answer depends on the person or changes something. Permission is part of it: what
    everyone may ask is refused or answered alike to those who belong alike.
    """
    try:
        line = read_line(request.line)
    except WrongInput:
        return None
    if line.effect in (Effect.CHANGES, Effect.SHARES):
        return None
    commands = [part.runs for part in (line, line.carried) if part]
    if any(command.who is not Role.ANYONE or command.audited for command in commands):
        return None
    return (
        line.text,
        line.detailed,
        request.surface,
        request.channel,
        request.belonging,
        request.manner,
    )
