"""Recognise an export by its columns, and write the queries that read it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from enum import StrEnum

from adapters.billing.database import identifier, literal, sql
from bot.errors import WrongInput


class ExportForm(StrEnum):
    """Name the export formats, the one that says most first."""

    CUR2 = "CUR 2.0"
    CUR = "legacy CUR"
    FOCUS12 = "FOCUS 1.2"
    FOCUS10 = "FOCUS 1.0"
    EXPLORER = "Cost Explorer"

    @property
    def is_cur(self) -> bool:
        """Return whether the columns are those of a Cost and Usage Report."""
        return self in (ExportForm.CUR2, ExportForm.CUR, ExportForm.EXPLORER)


class Columns:
    """Hold a file's columns by their common name: snake case for CUR, lower case for FOCUS."""

    def __init__(self, described: Sequence[tuple[str, str]]) -> None:
        self._raw = tuple(described)
        lower = {column.lower(): (column, kind) for column, kind in described}
        self.form = _form(lower, {snake(column) for column, _ in described})
        called: Callable[[str], str] = snake if self.form and self.form.is_cur else str.lower
        self._known: dict[str, tuple[str, str]] = {}
        for column, kind in described:
            self._known.setdefault(called(column), (column, kind))

    @property
    def count(self) -> int:
        """Return how many columns the file has."""
        return len(self._raw)

    def has(self, *names: str) -> bool:
        """Return whether any of the columns is there."""
        return any(word in self._known for word in names)

    def text(self, *names: str) -> str:
        """Return SQL for the first of the columns that says something, as text.

        NULL where none does.
        """
        return _first(self._text(*self._known[word]) for word in names if word in self._known)

    def double(self, *names: str) -> str:
        """Return SQL for the only one of the columns that is there if it holds numbers, else nothing."""
        known = [self._known[word] for word in names if word in self._known]
        return identifier(known[0][0]) if len(known) == 1 and known[0][1] == "DOUBLE" else ""

    def moment(self, word: str) -> str:
        """Return SQL for a time in UTC: as it stands where it is one, else as it reads."""
        column, kind = self._known.get(word, ("", ""))
        if kind == "TIMESTAMP WITH TIME ZONE":
            return f"{identifier(column)} AT TIME ZONE 'UTC'"
        return (
            f"{identifier(column)}::TIMESTAMP"
            if kind.startswith("TIMESTAMP")
            else f"moment({self.text(word)})"
        )

    def raw(self, names: Iterable[str]) -> list[str]:
        """Return those of the columns that are there, as SQL under the names that the file gives them."""
        return [
            identifier(self._known[word][0]) for word in dict.fromkeys(names) if word in self._known
        ]

    def raw_tags(self) -> list[str]:
        """Return the columns that `tags` reads, as SQL."""
        return self.raw(("resource_tags", "tags")) or [
            identifier(column) for column, _ in self._raw if _TAG.match(column)
        ]

    def inside(self, column: str, *keys: str) -> str:
        """Return SQL for one key of a map, struct or JSON column.

        NULL where it is absent or says nothing.
        """
        if column not in self._known:
            return "NULL::VARCHAR"
        whole = self._json(*self._known[column])
        return _first(
            f"nullif(json_extract_string({whole}, {literal('$.' + identifier(key))}), '')"
            for key in keys
        )

    def tags(self) -> str:
        """Return SQL for all tags as JSON text.

        From one column, or from a column for each tag (legacy CUR).
        """
        for word in ("resource_tags", "tags"):
            if word in self._known:
                return (
                    self._text(*self._known[word])
                    if self._is_text(word)
                    else self._json(*self._known[word])
                )
        single = [
            (match[1], column, kind) for column, kind in self._raw if (match := _TAG.match(column))
        ]
        if not single:
            return "NULL::VARCHAR"
        pairs = ", ".join(
            f"{literal(key)}, {self._text(column, kind)}" for key, column, kind in single
        )
        return f"json_object({pairs})::VARCHAR"

    def _is_text(self, word: str) -> bool:
        return self._known[word][1] in ("VARCHAR", "JSON")

    def _text(self, column: str, _kind: str) -> str:
        return f"nullif(nullif(CAST({identifier(column)} AS VARCHAR), ''), 'NULL')"

    def _json(self, column: str, kind: str) -> str:
        if kind in ("VARCHAR", "JSON"):
            return f"CASE WHEN json_valid({identifier(column)}) THEN {identifier(column)} END"
        return f"to_json({identifier(column)})::VARCHAR"


