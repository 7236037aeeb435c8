"""Let one process of many watch: a lock that ends with the process, whatever ends it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from pathlib import Path
from typing import Protocol

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

LEADING = 7_478_606_002
"""PostgreSQL's advisory lock of the one that watches."""
SENDING = 747_860_600
"""First half of PostgreSQL's advisory locks of those that send a message.

The second is the message's own.
"""


class Lead(Protocol):
    """Hold the watch for this process alone."""

    def acquire(self) -> bool:
        """Return whether this process holds the watch now, taking it when it is free."""
        ...

    def release(self) -> None:
        """Release the watch."""
        ...

    def hold(self, name: str) -> bool:
        """Return whether this process alone may send what is called so, until it frees it or ends."""
        ...

    def free(self, name: str) -> None:
        """Let others send it."""
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

    def hold(self, name: str) -> bool:
        """Hold anything: no other process has this database."""
        return bool(name)

    def free(self, name: str) -> None:
        """Do nothing."""


class PostgresLead:
    """Lock on a connection of its own.

    When that breaks, PostgreSQL frees the lock and the next call asks anew.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._held: Connection | None = None
        self._sending = _PostgresHolds(engine)

    def acquire(self) -> bool:
        """Take the lock where it is free, and return whether this process holds it.

        Raise `SQLAlchemyError` without a server.
        """
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
                self._held.execute(
                    text("SELECT pg_advisory_unlock(:key)"), {"key": LEADING}
                )  # before the server sees it end
            with contextlib.suppress(SQLAlchemyError):
                self._held.invalidate()
                self._held.close()
        self._held = None

    def hold(self, name: str) -> bool:
        """Lock a name, and return whether nobody else has.

        Raise `SQLAlchemyError` without a server.
        """
        return self._sending.hold(name)

    def free(self, name: str) -> None:
        """Unlock a name."""
        self._sending.free(name)

    def _alive(self) -> bool:
        return self._held is not None and _answers(self._held)


class _PostgresHolds:
    """Lock names on one connection, which threads share in turn.

    PostgreSQL frees them all when the process ends.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: Connection | None = None
        self._turn = threading.Lock()

    def hold(self, name: str) -> bool:
        with self._turn:
            if self._connection is None or not _answers(self._connection):
                self._connection = self._engine.connect().execution_options(
                    isolation_level="AUTOCOMMIT"
                )
            locked = text("SELECT pg_try_advisory_lock(:kind, hashtext(:name))")
            return bool(self._connection.execute(locked, {"kind": SENDING, "name": name}).scalar())

    def free(self, name: str) -> None:
        with self._turn, contextlib.suppress(SQLAlchemyError):
            if self._connection is not None:
                unlocked = text("SELECT pg_advisory_unlock(:kind, hashtext(:name))")
                self._connection.execute(unlocked, {"kind": SENDING, "name": name})


def _answers(connection: Connection) -> bool:
    try:
        connection.execute(text("SELECT 1"))
    except SQLAlchemyError:
        return False
    return True
