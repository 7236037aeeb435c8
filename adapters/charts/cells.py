"""Draw a heat map: a row each series, a cell each time, one hue whose lightness says how much."""

from __future__ import annotations

from datetime import UTC

from matplotlib.axes import Axes

from adapters.charts.ink import GREY, say
from bot.cards import axis
from bot.cards.card import Chart, Series

SHADES = ("#edf1f7", "#c8d5e8", "#9db5d8", "#6a90c6", "#3b6fb5")
"""From idle to busy; told apart by lightness alone."""
_NONE, _SEAM = "#ffffff", "#ffffff"


def heat(axes: Axes, chart: Chart) -> None:
    """Fill the axes with the chart's cells, names at their left, the last reading at their right, hours below."""
    axes.set_xlim(0, max(1, len(chart.times)))
    axes.set_ylim(max(1, len(chart.series)), 0)
    axes.set_axis_off()
    for row, series in enumerate(chart.series):
        _row(axes, series, row, chart.unit)
    where = axes.get_xaxis_transform()
    for i, at in enumerate(chart.times):
        if at.astimezone(UTC).hour % 4 == 0:
            say(axes, i, -0.05, f"{at.astimezone(UTC):%H:%M}", color=GREY, ha="center", va="top", transform=where)
    say(axes, 1.02, -0.05, "UTC", color=GREY, va="top", transform=axes.transAxes)


def _row(axes: Axes, series: Series, row: int, unit: str) -> None:
    shades = [axis.shade(value) for value in series.values]
    colours = [_NONE if shade is None else SHADES[shade] for shade in shades]
    lefts = [float(i) for i in range(len(colours))]
    axes.barh(row + 0.5, 1, left=lefts, height=0.86, color=colours, edgecolor=_SEAM, linewidth=0.8)
    say(axes, -0.3, row + 0.5, axis.shorten(series.name, 14), color=GREY, ha="right", va="center")
    if (end := axis.newest(series.values)) is not None:
        say(axes, len(series.values) + 0.3, row + 0.5, axis.figure(round(end[1]), unit), va="center", weight="bold")
