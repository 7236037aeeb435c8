"""Keep state in SQLite or PostgreSQL through the same SQLAlchemy code."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from json import JSONDecodeError
from typing import Any, Protocol, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Row,
    Select,
    Table,
    case,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from adapters.store.memory import (
    KEEP_CLOSED,
    KEEP_OVER,
    KEEP_SAID,
    KEEP_SLEPT,
    labels_of,
    open_within,
    with_decisions,
)
from adapters.store.sealing import ChangedDocument
from adapters.store.tables import (
    ALERTS,
    ATTEMPTS,
    DECISIONS,
    LEASES,
    LINES,
    SAID,
    SHELF,
    SILENCES,
    TICKS,
    VERSIONS,
    alert_row,
    erase,
    insert_into,
    insert_new,
    kept_of,
    noun_of,
    row_of,
    upsert,
)
from bot.errors import StoreFailed, Unavailable, WrongInput
from bot.model.alert import Alert, Decision, DecisionKind, Silence
from bot.model.codec import by_key, decode
from bot.model.labels import Labels
from bot.model.notification import Coverage, Known, Line, NotificationLogEntry, State, StateUpdate
from bot.model.policy import Attempt, Version
from bot.model.window import Window
from bot.ports.work import EPOCH

_SPACE = "free some space on its disk"
_RESTORE = "stop trnbot and restore a backup, or move the file away to start afresh"
_START = "start the database, or check TRNBOT_DATABASE_URL"
_REMEDIES = {
    "is full": _SPACE,
    "No space left": _SPACE,
    "quota": _SPACE,
    "malformed": _RESTORE,
    "is not a database": _RESTORE,
    "invalid page": "restore a backup of the database",
    "disk I/O error": "check that its disk has space and is sound",
    "readonly": "let trnbot's user write the file and its folder",
    "unable to open": "check that the folder is there and that trnbot's user may write in it",
    "no such table": _RESTORE,
    "connection": _START,
    "terminat": _START,
    "shutting down": _START,
    "starting up": "nothing needs to be done: it is starting",
    "server closed": _START,
}
"""The remedy by what the driver's message contains, the first that fits."""


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Turn a driver's error into one sentence that names the database, never its password."""
    try:
        yield
    except (JSONDecodeError, UnicodeDecodeError) as error:
        raise StoreFailed(
            f"The database {name} failed: something stored in it cannot be read; {_RESTORE}."
        ) from error
    except (SQLAlchemyError, OSError) as error:
        reason = reason_of(error)
        raise StoreFailed(f"The database {name} failed: {reason}{remedy(reason)}.") from error


def reason_of(error: SQLAlchemyError | OSError) -> str:
    """Return the first line of the driver's message, or the system's word for its error."""
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    if not isinstance(error, DBAPIError) or not error.orig:
        return type(error).__name__
    return str(error.orig).strip().split("\n")[0].rstrip(".")


def remedy(reason: str) -> str:
    """Return the tail of the sentence: what a person can do about it, "" where it is not known."""
    fitting = (advice for sign, advice in _REMEDIES.items() if sign.lower() in reason.lower())
    advice = next(fitting, "")
    return f"; {advice}" if advice else ""


T = TypeVar("T")
KEEP_TICKS = 1_000
KEEP_LEASES = timedelta(days=1)
_BATCH = 500
"""Ids a query names at once; SQLite's oldest limit is 999 parameters."""


WATCH = "watch"
"""The lease of the one process that watches; most others are of messages that are being sent."""
SHARD = "shard "
"""What the leases of processes begin with that share the watch out, each a lease of its own."""


class Leases(Protocol):
    """Let one process at a time do something, for as long as it renews."""

    holder: str
    """The name of this process, "" where no other could hold anything."""

    def take(self, name: str) -> int:
        """Return the epoch in which this process holds a lease, taking it when it is free, else 0.

        Renew all that this process holds.
        """

    def holds(self, name: str, epoch: int) -> bool:
        """Return whether nobody else has taken the lease since."""

    def free(self, name: str, epoch: int) -> None:
        """Let others take it."""

    def fence(self, connection: Connection, epoch: int) -> None:
        """Keep others from the watch until this transaction ends; raise `Standby` where one has it."""


