"""Read the text of one setting, secrets kept apart, and the arguments of a terminal."""

from __future__ import annotations

import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from typing import NoReturn

from bot.cards.lines import quote
from bot.errors import WrongInput, nearest
from bot.model.frame import UNITS, Meaning, MetricsSurface
from bot.model.reading import NODE_METRICS
from bot.model.window import parse_duration


class Secret:
    """Print as `****` wherever text is made of it.

    Str, repr, format, logs, `json.dumps(default=str)`.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the secret itself, only where it is handed to its user."""
        return self._value

    def __str__(self) -> str:
        """Show nothing, not even the length."""
        return "****"

    __repr__ = __str__

    def __format__(self, _: str) -> str:
        """Show nothing in any format."""
        return "****"

    def __bool__(self) -> bool:
        """Tell whether it is set."""
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        """Compare in constant time."""
        return isinstance(other, Secret) and hmac.compare_digest(
            self._value.encode(), other._value.encode()
        )

    __hash__ = None  # type: ignore[assignment] # a hash of a secret tells something of it

    def __deepcopy__(self, _: object) -> Secret:
        """Return itself, so that `dataclasses.asdict` keeps it closed."""
        return self

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled."""
        raise TypeError("a secret is not written down")


SOURCES = "aws, recording:DIR or simulator:SEED"
TEAMS_SDKS = ("botbuilder", "agents")


def words(text: str) -> tuple[str, ...]:
    """Read a comma list."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def roles(text: str) -> tuple[str, ...]:
    """Read the ARNs of roles, each of one account, or `self`.

    Raise `WrongInput` for a pattern or another text.
    """
    named = words(text)
    for one in named:
        if one != "self" and not re.fullmatch(r"arn:aws[\w-]*:iam::\d+:role/[\w+=,.@/-]+", one):
            raise WrongInput(
                f"'{one}' is not the ARN of a role; write arn:aws:iam::111122223333:role/trnbot-reader, or self."
            )
    return named


def role(text: str) -> str:
    """Read the ARN of one role, "" and `self` for none; raise `WrongInput` for another text."""
    named = roles(text)
    if len(named) > 1:
        raise WrongInput(f"One role reads the bill; got {len(named)}.")
    return "" if named in ((), ("self",)) else named[0]


def external_id(text: str) -> str:
    """Read an external id as AWS allows it; raise `WrongInput`."""
    if text and not re.fullmatch(r"[\w+=,.@:/-]{2,1224}", text):
        raise WrongInput(
            "An external id has 2 to 1224 letters, digits and + = , . @ : / - without a space."
        )
    return text


def source(text: str) -> str:
    """Read the address of a source; raise `WrongInput` for another kind."""
    kind, _, rest = text.partition(":")
    if text and text != "aws" and not (kind in ("recording", "simulator") and rest):
        raise WrongInput(
            f"'{text}' is not a source{nearest(kind, ('aws', 'recording', 'simulator'), most=0)}; write {SOURCES}."
        )
    return text


def teams_sdk(text: str) -> str:
    """Read which SDK serves Teams; raise `WrongInput` for another word."""
    if text not in TEAMS_SDKS:
        raise WrongInput(
            f"'{text}' is neither {' nor '.join(TEAMS_SDKS)}{nearest(text, TEAMS_SDKS, most=0)}."
        )
    return text


def metrics_surface(text: str) -> MetricsSurface:
    """Read where NeuronCore metrics are read; raise `WrongInput` for another word."""
    if text not in list(MetricsSurface):
        raise WrongInput(
            f"'{text}' is none of auto, cloudwatch and promql{nearest(text, list(MetricsSurface), most=0)}."
        )
    return MetricsSurface(text)


def server_address(text: str) -> str:
    """Read the address of a Prometheus server, with the path before `/api/v1` where it has one.

    Raise `WrongInput`.
    """
    address = text.rstrip("/").removesuffix("/api/v1/query").removesuffix("/api/v1")
    if text and not re.fullmatch(r"https?://[^/\s?#@]+(/[^\s?#@]*)?", address):
        raise WrongInput(
            "A Prometheus server is named by its address, such as http://prometheus.monitoring:9090, without a name or password."
        )
    return address


