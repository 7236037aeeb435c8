"""Look at Parquet files before any row is read.

The layout of each, its metric, and the dimension sets it repeats.

`dimensions` may be MAP, STRUCT or JSON text; `value` a STRUCT, a MAP, JSON text, or flattened
(`value_sum`, `value.sum` or `sum`); `timestamp` milliseconds or a TIMESTAMP.

A footer says how long each column is and where it lies. A column that is stored byte for byte as
another one says the same, row by row: the files of a stream that is kept by metric repeat the sets
of their nodes, which cost more to decode than all numbers together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from typing import Any

import duckdb
import orjson

from adapters.aws.files import Problems, chunked, why
from bot.model.codec import by_key
from bot.model.limits import PARQUET_ROWS


def dimensions(value: Any) -> Mapping[str, str] | None:
    """Return the (name, value) pairs of a row.

    A STRUCT has a field for every name, null where the row has none.
    """
    try:
        pairs = orjson.loads(value) if isinstance(value, str) else value
        return {name: text for name, text in (pairs or {}).items() if text is not None}
    except (TypeError, ValueError, AttributeError):
        return None


def picked(columns: Mapping[str, str]) -> str:
    """Return the SELECT list that brings any layout to one.

    Raise `KeyError` naming the column that is missing.
    """
    for name in ("namespace", "metric_name", "dimensions", "timestamp"):
        if name not in columns:
            raise KeyError(name)
    seconds = 'CAST("timestamp" AS BIGINT) // 1000'
    if columns["timestamp"].startswith(("TIMESTAMP", "DATE")):
        seconds = 'epoch("timestamp")'
    return ", ".join(
        [
            "namespace",
            "metric_name",
            "dimensions",
            *[name if name in columns else f"'' AS {name}" for name in ("region", "account_id")],
            f"{seconds} AS seconds",
            *[_value(columns, name) for name in ("count", "sum", "max")],
        ]
    )


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


ParquetColumns = tuple[tuple[str, str], ...]
"""Name and type of each column."""
Names = tuple[str | None, ...]
"""Namespace, metric name, region and account."""
NAMES = ("namespace", "metric_name", "region", "account_id")
_SCHEMA = """SELECT file_name, name, type, repetition_type, num_children, converted_type, logical_type
    FROM parquet_schema(?)"""
_CHUNKS = """SELECT file_name, path_in_schema, row_group_num_rows, compression,
    coalesce(nullif(dictionary_page_offset, 0), data_page_offset),
    total_compressed_size, num_values, stats_null_count, stats_min_value, stats_max_value
    FROM parquet_metadata(?)
    WHERE path_in_schema IN ('namespace', 'metric_name', 'region', 'account_id', 'dimensions')
    OR starts_with(path_in_schema, 'dimensions, ')"""
_Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ParquetFile:
    """Hold the facts about a file that are known before its rows are read."""

    path: Path
    name: str
    names: Names | None = None
    """What all its rows are about, None where that is not known to be one thing."""
    rows: int = 0
    """How many rows it has, where `names` is known."""
    sets: bytes = b""
    """Tells its dimension columns as they are stored, where `names` is known."""


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Hold one column of one row group.

    Where it lies, how it is written, and the bounds of its values.
    """

    column: str
    rows: int
    codec: str
    start: int
    size: int
    values: int
    nulls: int | None
    low: str | None
    high: str | None

    def is_constant(self) -> bool:
        """Return whether all values are known to be one.

        A bound that was cut short is no value, and differs from the other.
        """
        return self.nulls == self.values or (
            self.nulls == 0 and self.low is not None and self.low == self.high
        )


def connect_locked(paths: Sequence[Path]) -> duckdb.DuckDBPyConnection:
    """Return a connection that reads the folders of these files, and reaches no other file.

    No network and no extension.
    """
    folders = sorted({str(path.resolve().parent) for path in paths})
    allowed = ", ".join("'" + folder.replace("'", "''") + "'" for folder in folders)
    connection = duckdb.connect()
    for setting, value in (
        ("enable_progress_bar", "false"),
        ("autoinstall_known_extensions", "false"),
        ("autoload_known_extensions", "false"),
        ("python_enable_replacements", "false"),
        ("allowed_directories", f"[{allowed}]"),
        ("enable_external_access", "false"),
        ("lock_configuration", "true"),
    ):
        connection.execute(f"SET {setting} = {value}")
    return connection


