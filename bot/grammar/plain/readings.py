"""Choose the line of the grammar that a line in plain words means, by a table of lines and their needs."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files

from bot.cards.lines import quote
from bot.grammar.plain.senses import Names, Sense, senses_of
from bot.grammar.registry import COMMANDS, command_index
from bot.model.fleet import is_neuron
from bot.model.window import Window, month_of

MOST = 3
_DIMENSIONS = (
    "cluster",
    "team",
    "region",
    "zone",
    "account",
    "service",
    "owner",
    "project",
    "namespace",
    "pod",
    "type",
)
_OF_FLEET = ("cluster", "team", "region", "owner")
"""Dimensions whose names are known beforehand.

Another name there is rather a word that was not understood.
"""
_PART = re.compile(r"\[([^\]]*)\]")
_SLOT = re.compile(r"\{(\w+)(?:=([^}]*))?\}")


@dataclass(frozen=True)
class PlainReading:
    """Hold how a line in plain words is read.

    Surely as the first of its lines, else as one of them.
    """

    lines: tuple[str, ...]
    sure: bool
    others: tuple[str, ...] = ()
    """The next nearest readings of a line that is read surely."""

    @property
    def line(self) -> str:
        """Return the nearest line of the grammar."""
        return self.lines[0]


@dataclass(frozen=True)
class _Row:
    """Hold one row of the table: lines, their needs (`a/b`.

    Either), and the words that may stand besides.
    """

    lines: tuple[str, ...]
    needs: tuple[tuple[str, ...], ...]
    takes: frozenset[str]
    slots: frozenset[str]


@cache
def _rows() -> tuple[_Row, ...]:
    text = (files("bot.grammar.plain") / "readings.csv").read_text(encoding="utf-8")
    return tuple(_row(row) for row in csv.DictReader(text.splitlines(), delimiter=";"))


def _row(row: Mapping[str, str]) -> _Row:
    needs = tuple(tuple(word.split("/")) for word in _concepts(row["needs"]))
    return _Row(
        tuple(row["line"].split("|")),
        needs,
        frozenset(_concepts(row["takes"])),
        frozenset(_slots_of(row["line"])),
    )


def _slots_of(line: str) -> Iterator[str]:
    for name, _ in _SLOT.findall(line):
        yield name
        if name == "type":
            yield "family"


_LONG = ("send me", "stop sending", "no alert", "what is a", "my last change", "off gpus")


def _concepts(text: str) -> list[str]:
    """Cut a cell into its words; a few are two or three words long."""
    for phrase in _LONG:
        text = text.replace(phrase, phrase.replace(" ", "~"))
    return [word.replace("~", " ") for word in text.split()]


def read_plain(line: str, names: Names, now: datetime) -> PlainReading | None:
    """Return how a line in plain words is read, None where nothing of it is understood."""
    senses = senses_of(line, names, now)
    if not any(sense.means or set(sense.fills) - {"unknown"} for sense in senses):
        return None
    asked = _Asked(senses, names, now)
    ranked = sorted(
        asked.candidates(), key=lambda found: (-found.explained, found.left, found.order)
    )
    if not ranked:
        return None
    lines = tuple(dict.fromkeys(text for found in ranked for text in found.lines))
    best = ranked[0]
    if best.left or len(best.lines) > 1 or asked.doubts(best.row):
        return PlainReading((*asked.apart(best.row), *lines)[:MOST], sure=False)
    return PlainReading(lines[:1], sure=True, others=lines[1:MOST])


def means_something(line: str, now: datetime) -> bool:
    """Return whether any word of a line is known, a fleet's names aside."""
    return any(sense.means for sense in senses_of(line, Names(), now))


@dataclass(frozen=True)
class _Candidate:
    lines: tuple[str, ...]
    explained: int
    left: int
    """Pieces of the line that it does not explain."""
    order: int
    row: _Row


