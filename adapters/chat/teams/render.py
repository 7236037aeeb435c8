"""Draw a Card as an Adaptive Card 1.5 (the version of Universal Actions), within a budget of bytes.

Blocks are dropped from the last when the budget bites, and the card says which; title and first
text survive. Charts and tables are Teams' own elements, with a picture or words for hosts that lack
them, as documented in "Charts in Adaptive Cards" (Microsoft Teams, read 2026-11-20).
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import accumulate

from adapters.chat.config import Json
from adapters.chat.teams.elements import (
    Mentions,
    action_rows,
    bare,
    button_sets,
    escape,
    form_elements,
    paragraph,
    pings,
    runs,
    words,
)
from bot.cards import charts as axis
from bot.cards.card import (
    MISSING,
    Align,
    Attachment,
    Block,
    Buttons,
    Card,
    Chart,
    ChartKind,
    Code,
    Facts,
    Form,
    Heading,
    Link,
    Strong,
    Style,
    Table,
    Text,
    Tone,
    is_detail,
    plain,
    text,
    unnamed,
)
from bot.cards.words import row_words, short
from bot.model.money import counted
from bot.model.window import utc_text
from bot.ports import Draw

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
_PICTURES = (ChartKind.HEAT, ChartKind.FLOW)
"""Kinds that Teams cannot draw."""
_LONG = timedelta(days=3)


def chart_elements(chart: Chart) -> list[Json]:
    """Draw a chart: the native element, or its words alone when it holds nothing to draw."""
    summary = words(chart.summary or chart.title, Style.QUIET)
    title = words(short(bare(chart.title), 120) or "Chart", bold=True)
    if chart.kind in _PICTURES:
        return [title, summary]
    native = _line(chart) if chart.kind is ChartKind.LINE else _bars(chart)
    if not native["data"]:
        return [summary]

    # Teams reads a chart's own title to screen readers alone: who sees the chart needs no summary.
    full_title = ": ".join(filter(None, (chart.title, chart.summary)))
    native["title"] = short(bare(full_title), 500) or "Chart"
    return [title, native | {"fallback": summary}]


def with_picture(elements: Sequence[Json], chart: Chart, png: bytes) -> list[Json]:
    """Return a chart's elements, its title and the chart, with an untitled PNG for hosts without charts.

    It stands in for heat maps and flows, which Teams lacks, and for stacked bars: it ignores the ends of
    their axis, so that the labels are never round.
    """
    title, drawn = elements
    picture = {
        "type": "Image",
        "url": "data:image/png;base64," + base64.b64encode(png).decode("ascii"),
        "altText": short(bare(chart.summary or chart.title), 500),
        "size": "stretch",
    }
    if chart.kind in _PICTURES or drawn.get("stacked"):
        return [title, picture]
    return [title, drawn | {"fallback": picture}]


def _line(chart: Chart) -> Json:
    """Return a `Chart.Line`; the usual band becomes two quiet level lines.

    Teams draws instants as categories, one label each, so they are written as hours (or days)
    before the end.
    """
    if not chart.times:
        return {"data": []}
    end = chart.times[-1]
    seconds, unit = (86_400.0, "days") if end - chart.times[0] > _LONG else (3_600.0, "hours")
    # In 64ths, of which Teams adds up the parts of its axis to 0 and not to something beside it.
    places = [round((time - end).total_seconds() / seconds * 64) / 64 for time in chart.times]

    data = []
    for series, color in zip(chart.series[:SERIES_MOST], _colors(chart), strict=False):
        # Each point is the mean of its stretch; a stretch without a reading has none.
        n = min(len(places), len(series.values))
        stride = max(1, math.ceil(n / POINTS_MOST))
        points = []
        for start in range(0, n, stride):
            stretch = series.values[start : start + stride]
            values = [value for value in stretch if value is not None and math.isfinite(value)]
            if values:
                mean = math.fsum(value / len(values) for value in values)
                points.append({"x": places[min(start + stride, n) - 1], "y": _rounded(mean)})
        if points:
            data.append({"legend": _legend(series.name), "color": color, "values": points})

    if chart.band and data:
        # The axis begins where these lines do, at or before its first reading.
        length = next((hours for hours in _LENGTHS if hours >= -places[0]), math.ceil(-places[0]))
        low, high = chart.band
        names = f"usual from {axis.figure(low, '')}", f"to {axis.figure(high, chart.unit)}"
        for name, y in zip(names, chart.band, strict=True):
            level = [{"x": x, "y": _rounded(y)} for x in (-float(length), 0.0)]
            data.append({"legend": name, "color": _USUAL, "values": level})
    return {
        "type": "Chart.Line",
        "xAxisTitle": f"{unit} before {utc_text(end)}",
        "yAxisTitle": _unit(chart),
        **_range(chart),
        "data": data,
    }


def _range(chart: Chart) -> Json:
    """Return the ends of the value axis.

    Each part is round, and whole where things are counted.
    """
    low, high = axis.extent(chart)
    if low < 0 or not math.isfinite(high):
        return {}
    marks = axis.ticks(0.0, high, _PARTS + 1, least=1.0 if axis.counts(chart) else 0.0)
    return {"yMin": 0, "yMax": _rounded((marks[1] - marks[0]) * _PARTS)}


def _bars(chart: Chart) -> Json:
    """Return a `Chart.VerticalBar`, grouped and stacked when there are several series."""
    shared = {"xAxisTitle": "", "yAxisTitle": _unit(chart)}
    if not axis.named(chart):
        bars = _values(chart, chart.series[0].values) if chart.series else []
        return {"type": "Chart.VerticalBar", **shared, **_range(chart), "data": bars}
    groups = [
        {"legend": _legend(series.name), "color": color, "values": _values(chart, series.values)}
        for series, color in zip(chart.series[:SERIES_MOST], _colors(chart), strict=False)
    ]
    data = [group for group in groups if group["values"]]
    return {"type": "Chart.VerticalBar.Grouped", **shared, "stacked": True, "data": data}


def _values(chart: Chart, values: Sequence[float | None]) -> list[Json]:
    """Return the bars of a series: where there is no room for all the first, of times the newest."""
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
        _TONES[series.tone] if series.tone else _COLORS[place % len(_COLORS)]
        for place, series in enumerate(chart.series)
    ]


def _rounded(value: float) -> float:
    """Keep four significant digits: a chart needs no more, and bytes count."""
    rounded = float(f"{value:.4g}")
    # The largest numbers would round up to infinity.
    return rounded if math.isfinite(rounded) else value


ROWS_MOST = 40
COLUMNS_MOST = 8
_CELL_MOST = 200
_LINES_MOST = 12
_WORD, _MORE = 24, 10
"""Signs up to which a column grows with its longest word, and with what else its cells hold."""
_ROW, _SMALL_ROW = 48, 64
"""Signs of a row on a phone 390 wide, each column's edge among them; and where it is small."""


