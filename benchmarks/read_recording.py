"""Measure how fast a recording's metrics are read.

`python -m benchmarks.read_recording [NODES] [DAYS]`.

Prints rows a second for a plain `json.loads` loop, for lines and for Parquet, DuckDB's own JSON
reader for comparison, and what opening a recording and reading one tick cost.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb

from adapters.aws.config import ReadingConfig
from adapters.aws.files import Problems
from adapters.aws.metrics.lines import read_jsonl
from adapters.aws.metrics.parquet import read_parquet
from adapters.aws.metrics.points import Gatherer, standard
from adapters.aws.recording.recording import open_recording

NODE = ("ClusterName", "InstanceId", "NodeName")
PERIOD = 300
N_METRICS = 16


def write_parquet(path: Path, nodes: int, days: float) -> int:
    """Write 16 metrics of each node every five minutes and return the number of rows."""
    metrics = sorted(
        name for namespace, name in standard().metrics if standard().targets(namespace, name, NODE)
    )[:N_METRICS]
    steps = int(days * 86_400 / PERIOD)
    duckdb.execute(
        f"""COPY (SELECT '111122223333' AS account_id, 'us-west-2' AS region, 'ContainerInsights' AS namespace, m AS metric_name,
        MAP {{'ClusterName': 'c', 'InstanceId': printf('i-%017d', n), 'NodeName': 'ip-' || n}} AS dimensions,
        (1760000000 + t * {PERIOD}) * 1000::BIGINT AS "timestamp",
        {{'count': 160.0::DOUBLE, 'sum': random() * 1000, 'max': 1.0::DOUBLE, 'min': 0.0::DOUBLE}} AS value, 'Percent' AS unit
        FROM range({steps}) a(t), range({nodes}) b(n), unnest(?) c(m)) TO '{path}' (FORMAT parquet)""",
        [metrics],
    )
    return steps * nodes * N_METRICS


def write_lines(parquet: Path, path: Path, most: int) -> int:
    """Write the first rows as gzipped lines and return how many."""
    rows = duckdb.execute(f"SELECT * FROM '{parquet}' LIMIT {most}")
    names = [column[0] for column in rows.description]
    with gzip.open(path, "wt", compresslevel=1) as file:
        written = 0
        while some := rows.fetchmany(10_000):
            file.writelines(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in some)
            written += len(some)
    return written


def timed(what: str, rows: int, work: Callable[[], Any], baseline: float = 0.0) -> float:
    """Print and return rows a second, with the ratio to `baseline`."""
    start = time.perf_counter()
    work()
    rate = rows / (time.perf_counter() - start)
    ratio = f"{rate / baseline:6.2f}x" if baseline else "  1.00x"
    print(f"{what:42} {rows:>12,} rows {rate:>12,.0f} rows/s {ratio}")
    return rate


def plain_loop(path: Path) -> int:
    """Read lines as anybody would at first: parse each and append to a dictionary of lists."""
    series: dict[tuple[Any, ...], list[tuple[int, float, float]]] = {}
    with gzip.open(path, "rb") as file:
        for line in file:
            record = json.loads(line)
            key = (
                record["namespace"],
                record["metric_name"],
                tuple(sorted(record["dimensions"].items())),
            )
            value = record["value"]
            series.setdefault(key, []).append((record["timestamp"], value["count"], value["sum"]))
    return len(series)


def duckdb_lines(path: Path) -> None:
    """Read the same lines by DuckDB's JSON reader, without naming the broken ones."""
    columns = (
        "{namespace: 'VARCHAR', metric_name: 'VARCHAR', dimensions: 'MAP(VARCHAR, VARCHAR)', timestamp: 'BIGINT',"
        " value: 'STRUCT(count DOUBLE, sum DOUBLE, max DOUBLE)'}"
    )
    duckdb.execute(
        f"SELECT hash(namespace, metric_name, dimensions), timestamp, value.count, value.sum, value.max"
        f" FROM read_json('{path}', format='newline_delimited', columns={columns})"
    ).fetchnumpy()


def main(nodes: int = 50, days: float = 14.0, most_lines: int = 300_000) -> None:
    """Write, read and print."""
    duckdb.execute("SET enable_progress_bar = false")
    with tempfile.TemporaryDirectory() as folder:
        recording, lines = Path(folder) / "recording", Path(folder) / "a.jsonl.gz"
        (recording / "metrics").mkdir(parents=True)
        parquet = recording / "metrics" / "a.parquet"
        rows = write_parquet(parquet, nodes, days)
        some = write_lines(parquet, lines, min(rows, most_lines))
        base = timed("json.loads loop, jsonl.gz", some, lambda: plain_loop(lines))
        timed("jsonl.gz", some, lambda: read_jsonl(lines, "a", Gatherer(), Problems()), base)
        timed("DuckDB read_json, jsonl.gz", some, lambda: duckdb_lines(lines), base)
        timed("parquet", rows, lambda: read_parquet([(parquet, "a")], Gatherer(), Problems()), base)
        opened = []
        step = timedelta(seconds=PERIOD)
        timed(
            "open the recording",
            rows,
            lambda: opened.append(open_recording(recording, ReadingConfig(step, {}))),
            base,
        )
        extent, ticks = opened[0].extent(), 2_000
        start = time.perf_counter()
        for i in range(ticks):
            opened[0].read(extent.end - i * step).frames["node"].of("neuroncore_utilization_ratio")
        print(
            f"one tick: {(time.perf_counter() - start) / ticks * 1e6:,.0f} us ({nodes} nodes, {days:g} days)"
        )


if __name__ == "__main__":
    main(*(kind(word) for kind, word in zip((int, float), sys.argv[1:], strict=False)))
