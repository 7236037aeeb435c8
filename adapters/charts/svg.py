"""Draw charts as SVG that a style sheet colours: crisp at any width, light or dark.

On a page the plot stretches while its words keep their size: shapes stand in a nested view box that
may be stretched, words at percentages of the outer box. No style attributes, so the strictest
policy allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

from markupsafe import Markup, escape

from bot.cards import charts as axis
from bot.cards.card import Chart, ChartKind, Series
from bot.cards.words import percent as share_words
from bot.model.window import utc_text

SHEET = Path(__file__).parent / "chart.css"
"""Colours and letters of the parts of a chart, light and dark."""
COLOURS = 8
"""Series colours that the style sheet defines, `s0` to `s7`."""

_ATTRIBUTES = {"kind": "class", "anchor": "text-anchor", "view": "viewBox"}
_MOST_HITS = 120
_FLOW_GAP = 2.5
"""Percent of the height between two parts of a side of a flow."""
_HATCH = Markup(
    '<defs><pattern id="partial" width="6" height="6" patternUnits="userSpaceOnUse"'
    ' patternTransform="rotate(45)"><rect class="hatch" width="3" height="6"/></pattern></defs>'
)


@dataclass(frozen=True)
class Canvas:
    """State the room of a drawing; the defaults are a page's, whose plot stretches with it."""

    width: float = 1000
    """Of the view box of the shapes, as is `height`: pixels where nothing stretches."""
    height: float = 100
    row: float = 26
    """Pixels of a row of a heat map."""
    row_name: int = 22
    """Letters of a name behind the bands of a flow; before them it has `name`."""
    times: int = 7
    """Labels of the time axis at most."""
    categories: int = 10
    """Labels of the bars at most, which share so many `letters`."""
    letters: int = 96
    name: int = 14
    """Letters of a line's name beside its end."""
    sums: int = 16
    """Bars at most whose sums stand over them; beyond `roomy` of them, the sums are brief."""
    roomy: int = 10
    pointed: bool = True
    """Whether a pointer may rest on it: columns under it then tell their values."""
    address: Callable[[str], str] | None = None
    """Gives the address that opens a line, where a part of the chart can be pressed."""

    def opened(self, line: str, drawn: Markup) -> Markup:
        """Return a part of a chart that opens its line when it is pressed, without script too."""
        return element("a", drawn, href=self.address(line)) if self.address and line else drawn


def svg(chart: Chart, canvas: Canvas) -> Markup:
    """Return the chart as an `<svg>` of a page, with an accessible title and description."""
    height = len(chart.series) * canvas.row if chart.kind is ChartKind.HEAT else 176
    if chart.kind is ChartKind.FLOW:
        height = max(height, 22 * max(len(chart.series), len(chart.categories)))
        canvas = replace(canvas, height=height)
    drawn = Markup("").join(parts(chart, canvas))
    # What is pressed inside a picture, nobody who hears it finds.
    role = "group" if "<a " in drawn else "img"
    return Markup(
        '<svg class="{}" role="{}" width="100%" height="{}">'
        "<title>{}</title><desc>{}</desc>{}</svg>"
    ).format(classes(chart), role, number(height), chart.title, chart.summary, drawn)


def parts(chart: Chart, canvas: Canvas) -> Iterator[Markup]:
    """Yield the parts of a chart, the background first."""
    match chart.kind:
        case ChartKind.LINE if chart.times:
            yield from LinePlot(chart, canvas).parts()
        case ChartKind.BAR if chart.categories:
            yield from _BarPlot(chart, canvas).parts()
        case ChartKind.HEAT if chart.times:
            yield from _heat_map(chart, canvas)
        case ChartKind.FLOW if chart.categories:
            yield from _flow(chart, canvas)


def classes(chart: Chart) -> str:
    """Return the classes of the box of a chart."""
    return f"chart {chart.kind.value} {'many' if len(chart.series) > 1 else 'one'}"


def hue(series: Series, i: int) -> str:
    """Return the class that colours a series: its meaning's, else its place's in the palette."""
    return f"t-{series.tone.value}" if series.tone else f"s{i % COLOURS}"


