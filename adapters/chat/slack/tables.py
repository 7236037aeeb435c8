"""Draw tables and charts: as text, or as Slack's own blocks where they say all that ours say.

A table is monospaced text, or a list where a phone would break its lines. Slack's own are
`data_table` and `data_visualization`, not the older `table`: a message may hold only one
(`only_one_table_allowed`, read 2026-11-21), where some answers have three. A chart with a band, a
shaded incident, bars that add up or a gap stays a picture.

Source: docs.slack.dev, reference/block-kit/blocks (read 2026-11-22). Documented or measured limits
differ between readers; the lowest of them holds here.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Sequence

from adapters.chat.config import Json
from adapters.chat.slack.markup import cut, escape, escape_controls, one_line, size, strong
from bot.cards.card import Align, Card, Chart, ChartKind, Heading, Table

_WIDEST = {1: 90, 2: 64, 3: 48}
_WIDEST_OF_MANY = 60
_PHONE = 46
"""Monospaced signs of a line that a phone shows before it breaks one, and the columns with it."""


def table_text(table: Table, most: int) -> str:
    """Return caption and a code block of up to `most` characters.

    Rows that do not fit are counted in its last line. Where a line is too long for a phone, a list:
    a point for each row, its first cell bold, the others after their column's name.
    """
    caption = strong(cut(table.caption, 200))
    head, *rows, total = _lines(table)
    room = most - size(caption) - 80
    if _width(head.partition("\n")[2]) > _PHONE and any((*table.rows, table.total)):
        points = [_point(row, table.columns) for row in table.rows if row]
        total = _point(table.total, table.columns) if table.total else ""
        total = total if size(total) <= most // 3 else "…"  # no real one is longer
        return _joined(caption, *_fitting(points, room - size(total)), total)

    body = _joined(head, *_fitting(rows, room - size(head) - size(total)), total)
    return _joined(caption, f"```\n{cut(body, most - size(caption) - 10)}\n```")


def _joined(*lines: str) -> str:
    return "\n".join(filter(None, lines))


def _fitting(lines: Sequence[str], room: int) -> list[str]:
    """Return the first lines that fit, and one that counts those which do not."""
    for n, line in enumerate(lines):
        room -= size(line) + 1
        if room < 0:
            return [*lines[:n], f"… and {len(lines) - n:,} more rows"]
    return list(lines)


_ALL = "100 %"


def total_line(table: Table) -> str:
    """Return the total in one line, each figure after its column's name."""
    # A total's share is always all of it.
    shown = [(cell, x) for cell, x in zip(table.total, table.columns, strict=False) if cell != _ALL]
    cells, columns = zip(*shown, strict=True) if shown else ((), ())

    return _point(cells, columns).removeprefix("• ")


def _lines(table: Table) -> list[str]:
    """Return header, every row and the total ("" without one), aligned and escaped."""
    columns, count = table.columns, len(table.columns)
    widest = _WIDEST.get(count, _WIDEST_OF_MANY)
    rows = ([column.name for column in columns], *table.rows, table.total)
    cells = [
        [cut(one_line(cell), widest) for cell in (*row, *[""] * count)[:count]] for row in rows
    ]
    widths = [max(_width(row[n]) for row in cells) for n in range(count)]

    lines = []
    for row in cells:
        padded = []
        for cell, column, width in zip(row, columns, widths, strict=True):
            space = " " * (width - _width(cell))
            padded.append(space + cell if column.align is Align.RIGHT else cell + space)
        # Three graves would end the block.
        lines.append(escape_controls("  ".join(padded).rstrip()).replace("`", "ˋ"))

    ruler = "─" * (sum(widths) + 2 * (count - 1))
    lines[0] += f"\n{ruler}"
    lines[-1] = f"{ruler}\n{lines[-1]}" if table.total else ""
    return lines


