"""Answer about the bot itself: help, about, and the doctor's checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from bot.cards.card import (
    MISSING,
    Block,
    Button,
    Buttons,
    Card,
    Code,
    Facts,
    Heading,
    Strong,
    Table,
    Tone,
    When,
    coded,
    compose,
    quiet,
    text,
)
from bot.cards.words import few, period
from bot.errors import Unavailable, WrongInput, not_known, shortened
from bot.grammar.line import type_name
from bot.grammar.registry import (
    Command,
    Needs,
    Topic,
    arg,
    command,
    command_index,
    find_command,
)
from bot.model.money import counted
from bot.model.request import Request, Role
from bot.model.window import BOUNDS, GRAMMAR, Window

if TYPE_CHECKING:  # `help` is answered without the world, and without what it takes to import it
    from bot.grammar.plain.ask import LearntLine
    from bot.ports import Check, Ports

_ALL = "all"
_BRIEF = (
    ("on call", "alerts"),
    ("on call", "why"),
    ("on call", "snooze"),
    ("money", "cost"),
    ("money", "savings"),
    ("fleet", "fleet"),
    ("fleet", "runs"),
    ("admins", "config"),
)
"""What each role asks most, in the order of a first day."""


def brief_help_card(topics: Mapping[str, Sequence[tuple[str, str, str]]]) -> Card:
    """Show a line to type for each need of a role; all the others are a press away."""
    examples_of = {
        name: (example, summary)
        for commands in topics.values()
        for name, summary, example in commands
    }

    return replace(
        help_card(topics),
        blocks=(
            Table(
                (Heading("for"), Heading("type"), Heading("to get")),
                tuple((role, *examples_of[name]) for role, name in _BRIEF if name in examples_of),
            ),
            quiet(
                *coded(
                    "In an alert's thread `why`, `ack` and `snooze 2h` need no name. `help cost`"
                    " explains one command."
                )
            ),
            Buttons((Button(f"All {len(examples_of)} commands", "help all"),)),
        ),
    )


def help_card(topics: Mapping[str, Sequence[tuple[str, str, str]]]) -> Card:
    """List every command with its summary and one example.

    A table a topic, as a platform cuts tables that are long.
    """
    blocks: list[Block] = []
    headings = (Heading("type"), Heading("to get"))
    for topic, commands in topics.items():
        if topic:
            blocks.append(text(Strong(topic)))
        blocks.append(
            Table(headings, tuple((example, summary) for _, summary, example in commands))
        )

    blocks.append(
        quiet("A button types a line for you. ", Code("help cost"), " explains one command.")
    )

    return Card(
        "What you can type",
        Tone.INFO,
        tuple(blocks),
        {
            "commands": [
                {"name": n, "summary": s, "example": e}
                for n, s, e in sorted(entry for commands in topics.values() for entry in commands)
            ]
        },
    )


def command_card(explained: Command) -> Card:
    """Explain one command by its arguments, a note on windows where it takes one, and examples."""
    cells = tuple(
        (
            parameter.word,
            type_name(parameter),
            "needed" if parameter.arg.default is None else parameter.arg.default or MISSING,
            parameter.arg.meaning,
        )
        for parameter in explained.parameters
    )

    who = explained.who.value
    headings = (Heading("argument"), Heading("type"), Heading("when left out"), Heading("meaning"))
    windowed = any(parameter.takes(Window) for parameter in explained.parameters)

    return Card(
        explained.name,
        Tone.INFO,
        compose(
            text(explained.summary),
            bool(cells) and Table(headings, cells),
            windowed and quiet(f"A window is {GRAMMAR}: {BOUNDS}."),
            [text("For example ", Code(example)) for example in explained.examples],
            quiet(f"Who may use it: {who}."),
        ),
        {"name": explained.name, "arguments": [cell[0] for cell in cells], "who": who},
    )


def about_card(
    settings: Mapping[str, str], ticked_at: datetime | None, problems: Sequence[str]
) -> Card:
    """Tell which version runs here, how fresh its metrics are, and the problems of reading them."""
    return Card(
        "trnbot",
        Tone.WARNING if problems else Tone.INFO,
        compose(
            Facts(tuple((name, value or "not set") for name, value in settings.items())),
            quiet("Last tick ", When(ticked_at))
            if ticked_at
            else quiet("The watch has not completed a tick yet."),
            bool(problems) and text(f"{counted(len(problems), 'thing')} could not be read:"),
            [quiet(line) for line in few([f"• {problem}" for problem in problems], 8)],
        ),
        {"settings": dict(settings), "ticked_at": ticked_at, "problems": list(problems)},
    )


@command(
    "help",
    "What is asked most, all commands, one command in detail, or the meaning of a term.",
    needs=Needs.NOTHING,
    examples=("help", "help all", "help cost", "help NeuronCore"),
)
async def help_(
    ports: Ports, request: Request, name: str = arg("", "a command, all, or a term", rest=True)
) -> Card:
    """List what is asked most, or every command; or explain a command or a term."""
    return help_about(name)


def help_about(name: str) -> Card:
    """Return what `help` answers, which opens nothing of the world."""
    if name and name != _ALL:
        from bot.grammar.plain.senses import is_filler, load_glossary, term_of

        try:
            explained, after = find_command(name.split())
            if any(map(is_filler, after)):
                raise WrongInput(f"'{shortened(name)}' is neither a command nor a term.")
        except WrongInput:
            if term := term_of(name):
                meaning = load_glossary()[term]
                return Card(term, Tone.INFO, (text(meaning),), {"term": term, "meaning": meaning})
            raise
        return command_card(explained)

    entries = {entry.name: entry for entry in command_index().values() if not entry.hidden}
    topics = {
        topic.value: [
            (name, entry.summary, entry.example)
            for name, entry in sorted(entries.items())
            if entry.topic is topic
        ]
        for topic in Topic
    }
    listed = {topic: commands for topic, commands in topics.items() if commands}

    return help_card(listed) if name else brief_help_card(listed)


def words_card(learnt: Sequence[tuple[str, LearntLine]]) -> Card:
    """List the lines that were learnt, the newest first."""
    rows = tuple((entry.text, entry.command) for _, entry in learnt)

    return Card(
        "Lines that were learned here",
        Tone.INFO,
        compose(
            Table((Heading("a line like"), Heading("means")), rows)
            if rows
            else text("None so far."),
            quiet(
                "When the bot asks back what a line means, it learns from the button pressed next."
            ),
            bool(rows) and quiet(*coded("`words forget all`, or one of them, takes it back.")),
        ),
        {"lines": [{"text": entry.text, "command": entry.command} for _, entry in learnt]},
    )


@command(
    "words",
    "Lines that the bot once asked back about, and the meaning it learned for each.",
    needs=Needs.DATABASE,
    examples=("words",),
)
def words(ports: Ports, request: Request) -> Card:
    """List the lines that were learnt from presses."""
    from bot.grammar.plain.ask import LEARNT, MOST_LEARNT

    return words_card(LEARNT.newest(ports.stores.documents, MOST_LEARNT))


@command(
    "words forget",
    "Forget a line that was learned, or all of them.",
    needs=Needs.DATABASE,
    examples=("words forget all",),
    who=Role.ADMIN,
    changes=True,
)
def words_forget(
    ports: Ports,
    request: Request,
    line: str = arg(None, "the line as 'words' lists it, or all", rest=True),
) -> Card:
    """Drop lines that were learnt; lines are read without it within ten minutes."""
    from bot.grammar.plain.ask import LEARNT, MOST_LEARNT

    store = ports.stores.documents
    keys = LEARNT.keys(store, MOST_LEARNT)
    dropped = keys if line == _ALL else [key for key in keys if key == line]
    if not dropped and line != _ALL:
        raise not_known(
            f"'{shortened(line)}' was not learned",
            line,
            keys,
            otherwise="'words' lists those that were",
        )
    for key in dropped:
        LEARNT.drop(store, key)

    return Card(f"{counted(len(dropped), 'line')} forgotten", Tone.GOOD, (), {"dropped": dropped})


@command(
    "about",
    "The version, the sources it reads, and how recent their data is.",
    needs=Needs.SOURCE,
    may=Needs.BILL | Needs.METRICS | Needs.STATE,
    examples=("about",),
)
def about(ports: Ports, request: Request) -> Card:
    """Tell version, source, freshness and problems."""
    # What cannot be read is a problem to tell of: no part of the world is needed here.
    metrics, ticked_at = "", None
    problems: list[str] = []
    try:
        extent = ports.world.source.extent()
        metrics = period(extent) if extent else "live"
        problems += ports.world.source.problems()
        # A bill alone tells of a time too, and the reading that it has no metrics.
        if extent and (lacking := ports.world.source.read(request.at).missing):
            metrics = "none"
            problems += lacking
    except Unavailable as error:
        problems.append(str(error))

    if metrics:
        ticked_at = ports.stores.alerts.load(request.at).ticked_at
    try:
        problems += ports.world.billing.problems()
    except Unavailable as error:
        problems.append(str(error))

    channel = {"this channel": request.channel} if request.channel else {}

    return about_card(
        {**ports.site.facts, **channel, "metrics": metrics or "none"},
        ticked_at,
        list(dict.fromkeys(problems)),
    )


@command(
    "doctor",
    "Check what is reachable, permitted or missing, and how to fix it.",
    needs=Needs.SOURCE,
    may=Needs.BILL | Needs.METRICS,
    examples=("doctor", "doctor paid"),
    who=Role.ADMIN,
)
def doctor(
    ports: Ports,
    request: Request,
    calls: str = arg(
        "free",
        "paid also asks Cost Explorer and Athena, which AWS bills by the call",
        choices=("free", "paid"),
    ),
) -> Card:
    """Look at everything the bot needs."""
    return doctor_card(list(ports.site.checks(calls == "paid")))


def doctor_card(checks: list[Check]) -> Card:
    """List the checks, the failed ones first with their remedy."""
    failed = [check for check in checks if not check.ok]
    title, tone = "Everything needed is in place", Tone.GOOD
    if failed:
        need = "needs" if len(failed) == 1 else "need"
        title, tone = f"{len(failed)} of {len(checks)} checks {need} your attention", Tone.WARNING

    return Card(
        title,
        tone,
        compose(
            Table(
                (Heading(""), Heading("what"), Heading("found")),
                tuple(
                    ("ok" if check.ok else "missing", check.name, check.found)
                    for check in sorted(checks, key=lambda check: check.ok)
                ),
            ),
            [text(f"{check.name}: {check.remedy}") for check in failed if check.remedy],
        ),
        {
            "checks": [
                {"name": check.name, "ok": check.ok, "found": check.found, "remedy": check.remedy}
                for check in checks
            ],
        },
    )
