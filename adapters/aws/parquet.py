"""Read metric-stream Parquet by DuckDB, as Firehose or anybody else wrote it.

`dimensions` may be MAP, STRUCT or JSON text; `value` a STRUCT, a MAP, JSON text, or flattened (`value_sum`, `value.sum` or
`sum`); `timestamp` milliseconds or a TIMESTAMP.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import orjson

from adapters.aws.points import IGNORED, Gatherer, Ints, Points, sound
from adapters.aws.problems import Problems, why

_Columns = tuple[tuple[str, str], ...]
"""Name and type of each column."""
_File = tuple[Path, str]
"""Where a file lies, and its name to report."""
_Hashes = npt.NDArray[np.uint64]
_BYTES_A_QUERY = 4 << 20
"""Few enough that what was read is still in the cache when it is sorted, and enough that a query costs little beside it."""
_NAMES = "namespace, metric_name, region, account_id"


def read_parquet(files: Sequence[_File], gatherer: Gatherer, problems: Problems) -> None:
    """Gather the points of all files, some files of one layout in one query."""
    if not files:
        return
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    layouts: dict[_Columns, list[_File]] = defaultdict(list)
    for path, name in files:
        try:
            layouts[_columns(connection, path)].append((path, name))
        except duckdb.Error as error:
            problems.add(name, f"not Parquet that can be read ({why(error)}); skipped.")
    for columns, alike in layouts.items():
        try:
            reader = _Reader(connection, _picked(dict(columns)), gatherer, problems)
        except KeyError as error:
            for _, name in alike:
                problems.add(name, f"no column {error}; skipped.")
            continue
        for some in _together(alike):
            reader.read(some)


def _columns(connection: duckdb.DuckDBPyConnection, path: Path) -> _Columns:
    found = connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", [str(path)]).fetchall()
    return tuple((str(row[0]), str(row[1])) for row in found)


def _together(files: Sequence[_File]) -> Iterator[list[_File]]:
    """Yield files that are read by one query, in order."""
    some: list[_File] = []
    size = 0
    for path, name in files:
        some.append((path, name))
        size += path.stat().st_size
        if size >= _BYTES_A_QUERY:
            yield some
            some, size = [], 0
    if some:
        yield some


@dataclass
class _Reader:
    """Read files of one layout; a dimension set is decoded once, after that its hash is known.

    Decoding the sets costs more than all numbers together, and the same nodes come again with every metric.
    """

    connection: duckdb.DuckDBPyConnection
    picked: str
    gatherer: Gatherer
    problems: Problems
    sets: dict[int, Mapping[str, str] | None] = field(default_factory=dict)
    """Dimension sets by hash, None for what is none."""

    def read(self, files: Sequence[_File]) -> None:
        """Gather the points of some files; where one cannot be read, only that one is left out."""
        try:
            self._gather([str(path) for path, _ in files], files[0][1])
        except duckdb.Error as error:
            if len(files) == 1:
                self.problems.add(files[0][1], f"cannot be read ({why(error)}); skipped.")
                return
            for file in files:
                self.read([file])

    def _gather(self, paths: list[str], name: str) -> None:
        source = f"(SELECT {self.picked} FROM read_parquet(?))"  # noqa: S608  column names, quoted
        named = self.connection.execute(
            f"SELECT hash({_NAMES}) m, {_NAMES}, count(*) FROM {source} GROUP BY ALL",  # noqa: S608
            [paths],
        ).fetchall()
        known = {row[0]: row[1:5] for row in named if row[1:3] in self.gatherer.catalogue.metrics}
        if known:
            rows = self._rows(source, paths, None if len(known) == len(named) else list(known))
            self._know(source, paths, rows["d"])
            points, broken = _points(rows, self._numbers(rows["d"], rows["m"], known))
            self.gatherer.add(points)
            if broken:
                self.problems.add(name, f"{broken} rows here or in files of the same layout have no time, count or sum; skipped.")
        times: Counter[tuple[str, str]] = Counter()
        for _, namespace, metric, _, _, count in named:
            times[namespace, metric] += count
        for (namespace, metric), count in times.items():
            self.gatherer.ignore(namespace, metric, count)

    def _rows(self, source: str, paths: list[str], only: list[int] | None) -> dict[str, Any]:
        """Return the columns in the order of the rows, which decides between two records of one point."""
        columns = f'hash(dimensions) d, hash({_NAMES}) m, seconds, "count", "sum", "max"'
        where = "" if only is None else " WHERE m IN (SELECT unnest(?::UBIGINT[]))"
        query = f"SELECT {columns} FROM {source}{where}"  # noqa: S608
        return dict(self.connection.execute(query, [paths] if only is None else [paths, only]).fetchnumpy())

    def _know(self, source: str, paths: list[str], hashes: _Hashes) -> None:
        """Decode the dimension sets that were not met before."""
        new = [one for one in np.unique(hashes[_starts(hashes)]).tolist() if one not in self.sets]
        if new:
            query = (
                "SELECT hash(dimensions) d, any_value(dimensions)"  # noqa: S608
                f" FROM {source} WHERE d IN (SELECT unnest(?::UBIGINT[])) GROUP BY d"
            )
            self.sets |= {one: _dimensions(said) for one, said in self.connection.execute(query, [paths, new]).fetchall()}

    def _numbers(self, sets: _Hashes, names: _Hashes, known: Mapping[int, tuple[str, ...]]) -> Ints:
        """Return the number of each row's series; rows of one series mostly follow each other."""
        starts = _starts(sets, names)
        set_of, set_at = np.unique(sets[starts], return_inverse=True)
        name_of, name_at = np.unique(names[starts], return_inverse=True)
        pairs, pair_at = np.unique(set_at * len(name_of) + name_at, return_inverse=True)
        found = [
            self._number(known[int(name_of[pair % len(name_of)])], self.sets[int(set_of[pair // len(name_of)])])
            for pair in pairs.tolist()
        ]
        lengths = np.diff(np.append(starts, len(sets)))
        return np.repeat(np.array(found, dtype=np.int64)[pair_at], lengths)

    def _number(self, names: tuple[str, ...], pairs: Mapping[str, str] | None) -> int:
        namespace, metric, region, account = names
        if pairs is None:
            return IGNORED
        try:
            return self.gatherer.number(namespace, metric, pairs, region or "", account or "")
        except TypeError:
            return IGNORED


def _starts(*columns: _Hashes) -> npt.NDArray[np.intp]:
    """Return where a row differs from the one before."""
    if not len(columns[0]):
        return np.zeros(0, dtype=np.intp)
    differs = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.append(0, np.flatnonzero(differs) + 1)


def _points(rows: Mapping[str, Any], series: Ints) -> tuple[Points, int]:
    seconds, count, total, peak = (_filled(rows[name]) for name in ("seconds", "count", "sum", "max"))
    good = sound(seconds, count, total)
    if good.all():
        return Points(series, seconds.astype(np.int64), count, total, peak), 0
    with np.errstate(invalid="ignore"):
        return Points(series, seconds.astype(np.int64), count, total, peak).take(good), int((~good).sum())


def _filled(column: Any) -> npt.NDArray[np.float64]:
    """Return a column as numbers, nan where the row says none."""
    if not np.ma.is_masked(column):
        return np.asarray(np.ma.getdata(column), dtype=np.float64)
    numbers: npt.NDArray[np.float64] = np.ma.filled(column.astype(np.float64), np.nan)
    return numbers


def _dimensions(value: Any) -> Mapping[str, str] | None:
    """Return the said (name, value) pairs; a STRUCT has a field for every name and null where it is not said."""
    try:
        pairs = orjson.loads(value) if isinstance(value, str) else value
        return {name: said for name, said in (pairs or {}).items() if said is not None}
    except (TypeError, ValueError, AttributeError):
        return None


def _picked(columns: Mapping[str, str]) -> str:
    """Return the SELECT list that brings any layout to one; raise `KeyError` naming the column that is missing."""
    for name in ("namespace", "metric_name", "dimensions", "timestamp"):
        if name not in columns:
            raise KeyError(name)
    optional = [name if name in columns else f"'' AS {name}" for name in ("region", "account_id")]
    values = [_value(columns, name) for name in ("count", "sum", "max")]
    return ", ".join(
        ["namespace", "metric_name", "dimensions", *optional, f"{_seconds(columns['timestamp'])} AS seconds", *values]
    )


def _seconds(kind: str) -> str:
    return 'epoch("timestamp")' if kind.startswith(("TIMESTAMP", "DATE")) else 'CAST("timestamp" AS BIGINT) // 1000'


def _value(columns: Mapping[str, str], name: str) -> str:
    for flat in (f"value_{name}", f"value.{name}", name):
        if flat in columns:
            return f'CAST("{flat}" AS DOUBLE) AS "{name}"'
    kind = columns.get("value", "")
    if kind.startswith(("STRUCT", "MAP")):
        return f'CAST("value"[\'{name}\'] AS DOUBLE) AS "{name}"'
    if kind in ("VARCHAR", "JSON"):
        return f'CAST(json_extract_string("value", \'$.{name}\') AS DOUBLE) AS "{name}"'
    raise KeyError("value")
