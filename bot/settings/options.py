"""Read the arguments of a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from bot.cards.lines import quote
from bot.errors import WrongInput, nearest

_VALUED = frozenset(
    [
        "source",
        "at",
        "seed",
        "scenario",
        "config",
        "port",
        "period",
        "days",
        "form",
        "bill",
        "plot",
        "truth",
        "history",
        "kms",
        "wait",
        "scope",
        "expires",
        "lines",
    ]
)
_SWITCHES = frozenset(
    [
        "json",
        "csv",
        "sarif",
        "markdown",
        "verbose",
        "no-browser",
        "light",
        "keep-identities",
        "send",
        "check",
        "replace",
    ]
)
LINE_OPTIONS = ("source", "at", "json", "csv", "markdown", "config", "verbose")
"""What goes with any command line; every verb has its own."""
_CLOSE = 0.7
"""How like an option a word must be to be taken for a slip of the finger."""


@dataclass
class Options:
    """Hold the arguments of a terminal: words, options with a value, switches."""

    words: list[str] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)
    switches: set[str] = field(default_factory=set)

    @property
    def verb(self) -> str:
        """Return the first word, "" for none."""
        return self.words[0].lower() if self.words else ""

    def only(self, *names: str) -> None:
        """Refuse options that this verb does not know."""
        for name in (*self.values, *self.switches):
            if name not in names:
                asked = " ".join(self.words[:1]) or "trnbot"
                raise WrongInput(f"'{asked}' has no option '--{name}'{nearest(name, names)}.")

    def refuse_unread(self, *names: str) -> None:
        """Refuse the first `--name` that no option reads, with the nearest of a verb's own."""
        for flag in self._flags():
            options = [f"--{name}" for name in names]
            hint = nearest(flag, options, otherwise="it has none")
            raise WrongInput(f"'{self.words[0]}' has no option '{flag}'{hint}.")

    def refuse_mistyped(self) -> None:
        """Refuse a `--name` that is almost an option of every line, and name that one."""
        options = [f"--{name}" for name in LINE_OPTIONS]
        for flag in self._flags():
            if close := get_close_matches(flag, options, n=1, cutoff=_CLOSE):
                raise WrongInput(f"'{flag}' is no option; did you mean '{close[0]}'?")

    def _flags(self) -> list[str]:
        """Return the words that look like options, without their values."""
        return [word.partition("=")[0] for word in self.words if re.match("--.", word, re.DOTALL)]


def read_options(arguments: Sequence[str]) -> Options:
    """Split options of the terminal from the words of the line.

    Unknown `--name` stay with the line.
    """
    options, queue = Options(), list(arguments)
    while queue:
        word = queue.pop(0)
        name, equals, value = word.removeprefix("--").partition("=")
        if word.startswith("--") and name in _SWITCHES and not equals:
            options.switches.add(name)
        elif word.startswith("--") and name in _VALUED:
            if not equals and not queue:
                raise WrongInput(f"'--{name}' needs a value after it.")
            options.values[name] = value if equals else queue.pop(0)
        else:
            options.words.append(word)
    if options.words[:1] in (["--help"], ["-h"], ["--version"]):
        options.words[0] = "version" if options.words[0] == "--version" else "help"
    return options


def typed_line(words: Sequence[str]) -> str:
    """Return the words of a terminal as one line.

    An argument that the shell kept together stays together.
    """
    quoted = []
    for word in words:
        name, equals, value = word.partition("=")
        if equals and name and " " not in name:
            quoted.append(f"{name}={quote(value)}" if value else word)
        else:
            quoted.append(quote(word) if " " in word or '"' in word else word)
    return " ".join(quoted)
