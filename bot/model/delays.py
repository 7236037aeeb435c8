"""Count the messages that a platform's limits hold up.

The one noun that changes, as every counter does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Delays:
    """Hold seconds that messages have waited for a platform's limits since the start, and messages that wait now."""

    seconds: float = 0.0
    waiting: int = 0

    @contextmanager
    def held(self, monotonic: Callable[[], float]) -> Iterator[None]:
        """Count one message as waiting for as long as this lasts, by a clock that only goes on (seconds)."""
        began = monotonic()
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1
            self.seconds += monotonic() - began
