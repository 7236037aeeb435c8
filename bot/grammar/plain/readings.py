"""Choose the line of the grammar that plain words mean, by a table of lines and their needs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache

from bot.cards.lines import quote
from bot.errors import WrongInput
from bot.grammar.line import amended, attempted
from bot.grammar.plain.ranker import Ranker, load_counts, load_offers, masked
from bot.grammar.plain.senses import (
    Names,
    Sense,
    is_filler,
    is_foreign,
    normalized,
    senses_of,
    term_of,
)
from bot.grammar.registry import COMMANDS, command_index
from bot.model.codec import table
from bot.model.fleet import is_neuron
from bot.model.spend import Filter
from bot.model.window import Window, month_of

MOST = 3
_DIMENSIONS = (
    "cluster",
    "team",
    "region",
    "zone",
    "account",
    "service",
    "line",
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
    by: str = ""
    """The model that chose the line, "" where the tables did."""
    of_two: bool = False
    """The line asks two questions, and its first two lines answer one each."""

    @property
    def line(self) -> str:
        """Return the nearest line of the grammar."""
        return self.lines[0]


_TERM_ASKED = re.compile(
    r"(?:(?:what (?:is|are|does)|define|explain|meaning of|was (?:ist|sind|bedeutet))"
    r"(?: (?:a|an|the|ein|eine|der|die|das))?|what is a) (?P<term>.+?)(?: mean| stand for)?"
    r"|(?P<last>.+) what is a"
)
_UNLIKELY = 0.05
"""A command that is no likelier than this is not offered for it."""
_MEANT = 0.12
"""A command that is less likely is not surely meant, however well a row explains the line."""
_CERTAIN = 0.7
"""The likelihood from which a command is answered that reads, by a line that takes all that is named.

Nineteen in twenty such lines of strangers meant it; the answer says how its line was read.
"""
_SURELY = 0.6
"""The likelihood from which each half of a line is taken for a question of its own."""
_HALVES = re.compile(r"[;?]\s+|,?\s+(?:&|and|also|plus|und|et|y)\s+")
_TABLE = 0.2
"""What it adds to a command's likelihood that a row of the table explains as much as any."""
_ARGUMENTS = {"type": "instance_type", "family": "instance_type", "instance": "node"}
"""Arguments that are not called as what fills them."""


@dataclass(frozen=True)
class _Row:
    """Hold one row of the table: lines, their needs, and the words that may stand besides."""

    lines: tuple[str, ...]
    needs: tuple[frozenset[str], ...]
    """Of each need any word."""
    concepts: frozenset[str]
    """Every word of its needs, and those that it takes besides."""
    slots: frozenset[str]


@cache
def _rows() -> tuple[_Row, ...]:
    rows = []
    for row in table("bot.grammar.plain", "readings.csv", delimiter=";"):
        needs = tuple(frozenset(need.split("/")) for need in _concepts(row["needs"]))
        slots = {name for name, _ in _SLOT.findall(row["line"])}
        if "type" in slots:
            slots.add("family")
        concepts = frozenset(_concepts(row["takes"])).union(*needs)
        rows.append(_Row(tuple(row["line"].split("|")), needs, concepts, frozenset(slots)))
    return tuple(rows)


def _concepts(text: str) -> list[str]:
    """Cut a cell into its words; `_` joins those that are two or three words long."""
    return [word.replace("_", " ") for word in text.split()]


