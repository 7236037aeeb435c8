"""Attribute a charge: to its owner by the tags, whatever the export calls them, and to a cost line."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from adapters.billing.database import literal

BillTagNames = Mapping[str, Sequence[str]]

DEFAULT_NAMES: BillTagNames = {
    "team": ("team",),
    "project": ("project",),
    "cluster": ("eks:cluster-name", "aws:eks:cluster-name", "cluster"),
    "namespace": ("aws:eks:namespace", "eks:namespace", "namespace"),
}
_COMPILE_TAGS = ("activity", "stage", "purpose", "workload")
_PREFIX = re.compile(r"^(?:resource_?tags[/_:])?user[:_]", re.IGNORECASE)
_KUBERNETES = re.compile(r"kubernetes[._]io[/_]cluster[/_](.+)$", re.IGNORECASE)


def plain(key: str) -> str:
    """Return a tag's key without AWS's `user:` prefix, case and punctuation.

    `user_team`, `user:Team` -> `team`.
    """
    return re.sub(r"[^a-z0-9]", "", _PREFIX.sub("", key.strip()).lower())


def candidates(key: str) -> tuple[str, ...]:
    """Return the plain keys that a typed tag name may mean, the most literal first."""
    whole = re.sub(r"[^a-z0-9]", "", key.lower())
    return tuple(dict.fromkeys((whole, plain(key))))


@dataclass(frozen=True)
class TagSet:
    """Hold one combination of tags, and the owner it names."""

    pairs: tuple[tuple[str, str], ...]
    cluster: str
    namespace: str
    team: str
    project: str
    compiles: bool


def read_tags(words: str, names: BillTagNames) -> TagSet:
    """Read the JSON text of one tag set; raise `ValueError` when it is no object."""
    document = json.loads(words)
    if not isinstance(document, dict):
        raise ValueError("not an object")
    tags = {
        str(key): str(value) for key, value in document.items() if value not in (None, "", "NULL")
    }
    pairs: dict[str, str] = {}
    for key, value in tags.items():
        pairs.setdefault(plain(key), value)
    every = {**DEFAULT_NAMES, **names}
    owner = {
        word: _first(pairs, every[word]) for word in ("cluster", "namespace", "team", "project")
    }
    owner["cluster"] = owner["cluster"] or next(_kubernetes(tags), "")
    compiles = any("compil" in pairs.get(key, "").lower() for key in _COMPILE_TAGS)
    return TagSet(
        tuple(pairs.items()),
        owner["cluster"],
        owner["namespace"],
        owner["team"],
        owner["project"],
        compiles,
    )


def _first(pairs: Mapping[str, str], names: Sequence[str]) -> str:
    return next((pairs[key] for name in names for key in candidates(name) if pairs.get(key)), "")


def _kubernetes(tags: Mapping[str, str]) -> Iterator[str]:
    """Yield the name in keys such as `kubernetes.io/cluster/NAME` (the value is only `owned` or `shared`)."""
    return (match[1] for key in tags if (match := _KUBERNETES.search(key)))


COMPILE = "compile"
OTHER = "other"


@cache
def _rules() -> tuple[dict[str, str], ...]:
    words = resources.files(__package__).joinpath("lines.csv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(words.splitlines()))


def line_case() -> str:
    """Return the SQL expression of the line, over the columns of the stage `s` and the tag set `t`.

    The first rule wins.
    """
    whens = " ".join(f"WHEN {_matches(rule)} THEN {_line(rule['line'])}" for rule in _rules())
    return f"CASE {whens} ELSE {literal(OTHER)} END"


def _line(line: str) -> str:
    """Split EC2 by its tags: hours spent on compiling are a line of their own."""
    return (
        f"CASE WHEN t.compiles THEN {literal(COMPILE)} ELSE {literal(line)} END"
        if line == "EC2"
        else literal(line)
    )


def _matches(rule: dict[str, str]) -> str:
    service = [f"regexp_matches(s.service, {literal(rule['service'])})"] if rule["service"] else []
    usage = (
        [f"regexp_matches(s.usage_type, {literal(rule['usage_type'])})"]
        if rule["usage_type"]
        else []
    )
    both = " AND ".join([*service, *usage])
    if not rule["description"]:
        return both
    said = [
        "s.usage_type = ''",
        f"regexp_matches(coalesce(s.description, ''), {literal(rule['description'])}, 'i')",
    ]
    return f"(({both}) OR ({' AND '.join([*service, *said])}))"
