"""Time the questions to a bill: the rollup against DuckDB over the Parquet file, and against a loop over the CSV.

python -m benchmarks.billing [ROWS]; prints medians and ratios, compare within a row.
"""

from __future__ import annotations

import csv
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path

import duckdb

from adapters.billing.open import open_billing
from bot.model.window import Window

START = datetime(2026, 8, 1, tzinfo=UTC)
MONTH = Window(START + timedelta(days=60), START + timedelta(days=90))
QUARTER = Window(START, START + timedelta(days=90))
SMALL = 200_000


_CUR = """COPY (
    SELECT '1' AS bill_payer_account_id, '' AS bill_invoice_id, 'USD' AS line_item_currency_code,
        'account' || thing % 9 AS line_item_usage_account_id, 'Usage' AS line_item_line_item_type,
        'Service' || thing % 12 AS line_item_product_code, 'USW2-BoxUsage:trn1.32xlarge' AS line_item_usage_type,
        'RunInstances' AS line_item_operation, 'i-' || thing AS line_item_resource_id,
        hour AS line_item_usage_start_date, hour + INTERVAL 1 HOUR AS line_item_usage_end_date,
        1.0 AS line_item_usage_amount, (i % 1000) / 100 AS line_item_unblended_cost, {tags} AS resource_tags
    FROM (
        SELECT i, i % 2000 AS thing, TIMESTAMP '2026-08-01' + to_hours(CAST(i * 2160 // {rows} AS INTEGER)) AS hour
        FROM range({rows}) AS r(i)
    )
) TO '{path}' (FORMAT {form})"""
_TAGS = "MAP {'user_team': 'team' || thing % 7, 'aws_eks_cluster_name': 'cluster' || thing % 5}"


def write(path: Path, rows: int, form: str) -> None:
    """Write synthetic CUR 2.0 rows: 90 days of hours, 2,000 resources, 5 clusters, 12 services."""
    duckdb.sql(_CUR.format(rows=rows, path=path, form=form, tags=_TAGS if form == "parquet" else f"to_json({_TAGS})"))


def median_ms(ask: Callable[[], object], times: int = 7) -> float:
    """Return the median of several runs, after one to warm up."""
    ask()
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        ask()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1000


def straight(path: Path, window: Window) -> dict[str, Decimal]:
    """Sum by cluster with nothing but the csv module."""
    sums: dict[str, Decimal] = defaultdict(Decimal)
    low, high = (f"{at:%Y-%m-%d %H:%M:%S}" for at in (window.start, window.end))
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if low <= row["line_item_usage_start_date"] < high:
                sums[row["resource_tags"]] += Decimal(row["line_item_unblended_cost"])
    return sums


def parquet(path: Path, window: Window, keys: str) -> Callable[[], object]:
    """Return the same question put to the file itself."""
    low, high = (f"TIMESTAMP '{at:%Y-%m-%d}'" for at in (window.start, window.end))
    where = f"line_item_usage_start_date >= {low} AND line_item_usage_start_date < {high}"
    query = f"SELECT {keys}, sum(line_item_unblended_cost::DECIMAL(38, 15)) FROM '{path}' WHERE {where} GROUP BY ALL"
    db = duckdb.connect()
    return lambda: db.execute(query).fetchall()


def main(rows: int) -> None:
    """Print one line for each question."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "billing").mkdir()
        file = folder / "billing" / "bill.parquet"
        write(file, rows, "parquet")
        bill = open_billing(folder)
        began = time.perf_counter()
        bill.tally(MONTH, ())
        print(
            f"{rows:,} rows, {file.stat().st_size / 2**20:.0f} MiB Parquet; loaded in {time.perf_counter() - began:.1f} s (once)"
        )
        service = "strftime(line_item_usage_start_date, '%Y-%m-%d'), line_item_product_code"
        cluster = "resource_tags['aws_eks_cluster_name']"
        edge = Window(MONTH.start + timedelta(hours=7), MONTH.end - timedelta(hours=5))
        for title, window, by, keys in (
            ("30 d by cluster, whole days", MONTH, ("cluster",), cluster),
            ("30 d by cluster, cut days", edge, ("cluster",), cluster),
            ("90 d by day and service", QUARTER, ("day", "service"), service),
        ):
            ours = median_ms(partial(bill.tally, window, by))
            theirs = median_ms(parquet(file, window, keys))
            print(f"{title:30} rollup {ours:7.1f} ms   over Parquet {theirs:7.1f} ms   {theirs / ours:5.1f}x")
        now = START + timedelta(days=70)
        bill.deltas(now, 35)
        ticks = [now + timedelta(minutes=5 * n) for n in range(288)]
        began = time.perf_counter()
        for tick in ticks:
            bill.deltas(tick, 35)
            bill.rates(tick)
        print(f"a replay's tick (deltas and rates) {(time.perf_counter() - began) / len(ticks) * 1000:.2f} ms, mean of a day")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "bill.csv"
        write(file, SMALL, "csv")
        bill = open_billing(folder)
        ours = median_ms(lambda: bill.tally(MONTH, ("cluster",)))
        theirs = median_ms(lambda: straight(file, MONTH), times=1)
        print(f"{'by hand from 200,000 CSV rows':30} rollup {ours:7.1f} ms   a loop {theirs:13.1f} ms   {theirs / ours:5.0f}x")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