def read_plain(
    line: str, names: Names, now: datetime, ranker: Ranker | None = None
) -> PlainReading | None:
    """Return how a line in plain words is read, None where nothing of it is understood.

    It is read surely where one row of the table explains all of it, and its command is among those
    that the ranker finds likely. Else the likeliest commands are offered, each by the line that
    explains most.
    """
    definition = _TERM_ASKED.fullmatch(normalized(line))
    if definition and (term := term_of(definition["term"] or definition["last"])):
        return PlainReading((f"help {term}",), sure=True)

    senses, ranker = senses_of(line, names, now), ranker or Ranker(load_counts())
    content = [sense for sense in senses if not sense.weak]
    strange = [
        sense
        for sense in content
        if set(sense.fills) == {"unknown"} and not ranker.knows(sense.text)
    ]
    if attempted(line) and 0 < len(strange) == len(content) - 1:
        return None  # a command and a word that nobody has said: its own sentence says what is near
    likely: dict[str, float] = {}
    # A line most of whose words nobody has said here is about something else, but where it is in
    # another language, of which fewer words are known.
    if 2 * len(strange) <= len(content) or is_foreign(line):
        ranked = ranker.rank(masked(line, senses))[:MOST]
        likely = {entry.command: entry.share for entry in ranked if entry.share > _UNLIKELY}

    question = _Question(senses, names, now)
    candidates = sorted(
        question.candidates(),
        key=lambda candidate: (-candidate.explained, candidate.unexplained, candidate.order),
    )
    if any(sense.means or set(sense.fills) - {"unknown"} for sense in senses) and candidates:
        best = candidates[0]
        lines = (*question.apart(best.row), *map(question.completed, best.lines))
        explained = not best.unexplained and len(best.lines) == 1
        supported = not likely or likely.get(best.command, 0.0) >= _MEANT
        if explained and supported and question.is_met(lines[0], best.row.slots):
            texts = dict.fromkeys((*lines[:-1], *(x for each in candidates for x in each.lines)))
            nearest = tuple(text for text in texts if text not in (lines[0], best.lines[0]))
            return PlainReading(lines[:1], sure=True, others=nearest[: MOST - 1])

    halves = [] if strange else _questions(line, names, now, ranker)
    if len(halves) == 2:
        likely |= {command: 2 + likely.get(command, 0.0) for command in halves}  # before all else
    offers = question.offers(candidates, likely)
    if not offers:
        return None

    # Where no word is strange, the examples alone may decide; not where a command was typed without
    # the small words of a sentence, as an answer to its other words would hide the one it refused.
    answered = [command.name for offer in offers[:2] if (command := attempted(offer))]
    typed = attempted(line)
    typed_words = line.split()[len(typed.name.split()) :] if typed else []
    is_plain = not typed or any(map(is_filler, typed_words))
    certain = is_plain and likely.get(answered[0], 0.0) >= _CERTAIN and len(halves) < 2
    if certain and not strange and question.is_met(offers[0]):
        return PlainReading(offers[:1], sure=True, others=offers[1:MOST])
    return PlainReading(
        offers[:MOST], sure=False, of_two=len(halves) == 2 and set(answered) == set(halves)
    )


def choices(line: str, names: Names, now: datetime, ranker: Ranker) -> Sequence[tuple[str, str]]:
    """Return a line for every command that the words can fill one for, with its answer."""
    senses = senses_of(line, names, now)
    shares = {entry.command: entry.share for entry in ranker.rank(masked(line, senses))}
    lines = _Question(senses, names, now).offers((), shares or dict.fromkeys(load_offers(), 0.0))
    return [(text, command.summary) for text in lines if (command := attempted(text))]


def _questions(line: str, names: Names, now: datetime, ranker: Ranker) -> list[str]:
    """Return the commands that the halves of a line mean, where each surely means another."""
    ranked = (
        ranker.rank(masked(half, senses_of(half, names, now))) for half in _HALVES.split(line)
    )
    likeliest = [entries[0] for entries in ranked if entries]
    return list(dict.fromkeys(entry.command for entry in likeliest if entry.share >= _SURELY))


_WHY = {"cost": "why cost", "alerts": "why", "alert": "why", "fleet": "why"}
"""The command that tells the reasons of an answer, by the command that answered."""


