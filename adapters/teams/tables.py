"""Write a table as a `SeriesTable` element, with lines of text for hosts before Adaptive Cards 1.5."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adapters.teams.markup import bare, short, words
from bot.cards.card import Align, Heading, Style, Table

Json = dict[str, Any]

ROWS_MOST = 40
COLUMNS_MOST = 8
_CELL_MOST = 200
_LINES_MOST = 12
_WORD, _MORE = 24, 10
"""Signs up to which a column grows with its longest word, and with what else its cells hold."""
_ROOMY = 5
"""Columns up to which there is room for more than words."""


def table_elements(table: Table, *, rich: bool) -> list[Json]:
    """Draw caption, table and the note on folded rows.

    `rich` adds lines of text for hosts without tables.
    """
    columns = table.columns[:COLUMNS_MOST]
    shown = [words(table.caption, bold=True)] if table.caption else []
    if columns:
        drawn = _table(table, columns)
        shown.append(drawn | {"fallback": _lines(table)} if rich else drawn)
    rest = _rest(table)
    return [*shown, words(rest, Style.QUIET)] if rest else shown


def _table(table: Table, columns: Sequence[Heading]) -> Json:
    head = _row([column.name for column in columns], columns, bold=True, style="emphasis")
    rows = [_row(row, columns) for row in table.rows[:ROWS_MOST]]
    total = [_row(table.total, columns, bold=True, style="emphasis")] if table.total else []
    return {
        "type": "Table",
        "columns": [{"width": width} for width in _widths(table, columns)],
        "showGridLines": False,
        "rows": [head, *rows, *total],
    }


def _row(
    cells: Sequence[str], columns: Sequence[Heading], *, bold: bool = False, style: str = ""
) -> Json:
    padded = [*cells, *[""] * len(columns)]
    drawn = [
        {"type": "TableCell", "items": [_cell(text, column, bold)]}
        for text, column in zip(padded, columns, strict=False)
    ]
    row: Json = {"type": "TableRow", "cells": drawn}
    return row | {"style": style} if style else row


def _cell(text: str, column: Heading, bold: bool) -> Json:
    align = "right" if column.align is Align.RIGHT else "left"
    return words(short(text, _CELL_MOST), align=align, bold=bold)


def _widths(table: Table, columns: Sequence[Heading]) -> list[int]:
    """Return relative widths.

    Each column's longest word, which Teams would else break, and room for more of them.
    """
    rows = [[c.name for c in columns], *table.rows[:ROWS_MOST], table.total]
    cells = [[row[i] for row in rows if i < len(row)] for i in range(len(columns))]
    words = [
        max((len(word) for cell in column for word in cell.split()), default=0) for column in cells
    ]
    longest = [max(len(cell) for cell in column) for column in cells]
    more = 0 if len(columns) > _ROOMY else _MORE
    edges = [4 if column.align is Align.RIGHT else 2 for column in columns]  # a number breaks worst
    sized = zip(words, longest, edges, strict=True)
    return [max(4, min(_WORD, word)) + edge + min(more, (n - word) // 4) for word, n, edge in sized]


def _lines(table: Table) -> Json:
    """Return the first rows as one line each."""
    rows = [
        table.columns and [c.name for c in table.columns],
        *table.rows[:_LINES_MOST],
        table.total,
    ]
    text = "\n".join(" · ".join(short(bare(cell), 60) for cell in row) for row in rows if row)
    return {"type": "Container", "items": [words(text)]}


def _rest(table: Table) -> str:
    """Return in words the rows and columns that the table does not show."""
    folded = len(table.rows) - ROWS_MOST
    narrowed = len(table.columns) - COLUMNS_MOST
    parts = [table.rest] if table.rest else []
    parts += [f"and {folded} more rows"] if folded > 0 else []
    parts += [f"{narrowed} more columns not shown"] if narrowed > 0 else []
    return "; ".join(parts)
