"""Take a line apart into the senses of its words and the names it may speak of."""

from __future__ import annotations

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, cached_property
from importlib.resources import files

from bot.grammar.plain.times import find_times
from bot.model.fleet import Instance, InstanceType, Inventory
from bot.model.run import Run

_FOLDED = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "’": "'", "‘": "'", "`": " "})
_LEAST = 4
"""Letters of a word that may have one wrong."""


def folded(text: str) -> str:
    """Return a text as it is compared: without capitals and umlauts."""
    return text.lower().translate(_FOLDED)


@dataclass(frozen=True)
class Names:
    """Hold names by kind.

    `cluster` `team` `run` `type` `region` `zone` `account` `owner` `project` `package` `rule`.
    """

    kinds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    families: Mapping[str, str] = field(default_factory=dict)
    """The instance type that a family's name stands for."""
    main_type: str = ""
    """The Neuron type of most nodes."""
    main_cluster: str = ""
    """The largest cluster that runs on GPUs, else the largest: the first to migrate."""

    @cached_property
    def folded(self) -> Mapping[str, tuple[tuple[str, str], ...]]:
        """Return the kinds and names by their folded text."""
        every: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        for kind, names in self.kinds.items():
            for name in names:
                every[folded(name)].append((kind, name))
        return {text: tuple(pairs) for text, pairs in every.items()}

    @cached_property
    def slips(self) -> Mapping[str, frozenset[str]]:
        """Return the folded names by each text that one left-out letter makes of them."""
        return slips_of(self.folded)

    def of(self, kind: str) -> tuple[str, ...]:
        """Return the names of one kind."""
        return self.kinds.get(kind, ())

    def twin(self, run: str) -> str:
        """Return the run that is told apart from another by `gpu` alone, "" for none."""
        every = self.of("run")
        bare = run.removesuffix("-gpu").removeprefix("gpu-")
        return next(
            (
                other
                for other in every
                if other != run and other in (bare, f"{bare}-gpu", f"gpu-{bare}")
            ),
            "",
        )


def slips_of(words: Iterable[str]) -> Mapping[str, frozenset[str]]:
    """Return words by each text that leaving out one of their letters makes."""
    slips: defaultdict[str, set[str]] = defaultdict(set)
    for word in words:
        if len(word) >= _LEAST and " " not in word:
            for text in _shorter(word):
                slips[text].add(word)
    return {text: frozenset(words) for text, words in slips.items()}


def misspelt(word: str, words: Iterable[str], slips: Mapping[str, frozenset[str]]) -> Iterator[str]:
    """Yield the words that differ from a word by one letter: left out, put in, changed or swapped.

    Digits must be the same.

    A word of four letters or fewer may be another word too, which no table holds: there a letter is
    left out, or two are swapped.
    """
    near = set(slips.get(word, ()))
    if len(word) >= _LEAST:
        for text in _shorter(word):
            near |= slips.get(text, frozenset())
            if text in words:
                near.add(text)
    digits = [letter for letter in word if letter.isdigit()]
    yield from (
        other
        for other in sorted(near)
        if _may_slip(word, other)
        and _one_apart(word, other)
        and digits == [x for x in other if x.isdigit()]
    )


def _may_slip(word: str, other: str) -> bool:
    return len(word) > _LEAST or len(other) > len(word) or sorted(word) == sorted(other)


def _shorter(word: str) -> set[str]:
    return {word[:n] + word[n + 1 :] for n in range(len(word))}


def _one_apart(word: str, other: str) -> bool:
    """Tell whether two words that share a shorter one differ by one letter, or by two neighbours swapped."""
    if len(word) != len(other):
        return True
    apart = [n for n, (a, b) in enumerate(zip(word, other, strict=True)) if a != b]
    if len(apart) == 1:
        return True
    return (
        len(apart) == 2
        and apart[1] == apart[0] + 1
        and word[apart[0]] == other[apart[1]]
        and word[apart[1]] == other[apart[0]]
    )


