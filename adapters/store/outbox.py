"""Read from the database what is owed to people, and note what a platform took."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import ColumnElement, Connection, case, select, update

from adapters.store.tables import LINES, SAID
from bot.errors import Unavailable
from bot.model.codec import decode
from bot.model.notification import Line, NotificationLogEntry, Receipt


def entries(
    connection: Connection, wanted: ColumnElement[bool]
) -> tuple[NotificationLogEntry, ...]:
    """Return entries of the notification log.

    What a message shows stands in the columns that its receipt changes.
    """
    rows = connection.execute(
        select(SAID).where(wanted).order_by(*SAID.primary_key.columns)
    ).mappings()
    try:
        return tuple(
            replace(
                decode(NotificationLogEntry, row["body"]),
                message=row["message"],
                pending=bool(row["pending"]),
                version=row["version"],
            )
            for row in rows
        )
    except ValueError as error:
        raise Unavailable(f"A stored notification log entry cannot be read: {error}.") from error


def unsent_lines(connection: Connection, wanted: ColumnElement[bool]) -> tuple[Line, ...]:
    """Return the lines that are not said yet, in the order of their decisions."""
    rows = connection.execute(
        select(LINES).where(LINES.c.sent == "", wanted).order_by(LINES.c.number)
    ).mappings()
    names = ("id", "notification", "channel", "at", "sent")
    return tuple(Line(**{name: row[name] for name in names}, card=row["body"]) for row in rows)


def receive(connection: Connection, receipt: Receipt) -> None:
    """Note which message shows an entry, and whether it shows the newest."""
    shown = case((SAID.c.version == receipt.version, 0), else_=SAID.c.pending)
    where = (SAID.c.id == receipt.id) & (SAID.c.channel == receipt.channel)
    connection.execute(update(SAID).where(where).values(message=receipt.message, pending=shown))
