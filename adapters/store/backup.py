"""Copy a database into one file while it is used, and put such a file back.

The file is a database of SQLite whatever wrote it, so what PostgreSQL held can move into a file, and
the other way round.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, Engine, create_engine, func, insert, select
from sqlalchemy.exc import SQLAlchemyError

from adapters.store.open import (
    BESIDE,
    HEAD,
    FileLease,
    file_of,
    make_file,
    make_folder,
    masked,
    migrate,
    open_store,
    read_address,
    revision_of,
)
from adapters.store.sql import WATCH, reason_of, remedy
from adapters.store.tables import COUNTER, METADATA
from bot.errors import Unavailable, WrongInput

_ROWS = 1_000
"""Rows that are copied at once."""
_STOP = "stop every trnbot that uses it, then try again"


@dataclass(frozen=True)
class Copied:
    """Say what a file or a database holds: rows of all tables, and the step of its schema."""

    rows: int
    step: str


def step_of(url: str) -> str:
    """Return the step of a database's schema, "" for an empty or missing one; write nothing."""
    address = read_address(url)
    if address.drivername == "sqlite" and not file_of(address).exists():
        return ""
    with _engine(address) as engine, _explained(_name(engine.url)), engine.connect() as connection:
        return revision_of(connection)


def back_up(url: str, target: Path) -> Copied:
    """Write what a database holds at one instant into a new file, for this user alone.

    Raises `WrongInput` for a file that is there, `Unavailable` where reading or writing fails.
    """
    if target.exists():
        raise WrongInput(f"'{target}' already exists; name a new file.")
    address = read_address(url)
    step = step_of(url)
    if not step:
        raise WrongInput(f"There is no database of trnbot at {_name(address)} yet.")

    # Under another name until it is whole: half a copy must not be taken for a backup.
    with _explained(target), _part_beside(target) as part:
        if address.drivername == "sqlite":
            _copy_file(file_of(address), part)
        elif step != HEAD:
            raise Unavailable(
                f"{_name(address)} is at step {step} and this trnbot knows {HEAD};"
                " back it up with the version that serves with it."
            )
        else:
            with _engine(address) as source, _engine(_file_url(part)) as copy:
                migrate(copy)
                _copy_rows(source, copy)
        copied = examine(part)
        part.rename(target)
    return copied


def examine(file: Path) -> Copied:
    """Return what a backup holds; raise `WrongInput` where it is none, or of a newer trnbot."""
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as database:
            sound = database.execute("PRAGMA integrity_check").fetchone()[0]
            (step,) = database.execute("SELECT version_num FROM alembic_version").fetchone()
            tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            rows = sum(
                database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]  # noqa: S608
                for (name,) in tables.fetchall()
                if name in METADATA.tables
            )
    except (sqlite3.Error, OSError, TypeError) as error:
        raise WrongInput(f"'{file}' is not a backup of trnbot ({error}).") from error
    if sound != "ok":
        raise WrongInput(f"'{file}' is damaged ({sound}); take another backup.")
    if step > HEAD:
        raise WrongInput(
            f"'{file}' was written by a newer trnbot (step {step}, this one knows {HEAD});"
            " nothing was changed. Restore it with that version."
        )
    return Copied(rows, str(step))


def restore(file: Path, url: str, *, replace: bool) -> Copied:
    """Put a backup in the place of a database, whole or not at all; nobody may use it meanwhile.

    Raises `WrongInput` where something is there and is not to be replaced.
    """
    copied = examine(file)
    address = read_address(url)
    if step_of(url) and not replace:
        raise WrongInput(
            f"{_name(address)} holds a database; --replace puts the backup in its place."
        )
    if address.drivername == "sqlite":
        _restore_file(file, file_of(address))
    else:
        _restore_rows(file, address, url)
    return copied


def _restore_file(file: Path, path: Path) -> None:
    make_folder(path.parent)
    lease = FileLease(path.with_name(path.name + ".lead"))
    epoch = lease.take(WATCH)
    if not epoch:
        raise Unavailable(f"A trnbot uses {path}; {_STOP}.")
    try:
        with _explained(path), _part_beside(path) as part:
            _copy_file(file, part)
            with _engine(_file_url(part)) as engine:
                migrate(engine)
            # What SQLite keeps beside the old file would be read as part of the new one.
            for ending in BESIDE:
                path.with_name(path.name + ending).unlink(missing_ok=True)
            part.replace(path)
    finally:
        lease.free(WATCH, epoch)


def _restore_rows(file: Path, address: URL, url: str) -> None:
    with closing(open_store(url)) as store:
        if not store.acquire_lead():
            raise Unavailable(f"A trnbot leads with {_name(address)}; {_STOP}.")
        with _explained(file), _part_beside(file) as part:
            _copy_file(file, part)
            with _engine(_file_url(part)) as source, _engine(address) as target:
                migrate(source)
                _copy_rows(source, target, over=True)


def _copy_file(source: Path, target: Path) -> None:
    """Copy a database that may be written to meanwhile, by SQLite's own means, as one file."""
    with (
        closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True)) as read,
        closing(sqlite3.connect(target)) as written,
    ):
        read.backup(written)
        written.execute("PRAGMA journal_mode=DELETE")


def _copy_rows(source: Engine, target: Engine, *, over: bool = False) -> None:
    """Copy every row as of one instant, in one transaction; where `over`, in the place of others."""
    read_at_once = source.execution_options(
        isolation_level="REPEATABLE READ" if source.dialect.name == "postgresql" else "SERIALIZABLE"
    )
    with read_at_once.connect() as read, target.begin() as written:
        for table in METADATA.sorted_tables:
            if over:
                written.execute(table.delete())
            rows = read.execute(select(table)).mappings()
            while batch := [dict(row) for row in rows.fetchmany(_ROWS)]:
                written.execute(insert(table), batch)

            # PostgreSQL counts on from its own number, which the rows did not come by.
            counted = next((c for c in table.columns if c.type is COUNTER and c.primary_key), None)
            if counted is not None and target.dialect.name == "postgresql":
                newest = written.execute(select(func.max(counted))).scalar()
                sequence = func.pg_get_serial_sequence(table.name, counted.name)
                written.execute(select(func.setval(sequence, newest or 1, newest is not None)))


@contextmanager
def _engine(address: URL) -> Iterator[Engine]:
    engine = create_engine(address, hide_parameters=True)
    try:
        yield engine
    finally:
        engine.dispose()


def _file_url(path: Path) -> URL:
    return URL.create("sqlite", database=str(path))


def _name(address: URL) -> str:
    return masked(address.render_as_string(hide_password=True))


@contextmanager
def _explained(place: object) -> Iterator[None]:
    """Turn a driver's error into one sentence."""
    try:
        yield
    except (SQLAlchemyError, OSError) as error:
        reason = reason_of(error)
        raise Unavailable(f"{place} cannot be copied: {reason}{remedy(reason)}.") from error
    except sqlite3.Error as error:
        raise Unavailable(f"{place} cannot be copied: {error}{remedy(str(error))}.") from error


@contextmanager
def _part_beside(path: Path) -> Iterator[Path]:
    """Yield an empty file beside a path, and leave no part of a copy behind."""
    part = path.with_name(f"{path.name}.part")
    try:
        make_file(part)
        yield part
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
            for ending in BESIDE:
                part.with_name(part.name + ending).unlink(missing_ok=True)
