"""Wait for an answer so long and no longer: what comes later is dropped, and holds nothing up, not even the process's end."""

from __future__ import annotations

import math
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread
from typing import NoReturn, TypeVar

Answer = TypeVar("Answer")


class Late(Exception):
    """Say that no answer came in time."""


def in_time(ask: Callable[[], Answer], seconds: float) -> Answer:
    """Return what `ask` returns, or raise what it raises; raise `Late` where neither has come after `seconds`."""
    if math.isinf(seconds):
        return ask()
    told: SimpleQueue[Callable[[], Answer]] = SimpleQueue()

    def run() -> None:
        try:
            answer = ask()
        except BaseException as error:
            told.put(_raising(error))
        else:
            told.put(lambda: answer)

    # Not a pool: the interpreter waits for a pool's threads before it ends, and a dead connection would hold it up.
    Thread(target=run, name="aws", daemon=True).start()
    try:
        answer = told.get(timeout=max(0.0, seconds))
    except Empty:
        raise Late from None
    return answer()


def _raising(error: BaseException) -> Callable[[], NoReturn]:
    def fail() -> NoReturn:
        raise error

    return fail
