"""Load export files into the tables; a rewritten file replaces its month, readers see all of it or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from adapters.billing.columns import Columns, ExportForm
from adapters.billing.explorer import COLUMNS, newest_answers, rows_in
from adapters.billing.export_query import raw_of, read_of
from adapters.billing.files import ExplorerFiles, File, Unreadable, unpacked
from adapters.billing.prepaid import amortise, has_fees
from adapters.billing.sql import sql, text
from adapters.billing.tags import BillTagNames, TagSet, line_case, read_tags
from bot.model.fleet import Reservation
from bot.model.limits import BILL_COLUMNS, BILL_TAGS

_NAMED = 5
GATHERED = ("detail", "split", "sketch", "fee", "held")
"""The tables that files fill."""


@dataclass(frozen=True)
class ExportPlace:
    """State where the files of a bill stand, and where those of a zip are unpacked."""

    folder: Path
    scratch: Path


def prepare(db: duckdb.DuckDBPyConnection) -> None:
    """Make the places where a refresh gathers new rows before it puts them in place at once."""
    for table in GATHERED:
        db.execute(f"CREATE OR REPLACE TABLE {_fresh(table)} AS FROM {table} LIMIT 0")


def _fresh(table: str) -> str:
    return "fresh" if table == "detail" else f"fresh_{table}"


def load(
    db: duckdb.DuckDBPyConnection, place: ExportPlace, shown: str, file: int, names: BillTagNames
) -> tuple[ExportForm | None, list[str]]:
    """Add one file's rows to the gathered ones; return its format (None: unreadable) and a sentence for each problem."""
    path = place.folder / shown
    try:
        if not path.resolve().is_relative_to(place.folder.resolve()):
            raise Unreadable("it is a link out of the folder; put the file itself there")
        with unpacked(path, place.scratch) as plain:
            return _load(db, plain, shown, file, names)
    except (duckdb.Error, Unreadable) as problem:
        return None, [f"{shown} could not be read and is left out: {_short(problem, path, shown)}"]


def _load(
    db: duckdb.DuckDBPyConnection, path: Path, shown: str, file: int, names: BillTagNames
) -> tuple[ExportForm | None, list[str]]:
    source = _source(path)
    try:
        columns = _describe(db, source)
        if columns.form is None:
            return None, [f"{shown} is no CUR or FOCUS export: it has neither line_item_unblended_cost nor BilledCost."]
        if columns.count > BILL_COLUMNS:
            raise Unreadable(
                f"it has {columns.count:,} columns; at most {BILL_COLUMNS:,} are read, so take out tags that nobody asks for"
            )
        _stage(db, columns, path)
        return columns.form, _rejected(db, path, shown) + _stow(db, shown, file, names)
    except duckdb.Error as problem:
        raise Unreadable(_short(problem, path, shown)) from problem


def load_answers(
    db: duckdb.DuckDBPyConnection, answers: Sequence[Path], services: Mapping[str, str], file: int, names: BillTagNames
) -> tuple[ExportForm | None, list[str]]:
    """Add Cost Explorer's answers to the gathered rows, as `load` adds a file's."""
    rows, problems = rows_in(answers, services)
    db.execute(f"CREATE OR REPLACE TEMP TABLE answered ({', '.join(f'{column} VARCHAR' for column in COLUMNS)})")
    if rows:
        taken = ", ".join(f"unnest($c{n}::VARCHAR[])" for n in range(len(COLUMNS)))
        columns = {f"c{n}": list(column) for n, column in enumerate(zip(*rows, strict=True))}
        db.execute(f"INSERT INTO answered SELECT {taken}", columns)
    _stage_text(db, _describe(db, "answered"), "answered")
    return ExportForm.EXPLORER, [*problems, *_stow(db, ExportForm.EXPLORER, file, names)]


def _stow(db: duckdb.DuckDBPyConnection, shown: str, file: int, names: BillTagNames) -> list[str]:
    """Gather the staged rows; return a sentence for each problem with them."""
    problems = _broken(db, shown) + _add_tags(db, shown, names)
    db.execute(sql("things", line=line_case(), file=str(file)))
    return problems


