"""Give each person and each surface a share of the bot: lines, lines at once, and seconds of work.

`LIMITS` is the one table. Quick lines and heavy ones wait in queues of their own and use threads of
their own.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from bot.answers.registry import Command, Needs
from bot.errors import OverBudget
from bot.ports.work import LINES_A_MINUTE, Lane


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
    """Seconds in which the lines of one person work, in threads, until that person waits for more."""
    work_a_minute: float = 30
    """Seconds of work that a person gets back in each minute."""
    surface_lines: float = 6_000
    """Lines of one surface a minute."""
    people: int = 2_000
    """Persons and surfaces whose use is remembered; whoever asked longest ago is forgotten first."""
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


def lane_of(command: Command | None) -> Lane:
    """Return the lane of a command.

    Whatever asks the bill, replays the watch or examines the source may work for long.
    """
    long = command and (command.heavy or command.needs & (Needs.BILL | Needs.REPLAY | Needs.SOURCE))
    return Lane.HEAVY if long else Lane.QUICK


class Bucket:
    """Hold what is left of a share.

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

    def used(self, now: float, size: float) -> float:
        """Return the seconds of work that were used lately."""
        return size - self.work.left(now)


class Shares:
    """Count what each person and each surface uses; `seconds` is a clock that never goes back."""

    def __init__(self, limits: Limits, seconds: Callable[[], float]) -> None:
        self._limits, self._seconds = limits, seconds
        self._people: dict[str, Share] = {}
        self._surfaces: dict[str, Bucket] = {}

    def begin(self, person: str, surface: str, lane: Lane) -> float:
        """Count a line; return the seconds of work its person used lately.

        Raise `OverBudget` where the share is used up.

        A line of nobody, "", is not counted.
        """
        if not person:
            return 0
        now, limits = self._seconds(), self._limits
        share = self._share(person, now)
        if wait := share.lines.seconds_until(1, now):
            raise OverBudget(
                f"You asked {limits.lines:.0f} lines in this minute; ask again in {_whole(wait)} s."
            )
        share.lines.take(1, now)
        whole = self._surfaces.setdefault(
            surface, Bucket(limits.surface_lines, limits.surface_lines, now)
        )
        if wait := whole.seconds_until(1, now):
            raise OverBudget(
                f"People asked {limits.surface_lines:,.0f} lines here in this minute; ask again in {_whole(wait)} s."
            )
        whole.take(1, now)
        if wait := share.work.seconds_until(0, now):
            raise OverBudget(
                f"Your lines worked for {limits.work:.0f} s without a pause; ask again in {_whole(wait)} s."
            )
        running, most = share.at_once.get(lane, 0), limits.lanes[lane].at_once
        if running >= most:
            lines = "A long line" if most == 1 else f"{most} lines"
            raise OverBudget(
                f"{lines} of yours {'is' if most == 1 else 'are'} still worked on; wait for the answer, then ask."
            )
        share.at_once[lane] = running + 1
        return share.used(now, limits.work)

    def end(self, person: str, lane: Lane, seconds: float) -> None:
        """Count a line that has ended, and the seconds that it worked."""
        if not person:
            return
        share = self._people[person]
        share.at_once[lane] -= 1
        share.work.take(seconds, self._seconds())

    def _share(self, person: str, now: float) -> Share:
        """Return the share of a person, the newest last.

        Where too many are remembered, forget one who asks nothing now.
        """
        limits = self._limits
        share = self._people.pop(person, None)
        if share is None:
            share = Share(
                Bucket(limits.lines, limits.lines, now),
                Bucket(limits.work, limits.work_a_minute, now),
            )
        self._people[person] = share
        if len(self._people) > limits.people:
            idle = (
                name
                for name, one in self._people.items()
                if one is not share and not any(one.at_once.values())
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
            self._waiting.pop().turn.set_exception(OverBudget(self._full()))
        try:
            await waiting.turn
        except asyncio.CancelledError:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
            elif (
                waiting.turn.done()
                and not waiting.turn.cancelled()
                and not waiting.turn.exception()
            ):
                self.next()
            raise

    def next(self) -> None:
        """End a turn, and give it to the line that waits first."""
        if self._waiting:
            self._waiting.pop(0).turn.set_result(None)
        else:
            self._running -= 1

    def _full(self) -> str:
        return f"{self._limits.running} lines are worked on and {self._limits.waiting} wait already; ask again in a minute."


def _whole(seconds: float) -> int:
    return int(seconds) + 1
