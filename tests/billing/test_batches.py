"""A large file is read in batches: it says what it says as a whole, and while it is read the bill answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from adapters.billing import load as loading
from adapters.billing.bill import Bill, open_billing
from adapters.billing.database import connect_locked, sql
from benchmarks.bill_rows import BillSize, write_bill
from bot.model.fleet import Reservation
from bot.model.window import EVER
from tests.billing.conftest import Exports, write_csv
from tests.billing.test_commitment import DAYS, START, plan_day
from tests.billing.test_prepaid import BEGINS, BLOCK, fee, hours


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "BILL_BATCH_ROWS", 7)


def one_file(folder: Path, row_groups_of: int = 2048) -> Path:
    """Write a recording whose bill is a single file of parts that can be read by themselves."""
    write_bill(folder / "parts" / "billing", BillSize(30_000, resources=500, files=2))
    path = folder / "one" / "billing" / "bill.parquet"
    path.parent.mkdir(parents=True)
    duckdb.sql(
        f"COPY (SELECT * EXCLUDE (BILLING_PERIOD) FROM '{folder}/parts/billing/*/*.parquet') TO '{path}' "
        f"(FORMAT parquet, ROW_GROUP_SIZE {row_groups_of})"
    )
    return path


def said(bill: Bill) -> list[Any]:
    by = ("team", "line", "day", "resource", "instance_type")
    now = START + timedelta(days=2)
    return [
        *(bill.tally(EVER, (name,)).rows for name in by),
        list(bill.problems()),
        bill.rates(now),
    ]


def test_a_file_read_in_batches_says_what_it_says_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = one_file(tmp_path)
    whole = said(open_billing(path.parent))
    monkeypatch.setattr(loading, "BILL_BATCH_ROWS", 4_000)
    assert said(open_billing(path.parent)) == whole
    assert said(open_billing(tmp_path / "parts")) == whole


@pytest.mark.usefixtures("small_batches")
def test_broken_rows_of_every_batch_are_counted_and_the_first_are_named(exports: Exports) -> None:
    bill = exports.bill(*(exports.line(cost="a lot" if n % 5 == 4 else "1") for n in range(40)))
    assert bill.tally(EVER, ()).total.net == 32
    assert list(bill.problems()) == [
        "bill.csv: 8 broken rows skipped (row 5: no readable amount; row 10: no readable amount; row 15: no readable amount; "
        "row 20: no readable amount; row 25: no readable amount; and 3 more)."
    ]


@pytest.mark.usefixtures("small_batches")
def test_an_unused_commitment_finds_its_fee_in_another_batch(exports: Exports) -> None:
    rows = [row for n in range(DAYS) for row in plan_day(START + timedelta(days=n))]
    exports.put("bill.csv", sorted(rows, key=lambda row: str(row["CommitmentDiscountStatus"])))
    lines = {
        row.key["line"]: row.money.amortised for row in exports.bill().tally(EVER, ("line",)).rows
    }
    assert lines == {"commitment": DAYS * 240, "EC2": DAYS * 120}


@pytest.mark.usefixtures("small_batches")
def test_a_copy_is_known_whatever_the_batches(
    exports: Exports, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [exports.line(exports.day + timedelta(hours=h), "2") for h in range(30)]
    exports.put("v1/bill.parquet", rows)
    bill = exports.bill()
    assert bill.tally(EVER, ()).total.net == 60
    monkeypatch.setattr(loading, "BILL_BATCH_ROWS", 11)
    exports.put("v2/bill.csv", rows[::-1])
    assert bill.tally(EVER, ()).total.net == 60
    assert "this copy is left out" in bill.problems()[0]


def test_a_file_that_breaks_in_the_middle_counts_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = one_file(tmp_path)
    broken = bytearray(path.read_bytes())
    half = len(broken) // 2
    broken[half : half + 20_000] = bytes(20_000)
    path.write_bytes(broken)
    write_csv(path.with_name("whole.csv"), [Exports.line(cost="3")])
    monkeypatch.setattr(loading, "BILL_BATCH_ROWS", 4_000)
    bill = open_billing(path.parent)
    assert bill.tally(EVER, ()).total.net == 3
    assert [problem.split(" ")[:4] for problem in bill.problems()] == [
        ["bill.parquet", "could", "not", "be"]
    ]


def test_hours_are_packed_in_memory(tmp_path: Path) -> None:
    path = one_file(tmp_path)
    bill = open_billing(path.parent)
    bill.tally(EVER, ())
    query = "SELECT DISTINCT compression FROM pragma_storage_info('detail') WHERE column_name IN ('started', 'net', 'month')"
    assert "Uncompressed" not in {kind for (kind,) in bill._db.execute(query).fetchall()}


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 1e3, 1e7])
def test_a_number_is_the_money_that_its_text_says(tmp_path: Path, scale: float) -> None:
    db = connect_locked(None, (tmp_path, tmp_path / "scratch"))
    db.execute(sql("schema"))
    numbers = f"SELECT hash(i) / 1.8446744073709552e19 * {scale} AS x, round(x, (hash(i, 1) % 16)::INTEGER) AS y FROM range(100000) AS g(i)"
    query = f"SELECT count(z), count(short_money(z)) FILTER (short_money(z) <> money(z::VARCHAR)) FROM (SELECT unnest([x, y, -y]) AS z FROM ({numbers}))"
    assert db.execute(query).fetchall() == [(300_000, 0)]


def test_three_hundred_files_of_three_months_are_compared_within_memory(tmp_path: Path) -> None:
    db = connect_locked(None, (tmp_path, tmp_path / "scratch"))
    db.execute(sql("schema"))
    db.execute(
        "INSERT INTO file SELECT i, 'cur-' || i, '', i, 'CUR 2.0', FALSE, [] FROM range(300) AS g(i)"
    )
    db.execute(
        "INSERT INTO sketch SELECT i, DATE '2026-08-01' + to_months((i % 3)::INTEGER), '1', hash(i, j) FROM range(300) AS g(i), range(512) AS h(j)"
    )
    db.execute("INSERT INTO file VALUES (300, 'copy', '', 300, 'CUR 2.0', FALSE, [])")
    db.execute("INSERT INTO sketch SELECT 300, month, payer, mark FROM sketch WHERE file = 7")
    found = db.execute(sql("shadow", rank="1")).fetchall()
    assert [(path, better) for _, _, _, path, _, better, _ in found] == [("cur-7", "copy")]


class SlowBlocks:
    """Answer which Capacity Blocks there are once somebody lets it."""

    def __init__(self) -> None:
        self.asked, self.may_answer = threading.Event(), threading.Event()
        self.may_answer.set()

    def __call__(self) -> tuple[Reservation, ...]:
        self.asked.set()
        assert self.may_answer.wait(30)
        return (BLOCK,)


@pytest.fixture
def swapping(exports: Exports) -> Iterator[tuple[Bill, SlowBlocks]]:
    """Give a bill whose month is written anew and is being read, as far as the moment before the new rows count."""
    blocks = SlowBlocks()
    rows = [fee(exports), *hours(exports, range(8), BEGINS, BEGINS + timedelta(days=2))]
    exports.put("2026-10/bill.csv", rows)
    exports.put("2026-11/bill.csv", [exports.line(cost="5")])
    bill = exports.bill(blocks=blocks)
    bill.tally(EVER, ())
    blocks.asked.clear()
    blocks.may_answer.clear()
    exports.put(
        "2026-11/bill.csv",
        [exports.line(cost="7.25"), exports.line(datetime(2026, 11, 3, tzinfo=START.tzinfo), "1")],
    )
    reader = threading.Thread(target=bill.tally, args=(EVER, ()))
    reader.start()
    assert blocks.asked.wait(30)
    yield bill, blocks
    blocks.may_answer.set()
    reader.join()


def test_a_rewritten_month_swaps_in_without_stopping_answers(
    swapping: tuple[Bill, SlowBlocks],
) -> None:
    bill, blocks = swapping
    net = Decimal("411964.42")
    for _ in range(3):  # half of the swap is done, and nobody sees it or waits for it
        assert bill.tally(EVER, ()).total.net == net + 5
        assert {row.key["month"]: row.money.net for row in bill.tally(EVER, ("month",)).rows} == {
            "2026-10": net,
            "2026-11": 5,
        }
    blocks.may_answer.set()
    for _ in range(300):
        if bill.tally(EVER, ()).total.net != net + 5:
            break
        threading.Event().wait(0.05)
    assert {row.key["month"]: row.money.net for row in bill.tally(EVER, ("month",)).rows} == {
        "2026-10": net,
        "2026-11": Decimal("8.25"),
    }