def metric_names(text: str) -> tuple[Meaning, ...]:
    """Read the meanings of metrics of a chosen namespace: `NAME -> METRIC in UNIT`, a comma list.

    Raise `WrongInput`.
    """
    return tuple(_meaning(one) for one in words(text))


def _meaning(text: str) -> Meaning:
    name, arrow, rest = text.partition("->")
    metric, _, unit = rest.strip().partition(" in ")
    metric, unit = metric.strip(), unit.strip().lower()
    if not arrow or not name.strip():
        raise WrongInput(
            f"'{text}' names no metric; write NAME -> METRIC in UNIT, such as {_EXAMPLE}."
        )
    if metric not in NODE_METRICS:
        raise WrongInput(
            f"'{metric}' is not a metric of a node{nearest(metric, NODE_METRICS, most=0)}."
        )
    units = UNITS[metric.rpartition("_")[2]]
    if unit not in units and (unit or len(units) > 1):
        raise WrongInput(
            f"'{text}' needs its unit: write {name.strip()} -> {metric} in {' or '.join(units)}."
        )
    return Meaning(name.strip(), metric, unit or next(iter(units)))


_EXAMPLE = "nc_util -> neuroncore_utilization_ratio in percent"


_WHOLE = re.compile(r"\d{1,9}")


def port(text: str) -> int:
    """Read a port; raise `WrongInput`."""
    if not _WHOLE.fullmatch(text) or int(text) > 65_535:
        raise WrongInput(
            f"'{text}' is not a port; write a number up to 65535, such as 8080 (0 = any that is free)."
        )
    return int(text)


def web_address(text: str) -> str:
    """Read the address of a site, without a path; raise `WrongInput`."""
    if text and not re.fullmatch(r"https?://[^/\s?#@]+/?", text):
        raise WrongInput(f"'{text}' is not an address of a site; write https://trnbot.example.com.")
    return text.rstrip("/")


def speed(text: str) -> float:
    """Read how much faster than life time runs; raise `WrongInput`."""
    try:
        speed = Decimal(text.removesuffix("x"))
    except InvalidOperation:
        speed = Decimal(0)
    if not (speed.is_finite() and 0 < speed <= 1_000_000):
        raise WrongInput(f"'{text}' is not a speed; write how much faster than life, such as 60.")
    return float(speed)


def interval(text: str) -> timedelta:
    """Read a length of time that divides a day; raise `WrongInput`."""
    length = parse_duration(text)
    if not timedelta(minutes=1) <= length <= timedelta(hours=1) or timedelta(days=1) % length:
        raise WrongInput(
            f"'{text}' does not divide a day evenly; write 1m, 5m, 10m, 15m, 30m or 1h."
        )
    return length


def usd(text: str) -> Decimal | None:
    """Read an amount, None where nothing is said; raise `WrongInput`."""
    amount = text.removeprefix("$")
    if text and not re.fullmatch(r"\d{1,12}(\.\d{0,9})?|\.\d{1,9}", amount):
        raise WrongInput(f"'{text}' is not an amount; write USD such as 5.")
    return Decimal(amount) if text else None


def count(text: str) -> int:
    """Read a whole number of things; raise `WrongInput`."""
    if not _WHOLE.fullmatch(text) or int(text) > 100_000:
        raise WrongInput(
            f"'{text}' is not a number of things; write one such as 60, or 0 for none."
        )
    return int(text)


def lines(text: str) -> int:
    """Read how many lines a minute; raise `WrongInput`."""
    if not _WHOLE.fullmatch(text) or not 1 <= int(text) <= 100_000:
        raise WrongInput(
            f"'{text}' is no number of lines a minute; write one such as 60, up to 100,000."
        )
    return int(text)


def switch(text: str) -> bool:
    """Read on or off; raise `WrongInput`."""
    words = {
        "1": True,
        "true": True,
        "on": True,
        "yes": True,
        "0": False,
        "false": False,
        "off": False,
        "no": False,
        "": False,
    }
    if text.lower() not in words:
        raise WrongInput(f"'{text}' is neither on nor off; write 1 or 0.")
    return words[text.lower()]


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
