"""Read Cost Explorer's answers, kept as a recording keeps them, as rows in the columns of a Cost and Usage Report.

An answer groups by two keys and is filtered by what its file's name says: `TIME.accounts.json` by
account and record type, `TIME.ACCOUNT.json` that account by region and record type,
`TIME.ACCOUNT.REGION.TYPE.json` that part by service and usage type; `TIME.tag=NAME.json` stands
apart: everything by one tag and record type. What a finer answer tells, a coarser one does not.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal, InvalidOperation
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from bot.errors import WrongInput

TOP = "accounts"
TAG_VIEW = "tag="
TAGGED = ("team", "project", "cluster")
_REMEDY = "set TRNBOT_AWS_BILLING or TRNBOT_AWS_ATHENA to a billing export for that"
COLUMNS = (
    "cost_explorer", "bill_invoice_id", "bill_billing_period_start_date", "line_item_currency_code",
    "line_item_usage_account_id", "line_item_line_item_type", "line_item_product_code", "line_item_usage_type",
    "line_item_usage_start_date", "line_item_usage_end_date", "line_item_usage_amount", "line_item_unblended_cost",
    "line_item_line_item_description", "product_region_code", "resource_tags", "savings_plan_savings_plan_effective_cost",
    "savings_plan_total_commitment_to_date", "reservation_effective_cost", "reservation_unused_recurring_fee",
    "reservation_reservation_a_r_n",
)  # fmt: skip
_NAME = re.compile(r"(\d{8}T\d{6}Z)\.(.+)\.json")
_KEYS = {
    "LINKED_ACCOUNT": "account",
    "REGION": "region",
    "RECORD_TYPE": "type",
    "SERVICE": "service",
    "USAGE_TYPE": "usage_type",
}
_AMORTISED = {
    "SavingsPlanCoveredUsage": "savings_plan_savings_plan_effective_cost",
    "SavingsPlanRecurringFee": "savings_plan_total_commitment_to_date",
    "DiscountedUsage": "reservation_effective_cost",
    "RIFee": "reservation_unused_recurring_fee",
}
"""Where a report of AWS states the amortised cost of a type.

Every other type's follows from its unblended cost.
"""
_NOWHERE = ("NoRegion", "No Region")


_TOLD = {
    "account",
    "region",
    "service",
    "usage_type",
    "instance_type",
    "family",
    "purchase",
    "line",
    "day",
    "month",
    "currency",
}
_ANYWHERE = {"day", "month", "currency"}


def check_explorer_dimension(dimension: str, view: str = "") -> None:
    """Raise `WrongInput` for a dimension that Cost Explorer's answers do not hold, and say which source does."""
    tag = dimension in TAGGED or dimension.startswith("tag:")
    if (tag and view) or dimension in (_ANYWHERE if view else _TOLD):
        return
    if view:
        raise WrongInput(
            f"Cost Explorer tells a tag alone, by day or month, not with '{dimension}'; {_REMEDY}."
        )
    raise WrongInput(f"Cost Explorer does not tell '{dimension}'; {_REMEDY}.")


def newest_answers(folder: Path, view: str) -> list[Path]:
    """Return the files of the newest whole set.

    The one that has the answer all others are parts of; empty for none.
    """
    named = [
        (match[1], match[2], path)
        for path in folder.glob("*/*.json")
        if (match := _NAME.fullmatch(path.name))
    ]
    first = view or TOP
    newest = max((at for at, about, _ in named if about == first), default=None)
    if view:
        return [path for at, about, path in named if at == newest and about == view]
    return sorted(
        path for at, about, path in named if at == newest and not about.startswith(TAG_VIEW)
    )


def rows_in(
    files: Sequence[Path], services: Mapping[str, str]
) -> tuple[list[tuple[str, ...]], list[str]]:
    """Return the rows of a set in `COLUMNS`, and a sentence for each answer that cannot be read."""
    cells_of: dict[str, list[Mapping[str, Any]]] = {}
    problems = []
    for path in files:
        about = path.name.partition(".")[2].removesuffix(".json")
        try:
            cells_of[about] = list(_cells(json.loads(path.read_text(encoding="utf-8")), about))
        except (
            OSError,
            KeyError,
            TypeError,
            ValueError,
            InvalidOperation,
            AttributeError,
        ) as error:
            problems.append(
                f"Cost Explorer's answer about {about} cannot be read ({type(error).__name__}) and is left out."
            )
    answered = {about for about, cells in cells_of.items() if cells}
    finest = [cell for cells in cells_of.values() for cell in cells if _finer(cell) not in answered]
    return [row for cell in finest if any(_amounts(row := _row(cell, services)))], problems


