"""Draw a Card as an Adaptive Card 1.5 (the version of Universal Actions), within a budget of bytes.

Blocks are dropped from the last when the budget bites, and the card says which; title and first
text survive.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from adapters.chat.cards import Json, short
from adapters.chat.teams.charts import chart_elements, table_elements, with_picture
from adapters.chat.teams.elements import (
    Mentions,
    button_sets,
    escape,
    form_elements,
    paragraph,
    pings,
    words,
)
from bot.cards.card import (
    Attachment,
    Block,
    Buttons,
    Card,
    Chart,
    Code,
    Facts,
    Form,
    Link,
    Mention,
    Span,
    Style,
    Table,
    Text,
    Tone,
    plain,
)
from bot.ports import Draw

ALERT_BYTES = 27_000
"""What a card may weigh in a message of 28 KB, the limit of a Workflows webhook, with room for the envelope."""
ANSWER_BYTES = 78_000
"""What a card may weigh in a bot's message.

Teams takes about 100 KB, 80 leaves room for the envelope.
"""
_PICTURE_LEAST = 16_000  # under this room no chart ever fits, so none is drawn
_NOTE = 400

_LOOK = {
    Tone.CRITICAL: "attention",
    Tone.WARNING: "warning",
    Tone.INFO: "accent",
    Tone.OVER: "emphasis",
    Tone.GOOD: "good",
    Tone.ERROR: "attention",
}


def weigh(document: object) -> int:
    """Return the bytes of a document as it is sent."""
    return len(dumps(document))


def dumps(document: object) -> bytes:
    """Write JSON as it is sent: compact UTF-8."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


@dataclass(frozen=True)
class _Piece:
    """Hold one block as drawn, and whom it pings."""

    block: Block
    elements: Sequence[Json]
    pings: Sequence[Json]

    @property
    def bytes(self) -> int:
        return weigh(self.elements) + weigh(self.pings)


def render(
    card: Card, draw: Draw | None = None, *, budget: int = ANSWER_BYTES, stands: bool = False
) -> Json:
    """Return the Adaptive Card, at most `budget` bytes (not under 24,000) when sent.

    `draw` makes the picture for hosts without charts, where room is left. `stands` marks a message
    whose card a press must not replace.
    """
    mentions = Mentions()
    shell = _shell(card, mentions)
    room = budget - weigh(shell) - _NOTE
    pieces = _fitting(card, mentions, room, stands)
    left = card.blocks[len(pieces) :]
    spare = room - sum(piece.bytes for piece in pieces)
    drawn = (
        _pictured(pieces, draw, spare)
        if not left
        else [e for piece in pieces for e in piece.elements]
    )
    shell["body"] += drawn + ([words(_dropped(left), Style.QUIET)] if left else [])
    _ping(shell, [ping for piece in pieces for ping in piece.pings])
    return shell


def _fitting(card: Card, mentions: Mentions, room: int, stands: bool) -> list[_Piece]:
    """Return the first blocks that fit, giving up the tables' plain-text fallbacks before any block."""
    pieces: list[_Piece] = []
    for rich in (True, False):
        pieces = [_piece(block, i, mentions, rich, stands) for i, block in enumerate(card.blocks)]
        if sum(piece.bytes for piece in pieces) <= room:
            return pieces
    fitting = 0
    for piece in pieces:
        room -= piece.bytes
        if room < 0:
            break
        fitting += 1
    return pieces[:fitting] or [
        _shortened(block) for block in card.blocks[:1] if isinstance(block, Text)
    ]


def _shortened(block: Text) -> _Piece:
    """Return as much of a first paragraph as always fits."""
    return _Piece(block, [words(short(plain(block.spans), 1500), block.style)], [])


def _piece(block: Block, number: int, mentions: Mentions, rich: bool, stands: bool) -> _Piece:
    return _Piece(block, _elements(block, number, mentions, rich, stands), mentions.take())


def _elements(
    block: Block, number: int, mentions: Mentions, rich: bool, stands: bool
) -> list[Json]:
    """Draw one block; the one place that knows them all."""
    match block:
        case Text() | Attachment():
            return [
                paragraph(block if isinstance(block, Text) else Text(_offered(block)), mentions)
            ]
        case Facts(pairs=pairs):
            facts = [
                {"title": escape(short(k, 100)), "value": escape(short(v, 1000)) or "–"}
                for k, v in pairs
            ]
            return [{"type": "FactSet", "facts": facts}] if facts else []
        case Table():
            return table_elements(block, rich=rich)
        case Chart():
            return chart_elements(block)
        case Buttons():
            return button_sets(block, stands=stands)
        case Form():
            return form_elements(block, number, stands=stands)


def _offered(file: Attachment) -> tuple[Span, ...]:
    """Link to the file: a bot puts none into a channel of Teams without each person's consent."""
    if file.url:
        return (Link(file.name, file.url),)
    return (
        "The console gives it where it has a public address; in a terminal: ",
        Code(f"trnbot {file.line} --csv"),
    )


def _shell(card: Card, mentions: Mentions) -> Json:
    """Return the card with its coloured first line and the people it is for."""
    title = short(" ".join(card.title.split()), 300) or "trnbot"
    head = words(title, bold=True)
    for run in head["inlines"]:
        run["size"] = "medium"
    body: list[Json] = [
        {"type": "Container", "style": _LOOK[card.tone], "bleed": True, "items": [head]}
    ]
    shell = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.5",
        "fallbackText": escape(title),
        "msteams": {"width": "Full"},
        "body": body,
    }
    people = _unsaid(card)
    if people:
        body.append(paragraph(Text(("For ", *people)), mentions))
    _ping(shell, mentions.take())
    return shell


def _unsaid(card: Card) -> list[Mention]:
    """Return whom the card is for and no text names yet, at most ten."""
    texts = [block.spans for block in card.blocks if isinstance(block, Text)]
    named = {span.user for spans in texts for span in spans if isinstance(span, Mention)}
    return [m for m in card.mentions if m.user not in named and pings(m)][:10]


def _ping(shell: Json, entities: Sequence[Json]) -> None:
    """Add entities, each text once."""
    by_text = {
        entity["text"]: entity for entity in [*shell["msteams"].get("entities", []), *entities]
    }
    if by_text:
        shell["msteams"]["entities"] = list(by_text.values())


def _pictured(pieces: Sequence[_Piece], draw: Draw | None, spare: int) -> list[Json]:
    """Return all elements, charts with a picture as long as there is room."""
    elements: list[Json] = []
    for piece in pieces:
        drawn = list(piece.elements)
        if draw and isinstance(piece.block, Chart) and len(drawn) > 1 and spare > _PICTURE_LEAST:
            pictured = with_picture(drawn, piece.block, draw(piece.block))
            cost = weigh(pictured) - weigh(drawn)
            if cost <= spare:
                drawn, spare = pictured, spare - cost
        elements += drawn
    return elements


def _dropped(blocks: Sequence[Block]) -> str:
    """Return the sentence that counts the blocks left out."""
    counts = Counter(type(block).__name__.lower() for block in blocks)
    names = {"facts": "list of facts", "text": "paragraph", "buttons": "row of buttons"}
    parts = [
        f"{n} {names.get(kind, kind)}{'s' if n > 1 and kind != 'buttons' else ''}"
        for kind, n in counts.items()
    ]
    return f"Left out, the message would be too long: {', '.join(parts)}."
