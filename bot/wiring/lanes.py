"""Run what blocks in threads of its lane, so that nothing in one lane waits for another."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import ParamSpec, TypeVar

from bot.ports.work import LANE, WORK, Lane, LaneLoad

P = ParamSpec("P")
T = TypeVar("T")
THREADS = {Lane.WATCH: 8, Lane.QUICK: 24, Lane.HEAVY: 6}
"""Threads of each lane.

More than lines run at once, so that a line which asks twice at once does not wait for itself.
"""


class LanedExecutor(ThreadPoolExecutor):
    """Be the event loop's executor.

    `asyncio.to_thread` submits in its caller's context, which names the lane.
    """

    def __init__(self, loads: Mapping[Lane, LaneLoad]) -> None:
        super().__init__(1)
        self._loads, self._counting = loads, Lock()
        self._lanes = {
            lane: ThreadPoolExecutor(n, thread_name_prefix=lane.value)
            for lane, n in THREADS.items()
        }

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a function in a thread of the lane of who calls, as part of the line worked on."""
        # Threads of a pool have contexts of their own, so both are taken here.
        lane, work = LANE.get(), WORK.get()
        load = self._loads[lane]

        def counted() -> T:
            if work:
                work.thread_began()
            started = time.monotonic()
            with self._counting:
                load.running += 1
            try:
                return fn(*args, **kwargs)
            finally:
                seconds = time.monotonic() - started
                with self._counting:
                    load.running -= 1
                    load.seconds += seconds
                if work:
                    work.thread_ended(seconds)

        return self._lanes[lane].submit(counted)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End every lane."""
        for pool in self._lanes.values():
            pool.shutdown(wait, cancel_futures=cancel_futures)
        super().shutdown(wait, cancel_futures=cancel_futures)
