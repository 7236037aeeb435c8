"""The bill's amounts once more, from the raw rows of a recording, by arithmetic that shares no code with the product."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from bot.__main__ import main
from tests.e2e.product import recording

WINDOW = "2026-11-15..2026-11-15"
"""The day that the recording has whole, and billed."""
CENT = Decimal("0.01")
NOT_GROSS = {"Credit", "Refund", "Tax"}
Row = Mapping[str, Any]


@pytest.fixture(scope="module")
def folder() -> Path:
    return Path(recording("tiny"))


@pytest.fixture(scope="module")
def rows(folder: Path) -> list[Row]:
    """Return the raw rows of the window, as the export has them."""
    files = sorted(map(str, (folder / "billing").rglob("*.parquet")))
    assert files
    first, last = WINDOW.split("..")
    table = duckdb.connect().execute(
        "SELECT * FROM read_parquet(?, union_by_name => true) WHERE"
        " line_item_usage_start_date >= ?::TIMESTAMP"
        " AND line_item_usage_start_date < ?::TIMESTAMP + INTERVAL 1 DAY",
        [files, first, last],
    )
    names = [column[0] for column in table.description]
    return [dict(zip(names, row, strict=True)) for row in table.fetchall()]


def amount(value: Any) -> Decimal:
    return Decimal(str(value or 0))


def net(row: Row) -> Decimal:
    return amount(row["line_item_unblended_cost"])


def amortised(row: Row) -> Decimal:
    """AWS's formula (CUR dictionary), without credits, refunds and tax."""
    match row["line_item_line_item_type"]:
        case "SavingsPlanCoveredUsage":
            return amount(row["savings_plan_savings_plan_effective_cost"])
        case "SavingsPlanRecurringFee":
            to_date = amount(row["savings_plan_total_commitment_to_date"])
            return to_date - amount(row["savings_plan_used_commitment"])
        case "SavingsPlanNegation" | "SavingsPlanUpfrontFee":
            return Decimal(0)
        case "DiscountedUsage":
            return amount(row["reservation_effective_cost"])
        case "RIFee":
            unused = amount(row["reservation_unused_amortized_upfront_fee_for_billing_period"])
            return unused + amount(row["reservation_unused_recurring_fee"])
        case "Credit" | "Refund" | "Tax":
            return Decimal(0)
    return net(row)


def is_own_cost(row: Row) -> bool:
    """Split rows carry no unblended cost of their own: their parent has the money."""
    return not (row.get("split_line_item_parent_resource_id") or "")


def sums(
    rows: list[Row], key: Callable[[Row], str], value: Callable[[Row], Decimal]
) -> dict[str, Decimal]:
    totals: dict[str, Decimal] = defaultdict(Decimal)
    for row in rows:
        if is_own_cost(row):
            totals[key(row)] += value(row)
    return dict(totals)


def answer(folder: Path, capsys: pytest.CaptureFixture[str], line: str) -> dict[str, Any]:
    assert main([*line.split(), "--json", "--source", f"recording:{folder}"]) == 0
    data: dict[str, Any] = json.loads(capsys.readouterr().out)["data"]
    return data


def assert_same(data: dict[str, Any], by: str, field: str, expected: dict[str, Decimal]) -> None:
    stated = {row["key"][by]: Decimal(row[field]) for row in data["rows"]}
    differing = {
        key: (stated.get(key), expected.get(key))
        for key in {*stated, *expected}
        if abs(stated.get(key, Decimal(0)) - expected.get(key, Decimal(0))) >= CENT
    }
    assert differing == {}
    assert abs(Decimal(data["total"][field]) - sum(expected.values(), Decimal(0))) < CENT


@pytest.mark.parametrize(("field", "value"), [("net_usd", net), ("amortised_usd", amortised)])
def test_cost_by_service_is_the_sum_of_its_rows(
    folder: Path,
    rows: list[Row],
    capsys: pytest.CaptureFixture[str],
    field: str,
    value: Callable[[Row], Decimal],
) -> None:
    data = answer(folder, capsys, f"cost {WINDOW} by service")
    expected = sums(rows, lambda row: str(row["line_item_product_code"] or ""), value)
    assert len(expected) > 1
    assert_same(data, "service", field, expected)


def test_cost_by_day_is_the_sum_of_its_rows(
    folder: Path, rows: list[Row], capsys: pytest.CaptureFixture[str]
) -> None:
    data = answer(folder, capsys, f"cost {WINDOW} by day")
    assert_same(
        data,
        "day",
        "net_usd",
        sums(rows, lambda row: f"{row['line_item_usage_start_date']:%Y-%m-%d}", net),
    )


def test_a_filter_leaves_the_rows_of_its_value(
    folder: Path, rows: list[Row], capsys: pytest.CaptureFixture[str]
) -> None:
    data = answer(folder, capsys, f"cost {WINDOW} by service service=AmazonEC2")
    chosen = [row for row in rows if row["line_item_product_code"] == "AmazonEC2"]
    assert chosen
    assert_same(data, "service", "amortised_usd", sums(chosen, lambda _: "AmazonEC2", amortised))


def test_gross_discounts_credits_and_tax_make_net(
    folder: Path, rows: list[Row], capsys: pytest.CaptureFixture[str]
) -> None:
    total = {
        name: Decimal(value)
        for name, value in answer(folder, capsys, f"cost {WINDOW} by service")["total"].items()
    }
    parts = ("gross_usd", "discounts_usd", "credits_usd", "tax_usd")
    assert sum((total[name] for name in parts), Decimal(0)) == total["net_usd"]
    credits = [row for row in rows if row["line_item_line_item_type"] in {"Credit", "Refund"}]
    assert abs(total["credits_usd"] - sum(map(net, credits), Decimal(0))) < CENT
