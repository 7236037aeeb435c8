"""Answer about the bot itself: help, about, and the doctor's checks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from bot.cards.card import (
    Align,
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
    quiet,
    text,
)
from bot.cards.words import period
from bot.errors import Unavailable
from bot.grammar.line import type_name
from bot.grammar.registry import Needs, Topic, arg, command, command_index, find_command
from bot.model.money import counted
from bot.model.request import Request, Role
from bot.model.window import BOUNDS, GRAMMAR, Window

if TYPE_CHECKING:  # `help` is answered without the world, and without what it takes to import it
    from bot.ports import Check, Ports

_ALL = "all"
HelpRow = tuple[str, str, str | None, str]


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
    known = {
        name: (example, summary)
        for commands in topics.values()
        for name, summary, example in commands
    }
    table = Table(
        (Heading("for"), Heading("type"), Heading("to get")),
        tuple((role, *known[name]) for role, name in _BRIEF if name in known),
    )
    more = quiet(
        *coded(
            "In an alert's thread `why`, `ack` and `snooze 2h` need no name. `help cost` explains one command."
        )
    )
    every = Buttons((Button(f"All {len(known)} commands", "help all"),))
    return replace(help_card(topics), blocks=(table, more, every))


def help_card(topics: Mapping[str, Sequence[tuple[str, str, str]]]) -> Card:
    """List every command with its summary and one example.

    A table a topic, as a platform cuts tables that are long.
    """
    blocks: list[Block] = []
    for topic, commands in topics.items():
        blocks += [text(Strong(topic))] if topic else []
        blocks.append(
            Table(
                (Heading("type"), Heading("to get")),
                tuple((example, summary) for _, summary, example in commands),
            )
        )
    blocks.append(
        quiet("A button types a line for you. ", Code("help cost"), " explains one command.")
    )
    every = [
        {"name": n, "summary": s, "example": e}
        for n, s, e in sorted(entry for entries in topics.values() for entry in entries)
    ]
    return Card("What you can type", Tone.INFO, tuple(blocks), {"commands": every})


def command_card(
    name: str,
    summary: str,
    rows: Sequence[HelpRow],
    examples: Sequence[str],
    who: str,
    notes: Sequence[str] = (),
) -> Card:
    """Explain one command by its arguments, notes on their types, and examples."""
    columns = (Heading("argument"), Heading("type"), Heading("when left out"), Heading("meaning"))
    cells = tuple(
        (n, kind, "needed" if default is None else default or "–", meaning)
        for n, kind, default, meaning in rows
    )
    blocks: list[Block] = [text(summary)]
    blocks += [Table(columns, cells)] if cells else []
    blocks += [quiet(note) for note in notes]
    blocks += [text("For example ", Code(example)) for example in examples]
    blocks += [quiet(f"Who may use it: {who}.")]
    return Card(
        name,
        Tone.INFO,
        tuple(blocks),
        {"name": name, "arguments": [r[0] for r in rows], "who": who},
    )


def about_card(
    settings: Mapping[str, str], ticked_at: datetime | None, problems: Sequence[str]
) -> Card:
    """Tell which version runs here, how fresh its metrics are, and the problems of reading them."""
    blocks: list[Block] = [
        Facts(tuple((name, value or "not set") for name, value in settings.items()))
    ]
    blocks += (
        [quiet("Last tick ", When(ticked_at))]
        if ticked_at
        else [quiet("The watch has not completed a tick yet.")]
    )
    blocks += [text(f"{counted(len(problems), 'thing')} could not be read:")] if problems else []
    blocks += [quiet("• ", problem) for problem in problems[:8]]
    blocks += [quiet(f"and {len(problems) - 8} more")] if len(problems) > 8 else []
    data = {"settings": dict(settings), "ticked_at": ticked_at, "problems": list(problems)}
    return Card("trnbot", Tone.WARNING if problems else Tone.INFO, tuple(blocks), data)


@command(
    "help",
    "What is asked most, all commands, or one command in detail.",
    needs=Needs.NOTHING,
    examples=("help", "help all", "help cost"),
)
async def help_(
    ports: Ports, request: Request, name: str = arg("", "one command, or all", rest=True)
) -> Card:
    """List what is asked most, or every command; or explain one with its arguments and examples."""
    return help_about(name)


def help_about(name: str) -> Card:
    """Return what `help` answers, which opens nothing of the world."""
    if name and name != _ALL:
        explained, _ = find_command(name.split())
        rows = tuple(
            (p.word, type_name(p), p.arg.default, p.arg.meaning) for p in explained.parameters
        )
        notes = (
            [f"A window is {GRAMMAR}: {BOUNDS}."]
            if any(p.takes(Window) for p in explained.parameters)
            else []
        )
        return command_card(
            explained.name, explained.summary, rows, explained.examples, explained.who.value, notes
        )
    topics: dict[str, list[tuple[str, str, str]]] = {topic.value: [] for topic in Topic}
    entries = {entry.name: entry for entry in command_index().values() if not entry.hidden}
    for entry in (entries[key] for key in sorted(entries)):
        topics[entry.topic.value].append((entry.name, entry.summary, entry.example))
    listed = {topic: commands for topic, commands in topics.items() if commands}
    return help_card(listed) if name else brief_help_card(listed)


@command(
    "about",
    "The version, the sources it reads, and how recent their data is.",
    needs=Needs.SOURCE,
    may=Needs.BILL | Needs.METRICS | Needs.STATE,
    examples=("about",),
)
async def about(ports: Ports, request: Request) -> Card:
    """Tell version, source, freshness and problems."""
    metrics, unread = await asyncio.to_thread(_metrics, ports)
    problems = [*dict.fromkeys([*unread, *await asyncio.to_thread(_unbilled, ports)])]
    memory = await asyncio.to_thread(ports.stores.alerts.load, request.at) if metrics else None
    here = {"this channel": request.channel} if request.channel else {}
    facts = {**ports.site.facts, **here, "metrics": metrics or "none"}
    return about_card(facts, memory.ticked_at if memory else None, problems)


def _metrics(ports: Ports) -> tuple[str, Sequence[str]]:
    """Return which time the metrics tell, "" where there is none, and the problems of reading them."""
    try:
        extent = ports.world.source.extent()
        return period(extent) if extent else "live", ports.world.source.problems()
    except Unavailable as error:
        return "", (str(error),)


def _unbilled(ports: Ports) -> Sequence[str]:
    """Return the problems of reading the bill; where there is none, why."""
    try:
        return ports.world.billing.problems()
    except Unavailable as error:
        return (str(error),)


@command(
    "doctor",
    "Check what is reachable, permitted or missing, and how to fix it.",
    needs=Needs.SOURCE,
    may=Needs.BILL | Needs.METRICS,
    examples=("doctor",),
    who=Role.ADMIN,
)
async def doctor(ports: Ports, request: Request) -> Card:
    """Look at everything the bot needs."""
    checks = await asyncio.to_thread(ports.site.checks)
    return doctor_card(list(checks))


def doctor_card(checks: list[Check]) -> Card:
    """List the checks, the failed ones first with their remedy."""
    wrong = [check for check in checks if not check.ok]
    rows = tuple(
        ("missing" if not c.ok else "ok", c.name, c.found)
        for c in sorted(checks, key=lambda c: c.ok)
    )
    blocks: list[Block] = [
        Table((Heading("", Align.LEFT), Heading("what"), Heading("found")), rows)
    ]
    blocks += [text(f"{c.name}: {c.remedy}") for c in wrong if c.remedy]
    data = {
        "checks": [
            {"name": c.name, "ok": c.ok, "found": c.found, "remedy": c.remedy} for c in checks
        ]
    }
    title = (
        f"{len(wrong)} of {len(checks)} checks {'needs' if len(wrong) == 1 else 'need'} your attention"
        if wrong
        else "Everything needed is in place"
    )
    return Card(title, Tone.WARNING if wrong else Tone.GOOD, tuple(blocks), data)