class SqlStore:
    """Implement the ports of the stores; every method may block or raise `Unavailable`."""

    def __init__(self, reader: Engine, writer: Engine, leases: Leases, name: str) -> None:
        self._reader, self._writer = reader, writer
        self._leases, self._name = leases, name
        self._epoch = self._joined = 0

    def load(self, now: datetime) -> State:
        """Return the watch's state at `now`, all as of one instant."""
        with self._speaking(self._reader) as connection:
            recent = or_(ALERTS.c.closed.is_(None), ALERTS.c.closed > now - KEEP_CLOSED)
            recent_entries = or_(SAID.c.over == 0, SAID.c.pending == 1, SAID.c.at > now - KEEP_OVER)
            standing = SILENCES.c.ended_at.is_(None) & (SILENCES.c.ends > now - KEEP_SLEPT)
            silences = _nouns(
                Silence, connection, select(SILENCES.c.body).where(standing).order_by(SILENCES.c.id)
            )
            tick = _last_tick(connection)
            return State(
                alerts=_alerts(connection, recent),
                notification_log=_entries(connection, recent_entries),
                silences=tuple(silence for silence in silences if silence.ends > now),
                slept=tuple(silence for silence in silences if silence.ends <= now),
                ticked_at=tick and tick.at,
                seen=Coverage(Known(tick.known), tick.because) if tick and tick.known else None,
                lines=_unsent_lines(connection, LINES.c.at > now - KEEP_SAID),
            )

    def ticked_at(self) -> datetime | None:
        """Return the last tick that was run whole, by whichever process."""
        with self._speaking(self._reader) as connection:
            tick = _last_tick(connection)
        return tick and tick.at

    def known_at(self) -> datetime | None:
        """Return the newest time that the database knows.

        Of the last tick, or of one that was killed after it had spoken.
        """
        # A tick that was killed may have spoken: what it said is as new as it was.
        newest = (select(func.max(ALERTS.c.opened)), select(func.max(SAID.c.at)))
        with self._speaking(self._reader) as connection:
            tick = _last_tick(connection)
            times = [connection.execute(query).scalar() for query in newest]
        return max(filter(None, (tick and tick.at, *times)), default=None)

    def save(self, changes: StateUpdate) -> None:
        """Write all of the changes or none of them; a decision already written stays as it is."""
        with self._writing() as connection:
            upsert(connection, ALERTS, map(alert_row, changes.alerts))
            entries = (row_of(SAID, entry) for entry in changes.notification_log)
            upsert(connection, SAID, entries, keep="message")
            lines = (row_of(LINES, line) | {"body": dict(line.card)} for line in changes.lines)
            upsert(connection, LINES, lines, keep="sent", key="id")
            for receipt in changes.receipts:
                # A newer version than the one that was shown is still to be sent.
                unshown = case((SAID.c.version == receipt.version, 0), else_=SAID.c.pending)
                entry = (SAID.c.id == receipt.id) & (SAID.c.channel == receipt.channel)
                received = {"message": receipt.message, "pending": unshown}
                connection.execute(update(SAID).where(entry).values(received))
            upsert(connection, SILENCES, (row_of(SILENCES, x) for x in changes.silences))
            decisions = (row_of(DECISIONS, decision) for decision in changes.decisions)
            insert_new(connection, DECISIONS, "id", decisions)
            if changes.ticked_at:
                seen = changes.seen.data if changes.seen else {}
                connection.execute(insert(TICKS).values(at=changes.ticked_at, **seen))

    def owed(
        self, notification: str, channel: str
    ) -> tuple[NotificationLogEntry | None, Sequence[Line]]:
        """Return a message's newest entry, and the unsent lines of its thread, in their order."""
        entry = (SAID.c.id == notification) & (SAID.c.channel == channel)
        thread = (LINES.c.notification == notification) & (LINES.c.channel == channel)
        with self._speaking(self._reader) as connection:
            entries = _entries(connection, entry)
            return (entries[0] if entries else None), _unsent_lines(connection, thread)

    def hold(self, name: str) -> int:
        """Return the token by which this process alone may send a message now, 0 for none."""
        with explained(self._name):
            return self._leases.take(f"send {name}")

    def holds(self, name: str, token: int) -> bool:
        """Return whether the token is still this process's."""
        with explained(self._name):
            return self._leases.holds(f"send {name}", token)

    def release(self, name: str, token: int) -> None:
        """Let others send the message."""
        self._leases.free(f"send {name}", token)

    def history(self, window: Window, selector: Labels) -> Sequence[Alert]:
        """Return the alerts open some time in the window that the labels select, newest first."""
        condition = (ALERTS.c.opened < window.end) & or_(
            ALERTS.c.closed.is_(None), ALERTS.c.closed >= window.start
        )

        # The database narrows by its columns, the rest of the selector is told by the labels.
        for column in ("cluster", "team"):
            if value := selector.get(column):
                condition &= ALERTS.c[column] == value
        with self._speaking(self._reader) as connection:
            alerts = _alerts(connection, condition)
        return [
            alert
            for alert in reversed(alerts)
            if open_within(alert, window) and selector.selects(labels_of(alert))
        ]

    def decisions(self, *alerts: str) -> Sequence[Decision]:
        """Return people's decisions about these alert ids, oldest first of each."""
        with self._speaking(self._reader) as connection:
            return _decisions(connection, alerts)

    def versions(self, most: int) -> Sequence[Version]:
        """Return up to `most` versions of the policy, the newest first."""
        with self._speaking(self._reader) as connection:
            query = select(VERSIONS.c.body).order_by(VERSIONS.c.number.desc()).limit(most)
            return _nouns(Version, connection, query)

    def add(self, version: Version) -> None:
        """Write one version; raise `WrongInput` when somebody else took its number."""
        with self._writing() as connection:
            if not _written_first(connection, VERSIONS, row_of(VERSIONS, version)):
                raise WrongInput(
                    "Somebody changed the policy in the same moment; nothing of yours was applied. "
                    "Preview it again."
                )

    def attempts(self, most: int) -> Sequence[Attempt]:
        """Return up to `most` attempts to change the policy, the newest first."""
        with self._speaking(self._reader) as connection:
            query = select(ATTEMPTS).order_by(ATTEMPTS.c.number.desc()).limit(most)
            return [noun_of(Attempt, row) for row in connection.execute(query).mappings()]

    def note(self, attempt: Attempt) -> None:
        """Write one attempt."""
        with self._writing() as connection:
            connection.execute(insert(ATTEMPTS).values(row_of(ATTEMPTS, attempt)))

    def put(self, shelf: str, key: str, document: Mapping[str, Any]) -> None:
        """Write one document over the one before."""
        with self._writing() as connection:
            upsert(connection, SHELF, [_document(connection, shelf, key, document)])

    def get(self, shelf: str, key: str) -> Mapping[str, Any] | None:
        """Return one document, or None."""
        with self._speaking(self._reader) as connection:
            query = select(SHELF.c.body).where(SHELF.c.shelf == shelf, SHELF.c.key == key)
            body: Mapping[str, Any] | None = connection.execute(query).scalar()
            return body

    def newest(self, shelf: str, most: int) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """Return up to `most` (key, document), the last written first."""
        query = select(SHELF.c.key, SHELF.c.body).where(SHELF.c.shelf == shelf)
        newest = query.order_by(SHELF.c.number.desc(), SHELF.c.key).limit(most)
        with self._speaking(self._reader) as connection:
            return [(row.key, row.body) for row in connection.execute(newest)]

    def drop(self, shelf: str, key: str) -> None:
        """Forget one document."""
        with self._writing() as connection:
            connection.execute(delete(SHELF).where(SHELF.c.shelf == shelf, SHELF.c.key == key))

    def rewrite(self, shelf: str, changed: ChangedDocument) -> None:
        """Write what `changed` makes of each document of a shelf, over it and all at once.

        None leaves it as it is.
        """
        on_shelf = SHELF.c.shelf == shelf
        query = select(SHELF.c.key, SHELF.c.body).where(on_shelf)
        with self._writing() as connection:
            rows = connection.execute(
                query.order_by(SHELF.c.number, SHELF.c.key).with_for_update()
            ).all()
            for key, body in rows:
                if (document := changed(key, body)) is not None:
                    statement = update(SHELF).where(on_shelf, SHELF.c.key == key)
                    connection.execute(statement.values(body=dict(document)))

    def scrub(self) -> None:
        """Leave nothing in SQLite's file and its log of what was overwritten.

        PostgreSQL's own vacuum does so in time.
        """
        if self._writer.dialect.name != "sqlite":
            return
        with closing(self._writer.raw_connection()) as connection:
            try:
                for statement in ("VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"):
                    connection.cursor().execute(statement)
            except sqlite3.Error as error:
                raise Unavailable(
                    f"The database {self._name} was not cleaned: {error}; "
                    "run 'trnbot secrets rotate'."
                ) from error

    def first(self, shelf: str, key: str) -> bool:
        """Return whether the key came for the first time, and keep it.

        Of processes that ask at once, one hears yes.
        """
        with self._writing() as connection:
            return _written_first(connection, SHELF, _document(connection, shelf, key, {}))

    def prune(
        self,
        kept: Mapping[str, timedelta],
        told: timedelta,
        tables: Mapping[str, timedelta] | None = None,
    ) -> int:
        """Drop documents of the shelves in `kept` written longer ago than said; return how many.

        Drop also what was over and is owed to nobody, or decided as a line, for longer than `told` before the last tick,
        what is older than its table in `tables` says, and ticks long past.
        """
        current, dropped = datetime.now(UTC), 0
        with self._writing() as connection:
            for shelf, length in kept.items():
                old = or_(SHELF.c.written < current - length, SHELF.c.written.is_(None))
                dropped += connection.execute(
                    delete(SHELF).where(SHELF.c.shelf == shelf, old)
                ).rowcount

            # All else is old by the last tick: a watch that stood still forgets nothing.
            if last := _last_tick(connection):
                connection.execute(delete(TICKS).where(TICKS.c.number <= last.number - KEEP_TICKS))
                long_ago = last.at - max(told, KEEP_OVER)
                # An end that is owed is kept for as long as its alerts are.
                connection.execute(
                    delete(SAID).where(
                        SAID.c.over == 1,
                        SAID.c.at < long_ago,
                        or_(SAID.c.pending == 0, SAID.c.at < last.at - KEEP_CLOSED),
                    )
                )
                connection.execute(delete(LINES).where(LINES.c.at < last.at - max(told, KEEP_SAID)))
                for name, length in (tables or {}).items():
                    # The watch needs what has ended for a while.
                    ended = _ENDS[name] < last.at - max(length, KEEP_CLOSED)
                    if name == ALERTS.name:
                        closed = select(ALERTS.c.id).where(ended)
                        connection.execute(delete(DECISIONS).where(DECISIONS.c.alert.in_(closed)))
                    dropped += connection.execute(delete(_ENDS[name].table).where(ended)).rowcount

            # Whoever was killed while it sent left these.
            connection.execute(
                delete(LEASES).where(
                    LEASES.c.name != WATCH, LEASES.c.expires < current - KEEP_LEASES
                )
            )
        return dropped

    def kept_of(self, person: str) -> Sequence[Mapping[str, Any]]:
        """Return every row that names a person, with its table."""
        with explained(self._name):
            return kept_of(self._reader, person)

    def erase(self, person: str) -> int:
        """Take a person out of every row, also out of SQLite's free pages; return how many."""
        with explained(self._name):
            count = erase(self._writer, person)
        self.scrub()
        return count

    def acquire_lead(self) -> int:
        """Return the epoch in which this process watches, taking the watch when it is free, else 0.

        Ask before each tick, and more often than the lease lasts.
        """
        with explained(self._name):
            self._epoch = self._leases.take(WATCH)
        return self._epoch

    def leads(self, epoch: int) -> bool:
        """Return whether nobody else has taken the watch since."""
        with explained(self._name):
            return self._leases.holds(WATCH, epoch)

    def processes(self) -> Sequence[str]:
        """Return the processes that share the watch out and live; this one joins, as the first."""
        holder = self._leases.holder
        with explained(self._name):
            self._joined = self._leases.take(SHARD + holder)
        living = (LEASES.c.name.startswith(SHARD)) & (LEASES.c.expires > func.clock_timestamp())
        query = select(LEASES.c.holder).where(living, LEASES.c.holder != holder)
        with self._speaking(self._reader) as connection:
            return [holder, *connection.execute(query.order_by(LEASES.c.name)).scalars()]

    def release_lead(self) -> None:
        """Give up the watch, and this process's share of it."""
        if self._joined:
            self._leases.free(SHARD + self._leases.holder, self._joined)
        if self._epoch:
            self._leases.free(WATCH, self._epoch)
        self._epoch = self._joined = 0

    def close(self) -> None:
        """Give up the watch and end every connection."""
        self.release_lead()
        self._reader.dispose()
        self._writer.dispose()

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._speaking(self._writer) as connection:
            if epoch := EPOCH.get():
                self._leases.fence(connection, epoch)
            yield connection

    @contextmanager
    def _speaking(self, engine: Engine) -> Iterator[Connection]:
        with explained(self._name), engine.begin() as connection:
            yield connection


