"""Time a bill of many resources and files.

Loading, memory and questions, beside DuckDB over the same Parquet files.

python -m benchmarks.billing [ROWS [FILES]], FILES a month. Each side is a process of its own,
compare within a row. On other work of the same cores the times grow, the memory does not.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import duckdb

from adapters.billing.bill import Bill, BillOptions, open_billing
from benchmarks.bill_rows import MONTHS, BillSize, write_bill, write_part
from bot.model.spend import Filter
from bot.model.window import Window

OCTOBER = Window(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 10, 31, tzinfo=UTC))
QUARTER = Window(datetime(2026, 8, 1, tzinfo=UTC), datetime(2026, 10, 30, tzinfo=UTC))
CUT = Window(OCTOBER.start + timedelta(hours=7), OCTOBER.end - timedelta(hours=5))
WEEK = Window(datetime(2026, 10, 20, tzinfo=UTC), datetime(2026, 10, 27, tzinfo=UTC))
DAY = "strftime(line_item_usage_start_date, '%Y-%m-%d')"
QUESTIONS = (
    ("30 d by cluster", OCTOBER, ("cluster",), "resource_tags['aws_eks_cluster_name']"),
    ("30 d by cluster, cut days", CUT, ("cluster",), "resource_tags['aws_eks_cluster_name']"),
    ("90 d by day and service", QUARTER, ("day", "service"), f"{DAY}, line_item_product_code"),
    ("7 d by team", WEEK, ("team",), "resource_tags['user_team']"),
)
"""Title, window, dimensions, and the same over the columns of the files."""
ONE_BY_ONE = (("7 d by resource", WEEK, ("resource",), "line_item_resource_id"),)
"""Thousands of rows are the answer, of which ours is a page."""
ASKERS, EACH, PAGE = 8, 24, 300

Question = tuple[str, Window, tuple[str, ...], str]
Ask = Callable[[Window, tuple[str, ...], str], object]


def main(size: BillSize) -> None:
    """Write the files, and let both sides answer over them."""
    with tempfile.TemporaryDirectory() as name:
        write_bill(Path(name) / "billing", size)
        mib = sum(path.stat().st_size for path in Path(name).rglob("*.parquet")) / 2**20
        files = len(MONTHS) * size.files
        print(
            f"{size.rows:,} rows, {size.resources:,} resources, {files} files, {mib:.0f} MiB Parquet",
            flush=True,
        )
        for side in ("trnbot", "DuckDB over Parquet"):
            subprocess.run([sys.executable, "-m", "benchmarks.billing", side, name], check=True)


def ours(folder: Path) -> None:
    """Load the bill, answer, take a rewritten file in while others ask, and read as a tick does."""
    options = BillOptions(cache=folder / "kept" / "bill")
    for title in ("loaded", "started again"):
        bill, passed, worked = first_answer(folder, options)
        print(
            f"trnbot: {title} in {passed:.1f} s ({worked:.1f} of processors), {peak():,} MiB at most"
        )
    numbers = count()

    def ask(window: Window, by: tuple[str, ...], _: str) -> object:
        # A condition that every charge fulfils: no answer may be one that was kept.
        nowhere = Filter("region", (f"nowhere-{next(numbers)}",), negated=True)
        return bill.tally(window, by, [nowhere], PAGE)

    _answer("trnbot", ask)
    now = datetime(2026, 10, 30, tzinfo=UTC)
    began = time.perf_counter()
    bill.deltas(now, 35)
    bill.rates(now)
    print(
        f"trnbot: a tick's first reading (deltas and rates) {time.perf_counter() - began:.1f} s, {peak():,} MiB at most"
    )
    _rewrite(folder, lambda: bill.tally(OCTOBER, ("cluster",)))
    print(f"trnbot: {peak():,} MiB at most in all")


def first_answer(folder: Path, options: BillOptions) -> tuple[Bill, float, float]:
    """Open a bill and ask it once; return it, the seconds it took, and those of processors."""
    began, worked = time.perf_counter(), time.process_time()
    bill = open_billing(folder, options)
    bill.tally(OCTOBER, ())
    return bill, time.perf_counter() - began, time.process_time() - worked


def theirs(folder: Path) -> None:
    """Answer from the files themselves."""
    db = duckdb.connect()

    def ask(window: Window, _: tuple[str, ...], keys: str) -> object:
        low, high = (f"TIMESTAMP '{at:%Y-%m-%d %H:%M}'" for at in (window.start, window.end))
        where = f"line_item_usage_start_date >= {low} AND line_item_usage_start_date < {high}"
        amount = "sum(line_item_unblended_cost::VARCHAR::DECIMAL(38, 15))"
        query = f"SELECT {keys}, {amount} FROM '{folder}/billing/*/*.parquet' WHERE {where} GROUP BY ALL"
        with db.cursor() as cursor:
            return cursor.execute(query).fetchall()

    _answer("DuckDB over Parquet", ask)
    print(f"DuckDB over Parquet: {peak():,} MiB at most")


def _answer(side: str, ask: Ask) -> None:
    """Print what each question takes when one asks, and all of them when eight do."""

    def asked(question: Question) -> float:
        _, window, by, keys = question
        return _timed(ask, window, by, keys)

    for question in (*QUESTIONS, *ONE_BY_ONE):
        asked(question)
        taken = [asked(question) for _ in range(7)]
        print(f"{side}: {question[0]:26} {statistics.median(taken):7.0f} ms")
    for title, questions in (
        ("of the first four", QUESTIONS),
        ("of all five", (*QUESTIONS, *ONE_BY_ONE)),
    ):
        with ThreadPoolExecutor(ASKERS) as askers:
            line = [questions[n % len(questions)] for n in range(ASKERS * EACH)]
            taken = sorted(askers.map(asked, line))
        half, p99 = statistics.median(taken), taken[int(len(taken) * 0.99)]
        print(f"{side}: {ASKERS} askers, {title}   p50 {half:.0f} ms, p99 {p99:.0f} ms", flush=True)


def _rewrite(folder: Path, ask: Callable[[], object]) -> None:
    """Write a month's files anew, and print what others wait while one takes them in."""
    db = duckdb.connect()
    rows, files = db.execute(
        f"SELECT count(*), count(DISTINCT filename) FROM '{folder}/billing/*/*.parquet'"
    ).fetchall()[0]
    size = BillSize.of(rows, files // len(MONTHS))
    for nth in range(size.files):
        write_part(db, folder / "billing", size, month=MONTHS[-1], nth=nth)
    with ThreadPoolExecutor(2) as askers:
        began = time.perf_counter()
        loading = askers.submit(ask)
        time.sleep(0.2)
        waits = []
        while not loading.done():
            waits.append(_timed(lambda *_: ask(), OCTOBER, (), ""))
    print(
        f"trnbot: a rewritten month in {time.perf_counter() - began:.1f} s; meanwhile an answer took at most {max(waits):.0f} ms"
    )


def _timed(ask: Ask, window: Window, by: tuple[str, ...], keys: str) -> float:
    began = time.perf_counter()
    ask(window, by, keys)
    return (time.perf_counter() - began) * 1000


def peak() -> int:
    """Return the most memory that this process has held, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    if sys.argv[1:] and not sys.argv[1].isdigit():
        (ours if sys.argv[1] == "trnbot" else theirs)(Path(sys.argv[2]))
    else:
        main(BillSize.of(*map(int, sys.argv[1:] or ["1000000"])))
