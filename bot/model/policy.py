"""Hold the values that admins tune, typed by getters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal

from bot.model.labels import PLACE, Labels

Value = float | timedelta | Decimal | bool | str


@dataclass(frozen=True)
class Policy:
    """Hold a value for every setting of the schema, and overrides by scope (cluster, team, account)."""

    values: Mapping[str, Value]
    overrides: tuple[tuple[Labels, str, Value], ...] = ()
    _cache: dict[Labels, Policy] = field(default_factory=dict, compare=False, repr=False)

    def at(self, labels: Labels) -> Policy:
        """Return the policy of the place in `labels`.

        The most particular override wins, later ones win ties.
        """
        if not self.overrides:
            return self
        place = labels.only(PLACE)
        if place not in self._cache:
            fitting = sorted(
                (override for override in self.overrides if override[0].selects(place)),
                key=lambda override: len(tuple(override[0])),
            )
            self._cache[place] = Policy(
                {**self.values, **{key: value for _, key, value in fitting}}
            )
        return self._cache[place]

    def number(self, key: str) -> float:
        """Return a ratio, count or score."""
        value = self.values[key]
        assert isinstance(value, int | float), key
        return float(value)

    def duration(self, key: str) -> timedelta:
        """Return a length of time."""
        value = self.values[key]
        assert isinstance(value, timedelta), key
        return value

    def usd(self, key: str) -> Decimal:
        """Return an amount of USD."""
        value = self.values[key]
        assert isinstance(value, Decimal), key
        return value

    def on(self, key: str) -> bool:
        """Return whether a switch is on."""
        value = self.values[key]
        assert isinstance(value, bool), key
        return value

    def text(self, key: str) -> str:
        """Return the value of a setting that is a word."""
        value = self.values[key]
        assert isinstance(value, str), key
        return value