_ENDS = {
    ALERTS.name: ALERTS.c.closed,
    SILENCES.name: SILENCES.c.ends,
    ATTEMPTS.name: ATTEMPTS.c.at,
}
"""The column of a table that says when what a row holds was over."""


def _last_tick(connection: Connection) -> Row[Any] | None:
    """Return the row of the last tick that was run whole, by whichever process."""
    return connection.execute(select(TICKS).order_by(TICKS.c.number.desc()).limit(1)).first()


def _entries(
    connection: Connection, condition: ColumnElement[bool]
) -> tuple[NotificationLogEntry, ...]:
    """Return entries of the notification log.

    What a message shows stands in the columns that its receipt changes.
    """
    query = select(SAID).where(condition).order_by(*SAID.primary_key.columns)
    return tuple(
        replace(
            _noun(NotificationLogEntry, row.body),
            message=row.message,
            pending=bool(row.pending),
            version=row.version,
        )
        for row in connection.execute(query)
    )


def _unsent_lines(connection: Connection, condition: ColumnElement[bool]) -> tuple[Line, ...]:
    """Return the lines that are not said yet, in the order of their decisions."""
    query = select(LINES).where(LINES.c.sent == "", condition).order_by(LINES.c.number)
    return tuple(
        noun_of(Line, row, card=row["body"]) for row in connection.execute(query).mappings()
    )


