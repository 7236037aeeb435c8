"""Recognise an export by its columns, and write the queries that read it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from adapters.billing.database import identifier, literal, sql
from bot.errors import WrongInput
from bot.model.codec import table


class ExportForm(StrEnum):
    """Name the export formats, the one that says most first."""

    CUR2 = "CUR 2.0"
    CUR = "legacy CUR"
    FOCUS12 = "FOCUS 1.2"
    FOCUS11 = "FOCUS 1.1"
    FOCUS10 = "FOCUS 1.0"
    EXPLORER = "Cost Explorer"


class Columns:
    """Hold a file's columns by their common name: snake case for CUR, lower case for FOCUS.

    Of CUR 2.0 every file has the columns of net amounts, which say something where the account has
    discounts: `is_net` states that they do.
    """

    def __init__(self, described: Sequence[tuple[str, str]], *, is_net: bool = True) -> None:
        self._raw = tuple(described)
        self.count = len(self._raw)
        """How many columns the file has."""
        lower = {column.lower() for column, _ in described}
        self.form: ExportForm | None = None
        if "cost_explorer" in lower:
            self.form = ExportForm.EXPLORER
        elif {snake(column) for column, _ in described} >= _CUR:
            self.form = ExportForm.CUR2 if lower & _CUR2 else ExportForm.CUR
        elif {"billedcost", "chargeperiodstart"} <= lower:
            self.form = next(
                (form for form, added in _FOCUS_ADDED.items() if lower & added), ExportForm.FOCUS10
            )

        self.is_cur = self.form in (ExportForm.CUR2, ExportForm.CUR, ExportForm.EXPLORER)
        """Whether the columns are those of a Cost and Usage Report."""
        self.names = CUR_NAMES if self.is_cur else FOCUS_NAMES
        """Our word for a column, and what the form calls it."""
        called: Callable[[str], str] = snake if self.is_cur else str.lower
        self._known: dict[str, tuple[str, str]] = {}
        for column, kind in described:
            self._known.setdefault(called(column), (column, kind))
        if not is_net:
            for alias in _NET:
                for word in CUR_NAMES[alias]:
                    self._known.pop(word, None)
        self.is_net = self.is_cur and self.has(*CUR_NAMES["net_cost"])
        """Whether the file states what its rows cost after discounts, beside what they are."""

    def has(self, *names: str) -> bool:
        """Return whether any of the columns is there."""
        return any(word in self._known for word in names)

    def text(self, *names: str) -> str:
        """Return SQL for the first of the columns that says something, as text.

        NULL where none does.
        """
        return _first(self._text(self._known[word][0]) for word in names if word in self._known)

    def double(self, *names: str) -> str:
        """Return SQL for the only one of the columns that is there, "" unless it holds numbers."""
        columns = [self._known[word] for word in names if word in self._known]
        if len(columns) != 1 or columns[0][1] != "DOUBLE":
            return ""
        return identifier(columns[0][0])

    def moment(self, word: str) -> str:
        """Return SQL for a time in UTC: as it stands where it is one, else as it reads."""
        column, kind = self._known.get(word, ("", ""))
        if kind == "TIMESTAMP WITH TIME ZONE":
            return f"{identifier(column)} AT TIME ZONE 'UTC'"
        if kind.startswith("TIMESTAMP"):
            return f"{identifier(column)}::TIMESTAMP"
        return f"moment({self.text(word)})"

    def discount(self) -> str:
        """Return SQL for the discounts that a row states of itself, NULL where it states none.

        From their total, from a column for each (legacy CUR) or from one map.
        """
        total = [f"money({self.text(*CUR_NAMES['discount_total'])})"] if self.is_cur else []
        flat = [
            f"money({self._text(column)})"
            for word, (column, _) in self._known.items()
            if _DISCOUNT.match(word)
        ]
        if flat:
            present = f"coalesce({', '.join(flat)}) IS NOT NULL"
            added = " + ".join(f"coalesce({amount}, 0)" for amount in flat)
            total.append(f"CASE WHEN {present} THEN {added} END")
        column = _DISCOUNTS[self.is_cur]
        if column in self._known:
            total.append(f"money_in({self._json(*self._known[column])})")
        return f"coalesce({', '.join(total)}, NULL)" if total else "NULL::DECIMAL(38, 15)"

    def raw_discounts(self) -> list[str]:
        """Return the columns that `discount` reads, as SQL."""
        flat = [word for word in self._known if _DISCOUNT.match(word)]
        total = CUR_NAMES["discount_total"] if self.is_cur else ()
        return self.raw((*total, *flat, _DISCOUNTS[self.is_cur]))

    def raw(self, names: Iterable[str]) -> list[str]:
        """Return those of the columns that are there, as SQL under the file's own names."""
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
        for word in _TAGS:
            if word in self._known:
                column, kind = self._known[word]
                is_text = kind in ("VARCHAR", "JSON")
                return self._text(column) if is_text else self._json(column, kind)
        pairs = ", ".join(
            f"{literal(match[1])}, {self._text(column)}"
            for column, _ in self._raw
            if (match := _TAG.match(column))
        )
        return f"json_object({pairs})::VARCHAR" if pairs else "NULL::VARCHAR"

    def _text(self, column: str) -> str:
        return f"nullif(nullif(CAST({identifier(column)} AS VARCHAR), ''), 'NULL')"

    def _json(self, column: str, kind: str) -> str:
        if kind in ("VARCHAR", "JSON"):
            return f"CASE WHEN json_valid({identifier(column)}) THEN {identifier(column)} END"
        return f"to_json({identifier(column)})::VARCHAR"