def _stage(db: duckdb.DuckDBPyConnection, columns: Columns, path: Path) -> None:
    """Stage a file's rows; text is parsed once."""
    if path.suffix == ".parquet":
        _stage_rows(db, columns, f"read_parquet({text(str(path))}, file_row_number=true)", "file_row_number")
    else:
        _stage_text(db, columns, _source(path))


def _stage_text(db: duckdb.DuckDBPyConnection, columns: Columns, source: str) -> None:
    db.execute(sql("parsed", columns=", ".join(read_of(columns)), source=source))
    _stage_rows(db, columns, "parsed", "nth")
    db.execute("DROP TABLE parsed")


def _stage_rows(db: duckdb.DuckDBPyConnection, columns: Columns, source: str, place: str) -> None:
    db.execute(raw_of(columns, source, place))
    db.execute(sql("stage"))
    if db.execute("SELECT count(*) FROM label WHERE unused AND commitment IS NOT NULL").fetchall()[0][0]:
        db.execute(sql("unused"))


def _source(path: Path) -> str:
    if path.suffix == ".parquet":
        return f"read_parquet({text(str(path))})"
    return (
        f"read_csv({text(str(path))}, all_varchar=true, header=true, delim=',', quote='\"', escape='\"', null_padding=false, "
        "store_rejects=true, rejects_table='rejected', rejects_scan='rejected_scan', rejects_limit=100000)"
    )


def _describe(db: duckdb.DuckDBPyConnection, source: str) -> Columns:
    rows = db.execute(f"DESCRIBE FROM {source}").fetchall()
    return Columns([(str(row[0]), str(row[1])) for row in rows])


def _rejected(db: duckdb.DuckDBPyConnection, path: Path, shown: str) -> list[str]:
    """Name the lines that the CSV reader had to skip."""
    if path.suffix == ".parquet":
        return []
    rows = db.execute("SELECT DISTINCT ON (line) line, error_message FROM rejected ORDER BY line").fetchall()
    db.execute("DROP TABLE IF EXISTS rejected; DROP TABLE IF EXISTS rejected_scan")
    return _name_rows(shown, [(f"line {line}", _short(why).rstrip(".")) for line, why in rows])


def _broken(db: duckdb.DuckDBPyConnection, shown: str) -> list[str]:
    """Name the rows without a readable time or amount."""
    rows = db.execute("SELECT n + 1, started IS NULL FROM stage WHERE NOT fits ORDER BY n").fetchall()
    return _name_rows(shown, [(f"row {n}", "no readable start" if timeless else "no readable amount") for n, timeless in rows])


def _name_rows(shown: str, broken: Sequence[tuple[str, str]]) -> list[str]:
    if not broken:
        return []
    some = "; ".join(f"{place}: {why}" for place, why in broken[:_NAMED])
    more = f"; and {len(broken) - _NAMED} more" if len(broken) > _NAMED else ""
    return [f"{shown}: {len(broken)} broken row{'s' if len(broken) > 1 else ''} skipped ({some}{more})."]


def _add_tags(db: duckdb.DuckDBPyConnection, shown: str, names: BillTagNames) -> list[str]:
    """Read every new combination of tags once."""
    rows = db.execute(
        "SELECT DISTINCT tagset, tags FROM label ANTI JOIN tagset ON tagset.id = label.tagset WHERE tags IS NOT NULL"
    ).fetchall()
    sets: list[tuple[int, TagSet]] = []
    broken = size = 0
    for key, words in rows:
        try:
            tags = read_tags(words, names) if size < BILL_TAGS else None
        except (ValueError, RecursionError):
            tags = None
        if tags is None:
            broken += 1
        else:
            sets.append((key, tags))
            size += len(tags.pairs)
    _insert(
        db,
        "INSERT INTO tagset SELECT unnest($a)::UBIGINT, unnest($b), unnest($c), unnest($d), unnest($e), unnest($f)",
        [(key, tags.cluster, tags.namespace, tags.team, tags.project, tags.compiles) for key, tags in sets],
    )
    pairs = [(key, plain, value) for key, tags in sets for plain, value in tags.pairs]
    _insert(db, "INSERT INTO tag SELECT unnest($a)::UBIGINT, unnest($b), unnest($c)", pairs)
    return [f"{shown}: {broken} unreadable tag set{'s' if broken > 1 else ''}; those rows count as untagged."] if broken else []


