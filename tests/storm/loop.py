"""Run a program of real sockets and threads by a time of its own: it passes only while everybody waits for it."""

from __future__ import annotations

import asyncio
import selectors
from typing import Any

GRACE_S = 0.001
"""Real seconds in which a loopback socket shows what was just written to it."""


class _Selector(selectors.DefaultSelector):
    """Poll real sockets; where none is ready and no thread works, let the simulated time pass."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.threads = 0.0, 0

    def select(self, timeout: float | None = None) -> Any:
        found = super().select(0)
        if found or (timeout is not None and timeout <= 0):
            return found
        if self.threads or timeout is None:
            return super().select(0.05)
        found = super().select(GRACE_S)
        if not found:
            self.now += timeout
        return found


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Be an event loop in which an hour of waiting takes no time: sleeps, timeouts and paces are all of its own clock."""

    def __init__(self) -> None:
        self._simulated = _Selector()
        super().__init__(self._simulated)

    def time(self) -> float:
        return self._simulated.now

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        self._simulated.threads += 1
        working = super().run_in_executor(executor, func, *args)
        working.add_done_callback(self._done)
        return working

    def _done(self, _: Any) -> None:
        self._simulated.threads -= 1


def simulate(work: Any) -> Any:
    """Run a coroutine in simulated time."""
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(work)
