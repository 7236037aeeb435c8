"""Draw charts as inline SVG that the page's style sheet colours: crisp at any width, light or dark.

The plot stretches with the page while its words keep their size: shapes stand in a nested view box
of 1000 by 100 that may be stretched, words stand at percentages of the outer box. No style
attributes, so the strictest policy allows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import assert_never

from markupsafe import Markup

from adapters.web.links import address
from bot.cards import charts as axis
from bot.cards.card import Chart, ChartKind, Series

COLOURS = 8
"""Series colours that the style sheet defines, `s0` to `s7`."""

_HEIGHT, _MOST_HITS = 176, 120
_HATCH = Markup(
    '<defs><pattern id="partial" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect class="hatch" width="3" height="6"/></pattern></defs>'
)
_SHAPES = Markup(
    '<svg class="plot" viewBox="0 0 1000 100" preserveAspectRatio="none" width="100%" height="100%">{}</svg>'
)


def svg(chart: Chart) -> Markup:
    """Return the chart as an `<svg>` with an accessible title and description; every text escaped."""
    match chart.kind:
        case ChartKind.LINE:
            parts = list(_Lines(chart).parts()) if chart.times else []
        case ChartKind.BAR:
            parts = list(_Bars(chart).parts()) if chart.categories else []
        case ChartKind.HEAT:
            parts = list(_Heat(chart).parts()) if chart.times else []
        case _:
            assert_never(chart.kind)
    height = len(chart.series) * _Heat.ROW if chart.kind is ChartKind.HEAT else _HEIGHT
    box = Markup(
        '<svg class="chart {} {}" role="{}" width="100%" height="{}"><title>{}</title><desc>{}</desc>{}</svg>'
    )
    many = "many" if len(chart.series) > 1 else "one"
    role = (
        "group" if any("<a " in part for part in parts) else "img"
    )  # what is pressed inside a picture, nobody who hears it finds
    return box.format(
        chart.kind.value, many, role, height, chart.title, chart.summary, Markup("").join(parts)
    )


def opened(line: str, drawn: Markup) -> Markup:
    """Return a part of a chart that opens a line when it is pressed, without script as well."""
    return Markup('<a href="{}">{}</a>').format(address(line), drawn) if line else drawn


class _Plot:
    """Place values on the value axis."""

    def __init__(self, chart: Chart) -> None:
        self.chart = chart
        self.marks = axis.marks(chart)
        self.low, self.high = self.marks[0], self.marks[-1]

    def y(self, value: float) -> float:
        """Return the distance from the top, in percent of the plot."""
        return (
            100 - (min(max(value, self.low), self.high) - self.low) / (self.high - self.low) * 100
        )

    def grid(self) -> Iterator[Markup]:
        """Yield a hairline and a label for each tick of the value axis."""
        for mark, label in zip(
            self.marks, axis.tick_labels(self.marks, self.chart.unit), strict=True
        ):
            y, kind = _n(self.y(mark)), "base" if mark == 0 else "rule"
            yield Markup('<line class="{}" x1="0" x2="100%" y1="{}%" y2="{}%"/>').format(kind, y, y)
            yield Markup(
                '<text class="tick" x="0" y="{}%" dx="-8" dy="4" text-anchor="end">{}</text>'
            ).format(y, label)


class _Lines(_Plot):
    """Draw lines over time: the usual band, the incident, gaps, and the newest values."""

    def __init__(self, chart: Chart) -> None:
        super().__init__(chart)
        self.start = chart.times[0]
        self.span = max(1.0, (chart.times[-1] - self.start).total_seconds())

    def x(self, at: datetime) -> float:
        """Return the distance from the left, in percent of the plot."""
        return min(100.0, max(0.0, (at - self.start).total_seconds() / self.span * 100))

    def parts(self) -> Iterator[Markup]:
        """Yield everything, the background first."""
        yield from self._usual()
        yield from self._incident()
        yield from self.grid()
        yield from self._clock()
        yield _SHAPES.format(Markup("").join(self._paths()))
        yield from self._ends()
        yield from self._hits()

    def _usual(self) -> Iterator[Markup]:
        if self.chart.band is None:
            return
        low, high = self.chart.band
        top, foot = self.y(high), self.y(low)
        yield Markup('<rect class="usual" x="0" width="100%" y="{}%" height="{}%"/>').format(
            _n(top), _n(foot - top)
        )
        text = Markup('<text class="usual-label" x="100%" y="{}%" dx="10" dy="{}">{}</text>')
        yield text.format(_n((top + foot) / 2), -3, "usual")
        yield text.format(_n((top + foot) / 2), 10, axis.span(low, high, self.chart.unit))

    def _incident(self) -> Iterator[Markup]:
        shaded = self.chart.shaded
        if shaded is None or shaded.end < self.start or shaded.start > self.chart.times[-1]:
            return
        left, right = self.x(shaded.start), self.x(shaded.end)
        yield Markup('<rect class="incident" x="{}%" width="{}%" y="0" height="100%"/>').format(
            _n(left), _n(right - left)
        )
        yield Markup('<line class="onset" x1="{}%" x2="{}%" y1="-4" y2="100%"/>').format(
            _n(left), _n(left)
        )
        anchor = "end" if left > 80 else "start"
        words = (
            f"since {_clock(shaded.start)}"
            if right > 99.9
            else f"{_clock(shaded.start)}-{_clock(shaded.end)}"
        )
        yield Markup(
            '<text class="onset-label" x="{}%" y="0" dy="-9" text-anchor="{}">{}</text>'
        ).format(_n(left), anchor, words)

    def _clock(self) -> Iterator[Markup]:
        for i, (at, label) in enumerate(axis.time_ticks(self.start, self.chart.times[-1])):
            odd = " odd" if i % 2 else ""
            text = Markup(
                '<text class="tick{}" x="{}%" y="100%" dy="18" text-anchor="middle">{}</text>'
            )
            yield text.format(odd, _n(self.x(at)), label)
        yield Markup(
            '<text class="tick" x="0" y="100%" dx="-21" dy="18" text-anchor="end">UTC</text>'
        )

    def _paths(self) -> Iterator[Markup]:
        for i, series in enumerate(self.chart.series):
            yield self._path(f"line {hue(series, i)}", self._runs(series.values))
            if len(self.chart.series) == 1 and self.chart.shaded is not None:
                yield self._path("line alarm", self._runs(self._inside(series.values)))

    def _inside(self, values: Sequence[float | None]) -> list[float | None]:
        """Keep the values within the incident, both of its ends included."""
        shaded = self.chart.shaded
        assert shaded is not None
        pairs = zip(self.chart.times, values, strict=False)
        return [value if shaded.start <= at <= shaded.end else None for at, value in pairs]

    def _runs(self, values: Sequence[float | None]) -> Iterator[str]:
        """Yield one path a run of readings; a reading alone between gaps becomes a dot."""
        run: list[str] = []
        for at, value in [*zip(self.chart.times, values, strict=False), (self.start, None)]:
            if value is not None and axis.is_reading(value):
                run.append(f"{_n(self.x(at) * 10)} {_n(self.y(value))}")
            elif run:
                yield f"M{'L'.join(run)}" if len(run) > 1 else f"M{run[0]}h0"
                run = []

    def _path(self, kind: str, runs: Iterator[str]) -> Markup:
        drawn = "".join(runs)
        return Markup('<path class="{}" d="{}"/>').format(kind, drawn) if drawn else Markup("")

    def _ends(self) -> Iterator[Markup]:
        """Label each line at its last reading, pushed apart where they would touch."""
        several, least = len(self.chart.series) > 1, 9.0
        ends = [(axis.newest(series.values), i) for i, series in enumerate(self.chart.series)]
        last = 200.0
        for value, index, i in sorted((end[1], end[0], i) for end, i in ends if end is not None):
            kind = hue(self.chart.series[i], i) if several or self.chart.shaded is None else "alarm"
            x, y = self.x(self.chart.times[index]), self.y(value)
            yield Markup('<circle class="end {}" cx="{}%" cy="{}%" r="3.5"/>').format(
                kind, _n(x), _n(y)
            )
            place = min(y, last - least) if several else self._clear(y)
            name = f"{axis.shorten(self.chart.series[i].name, 14)} " if several else ""
            text = Markup('<text class="now {}" x="100%" y="{}%" dx="10" dy="4">{}</text>')
            yield text.format(kind, _n(place), name + axis.figure(value, self.chart.unit))
            last = place

    def _clear(self, y: float) -> float:
        """Move the label of the value now off the label of the usual band."""
        if self.chart.band is None:
            return y
        middle = (self.y(self.chart.band[0]) + self.y(self.chart.band[1])) / 2
        if abs(y - middle) >= 18:
            return y
        return middle + 18 if y >= middle or middle < 20 else middle - 18

    def _hits(self) -> Iterator[Markup]:
        """Yield invisible columns with their time and values in words, for the pointer.

        Few enough to tell apart.
        """
        count = len(self.chart.times)
        stride = axis.thinned(count, _MOST_HITS)
        half = 50 * stride / max(1, count - 1)
        for i in range((count - 1) % stride, count, stride):
            at = self.chart.times[i]
            left, right = max(0.0, self.x(at) - half), min(100.0, self.x(at) + half)
            words = f"{at.astimezone(UTC):%d %b %H:%M} UTC · {_values(self.chart, i)}"
            hit = Markup(
                '<rect class="hit" x="{}%" width="{}%" y="0" height="100%"><title>{}</title></rect>'
            )
            yield hit.format(_n(left), _n(right - left), words)


class _Bars(_Plot):
    """Draw bars over categories, stacked where there are several series."""

    def parts(self) -> Iterator[Markup]:
        """Yield everything, the background first."""
        yield from self.grid()
        if self.chart.partial:
            yield _HATCH
        count = len(self.chart.categories)
        stride, letters = axis.thinned(count, 10), max(6, 96 // min(10, count))
        for i, name in enumerate(self.chart.categories):
            yield from self._stack(i, 100 / count)
            if i % stride == 0:
                odd = " odd" if (i // stride) % 2 and count > 4 else ""
                text = Markup(
                    '<text class="tick{}" x="{}%" y="100%" dy="18" text-anchor="middle">{}</text>'
                )
                yield text.format(
                    odd, _n((i + 0.5) * 100 / count), axis.shorten(name or "none", letters)
                )

    def _stack(self, i: int, width: float) -> Iterator[Markup]:
        above = below = 0.0
        rect = Markup('<rect class="{}" x="{}%" width="{}%" y="{}%" height="{}%"/>')
        place = _n((i + 0.14) * width), _n(0.72 * width)
        for k, series in enumerate(self.chart.series):
            value = series.values[i] if i < len(series.values) else None
            if value is None or not axis.is_reading(value):
                continue
            foot = above if value >= 0 else below
            top, bottom = sorted((self.y(foot), self.y(foot + value)))
            yield rect.format(f"bar {hue(series, k)}", *place, _n(top), _n(bottom - top))
            above, below = above + max(value, 0.0), below + min(value, 0.0)
        if i in self.chart.partial:
            yield rect.format(
                "unfinished", *place, _n(self.y(above)), _n(self.y(below) - self.y(above))
            )
        yield from self._sum(i, width, above, below)

    def _sum(self, i: int, width: float, above: float, below: float) -> Iterator[Markup]:
        """Yield the value over the bar where there is room, and the pointer's column, which opens the bar's line."""
        if len(self.chart.categories) <= 16 and above + below:
            text = Markup(
                '<text class="sum{}" x="{}%" y="{}%" dy="-5" text-anchor="middle">{}</text>'
            )
            tight, write = (
                (" tight", axis.brief) if len(self.chart.categories) > 10 else ("", axis.amount)
            )
            yield text.format(
                tight,
                _n((i + 0.5) * width),
                _n(self.y(above)),
                write(above + below, self.chart.unit),
            )
        partial = ", a part of its time only" if i in self.chart.partial else ""
        words = f"{self.chart.categories[i] or 'none'}{partial} · {_values(self.chart, i)}"
        hit = Markup(
            '<rect class="hit" x="{}%" width="{}%" y="0" height="100%"><title>{}</title></rect>'
        )
        yield opened(
            self.chart.lines[i] if i < len(self.chart.lines) else "",
            hit.format(_n(i * width), _n(width), words),
        )


class _Heat:
    """Draw a row of cells each series: its name before it, its last reading behind it."""

    ROW = 26
    """Pixels."""

    def __init__(self, chart: Chart) -> None:
        self.chart = chart
        self.width = 100 / len(chart.times)

    def parts(self) -> Iterator[Markup]:
        """Yield every row, then the clock."""
        for row, series in enumerate(self.chart.series):
            yield from self._row(series, row * self.ROW)
        for i, at in enumerate(self.chart.times):
            if at.astimezone(UTC).hour % 4 == 0:
                odd = " odd" if at.astimezone(UTC).hour % 8 else ""
                text = Markup(
                    '<text class="tick{}" x="{}%" y="100%" dy="14" text-anchor="middle">{}</text>'
                )
                yield text.format(odd, _n(i * self.width), _clock(at))
        yield Markup('<text class="tick" x="100%" y="100%" dx="10" dy="14">UTC</text>')

    def _row(self, series: Series, top: int) -> Iterator[Markup]:
        name = Markup('<text class="row" x="0" y="{}" dx="-10" dy="15" text-anchor="end">{}</text>')
        yield opened(series.line, name.format(top, axis.shorten(series.name, 16)))
        for i, value in enumerate(series.values[: len(self.chart.times)]):
            yield opened(series.line, self._cell(series.name, i, value, top))
        if (end := axis.newest(series.values)) is not None:
            text = Markup('<text class="row" x="100%" y="{}" dx="10" dy="15">{}</text>')
            yield text.format(top, axis.figure(round(end[1]), self.chart.unit))

    def _cell(self, name: str, i: int, value: float | None, top: int) -> Markup:
        dark = axis.shade(value)
        reading = (
            axis.figure(value, self.chart.unit)
            if value is not None and dark is not None
            else "no reading"
        )
        words = f"{name} · {self.chart.times[i].astimezone(UTC):%d %b %H:%M} UTC · {reading}"
        cell = Markup(
            '<rect class="hit cell h{}" x="{}%" width="{}%" y="{}" height="{}"><title>{}</title></rect>'
        )
        return cell.format(
            "x" if dark is None else dark,
            _n(i * self.width),
            _n(self.width),
            top,
            self.ROW - 4,
            words,
        )


def hue(series: Series, i: int) -> str:
    """Return the class that colours a series: its meaning's, else its place's in the palette."""
    return f"t-{series.tone.value}" if series.tone else f"s{i % COLOURS}"


def _values(chart: Chart, i: int) -> str:
    """Return the values at one place in words, the series named where there are several."""
    phrases = []
    for series in chart.series:
        value = series.values[i] if i < len(series.values) else None
        words = (
            axis.figure(value, chart.unit)
            if value is not None and axis.is_reading(value)
            else "no reading"
        )
        phrases.append(f"{series.name} {words}" if len(chart.series) > 1 else words)
    return "; ".join(phrases)


def _clock(at: datetime) -> str:
    return f"{at.astimezone(UTC):%H:%M}"


def _n(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")
