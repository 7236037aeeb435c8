"""Bring the tables up to date with the files, in bounded batches; settle which copy counts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path

import duckdb

from adapters.billing.attribution import BillTagNames, amortise, line_case, read_tags
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
from bot.model.fleet import Reservation
from bot.model.limits import BILL_BATCH_ROWS, BILL_COLUMNS, BILL_TAGS

_NAMED = 5
_BROKEN = (
    "SELECT n + 1, started IS NULL, count(*) OVER () FROM stage WHERE NOT fits ORDER BY n LIMIT $1"
)
_NEW_TAGS = (
    "SELECT DISTINCT tagset, tags FROM label ANTI JOIN tagset ON tagset.id = label.tagset "
    "WHERE tags IS NOT NULL"
)
_UNWRITTEN = re.compile(r"[Cc]ould not (write|fsync|truncate)|[Nn]o space left|[Ff]ile too large")
GATHERED = ("detail", "split", "sketch", "fee", "rebate", "held")
"""The tables that files fill."""


@dataclass(frozen=True)
class ExportPlace:
    """State where the files of a bill stand, where zips are unpacked, and the names of its tags."""

    folder: Path
    scratch: Path
    names: BillTagNames


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
        problems = _name_rows(self.shown, self.broken, self.skipped)
        if sets := len(self.unread_tags):
            problems.append(
                f"{self.shown}: {sets} unreadable tag set{'s' if sets > 1 else ''}; "
                "those rows count as untagged."
            )
        return problems


def load(run: FileLoad, place: ExportPlace) -> tuple[ExportForm | None, list[str]]:
    """Add one file's rows to the gathered ones.

    Return its format (None: unreadable) and a sentence for each problem.
    """
    # A link may lead to files that nobody meant to be read.
    path = place.folder / run.shown
    try:
        if not path.resolve().is_relative_to(place.folder.resolve()):
            raise Unreadable("it is a link out of the folder; put the file itself there")
        with unpacked(path, place.scratch) as plain:
            return _load(run, plain)
    except (duckdb.Error, Unreadable) as problem:
        # A full disk is no fault of the file.
        if _UNWRITTEN.search(str(problem)):
            raise duckdb.IOException(str(problem)) from problem
        return None, [
            f"{run.shown} could not be read and is left out: {_short(problem, path, run.shown)}"
        ]


def _load(run: FileLoad, path: Path) -> tuple[ExportForm | None, list[str]]:
    """Add the rows of a file that is unpacked, as a whole or not at all."""
    db, quoted = run.db, literal(str(path))
    is_parquet = path.suffix == ".parquet"
    source = f"read_parquet({quoted})"
    if not is_parquet:
        source = (
            f"read_csv({quoted}, all_varchar=true, header=true, delim=',', quote='\"', "
            "escape='\"', null_padding=false, store_rejects=true, rejects_table='rejected', "
            "rejects_scan='rejected_scan', rejects_limit=100000)"
        )
    try:
        columns = _describe(db, source)
        if columns.form is None:
            return None, [
                f"{run.shown} is not a CUR or FOCUS export: "
                "it has neither line_item_unblended_cost nor BilledCost."
            ]
        if columns.count > BILL_COLUMNS:
            raise Unreadable(
                f"it has {columns.count:,} columns; at most {BILL_COLUMNS:,} are read, "
                "so take out tags that nobody asks for"
            )
        if is_parquet:
            # The parts of the file that can be read by themselves, and how many rows each has.
            query = (
                "SELECT DISTINCT row_group_id, row_group_num_rows FROM parquet_metadata($1) "
                "ORDER BY ALL"
            )
            sizes = [int(size) for _, size in db.execute(query, [str(path)]).fetchall()]
            numbered = f"read_parquet({quoted}, file_row_number=true)"
            _gather(run, columns, _Rows(numbered, "file_row_number"), sizes)
            return columns.form, run.problems()

        _gather_text(run, columns, source)
        rejected = db.execute(
            "SELECT DISTINCT ON (line) line, error_message FROM rejected ORDER BY line"
        ).fetchall()
        db.execute("DROP TABLE IF EXISTS rejected; DROP TABLE IF EXISTS rejected_scan")
        skipped = [(f"line {line}", _short(why).rstrip(".")) for line, why in rejected]
        return columns.form, _name_rows(run.shown, skipped, len(skipped)) + run.problems()
    except duckdb.Error as problem:
        for table in GATHERED:
            query = f"DELETE FROM {fresh(table)} WHERE file = $1"  # noqa: S608 our own names
            db.execute(query, [run.file])
        raise Unreadable(_short(problem, path, run.shown)) from problem


def load_answers(
    run: FileLoad, answers: Sequence[Path], services: Mapping[str, str]
) -> tuple[ExportForm | None, list[str]]:
    """Add Cost Explorer's answers to the gathered rows, as `load` adds a file's."""
    rows, problems = rows_in(answers, services)
    run.db.execute(f"CREATE OR REPLACE TEMP TABLE answered ({' VARCHAR, '.join(COLUMNS)} VARCHAR)")
    _insert(run.db, "answered", rows, ["VARCHAR"] * len(COLUMNS))
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
        """Yield the rows in batches that memory holds.

        They are cut where one of the parts of the file ends that have these sizes.
        """
        first = end = 0
        for size in (*sizes, 0):
            if end - first >= BILL_BATCH_ROWS or (not size and end > first):
                whole = end - first == sum(sizes)
                span = f"{self.number} >= {first} AND {self.number} < {end}"
                yield self if whole else self.where(span)
                first = end
            end += size


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
    # In FOCUS what a commitment left unused belongs to the line of its fee, in whatever batch.
    if not columns.is_cur:
        _stage(run.db, columns, rows.where(f"{columns.text('chargecategory')} = 'Purchase'"))
        run.db.execute(sql("bought"))
    for batch in rows.batches(sizes):
        run.pack()
        _stage(run.db, columns, batch)
        if not columns.is_cur:
            run.db.execute(sql("unused"))
        broken = run.db.execute(_BROKEN, [_NAMED]).fetchall()
        run.broken += [
            (f"row {n}", "no readable start" if timeless else "no readable amount")
            for n, timeless, _ in broken
        ]
        run.skipped += broken[0][2] if broken else 0
        _add_tags(run)
        run.db.execute(sql("things", line=line_case(), file=str(run.file)))


def _stage(db: duckdb.DuckDBPyConnection, columns: Columns, rows: _Rows) -> None:
    db.execute(raw_of(columns, rows.source, rows.number))
    db.execute(sql("stage"))


def _describe(db: duckdb.DuckDBPyConnection, source: str) -> Columns:
    """Return the columns of a file; those of net amounts are none where they are all empty."""
    described = [
        (str(row[0]), str(row[1])) for row in db.execute(f"DESCRIBE FROM {source}").fetchall()
    ]
    columns = Columns(described)
    if not columns.is_net:
        return columns
    net = columns.text(*columns.names["net_cost"])
    query = f"SELECT 1 FROM {source} WHERE {net} IS NOT NULL LIMIT 1"  # noqa: S608 our own names
    return Columns(described, is_net=bool(db.execute(query).fetchall()))


def _name_rows(shown: str, broken: Sequence[tuple[str, str]], count: int) -> list[str]:
    if not broken:
        return []
    places = "; ".join(f"{place}: {why}" for place, why in broken[:_NAMED])
    others = f"; and {count - _NAMED} more" if count > _NAMED else ""
    return [f"{shown}: {count} broken row{'s' if count > 1 else ''} skipped ({places}{others})."]


def _add_tags(run: FileLoad) -> None:
    """Read every new combination of tags once."""
    sets, pairs = [], []
    for key, words in run.db.execute(_NEW_TAGS).fetchall():
        try:
            tags = read_tags(words, run.names) if run.tags < BILL_TAGS else None
        except (ValueError, RecursionError):
            tags = None
        if tags is None:
            run.unread_tags.add(key)
        else:
            run.tags += len(tags.pairs)
            sets.append((key, tags.cluster, tags.namespace, tags.team, tags.project, tags.compiles))
            pairs += [(key, plain, value) for plain, value in tags.pairs]
    texts = ["VARCHAR"] * 4
    _insert(run.db, "tagset", sets, ["UBIGINT", *texts, "BOOLEAN"])
    _insert(run.db, "tag", pairs, ["UBIGINT", *texts[:2]])


def _insert(
    db: duckdb.DuckDBPyConnection,
    table: str,
    rows: Sequence[tuple[object, ...]],
    kinds: Sequence[str],
) -> None:
    if rows:
        columns = {f"c{n}": list(column) for n, column in enumerate(zip(*rows, strict=True))}
        values = ", ".join(f"unnest($c{n}::{kind}[])" for n, kind in enumerate(kinds))
        db.execute(f"INSERT INTO {table} SELECT {values}", columns)


def _short(problem: object, path: Path | None = None, shown: str = "") -> str:
    """Return the first line of a message, the file under its short name."""
    return str(problem).strip().splitlines()[0].replace(str(path), shown)[:200].rstrip(".") + "."


def refresh(
    db: duckdb.DuckDBPyConnection,
    place: ExportPlace,
    answers: ExplorerFiles,
    files: Mapping[str, File],
    blocks: Callable[[], Sequence[Reservation]] = tuple,
) -> list[str]:
    """Load new and changed files, drop those that are gone, settle which copy of a month counts.

    Return a sentence for each prepaid fee that could not be spread over its hours, by the `blocks`
    that were bought.
    """
    stored = {
        path: (number, stamp, shadowed)
        for path, number, stamp, shadowed in db.execute(
            "SELECT path, id, stamp, shadowed FROM file"
        ).fetchall()
    }
    stale = {
        path: number
        for path, (number, stamp, shadowed) in stored.items()
        if shadowed or path not in files or files[path].stamp != stamp
    }
    unloaded = [file for path, file in files.items() if path not in stored or path in stale]
    db.execute(
        "; ".join(f"CREATE OR REPLACE TABLE {fresh(x)} AS FROM {x} LIMIT 0" for x in GATHERED)
    )
    next_id = 1 + max((number for number, _, _ in stored.values()), default=0)
    with packing(db) as pack:
        rows: list[list[object]] = []
        for number, file in enumerate(unloaded, next_id):
            run = FileLoad(db, file.path, number, place.names, pack)
            if file.path == ExportForm.EXPLORER:
                form, problems = load_answers(
                    run, newest_answers(answers.folder, answers.view), answers.services
                )
            else:
                form, problems = load(run, place)
            rows.append([number, file.path, file.stamp, file.modified, form, False, problems])

        # The gathered rows take the place of those that are gone, all at once.
        db.execute(sql("sketch"))
        with _transaction(db):
            months = _months_of(db, list(stale.values()))
            for table, column in (("file", "id"), *((table, "file") for table in GATHERED)):
                if stale:
                    query = f"DELETE FROM {table} WHERE list_contains($1, {column})"  # noqa: S608
                    db.execute(query, [list(stale.values())])
            whole = not db.execute("SELECT count(*) FROM file").fetchall()[0][0]
            for row in rows:
                db.execute("INSERT INTO file VALUES ($1, $2, $3, $4, $5, $6, $7::VARCHAR[])", row)
            for table in GATHERED:
                if whole:  # to copy what is all there is would take its memory twice
                    db.execute(f"DROP TABLE {table}")
                    db.execute(f"ALTER TABLE {fresh(table)} RENAME TO {table}")
                else:
                    db.execute(f"INSERT INTO {table} FROM {fresh(table)}")
            unspread = _settle(db, blocks, months)
        db.execute("; ".join(f"DROP TABLE IF EXISTS {fresh(x)}" for x in GATHERED))
        return unspread


def _months_of(db: duckdb.DuckDBPyConnection, stale: list[int]) -> list[date] | None:
    """Return the months whose rows change by files that are gone and new; None for any.

    A fee or a discount that is billed apart is spread over rows of whatever month.
    """
    apart = (
        "SELECT 1 WHERE EXISTS (FROM fee) OR EXISTS (FROM fresh_fee) OR EXISTS (FROM rebate) "
        "OR EXISTS (FROM fresh_rebate) OR EXISTS (FROM fresh WHERE month IS NULL)"
    )
    if db.execute(apart).fetchall():
        return None
    query = "SELECT month FROM fresh UNION SELECT month FROM detail WHERE list_contains($1, file)"
    months = [month for (month,) in db.execute(query, [stale]).fetchall()]
    return None if None in months else months


def settle_anew(
    db: duckdb.DuckDBPyConnection, blocks: Callable[[], Sequence[Reservation]]
) -> list[str]:
    """Derive everything again over the same files: other Capacity Blocks are known."""
    with _transaction(db):
        return _settle(db, blocks)


@contextmanager
def _transaction(db: duckdb.DuckDBPyConnection) -> Iterator[None]:
    db.execute("BEGIN")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise


def _settle(
    db: duckdb.DuckDBPyConnection,
    blocks: Callable[[], Sequence[Reservation]],
    months: Sequence[date] | None = None,
) -> list[str]:
    """Leave out the copies, then derive all that follows from the rows that count.

    That is the discounts of their own, the rollup (of the `months` whose rows changed, None for
    all), the extent, the hours of what is prepaid and the pods' shares.
    """
    db.execute("DELETE FROM detail WHERE file = 0")
    ((files,),) = db.execute("SELECT count(*) FROM file").fetchall()
    rank = " ".join(f"WHEN {literal(form)} THEN {n}" for n, form in enumerate(ExportForm))
    # To plan the search for copies takes longer than to load a small file, which alone has none.
    copies = files > 1 and db.execute(sql("shadow", rank=f"CASE f.form {rank} END")).fetchall()
    for worse, month, payer, path, form, better, better_form in copies or ():
        for table in ("detail", "fee", "rebate"):
            db.execute(
                f"DELETE FROM {table} WHERE file = $1 AND month = $2 "  # noqa: S608 our own names
                "AND thing IN (SELECT id FROM thing WHERE payer = $3)",
                [worse, month, payer],
            )
        db.execute("DELETE FROM split WHERE file = $1 AND month = $2", [worse, month])
        why = (
            f"{path} ({form}): {month:%Y-%m} is also in {better} ({better_form}), which counts; "
            "this copy is left out."
        )
        db.execute(
            "UPDATE file SET shadowed = TRUE, problems = list_append(problems, $1) WHERE id = $2",
            [why, worse],
        )
    if db.execute("SELECT 1 FROM rebate LIMIT 1").fetchall():
        db.execute(sql("rebates"))
    changed = "TRUE"
    if months is not None:
        changed = " OR ".join(["FALSE", *(f"month = DATE '{month}'" for month in months)])
    db.execute(sql("rollup", changed=changed))
    unspread = amortise(db, blocks)
    if db.execute("SELECT 1 FROM split LIMIT 1").fetchall():
        db.execute(sql("pods"))
    db.execute(sql("broad"))
    return unspread
