"""Lay out the tables, turn nouns into rows and back, and write rows over those that are there.

Hand out what is kept of one person, and take the person out of it; what was decided stays.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, TypeVar
from typing import cast as typed

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Connection,
    DateTime,
    Dialect,
    Engine,
    Index,
    Integer,
    MetaData,
    RowMapping,
    Table,
    Text,
    case,
    cast,
    delete,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.types import TypeDecorator, UserDefinedType

from adapters.store.memory import labels_of
from bot.errors import WrongInput
from bot.model.alert import Alert
from bot.model.codec import encode


class Instant(TypeDecorator[datetime]):
    """Keep an aware time as UTC: `timestamptz` in PostgreSQL, sortable text in SQLite."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(
        self,
        value: datetime | None,
        dialect: Dialect,  # noqa: ARG002 - its base asks
    ) -> datetime | None:
        """Convert the time to UTC; SQLite's text carries no zone."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value} carries no time zone")
        return value.astimezone(UTC)

    def process_result_value(
        self,
        value: datetime | None,
        dialect: Dialect,  # noqa: ARG002 - its base asks
    ) -> datetime | None:
        """Return the time as aware UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Usd(UserDefinedType[Decimal]):
    """Keep money as an exact number in both.

    Handed over as text, as SQLAlchemy would give SQLite a float.
    """

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        """Return the type in a `CREATE TABLE`."""
        return "NUMERIC(18, 6)"

    def bind_processor(
        self,
        dialect: Dialect,  # noqa: ARG002 - its base asks
    ) -> Callable[[Decimal | None], str | None]:
        """Return the function that writes the amount as text."""
        return lambda value: None if value is None else str(value)


BODY = JSON().with_variant(postgresql.JSONB(), "postgresql")
COUNTER = BigInteger().with_variant(Integer(), "sqlite")

METADATA = MetaData()


def _required(name: str, kind: Any, primary_key: bool = False) -> Column[Any]:
    return Column(name, kind, nullable=False, primary_key=primary_key)


def _counter(name: str) -> Column[Any]:
    """Return a primary key that the database counts up itself."""
    return Column(name, COUNTER, nullable=False, primary_key=True, autoincrement=True)


ALERTS = Table(
    "alerts",
    METADATA,
    _required("id", Text, primary_key=True),
    _required("key", Text),
    _required("rule", Text),
    _required("cause", Text),
    _required("severity", Text),
    _required("cluster", Text),
    _required("team", Text),
    _required("opened", Instant),
    _required("seen", Instant),
    Column("closed", Instant),
    _required("muted_by", Text),
    Column("usd_per_hour", Usd),
    Column("usd_so_far", Usd),
    _required("body", BODY),
    Index("alerts_closed", "closed"),
    Index("alerts_opened", "opened"),
    Index("alerts_key", "key"),
)

SAID = Table(
    "said",
    METADATA,
    _required("id", Text, primary_key=True),
    _required("channel", Text, primary_key=True),
    _required("reason", Text),
    _required("at", Instant),
    _required("message", Text),
    _required("over", Integer),
    _required("pending", Integer),
    _required("version", Integer),
    _required("body", BODY),
    Index("said_over_at", "over", "at"),
)

LINES = Table(
    "lines",
    METADATA,
    _counter("number"),
    _required("id", Text),
    _required("notification", Text),
    _required("channel", Text),
    _required("at", Instant),
    _required("sent", Text),
    _required("body", BODY),
    Index("lines_id", "id", unique=True),
    Index("lines_unsent", "sent", "notification"),
)

SILENCES = Table(
    "silences",
    METADATA,
    _required("id", Text, primary_key=True),
    _required("by", Text),
    _required("starts", Instant),
    _required("ends", Instant),
    Column("ended_at", Instant),
    _required("body", BODY),
    Index("silences_ends", "ends"),
)

