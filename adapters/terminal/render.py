"""Draw a card as plain text for a terminal of a given width."""

from __future__ import annotations

import re
import shutil
import textwrap
import unicodedata
from collections.abc import Iterator
from datetime import UTC
from typing import assert_never

from bot.cards import charts as axis
from bot.cards.card import (
    Align,
    Attachment,
    Block,
    Button,
    Buttons,
    Card,
    Chart,
    ChartKind,
    Facts,
    Form,
    Link,
    Series,
    Span,
    Strong,
    Style,
    Table,
    Text,
    Tone,
    plain,
)

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


_COLOURS = {
    Tone.CRITICAL: "31",
    Tone.WARNING: "33",
    Tone.INFO: "34",
    Tone.OVER: "90",
    Tone.GOOD: "32",
    Tone.ERROR: "31",
}
_SIGNS = {
    Tone.CRITICAL: "●",
    Tone.WARNING: "▲",
    Tone.INFO: "◆",
    Tone.OVER: "○",
    Tone.GOOD: "✓",
    Tone.ERROR: "✗",
}
_BOLD, _QUIET = "1", "90"
_POINT = "• "


def render(card: Card, width: int = 0, colour: bool = False) -> str:
    """Return the card as lines of at most `width` columns (0.

    The terminal's), in ANSI colours where `colour`.

    Control characters in texts are dropped, so that data can neither move the cursor nor colour the
    screen.
    """
    pen = _Pen(max(30, width or shutil.get_terminal_size((100, 24)).columns), colour)
    title = pen.wrap(f"{_SIGNS[card.tone]} {clean(card.title)}", "  ")
    parts = [pen.ink(title, f"{_BOLD};{_COLOURS[card.tone]}")]
    people = ", ".join(f"@{clean(one.name)}" for one in card.mentions)
    parts += [pen.ink(pen.wrap(f"For {people}"), _QUIET)] if people else []
    parts += [drawn for block in card.blocks if (drawn := pen.block(block))]
    return "".join(_spaced(parts)) + "\n"


def _spaced(parts: list[str]) -> Iterator[str]:
    """Yield the parts with an empty line between them, but none between the points of a list."""
    for before, part in zip(["", *parts], parts, strict=False):
        points = before.startswith(_POINT) and part.startswith(_POINT)
        yield from (("\n" if points else "\n\n") if before else "", part)