def names_of(
    inventory: Inventory,
    runs: Sequence[Run],
    types: Mapping[str, InstanceType],
    more: Mapping[str, Iterable[str]],
) -> Names:
    """Return the names of a fleet, of every instance type, and `more` kinds of others."""
    instances = list(inventory.instances.values())
    kinds = {
        kind: {one.labels.get(kind) for one in instances}
        for kind in ("cluster", "team", "region", "zone", "account", "project")
    }
    kinds["owner"] = {one.owner for one in instances}
    kinds["run"] = {run.labels.job for run in runs}
    kinds["type"] = set(types)
    for kind, names in more.items():
        kinds[kind] = kinds.get(kind, set()) | set(names)
    known = {kind: tuple(sorted(names - {""})) for kind, names in kinds.items()}
    return Names(known, families_of(types), *_main(instances, types))


def _main(instances: Iterable[Instance], types: Mapping[str, InstanceType]) -> tuple[str, str]:
    """Return the Neuron type of most nodes, and the cluster that one would migrate first."""
    kinds: Counter[str] = Counter()
    clusters: Counter[tuple[bool, str]] = Counter()
    for one in instances:
        kind = types.get(one.labels.instance_type)
        if one.running and kind:
            kinds[kind.name] += kind.has_neuron
            clusters[not kind.has_neuron, one.labels.cluster] += 1
    kind_name = max(sorted(kinds), key=lambda name: kinds[name], default="")
    largest = max(
        (x for x in sorted(clusters) if x[1]),
        key=lambda x: (x[0], clusters[x]),
        default=(False, ""),
    )
    return kind_name, largest[1]


def families_of(types: Mapping[str, InstanceType]) -> Mapping[str, str]:
    """Return the largest type of each family."""
    largest: dict[str, InstanceType] = {}
    for kind in types.values():
        family = kind.name.partition(".")[0]
        known = largest.get(family)
        if known is None or (kind.chips, kind.vcpus) > (known.chips, known.vcpus):
            largest[family] = kind
    return {family: kind.name for family, kind in largest.items()}


_PACKAGE = "bot.grammar.plain"
_LONGEST = 5
"""Words of a phrase at most."""
_SHORT = (
    (r"\bwhat's\b", "what is"), (r"\bwho's\b", "who is"), (r"\bi'm\b", "i am"), (r"\bwe're\b", "we are"), (r"\bit's\b", "it is"),
    (r"\bi'll\b", "i will"), (r"\bhow's\b", "how is"), (r"\bwhere's\b", "where is"), (r"\bthat's\b", "that is"),
    (r"\blet's\b", "let us"), (r"n't\b", " not"), (r"'s\b", ""), (r"s'(?=\s|$)", "s"), (r"\s&\s", " and "),
    (r"(?<=[a-z])/(?=(?:day|hour|team|cluster|service|month|node|run|region|account|token|epoch|request)\b)", " per "),
)  # fmt: skip
_AMOUNTS = (
    (r"(\d[\d,]*(?:\.\d+)?)\s*(?:b|bn|billion)(?:\s+parameters?)?", "params", "{}B"),
    (r"(\d[\d,]*(?:\.\d+)?)\s*(?:m|million)\s+parameters?", "params", "{}M"),
    (r"\$?(\d[\d,]*(?:\.\d+)?)\s*k(?:\s*(?:usd|dollars?))?", "thousands", "{}"),
    (r"(\d+(?:\.\d+)?)\s*(?:%|percent|prozent)", "percent", "{}%"),
    (r"([a-z][\w.-]*==[\w.]+)", "package", "{}"),
    (r"([a-z]\d[a-z]\d[a-z0-9]{3,}|[a-z](?=[a-z]*\d)[0-9a-f]{8,11})", "alert", "{}"),
    (r"\$?(\d[\d,]*(?:\.\d+)?)(?:\s*(?:usd|dollars?))?", "number", "{}"),
)  # fmt: skip
_EDGES = r"(?<![\w.$/-])", r"(?![\w/-]|\.\d)"


@dataclass(frozen=True)
class Sense:
    """Hold a piece of a line: its words, their meanings, and the slots that they can fill."""

    start: int
    text: str
    means: frozenset[str] = frozenset()
    """Words of the table of words, fillers left out."""
    fills: Mapping[str, str] = field(default_factory=dict)
    weak: bool = False
    """Nothing is lost where no reading uses it."""
    corrected: bool = False


