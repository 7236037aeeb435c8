"""Hold who is notified of which alerts, and the mapping of owners."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from bot.model.causes import Cause
from bot.model.labels import Labels

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
    """Hold the rules in order, and each owner's people and channels by name in lower case."""

    rules: tuple[OwnerRule, ...] = ()
    people: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    channels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def owner(self, things: Iterable[Facts]) -> str:
        """Return who has most of the things, each by the first rule that fits it.

        "" where none fits any.
        """
        if not self.rules:
            return ""
        names = tuple(dict.fromkeys(name for rule in self.rules for name, _ in rule.where))
        alike = Counter(tuple(facts.get(name, "") for name in names) for facts in things)
        votes = Counter[str]()
        for values, count in alike.items():
            facts = dict(zip(names, values, strict=True))
            if rule := next((rule for rule in self.rules if rule.fits(facts)), None):
                votes[rule.owner] += count
        return most({owner: count for owner, count in votes.items() if owner})


def most(votes: Mapping[str, int]) -> str:
    """Return the name with the most votes, the first in the alphabet of those with as many.

    "" for none.
    """
    return max(sorted(votes), key=lambda name: votes[name], default="")


@dataclass(frozen=True)
class Route:
    """Send alerts with these labels (and this cause and severity, where said) to some channels."""

    to: tuple[str, ...]
    selector: Labels = field(default_factory=Labels)
    cause: str = ""
    severity: str = ""
    by: str = ""
    """Who subscribed, "" for a route of the settings.

    A subscription takes nothing away from the default.
    """

    def __str__(self) -> str:
        """Read as `cluster=llama cause=idle`, `every alert` where nothing is asked for."""
        cause = self.cause and f"cause={self.cause}"
        severity = self.severity and f"severity={self.severity}"
        return " ".join(filter(None, (str(self.selector), cause, severity))) or "every alert"


@dataclass(frozen=True)
class Routes:
    """Hold every route.

    `default` hears of the rest, `finops` of needless cost, `escalate` of alerts nobody
    acknowledges.
    """

    routes: tuple[Route, ...] = ()
    default: tuple[str, ...] = ()
    finops: tuple[str, ...] = ()
    escalate: tuple[str, ...] = ()
    owners: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Addresses of a person by the name that tags give them, one a platform."""
    digest: tuple[str, ...] = ()
    """Channels that get the weekly digest, at `digest_at` (`mon 09:00 Europe/Berlin`)."""
    digest_at: str = "mon 09:00 UTC"
    finops_causes: tuple[Cause, ...] = ()
    """The causes that `finops` hears; none = spending, and what is paid for and unused."""
    mapping: OwnerMap = field(default_factory=OwnerMap)
    suggestions: tuple[str, ...] = ()
    """Channels that get suggestions at the time of the digest, three a week at most."""

    def owner(self, name: str, near: str = "") -> str:
        """Return the address of an owner.

        In the place of the channel `near`, else on its platform, else any; "" for nobody.

        Only the mapping that admins keep leads to people: what a tag says is data, and pings nobody
        by itself.
        """
        person = name.lower().removeprefix(LAUNCHER)
        nearest = place_of(near), _platform(near)
        return min(
            self.owners.get(person) or self.mapping.people.get(person, ()),
            key=lambda a: (place_of(a) != nearest[0], _platform(a) != nearest[1]),
            default="",
        )

    def finops_of(self, cause: Cause) -> tuple[str, ...]:
        """Return the channels that hear a cause because it is money spent for nothing."""
        heard = cause in self.finops_causes if self.finops_causes else cause.facts.is_for_finops
        return self.finops if heard else ()

    def owner_among(self, names: Iterable[str], near: str = "") -> str:
        """Return the address of the first of some names that the mapping knows, "" for nobody."""
        return next((address for name in names if (address := self.owner(name, near))), "")


def distinct(addresses: Iterable[str]) -> tuple[str, ...]:
    """Return each channel once, though only some of its addresses name the workspace."""
    once: dict[tuple[str, str], str] = {}
    for address in addresses:
        once.setdefault((_platform(address), address.partition(":")[2].rpartition("/")[2]), address)
    return tuple(once.values())


LAUNCHER = "launcher:"
"""Stands before the name of who launched something; the mapping knows the name alone."""


def _platform(address: str) -> str:
    return address.partition(":")[0]


def place_of(address: str) -> str:
    """Return platform and workspace of an address such as `PLATFORM:WORKSPACE/CHANNEL`."""
    return address.rpartition("/")[0] or _platform(address)
