"""Turn the text of an argument into the type its signature asks for."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from bot.answers.registry import Parameter
from bot.errors import WrongInput, nearest, shortened
from bot.model.durations import parse_duration
from bot.model.hours import read_moment
from bot.model.limits import NUMBER_EXPONENT, NUMBER_LENGTH
from bot.model.spend import Filter
from bot.model.window import Window

FILTERS = tuple[Filter, ...]
WORDS = tuple[str, ...]
_SWITCH = {"on": True, "yes": True, "true": True, "off": False, "no": False, "false": False}


@dataclass(frozen=True)
class Sizes:
    """Limit how much one line may ask for.

    Its rows and its time are limited in `bot.answers.budgets`.
    """

    words: int = 4
    """Values of a list, such as the dimensions of `by`."""
    filters: int = 20
    filter_values: int = 50
    """Values of one filter."""
    window: timedelta = timedelta(days=1_830)
    """Five years."""


SIZES = Sizes()


def convert(parameter: Parameter, text: str, now: datetime) -> Any:
    """Return the typed value of `text`; raise `WrongInput` naming the argument and its right form."""
    kind, optional = _bare(parameter.type)
    if optional and not text:
        return None
    read = _READERS.get(kind)
    if read is None:
        raise TypeError(f"no reader for {kind} of '{parameter.name}'")
    try:
        value = read(text, parameter.word, now)
    except WrongInput as error:
        error.argument = parameter.word
        raise
    choices = parameter.arg.choices
    for word in value if isinstance(value, tuple) else (value,):
        if choices and word not in choices:
            sentence = f"'{word}' does not fit {parameter.word}{nearest(str(word), filter(None, choices))}."
            raise WrongInput(sentence, parameter.word)
    return value


def filters_of(texts: Sequence[str]) -> tuple[Filter, ...]:
    """Read every filter of a line; raise `WrongInput` for too many."""
    if len(texts) > SIZES.filters:
        raise WrongInput(f"A line takes {SIZES.filters} filters at most; got {len(texts)}.")
    return tuple(filter_of(text) for text in texts)


def filter_of(text: str) -> Filter:
    """Read `dimension=value[,value]` or `dimension!=value`.

    Raise `WrongInput` when the dimension is missing.
    """
    name, _, value = text.partition("=")
    negated = name.endswith("!")
    name = name.removesuffix("!").lstrip("-")
    if not name:
        raise WrongInput(
            f"'{text}' is not a filter; write dimension=value, for example team=search."
        )
    values = tuple(part.strip() for part in value.split(","))
    if len(values) > SIZES.filter_values:
        raise WrongInput(
            f"A filter takes {SIZES.filter_values} values at most; {name[:40]} got {len(values)}."
        )
    return Filter(name, values, negated)


def type_name(parameter: Parameter) -> str:
    """Name the type for help and docs."""
    kind = bare_type(parameter.type)
    if parameter.arg.choices:
        return " or ".join(filter(None, parameter.arg.choices))
    return _NAMES.get(kind, getattr(kind, "__name__", str(kind)))


def bare_type(kind: Any) -> Any:
    """Return the type of an argument that is given: without `| None`."""
    return _bare(kind)[0]


def _bare(kind: Any) -> tuple[Any, bool]:
    """Take `| None` off a type."""
    if typing.get_origin(kind) in {types.UnionType, typing.Union}:
        rest = [part for part in typing.get_args(kind) if part is not type(None)]
        return rest[0], True
    return kind, False


def _number(text: str, name: str, _: datetime) -> Decimal:
    try:
        value = Decimal(text.strip().lstrip("$").replace(",", ""))
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite():
        raise WrongInput(
            f"'{shortened(text)}' is not a number for {name}; write it like 12 or 2.5."
        )
    if len(text) > NUMBER_LENGTH or (value and abs(value.adjusted()) >= NUMBER_EXPONENT):
        limit = f"keep it within {NUMBER_LENGTH} characters and under 10^{NUMBER_EXPONENT}"
        raise WrongInput(f"'{shortened(text)}' is no size that {name} can have; {limit}.")
    return value if value else Decimal(0)


def _whole(text: str, name: str, now: datetime) -> int:
    value = _number(text, name, now)
    if value != value.to_integral_value():
        raise WrongInput(f"'{text}' is not a whole number for {name}.")
    return int(value)


def _switch(text: str, name: str, _: datetime) -> bool:
    if text.lower() not in _SWITCH:
        raise WrongInput(f"{name} is on or off; got '{text}'.")
    return _SWITCH[text.lower()]


def _words(text: str, name: str, _: datetime) -> tuple[str, ...]:
    words = tuple(part.strip() for part in text.split(",") if part.strip())
    if len(words) > SIZES.words:
        raise WrongInput(f"'{name}' takes {SIZES.words} values at most; got {len(words)}.")
    return words


def _window(text: str, _: str, now: datetime) -> Window:
    window = Window.parse(text, now)
    if window.length > SIZES.window:
        raise WrongInput(
            f"A window is {SIZES.window.days:,} days long at most; '{text}' has {window.length.days:,}."
        )
    return window


def _moment(text: str, _: str, now: datetime) -> datetime:
    return read_moment(text, now)


_READERS: Mapping[Any, Callable[[str, str, datetime], Any]] = {
    str: lambda text, _, __: text,
    int: _whole,
    float: lambda text, name, now: float(_number(text, name, now)),
    bool: _switch,
    Decimal: _number,
    Window: _window,
    timedelta: lambda text, _, __: parse_duration(text),
    datetime: _moment,
    WORDS: _words,
}
_NAMES: Mapping[Any, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "on/off",
    Decimal: "amount",
    Window: "window",
    timedelta: "duration",
    datetime: "time",
    WORDS: "list",
    FILTERS: "filters",
}