@dataclass(frozen=True)
class Lexicon:
    """Hold the phrases that are known everywhere."""

    means: Mapping[str, frozenset[str]]
    dimensions: Mapping[str, str]
    services: Mapping[str, str]
    fillers: frozenset[str]
    words: frozenset[str]
    """Every single word of them."""
    slips: Mapping[str, frozenset[str]]

    def knows(self, phrase: str) -> bool:
        """Tell whether a phrase stands in a table."""
        return (
            phrase in self.means
            or phrase in self.dimensions
            or phrase in self.services
            or phrase in self.fillers
        )


@cache
def load_lexicon() -> Lexicon:
    """Read the tables beside this module, once."""
    means: defaultdict[str, set[str]] = defaultdict(set)
    for meaning, phrase in _table("words.csv", "means"):
        means[phrase].add(meaning)
    dimensions = {phrase: name for name, phrase in _table("dimensions.csv", "dimension")}
    services = {phrase: code for code, phrase in _table("services.csv", "code")}
    fillers = frozenset(phrase for _, phrase in _table("fillers.csv", "language"))
    words = frozenset(
        word for phrase in (*means, *dimensions, *services, *fillers) for word in phrase.split()
    )
    frozen = {phrase: frozenset(each) for phrase, each in means.items()}
    return Lexicon(frozen, dimensions, services, fillers, words, slips_of(words))


def _table(name: str, first: str) -> Iterator[tuple[str, str]]:
    text = (files(_PACKAGE) / name).read_text(encoding="utf-8")
    for row in csv.DictReader(text.splitlines()):
        yield from ((row[first], folded(phrase)) for phrase in row["said"].split("|") if phrase)


def is_filler(word: str) -> bool:
    """Tell whether a word only holds a sentence together."""
    return normalized(word).partition(" ")[0] in load_lexicon().fillers


def normalized(line: str) -> str:
    """Return a line as it is looked up: folded, short forms written out, one space between words."""
    text = folded(line)
    for pattern, long in _SHORT:
        text = re.sub(pattern, long, text)
    text = re.sub(r"[?!;:\"“”„(){}\[\]]+(?=\s|$)|(?<!\w)[\"“”„(){}\[\]]+", " ", text)
    text = re.sub(r",(?=\s|$)", " ", text)
    return " ".join(re.sub(r"(?<=[a-z])\.(?=\s|$)", " ", text).split())


def senses_of(line: str, names: Names, now: datetime) -> list[Sense]:
    """Return the pieces of a line in their order, fillers left out."""
    text = normalized(line)
    found = [
        Sense(one.start, text[one.start : one.end], fills=one.fills)
        for one in find_times(text, now)
        if text[one.start : one.end] not in names.folded
    ]
    for pattern, kind, form in _AMOUNT_PATTERNS:
        for match in pattern.finditer(text):
            free = not any(
                match.start() < one.start + len(one.text) and one.start < match.end()
                for one in found
            )
            if free and match[0] not in names.folded:
                found.append(
                    Sense(
                        match.start(),
                        match[0],
                        fills=_amount(kind, form.format(match[1].replace(",", ""))),
                    )
                )
    pieces: list[Sense] = []
    at = 0
    for one in sorted(found, key=lambda one: one.start):
        pieces += [*_phrases(text[at : one.start], at, names), one]
        at = one.start + len(one.text)
    return _qualified([*pieces, *_phrases(text[at:], at, names)])


_AMOUNT_PATTERNS = tuple(
    (re.compile(_EDGES[0] + pattern + _EDGES[1]), kind, form) for pattern, kind, form in _AMOUNTS
)


def _amount(kind: str, text: str) -> dict[str, str]:
    if kind == "thousands":
        return {"usd": f"{float(text) * 1000:.0f}"}
    if kind == "number":
        return {
            "usd": text,
            **({"nodes": text} if text.isdigit() and 0 < int(text) < 10_000 else {}),
            "version": text,
        }
    return {kind: text.upper() if kind == "params" else text}


