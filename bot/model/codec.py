"""Turn nouns into JSON documents and back, by their type hints alone.

A document is made of dict, list, str, int, float, bool and None. Times are ISO 8601 in UTC, money
is a decimal string, a length of time is seconds, a number that JSON cannot hold (nan, inf) is a
string. Where a hint leaves a choice of classes, the chosen one is named under `class`, a word that
no field can have. What is hinted `Any` comes back as the document itself. A field is written under
its own name, or under the one of its metadata `stored`: so a field can be renamed, and documents
stay. One whose metadata say `optional` is not written where it is empty: None, "", () or false.
"""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, fields, is_dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Any, TypeVar, cast

T = TypeVar("T")
_TAG = "class"
_PLAIN = (str, int, float, bool)
_MAPPINGS = (dict, Mapping)
_SEQUENCES = (tuple, list, Sequence, frozenset)


def encode(value: Any) -> Any:
    """Return the JSON-able document of a noun.

    Raise `ValueError` for a naive time, `TypeError` for a value that is no noun.
    """
    return _encode(value, type(value) if is_dataclass(value) else Any)


def decode(kind: type[T], document: Any) -> T:
    """Return the noun of type `kind` that `encode` wrote.

    Missing fields take their defaults, unknown ones are left out.

    Raises `ValueError` naming the class and field that do not fit.
    """
    return cast("T", _decode(kind, document))


def _encode(value: Any, hint: Any) -> Any:
    if value is None:
        return None
    choices = _choices(hint)
    if len(choices) > 1:
        return _encode_choice(value)
    if is_dataclass(value):
        return _encode_fields(value)
    if isinstance(value, Mapping):
        inner = _inner(choices[0], 1)
        return {str(name): _encode(x, inner) for name, x in value.items()}
    if isinstance(value, tuple | list | frozenset | set):
        every = sorted(value) if isinstance(value, frozenset | set) else value
        return [_encode(x, _inner(choices[0], i)) for i, x in enumerate(every)]
    return _encode_plain(value)


def _encode_choice(value: Any) -> Any:
    if is_dataclass(value):
        return {_TAG: type(value).__name__} | _encode_fields(value)
    if type(value) in _PLAIN and not _unfit(value):
        return value
    return {_TAG: type(value).__name__, "value": _encode(value, Any)}


def _encode_fields(value: Any) -> dict[str, Any]:
    hints = _hints(value.__class__)
    written = [field for field in _stored(value.__class__) if _says(value, field)]
    return {
        _key(field): _encode(getattr(value, field.name), hints[field.name]) for field in written
    }


def _says(value: Any, field: Field[Any]) -> bool:
    """Return whether a field is written: one that is left out where it is empty is not."""
    held = getattr(value, field.name)
    return not field.metadata.get("optional") or (held is not False and held not in (None, "", ()))


def _encode_plain(value: Any) -> Any:
    for kind, write in _WRITERS:
        if isinstance(value, kind):
            return write(value)
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON")


def _instant(at: datetime) -> str:
    if at.tzinfo is None:
        raise ValueError(f"{at} carries no time zone")
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


_WRITERS: tuple[tuple[type[Any], Callable[[Any], Any]], ...] = (
    (Enum, lambda value: value.value),
    (datetime, _instant),
    (date, date.isoformat),
    (timedelta, timedelta.total_seconds),
    (Decimal, str),
    (float, lambda value: repr(float(value)) if _unfit(value) else value),
    (str, str),
    (int, lambda value: value),
)


def _decode(hint: Any, document: Any) -> Any:
    if hint is Any or (document is None and type(None) in typing.get_args(hint)):
        return document
    choices = _choices(hint)
    if len(choices) > 1:
        return _decode_choice(choices, document)
    return _decode_one(choices[0], document)


def _decode_one(kind: Any, document: Any) -> Any:
    origin = typing.get_origin(kind) or kind
    if is_dataclass(kind):
        return _decode_fields(kind, document)
    if origin in _MAPPINGS:
        name, inner = _inner(kind, 0), _inner(kind, 1)
        return {_decode(name, key): _decode(inner, x) for key, x in document.items()}
    if origin in _SEQUENCES:
        every = (_decode(_inner(kind, i), x) for i, x in enumerate(document))
        return frozenset(every) if origin is frozenset else tuple(every)
    return _decode_plain(kind, document)


def _decode_choice(choices: tuple[Any, ...], document: Any) -> Any:
    if not isinstance(document, Mapping):
        return document
    named = {choice.__name__: choice for choice in choices}
    kind = named.get(document.get(_TAG, ""))
    if kind is None:
        raise ValueError(f"'{document.get(_TAG, '')}' is none of {', '.join(named)}")
    return _decode_one(kind, document if is_dataclass(kind) else document["value"])


def _decode_fields(kind: Any, document: Any) -> Any:
    if not isinstance(document, Mapping):
        raise ValueError(f"a {kind.__name__} is an object; got {type(document).__name__}")
    hints, values = _hints(kind), {}
    for field in _stored(kind):
        if (key := _key(field)) in document:
            values[field.name] = _named(kind, key, hints[field.name], document[key])
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(f"{kind.__name__}: {error}") from error


def _named(kind: type[Any], name: str, hint: Any, document: Any) -> Any:
    """Decode one field, naming it in the error where it does not fit."""
    try:
        return _decode(hint, document)
    except (ValueError, TypeError, ArithmeticError, AttributeError, KeyError) as error:
        raise ValueError(f"{kind.__name__}.{name}: {error}") from error


def _decode_plain(kind: Any, document: Any) -> Any:
    if kind is datetime:
        return datetime.fromisoformat(document).astimezone(UTC)
    if kind is date:
        return date.fromisoformat(document)
    if kind is timedelta:
        return timedelta(seconds=document)
    if kind is Decimal and not isinstance(document, str):
        raise ValueError(f"money is a decimal string; got {document!r}")
    if kind in (str, bool) and not isinstance(document, kind):
        raise ValueError(f"expected {kind.__name__}; got {document!r}")
    return kind(document)


def _unfit(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


@cache
def _stored(kind: Any) -> tuple[Field[Any], ...]:
    """Return the fields that make up the value.

    A field that does not compare (a cache) is not written.
    """
    return tuple(field for field in fields(kind) if field.init and field.compare)


def _key(field: Field[Any]) -> str:
    """Return the name of a field in documents."""
    return str(field.metadata.get("stored", field.name))


def _choices(hint: Any) -> tuple[Any, ...]:
    """Return the classes a hint allows beside None."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return tuple(choice for choice in typing.get_args(hint) if choice is not type(None))
    return (hint,)


def _inner(hint: Any, i: int) -> Any:
    """Return the hint of the i-th item of a collection; `Any` where the hint names none."""
    inside = typing.get_args(hint)
    if not inside:
        return Any
    if len(inside) == 1 or inside[-1] is Ellipsis:
        return inside[0]
    return inside[min(i, len(inside) - 1)]