_CUR = {"line_item_usage_start_date", "line_item_unblended_cost"}
_CUR2 = {
    "product",
    "resource_tags",
    "bill_payer_account_name",
    "line_item_usage_account_name",
}
_FOCUS_ADDED = {
    ExportForm.FOCUS12: {"invoiceid", "billingaccounttype", "pricingcurrency"},
    ExportForm.FOCUS11: {"skumeter", "skupricedetails", "commitmentdiscountquantity"},
}
"""Columns by which a form is recognised: those that each version of FOCUS added."""
_TAG = re.compile(r"(?:resourceTags/|resource_?tags_)(.+)$", re.IGNORECASE)


_DISCOUNT = re.compile(r"discount_(edp|private_rate|bundled|spp|.*_program)_discount$")
_DISCOUNTS = {True: "discount", False: "x_discounts"}
"""Columns of the discounts on a row: one for each in legacy CUR, a map in CUR (True) and FOCUS."""


def snake(column: str) -> str:
    """Return `lineItem/UsageStartDate` as `line_item_usage_start_date`; names in that form stay."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", column.replace("/", "_")).lower()


def _first(expressions: Iterable[str]) -> str:
    listed = list(expressions)
    if not listed:
        return "NULL::VARCHAR"
    return listed[0] if len(listed) == 1 else f"coalesce({', '.join(listed)})"


_ROWS = tuple(table("adapters.billing", "columns.csv"))
"""Our word for each column, what a form calls it, and how its values are read."""
CUR_NAMES, FOCUS_NAMES = (
    {row["word"]: tuple(row["columns"].split()) for row in _ROWS if row["form"] == form}
    for form in ("cur", "focus")
)


def _words(*kinds: str) -> set[str]:
    return {row["word"] for row in _ROWS if row["kind"] in kinds}


_NET = _words("net sum")
"""What an amount is after discounts: columns of accounts that have any."""
_SUMS = _words("sum", "net sum")
_FLOATS = {row["word"] for row in _ROWS if row["number"] == "float"}
_TOLD = _words("tells")
"""The meaning of amounts is told by these."""
_AMOUNTS = _SUMS | _words("time")
"""The columns that differ from row to row; all others say of what the row is."""
_PRODUCT = (
    "product_region_code",
    "product_region",
    "product_instance_type",
    "product_marketoption",
    "product_market_option",
)
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


@dataclass(frozen=True)
class Dialect:
    """Hold the words in which an engine's SQL differs; `{}` stands for their subject."""

    name: str
    """How the name of a column or a table is written."""
    text: str
    number: str
    """A number as a decimal; of a text there may be none in it."""
    json: str
    """A map as JSON."""
    amounts: str
    """JSON as a map of numbers."""
    hourly_rows: int
    """The most rows of a month that come as they are; a larger month is rolled up by day."""

    def source(self, table: str) -> str:
        """Return a table, or a folder of Parquet files, as a query names it."""
        if "/" in table:
            return f"parquet.{self.name.format(table)}"
        return ".".join(map(self.name.format, table.split(".")))