DECISIONS = Table(
    "decisions",
    METADATA,
    _counter("number"),
    _required("id", Text),
    _required("alert", Text),
    _required("doing", Text),
    _required("by", Text),
    _required("by_name", Text),
    _required("at", Instant),
    _required("note", Text),
    _required("assignee", Text),
    _required("assignee_name", Text),
    Index("decisions_id", "id", unique=True),
    Index("decisions_alert", "alert"),
)

LEASES = Table(
    "leases",
    METADATA,
    _required("name", Text, primary_key=True),
    _required("holder", Text),
    _required("epoch", BigInteger),
    _required("expires", Instant),
)

TICKS = Table(
    "ticks",
    METADATA,
    _counter("number"),
    _required("at", Instant),
    Column("known", Text),
    Column("because", Text),
)

SHELF = Table(
    "shelf",
    METADATA,
    _required("shelf", Text, primary_key=True),
    _required("key", Text, primary_key=True),
    _required("number", BigInteger),
    _required("body", BODY),
    Column("written", Instant),
    Index("shelf_newest", "shelf", "number"),
)

VERSIONS = Table(
    "versions",
    METADATA,
    Column("number", Integer, nullable=False, primary_key=True, autoincrement=False),
    _required("at", Instant),
    _required("by", Text),
    _required("doing", Text),
    _required("body", BODY),
)

ATTEMPTS = Table(
    "attempts",
    METADATA,
    _counter("number"),
    _required("at", Instant),
    _required("by", Text),
    _required("by_name", Text),
    _required("line", Text),
    _required("refused", Text),
)


Row = dict[str, Any]
T = TypeVar("T")


def alert_row(alert: Alert) -> Row:
    """Return an alert's row.

    Who acknowledged it and who has it stay out, so that a tick never overwrites a decision.
    """
    labels, waste = labels_of(alert), alert.waste
    return row_of(ALERTS, replace(alert, acknowledged=None, assignment=None)) | {
        "rule": alert.anomaly.rule,
        "cluster": labels.cluster,
        "team": labels.team,
        "usd_per_hour": waste and waste.per_hour,
        "usd_so_far": waste and waste.so_far,
    }


def row_of(table: Table, noun: Any) -> Row:
    """Return what a noun has under the names of the table's columns, and its document as `body`."""
    names = [column.name for column in table.columns]
    row = {name: _stored(getattr(noun, name)) for name in names if hasattr(noun, name)}
    return row | ({"body": encode(noun)} if "body" in names else {})


def _stored(value: Any) -> Any:
    """Return a value as both databases take it: a number for a flag, a word for a kind."""
    if isinstance(value, bool):
        return int(value)
    return value.value if isinstance(value, Enum) else value


def noun_of(kind: type[T], row: RowMapping, **values: Any) -> T:
    """Return the noun of a row whose columns bear the names of its fields, but for `values`."""
    own_fields: Any = fields(typed("Any", kind))
    return kind(**{x.name: row[x.name] for x in own_fields if x.name in row} | values)


def upsert(
    connection: Connection, table: Table, rows: Iterable[Row], keep: str = "", key: str = ""
) -> None:
    """Write rows over those with the same primary key (or `key`).

    Where the column `keep` is "", it stays as it was.
    """
    ready = list(rows)
    if not ready:
        return
    keys = [key] if key else [column.name for column in table.primary_key.columns]
    statement = insert_into(connection, table)
    values = {name: statement.excluded[name] for name in ready[0] if name not in keys}
    if keep:
        values[keep] = case(
            (statement.excluded[keep] == "", table.c[keep]), else_=statement.excluded[keep]
        )
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=values), ready)


def insert_new(connection: Connection, table: Table, key: str, rows: Iterable[Row]) -> None:
    """Write the rows whose key is new."""
    if ready := list(rows):
        connection.execute(
            insert_into(connection, table).on_conflict_do_nothing(index_elements=[key]), ready
        )


def insert_into(connection: Connection, table: Table) -> Any:
    """Begin a statement that may say what to do where a row is there already."""
    return (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(table)


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
