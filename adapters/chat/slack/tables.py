"""Draw tables and charts: as text, or as Slack's own blocks where they say all that ours say."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from adapters.chat.cards import Json
from adapters.chat.slack import markup
from bot.cards.card import Align, Card, Chart, ChartKind, Heading, Table

_WIDEST = {1: 90, 2: 64, 3: 48}
_WIDEST_OF_MANY = 60
_PHONE = 46  # monospaced signs of a line that a phone shows before it breaks one, and the columns with it


def table_text(table: Table, most: int) -> str:
    """Return caption and a code block of up to `most` characters.

    Rows that do not fit are counted in its last line.
    """
    caption = markup.strong(markup.cut(table.caption, 200))
    head, *rows, total = _lines(table)
    if _width(head.partition("\n")[2]) > _PHONE and any((*table.rows, table.total)):
        return _list(table, caption, most)
    room = most - markup.size(caption) - markup.size(head) - markup.size(total) - 80
    fitting: list[str] = []
    for row in rows:
        room -= markup.size(row) + 1
        if room < 0:
            break
        fitting.append(row)
    more = f"… and {len(rows) - len(fitting):,} more rows" if len(fitting) < len(rows) else ""
    body = "\n".join(line for line in (head, *fitting, more, total) if line)
    return "\n".join(
        part
        for part in (caption, f"```\n{markup.cut(body, most - markup.size(caption) - 10)}\n```")
        if part
    )


def total_line(table: Table) -> str:
    """Return the total in one line, each figure after its column's name."""
    return _point(table.total, table.columns).removeprefix("• ")


def _lines(table: Table) -> list[str]:
    """Return header, every row and the total ("" without one), aligned and escaped."""
    columns = table.columns
    cells = [
        _row(row, len(columns)) for row in ([c.name for c in columns], *table.rows, table.total)
    ]
    widths = [max(_width(row[n]) for row in cells) for n in range(len(columns))]
    lines = [_line(row, columns, widths) for row in cells]
    ruler = "─" * (sum(widths) + 2 * (len(widths) - 1))
    lines[0] += f"\n{ruler}"
    lines[-1] = f"{ruler}\n{lines[-1]}" if table.total else ""
    return lines


def _list(table: Table, caption: str, most: int) -> str:
    """Return a point for each row: its first cell bold, the others after their column's name."""
    points = [_point(row, table.columns) for row in table.rows if row]
    total = _point(table.total, table.columns) if table.total else ""
    total = total if markup.size(total) <= most // 3 else "…"  # no real one is longer
    fitting: list[str] = []
    room = most - markup.size(caption) - markup.size(total) - 80
    for point in points:
        room -= markup.size(point) + 1
        if room < 0:
            break
        fitting.append(point)
    more = f"… and {len(points) - len(fitting):,} more rows" if len(fitting) < len(points) else ""
    return "\n".join(part for part in (caption, *fitting, more, total) if part)


def _point(row: Sequence[str], columns: Sequence[Heading]) -> str:
    first, *cells = [markup.cut(markup.one_line(cell), _WIDEST[1]) for cell in row[: len(columns)]]
    names = [
        "" if _needs_no_name(n, columns) else f"{markup.cut(markup.one_line(c.name), 40)} "
        for n, c in enumerate(columns[1:])
    ]
    facts = [f"{name}{cell}" for name, cell in zip(names, cells, strict=False) if cell]
    return f"• {markup.strong(first)}: {markup.escape(' · '.join(facts))}".rstrip()


def _needs_no_name(n: int, columns: Sequence[Heading]) -> bool:
    """Return whether a cell needs no name: the only one after the first, or words right behind it."""
    return len(columns) == 2 or (n == 0 and columns[1].align is Align.LEFT)


def _row(row: Sequence[str], n: int) -> list[str]:
    """Return exactly `n` cells of one line each."""
    widest = _WIDEST.get(n, _WIDEST_OF_MANY)
    cells = [markup.cut(markup.one_line(cell), widest) for cell in row[:n]]
    return cells + [""] * (n - len(cells))


def _line(row: Sequence[str], columns: Sequence[Heading], widths: Sequence[int]) -> str:
    cells = [
        _pad(cell, column.align, width)
        for cell, column, width in zip(row, columns, widths, strict=True)
    ]
    return markup.escape_controls("  ".join(cells).rstrip()).replace(
        "`", "ˋ"
    )  # three graves would end the block


def _pad(cell: str, align: Align, width: int) -> str:
    space = " " * (width - _width(cell))
    return space + cell if align is Align.RIGHT else cell + space


