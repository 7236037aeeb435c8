"""Define a Card: every alert and answer becomes one, and each surface draws it in one file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, TypeVar

from bot.model.window import Window, utc_text

_OPTIONAL = {"optional": True}
"""Marks fields that a stored card leaves out where they are empty, as it did before they were."""


MISSING = "–"
"""Stands where there is no value."""


class Tone(StrEnum):
    """Give a card its colour and icon."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"
    OVER = "over"
    GOOD = "good"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Strong:
    """Show the text bold."""

    text: str


@dataclass(frozen=True, slots=True)
class Code:
    """Show the text as something to type, or an identifier."""

    text: str


@dataclass(frozen=True, slots=True)
class When:
    """Show an instant in the reader's own zone where the surface can, else UTC."""

    at: datetime


@dataclass(frozen=True, slots=True)
class Mention:
    """Ping one person: `user` is `slack:U01` or `teams:29:1x`.

    A surface that does not know them shows the name.
    """

    user: str
    name: str


@dataclass(frozen=True, slots=True)
class Link:
    """Link to an address that the bot itself made (never to one found in data)."""

    text: str
    url: str


Span = str | Strong | Code | When | Mention | Link


class Style(StrEnum):
    """Give a text its weight on the card."""

    NORMAL = "normal"
    QUIET = "quiet"
    LEAD = "lead"
    DETAIL = "detail"
    """Quiet, and behind a button in a message of chat: a phone shows what matters first."""


@dataclass(frozen=True, slots=True)
class Text:
    """Hold one paragraph."""

    spans: tuple[Span, ...]
    style: Style = Style.NORMAL


@dataclass(frozen=True, slots=True)
class Facts:
    """Hold short name-value pairs, read side by side."""

    pairs: tuple[tuple[str, str], ...]
    style: Style = field(default=Style.NORMAL, metadata=_OPTIONAL)


class Align(StrEnum):
    """Align a column."""

    LEFT = "left"
    RIGHT = "right"


@dataclass(frozen=True, slots=True)
class Heading:
    """Name a table's column; numbers are aligned right."""

    name: str
    align: Align = Align.LEFT


@dataclass(frozen=True, slots=True)
class Table:
    """Hold rows of ready text; `total` is one more row, set apart.

    `rest` names in words the rows that were folded away.

    `every` holds all rows where `rows` folds some, for a surface with room for them. `lines` holds
    for each of `every`, else of `rows`, the line that opens it, "" for none.
    """

    columns: tuple[Heading, ...]
    rows: tuple[tuple[str, ...], ...]
    total: tuple[str, ...] = ()
    caption: str = ""
    rest: str = ""
    every: tuple[tuple[str, ...], ...] = field(default=(), metadata=_OPTIONAL)
    lines: tuple[str, ...] = field(default=(), metadata=_OPTIONAL)


class ChartKind(StrEnum):
    """Choose how a chart is drawn.

    Lines over time, bars over categories (stacked when several series), cells over time, or bands
    that flow from each category to each series.
    """

    LINE = "line"
    BAR = "bar"
    HEAT = "heat"
    FLOW = "flow"


@dataclass(frozen=True, slots=True)
class Series:
    """Name one line or one colour of bars; None = no reading.

    `tone` gives a meaning its colour, else the palette does.

    `line` opens what the series shows, where there is more to it.
    """

    name: str
    values: tuple[float | None, ...]
    tone: Tone | None = None
    line: str = field(default="", metadata=_OPTIONAL)


@dataclass(frozen=True, slots=True)
class Chart:
    """Hold a chart's values; `unit` is `%`, `$`, `$/h`, `GB/s` ... and values are already in it.

    Line: `times` has one entry per value, `band` the usual (low, high), `shaded` the incident. Bar
    and flow: `categories`. Heat: a row each series, a cell each of `times`, which are starts, in percent.
    `summary` says in one sentence what the picture shows, for surfaces and readers without
    pictures. `lines` open the categories, one each; `partial` are the places of those that hold a
    part of their time only. `timed` ones follow each other, the newest last: a surface without room
    for all leaves the oldest out.
    """

    kind: ChartKind
    title: str
    unit: str
    series: tuple[Series, ...]
    times: tuple[datetime, ...] = ()
    categories: tuple[str, ...] = ()
    band: tuple[float, float] | None = None
    shaded: Window | None = None
    summary: str = ""
    lines: tuple[str, ...] = field(default=(), metadata=_OPTIONAL)
    partial: tuple[int, ...] = field(default=(), metadata=_OPTIONAL)
    timed: bool = field(default=False, metadata=_OPTIONAL)


class ButtonStyle(StrEnum):
    """Colour a button."""

    NORMAL = "normal"
    PRIMARY = "primary"
    DANGER = "danger"


@dataclass(frozen=True, slots=True)
class Button:
    """Type `line` for the person who presses.

    `opens` makes the answer's `MetricForm` a modal where the surface has them.
    """

    text: str
    line: str
    style: ButtonStyle = ButtonStyle.NORMAL
    opens: bool = False
    confirm: str = field(default="", metadata={"optional": True})
    """What is asked before the line is typed, where the surface can ask.

    Of what reaches far, and is not asked otherwise.
    """


@dataclass(frozen=True, slots=True)
class ShareButton(Button):
    """Show a private answer to everyone: its line answers the same line once more, for all."""


@dataclass(frozen=True, slots=True)
class Buttons:
    """Hold buttons of one row."""

    buttons: tuple[Button, ...]