TRINO = Dialect(
    name='"{}"',
    text="CAST({} AS VARCHAR)",
    number="CAST({0} AS DECIMAL(38, 15))",
    json="json_format(CAST({} AS JSON))",
    amounts="CAST(json_parse({}) AS MAP(VARCHAR, DOUBLE))",
    hourly_rows=500_000,
)
"""Athena's, whose results come in pages of a thousand rows: two minutes at most."""
SPARK = Dialect(
    name="`{}`",
    text="CAST({} AS STRING)",
    # Not every engine reads a double as the decimal that it is written as: of ten digits all do.
    number="CASE WHEN CAST(CAST({0} AS DECIMAL(28, 10)) AS DOUBLE) = {0}"
    " THEN CAST(CAST({0} AS DECIMAL(28, 10)) AS DECIMAL(38, 15))"
    " ELSE CAST({0} AS DECIMAL(38, 15)) END",
    json="to_json({})",
    amounts="from_json({}, 'MAP<STRING, DOUBLE>')",
    hourly_rows=5_000_000,
)
DIALECTS: Mapping[str, Dialect] = {"Athena": TRINO, "Spark": SPARK}
"""By the name of the engine."""


def rollup_query(
    dialect: Dialect,
    table: str,
    described: Sequence[tuple[str, str]],
    partitions: Sequence[str],
    month: date,
) -> str:
    """Return the query of one month over `DATABASE.TABLE` with columns (name, type).

    Amounts are summed by all else that an answer asks for: by the time of the row, or by day where
    the month has more rows than the dialect lets through. Raise `WrongInput` for no export.
    """
    columns = Columns(described)
    if columns.form is None:
        raise WrongInput(
            f"The table {table} is not a CUR or FOCUS export: "
            "it has neither line_item_unblended_cost nor BilledCost."
        )
    kinds = {name.lower(): kind.lower() for name, kind in described}
    quoted, text = dialect.name.format, dialect.text.format
    start, end = columns.names["starts"][0], columns.names["ends"][0]
    cost = columns.names["cost" if columns.is_cur else "billed"][0]
    if not {start, end, cost} <= kinds.keys():
        raise WrongInput(
            f"The table {table} lacks {start}, {end} or {cost}; "
            "have the export delivered as Parquet, whose columns have these names."
        )

    started, ended = _moment(dialect, start, kinds), _moment(dialect, end, kinds)
    day = f"date_trunc('day', {started})"
    keys = {
        start: text(f"CASE WHEN by_hour THEN {started} ELSE {day} END"),
        "rolled_by": "CASE WHEN by_hour THEN 'hour' ELSE 'day' END",
        "rolled_until": text(f"CASE WHEN by_hour THEN {ended} END"),
    }
    sums = {end: text(f"max({ended})")}

    # What is charged and what is given back may be read in two ways, and so stays apart.
    keys["rolled_sign"] = text(f"sign({_number(dialect, cost, kinds)})")

    # The columns that tell rows apart, and those that add up.
    alias_of = {
        name: alias
        for alias, names in columns.names.items()
        for name in names
        if name in kinds and name not in (start, end)
    }
    flat = [name for name, alias in alias_of.items() if alias not in _SUMS]
    flat += [name for name in _PRODUCT[:-1] if name in kinds]
    flat += [name for name in kinds if name.startswith("resource_tags_")]
    keys |= {name: text(quoted(name)) for name in flat}
    sums |= {
        name: text(f"sum({_number(dialect, name, kinds)})")
        for name, alias in alias_of.items()
        if alias in _SUMS
    }

    keys |= _documents(dialect, kinds)
    name = _DISCOUNTS[columns.is_cur]
    discounts = _discounts_in(dialect, kinds, name)
    if discounts and "discount_total_discount" not in kinds:
        sums[name] = f"'{{\"total\": ' || {text(f'sum({discounts})')} || '}}'"

    billed = next((name for name in columns.names["period"] if name in kinds), "")
    begun = _moment(dialect, billed, kinds) if billed else f"date_trunc('month', {started})"
    return sql(
        "month",
        chosen=", ".join(f"{part} AS {quoted(name)}" for name, part in {**keys, **sums}.items()),
        table=dialect.source(table),
        hourly_rows=str(dialect.hourly_rows),
        month=_of_month(partitions, month, begun),
        keys=", ".join(str(n) for n in range(1, len(keys) + 1)),
    )


