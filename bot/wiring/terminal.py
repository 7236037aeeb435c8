"""Answer the lines of one terminal: each opens what its command needs, and nothing else."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from threading import Lock
from typing import TYPE_CHECKING

from bot.answers.about.about import help_about
from bot.cards.card import Card
from bot.errors import NothingToWatch, Unavailable, WrongInput
from bot.grammar.line import Call, attempted, read_line, understand
from bot.grammar.registry import Command, Needs
from bot.model.limits import YEARS
from bot.model.request import LOCAL, Request, User
from bot.model.window import parse_instant
from bot.settings.options import Options, typed_line
from bot.wiring.environment import settings_of, terminal_user, wall_clock
from bot.wiring.lazy import Once

if TYPE_CHECKING:
    from bot.app import App
    from bot.ports import Stores
    from bot.settings.settings import Settings
    from bot.wiring.source import OpenedSource


class _Keeps(Enum):
    """Name where a command finds its state."""

    REPLAY = auto()
    """In a replay of the source, up to the time asked about."""
    NOTHING = auto()
    """Nowhere: there is no database yet."""
    DATABASE = auto()


@dataclass(frozen=True)
class OpenedApp:
    """Hold the bot as one command needs it."""

    app: App
    source: OpenedSource
    needs: Needs

    def now(self) -> datetime:
        """Return the time that "now" means for the command.

        The end of a recording, else that of the wall.
        """
        return (
            self._end() if self.needs.watched and not self.source.live else None
        ) or wall_clock()

    def _end(self) -> datetime | None:
        """Return the end of the source; None where nothing of it need be readable, and nothing is."""
        try:
            return self.source.end()
        except Unavailable:
            if Needs.SOURCE in self.needs:
                return None
            raise


class TerminalApps:
    """Open the bot for commands, and keep it for the next command of its kind."""

    def __init__(self, settings: Settings, named: str) -> None:
        self._settings = settings
        self._named = named
        """The source that the call itself names, "" for that of the settings."""
        self._database = Once(self._open_database)
        self._kept: dict[tuple[str, _Keeps], tuple[App, OpenedSource]] = {}
        self._lock = Lock()

    def open(self, command: Command) -> OpenedApp:
        """Return the bot for a command; may block."""
        from bot.wiring.build import terminal_app

        settings, needs = self._settings, command.needs
        watches = needs.watched and Needs.SOURCE not in needs
        source = settings.source if watches else self._named or settings["source"]
        with self._lock:
            keeps = self._keeps(command)
            if (source, keeps) not in self._kept:
                console = "" if self._named else settings["public_url"]
                self._kept[source, keeps] = terminal_app(
                    settings, source, self._stores(keeps), console
                )
            app, opened = self._kept[source, keeps]
            if keeps is _Keeps.REPLAY and opened.live:  # a replay is of one time
                del self._kept[source, keeps]
        return OpenedApp(app, opened, needs)

    def _keeps(self, command: Command) -> _Keeps:
        """Return where a command finds its state.

        A named source is not the one whose watch the database remembers: a replay tells its state.
        A command that only reads makes no database.
        """
        needs = command.needs
        if Needs.DATABASE not in needs and (
            self._named or Needs.STATE not in command.opens or not needs.watched
        ):
            return _Keeps.REPLAY
        from adapters.store.open import file_of, read_address

        address = read_address(self._settings.text("database_url"))
        missing = address.drivername == "sqlite" and not file_of(address).exists()
        return _Keeps.NOTHING if missing and not command.changes else _Keeps.DATABASE

    def _stores(self, keeps: _Keeps) -> Stores | None:
        from bot.wiring.source import memory_stores

        match keeps:
            case _Keeps.REPLAY:
                return None
            case _Keeps.NOTHING:
                return memory_stores()
            case _Keeps.DATABASE:
                return self._database()

    def _open_database(self) -> Stores:
        from adapters.store.open import open_store
        from bot.wiring.build import stores_in

        return stores_in(open_store(self._settings.text("database_url")))


def answer_line(options: Options) -> int:
    """Answer one command line, as text, as JSON, or its table as CSV."""
    options.words = options.words or ["help"]
    line = typed_line(options.words)
    if {"csv", "json"} <= options.switches:
        raise WrongInput("An answer is written as --csv or as --json, not as both.")

    understood = _understood(options, line)
    call = None
    if understood.call and understood.command.name == "help":
        # Help opens nothing, and is what a newcomer waits for.
        at = _at(options) or wall_clock()
        try:
            card = help_about(understood.call.arguments["name"])
            call = understood.call
        except WrongInput:
            call = None
    if call is None:
        call, card, at = _asked(options, line, understood)

    if options.switches & {"csv", "json"}:
        from bot.answers.about.document import as_json, csv_text, envelope

        if "csv" in options.switches:
            print(csv_text(line, card), end="")
        else:
            print(as_json(envelope(call, card, at)))
    elif "toml" in card.data:
        print(card.data["toml"], end="")
    else:
        from adapters.terminal.render import render

        print(render(card, colour=sys.stdout.isatty()), end="")
    return 0


def _asked(options: Options, line: str, understood: _Understood) -> tuple[Call, Card, datetime]:
    """Open what the command of a line needs, and ask it; how far long work is, a terminal shows."""
    from adapters.terminal.progress import ProgressBar
    from bot.ports.work import PROGRESS

    apps = TerminalApps(settings_of(options.values), options.values.get("source", ""))
    try:
        opened = apps.open(understood.command)
        at = _at(options) or opened.now()
    except NothingToWatch as nothing:
        raise (understood.refused or nothing) from None
    except Unavailable:
        if understood.refused:
            raise understood.refused from None
        raise

    bar = ProgressBar(sys.stderr)
    before = PROGRESS.set(bar)
    try:
        request = Request(line, User(terminal_user(), ""), at, "terminal", LOCAL)
        call, card = asyncio.run(opened.app.ask(request))
    finally:
        bar.close()
        PROGRESS.reset(before)
    return call, card, at


@dataclass(frozen=True)
class _Understood:
    """Hold the command that a line is opened for, and why it is refused where no source tells more."""

    command: Command
    refused: WrongInput | None = None
    call: Call | None = None
    """The whole line understood, where it is one of the grammar."""


def _understood(options: Options, line: str) -> _Understood:
    """Return the command of a line, of plain words that of their nearest reading.

    They are read without a fleet's names; where those alone may tell, the source is read as for a
    summary. A slip in an option of the terminal is named before anything is made of it.
    """
    try:
        call = understand(line, wall_clock())
        return _Understood(call.command, call=call)
    except WrongInput as refused:
        options.refuse_mistyped()
        from bot.grammar.plain.readings import means_something, read_plain
        from bot.grammar.plain.senses import names_of
        from bot.knowledge import load_knowledge
        from bot.model.fleet import Inventory

        types, regions = load_knowledge().types(), load_knowledge().claims().regions
        reading = read_plain(
            line, names_of(Inventory(), (), types, {"region": regions}), wall_clock()
        )
        if reading:
            return _Understood(
                read_line(reading.line).command, refused if attempted(line) else None
            )
        known = means_something(line, wall_clock()) and not attempted(line)
        return _Understood(read_line("summary").command, None if known else refused)


def _at(options: Options) -> datetime | None:
    text = options.values.get("at")
    if text is None:
        return None
    try:
        at = parse_instant(text)
        if at.year in YEARS:
            return at
        raise ValueError
    except (ValueError, OverflowError):
        raise WrongInput(f"'{text}' is not a time; write it like 2026-11-20T09:00:00Z.") from None
