"""Read metric-stream Parquet by DuckDB, as Firehose or anybody else wrote it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import duckdb
import numpy as np
import numpy.typing as npt

from adapters.aws.files import Problems, why
from adapters.aws.metrics.batch import PARALLEL, differs
from adapters.aws.metrics.parquet_files import (
    Names,
    ParquetFile,
    by_layout,
    connect_locked,
    dimensions,
    grouped_for_queries,
    picked,
    with_new_sets,
)
from adapters.aws.metrics.points import IGNORED, Gatherer, Ints, Points, sound
from bot.model.frame import Doubles
from bot.model.money import counted

K = TypeVar("K")
Hashes = npt.NDArray[np.uint64]
Sets = dict[int, Mapping[str, str] | None]
"""Dimension sets by hash, None for what is none."""
_NAMES = "namespace, metric_name, region, account_id"
_VALUES = 'seconds, "count", "sum", "max"'


@dataclass(frozen=True)
class RowRuns(Generic[K]):
    """Hold the subjects of successive rows: run i has `lengths[i]` rows of `distinct[at[i]]`."""

    distinct: list[K]
    at: npt.NDArray[np.intp]
    lengths: Ints

    def spread(self, numbers: Sequence[int]) -> Ints:
        """Return a number for each row, from one for each of the distinct."""
        return np.repeat(np.array(numbers, dtype=np.int64)[self.at], self.lengths)


@dataclass(frozen=True)
class ParquetValues:
    """Hold the columns of rows, and which of them have a time, a count and a sum."""

    seconds: Ints
    count: Doubles
    total: Doubles
    peak: Doubles
    good: npt.NDArray[np.bool_] | None
    """None where all have."""

    def points(self, series: Ints, cut: slice) -> Points:
        """Return the sound rows at `cut`, which are of `series`."""
        points = Points(series, self.seconds[cut], self.count[cut], self.total[cut], self.peak[cut])
        return points if self.good is None else points.take(self.good[cut])

    def broken(self) -> int:
        """Return how many rows are not sound."""
        return 0 if self.good is None else int((~self.good).sum())


@dataclass(frozen=True)
class ParquetRows:
    """Hold the rows that were read of some files."""

    values: ParquetValues
    stored: Mapping[bytes, RowRuns[int]] = field(default_factory=dict)
    """Hashes of dimension sets, for what of `ParquetFile.sets` was to be decoded."""
    mixed: RowRuns[tuple[int, int]] | None = None
    """Hashes of set and names, where files are about any metric."""
    named: Sequence[tuple[Any, ...]] = ()
    """Hash, the four names and the number of rows of each metric, where files are about any."""


def rows_alone(
    db: duckdb.DuckDBPyConnection,
    source: str,
    files: Sequence[ParquetFile],
    tellers: Sequence[ParquetFile],
    sets: Sets,
) -> ParquetRows:
    """Read files that are each about one metric.

    Decode the sets of the `tellers` only, and add new ones to `sets`.
    """
    query = f"SELECT {_VALUES} FROM {source}"  # noqa: S608  column names, quoted
    columns = db.execute(query, [_paths(files)]).fetchnumpy()
    stored: dict[bytes, RowRuns[int]] = {}
    if tellers:
        query = f"SELECT hash(dimensions) d FROM {source}"  # noqa: S608
        hashes = db.execute(query, [_paths(tellers)]).fetchnumpy()["d"]
        cuts = np.cumsum([file.rows for file in tellers])[:-1]
        for file, part in zip(tellers, np.split(hashes, cuts), strict=True):
            starts, lengths = _runs(part)
            distinct, index = np.unique(part[starts], return_inverse=True)
            stored[file.sets] = RowRuns(distinct.tolist(), index, lengths)
        _decode(
            db,
            source,
            tellers,
            [hashed for runs in stored.values() for hashed in runs.distinct],
            sets,
        )
    return ParquetRows(_values(columns), stored)


def rows_mixed(
    db: duckdb.DuckDBPyConnection,
    source: str,
    files: Sequence[ParquetFile],
    metrics: Collection[tuple[str, str]],
    sets: Sets,
) -> ParquetRows:
    """Read the rows of some `metrics` from files that are about any, in their order.

    It decides between two of one point.
    """
    named_rows = db.execute(
        f"SELECT hash({_NAMES}) m, {_NAMES}, count(*) FROM {source} GROUP BY ALL",  # noqa: S608
        [_paths(files)],
    ).fetchall()
    hashes = [row[0] for row in named_rows if row[1:3] in metrics]
    query = f"SELECT hash(dimensions) d, hash({_NAMES}) m, {_VALUES} FROM {source}"  # noqa: S608
    if len(hashes) == len(named_rows):
        columns = db.execute(query, [_paths(files)]).fetchnumpy()
    else:
        columns = db.execute(
            f"{query} WHERE m IN (SELECT unnest(?::UBIGINT[]))", [_paths(files), hashes]
        ).fetchnumpy()
    runs = _pairs(columns["d"], columns["m"])
    _decode(db, source, files, sorted({hashed for hashed, _ in runs.distinct}), sets)
    return ParquetRows(_values(columns), mixed=runs, named=named_rows)


def _paths(files: Sequence[ParquetFile]) -> list[str]:
    return [str(file.path) for file in files]


def _decode(
    db: duckdb.DuckDBPyConnection,
    source: str,
    files: Sequence[ParquetFile],
    hashes: Sequence[int],
    sets: Sets,
) -> None:
    """Add the sets that were not met before.

    Another thread may do the same, and comes to the same.
    """
    if new := [hashed for hashed in hashes if hashed not in sets]:
        sets.update(
            (hashed, dimensions(value))
            for hashed, value in db.execute(
                "SELECT hash(dimensions) d, any_value(dimensions)"  # noqa: S608
                f" FROM {source} WHERE d IN (SELECT unnest(?::UBIGINT[])) GROUP BY d",
                [_paths(files), new],
            ).fetchall()
        )


def _pairs(sets: Hashes, names: Hashes) -> RowRuns[tuple[int, int]]:
    """Return the runs of rows of one set and one name.

    Rows of one series mostly follow each other.
    """
    starts, lengths = _runs(sets, names)
    set_of, set_at = np.unique(sets[starts], return_inverse=True)
    name_of, name_at = np.unique(names[starts], return_inverse=True)
    pairs, index = np.unique(set_at * len(name_of) + name_at, return_inverse=True)
    distinct = [
        (int(set_of[pair // len(name_of)]), int(name_of[pair % len(name_of)]))
        for pair in pairs.tolist()
    ]
    return RowRuns(distinct, index, lengths)


def _runs(*columns: Hashes) -> tuple[npt.NDArray[np.intp], Ints]:
    """Return where a row differs from the one before, and how many rows are alike from there."""
    starts = np.flatnonzero(np.logical_or.reduce([differs(column) for column in columns]))
    return starts, np.diff(np.append(starts, len(columns[0])))


def _values(columns: Mapping[str, Any]) -> ParquetValues:
    seconds, count, total, peak = (
        _filled(columns[name]) for name in ("seconds", "count", "sum", "max")
    )
    good = sound(seconds, count, total)
    with np.errstate(invalid="ignore"):
        return ParquetValues(
            seconds.astype(np.int64, copy=False), count, total, peak, None if good.all() else good
        )


def _filled(column: Any) -> Any:
    """Return a column as numbers, nan where the row says none."""
    if not np.ma.is_masked(column):
        return np.ma.getdata(column)
    return np.ma.filled(column.astype(np.float64), np.nan)


def read_parquet(files: Sequence[tuple[Path, str]], gatherer: Gatherer, problems: Problems) -> None:
    """Gather the points of all files, some files of one layout in one query."""
    if not files:
        return
    with closing(connect_locked([path for path, _ in files])) as connection:
        for columns, alike in by_layout(connection, files, problems).items():
            try:
                source = f"(SELECT {picked(dict(columns))} FROM read_parquet(?))"  # noqa: S608
            except KeyError as error:
                for file in alike:
                    problems.add(file.name, f"no column {error}; skipped.")
                continue
            _ParquetReader(connection, source, gatherer, problems).read(alike)


@dataclass
class _ParquetReader:
    """Read files of one layout; a dimension set is decoded once, after that its hash is known.

    Decoding the sets costs more than all numbers together, and the same nodes come again with every
    metric.
    """

    connection: duckdb.DuckDBPyConnection
    source: str
    """Brings some files to one layout, for a query."""
    gatherer: Gatherer
    problems: Problems
    stored: dict[bytes, RowRuns[int]] = field(default_factory=dict)
    """The sets of a file's rows, by how it stores them."""

    def read(self, files: Sequence[ParquetFile]) -> None:
        """Gather the points of the files in order, some while others are read."""
        met: set[bytes] = set()
        meaningful = []
        for file in files:
            if file.names is None or file.names[:2] in self.gatherer.catalogue.metrics:
                meaningful.append(file)
            else:
                self.gatherer.ignore(str(file.names[0]), str(file.names[1]), file.rows)
        with ThreadPoolExecutor(PARALLEL, thread_name_prefix="parquet") as pool:
            coming = deque(
                (group, pool.submit(self._rows, group, with_new_sets(group, met)))
                for group in grouped_for_queries(meaningful)
            )
            while coming:
                group, rows = coming.popleft()
                self._gather(group, rows.result)

    def _rows(self, group: Sequence[ParquetFile], tellers: Sequence[ParquetFile]) -> ParquetRows:
        with self.connection.cursor() as db:
            if group[0].names is None:
                return rows_mixed(
                    db, self.source, group, self.gatherer.catalogue.metrics, self.gatherer.sets
                )
            return rows_alone(db, self.source, group, tellers, self.gatherer.sets)

    def _gather(self, group: Sequence[ParquetFile], rows: Callable[[], ParquetRows]) -> None:
        """Gather the points of some files; where one cannot be read, only that one is left out."""
        try:
            self._add(group, rows())
        except duckdb.Error as error:
            if len(group) == 1:
                self.problems.add(group[0].name, f"cannot be read ({why(error)}); skipped.")
                return
            for file in group:
                self._gather([file], partial(self._rows, [file], []))

    def _add(self, group: Sequence[ParquetFile], rows: ParquetRows) -> None:
        self.stored |= rows.stored
        if rows.mixed:
            names = {row[0]: row[1:5] for row in rows.named}
            numbers = [self._number(names[name], hashed) for hashed, name in rows.mixed.distinct]
            parts = [(rows.mixed.spread(numbers), slice(None))]
        else:
            parts = self._alone(group)
        for series, cut in parts:
            self.gatherer.add(rows.values.points(series, cut))
        if broken := rows.values.broken():
            self.problems.add(
                group[0].name,
                f"{counted(broken, 'row')} here or in files of the same layout without time, count or"
                " sum; skipped.",
            )
        for _, namespace, metric, _, _, count in rows.named:
            self.gatherer.ignore(namespace, metric, count)

    def _alone(self, group: Sequence[ParquetFile]) -> list[tuple[Ints, slice]]:
        """Return the numbers of each file's rows, and where those lie.

        Of files about one metric each.
        """
        parts, first = [], 0
        for file in group:
            # The sets of a file's rows, read from it where the file that was to tell them could not
            # be read.
            if file.sets not in self.stored:
                self.stored |= self._rows([file], [file]).stored
            runs, names = self.stored[file.sets], file.names or ()

            parts.append(
                (
                    runs.spread([self._number(names, hashed) for hashed in runs.distinct]),
                    slice(first, first + file.rows),
                )
            )
            first += file.rows
        return parts

    def _number(self, names: Names, hashed: int) -> int:
        """Return the number of a series by its names and the hash of its dimension set."""
        number_of, key = self.gatherer.number_of, (*names, hashed)
        if key not in number_of:
            namespace, metric, region, account = names
            pairs, number = self.gatherer.sets[hashed], IGNORED
            if pairs is not None:
                with suppress(ValueError):
                    number = self.gatherer.number(
                        str(namespace), str(metric), pairs, region or "", account or ""
                    )
            number_of[key] = number  # only now: another thread takes it as it is
        return number_of[key]
