"""Draw Cards as Block Kit messages and views, within every limit of Slack.

Tables and charts are text and pictures, or Slack's own blocks where these say all that ours say. A
table is monospaced text, or a list where a phone would break its lines. Slack's own are
`data_table` and `data_visualization`, not the older `table`: a message may hold only one
(`only_one_table_allowed`, read 2026-11-21), where some answers have three. A chart with a band, a
shaded incident, bars that add up or a gap stays a picture.

Source: docs.slack.dev, reference/block-kit/blocks (read 2026-11-22). Documented or measured limits
differ between readers; the lowest of them holds here.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, assert_never

from adapters.chat.config import Json
from adapters.chat.slack.markup import (
    ALT_TEXT,
    BLOCKS,
    BUTTON_TEXT,
    BUTTON_VALUE,
    BUTTONS,
    CONFIRM_BUTTON,
    CONFIRM_TEXT,
    CONFIRM_TITLE,
    CONTEXT_ELEMENTS,
    FALLBACK,
    FIELD,
    FIELDS,
    HEADER,
    SECTION,
    VIEW_BLOCKS,
    Rank,
    SizeUnit,
    bare,
    chunks,
    context,
    cut,
    escape,
    escape_controls,
    fit,
    mrkdwn_object,
    one_line,
    plain_text,
    section,
    size,
    strong,
)
from bot.cards.card import (
    MISSING,
    Align,
    Attachment,
    Block,
    Button,
    Buttons,
    ButtonStyle,
    Card,
    Chart,
    ChartKind,
    Facts,
    Form,
    Heading,
    Span,
    Strong,
    Style,
    Table,
    Text,
    Tone,
    first_words,
    unnamed,
)
from bot.cards.lines import without_details
from bot.cards.words import row_words

ICONS = {
    Tone.CRITICAL: "🔴",
    Tone.WARNING: "🟠",
    Tone.INFO: "",
    Tone.OVER: "⚪",
    Tone.GOOD: "🟢",
    Tone.ERROR: "⚠️",
}
_PARTS = 4
"""Parts of a grey paragraph in a block: the first, never dropped, leaves room for the title."""
_LOUD = (Tone.CRITICAL, Tone.WARNING, Tone.INFO, Tone.GOOD)


T = TypeVar("T")


@dataclass(frozen=True)
class MessageBody:
    """Hold the arguments of chat.postMessage: the notification's text, and blocks."""

    text: str
    blocks: list[Json]


@dataclass(frozen=True)
class Around:
    """Hold a message's facts that a card does not know.

    Its key, the line it answers, the files of its charts.
    """

    key: str = ""
    line: str = ""
    images: Mapping[int, str] = field(default_factory=dict)
    """Slack's file id by the chart's place among the card's charts."""
    native: bool = False
    """Whether Slack's own tables and charts are drawn, where they say all that ours say."""


def message(card: Card, around: Around | None = None) -> MessageBody:
    """Draw a card as a message.

    Blocks that do not fit are dropped from the last, buttons after all else, and named.
    """
    around = around or Around()
    # What was asked in plain words is asked again as it was read.
    card = without_details(card, card.data.get("read_as", around.line))
    blocks = fit(list(_units(card, around)), BLOCKS)
    if around.key:
        blocks[0]["block_id"] = key_block_id(around.key)
    return MessageBody(fallback(card), blocks)


def view_blocks(card: Card, around: Around | None = None) -> list[Json]:
    """Draw a card as the blocks of a modal or of App Home."""
    return fit(list(_units(card, around or Around())), VIEW_BLOCKS)


def key_block_id(key: str) -> str:
    """Return the block id by which a message is found again, whatever happens to its metadata."""
    return f"trnbot:{hashlib.sha256(key.encode()).hexdigest()[:24]}"


def fallback(card: Card) -> str:
    """Return the text of notifications and of clients without blocks: title, first paragraph.

    What is brief stands first, as a phone shows one line of it.
    """
    brief = f"{ICONS[card.tone]} {one_line(card.brief)}".strip() if card.brief else ""
    lines = (brief, _titled(card), bare(first_words(card)).strip())
    return escape(cut("\n".join(filter(None, lines)), FALLBACK))


def chart_places(card: Card, *, native: bool = False) -> dict[int, Chart]:
    """Return the charts that need a picture, by their place among the card's charts."""
    drawn = native_charts(card) if native else {}
    return {n: chart for n, chart in enumerate(card.each(Chart)) if n not in drawn}


