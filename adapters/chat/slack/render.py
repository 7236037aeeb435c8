"""Draw Cards as Block Kit messages and views, within every limit of Slack."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

from adapters.chat.cards import Json
from adapters.chat.slack import markup
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
    context,
    fit,
    mrkdwn_object,
    plain_text,
    section,
)
from adapters.chat.slack.tables import TABLES, native_charts, table_block, table_text, total_line
from bot.cards.card import (
    Attachment,
    Block,
    Button,
    Buttons,
    ButtonStyle,
    Card,
    Chart,
    Facts,
    Form,
    Mention,
    Span,
    Strong,
    Style,
    Table,
    Text,
    Tone,
    plain,
)

ICONS = {
    Tone.CRITICAL: "🔴",
    Tone.WARNING: "🟠",
    Tone.INFO: "",
    Tone.OVER: "⚪",
    Tone.GOOD: "🟢",
    Tone.ERROR: "⚠️",
}
_PARTS = 4  # of one grey paragraph in a block, so that the first, which is never dropped, leaves room for the title
_LOUD = (Tone.CRITICAL, Tone.WARNING, Tone.INFO, Tone.GOOD)


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
    blocks = fit(list(_units(card, around)), BLOCKS)
    if around.key:
        blocks[0]["block_id"] = key_block_id(around.key)
    return MessageBody(fallback(card), blocks)


def view_blocks(card: Card, around: Around | None = None) -> list[Json]:
    """Draw a card as the blocks of a modal or of App Home."""
    return fit(list(_units(card, around or Around())), VIEW_BLOCKS)


def key_block_id(key: str) -> str:
    """Return the block id by which a message with this key is found again, whatever happens to its metadata."""
    return f"trnbot:{hashlib.sha256(key.encode()).hexdigest()[:24]}"


def fallback(card: Card) -> str:
    """Return the text of notifications and of clients without blocks: title and first paragraph."""
    first = next((plain(block.spans) for block in card.blocks if isinstance(block, Text)), "")
    words = "\n".join(part for part in (_titled(card), markup.bare(first).strip()) if part)
    return markup.escape(markup.cut(words, FALLBACK))


def chart_places(card: Card, *, native: bool = False) -> dict[int, Chart]:
    """Return the charts that need a picture, by their place among the card's charts."""
    drawn = native_charts(card) if native else {}
    charts = enumerate(block for block in card.blocks if isinstance(block, Chart))
    return {place: chart for place, chart in charts if place not in drawn}


def _units(card: Card, around: Around) -> Iterator[SizeUnit]:
    """Yield every block of the message in order, each with its rank."""
    yield from (SizeUnit("title", block, Rank.NEVER) for block in _title(card))
    first = next((block for block in card.blocks if isinstance(block, Text)), None)
    drawer = _Drawer(
        around, native_charts(card) if around.native else {}, TABLES if around.native else 0
    )
    for block in card.blocks:
        rank = Rank.LATE if isinstance(block, Buttons | Form) else Rank.FIRST
        for n, drawn in enumerate(drawer.draw(block)):
            yield SizeUnit(_name(block), drawn, Rank.NEVER if block is first and n == 0 else rank)


@dataclass
class _Drawer:
    """Draw the blocks of one card in their order, numbering its charts and buttons."""

    around: Around
    native: Mapping[int, Json]
    tables: int
    """Tables that may yet be Slack's own."""
    charts: Iterator[int] = field(default_factory=itertools.count)
    actions: Iterator[int] = field(default_factory=itertools.count)

    def draw(self, block: Block) -> list[Json]:
        """Return one card block as Slack blocks: the one place where each kind is drawn."""
        match block:
            case Text() | Attachment():
                return _text(block if isinstance(block, Text) else Text((f"📎 {block.name}",)))
            case Facts():
                return _facts(block)
            case Table():
                return self._table(block)
            case Chart():
                place = next(self.charts)
                return _chart(block, self.around.images.get(place, ""), self.native.get(place))
            case Buttons():
                return _buttons(block, self.actions)
            case Form():
                opener = Button(
                    block.title, self.around.line or block.line, ButtonStyle.PRIMARY, opens=True
                )
                return _buttons(Buttons((opener,)), self.actions)
            case _:
                assert_never(block)

    def _table(self, block: Table) -> list[Json]:
        native = table_block(block) if self.tables else None
        self.tables -= native is not None
        return _native_table(block, *native) if native else _table(block)


def _title(card: Card) -> list[Json]:
    """Return a header for a loud card, one line for a quiet one.

    A long title goes on below its header.
    """
    title = _titled(card)
    drawn: list[Json] = []
    if card.tone in _LOUD:
        drawn.append({"type": "header", "text": plain_text(title, HEADER)})
    if card.tone not in _LOUD or markup.size(title) > HEADER:
        drawn.append(
            section(
                markup.chunks((title if card.tone is Tone.OVER else Strong(title),), SECTION)[0]
            )
        )
    unseen = _unseen(card)
    if unseen:
        spans: list[Span] = [part for one in unseen for part in (one, " ")]
        drawn.append(context(markup.chunks(spans, FIELD)[:1]))
    return drawn