class _Asked:
    """Hold one line taken apart, and fill the rows of the table from it."""

    def __init__(self, senses: Sequence[Sense], names: Names, now: datetime) -> None:
        self._senses, self._names, self._now = senses, names, now
        self._fills = self._filled()
        self._kinds = {kind for sense in senses for kind in self._kinds_of(sense)}

    def candidates(self) -> Iterator[_Candidate]:
        """Yield every row whose needs are met, with its lines filled."""
        means = {word for sense in self._senses for word in sense.means} | {
            f"@{kind}" for kind in self._kinds
        }
        for order, row in enumerate(_rows()):
            if not all(any(word in means for word in either) for either in row.needs):
                continue
            lines = tuple(line for line in (self._fill(each) for each in row.lines) if line)
            if lines:
                left = [sense for sense in self._senses if not self._explains(row, sense)]
                explained = sum(not sense.weak for sense in self._senses) - sum(
                    not sense.weak for sense in left
                )
                weak = sum(sense.weak and self._explains(row, sense) for sense in self._senses)
                yield _Candidate(
                    lines, explained * 4 + weak, sum(not sense.weak for sense in left), order, row
                )

    def _explains(self, row: _Row, sense: Sense) -> bool:
        known = {word for either in row.needs for word in either} | row.takes
        kinds = self._kinds_of(sense)
        return bool(
            sense.means & known or kinds & row.slots or {f"@{kind}" for kind in kinds} & known
        )

    def _kinds_of(self, sense: Sense) -> set[str]:
        """Return the slots that a piece can fill, as rows name them."""
        kinds = set(sense.fills)
        if kinds & set(_DIMENSIONS) or "untagged" in sense.means:
            kinds.add("where")
        if sense.fills.get("by") == "week":
            kinds = {"week"}
        if "window" in kinds and self._is_this_month(sense.fills["window"]):
            kinds.add("thismonth")
        if {"type", "family"} & kinds and len(self._types()) == 2:
            kinds |= {"two", "old", "new"}
        if "run" in kinds and len(self._all("run")) == 2:
            kinds.add("run2")
        if sense.means & {*command_index(), *COMMANDS}:
            kinds.add("command")
        if sense.means & set(self._names.of("rule")):
            kinds.add("rule")
        if self._as() and sense.fills.get("unknown") == self._as():
            kinds.add("as")
        return kinds

    def _filled(self) -> dict[str, str]:
        """Return the text of each slot."""
        fills: dict[str, str] = {}
        for sense in self._senses:
            for kind, value in sense.fills.items():
                fills.setdefault(kind, value)
        types, runs = self._types(), self._all("run")
        fills |= dict(zip(("old", "new"), types, strict=False)) if len(types) == 2 else {}
        fills |= {
            "type": next(
                (
                    s.fills.get("type") or s.fills["family"]
                    for s in self._senses
                    if {"type", "family"} & set(s.fills)
                ),
                "",
            )
        }
        fills |= (
            {"run2": runs[1], "twin": runs[1]}
            if len(runs) == 2
            else {"twin": self._names.twin(runs[0])}
            if runs
            else {}
        )
        fills |= self._standing()
        fills["by"] = ",".join(
            dict.fromkeys(
                s.fills["by"] for s in self._senses if s.fills.get("by", "week") != "week"
            )
        )
        fills["where"] = " ".join(self._where())
        fills["command"] = next(
            (
                word
                for s in self._senses
                for word in sorted(s.means & {*command_index(), *COMMANDS} - {"help"})
            ),
            "",
        )
        fills["rule"] = next(
            (word for s in self._senses for word in sorted(s.means & set(self._names.of("rule")))),
            "",
        )
        fills["as"] = self._as()
        if "until" in fills:
            fills["until"] = f'"{fills["until"][:3]} 09:00"'
        return {kind: value for kind, value in fills.items() if value}

    def _standing(self) -> dict[str, str]:
        """Return the slots that the fleet itself fills.

        Its main type, and a run that has one on GPUs beside it.
        """
        names = self._names
        gpu = next((run for run in names.of("run") if "gpu" in run and names.twin(run)), "")
        gpus = [kind for kind in names.of("type") if kind.startswith("p5.")]
        return {
            "mytype": names.main_type or "trn1.32xlarge",
            "gputype": "p5.48xlarge" if gpus else "",
            "gpurun": gpu,
            "chiprun": names.twin(gpu) if gpu else "",
            "maincluster": names.main_cluster,
        }

    def _types(self) -> list[str]:
        """Return the instance types of a line; of two the one with GPUs first."""
        types = dict.fromkeys(
            s.fills.get("type") or s.fills["family"]
            for s in self._senses
            if {"type", "family"} & set(s.fills)
        )
        return sorted(types, key=is_neuron)

    def _all(self, kind: str) -> list[str]:
        return list(
            dict.fromkeys(sense.fills[kind] for sense in self._senses if kind in sense.fills)
        )

    def _as(self) -> str:
        return next((s.fills["unknown"] for s in self._senses[-1:] if "unknown" in s.fills), "")

    def _conditions(self) -> dict[tuple[str, bool], list[str]]:
        """Return the names of a line by their dimension and whether they are left out, each by the first of its kinds."""
        conditions: dict[tuple[str, bool], list[str]] = {}
        negated = False
        for sense in self._senses:
            if "untagged" in sense.means:
                conditions.setdefault(("team", False), []).append("")
            kind = next((kind for kind in _DIMENSIONS if kind in sense.fills), "")
            if kind:
                name = {"owner": "tag:owner", "type": "instance_type"}.get(kind, kind)
                conditions.setdefault((name, negated), []).append(sense.fills[kind])
            negated = "without" in sense.means
        return conditions

    def _where(self) -> Iterator[str]:
        """Yield the filters of a line."""
        for (name, negated), values in self._conditions().items():
            yield f"{name}{'!=' if negated else '='}{quote(','.join(values)) if any(values) else ''}"

    def doubts(self, row: _Row) -> bool:
        """Tell whether a line names two of one dimension, a name that nobody knows, or times that do not go together."""
        windows = [
            sense
            for sense in self._senses
            if "window" in sense.fills and "weekday" not in sense.fills
        ]
        apart = self._fills.get("pair") == "no" or len(windows) > 1
        named = "where" in row.slots and (self._double() or self._strange())
        return bool(named or ("window" in row.slots and apart))

    def _strange(self) -> bool:
        """Tell whether a line filters by a name that the fleet does not know, where it knows any of that kind."""
        named = (
            (kind, sense.fills[kind])
            for sense in self._senses
            for kind in _OF_FLEET
            if kind in sense.fills
        )
        return any(
            name and self._names.of(kind) and name not in self._names.of(kind)
            for kind, name in named
        )

    def _double(self) -> tuple[str, list[str]] | None:
        """Return the dimension of which a line names several, with the names."""
        return next(
            (
                (name, values)
                for (name, negated), values in self._conditions().items()
                if len(values) > 1 and not negated
            ),
            None,
        )

    def apart(self, row: _Row) -> tuple[str, ...]:
        """Return lines for each of several names or times that one answer does not take together."""
        window = self._fills.get("window", "7d")
        if "where" in row.slots and (double := self._double()):
            name, values = double
            return f"cost {window} by {name} {name}={quote(','.join(values))}", *(
                f"cost {window} {name}={quote(x)}" for x in values
            )
        if "other" in self._fills and "window" in row.slots:
            where = self._fills.get("where", "")
            return tuple(f"cost {each} {where}".strip() for each in (window, self._fills["other"]))
        return ()

    def _is_this_month(self, window: str) -> bool:
        month, meant = month_of(self._now), Window.parse(window, self._now)
        return month.start <= meant.start < month.end and meant.end <= month.end

    def _fill(self, line: str) -> str:
        """Return a row's line with its slots filled, "" where one that it needs has nothing."""

        def part(match: re.Match[str]) -> str:
            return (
                match[1]
                if all(
                    self._fills.get(name) or default for name, default in _SLOT.findall(match[1])
                )
                else ""
            )

        line = _PART.sub(part, line)
        if any(not (self._fills.get(name) or default) for name, default in _SLOT.findall(line)):
            return ""
        return " ".join(
            _SLOT.sub(lambda match: self._fills.get(match[1]) or match[2], line).split()
        )
