"""Read metric-stream Parquet by DuckDB, as Firehose or anybody else wrote it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import duckdb

from adapters.aws.beside import BESIDE
from adapters.aws.parquet_files import Names, ParquetFile, by_layout
from adapters.aws.parquet_layout import picked
from adapters.aws.parquet_rows import Rows, Runs, Sets, rows_alone, rows_mixed
from adapters.aws.points import IGNORED, Gatherer, Ints
from adapters.aws.problems import Problems, why

_BYTES_A_QUERY = 4 << 20
"""Few enough that what was read is still in the cache when it is numbered, and enough that a query costs little beside it."""


def read_parquet(files: Sequence[tuple[Path, str]], gatherer: Gatherer, problems: Problems) -> None:
    """Gather the points of all files, some files of one layout in one query."""
    if not files:
        return
    with closing(duckdb.connect()) as connection:
        connection.execute("SET enable_progress_bar = false")
        for columns, alike in by_layout(connection, files, problems).items():
            try:
                source = f"(SELECT {picked(dict(columns))} FROM read_parquet(?))"  # noqa: S608  column names, quoted
            except KeyError as error:
                for file in alike:
                    problems.add(file.name, f"no column {error}; skipped.")
                continue
            _Reader(connection, source, gatherer, problems).read(alike)


def _together(files: Sequence[ParquetFile]) -> Iterator[list[ParquetFile]]:
    """Yield files that are read by one query, in order: each of them about one metric, or each about any."""
    some: list[ParquetFile] = []
    size = 0
    for file in files:
        if some and (size >= _BYTES_A_QUERY or (some[0].names is None) != (file.names is None)):
            yield some
            some, size = [], 0
        some.append(file)
        size += file.path.stat().st_size
    if some:
        yield some


@dataclass
class _Reader:
    """Read files of one layout; a dimension set is decoded once, after that its hash is known.

    Decoding the sets costs more than all numbers together, and the same nodes come again with every metric.
    """

    connection: duckdb.DuckDBPyConnection
    source: str
    """Brings some files to one layout, for a query."""
    gatherer: Gatherer
    problems: Problems
    sets: Sets = field(default_factory=dict)
    stored: dict[bytes, Runs[int]] = field(default_factory=dict)
    """The sets of a file's rows, by how it stores them."""

    def read(self, files: Sequence[ParquetFile]) -> None:
        """Gather the points of the files in order, some while others are read."""
        met: set[bytes] = set()
        groups = list(_together([file for file in files if self._may_mean(file)]))
        with ThreadPoolExecutor(BESIDE, thread_name_prefix="parquet") as pool:
            coming = deque((group, pool.submit(self._rows, group, _tellers(group, met))) for group in groups)
            while coming:
                group, rows = coming.popleft()
                self._gather(group, rows.result)

    def _may_mean(self, file: ParquetFile) -> bool:
        """Tell whether a file may mean something here, and count the points of one that does not."""
        if file.names is None or file.names[:2] in self.gatherer.catalogue.metrics:
            return True
        self.gatherer.ignore(str(file.names[0]), str(file.names[1]), file.rows)
        return False

    def _rows(self, group: Sequence[ParquetFile], tellers: Sequence[ParquetFile]) -> Rows:
        with self.connection.cursor() as db:
            if group[0].names is None:
                return rows_mixed(db, self.source, group, self.gatherer.catalogue.metrics, self.sets)
            return rows_alone(db, self.source, group, tellers, self.sets)

    def _gather(self, group: Sequence[ParquetFile], rows: Callable[[], Rows]) -> None:
        """Gather the points of some files; where one cannot be read, only that one is left out."""
        try:
            self._add(group, rows())
        except duckdb.Error as error:
            if len(group) == 1:
                self.problems.add(group[0].name, f"cannot be read ({why(error)}); skipped.")
                return
            for file in group:
                self._gather([file], partial(self._rows, [file], []))

    def _add(self, group: Sequence[ParquetFile], rows: Rows) -> None:
        self.stored |= rows.stored
        parts = [(self._mixed(rows.mixed, rows), slice(None))] if rows.mixed else self._alone(group)
        for series, cut in parts:
            self.gatherer.add(rows.values.points(series, cut))
        if broken := rows.values.broken():
            said = f"{broken} rows here or in files of the same layout have no time, count or sum; skipped."
            self.problems.add(group[0].name, said)
        times: Counter[tuple[str, str]] = Counter()
        for _, namespace, metric, _, _, count in rows.named:
            times[namespace, metric] += count
        for (namespace, metric), count in times.items():
            self.gatherer.ignore(namespace, metric, count)

    def _mixed(self, runs: Runs[tuple[int, int]], rows: Rows) -> Ints:
        """Return the number of each row's series, of files about any metric."""
        names = {row[0]: row[1:5] for row in rows.named}
        return runs.spread([self._number(names[name], self.sets[one]) for one, name in runs.distinct])

    def _alone(self, group: Sequence[ParquetFile]) -> list[tuple[Ints, slice]]:
        """Return the numbers of each file's rows, and where those lie, of files about one metric each."""
        found, first = [], 0
        for file in group:
            runs, names = self._runs_of(file), file.names or ()
            found.append(
                (runs.spread([self._number(names, self.sets[one]) for one in runs.distinct]), slice(first, first + file.rows))
            )
            first += file.rows
        return found

    def _runs_of(self, file: ParquetFile) -> Runs[int]:
        """Return the sets of a file's rows, read from it where the file that was to tell them could not be read."""
        if file.sets not in self.stored:
            self.stored |= self._rows([file], [file]).stored
        return self.stored[file.sets]

    def _number(self, names: Names, pairs: Mapping[str, str] | None) -> int:
        namespace, metric, region, account = names
        if pairs is None:
            return IGNORED
        try:
            return self.gatherer.number(str(namespace), str(metric), pairs, region or "", account or "")
        except TypeError:
            return IGNORED


def _tellers(group: Sequence[ParquetFile], met: set[bytes]) -> list[ParquetFile]:
    """Return the files whose sets are met for the first time, and note that they are."""
    found = []
    for file in group:
        if file.names is not None and file.sets not in met:
            met.add(file.sets)
            found.append(file)
    return found
