"""Bring the tables up to date with the files: gather their rows in bounded batches, settle which copy counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import duckdb

from adapters.billing.database import literal, packing, sql
from adapters.billing.exports import Columns, ExportForm, raw_of, read_of
from adapters.billing.files import (
    COLUMNS,
    ExplorerFiles,
    File,
    Unreadable,
    newest_answers,
    rows_in,
    unpacked,
)
from adapters.billing.prepaid import amortise, has_fees
from adapters.billing.tags import BillTagNames, TagSet, line_case, read_tags
from bot.model.fleet import Reservation
from bot.model.limits import BILL_BATCH_ROWS, BILL_COLUMNS, BILL_TAGS

_NAMED = 5
GATHERED = ("detail", "split", "sketch", "fee", "held")
"""The tables that files fill."""


@dataclass(frozen=True)
class ExportPlace:
    """State where the files of a bill stand, where those of a zip are unpacked, and how its tags are called."""

    folder: Path
    scratch: Path
    names: BillTagNames


def prepare(db: duckdb.DuckDBPyConnection) -> None:
    """Make the places where a refresh gathers new rows before it puts them in place at once."""
    for table in GATHERED:
        db.execute(f"CREATE OR REPLACE TABLE {fresh(table)} AS FROM {table} LIMIT 0")


def fresh(table: str) -> str:
    """Name the place where a refresh gathers a table's new rows."""
    return "fresh" if table == "detail" else f"fresh_{table}"


@dataclass
class FileLoad:
    """Hold what the loading of a file needs, and what is wrong with its rows, batch by batch."""

    db: duckdb.DuckDBPyConnection
    shown: str
    file: int
    names: BillTagNames
    pack: Callable[[], None] = lambda: None
    broken: list[tuple[str, str]] = field(default_factory=list)
    """Places of the first rows without a readable time or amount, and why."""
    skipped: int = 0
    unread_tags: set[int] = field(default_factory=set)
    tags: int = 0

    def problems(self) -> list[str]:
        """Return a sentence for each kind of problem."""
        sets = len(self.unread_tags)
        unread = f"{self.shown}: {sets} unreadable tag set{'s' if sets > 1 else ''}; those rows count as untagged."
        return [*_name_rows(self.shown, self.broken, self.skipped), *([unread] if sets else [])]


def load(run: FileLoad, place: ExportPlace) -> tuple[ExportForm | None, list[str]]:
    """Add one file's rows to the gathered ones; return its format (None.

    Unreadable) and a sentence for each problem.
    """
    path = place.folder / run.shown
    try:
        if not path.resolve().is_relative_to(place.folder.resolve()):
            raise Unreadable("it is a link out of the folder; put the file itself there")
        with unpacked(path, place.scratch) as plain:
            return _load(run, plain)
    except (duckdb.Error, Unreadable) as problem:
        return None, [
            f"{run.shown} could not be read and is left out: {_short(problem, path, run.shown)}"
        ]


def _load(run: FileLoad, path: Path) -> tuple[ExportForm | None, list[str]]:
    source = _source(path)
    try:
        columns = _describe(run.db, source)
        if columns.form is None:
            return None, [
                f"{run.shown} is no CUR or FOCUS export: it has neither line_item_unblended_cost nor BilledCost."
            ]
        if columns.count > BILL_COLUMNS:
            raise Unreadable(
                f"it has {columns.count:,} columns; at most {BILL_COLUMNS:,} are read, so take out tags that nobody asks for"
            )
        if path.suffix == ".parquet":
            rows = _Rows(
                f"read_parquet({literal(str(path))}, file_row_number=true)", "file_row_number"
            )
            _gather(run, columns, rows, _row_groups(run.db, path))
            return columns.form, run.problems()
        _gather_text(run, columns, source)
        return columns.form, _rejected(run.db, path, run.shown) + run.problems()
    except duckdb.Error as problem:
        for table in GATHERED:  # a file counts as a whole, or not at all
            run.db.execute(f"DELETE FROM {fresh(table)} WHERE file = $1", [run.file])  # noqa: S608 names from this tuple
        raise Unreadable(_short(problem, path, run.shown)) from problem


