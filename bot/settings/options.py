"""Read the arguments of a terminal: words of a line, and options of the terminal itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from bot.cards.lines import quote
from bot.errors import WrongInput, nearest

_VALUED = (
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
)
_SWITCHES = ("json", "csv", "verbose", "no-browser", "light", "keep-identities")
LINE_OPTIONS = ("source", "at", "json", "csv", "config", "verbose")
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
        for given in (*self.values, *self.switches):
            if given not in names:
                raise WrongInput(
                    f"'{self.words[0]}' has no option '--{given}'{nearest(given, names)}."
                )

    def refuse_unread(self, *names: str) -> None:
        """Refuse the first `--name` that no option reads, with the nearest of a verb's own."""
        for given in _flags(self.words):
            known = [f"--{name}" for name in names]
            raise WrongInput(
                f"'{self.words[0]}' has no option '{given}'{nearest(given, known, otherwise='it has none')}."
            )

    def refuse_mistyped(self) -> None:
        """Refuse a `--name` that is almost an option of every line, and name that one."""
        known = [f"--{name}" for name in LINE_OPTIONS]
        for given in _flags(self.words):
            if close := get_close_matches(given, known, n=1, cutoff=_CLOSE):
                raise WrongInput(f"'{given}' is no option; did you mean '{close[0]}'?")


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


def _flags(words: Sequence[str]) -> list[str]:
    """Return the words that look like options, without their values."""
    return [
        word.partition("=")[0] for word in words if word.startswith("--") and len(word) > len("--")
    ]


def typed_line(words: Sequence[str]) -> str:
    """Return the words of a terminal as one line.

    An argument that the shell kept together stays together.
    """
    return " ".join(_requoted(word) for word in words)


def _requoted(word: str) -> str:
    name, equals, value = word.partition("=")
    if equals and name and " " not in name:
        return f"{name}={quote(value)}" if value else word
    return quote(word) if " " in word or '"' in word else word