_UNBROKEN = re.compile(r"-?[^\s-]+-?")
"""Matches what stands on one line: Teams breaks a line behind a hyphen as well."""


def table_elements(table: Table, *, rich: bool) -> list[Json]:
    """Draw caption, table and the note on folded rows.

    `rich` adds lines of text for hosts without tables. Where a phone would break even small words,
    each row is a paragraph.
    """
    columns = table.columns[:COLUMNS_MOST]
    heads = [column.name for column in table.columns]
    elements = [words(table.caption, bold=True)] if table.caption else []
    widths, least = _widths(table, columns)
    small, is_list = least > _ROW, least > _SMALL_ROW
    if is_list:
        elements += [
            _point(row, table.columns) for row in (*table.rows[:ROWS_MOST], table.total) if row
        ]
    elif columns:
        drawn: Json = {
            "type": "Table",
            "columns": [{"width": width} for width in widths],
            "showGridLines": False,
            "rows": [
                _row(heads, columns, bold=True, small=small),
                *[_row(row, columns, small=small) for row in table.rows[:ROWS_MOST]],
                *([_row(table.total, columns, bold=True, small=small)] if table.total else []),
            ],
        }
        if rich:
            lines = [heads, *table.rows[:_LINES_MOST], table.total]
            plain_rows = [
                " · ".join(short(bare(cell), 60) for cell in line) for line in lines if line
            ]
            drawn["fallback"] = {"type": "Container", "items": [words("\n".join(plain_rows))]}
        elements.append(drawn)

    folded = len(table.rows) - ROWS_MOST
    narrowed = 0 if is_list else len(table.columns) - COLUMNS_MOST
    notes = (
        table.rest,
        f"and {folded} more rows" if folded > 0 else "",
        f"{narrowed} more columns not shown" if narrowed > 0 else "",
    )
    note = "; ".join(filter(None, notes))
    return [*elements, words(note, Style.QUIET)] if note else elements


