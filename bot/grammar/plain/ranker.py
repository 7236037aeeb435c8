"""Rank the commands that a line in plain words may mean, by lines that people wrote of each.

A table of examples is the whole model: it is counted when the first line in plain words is read,
and lines that an installation has learnt count like any of them. Naive Bayes over words, pairs of
words and runs of letters (Rennie et al., Tackling the Poor Assumptions of Naive Bayes, 2003).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain, pairwise
from typing import NamedTuple

from bot.grammar.plain.senses import Sense, normalized
from bot.model.codec import table

_RUNS = (3, 4)
"""Letters of the runs that tell a word with a slip from another word."""
_SMOOTHING = 0.05
"""What each feature is taken to have been seen of every command: the best of six for other lines."""
_MASKED = (
    "pair",
    "alert",
    "run",
    "cluster",
    "team",
    "type",
    "family",
    "region",
    "package",
    "window",
)
"""Slots that stand in a line for what fills them."""


class Example(NamedTuple):
    """Hold a line in plain words and the command that it means."""

    text: str
    command: str


class Ranked(NamedTuple):
    """Hold a command, and how likely it is meant: the shares of all commands sum to 1."""

    command: str
    share: float


class Ranker:
    """Tell which commands a text may mean, from examples."""

    def __init__(self, examples: Iterable[Example]) -> None:
        counted = [(_features(text), command) for text, command in examples]
        documents = Counter(chain.from_iterable(x for blocks, _ in counted for x in blocks))
        self._rarity = {
            feature: math.log((1 + len(counted)) / (1 + number)) + 1
            for feature, number in documents.items()
        }
        weights: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
        totals: defaultdict[str, float] = defaultdict(float)
        for blocks, command in counted:
            for feature, weight in self._weighted(blocks).items():
                weights[feature][command] += weight
                totals[command] += weight

        floor = _SMOOTHING * len(weights)
        self._unseen = {
            command: math.log(_SMOOTHING / (total + floor)) for command, total in totals.items()
        }
        self._seen: Mapping[str, Mapping[str, float]] = {
            feature: {
                command: math.log(1 + weight / _SMOOTHING) for command, weight in of_command.items()
            }
            for feature, of_command in weights.items()
        }

    def knows(self, text: str) -> bool:
        """Return whether any word of a text stands in an example."""
        return any(word in self._rarity for word in text.split())

    def rank(self, text: str) -> Sequence[Ranked]:
        """Return every command for a masked text, the likeliest first; none where no word is known."""
        if not self.knows(text):
            return ()
        weighted = self._weighted(_features(text))
        length = sum(weighted.values())
        scores = {command: length * unseen for command, unseen in self._unseen.items()}
        for feature, weight in weighted.items():
            for command, gain in self._seen[feature].items():
                scores[command] += weight * gain

        best = max(scores.values())
        # Of texts whose first command has a share of .8 or more, nine in ten mean it.
        odds = {command: math.exp(score - best) for command, score in scores.items()}
        total = sum(odds.values())
        ranked = (Ranked(command, odd / total) for command, odd in odds.items())
        return sorted(ranked, key=lambda entry: (-entry.share, entry.command))

    def _weighted(self, blocks: Iterable[Mapping[str, int]]) -> dict[str, float]:
        """Return the weights of known features: rare ones more, words and letters of one length."""
        weighted: dict[str, float] = {}
        for features in blocks:
            block = {
                feature: rarity if number == 1 else (1 + math.log(number)) * rarity
                for feature, number in features.items()
                if (rarity := self._rarity.get(feature))
            }
            length = math.hypot(*block.values())
            weighted |= {feature: weight / length for feature, weight in block.items()}
        return weighted


def _features(text: str) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Count the words of a text with its pairs of words, and the runs of letters in each word."""
    words = text.split()
    pairs = (f"{first} {second}" for first, second in pairwise(words))
    return Counter([*words, *pairs]), Counter(chain.from_iterable(map(_runs_of, words)))


@lru_cache(maxsize=16_384)
def _runs_of(word: str) -> tuple[str, ...]:
    """Return the runs of letters in a word; most words of the examples stand in several."""
    padded = f" {word} "
    return tuple(
        f"#{padded[start : start + length]}"
        for length in _RUNS
        for start in range(len(padded) - length + 1)
    )


def masked(line: str, senses: Sequence[Sense]) -> str:
    """Return a line in which names and times stand as the slots that they fill."""
    text = normalized(line)
    for sense in sorted(senses, key=lambda sense: -sense.start):
        if slot := next((slot for slot in _MASKED if slot in sense.fills), ""):
            slot = {"family": "type", "window": "when"}.get(slot, slot)
            text = f"{text[: sense.start]}{{{slot}}}{text[sense.end :]}"
    return text


class CommandExamples(NamedTuple):
    """Hold the lines of the grammar that a command is offered by, and texts that mean it."""

    lines: tuple[str, ...]
    """Patterns with slots, as the table of readings has them; the first that can be filled counts."""
    texts: tuple[str, ...]


@cache
def load_examples() -> Mapping[str, CommandExamples]:
    """Read the table of examples, by command."""
    return {
        row["command"]: CommandExamples(
            tuple(row["lines"].split("|")), tuple(row["said"].split("|"))
        )
        for row in table("bot.grammar.plain", "examples.csv")
    }


@lru_cache(maxsize=2)
def load_ranker(learnt: tuple[Example, ...] = ()) -> Ranker:
    """Return a ranker of the table's examples and of those that an installation has learnt."""
    written = (
        Example(text, command) for command, entry in load_examples().items() for text in entry.texts
    )
    return Ranker((*written, *learnt))