def _phrases(text: str, offset: int, names: Names) -> Iterator[Sense]:
    """Yield the senses of a stretch of words: the longest known phrase first."""
    lexicon = load_lexicon()
    words = [(match.start() + offset, match[0]) for match in re.finditer(r"\S+", text)]
    while words:
        for length in range(min(_LONGEST, len(words)), 0, -1):
            phrase = " ".join(word for _, word in words[:length])
            if phrase in names.folded or lexicon.knows(phrase) or length == 1:
                yield _sense(words[0][0], phrase, names, lexicon)
                del words[:length]
                break


def _sense(start: int, phrase: str, names: Names, lexicon: Lexicon) -> Sense:
    if phrase in names.folded or lexicon.knows(phrase) or phrase in names.families:
        return _known(start, phrase, names, lexicon)
    if len(phrase) >= 3 and not phrase.isdigit():
        near = [
            *misspelt(phrase, lexicon.words, lexicon.slips),
            *misspelt(phrase, names.folded, names.slips),
        ]
        senses = [
            _known(start, word, names, lexicon, corrected=True) for word in dict.fromkeys(near)
        ]
        senses = [one for one in senses if one.means or one.fills] or senses
        if senses and all(
            (one.means, dict(one.fills)) == (senses[0].means, dict(senses[0].fills))
            for one in senses
        ):
            return senses[0]
    return Sense(start, phrase, fills={"unknown": phrase})


def _known(
    start: int, phrase: str, names: Names, lexicon: Lexicon, *, corrected: bool = False
) -> Sense:
    fills = dict(names.folded.get(phrase, ()))
    if phrase in names.families:
        fills["family"] = names.families[phrase]
    if phrase in lexicon.dimensions:
        fills["by"] = lexicon.dimensions[phrase]
    if phrase in lexicon.services:
        fills["service"] = lexicon.services[phrase]
    means = lexicon.means.get(phrase, frozenset())
    weak = not fills and (not means or means <= WEAK)
    return Sense(start, phrase, means, fills, weak, corrected)


WEAK = frozenset(
    {
        "by",
        "should",
        "who",
        "howmuch",
        "status",
        "happened",
        "end",
        "top",
        "set",
        "amonth",
        "number",
        "ack",
        "about",
        "what is a",
    }
)
"""Words that a reading may leave aside."""
_QUALIFIED = {
    "cluster",
    "team",
    "run",
    "region",
    "zone",
    "account",
    "owner",
    "project",
    "service",
    "namespace",
    "pod",
}


def _qualified(pieces: list[Sense]) -> list[Sense]:
    """Let a kind's word before or after a name choose among its kinds.

    `team search`, `the vision cluster`, `tag project`.
    """
    pieces = [one for one in pieces if not (one.weak and not one.means)]
    joined: list[Sense] = []
    for n, one in enumerate(pieces):
        kind = one.fills.get("by", "").removeprefix("tag:")
        kind = "run" if "runs" in one.means and not kind else kind
        after = pieces[n + 1] if n + 1 < len(pieces) else None
        if joined and joined[-1].fills.get("used") == one.text:
            joined[-1] = _without_mark(joined[-1])
            continue
        if one.text == "tag" and after and (joined[-1].text if joined else "") not in ("pro", "je"):
            named = after.fills.get("unknown") or after.text
            joined.append(
                Sense(one.start, f"tag {named}", fills={"by": f"tag:{named}", "used": after.text})
            )
        elif (
            kind in _QUALIFIED
            and after
            and (kind in after.fills or (set(after.fills) == {"unknown"} and kind != "run"))
        ):
            value = after.fills.get(kind) or after.fills["unknown"]
            joined.append(
                Sense(
                    one.start, f"{one.text} {after.text}", fills={kind: value, "used": after.text}
                )
            )
        elif (
            kind in _QUALIFIED
            and joined
            and kind in joined[-1].fills
            and len(joined[-1].fills) > 1
            and "by" not in joined[-1].fills
        ):
            joined[-1] = Sense(
                joined[-1].start,
                f"{joined[-1].text} {one.text}",
                fills={kind: joined[-1].fills[kind]},
            )
        else:
            joined.append(one)
    return [_without_mark(one) for one in joined]


def _without_mark(one: Sense) -> Sense:
    if "used" not in one.fills:
        return one
    return Sense(
        one.start,
        one.text,
        one.means,
        {kind: value for kind, value in one.fills.items() if kind != "used"},
    )
