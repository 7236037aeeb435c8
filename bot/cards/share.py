"""Give a private answer the button that shows it to everyone, and take the button away where everyone reads it."""

from __future__ import annotations

from dataclasses import replace

from bot.cards.card import Block, Button, Buttons, Card, Form, Link, ShareButton, Table, Tone, quiet

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