def element(tag: str, content: str = "", /, **attributes: str | float) -> Markup:
    """Return an element, content and attributes escaped; `kind` is its class."""
    words = {
        _ATTRIBUTES.get(name, name): escape(value) if isinstance(value, str) else number(value)
        for name, value in attributes.items()
    }
    written = "".join(f' {name}="{value}"' for name, value in words.items())
    body = f">{escape(content)}</{tag}>" if content else "/>"
    return Markup(f"<{tag}{written}{body}")  # noqa: S704  # every part is escaped above


def number(value: float) -> str:
    """Write a coordinate to two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def percent(value: float) -> str:
    """Write a share of the box."""
    return f"{number(value)}%"


class _Plot:
    """Place values on the value axis, whose ticks are the chart's own or given."""

    def __init__(self, chart: Chart, canvas: Canvas, ticks: Sequence[float] = ()) -> None:
        self.chart, self.canvas = chart, canvas
        self.ticks = ticks or axis.marks(chart)
        self.low, self.high = self.ticks[0], self.ticks[-1]

    def y(self, value: float) -> float:
        """Return the distance from the top, in percent of the plot."""
        within = min(max(value, self.low), self.high)
        return 100 - (within - self.low) / (self.high - self.low) * 100

    def grid(self) -> Iterator[Markup]:
        """Yield a hairline and a label for each tick of the value axis."""
        labels = axis.tick_labels(self.ticks, self.chart.unit)
        for tick, label in zip(self.ticks, labels, strict=True):
            y, kind = percent(self.y(tick)), "rule" if tick else "base"
            yield element("line", kind=kind, x1=0, x2="100%", y1=y, y2=y)
            yield element("text", label, kind="tick", x=0, y=y, dx=-8, dy=4, anchor="end")

    def values(self, i: int) -> str:
        """Return the values at one place in words, the series named where there are several."""
        several = len(self.chart.series) > 1
        figures = (
            (series.name, _figure(series.values[i : i + 1], self.chart.unit))
            for series in self.chart.series
        )
        return "; ".join(f"{name} {words}" if several else words for name, words in figures)