def _point(row: Sequence[str], columns: Sequence[Heading]) -> Json:
    first, facts = row_words(row, columns)
    words = " · ".join(facts)
    return runs((Strong(short(first, _CELL_MOST)), words and f": {words}"))


def _row(
    cells: Sequence[str], columns: Sequence[Heading], *, bold: bool = False, small: bool = False
) -> Json:
    """Return a row; a bold one is the head or the total."""
    drawn: list[Json] = []
    for cell, column in zip([*cells, *[""] * len(columns)], columns, strict=False):
        item = words(short(cell, _CELL_MOST), align=column.align.value, bold=bold)
        if small:
            item["inlines"] = [run | {"size": "small"} for run in item["inlines"]]
        drawn.append({"type": "TableCell", "items": [item]})
    row: Json = {"type": "TableRow", "cells": drawn}
    return row | {"style": "emphasis"} if bold else row


def _widths(table: Table, columns: Sequence[Heading]) -> tuple[list[int], int]:
    """Return relative widths, and the signs that its words need side by side.

    A column has room for its longest word, which Teams would else break, and a share of what the
    row has left.
    """
    rows = [[column.name for column in columns], *table.rows[:ROWS_MOST], table.total]
    least, more = [], []
    for place, column in enumerate(columns):
        cells = [row[place] for row in rows if place < len(row)]
        word = max((len(word) for cell in cells for word in _UNBROKEN.findall(cell)), default=0)
        longest = max(len(cell) for cell in cells)
        edge = 4 if column.align is Align.RIGHT else 2  # a number breaks worst
        least.append(max(4, min(_WORD, word)) + edge)
        more.append(min(_MORE, (longest - word) // 4))

    left, wanted = max(0, _ROW - sum(least)), max(1, sum(more))
    widths = [
        width + wish * min(left, wanted) // wanted for width, wish in zip(least, more, strict=True)
    ]
    return widths, sum(least)


ALERT_BYTES = 27_000
"""The most of a card in a message of 28 KB, the limit of a Workflows webhook, and its envelope."""
ANSWER_BYTES = 78_000
"""What a card may weigh in a bot's message.

Teams takes about 100 KB, 80 leaves room for the envelope.
"""
_PICTURE_LEAST = 16_000
"""Under this room no chart ever fits, so none is drawn."""
_NOTE = 400
_PEOPLE_MOST = 10

_LOOK = {
    Tone.CRITICAL: "attention",
    Tone.WARNING: "warning",
    Tone.INFO: "accent",
    Tone.OVER: "emphasis",
    Tone.GOOD: "good",
    Tone.ERROR: "attention",
}


def weigh(document: object) -> int:
    """Return the bytes of a document as it is sent."""
    return len(dumps(document))


def dumps(document: object) -> bytes:
    """Write JSON as it is sent: compact UTF-8."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


_NOUNS = {
    "facts": ("list of facts", "lists of facts"),
    "text": ("paragraph",),
    "buttons": ("row of buttons", "rows of buttons"),
}
"""What a reader calls a kind of block, one and several."""


@dataclass(frozen=True)
class _Piece:
    """Hold one block as drawn, and whom it pings."""

    block: Block
    elements: Sequence[Json]
    pings: Sequence[Json]

    @property
    def bytes(self) -> int:
        return weigh(self.elements) + weigh(self.pings)


def render(
    card: Card, draw: Draw | None = None, *, budget: int = ANSWER_BYTES, stands: bool = False
) -> Json:
    """Return the Adaptive Card, at most `budget` bytes (not under 24,000) when sent.

    `draw` makes the picture for hosts without charts, where room is left. `stands` marks a message
    whose card a press must not replace.
    """
    mentions = Mentions()
    shell = _shell(card, mentions)
    folded = [f"detail{n}" for n, block in enumerate(card.blocks) if is_detail(block)]
    room = (
        budget
        - weigh(shell)
        - _NOTE
        - (weigh([{"type": "ActionSet", "actions": [_toggle(folded)]}]) if folded else 0)
    )
    end = 0
    pieces = _fitting(card, mentions, room, stands)
    spare = room - sum(piece.bytes for piece in pieces)
    dropped = card.blocks[len(pieces) :]

    for piece in pieces:
        drawn = list(piece.elements)
        # A chart gets its picture as long as there is room, and nothing had to go.
        has_room = not dropped and spare > _PICTURE_LEAST
        if draw and has_room and isinstance(piece.block, Chart) and len(drawn) > 1:
            pictured = with_picture(drawn, piece.block, draw(replace(piece.block, title="")))
            cost = weigh(pictured) - weigh(drawn)
            if cost <= spare:
                drawn, spare = pictured, spare - cost
        shell["body"] += drawn
        if isinstance(piece.block, Buttons) and drawn:
            end = len(shell["body"])

    # Shown and folded again on the reader's device, at a press among the last buttons.
    details = [element["id"] for element in shell["body"] if element.get("id") in folded]
    if details:
        actions = shell["body"].pop(end - 1)["actions"] if end else []
        place = end - 1 if end else len(shell["body"])
        shell["body"][place:place] = action_rows([*actions, _toggle(details)])
    if dropped:
        counts = Counter(type(block).__name__.lower() for block in dropped)
        parts = [counted(n, *_NOUNS.get(kind, (kind,))) for kind, n in counts.items()]
        shell["body"].append(
            words(f"Left out, the message would be too long: {', '.join(parts)}.", Style.QUIET)
        )
    _ping(shell, [ping for piece in pieces for ping in piece.pings])
    return shell


def _fitting(card: Card, mentions: Mentions, room: int, stands: bool) -> list[_Piece]:
    """Return the first blocks that fit.

    The tables' plain-text fallbacks are given up before any block.
    """
    pieces: list[_Piece] = []
    for rich in (True, False):
        pieces = [
            _Piece(block, _elements(block, number, mentions, rich, stands), mentions.take())
            for number, block in enumerate(card.blocks)
        ]
        if sum(piece.bytes for piece in pieces) <= room:
            return pieces

    sizes = accumulate(piece.bytes for piece in pieces)
    fitting = [piece for piece, size in zip(pieces, sizes, strict=True) if size <= room]
    first = pieces[0].block if pieces else None
    if not fitting and isinstance(first, Text):
        # As much of a first paragraph as always fits.
        return [_Piece(first, [words(short(plain(first.spans), 1500), first.style)], [])]
    return fitting


def _elements(
    block: Block, number: int, mentions: Mentions, rich: bool, stands: bool
) -> list[Json]:
    """Draw one block; the one place that knows them all."""
    hidden = {"id": f"detail{number}", "isVisible": False} if is_detail(block) else {}
    match block:
        case Text() | Attachment():
            drawn = paragraph(block if isinstance(block, Text) else _offer(block), mentions)
            return [drawn | hidden]
        case Facts(pairs=pairs):
            facts = [
                {"title": escape(short(name, 100)), "value": escape(short(value, 1000)) or MISSING}
                for name, value in pairs
            ]
            return [{"type": "FactSet", "facts": facts} | hidden] if facts else []
        case Table():
            return table_elements(block, rich=rich)
        case Chart():
            return chart_elements(block)
        case Buttons():
            return button_sets(block, stands=stands)
        case Form():
            return form_elements(block, number, stands=stands)


def _toggle(folded: Sequence[str]) -> Json:
    """Return the button that shows the elements of these ids."""
    return {"type": "Action.ToggleVisibility", "title": "Details", "targetElements": folded}


def _offer(file: Attachment) -> Text:
    """Link to the file: a bot puts none into a channel of Teams without each person's consent."""
    if file.url:
        return text(Link(file.name, file.url))
    hint = "The console gives it where it has a public address; in a terminal: "
    return text(hint, Code(f"trnbot {file.line} --csv"))


def _shell(card: Card, mentions: Mentions) -> Json:
    """Return the card with its coloured first line and the people it is for."""
    title = short(" ".join(card.title.split()), 300) or "trnbot"
    head = words(title, bold=True)
    for run in head["inlines"]:
        run["size"] = "medium"
    body: list[Json] = [
        {"type": "Container", "style": _LOOK[card.tone], "bleed": True, "items": [head]}
    ]
    shell = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.5",
        "fallbackText": escape(title),
        "msteams": {"width": "Full"},
        "body": body,
    }

    people = [mention for mention in unnamed(card) if pings(mention)][:_PEOPLE_MOST]
    if people:
        body.append(paragraph(Text(("For ", *people)), mentions))
    _ping(shell, mentions.take())
    return shell


def _ping(shell: Json, entities: Sequence[Json]) -> None:
    """Add entities, each text once."""
    entities = [*shell["msteams"].get("entities", []), *entities]
    by_text = {entity["text"]: entity for entity in entities}
    if by_text:
        shell["msteams"]["entities"] = list(by_text.values())
