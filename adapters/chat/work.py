"""Do work in the background, say that an answer takes long, and remember answers for a while."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, TypeVar

from aiohttp import web

from bot.cards.card import Card
from bot.errors import TrnbotError
from bot.model.limits import Newest

T = TypeVar("T")
Monotonic = Callable[[], float]
_MOST = 10_000
_HOUR_S, _MINUTE_S = 3_600.0, 60.0


class Refusal(Exception):
    """Refuse an HTTP request, with a sentence for whoever made it."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


_READ_S = 10.0
"""How long a sender has for a body: a slow one holds its connection."""


async def body_of(request: web.Request, most: int, within_s: float = _READ_S) -> bytes:
    """Return a body of at most so many bytes, by its header and by count, that arrives soon.

    Raise `Refusal` for another.
    """
    body = bytearray()
    try:
        async with asyncio.timeout(within_s):
            while (request.content_length or 0) <= most and len(body) <= most:
                chunk = await request.content.readany()
                if not chunk:
                    return bytes(body)
                body += chunk
    except TimeoutError:
        raise Refusal(408, "The body did not arrive in time.") from None
    raise Refusal(413, f"A request has at most {most} bytes.")


class Tasks:
    """Start work that goes on after its request, wait for it, and report its failures."""

    def __init__(self, report: Callable[[BaseException], None]) -> None:
        self._report = report
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start work; its failure is reported once."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finish)
        return task

    def _finish(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self._report(error)

    async def drain(self, timeout_s: float = 10.0) -> None:
        """Wait for the work under way and the work it begins, then give up."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        while self._tasks and loop.time() < until:
            await asyncio.wait(self._tasks, timeout=until - loop.time())

        for task in self._tasks:
            task.cancel()


async def answered(
    answer: asyncio.Future[Card],
    say_working: Callable[[], Awaitable[str]],
    after_s: float,
    log: logging.Logger,
) -> tuple[Card, str]:
    """Return an answer, and the id of the message which said that it takes long.

    "" where none was needed, or could be said.
    """
    done, _ = await asyncio.wait({answer}, timeout=after_s)
    note = ""
    if not done:
        try:
            note = await say_working()
        except TrnbotError as error:
            log.info("not said that it is worked on: %s", error)
    return await answer, note


class Recent(Generic[T]):
    """Keep values for a while: the `most` that were put last."""

    def __init__(self, monotonic: Monotonic = time.monotonic, most: int = _MOST) -> None:
        self.monotonic = monotonic
        self._values = Newest[str, tuple[float, T]](most)

    def __len__(self) -> int:
        """Return how many values are kept, old ones included."""
        return len(self._values)

    def get(self, key: str, age_s: float = float("inf")) -> T | None:
        """Return a value that is no older, None otherwise."""
        at_s, value = self._values.get(key, (float("-inf"), None))
        return value if self.monotonic() - at_s <= age_s else None

    async def of(self, key: str, age_s: float, ask: Callable[[], Awaitable[T]]) -> T:
        """Return a value that is no older, or else ask for it and keep it."""
        value = self.get(key, age_s)
        if value is None:
            value = await ask()
            self.put(key, value)
        return value

    def put(self, key: str, value: T, age_s: float = 0.0) -> None:
        """Keep a value, as one that is so old already."""
        self._values[key] = (self.monotonic() - age_s, value)


class Refusals:
    """Remember who was told that they are not served.

    Each once an hour; once a minute, to try again, who cannot be told apart.
    """

    def __init__(self, monotonic: Monotonic = time.monotonic) -> None:
        self.people = Recent[bool](monotonic)

    def is_due(self, person: str, *, certain: bool) -> bool:
        """Return whether a person is to be told now, and count it as done."""
        if self.people.get(person, _HOUR_S if certain else _MINUTE_S):
            return False
        self.people.put(person, value=True)
        return True
