"""Carry the work of one line.

The lane whose threads do it, and a way to stop it where it is safe to stop.

Threads cannot be ended from outside. What may work for long calls `checkpoint()` between its steps,
or says how it is interrupted; only what reads does either, so a change that has begun to be written
is always finished.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from threading import Lock
from time import sleep
from typing import Any

from bot.errors import OutOfTime, OverBudget
from bot.model.request import User

LINES_A_MINUTE = 60
"""Lines that one person may ask in a minute where the site says nothing else."""
_PAUSE_S = 0.01
"""How long a step of a heavy line waits while quick ones work.

About as long as the step itself takes.
"""


class Lane(StrEnum):
    """Name the pools of threads: nothing in one waits for a thread of another."""

    WATCH = "watch"
    """The tick, its writes, and taking the lead."""
    QUICK = "quick"
    """Lines that are answered within seconds, and whatever else a surface does."""
    HEAVY = "heavy"
    """Lines that may work for a minute."""


@dataclass
class LaneLoad:
    """Count what one lane did and holds, since the process began."""

    refused: int = 0
    """Lines refused, since a share was used up or too many waited."""
    stopped: int = 0
    """Lines that took too long, or whose asker left."""
    waiting: int = 0
    """Lines that wait for a turn now."""
    running: int = 0
    """Threads of it that work now."""
    seconds: float = 0.0
    """Time that its threads worked."""


class Work:
    """Hold the work of one line in threads.

    How many run, for how long they have, and whether they are to stop.
    """

    def __init__(self, rows: int, ahead: Sequence[LaneLoad] = ()) -> None:
        self.rows, self._ahead = rows, ahead
        """The most rows that one question to the bill may return, and the lanes that go first."""
        self.seconds = 0.0
        self._reason = ""
        self._running = 0
        self._lock = Lock()
        self._interrupts: list[Callable[[], object]] = []
        self._closed: Callable[[], object] | None = None

    def stop(self, reason: str) -> None:
        """Make every thread of the line stop where it next may, and tell it why."""
        with self._lock:
            self._reason = self._reason or reason
            for interrupt in self._interrupts:
                interrupt()

    def check(self) -> None:
        """Raise `OutOfTime` where the line is to stop."""
        if self._reason:
            raise OutOfTime(self._reason)

    def give_way(self) -> None:
        """Let threads of the lanes that go first have the interpreter, which all threads share."""
        if any(lane.running for lane in self._ahead):
            sleep(_PAUSE_S)

    @contextmanager
    def interruptible(self, interrupt: Callable[[], object]) -> Iterator[None]:
        """Have `interrupt` called, from another thread, when the line is to stop meanwhile."""
        with self._lock:
            self.check()
            self._interrupts.append(interrupt)
        try:
            yield
        finally:
            with self._lock:
                self._interrupts.remove(interrupt)

    def thread_began(self) -> None:
        """Count a thread that begins; raise `OutOfTime` where the line is to stop."""
        with self._lock:
            self.check()
            self._running += 1

    def thread_ended(self, seconds: float) -> None:
        """Count a thread that ended after so many seconds."""
        with self._lock:
            self._running -= 1
            self.seconds += seconds
            over = self._closed if not self._running else None
        if over:
            over()

    def close(self, over: Callable[[], object]) -> None:
        """Let the line end.

        Call `over` once none of its threads runs, now or from the last of them.
        """
        with self._lock:
            self._reason = self._reason or "The line has ended."
            self._closed = over
            running = self._running
        if not running:
            over()


class Asker:
    """Name whose share of the bot is used, and hold whether they still wait."""

    def __init__(self, share: str | None = None) -> None:
        self.share = share
        """None for the user's own; a console has one user and many readers. "" for nobody's.

        A page keeps itself up to date.
        """
        self.lines: int | None = None
        """Lines a minute of this share, None for what everybody has."""
        self.user: User | None = None
        """Who asks, where the door knows it."""
        self.origin = ""
        """The address that they ask from."""
        self.left = False
        self._told: list[Callable[[], object]] = []

    def leave(self) -> None:
        """Tell whoever works for the asker that nobody waits any more."""
        self.left = True
        for tell in self._told:
            tell()

    def on_leave(self, tell: Callable[[], object]) -> None:
        """Have `tell` called when the asker leaves."""
        self._told.append(tell)


LANE: ContextVar[Lane] = ContextVar("lane", default=Lane.QUICK)
WORK: ContextVar[Work | None] = ContextVar("work", default=None)
"""The line that is worked on; None for the watch and for a terminal, which nothing limits."""
ASKER: ContextVar[Asker | None] = ContextVar("asker", default=None)
"""Who waits, where their leaving can be noticed."""
CONNECTION: ContextVar[Asker | None] = ContextVar("connection", default=None)
"""Who waits for the response of an HTTP request.

