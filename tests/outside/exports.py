"""Write one bill as AWS exports it in four forms, and add it up the long way: nothing here is shared with the product."""

import csv
import gzip
import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

FIRST = datetime(2026, 10, 30, tzinfo=UTC)
DAYS = 5
HOUR = timedelta(hours=1)
ZERO = Decimal(0)
PLAN = "arn:aws:savingsplans::111122223333:savingsplan/sp1"
MONEY = ("gross_usd", "discounts_usd", "credits_usd", "tax_usd", "net_usd", "amortised_usd")
Row = dict[str, str]


@dataclass(frozen=True)
class Charge:
    """One line of a bill before it takes a form; `amortised` by AWS's formula for its line item type."""

    kind: str
    start: datetime
    cost: Decimal
    amortised: Decimal
    usage_type: str = ""
    operation: str = ""
    resource: str = ""
    instance_type: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    hours: int = 1

    def money(self) -> dict[str, Decimal]:
        """Return design's six fields: what a plan covers is no money, nor is what negates it."""
        put = {
            "Credit": "credits_usd",
            "Refund": "credits_usd",
            "Tax": "tax_usd",
            "EdpDiscount": "discounts_usd",
        }
        cost = self.cost
        if self.kind in ("SavingsPlanCoveredUsage", "SavingsPlanNegation"):
            cost = ZERO
        return {
            **dict.fromkeys(MONEY, ZERO),
            put.get(self.kind, "gross_usd"): cost,
            "net_usd": cost,
            "amortised_usd": self.amortised,
        }


def charges(note: str = "") -> list[Charge]:
    """Return five days across the end of a month: covered, reserved, spot and plain hours, fees, tax, credit, odd tags."""
    hourly = [one for h in range(24 * DAYS) for one in _hour(FIRST + h * HOUR, note)]
    daily = [
        Charge(
            "Usage",
            FIRST + d * 24 * HOUR,
            cost,
            cost,
            "USW2-NatGateway-Bytes",
            "NatGateway",
            "nat-1",
            hours=24,
        )
        for d in range(DAYS)
        for cost in (Decimal("9.1234567") + d,)
    ]
    month = datetime(2026, 11, 1, tzinfo=UTC)
    fees = [
        Charge("Tax", month, Decimal("777.7777"), ZERO),
        Charge("Credit", month, Decimal("-1234.565"), ZERO, "BoxUsage:p5.48xlarge", "RunInstances"),
        Charge("EdpDiscount", month, Decimal("-300.005"), Decimal("-300.005")),
        Charge(
            "SavingsPlanUpfrontFee",
            FIRST + 5 * HOUR,
            Decimal(5000),
            ZERO,
            "ComputeSP:1yrAllUpfront",
            "",
            PLAN,
        ),
    ]
    return hourly + daily + fees


def _hour(at: datetime, note: str) -> Iterable[Charge]:
    llama = {"team": "search", "eks:cluster-name": "llama", **({"note": note} if note else {})}
    covered, trn1 = Decimal("13.33"), Decimal("21.50")
    box = "USW2-BoxUsage:trn1.32xlarge"
    yield Charge(
        "SavingsPlanCoveredUsage",
        at,
        trn1,
        covered,
        box,
        "RunInstances",
        "i-1",
        "trn1.32xlarge",
        llama,
    )
    yield Charge("SavingsPlanNegation", at, -trn1, ZERO, box, "RunInstances", PLAN)
    yield Charge(
        "SavingsPlanRecurringFee", at, Decimal(20), 20 - covered, "ComputeSP:1yrNoUpfront", "", PLAN
    )
    yield Charge(
        "DiscountedUsage",
        at,
        ZERO,
        Decimal("14.1"),
        "USW2-BoxUsage:trn1n.32xlarge",
        "RunInstances",
        "i-2",
        "trn1n.32xlarge",
    )
    spot = Decimal("4.4412345678")
    if at.hour % 3:
        yield Charge(
            "Usage",
            at,
            spot,
            spot,
            "USW2-SpotUsage:trn1.32xlarge",
            "RunInstances",
            "i-3",
            "trn1.32xlarge",
            {"team": "ads"},
        )


def added(
    bill: Iterable[Charge], start: datetime, end: datetime, key: Callable[[Charge], str]
) -> dict[str, dict[str, Decimal]]:
    """Return the six sums by key of what starts in [start, end)."""
    sums: dict[str, dict[str, Decimal]] = defaultdict(lambda: dict.fromkeys(MONEY, ZERO))
    for charge in bill:
        if start <= charge.start < end:
            for name, usd in charge.money().items():
                sums[key(charge)][name] += usd
    return dict(sums)


