"""Hand out what is kept of one person, and take the person out of it; what was decided stays."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import JSON, Connection, Engine, Table, Text, cast, delete, or_, select, update

from adapters.store.tables import METADATA, SHELF
from bot.errors import WrongInput

SOMEONE = "someone"
"""How a person is called who was erased."""
_LEAST = 6
"""Letters of an id that is looked for without its platform; shorter ones may be anything."""
_NOTES = ("note", "reason", "line")
"""Fields in which people write what they like: of an erased person nothing of it stays."""
_NAMES = {"by": "by_name", "assignee": "assignee_name", "id": "name"}
"""The field with a person's address, and the one beside it with the name."""


@dataclass(frozen=True)
class _Person:
    """Know one person by address, by the platform's id, and by the names beside these."""

    ids: frozenset[str]
    names: frozenset[str] = frozenset()
    alias: str = ""
    """Stands for the address from now on: another one for each person, so that they stay counted."""

    @property
    def _within(self) -> re.Pattern[str]:
        """Return what finds the address within a line or a sentence; a bare id may be any word."""
        addresses = "|".join(re.escape(id_) for id_ in self.ids if ":" in id_)
        return re.compile(rf"(?<![\w:])(?:{addresses or '(?!)'})(?!\w)")

    def is_meant(self, value: Any) -> bool:
        """Return whether a value, or anything in it, is the person's address."""
        match value:
            case str():
                return value in self.ids or self._within.search(value) is not None
            case Mapping():
                return any(self.is_meant(part) for pair in value.items() for part in pair)
            case list() | tuple():
                return any(map(self.is_meant, value))
        return False

    def called(self, value: Any) -> Iterator[str]:
        """Yield the names that stand beside the address."""
        if isinstance(value, Mapping):
            for field, name in _NAMES.items():
                if value.get(field) in self.ids and value.get(name):
                    yield str(value[name])
            value = list(value.values())
        if isinstance(value, list | tuple):
            for part in value:
                yield from self.called(part)

    def erased(self, value: Any) -> Any:
        """Return a value without the person."""
        match value:
            case str() if value in self.ids:
                return self.alias
            case str():
                value = self._within.sub(self.alias, value)
                for name in sorted(self.names, key=len, reverse=True):
                    value = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", SOMEONE, value)
                return value
            case Mapping():
                wrote = value.get("by") in self.ids
                return {
                    self.erased(key): "" if wrote and key in _NOTES else self.erased(part)
                    for key, part in value.items()
                }
            case list() | tuple():
                return [self.erased(part) for part in value]
        return value


def kept_of(engine: Engine, address: str) -> list[dict[str, Any]]:
    """Return every row that names a person, with its table."""
    person = _known(address)
    with engine.begin() as connection:
        return [{"table": table.name, **row} for table, row in _rows(connection, person)]


def erase(engine: Engine, address: str) -> int:
    """Take a person out of every row in one transaction; return how many rows there were.

    Rows that are about the person alone go. Raises `WrongInput` where nothing is kept.
    """
    person = _known(address)
    with engine.begin() as connection:
        rows = list(_rows(connection, person))
        if not rows:
            raise WrongInput(
                f"Nothing is kept of '{address}'; write the address, such as slack:U01DANA,"
                " teams:29:1x or web:dana@example.com."
            )
        names = frozenset(name for _, row in rows for name in person.called(row))
        person = _Person(person.ids, names - {SOMEONE, ""}, f"erased:{secrets.token_hex(4)}")
        for table, row in rows:
            key = [column == row[column.name] for column in table.primary_key.columns]
            if table is SHELF and row["key"] in person.ids:
                connection.execute(delete(table).where(*key))
                continue
            changed = {
                name: value for name, value in person.erased(row).items() if value != row[name]
            }
            if changed:
                connection.execute(update(table).where(*key).values(changed))
    return len(rows)


def _known(address: str) -> _Person:
    bare = address.partition(":")[2]
    return _Person(frozenset({address, bare} if len(bare) >= _LEAST else {address}))


def _rows(connection: Connection, person: _Person) -> Iterator[tuple[Table, dict[str, Any]]]:
    """Yield the rows that name the person; the database finds those whose text holds an address."""
    for table in METADATA.sorted_tables:
        texts = [
            cast(column, Text) for column in table.columns if isinstance(column.type, Text | JSON)
        ]
        # Bodies are JSON, in which some letters are written otherwise.
        sought = {form for id_ in person.ids for form in (id_, json.dumps(id_)[1:-1])}
        holds = [text.contains(form, autoescape=True) for text in texts for form in sought]
        if not holds:
            continue
        for found in connection.execute(select(table).where(or_(*holds))).mappings():
            row = dict(found)
            if person.is_meant(row):
                yield table, row
