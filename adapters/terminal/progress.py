"""Draw how far long work is.

A bar on a terminal after two seconds, and nothing where no terminal reads.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

AFTER_S, EVERY_S = 2.0, 0.2
_WIDTH = 28


class ProgressBar:
    """Draw one line on a stream that a person watches, and take it away at the end.

    Call it for each step.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._watched = stream.isatty()
        self._began = self._drawn = clock()
        self._length = 0

    def __call__(self, what: str, done: int, of: int) -> None:
        """Draw how far it is, where it has lasted for long enough to be worth a line."""
        now = self._clock()
        if not self._watched or now - self._began < AFTER_S or now - self._drawn < EVERY_S:
            return
        self._drawn = now
        filled = _WIDTH * done // of if of else 0
        bar = f" [{'=' * filled}{' ' * (_WIDTH - filled)}] {100 * done // of} %" if of else ""
        self._write(f"{what}{bar}, {now - self._began:.0f} s")

    def close(self) -> None:
        """Leave the line empty for the answer."""
        if self._length:
            self._write("")
            self._stream.write("\r")
            self._stream.flush()

    def _write(self, words: str) -> None:
        self._stream.write(f"\r{words.ljust(self._length)}")
        self._stream.flush()
        self._length = len(words)
