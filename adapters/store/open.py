"""Open the database an address names, with its tables up to date."""

from __future__ import annotations

import re
import sqlite3
import time
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from adapters.store.faults import reason_of, remedy
from adapters.store.lead import FileLead, Lead, PostgresLead
from adapters.store.private import make_file, make_folder, tighten
from adapters.store.sql import SqlStore
from bot.errors import Unavailable, WrongInput, nearest

HEAD = "0005"
"""The newest migration."""
_MIGRATING = 7_478_606_001
"""PostgreSQL's advisory lock while migrating; any number that nobody else uses."""
_BUSY_MS = 10_000
_RETRY_MS = 20
_BESIDE = ("-wal", "-shm", "-journal")
"""Endings of the files that SQLite keeps beside a database.

It makes them with the database's own mode.
"""
FORMS = "sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME"
_POSTGRES = ("postgresql", "postgres", "postgresql+psycopg")


def open_store(url: str) -> SqlStore:
    """Open `sqlite:///FILE` (made where missing) or `postgresql://...` and apply the migrations.

    Raises `WrongInput` for an address of another kind and `Unavailable` for one that does not
    answer; neither shows a password.
    """
    address = read_address(url)
    name = masked(address.render_as_string(hide_password=True))
    try:
        reader, writer, lead = (
            _sqlite(address) if address.drivername == "sqlite" else _postgres(address)
        )
        migrate(writer)
    except (SQLAlchemyError, OSError) as error:
        reason = reason_of(error)
        advice = remedy(reason) or "; check TRNBOT_DATABASE_URL"
        raise Unavailable(f"The database {name} cannot be opened: {reason}{advice}.") from error
    return SqlStore(reader, writer, lead, name)


def _sqlite(address: URL) -> tuple[Engine, Engine, Lead]:
    path = file_of(address)
    lock = path.with_name(path.name + ".lead")
    make_folder(path.parent)
    make_file(path)
    tighten([path.resolve(), lock, *(path.with_name(path.name + ending) for ending in _BESIDE)])
    engine = create_engine(address, hide_parameters=True)
    event.listen(engine, "connect", prepare)
    event.listen(engine, "begin", _begin)
    event.listen(engine, "checkin", _forget)
    return engine, engine.execution_options(writes=True), FileLead(lock)


def prepare(connection: Any, _record: object) -> None:
    """Set one SQLite connection.

    Transactions are begun by `_begin` alone, readers never wait for the writer.
    """
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout={_BUSY_MS}")
    if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        _use_wal(connection)
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute(
        "PRAGMA secure_delete=ON"
    )  # zeroes over what is dropped, so that no token stays in a free page


def _forget(connection: Any, _record: object) -> None:
    """Keep no page between transactions.

    A file that was damaged or replaced is noticed by whoever reads it next.
    """
    if connection is not None:  # it was given up
        connection.execute("PRAGMA shrink_memory")


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch the journal once.

    SQLite does not wait for a lock here, so processes that open a new file at once retry.
    """
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


def read_address(text: str) -> URL:
    """Return the SQLAlchemy URL that `text` names.

    Raise `WrongInput` (password masked) for any other kind.
    """
    try:
        url = make_url(text.strip())
    except (ArgumentError, ValueError):
        raise WrongInput(
            f"The database address '{masked(text)}' cannot be read; write {FORMS}."
        ) from None
    if url.drivername in _POSTGRES:
        return url.set(drivername="postgresql+psycopg")
    if url.drivername in ("sqlite", "sqlite+pysqlite"):
        return _file(url.set(drivername="sqlite"))
    hint = nearest(url.drivername, ("sqlite", "postgresql"))
    raise WrongInput(
        f"'{url.drivername}' is not a database that trnbot keeps state in{hint}; write {FORMS}."
    )


def masked(text: str) -> str:
    """Return an address without user, password and options."""
    return re.sub(r"^([\w+]*://)?.*@", r"\1****@", text).partition("?")[0]


def file_of(url: URL) -> Path:
    """Return the file of a SQLite address."""
    assert url.database
    return Path(url.database)


def _file(url: URL) -> URL:
    if not url.database or url.database == ":memory:" or url.host:
        raise WrongInput(
            f"'{masked(str(url))}' names no file; write sqlite:///trnbot.db, or sqlite:////absolute/trnbot.db."
        )
    return url


def migrate(writer: Engine) -> None:
    """Apply the missing migrations in one transaction.

    Raise `Unavailable` for tables of a newer trnbot.
    """
    with writer.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATING})
        revision = _revision(connection)
        if revision > HEAD:
            raise Unavailable(
                f"The database was written by a newer trnbot (step {revision}, this one knows {HEAD}); update trnbot."
            )
        if revision < HEAD:
            _upgrade(connection)


def _revision(connection: Connection) -> str:
    """Return the last step applied, "" for an empty database."""
    if not inspect(connection).has_table("alembic_version"):
        return ""
    return str(connection.execute(text("SELECT version_num FROM alembic_version")).scalar() or "")


def _upgrade(connection: Connection) -> None:
    # Imported late: Alembic costs a third of a second, and almost every start finds nothing to do.
    from alembic import command
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    command.upgrade(config, HEAD)
