"""Write lines that the grammar reads back, and the button that shares an answer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from bot.cards.card import Block, Button, Buttons, Card, Form, Link, ShareButton, Table, Tone, quiet
from bot.model.spend import Filter
from bot.model.window import Window


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
    """Return a filter as it may be typed: `team=vision`, `team!=vision,research`, `team=` for none."""
    return f"{pair.dimension}{'!=' if pair.negated else '='}{quote(','.join(pair.values)) if any(pair.values) else ''}"


def cost_line(window: str, by: Sequence[str], filters: Sequence[Filter] = ()) -> str:
    """Return the line that asks for the cost of a window, by these dimensions, of the charges that pass the filters."""
    return " ".join(
        ["cost", window, *(["by", ",".join(by)] if by else []), *map(filter_line, filters)]
    )


def window_line(window: Window) -> str:
    """Return the window as it may be typed: `2026-11`, `2026-11-01..2026-11-07`, or two instants."""
    midnight = all(
        at == at.replace(hour=0, minute=0, second=0, microsecond=0)
        for at in (window.start, window.end)
    )
    if not midnight or window.length < timedelta(days=1):
        return f"{_instant(window.start)}..{_instant(window.end)}"
    last = window.end - timedelta(days=1)
    return (
        f"{window.start:%Y-%m-%d}..{last:%Y-%m-%d}"
        if last > window.start
        else f"{window.start:%Y-%m-%d}"
    )


def _instant(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M}" if not at.second else f"{at:%Y-%m-%dT%H:%M:%S}"


def spreadsheet(table: str) -> bytes:
    """Return the content of a CSV file; Excel reads UTF-8 by its mark."""
    return f"\ufeff{table}".encode()


def file_name(line: str, kind: str = "csv") -> str:
    """Return the name of a file with the answer to a line: `trnbot-cost-7d-by-team.csv`."""
    words = re.sub(r"[^\w.]+", "-", line, flags=re.ASCII).strip("-")
    return f"trnbot-{words[:80]}.{kind}"


PREFIX = "share "
"""Begins the line that answers another line for everyone."""
LONGEST_SHARED = 1_500
"""Characters of a line that a button can hold on every platform."""


def with_share(card: Card, line: str) -> Card:
    """Give a private answer the button that shows it to everyone, in its last row of buttons.

    A form is for who opened it.
    """
    asks = any(isinstance(block, Form) for block in card.blocks)
    if card.public or asks or card.tone is Tone.ERROR or len(line) > LONGEST_SHARED:
        return card
    return _with_button(card, ShareButton("Share", f"{PREFIX}{line}"))


def with_file(card: Card, line: str) -> Card:
    """Give an answer with a table the button that makes a file of it, in its last row of buttons."""
    tabled = any(isinstance(block, Table) for block in card.blocks)
    asks = any(isinstance(block, Form) for block in card.blocks)
    if not tabled or asks or card.tone is Tone.ERROR or len(line) > LONGEST_SHARED:
        return card
    return _with_button(card, Button("CSV", f"csv {line}"))


def _with_button(card: Card, button: Button) -> Card:
    last = card.blocks[-1] if card.blocks else None
    if isinstance(last, Buttons):
        return replace(card, blocks=(*card.blocks[:-1], Buttons((*last.buttons, button))))
    return replace(card, blocks=(*card.blocks, Buttons((button,))))


def with_permalink(card: Card, url: str) -> Card:
    """Say where the same line is answered again; before the last buttons, which stay last."""
    asks = any(isinstance(block, Form) for block in card.blocks)
    if not url or asks or card.tone is Tone.ERROR:
        return card
    last = card.blocks[-1:] if card.blocks and isinstance(card.blocks[-1], Buttons) else ()
    return replace(
        card,
        blocks=(
            *card.blocks[: len(card.blocks) - len(last)],
            quiet(Link("Open in console", url)),
            *last,
        ),
    )


def without_share(card: Card) -> Card:
    """Return the card without buttons to share it: all can see it already."""
    return replace(
        card, blocks=tuple(block for block in map(_unshared, card.blocks) if block != Buttons(()))
    )


def _unshared(block: Block) -> Block:
    if not isinstance(block, Buttons):
        return block
    return Buttons(tuple(button for button in block.buttons if not isinstance(button, ShareButton)))