def followed(line: str, last: str, names: Names, now: datetime) -> str:
    """Return the line that a short one such as "and by cluster?" makes of the last one.

    "" where it says more than another window, grouping or name, or the last line takes none of it.
    """
    spoken = senses_of(line, names, now)
    # "How much is llama" and "this month vs last month" are questions that stand for themselves.
    if any("howmuch" in sense.means or "pair" in sense.fills for sense in spoken):
        return ""
    senses = [sense for sense in spoken if not sense.weak and sense.fills.get("unknown") != "same"]
    command = attempted(last)
    if command is None or not senses:
        return ""
    if [sense.means for sense in senses] == [{"why"}]:
        reasons = _WHY.get(command.name, "")
        asked_about = re.sub(r" by[ =]\S+", "", last.removeprefix(command.name))
        return f"{reasons}{asked_about}" if reasons else ""
    chosen = {text for parameter in command.parameters for text in parameter.arg.choices}
    if any(
        ("unknown" in sense.fills or (sense.means - {"without"} and not sense.fills))
        and sense.text not in chosen
        for sense in senses
    ):
        return ""

    # A name of several kinds is of the kind that the last line speaks of.
    senses = [
        replace(
            sense,
            fills={kind: sense.fills[kind] for kind in sense.fills if kind in last} or sense.fills,
        )
        for sense in senses
    ]
    line = _Question(senses, names, now).completed(last)
    if line == last:
        # It stands where the last line has a name of its kind.
        instead = {
            word: sense.fills[kind]
            for word in last.split()
            for kind, _ in names.folded.get(word, ())
            for sense in senses
            if kind in sense.fills
        }
        line = " ".join(instead.get(word, word) for word in last.split())
    return line if all(any(x in line for x in y.fills.values()) for y in senses if y.fills) else ""


def means_something(line: str, now: datetime) -> bool:
    """Return whether any word of a line is known, a fleet's names aside."""
    return any(sense.means for sense in senses_of(line, Names(), now))


@dataclass(frozen=True)
class _Candidate:
    lines: tuple[str, ...]
    explained: int
    unexplained: int
    """Pieces of the line that it does not explain."""
    order: int
    row: _Row

    @property
    def command(self) -> str:
        """Return the command that answers its first line."""
        named = attempted(self.lines[0])
        return named.name if named else ""