def by_layout(
    connection: duckdb.DuckDBPyConnection, files: Sequence[tuple[Path, str]], problems: Problems
) -> Mapping[ParquetColumns, Sequence[ParquetFile]]:
    """Return the files by their columns, in the order given; name those that are not Parquet."""
    paths = [str(path) for path, _ in files]
    schemas = _by_file(_asked(connection, _SCHEMA, paths))
    chunks = _by_file(_asked(connection, _CHUNKS, paths))
    by_schema: dict[tuple[_Row, ...], ParquetColumns] = {}
    layouts: dict[ParquetColumns, list[ParquetFile]] = defaultdict(list)
    for path, name in files:
        schema = tuple(schemas.get(str(path), ()))
        try:
            if (columns := by_schema.get(schema, ())) == ():
                described = connection.execute(
                    "DESCRIBE SELECT * FROM read_parquet(?)", [str(path)]
                ).fetchall()
                columns = tuple((str(row[0]), str(row[1])) for row in described)
        except duckdb.Error as error:
            problems.add(name, f"not Parquet that can be read ({why(error)}); skipped.")
            continue
        if schema:
            by_schema[schema] = columns
        in_file = [_Chunk(*row) for row in chunks.get(str(path), ())]
        rows = sum(chunk.rows for chunk in in_file if chunk.column == NAMES[0])
        if rows > PARQUET_ROWS:
            problems.add(
                name, f"it has {rows:,} rows; at most {PARQUET_ROWS:,} of a file are read; skipped."
            )
            continue

        file = ParquetFile(path, name)
        if names := _one_name(dict(columns), in_file):
            sets = [chunk for chunk in in_file if chunk.column.partition(", ")[0] == "dimensions"]
            file = ParquetFile(path, name, names, rows, _stored(path, schema, sets))
        layouts[columns].append(file)
    return layouts


def _asked(
    connection: duckdb.DuckDBPyConnection, query: str, paths: Sequence[str]
) -> Iterator[_Row]:
    """Yield the rows of every file that can be queried.

    A broken one costs its neighbours only more queries.
    """
    try:
        yield from connection.execute(query, [list(paths)]).fetchall()
    except duckdb.Error:
        if len(paths) > 1:
            yield from _asked(connection, query, paths[: len(paths) // 2])
            yield from _asked(connection, query, paths[len(paths) // 2 :])


def _by_file(rows: Iterator[_Row]) -> Mapping[str, list[_Row]]:
    return by_key((file, tuple(facts)) for file, *facts in rows)


def _one_name(columns: Mapping[str, str], chunks: Sequence[_Chunk]) -> Names | None:
    """Return the names that all rows share where the statistics of every row group agree.

    Else None.
    """
    shared: list[str | None] = []
    for column in NAMES:
        of_column = [chunk for chunk in chunks if chunk.column == column]
        if column not in columns:
            shared.append("")
        elif (
            columns[column] == "VARCHAR"
            and of_column
            and all(x.is_constant() for x in of_column)
            and len({x.low for x in of_column}) == 1
        ):
            shared.append(of_column[0].low)
        else:
            return None
    return tuple(shared)


def _stored(path: Path, schema: tuple[_Row, ...], chunks: Sequence[_Chunk]) -> bytes:
    """Return a digest of the chunks' bytes and of all that decides how they are decoded."""
    digest = blake2b(
        repr((schema, [(x.column, x.rows, x.codec, x.size) for x in chunks])).encode(),
        digest_size=16,
    )
    try:
        with path.open("rb") as file:
            for chunk in chunks:
                file.seek(chunk.start)
                digest.update(file.read(chunk.size))
    except OSError:
        return str(path).encode()
    return digest.digest()


_BYTES_A_QUERY = 4 << 20
"""Few enough that what was read is still in the cache when it is numbered.

Enough that a query costs little beside it.
"""


def grouped_for_queries(files: Sequence[ParquetFile]) -> Iterator[list[ParquetFile]]:
    """Yield files that are read by one query, in order.

    Each of them about one metric, or each about any.
    """
    for _, alike in groupby(files, lambda file: file.names is None):
        yield from chunked(alike, lambda file: file.path.stat().st_size, _BYTES_A_QUERY)


def with_new_sets(group: Sequence[ParquetFile], met: set[bytes]) -> list[ParquetFile]:
    """Return the files whose sets are met for the first time, and note that they are."""
    new = []
    for file in group:
        if file.names is not None and file.sets not in met:
            met.add(file.sets)
            new.append(file)
    return new
