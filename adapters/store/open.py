"""Open the database an address names: up to date, private, and watched from by one process."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import sqlite3
import stat
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from adapters.store.sql import Lead, SqlStore, reason_of, remedy
from bot.errors import Unavailable, WrongInput, nearest

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_log = logging.getLogger("trnbot.store")


def make_folder(folder: Path) -> None:
    """Make a folder and those above it that are missing, for this user alone.

    One that is there already stays as it is.
    """
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(mode=stat.S_IRWXU, exist_ok=True)


def make_file(path: Path) -> None:
    """Make an empty file for this user alone, where there is none."""
    with contextlib.suppress(FileExistsError):
        path.touch(stat.S_IRUSR | stat.S_IWUSR, exist_ok=False)


def tighten(paths: Iterable[Path]) -> None:
    """Take files and folders from everybody but their owner, and log which.

    A link's target is somebody else's business.
    """
    changed = []
    for path in paths:
        try:
            mode = path.lstat().st_mode
            if not stat.S_ISLNK(mode) and mode & _OTHERS:
                path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
                changed.append(str(path))
        except FileNotFoundError:  # gone meanwhile, as SQLite's files beside the database go
            continue
        except OSError as error:
            _log.warning("others can read %s, and it cannot be changed: %s", path, error.strerror)
    if changed:
        others = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        _log.warning(
            "others could read %s%s; now only the user who runs trnbot can", changed[0], others
        )


LEADING = 7_478_606_002
"""PostgreSQL's advisory lock of the one that watches."""
SENDING = 747_860_600
"""First half of PostgreSQL's advisory locks of those that send a message.

The second is the message's own.
"""


class FileLead:
    """Lock a file beside the database."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: int | None = None

    def acquire(self) -> bool:
        """Take the lock where it is free, and return whether this process holds it."""
        if self._held is not None:
            return True
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return False
        self._held = handle
        return True

    def release(self) -> None:
        """Release the lock; the file stays, as deleting it would let two hold it."""
        if self._held is not None:
            os.close(self._held)
        self._held = None

    def hold(self, name: str) -> bool:
        """Hold anything: no other process has this database."""
        return bool(name)

    def free(self, name: str) -> None:
        """Do nothing."""


class PostgresLead:
    """Lock on connections of its own, one for the watch and one for the names that are sent.

    When one breaks, or the process ends, PostgreSQL frees its locks and the next call asks anew.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._held: Connection | None = None
        self._sending: Connection | None = None
        self._turn = threading.Lock()

    def acquire(self) -> bool:
        """Take the lock where it is free, and return whether this process holds it.

        Raise `SQLAlchemyError` without a server.
        """
        if self._held is not None and _answers(self._held):
            return True
        self.release()
        connection = self._engine.connect()
        if connection.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": LEADING}).scalar():
            self._held = connection
            return True
        connection.close()
        return False

    def release(self) -> None:
        """End the connection with its lock: the pool must not get it back with the lock on it."""
        if self._held is not None:
            with contextlib.suppress(SQLAlchemyError):
                # Unlock before the server sees the connection end, which takes it a while.
                self._held.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": LEADING})
            with contextlib.suppress(SQLAlchemyError):
                self._held.invalidate()
                self._held.close()
        self._held = None

    def hold(self, name: str) -> bool:
        """Lock a name, and return whether nobody else has; threads take turns.

        Raise `SQLAlchemyError` without a server.
        """
        lock = text("SELECT pg_try_advisory_lock(:kind, hashtext(:name))")
        with self._turn:
            if self._sending is None or not _answers(self._sending):
                self._sending = self._engine.connect()
            return bool(self._sending.execute(lock, {"kind": SENDING, "name": name}).scalar())

    def free(self, name: str) -> None:
        """Unlock a name."""
        unlock = text("SELECT pg_advisory_unlock(:kind, hashtext(:name))")
        with self._turn, contextlib.suppress(SQLAlchemyError):
            if self._sending is not None:
                self._sending.execute(unlock, {"kind": SENDING, "name": name})


def _answers(connection: Connection) -> bool:
    try:
        connection.execute(text("SELECT 1"))
    except SQLAlchemyError:
        return False
    return True


