"""Bring the tables up to date with the files.

A rewritten file replaces its month, readers see all of it or none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import duckdb

from adapters.billing.columns import ExportForm
from adapters.billing.explorer import newest_answers
from adapters.billing.files import ExplorerFiles, File
from adapters.billing.load import (
    GATHERED,
    ExportPlace,
    FileLoad,
    fresh,
    load,
    load_answers,
    prepare,
)
from adapters.billing.locked import packing
from adapters.billing.prepaid import amortise, has_fees
from adapters.billing.sql import sql, text
from bot.model.fleet import Reservation

_Loaded = tuple[int, File, ExportForm | None, list[str]]
"""A file under its number, its format (None: unreadable), and a sentence for each problem."""


def refresh(
    db: duckdb.DuckDBPyConnection,
    place: ExportPlace,
    answers: ExplorerFiles,
    files: Mapping[str, File],
    blocks: Callable[[], Sequence[Reservation]] = tuple,
) -> list[str]:
    """Load new and changed files, drop those that are gone, and settle which copy of each month counts.

    Return a sentence for each prepaid fee that could not be spread over its hours, by the `blocks`
    that were bought.
    """
    stored = {
        row[0]: row[1:]
        for row in db.execute("SELECT path, id, stamp, shadowed FROM file").fetchall()
    }
    stale = [
        path
        for path, (_, stamp, shadowed) in stored.items()
        if shadowed or path not in files or files[path].stamp != stamp
    ]
    wanted = [file for path, file in files.items() if path not in stored or path in stale]
    prepare(db)
    next_id = 1 + max((int(row[0]) for row in stored.values()), default=0)
    with packing(db) as pack:
        runs = [
            FileLoad(db, file.path, n, place.names, pack) for n, file in enumerate(wanted, next_id)
        ]
        loaded = [
            (
                run.file,
                file,
                *load_answers(run, newest_answers(answers.folder, answers.view), answers.services),
            )
            if file.path == ExportForm.EXPLORER
            else (run.file, file, *load(run, place))
            for run, file in zip(runs, wanted, strict=True)
        ]
        return _swap(db, [int(stored[path][0]) for path in stale], loaded, blocks)


def _swap(
    db: duckdb.DuckDBPyConnection,
    gone: list[int],
    loaded: list[_Loaded],
    blocks: Callable[[], Sequence[Reservation]],
) -> list[str]:
    """Put the gathered rows in place of those that are gone, all at once."""
    db.execute(sql("sketch"))
    db.execute("BEGIN")
    try:
        _replace(db, gone, loaded)
        unspread = _settle(db, blocks)
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise
    prepare(db)
    return unspread


def settle_anew(
    db: duckdb.DuckDBPyConnection, blocks: Callable[[], Sequence[Reservation]]
) -> list[str]:
    """Derive everything again over the same files: other Capacity Blocks are known."""
    db.execute("BEGIN")
    try:
        unspread = _settle(db, blocks)
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise
    return unspread


def _replace(db: duckdb.DuckDBPyConnection, gone: list[int], loaded: list[_Loaded]) -> None:
    for table, column in (("file", "id"), *((table, "file") for table in GATHERED)):
        if gone:
            db.execute(f"DELETE FROM {table} WHERE list_contains($1, {column})", [gone])  # noqa: S608 names from this tuple
    whole = not db.execute("SELECT count(*) FROM file").fetchall()[0][0]
    for n, file, form, problems in loaded:
        row = [n, file.path, file.stamp, file.modified, form, False, problems]
        db.execute("INSERT INTO file VALUES ($1, $2, $3, $4, $5, $6, $7::VARCHAR[])", row)
    for table in GATHERED:
        if whole:  # what was gathered is all there is: it takes the place, as to copy it would take its memory twice
            db.execute(f"DROP TABLE {table}")
            db.execute(f"ALTER TABLE {fresh(table)} RENAME TO {table}")
        else:
            db.execute(f"INSERT INTO {table} FROM {fresh(table)}")


def _settle(
    db: duckdb.DuckDBPyConnection, blocks: Callable[[], Sequence[Reservation]]
) -> list[str]:
    """Leave out the copies, then derive rollup, extent, the hours of what is prepaid and the pods' shares."""
    db.execute("DELETE FROM detail WHERE file = 0")
    rank = " ".join(f"WHEN {text(form)} THEN {n}" for n, form in enumerate(ExportForm))
    for worse, month, payer, path, form, better, better_form in db.execute(
        sql("shadow", rank=f"CASE f.form {rank} END")
    ).fetchall():
        _leave_out(db, worse, month, payer)
        why = f"{path} ({form}): {month:%Y-%m} is also in {better} ({better_form}), which counts; this copy is left out."
        db.execute(
            "UPDATE file SET shadowed = TRUE, problems = list_append(problems, $1) WHERE id = $2",
            [why, worse],
        )
    db.execute(sql("rollup"))
    unspread = amortise(db, blocks()) if has_fees(db) else []
    if _has_pods(db):
        db.execute(sql("pods"))
    db.execute(sql("broad"))
    return unspread


def _leave_out(db: duckdb.DuckDBPyConnection, file: int, month: object, payer: str) -> None:
    for table in ("detail", "fee"):
        db.execute(
            f"DELETE FROM {table} WHERE file = $1 AND month = $2 AND thing IN (SELECT id FROM thing WHERE payer = $3)",  # noqa: S608
            [file, month, payer],
        )
    db.execute("DELETE FROM split WHERE file = $1 AND month = $2", [file, month])


def _has_pods(db: duckdb.DuckDBPyConnection) -> bool:
    """Return whether any split row was loaded."""
    return bool(db.execute("SELECT count(*) FROM split").fetchall()[0][0])
