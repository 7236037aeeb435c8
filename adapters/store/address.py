"""Read the address of a database and show it without its secrets."""

from __future__ import annotations

import re
from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from bot.errors import WrongInput, nearest

FORMS = "sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME"
_POSTGRES = ("postgresql", "postgres", "postgresql+psycopg")


def read_address(text: str) -> URL:
    """Return the SQLAlchemy URL that `text` names; raise `WrongInput` (password masked) for any other kind."""
    try:
        url = make_url(text.strip())
    except (ArgumentError, ValueError):
        raise WrongInput(f"The database address '{masked(text)}' cannot be read; write {FORMS}.") from None
    if url.drivername in _POSTGRES:
        return url.set(drivername="postgresql+psycopg")
    if url.drivername in ("sqlite", "sqlite+pysqlite"):
        return _file(url.set(drivername="sqlite"))
    hint = nearest(url.drivername, ("sqlite", "postgresql"))
    raise WrongInput(f"'{url.drivername}' is not a database that trnbot keeps state in{hint}; write {FORMS}.")


def masked(text: str) -> str:
    """Return an address without user, password and options."""
    return re.sub(r"^([\w+]*://)?.*@", r"\1****@", text).partition("?")[0]


def file_of(url: URL) -> Path:
    """Return the file of a SQLite address."""
    assert url.database
    return Path(url.database)


def _file(url: URL) -> URL:
    if not url.database or url.database == ":memory:" or url.host:
        raise WrongInput(f"'{masked(str(url))}' names no file; write sqlite:///trnbot.db, or sqlite:////absolute/trnbot.db.")
    return url
