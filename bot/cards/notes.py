"""Show dated sentences of others, each with how firm it is and who says it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from bot.cards.card import Block, Strong, Text, text
from bot.model.claims import Note, Sourced, stale_days


@dataclass(frozen=True)
class PriceAge:
    """Tell how old a price is on a day, where it is older than a price may be (`advice.stale_days`)."""

    today: date
    days: float

    def of(self, asof: date) -> str:
        """Return `, 121 days old: check it`, or nothing."""
        age = (self.today - asof).days
        return f", {age} days old: check it" if age > self.days else ""


def cited(fact: Sourced, today: date) -> str:
    """Write where a fact was read and its date, and its age where that is more than its kind may have."""
    old = stale_days(fact, today)
    return f"{fact.source}, {fact.asof}" + (f", {old} days old: check it" if old else "")


def note_lines(notes: Sequence[Note], today: date, heading: str = "") -> list[Block]:
    """Draw each note as a line of its own: a table would cut the words that matter."""
    head: list[Block] = [text(Strong(heading))] if heading and notes else []
    return head + [_line(note, today) for note in notes]


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


def _line(note: Note, today: date) -> Text:
    return text(Strong(note.subject), f": {note.says} ({note.state}; {cited(note, today)}).")
