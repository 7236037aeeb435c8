"""Let one process of many watch: a lock that ends with the process, whatever ends it."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Protocol

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

LEADING = 7_478_606_002
"""PostgreSQL's advisory lock of the one that watches."""


class Lead(Protocol):
    """Hold the watch for this process alone."""

    def acquire(self) -> bool:
        """Return whether this process holds the watch now, taking it when it is free."""
        ...

    def release(self) -> None:
        """Release the watch."""
        ...


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


class PostgresLead:
    """Lock on a connection of its own: when that breaks, PostgreSQL frees the lock and the next call asks anew."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._held: Connection | None = None

    def acquire(self) -> bool:
        """Take the lock where it is free, and return whether this process holds it; raise `SQLAlchemyError` without a server."""
        if self._alive():
            return True
        self.release()
        connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        if connection.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": LEADING}).scalar():
            self._held = connection
            return True
        connection.close()
        return False

    def release(self) -> None:
        """Release the lock by ending the connection, not by returning it to the pool with the lock."""
        if self._held is not None:
            with contextlib.suppress(SQLAlchemyError):
                self._held.invalidate()
                self._held.close()
        self._held = None

    def _alive(self) -> bool:
        if self._held is None:
            return False
        try:
            self._held.execute(text("SELECT 1"))
        except SQLAlchemyError:
            return False
        return True
