"""Register commands.

Signature and `@command` are all that parser, help, docs, hints, forms and a terminal go by.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, Flag, auto
from functools import cache, wraps
from importlib import import_module
from types import SimpleNamespace
from typing import Any, cast, get_args, get_type_hints

from bot.cards.card import Card
from bot.errors import WrongInput, nearest
from bot.model.codec import table
from bot.model.request import Effect, Request, Role

CommandHandler = Callable[..., Awaitable[Card]]
Finder = Callable[[Any, Request, str], Awaitable[object]]
"""Takes the ports, the request and the value of an argument."""


class Needs(Flag):
    """Name the parts of the world that a command opens, beside the bot's own dated facts."""

    NOTHING = 0
    BILL = auto()
    """`ports.world.billing` and `outlook`."""
    METRICS = auto()
    """`ports.world.source` and `prices`: metrics, inventory and price lists."""
    DETECTOR = auto()
    """`ports.world.detect` and `compiles`."""
    STATE = auto()
    """`ports.stores`, as the watch of the source left them: alerts, the policy, documents.

    Of a named source, a replay's.
    """
    DATABASE = auto()
    """`ports.stores` of the installation's own database, whatever source is named.

    The policy and checklists.
    """
    REPLAY = auto()
    """`ports.world.replays`: the watch over recorded time."""
    SOURCE = auto()
    """A source must be named, and nothing of it need be readable."""

    @property
    def watched(self) -> bool:
        """Return whether the command is about a source, whose end is "now" in a recording."""
        return bool(
            self & (Needs.SOURCE | Needs.BILL | Needs.METRICS | Needs.DETECTOR | Needs.STATE)
        )


class Topic(Enum):
    """Name a part of help's list, in its order."""

    ALERTS = "What is wrong, and who looks after it"
    COSTS = "What runs, and what it costs"
    PLANS = "What to do next"
    BOT = "Settings, and the bot itself"


@dataclass(frozen=True)
class Arg:
    """Describe one argument of a command.

    `default` is text as a person would write it, None = required.
    """

    default: str | None
    meaning: str
    choices: tuple[str, ...] = ()
    keyword: bool = False
    """Only by name (`by team`, `by=team`, `--by team`), never by position."""
    rest: bool = False
    """Takes every remaining word, as text."""
    finds: Finder | None = None
    """Finds what it names, or raises `WrongInput`: asked where a line is only weighed."""


@dataclass(frozen=True)
class Parameter:
    """Join an argument's name and type to its description."""

    name: str
    type: Any
    arg: Arg

    @property
    def word(self) -> str:
        """Return the name as it is typed: `for_` reads `for`, which Python keeps to itself."""
        return self.name.rstrip("_")

    def takes(self, kind: type) -> bool:
        """Return whether it is of that type, or may be left out and else is."""
        return kind in {self.type, *get_args(self.type)}


@dataclass(frozen=True)
class Command:
    """Hold one command: its name and arguments, who may type it, and the function that answers."""

    name: str
    summary: str
    handler: CommandHandler
    parameters: tuple[Parameter, ...]
    needs: Needs
    may: Needs
    """Opened only where the answer shows something of it; it answers without what is unreadable."""
    topic: Topic
    examples: tuple[str, ...] = ()
    who: Role = Role.ANYONE
    hidden: bool = False
    """Typed by buttons, not by people: left out of help's list, still documented."""
    changes: bool = False
    """Changes what is remembered.

    Where that is state of the watch, open notices are drawn again after it.
    """
    audited: bool = False
    """Is about the policy: every attempt is kept, and its change holds from the next tick on."""
    heavy: bool = False
    """May work for many seconds.

    It runs apart from quick answers, and only where a person asked for it.
    """
    aliases: tuple[str, ...] = field(default=())
    carries: bool = False
    """Answers about another line, which follows it.

    Who may not type that one may not type this one either.
    """
    previews: bool = False
    """Changes nothing but a preview that it keeps; a person applies that by its first button."""
    rows: tuple[str, ...] = ()
    """Lists of its data that make its CSV, where that is not the first one beside a table."""
    figures: Mapping[str, str] = field(default_factory=dict)
    """How each number of its data is made, by the end of its path.

    `/` between names, `*` for any one: `receipt` says it.
    """

    @property
    def opens(self) -> Needs:
        """Return every part of the world that an answer may open."""
        return self.needs | self.may

    @property
    def long(self) -> bool:
        """Return whether it may work for long: as what asks the bill, replays, or examines."""
        return self.heavy or bool(self.needs & (Needs.BILL | Needs.REPLAY | Needs.SOURCE))

    @property
    def effect(self) -> Effect:
        """Return how far it reaches."""
        if self.changes:
            return Effect.CHANGES
        return Effect.WORKS if self.heavy else Effect.READS


