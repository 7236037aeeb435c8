"""Draw charts as PNG for chats: matplotlib's `Figure` alone, without pyplot's global state."""

from __future__ import annotations

import io
import threading
from datetime import UTC, datetime
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from PIL import Image

from bot.cards import charts as axis
from bot.cards.card import Chart, ChartKind, Series, Tone

WIDTH, HEIGHT, SCALE = 540, 264, 3
"""Size in CSS pixels, and device pixels for each.

A chat on a phone shows two thirds of it, and its words must stay legible.
"""

_LEFT, _NAMES, _GAP = 58, 112, 0.02
"""Pixels left of the plot, and of a heat map's names.

Distance of labels from it, as a share of its width.
"""
_LABELS = 7
"""Categories that are named, and sums that stand over bars."""

_INK, _GREY = "#1f2328", "#6b7280"
_CARD, _EDGE, _RULE = "#ffffff", "#e3e5e8", "#eceef1"
_USUAL, _USUAL_INK = "#dcebe2", "#3f7a5c"
_ALARM, _ALARM_WASH = "#c2321e", "#fbe6e1"
PALETTE = ("#3b6fb5", "#cc781f", "#4b9b7a", "#8a63b5", "#c75b7a", "#7d8794", "#a18b28", "#3d94a9")
"""Series colours, told apart in colour blindness by lightness too."""
SHADES = ("#edf1f7", "#c8d5e8", "#9db5d8", "#6a90c6", "#3b6fb5")
"""Colours of a heat map from idle to busy, told apart by lightness alone."""

TONES = {
    Tone.CRITICAL: "#c8452f",
    Tone.WARNING: "#cc781f",
    Tone.INFO: "#3b6fb5",
    Tone.OVER: "#8a929a",
    Tone.GOOD: "#4b9b7a",
    Tone.ERROR: "#a2457f",
}
"""Colours of series that have a meaning."""

_DRAWING = threading.Lock()
"""Matplotlib's font cache is shared between figures and is not thread-safe."""


def draw(chart: Chart) -> bytes:
    """Return the chart as PNG, `WIDTH * SCALE` by `HEIGHT * SCALE` pixels, on an opaque white card with round corners.

    The same chart gives the same bytes. Safe to call from several threads.
    """
    with _DRAWING:
        figure = Figure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=100 * SCALE)
        FigureCanvasAgg(figure)
        _card(figure)
        left, right = _NAMES if chart.kind is ChartKind.HEAT else _LEFT, _right(chart)
        axes = figure.add_axes(
            (left / WIDTH, 36 / HEIGHT, (WIDTH - left - right) / WIDTH, (HEIGHT - 36 - 62) / HEIGHT)
        )
        axes.set_facecolor("none")
        _write(
            figure,
            20 / WIDTH,
            1 - 24 / HEIGHT,
            axis.shorten(chart.title, 62),
            size=10.5,
            weight="bold",
            va="center",
        )
        match chart.kind:
            case ChartKind.LINE:
                _frame(axes, chart)
                _lines(axes, chart)
            case ChartKind.BAR:
                _frame(axes, chart)
                _bars(axes, chart)
            case ChartKind.HEAT:
                _heat(axes, chart)
        return _png(figure)


def _right(chart: Chart) -> int:
    """Return the pixels at the right that direct labels or the colours' names need."""
    if chart.kind is ChartKind.HEAT:
        return 58
    if axis.named(chart):
        return 138 if chart.kind is ChartKind.LINE else 108
    return 84 if chart.kind is ChartKind.LINE else 24


def _hue(series: Series, i: int) -> str:
    return TONES[series.tone] if series.tone else PALETTE[i % len(PALETTE)]