class FieldKind(StrEnum):
    """Choose a form input."""

    TEXT = "text"
    NUMBER = "number"
    CHOICE = "choice"
    SWITCH = "switch"
    WHEN = "when"
    """An instant: picked where the surface can, else typed, UTC if no zone is given."""
    PERSON = "person"
    """Somebody.

    Picked from the people of the platform where the surface can, else from `options`, or typed.
    """


@dataclass(frozen=True, slots=True)
class Field:
    """Describe one input; `name` is the argument it fills."""

    name: str
    label: str
    kind: FieldKind = FieldKind.TEXT
    value: str = ""
    options: tuple[tuple[str, str], ...] = ()
    """(value, label) of a choice."""
    hint: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True)
class Form:
    """Hold inputs that submit one line.

    `line`, then ` name=value` for each field that is filled, quoted where needed.
    """

    title: str
    line: str
    fields: tuple[Field, ...]
    submit: str = "Run"


@dataclass(frozen=True, slots=True)
class Attachment:
    """Hold a text file: the table of the answer to `line`.

    A surface that cannot send it shows `url`, where there is one.
    """

    name: str
    content: str
    line: str
    url: str = ""


Block = Text | Facts | Table | Chart | Buttons | Form | Attachment
Kind = TypeVar("Kind", bound=Block)


@dataclass(frozen=True)
class Card:
    """Hold one message: `title` is the first line and survives every limit.

    `data` holds the typed numbers for `--json`.

    `public` answers go to the channel; others only to who asked, with a button to share (`share
    LINE`). `brief` is what a phone shows of a notification before it is opened: dollars and what,
    within 60 characters; the title where it is empty.
    """

    title: str
    tone: Tone = Tone.INFO
    blocks: tuple[Block, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    mentions: tuple[Mention, ...] = ()
    public: bool = False
    brief: str = field(default="", metadata=_OPTIONAL)

    def each(self, kind: type[Kind]) -> Iterator[Kind]:
        """Yield the blocks of a kind in their order."""
        return (block for block in self.blocks if isinstance(block, kind))

    @property
    def buttons(self) -> Iterator[Button]:
        """Yield the buttons of every row."""
        return (button for row in self.each(Buttons) for button in row.buttons)

    @property
    def primary(self) -> Button | None:
        """Return the button that it offers first of all."""
        return next((x for x in self.buttons if x.style is ButtonStyle.PRIMARY), None)

    def without_buttons(self, unwanted: Callable[[Button], bool]) -> Card:
        """Return the card without some buttons, and without the rows that these leave empty."""
        blocks = (
            Buttons(tuple(button for button in block.buttons if not unwanted(button)))
            if isinstance(block, Buttons)
            else block
            for block in self.blocks
        )
        return replace(self, blocks=tuple(block for block in blocks if block != Buttons(())))


def text(*spans: Span, style: Style = Style.NORMAL) -> Text:
    """Write a paragraph: `text("Wasting ", Strong("$1,083 an hour"))`."""
    return Text(spans, style)


def coded(sentence: str) -> tuple[Span, ...]:
    """Return a sentence of ours as spans, each part between grave accents as something to type."""
    # Between two accents stands every second part, though it may be the first that is not empty.
    return tuple(
        Code(part) if n % 2 else part for n, part in enumerate(sentence.split("`")) if part
    )


def quiet(*spans: Span) -> Text:
    """Write a paragraph in small grey: sources, dates, notes."""
    return Text(spans, Style.QUIET)


def detail(*spans: Span) -> Text:
    """Write a paragraph in small grey that a message of chat shows at a press."""
    return Text(spans, Style.DETAIL)


def is_detail(block: Block) -> bool:
    """Return whether a message of chat shows a block only at a press."""
    return isinstance(block, Text | Facts) and block.style is Style.DETAIL


def plain(spans: tuple[Span, ...]) -> str:
    """Return spans as bare text, instants in UTC."""
    parts = []
    for span in spans:
        match span:
            case str():
                parts.append(span)
            case When(at=at):
                parts.append(utc_text(at))
            case Mention(name=name):
                parts.append(f"@{name}")
            case Strong(text=words) | Code(text=words) | Link(text=words):
                parts.append(words)

    return "".join(parts)


def compose(*parts: Block | Iterable[Block] | Literal["", False] | None) -> tuple[Block, ...]:
    """Return blocks in their order: what is empty is left out, what is several is spread."""
    return tuple(
        block for part in parts for block in ((part,) if isinstance(part, Block) else part or ())
    )


EVERY = 2_500
"""Rows that a table keeps for a surface with room, which leafs through them."""


def folded(table: Table, most: int, rest: str) -> Table:
    """Return the table with its first `most` rows shown, and `rest` in place of the others.

    Whole where they are no more.
    """
    if len(table.rows) <= most:
        return table
    return replace(
        table,
        rows=table.rows[:most],
        rest=rest,
        every=table.rows[:EVERY],
        lines=table.lines[:EVERY],
    )


def first_words(card: Card) -> str:
    """Return a card's first paragraph as bare text, "" where it has none."""
    return next((plain(block.spans) for block in card.each(Text)), "")


def unnamed(card: Card) -> list[Mention]:
    """Return the people that a card pings whom no text of it names, each once."""
    spans = (span for block in card.each(Text) for span in block.spans)
    people = {span.user for span in spans if isinstance(span, Mention)}
    return [mention for mention in dict.fromkeys(card.mentions) if mention.user not in people]
