"""Attribute a charge: to its owner by the tags, whatever they are called, and to a cost line."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
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

    owner = {}
    for word, usual in DEFAULT_NAMES.items():
        keys = [key for name in names.get(word, usual) for key in candidates(name)]
        owner[word] = next((pairs[key] for key in keys if pairs.get(key)), "")
    # The name stands in keys such as `kubernetes.io/cluster/NAME`; the value is `owned` or `shared`.
    kubernetes = (match[1] for key in tags if (match := _KUBERNETES.search(key)))
    owner["cluster"] = owner["cluster"] or next(kubernetes, "")
    compiles = any("compil" in pairs.get(key, "").lower() for key in _COMPILE_TAGS)
    return TagSet(tuple(pairs.items()), **owner, compiles=compiles)


COMPILE = "compile"
OTHER = "other"


@cache
def line_case() -> str:
    """Return the SQL expression of the line, over the columns of the stage `s` and the tag set `t`.

    The first rule wins.
    """
    text = resources.files(__package__).joinpath("lines.csv").read_text(encoding="utf-8")
    whens = []
    for rule in csv.DictReader(text.splitlines()):
        service, usage = (
            [f"regexp_matches(s.{column}, {literal(rule[column])})"] if rule[column] else []
            for column in ("service", "usage_type")
        )
        condition = " AND ".join([*service, *usage])
        if rule["description"]:
            description = literal(rule["description"])
            described = f"regexp_matches(coalesce(s.description, ''), {description}, 'i')"
            alone = " AND ".join([*service, "s.usage_type = ''", described])
            condition = f"(({condition}) OR ({alone}))"
        line = literal(rule["line"])
        if rule["line"] == "EC2":  # hours spent on compiling are a line of their own
            line = f"CASE WHEN t.compiles THEN {literal(COMPILE)} ELSE {line} END"
        whens.append(f"WHEN {condition} THEN {line}")
    return f"CASE {' '.join(whens)} ELSE {literal(OTHER)} END"
