"""Write an answer's table as CSV.

The typed numbers of `--json`, unrounded, a column each, with its unit in the column's name.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from math import isnan
from typing import Any

from bot.answers.document import as_json, plain
from bot.answers.line import read_line
from bot.cards.card import Card, Table
from bot.errors import WrongInput
from bot.model.window import Window

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a spreadsheet takes for the beginning of a formula (OWASP, "CSV Injection".

Read 2026-11-22).
"""
_NAMELESS = ("key", "labels")
"""Parts of a row whose names say nothing that the names within them do not."""
Row = Mapping[str, str]


def csv_text(line: str, card: Card) -> str:
    """Return the table of a line's answer as CSV; raise `WrongInput` where it has none."""
    line = str(card.data.get("read_as", line))
    command = read_line(line).runs
    rows = list(_records(card, command.rows)) or list(_cells(card))
    if not rows:
        raise WrongInput(f"'{command.name}' answered without a table; --json has its numbers.")
    unit = card.data.get("currency", "USD")
    if unit != "USD":
        rows = [{**row, "currency": str(unit)} for row in rows]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    written = io.StringIO()
    writer = csv.DictWriter(written, columns, restval="")
    writer.writerow({name: _guarded(name) for name in columns})
    writer.writerows(rows)
    return written.getvalue()


def _records(card: Card, named: Sequence[str]) -> Iterator[Row]:
    """Yield the rows of the lists of records that the command names, else of the first one beside a table."""
    lists = {name: value for name, value in card.data.items() if _is_records(value)}
    tabled = any(isinstance(block, Table) for block in card.blocks)
    for name in named or (list(lists)[:1] if tabled else ()):
        for record in lists.get(name, ()):
            yield dict(_flat(record))


def _is_records(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(one, Mapping) for one in value)
    )


def _flat(record: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Yield column and cell of a record, those of a record within it after a dot."""
    for name, value in record.items():
        column = f"{before}{name}"
        match value:
            case Window():
                yield from (
                    (f"{column}.start", _cell(value.start)),
                    (f"{column}.end", _cell(value.end)),
                )
            case Mapping():
                yield from _flat(value, before if name in _NAMELESS else f"{column}.")
            case _:
                yield column, _cell(value)


def _cells(card: Card) -> Iterator[Row]:
    """Yield the rows of a table that no list of records tells, as they are drawn."""
    table = next((block for block in card.blocks if isinstance(block, Table)), None)
    for row in (table.every or table.rows) if table else ():
        assert table
        yield {
            column.name: _guarded(cell) for column, cell in zip(table.columns, row, strict=False)
        }


def _cell(value: Any) -> str:
    """Return a number as it is, and text so that no spreadsheet runs it."""
    if value is None or (isinstance(value, float) and isnan(value)):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple | set | frozenset):
        return _guarded("; ".join(one if isinstance(one, str) else as_json(one) for one in value))
    words = str(value) if isinstance(value, str | int | float) else str(plain(value))
    return words if isinstance(value, int | float | Decimal | timedelta) else _guarded(words)


def _guarded(words: str) -> str:
    return f"'{words}" if words.startswith(_FORMULA) else words
