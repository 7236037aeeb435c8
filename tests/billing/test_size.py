"""A large bill: rolled up while it is read, the same whichever table answers, within its memory."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from adapters.billing.bill import BillOptions, open_billing
from adapters.billing.database import connect_locked
from benchmarks.bill_rows import BillSize, write_bill, write_part
from bot.model.limits import BILL_MEMORY_GIB
from bot.model.spend import Filter
from bot.model.window import Window


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a recording of 24,000 rows of 800 resources in six files."""
    folder = tmp_path_factory.mktemp("many")
    write_bill(folder / "billing", BillSize(24_000, resources=800, files=2))
    return folder


@pytest.mark.parametrize("cut", [timedelta(0), timedelta(hours=5)])
def test_sums_are_the_same_with_and_without_resources_and_tags(
    many: Path, november: Window, cut: timedelta
) -> None:
    bill = open_billing(many)
    window = Window(november.start - timedelta(days=80) + cut, november.end - cut)
    for name in ("team", "cluster", "service", "day"):
        broad = {row.key[name]: row.money for row in bill.tally(window, (name,)).rows}
        sums: dict[str, Decimal] = {}
        for row in bill.tally(window, (name, "resource")).rows:
            sums[row.key[name]] = sums.get(row.key[name], Decimal(0)) + row.money.amortised
        assert {key: money.amortised for key, money in broad.items()} == sums
    tagged = bill.tally(window, (), (Filter("tag:team", ("team3",)),))
    assert tagged.total == bill.tally(window, (), (Filter("team", ("team3",)),)).total


def test_totals_are_those_of_the_files_to_the_last_digit(many: Path, november: Window) -> None:
    files = f"'{many}/billing/*/*.parquet'"
    amount = "line_item_unblended_cost::VARCHAR::DECIMAL(38, 15)"
    covered = "line_item_line_item_type = 'SavingsPlanCoveredUsage'"  # no money: its fee is
    ((net, rows),) = duckdb.sql(
        f"SELECT sum({amount}) FILTER (NOT {covered}), count(*) FROM {files}"
    ).fetchall()
    tally = open_billing(many).tally(Window(november.start - timedelta(days=100), november.end), ())
    assert (tally.total.net, rows) == (net.normalize(), 24_000)


def test_a_rewritten_file_of_a_month_takes_the_place_of_its_rows_alone(
    tmp_path: Path, november: Window
) -> None:
    size = BillSize(6_000, resources=100, files=4)
    write_bill(tmp_path / "billing", size)
    bill = open_billing(tmp_path)
    window = Window(november.start - timedelta(days=100), november.end)
    before = bill.tally(window, ("month",))
    write_part(
        duckdb.connect(), tmp_path / "billing", replace(size, rows=12_000), month="2026-10", nth=3
    )
    after = bill.tally(window, ("month",))
    months = [{row.key["month"]: row.money.net for row in tally.rows} for tally in (before, after)]
    assert months[0]["2026-08"] == months[1]["2026-08"]
    assert months[0]["2026-10"] < months[1]["2026-10"]


def test_the_tables_take_two_gigabytes_at_most_and_the_rest_goes_to_disk_beside_the_scratch(
    tmp_path: Path,
) -> None:
    db = connect_locked(None, (tmp_path, tmp_path / "scratch"))
    limit, spill = db.execute(
        "SELECT current_setting('memory_limit'), current_setting('temp_directory')"
    ).fetchall()[0]
    amount, unit = limit.split()
    assert unit == "MiB" or float(amount) <= BILL_MEMORY_GIB
    assert spill == f"{tmp_path}/scratch-spill"


def test_a_bill_unpacks_in_the_folder_that_it_is_given_or_in_the_systems(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder, used in ((tmp_path / "a" / "b", True), (tmp_path / "file" / "c", False)):
        bill = open_billing(tmp_path, BillOptions(scratch=folder))
        assert (bill._scratch.parent == folder) is used
    assert (tmp_path / "a" / "b").stat().st_mode & 0o077 == 0
