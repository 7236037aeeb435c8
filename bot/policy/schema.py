"""List every setting that admins tune, and read and write its text.

Each has a unit, a default, a meaning, a source and bounds, as a row of `settings.csv` has them: a
default as a person writes it, no source where it is trnbot's own, `scoped` = "no" where it holds
for everything at once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from math import floor

from bot.errors import WrongInput, find_named
from bot.model.causes import CAUSES
from bot.model.codec import by_key, table
from bot.model.labels import Labels
from bot.model.policy import Policy, Value
from bot.model.window import parse_duration, read_quiet_hours, write_duration


class SettingUnit(StrEnum):
    """Name how a value is written."""

    RATIO = "%"
    NUMBER = "number"
    COUNT = "whole number"
    DURATION = "duration"
    USD = "USD"
    SWITCH = "on/off"
    WORD = "word"


@dataclass(frozen=True)
class Setting:
    """Describe one key.

    `low` and `high` are inclusive, in the value's own unit (seconds for a duration).
    """

    key: str
    unit: SettingUnit
    default: Value
    meaning: str
    source: str
    low: float = 0.0
    high: float = float("inf")
    scoped: bool = True
    """Can differ by cluster, team or account."""
    check: Callable[[str], object] | None = None
    """Reads a word that follows a form of its own; raises `WrongInput`."""

    def parse(self, text: str) -> Value:
        """Read a value as a person writes it (`15%`, `30m`, `$2.50`, `on`).

        Raise `WrongInput` naming the bound, or the nearest whole number of a count.
        """
        value = self.read(text.strip())
        size = value.total_seconds() if isinstance(value, timedelta) else value
        if not isinstance(size, str | bool) and not self.low <= float(size) <= self.high:
            is_bare = self.unit is SettingUnit.RATIO and "%" not in text
            fits = is_bare and self.low <= float(size) / 100 <= self.high
            raise WrongInput(
                f"{self.key} lies between {self._bound(self.low)} and {self._bound(self.high)};"
                f" got '{text}'{f'; for percent write {text}%' if fits else ''}."
            )
        if self.unit is SettingUnit.COUNT and float(size) % 1:
            whole = floor(float(size) + 0.5)
            raise WrongInput(f"{self.key} is a whole number, such as {whole}; got '{text}'.")
        return value

    def show(self, value: Value) -> str:
        """Write a value so that `parse` reads the same back."""
        if isinstance(value, bool):
            return "on" if value else "off"
        if isinstance(value, timedelta):
            return write_duration(value)
        if isinstance(value, Decimal):
            return f"${value}"
        if isinstance(value, str):
            return value
        return f"{value * 100:.10g}%" if self.unit is SettingUnit.RATIO else f"{value:.10g}"

    def fits(self, scope: Labels) -> None:
        """Raise `WrongInput` where a scope is asked for, and the setting holds for everything."""
        if not self.scoped and str(scope):
            raise WrongInput(f"{self.key} applies to everything at once; leave out {scope}.")

    def bounds(self) -> tuple[str, str]:
        """Return the least and the largest value as text, "" where there is no bound."""
        if self.unit in {SettingUnit.SWITCH, SettingUnit.WORD}:
            return "", ""
        return self._bound(self.low), self._bound(self.high)

    def read(self, text: str) -> Value:
        """Read a value that was in order when it was stored, perhaps by an earlier version."""
        match self.unit:
            case SettingUnit.DURATION:
                return parse_duration(text)
            case SettingUnit.SWITCH:
                if text.lower() not in {"on", "off", "true", "false", "yes", "no"}:
                    raise WrongInput(f"{self.key} is on or off; got '{text}'.")
                return text.lower() in {"on", "true", "yes"}
            case SettingUnit.WORD:
                if self.check:
                    self.check(text)
                return text
            case SettingUnit.USD:
                return self._decimal(text.lstrip("$").replace(",", ""), text)
            case SettingUnit.RATIO:
                number = float(self._decimal(text.rstrip("%").strip(), text))
                return number / 100 if text.endswith("%") else number
            case SettingUnit.NUMBER | SettingUnit.COUNT:
                return float(self._decimal(text, text))

    def _decimal(self, digits: str, text: str) -> Decimal:
        if not re.fullmatch(r"-?\d{1,12}(\.\d{1,9})?", digits):
            raise WrongInput(
                f"'{text}' is not a value of {self.key}; write it like {self.show(self.default)}."
            )
        return Decimal(digits)

    def _bound(self, size: float) -> str:
        if size == float("inf"):
            return "any"
        if self.unit is SettingUnit.DURATION:
            return write_duration(timedelta(seconds=size))
        return self.show(Decimal(str(size)) if self.unit is SettingUnit.USD else size)


_OWN = "trnbot's own default"
_CHECKS = {"alert.quiet_hours": read_quiet_hours}
"""Readers of words that follow a form of their own."""


def _setting_in(row: Mapping[str, str]) -> Setting:
    """Return the setting of a row of the table."""
    unit, key = SettingUnit[row["unit"].upper()], row["key"]
    low, high = (
        parse_duration(text).total_seconds() if unit is SettingUnit.DURATION else json.loads(text)
        for text in (row["low"] or "0", row["high"] or "0")
    )
    source, check = row["source"] or _OWN, _CHECKS.get(key)
    setting = Setting(key, unit, "", row["meaning"], source, low, high, not row["scoped"], check)
    return replace(setting, default=setting.parse(row["default"]))


def _all_settings() -> Iterator[Setting]:
    """Yield the settings of each cause after its switch, in the order of the table of causes."""
    settings = by_key((row["of"], _setting_in(row)) for row in table(__package__, "settings.csv"))
    for cause, facts in CAUSES.items():
        yield Setting(f"{cause}.on", SettingUnit.SWITCH, True, facts.switch, _OWN)
        yield from settings.pop(cause, ())
    for group in settings.values():
        yield from group


SETTINGS: Mapping[str, Setting] = {setting.key: setting for setting in _all_settings()}


def family_of(key: str) -> str:
    """Return the word that a key begins with: what its setting is about."""
    return key.partition(".")[0]


def setting_of(key: str) -> Setting:
    """Return the setting; raise `WrongInput` with the nearest key."""
    return find_named(f"'{key}' is not a setting", key, SETTINGS, most=0)


def default_policy() -> Policy:
    """Return every setting at its default."""
    return Policy({key: setting.default for key, setting in SETTINGS.items()})
