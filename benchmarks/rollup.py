"""Time the rollup of a bill by Spark Connect beside the same query of plain DuckDB.

python -m benchmarks.rollup [ROWS]. A server of the package pysail starts in a process of its own.
Each side reads the same Parquet files and writes the rollup of three months; compare within a run.
"""

from __future__ import annotations

import csv
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import duckdb

from adapters.aws.bill.exports import Columns, RollupCopy, SparkTable
from adapters.billing.bill import open_billing
from adapters.billing.exports import SPARK, TRINO, rollup_query
from benchmarks.bill_rows import BillSize, write_bill
from bot.model.window import Window

NOW = datetime(2026, 10, 31, tzinfo=UTC)
QUARTER = Window(datetime(2026, 8, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC))
BILLION, VCPUS, GB_A_VCPU = 10**9, 64, 4
"""Of the estimate: rows, and what works on them. EMR Serverless gives a vCPU 2 to 8 GB."""
_SERVER = """
from pysail.spark import SparkConnectServer
server = SparkConnectServer("127.0.0.1", 0)
server.start(background=True)
print(server.listening_address[1], flush=True)
input()
"""


class DuckdbTable:
    """Roll the files up in this process, by the same query in Trino's words."""

    ending = ".parquet"

    def __init__(self, folder: Path) -> None:
        self.table, self._db = "export", duckdb.connect()
        self._db.execute(f"CREATE VIEW export AS FROM '{folder}/*/*.parquet'")
        # Where Trino and DuckDB differ in what the query says.
        self._db.execute("CREATE MACRO element_at(m, k) AS m[k]")
        self._db.execute("CREATE MACRO json_format(x) AS x::VARCHAR")

    def columns(self) -> tuple[Columns, list[str]]:
        """Return the columns in Athena's words, and the partition key."""
        described = [(str(x[0]), str(x[1])) for x in self._db.execute("DESCRIBE export").fetchall()]
        kinds = {"VARCHAR": "string", "MAP(VARCHAR, VARCHAR)": "map<string,string>"}
        return [(name, kinds.get(kind, kind.lower())) for name, kind in described], [
            "BILLING_PERIOD"
        ]

    def write(self, query: str, path: Path) -> str:
        """Write the rollup as a Parquet file."""
        self._db.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet)")
        return "day"


def main(size: BillSize) -> None:
    """Write a bill, roll it up on both sides, and print what it took."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        write_bill(home / "billing", size)
        files = list((home / "billing").rglob("*.parquet"))
        query = f"SELECT count(*) FROM '{home}/billing/*/*.parquet'"
        rows = duckdb.execute(query).fetchall()[0][0]
        print(f"{rows:,} rows, {_mib(files):,.0f} MiB Parquet, {len(files)} files", flush=True)

        server = subprocess.Popen(
            [sys.executable, "-c", _SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert server.stdout is not None
        place = f"127.0.0.1:{server.stdout.readline().strip()}"
        spark = SparkTable(place, lambda: f"sc://{place}", str(home / "billing"))

        # What a session needs at its first question is no part of the rollup.
        spark.columns()
        taken = {}
        for title, engine, dialect in (
            ("Sail", spark, SPARK),
            ("DuckDB", DuckdbTable(home / "billing"), TRINO),
        ):
            asked = partial(rollup_query, replace(dialect, hourly_rows=0))
            copy = RollupCopy(engine, home / title, asked, lambda: NOW)
            began = time.process_time()
            taken[title] = _timed(lambda copy=copy: copy.refresh(NOW))  # type: ignore[misc]
            made = list((home / title).rglob("*.parquet"))
            sources = ", ".join(f"'{path}'" for path in made)
            query = f"SELECT count(*) FROM read_parquet([{sources}])"
            count = duckdb.execute(query).fetchall()[0][0]
            print(
                f"{title}: {taken[title]:.1f} s, {rows / taken[title] / 1e6:.2f} M rows a second,"
                f" {time.process_time() - began:.1f} s of this process's processors,"
                f" {count:,} rows and {_mib(made):,.0f} MiB of rollup",
                flush=True,
            )
        server.kill()
        server.wait()
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        own = resource.getrusage(resource.RUSAGE_SELF)
        worked = children.ru_utime + children.ru_stime
        print(f"Sail: {worked:.1f} s of processors, {children.ru_maxrss // 1024:,} MiB at most")
        print(f"this process, DuckDB in it: {own.ru_maxrss // 1024:,} MiB at most")
        print(f"Sail to DuckDB: {taken['Sail'] / taken['DuckDB']:.2f} times the seconds")
        on_paper(_mib(files) * 2**20 / rows, worked / rows)

        for title in ("Sail", "billing"):
            bill = open_billing(home / title)
            seconds = _timed(lambda bill=bill: bill.tally(QUARTER, ()))  # type: ignore[misc]
            print(f"{title}: loaded in {seconds:.1f} s, {bill.tally(QUARTER, ()).total.net} net")


def on_paper(bytes_a_row: float, seconds_a_row: float) -> None:
    """Print what a bill of a billion rows would take by these figures: an estimate."""
    with (Path(__file__).parent / "engine_prices.csv").open() as file:
        usd = {(x["engine"], x["unit"]): float(x["usd"]) for x in csv.DictReader(file)}
    terabytes, vcpu_hours = bytes_a_row * BILLION / 1e12, seconds_a_row * BILLION / 3600
    worker = usd["EMR Serverless", "vCPU-hour"] + GB_A_VCPU * usd["EMR Serverless", "GB-hour"]
    print(
        f"a billion rows on paper, an estimate: {terabytes * 1000:,.0f} GB scanned,"
        f" ${terabytes * usd['Athena', 'TB']:.2f} by Athena; {vcpu_hours:.1f} vCPU-hours,"
        f" ${vcpu_hours * worker:.2f} by EMR Serverless,"
        f" {vcpu_hours * 3600 / VCPUS:.0f} s on {VCPUS} vCPUs"
    )


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _mib(files: list[Path]) -> float:
    return sum(path.stat().st_size for path in files) / 2**20


if __name__ == "__main__":
    main(BillSize.of(int(sys.argv[1]) if sys.argv[1:] else 1_000_000))
