"""How lines are read, in the grammar and in plain words: each line of `lines.txt` with what it was last read as.

`make goldens` writes the readings anew: a line that is read otherwise than before, and no better, is a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any

from bot.answers.all import ANSWERS
from bot.errors import TrnbotError
from bot.grammar.line import amended, attempted, effect_of, understand, window_of
from bot.grammar.plain.ranker import Ranker, load_counts, masked
from bot.grammar.plain.readings import followed, read_plain
from bot.grammar.plain.senses import names_of, senses_of
from bot.grammar.plain.times import find_times
from bot.grammar.registry import commands_by_name
from bot.knowledge import load_knowledge
from bot.model.fleet import Inventory
from bot.model.labels import Labels
from bot.model.run import Run
from bot.model.spend import Filter
from bot.model.window import Window
from tests.builders import instance
from tests.cards.test_goldens import compare

assert ANSWERS
LINES, GOLDENS = Path(__file__).with_name("lines.txt"), Path(__file__).with_name("goldens")
NOW = datetime(2026, 11, 20, 12, 34, tzinfo=UTC)
RUNS = ("llama-70b", "llama-70b-gpu", "vit-2b")


def listed(section: str) -> list[str]:
    """Return the lines of a section."""
    lines, name = list[str](), ""
    for line in LINES.read_text(encoding="utf-8").splitlines():
        name = line.strip("[]") if line.startswith("[") else name
        if name == section and line and not line.startswith(("[", "#")):
            lines.append(line.replace("\\n", "\n"))
    return lines


def words(value: Any) -> str:
    """Write a typed value shortly."""
    if isinstance(value, Window):
        return f"{value.start:%y-%m-%d %H:%M}..{value.end:%y-%m-%d %H:%M}"
    if isinstance(value, Filter):
        return str(value)
    if isinstance(value, Enum):
        return value.name
    if is_dataclass(value):
        shown = {x.name: words(getattr(value, x.name)) for x in fields(value)}
        return f"{type(value).__name__}({', '.join(f'{k}={v}' for k, v in shown.items())})"
    if isinstance(value, tuple | list):
        return f"({', '.join(map(words, value))})"
    return str(value)


def told(read: Callable[[], Any]) -> str:
    try:
        return str(read())
    except TrnbotError as error:
        argument = getattr(error, "argument", "")
        return f"{type(error).__name__}{f' of {argument}' if argument else ''}: {error}"


def grammar(line: str) -> str:
    call = understand(line, NOW)
    given = {name: value for name, value in call.arguments.items() if value not in (None, (), "")}
    return f"{call.command.name} {' '.join(f'{name}={words(x)}' for name, x in given.items())}"


def named() -> Any:
    nodes = [instance(f"i-{n}", cluster, owner="dana") for n, cluster in enumerate(["llama"] * 3 + ["vision"])]  # fmt: skip
    fleet = Inventory(NOW, {node.labels.instance: node for node in nodes})
    runs = [Run(Labels(cluster="llama", job=name), NOW, NOW) for name in RUNS]
    more = {"team": ("search", "ads", "atlas"), "project": ("atlas",), "region": ("us-west-2", "us-east-1"), "rule": ("idle", "starved")}  # fmt: skip
    return names_of(fleet, runs, load_knowledge().types(), more)


def test_lines_of_the_grammar_are_read_as_they_were() -> None:
    examples = [x for command in commands_by_name(hidden=True) for x in command.examples]
    written = []
    for line in [*examples, *listed("grammar")]:
        command = attempted(line)
        facts = f"{effect_of(line).value}, {command.name if command else 'no command'}"
        written.append(f"{line[:160]!r}\n  {facts}: {told(lambda line=line: grammar(line))[:400]}")
        if window := window_of(line, NOW):
            written.append(f"  over: {words(window)}"[:200])
    compare("\n".join(written) + "\n", GOLDENS / "grammar.txt")


def test_each_argument_refuses_what_it_cannot_be_as_it_did() -> None:
    written = []
    for command in commands_by_name(hidden=True):
        needed = {x.word for x in command.parameters if x.arg.default is None}
        for parameter in command.parameters:
            others = " ".join(f"{word}=1" for word in sorted(needed - {parameter.word}))
            line = f"{command.name} {others} {parameter.word}=x!y".replace("  ", " ")
            answer = told(lambda line=line: grammar(line))[:200]
            if not answer.startswith(command.name):
                written.append(f"{line}: {answer}")
    compare("\n".join(written) + "\n", GOLDENS / "refused.txt")


def test_lines_are_amended_as_they_were() -> None:
    changes: list[tuple[dict[str, str], list[Filter]]] = [
        ({"by": "cluster"}, []),
        ({"window": "30d"}, []),
        ({"by": "day", "window": "last-month"}, [Filter("team", ("ads",), negated=False)]),
        ({}, [Filter("team", ("ads", "search"), negated=True)]),
        ({}, [Filter("cluster", ("llama",), negated=False)]),
    ]
    written = [
        f"{line!r} {words(values)} {words(filters)}\n  {told(lambda line=line, values=values, filters=filters: amended(line, values, filters))}"
        for line in listed("amended")
        for values, filters in changes
    ]
    compare("\n".join(written) + "\n", GOLDENS / "amended.txt")


def test_plain_words_are_read_as_they_were() -> None:
    names, ranker, written = named(), Ranker(load_counts()), list[str]()
    for line in listed("plain"):
        senses = senses_of(line, names, NOW)
        reading = read_plain(line, names, NOW, ranker)
        written.append(repr(line))
        written.append(f"  {' '.join(map(sense_words, senses))} | {masked(line, senses)}")
        if reading:
            kind = "surely" if reading.sure else "two questions" if reading.of_two else "perhaps"
            others = f"; or {'; '.join(reading.others)}" if reading.others else ""
            written.append(f"  {kind}: {'; '.join(reading.lines)}{others}")
    compare("\n".join(written) + "\n", GOLDENS / "plain.txt")


def sense_words(sense: Any) -> str:
    fills = ",".join(f"{kind}:{value}" for kind, value in sorted(sense.fills.items()))
    return f"{'~' if sense.weak else ''}[{sense.text}{'=' if sense.means else ''}{'/'.join(sorted(sense.means))}{' ' if fills else ''}{fills}]"


def test_times_are_found_as_they_were() -> None:
    def found(line: str) -> Iterator[str]:
        for time in find_times(line, NOW):
            fills = " ".join(f"{kind}:{value}" for kind, value in time.fills.items())
            yield f"{line[time.start : time.end]!r} {fills} {words(time.window)}"

    written = [f"{line!r}: {' | '.join(found(line)) or 'none'}" for line in listed("times")]
    compare("\n".join(written) + "\n", GOLDENS / "times.txt")


def test_slips_and_follow_ups_are_read_as_they_were() -> None:
    names = named()
    written = [f"{line!r}: {read_plain(line, names, NOW)}" for line in listed("slips")]
    for line in listed("follow-ups"):
        last, _, short = line.partition(" -> ")
        written.append(f"{last!r}, then {short!r}: {followed(short, last, names, NOW)!r}")
    compare("\n".join(written) + "\n", GOLDENS / "slips.txt")