def _units(card: Card, around: Around) -> Iterator[SizeUnit]:
    """Yield every block of the message in order, each with its rank."""
    yield from (SizeUnit("title", block, Rank.NEVER) for block in _title(card))
    first = next(card.each(Text), None)
    native = native_charts(card) if around.native else {}
    drawer = _Drawer(around, native, TABLES if around.native else 0)
    for block in card.blocks:
        rank = Rank.LATE if isinstance(block, Buttons | Form) else Rank.FIRST
        name, drawn = drawer.draw(block)
        for n, element in enumerate(drawn):
            yield SizeUnit(name, element, Rank.NEVER if block is first and n == 0 else rank)


@dataclass
class _Drawer:
    """Draw the blocks of one card in their order, numbering its charts and buttons."""

    around: Around
    native: Mapping[int, Json]
    tables: int
    """Tables that may yet be Slack's own."""
    charts: Iterator[int] = field(default_factory=itertools.count)
    actions: Iterator[int] = field(default_factory=itertools.count)

    def draw(self, block: Block) -> tuple[str, list[Json]]:
        """Return a name for a card block, and its Slack blocks: the one place for each kind."""
        match block:
            case Text() | Attachment():
                text = block if isinstance(block, Text) else Text((f"📎 {block.name}",))
                return "text", _text(text)
            case Facts():
                return "facts", _facts(block)
            case Table(caption=title):
                return f"table {_named(title)}".strip(), self._table(block)
            case Chart(title=title):
                place = next(self.charts)
                drawn = _chart(block, self.around.images.get(place, ""), self.native.get(place))
                return _named(title) or "chart", drawn
            case Buttons():
                return "buttons", _buttons(block, self.actions)
            case Form(title=title):
                opener = Button(
                    title, self.around.line or block.line, ButtonStyle.PRIMARY, opens=True
                )
                return _named(title) or "chart", _buttons(Buttons((opener,)), self.actions)
            case _:
                assert_never(block)

    def _table(self, block: Table) -> list[Json]:
        """Return a table as text, or as Slack's own while there may be more of those."""
        native = table_block(block) if self.tables else None
        if native is None:
            text = [section(table_text(block, SECTION))] if block.columns else []
            return [*text, *_notes(block.rest)]

        # The total stands below, where no sorting moves it, and then the rows left out.
        drawn, folded = native
        self.tables -= 1
        notes = [f"and {folded:,} more rows"] if folded else []
        notes += [] if len(drawn["rows"]) > len(block.rows) + 1 else [block.rest]
        total = [section(total_line(block))] if block.total else []
        return [drawn, *total, *_notes("; ".join(filter(None, notes)))]


def _named(title: str) -> str:
    return cut(one_line(title), 60)


def _title(card: Card) -> list[Json]:
    """Return a header for a loud card, one line for a quiet one.

    A long title goes on below its header.
    """
    title = _titled(card)
    drawn: list[Json] = []
    if card.tone in _LOUD:
        drawn.append({"type": "header", "text": plain_text(title, HEADER)})
    if card.tone not in _LOUD or size(title) > HEADER:
        span = title if card.tone is Tone.OVER else Strong(title)
        drawn.append(section(chunks((span,), SECTION)[0]))

    if people := unnamed(card):
        spans: list[Span] = [part for person in people for part in (person, " ")]
        drawn.append(context(chunks(spans, FIELD)[:1]))
    return drawn


def _titled(card: Card) -> str:
    return f"{ICONS[card.tone]} {one_line(card.title) or 'trnbot'}".strip()


def _text(block: Text) -> list[Json]:
    if block.style in (Style.QUIET, Style.DETAIL):
        texts = chunks(block.spans, FIELD)
        return [context(list(part)) for part in _batches(texts, min(_PARTS, CONTEXT_ELEMENTS))]
    spans = block.spans
    if block.style is Style.LEAD:
        spans = tuple(Strong(span) if isinstance(span, str) else span for span in spans)
    return [section(text) for text in chunks(spans, SECTION)]


_ONE_LINE = 160
"""Characters of facts that stand side by side in one paragraph; a field takes two lines of a phone."""


def _facts(block: Facts) -> list[Json]:
    pairs = [
        (strong(cut(name, 80)), escape(cut(one_line(value), 300))) for name, value in block.pairs
    ]
    facts = [list(filter(None, pair)) for pair in pairs if any(pair)]

    if facts and sum(len(part) for fact in facts for part in fact) <= _ONE_LINE:
        return [section(" · ".join(" ".join(fact) for fact in facts))]
    fields = [mrkdwn_object("\n".join(fact)) for fact in facts]
    return [{"type": "section", "fields": list(part)} for part in _batches(fields, FIELDS)]


def _notes(words: str) -> list[Json]:
    texts = chunks((words,), FIELD)[:1] if words else []
    return [context(texts)] if texts else []