class LinePlot(_Plot):
    """Draw lines over time: the usual band, the incident, gaps, and the newest values."""

    def __init__(self, chart: Chart, canvas: Canvas, ticks: Sequence[float] = ()) -> None:
        super().__init__(chart, canvas, ticks)
        self.start = chart.times[0]
        self.span = max(1.0, (chart.times[-1] - self.start).total_seconds())
        shaded = chart.shaded
        overlaps = shaded and shaded.end >= self.start and shaded.start <= chart.times[-1]
        self.shaded = shaded if overlaps else None
        # The label of the usual band stands at its middle, and above the labels of the axis.
        self.usual_y = min(92.0, sum(map(self.y, chart.band or (0.0, 0.0))) / 2)

    def x(self, at: datetime) -> float:
        """Return the distance from the left, in percent of the plot."""
        return min(100.0, max(0.0, (at - self.start).total_seconds() / self.span * 100))

    def clock(self) -> Iterator[Markup]:
        """Yield the labels of the time axis, each second one of a class that a phone leaves out."""
        instants = axis.time_ticks(self.start, self.chart.times[-1], self.canvas.times)
        for i, (instant, label) in enumerate(instants):
            kind, x = "tick odd" if i % 2 else "tick", percent(self.x(instant))
            yield element("text", label, kind=kind, x=x, y="100%", dy=18, anchor="middle")
        yield element("text", "UTC", kind="tick", x=0, y="100%", dx=-21, dy=18, anchor="end")

    def shapes(self, lines: Sequence[tuple[str, Sequence[float | None]]]) -> Markup:
        """Return the box that stretches, with a line of each class and its values.

        A gap breaks a line; a reading alone between gaps is a dot.
        """
        width, height = self.canvas.width / 100, self.canvas.height / 100
        paths = []
        for kind, values in lines:
            drawn = ""
            readings = zip(self.chart.times, values, strict=False)
            for reads, run in groupby(readings, key=lambda reading: axis.is_reading(reading[1])):
                if reads:
                    points = [
                        f"{number(self.x(instant) * width)} {number(self.y(value or 0) * height)}"
                        for instant, value in run
                    ]
                    drawn += f"M{'L'.join(points)}{'h0' if len(points) == 1 else ''}"
            if drawn:
                paths.append(element("path", kind=kind, d=drawn))

        return Markup(
            '<svg class="plot" viewBox="{}" preserveAspectRatio="none" width="100%" height="100%">'
            "{}</svg>"
        ).format(
            f"0 0 {number(self.canvas.width)} {number(self.canvas.height)}", Markup("").join(paths)
        )

    def parts(self) -> Iterator[Markup]:
        """Yield everything, the background first."""
        if self.chart.band is not None:
            low, high = self.chart.band
            top, foot = self.y(high), self.y(low)
            edges = {"y": percent(top), "height": percent(foot - top)}
            yield element("rect", kind="usual", x=0, width="100%", **edges)
            words = axis.span(low, high, self.chart.unit)
            label = {"kind": "usual-label", "x": "100%", "y": percent(self.usual_y), "dx": "10"}
            yield element("text", "usual", **label, dy=-3)
            yield element("text", words, **label, dy=10)

        left, right = 0.0, 0.0
        if shaded := self.shaded:
            left, right = self.x(shaded.start), self.x(shaded.end)
            edges = {"x": percent(left), "width": percent(right - left)}
            yield element("rect", kind="incident", **edges, y=0, height="100%")

        # The onset stands over the lines of the grid, the incident's ground under them.
        yield from self.grid()
        if shaded:
            x, anchor = percent(left), "end" if left > 80 else "start"
            yield element("line", kind="onset", x1=x, x2=x, y1=-4, y2="100%")
            words = f"{_clock(shaded.start)}-{_clock(shaded.end)}"
            if right > 99.9:
                words = f"since {_clock(shaded.start)}"
            yield element("text", words, kind="onset-label", x=x, y=0, dy=-9, anchor=anchor)
        yield from self.clock()

        # The one line of a chart is drawn over in red within the incident, both ends included.
        lines = [(f"line {hue(x, i)}", x.values) for i, x in enumerate(self.chart.series)]
        if shaded and len(lines) == 1:
            inside = [
                value if shaded.start <= time <= shaded.end else None
                for time, value in zip(self.chart.times, lines[0][1], strict=False)
            ]
            lines.append(("line alarm", tuple(inside)))
        yield self.shapes(lines)

        yield from self._ends()
        if not self.canvas.pointed:
            return

        # Invisible columns tell their time and values, few enough to tell apart.
        count = len(self.chart.times)
        stride = axis.thinned(count, _MOST_HITS)
        # The newest time always has a column: the strides are counted from it.
        half = 50 * stride / max(1, count - 1)
        for i in range((count - 1) % stride, count, stride):
            time = self.chart.times[i]
            left, right = max(0.0, self.x(time) - half), min(100.0, self.x(time) + half)
            yield _hit(left, right - left, f"{utc_text(time)} · {self.values(i)}")

    def _ends(self) -> Iterator[Markup]:
        """Label each line at its last reading, pushed apart where they would touch."""
        several, apart, above = len(self.chart.series) > 1, 9.0, 200.0
        ends = [(axis.newest(series.values), i) for i, series in enumerate(self.chart.series)]
        for value, index, i in sorted((end[1], end[0], i) for end, i in ends if end is not None):
            series = self.chart.series[i]
            kind = hue(series, i) if several or self.shaded is None else "alarm"
            x, y = self.x(self.chart.times[index]), self.y(value)
            yield element("circle", kind=f"end {kind}", cx=percent(x), cy=percent(y), r=3.5)

            words = axis.figure(value, self.chart.unit)
            if several:
                words = f"{axis.shorten(series.name, self.canvas.name)} {words}"
                y = above = min(y, above - apart)
            elif self.chart.band is not None:
                middle = self.usual_y
                if abs(y - middle) < 18:
                    y = middle + 18 if y >= middle or middle < 20 else middle - 18
            yield element("text", words, kind=f"now {kind}", x="100%", y=percent(y), dx=10, dy=4)


