"""Open the database an address names, with its tables up to date."""

from __future__ import annotations

import sqlite3
import time
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError

from adapters.store.address import file_of, masked, read_address
from adapters.store.lead import FileLead, Lead, PostgresLead
from adapters.store.schema import migrate
from adapters.store.sql import SqlStore, reason_of
from bot.errors import Unavailable

_BUSY_MS = 10_000
_RETRY_MS = 20


def open_store(url: str) -> SqlStore:
    """Open `sqlite:///FILE` (made where missing) or `postgresql://...` and apply the migrations.

    Raises `WrongInput` for an address of another kind and `Unavailable` for one that does not answer; neither shows a password.
    """
    address = read_address(url)
    name = masked(address.render_as_string(hide_password=True))
    try:
        reader, writer, lead = _sqlite(address) if address.drivername == "sqlite" else _postgres(address)
        migrate(writer)
    except (SQLAlchemyError, OSError) as error:
        reason = reason_of(error) if isinstance(error, SQLAlchemyError) else error.strerror
        raise Unavailable(f"The database {name} cannot be opened: {reason}; check TRNBOT_DATABASE_URL.") from error
    return SqlStore(reader, writer, lead, name)


def _sqlite(address: URL) -> tuple[Engine, Engine, Lead]:
    path = file_of(address)
    path.parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(address, hide_parameters=True)
    event.listen(engine, "connect", prepare)
    event.listen(engine, "begin", _begin)
    return engine, engine.execution_options(writes=True), FileLead(path.with_name(path.name + ".lead"))


def prepare(connection: Any, _record: object) -> None:
    """Set one SQLite connection: transactions are begun by `_begin` alone, readers never wait for the writer."""
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout={_BUSY_MS}")
    if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        _use_wal(connection)
    connection.execute("PRAGMA synchronous=NORMAL")


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch the journal once; SQLite does not wait for a lock here, so processes that open a new file at once retry."""
    for left in reversed(range(_BUSY_MS // _RETRY_MS)):
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or not left:
                raise
        time.sleep(_RETRY_MS / 1000)


def _begin(connection: Connection) -> None:
    """Begin a write at once: a transaction that reads first and then writes could be refused."""
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _postgres(address: URL) -> tuple[Engine, Engine, Lead]:
    if "connect_timeout" not in address.query:
        address = address.update_query_dict({"connect_timeout": "5"})
    engine = create_engine(address, hide_parameters=True, pool_pre_ping=True)
    return engine.execution_options(isolation_level="REPEATABLE READ"), engine, PostgresLead(engine)
