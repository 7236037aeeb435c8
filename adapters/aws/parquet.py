"""Read metric-stream Parquet by DuckDB, as Firehose or anybody else wrote it.

`dimensions` may be MAP, STRUCT or JSON text; `value` a STRUCT, a MAP, JSON text, or flattened (`value_sum`, `value.sum` or
`sum`); `timestamp` milliseconds or a TIMESTAMP.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import orjson

from adapters.aws.points import IGNORED, Gatherer, Points, sound
from adapters.aws.problems import Problems, why

_Columns = tuple[tuple[str, str], ...]
"""Name and type of each column."""
_FILES_A_QUERY = 200


def read_parquet(files: Sequence[tuple[Path, str]], gatherer: Gatherer, problems: Problems) -> None:
    """Gather the points of all files (path, name to report), those of one layout in one query."""
    if not files:
        return
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    layouts: dict[_Columns, list[tuple[Path, str]]] = defaultdict(list)
    for path, name in files:
        try:
            layouts[_columns(connection, path)].append((path, name))
        except duckdb.Error as error:
            problems.add(name, f"not Parquet that can be read ({why(error)}); skipped.")
    for columns, alike in layouts.items():
        for i in range(0, len(alike), _FILES_A_QUERY):
            _read_alike(connection, columns, alike[i : i + _FILES_A_QUERY], gatherer, problems)


def _columns(connection: duckdb.DuckDBPyConnection, path: Path) -> _Columns:
    found = connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", [str(path)]).fetchall()
    return tuple((str(row[0]), str(row[1])) for row in found)


def _read_alike(
    connection: duckdb.DuckDBPyConnection,
    columns: _Columns,
    files: Sequence[tuple[Path, str]],
    gatherer: Gatherer,
    problems: Problems,
) -> None:
    try:
        picked = _picked(dict(columns))
    except KeyError as error:
        for _, name in files:
            problems.add(name, f"no column {error}; skipped.")
        return
    try:
        _read(connection, picked, [str(path) for path, _ in files], gatherer, files[0][1], problems)
    except duckdb.Error as error:
        if len(files) == 1:
            problems.add(files[0][1], f"cannot be read ({why(error)}); skipped.")
            return
        for file in files:
            _read_alike(connection, columns, [file], gatherer, problems)


def _read(
    connection: duckdb.DuckDBPyConnection,
    picked: str,
    paths: list[str],
    gatherer: Gatherer,
    name: str,
    problems: Problems,
) -> None:
    source = f"(SELECT {picked} FROM read_parquet(?)) WHERE (namespace, metric_name) IN (SELECT unnest(?), unnest(?))"  # noqa: S608  column names, quoted
    namespaces, metrics = zip(*sorted(gatherer.catalogue.metrics), strict=True)
    given = [paths, list(namespaces), list(metrics)]
    hashed = "hash(namespace, metric_name, region, account_id, dimensions)"
    series = connection.execute(
        f"SELECT {hashed} h, any_value(namespace), any_value(metric_name), any_value(dimensions), any_value(region),"  # noqa: S608
        f" any_value(account_id) FROM {source} GROUP BY h ORDER BY h",
        given,
    ).fetchall()
    # A plain SELECT keeps the order of the rows, which decides between two records of one point.
    rows = connection.execute(f'SELECT {hashed} h, seconds, "count", "sum", "max" FROM {source}', given).fetchnumpy()  # noqa: S608
    numbers = np.array([_number(gatherer, row) for row in series], dtype=np.int64)
    hashes = np.array([row[0] for row in series], dtype=np.uint64)
    gathered, broken = _points(rows, hashes, numbers)
    gatherer.add(gathered)
    if broken:
        problems.add(name, f"{broken} rows here or in files of the same layout have no time, count or sum; skipped.")
    _count_ignored(connection, picked, paths, gatherer)


def _points(rows: Mapping[str, Any], hashes: np.ndarray[Any, Any], numbers: np.ndarray[Any, Any]) -> tuple[Points, int]:
    seconds, count, total, peak = (_filled(rows[name]) for name in ("seconds", "count", "sum", "max"))
    good = sound(seconds, count, total)
    series = numbers[np.searchsorted(hashes, np.ma.getdata(rows["h"]))] if len(hashes) else np.empty(0, dtype=np.int64)
    if good.all():
        return Points(series, seconds.astype(np.int64), count, total, peak), 0
    with np.errstate(invalid="ignore"):
        return Points(series, seconds.astype(np.int64), count, total, peak).take(good), int((~good).sum())


def _filled(column: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return a column as numbers, nan where the row says none."""
    if not np.ma.is_masked(column):
        return np.asarray(np.ma.getdata(column), dtype=np.float64)
    numbers: np.ndarray[Any, np.dtype[np.float64]] = np.ma.filled(column.astype(np.float64), np.nan)
    return numbers


def _number(gatherer: Gatherer, row: tuple[Any, ...]) -> int:
    _, namespace, metric, dimensions, region, account = row
    try:
        pairs = _dimensions(dimensions)
        return gatherer.number(namespace, metric, pairs, region or "", account or "")
    except (TypeError, ValueError, AttributeError):
        return IGNORED


def _dimensions(value: Any) -> dict[str, str]:
    """Return the said (name, value) pairs; a STRUCT has a field for every name and null where it is not said."""
    pairs = orjson.loads(value) if isinstance(value, str) else value
    return {name: said for name, said in (pairs or {}).items() if said is not None}


def _count_ignored(connection: duckdb.DuckDBPyConnection, picked: str, paths: list[str], gatherer: Gatherer) -> None:
    found = connection.execute(
        f"SELECT namespace, metric_name, count(*) FROM (SELECT {picked} FROM read_parquet(?)) GROUP BY ALL",  # noqa: S608
        [paths],
    ).fetchall()
    for namespace, metric, times in found:
        gatherer.ignore(namespace, metric, times)


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
