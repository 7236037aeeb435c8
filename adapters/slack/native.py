"""Draw a table and charts as Slack's own `data_table` and `data_visualization`, where they say all that ours say.

Source: docs.slack.dev, reference/block-kit/blocks (read 2026-11-22). Documented or measured limits
differ between readers; the lowest of them holds here. A chart with a band, a shaded incident, bars
that add up or a gap stays a picture.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

from adapters.slack import markup
from adapters.slack.markup import Json
from bot.cards.card import Align, Card, Chart, ChartKind, Table

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
