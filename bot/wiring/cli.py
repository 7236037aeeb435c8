"""Carry out verbs of a terminal that are no lines: score, record, backups, tokens, people."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from shutil import copytree
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

from adapters.web.people import TOKENS, ProgramToken, make_token
from bot.answers.about.document import as_json
from bot.app import App
from bot.errors import Unavailable, WrongInput, find_named, not_known
from bot.model.money import counted
from bot.model.request import User
from bot.model.window import parse_duration, parse_instant
from bot.ports import DocumentStore
from bot.ports.work import audit
from bot.wiring.bills import record_bill
from bot.wiring.environment import HOME, settings_of, terminal_user, wall_clock
from bot.wiring.logs import audit_to
from bot.wiring.programs import ToolCalls, installed, tool_ports
from bot.wiring.source import open_account
from bot.wiring.surfaces import command_hints
from bot.wiring.verbs import Options

if TYPE_CHECKING:
    from adapters.store.sql import SqlStore

_GOOD_FOR = "90d"
_GOOD_AT_MOST = timedelta(days=366)
_LINES_A_MINUTE = "60"
_TOKENS_MOST = 1_000


def serve_tools(options: Options) -> None:
    """Serve the tools over the standard streams until the input ends."""
    if not installed():
        raise Unavailable(
            "'mcp' needs the package of that protocol; install it with: pip install 'trnbot[mcp]'."
        )

    from adapters.mcp.server import serve_stdio
    from bot.wiring.terminal import TerminalApps

    settings = settings_of(options.values)
    apps = TerminalApps(settings, options.values.get("source", ""))

    async def opened(line: str) -> tuple[App, datetime]:
        bot = await asyncio.to_thread(apps.open_for, line)
        return bot.app, await asyncio.to_thread(bot.now)

    calls = ToolCalls(opened, User(terminal_user(), ""), "terminal")
    if sys.stdin.isatty():
        print(
            "trnbot waits for a program that speaks the Model Context Protocol (docs/mcp.md); "
            "Ctrl+C ends it.",
            file=sys.stderr,
        )
    asyncio.run(serve_stdio(tool_ports(calls), settings["public_url"]))


def score_files(options: Options) -> None:
    """Score a CSV, or every CSV of a tree.

    With `--plot DIR`, draw each with its score and, from `--truth FILE`, its labels.
    """
    from adapters.series_csv import score_tree
    from detectors.series.score import score_series

    if len(options.words) != 3:
        raise WrongInput("'score' takes two paths: trnbot score IN.csv OUT.csv, or two folders.")
    paths = {name: Path(text) for name, text in options.values.items() if text}
    pictures, truth = paths.get("plot"), paths.get("truth")
    if truth and not pictures:
        raise WrongInput(
            "'--truth' is only drawn: name a folder for the pictures too, with --plot DIR."
        )

    draw = _drawing(pictures, truth) if pictures else None
    empty: list[str] = []

    def scored(name: str, times: Any, *series: Any) -> None:
        if not len(times):
            empty.append(name)
        elif draw:
            draw(name, times, *series)

    source, target = map(Path, options.words[1:])
    count = score_tree(source, target, score_series, scored, paths.get("history"))

    further = f" and {len(empty) - 3} more" if len(empty) > 3 else ""
    without = f"; no row to score in {', '.join(empty[:3])}{further}" if empty else ""
    print(f"{count - len(empty)} series scored{without}")


def _drawing(folder: Path, truth: Path | None) -> Any:
    """Return the function that leaves one picture a series in the folder."""
    from adapters.charts.png import ScoredPlot, draw_scored
    from adapters.series_csv import read_truth
    from detectors.series.score import THRESHOLD

    labels = read_truth(truth) if truth else {}
    folder.mkdir(parents=True, exist_ok=True)

    def draw(name: str, *series: Any) -> None:
        drawn = draw_scored(name, ScoredPlot(*series), THRESHOLD, labels.get(name, ()))
        (folder / "-".join(Path(name).with_suffix(".png").parts)).write_bytes(drawn)

    return draw


def _instant(text: str) -> datetime:
    try:
        return parse_instant(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"'{text}' is not a time; write 2026-11-20 or 2026-11-20T09:00"
        ) from None


class _Parser(argparse.ArgumentParser):
    """Refuse in one sentence, as every other verb does."""

    def error(self, message: str) -> NoReturn:
        raise WrongInput(
            f"'simulate': {message}; for example: simulate my-recording --seed 7 --scenario tiny."
        )


def simulator_parser() -> argparse.ArgumentParser:
    """Return the grammar of `simulate`, which has more options than every other verb."""
    from adapters.simulator.scenario import SCENARIOS

    scenarios = "\n".join(f"  {name:10} {s.description}" for name, s in SCENARIOS.items())
    shape = argparse.RawDescriptionHelpFormatter
    parser = _Parser("trnbot simulate", epilog=f"scenarios:\n{scenarios}", formatter_class=shape)
    for name, facts in _ARGUMENTS.items():
        parser.add_argument(name, **facts)
    return parser


_ARGUMENTS: Mapping[str, dict[str, Any]] = {
    "folder": {"type": Path, "help": "a new folder"},
    "--seed": {"type": int, "default": 7},
    "--scenario": {"default": "demo"},
    "--start": {"type": _instant, "help": "ISO 8601, UTC where no zone is given"},
    "--days": {"type": float},
    "--period": {"type": int, "help": "seconds a metric point covers"},
    "--form": {"choices": ("parquet", "jsonl"), "default": "parquet"},
    "--bill": {"choices": ("cur2", "focus1.2", "legacy"), "default": "cur2"},
    "--bill-file": {"choices": ("parquet", "csv.gz"), "default": "parquet"},
    "--logs": {"action": "store_true", "help": "write compilers' log lines too"},
}


def write_simulation(options: Options) -> None:
    """Write a simulated recording; the words are those of the simulator itself."""
    from adapters.simulator.generate import Files, SimulationTiming, generate

    valued = [word for name, value in options.values.items() for word in (f"--{name}", value)]
    chosen = simulator_parser().parse_args([*options.words[1:], *valued])
    generate(
        chosen.folder,
        chosen.seed,
        chosen.scenario,
        SimulationTiming(chosen.start, chosen.days, chosen.period),
        Files(chosen.form, chosen.bill, chosen.bill_file, chosen.logs),
    )


def write_manifests(options: Options) -> None:
    """Write manifest/slack.yaml and the Teams package into a folder."""
    from adapters.chat.manifest import TeamsApp, build_package, manifest_yaml

    settings = settings_of(options.values)
    folder = Path(options.words[1] if len(options.words) > 1 else "manifest")
    folder.mkdir(parents=True, exist_ok=True)
    slack, teams = folder / "slack.yaml", folder / "teams.zip"
    public = settings["public_url"]
    events = "" if settings["slack.app_token"] else public
    slack.write_text(manifest_yaml(command_hints(), events), encoding="utf-8")
    app = TeamsApp(settings.text("teams.app_id"), command_hints(), urlsplit(public).hostname or "")
    build_package(teams, app)
    print(slack, teams, sep="\n")
    if not app.app_id:
        print(
            f"{teams} names no bot yet, so Teams refuses it: set MicrosoftAppId and write it again.",
            file=sys.stderr,
        )


def write_templates(options: Options) -> None:
    """Copy the files to deploy trnbot with into a new folder; print them."""
    folder = Path(options.words[1] if len(options.words) > 1 else "trnbot-deploy")
    if folder.exists():
        raise WrongInput(f"'{folder}' already exists; name a new folder.")

    copytree(HOME / "deploy", folder)
    print(*sorted(path for path in folder.rglob("*") if path.is_file()), sep="\n")


def record_account(options: Options) -> None:
    """Write a recording of the account: `trnbot record DIR [--days 7] [--keep-identities]`."""
    from adapters.aws.live.record import MINUTES_KEPT, record

    if len(options.words) != 2:
        raise WrongInput("'record' takes one new folder: trnbot record DIR [--days 7].")
    text = options.values.get("days", "7")
    length = parse_duration(f"{text}d" if text.isdecimal() else text)
    if not timedelta(0) < length <= MINUTES_KEPT:
        raise WrongInput(
            f"'{text}' is not a time that can be recorded; "
            f"CloudWatch keeps minutes for {MINUTES_KEPT.days} days."
        )

    settings = settings_of(options.values)
    end = wall_clock().replace(second=0, microsecond=0) - settings["metrics.lag"]
    folder, live = Path(options.words[1]), open_account(settings)
    keep_identities = "keep-identities" in options.switches
    done = record(live, folder, end - length, end, print, keep_identities=keep_identities)
    # The bill is read last: what it lacks makes the recording less, and not void.
    billed, unbilled = record_bill(settings, live, folder, end)
    missing = [*done.missing, *unbilled]

    print(
        f"{done.points} points and {done.answers + billed} answers in {folder};"
        f" the calls cost about ${live.calls.meter.today().usd:.2f}.",
        done.kept(),
        *(f"missing: {sentence}" for sentence in missing),
        sep="\n",
    )
    if missing:
        raise Unavailable("The recording is not complete; see above.")


def back_up(options: Options) -> None:
    """Write the database into a new file, while it is used: `trnbot backup FILE`."""
    from adapters.store import backup

    file, url = _file_and_database(options, "backup")
    copied = backup.back_up(url, file)
    audit("backup", "done", User(terminal_user()), file=str(file))
    print(f"{file}: {counted(copied.rows, 'row')}, step {copied.step} of the schema.")


def restore(options: Options) -> None:
    """Put a backup in the place of the database: `trnbot restore FILE [--replace]`."""
    from adapters.store import backup

    file, url = _file_and_database(options, "restore")
    copied = backup.restore(file, url, replace="replace" in options.switches)
    audit("restore", "done", User(terminal_user()), file=str(file))
    print(
        f"{counted(copied.rows, 'row')} restored. What was sent after the backup is looked for in"
        " the channels; keys that seal secrets (TRNBOT_SECRETS_KEY) are in no backup."
    )


def _file_and_database(options: Options, verb: str) -> tuple[Path, str]:
    """Return the file of a verb and the address of the database; what is done is audited."""
    if len(options.words) != 2:
        raise WrongInput(f"'{verb}' takes one file: trnbot {verb} FILE.")
    settings = settings_of(options.values)
    audit_to(settings["audit"])
    return Path(options.words[1]), settings.text("database_url")


def upgrade(options: Options) -> None:
    """Say what a new version does to the database, or do it after a backup."""
    from adapters.store import backup
    from adapters.store.open import HEAD, open_store, refuse_unknown

    url = settings_of(options.values).text("database_url")
    step = backup.step_of(url)
    refuse_unknown(step)
    if step == HEAD or not step:
        print(
            f"Nothing to do: {'the database is at' if step else 'a new database begins at'} step "
            f"{HEAD}, which this trnbot knows."
        )
        return

    print(
        f"The database is at step {step}, this trnbot needs {HEAD}: 'trnbot upgrade' or its next"
        " start adds to the tables, and an older trnbot refuses them from then on."
    )
    in_file = not url.startswith("postgres")
    if not in_file:
        print("Back PostgreSQL up with the version that served until now, or with pg_dump.")
    if "check" in options.switches:
        return
    if in_file:
        file = Path(options.words[1] if len(options.words) > 1 else f"trnbot-before-{HEAD}.backup")
        backup.back_up(url, file)
        print(
            f"{file} holds the database as it was. To go back, 'trnbot restore {file} --replace'"
            " with the version that served until now."
        )
    open_store(url).close()
    print(f"The database is at step {HEAD}.")


@contextmanager
def opened_store(options: Options) -> Iterator[SqlStore]:
    """Open the database of the settings, also while a bot serves with it."""
    from adapters.store.open import open_store

    settings = settings_of(options.values)
    audit_to(settings["audit"])
    with closing(open_store(settings.text("database_url"))) as store:
        yield store


def manage_tokens(options: Options) -> None:
    """Make a program's token, make its secret anew, revoke one, or list them."""
    doing: dict[str, Callable[..., None]] = {
        "make": _make_token,
        "rotate": _rotate_token,
        "revoke": _revoke_token,
        "list": _list_tokens,
    }
    word = options.words[1].lower() if len(options.words) > 1 else "list"
    do = find_named(
        "'tokens' takes make NAME, rotate NAME, revoke NAME or list", word, doing, most=0
    )
    names = options.words[2:]
    if len(names) != (word != "list"):
        raise WrongInput(f"'tokens {word}' takes one name, such as 'trnbot tokens {word} grafana'.")

    with opened_store(options) as store:
        do(store, options, *names)
    if word != "list":
        audit(f"token {word}", "done", User(terminal_user()), name=names[0])