Only a surface whose answer is that response lets it be the asker.
"""


_audit = logging.getLogger("trnbot.audit")
_audit.addHandler(logging.NullHandler())
_audit.propagate = False


def audit(what: str, result: str, who: User | None = None, **more: str) -> None:
    """Write to the audit log, where the site keeps one: who, from where, what, with which result."""
    asker = ASKER.get()
    known = who or (asker and asker.user) or User("")
    origin = more.pop("origin", "") or (asker.origin if asker else "")
    record = {"who": known.id, "name": known.name, "from": origin, "what": what, "result": result}
    _audit.info(what, extra={"record": {**record, **more}})


Progress = Callable[[str, int, int], None]
"""Notes a piece of work, its steps that are done, and all of them (0 where nobody knows)."""
PROGRESS: ContextVar[Progress | None] = ContextVar("progress", default=None)
"""Who wants to know how far long work is; None where nobody waits at a terminal."""


def progressed(what: str, done: int, of: int = 0) -> None:
    """Tell whoever waits how far a piece of long work is."""
    if note := PROGRESS.get():
        note(what, done, of)


EPOCH: ContextVar[int] = ContextVar("epoch", default=0)
"""The lead under which the watch works here: what it writes is refused once another process leads.

0 for whoever needs no lead.
"""
PERMIT: ContextVar[Callable[[], Awaitable[None]] | None] = ContextVar("permit", default=None)
"""Raises `Standby` once another process may send what is sent here."""


async def permitted() -> None:
    """Return where this may be sent now; ask right before, for a process can stand still anywhere."""
    if check := PERMIT.get():
        await check()


@contextmanager
def holding(values: Mapping[ContextVar[Any], Any]) -> Iterator[None]:
    """Do what follows with these values of context variables."""
    before = [(variable, variable.set(value)) for variable, value in values.items()]
    try:
        yield
    finally:
        for variable, token in before:
            variable.reset(token)


def leading(epoch: int, check: Callable[[], Awaitable[None]]) -> AbstractContextManager[None]:
    """Write and send what follows by a lead, for as long as it holds."""
    return holding({EPOCH: epoch, PERMIT: check})


def within(lane: Lane, work: Work | None = None) -> AbstractContextManager[None]:
    """Do what follows in the threads of a lane, as part of a line's work or of none."""
    return holding({LANE: lane, WORK: work})


def asked_by(asker: Asker | None) -> AbstractContextManager[None]:
    """Answer lines that follow for as long as the asker waits."""
    return holding({ASKER: asker})


def noting_progress(note: Progress) -> AbstractContextManager[None]:
    """Do what follows with `note` told how far it is."""
    return holding({PROGRESS: note})


def checkpoint() -> None:
    """Give way to quicker lines, and raise `OutOfTime` where this line is to stop."""
    if work := WORK.get():
        work.give_way()
        work.check()


@contextmanager
def interruptible(interrupt: Callable[[], object]) -> Iterator[None]:
    """Have `interrupt` called when the line that is worked on here is to stop.

    Raise `OutOfTime` then, whatever it caused.
    """
    work = WORK.get()
    if work is None:
        yield
        return
    with work.interruptible(interrupt):
        try:
            yield
        except Exception:
            work.check()
            raise


def most_rows() -> int | None:
    """Return the most rows that a question may return here, None for any number."""
    work = WORK.get()
    return work.rows if work else None


def refuse_rows(most: int) -> OverBudget:
    """Return the refusal of an answer that has more rows than it may."""
    return OverBudget(
        f"The answer needs more than {most:,} rows of the bill;"
        " ask for a shorter window or fewer dimensions."
    )