def _documents(dialect: Dialect, kinds: Mapping[str, str]) -> dict[str, str]:
    """Return maps and JSON: of a map `product` as flat columns that are not there yet."""
    quoted, keys = dialect.name.format, dict[str, str]()
    if kinds.get("product", "").startswith("map"):
        inner = [key for key in _INSIDE["product"] if f"product_{key}" not in kinds]
        keys |= {f"product_{key}": f"element_at({quoted('product')}, '{key}')" for key in inner}
    for name in ("product", "skupricedetails", *_TAGS):
        if _is_text(kinds.get(name, "")):
            keys[name] = dialect.text.format(quoted(name))
        elif kinds.get(name, "").startswith("map") and name != "product":
            keys[name] = dialect.json.format(quoted(name))
    return keys


def _discounts_in(dialect: Dialect, kinds: Mapping[str, str], name: str) -> str:
    """Return the discounts of a row, from columns or the map `name`; "" of none."""
    discounts = [_number(dialect, flat, kinds) for flat in kinds if _DISCOUNT.match(flat)]
    if name in kinds:
        document = dialect.name.format(name)
        if _is_text(kinds[name]):
            document = dialect.amounts.format(document)
        amount = dialect.number.format("coalesce(TRY_CAST(x AS DOUBLE), 0)")
        added = f"CAST(s + {amount} AS DECIMAL(38, 15))"
        discounts.append(
            f"reduce(map_values({document}), CAST(0 AS DECIMAL(38, 15)), (s, x) -> {added}, s -> s)"
        )
    return " + ".join(f"coalesce({amount}, 0)" for amount in discounts)


def _is_text(kind: str) -> bool:
    return kind.startswith(("string", "varchar", "char"))


def _number(dialect: Dialect, name: str, kinds: Mapping[str, str]) -> str:
    column = dialect.name.format(name)
    if not _is_text(kinds[name]):
        return dialect.number.format(column)
    # Not every engine reads the decimal of a text with an exponent.
    number = dialect.number.format(f"TRY_CAST({column} AS DOUBLE)")
    return f"coalesce(TRY_CAST(NULLIF({column}, '') AS DECIMAL(38, 15)), {number})"


def _moment(dialect: Dialect, name: str, kinds: Mapping[str, str]) -> str:
    column = dialect.name.format(name)
    if not _is_text(kinds.get(name, "")):
        return column
    return f"CAST(replace(replace({column}, 'T', ' '), 'Z', '') AS TIMESTAMP)"


