"""Write the bill as AWS exports it.

Charges cut into rows by DuckDB, exact in DECIMAL, in one of three formats.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from importlib import resources
from pathlib import Path
from typing import Literal

import duckdb

from adapters.simulator.charges import Charge, charges
from adapters.simulator.fleet import ACCOUNT, Fleet, rows_of
from adapters.simulator.scenario import Scenario
from adapters.simulator.telemetry import quoted

BillForm = Literal["cur2", "focus1.2", "legacy"]
BillFile = Literal["parquet", "csv.gz"]


def _by_product(column: str, otherwise: str) -> str:
    """Return SQL for a column of `services.csv`, by the product of a line."""
    cases = " ".join(f"WHEN '{row['product']}' THEN '{row[column]}'" for row in rows_of("services"))
    return f"CASE product {cases} ELSE {otherwise} END"


_SERVICE_NAME, _SERVICE_KIND = _by_product("name", "product"), _by_product("category", "'Other'")
_COVERED, _FEE = "kind = 'SavingsPlanCoveredUsage'", "kind = 'SavingsPlanRecurringFee'"
_ON_DEMAND = f"CASE WHEN kind = 'Usage' OR {_COVERED} THEN usd END"
_CUR_TAGS = (
    "map_from_entries(list_transform(map_entries(tags), lambda e: {'k':"
    " CASE WHEN starts_with(e.key, 'aws:') THEN regexp_replace(e.key, '[^a-zA-Z0-9]', '_', 'g')"
    " ELSE 'user_' || e.key END, 'v': e.value}))"
)
_PRODUCT = (
    "MAP {'product_name': " + _SERVICE_NAME + ", 'region': region, 'instance_type': instance_type}"
)

_CUR2: Mapping[str, str] = {
    "bill_bill_type": "'Anniversary'",
    "bill_billing_entity": "'AWS'",
    "bill_billing_period_start_date": "date_trunc('month', since)",
    "bill_billing_period_end_date": "date_trunc('month', since) + INTERVAL 1 MONTH",
    "bill_invoice_id": "invoice",
    "bill_payer_account_id": "account",
    "discount": "MAP {}::MAP(VARCHAR, DOUBLE)",
    "identity_line_item_id": "md5(id || kind || since)",
    "identity_time_interval": (
        "strftime(since, '%Y-%m-%dT%H:%M:%SZ') || '/' || strftime(until, '%Y-%m-%dT%H:%M:%SZ')"
    ),
    "line_item_availability_zone": "zone",
    "line_item_currency_code": "'USD'",
    "line_item_legal_entity": "'Amazon Web Services, Inc.'",
    "line_item_line_item_description": "description",
    "line_item_line_item_type": "kind",
    "line_item_operation": "operation",
    "line_item_product_code": "product",
    "line_item_resource_id": "resource",
    "line_item_tax_type": "CASE WHEN kind = 'Tax' THEN 'USSalesTax' ELSE '' END",
    "line_item_unblended_cost": "CASE WHEN parent = '' THEN usd END",
    "line_item_unblended_rate": "rate::VARCHAR",
    "line_item_usage_account_id": "account",
    "line_item_usage_account_name": "'ml-platform'",
    "line_item_usage_amount": "amount",
    "line_item_usage_start_date": "since",
    "line_item_usage_end_date": "until",
    "line_item_usage_type": "usage_type",
    "pricing_currency": "'USD'",
    "pricing_public_on_demand_cost": _ON_DEMAND,
    "pricing_public_on_demand_rate": "rate::VARCHAR",
    "pricing_purchase_option": f"CASE WHEN {_FEE} THEN 'No Upfront' ELSE '' END",
    "pricing_term": (
        "CASE WHEN usage_type LIKE '%SpotUsage%' THEN 'Spot'"
        " WHEN kind = 'Usage' THEN 'OnDemand' ELSE '' END"
    ),
    "pricing_unit": "unit",
    "product": _PRODUCT,
    "product_instance_type": "instance_type",
    "product_instance_family": (
        "CASE WHEN instance_type = '' THEN '' ELSE 'Machine Learning ASIC Instances' END"
    ),
    "product_product_family": "CASE WHEN instance_type = '' THEN '' ELSE 'Compute Instance' END",
    "product_region_code": "region",
    "product_servicecode": "product",
    "product_usagetype": "usage_type",
    "reservation_effective_cost": "0::DECIMAL(24, 10)",
    "reservation_unused_amortized_upfront_fee_for_billing_period": "0::DECIMAL(24, 10)",
    "reservation_unused_recurring_fee": "0::DECIMAL(24, 10)",
    "reservation_reservation_a_r_n": "''",
    "resource_tags": _CUR_TAGS,
    "savings_plan_savings_plan_a_r_n": "plan",
    "savings_plan_savings_plan_effective_cost": (
        f"CASE WHEN {_COVERED} THEN effective_usd ELSE 0 END::DECIMAL(24, 10)"
    ),
    "savings_plan_savings_plan_rate": f"CASE WHEN {_COVERED} THEN effective ELSE 0 END",
    "savings_plan_total_commitment_to_date": "coalesce(committed, 0)::DECIMAL(24, 10)",
    "savings_plan_used_commitment": "coalesce(used, 0)::DECIMAL(24, 10)",
    "savings_plan_recurring_commitment_for_billing_period": (
        "coalesce(committed, 0)::DECIMAL(24, 10)"
    ),
    "split_line_item_parent_resource_id": "parent",
    "split_line_item_split_usage_ratio": "CASE WHEN parent <> '' THEN ratio END",
    "split_line_item_split_cost": "split_usd",
    "split_line_item_unused_cost": "CASE WHEN parent <> '' THEN 0::DECIMAL(24, 10) END",
}
_LEGACY_SKIPPED = ("discount", "product", "resource_tags")
_LEGACY_TAGS = (
    "team",
    "project",
    "owner",
    "aws:eks:cluster-name",
    "aws:eks:namespace",
    "aws:eks:workload-name",
    "aws:eks:node",
)
_LEGACY_GROUPS = (
    "identity",
    "bill",
    "line_item",
    "product",
    "pricing",
    "reservation",
    "savings_plan",
    "split_line_item",
)
_LEGACY_NAMES = {
    "product_product_family": "product/productFamily",
    "product_region_code": "product/regionCode",
    "line_item_line_item_type": "lineItem/LineItemType",
    "line_item_line_item_description": "lineItem/LineItemDescription",
}

_FOCUS: Mapping[str, str] = {
    "AvailabilityZone": "zone",
    "BilledCost": f"CASE WHEN {_COVERED} OR unused THEN 0 ELSE usd END::DECIMAL(24, 10)",
    "BillingAccountId": "account",
    "BillingAccountName": "'ml-platform'",
    "BillingCurrency": "'USD'",
    "BillingPeriodEnd": "date_trunc('month', since) + INTERVAL 1 MONTH",
    "BillingPeriodStart": "date_trunc('month', since)",
    "ChargeCategory": (
        "CASE WHEN unused THEN 'Usage'"
        " WHEN kind IN ('SavingsPlanRecurringFee', 'Fee') THEN 'Purchase'"
        " WHEN kind = 'Tax' THEN 'Tax' WHEN kind = 'Credit' THEN 'Credit'"
        " WHEN kind = 'EdpDiscount' THEN 'Adjustment' ELSE 'Usage' END"
    ),
    "ChargeClass": "NULL::VARCHAR",
    "ChargeDescription": "description",
    "ChargeFrequency": (
        f"CASE WHEN {_FEE} THEN 'Recurring' WHEN kind = 'Fee' THEN 'One-Time'"
        " ELSE 'Usage-Based' END"
    ),
    "ChargePeriodEnd": "until",
    "ChargePeriodStart": "since",
    "CommitmentDiscountCategory": "CASE WHEN plan <> '' THEN 'Spend' END",
    "CommitmentDiscountId": "CASE WHEN plan <> '' THEN plan END",
    "CommitmentDiscountStatus": f"CASE WHEN unused THEN 'Unused' WHEN {_COVERED} THEN 'Used' END",
    "CommitmentDiscountType": "CASE WHEN plan <> '' THEN 'EC2InstanceSavingsPlans' END",
    "ConsumedQuantity": "amount",
    "ConsumedUnit": "unit",
    "ContractedCost": "CASE WHEN kind = 'Tax' OR unused THEN 0 ELSE usd END::DECIMAL(24, 10)",
    "EffectiveCost": (
        f"CASE WHEN unused THEN committed - used WHEN {_COVERED} THEN effective_usd"
        f" WHEN {_FEE} THEN 0 ELSE usd END::DECIMAL(24, 10)"
    ),
    "InvoiceId": "invoice",
    "InvoiceIssuerName": "'Amazon Web Services, Inc.'",
    "ListCost": "usd",
    "ListUnitPrice": "rate",
    "PricingCategory": (
        f"CASE WHEN {_COVERED} THEN 'Committed' WHEN usage_type LIKE '%SpotUsage%' THEN 'Dynamic'"
        " WHEN kind = 'Usage' THEN 'Standard' END"
    ),
    "PricingQuantity": "amount",
    "PricingUnit": "unit",
    "ProviderName": "'AWS'",
    "PublisherName": "'Amazon Web Services, Inc.'",
    "RegionId": "region",
    "RegionName": "region",
    "ResourceId": "resource",
    "ResourceType": "CASE WHEN resource LIKE 'i-%' THEN 'instance' END",
    "ServiceCategory": _SERVICE_KIND,
    "ServiceName": _SERVICE_NAME,
    "SkuId": "upper(md5(usage_type)[:16])",
    "SkuMeter": "usage_type",
    "SkuPriceDetails": "MAP {'InstanceType': instance_type}",
    "SkuPriceId": "upper(md5(usage_type)[:16]) || '.JRTCKXETXF.6YS6EN2CT7'",
    "SubAccountId": "account",
    "SubAccountName": "'ml-platform'",
    "Tags": "tags",
    "x_Discounts": "MAP {}::MAP(VARCHAR, DOUBLE)",
    "x_Operation": "operation",
    "x_ServiceCode": "product",
}


def _columns(names: Mapping[str, str], maps_stay: bool) -> str:
    """Return the columns of a SELECT; a file without maps gets them as JSON text."""
    columns = []
    for name, expression in names.items():
        is_map = expression == "tags" or expression.startswith(("MAP ", "map_from_entries"))
        if is_map and not maps_stay:
            expression = f"to_json({expression})::VARCHAR"  # noqa: PLW2901
        columns.append(f'{expression} AS "{name}"')
    return ", ".join(columns)


def cur2(maps_stay: bool) -> str:
    """Return the SELECT of a CUR 2.0 with split cost allocation.

    Maps become JSON text where the file has none.
    """
    return f"SELECT {_columns(_CUR2, maps_stay)} FROM line"  # noqa: S608 - columns are our own


def legacy(_maps_stay: bool) -> str:
    """Return the SELECT of a legacy CUR: `lineItem/...` columns and a column for each tag."""
    columns = {}
    for name, expression in _CUR2.items():
        if name in _LEGACY_SKIPPED:
            continue
        group = next(group for group in _LEGACY_GROUPS if name.startswith(group + "_"))
        head, *tail = group.split("_")
        column = "".join(word.capitalize() for word in name.removeprefix(group + "_").split("_"))
        # AWS writes these groups' columns with a small first letter, all others with a capital.
        if group == "product" or name in ("pricing_term", "pricing_unit"):
            column = column[0].lower() + column[1:]
        plain = f"{head}{''.join(word.capitalize() for word in tail)}/{column}"
        columns[_LEGACY_NAMES.get(name, plain)] = expression

    columns["product/ProductName"] = _SERVICE_NAME
    for tag in _LEGACY_TAGS:
        prefix = "" if tag.startswith("aws:") else "user:"
        columns[f"resourceTags/{prefix}{tag}"] = f"coalesce(tags['{tag}'], '')"
    return f"SELECT {_columns(columns, True)} FROM line"  # noqa: S608 - columns are our own


def focus(maps_stay: bool) -> str:
    """Return the SELECT of a FOCUS 1.2 export.

    No negation, no split rows, an Unused row for the idle part of a plan.
    """
    rows = (
        "SELECT *, false AS unused FROM line WHERE kind <> 'SavingsPlanNegation' AND parent = ''"
        " UNION ALL SELECT *, true AS unused FROM line"
        " WHERE kind = 'SavingsPlanRecurringFee' AND committed > used"
    )
    return f"SELECT {_columns(_FOCUS, maps_stay)} FROM ({rows})"  # noqa: S608 - columns are our own


SELECTS: Mapping[str, Callable[[bool], str]] = {"cur2": cur2, "focus1.2": focus, "legacy": legacy}
"""By format: given whether the file keeps maps, the SELECT.

