"""Open DuckDB so that no query, whatever text reached it, gets further than the files of one bill."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb

from adapters.billing.sql import text
from bot.model.limits import BILL_MEMORY, BILL_MEMORY_GIB, BILL_SPILL


def connect_locked(database: Path | None, folders: Sequence[Path]) -> duckdb.DuckDBPyConnection:
    """Return a connection to a database file (None: in memory) that reads files in `folders` and reaches nothing else.

    Extensions, the network, other files, Python's own variables and every setting are closed to it and to its cursors; links
    are followed before a file is compared with the folders. What memory does not hold is written beside the last of them.
    """
    db = duckdb.connect() if database is None else duckdb.connect(str(database))
    if db.execute("SELECT current_setting('lock_configuration')").fetchall() == [(True,)]:
        return db  # the same file, open in this process already
    allowed = ", ".join(text(str(folder.resolve())) for folder in folders)
    for setting, value in (
        ("TimeZone", "'UTC'"),
        ("memory_limit", _memory(db)),
        ("temp_directory", text(f"{folders[-1].resolve()}-spill")),
        ("max_temp_directory_size", text(BILL_SPILL)),
        ("autoinstall_known_extensions", "false"),
        ("autoload_known_extensions", "false"),
        ("allow_community_extensions", "false"),
        ("allow_persistent_secrets", "false"),
        ("python_enable_replacements", "false"),
        ("allowed_directories", f"[{allowed}]"),
        ("enable_external_access", "false"),
        ("lock_configuration", "true"),
    ):
        db.execute(f"SET GLOBAL {setting} = {value}")
    return db


def _memory(db: duckdb.DuckDBPyConnection) -> str:
    """Return the lesser of the share of this machine and the fixed limit, as SQL."""
    db.execute(f"SET GLOBAL memory_limit = {text(BILL_MEMORY)}")
    amount, unit = str(db.execute("SELECT current_setting('memory_limit')").fetchall()[0][0]).split()
    return text(f"{BILL_MEMORY_GIB} GiB" if unit == "TiB" or (unit == "GiB" and float(amount) > BILL_MEMORY_GIB) else BILL_MEMORY)
