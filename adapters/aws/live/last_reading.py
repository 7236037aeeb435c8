"""Let one thread at a time ask AWS, and let a line that comes meanwhile have the last whole reading."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from threading import RLock

from bot.errors import Unavailable
from bot.model.reading import Reading
from bot.ports.work import LANE, Lane

BRIEFLY_S = 0.2
"""How long a line waits for a reading that is nearly done."""


class LastReading:
    """Keep the newest whole reading; `asking` is held by whoever asks AWS.

    Only the watch waits for it.
    """

    def __init__(self) -> None:
        self.asking = RLock()
        self._newest: Reading | None = None

    def read(self, now: datetime, ask: Callable[[datetime], Reading]) -> Reading:
        """Return what `ask` reads at `now`.

        To a line that comes while somebody else asks, the newest reading there is.

        Raise `Unavailable` for a line that comes while the first reading is still under way.
        """
        if not self.asking.acquire(timeout=-1 if LANE.get() is Lane.WATCH else BRIEFLY_S):
            if self._newest is None:
                raise Unavailable(
                    "AWS is being read for the first time since the start; ask again in a minute."
                )
            return self._newest
        try:
            reading = ask(now)
            self._newest = (
                reading if self._newest is None or self._newest.now <= now else self._newest
            )
            return reading
        finally:
            self.asking.release()