def clean(words: str) -> str:
    """Return `words` as one line without control, format and direction-changing characters."""
    spaced = re.sub(r"[\t\r\n\u2028\u2029]+", " ", words)
    return "".join(c for c in spaced if unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co"))


def columns(words: str) -> int:
    """Return how many columns a terminal needs: wide characters take two, combining ones none."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in words
    )


class _Pen:
    """Write blocks at one width, with or without colour."""

    def __init__(self, width: int, colour: bool) -> None:
        self.width = width
        self.colour = colour

    def ink(self, words: str, code: str) -> str:
        """Colour each line by itself, so that a pager that cuts lines stays right."""
        if not self.colour or not words:
            return words
        return "\n".join(f"\x1b[{code}m{line}\x1b[0m" for line in words.split("\n"))

    def wrap(self, words: str, indent: str = "") -> str:
        return (
            textwrap.fill(words, self.width, subsequent_indent=indent, break_on_hyphens=False)
            if words
            else ""
        )

    def block(self, block: Block) -> str:
        match block:
            case Text() | Attachment():
                offered = (
                    Text((f"{block.name}: trnbot {block.line} --csv writes it.",))
                    if isinstance(block, Attachment)
                    else block
                )
                return self._text(offered)
            case Facts():
                return self._facts(block)
            case Table():
                return self._table(block)
            case Chart():
                return self._chart(block)
            case Buttons():
                return self._buttons(block.buttons)
            case Form():
                return self._form(block)
            case _:
                assert_never(block)

    def _text(self, block: Text) -> str:
        filled = self.wrap("".join(_bare(span) for span in block.spans))
        if block.style is Style.QUIET:
            return self.ink(filled, _QUIET)
        if block.style is Style.LEAD:
            return self.ink(filled, _BOLD)
        return self._bold(filled, [span.text for span in block.spans if isinstance(span, Strong)])

    def _bold(self, filled: str, strong: list[str]) -> str:
        """Embolden the strong spans that the wrapping left whole."""
        for words in strong if self.colour else ():
            bare = clean(words)
            if bare.strip():
                filled = filled.replace(bare, self.ink(bare, _BOLD), 1)
        return filled

    def _facts(self, block: Facts) -> str:
        pairs = [(clean(name), clean(value)) for name, value in block.pairs]
        size = min(self.width // 3, max((columns(name) for name, _ in pairs), default=0))
        return "\n".join(self._fact(name, value, size) for name, value in pairs)

    def _fact(self, name: str, value: str, size: int) -> str:
        room = self.width - size - 2
        lines = textwrap.wrap(value, room) or [""]
        head = self.ink(_pad(_cut(name, size), size, Align.LEFT), _QUIET)
        return "\n".join([f"{head}  {lines[0]}", *(" " * (size + 2) + line for line in lines[1:])])

    def _table(self, block: Table) -> str:
        rows = [
            tuple(clean(cell) for cell in row)
            for row in (tuple(c.name for c in block.columns), *block.rows)
        ]
        total = tuple(clean(cell) for cell in block.total)
        sizes = self._sizes([*rows, total] if total else rows, block)
        if sum(sizes) + 2 * (len(sizes) - 1) > self.width:
            return self._records(rows[0], [*rows[1:], total] if total else rows[1:])
        head, *body = [self._row(row, sizes, block) for row in rows]
        rule = "─" * min(self.width, sum(sizes) + 2 * (len(sizes) - 1))
        lines = [self.ink(head, _BOLD), self.ink(rule, _QUIET), *body]
        if total:
            lines += [self.ink(rule, _QUIET), self.ink(self._row(total, sizes, block), _BOLD)]
        lines += [
            self.ink(self.wrap(clean(words)), _QUIET)
            for words in (block.rest, block.caption)
            if words
        ]
        return "\n".join(lines)

    def _sizes(self, rows: list[tuple[str, ...]], block: Table) -> list[int]:
        """Fit the columns to the width: the widest text column gives way, a number is never cut."""
        sizes = [
            max([1, *(columns(row[i]) for row in rows if i < len(row))])
            for i in range(len(block.columns))
        ]
        while sum(sizes) + 2 * (len(sizes) - 1) > self.width:
            texts = [
                i
                for i, column in enumerate(block.columns)
                if column.align is Align.LEFT and sizes[i] > 8
            ]
            if not texts:
                break
            sizes[max(texts, key=lambda i: sizes[i])] -= 1
        return sizes

    def _records(self, names: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
        """Write each row as name-value lines, for a terminal too narrow for the columns."""
        size = min(self.width // 3, max((columns(name) for name in names), default=0))
        return "\n\n".join(
            "\n".join(self._fact(n, v, size) for n, v in zip(names, row, strict=False))
            for row in rows
        )

    def _row(self, row: tuple[str, ...], sizes: list[int], block: Table) -> str:
        """Write one row; a cell too long for its column goes on below."""
        cells = [
            (_folded(cell, size), size, column.align)
            for cell, size, column in zip(row, sizes, block.columns, strict=False)
        ]
        height = max((len(lines) for lines, _, _ in cells), default=0)
        lined = (
            [(lines[n] if n < len(lines) else "", size, align) for lines, size, align in cells]
            for n in range(height)
        )
        return "\n".join(
            "  ".join(_pad(cell, size, align) for cell, size, align in line).rstrip()
            for line in lined
        )

    def _chart(self, block: Chart) -> str:
        head = self.ink(
            self.wrap(clean(f"{block.title} ({block.unit})" if block.unit else block.title)), _BOLD
        )
        drawn = [clean(line) for line in chart_lines(block, self.width)]
        summary = self.ink(self.wrap(clean(block.summary)), _QUIET)
        return "\n".join(part for part in (head, *drawn, summary) if part)

    def _buttons(self, buttons: tuple[Button, ...]) -> str:
        size = max((columns(clean(button.text)) for button in buttons), default=0)
        return "\n".join(
            [self.ink("Next:", _QUIET), *(self._button(button, size) for button in buttons)]
        )

    def _button(self, button: Button, size: int) -> str:
        """Lay out the line to type beside its name, or below it where that is too wide.

        Whole, so that it can be typed.
        """
        name, line = clean(button.text), clean(button.line)
        beside = f"  {_pad(name, size, Align.LEFT)}  {line}"
        if columns(beside) <= self.width:
            return beside
        return textwrap.indent(
            "\n".join([_cut(name, self.width - 2), *_typed(line, self.width - 4)]), "  "
        )

    def _form(self, block: Form) -> str:
        lines = [
            self.ink(clean(block.title), _BOLD),
            self.wrap(f"Type: {clean(block.line)} name=value …"),
        ]
        for field in block.fields:
            choice = ", ".join(value for value, _ in field.options)
            notes = (
                choice,
                field.hint,
                f"now {field.value}" if field.value else "",
                "required" if field.required else "",
            )
            lines.append(
                self._fact(field.name, clean("; ".join([field.label, *filter(None, notes)])), 14)
            )
        return "\n".join(lines)


def _bare(span: Span) -> str:
    """Return one span as text; a terminal cannot link, so the address follows the words."""
    if isinstance(span, Link) and span.url != span.text:
        return clean(f"{span.text} <{span.url}>")
    return clean(plain((span,)))


def _pad(words: str, size: int, align: Align) -> str:
    gap = " " * max(0, size - columns(words))
    return gap + words if align is Align.RIGHT else words + gap


def _typed(line: str, size: int) -> list[str]:
    """Return a line to type in pieces of at most `size` columns, set in by two."""
    return [f"  {_cut(piece, size)}" for piece in textwrap.wrap(line, size, break_on_hyphens=False)]


def _folded(words: str, size: int) -> list[str]:
    """Return `words` in lines of at most `size` columns, the third and last one cut."""
    if columns(words) <= size:
        return [words]
    head, *tail = textwrap.wrap(words, size, break_on_hyphens=False) or [""]
    lines = [head, *tail[:1], " ".join(tail[1:])] if tail[1:] else [head, *tail]
    return [_cut(line, size) for line in lines]


def _cut(words: str, size: int) -> str:
    """Return at most `size` columns of `words`, an ellipsis standing for the rest."""
    if columns(words) <= size:
        return words
    while words and columns(words) > size - 1:
        words = words[:-1]
    return f"{words}…"
