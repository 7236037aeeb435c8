"""Make pictures of charts as PNG: the console's SVG, with its colours and a font of the package.

The same chart gives the same bytes on every machine; several threads may draw at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from markupsafe import Markup
from resvg_py import svg_to_bytes

from adapters.charts.svg import (
    COLOURS,
    SHEET,
    Canvas,
    LinePlot,
    classes,
    element,
    hue,
    number,
    parts,
    percent,
)
from bot.cards import charts as axis
from bot.cards.card import Chart, ChartKind

WIDTH, HEIGHT, SCALE, FLOW_SCALE = 540, 264, 2, 1.5
"""Size in CSS pixels, and device pixels for each: as many as the densest phone shows.

A chat on a phone shows two thirds of it, and its words must stay legible. The bands of a flow take
more bytes for a pixel: a message of Teams has room for so many.
"""
_TOP, _TITLE, _FOOT = 62, 28, 36
"""Pixels above the plot, those of its title among them, and pixels below it, for the clock."""
_SIDES = {
    ChartKind.HEAT: (112, 58, 58),
    ChartKind.LINE: (58, 84, 152),
    ChartKind.BAR: (58, 24, 150),
    ChartKind.FLOW: (130, 182, 182),
}
"""Pixels left of the plot, right of it, and right of it beside the names of its colours."""
_TITLE_LETTERS, _KEY_LETTERS = 54, 16

_FONTS = [
    str(Path(__file__).parent / "fonts" / name)
    for name in ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf")
]
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_PAIR = re.compile(r"light-dark\(([^,()]+|\w+\([^()]*\)), ([^,()]+|\w+\([^()]*\))\)")

Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
LabelledWindow = tuple[datetime, datetime]


def draw(chart: Chart, *, dark: bool = False) -> bytes:
    """Return the chart as PNG, `WIDTH` by `HEIGHT` and less without a title, at its scale.

    It stands on an opaque card with round corners, white unless `dark`.
    """
    keyed = axis.named(chart)
    left, plain, named = _SIDES[chart.kind]
    untitled = 0 if chart.title else _TITLE
    top, tall = _TOP - untitled, HEIGHT - untitled
    width, height = WIDTH - left - (named if keyed else plain), tall - top - _FOOT

    canvas = Canvas(
        width,
        height,
        row=height / max(1, len(chart.series)),
        times=6,
        categories=7,
        letters=56,
        name=12,
        sums=7,
        roomy=0,
        pointed=False,
    )
    drawn = [
        element("rect", kind="paper", x=1, y=1, width=WIDTH - 2, height=tall - 2, rx=10),
        element("text", axis.shorten(chart.title, _TITLE_LETTERS), kind="title", x=20, y=29),
        _placed(left, top, canvas, parts(chart, canvas)),
    ]

    if chart.kind is ChartKind.BAR and keyed:
        # The names of the colours, in the order of the stack: its top first.
        key = list(enumerate(chart.series[:COLOURS]))[::-1]
        for row, (i, series) in enumerate(key):
            x, y = left + width + 11, top + 3 + row * 20
            name = axis.shorten(series.name or "none", _KEY_LETTERS)
            drawn += [
                element("rect", kind=f"bar {hue(series, i)}", x=x, y=y, width=10, height=10),
                element("text", name, kind="tick", x=x + 15, y=y + 9),
            ]

    return _png(
        drawn,
        f"{classes(chart)} picture",
        (WIDTH, tall),
        _sheet(dark),
        FLOW_SCALE if chart.kind is ChartKind.FLOW else SCALE,
    )


@dataclass(frozen=True)
class ScoredPlot:
    """Hold the metrics (n, m) of a series at n times, with score and flag (n,) of each row."""

    times: Sequence[datetime]
    values: Values
    scores: Values
    flags: Flags


_MIDDLE = """
.scored text { fill: #808893; font-size: 14px; }
.scored .title { fill: #808893; font-size: 18px; }
.scored .rule, .scored .base { stroke: #808893; stroke-opacity: 0.3; }
.scored .line { stroke-width: 1; } .scored .many { stroke-opacity: 0.6; }
.scored .only { stroke: #4184d8; } .scored .score { stroke: #808893; }
.limit { stroke: #808893; stroke-dasharray: 4 3; } .truth { fill: #d99a1e; fill-opacity: 0.25; }
.flag { stroke: #e0513f; stroke-opacity: 0.6; } .flagged { fill: #e0513f; }
"""
"""Colours of middle lightness, on no background: a page may be light or dark."""


def draw_scored(
    title: str, series: ScoredPlot, threshold: float, truth: Sequence[LabelledWindow] = ()
) -> bytes:
    """Return a PNG of 1600 x 700 pixels: the metrics above, and the score below.

    One metric is drawn as it is, several each in its own range. Flagged rows are marked in both
    plots; `truth` is shaded. nan is a gap in the line.
    """
    columns = series.values.reshape(len(series.values), -1).T
    # An infinite value is a gap, as nan is; a metric of gaps alone has no range, and is not drawn.
    columns = np.where(np.isfinite(columns), columns, np.nan)
    low = np.where(np.isnan(columns), np.inf, columns).min(axis=1, keepdims=True)
    high = np.where(np.isnan(columns), -np.inf, columns).max(axis=1, keepdims=True)
    ticks: Sequence[float] = (0.0, 0.5, 1.0)
    kinds, label = [f"line many s{i % COLOURS}" for i in range(len(columns))], "part of each range"
    if len(columns) > 1:
        columns = (columns - low) / np.where(high > low, high - low, 1.0)
    else:
        kinds, label = ["line only"], "value"
        if np.isfinite(low).all():
            first, last = float(low.min()), float(high.max())
            ticks = axis.ticks(first, last if last > first else first + 1)

    above, below = Canvas(1490, 410), Canvas(1490, 130, times=13)
    drawn = [element("text", title, kind="title", x=80, y=32)]
    for top, canvas, marks, words, curves in (
        (60, above, ticks, label, list(zip(kinds, columns.tolist(), strict=True))),
        (520, below, (0.0, threshold, 1.0), "score", [("line score", series.scores.tolist())]),
    ):
        plot = LinePlot(
            Chart(ChartKind.LINE, title, "", (), times=tuple(series.times)), canvas, marks
        )
        shapes = [
            element(
                "rect",
                kind="truth",
                x=percent(plot.x(start)),
                width=percent(plot.x(end) - plot.x(start)),
                y=0,
                height="100%",
            )
            for start, end in truth
        ]
        for instant, flagged in zip(series.times, series.flags, strict=True):
            if flagged:
                x = plot.x(instant) / 100 * canvas.width
                shapes += [
                    element("line", kind="flag", x1=x, x2=x, y1=0, y2="100%"),
                    element("path", kind="flagged", d=f"M{number(x - 5)} -9h10l-5 9z"),
                ]
        shapes += [*plot.grid(), plot.shapes(curves)]
        if canvas is below:
            y = percent(plot.y(threshold))
            shapes += [element("line", kind="limit", x1=0, x2="100%", y1=y, y2=y), *plot.clock()]
        drawn.append(_placed(80, top, canvas, shapes))

        side = f"translate(24 {number(top + canvas.height / 2)}) rotate(-90)"
        drawn.append(element("text", words, transform=side, anchor="middle"))

    drawn += [
        element("path", kind="flagged", d="M1385 22h10l-5 9z"),
        element("text", "spoke", x=1400, y=32),
    ]
    if len(truth):
        drawn += [
            element("rect", kind="truth", x=1460, y=20, width=24, height=12),
            element("text", "labelled", x=1490, y=32),
        ]
    return _png(drawn, "chart scored", (1600, 700), _sheet(dark=False) + _MIDDLE, 1)


def _placed(x: float, y: float, canvas: Canvas, drawn: Iterable[Markup]) -> Markup:
    """Return a plot at its place of a picture; its labels stand around it."""
    box = {"x": x, "y": y, "width": canvas.width, "height": canvas.height}
    return element("svg", Markup("").join(drawn), **box, overflow="visible")


def _png(
    drawn: Iterable[Markup], kind: str, size: tuple[int, int], sheet: str, scale: float
) -> bytes:
    """Return a picture of parts; letters that no XML may hold are left out."""
    picture = element(
        "svg",
        Markup("").join(drawn),
        xmlns="http://www.w3.org/2000/svg",
        kind=kind,
        width=size[0],
        height=size[1],
    )
    return svg_to_bytes(
        svg_string=_NOT_XML.sub("", picture),
        style_sheet=sheet,
        zoom=scale,
        skip_system_fonts=True,
        font_files=_FONTS,
        font_family="DejaVu Sans",
    )


@cache
def _sheet(dark: bool) -> str:
    """Return the style sheet with the colours of one theme written out."""
    # resvg knows neither `light-dark()` nor `var()`; the first block of rules defines the colours.
    rules = _PAIR.sub(lambda pair: pair[2 if dark else 1], SHEET.read_text(encoding="utf-8"))
    colours = dict(re.findall(r"--([\w-]+): ([^;]+);", rules))
    return re.sub(r"var\(--([\w-]+)\)", lambda use: colours[use[1]], rules.partition("}")[2])
