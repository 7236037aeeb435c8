"""Hold the values that admins tune, and the history of their changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, TypeVar, cast

from bot.model.labels import PLACE, Labels
from bot.model.request import SignedBy

T = TypeVar("T")
Value = float | timedelta | Decimal | bool | str


@dataclass(frozen=True)
class Policy:
    """Hold a value for every setting, and overrides by scope (cluster, team, account)."""

    values: Mapping[str, Value]
    overrides: tuple[tuple[Labels, str, Value], ...] = ()
    _cache: dict[Labels, Policy] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def at(self, labels: Labels) -> Policy:
        """Return the policy of the place in `labels`.

        The most particular override wins, later ones win ties.
        """
        if not self.overrides:
            return self
        place = labels.only(PLACE)
        if place not in self._cache:
            fitting = [override for override in self.overrides if override[0].selects(place)]
            fitting.sort(key=lambda override: len(tuple(override[0])))
            values = {key: value for _, key, value in fitting}
            self._cache[place] = Policy({**self.values, **values})
        return self._cache[place]

    def number(self, key: str) -> float:
        """Return a ratio, count or score."""
        return float(self._value(key, float))

    def duration(self, key: str) -> timedelta:
        """Return a length of time."""
        return self._value(key, timedelta)

    def usd(self, key: str) -> Decimal:
        """Return an amount of USD."""
        return self._value(key, Decimal)

    def on(self, key: str) -> bool:
        """Return whether a switch is on."""
        return self._value(key, bool)

    def text(self, key: str) -> str:
        """Return the value of a setting that is a word."""
        return self._value(key, str)

    def _value(self, key: str, kind: type[T]) -> T:
        value = self.values[key]
        assert isinstance(value, (int, float) if kind is float else kind), key
        return cast("T", value)


Override = tuple[Labels, str, str]
"""Scope (nothing said = everywhere), key, and the value as text.

"" takes back an override of the settings file.
"""


class VersionKind(StrEnum):
    """Name the ways in which a version came to be."""

    SET = "set"
    UNDO = "undo"
    IMPORT = "import"


@dataclass(frozen=True)
class Edit:
    """State one setting's value at one scope before and after a change, as text."""

    scope: Labels
    key: str
    before: str
    after: str


@dataclass(frozen=True)
class Version(SignedBy):
    """State one change of the policy; only ever added.

    `overrides` is all that stands over the settings file since.
    """

    number: int
    at: datetime
    by: str
    by_name: str
    doing: VersionKind
    edits: tuple[Edit, ...]
    overrides: tuple[Override, ...]
    preview: str = ""
    """The id of the preview that was shown, "" for an undo."""
    shown: Mapping[str, Any] = field(default_factory=dict)
    """The result of that preview, in words."""
    restores: int | None = None
    """The version an undo went back to; 0 = the settings file alone."""


@dataclass(frozen=True)
class Attempt(SignedBy):
    """State that somebody tried to change the policy.

    `refused` says why it came to nothing, "" when it did not.
    """

    at: datetime
    by: str
    by_name: str
    line: str
    refused: str = ""


@dataclass(frozen=True)
class Draft:
    """Hold a change that was previewed and waits to be applied."""

    id: str
    at: datetime
    by: str
    over: int
    """The version it was tried over; 0 = the settings file alone."""
    doing: VersionKind
    changes: tuple[Override, ...]
    overrides: tuple[Override, ...]
    """All that would stand over the settings file."""
    edits: tuple[Edit, ...]
    shown: Mapping[str, Any] = field(default_factory=dict)
