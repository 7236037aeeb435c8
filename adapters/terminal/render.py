"""Draw for a terminal: a card as plain text of a given width, and how far long work is."""

from __future__ import annotations

import itertools
import re
import shlex
import shutil
import textwrap
import time
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import TextIO, assert_never

from bot.cards import charts as axis
from bot.cards.card import (
    Align,
    Attachment,
    Block,
    Buttons,
    Card,
    Chart,
    ChartKind,
    Facts,
    Form,
    Link,
    Strong,
    Style,
    Table,
    Text,
    Tone,
    plain,
)
from bot.cards.lines import visible
from bot.cards.words import percent
from bot.model.window import clock, utc_text

_RISING = "▁▂▃▄▅▆▇█"
_DARKER = "·░▒▓█"
_PARTS = " ▏▎▍▌▋▊▉█"
_MOST_BARS = 20
_LONGEST_WORD = 24


def _line_chart(chart: Chart, width: int) -> list[str]:
    """Draw a sparkline a series, and under them the incident, the times and the usual."""
    if not chart.times:
        return []
    low, high = axis.extent(chart)
    names = [f"{axis.shorten(clean(series.name), 14)} " for series in chart.series]
    if len(names) == 1:
        names = [""]
    newest = (axis.newest(series.values) for series in chart.series)
    ends = [axis.figure(end[1], chart.unit) if end else "no reading" for end in newest]
    margin = max(map(len, names), default=0)
    room = max(8, min(width - margin - max(map(len, ends), default=0) - 1, 96))

    # A character stands for one step, or for the mean of those that share it; a gap stays blank.
    lines = []
    for name, series, figure in zip(names, chart.series, ends, strict=False):
        count, cells = len(series.values), min(room, len(series.values))
        means = [
            _mean(series.values[i * count // cells : (i + 1) * count // cells])
            for i in range(cells)
        ]
        levels = (None if mean is None else (mean - low) / (high - low) * 8 for mean in means)
        marks = (" " if x is None else _RISING[min(7, max(0, int(x)))] for x in levels)
        lines.append(f"{name:<{margin}}{''.join(marks)} {figure}")

    start, last = chart.times[0], chart.times[-1]
    # Under the line: the incident, beside its hour, on the side where there is room.
    room, span = min(room, len(chart.times)), (last - start).total_seconds() or 1.0
    if chart.shaded is not None:
        onset, end_at = (
            max(0, min(round(edge.total_seconds() / span * (room - 1)), room - 1))
            for edge in (chart.shaded.start - start, chart.shaded.end - start)
        )
        mark = "▔" * (end_at - onset + 1)
        words = f"since {chart.shaded.start.astimezone(UTC):%H:%M}"
        if margin + end_at + 2 + len(words) <= width:
            lines.append(f"{' ' * (margin + onset)}{mark} {words}")
        else:
            lines.append(f"{' ' * max(0, margin + onset - len(words) - 1)}{words} {mark}"[:width])
    lines.append(_apart(clock(start.astimezone(UTC)), utc_text(last, start), margin, room))
    if chart.band is not None:
        lines.append(f"{' ' * margin}usual {axis.span(*chart.band, chart.unit)}")
    return lines


def _mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of the readings among some values, None where there is none."""
    readings = [value for value in values if value is not None and axis.is_reading(value)]
    return sum(readings) / len(readings) if readings else None


def _heat_map(chart: Chart, width: int) -> list[str]:
    """Draw a row of cells each series, its last reading at the end, and the hours below."""
    if not chart.times:
        return []
    names = [axis.shorten(clean(series.name), 14) for series in chart.series]
    margin = max(map(len, names), default=0) + 1
    size = max(1, min(3, (width - margin - 8) // len(chart.times)))

    lines = []
    for name, series in zip(names, chart.series, strict=True):
        shades = [axis.shade(value) for value in series.values]
        cells = "".join(" " * size if dark is None else _DARKER[dark] * size for dark in shades)
        end = axis.newest(series.values)
        figure = axis.figure(round(end[1]), chart.unit) if end else "no reading"
        lines.append(f"{name:<{margin}}{cells} {figure}")

    head = clock(chart.times[0].astimezone(UTC))
    tail = utc_text(chart.times[-1], chart.times[0])
    return [*lines, _apart(head, tail, margin, size * len(chart.times))]


def _apart(head: str, tail: str, margin: int, room: int) -> str:
    """Return the first and the last time, as far from each other as the cells above."""
    return f"{' ' * margin}{head}{' ' * max(1, room - len(head) - len(tail))}{tail}"


def _bars(rows: Sequence[tuple[str, float, str]], width: int, longest: int) -> list[str]:
    """Draw a row a bar: its name, a bar as long as its share of 1, and its figure."""
    margin = max((len(name) for name, _, _ in rows), default=0)
    room = width - margin - max((len(figure) for _, _, figure in rows), default=0) - 2
    lines = []
    for name, share, figure in rows:
        length = share * max(4, min(room, longest))
        bar = "█" * int(length) + _PARTS[int(length % 1 * 8)]
        lines.append(f"{name:<{margin}} {bar.rstrip()} {figure}")
    return lines


def _bar_chart(chart: Chart, width: int) -> list[str]:
    """Draw a bar for each category, of several series their sum."""
    sums = [
        sum(
            value
            for series in chart.series
            for value in series.values[i : i + 1]
            if value and axis.is_reading(value)
        )
        for i in range(len(chart.categories))
    ]
    top = max(map(abs, sums), default=0.0) or 1.0
    rows = [
        (axis.shorten(name or "(none)", 24), abs(value) / top, axis.figure(value, chart.unit))
        for name, value in zip(chart.categories, sums, strict=True)
    ]
    lines = _bars(rows, width, 60)

    hidden = len(lines) - _MOST_BARS
    if hidden <= 0:
        return lines
    if chart.timed:
        return [f"{hidden} earlier, and", *lines[-_MOST_BARS:]]
    return [*lines[:_MOST_BARS], f"and {hidden} more"]


def _tree(chart: Chart, width: int) -> list[str]:
    """Draw a flow as a tree: the whole, its categories, and the series of each, largest first."""
    columns = axis.flows(chart)
    whole = sum(map(sum, columns)) or 1.0
    rows = [("all", whole)]
    for i, (name, values) in enumerate(zip(chart.categories, columns, strict=True)):
        is_last = i == len(columns) - 1
        rows.append((f"{'└' if is_last else '├'} {clean(name) or '(none)'}", sum(values)))
        parts = sorted(zip(values, chart.series, strict=True), key=lambda part: -part[0])
        parts = [part for part in parts if part[0]]
        for k, (value, series) in enumerate(parts):
            stem = f"{' ' if is_last else '│'} {'└' if k == len(parts) - 1 else '├'}"
            rows.append((f"{stem} {clean(series.name)}", value))

    bars = [
        (
            axis.shorten(name, 30),
            value / whole,
            f"{axis.figure(value, chart.unit)} {percent(value / whole)}",
        )
        for name, value in rows
    ]
    return _bars(bars, width, 40)


_CHARTS = {
    ChartKind.LINE: _line_chart,
    ChartKind.BAR: _bar_chart,
    ChartKind.HEAT: _heat_map,
    ChartKind.FLOW: _tree,
}
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
    """Return the card as lines of at most `width` columns, 0 for the terminal's.

    In ANSI colours where `colour`. Control characters in texts are dropped, so that data can
    neither move the cursor nor colour the screen.
    """
    pen = _Pen(max(30, width or shutil.get_terminal_size((100, 24)).columns), colour)
    title = pen.wrap(f"{_SIGNS[card.tone]} {clean(card.title)}", "  ")
    parts = [pen.ink(title, f"{_BOLD};{_COLOURS[card.tone]}")]
    if card.mentions:
        people = ", ".join(f"@{clean(mention.name)}" for mention in card.mentions)
        parts.append(pen.ink(pen.wrap(f"For {people}"), _QUIET))
    parts += [drawn for block in card.blocks if (drawn := pen.block(block))]

    # An empty line stands between parts, but none between the points of a list.
    written = parts[0]
    for before, part in itertools.pairwise(parts):
        points = before.startswith(_POINT) and part.startswith(_POINT)
        written += ("\n" if points else "\n\n") + part
    return f"{written}\n"


_MARKS = re.compile(r"([\\`*_{}\[\]<>#|~$])")


def as_markdown(card: Card) -> str:
    """Return the card as Markdown, for a comment on a pull request.

    What texts hold is escaped: it can neither format, link nor mention anybody.
    """
    parts = [f"### {_SIGNS[card.tone]} {_escaped(card.title)}"]
    for block in card.blocks:
        match block:
            case Text():
                spans = (
                    f"**{_escaped(span.text)}**"
                    if isinstance(span, Strong) and span.text
                    else _escaped(plain((span,)))
                    for span in block.spans
                )
                written = "".join(spans)
                parts.append(f"<sub>{written}</sub>" if block.style is Style.QUIET else written)
            case Facts():
                parts.append(
                    "\n".join(
                        f"- {_escaped(name)}: {_escaped(value)}" for name, value in block.pairs
                    )
                )
            case Table():
                rule = ("--:" if x.align is Align.RIGHT else "---" for x in block.columns)
                rows = [[x.name for x in block.columns], *block.rows, *filter(None, (block.total,))]
                cells = [" | ".join(_escaped(cell) for cell in row) for row in rows]
                cells.insert(1, " | ".join(rule))
                notes = (_escaped(x) for x in (block.rest, block.caption) if x)
                table = "\n".join(f"| {row} |" for row in cells)
                parts.append("\n\n".join((table, *(f"<sub>{note}</sub>" for note in notes))))
            case Chart():
                parts.append(_escaped(block.summary))
    # Nobody can press or fill in what stands in a comment, so the other blocks are left out.
    return "\n\n".join(filter(None, parts)) + "\n"


def _escaped(words: str) -> str:
    escaped = _MARKS.sub(r"\\\1", clean(words))
    # A bare address would become a link by itself.
    for mark, entity in (("@", "&#64;"), ("://", "&#58;//"), ("www.", "www&#46;")):
        escaped = escaped.replace(mark, entity)
    return escaped


def clean(words: str) -> str:
    """Return `words` as one line, of it what a reader can see."""
    return visible(re.sub(r"[\t\r\n\u2028\u2029]+", " ", words))


def columns(words: str) -> int:
    """Return how many columns a terminal needs: wide characters take two, combining ones none."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in words
    )


@dataclass(frozen=True)
class _Pen:
    """Write blocks at one width, with or without colour."""

    width: int
    colour: bool

    def ink(self, words: str, code: str) -> str:
        """Colour each line by itself, so that a pager that cuts lines stays right."""
        if not self.colour or not words:
            return words
        return "\n".join(f"\x1b[{code}m{line}\x1b[0m" for line in words.split("\n"))

    def wrap(self, words: str, indent: str = "") -> str:
        return textwrap.fill(words, self.width, subsequent_indent=indent, break_on_hyphens=False)

    def block(self, block: Block) -> str:
        if isinstance(block, Attachment):
            block = Text((f"To write it: trnbot {block.line} --csv > {block.name}",))
        match block:
            case Text():
                return self._text(block)
            case Facts():
                return self._facts([(clean(name), clean(value)) for name, value in block.pairs])
            case Table():
                return self._table(block)
            case Chart():
                title = f"{block.title} ({block.unit})" if block.unit else block.title
                lines = (
                    self.ink(self.wrap(clean(title)), _BOLD),
                    *map(clean, _CHARTS[block.kind](block, self.width)),
                    self.ink(self.wrap(clean(block.summary)), _QUIET),
                )
                return "\n".join(filter(None, lines))
            case Buttons():
                return self._buttons(block)
            case Form():
                return self._form(block)
            case _:
                assert_never(block)

    def _text(self, block: Text) -> str:
        spans = (
            # A terminal cannot link, so the address follows the words.
            f"{span.text} <{span.url}>"
            if isinstance(span, Link) and span.url != span.text
            else plain((span,))
            for span in block.spans
        )
        filled = self.wrap("".join(map(clean, spans)))
        if block.style is not Style.NORMAL:
            return self.ink(filled, _BOLD if block.style is Style.LEAD else _QUIET)

        # Strong spans are emboldened where the wrapping left them whole.
        for span in block.spans if self.colour else ():
            words = clean(span.text) if isinstance(span, Strong) else ""
            if words.strip():
                filled = filled.replace(words, self.ink(words, _BOLD), 1)
        return filled

    def _facts(self, pairs: Sequence[tuple[str, str]], size: int = 0) -> str:
        """Write names before their values, each of which goes on below itself."""
        longest = max((columns(name) for name, _ in pairs), default=0)
        size = size or min(self.width * 2 // 5, longest)
        lines = []
        for name, value in pairs:
            head = self.ink(_pad(_cut(name, size), size, Align.LEFT), _QUIET)
            first, *others = textwrap.wrap(
                value, self.width - size - 2, break_on_hyphens=False
            ) or [""]
            lines += [f"{head}  {first}".rstrip(), *(" " * (size + 2) + line for line in others)]
        return "\n".join(lines)

    def _table(self, block: Table) -> str:
        names = tuple(clean(column.name) for column in block.columns)
        rows = [tuple(clean(cell) for cell in row) for row in block.rows]
        total = [tuple(clean(cell) for cell in block.total)] if block.total else []

        # The widest text column gives way to the width, as far as its longest word: neither a
        # number nor the id of a node is cut.
        parts = [
            [row[i] for row in (names, *rows, *total) if i < len(row)] for i in range(len(names))
        ]
        sizes = [max(1, *map(columns, cells)) for cells in parts]
        floors = [
            min(_LONGEST_WORD, max(8, *(columns(word) for cell in cells for word in cell.split())))
            for cells in parts
        ]
        texts = [i for i, column in enumerate(block.columns) if column.align is Align.LEFT]
        while (length := sum(sizes) + 2 * (len(sizes) - 1)) > self.width:
            widest = max(
                (i for i in texts if sizes[i] > floors[i]), key=lambda i: sizes[i], default=-1
            )
            if widest < 0:
                # Too narrow for the columns: a name and a value a line.
                records = (tuple(zip(names, row, strict=False)) for row in (*rows, *total))
                size = min(self.width * 2 // 5, max(map(columns, names)))
                return "\n\n".join(self._facts(record, size) for record in records)
            sizes[widest] -= 1

        def written(row: tuple[str, ...]) -> str:
            """Write one row; a cell too long for its column goes on below."""
            cells = []
            for cell, size in zip(row, sizes, strict=False):
                lines = [cell]
                if columns(cell) > size:
                    lines = textwrap.wrap(cell, size, break_on_hyphens=False)
                cells.append([_cut(line, size) for line in lines])
            return "\n".join(
                "  ".join(
                    _pad(line, size, column.align)
                    for line, size, column in zip(lines, sizes, block.columns, strict=False)
                ).rstrip()
                for lines in itertools.zip_longest(*cells, fillvalue="")
            )

        rule = self.ink("─" * length, _QUIET)
        lines = [self.ink(written(names), _BOLD), rule, *map(written, rows)]
        if total:
            lines += [rule, self.ink(written(total[0]), _BOLD)]
        notes = filter(None, (block.rest, block.caption))
        lines += [self.ink(self.wrap(clean(words)), _QUIET) for words in notes]
        return "\n".join(lines)

    def _buttons(self, block: Buttons) -> str:
        """Lay out each line to type beside its name, or below it where that is too wide: whole.

        A shell reads it as it stands.
        """
        pairs = [
            (clean(button.text), f"trnbot {_shell_words(clean(button.line))}")
            for button in block.buttons
        ]
        size = max((columns(name) for name, _ in pairs), default=0)
        lines = [self.ink("Next:", _QUIET)]
        for name, line in pairs:
            beside = f"  {_pad(name, size, Align.LEFT)}  {line}"
            if columns(beside) <= self.width:
                lines.append(beside)
                continue
            pieces = textwrap.wrap(line, self.width - 4, break_on_hyphens=False)
            below = (f"    {_cut(piece, self.width - 4)}" for piece in pieces)
            lines += [f"  {_cut(name, self.width - 2)}", *below]
        return "\n".join(lines)

    def _form(self, block: Form) -> str:
        lines = [
            self.ink(clean(block.title), _BOLD),
            self.wrap(f"Type: trnbot {clean(block.line)} name=value …"),
        ]
        for field in block.fields:
            notes = (
                ", ".join(value for value, _ in field.options),
                field.hint,
                f"now {field.value}" if field.value else "",
                "required" if field.required else "",
            )
            words = clean("; ".join([field.label, *filter(None, notes)]))
            lines.append(self._facts([(clean(field.name), words)], 14))
        return "\n".join(lines)


def _shell_words(line: str) -> str:
    """Return a line of ours as a shell takes it: names in it may hold what a shell would run."""
    return shlex.quote(line) if re.search(r"[^\w\s\"'.,:/@%+=-]", line) else line


def _pad(words: str, size: int, align: Align) -> str:
    gap = " " * max(0, size - columns(words))
    return gap + words if align is Align.RIGHT else words + gap


def _cut(words: str, size: int) -> str:
    """Return at most `size` columns of `words`, an ellipsis standing for what is left out."""
    if columns(words) <= size:
        return words
    while words and columns(words) > size - 1:
        words = words[:-1]
    return f"{words}…"


AFTER_S, EVERY_S = 2.0, 0.2
LOGGED_S = 30.0
"""How often a stream that nobody watches is told: a log keeps every line."""
_BAR = 28


class ProgressBar:
    """Draw one line on a stream that a person watches, and take it away at the end.

    To any other stream, as a log, it writes a line now and then. Call it for each step.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._watched = stream.isatty()
        self._began = self._drawn = clock()
        self._length = 0

    def __call__(self, what: str, done: int, of: int) -> None:
        """Draw how far it is, where it has lasted for long enough to be worth a line."""
        now = self._clock()
        first_s, interval_s = (AFTER_S, EVERY_S) if self._watched else (LOGGED_S, LOGGED_S)
        if now - self._began < first_s or now - self._drawn < interval_s:
            return
        self._drawn = now
        if not self._watched:
            share = f" {100 * done // of} %," if of else ""
            self._stream.write(f"{what}:{share} {now - self._began:.0f} s so far\n")
            self._stream.flush()
            return
        filled = _BAR * done // of if of else 0
        bar = f" [{'=' * filled}{' ' * (_BAR - filled)}] {100 * done // of} %" if of else ""
        self._write(f"{what}{bar}, {now - self._began:.0f} s")

    def close(self) -> None:
        """Leave the line empty for the answer."""
        if self._length:
            self._write("")
            self._stream.write("\r")
            self._stream.flush()

    def _write(self, words: str) -> None:
        self._stream.write(f"\r{words.ljust(self._length)}")
        self._stream.flush()
        self._length = len(words)