def _width(text: str) -> int:
    """Return the columns a monospaced font takes: two for the wide signs of East Asia."""
    return sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text)


TABLES = 1
"""Tables of a message.

Of Slack's older `table` it takes no more (`only_one_table_allowed`), and of this none is
documented.
"""
ROWS, COLUMNS, PAGE = 100, 20, 10
CHARTS, BARS = 2, 20
_CELL, _CAPTION, _TITLE, _LABEL, _AXIS = 200, 150, 50, 20, 50
_MOST = 7_000
"""Characters of a table's JSON, about half of what a message holds."""
_LEAST = 3
"""Rows under which there is nothing to sort or to leaf through."""
_NUMBER = re.compile(r"(-?)\$?(\d[\d,]*(?:\.\d+)?)(?: ?%|x)?")


def draws(card: Card) -> bool:
    """Return whether something of the card is drawn by Slack's own blocks."""
    return bool(native_charts(card)) or any(
        isinstance(block, Table) and table_block(block) for block in card.blocks
    )


def table_block(table: Table) -> tuple[Json, int] | None:
    """Return the block, which leafs through rows that are folded elsewhere, and how many of all it leaves out.

    None where a list in words says it better. The total is not a row of it.
    """
    goes_on = table.every[: len(table.rows)] == table.rows  # else its rows stand for several each
    every = table.every if goes_on else table.rows
    if not (len(every) >= _LEAST and 1 < len(table.columns) <= COLUMNS):
        return None
    head = [_text(column.name) for column in table.columns]
    rows, room = [head], _MOST - _size(head)
    for row in every[:ROWS]:
        cells = [
            _cell(row[n] if n < len(row) else "", column.align)
            for n, column in enumerate(table.columns)
        ]
        room -= _size(cells)
        if room < 0:
            break
        rows.append(cells)
    caption = markup.cut(markup.one_line(table.caption or table.columns[0].name), _CAPTION)
    block = {"type": "data_table", "caption": caption or "table", "page_size": PAGE, "rows": rows}
    return (block, len(every) + 1 - len(rows)) if len(rows) > _LEAST else None


def native_charts(card: Card) -> dict[int, Json]:
    """Return Slack's own block for the first charts that it can draw, by their place among the card's charts."""
    charts = enumerate(block for block in card.blocks if isinstance(block, Chart))
    drawn = ((place, chart_block(chart)) for place, chart in charts)
    return dict([(place, block) for place, block in drawn if block][:CHARTS])


def chart_block(chart: Chart) -> Json | None:
    """Return bars as Slack draws them, side by side; None for all else."""
    labels = [_label(name) for name in chart.categories]
    alone = (
        len(chart.series) == 1
    )  # several series are stacked, and Slack would put them side by side
    distinct = 0 < len(set(labels)) == len(labels) <= BARS and all(labels)
    if chart.kind is not ChartKind.BAR or not (alone and distinct):
        return None
    (one,) = chart.series
    points = _points(labels, one.values)
    if len(points) != len(labels):
        return None
    series = [{"name": _label(one.name) or "value", "data": points}]
    axis = {"categories": labels} | (
        {"y_label": markup.cut(chart.unit, _AXIS)} if chart.unit else {}
    )
    title = markup.cut(markup.one_line(chart.title), _TITLE) or "Chart"
    return {
        "type": "data_visualization",
        "title": title,
        "chart": {"type": "bar", "series": series, "axis_config": axis},
    }


def _points(labels: Sequence[str], values: Sequence[float | None]) -> list[Json]:
    """Return a point for each reading: a missing one is none, and never 0."""
    pairs = zip(labels, values, strict=False)
    return [
        {"label": label, "value": round(value, 4)}
        for label, value in pairs
        if value is not None and math.isfinite(value)
    ]


def _label(name: str) -> str:
    return markup.cut(markup.one_line(name), _LABEL)


def _cell(text: str, align: Align) -> Json:
    """Return a cell.

    One that sorts by its number where the column is of numbers and the whole cell is one.
    """
    shown = markup.cut(markup.one_line(text), _CELL)
    number = _NUMBER.fullmatch(shown) if align is Align.RIGHT else None
    if number is None:
        return _text(shown)
    return {
        "type": "raw_number",
        "value": float(f"{number[1]}{number[2].replace(',', '')}"),
        "text": shown,
    }


def _text(text: str) -> Json:
    return {"type": "raw_text", "text": markup.cut(markup.one_line(text), _CELL) or "–"}


def _size(cells: Sequence[dict[str, Any]]) -> int:
    return len(json.dumps(cells, ensure_ascii=False)) + 2