def _titled(card: Card) -> str:
    return f"{ICONS[card.tone]} {markup.one_line(card.title) or 'trnbot'}".strip()


def _unseen(card: Card) -> list[Mention]:
    """Return the people the card pings whom no text of it mentions."""
    seen = {
        span
        for block in card.blocks
        if isinstance(block, Text)
        for span in block.spans
        if isinstance(span, Mention)
    }
    return [one for one in dict.fromkeys(card.mentions) if one not in seen]


def _text(block: Text) -> list[Json]:
    if block.style is Style.QUIET:
        texts = markup.chunks(block.spans, FIELD)
        return [context(list(part)) for part in _batches(texts, min(_PARTS, CONTEXT_ELEMENTS))]
    spans = tuple(Strong(span) if isinstance(span, str) else span for span in block.spans)
    return [
        section(text)
        for text in markup.chunks(spans if block.style is Style.LEAD else block.spans, SECTION)
    ]


def _facts(block: Facts) -> list[Json]:
    fields = [
        mrkdwn_object(text) for text in (_fact(name, value) for name, value in block.pairs) if text
    ]
    return [{"type": "section", "fields": list(part)} for part in _batches(fields, FIELDS)]


def _fact(name: str, value: str) -> str:
    parts = (
        markup.strong(markup.cut(name, 80)),
        markup.escape(markup.cut(markup.one_line(value), 300)),
    )
    return "\n".join(part for part in parts if part)


def _table(block: Table) -> list[Json]:
    return [*([section(table_text(block, SECTION))] if block.columns else []), *_notes(block.rest)]


def _native_table(block: Table, drawn: Json, left: int) -> list[Json]:
    """Return Slack's own table, its total below, where no sorting moves it, and the number of rows left out."""
    notes = [
        f"and {left:,} more rows" if left else "",
        "" if len(drawn["rows"]) > len(block.rows) + 1 else block.rest,
    ]
    return [
        drawn,
        *([section(total_line(block))] if block.total else []),
        *_notes("; ".join(filter(None, notes))),
    ]


def _notes(words: str) -> list[Json]:
    texts = markup.chunks((words,), FIELD)[:1] if words else []
    return [context(texts)] if texts else []


def _chart(block: Chart, file: str, native: Json | None = None) -> list[Json]:
    title, summary = markup.one_line(block.title), markup.one_line(block.summary)
    if native:
        return [native, *_notes(summary)]
    if not file:
        spans = (Strong(title), " " if title else "", summary)
        return [context([text]) for text in markup.chunks(spans, FIELD)[:1]]
    words = (
        ": ".join(part for part in (title, summary) if part) or "chart"
    )  # the picture shows its title itself
    return [{"type": "image", "slack_file": {"id": file}, "alt_text": markup.cut(words, ALT_TEXT)}]


def _buttons(block: Buttons, actions: Iterator[int]) -> list[Json]:
    elements = [
        _button(button, f"{'opens' if button.opens else 'line'}:{next(actions)}")
        for button in block.buttons
        if markup.size(button.line) <= BUTTON_VALUE and markup.one_line(button.text)
    ]
    drawn: list[Json] = [
        {"type": "actions", "elements": list(part)} for part in _batches(elements, BUTTONS)
    ]
    missing = [
        markup.one_line(button.text)
        for button in block.buttons
        if markup.size(button.line) > BUTTON_VALUE
    ]
    if missing:
        note = f"Too long for a button: {', '.join(missing)}."
        drawn.append(context(markup.chunks((note,), FIELD)[:1]))
    return drawn


def _button(button: Button, action: str) -> Json:
    drawn: Json = {
        "type": "button",
        "action_id": action,
        "text": plain_text(button.text, BUTTON_TEXT),
        "value": button.line,
    }
    if button.style is not ButtonStyle.NORMAL:
        drawn["style"] = button.style.value
    if button.confirm:
        drawn["confirm"] = _confirm(button)
    return drawn


def _confirm(button: Button) -> Json:
    """Return the dialog that asks before a press counts; its button is red where the press is."""
    asked = {
        "title": plain_text(button.text, CONFIRM_TITLE),
        "text": plain_text(button.confirm, CONFIRM_TEXT),
    }
    pressed = {
        "confirm": plain_text(button.text, CONFIRM_BUTTON),
        "deny": plain_text("Leave it", CONFIRM_BUTTON),
    }
    return {
        **asked,
        **pressed,
        **({"style": "danger"} if button.style is ButtonStyle.DANGER else {}),
    }


def _name(block: Block) -> str:
    match block:
        case Text() | Attachment():
            return "text"
        case Facts():
            return "facts"
        case Table(caption=title):
            return f"table {markup.cut(markup.one_line(title), 60)}".strip()
        case Chart(title=title) | Form(title=title):
            return markup.cut(markup.one_line(title), 60) or "chart"
        case Buttons():
            return "buttons"
        case _:
            assert_never(block)


def _batches(items: Sequence[Any], most: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), most):
        yield items[start : start + most]
