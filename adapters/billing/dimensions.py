"""Name the dimensions that the bill can be grouped and filtered by, and write each as SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from adapters.billing.sql import sql, text
from adapters.billing.tags import candidates
from bot.errors import WrongInput, nearest
from bot.model.spend import Filter

_COLUMNS = (
    "account", "region", "zone", "service", "usage_type", "operation", "instance_type", "purchase", "line", "resource",
    "cluster", "namespace", "pod", "team", "project", "currency",
)  # fmt: skip
_EXPRESSIONS = {
    **{column: f"thing.{column}" for column in _COLUMNS},
    "family": r"regexp_replace(thing.instance_type, '\.[^.]*$', '')",
    "day": "strftime(piece.day, '%Y-%m-%d')",
    "month": "strftime(piece.day, '%Y-%m')",
    "hour": "strftime(piece.hour, '%Y-%m-%dT%H:00:00Z')",
}
_TIMES = {
    "day": ("piece.day", "%Y-%m-%d"),
    "month": ("date_trunc('month', piece.day)", "%Y-%m"),
    "hour": ("piece.hour", "%Y-%m-%dT%H:00:00Z"),
}
DIMENSIONS: tuple[str, ...] = tuple(sorted(_EXPRESSIONS))
TAG = "tag:"


def canonical(dimension: str) -> str:
    """Return a typed dimension's name; raise `WrongInput` with the nearest for an unknown one."""
    if dimension.startswith(TAG):
        return TAG + dimension.removeprefix(TAG).strip()
    word = dimension.strip().lower().replace("-", "_")
    if word not in _EXPRESSIONS:
        raise WrongInput(
            f"'{dimension}' is not a dimension of the bill{nearest(word, [*DIMENSIONS, 'tag:NAME'], most=30)}."
        )
    return word


def written(dimension: str, value: Any) -> str:
    """Return a key's text as it came from the database."""
    return f"{value:{_TIMES[dimension][1]}}" if dimension in _TIMES else str(value)


@dataclass
class QueryParts:
    """Collect the parts of one query.

    The SQL of its dimensions, its tags, and its values as parameters.
    """

    values: dict[str, object] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    _tags: dict[str, str] = field(default_factory=dict)

    def expression(self, dimension: str) -> str:
        """Return SQL for one dimension; raise `WrongInput` with the nearest for an unknown one."""
        word = canonical(dimension)
        if word.startswith(TAG):
            return self._tag(word.removeprefix(TAG))
        self.used.add(word)
        return _EXPRESSIONS[word]

    def key(self, dimension: str) -> str:
        """Return SQL to group by.

        Times as they are stored, which `written` turns into text once a group.
        """
        expression = self.expression(dimension)
        return _TIMES[dimension][0] if dimension in _TIMES else expression

    def tags(self) -> str:
        """Return SQL that joins every tag asked for, by one pass over the tags.

        A join each took seconds for some hundred.
        """
        picks = ", ".join(
            sql(
                "tag_value",
                names=f"[{', '.join(text(key) for key in candidates(tag))}]",
                alias=alias,
            )
            for tag, alias in self._tags.items()
        )
        return sql("piece_tags", values=picks) if picks else ""

    def over_time(self) -> bool:
        """Return whether rows of one thing must stay apart by time."""
        return bool(self.used & _TIMES.keys())

    def names_one(self) -> bool:
        """Return whether things of one kind must stay apart, as a resource or a tag is asked for."""
        return "resource" in self.used or bool(self._tags)

    def where(self, filters: Sequence[Filter]) -> str:
        """Return SQL that keeps the rows every filter keeps."""
        return " AND ".join(["TRUE", *(self._condition(condition) for condition in filters)])

    def _condition(self, condition: Filter) -> str:
        inside = f"list_contains({self._value(list(condition.values))}::VARCHAR[], {self.expression(condition.dimension)})"
        return f"NOT {inside}" if condition.negated else inside

    def _value(self, value: object) -> str:
        key = f"v{len(self.values)}"
        self.values[key] = value
        return f"${key}"

    def _tag(self, tag: str) -> str:
        if not tag:
            raise WrongInput("'tag:' names no tag; write tag:NAME, for example tag:team.")
        alias = self._tags.setdefault(tag, f"tag_{len(self._tags)}")
        return f"coalesce(tags.{alias}, '')"