def _chart(block: Chart, file: str, native: Json | None) -> list[Json]:
    title, summary = one_line(block.title), one_line(block.summary)
    if native:
        return [native, *_notes(summary)]
    if not file:
        spans = (Strong(title), " " if title else "", summary)
        return [context([text]) for text in chunks(spans, FIELD)[:1]]

    # The picture shows its title itself.
    words = ": ".join(filter(None, (title, summary))) or "chart"
    return [{"type": "image", "slack_file": {"id": file}, "alt_text": cut(words, ALT_TEXT)}]


def _buttons(block: Buttons, actions: Iterator[int]) -> list[Json]:
    too_long = [one_line(x.text) for x in block.buttons if size(x.line) > BUTTON_VALUE]
    shown = [x for x in block.buttons if one_line(x.text) and size(x.line) <= BUTTON_VALUE]
    elements: list[Json] = []
    for button in shown:
        element: Json = {
            "type": "button",
            "action_id": f"{'opens' if button.opens else 'line'}:{next(actions)}",
            "text": plain_text(button.text, BUTTON_TEXT),
            "value": button.line,
        }
        if button.style is not ButtonStyle.NORMAL:
            element["style"] = button.style.value
        if button.confirm:
            # The dialog's button is red where the press is.
            danger = {"style": "danger"} if button.style is ButtonStyle.DANGER else {}
            element["confirm"] = {
                "title": plain_text(button.text, CONFIRM_TITLE),
                "text": plain_text(button.confirm, CONFIRM_TEXT),
                "confirm": plain_text(button.text, CONFIRM_BUTTON),
                "deny": plain_text("Leave it", CONFIRM_BUTTON),
                **danger,
            }
        elements.append(element)

    return [
        *[{"type": "actions", "elements": list(part)} for part in _batches(elements, BUTTONS)],
        *_notes(f"Too long for a button: {', '.join(too_long)}." if too_long else ""),
    ]


def _batches(items: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), most):
        yield items[start : start + most]


_WIDEST = {1: 90, 2: 64, 3: 48}
_WIDEST_OF_MANY = 60
_PHONE = 46
"""Monospaced signs of a line that a phone shows before it breaks one, and the columns with it."""


def table_text(table: Table, most: int) -> str:
    """Return caption and a code block of up to `most` characters.

    Rows that do not fit are counted in its last line. Where a line is too long for a phone, a list:
    a point for each row, its first cell bold, the others after their column's name.
    """
    caption = strong(cut(table.caption, 200))
    head, *rows, total = _lines(table)
    room = most - size(caption) - 80
    if _width(head.partition("\n")[2]) > _PHONE and any((*table.rows, table.total)):
        points = [_point(row, table.columns) for row in table.rows if row]
        total = _point(table.total, table.columns) if table.total else ""
        total = total if size(total) <= most // 3 else "…"  # no real one is longer
        return _joined(caption, *_fitting(points, room - size(total)), total)

    body = _joined(head, *_fitting(rows, room - size(head) - size(total)), total)
    return _joined(caption, f"```\n{cut(body, most - size(caption) - 10)}\n```")


def _joined(*lines: str) -> str:
    return "\n".join(filter(None, lines))


def _fitting(lines: Sequence[str], room: int) -> list[str]:
    """Return the first lines that fit, and one that counts those which do not."""
    for n, line in enumerate(lines):
        room -= size(line) + 1
        if room < 0:
            return [*lines[:n], f"… and {len(lines) - n:,} more rows"]
    return list(lines)


_ALL = "100 %"


def total_line(table: Table) -> str:
    """Return the total in one line, each figure after its column's name."""
    # A total's share is always all of it.
    shown = [(cell, x) for cell, x in zip(table.total, table.columns, strict=False) if cell != _ALL]
    cells, columns = zip(*shown, strict=True) if shown else ((), ())

    return _point(cells, columns).removeprefix("• ")


def _lines(table: Table) -> list[str]:
    """Return header, every row and the total ("" without one), aligned and escaped."""
    columns, count = table.columns, len(table.columns)
    widest = _WIDEST.get(count, _WIDEST_OF_MANY)
    rows = ([column.name for column in columns], *table.rows, table.total)
    cells = [
        [cut(one_line(cell), widest) for cell in (*row, *[""] * count)[:count]] for row in rows
    ]
    widths = [max(_width(row[n]) for row in cells) for n in range(count)]

    lines = []
    for row in cells:
        padded = []
        for cell, column, width in zip(row, columns, widths, strict=True):
            space = " " * (width - _width(cell))
            padded.append(space + cell if column.align is Align.RIGHT else cell + space)
        # Three graves would end the block.
        lines.append(escape_controls("  ".join(padded).rstrip()).replace("`", "ˋ"))

    ruler = "─" * (sum(widths) + 2 * (count - 1))
    lines[0] += f"\n{ruler}"
    lines[-1] = f"{ruler}\n{lines[-1]}" if table.total else ""
    return lines