COMMANDS: dict[str, Command] = {}
"""The commands whose modules are imported; `find_command` imports that of a command it misses."""


@dataclass(frozen=True)
class IndexEntry:
    """Hold what is known of a command before its module is imported: a row of `commands.csv`."""

    name: str
    module: str
    topic: Topic
    example: str
    summary: str
    hidden: bool


@cache
def command_index() -> Mapping[str, IndexEntry]:
    """Return every command by its name and its aliases, from the table that `make docs` writes."""
    entries: dict[str, IndexEntry] = {}
    for row in table("bot.grammar", "commands.csv"):
        entry = IndexEntry(
            row["name"],
            row["module"],
            Topic[row["topic"]],
            row["example"],
            row["summary"],
            row["hidden"] == "yes",
        )
        entries |= dict.fromkeys((entry.name, *row["aliases"].split()), entry)
    return entries


def arg(
    default: str | None = None,
    meaning: str = "",
    *,
    choices: tuple[str, ...] = (),
    keyword: bool = False,
    rest: bool = False,
    finds: Finder | None = None,
) -> Any:
    """Describe an argument where its default stands; the annotation gives its type.

    Types: `str int float bool Decimal timedelta Window`, `tuple[str, ...]` (comma list),
    `tuple[Filter, ...]` (takes every `dimension=value` and `dimension!=value` that is no argument's
    name), and each of them `| None` with default "".
    """
    return Arg(default, meaning, choices, keyword, rest, finds)


def command(
    name: str,
    summary: str,
    *,
    needs: Needs,
    may: Needs = Needs.NOTHING,
    topic: Topic = Topic.BOT,
    examples: tuple[str, ...] = (),
    who: Role = Role.ANYONE,
    hidden: bool = False,
    changes: bool = False,
    audited: bool = False,
    heavy: bool = False,
    aliases: tuple[str, ...] = (),
    carries: bool = False,
    previews: bool = False,
    rows: tuple[str, ...] = (),
    figures: Mapping[str, str] | None = None,
) -> Callable[[Callable[..., Card | Awaitable[Card]]], CommandHandler]:
    """Register an `async def name(ports, request, ...) -> Card` under a name of one word or more.

    A plain `def` may block: it runs in a thread.
    """

    def register(function: Callable[..., Card | Awaitable[Card]]) -> CommandHandler:
        @wraps(function)
        async def in_thread(*args: Any, **arguments: Any) -> Card:
            return await asyncio.to_thread(
                cast("Callable[..., Card]", function), *args, **arguments
            )

        asynchronous = inspect.iscoroutinefunction(function)
        handler = cast("CommandHandler", function) if asynchronous else in_thread

        # The arguments after (ports, request) are those that people type.
        arguments = list(inspect.signature(handler).parameters.items())[2:]
        annotations = {word: argument.annotation for word, argument in arguments}
        types = get_type_hints(
            SimpleNamespace(__annotations__=annotations), inspect.unwrap(handler).__globals__
        )
        for word, argument in arguments:
            if not isinstance(argument.default, Arg):
                raise TypeError(f"{handler.__name__}: '{word}' needs arg(...) as its default")

        registered = Command(
            name,
            summary,
            handler,
            tuple(Parameter(word, types[word], given.default) for word, given in arguments),
            needs,
            may,
            topic,
            examples,
            who,
            hidden,
            changes,
            audited,
            heavy,
            aliases,
            carries,
            previews,
            rows,
            figures or {},
        )
        for word in (name, *aliases):
            if word in COMMANDS:
                raise ValueError(f"two commands are called '{word}'")
            COMMANDS[word] = registered
        return handler

    return register


def commands_by_name(*, hidden: bool = False) -> tuple[Command, ...]:
    """Return each command once, by name; those that only buttons type where `hidden`."""
    for entry in command_index().values():
        import_module(entry.module)
    by_name = {entry.name: entry for entry in COMMANDS.values() if hidden or not entry.hidden}
    return tuple(by_name[name] for name in sorted(by_name))


def find_command(words: list[str]) -> tuple[Command, list[str]]:
    """Return the command with the longest name that `words` begin with, and the words after it.

    Raises `WrongInput` with the nearest name.
    """
    for n in range(min(3, len(words)), 0, -1):
        name = " ".join(words[:n])
        if name.isascii():  # `K` (Kelvin) is no k, though its lower case is
            name = name.lower()
        if name not in COMMANDS and name in command_index():
            import_module(command_index()[name].module)
        if name in COMMANDS:
            return COMMANDS[name], words[n:]

    names = {entry.name for entry in command_index().values() if not entry.hidden}
    names |= {entry.name for entry in COMMANDS.values() if not entry.hidden}
    typed = " ".join(words[:1])
    hint = nearest(typed, sorted(names), most=0)
    raise WrongInput(f"'{typed}' is not a command{hint}; type 'help' for all of them.")
