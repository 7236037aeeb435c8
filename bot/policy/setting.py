"""Describe one setting: type, unit, bounds, default, meaning and source; read and write its text."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from enum import StrEnum

from bot.errors import WrongInput, nearest
from bot.model.labels import Labels
from bot.model.policy import Value
from bot.model.window import parse_duration, write_duration


class SettingUnit(StrEnum):
    """Name how a value is written."""

    RATIO = "%"
    NUMBER = "number"
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
    choices: tuple[str, ...] = ()
    scoped: bool = True
    """Can differ by cluster, team or account."""
    check: Callable[[str], object] | None = None
    """Reads a word that follows a form of its own; raises `WrongInput`."""

    def parse(self, text: str) -> Value:
        """Read a value as a person writes it (`15%`, `30m`, `$2.50`, `on`).

        Raise `WrongInput` naming the bound.
        """
        value = self._read(text.strip())
        size = value.total_seconds() if isinstance(value, timedelta) else value
        if not isinstance(size, str | bool) and not self.low <= float(size) <= self.high:
            raise WrongInput(
                f"{self.key} lies between {self._bound(self.low)} and {self._bound(self.high)}; got '{text}'."
            )
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
        """Raise `WrongInput` when the setting holds for everything at once and a scope is asked for."""
        if not self.scoped and str(scope):
            raise WrongInput(f"{self.key} holds for everything at once; leave out {scope}.")

    def bounds(self) -> tuple[str, str]:
        """Return the least and the largest value as text, "–" where there is no bound."""
        if self.unit in {SettingUnit.SWITCH, SettingUnit.WORD}:
            return "–", "–"
        return self._bound(self.low), self._bound(self.high)

    def _read(self, text: str) -> Value:
        match self.unit:
            case SettingUnit.DURATION:
                return parse_duration(text)
            case SettingUnit.SWITCH:
                return self._switch(text)
            case SettingUnit.WORD:
                if self.choices and text not in self.choices:
                    raise WrongInput(
                        f"'{text}' does not fit {self.key}{nearest(text, self.choices)}."
                    )
                if self.check:
                    self.check(text)
                return text
            case SettingUnit.USD:
                return self._decimal(text.lstrip("$").replace(",", ""), text)
            case SettingUnit.RATIO:
                number = float(self._decimal(text.rstrip("%").strip(), text))
                return number / 100 if text.endswith("%") else number
            case SettingUnit.NUMBER:
                return float(self._decimal(text, text))

    def _decimal(self, digits: str, text: str) -> Decimal:
        if re.fullmatch(r"-?\d{1,12}(\.\d{1,9})?", digits):
            try:
                return Decimal(digits)
            except InvalidOperation:
                pass
        raise WrongInput(
            f"'{text}' is not a value of {self.key}; write it like {self.show(self.default)}."
        )

    def _switch(self, text: str) -> bool:
        words = {"on": True, "off": False, "true": True, "false": False, "yes": True, "no": False}
        if text.lower() not in words:
            raise WrongInput(f"{self.key} is on or off; got '{text}'.")
        return words[text.lower()]

    def _bound(self, size: float) -> str:
        if size == float("inf"):
            return "any"
        if self.unit is SettingUnit.DURATION:
            return write_duration(timedelta(seconds=size))
        return self.show(Decimal(str(size)) if self.unit is SettingUnit.USD else size)