def _png(figure: Figure) -> bytes:
    """Return the picture in 64 colours.

    It looks the same and is a third of the size, so that it fits a message.
    """
    drawn, file = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", facecolor="none")
    few = (
        Image.open(drawn)
        .convert("RGBA")
        .quantize(64, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    )
    few.save(file, format="PNG", optimize=True)
    return file.getvalue()


def _card(figure: Figure) -> None:
    """Lay a white card with round corners, one pixel in from the edges, under everything."""
    figure.patch.set_alpha(0)
    figure.add_artist(
        FancyBboxPatch(
            (1 / WIDTH, 1 / HEIGHT),
            1 - 2 / WIDTH,
            1 - 2 / HEIGHT,
            boxstyle=f"round,pad=0,rounding_size={10 / WIDTH}",
            mutation_aspect=WIDTH / HEIGHT,
            transform=figure.transFigure,
            facecolor=_CARD,
            edgecolor=_EDGE,
            linewidth=0.8,
            zorder=-10,
        )
    )


def _frame(axes: Axes, chart: Chart) -> None:
    """Set the value axis: few ticks with the unit, hairlines, no box."""
    marks = axis.marks(chart)
    slack = (
        marks[-1] - marks[0]
    ) * 0.015  # half a line's width, so that a value on the top tick is not cut
    axes.set_ylim(marks[0] - slack * (marks[0] < 0), marks[-1] + slack)
    axes.tick_params(length=0, labelbottom=False, labelleft=False)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
    for mark, label in zip(marks, axis.tick_labels(marks, chart.unit), strict=True):
        axes.axhline(mark, color=_RULE if mark else "#c9cdd3", linewidth=0.8, zorder=0.5)
        where = axes.get_yaxis_transform()
        _write(
            axes, -_GAP * 0.8, mark, label, color=_GREY, ha="right", va="center", transform=where
        )


def _lines(axes: Axes, chart: Chart) -> None:
    if not chart.times:
        return
    at = np.array([_days(instant) for instant in chart.times])
    axes.set_xlim(at[0], at[-1] if at[-1] > at[0] else at[0] + 1)
    _clock(axes, chart)
    _usual(axes, chart)
    inside = _incident(axes, chart)
    for i, series in enumerate(chart.series):
        values = np.array(
            [np.nan if value is None else value for value in series.values], dtype=float
        )
        _line(axes, at, values, _hue(series, i))
        if inside is not None and len(chart.series) == 1:
            _line(axes, at, np.where(inside, values, np.nan), _ALARM)
    _ends(axes, chart, at, alarmed=inside is not None)


def _line(axes: Axes, at: np.ndarray[Any, Any], values: np.ndarray[Any, Any], colour: str) -> None:
    """Draw one line with gaps, and a dot for each reading that stands alone between two gaps."""
    axes.plot(
        at,
        values,
        color=colour,
        linewidth=1.8,
        solid_capstyle="round",
        solid_joinstyle="round",
        zorder=3,
    )
    gap = np.isnan(np.concatenate(([np.nan], values, [np.nan])))
    alone = ~gap[1:-1] & gap[:-2] & gap[2:]
    axes.plot(at[alone], values[alone], ".", color=colour, markersize=4, zorder=3)


def _days(at: datetime) -> float:
    return at.timestamp() / 86_400


def _clock(axes: Axes, chart: Chart) -> None:
    where = axes.get_xaxis_transform()
    for instant, label in axis.time_ticks(chart.times[0], chart.times[-1], _LABELS - 1):
        x = _days(instant)
        axes.plot(
            [x, x], [0, -0.025], color="#c9cdd3", linewidth=0.8, transform=where, clip_on=False
        )
        _write(axes, x, -0.06, label, color=_GREY, ha="center", va="top", transform=where)
    _write(
        axes, -1.5 * _GAP, -0.06, "UTC", color=_GREY, ha="right", va="top", transform=axes.transAxes
    )


def _usual(axes: Axes, chart: Chart) -> None:
    """Shade the band of usual values and say so in it."""
    if chart.band is None:
        return
    low, high = chart.band
    axes.axhspan(low, high, facecolor=_USUAL, edgecolor="none", zorder=0.2)
    words = f"usual\n{axis.span(low, high, chart.unit)}"
    _write(
        axes,
        1 + _GAP,
        (low + high) / 2,
        words,
        color=_USUAL_INK,
        va="center",
        size=8,
        transform=axes.get_yaxis_transform(),
    )


def _incident(axes: Axes, chart: Chart) -> np.ndarray[Any, Any] | None:
    """Shade the incident, say since when, and return which times lie in it."""
    if chart.shaded is None:
        return None
    start, end = _days(chart.shaded.start), _days(chart.shaded.end)
    left, right = axes.get_xlim()
    start, end = max(start, left), min(end, right)
    if end <= start:
        return None
    axes.axvspan(start, end, facecolor=_ALARM_WASH, edgecolor="none", zorder=0.3)
    axes.axvline(start, color=_ALARM, linewidth=0.9, zorder=2)
    late = start > left + (right - left) * 0.85
    words = f"since {chart.shaded.start.astimezone(UTC):%H:%M}"
    if end < right:
        words = (
            f"{chart.shaded.start.astimezone(UTC):%H:%M}-{chart.shaded.end.astimezone(UTC):%H:%M}"
        )
    place = {
        "ha": "right" if late else "left",
        "va": "bottom",
        "transform": axes.get_xaxis_transform(),
    }
    _write(axes, start, 1.03, words, color=_ALARM, size=8.5, weight="bold", **place)
    return np.array([chart.shaded.start <= t <= chart.shaded.end for t in chart.times])


def _ends(axes: Axes, chart: Chart, at: np.ndarray[Any, Any], *, alarmed: bool) -> None:
    """Label each line at its last reading: the value now, and the name where there are several."""
    low, high = axes.get_ylim()
    least = (high - low) * 0.10
    several = len(chart.series) > 1
    last = -np.inf
    ends = [
        (end[1], end[0], i)
        for i, s in enumerate(chart.series)
        if (end := axis.newest(s.values)) is not None
    ]
    for value, index, i in sorted(ends):
        colour = _ALARM if alarmed and not several else _hue(chart.series[i], i)
        axes.plot(
            at[index],
            value,
            "o",
            color=colour,
            markersize=5,
            markeredgecolor=_CARD,
            zorder=4,
            clip_on=False,
        )
        y = max(value, last + least)
        if chart.band and not several and chart.band[0] - least < y < chart.band[1] + least:
            middle = (chart.band[0] + chart.band[1]) / 2
            y = middle - 1.3 * least if value <= middle else middle + 1.3 * least
        name = f"{axis.shorten(chart.series[i].name, 12)} " if several else ""
        size, weight = (8, "bold") if several else (12, "bold")
        words = name + axis.figure(value, chart.unit)
        where = axes.get_yaxis_transform()
        _write(
            axes,
            1 + _GAP,
            y,
            words,
            color=colour,
            size=size,
            weight=weight,
            va="center",
            transform=where,
        )
        last = y


def _bars(axes: Axes, chart: Chart) -> None:
    """Draw one stack a category.

    Name the colours at the top, or the values over the bars of a single series.
    """
    count = len(chart.categories)
    if not count:
        return
    axes.set_xlim(-0.5, count - 0.5)
    above, below = np.zeros(count), np.zeros(count)
    seam = 0.6 if len(chart.series) > 1 else 0.0
    for i, series in enumerate(chart.series):
        values = _column(series, count)
        foot = np.where(values >= 0, above, below)
        colour = _hue(series, i)
        seams = np.where(values != 0, seam, 0.0)  # a bar of nothing would rub out the axis
        axes.bar(
            np.arange(count),
            values,
            width=0.68,
            bottom=foot,
            color=colour,
            edgecolor=_CARD,
            linewidth=seams,
            zorder=2,
        )
        above, below = above + np.maximum(values, 0), below + np.minimum(values, 0)
    _categories(axes, chart)
    if axis.named(chart):
        _legend(axes, chart)
    if count <= _LABELS:
        for x, top in enumerate(above):
            if top:
                _write(
                    axes,
                    x,
                    top,
                    axis.brief(float(top), chart.unit),
                    ha="center",
                    va="bottom",
                    weight="bold",
                    size=8,
                )


def _column(series: Series, count: int) -> np.ndarray[Any, Any]:
    values = [
        value if value is not None and axis.is_reading(value) else 0.0
        for value in series.values[:count]
    ]
    return np.array(values + [0.0] * (count - len(values)), dtype=float)


def _categories(axes: Axes, chart: Chart) -> None:
    stride = axis.thinned(len(chart.categories), _LABELS)
    letters = max(7, 56 // min(_LABELS, len(chart.categories)))
    for x in range(0, len(chart.categories), stride):
        words = axis.shorten(chart.categories[x] or "none", letters)
        _write(
            axes,
            x,
            -0.05,
            words,
            color=_GREY,
            ha="center",
            va="top",
            transform=axes.get_xaxis_transform(),
        )


def _legend(axes: Axes, chart: Chart) -> None:
    """Name the colours in a column at the right, the top of the stack first."""
    shown = list(enumerate(chart.series))[:8]
    for row, (i, series) in enumerate(reversed(shown)):
        y = 0.96 - row * 0.125
        axes.plot(
            [1 + 1.4 * _GAP],
            [y],
            "s",
            color=_hue(series, i),
            markersize=6,
            transform=axes.transAxes,
            clip_on=False,
        )
        name = axis.shorten(series.name or "none", 12)
        _write(
            axes,
            1 + 2.4 * _GAP,
            y,
            name,
            color=_GREY,
            va="center",
            size=8,
            transform=axes.transAxes,
        )


def _write(on: Axes | Figure, x: float, y: float, words: str, **style: Any) -> None:
    """Write text that is never read as TeX: a `$` from data stays a `$`."""
    style = {
        "color": _INK,
        "fontsize": style.pop("size", 8.5),
        "fontweight": style.pop("weight", "normal"),
        **style,
    }
    on.text(x, y, words, parse_math=False, clip_on=False, **style)


def _heat(axes: Axes, chart: Chart) -> None:
    """Fill the axes with the chart's cells, names at their left, the last reading at their right, hours below."""
    axes.set_xlim(0, max(1, len(chart.times)))
    axes.set_ylim(max(1, len(chart.series)), 0)
    axes.set_axis_off()
    for row, series in enumerate(chart.series):
        _heat_row(axes, series, row, chart.unit)
    where = axes.get_xaxis_transform()
    for i, at in enumerate(chart.times):
        if at.astimezone(UTC).hour % 4 == 0:
            _write(
                axes,
                i,
                -0.05,
                f"{at.astimezone(UTC):%H:%M}",
                color=_GREY,
                ha="center",
                va="top",
                transform=where,
            )
    _write(axes, 1.02, -0.05, "UTC", color=_GREY, va="top", transform=axes.transAxes)


def _heat_row(axes: Axes, series: Series, row: int, unit: str) -> None:
    shades = [axis.shade(value) for value in series.values]
    colours = [_CARD if shade is None else SHADES[shade] for shade in shades]
    lefts = [float(i) for i in range(len(colours))]
    axes.barh(row + 0.5, 1, left=lefts, height=0.86, color=colours, edgecolor=_CARD, linewidth=0.8)
    _write(
        axes, -0.3, row + 0.5, axis.shorten(series.name, 14), color=_GREY, ha="right", va="center"
    )
    if (end := axis.newest(series.values)) is not None:
        _write(
            axes,
            len(series.values) + 0.3,
            row + 0.5,
            axis.figure(round(end[1]), unit),
            va="center",
            weight="bold",
        )
