"""Draw a chart with block characters: a sparkline a series, a bar a category."""

from __future__ import annotations

from datetime import UTC
from typing import assert_never

from bot.cards import charts as axis
from bot.cards.card import Chart, ChartKind, Series

_RISING = "▁▂▃▄▅▆▇█"
_DARKER = "·░▒▓█"
_PARTS = " ▏▎▍▌▋▊▉█"
_MOST_BARS = 20


def chart_lines(chart: Chart, width: int) -> list[str]:
    """Return the chart's lines, each at most `width` columns."""
    match chart.kind:
        case ChartKind.LINE:
            return _lines(chart, width)
        case ChartKind.BAR:
            return _bars(chart, width)
        case ChartKind.HEAT:
            return _heat(chart, width)
        case _:
            assert_never(chart.kind)


def _lines(chart: Chart, width: int) -> list[str]:
    if not chart.times:
        return []
    low, high = axis.extent(chart)
    names = [
        axis.shorten(series.name, 14) if len(chart.series) > 1 else "" for series in chart.series
    ]
    left = max(map(len, names), default=0) + (1 if any(names) else 0)
    ends = [
        axis.figure(end[1], chart.unit) if (end := axis.newest(s.values)) else "no reading"
        for s in chart.series
    ]
    room = max(8, min(width - left - max(map(len, ends), default=0) - 1, 96))
    drawn = [
        f"{name:<{left}}{_spark(series.values, low, high, room)} {end}"
        for name, series, end in zip(names, chart.series, ends, strict=True)
    ]
    return [*drawn, *_under(chart, left, min(room, len(chart.times)), width)]


def _spark(values: tuple[float | None, ...], low: float, high: float, room: int) -> str:
    """Return one character a step, or the mean of the steps that share it; a gap stays blank."""
    cells = min(room, len(values))
    drawn = []
    for i in range(cells):
        part = [
            v
            for v in values[i * len(values) // cells : (i + 1) * len(values) // cells]
            if v is not None and axis.is_reading(v)
        ]
        level = (sum(part) / len(part) - low) / (high - low) if part else None
        drawn.append(" " if level is None else _RISING[min(7, max(0, int(level * 8)))])
    return "".join(drawn)


def _under(chart: Chart, left: int, room: int, width: int) -> list[str]:
    """Mark the incident under the line, then the first and last time, then the usual."""
    start, end = chart.times[0], chart.times[-1]
    span = (end - start).total_seconds() or 1.0
    lines = []
    if chart.shaded is not None:
        first = round((chart.shaded.start - start).total_seconds() / span * (room - 1))
        last = round((chart.shaded.end - start).total_seconds() / span * (room - 1))
        first, last = max(0, min(first, room - 1)), max(0, min(last, room - 1))
        mark, since = "▔" * (last - first + 1), f"since {chart.shaded.start.astimezone(UTC):%H:%M}"
        before = max(0, left + first - len(since) - 1)
        fits = left + last + 2 + len(since) <= width
        lines.append(
            " " * (left + first) + f"{mark} {since}"
            if fits
            else f"{' ' * before}{since} {mark}"[:width]
        )
    head, tail = f"{start.astimezone(UTC):%d %b %H:%M}", f"{end.astimezone(UTC):%d %b %H:%M} UTC"
    lines.append(" " * left + head + " " * max(1, room - len(head) - len(tail)) + tail)
    if chart.band is not None:
        lines.append(" " * left + f"usual {axis.span(*chart.band, chart.unit)}")
    return lines


def _heat(chart: Chart, width: int) -> list[str]:
    """Draw a row of cells each series, its last reading at the end, and the hours below."""
    if not chart.times:
        return []
    names = [axis.shorten(series.name, 14) for series in chart.series]
    left = max(map(len, names), default=0) + 1
    each = max(1, min(3, (width - left - 8) // len(chart.times)))
    drawn = [
        f"{name:<{left}}{_cells(series.values, each)} {_last(series, chart)}"
        for name, series in zip(names, chart.series, strict=True)
    ]
    tail = f"{chart.times[-1].astimezone(UTC):%H:%M} UTC"
    head = f"{chart.times[0].astimezone(UTC):%d %b %H:%M}"
    return [
        *drawn,
        " " * left + head + " " * max(1, each * len(chart.times) - len(head) - len(tail)) + tail,
    ]


def _cells(values: tuple[float | None, ...], each: int) -> str:
    return "".join(
        (" " if (dark := axis.shade(value)) is None else _DARKER[dark]) * each for value in values
    )


def _last(series: Series, chart: Chart) -> str:
    return (
        axis.figure(round(end[1]), chart.unit)
        if (end := axis.newest(series.values))
        else "no reading"
    )


def _bars(chart: Chart, width: int) -> list[str]:
    """Draw a bar for each category, of several series their sum."""
    sums = [
        sum(v for s in chart.series for v in s.values[i : i + 1] if v is not None)
        for i in range(len(chart.categories))
    ]
    names = [axis.shorten(name or "(none)", 24) for name in chart.categories]
    left = max(map(len, names), default=0)
    ends = [axis.figure(value, chart.unit) for value in sums]
    room = max(4, min(width - left - max(map(len, ends), default=0) - 2, 60))
    top = max([abs(value) for value in sums] or [0.0]) or 1.0
    drawn = [
        f"{name:<{left}} {_bar(abs(value) / top * room)} {end}"
        for name, value, end in zip(names, sums, ends, strict=True)
    ]
    rest = len(drawn) - _MOST_BARS
    if rest > 0 and chart.timed:
        return [f"{rest} earlier, and", *drawn[-_MOST_BARS:]]
    return [*drawn[:_MOST_BARS], f"and {rest} more"] if rest > 0 else drawn


def _bar(length: float) -> str:
    whole = int(length)
    return ("█" * whole + _PARTS[int((length - whole) * 8)]).rstrip()