def _finer(cell: Mapping[str, Any]) -> str:
    """Return the name of the answer that would split this cell further, "" for the finest."""
    if "service" in cell or "account" not in cell:
        return ""
    return about_of(cell["account"], *((cell["region"], cell["type"]) if "region" in cell else ()))


def about_of(*parts: str) -> str:
    """Return the name of the answer that is filtered by these parts, in order.

    Account, region, record type.
    """
    return ".".join(quote(part, safe="").replace(".", "%2E") for part in parts)


def _cells(pages: Any, about: str) -> Iterator[dict[str, Any]]:
    """Yield each group of each day, with the keys that the answer is filtered by."""
    words = (
        []
        if about == TOP or about.startswith(TAG_VIEW)
        else [unquote(word) for word in about.split(".")]
    )
    fixed = dict(zip(("account", "region", "type"), words, strict=False))
    defined: Sequence[Mapping[str, str]] = ()
    for page in pages if isinstance(pages, list) else [pages]:
        defined = page.get("GroupDefinitions") or defined
        for span in page["ResultsByTime"]:
            for group in span.get("Groups", ()):
                keys = dict(_key(of, key) for of, key in zip(defined, group["Keys"], strict=True))
                yield {
                    **fixed,
                    **keys,
                    "day": span["TimePeriod"]["Start"][:10],
                    "estimated": span.get("Estimated", False),
                } | {"metrics": group["Metrics"]}


def _key(defined: Mapping[str, str], key: str) -> tuple[str, Any]:
    if defined.get("Type") == "TAG":
        name, _, value = key.partition("$")
        return "tags", json.dumps({name: value}) if value else ""
    return _KEYS[defined["Key"]], key


@cache
def _line_types() -> Mapping[str, str]:
    text = resources.files(__package__).joinpath("record_types.csv").read_text(encoding="utf-8")
    return {row["said"]: row["line_type"] for row in csv.DictReader(text.splitlines())}


def line_type(name: str) -> str:
    """Return a charge type of Cost Explorer as a report names it: every `... discount` is one."""
    plain = re.sub(r"[^a-z]", "", name.lower())
    return "EdpDiscount" if plain.endswith("discount") else _line_types().get(plain, name)


def _row(cell: Mapping[str, Any], services: Mapping[str, str]) -> tuple[str, ...]:
    kind, day = line_type(cell["type"]), date.fromisoformat(cell["day"])
    cost, amortised = (_amount(cell, name) for name in ("UnblendedCost", "AmortizedCost"))
    region = cell.get("region", "")
    columns = {
        "cost_explorer": "1",
        "bill_invoice_id": "" if cell["estimated"] else "final",
        "bill_billing_period_start_date": f"{day:%Y-%m-01}",
        "line_item_currency_code": cell["metrics"]["UnblendedCost"].get("Unit", "USD"),
        "line_item_usage_account_id": cell.get("account", ""),
        "line_item_line_item_type": kind,
        "line_item_product_code": services.get(cell.get("service", ""), cell.get("service", "")),
        "line_item_usage_type": cell.get("usage_type", ""),
        "line_item_usage_start_date": str(day),
        "line_item_usage_end_date": str(day + timedelta(days=1)),
        "line_item_usage_amount": str(_amount(cell, "UsageQuantity")),
        "line_item_unblended_cost": str(cost),
        "product_region_code": "" if region in _NOWHERE else region,
        "resource_tags": cell.get("tags", ""),
    }
    if kind in _AMORTISED:
        columns[_AMORTISED[kind]] = str(amortised)
    if kind == "Fee" and cost and not amortised:
        columns["reservation_reservation_a_r_n"] = "said by its amortised cost of zero"
    return tuple(columns.get(column, "") for column in COLUMNS)


def _amounts(row: Sequence[str]) -> list[Decimal]:
    columns = dict(zip(COLUMNS, row, strict=True))
    names = ("line_item_unblended_cost", "line_item_usage_amount", *_AMORTISED.values())
    return [Decimal(columns[name] or 0) for name in names]


def _amount(cell: Mapping[str, Any], metric: str) -> Decimal:
    """Return one amount; a cost that is missing is an error, a quantity may be."""
    if metric == "UsageQuantity" and metric not in cell["metrics"]:
        return Decimal(0)
    return Decimal(cell["metrics"][metric]["Amount"])