def _make_token(store: DocumentStore, options: Options, name: str) -> None:
    length = _length_of_token(options, parse_duration(_GOOD_FOR))
    lines = options.values.get("lines", _LINES_A_MINUTE)
    if not lines.isdecimal() or not 0 < int(lines) <= 100_000:
        raise WrongInput(
            f"'{lines}' is not a number of lines a minute; write --lines {_LINES_A_MINUTE}."
        )

    now = wall_clock()
    scope = options.values.get("scope", "reader")
    token = ProgramToken("", scope, now + length, int(lines), now, terminal_user())
    print(make_token(store, name, token))


def _rotate_token(store: DocumentStore, options: Options, name: str) -> None:
    if {"scope", "lines"} & options.values.keys():
        raise WrongInput("'tokens rotate' keeps scope and lines; revoke the token to change them.")
    token = _token_named(store, name)

    start = wall_clock()
    length = _length_of_token(options, token.until - token.made)
    renewed = replace(token, until=start + length, made=start, by=terminal_user())
    print(make_token(store, name, renewed, replaces=True))


def _length_of_token(options: Options, usual: timedelta) -> timedelta:
    length = parse_duration(options.values["expires"]) if "expires" in options.values else usual
    if not timedelta(0) < length <= _GOOD_AT_MOST:
        raise WrongInput(f"A token lasts a year at most; write --expires {_GOOD_FOR}.")
    return length


