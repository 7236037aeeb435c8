"""Turn a database's error into one sentence: which database, what failed, and the remedy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from json import JSONDecodeError

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from bot.errors import StoreFailed

_SPACE = "free some space on its disk"
_RESTORE = "stop trnbot and restore a backup, or move the file away to begin anew"
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
_UNREADABLE = "something stored in it cannot be read"


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Turn a driver's error into one sentence that names the database, never its password."""
    try:
        yield
    except (JSONDecodeError, UnicodeDecodeError) as error:
        raise StoreFailed(f"The database {name} failed: {_UNREADABLE}; {_RESTORE}.") from error
    except (SQLAlchemyError, OSError) as error:
        reason = reason_of(error)
        raise StoreFailed(f"The database {name} failed: {reason}{remedy(reason)}.") from error


def reason_of(error: SQLAlchemyError | OSError) -> str:
    """Return the first line of the driver's message, or the system's word for its error."""
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    message = (
        str(error.orig) if isinstance(error, DBAPIError) and error.orig else type(error).__name__
    )
    return message.strip().split("\n")[0].rstrip(".")


def remedy(reason: str) -> str:
    """Return the tail of the sentence: what a person can do about it, "" where that is not known."""
    return next(
        (f"; {words}" for sign, words in _REMEDIES.items() if sign.lower() in reason.lower()), ""
    )
