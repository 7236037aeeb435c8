"""Open the database an address names: up to date, private, and watched from by one process."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import secrets
import socket
import sqlite3
import stat
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Engine,
    case,
    create_engine,
    delete,
    event,
    func,
    inspect,
    make_url,
    select,
    text,
    update,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from adapters.store.sql import WATCH, Leases, SqlStore, reason_of, remedy
from adapters.store.tables import LEASES
from bot.errors import Standby, Unavailable, WrongInput, nearest

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


LEASE_S = 10.0
"""How long a process leads without a word of it: two ticks of the fastest interval, and longer
than a busy machine lets a process wait.
"""


class FileLease:
    """Lock a file beside the database, which no other process then has.

    The lock ends with the process; who stands still keeps it, for nobody could take over.
    """

    holder = ""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: int | None = None

    def take(self, name: str) -> int:
        """Take the lock for the watch where it is free; send anything."""
        if name != WATCH or self._held is not None:
            return 1
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return 0
        self._held = handle
        return 1

    def holds(self, name: str, epoch: int) -> bool:
        """Return whether the lock was not given up."""
        return name != WATCH or (self._held is not None and epoch == 1)

    def free(self, name: str, epoch: int) -> None:
        """Release the lock; the file stays, as deleting it would let two hold it."""
        if name == WATCH and self._held is not None and epoch:
            os.close(self._held)
            self._held = None

    def fence(self, connection: Connection, epoch: int) -> None:
        """Do nothing: a lock of the system is not lost."""


class DatabaseLease:
    """Keep leases in rows that expire by the clock of PostgreSQL, the only one that all share.

    Whoever takes a lease that ran out counts its epoch up, so that the one before, where it wakes
    up, is known by its own.
    """

    def __init__(self, engine: Engine, lasts_s: float, stopwatch: Callable[[], float]) -> None:
        self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._lasts_s, self._stopwatch = lasts_s, stopwatch
        self.holder = f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(4)}"
        self._renewed: dict[str, tuple[int, float]] = {}
        """Epoch of each lease that is held, and when it was asked for last."""
        self._until = func.clock_timestamp() + timedelta(seconds=lasts_s)

    def take(self, name: str) -> int:
        """Take a lease where it is free or ran out, and renew all others."""
        began = self._stopwatch()
        mine = LEASES.c.holder == self.holder
        row = {"name": name, "holder": self.holder, "epoch": 1, "expires": self._until}
        free = mine | (LEASES.c.expires <= func.clock_timestamp())
        count = case((mine, LEASES.c.epoch), else_=LEASES.c.epoch + 1)
        taken = {"holder": self.holder, "epoch": count, "expires": self._until}
        taking = (
            postgresql.insert(LEASES)
            .values(row)
            .on_conflict_do_update(index_elements=["name"], set_=taken, where=free)
        )
        renewing = update(LEASES).where(mine).values(expires=self._until)

        with self._engine.connect() as connection:
            renewed = connection.execute(renewing.returning(LEASES.c.name, LEASES.c.epoch))
            self._renewed = {row.name: (row.epoch, began) for row in renewed}
            if name in self._renewed:
                return self._renewed[name][0]
            epoch = connection.execute(taking.returning(LEASES.c.epoch)).scalar()
        if epoch:
            self._renewed[name] = epoch, began
        return epoch or 0

    def holds(self, name: str, epoch: int) -> bool:
        """Return whether the lease is held, asking the database unless it was just renewed.

        A process that stood still finds its own word too old.
        """
        known, at = self._renewed.get(name, (0, 0.0))
        if known == epoch and self._stopwatch() - at < self._lasts_s / 2:
            return True
        renewing = update(LEASES).where(*self._held(name, epoch)).values(expires=self._until)
        began = self._stopwatch()
        with self._engine.connect() as connection:
            held = connection.execute(renewing).rowcount > 0
        if held:
            self._renewed[name] = epoch, began
        return held

    def free(self, name: str, epoch: int) -> None:
        """Give a lease back: that of the watch keeps its epoch, that of a message goes."""
        self._renewed.pop(name, None)
        held = self._held(name, epoch)
        ended = {"holder": "", "expires": func.clock_timestamp()}
        giving = update(LEASES).values(ended) if name == WATCH else delete(LEASES)
        with contextlib.suppress(SQLAlchemyError), self._engine.connect() as connection:
            connection.execute(giving.where(*held))

    def fence(self, connection: Connection, epoch: int) -> None:
        """Lock the row of the watch, where it still is of this epoch, until the transaction ends."""
        query = select(LEASES.c.epoch).where(*self._held(WATCH, epoch))
        if connection.execute(query.with_for_update(read=True)).first() is None:
            raise Standby("Another process leads now; nothing of this tick was written.")

    def _held(self, name: str, epoch: int) -> tuple[ColumnElement[bool], ...]:
        return LEASES.c.name == name, LEASES.c.holder == self.holder, LEASES.c.epoch == epoch


FIRST, HEAD = "0003", "0007"
"""The first migration, that of the first release, and the newest."""
_MIGRATING = 7_478_606_001
"""PostgreSQL's advisory lock while migrating; any number that nobody else uses."""
_BUSY_MS = 10_000
_RETRY_MS = 20
BESIDE = ("-wal", "-shm", "-journal")
"""Endings of the files that SQLite keeps beside a database.

It makes them with the database's own mode.
"""
_CONNECTION = {
    "connect_timeout": "5",
    "keepalives": "1",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
}
"""How soon a server without power or network is noticed: libpq's options, where the address says
nothing else.

Source: PostgreSQL 16, 34.1.2 "Parameter Key Words"; read 2026-11-25.
"""
_SESSION = {"statement_timeout": "60s", "idle_in_transaction_session_timeout": "5s"}
"""How long a statement may take, and a process that stands still within a transaction block others.

Source: PostgreSQL 16, 20.11 "Client Connection Defaults"; read 2026-11-25.
"""
FORMS = "sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME"
_POSTGRES = ("postgresql", "postgres", "postgresql+psycopg")


