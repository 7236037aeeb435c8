"""Hold the mapping of owners.

Patterns of places, tags and labels, whom they belong to, and where that owner is reached.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

TAG, LABEL = "tag:", "label:"
"""Begin the name of a tag of AWS, and of a label of Kubernetes."""
NODE_GROUP = "node_group"
Facts = Mapping[str, str]
"""What is known of one thing.

Labels and node group by name, tags under `tag:KEY`, labels of Kubernetes under `label:KEY`.
"""


@dataclass(frozen=True)
class OwnerRule:
    """Give the things that all the patterns fit to one owner.

    Of a name's several patterns one must fit.
    """

    owner: str
    where: tuple[tuple[str, tuple[str, ...]], ...]

    def fits(self, facts: Facts) -> bool:
        """Return whether every pattern fits a thing; one without such a fact is not meant."""
        return all(
            bool(value := facts.get(name, ""))
            and any(fnmatchcase(value, pattern) for pattern in patterns)
            for name, patterns in self.where
        )


@dataclass(frozen=True)
class OwnerMap:
    """Hold the rules in their order, and the people and channels of each owner by the owner's name in lower case."""

    rules: tuple[OwnerRule, ...] = ()
    people: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    channels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def owner(self, things: Iterable[Facts]) -> str:
        """Return who has most of the things, each by the first rule that fits it.

        "" where none fits any.
        """
        if not self.rules:
            return ""
        asked = tuple(dict.fromkeys(name for rule in self.rules for name, _ in rule.where))
        alike = Counter(tuple(facts.get(name, "") for name in asked) for facts in things)
        votes = Counter[str]()
        for values, count in alike.items():
            votes[self._first(dict(zip(asked, values, strict=True)))] += count
        return most({owner: count for owner, count in votes.items() if owner})

    def _first(self, facts: Facts) -> str:
        return next((rule.owner for rule in self.rules if rule.fits(facts)), "")


def most(votes: Mapping[str, int]) -> str:
    """Return the name with the most votes, the first in the alphabet of those with as many.

    "" for none.
    """
    return max(sorted(votes), key=lambda name: votes[name], default="")
