"""Bring the tables up to what the folder holds now: a rewritten file replaces its month, readers see all of it or none."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

from adapters.billing.columns import Form
from adapters.billing.explorer import newest_answers
from adapters.billing.load import load, load_answers, prepare
from adapters.billing.sql import sql, text
from adapters.billing.tags import Names

_BESIDE = (".json", ".yml", ".yaml", ".sql", ".md", ".txt", ".etag", ".crc", "_SUCCESS")
"""What AWS and people put beside an export: manifests, table definitions, notes."""


@dataclass(frozen=True)
class File:
    """State one file as it stands in the folder; `stamp` changes when it is rewritten."""

    path: str
    stamp: str
    modified: int


@dataclass(frozen=True)
class Answers:
    """Say where Cost Explorer's answers are kept, which view of them counts, and what its names of services mean."""

    folder: Path
    view: str = ""
    services: Mapping[str, str] = field(default_factory=dict)


def list_files(folder: Path, answers: Answers) -> dict[str, File]:
    """Return the files under the folder by relative path, and what Cost Explorer answered as one more.

    A file that is no export is listed too: what cannot be read is named, never passed over.
    """
    exports = sorted(_walk(str(folder), ""), key=lambda one: one.path.split("/"))
    return {one.path: one for one in (*exports, *_answered(answers))}


def _answered(answers: Answers) -> Iterator[File]:
    files = newest_answers(answers.folder, answers.view)
    if files:
        yield File(Form.EXPLORER, ",".join(path.name for path in files), max(path.stat().st_mtime_ns for path in files))


def _walk(folder: str, below: str) -> Iterator[File]:
    try:
        entries = os.scandir(folder)
    except (FileNotFoundError, PermissionError):
        return
    with entries:
        for entry in entries:
            path = below + entry.name
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(entry.path, path + "/")
            elif not entry.name.endswith(_BESIDE) and not entry.name.startswith(".") and entry.is_file():
                stat = entry.stat()
                yield File(path, f"{stat.st_size}:{stat.st_mtime_ns}", stat.st_mtime_ns)


def refresh(db: duckdb.DuckDBPyConnection, folder: Path, answers: Answers, files: Mapping[str, File], names: Names) -> None:
    """Load what is new or changed, drop what is gone, and settle which copy of each month counts."""
    known = {row[0]: row[1:] for row in db.execute("SELECT path, id, stamp, shadowed FROM file").fetchall()}
    stale = [path for path, (_, stamp, shadowed) in known.items() if shadowed or path not in files or files[path].stamp != stamp]
    wanted = [file for path, file in files.items() if path not in known or path in stale]
    prepare(db)
    next_id = 1 + max((int(row[0]) for row in known.values()), default=0)
    loaded = [
        (n, file, *load_answers(db, newest_answers(answers.folder, answers.view), answers.services, n, names))
        if file.path == Form.EXPLORER
        else (n, file, *load(db, folder / file.path, file.path, n, names))
        for n, file in enumerate(wanted, next_id)
    ]
    db.execute("BEGIN")
    try:
        _replace(db, [int(known[path][0]) for path in stale], loaded)
        _settle(db)
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise


def _replace(db: duckdb.DuckDBPyConnection, gone: list[int], loaded: list[tuple[int, File, Form | None, list[str]]]) -> None:
    for table, column in (("file", "id"), ("detail", "file"), ("split", "file"), ("sketch", "file")):
        if gone:
            db.execute(f"DELETE FROM {table} WHERE list_contains($1, {column})", [gone])  # noqa: S608 names from this tuple
    for n, file, form, problems in loaded:
        row = [n, file.path, file.stamp, file.modified, form, False, problems]
        db.execute("INSERT INTO file VALUES ($1, $2, $3, $4, $5, $6, $7::VARCHAR[])", row)
    for table in ("detail", "split", "sketch"):
        db.execute(f"INSERT INTO {table} FROM fresh{'' if table == 'detail' else '_' + table}")


def _settle(db: duckdb.DuckDBPyConnection) -> None:
    """Leave out the copies, then derive rollup, extent and the pods' shares."""
    rank = " ".join(f"WHEN {text(form)} THEN {n}" for n, form in enumerate(Form))
    for worse, month, payer, path, form, better, better_form in db.execute(
        sql("shadow", rank=f"CASE f.form {rank} END")
    ).fetchall():
        _leave_out(db, worse, month, payer)
        why = f"{path} ({form}): {month:%Y-%m} is also in {better} ({better_form}), which counts; this copy is left out."
        db.execute("UPDATE file SET shadowed = TRUE, problems = list_append(problems, $1) WHERE id = $2", [why, worse])
    db.execute(sql("rollup"))
    if has_pods(db):
        db.execute(sql("pods"))


def _leave_out(db: duckdb.DuckDBPyConnection, file: int, month: object, payer: str) -> None:
    db.execute(
        "DELETE FROM detail WHERE file = $1 AND month = $2 AND thing IN (SELECT id FROM thing WHERE payer = $3)",
        [file, month, payer],
    )
    db.execute("DELETE FROM split WHERE file = $1 AND month = $2", [file, month])


def has_pods(db: duckdb.DuckDBPyConnection) -> bool:
    """Tell whether any split row was loaded."""
    return bool(db.execute("SELECT count(*) FROM split").fetchall()[0][0])
