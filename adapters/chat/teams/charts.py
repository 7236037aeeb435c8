"""Draw charts and tables as Teams' own elements, with a picture or words for hosts that lack them."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from datetime import datetime, timedelta

from adapters.chat.cards import Json, short
from adapters.chat.teams.elements import bare, words
from bot.cards import charts as axis
from bot.cards.card import Align, Chart, ChartKind, Heading, Style, Table, Tone

POINTS_MOST = 60
SERIES_MOST = 8
BARS_MOST = 30
_COLORS = ("categoricalBlue", "categoricalMarigold", "categoricalTeal", "categoricalPurple")
_TONES = {
    Tone.CRITICAL: "attention",
    Tone.WARNING: "warning",
    Tone.INFO: "categoricalBlue",
    Tone.OVER: "neutral",
    Tone.GOOD: "good",
    Tone.ERROR: "categoricalPurple",
}
_PARTS = 4
"""Parts into which Teams cuts an axis, whatever its length: four round ones need round ends."""
_LENGTHS = (
    1.0,
    2.0,
    3.0,
    4.0,
    5.0,
    6.0,
    8.0,
    10.0,
    12.0,
    16.0,
    20.0,
    24.0,
    28.0,
    32.0,
    36.0,
    40.0,
    48.0,
    60.0,
    72.0,
)
"""Hours or days whose quarter is easily read."""
_USUAL = "neutral"
_LONG = timedelta(days=3)


def chart_elements(chart: Chart) -> list[Json]:
    """Draw a chart: the native element, or its words alone when it holds nothing that can be drawn."""
    summary = _summary(chart)
    if chart.kind is ChartKind.HEAT:
        return [words(_title(chart), bold=True), summary]
    native = _line(chart) if chart.kind is ChartKind.LINE else _bars(chart)
    if not native["data"]:
        return [summary]
    title = words(
        _title(chart), bold=True
    )  # Teams reads a chart's own title to screen readers alone
    return [title, native | {"fallback": "drop"}, summary]


def with_picture(elements: Sequence[Json], chart: Chart, png: bytes) -> list[Json]:
    """Return a chart's elements with the PNG for hosts without charts.

    It stands in for heat maps, which Teams lacks, and for stacked bars: it ignores the ends of
    their axis, so that the labels are never round.
    """
    url = "data:image/png;base64," + base64.b64encode(png).decode("ascii")
    picture = {
        "type": "Image",
        "url": url,
        "altText": short(bare(chart.summary or chart.title), 500),
        "size": "stretch",
    }
    if chart.kind is ChartKind.HEAT or any(element.get("stacked") for element in elements):
        return [picture, elements[-1]]  # it shows its title itself
    return [
        element | {"fallback": picture} if "fallback" in element else element
        for element in elements
    ]


def _summary(chart: Chart) -> Json:
    return words(chart.summary or chart.title, Style.QUIET)


def _title(chart: Chart) -> str:
    named = f"{chart.title} ({chart.unit})" if chart.unit else chart.title
    return short(bare(named), 120) or "Chart"


def _line(chart: Chart) -> Json:
    """Return a `Chart.Line`; the usual band becomes two quiet level lines.

    Teams draws instants as categories, one label each, so they are written as hours (or days)
    before the end.
    """
    if not chart.times:
        return {"data": []}
    at, title = _scale(chart.times)
    data = []
    for series, color in zip(chart.series[:SERIES_MOST], _colors(chart), strict=False):
        points = _points(at, series.values)
        if points:
            data.append({"legend": _legend(series.name), "color": color, "values": points})
    if chart.band and data:  # the axis begins where its lines do
        low, high = chart.band
        names = f"usual from {axis.figure(low, '')}", f"to {axis.figure(high, chart.unit)}"
        data += [
            _level(name, (_start(at[0]), 0.0), y) for name, y in zip(names, chart.band, strict=True)
        ]
    titles = {"title": _title(chart), "xAxisTitle": title, "yAxisTitle": _unit(chart)}
    return {"type": "Chart.Line", **titles, **_range(chart), "data": data}


def _range(chart: Chart) -> Json:
    """Return the ends of the value axis, so that each part is round, and whole where things are counted."""
    low, high = axis.extent(chart)
    if low < 0 or not math.isfinite(high):
        return {}
    marks = axis.ticks(0.0, high, _PARTS + 1, least=1.0 if axis.counts(chart) else 0.0)
    return {"yMin": 0, "yMax": _rounded((marks[1] - marks[0]) * _PARTS)}


def _start(first: float) -> float:
    """Return where an axis of hours or days begins, at or before its first reading."""
    return -next((length for length in _LENGTHS if length >= -first), float(math.ceil(-first)))


def _scale(times: Sequence[datetime]) -> tuple[list[float], str]:
    """Return each instant as its distance to the last, and the title of the axis."""
    unit, name = (86_400.0, "days") if times[-1] - times[0] > _LONG else (3_600.0, "hours")
    return [
        _rounded((time - times[-1]).total_seconds() / unit) for time in times
    ], f"{name} before {times[-1]:%d %b %H:%M} UTC"


def _level(name: str, ends: tuple[float, float], y: float) -> Json:
    return {"legend": name, "color": _USUAL, "values": [{"x": x, "y": _rounded(y)} for x in ends]}


def _points(at: Sequence[float], values: Sequence[float | None]) -> list[Json]:
    """Return at most `POINTS_MOST` points, each the mean of its stretch.

    A stretch without a reading has none.
    """
    n = min(len(at), len(values))
    stride = max(1, math.ceil(n / POINTS_MOST))
    points = []
    for start in range(0, n, stride):
        seen = [v for v in values[start : start + stride] if v is not None and math.isfinite(v)]
        if seen:
            points.append(
                {
                    "x": at[min(start + stride, n) - 1],
                    "y": _rounded(math.fsum(v / len(seen) for v in seen)),
                }
            )
    return points


def _bars(chart: Chart) -> Json:
    """Return a `Chart.VerticalBar`, grouped and stacked when there are several series."""
    shared = {"title": _title(chart), "xAxisTitle": "", "yAxisTitle": _unit(chart)}
    if not axis.named(chart):
        bars = _values(chart, chart.series[0].values) if chart.series else []
        return {"type": "Chart.VerticalBar", **shared, **_range(chart), "data": bars}
    groups = [
        {"legend": _legend(series.name), "color": color, "values": _values(chart, series.values)}
        for series, color in zip(chart.series[:SERIES_MOST], _colors(chart), strict=False)
    ]
    return {
        "type": "Chart.VerticalBar.Grouped",
        **shared,
        "stacked": True,
        "data": [g for g in groups if g["values"]],
    }


def _values(chart: Chart, values: Sequence[float | None]) -> list[Json]:
    """Return the bars of a series; of more than there is room for the first, of times the newest."""
    pairs = list(zip(chart.categories, values, strict=False))
    return [
        {"x": short(bare(name), 40), "y": _rounded(value)}
        for name, value in (pairs[-BARS_MOST:] if chart.timed else pairs[:BARS_MOST])
        if value is not None and math.isfinite(value)
    ]


def _legend(name: str) -> str:
    return short(bare(name), 40) or "value"


def _unit(chart: Chart) -> str:
    return short(bare(chart.unit), 40)


def _colors(chart: Chart) -> list[str]:
    """Return each series' colour: its meaning's, else its place's."""
    return [
        _TONES[one.tone] if one.tone else _COLORS[i % len(_COLORS)]
        for i, one in enumerate(chart.series)
    ]


def _rounded(value: float) -> float:
    """Keep four significant digits: a chart needs no more, and bytes count."""
    rounded = float(f"{value:.4g}")
    return (
        rounded if math.isfinite(rounded) else value
    )  # the largest numbers would round up to infinity


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