class _BarPlot(_Plot):
    """Draw bars over categories, stacked where there are several series."""

    def parts(self) -> Iterator[Markup]:
        """Yield everything, the background first."""
        yield from self.grid()
        if self.chart.partial:
            yield _HATCH

        count, most = len(self.chart.categories), self.canvas.categories
        width = 100 / count
        # One letter less than its share, so that a name does not touch the next.
        stride = axis.thinned(count, most)
        letters = self.canvas.letters // min(most, count) - 1
        for i, name in enumerate(self.chart.categories):
            above, below, middle = 0.0, 0.0, percent((i + 0.5) * 100 / count)
            place = {"x": percent((i + 0.14) * width), "width": percent(0.72 * width)}
            for k, series in enumerate(self.chart.series):
                value = series.values[i] if i < len(series.values) else None
                if value is None or not axis.is_reading(value):
                    continue
                foot = above if value >= 0 else below
                top, bottom = sorted((self.y(foot), self.y(foot + value)))
                edges = {"y": percent(top), "height": percent(bottom - top)}
                yield element("rect", kind=f"bar {hue(series, k)}", **place, **edges)
                above, below = above + max(value, 0.0), below + min(value, 0.0)

            top, bottom = self.y(above), self.y(below)
            if i in self.chart.partial:
                edges = {"y": percent(top), "height": percent(bottom - top)}
                yield element("rect", kind="unfinished", **place, **edges)

            if count <= self.canvas.sums and above + below:
                kind, write = "sum", axis.amount
                if count > self.canvas.roomy:
                    kind, write = "sum tight", axis.brief
                words, y = write(above + below, self.chart.unit), percent(top)
                yield element("text", words, kind=kind, x=middle, y=y, dy=-5, anchor="middle")

            if self.canvas.pointed:
                partial = ", a part of its time only" if i in self.chart.partial else ""
                words = f"{name or 'none'}{partial} · {self.values(i)}"
                line = self.chart.lines[i] if i < len(self.chart.lines) else ""
                yield self.canvas.opened(line, _hit(i * width, width, words))

            if i % stride == 0:
                kind = "tick odd" if (i // stride) % 2 and count > 4 else "tick"
                words = axis.shorten(name or "none", letters)
                yield element("text", words, kind=kind, x=middle, y="100%", dy=18, anchor="middle")


def _heat_map(chart: Chart, canvas: Canvas) -> Iterator[Markup]:
    """Yield a row of cells each series: its name before it, its last reading behind it."""
    width, middle = 100 / len(chart.times), number(canvas.row / 2 + 2)
    for row, series in enumerate(chart.series):
        top, name = number(row * canvas.row), axis.shorten(series.name, 16)
        words = element("text", name, kind="row", x=0, y=top, dx=-10, dy=middle, anchor="end")
        yield canvas.opened(series.line, words)

        for i, value in enumerate(series.values[: len(chart.times)]):
            shade, reading = axis.shade(value), _figure((value,), chart.unit)
            time = utc_text(chart.times[i])
            cell = element(
                "rect",
                element("title", f"{series.name} · {time} · {reading}"),
                kind=f"hit cell h{'x' if shade is None else shade}",
                x=percent(i * width),
                width=percent(width),
                y=top,
                height=canvas.row - 4,
            )
            yield canvas.opened(series.line, cell)

        if (end := axis.newest(series.values)) is not None:
            last = axis.figure(round(end[1]), chart.unit)
            yield element("text", last, kind="row", x="100%", y=top, dx=10, dy=middle)

    for i, instant in enumerate(chart.times):
        hour = instant.astimezone(UTC).hour
        if hour % 4 == 0:
            kind, x = "tick odd" if hour % 8 else "tick", percent(i * width)
            yield element("text", _clock(instant), kind=kind, x=x, y="100%", dy=14, anchor="middle")
    yield element("text", "UTC", kind="tick", x="100%", y="100%", dx=10, dy=14)


def _flow(chart: Chart, canvas: Canvas) -> Iterator[Markup]:
    """Yield bands from each category, left, to each series, right, as high as their values."""
    flows = axis.flows(chart)
    out, into = [sum(row) for row in flows], [sum(column) for column in zip(*flows, strict=True)]
    whole = sum(out) or 1.0
    scale = (100 - _FLOW_GAP * (max(len(into), len(out)) - 1)) / whole

    # Each side is centred, its parts apart from one another.
    starts, sides = [], ((out, chart.categories), (into, [x.name for x in chart.series]))
    for side, (sums, names) in enumerate(sides):
        top = (100 - whole * scale - _FLOW_GAP * (len(sums) - 1)) / 2
        tops = [top + sum(sums[:i]) * scale + _FLOW_GAP * i for i in range(len(sums))]
        starts.append(tops)
        middles = [start + size * scale / 2 for start, size in zip(tops, sums, strict=True)]
        places = _apart(middles, 1400 / canvas.height)
        for i, (name, size) in enumerate(zip(names, sums, strict=True)):
            kind = f"bar {hue(chart.series[i], i)}" if side else "trunk"
            yield element(
                "rect",
                kind=kind,
                x="99%" if side else 0,
                width="1%",
                y=percent(tops[i]),
                height=percent(max(size * scale, 0.3)),
            )
            # A longer share leaves less room for the name.
            share = share_words(size / whole)
            letters = (canvas.row_name if side else canvas.name) + len("5 %") - len(share)
            words = f"{axis.shorten(name or 'none', letters)} {share}"
            x, away, anchor = ("100%", 8, "start") if side else ("0", -8, "end")
            yield element(
                "text",
                words,
                kind="tick",
                x=x,
                y=percent(places[i]),
                dy="4",
                dx=number(away),
                anchor=anchor,
            )

    (lefts, rights), width, height = starts, canvas.width / 100, canvas.height / 100
    bands = []
    for k, series in enumerate(chart.series):
        for i, row in enumerate(flows):
            value = row[k]
            if not value:
                continue
            left, right, size = lefts[i], rights[k], value * scale
            lefts[i], rights[k] = left + size, right + size
            y = [number(part * height) for part in (left, right, right + size, left + size)]
            start, middle, end = (number(part * width) for part in (1, 50, 99))
            drawn = f"M{start} {y[0]}C{middle} {y[0]} {middle} {y[1]} {end} {y[1]}"
            drawn += f"V{y[2]}C{middle} {y[2]} {middle} {y[3]} {start} {y[3]}Z"
            words = f"{chart.categories[i] or 'none'} · {series.name}"
            title = element("title", f"{words} {axis.figure(value, chart.unit)}")
            bands.append(element("path", title, kind=f"stream {hue(series, k)}", d=drawn))
    yield Markup(
        '<svg viewBox="0 0 {} {}" preserveAspectRatio="none" width="100%" height="100%">{}</svg>'
    ).format(number(canvas.width), number(canvas.height), Markup("").join(bands))


def _apart(places: Sequence[float], least: float) -> list[float]:
    """Return rising places moved as little down, then up, as keeps them so far apart."""
    moved: list[float] = []
    for place in places:
        moved.append(max(place, moved[-1] + least) if moved else place)
    ceiling = 100.0
    for i in range(len(moved) - 1, -1, -1):
        moved[i] = min(moved[i], ceiling)
        ceiling = moved[i] - least
    return moved


def _hit(left: float, width: float, words: str) -> Markup:
    """Return an invisible column over the plot that tells its values to a pointer."""
    return element(
        "rect",
        element("title", words),
        kind="hit",
        x=percent(left),
        width=percent(width),
        y=0,
        height="100%",
    )


def _figure(values: Sequence[float | None], unit: str) -> str:
    """Write the last of some values with its unit, in words where it is no reading."""
    end = axis.newest(values)
    return axis.figure(end[1], unit) if end else "no reading"


def _clock(at: datetime) -> str:
    return f"{at.astimezone(UTC):%H:%M}"
