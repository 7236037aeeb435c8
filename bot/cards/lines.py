"""Write lines that the grammar reads back, and the button that shares an answer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import time, timedelta

from bot.cards.card import (
    Button,
    Buttons,
    Card,
    Facts,
    Form,
    Link,
    ShareButton,
    Style,
    Table,
    Text,
    Tone,
    is_detail,
    quiet,
)
from bot.model.spend import Filter
from bot.model.window import Window

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\ue000-\uf8ff\U000e0000-\U000e0fff"
    "\U000f0000-\U0010ffff]"
)
"""Controls, marks that turn the direction of writing, tags that only machines read, private signs.

The joiners U+200C and U+200D stay: words of some languages, and emoji, need them.
"""


def visible(text: str) -> str:
    """Return a text without what a reader cannot see, on every surface; tab and line end stay."""
    return _UNSEEN.sub("", text)


def quote(value: str) -> str:
    """Return `value` so that the grammar of `bot.answers.line` reads it back as one word."""
    if value and not re.search(r"[\s\"'\\=]", value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def form_line(line: str, filled: Mapping[str, str]) -> str:
    """Return `line` with ` name=value` for every field that is filled."""
    return " ".join(
        [line, *(f"{name}={quote(value)}" for name, value in filled.items() if value != "")]
    )


def filter_line(pair: Filter) -> str:
    """Return a filter as it may be typed: `team=vision`, `team!=vision,research`, `team=`."""
    values = quote(",".join(pair.values)) if any(pair.values) else ""
    return f"{pair.dimension}{'!=' if pair.negated else '='}{values}"


def cost_line(window: str, by: Sequence[str], filters: Sequence[Filter] = ()) -> str:
    """Return the line that asks for the cost of a window, by these dimensions and filters."""
    split = ["by", ",".join(by)] if by else []
    return " ".join(["cost", window, *split, *map(filter_line, filters)])


def window_line(window: Window) -> str:
    """Return the window as it may be typed: `2026-11`, `2026-11-01..2026-11-07`, two instants."""
    ends = (window.start, window.end)
    if not all(end.time() == time.min for end in ends) or window.length < timedelta(days=1):
        return "..".join(f"{end:%Y-%m-%dT%H:%M:%S}".removesuffix(":00") for end in ends)
    first, last = window.start, window.end - timedelta(days=1)
    return f"{first:%Y-%m-%d}" + (f"..{last:%Y-%m-%d}" if last > first else "")


def spreadsheet(table: str) -> bytes:
    """Return the content of a CSV file; Excel reads UTF-8 by its mark."""
    return f"\ufeff{table}".encode()


def file_name(line: str) -> str:
    """Return the name of a CSV file with the answer to a line: `trnbot-cost-7d-by-team.csv`."""
    words = re.sub(r"[^\w.]+", "-", line, flags=re.ASCII).strip("-")
    return f"trnbot-{words[:80]}.csv"


PREFIX = "share "
"""Begins the line that answers another line for everyone."""
DETAILS = "details "
"""Begins the line that answers another line with its details shown."""
LONGEST_SHARED = 1_500
"""Characters of a line that a button can hold on every platform."""


def _asks(card: Card) -> bool:
    """Return whether a card is a form or a mistake: nothing to share or to keep."""
    return card.tone is Tone.ERROR or any(card.each(Form))


def with_share(card: Card, line: str) -> Card:
    """Give a private answer the button that shows it to everyone, in its last row of buttons.

    A form is for who opened it.
    """
    if card.public or _asks(card) or len(line) > LONGEST_SHARED:
        return card
    return _with_button(card, ShareButton("Share", f"{PREFIX}{line}"))


def with_file(card: Card, line: str) -> Card:
    """Give an answer with a table the button that makes a file of it, in its last row."""
    if not any(card.each(Table)) or _asks(card) or len(line) > LONGEST_SHARED:
        return card
    return _with_button(card, Button("CSV", f"csv {line}"))


def without_details(card: Card, line: str) -> Card:
    """Return the card with a button in place of its details, which answers `line` with them.

    Unchanged where it has none, or no line.
    """
    blocks = tuple(block for block in card.blocks if not is_detail(block))
    if not line or len(blocks) == len(card.blocks) or len(line) > LONGEST_SHARED:
        return card

    return _with_button(replace(card, blocks=blocks), Button("Details", f"{DETAILS}{line}"))


def with_details(card: Card) -> Card:
    """Return the card with its details shown."""
    blocks = (
        replace(block, style=Style.QUIET)
        if isinstance(block, Text | Facts) and is_detail(block)
        else block
        for block in card.blocks
    )
    return replace(card, blocks=tuple(blocks))


def _with_button(card: Card, button: Button) -> Card:
    *above, last = card.blocks or (None,)
    if isinstance(last, Buttons):
        return replace(card, blocks=(*above, Buttons((*last.buttons, button))))
    return replace(card, blocks=(*card.blocks, Buttons((button,))))


def with_permalink(card: Card, url: str) -> Card:
    """Say where the same line is answered again; before the last buttons, which stay last."""
    if not url or _asks(card):
        return card
    # Buttons stay last: that is where people look for them, and where others are added.
    link, end = quiet(Link("Open in console", url)), len(card.blocks)
    if card.blocks and isinstance(card.blocks[-1], Buttons):
        end -= 1

    return replace(card, blocks=(*card.blocks[:end], link, *card.blocks[end:]))


def without_share(card: Card) -> Card:
    """Return the card without buttons to share it: all can see it already."""
    return card.without_buttons(lambda button: isinstance(button, ShareButton))
