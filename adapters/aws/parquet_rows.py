"""Ask DuckDB for the rows of Parquet files: their numbers, and which series each is of, by hash."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import duckdb
import numpy as np
import numpy.typing as npt

from adapters.aws.parquet_files import ParquetFile
from adapters.aws.parquet_layout import dimensions
from adapters.aws.points import Doubles, Ints, Points, sound

K = TypeVar("K")
Hashes = npt.NDArray[np.uint64]
Sets = dict[int, Mapping[str, str] | None]
"""Dimension sets by hash, None for what is none."""
_NAMES = "namespace, metric_name, region, account_id"
_VALUES = 'seconds, "count", "sum", "max"'


@dataclass(frozen=True)
class Runs(Generic[K]):
    """Hold what successive rows are of: run i has `lengths[i]` rows of `distinct[at[i]]`."""

    distinct: list[K]
    at: npt.NDArray[np.intp]
    lengths: Ints

    def spread(self, numbers: Sequence[int]) -> Ints:
        """Return a number for each row, from one for each of the distinct."""
        return np.repeat(np.array(numbers, dtype=np.int64)[self.at], self.lengths)


@dataclass(frozen=True)
class Values:
    """Hold the columns of rows, and which of them have a time, a count and a sum."""

    seconds: Ints
    count: Doubles
    total: Doubles
    peak: Doubles
    good: npt.NDArray[np.bool_] | None
    """None where all have."""

    def points(self, series: Ints, cut: slice) -> Points:
        """Return the good ones of the rows at `cut`, which are of `series`."""
        found = Points(series, self.seconds[cut], self.count[cut], self.total[cut], self.peak[cut])
        return found if self.good is None else found.take(self.good[cut])

    def broken(self) -> int:
        """Return how many are not good."""
        return 0 if self.good is None else int((~self.good).sum())


@dataclass(frozen=True)
class Rows:
    """Hold what was read of some files."""

    values: Values
    stored: Mapping[bytes, Runs[int]] = field(default_factory=dict)
    """Hashes of dimension sets, for what of `ParquetFile.sets` was to be decoded."""
    mixed: Runs[tuple[int, int]] | None = None
    """Hashes of set and names, where files are about any metric."""
    named: Sequence[tuple[Any, ...]] = ()
    """Hash, the four names and the number of rows of each metric, where files are about any."""


def rows_alone(
    db: duckdb.DuckDBPyConnection, source: str, files: Sequence[ParquetFile], tellers: Sequence[ParquetFile], sets: Sets
) -> Rows:
    """Read files that are each about one metric; decode the sets of the `tellers` only, and add new ones to `sets`."""
    found = db.execute(f"SELECT {_VALUES} FROM {source}", [_paths(files)]).fetchnumpy()  # noqa: S608  column names, quoted
    stored: dict[bytes, Runs[int]] = {}
    if tellers:
        hashes = db.execute(f"SELECT hash(dimensions) d FROM {source}", [_paths(tellers)]).fetchnumpy()["d"]  # noqa: S608
        cuts = np.cumsum([file.rows for file in tellers])[:-1]
        stored = {file.sets: _runs(mine) for file, mine in zip(tellers, np.split(hashes, cuts), strict=True)}
        _decode(db, source, tellers, [one for runs in stored.values() for one in runs.distinct], sets)
    return Rows(_values(found), stored)


def rows_mixed(
    db: duckdb.DuckDBPyConnection,
    source: str,
    files: Sequence[ParquetFile],
    metrics: Collection[tuple[str, str]],
    sets: Sets,
) -> Rows:
    """Read the rows of some `metrics` from files that are about any, in their order: it decides between two of one point."""
    named = db.execute(
        f"SELECT hash({_NAMES}) m, {_NAMES}, count(*) FROM {source} GROUP BY ALL",  # noqa: S608
        [_paths(files)],
    ).fetchall()
    wanted = [row[0] for row in named if row[1:3] in metrics]
    query = f"SELECT hash(dimensions) d, hash({_NAMES}) m, {_VALUES} FROM {source}"  # noqa: S608
    if len(wanted) == len(named):
        found = db.execute(query, [_paths(files)]).fetchnumpy()
    else:
        found = db.execute(f"{query} WHERE m IN (SELECT unnest(?::UBIGINT[]))", [_paths(files), wanted]).fetchnumpy()
    runs = _pairs(found["d"], found["m"])
    _decode(db, source, files, sorted({one for one, _ in runs.distinct}), sets)
    return Rows(_values(found), mixed=runs, named=named)


def _paths(files: Sequence[ParquetFile]) -> list[str]:
    return [str(file.path) for file in files]


def _decode(db: duckdb.DuckDBPyConnection, source: str, files: Sequence[ParquetFile], hashes: Sequence[int], sets: Sets) -> None:
    """Add the sets that were not met before; another thread may do the same, and comes to the same."""
    new = [one for one in hashes if one not in sets]
    if new:
        query = (
            "SELECT hash(dimensions) d, any_value(dimensions)"  # noqa: S608
            f" FROM {source} WHERE d IN (SELECT unnest(?::UBIGINT[])) GROUP BY d"
        )
        sets.update((one, dimensions(said)) for one, said in db.execute(query, [_paths(files), new]).fetchall())


def _runs(hashes: Hashes) -> Runs[int]:
    starts = _starts(hashes)
    distinct, at = np.unique(hashes[starts], return_inverse=True)
    return Runs(distinct.tolist(), at, np.diff(np.append(starts, len(hashes))))


def _pairs(sets: Hashes, names: Hashes) -> Runs[tuple[int, int]]:
    """Return the runs of rows of one set and one name; rows of one series mostly follow each other."""
    starts = _starts(sets, names)
    set_of, set_at = np.unique(sets[starts], return_inverse=True)
    name_of, name_at = np.unique(names[starts], return_inverse=True)
    pairs, at = np.unique(set_at * len(name_of) + name_at, return_inverse=True)
    distinct = [(int(set_of[pair // len(name_of)]), int(name_of[pair % len(name_of)])) for pair in pairs.tolist()]
    return Runs(distinct, at, np.diff(np.append(starts, len(sets))))


def _starts(*columns: Hashes) -> npt.NDArray[np.intp]:
    """Return where a row differs from the one before."""
    if not len(columns[0]):
        return np.zeros(0, dtype=np.intp)
    differs = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.append(0, np.flatnonzero(differs) + 1)


def _values(found: Mapping[str, Any]) -> Values:
    seconds, count, total, peak = (_filled(found[name]) for name in ("seconds", "count", "sum", "max"))
    good = sound(seconds, count, total)
    with np.errstate(invalid="ignore"):
        return Values(seconds.astype(np.int64, copy=False), count, total, peak, None if good.all() else good)


def _filled(column: Any) -> Any:
    """Return a column as numbers, nan where the row says none."""
    if not np.ma.is_masked(column):
        return np.ma.getdata(column)
    return np.ma.filled(column.astype(np.float64), np.nan)
