"""Take a line apart into the senses of its words and the names it may speak of."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from difflib import get_close_matches
from functools import cache, cached_property

from bot.grammar.plain.times import TIME_WORDS, find_times
from bot.model.codec import by_key, table
from bot.model.fleet import InstanceType, Inventory
from bot.model.run import Run

_FOLDED = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "’": "'", "‘": "'", "`": " "})
_LEAST = 4
"""Letters of a word that may have one wrong."""

_ACCENTS = re.compile("[\u0300-\u036f]")


def folded(text: str) -> str:
    """Return a text as it is compared: without capitals, umlauts and accents."""
    text = text.lower().translate(_FOLDED)
    if text.isascii():
        return text
    parts = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text))
    return unicodedata.normalize("NFC", _ACCENTS.sub("", parts))


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
        pairs = by_key(
            (folded(name), (kind, name)) for kind, names in self.kinds.items() for name in names
        )
        return {text: tuple(of_text) for text, of_text in pairs.items()}

    @cached_property
    def slips(self) -> Mapping[str, frozenset[str]]:
        """Return the folded names by each text that one left-out letter makes of them."""
        return slips_of(self.folded)

    def of(self, kind: str) -> tuple[str, ...]:
        """Return the names of one kind."""
        return self.kinds.get(kind, ())

    def twin(self, run: str) -> str:
        """Return the run that is told apart from another by `gpu` alone, "" for none."""
        bare = run.removesuffix("-gpu").removeprefix("gpu-")
        twins = {bare, f"{bare}-gpu", f"gpu-{bare}"} - {run}
        return next((name for name in self.of("run") if name in twins), "")


def slips_of(words: Iterable[str]) -> Mapping[str, frozenset[str]]:
    """Return words by each text that leaving out one of their letters makes."""
    long = (word for word in words if len(word) >= _LEAST and " " not in word)
    slips = by_key((text, word) for word in long for text in _shorter(word))
    return {text: frozenset(of_text) for text, of_text in slips.items()}


def misspelt(word: str, words: Iterable[str], slips: Mapping[str, frozenset[str]]) -> Iterator[str]:
    """Yield the words that differ from a word by one letter: left out, put in, changed or swapped.

    Digits must be the same.

    A word of four letters or fewer may be another word too, which no table holds: there a letter is
    left out, or two are swapped.
    """
    shorter = _shorter(word) if len(word) >= _LEAST else set[str]()
    near = {text for text in shorter if text in words}
    near.update(*(slips.get(text, ()) for text in (word, *shorter)))

    digits = [letter for letter in word if letter.isdigit()]
    for candidate in sorted(near):
        if digits == [letter for letter in candidate if letter.isdigit()]:
            swapped = sorted(word) == sorted(candidate)
            may_slip = len(word) > _LEAST or len(candidate) > len(word) or swapped
            if may_slip and _is_one_slip(word, candidate):
                yield candidate


def _shorter(word: str) -> set[str]:
    return {word[:n] + word[n + 1 :] for n in range(len(word))}


def _is_one_slip(word: str, candidate: str) -> bool:
    """Return whether two words that share a shorter one differ by a letter, or a swap of two."""
    if len(word) != len(candidate):
        return True
    apart = [n for n, (a, b) in enumerate(zip(word, candidate, strict=True)) if a != b]
    neighbours = len(apart) == 2 and apart[1] == apart[0] + 1
    return len(apart) == 1 or (neighbours and sorted(word) == sorted(candidate))


def names_of(
    inventory: Inventory,
    runs: Sequence[Run],
    types: Mapping[str, InstanceType],
    more: Mapping[str, Iterable[str]],
) -> Names:
    """Return the names of a fleet, of every instance type, and `more` kinds of others."""
    instances = list(inventory.instances.values())
    kinds = {
        **{
            kind: {instance.labels.get(kind) for instance in instances}
            for kind in ("cluster", "team", "region", "zone", "account", "project")
        },
        "owner": {instance.owner for instance in instances},
        "run": {run.labels.job for run in runs},
        "type": set(types),
    }
    kinds |= {kind: kinds.get(kind, set()) | set(names) for kind, names in more.items()}
    by_kind = {kind: tuple(sorted(names - {""})) for kind, names in kinds.items()}

    nodes: Counter[str] = Counter()
    clusters: Counter[tuple[bool, str]] = Counter()
    for instance in instances:
        hardware = types.get(instance.labels.instance_type)
        if instance.running and hardware:
            nodes[hardware.name] += hardware.has_neuron
            if instance.labels.cluster:
                clusters[not hardware.has_neuron, instance.labels.cluster] += 1
    main_type = max(sorted(nodes), key=lambda name: nodes[name], default="")
    # GPUs are migrated first.
    _, main_cluster = max(
        sorted(clusters), key=lambda of: (of[0], clusters[of]), default=(False, "")
    )
    return Names(by_kind, families_of(types), main_type, main_cluster)


def families_of(types: Mapping[str, InstanceType]) -> Mapping[str, str]:
    """Return the largest type of each family."""
    families = by_key((kind.name.partition(".")[0], kind) for kind in types.values())
    return {
        family: max(kinds, key=lambda kind: (kind.chips, kind.vcpus)).name
        for family, kinds in families.items()
    }


_PACKAGE = "bot.grammar.plain"
_LONGEST = 5
"""Words of a phrase at most."""
_SHORT = (
    (r"\bwhat's\b", "what is"), (r"\bwho's\b", "who is"), (r"\bi'm\b", "i am"),
    (r"\bwe're\b", "we are"), (r"\bit's\b", "it is"), (r"\bi'll\b", "i will"),
    (r"\bhow's\b", "how is"), (r"\bwhere's\b", "where is"), (r"\bthat's\b", "that is"),
    (r"\blet's\b", "let us"), (r"n't\b", " not"), (r"'s\b", ""), (r"s'(?=\s|$)", "s"),
    (r"\s&\s", " and "),
    (r"(?<=[a-z])/(?=(?:day|hour|team|cluster|service|month|node|run|region|account|token|epoch"
     r"|request)\b)", " per "),
    (r"[?!;:\"“”„(){}\[\]]+(?=\s|$)|(?<!\w)[\"“”„(){}\[\]]+", " "),
    (r",(?=\s|$)", " "), (r"[\u3001\u3002\uff1f\uff01\u00bf\u00a1]", " "),
)  # fmt: skip
"""Short forms with the words that they stand for, and signs that stand for none."""
_AMOUNTS = (
    (
        r"(\d[\d,]*(?:\.\d+)?)\s*(?:b|bn|billion|milliarden|mrd|milliards|mil millones)"
        r"(?:\s+param\w*)?",
        "params",
        "{}B",
    ),
    (r"(\d[\d,]*(?:\.\d+)?)\s*(?:m|million)\s+parameters?", "params", "{}M"),
    (r"\$?(\d[\d,]*(?:\.\d+)?)\s*k(?:\s*(?:usd|dollars?))?", "thousands", "{}"),
    (r"\$?(\d[\d,]*(?:\.\d+)?)\s*(?:millions?|millionen|millones|mio)(?:\s*(?:usd|dollars?))?", "millions", "{}"),
    (r"\$(\d[\d,]*(?:\.\d+)?)\s*m", "millions", "{}"),
    (r"(\d+(?:\.\d+)?)\s*(?:%|percent|prozent)", "percent", "{}%"),
    (r"([a-z][\w.-]*==[\w.]+)", "package", "{}"),
    (r"([\w./-]+\.(?:json|py|sbatch|sh|tf|toml|txt|ya?ml))", "file", "{}"),
    (r"(vol-[0-9a-f]+)", "volume", "{}"),
    (r"(i-[0-9a-f]{3,})", "instance", "{}"),
    (r"(m(?=[a-f]*\d)[0-9a-f]{7,11})", "silence", "{}"),
    (r"(s(?=[a-f]*\d)[0-9a-f]{7,11})", "suggestion", "{}"),
    (r"(x(?=[a-f]*\d)[0-9a-f]{7,11})", "action", "{}"),
    (r"(p(?=[a-f]*\d)[0-9a-f]{7,11})", "preview", "{}"),
    (
        r"([a-z]\d[a-z]\d[a-z0-9]{3,}|[a-z](?=[a-z]*\d)[0-9a-f]{8,11}"
        r"|(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{7,12})",
        "alert",
        "{}",
    ),
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

    @property
    def end(self) -> int:
        """Return where it ends."""
        return self.start + len(self.text)


@dataclass(frozen=True)
class Lexicon:
    """Hold the phrases that are known everywhere."""

    means: Mapping[str, frozenset[str]]
    dimensions: Mapping[str, str]
    charges: Mapping[str, Mapping[str, str]]
    """The service or line of a bill that a phrase names."""
    fillers: frozenset[str]
    words: frozenset[str]
    """Every single word of them."""
    slips: Mapping[str, frozenset[str]]

    def knows(self, phrase: str) -> bool:
        """Return whether a phrase stands in a table."""
        tables = (self.means, self.dimensions, self.charges, self.fillers)
        return any(phrase in table for table in tables)


@cache
def load_lexicon() -> Lexicon:
    """Read the tables beside this module, once."""
    means = by_key((phrase, meaning) for meaning, phrase in _table("words.csv", "means"))
    dimensions = {phrase: name for name, phrase in _table("dimensions.csv", "dimension")}
    charges = {
        phrase: {dimension: code}
        for condition, phrase in _table("services.csv", "condition")
        for dimension, _, code in [condition.partition("=")]
    }
    fillers = frozenset(phrase for _, phrase in _table("fillers.csv", "language"))
    words = frozenset(
        word for phrase in (*means, *dimensions, *charges, *fillers) for word in phrase.split()
    )
    frozen = {phrase: frozenset(meanings) for phrase, meanings in means.items()}
    return Lexicon(frozen, dimensions, charges, fillers, words, slips_of(words))


def _table(name: str, first: str, said: str = "said") -> Iterator[tuple[str, str]]:
    for row in table(_PACKAGE, name):
        yield from ((row[first], folded(phrase)) for phrase in row[said].split("|") if phrase)


@cache
def load_glossary() -> Mapping[str, str]:
    """Return the meaning of each term that trnbot's answers and AWS's pages use."""
    return {row["term"]: row["meaning"] for row in table(_PACKAGE, "glossary.csv")}


def term_of(words: str) -> str | None:
    """Return the term of the glossary that words name, in the singular or the plural."""
    wanted = words.casefold().strip()
    return next(
        (term for term in load_glossary() if wanted in (term.casefold(), f"{term}s".casefold())),
        None,
    )


_ELIDED = re.compile(
    r"(?<=\b[cdjlmnst])'(?=\w)|(?<=\bqu)'(?=\w)|-(?:t-)?(?=(?:[nv]ous|on|ils?|elles?|je|tu|moi)\b)"
)
"""Where French joins a word to the next."""
_SCRIPT = re.compile("[\u3040-\u30ff\u4e00-\u9fff]+")
"""Kana and kanji, which are written without spaces."""
_SCRIPTS = re.compile(
    "[\u3040-\u309f]+|[\u30a0-\u30ff]+|[\u4e00-\u9fff]+|[^\u3040-\u30ff\u4e00-\u9fff]+"
)
"""Where one script ends, a word of Japanese mostly ends too."""
_LEFT_OUT = re.compile(r"([a-z0-9][a-z0-9._-]*)\s*(?:以外|を?除いて|を?除く|抜き)[でのは]?")
"""Japanese leaves out the name before it, English the one after."""
_MYRIADS = re.compile(r"(\d[\d,]*(?:\.\d+)?)(万|億)")
"""Japanese counts in ten thousands, and in their hundred millions."""


@dataclass(frozen=True)
class Language:
    """Hold the phrases of one language with their English, the longest first."""

    english: Mapping[str, str]
    words: frozenset[str]
    pattern: re.Pattern[str]

    def translated(self, text: str) -> str:
        """Return a text with every phrase that is known in English."""
        return self.pattern.sub(lambda match: f" {self.english[match[0]]} ", text)


@cache
def load_languages() -> Mapping[str, Language]:
    """Read the table of concepts: French and Spanish by words, Japanese by its script."""
    languages = {}
    for code in ("fr", "es", "ja"):
        english: dict[str, str] = {}
        for concept, phrase in _table("languages.csv", "english", code):
            english.setdefault(_ELIDED.sub(" ", phrase) if code == "fr" else phrase, concept)
        either = "|".join(map(re.escape, sorted(english, key=len, reverse=True)))
        edges = ("", "") if code == "ja" else (r"(?<![\w.-])", r"(?![\w-])")
        words = frozenset(word for phrase in english for word in phrase.split())
        languages[code] = Language(english, words, re.compile(f"{edges[0]}(?:{either}){edges[1]}"))
    return languages


def in_english(text: str) -> str:
    """Return a folded text with the phrases of French, Spanish or Japanese in English.

    A line is of the language that most of its words are of; English and German words, which the
    other tables know, tell of none.
    """
    languages = load_languages()
    if _SCRIPT.search(text):
        text = _MYRIADS.sub(_in_millions, _LEFT_OUT.sub(r" without \1 ", text))
        return " ".join(_SCRIPTS.findall(languages["ja"].translated(text)))
    words = _ELIDED.sub(" ", text).split()
    common = load_lexicon().words
    spoken = {
        code: [word for word in words if word in languages[code].words] for code in ("fr", "es")
    }
    # A word that English or German has too tells of none, but where all else is equal.
    hits = {
        code: (sum(word not in common for word in of_code), len(of_code))
        for code, of_code in spoken.items()
    }
    code = max(hits, key=lambda code: hits[code])
    if hits[code][0] >= 2 or (hits[code][0] and not any(word in common for word in words)):
        return languages[code].translated(" ".join(words))
    return text


def is_foreign(line: str) -> bool:
    """Return whether a line is of another language than English, by its script or its words."""
    text = folded(line)
    if _SCRIPT.search(text):
        return True
    english, others = _words_by_tongue()
    words = _ELIDED.sub(" ", re.sub(r"[?!.,;:]", " ", text)).split()
    foreign = [word for word in words if word in others]
    return len(foreign) >= 2 or bool(foreign and english.isdisjoint(words))


@cache
def _words_by_tongue() -> tuple[frozenset[str], frozenset[str]]:
    """Return the words that English has, and those that another language alone has."""
    fillers, languages = by_key(_table("fillers.csv", "language")), load_languages()
    english = frozenset((*fillers["en"], *load_lexicon().means))
    others = languages["fr"].words | languages["es"].words | set(fillers["de"])
    return english, others - english


def _in_millions(match: re.Match[str]) -> str:
    """Return a number of myriads as English writes it: `50万` as 500k, `70億` as 7b."""
    number = float(match[1].replace(",", "")) * {"万": 1e4, "億": 1e8}[match[2]]
    scales = ((1e9, "b"), (1e6, " million"), (1e3, "k"))
    scale, sign = next(scale for scale in scales if number >= scale[0] or scale[1] == "k")
    return f"{number / scale:g}{sign} "


def is_filler(word: str) -> bool:
    """Return whether a word only holds a sentence together."""
    return normalized(word).partition(" ")[0] in load_lexicon().fillers


def normalized(line: str) -> str:
    """Return a line as it is looked up: folded, in English, short forms written out."""
    text = folded(line)
    for pattern, long in _SHORT:
        text = re.sub(pattern, long, text)
    text = in_english(text)
    return " ".join(re.sub(r"(?<=[a-z])\.(?=\s|$)", " ", text).split())


def senses_of(line: str, names: Names, now: datetime) -> list[Sense]:
    """Return the pieces of a line in their order, fillers left out."""
    text = _with_times_spelt(normalized(line), names, now)
    figures = [
        Sense(time.start, text[time.start : time.end], fills=time.fills)
        for time in find_times(text, now)
        if text[time.start : time.end] not in names.folded
    ]
    # A piece belongs to the first that takes it: times before amounts, amounts in their order.
    for pattern, kind, form in _AMOUNT_PATTERNS:
        for match in pattern.finditer(text):
            start, end = match.span()
            is_free = not any(start < sense.end and sense.start < end for sense in figures)
            if is_free and match[0] not in names.folded:
                fills = _amount(kind, form.format(match[1].replace(",", "")))
                figures.append(Sense(start, match[0], fills=fills))

    pieces: list[Sense] = []
    start = 0
    for sense in sorted(figures, key=lambda sense: sense.start):
        pieces += [*_phrases(text[start : sense.start], start, names), sense]
        start = sense.end
    return _qualified([*pieces, *_phrases(text[start:], start, names)])


def _with_times_spelt(text: str, names: Names, now: datetime) -> str:
    """Return a text without the slips in its times: `lst week`, `since tuesdy`.

    A word that nothing else knows is a slip of a time's word only where that makes a time.
    """
    words, known = text.split(), load_lexicon().words
    spelt = [
        word
        if word in known or word in names.folded or word in TIME_WORDS
        else next(misspelt(word, TIME_WORDS, _time_slips()), word)
        for word in words
    ]
    if spelt == words:
        return text

    mended_text = " ".join(spelt)
    times = find_times(mended_text, now)
    starts = [match.start() for match in re.finditer(r"\S+", mended_text)]
    is_time = [any(time.start <= start < time.end for time in times) for start in starts]
    return " ".join(
        mended if within else word
        for word, mended, within in zip(words, spelt, is_time, strict=True)
    )


@cache
def _time_slips() -> Mapping[str, frozenset[str]]:
    return slips_of(TIME_WORDS)


_AMOUNT_PATTERNS = tuple(
    (re.compile(_EDGES[0] + pattern + _EDGES[1]), kind, form) for pattern, kind, form in _AMOUNTS
)


_SCALES = {"thousands": 1e3, "millions": 1e6}


def _amount(kind: str, text: str) -> dict[str, str]:
    """Return the slots that an amount of a kind can fill."""
    match kind:
        case "thousands" | "millions":
            return {"usd": f"{float(text) * _SCALES[kind]:.0f}"}
        case "number":
            is_count = text.isdigit() and 0 < int(text) < 10_000
            counts = {"nodes": text, "number": text} if is_count else {}
            return {"usd": text, **counts, "version": text}
        case "params":
            return {"params": text.upper()}
    return {kind: text}


_JOINED = re.compile(r"(.+)[-/]([a-z]{3,})")
"""A name with a word, as German joins them: `llama-alarm`."""


def _phrases(text: str, offset: int, names: Names) -> Iterator[Sense]:
    """Yield the senses of a stretch of words: the longest known phrase first."""
    lexicon = load_lexicon()
    words: list[tuple[int, str]] = []
    for match in re.finditer(r"\S+", text):
        start, word = match.start() + offset, match[0]
        joined = _JOINED.fullmatch(word)
        if (
            joined
            and joined[1] in names.folded
            and not (word in names.folded or lexicon.knows(word))
        ):
            words += [(start, joined[1]), (start + joined.start(2), joined[2])]
        else:
            words.append((start, word))

    while words:
        for length in range(min(_LONGEST, len(words)), 0, -1):
            phrase = " ".join(word for _, word in words[:length])
            if phrase in names.folded or lexicon.knows(phrase) or length == 1:
                yield _sense_of(words[0][0], phrase, names, lexicon)
                del words[:length]
                break


def _sense_of(start: int, phrase: str, names: Names, lexicon: Lexicon) -> Sense:
    """Return the sense of a known phrase; of another word, that of the words it may be a slip of.

    Where those differ, nobody knows which is meant.
    """
    if phrase in names.folded or lexicon.knows(phrase) or phrase in names.families:
        return _known(start, phrase, names, lexicon)
    if len(phrase) >= 3 and not phrase.isdigit():
        near = [
            *misspelt(phrase, lexicon.words, lexicon.slips),
            *misspelt(phrase, names.folded, names.slips),
        ]
        senses = [_known(start, word, names, lexicon) for word in dict.fromkeys(near)]
        # One letter away from a word that may be left out stands many a word that may not.
        senses = [sense for sense in senses if sense.means or sense.fills] or [
            sense
            for sense in senses
            if len(sense.text) != len(phrase) or sorted(sense.text) == sorted(phrase)
        ]
        if senses and all(
            (sense.means, dict(sense.fills)) == (senses[0].means, dict(senses[0].fills))
            for sense in senses
        ):
            return senses[0]
    return Sense(start, phrase, fills={"unknown": phrase})


def _known(start: int, phrase: str, names: Names, lexicon: Lexicon) -> Sense:
    tables = {"family": names.families, "by": lexicon.dimensions}
    fills = {**dict(names.folded.get(phrase, ())), **lexicon.charges.get(phrase, {})}
    fills |= {kind: entries[phrase] for kind, entries in tables.items() if phrase in entries}
    means = lexicon.means.get(phrase, frozenset())
    return Sense(start, phrase, means, fills, not fills and (not means or means <= WEAK))


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


_BARE = ("", "run")
"""No kind at all, and the one whose names must be known: of the others any word may be a name."""


def _qualified(pieces: list[Sense]) -> list[Sense]:
    """Let a kind's word before or after a name choose among its kinds.

    `team search`, `the vision cluster`, `tag project`.
    """
    queue = deque(sense for sense in pieces if sense.means or not sense.weak)
    joined: list[Sense] = []
    while queue:
        sense = queue.popleft()
        following, previous = (queue[0] if queue else None), (joined[-1] if joined else None)
        kind = sense.fills.get("by", "").removeprefix("tag:")
        if "runs" in sense.means and not kind:
            kind = "run"
        if kind not in _QUALIFIED:
            kind = ""

        # After "by" stands a dimension, also with a slip that makes another short word of it.
        dimensions = load_lexicon().dimensions if previous and "by" in previous.means else {}
        for near in get_close_matches(sense.fills.get("unknown", ""), dimensions, 1, 0.7):
            sense = replace(sense, fills={"by": dimensions[near]})

        # `pro tag` and `je tag` are a day, and no tag; a time is no name of a tag.
        is_tag = sense.text == "tag" and not (previous and previous.text in ("pro", "je"))
        if is_tag and following and "window" not in following.fills:
            name = following.fills.get("unknown") or following.text
            joined.append(Sense(sense.start, f"tag {name}", fills={"by": f"tag:{name}"}))
            queue.popleft()
        elif following and (
            kind in following.fills or (set(following.fills) == {"unknown"} and kind not in _BARE)
        ):
            value = following.fills.get(kind) or following.fills["unknown"]
            text = f"{sense.text} {following.text}"
            joined.append(Sense(sense.start, text, fills={kind: value}))
            queue.popleft()
        elif (
            previous
            and kind in previous.fills
            and len(previous.fills) > 1
            and "by" not in previous.fills
        ):
            text = f"{previous.text} {sense.text}"
            joined[-1] = Sense(previous.start, text, fills={kind: previous.fills[kind]})
        else:
            joined.append(sense)
    return joined