def open_store(
    url: str, lease_s: float = LEASE_S, stopwatch: Callable[[], float] = time.monotonic
) -> SqlStore:
    """Open `sqlite:///FILE` (made where missing) or `postgresql://...` and apply the migrations.

    In PostgreSQL this process leads for `lease_s` after each word of it; `stopwatch` tells it how
    old its own word is.

    Raises `WrongInput` for an address of another kind and `Unavailable` for one that does not
    answer; neither shows a password.
    """
    address = read_address(url)
    name = masked(address.render_as_string(hide_password=True))
    writer: Engine
    leases: Leases
    try:
        if address.drivername == "sqlite":
            path = file_of(address)
            lock = path.with_name(path.name + ".lead")
            make_folder(path.parent)
            make_file(path)
            beside = (path.with_name(path.name + ending) for ending in BESIDE)
            tighten([path.resolve(), lock, *beside])

            # Readers and the writer are one file, and differ in how a transaction begins.
            reader = create_engine(address, hide_parameters=True)
            event.listen(reader, "connect", prepare)
            event.listen(reader, "begin", _begin)
            event.listen(reader, "checkin", _forget)
            writer, leases = reader.execution_options(writes=True), FileLease(lock)
        else:
            address = address.update_query_dict({**_CONNECTION, **address.query})

            # A reader sees one instant through all of its queries.
            writer = create_engine(address, hide_parameters=True, pool_pre_ping=True)
            event.listen(writer, "connect", limit)
            reader = writer.execution_options(isolation_level="REPEATABLE READ")
            leases = DatabaseLease(writer, lease_s, stopwatch)
        migrate(writer)
    except (SQLAlchemyError, OSError) as error:
        reason = reason_of(error)
        advice = remedy(reason) or "; check TRNBOT_DATABASE_URL"
        raise Unavailable(f"The database {name} cannot be opened: {reason}{advice}.") from error
    return SqlStore(reader, writer, leases, name)


def limit(connection: Any, _record: object) -> None:
    """Set the limits of one session of PostgreSQL."""
    for name, value in _SESSION.items():
        connection.execute(f"SET {name} = '{value}'")
    connection.commit()


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


def revision_of(connection: Connection) -> str:
    """Return the step of a database's schema, "" for an empty one."""
    if not inspect(connection).has_table("alembic_version"):
        return ""
    return str(connection.execute(text("SELECT version_num FROM alembic_version")).scalar() or "")


def refuse_unknown(step: str) -> None:
    """Raise `Unavailable` for a step of a newer trnbot, or one that no release stood at.

    Tables of a newer one may mean something else, and from before the first nothing leads on.
    """
    if step > HEAD:
        raise Unavailable(
            f"The database was written by a newer trnbot (step {step}, this one knows {HEAD}), so"
            " nothing was changed; serve with that version, or restore the backup from before."
        )
    if "" < step < FIRST:
        raise Unavailable(
            f"The database is at step {step}, before the first that was released ({FIRST}), and"
            " cannot be brought up to date; move it away, and a new one is made."
        )


def migrate(writer: Engine) -> None:
    """Apply the missing migrations in one transaction.

    Raise `Unavailable` for tables of a newer trnbot, and of one that was never released.
    """
    with writer.begin() as connection:
        if connection.dialect.name == "postgresql":
            # Who waits here waits for the migration of another process, however long it takes.
            connection.execute(text("SET LOCAL statement_timeout = 0"))
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATING})

        revision = revision_of(connection)
        refuse_unknown(revision)
        if revision == HEAD:
            return

        # Imported late: Alembic takes a third of a second, and few starts find anything to do.
        from alembic import command
        from alembic.config import Config

        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
        command.upgrade(config, HEAD)