class _Question:
    """Hold one line taken apart, and fill the rows of the table from it."""

    def __init__(self, senses: Sequence[Sense], names: Names, now: datetime) -> None:
        self._senses, self._names, self._now = senses, names, now
        self._commands = {*command_index(), *COMMANDS}
        self._rules = set(names.of("rule"))
        # A name that is said twice is one name.
        self._runs = [*dict.fromkeys(s.fills["run"] for s in senses if "run" in s.fills)]
        typed = [s.fills for s in senses if {"type", "family"} & set(s.fills)]
        self._types = [*dict.fromkeys(fills.get("type") or fills["family"] for fills in typed)]
        """The instance types of the line, in its order."""
        self._target = next((s.fills["unknown"] for s in senses[-1:] if "unknown" in s.fills), "")
        """The last word of the line, where nobody knows it."""

        self.conditions: dict[tuple[str, bool], list[str]] = {}
        """The names by their dimension, each by the first of its kinds, and whether left out."""
        negated = False
        for sense in senses:
            if "untagged" in sense.means:
                self.conditions.setdefault(("team", False), []).append("")
            kind = next((kind for kind in _DIMENSIONS if kind in sense.fills), "")
            if kind:
                name = {"owner": "tag:owner", "type": "instance_type"}.get(kind, kind)
                values = self.conditions.setdefault((name, negated), [])
                # A bucket of S3 says its service twice.
                values += [sense.fills[kind]] if sense.fills[kind] not in values else []
            negated = "without" in sense.means

        self._fills = self._filled()
        self._kinds = [self._kinds_of(sense) for sense in senses]

    def candidates(self) -> Iterator[_Candidate]:
        """Yield every row whose needs are met, with its lines filled."""
        means = {word for sense in self._senses for word in sense.means}
        means |= {f"@{kind}" for kinds in self._kinds for kind in kinds}
        for order, row in enumerate(_rows()):
            if not all(need & means for need in row.needs):
                continue
            lines = tuple(line for line in (self._fill(pattern) for pattern in row.lines) if line)
            if not lines:
                continue

            # A piece that matters counts four times one that may be left aside.
            explained = unexplained = 0
            for sense, kinds in zip(self._senses, self._kinds, strict=True):
                marks = {f"@{kind}" for kind in kinds}
                if sense.means & row.concepts or kinds & row.slots or marks & row.concepts:
                    explained += 1 if sense.weak else 4
                elif not sense.weak:
                    unexplained += 1
            yield _Candidate(lines, explained, unexplained, order, row)

    def offers(
        self, candidates: Sequence[_Candidate], likely: Mapping[str, float]
    ) -> tuple[str, ...]:
        """Return the lines to offer: of each likely command the one that explains most."""
        by_command: dict[str, _Candidate] = {}
        for candidate in candidates:
            by_command.setdefault(candidate.command, candidate)
        weights = dict(likely)
        lines: list[str] = []
        if candidates:
            if candidates[0].command in likely or not likely:
                lines += self.apart(candidates[0].row)
            for command, candidate in by_command.items():
                support = _TABLE * candidate.explained / candidates[0].explained
                weights[command] = weights.get(command, 0.0) + support
        filled = {
            command: by_command[command].lines
            if command in by_command
            else tuple(filter(None, map(self._fill, load_offers().get(command, ()))))[:1]
            for command in weights
        }
        # What is named is there to be asked about: lines that take it go before others.
        filled = {command: tuple(map(self.completed, texts)) for command, texts in filled.items()}
        for command, texts in filled.items():
            weights[command] += _TABLE * any(map(self.is_met, texts))
        for command in sorted(weights, key=lambda command: -weights[command]):
            lines += filled[command]
        return tuple(dict.fromkeys(lines))

    def _kinds_of(self, sense: Sense) -> set[str]:
        """Return the slots that a piece can fill, as rows name them."""
        weekly = sense.fills.get("by") == "week"
        kinds = {"week"} if weekly else set(sense.fills)
        named = not kinds.isdisjoint(_DIMENSIONS) or "untagged" in sense.means
        of_two = not kinds.isdisjoint(("type", "family")) and len(self._types) == 2
        month = month_of(self._now)
        window = Window.parse(sense.fills["window"], self._now) if "window" in kinds else None
        can_fill = {
            "where": named and not weekly,
            "thismonth": window and window.start in month and window.end <= month.end,
            "two": of_two,
            "old": of_two,
            "new": of_two,
            "run2": "run" in kinds and len(self._runs) == 2,
            "command": sense.means & self._commands,
            "rule": sense.means & self._rules,
            "as": self._target and sense.fills.get("unknown") == self._target,
        }
        return kinds.union(kind for kind, fills in can_fill.items() if fills)

    def _filled(self) -> dict[str, str]:
        """Return the text of each slot."""
        # The first piece that fills a slot counts.
        named = {slot: text for x in reversed(self._senses) for slot, text in x.fills.items()}
        names, types, runs = self._names, self._types, self._runs
        # The one with GPUs is left behind.
        old, new = sorted(types, key=is_neuron) if len(types) == 2 else ("", "")
        second, twin = runs[1] if len(runs) == 2 else "", names.twin(runs[0]) if runs else ""
        gpu_run = next((run for run in names.of("run") if "gpu" in run and names.twin(run)), "")
        gpus = any(kind.startswith("p5.") for kind in names.of("type"))
        by = [s.fills["by"] for s in self._senses if s.fills.get("by", "week") != "week"]
        fills = named | {
            "type": types[0] if types else "",
            "old": old,
            "new": new,
            "run2": second,
            "twin": second or twin,
            # The fleet itself fills these: its main type, and a run that has a twin on GPUs.
            "mytype": names.main_type or "trn1.32xlarge",
            "gputype": "p5.48xlarge" if gpus else "",
            "gpurun": gpu_run,
            "chiprun": names.twin(gpu_run) if gpu_run else "",
            "maincluster": names.main_cluster,
            "mainrun": self._main_run(),
            "by": ",".join(dict.fromkeys(by)),
            "where": " ".join(
                f"{name}{'!=' if negated else '='}{quote(','.join(values)) if any(values) else ''}"
                for (name, negated), values in self.conditions.items()
            ),
            "command": self._first_meaning(self._commands - {"help"}),
            "rule": self._first_meaning(self._rules),
            "as": self._target,
        }
        return {kind: value for kind, value in fills.items() if value}

    def _main_run(self) -> str:
        """Return the run to offer where none is named: of the model whose name stands in the line."""
        runs = self._names.of("run")
        models = [
            f"{sense.fills['unknown']}-" for sense in self._senses if "unknown" in sense.fills
        ]
        return next((run for run in runs if run.startswith(tuple(models))), next(iter(runs), ""))

    def _first_meaning(self, words: set[str]) -> str:
        """Return the first word that a piece means of these, "" for none."""
        return next((word for s in self._senses for word in sorted(s.means & words)), "")

    def is_met(self, line: str, slots: Set[str] | None = None) -> bool:
        """Return whether a line takes every name, time and amount of the question.

        Where a row explains the question, those that fill its slots. A name must be one that the
        fleet knows, if it knows any of its kind, and two times must go together.
        """
        senses = [
            sense
            for sense, kinds in zip(self._senses, self._kinds, strict=True)
            if slots is None or kinds & slots
        ]
        familiar = all(
            value in self._names.of(kind) or not self._names.of(kind)
            for sense in senses
            for kind, value in sense.fills.items()
            if kind in _OF_FLEET
        )
        compared = slots is not None and self._fills.get("pair") != "no"
        return (
            familiar and (compared or "pair" not in self._fills) and not self._missing(line, senses)
        )

    def completed(self, line: str) -> str:
        """Return a line with what the question names that its command takes by an argument."""
        command = attempted(line)
        changes: list[tuple[dict[str, str], list[Filter]]] = [
            ({}, [Filter(name, tuple(values), negated)])
            for (name, negated), values in self.conditions.items()
            if not all(value in line for value in values)
        ]
        if self._fills.get("by", line) not in line:
            changes.append(({"by": self._fills["by"]}, []))
        for sense in self._missing(line, self._senses):
            changes += [
                ({_ARGUMENTS.get(kind, kind): text}, []) for kind, text in sense.fills.items()
            ]
        for parameter in command.parameters if command else ():
            chosen = [s.text for s in self._senses if s.text in parameter.arg.choices]
            changes += [({parameter.word: text}, []) for text in chosen if text not in line]

        for values, filters in changes:
            with suppress(WrongInput):
                line = amended(line, values, filters) or line
        return line

    def _missing(self, line: str, senses: Sequence[Sense]) -> list[Sense]:
        """Return the pieces that name something which a line does not have."""
        command = attempted(line)
        timed = command is not None and any(each.takes(Window) for each in command.parameters)
        return [
            sense
            for sense in senses
            if ("future" in sense.means or set(sense.fills) - {"unknown", "by", "now", "rule"})
            and not any(text in line for text in sense.fills.values())
            and (timed or "now" not in sense.fills)
        ]

    def apart(self, row: _Row) -> tuple[str, ...]:
        """Return lines for each of several names or times that no answer takes together."""
        window = self._fills.get("window", "7d")
        several = {
            name: values
            for (name, negated), values in self.conditions.items()
            if len(values) > 1 and not negated
        }
        for name, values in several.items() if "where" in row.slots else ():
            together = f"cost {window} by {name} {name}={quote(','.join(values))}"
            return together, *(f"cost {window} {name}={quote(value)}" for value in values)
        if "other" in self._fills and "window" in row.slots:
            where, windows = self._fills.get("where", ""), (window, self._fills["other"])
            return tuple(f"cost {span} {where}".strip() for span in windows)
        return ()

    def _fill(self, line: str) -> str:
        """Return a row's line with its slots filled, "" where one that it needs has nothing."""

        def is_filled(text: str) -> bool:
            return all(self._fills.get(name) or default for name, default in _SLOT.findall(text))

        line = _PART.sub(lambda match: match[1] if is_filled(match[1]) else "", line)
        if not is_filled(line):
            return ""
        filled = _SLOT.sub(lambda match: self._fills.get(match[1]) or match[2], line)
        return " ".join(filled.split())