_TAG = re.compile(r"(?:resourceTags/|resource_?tags_)(.+)$", re.IGNORECASE)


def snake(column: str) -> str:
    """Return `lineItem/UsageStartDate` as `line_item_usage_start_date`; names in that form stay."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", column.replace("/", "_")).lower()


def _first(expressions: Iterable[str]) -> str:
    listed = list(expressions)
    if not listed:
        return "NULL::VARCHAR"
    return listed[0] if len(listed) == 1 else f"coalesce({', '.join(listed)})"


def _form(lower: dict[str, tuple[str, str]], snaked: set[str]) -> ExportForm | None:
    if "cost_explorer" in lower:
        return ExportForm.EXPLORER
    if {"line_item_usage_start_date", "line_item_unblended_cost"} <= snaked:
        new = lower.keys() & {
            "product",
            "resource_tags",
            "bill_payer_account_name",
            "line_item_usage_account_name",
        }
        return ExportForm.CUR2 if new else ExportForm.CUR
    if {"billedcost", "chargeperiodstart"} <= lower.keys():
        return (
            ExportForm.FOCUS12
            if lower.keys() & {"skumeter", "invoiceid", "skupricedetails"}
            else ExportForm.FOCUS10
        )
    return None


_SUMS = {
    "cost", "amount", "ri_effective", "ri_unused_upfront", "ri_unused_recurring", "sp_effective", "sp_total", "sp_used",
    "split_cost", "unused_cost", "split_ratio", "billed", "effective", "quantity",
}  # fmt: skip
_FLOATS = {"amount", "quantity", "split_cost", "unused_cost", "split_ratio"}
_TOLD = {"line_type", "parent", "category", "class", "description"}
"""What amounts mean is told by these."""
_AMOUNTS = _SUMS | {"starts", "ends"}
"""What differs from row to row; the rest says what the row is of."""
_PRODUCT = (
    "product_region_code", "product_region", "product_instance_type", "product_marketoption", "product_market_option",
)  # fmt: skip
_INSIDE = {
    "product": ("region_code", "region", "instance_type", "marketoption"),
    "skupricedetails": (
        "x_UsageType",
        "UsageType",
        "usagetype",
        "InstanceType",
        "x_InstanceType",
        "instance_type",
    ),
}
"""Keys of map columns that say something the other columns may not.

