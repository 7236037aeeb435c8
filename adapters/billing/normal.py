"""Write the query that turns one export file into rows of one shape."""

from __future__ import annotations

from adapters.billing.columns import Columns
from adapters.billing.sql import sql

# Our word for a column, and what the formats call it.
CUR_NAMES = {
    "payer": ("bill_payer_account_id",),
    "invoice": ("bill_invoice_id",),
    "period": ("bill_billing_period_start_date",),
    "currency": ("line_item_currency_code",),
    "account": ("line_item_usage_account_id",),
    "line_type": ("line_item_line_item_type",),
    "service": ("line_item_product_code",),
    "servicecode": ("product_servicecode",),
    "usage_type": ("line_item_usage_type",),
    "operation": ("line_item_operation",),
    "zone": ("line_item_availability_zone",),
    "resource": ("line_item_resource_id",),
    "description": ("line_item_line_item_description",),
    "starts": ("line_item_usage_start_date",),
    "ends": ("line_item_usage_end_date",),
    "cost": ("line_item_unblended_cost",),
    "amount": ("line_item_usage_amount",),
    "term": ("pricing_term",),
    "ri_arn": ("reservation_reservation_a_r_n", "reservation_reservation_arn"),
    "ri_effective": ("reservation_effective_cost",),
    "ri_unused_upfront": ("reservation_unused_amortized_upfront_fee_for_billing_period",),
    "ri_unused_recurring": ("reservation_unused_recurring_fee",),
    "sp_effective": ("savings_plan_savings_plan_effective_cost",),
    "sp_total": ("savings_plan_total_commitment_to_date",),
    "sp_used": ("savings_plan_used_commitment",),
    "parent": ("split_line_item_parent_resource_id",),
    "split_cost": ("split_line_item_split_cost",),
    "unused_cost": ("split_line_item_unused_cost",),
    "split_ratio": ("split_line_item_split_usage_ratio",),
}
FOCUS_NAMES = {
    "payer": ("billingaccountid",),
    "invoice": ("invoiceid",),
    "period": ("billingperiodstart",),
    "currency": ("billingcurrency",),
    "account": ("subaccountid",),
    "category": ("chargecategory",),
    "class": ("chargeclass",),
    "service_code": ("x_servicecode",),
    "service": ("servicename",),
    "x_usage_type": ("x_usagetype",),
    "sku_meter": ("skumeter",),
    "operation": ("x_operation",),
    "region": ("regionid",),
    "zone": ("availabilityzone",),
    "resource": ("resourceid",),
    "description": ("chargedescription",),
    "starts": ("chargeperiodstart",),
    "ends": ("chargeperiodend",),
    "billed": ("billedcost",),
    "effective": ("effectivecost",),
    "pricing": ("pricingcategory",),
    "commitment": ("commitmentdiscounttype",),
    "commitment_category": ("commitmentdiscountcategory",),
    "commitment_id": ("commitmentdiscountid",),
    "status": ("commitmentdiscountstatus",),
    "quantity": ("consumedquantity",),
    "unit": ("consumedunit",),
}


def rows_of(columns: Columns, source: str) -> str:
    """Return the SELECT over `source` for a recognised format."""
    if columns.form and columns.form.is_cur:
        return sql("cur", aliases=_cur(columns), source=source, has_invoice=_flag(columns, "bill_invoice_id"))
    return sql("focus", aliases=_focus(columns), source=source, has_invoice=_flag(columns, "invoiceid"))


def _flag(columns: Columns, column: str) -> str:
    return "TRUE" if columns.has(column) else "FALSE"


def _cur(c: Columns) -> str:
    made = {alias: c.text(*names) for alias, names in CUR_NAMES.items()}
    made["region"] = _either(
        c.text("product_region_code", "product_region"), c.inside("product", "region_code", "regionCode", "region")
    )
    made["instance_type"] = _either(c.text("product_instance_type"), c.inside("product", "instance_type", "instanceType"))
    made["market"] = _either(c.text("product_marketoption", "product_market_option"), c.inside("product", "marketoption"))
    return _select(made, c)


def _focus(c: Columns) -> str:
    made = {alias: c.text(*names) for alias, names in FOCUS_NAMES.items()}
    made["sku_usage_type"] = c.inside("skupricedetails", "x_UsageType", "UsageType", "usagetype")
    made["sku_instance_type"] = c.inside("skupricedetails", "InstanceType", "x_InstanceType", "instance_type")
    return _select(made, c)


def _either(first: str, second: str) -> str:
    return f"coalesce({first}, {second})"


def _select(made: dict[str, str], columns: Columns) -> str:
    return ", ".join(f"{expression} AS {alias}" for alias, expression in {**made, "tags": columns.tags()}.items())