`since`, `id` and `kind` stay reachable after it.
"""
_TYPES = {
    "id": "BIGINT",
    "starts": "TIMESTAMP",
    "ends": "TIMESTAMP",
    "units": "DECIMAL(18, 6)",
    "rate": "DECIMAL(12, 8)",
    "effective": "DECIMAL(12, 8)",
    "ratio": "DECIMAL(6, 4)",
    "tags": "JSON::MAP(VARCHAR, VARCHAR)",
}
"""The types of a charge's fields in the database, all others are text."""


def write_bill(
    folder: Path,
    scenario: Scenario,
    fleet: Fleet,
    form: BillForm = "cur2",
    file: BillFile = "parquet",
) -> None:
    """Write `billing/BILLING_PERIOD=YYYY-MM/bill.parquet` (or csv.gz), a file for each month."""
    write_charges(folder, list(charges(scenario, fleet)), fleet, form, file)


def write_charges(
    folder: Path,
    charged: Sequence[Charge],
    fleet: Fleet,
    form: BillForm = "cur2",
    file: BillFile = "parquet",
) -> None:
    """Write a bill of charges, those of the fleet or others."""
    db = duckdb.connect(config={"threads": 1, "preserve_insertion_order": True})
    names = [*(field.name for field in fields(Charge)), "id"]
    casts = ", ".join(f"(x->>'{name}')::{_TYPES.get(name, 'VARCHAR')} AS {name}" for name in names)
    rows = [
        json.dumps({name: _text(getattr(charge, name, number)) for name in names})
        for number, charge in enumerate(charged)
    ]
    db.execute(
        f"CREATE TABLE charge AS SELECT {casts} FROM (SELECT unnest(?::JSON[]) AS x)",  # noqa: S608
        [rows],
    )
    db.execute(resources.files(__package__).joinpath("bill.sql").read_text(encoding="utf-8"))

    # Months that are over have an invoice; the current one is still an estimate.
    db.execute("ALTER TABLE line ADD COLUMN account VARCHAR")
    db.execute("ALTER TABLE line ADD COLUMN invoice VARCHAR")
    invoice = "CASE WHEN strftime(since, '%Y-%m') < ? THEN '18' || strftime(since, '%y%m') END"
    db.execute(
        f"UPDATE line SET account = ?, invoice = {invoice}",  # noqa: S608
        [ACCOUNT, f"{fleet.at(fleet.minutes):%Y-%m}"],
    )

    written = {"parquet": "FORMAT parquet, COMPRESSION zstd"}
    how = written.get(file, "FORMAT csv, HEADER, COMPRESSION gzip")
    select = SELECTS[form](file == "parquet")
    for (month,) in db.execute(
        "SELECT DISTINCT strftime(since, '%Y-%m') AS m FROM line ORDER BY m"
    ).fetchall():
        path = folder / "billing" / f"BILLING_PERIOD={month}" / f"bill.{file}"
        path.parent.mkdir(parents=True, exist_ok=True)
        where = f"strftime(since, '%Y-%m') = {quoted(month)}"
        query = f"{select} WHERE {where} ORDER BY since, id, kind"
        db.execute(f"COPY ({query}) TO {quoted(str(path))} ({how})")
    db.close()


def _text(value: object) -> str:
    if isinstance(value, dict):
        return json.dumps(value)
    return f"{value:%Y-%m-%d %H:%M:%S}" if hasattr(value, "strftime") else str(value)