Under CUR's flat name, or in a map of their own.
"""
_TAGS = ("resource_tags", "tags")


def day_query(
    table: str, described: Sequence[tuple[str, str]], partitions: Sequence[str], month: date
) -> str:
    """Return the query of one month over `DATABASE.TABLE` with columns (name, Athena type).

    Raise `WrongInput` for no export.
    """
    columns = Columns(described)
    if columns.form is None:
        raise WrongInput(
            f"The table {table} is no CUR or FOCUS export: it has neither line_item_unblended_cost nor BilledCost."
        )
    kinds = {name.lower(): kind.lower() for name, kind in described}
    start, end = ("line_item_usage_start_date", "line_item_usage_end_date")
    if not columns.form.is_cur:
        start, end = "chargeperiodstart", "chargeperiodend"
    moment = _moment(start, kinds)
    day = f"CAST(date_trunc('day', {moment}) AS VARCHAR)"
    keys = {start: day, **dict(_keys(columns, kinds, {start, end}))}
    sums = {end: f"CAST(max({_moment(end, kinds)}) AS VARCHAR)", **dict(_sums(columns, kinds))}
    chosen = ", ".join(f'{expression} AS "{name}"' for name, expression in {**keys, **sums}.items())
    whole = ".".join(f'"{part}"' for part in table.split("."))
    places = ", ".join(str(n) for n in range(1, len(keys) + 1))
    return sql(
        "month",
        chosen=chosen,
        table=whole,
        month=_month(partitions, kinds, month, moment),
        keys=places,
    )


def _keys(
    columns: Columns, kinds: Mapping[str, str], without: set[str]
) -> Iterator[tuple[str, str]]:
    """Yield name and expression of everything that tells rows apart."""
    is_cur = bool(columns.form and columns.form.is_cur)
    for alias, names in (CUR_NAMES if is_cur else FOCUS_NAMES).items():
        for name in names:
            if alias not in _SUMS and name in kinds and name not in without:
                yield name, f'CAST("{name}" AS VARCHAR)'
    for name in (
        "product_region_code",
        "product_region",
        "product_instance_type",
        "product_marketoption",
    ):
        if name in kinds:
            yield name, f'CAST("{name}" AS VARCHAR)'
    yield from (
        (name, f'CAST("{name}" AS VARCHAR)') for name in kinds if name.startswith("resource_tags_")
    )
    for name, inner in _INSIDE.items():
        if kinds.get(name, "").startswith("map"):
            yield from _inside(name, inner, kinds)
    for name in _TAGS:
        if name in kinds:
            mapped = kinds[name].startswith("map")
            yield (
                name,
                f'json_format(CAST("{name}" AS JSON))' if mapped else f'CAST("{name}" AS VARCHAR)',
            )


def _inside(name: str, keys: Sequence[str], kinds: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the keys of a map.

    Of `product` as flat columns that are not there yet, of another as one JSON column.
    """
    if name != "product":
        yield name, f'json_format(CAST("{name}" AS JSON))'
        return
    for key in keys:
        if (called := f"product_{key}") not in kinds:
            yield called, f"element_at(\"{name}\", '{key}')"


def _sums(columns: Columns, kinds: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    is_cur = bool(columns.form and columns.form.is_cur)
    for alias, names in (CUR_NAMES if is_cur else FOCUS_NAMES).items():
        for name in names:
            if alias in _SUMS and name in kinds:
                number = (
                    f"TRY_CAST(NULLIF(\"{name}\", '') AS DECIMAL(38, 15))"
                    if _is_text(kinds[name])
                    else _decimal(name)
                )
                yield name, f"CAST(sum({number}) AS VARCHAR)"


def _decimal(name: str) -> str:
    return f'CAST("{name}" AS DECIMAL(38, 15))'


def _is_text(kind: str) -> bool:
    return kind.startswith(("string", "varchar", "char"))


def _moment(name: str, kinds: Mapping[str, str]) -> str:
    if not _is_text(kinds.get(name, "")):
        return f'"{name}"'
    return f"CAST(replace(replace(\"{name}\", 'T', ' '), 'Z', '') AS TIMESTAMP)"


def _month(partitions: Sequence[str], kinds: Mapping[str, str], month: date, moment: str) -> str:
    """Return the condition that keeps one billing month.

    By partition where there is one, so that only its files are scanned.
    """
    named = {name.lower() for name in partitions}
    if "billing_period" in named:
        return f"billing_period = '{month:%Y-%m}'"
    if {"year", "month"} <= named:
        return f"year = '{month:%Y}' AND month IN ('{month.month}', '{month:%m}')"
    column = next(
        (
            name
            for name in ("bill_billing_period_start_date", "billingperiodstart")
            if name in kinds
        ),
        "",
    )
    at = _moment(column, kinds) if column else f"date_trunc('month', {moment})"
    return f"{at} = TIMESTAMP '{month:%Y-%m-01} 00:00:00'"


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
    "unit": ("pricing_unit",),
    "term": ("pricing_term",),
    "held_by": ("capacity_reservation_capacity_reservation_arn",),
    "held_as": ("capacity_reservation_capacity_reservation_type",),
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
    "held_by": ("capacityreservationid",),
    "held_status": ("capacityreservationstatus",),
    "status": ("commitmentdiscountstatus",),
    "quantity": ("consumedquantity",),
    "unit": ("consumedunit",),
}


def read_of(columns: Columns) -> list[str]:
    """Return the columns that are read of a file, as SQL."""
    return list(dict.fromkeys([*_keys_of(columns), *_read(columns, amounts=True)]))


