"""Answer the lines of one terminal: each opens what its command needs, and nothing else."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING

from bot.answers.about.about import help_about
from bot.cards.card import Buttons, Card, Tone, quiet
from bot.errors import NothingToWatch, Unavailable, WrongInput
from bot.grammar.line import Call, attempted, read_line, understand
from bot.grammar.registry import Command, Needs
from bot.model.limits import YEARS
from bot.model.notification import Known
from bot.model.request import LOCAL, Request, User
from bot.model.window import parse_instant
from bot.wiring.environment import product_version, settings_of, terminal_user, wall_clock
from bot.wiring.kept import Once
from bot.wiring.verbs import LINE_OPTIONS, VERBS, Options, typed_line

if TYPE_CHECKING:
    from bot.app import App
    from bot.ports import Stores
    from bot.settings.settings import Settings
    from bot.wiring.source import OpenedSource


StateOf = Callable[[], "Stores"]
"""Opens the stores that hold the state of a command."""


@dataclass(frozen=True)
class OpenedApp:
    """Hold the bot as one command needs it."""

    app: App
    source: OpenedSource
    command: Command

    def now(self) -> datetime:
        """Return the time that "now" means for the command.

        The end of a recording, else that of the wall.
        """
        needs = self.command.needs
        if self.source.live or not (needs | self.command.may).watched:
            return wall_clock()
        try:
            return self.source.end() or wall_clock()
        except (Unavailable, WrongInput):
            # `doctor` and its like must answer where nothing of the source can be read.
            if Needs.SOURCE in needs or not needs.watched:
                return wall_clock()
            raise


class TerminalApps:
    """Open the bot for commands, and keep it for the next command of its kind."""

    def __init__(self, settings: Settings, named: str) -> None:
        """Take the source that the call itself names, "" for that of the settings."""
        self._settings, self._named = settings, named
        self._database = Once(self._open_database)
        self._apps: dict[tuple[str, StateOf | None], tuple[App, OpenedSource]] = {}
        self._lock = Lock()

    def open(self, command: Command) -> OpenedApp:
        """Return the bot for a command; may block."""
        from bot.wiring.build import terminal_app

        settings, needs = self._settings, command.needs
        watches = needs.watched and Needs.SOURCE not in needs
        source = settings.source if watches else self._named or settings["source"]
        with self._lock:
            state = self._state_of(command)
            if (source, state) not in self._apps:
                stores = state() if state else None
                console = "" if self._named else settings["public_url"]
                self._apps[source, state] = terminal_app(settings, source, stores, console)
            app, opened = self._apps[source, state]
            # A replay is of one time, and that of an account goes on.
            if not state and opened.live:
                del self._apps[source, state]
        return OpenedApp(app, opened, command)

    def replays(self, command: Command) -> bool:
        """Return whether a command is answered by a replay, of which nothing is kept."""
        return Needs.STATE in command.opens and self._state_of(command) is None

    def open_for(self, line: str) -> OpenedApp:
        """Return the bot for a line, plain words by what they mean; may block.

        "Now" is another time for what is asked of a recording than for what is asked of nothing.
        """
        meaning = meaning_of(line)
        try:
            return self.open(meaning.command)
        except Unavailable as unavailable:
            raise (meaning.refused or unavailable) from None

    def _state_of(self, command: Command) -> StateOf | None:
        """Return what opens the state of a command, None for a replay up to the time asked about.

        A named recording is not what the database's watch has seen: a replay tells its state. An
        account cannot be replayed. A command that only reads makes no database.
        """
        needs, replayed = command.needs, self._named not in ("", "aws")
        if Needs.DATABASE not in needs and (
            replayed or Needs.STATE not in command.opens or not needs.watched
        ):
            return None

        from adapters.store.open import file_of, read_address
        from bot.wiring.source import memory_stores

        address = read_address(self._settings.text("database_url"))
        missing = address.drivername == "sqlite" and not file_of(address).exists()
        return memory_stores if missing and not command.changes else self._database

    def _open_database(self) -> Stores:
        from adapters.store.open import open_store
        from bot.wiring.build import stores_in

        return stores_in(open_store(self._settings.text("database_url")))


_FORMS = {"csv", "json", "markdown", "sarif"}


def _written(options: Options, line: str, card: Card, call: Call, time: datetime) -> str:
    """Return an answer in the form that was asked for; the text of a settings file as it is."""
    if "markdown" in options.switches:
        from adapters.terminal.render import as_markdown

        return as_markdown(card)
    if options.switches & _FORMS:
        from bot.answers.about.document import as_json, csv_text, envelope
        from bot.answers.plan.code import sarif

        if "csv" in options.switches:
            return csv_text(line, card)
        if "sarif" in options.switches:
            if "findings" not in card.data:
                raise WrongInput("'--sarif' goes with 'cuda FILE.py' or a folder of code.")
            return f"{as_json(sarif(card.data['findings'], product_version()))}\n"
        return f"{as_json(envelope(call, card, time))}\n"
    if "toml" in card.data:
        return str(card.data["toml"])

    from adapters.terminal.render import render

    return render(card, colour=sys.stdout.isatty())


def answer_line(options: Options) -> int:
    """Answer one command line, as text, as JSON, or its table as CSV."""
    sends = "send" in options.switches
    options.only(*LINE_OPTIONS, "sarif", *(("send", "wait") if sends else ()))
    options.words = options.words or ["help"]
    line = typed_line(options.words)
    if len(options.switches & _FORMS) > 1:
        raise WrongInput(
            "An answer is written as --csv, --json, --markdown or --sarif, not as two of them."
        )

    meaning = meaning_of(line)
    if meaning.call is None:
        options.refuse_mistyped()
    if sends and meaning.command.name != "routes test":
        raise WrongInput("'--send' goes with 'routes test', which says where an alert would go.")
    call, card, time = _answer(options, line, meaning)

    print(_written(options, line, card, call, time), end="")
    if line == "help" and not options.switches & _FORMS:
        print(f"\nIn a shell also: {', '.join(VERBS)}. 'trnbot help connect' explains one.")
    if sends:
        from bot.wiring.connect import send_trials

        send_trials(options, card.data["to"], card.data["alerts"])
    return exit_code(card)


def exit_code(card: Card) -> int:
    """Return how a line ends: 1 where nobody knows what it is about, or a check fails, else 0."""
    failed = any(not check["ok"] for check in card.data.get("checks", ()))
    return 1 if failed or card.data.get("known") == Known.UNKNOWN else 0


def _answer(options: Options, line: str, meaning: Meaning) -> tuple[Call, Card, datetime]:
    """Open what the command of a line needs, and ask it; how far long work is, a terminal shows."""
    asked_time = _asked_time(options)
    if meaning.call and meaning.command.name == "help":
        # Help opens nothing, and is what a newcomer waits for.
        with suppress(WrongInput):
            return (
                meaning.call,
                help_about(meaning.call.arguments["name"]),
                asked_time or wall_clock(),
            )

    from adapters.terminal.render import ProgressBar
    from bot.ports.work import noting_progress

    apps = TerminalApps(settings_of(options.values), options.values.get("source", ""))
    try:
        opened = apps.open(meaning.command)
        time = asked_time or opened.now()
    except NothingToWatch as nothing:
        raise (meaning.refused or nothing) from None
    except Unavailable:
        if meaning.refused:
            raise meaning.refused from None
        raise

    user, whole = User(terminal_user(), ""), bool(options.switches & _FORMS)
    request = Request(line, user, time, "terminal", LOCAL, whole=whole)
    with closing(ProgressBar(sys.stderr)) as bar, noting_progress(bar):
        call, card = asyncio.run(opened.app.ask(request))
    if call.command.changes and card.tone is Tone.GOOD and apps.replays(call.command):
        # The next line replays the recording anew: there is nothing that a button could take back.
        blocks = (block for block in card.blocks if not isinstance(block, Buttons))
        tried = quiet("Only tried: the recording is replayed for each line, and nothing is kept.")
        card = replace(card, blocks=(*blocks, tried))
    return call, card, time


@dataclass(frozen=True)
class Meaning:
    """Hold the command that a line is opened for.

    And why the line is refused where no source tells more.
    """

    command: Command
    refused: WrongInput | None = None
    call: Call | None = None
    """The whole line understood, where it is one of the grammar."""


def meaning_of(line: str) -> Meaning:
    """Return the command of a line, of plain words that of their nearest reading.

    They are read without a fleet's names; where those alone may tell, the source is read as for a
    summary.
    """
    try:
        call = understand(line, wall_clock())
        return Meaning(call.command, call=call)
    except WrongInput as refused:
        from bot.grammar.plain.readings import means_something, read_plain
        from bot.grammar.plain.senses import names_of
        from bot.knowledge import load_knowledge
        from bot.model.fleet import Inventory

        knowledge = load_knowledge()
        names = names_of(Inventory(), (), knowledge.types(), {"region": knowledge.claims().regions})
        reading = read_plain(line, names, wall_clock())
        is_command = attempted(line) is not None
        if reading:
            return Meaning(read_line(reading.line).command, refused if is_command else None)

        is_plain = not is_command and means_something(line, wall_clock())
        return Meaning(read_line("summary").command, None if is_plain else refused)


def _asked_time(options: Options) -> datetime | None:
    """Return the time of `--at`, None without it."""
    text = options.values.get("at")
    if text is None:
        return None
    try:
        time = parse_instant(text)
    except (ValueError, OverflowError):
        time = None
    if time is None or time.year not in YEARS:
        raise WrongInput(f"'{text}' is not a time; write it like 2026-11-20T09:00:00Z.")
    return time