def load_answers(
    run: FileLoad, answers: Sequence[Path], services: Mapping[str, str]
) -> tuple[ExportForm | None, list[str]]:
    """Add Cost Explorer's answers to the gathered rows, as `load` adds a file's."""
    rows, problems = rows_in(answers, services)
    run.db.execute(
        f"CREATE OR REPLACE TEMP TABLE answered ({', '.join(f'{column} VARCHAR' for column in COLUMNS)})"
    )
    if rows:
        taken = ", ".join(f"unnest($c{n}::VARCHAR[])" for n in range(len(COLUMNS)))
        columns = {f"c{n}": list(column) for n, column in enumerate(zip(*rows, strict=True))}
        run.db.execute(f"INSERT INTO answered SELECT {taken}", columns)
    _gather_text(run, _describe(run.db, "answered"), "answered")
    return ExportForm.EXPLORER, [*problems, *run.problems()]


@dataclass(frozen=True)
class _Rows:
    """State what the rows of a file are read from, and the column that numbers them."""

    source: str
    number: str

    def where(self, condition: str) -> _Rows:
        """Return some of the rows."""
        return replace(self, source=f"(FROM {self.source} WHERE {condition})")

    def batches(self, sizes: Sequence[int]) -> Iterator[_Rows]:
        """Yield the rows in batches that memory holds, cut where one of the parts of the file ends that have these sizes."""
        first = end = 0
        for size in (*sizes, 0):
            if end - first >= BILL_BATCH_ROWS or (not size and end > first):
                yield (
                    self.where(f"{self.number} >= {first} AND {self.number} < {end}")
                    if end - first < sum(sizes)
                    else self
                )
                first = end
            end += size


def _row_groups(db: duckdb.DuckDBPyConnection, path: Path) -> list[int]:
    """Return how many rows each part of a Parquet file has that can be read by itself."""
    query = (
        "SELECT DISTINCT row_group_id, row_group_num_rows FROM parquet_metadata($1) ORDER BY ALL"
    )
    return [int(rows) for _, rows in db.execute(query, [str(path)]).fetchall()]


def _gather_text(run: FileLoad, columns: Columns, source: str) -> None:
    """Gather rows of text, which is parsed once."""
    run.db.execute(sql("parsed", columns=", ".join(read_of(columns)), source=source))
    ((count,),) = run.db.execute("SELECT count(*) FROM parsed").fetchall()
    sizes = [min(BILL_BATCH_ROWS, count - first) for first in range(0, count, BILL_BATCH_ROWS)]
    _gather(run, columns, _Rows("parsed", "nth"), sizes)
    run.db.execute("DROP TABLE parsed")


def _gather(run: FileLoad, columns: Columns, rows: _Rows, sizes: Sequence[int]) -> None:
    """Add the rows of a file to the gathered ones, batch by batch.

    What one batch needs is all that loading needs at once.
    """
    commits = not (columns.form and columns.form.is_cur)
    if (
        commits
    ):  # what a commitment left unused belongs to the line of its fee, which another batch may hold
        _stage(run.db, columns, rows.where(f"{columns.text('chargecategory')} = 'Purchase'"))
        run.db.execute(sql("bought"))
    for batch in rows.batches(sizes):
        _stage(run.db, columns, batch)
        if commits:
            run.db.execute(sql("unused"))
        _note_broken(run)
        _add_tags(run)
        run.db.execute(sql("things", line=line_case(), file=str(run.file)))
        run.pack()


def _stage(db: duckdb.DuckDBPyConnection, columns: Columns, rows: _Rows) -> None:
    db.execute(raw_of(columns, rows.source, rows.number))
    db.execute(sql("stage"))


