"""Ask whoever sits at a terminal: a line, a secret without echo, a choice of several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from getpass import getpass

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
