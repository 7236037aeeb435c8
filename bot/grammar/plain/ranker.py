"""Rank the commands that a line in plain words may mean, by lines that people wrote of each.

The lines are counted when the product is built (`docs/plain_lines.csv` into `ranker.npz`); those
that an installation has learnt are compared with a line as they stand. Naive Bayes over words,
pairs of words and runs of letters (Rennie et al., Tackling the Poor Assumptions of Naive Bayes,
2003).
"""

from __future__ import annotations

import math
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from itertools import chain, pairwise
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bot.grammar.plain.senses import Sense, normalized
from bot.model.codec import table

_RUN = 3
"""Letters of a run: they tell a word with a slip from another word."""
_SMOOTHING = 0.1
"""What each feature is taken to have been seen of every command: the best of five for other lines."""
_STEP = 1 / 16
"""Of the logarithms, which are counted as bytes: finer steps rank no line better."""
_ALIKE = 0.5
"""How alike a line is to a learnt one at least, from 0 to 1, where that says anything of it."""
_MASKED = (
    "pair",
    "alert",
    "silence",
    "suggestion",
    "action",
    "preview",
    "instance",
    "volume",
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

_Blocks = tuple[Mapping[str, int], Mapping[str, int]]


class Example(NamedTuple):
    """Hold a line in plain words and the command that it means."""

    text: str
    command: str


class Ranked(NamedTuple):
    """Hold a command, and how likely it is meant: the shares of all commands sum to 1."""

    command: str
    share: float


@dataclass(frozen=True)
class Counts:
    """Hold the features of all examples by their hash, and how much each speaks for a command."""

    commands: NDArray[np.str_]
    unseen: NDArray[np.float32]
    """The logarithm of a feature's share of each command that shows it in no example."""
    features: NDArray[np.uint32]
    """In order; each with its `rarity` in steps, and its gains from one of `starts` to the next."""
    rarity: NDArray[np.uint8]
    starts: NDArray[np.uint32]
    places: NDArray[np.uint8]
    """Of each gain its command."""
    gains: NDArray[np.uint8]
    """What a feature adds to a command's logarithm above `unseen`, in steps."""


def count(examples: Sequence[Example]) -> Counts:
    """Count the features of examples by command: rare features more, words and letters alike."""
    counted = [(_features(text), command) for text, command in examples]
    documents = Counter(chain.from_iterable(block for blocks, _ in counted for block in blocks))
    rarity = {
        feature: round((math.log((1 + len(counted)) / (1 + number)) + 1) / _STEP)
        for feature, number in documents.items()
    }
    commands = sorted({command for _, command in counted})
    weights: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    totals: defaultdict[str, float] = defaultdict(float)
    for blocks, command in counted:
        for feature, weight in _weighted(blocks, rarity).items():
            weights[feature][command] += weight
            totals[command] += weight

    floor = _SMOOTHING * len(weights)
    unseen = [math.log(_SMOOTHING / (totals[command] + floor)) for command in commands]
    place_of = {command: place for place, command in enumerate(commands)}
    features = sorted(weights, key=_hashed)
    gains = [
        (place_of[command], round(math.log(1 + weight / _SMOOTHING) / _STEP))
        for feature in features
        for command, weight in sorted(weights[feature].items())
    ]
    return Counts(
        commands=np.array(commands),
        unseen=np.array(unseen, np.float32),
        features=np.array([_hashed(feature) for feature in features], np.uint32),
        rarity=np.array([rarity[feature] for feature in features], np.uint8),
        starts=np.cumsum([0, *(len(weights[feature]) for feature in features)]).astype(np.uint32),
        places=np.array([place for place, _ in gains], np.uint8),
        gains=np.array([gain for _, gain in gains], np.uint8),
    )


@dataclass(frozen=True)
class Ranker:
    """Tell which commands a text may mean, from counted examples and from learnt ones."""

    counts: Counts
    learnt: Sequence[Example] = ()

    def knows(self, text: str) -> bool:
        """Return whether any word of a text stands in an example."""
        words = text.split()
        learnt = {word for example in self.learnt for word in example.text.split()}
        return bool(learnt.intersection(words) or self._places(words))

    def rank(self, text: str) -> Sequence[Ranked]:
        """Return every command for a masked text, the likeliest first; none where no word is known."""
        if not self.knows(text):
            return ()
        counts, blocks = self.counts, _features(text)
        places = self._places(chain.from_iterable(blocks))
        rarity = {feature: int(counts.rarity[place]) for feature, place in places.items()}
        weights = _weighted(blocks, rarity)
        scores = sum(weights.values()) * counts.unseen
        for feature, weight in weights.items():
            span = slice(counts.starts[places[feature]], counts.starts[places[feature] + 1])
            scores[counts.places[span]] += weight * _STEP * counts.gains[span]

        # Of texts whose first command has a share of .8 or more, nine in ten mean it.
        odds = np.exp(scores - scores.max())
        shares = dict(zip(counts.commands.tolist(), (odds / odds.sum()).tolist(), strict=True))
        compared = ((_alike(text, example.text), example.command) for example in self.learnt)
        alike, likeliest = max(compared, key=itemgetter(0), default=(0.0, ""))
        if alike >= _ALIKE:
            shares = {command: share * (1 - alike) for command, share in shares.items()}
            shares[likeliest] = shares.get(likeliest, 0.0) + alike
        ranked = (Ranked(command, share) for command, share in shares.items())
        return sorted(ranked, key=lambda entry: (-entry.share, entry.command))

    def _places(self, features: Iterable[str]) -> Mapping[str, int]:
        """Return where the features stand that are known."""
        hashes = {feature: _hashed(feature) for feature in features}
        places = np.searchsorted(self.counts.features, np.array([*hashes.values()], np.uint32))
        nearest = self.counts.features[np.minimum(places, len(self.counts.features) - 1)].tolist()
        return {
            feature: place
            for (feature, hashed), place, near in zip(
                hashes.items(), places.tolist(), nearest, strict=True
            )
            if hashed == near
        }


def _weighted(blocks: _Blocks, rarity: Mapping[str, int]) -> Mapping[str, float]:
    """Return the weights of known features: rare ones more, words and letters of one length."""
    weighted: dict[str, float] = {}
    for features in blocks:
        block = {
            feature: (1 + math.log(number)) * rarity[feature]
            for feature, number in features.items()
            if feature in rarity
        }
        length = math.hypot(*block.values())
        weighted |= {feature: weight / length for feature, weight in block.items()}
    return weighted


def _alike(text: str, other: str) -> float:
    """Return how many features two texts share, from 0 to 1: the cosine of their counts."""
    first, second = Counter(chain(*_features(text))), Counter(chain(*_features(other)))
    shared = sum(first[feature] * second[feature] for feature in first.keys() & second.keys())
    return shared / math.hypot(*first.values()) / math.hypot(*second.values())


@lru_cache(maxsize=1_024)
def _features(text: str) -> _Blocks:
    """Count the words of a text with its pairs of words, and the runs of letters in each word."""
    words = text.split()
    pairs = (f"{first} {second}" for first, second in pairwise(words))
    runs = (
        f"#{padded[start : start + _RUN]}"
        for padded in (f" {word} " for word in words)
        for start in range(len(padded) - _RUN + 1)
    )
    return Counter([*words, *pairs]), Counter(runs)


def _hashed(feature: str) -> int:
    return zlib.crc32(feature.encode())


def masked(line: str, senses: Sequence[Sense]) -> str:
    """Return a line in which names and times stand as the slots that they fill."""
    text = normalized(line)
    for sense in sorted(senses, key=lambda sense: -sense.start):
        if slot := next((slot for slot in _MASKED if slot in sense.fills), ""):
            slot = {"family": "type", "window": "when"}.get(slot, slot)
            text = f"{text[: sense.start]}{{{slot}}}{re.sub('^[-/]', ' ', text[sense.end :])}"
    return text


@cache
def load_offers() -> Mapping[str, Sequence[str]]:
    """Read the lines of the grammar that each command is offered by; the first that fits counts.

    They are patterns with slots, as the table of readings has them.
    """
    return {
        row["command"]: row["lines"].split("|") for row in table("bot.grammar.plain", "offers.csv")
    }


@cache
def load_counts() -> Counts:
    """Read the counts that were made when the product was built."""
    with (files("bot.grammar.plain") / "ranker.npz").open("rb") as file:
        return Counts(**np.load(file))
