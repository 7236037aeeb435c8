"""Show dated sentences of others, each with how firm it is and who says it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bot.cards.card import Block, Strong, Text, text
from bot.model.claims import Note


def note_lines(notes: Sequence[Note], heading: str = "") -> list[Block]:
    """Draw each note as a line of its own: a table would cut the words that matter."""
    head: list[Block] = [text(Strong(heading))] if heading and notes else []
    return head + [_line(note) for note in notes]


def notes_data(notes: Sequence[Note]) -> list[dict[str, Any]]:
    """Return the notes as data for `--json`."""
    return [
        {
            "topic": note.topic,
            "subject": note.subject,
            "says": note.says,
            "state": note.state,
            "source": note.source,
            "asof": note.asof,
        }
        for note in notes
    ]


def _line(note: Note) -> Text:
    return text(Strong(note.subject), f": {note.says} ({note.state}; {note.source}, {note.asof}).")