def _source(path: Path) -> str:
    if path.suffix == ".parquet":
        return f"read_parquet({literal(str(path))})"
    return (
        f"read_csv({literal(str(path))}, all_varchar=true, header=true, delim=',', quote='\"', escape='\"', null_padding=false, "
        "store_rejects=true, rejects_table='rejected', rejects_scan='rejected_scan', rejects_limit=100000)"
    )


def _describe(db: duckdb.DuckDBPyConnection, source: str) -> Columns:
    rows = db.execute(f"DESCRIBE FROM {source}").fetchall()
    return Columns([(str(row[0]), str(row[1])) for row in rows])


def _rejected(db: duckdb.DuckDBPyConnection, path: Path, shown: str) -> list[str]:
    """Name the lines that the CSV reader had to skip."""
    if path.suffix == ".parquet":
        return []
    rows = db.execute(
        "SELECT DISTINCT ON (line) line, error_message FROM rejected ORDER BY line"
    ).fetchall()
    db.execute("DROP TABLE IF EXISTS rejected; DROP TABLE IF EXISTS rejected_scan")
    return _name_rows(
        shown, [(f"line {line}", _short(why).rstrip(".")) for line, why in rows], len(rows)
    )


def _note_broken(run: FileLoad) -> None:
    """Note the rows without a readable time or amount."""
    query = "SELECT n + 1, started IS NULL, count(*) OVER () FROM stage WHERE NOT fits ORDER BY n LIMIT $1"
    for nth, (n, timeless, count) in enumerate(run.db.execute(query, [_NAMED]).fetchall()):
        run.broken.append((f"row {n}", "no readable start" if timeless else "no readable amount"))
        run.skipped += 0 if nth else count


def _name_rows(shown: str, broken: Sequence[tuple[str, str]], count: int) -> list[str]:
    if not broken:
        return []
    some = "; ".join(f"{place}: {why}" for place, why in broken[:_NAMED])
    more = f"; and {count - _NAMED} more" if count > _NAMED else ""
    return [f"{shown}: {count} broken row{'s' if count > 1 else ''} skipped ({some}{more})."]


def _add_tags(run: FileLoad) -> None:
    """Read every new combination of tags once."""
    rows = run.db.execute(
        "SELECT DISTINCT tagset, tags FROM label ANTI JOIN tagset ON tagset.id = label.tagset WHERE tags IS NOT NULL"
    ).fetchall()
    sets: list[tuple[int, TagSet]] = []
    for key, words in rows:
        try:
            tags = read_tags(words, run.names) if run.tags < BILL_TAGS else None
        except (ValueError, RecursionError):
            tags = None
        if tags is None:
            run.unread_tags.add(key)
        else:
            sets.append((key, tags))
            run.tags += len(tags.pairs)
    _insert(
        run.db,
        "INSERT INTO tagset SELECT unnest($a)::UBIGINT, unnest($b), unnest($c), unnest($d), unnest($e), unnest($f)",
        [
            (key, tags.cluster, tags.namespace, tags.team, tags.project, tags.compiles)
            for key, tags in sets
        ],
    )
    pairs = [(key, plain, value) for key, tags in sets for plain, value in tags.pairs]
    _insert(run.db, "INSERT INTO tag SELECT unnest($a)::UBIGINT, unnest($b), unnest($c)", pairs)


def _insert(db: duckdb.DuckDBPyConnection, query: str, rows: Sequence[tuple[object, ...]]) -> None:
    if rows:
        columns = zip(*rows, strict=True)
        db.execute(
            query,
            {letter: list(column) for letter, column in zip("abcdefgh", columns, strict=False)},
        )


def _short(problem: object, path: Path | None = None, shown: str = "") -> str:
    """Return the first line of a message, the file under its short name."""
    line = str(problem).strip().splitlines()[0]
    return line.replace(str(path), shown)[:200].rstrip(".") + "."


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
    rank = " ".join(f"WHEN {literal(form)} THEN {n}" for n, form in enumerate(ExportForm))
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
