"""Bring a database to the tables this version knows, safely while another process does the same."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text

from bot.errors import Unavailable

HEAD = "0003"
_MIGRATING = 7_478_606_001
"""PostgreSQL's advisory lock while migrating; any number that nobody else uses."""


def migrate(writer: Engine) -> None:
    """Apply what is missing, in one transaction; raise `Unavailable` for tables of a newer trnbot."""
    with writer.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATING})
        found = _revision(connection)
        if found > HEAD:
            raise Unavailable(f"The database was written by a newer trnbot (step {found}, this one knows {HEAD}); update trnbot.")
        if found < HEAD:
            _upgrade(connection)


def _revision(connection: Connection) -> str:
    """Return the last step applied, "" for an empty database."""
    if not inspect(connection).has_table("alembic_version"):
        return ""
    return str(connection.execute(text("SELECT version_num FROM alembic_version")).scalar() or "")


def _upgrade(connection: Connection) -> None:
    # Imported late: Alembic costs a third of a second, and almost every start finds nothing to do.
    from alembic import command
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    command.upgrade(config, HEAD)
