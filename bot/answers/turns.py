"""Answer lines in turns.

Each within its person's share, in the lane of its command, and for as long as somebody waits.

Equal lines that are asked while one of them is worked on are answered by its answer, and take no
turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from bot.answers.budgets import LIMITS, Limits, Queue, Shares, lane_of
from bot.answers.line import attempted, read_line
from bot.errors import OutOfTime, OverBudget, Unanswered, WrongInput
from bot.model.request import Effect, Request, Role
from bot.ports.work import ASKER, Asker, Lane, LaneLoad, Work, within

T = TypeVar("T")
Equal = Hashable | None
"""Equal for lines that have one answer whoever asks, None for a line that is answered for its own person."""
Job = Callable[[], Awaitable[T]]
_LEFT = "Nobody waits for this answer any more."


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
        lane, person = lane_of(command), request.user.id if asker.share is None else asker.share
        try:
            used = self._shares.begin(person, request.surface, lane)
        except OverBudget:
            self._loads[lane].refused += 1
            raise
        if command is None:  # it is refused in words, which takes no thread and no turn
            self._shares.end(person, lane, 0)
            return await job()
        ahead = (
            [self._loads[other] for other in (Lane.WATCH, Lane.QUICK)] if lane is Lane.HEAVY else []
        )
        work = Work(self._limits.rows, ahead)
        answering = asyncio.create_task(self._along(_Line(lane, person, used, work, equal), job))
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
        left = asyncio.Event()
        asker.on_leave(left.set)
        leaving: asyncio.Task[Any] = asyncio.create_task(left.wait())
        try:
            await asyncio.wait(
                [answering, leaving], timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if answering.done():
                return answering.result()
            self._loads[lane].stopped += 1
            reason = (
                _LEFT
                if left.is_set()
                else f"This took longer than {seconds:g} s and was stopped; ask for less at once."
            )
            work.stop(reason)
            if not changes:
                raise OutOfTime(reason)
            raise Unanswered(
                f"This took longer than {seconds:g} s and may still be done; look before you type it again."
            )
        finally:
            leaving.cancel()
            answering.add_done_callback(_retrieved)
            if not changes:
                work.stop(_LEFT)
                answering.cancel()

    async def _along(self, line: _Line, job: Job[T]) -> T:
        """Answer a line by the answer of an equal one that is worked on, else work on it."""
        while line.equal is not None and (ahead := self._ahead.get(line.equal)):
            try:
                await asyncio.wait([ahead])
            except asyncio.CancelledError:
                self._shares.end(line.person, line.lane, 0)
                raise
            if not ahead.cancelled() and not isinstance(ahead.exception(), OutOfTime | OverBudget):
                self._shares.end(line.person, line.lane, 0)
                answer: T = ahead.result()
                return answer
        return await self._first(line, job)

    async def _first(self, line: _Line, job: Job[T]) -> T:
        """Work on a line, and let equal ones wait for its answer."""
        if line.equal is None:
            return await self._work(line, job)
        current = asyncio.current_task()
        assert current
        self._ahead[line.equal] = current
        try:
            return await self._work(line, job)
        finally:
            del self._ahead[line.equal]

    async def _work(self, line: _Line, job: Job[T]) -> T:
        """Wait for a turn, work, and keep turn and share occupied until the last thread has ended."""
        load, work = self._loads[line.lane], line.work
        load.waiting += 1
        try:
            await self._queues[line.lane].turn(line.used)
        except BaseException:
            self._shares.end(line.person, line.lane, 0)
            raise
        finally:
            load.waiting -= 1
        try:
            with within(line.lane, work):
                return await job()
        finally:
            over = partial(self._over, line)
            work.close(partial(asyncio.get_running_loop().call_soon_threadsafe, over))

    def _over(self, line: _Line) -> None:
        self._shares.end(line.person, line.lane, line.work.seconds)
        self._queues[line.lane].next()


def _retrieved(answering: asyncio.Task[Any]) -> None:
    """Take the failure of an answer that nobody waits for."""
    if not answering.cancelled():
        answering.exception()


def equal_of(request: Request) -> Hashable | None:
    """Return what is equal for requests of one answer, None where the answer depends on the person or changes something.

    Permission is part of it: what everyone may ask is refused or answered alike to those who belong
    alike.
    """
    try:
        read = read_line(request.line)
    except WrongInput:
        return None
    runs = [each.runs for each in (read, read.carried) if each]
    if read.effect in (Effect.CHANGES, Effect.SHARES) or any(
        each.who is not Role.ANYONE or each.audited for each in runs
    ):
        return None
    return read.text, request.surface, request.channel, request.belonging, request.manner
