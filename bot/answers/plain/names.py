"""Hold the names that a line may speak of: of the fleet, of the bill, of dated facts.

Found also where a letter is wrong.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

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
