"""Do one thing in a terminal and end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

from adapters.terminal.progress import ProgressBar
from bot.answers.about.document import as_json, csv_text, envelope
from bot.app import App
from bot.cards.card import Card
from bot.errors import NothingToWatch, Unavailable, WrongInput
from bot.grammar.line import attempted, read_line, understand
from bot.grammar.plain.readings import means_something, read_plain
from bot.grammar.plain.senses import names_of
from bot.grammar.registry import Command, Needs
from bot.knowledge import load_knowledge
from bot.model.fleet import Inventory
from bot.model.limits import YEARS
from bot.model.request import LOCAL, Request, User
from bot.model.window import parse_duration, parse_instant
from bot.ports import Stores
from bot.ports.work import PROGRESS
from bot.settings.options import Options, typed_line
from bot.settings.settings import Settings
from bot.wiring.bills import record_bill
from bot.wiring.build import stores_in, terminal_app
from bot.wiring.environment import settings_of, terminal_user, wall_clock
from bot.wiring.lazy import Once
from bot.wiring.programs import ToolCalls, installed, tool_ports
from bot.wiring.source import OpenedSource, memory_stores, open_account
from bot.wiring.surfaces import command_hints


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
        match keeps:
            case _Keeps.REPLAY:
                return None
            case _Keeps.NOTHING:
                return memory_stores()
            case _Keeps.DATABASE:
                return self._database()

    def _open_database(self) -> Stores:
        from adapters.store.open import open_store

        return stores_in(open_store(self._settings.text("database_url")))


def serve_tools(options: Options) -> int:
    """Serve the tools over the standard streams until the input ends; return the exit code."""
    if not installed():
        raise Unavailable(
            "'mcp' needs the package of that protocol; install it with: pip install 'trnbot[mcp]'."
        )
    from adapters.mcp.server import serve_stdio

    settings = settings_of(options.values)
    apps = TerminalApps(settings, options.values.get("source", ""))

    def at_now(command: Command) -> tuple[App, datetime]:
        opened = apps.open(command)
        return opened.app, opened.now()

    async def opened(command: Command) -> tuple[App, datetime]:
        return await asyncio.to_thread(at_now, command)

    calls = ToolCalls(opened, User(terminal_user(), ""), "terminal")
    if sys.stdin.isatty():
        print(
            "trnbot waits for a program that speaks the Model Context Protocol (docs/mcp.md); Ctrl+C ends it.",
            file=sys.stderr,
        )
    asyncio.run(serve_stdio(tool_ports(calls), settings["public_url"]))
    return 0


def answer_line(options: Options) -> int:
    """Answer one command line, as text, as JSON, or its table as CSV."""
    options.words = options.words or ["help"]
    line = typed_line(options.words)
    if {"csv", "json"} <= options.switches:
        raise WrongInput("An answer is written as --csv or as --json, not as both.")
    understood = _understood(options, line)
    try:
        opened = TerminalApps(settings_of(options.values), options.values.get("source", "")).open(
            understood.command
        )
        at = _at(options) or opened.now()
    except NothingToWatch as nothing:
        raise (understood.refused or nothing) from None
    except Unavailable:
        if understood.refused:
            raise understood.refused from None
        raise
    with _progress():
        request = Request(line, User(terminal_user(), ""), at, "terminal", LOCAL)
        call, card = asyncio.run(opened.app.ask(request))
    if "csv" in options.switches:
        print(csv_text(line, card), end="")
    elif "json" in options.switches:
        print(as_json(envelope(call, card, at)))
    else:
        _print(card)
    return 0


@contextmanager
def _progress() -> Iterator[None]:
    """Show on a terminal how far long work is, beside what a pipe reads."""
    bar = ProgressBar(sys.stderr)
    before = PROGRESS.set(bar)
    try:
        yield
    finally:
        bar.close()
        PROGRESS.reset(before)


@dataclass(frozen=True)
class _Understood:
    """Hold the command that a line is opened for, and why it is refused where no source tells more."""

    command: Command
    refused: WrongInput | None = None


def _understood(options: Options, line: str) -> _Understood:
    """Return the command of a line, of plain words that of their nearest reading.

    They are read without a fleet's names; where those alone may tell, the source is read as for a
    summary. A slip in an option of the terminal is named before anything is made of it.
    """
    try:
        return _Understood(understand(line, wall_clock()).command)
    except WrongInput as refused:
        options.refuse_mistyped()
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


def score_files(options: Options) -> int:
    """Score a CSV, or every CSV of a tree.

    With `--plot DIR`, draw each with its score and, from `--truth FILE`, its labels.
    """
    from adapters.series_csv import score_tree
    from detectors.series.score import score_series

    if len(options.words) != 3:
        raise WrongInput("'score' takes two paths: trnbot score IN.csv OUT.csv, or two folders.")
    pictures, truth, history = (
        Path(given) if (given := options.values.get(name)) else None
        for name in ("plot", "truth", "history")
    )
    if truth and not pictures:
        raise WrongInput(
            "'--truth' is drawn, never learnt: name a folder for the pictures too, with --plot DIR."
        )
    draw = _drawing(pictures, truth) if pictures else None
    empty: list[str] = []

    def seen(name: str, times: Any, *drawn: Any) -> None:
        empty.extend([] if len(times) else [name])
        if draw and len(times):
            draw(name, times, *drawn)

    count = score_tree(Path(options.words[1]), Path(options.words[2]), score_series, seen, history)
    without = (
        f"; no row to score in {', '.join(empty[:3])}{f' and {len(empty) - 3} more' if len(empty) > 3 else ''}"
        if empty
        else ""
    )
    print(f"{count - len(empty)} series scored{without}")
    return 0


def _drawing(folder: Path, truth: Path | None) -> Any:
    """Return the function that leaves one picture a series in the folder."""
    from adapters.charts.scored import ScoredPlot, draw_scored
    from adapters.series_csv import read_truth
    from detectors.series.score import THRESHOLD

    labels = read_truth(truth) if truth else {}
    folder.mkdir(parents=True, exist_ok=True)

    def draw(name: str, times: Any, values: Any, scores: Any, flags: Any) -> None:
        picture = folder / "-".join(Path(name).with_suffix(".png").parts)
        picture.write_bytes(
            draw_scored(
                name, ScoredPlot(times, values, scores, flags), THRESHOLD, labels.get(name, ())
            )
        )

    return draw


def write_simulation(options: Options) -> int:
    """Write a simulated recording; the words are those of the simulator itself."""
    from adapters.simulator.__main__ import write

    named = [word for name, value in options.values.items() for word in (f"--{name}", value)]
    write([*options.words[1:], *named])
    return 0


def write_manifests(options: Options) -> int:
    """Write manifest/slack.yaml and the Teams package into a folder."""
    from adapters.chat.manifest import TeamsApp, build_package, manifest_yaml

    settings = settings_of(options.values)
    folder = Path(options.words[1] if len(options.words) > 1 else "manifest")
    folder.mkdir(parents=True, exist_ok=True)
    slack, teams = folder / "slack.yaml", folder / "teams.zip"
    public = settings["public_url"]
    events = "" if settings["slack.app_token"] else public
    slack.write_text(manifest_yaml(command_hints(), events), encoding="utf-8")
    host = urlsplit(public).hostname or ""
    build_package(teams, TeamsApp(settings.text("teams.app_id"), command_hints(), host))
    print(slack, teams, sep="\n")
    return 0


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


def _print(card: Card) -> None:
    if "toml" in card.data:
        print(card.data["toml"], end="")
        return
    from adapters.terminal.render import render

    print(render(card, colour=sys.stdout.isatty()), end="")


def record_account(options: Options) -> int:
    """Write a recording of the account: `trnbot record DIR [--days 7] [--keep-identities]`."""
    from adapters.aws.live.record import record

    if len(options.words) != 2:
        raise WrongInput("'record' takes one new folder: trnbot record DIR [--days 7].")
    days = _days(options)
    settings = settings_of(options.values)
    types = load_knowledge().types()
    end = wall_clock().replace(second=0, microsecond=0) - settings["metrics.lag"]
    folder, live = Path(options.words[1]), open_account(settings, types)
    done = record(
        live, folder, end - days, end, print, keep_identities="keep-identities" in options.switches
    )
    billed, unbilled = record_bill(settings, live, folder, end)
    missing = [*done.missing, *unbilled]
    usd = f"${live.calls.meter.today().usd:.2f}"
    print(
        f"{done.points} points and {done.answers + billed} answers in {folder}; the calls cost about {usd}."
    )
    print(done.kept())
    for sentence in missing:
        print(f"missing: {sentence}")
    if missing:
        raise Unavailable("The recording is not whole; see above.")
    return 0


def _days(options: Options) -> timedelta:
    from adapters.aws.live.record import MINUTES_KEPT

    text = options.values.get("days", "7")
    length = parse_duration(f"{text}d" if text.isdecimal() else text)
    if not timedelta(0) < length <= MINUTES_KEPT:
        raise WrongInput(
            f"'{text}' is not a time that can be recorded; CloudWatch keeps minutes for {MINUTES_KEPT.days} days."
        )
    return length