def _point(row: Sequence[str], columns: Sequence[Heading]) -> str:
    first, facts = row_words(row, columns)
    words = escape(" · ".join(cut(one_line(fact), _WIDEST[1]) for fact in facts))
    return f"• {strong(cut(one_line(first), _WIDEST[1]))}{words and f': {words}'}"


def _width(text: str) -> int:
    """Return the columns a monospaced font takes: two for the wide signs of East Asia."""
    return sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text)


TABLES = 1
"""Tables of a message.

Of Slack's older `table` it takes no more (`only_one_table_allowed`), and of this none is
documented.
"""
ROWS, COLUMNS, PAGE = 100, 20, 10
CHARTS, BARS = 2, 20
_CELL, _CAPTION, _TITLE, _LABEL, _AXIS = 200, 150, 50, 20, 50
_MOST = 7_000
"""Characters of a table's JSON, about half of what a message holds."""
_LEAST = 3
"""Rows under which there is nothing to sort or to leaf through."""
_NUMBER = re.compile(r"(-?)\$?(\d[\d,]*(?:\.\d+)?)(?: ?%|x)?")


def draws(card: Card) -> bool:
    """Return whether something of the card is drawn by Slack's own blocks."""
    return bool(native_charts(card)) or any(map(table_block, card.each(Table)))


def table_block(table: Table) -> tuple[Json, int] | None:
    """Return the block, and how many rows of all it leaves out.

    It leafs through rows that are folded elsewhere. None where a list in words says it better. The
    total is not a row of it.
    """
    # Where the folded rows do not go on, the rows stand for several each.
    every_row = table.every if table.every[: len(table.rows)] == table.rows else table.rows
    if not (len(every_row) >= _LEAST and 1 < len(table.columns) <= COLUMNS):
        return None

    head = [_raw_text(column.name) for column in table.columns]
    rows, room = [head], _MOST - _weight(head)
    for row in every_row[:ROWS]:
        cells = []
        for n, column in enumerate(table.columns):
            # A cell sorts by its number where the column is of numbers and the whole cell is one.
            text = cut(one_line(row[n] if n < len(row) else ""), _CELL)
            cell = _raw_text(text)
            number = _NUMBER.fullmatch(text)
            if number and column.align is Align.RIGHT:
                cell = {
                    "type": "raw_number",
                    "value": float(f"{number[1]}{number[2].replace(',', '')}"),
                    "text": text,
                }
            cells.append(cell)
        room -= _weight(cells)
        if room < 0:
            break
        rows.append(cells)

    caption = cut(one_line(table.caption or table.columns[0].name), _CAPTION) or "table"
    block = {"type": "data_table", "caption": caption, "page_size": PAGE, "rows": rows}
    return (block, len(every_row) + 1 - len(rows)) if len(rows) > _LEAST else None


def _raw_text(text: str) -> Json:
    return {"type": "raw_text", "text": cut(one_line(text), _CELL) or MISSING}


def _weight(cells: Sequence[Json]) -> int:
    return len(json.dumps(cells, ensure_ascii=False)) + 2


def native_charts(card: Card) -> dict[int, Json]:
    """Return Slack's own block for the first charts that it can draw.

    By their place among the card's charts.
    """
    drawn = enumerate(map(chart_block, card.each(Chart)))
    return dict([(place, block) for place, block in drawn if block][:CHARTS])


def chart_block(chart: Chart) -> Json | None:
    """Return bars as Slack draws them, side by side; None for all else."""
    labels = [_label(name) for name in chart.categories]
    distinct = 0 < len(set(labels)) == len(labels) <= BARS and all(labels)

    # Several series are stacked, and Slack would put them side by side.
    if chart.kind is not ChartKind.BAR or len(chart.series) != 1 or not distinct:
        return None

    # A missing reading is no point, and never 0.
    (series,) = chart.series
    points = [
        {"label": label, "value": round(value, 4)}
        for label, value in zip(labels, series.values, strict=False)
        if value is not None and math.isfinite(value)
    ]
    if len(points) != len(labels):
        return None
    bars = [{"name": _label(series.name) or "value", "data": points}]
    axis = {"categories": labels} | ({"y_label": cut(chart.unit, _AXIS)} if chart.unit else {})
    return {
        "type": "data_visualization",
        "title": cut(one_line(chart.title), _TITLE) or "Chart",
        "chart": {"type": "bar", "series": bars, "axis_config": axis},
    }


def _label(name: str) -> str:
    return cut(one_line(name), _LABEL)