HEAD = "0006"
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
    reader: Engine
    writer: Engine
    lead: Lead
    try:
        if address.drivername == "sqlite":
            path = file_of(address)
            lock = path.with_name(path.name + ".lead")
            make_folder(path.parent)
            make_file(path)
            beside = (path.with_name(path.name + ending) for ending in _BESIDE)
            tighten([path.resolve(), lock, *beside])

            # Readers and the writer are one file, and differ in how a transaction begins.
            reader = create_engine(address, hide_parameters=True)
            event.listen(reader, "connect", prepare)
            event.listen(reader, "begin", _begin)
            event.listen(reader, "checkin", _forget)
            writer, lead = reader.execution_options(writes=True), FileLead(lock)
        else:
            if "connect_timeout" not in address.query:
                address = address.update_query_dict({"connect_timeout": "5"})

            # A reader sees one instant through all of its queries.
            writer = create_engine(address, hide_parameters=True, pool_pre_ping=True)
            reader = writer.execution_options(isolation_level="REPEATABLE READ")
            lead = PostgresLead(writer)
        migrate(writer)
    except (SQLAlchemyError, OSError) as error:
        reason = reason_of(error)
        advice = remedy(reason) or "; check TRNBOT_DATABASE_URL"
        raise Unavailable(f"The database {name} cannot be opened: {reason}{advice}.") from error
    return SqlStore(reader, writer, lead, name)


def prepare(connection: Any, _record: object) -> None:
    """Set one SQLite connection.

    Transactions are begun by `_begin` alone, readers never wait for the writer.
    """
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout={_BUSY_MS}")

    # SQLite does not wait for a lock here, so processes that open a new file at once retry.
    for retries in reversed(range(_BUSY_MS // _RETRY_MS)):
        try:
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                connection.execute("PRAGMA journal_mode=WAL")
            break
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or not retries:
                raise
        time.sleep(_RETRY_MS / 1000)
    connection.execute("PRAGMA synchronous=NORMAL")
    # Zeroes over what is dropped, so that no token stays in a free page.
    connection.execute("PRAGMA secure_delete=ON")


def _forget(connection: Any, _record: object) -> None:
    """Keep no page between transactions.

    A file that was damaged or replaced is noticed by whoever reads it next.
    """
    if connection is not None:  # it was given up
        connection.execute("PRAGMA shrink_memory")


def _begin(connection: Connection) -> None:
    """Begin a write at once: a transaction that reads first and then writes could be refused."""
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


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
    if url.drivername not in ("sqlite", "sqlite+pysqlite"):
        hint = nearest(url.drivername, ("sqlite", "postgresql"))
        raise WrongInput(
            f"'{url.drivername}' is not a database that trnbot keeps state in{hint}; write {FORMS}."
        )
    url = url.set(drivername="sqlite")
    if not url.database or url.database == ":memory:" or url.host:
        raise WrongInput(
            f"'{masked(str(url))}' names no file; write sqlite:///trnbot.db, "
            "or sqlite:////absolute/trnbot.db."
        )
    return url


def masked(text: str) -> str:
    """Return an address without user, password and options."""
    return re.sub(r"^([\w+]*://)?.*@", r"\1****@", text).partition("?")[0]


def file_of(url: URL) -> Path:
    """Return the file of a SQLite address."""
    assert url.database
    return Path(url.database)


def migrate(writer: Engine) -> None:
    """Apply the missing migrations in one transaction.

    Raise `Unavailable` for tables of a newer trnbot.
    """
    with writer.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATING})

        revision = ""
        if inspect(connection).has_table("alembic_version"):
            query = text("SELECT version_num FROM alembic_version")
            revision = str(connection.execute(query).scalar() or "")

        # Tables of a newer trnbot may mean something else.
        if revision > HEAD:
            raise Unavailable(
                f"The database was written by a newer trnbot (step {revision}, "
                f"this one knows {HEAD}); update trnbot."
            )
        if revision == HEAD:
            return

        # Imported late: Alembic takes a third of a second, and few starts find anything to do.
        from alembic import command
        from alembic.config import Config

        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
        command.upgrade(config, HEAD)