def _token_named(store: DocumentStore, name: str) -> ProgramToken:
    token = TOKENS.get(store, name)
    if token is None:
        raise not_known(f"There is no token '{name}'", name, TOKENS.keys(store, _TOKENS_MOST))
    return token


def _revoke_token(store: DocumentStore, _: Options, name: str) -> None:
    _token_named(store, name)
    TOKENS.drop(store, name)
    print(f"{name} no longer opens anything.")


def _list_tokens(store: DocumentStore, _: Options) -> None:
    lines = [
        f"{name}  {token.scope}  {token.lines} lines a minute  "
        f"{'over' if token.until < wall_clock() else f'until {token.until:%Y-%m-%d}'}  made by {token.by}"
        for name, token in TOKENS.newest(store, _TOKENS_MOST)
    ]
    print("\n".join(lines) or "There is no token; 'trnbot tokens make grafana' makes one.")


def manage_people(options: Options) -> None:
    """Print what is kept of a person as JSON, or erase the person."""
    word = options.words[1].lower() if len(options.words) > 1 else ""
    if word not in ("export", "erase") or len(options.words) != 3 or ":" not in options.words[2]:
        raise WrongInput(
            "'people' takes a word and an address:"
            " trnbot people export slack:U01DANA, or trnbot people erase slack:U01DANA."
        )
    person = options.words[2]
    with opened_store(options) as store:
        if word == "export":
            print(as_json(store.kept_of(person)))
            return
        rows = counted(store.erase(person), "row")
    audit("people erase", "done", User(terminal_user()))
    print(
        f"{person} is 'someone' in {rows}. Messages that were sent stay in their channels, and"
        " backups and logs from before hold what they held."
    )
