"""Show steps that people tick off, each with a button, as they stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from bot.cards.card import Block, Button, Buttons, ButtonStyle, Card, Code, Text, Tone, quiet, text
from bot.model.claims import Note


@dataclass(frozen=True)
class Step:
    """State one step: what it is, and who did it when ("" and None while it is open)."""

    number: int
    note: Note
    done_by: str = ""
    done_at: datetime | None = None


def checklist_card(name: str, kind: str, steps: Sequence[Step]) -> Card:
    """Draw the steps in order; the first that is open has the strongest button."""
    done = sum(bool(step.done_by) for step in steps)
    blocks: list[Block] = [_line(step) for step in steps]
    left = [step for step in steps if not step.done_by]
    presses = [
        Button(
            f"Done: {step.number}",
            f"checklist done {name} {step.number} kind={kind}",
            ButtonStyle.PRIMARY if step is left[0] else ButtonStyle.NORMAL,
        )
        for step in left
    ]
    if done:
        last = max((step for step in steps if step.done_by), key=lambda step: step.number)
        presses.append(Button(f"Reopen {last.number}", f"checklist reopen {name} {last.number}"))
    blocks += [
        Buttons(tuple(presses)),
        quiet("In a thread: ", Code(f"checklist {name}"), " shows it again as it stands, to everyone."),
    ]
    data = {
        "name": name,
        "kind": kind,
        "steps": [{"number": x.number, "subject": x.note.subject, "done_by": x.done_by, "done_at": x.done_at} for x in steps],
    }
    tone = Tone.GOOD if not left else Tone.INFO
    return Card(f"Migration {name}: {done} of {len(steps)} steps done", tone, tuple(blocks), data, public=True)


def _line(step: Step) -> Text:
    note, mark = step.note, "[x]" if step.done_by else "[ ]"
    by = f" Done by {step.done_by}, {step.done_at:%Y-%m-%d}." if step.done_by and step.done_at else ""
    return text(f"{mark} {step.number}. {note.says[0].upper()}{note.says[1:]} ({note.source}, {note.asof}).{by}")
