"""Write rows over those that are there, in either database."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Table, case
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects import sqlite as sqlite_dialect

from adapters.store.tables import Row


def replace(
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
    others = {name: statement.excluded[name] for name in ready[0] if name not in keys}
    if keep:
        others[keep] = case(
            (statement.excluded[keep] == "", table.c[keep]), else_=statement.excluded[keep]
        )
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=others), ready)


def add(connection: Connection, table: Table, key: str, rows: Iterable[Row]) -> None:
    """Write the rows whose key is new."""
    if ready := list(rows):
        connection.execute(
            insert_into(connection, table).on_conflict_do_nothing(index_elements=[key]), ready
        )


def insert_into(connection: Connection, table: Table) -> Any:
    """Begin a statement that may say what to do where a row is there already."""
    return (postgresql if connection.dialect.name == "postgresql" else sqlite_dialect).insert(table)