def _insert(db: duckdb.DuckDBPyConnection, query: str, rows: Sequence[tuple[object, ...]]) -> None:
    if rows:
        columns = zip(*rows, strict=True)
        db.execute(query, {letter: list(column) for letter, column in zip("abcdefgh", columns, strict=False)})


def _short(problem: object, path: Path | None = None, shown: str = "") -> str:
    """Return the first line of a message, the file under its short name."""
    line = str(problem).strip().splitlines()[0]
    return line.replace(str(path), shown)[:200].rstrip(".") + "."


def refresh(
    db: duckdb.DuckDBPyConnection,
    place: ExportPlace,
    answers: ExplorerFiles,
    files: Mapping[str, File],
    names: BillTagNames,
    blocks: Callable[[], Sequence[Reservation]] = tuple,
) -> list[str]:
    """Load new and changed files, drop those that are gone, and settle which copy of each month counts.

    Return a sentence for each prepaid fee that could not be spread over its hours, by the `blocks` that were bought.
    """
    stored = {row[0]: row[1:] for row in db.execute("SELECT path, id, stamp, shadowed FROM file").fetchall()}
    stale = [path for path, (_, stamp, shadowed) in stored.items() if shadowed or path not in files or files[path].stamp != stamp]
    wanted = [file for path, file in files.items() if path not in stored or path in stale]
    prepare(db)
    next_id = 1 + max((int(row[0]) for row in stored.values()), default=0)
    loaded = [
        (n, file, *load_answers(db, newest_answers(answers.folder, answers.view), answers.services, n, names))
        if file.path == ExportForm.EXPLORER
        else (n, file, *load(db, place, file.path, n, names))
        for n, file in enumerate(wanted, next_id)
    ]
    db.execute("BEGIN")
    try:
        _replace(db, [int(stored[path][0]) for path in stale], loaded)
        unspread = _settle(db, blocks)
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise
    prepare(db)
    return unspread


def settle_anew(db: duckdb.DuckDBPyConnection, blocks: Callable[[], Sequence[Reservation]]) -> list[str]:
    """Derive everything again over the same files: other Capacity Blocks are known."""
    db.execute("BEGIN")
    try:
        unspread = _settle(db, blocks)
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise
    return unspread


def _replace(
    db: duckdb.DuckDBPyConnection, gone: list[int], loaded: list[tuple[int, File, ExportForm | None, list[str]]]
) -> None:
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
            db.execute(f"ALTER TABLE {_fresh(table)} RENAME TO {table}")
        else:
            db.execute(f"INSERT INTO {table} FROM {_fresh(table)}")


def _settle(db: duckdb.DuckDBPyConnection, blocks: Callable[[], Sequence[Reservation]]) -> list[str]:
    """Leave out the copies, then derive rollup, extent, the hours of what is prepaid and the pods' shares."""
    db.execute("DELETE FROM detail WHERE file = 0")
    rank = " ".join(f"WHEN {text(form)} THEN {n}" for n, form in enumerate(ExportForm))
    for worse, month, payer, path, form, better, better_form in db.execute(
        sql("shadow", rank=f"CASE f.form {rank} END")
    ).fetchall():
        _leave_out(db, worse, month, payer)
        why = f"{path} ({form}): {month:%Y-%m} is also in {better} ({better_form}), which counts; this copy is left out."
        db.execute("UPDATE file SET shadowed = TRUE, problems = list_append(problems, $1) WHERE id = $2", [why, worse])
    db.execute(sql("rollup"))
    unspread = amortise(db, blocks()) if has_fees(db) else []
    if has_pods(db):
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


def has_pods(db: duckdb.DuckDBPyConnection) -> bool:
    """Return whether any split row was loaded."""
    return bool(db.execute("SELECT count(*) FROM split").fetchall()[0][0])
