"""Ask whoever sits at a terminal, and draw how far long work is.

A line, a secret without echo, a choice of several; a bar after two seconds, and nothing where no
terminal reads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from getpass import getpass
from typing import TextIO

from bot.errors import Unavailable, shortened

MOST_LISTED = 20
"""Choices that are listed at a time; the others are found by a part of their name."""


class Prompt:
    """Ask by `read`, and by `read_secret` where the answer is not to be seen."""

    def __init__(
        self,
        read: Callable[[str], str] = input,
        read_secret: Callable[[str], str] = getpass,
        write: Callable[[str], None] = print,
    ) -> None:
        self._read, self._read_secret, self.say = read, read_secret, write

    def ask(self, question: str, default: str = "") -> str:
        """Return a line, `default` where none is typed."""
        known = f" [{default}]" if default else ""
        return self._answer(self._read, f"{question}{known}: ") or default

    def secret(self, question: str, *, known: bool = False) -> str:
        """Return a line that is not shown; "" keeps what is `known`."""
        return self._answer(self._read_secret, f"{question}{' [kept]' if known else ''}: ")

    def choose(self, question: str, choices: Sequence[tuple[str, str]], default: str = "") -> str:
        """Return the value of one of the choices, each with the words that are shown.

        A number picks, a part of a name narrows, and a value may be typed as it is.
        """
        shown = list(choices)
        while True:
            for number, (_, words) in enumerate(shown[:MOST_LISTED], 1):
                self.say(f"  {number:>2}. {words}")
            if len(shown) > MOST_LISTED:
                self.say(f"      and {len(shown) - MOST_LISTED} more; type a part of a name")
            typed = self.ask(question, default)
            if typed.isdecimal() and 0 < int(typed) <= min(len(shown), MOST_LISTED):
                return shown[int(typed) - 1][0]
            if typed in {value for value, _ in choices}:
                return typed
            wanted = typed.lstrip("#").lower()
            fitting = [choice for choice in choices if wanted in choice[1].lower()]
            if len(fitting) == 1:
                self.say(f"  {fitting[0][1]}")
                return fitting[0][0]
            if not fitting:
                self.say(f"  '{shortened(typed)}' is not one of them.")
            shown = fitting or list(choices)

    def _answer(self, read: Callable[[str], str], question: str) -> str:
        try:
            return read(question).strip()
        except EOFError:
            raise Unavailable(
                "Nobody answers here; what was answered is kept, and 'trnbot connect' goes on."
            ) from None


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
