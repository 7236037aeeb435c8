"""Recognise an export by its columns, and name them alike whatever the format calls them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum

from adapters.billing.sql import name, text


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
        return name(known[0][0]) if len(known) == 1 and known[0][1] == "DOUBLE" else ""

    def moment(self, word: str) -> str:
        """Return SQL for a time in UTC: as it stands where it is one, else as it reads."""
        column, kind = self._known.get(word, ("", ""))
        if kind == "TIMESTAMP WITH TIME ZONE":
            return f"{name(column)} AT TIME ZONE 'UTC'"
        return (
            f"{name(column)}::TIMESTAMP"
            if kind.startswith("TIMESTAMP")
            else f"moment({self.text(word)})"
        )

    def raw(self, names: Iterable[str]) -> list[str]:
        """Return those of the columns that are there, as SQL under the names that the file gives them."""
        return [name(self._known[word][0]) for word in dict.fromkeys(names) if word in self._known]

    def raw_tags(self) -> list[str]:
        """Return the columns that `tags` reads, as SQL."""
        return self.raw(("resource_tags", "tags")) or [
            name(column) for column, _ in self._raw if _TAG.match(column)
        ]

    def inside(self, column: str, *keys: str) -> str:
        """Return SQL for one key of a map, struct or JSON column.

        NULL where it is absent or says nothing.
        """
        if column not in self._known:
            return "NULL::VARCHAR"
        whole = self._json(*self._known[column])
        return _first(
            f"nullif(json_extract_string({whole}, {text('$.' + name(key))}), '')" for key in keys
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
            f"{text(key)}, {self._text(column, kind)}" for key, column, kind in single
        )
        return f"json_object({pairs})::VARCHAR"

    def _is_text(self, word: str) -> bool:
        return self._known[word][1] in ("VARCHAR", "JSON")

    def _text(self, column: str, _kind: str) -> str:
        return f"nullif(nullif(CAST({name(column)} AS VARCHAR), ''), 'NULL')"

    def _json(self, column: str, kind: str) -> str:
        if kind in ("VARCHAR", "JSON"):
            return f"CASE WHEN json_valid({name(column)}) THEN {name(column)} END"
        return f"to_json({name(column)})::VARCHAR"


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
