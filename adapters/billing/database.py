"""Open DuckDB so that no query gets past the files of one bill, and read the SQL templates."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from itertools import count
from pathlib import Path

import duckdb

from bot.model.limits import BILL_COPIES_BYTES, BILL_MEMORY, BILL_MEMORY_GIB, BILL_SPILL


@cache
def _template(name: str) -> str:
    return resources.files(__package__).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")


def naive(at: datetime) -> datetime:
    """Return a time as the database keeps it: UTC, without a zone."""
    return at.astimezone(UTC).replace(tzinfo=None)


def sql(name: str, **parts: str) -> str:
    """Return one template with its named parts filled in.

    Parts are SQL made here, values travel as parameters.
    """
    return _template(name).format_map(parts) if parts else _template(name)


def literal(value: str) -> str:
    """Write a string literal."""
    return "'" + value.replace("'", "''") + "'"


def identifier(value: str) -> str:
    """Write an identifier."""
    return '"' + value.replace('"', '""') + '"'


_LEFT_SECONDS = 86_400
_PARTS = ("", ".wal", ".wal.checkpoint", ".wal.recovery")
"""Files that the database makes of one that is written."""


def parts_of(path: Path) -> list[Path]:
    """Return a database's file, and those that are made of it while it is written."""
    return [path.with_name(f"{path.name}{part}") for part in _PARTS]


def connect_locked(
    copy: Path | None, folders: Sequence[Path], *, writes: bool = False
) -> duckdb.DuckDBPyConnection:
    """Return a connection to a copy that is only read, or written, or (None) to one in memory.

    It reads `folders` only, and the copy. Extensions, the network, other files, Python's own
    variables and every setting are closed to it and to its cursors; links are followed before a
    file is compared with the folders. What memory does not hold is written beside the last of them.
    """
    db = duckdb.connect()
    place = "':memory:' AS bill (COMPRESS)"
    if copy is not None:
        place = f"{literal(str(copy))} AS bill{'' if writes else ' (READ_ONLY)'}"
    db.execute(f"ATTACH {place}; USE bill")

    # The lesser of a share of this machine and a fixed limit.
    memory = BILL_MEMORY
    db.execute(f"SET GLOBAL memory_limit = {literal(memory)}")
    ((limit,),) = db.execute("SELECT current_setting('memory_limit')").fetchall()
    amount, unit = str(limit).split()
    if unit == "TiB" or (unit == "GiB" and float(amount) > BILL_MEMORY_GIB):
        memory = f"{BILL_MEMORY_GIB} GiB"

    allowed = ", ".join(literal(str(folder.resolve())) for folder in folders)
    files = ", ".join(literal(str(path)) for path in (parts_of(copy) if copy and writes else ()))
    for setting, value in (
        ("TimeZone", "'UTC'"),
        ("memory_limit", literal(memory)),
        ("temp_directory", literal(f"{folders[-1].resolve()}-spill")),
        ("max_temp_directory_size", literal(BILL_SPILL)),
        ("autoinstall_known_extensions", "false"),
        ("autoload_known_extensions", "false"),
        ("allow_community_extensions", "false"),
        ("allow_persistent_secrets", "false"),
        ("python_enable_replacements", "false"),
        ("allowed_directories", f"[{allowed}]"),
        ("allowed_paths", f"[{files}]"),
        ("enable_external_access", "false"),
        ("lock_configuration", "true"),
    ):
        db.execute(f"SET GLOBAL {setting} = {value}")
    return db


def cursor_of(db: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Return a cursor for a thread of its own.

    It sees the same tables by the same names, and is closed by whoever asked.
    """
    return db.cursor().execute("USE bill")


def is_private(path: Path) -> bool:
    """Return whether a file is this user's, and nobody else may have written it."""
    status = path.stat()
    return status.st_uid == os.getuid() and not status.st_mode & 0o022


def prune_copies(copy: Path) -> None:
    """Remove the copies that were used longest ago where all take more than `BILL_COPIES_BYTES`.

    `copy` itself stays. Drafts that are a day old were left by a process that was killed.
    """
    prefix = copy.name.partition("-")[0]
    with suppress(OSError):  # another process removes its own at the same time
        drafts = [(path, path.stat()) for path in copy.parent.glob(f".{prefix}-*")]
        copies = [(path, path.stat()) for path in copy.parent.glob(f"{prefix}-*") if path != copy]
        room = BILL_COPIES_BYTES - copy.stat().st_size
        now = copy.stat().st_mtime

        for path, status in drafts:
            if now - status.st_mtime > _LEFT_SECONDS:
                path.unlink(missing_ok=True)
        for path, status in sorted(copies, key=lambda known: -known[1].st_mtime):
            room -= status.st_size
            if room < 0:
                path.unlink(missing_ok=True)


@contextmanager
def packing(db: duckdb.DuckDBPyConnection) -> Iterator[Callable[[], None]]:
    """Yield a function to call before rows are written: it compresses those of before, beside.

    All are compressed at the end. They take a quarter of their memory then.
    """
    with ThreadPoolExecutor(1, "pack") as beside:
        called, last = count(), list[Future[None]]()

        def pack() -> None:
            if next(called) and (not last or last[-1].done()):
                last[:] = [beside.submit(_pack, db)]

        yield pack
    _pack(db)


def _pack(db: duckdb.DuckDBPyConnection) -> None:
    # Where somebody writes, the next time will do.
    with cursor_of(db) as cursor, suppress(duckdb.TransactionException):
        cursor.execute("CHECKPOINT bill")
