from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from adapters.billing.bill import Bill, BillOptions, open_billing
from bot.model.window import Window

Row = dict[str, Any]
DAY = datetime(2026, 11, 2, tzinfo=UTC)


def line(
    at: datetime = DAY, cost: str = "1.00", kind: str = "Usage", hours: int = 1, **more: Any
) -> Row:
    """Return one CUR 2.0 row; tags and product are dictionaries."""
    return {
        "bill_payer_account_id": "111111111111",
        "bill_invoice_id": "",
        "bill_billing_period_start_date": at.replace(day=1).strftime("%Y-%m-%dT00:00:00Z"),
        "line_item_currency_code": "USD",
        "line_item_usage_account_id": "222222222222",
        "line_item_line_item_type": kind,
        "line_item_product_code": "AmazonEC2",
        "line_item_usage_type": "USW2-BoxUsage:trn1.32xlarge",
        "line_item_operation": "RunInstances",
        "line_item_availability_zone": "us-west-2b",
        "line_item_resource_id": "i-1",
        "line_item_usage_start_date": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "line_item_usage_end_date": (at + timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "line_item_usage_amount": "1",
        "line_item_unblended_cost": cost,
        "line_item_line_item_description": "$21.50 per On Demand Linux trn1.32xlarge Instance Hour",
        "pricing_term": "OnDemand",
        "product": {"instance_type": "trn1.32xlarge", "region": "us-west-2"},
        "savings_plan_savings_plan_effective_cost": "",
        "savings_plan_total_commitment_to_date": "",
        "savings_plan_used_commitment": "",
        "reservation_effective_cost": "",
        "reservation_reservation_a_r_n": "",
        "reservation_unused_amortized_upfront_fee_for_billing_period": "",
        "reservation_unused_recurring_fee": "",
        "resource_tags": {"user_team": "search", "aws_eks_cluster_name": "llama"},
        "split_line_item_parent_resource_id": "",
        "split_line_item_split_cost": "",
        "split_line_item_unused_cost": "",
        "split_line_item_split_usage_ratio": "",
        **more,
    }


def focus(**more: Any) -> Row:
    """Return one FOCUS row of usage."""
    return {
        "BillingAccountId": "1",
        "SubAccountId": "2",
        "BillingCurrency": "USD",
        "BillingPeriodStart": "2026-11-01T00:00:00Z",
        "ChargePeriodStart": "2026-11-02T00:00:00Z",
        "ChargePeriodEnd": "2026-11-02T01:00:00Z",
        "ServiceName": "Amazon Elastic Compute Cloud",
        "RegionId": "us-west-2",
        "ResourceId": "i-1",
        "ChargeClass": "",
        "ChargeDescription": "$21.50 per On Demand Linux trn1.32xlarge Instance Hour",
        "PricingCategory": "Standard",
        "ConsumedQuantity": "1",
        "ConsumedUnit": "Hours",
        "Tags": '{"user_team": "search"}',
        "ChargeCategory": "Usage",
        "BilledCost": "1.00",
        "EffectiveCost": "1.00",
        **more,
    }


def write_csv(path: Path, rows: Sequence[Row]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        gzip.open(path, "wt", newline="")
        if path.suffix == ".gz"
        else path.open("w", newline="") as file
    ):
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(
            {k: json.dumps(v) if isinstance(v, dict) else v for k, v in row.items()} for row in rows
        )
    return path


def write_parquet(path: Path, rows: Sequence[Row]) -> Path:
    """Write CUR 2.0's types: maps, timestamps, doubles."""
    draft = write_csv(path.with_suffix(".draft"), rows)
    kinds = {k: "MAP(VARCHAR, VARCHAR)" for k, v in rows[0].items() if isinstance(v, dict)}
    kinds |= {k: "TIMESTAMP" for k in rows[0] if k.endswith("_date")}
    kinds |= {
        k: "DOUBLE"
        for k in rows[0]
        if k.endswith(("_cost", "_amount", "_commitment", "_to_date", "_ratio"))
    }
    chosen = ", ".join(
        f'CAST(CAST(nullif("{k}", \'\') AS JSON) AS {kinds[k]}) AS "{k}"' if kinds.get(k, "").startswith("MAP")
        else f'CAST(nullif("{k}", \'\') AS {kinds.get(k, "VARCHAR")}) AS "{k}"'
        for k in rows[0]
    )  # fmt: skip
    duckdb.sql(
        f"COPY (SELECT {chosen} FROM read_csv('{draft}', all_varchar=true, header=true, delim=',', quote='\"', escape='\"')) "
        f"TO '{path}' (FORMAT parquet)"
    )
    draft.unlink()
    return path


class Exports:
    """Write exports into a recording, and open its bill."""

    line = staticmethod(line)
    focus = staticmethod(focus)
    write_csv = staticmethod(write_csv)
    write_parquet = staticmethod(write_parquet)
    day = DAY

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.opened: list[Bill] = []
        (folder / "billing").mkdir()

    def put(self, name: str, rows: Sequence[Row]) -> Path:
        write = write_parquet if name.endswith(".parquet") else write_csv
        return write(self.folder / "billing" / name, rows)

    def bill(self, *rows: Row, **options: Any) -> Bill:
        if rows:
            self.put("bill.csv", rows)
        self.opened.append(open_billing(self.folder, BillOptions(**options)))
        return self.opened[-1]


@pytest.fixture
def exports(tmp_path: Path) -> Iterator[Exports]:
    made = Exports(tmp_path)
    yield made
    for bill in made.opened:
        bill.close()


@pytest.fixture
def november() -> Window:
    return Window(datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC))


@pytest.fixture
def keyed() -> Callable[..., dict[tuple[str, ...], str]]:
    """Return a tally as {key values: one amount as text}."""

    def made(tally: Any, amount: str = "net") -> dict[tuple[str, ...], str]:
        return {tuple(row.key.values()): str(getattr(row.money, amount)) for row in tally.rows}

    return made