def _alerts(connection: Connection, condition: ColumnElement[bool]) -> tuple[Alert, ...]:
    query = select(ALERTS.c.body).where(condition).order_by(ALERTS.c.opened, ALERTS.c.id)
    alerts = _nouns(Alert, connection, query)

    # Decisions stand in a table of their own, so that no tick overwrites one.
    decisions = _decisions(connection, [alert.id for alert in alerts])
    decided = by_key((decision.alert, decision) for decision in decisions)
    return tuple(with_decisions(alert, decided.get(alert.id, ())) for alert in alerts)


def _decisions(connection: Connection, alerts: Sequence[str]) -> list[Decision]:
    decisions = []
    for start in range(0, len(alerts), _BATCH):
        query = select(DECISIONS).where(DECISIONS.c.alert.in_(alerts[start : start + _BATCH]))
        rows = connection.execute(query.order_by(DECISIONS.c.at, DECISIONS.c.number)).mappings()
        decisions += [noun_of(Decision, row, doing=DecisionKind(row["doing"])) for row in rows]
    return decisions


def _nouns(kind: type[T], connection: Connection, query: Select[Any]) -> list[T]:
    """Return the nouns whose bodies a query selects."""
    return [_noun(kind, body) for body in connection.execute(query).scalars()]


def _noun(kind: type[T], body: Any) -> T:
    try:
        return decode(kind, body)
    except ValueError as error:
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.__name__).lower()
        raise Unavailable(f"A stored {words} cannot be read: {error}.") from error


def _document(
    connection: Connection, shelf: str, key: str, body: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the row of a document that is written now, as the newest of its shelf."""
    newest = select(func.max(SHELF.c.number)).where(SHELF.c.shelf == shelf)
    return {
        "shelf": shelf,
        "key": key,
        "number": (connection.execute(newest).scalar() or 0) + 1,
        "body": dict(body),
        "written": datetime.now(UTC),
    }


def _written_first(connection: Connection, table: Table, row: Mapping[str, Any]) -> bool:
    """Write a row unless its key is there, and return whether it was written."""
    statement = insert_into(connection, table).values(**row).on_conflict_do_nothing()
    return connection.execute(statement.returning(*table.primary_key.columns)).first() is not None