def _point(row: Sequence[str], columns: Sequence[Heading]) -> str:
    first, *cells = [cut(one_line(cell), _WIDEST[1]) for cell in row[: len(columns)]]
    facts = []
    for n, (cell, column) in enumerate(zip(cells, columns[1:], strict=False)):
        # The only one after the first needs no name, nor do words right behind it.
        is_plain = len(columns) == 2 or (n == 0 and column.align is Align.LEFT)
        name = "" if is_plain else f"{cut(one_line(column.name), 40)} "
        facts += [f"{name}{cell}"] if cell else []
    return f"• {strong(first)}: {escape(' · '.join(facts))}".rstrip()


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
    return bool(native_charts(card)) or any(map(table_block, card.each(Table)))


def table_block(table: Table) -> tuple[Json, int] | None:
    """Return the block, and how many rows of all it leaves out.

    It leafs through rows that are folded elsewhere. None where a list in words says it better. The
    total is not a row of it.
    """
    # Where the folded rows do not go on, the rows stand for several each.
    every_row = table.every if table.every[: len(table.rows)] == table.rows else table.rows
    if not (len(every_row) >= _LEAST and 1 < len(table.columns) <= COLUMNS):
        return None

    head = [_raw_text(column.name) for column in table.columns]
    rows, room = [head], _MOST - _weight(head)
    for row in every_row[:ROWS]:
        cells = []
        for n, column in enumerate(table.columns):
            # A cell sorts by its number where the column is of numbers and the whole cell is one.
            text = cut(one_line(row[n] if n < len(row) else ""), _CELL)
            cell = _raw_text(text)
            number = _NUMBER.fullmatch(text)
            if number and column.align is Align.RIGHT:
                cell = {
                    "type": "raw_number",
                    "value": float(f"{number[1]}{number[2].replace(',', '')}"),
                    "text": text,
                }
            cells.append(cell)
        room -= _weight(cells)
        if room < 0:
            break
        rows.append(cells)

    caption = cut(one_line(table.caption or table.columns[0].name), _CAPTION) or "table"
    block = {"type": "data_table", "caption": caption, "page_size": PAGE, "rows": rows}
    return (block, len(every_row) + 1 - len(rows)) if len(rows) > _LEAST else None


def _raw_text(text: str) -> Json:
    return {"type": "raw_text", "text": cut(one_line(text), _CELL) or "–"}


def _weight(cells: Sequence[Json]) -> int:
    return len(json.dumps(cells, ensure_ascii=False)) + 2


def native_charts(card: Card) -> dict[int, Json]:
    """Return Slack's own block for the first charts that it can draw.

    By their place among the card's charts.
    """
    drawn = enumerate(map(chart_block, card.each(Chart)))
    return dict([(place, block) for place, block in drawn if block][:CHARTS])


def chart_block(chart: Chart) -> Json | None:
    """Return bars as Slack draws them, side by side; None for all else."""
    labels = [_label(name) for name in chart.categories]
    distinct = 0 < len(set(labels)) == len(labels) <= BARS and all(labels)

    # Several series are stacked, and Slack would put them side by side.
    if chart.kind is not ChartKind.BAR or len(chart.series) != 1 or not distinct:
        return None

    # A missing reading is no point, and never 0.
    (series,) = chart.series
    points = [
        {"label": label, "value": round(value, 4)}
        for label, value in zip(labels, series.values, strict=False)
        if value is not None and math.isfinite(value)
    ]
    if len(points) != len(labels):
        return None
    bars = [{"name": _label(series.name) or "value", "data": points}]
    axis = {"categories": labels} | ({"y_label": cut(chart.unit, _AXIS)} if chart.unit else {})
    return {
        "type": "data_visualization",
        "title": cut(one_line(chart.title), _TITLE) or "Chart",
        "chart": {"type": "bar", "series": bars, "axis_config": axis},
    }


def _label(name: str) -> str:
    return cut(one_line(name), _LABEL)