def raw_of(columns: Columns, source: str, place: str) -> str:
    """Return the SQL that reads times and amounts of every row of `source`, by its `place` in the file, and what each is of."""
    keys = ", ".join(_keys_of(columns))
    rows = {"source": source, "place": place, "keys": keys}
    return sql("raw", **rows, amounts=_amounts_of(columns, rows), labels=_labels_of(columns))


def _keys_of(columns: Columns) -> list[str]:
    keys = [
        *_read(columns, amounts=False),
        *columns.raw((*_PRODUCT, *_INSIDE)),
        *columns.raw_tags(),
    ]
    return list(dict.fromkeys(keys)) or [
        "NULL"
    ]  # an export that holds times and amounts alone: its rows are all of one kind


def _read(columns: Columns, *, amounts: bool) -> list[str]:
    names = CUR_NAMES if columns.form and columns.form.is_cur else FOCUS_NAMES
    return columns.raw(
        word for alias, words in names.items() if (alias in _AMOUNTS) is amounts for word in words
    )


def _labels_of(columns: Columns) -> str:
    """Return the SELECT of what the rows of each key are."""
    if columns.form and columns.form.is_cur:
        return sql("cur", aliases=_cur(columns), has_invoice=_flag(columns, "bill_invoice_id"))
    return sql("focus", aliases=_focus(columns), has_invoice=_flag(columns, "invoiceid"))


def _amounts_of(columns: Columns, rows: Mapping[str, str]) -> str:
    """Return the SELECT of what each row costs, and when; numbers are read once."""
    cur = bool(columns.form and columns.form.is_cur)
    names = CUR_NAMES if cur else FOCUS_NAMES
    expressions = {
        alias: _number(alias, columns, words) for alias, words in names.items() if alias in _SUMS
    }
    expressions |= {alias: columns.moment(names[alias][0]) for alias in ("starts", "ends")}
    expressions |= {alias: columns.text(*names[alias]) for alias in _TOLD & names.keys()}
    cost = names["cost" if cur else "billed"]
    expressions["said"] = columns.double(*cost) or columns.text(*cost)
    return sql("cur_amounts" if cur else "focus_amounts", aliases=_select(expressions), **rows)


def _number(alias: str, columns: Columns, words: Sequence[str]) -> str:
    """Read an amount.

    From a number where the file holds one, as to write and read each of ten million takes seconds.
    """
    number, said = columns.double(*words), columns.text(*words)
    if alias in _FLOATS:
        return number or f"try_cast({said} AS DOUBLE)"
    return (
        f"coalesce(short_money({number}), money({number}::VARCHAR))" if number else f"money({said})"
    )


def _flag(columns: Columns, column: str) -> str:
    return "TRUE" if columns.has(column) else "FALSE"


def _cur(c: Columns) -> str:
    expressions = _labels(c, CUR_NAMES)
    expressions["region"] = _either(
        c.text("product_region_code", "product_region"),
        c.inside("product", "region_code", "regionCode", "region"),
    )
    expressions["instance_type"] = _either(
        c.text("product_instance_type"), c.inside("product", "instance_type", "instanceType")
    )
    expressions["market"] = _either(
        c.text("product_marketoption", "product_market_option"), c.inside("product", "marketoption")
    )
    return _select(expressions)


def _focus(c: Columns) -> str:
    expressions = _labels(c, FOCUS_NAMES)
    expressions["sku_usage_type"] = c.inside(
        "skupricedetails", "x_UsageType", "UsageType", "usagetype"
    )
    expressions["sku_instance_type"] = c.inside(
        "skupricedetails", "InstanceType", "x_InstanceType", "instance_type"
    )
    return _select(expressions)


def _labels(c: Columns, names: Mapping[str, Sequence[str]]) -> dict[str, str]:
    expressions = {alias: c.text(*words) for alias, words in names.items() if alias not in _AMOUNTS}
    return {**expressions, "period": c.moment(names["period"][0]), "tags": c.tags()}


def _either(first: str, second: str) -> str:
    return f"coalesce({first}, {second})"


def _select(expressions: Mapping[str, str]) -> str:
    return ", ".join(f"{expression} AS {alias}" for alias, expression in expressions.items())