def _of_month(partitions: Sequence[str], month: date, begun: str) -> str:
    """Return the condition that keeps one billing month.

    By partition where there is one, so that only its files are scanned.
    """
    parts = {name.lower() for name in partitions}
    if "billing_period" in parts:
        return f"billing_period = '{month:%Y-%m}'"
    if {"year", "month"} <= parts:
        return f"year = '{month:%Y}' AND month IN ('{month.month}', '{month:%m}')"
    return f"{begun} = TIMESTAMP '{month:%Y-%m-01} 00:00:00'"


def read_of(columns: Columns) -> list[str]:
    """Return the columns that are read of a file, as SQL."""
    read = [*_keys_of(columns), *_read(columns, amounts=True), *columns.raw_discounts()]
    return list(dict.fromkeys(read))


def raw_of(columns: Columns, source: str, place: str) -> str:
    """Return the SQL that reads times and amounts of every row of `source`, and what each is of.

    A row is known by its `place` in the file. Numbers are read once.
    """
    names, inside = columns.names, columns.inside
    form, invoice, cost = "focus", "invoiceid", "billed"
    if columns.is_cur:
        form, invoice, cost = "cur", "bill_invoice_id", "cost"

    labels = {
        alias: columns.text(*words) for alias, words in names.items() if alias not in _AMOUNTS
    }
    labels |= {"period": columns.moment(names["period"][0]), "tags": columns.tags()}
    if columns.is_cur:
        labels |= {
            alias: f"coalesce({columns.text(*flat)}, {inside('product', *keys)})"
            for alias, flat, keys in (
                ("region", _PRODUCT[:2], ("region_code", "regionCode", "region")),
                ("instance_type", _PRODUCT[2:3], ("instance_type", "instanceType")),
                ("market", _PRODUCT[3:], ("marketoption",)),
            )
        }
    else:
        labels |= {
            alias: inside("skupricedetails", *keys)
            for alias, keys in (
                ("sku_usage_type", ("x_UsageType", "UsageType", "usagetype")),
                ("sku_instance_type", ("InstanceType", "x_InstanceType", "instance_type")),
            )
        }

    amounts = {}
    for alias, words in names.items():
        # Where the file holds a number it is not written and read: of ten million it takes seconds.
        number, text = columns.double(*words), columns.text(*words)
        if alias in _FLOATS:
            amounts[alias] = number or f"try_cast({text} AS DOUBLE)"
        elif alias in _SUMS - {"discount_total"}:
            amounts[alias] = f"money({text})"
            if number:
                amounts[alias] = f"coalesce(short_money({number}), money({number}::VARCHAR))"
    amounts |= {alias: columns.moment(names[alias][0]) for alias in ("starts", "ends")}
    amounts |= {alias: columns.text(*names[alias]) for alias in sorted(_TOLD & names.keys())}
    amounts["discount"] = columns.discount()
    amounts["said"] = columns.double(*names[cost]) or columns.text(*names[cost])

    rows = {"source": source, "place": place, "keys": ", ".join(_keys_of(columns))}
    has_invoice = str(columns.has(invoice)).upper()
    net = {"is_net": str(columns.is_net).upper()} if columns.is_cur else {}
    return sql(
        "raw",
        **rows,
        amounts=sql(f"{form}_amounts", aliases=_select(amounts), **net, **rows),
        labels=sql(form, aliases=_select(labels), has_invoice=has_invoice),
    )


def _keys_of(columns: Columns) -> list[str]:
    keys = [
        *_read(columns, amounts=False),
        *columns.raw((*_PRODUCT, *_INSIDE)),
        *columns.raw_tags(),
    ]
    # An export that holds times and amounts alone: its rows are all of one kind.
    return list(dict.fromkeys(keys)) or ["NULL"]


def _read(columns: Columns, *, amounts: bool) -> list[str]:
    return columns.raw(
        word
        for alias, words in columns.names.items()
        if (alias in _AMOUNTS) is amounts
        for word in words
    )


def _select(expressions: Mapping[str, str]) -> str:
    return ", ".join(f"{expression} AS {alias}" for alias, expression in expressions.items())
