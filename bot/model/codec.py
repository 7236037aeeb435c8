"""Turn nouns into JSON documents and back, by their type hints alone; read and group rows.

A document is made of dict, list, str, int, float, bool and None. Times are ISO 8601 in UTC, money
is a decimal string, a length of time is seconds, a number that JSON cannot hold (nan, inf) is a
string. Where a hint leaves a choice of classes, the chosen one is named under `class`, a word that
no field can have. What is hinted `Any` comes back as the document itself. A field is written under
its own name, or under the one of its metadata `stored`: so a field can be renamed, and documents
stay. One whose metadata say `optional` is not written where it is empty: None, "", () or false.
"""

from __future__ import annotations

import csv
import math
import types
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")
Key = TypeVar("Key")
_TAG = "class"


def table(package: str, name: str, delimiter: str = ",") -> Iterator[dict[str, str]]:
    """Return the rows of a CSV file that lies in a package, each by the names of its columns."""
    text = (files(package) / name).read_text(encoding="utf-8")
    return csv.DictReader(text.splitlines(), delimiter=delimiter)


def by_key(pairs: Iterable[tuple[Key, T]]) -> dict[Key, list[T]]:
    """Return the values of each key together, in the order in which they come."""
    values: defaultdict[Key, list[T]] = defaultdict(list)
    for key, value in pairs:
        values[key].append(value)
    return dict(values)


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
    if value is None or type(value) in (str, int, bool):
        return value
    # Where several classes may stand, the document says which: a reader cannot tell by its shape.
    choices = _choices(hint)
    tagged = {_TAG: type(value).__name__} if len(choices) > 1 else {}
    if is_dataclass(value):
        document: dict[str, Any] = dict(tagged)
        for name, key, inner, optional in _layout(value.__class__):
            item = getattr(value, name)
            if not optional or (item is not False and item not in (None, "", ())):
                document[key] = _encode(item, inner)
        return document
    if tagged and (type(value) is not float or not math.isfinite(value)):
        return tagged | {"value": _encode(value, Any)}

    if isinstance(value, Mapping):
        inner = _inner(choices[0], 1)
        return {str(name): _encode(item, inner) for name, item in value.items()}
    if isinstance(value, tuple | list | frozenset | set):
        # A set has no order of its own: the same value is to give the same document.
        items = sorted(value) if isinstance(value, frozenset | set) else value
        return [_encode(item, _inner(choices[0], i)) for i, item in enumerate(items)]
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
    (float, lambda value: value if math.isfinite(value) else repr(float(value))),
    (str, str),
    (int, lambda value: value),
)
_READERS: Mapping[Any, Callable[[Any], Any]] = {
    datetime: lambda text: datetime.fromisoformat(text).astimezone(UTC),
    date: date.fromisoformat,
    timedelta: lambda seconds: timedelta(seconds=seconds),
}


def _decode(hint: Any, document: Any) -> Any:
    if hint is Any or (document is None and type(None) in get_args(hint)):
        return document
    choices = _choices(hint)
    kind = choices[0]
    if len(choices) > 1:
        if not isinstance(document, Mapping):
            return document
        classes = {choice.__name__: choice for choice in choices}
        tag = document.get(_TAG, "")
        if tag not in classes:
            raise ValueError(f"'{tag}' is none of {', '.join(classes)}")
        kind = classes[tag]
        document = document if is_dataclass(kind) else document["value"]

    origin = get_origin(kind) or kind
    if is_dataclass(kind):
        return _decode_fields(kind, document)
    if origin in (dict, Mapping):
        names, items = _inner(kind, 0), _inner(kind, 1)
        return {_decode(names, name): _decode(items, item) for name, item in document.items()}
    if origin in (tuple, list, Sequence, frozenset):
        decoded = (_decode(_inner(kind, i), item) for i, item in enumerate(document))
        return frozenset(decoded) if origin is frozenset else tuple(decoded)
    # A number of JSON was a float on its way, and may have lost a cent.
    if kind is Decimal and not isinstance(document, str):
        raise ValueError(f"money is a decimal string; got {document!r}")
    # `str` and `bool` would accept whatever is there, and hide the mistake.
    if kind in (str, bool) and not isinstance(document, kind):
        raise ValueError(f"expected {kind.__name__}; got {document!r}")
    return _READERS.get(kind, kind)(document)


def _decode_fields(kind: Any, document: Any) -> Any:
    if not isinstance(document, Mapping):
        raise ValueError(f"a {kind.__name__} is an object; got {type(document).__name__}")
    values = {}
    for name, key, hint, _ in _layout(kind):
        if key in document:
            try:
                values[name] = _decode(hint, document[key])
            except (ValueError, TypeError, ArithmeticError, AttributeError, KeyError) as error:
                raise ValueError(f"{kind.__name__}.{key}: {error}") from error
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(f"{kind.__name__}: {error}") from error


@cache
def _layout(kind: Any) -> tuple[tuple[str, str, Any, bool], ...]:
    """Return of each field its name, its name in documents, its hint and whether it is optional.

    A field that does not compare (a cache) makes up nothing of the value, and is not written.
    """
    hints = get_type_hints(kind)
    return tuple(
        (
            field.name,
            field.metadata.get("stored", field.name),
            hints[field.name],
            field.metadata.get("optional", False),
        )
        for field in fields(kind)
        if field.init and field.compare
    )


@cache
def _choices(hint: Any) -> tuple[Any, ...]:
    """Return the classes a hint allows beside None."""
    if get_origin(hint) in (Union, types.UnionType):
        return tuple(choice for choice in get_args(hint) if choice is not type(None))
    return (hint,)


def _inner(hint: Any, i: int) -> Any:
    """Return the hint of the i-th item of a collection; `Any` where the hint names none."""
    inside = get_args(hint)
    if not inside:
        return Any
    if len(inside) == 1 or inside[-1] is Ellipsis:
        return inside[0]
    return inside[min(i, len(inside) - 1)]