def _cur(charge: Charge) -> Row:
    stamp, month = "%Y-%m-%dT%H:%M:%SZ", charge.start.replace(day=1, hour=0)
    row = {
        "bill_payer_account_id": "999988887777",
        "bill_billing_period_start_date": f"{month:{stamp}}",
        "line_item_usage_account_id": "111122223333",
        "line_item_line_item_type": charge.kind,
        "line_item_usage_start_date": f"{charge.start:{stamp}}",
        "line_item_usage_end_date": f"{charge.start + charge.hours * HOUR:{stamp}}",
        "line_item_product_code": "AmazonEC2",
        "line_item_usage_type": charge.usage_type,
        "line_item_operation": charge.operation,
        "line_item_resource_id": charge.resource,
        "line_item_usage_amount": "1",
        "line_item_currency_code": "USD",
        "line_item_unblended_cost": str(charge.cost),
        "product_instance_type": charge.instance_type,
        "savings_plan_savings_plan_effective_cost": "",
        "savings_plan_total_commitment_to_date": "",
        "savings_plan_used_commitment": "",
        "reservation_effective_cost": "",
    }
    if charge.kind == "SavingsPlanCoveredUsage":
        row["savings_plan_savings_plan_effective_cost"] = str(charge.amortised)
    if charge.kind == "SavingsPlanRecurringFee":
        row |= {"savings_plan_total_commitment_to_date": str(charge.cost)}
        row |= {"savings_plan_used_commitment": str(charge.cost - charge.amortised)}
    if charge.kind == "DiscountedUsage":
        row["reservation_effective_cost"] = str(charge.amortised)
    return row


def cur2(charge: Charge) -> list[Row]:
    """Return the rows of CUR 2.0: tags and product as maps, an instance type that is there and empty."""
    names = {"team": "user_team", "eks:cluster-name": "aws_eks_cluster_name", "note": "user_note"}
    tags = {names[key]: value for key, value in charge.tags.items()}
    product = {"instance_type": charge.instance_type}
    return [{**_cur(charge), "resource_tags": json.dumps(tags), "product": json.dumps(product)}]


def legacy(charge: Charge) -> list[Row]:
    """Return the rows of the legacy report: group/columnName, a column for each tag."""
    row = {_legacy_name(name): value for name, value in _cur(charge).items()}
    names = {"team": "user:team", "eks:cluster-name": "aws:eks:cluster-name", "note": "user:note"}
    return [
        {**row, **{f"resourceTags/{name}": charge.tags.get(key, "") for key, name in names.items()}}
    ]


def _legacy_name(name: str) -> str:
    group = next(
        g
        for g in ("bill", "line_item", "product", "savings_plan", "reservation")
        if name.startswith(g + "_")
    )
    rest = "".join(word.capitalize() for word in name.removeprefix(group + "_").split("_"))
    head, *tail = group.split("_")
    rest = "instanceType" if group == "product" else rest
    return head + "".join(word.capitalize() for word in tail) + "/" + rest


def focus(charge: Charge, meter: str) -> list[Row]:
    """Return the rows of FOCUS: no negation; what a plan did not use is a Usage row of its own beside the fee."""
    if charge.kind == "SavingsPlanNegation":
        return []
    stamp = "%Y-%m-%dT%H:%M:%SZ"
    category = {"Credit": "Credit", "Tax": "Tax", "EdpDiscount": "Adjustment"}.get(
        charge.kind, "Usage"
    )
    row = {
        "BillingAccountId": "999988887777",
        "SubAccountId": "111122223333",
        "BilledCost": "0" if charge.kind == "SavingsPlanCoveredUsage" else str(charge.cost),
        "EffectiveCost": str(charge.amortised),
        "BillingCurrency": "USD",
        "BillingPeriodStart": f"{charge.start.replace(day=1, hour=0):{stamp}}",
        "ChargeCategory": "Purchase" if charge.kind.endswith("Fee") else category,
        "ChargeClass": "",
        "ChargePeriodStart": f"{charge.start:{stamp}}",
        "ChargePeriodEnd": f"{charge.start + charge.hours * HOUR:{stamp}}",
        "ChargeDescription": "EDP discount" if charge.kind == "EdpDiscount" else charge.usage_type,
        "ResourceId": charge.resource,
        "ServiceName": "Amazon Elastic Compute Cloud",
        "x_ServiceCode": "AmazonEC2",
        "x_Operation": charge.operation,
        meter: charge.usage_type,
        "ConsumedQuantity": "1",
        "ConsumedUnit": "Hours",
        "PricingCategory": "Standard",
        "ProviderName": "AWS",
        "Tags": json.dumps(
            {("" if ":" in key else "user:") + key: value for key, value in charge.tags.items()}
        ),
    }
    if charge.kind != "SavingsPlanRecurringFee":
        return [row]
    unused = {
        **row,
        "ChargeCategory": "Usage",
        "BilledCost": "0",
        "CommitmentDiscountStatus": "Unused",
    }
    return [{**row, "EffectiveCost": "0", "CommitmentDiscountStatus": ""}, unused]


FORMS: dict[str, Callable[[Charge], list[Row]]] = {
    "cur2": cur2,
    "legacy": legacy,
    "focus1.0": lambda charge: focus(charge, "x_UsageType"),
    "focus1.2": lambda charge: focus(charge, "SkuMeter"),
}


def write(folder: Path, form: str, bill: Iterable[Charge]) -> Path:
    """Write the bill below `folder` in one form."""
    rows = [row for charge in bill for row in FORMS[form](charge)]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    (folder / "billing").mkdir(parents=True)
    with gzip.open(folder / "billing" / "part.csv.gz", "wt", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="")
        writer.writeheader()
        writer.writerows(rows)
    return folder
