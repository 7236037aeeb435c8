"""Answer with the steps of a migration: posted once, ticked off by anyone, the same for everybody."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from bot.answers.registry import Needs, Topic, arg, command
from bot.cards.card import Block, Button, Buttons, ButtonStyle, Card, Code, Text, Tone, quiet, text
from bot.errors import WrongInput, nearest
from bot.model.claims import Note
from bot.model.request import Request
from bot.ports import Documents, Ports


@dataclass(frozen=True)
class Step:
    """State one step: its note, and who did it when ("" and None while it is open)."""

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
        quiet("In a thread: ", Code(f"checklist {name}"), " shows the current state to everyone."),
    ]
    data = {
        "name": name,
        "kind": kind,
        "steps": [
            {
                "number": x.number,
                "subject": x.note.subject,
                "done_by": x.done_by,
                "done_at": x.done_at,
            }
            for x in steps
        ],
    }
    tone = Tone.GOOD if not left else Tone.INFO
    return Card(
        f"Migration {name}: {done} of {len(steps)} steps done",
        tone,
        tuple(blocks),
        data,
        public=True,
    )


def _line(step: Step) -> Text:
    note, mark = step.note, "[x]" if step.done_by else "[ ]"
    by = (
        f" Done by {step.done_by}, {step.done_at:%Y-%m-%d}."
        if step.done_by and step.done_at
        else ""
    )
    return text(
        f"{mark} {step.number}. {note.says[0].upper()}{note.says[1:]} ({note.source}, {note.asof}).{by}"
    )


@dataclass(frozen=True)
class StepTick:
    """State who ticked a step off, and when."""

    by: str
    at: datetime


@dataclass(frozen=True)
class Checklist:
    """Hold the ticks of a kind of checklist, by the number of the step."""

    kind: str
    done: Mapping[int, StepTick] = field(default_factory=dict)


CHECKLISTS = Documents("checklists", Checklist)
KINDS = {"start": "steps", "devops": "devops"}
"""What can be ticked off: five steps to begin with, or the four of a whole port."""
_MOST = 200


@command(
    "checklist",
    "The steps of a migration, to tick off in the thread.",
    needs=Needs.DATABASE,
    topic=Topic.PLANS,
    examples=("checklist", "checklist llama kind=devops", "checklist llama"),
)
async def checklist(
    ports: Ports,
    request: Request,
    name: str = arg("first", "name of the migration, such as the model's name"),
    kind: str = arg(
        "",
        "start = the first five steps, devops = the four steps of a complete port",
        choices=("", *KINDS),
        keyword=True,
    ),
) -> Card:
    """Show the steps as they stand; a name that is new has none ticked."""
    return await asyncio.to_thread(_shown, ports, _plain(name), kind)


@command(
    "checklist done",
    "Mark a step as done.",
    needs=Needs.DATABASE,
    topic=Topic.PLANS,
    examples=("checklist done llama 2", "checklist done llama 2 kind=devops"),
    changes=True,
)
async def checklist_done(
    ports: Ports,
    request: Request,
    name: str = arg(None, "name of the migration"),
    number: int = arg(None, "the step's number"),
    kind: str = arg(
        "", "which list of steps, if none of them is done yet", choices=("", *KINDS), keyword=True
    ),
) -> Card:
    """Write who did it, and when; the first tick counts."""
    tick = StepTick(request.user.name or request.user.id, request.at)
    return await asyncio.to_thread(_ticked, ports, _plain(name), number, kind, tick)


@command(
    "checklist reopen",
    "Mark a step as not done.",
    needs=Needs.DATABASE,
    topic=Topic.PLANS,
    examples=("checklist reopen llama 2",),
    changes=True,
)
async def checklist_reopen(
    ports: Ports,
    request: Request,
    name: str = arg(None, "name of the migration"),
    number: int = arg(None, "the step's number"),
) -> Card:
    """Forget who did it."""
    return await asyncio.to_thread(_ticked, ports, _plain(name), number, "", None)


def _plain(name: str) -> str:
    if not re.fullmatch(r"[\w.-]{1,60}", name):
        raise WrongInput(
            f"'{name[:60]}' cannot be a name; use letters, digits, dots and dashes, such as llama-70b."
        )
    return name


def _shown(ports: Ports, name: str, kind: str) -> Card:
    return _card(ports, name, _stored(ports, name, kind))


def _stored(ports: Ports, name: str, kind: str) -> Checklist:
    """Return the checklist, an empty one for a name that is new.

    Raise `WrongInput` where it is of another kind.
    """
    stored = CHECKLISTS.get(ports.stores.documents, name)
    if stored is None or not stored.done:
        return Checklist(kind or (stored.kind if stored else "start"))
    if kind and stored.kind != kind:
        raise WrongInput(
            f"The checklist '{name}' is of kind {stored.kind} and begun; take another name."
        )
    return stored


def _ticked(ports: Ports, name: str, number: int, kind: str, tick: StepTick | None) -> Card:
    documents = ports.stores.documents
    if tick is None and CHECKLISTS.get(documents, name) is None:
        hint = nearest(
            name,
            CHECKLISTS.keys(documents, _MOST),
            otherwise="set one by 'checklist done NAME STEP'",
        )
        raise WrongInput(f"There is no checklist '{name}' with a tick{hint}.")
    stored = _stored(ports, name, kind)
    count = len(ports.world.knowledge.claims().of(KINDS[stored.kind]))
    if not 1 <= number <= count:
        raise WrongInput(f"The checklist '{name}' has steps 1 to {count}; got {number}.")
    others = {step: done for step, done in stored.done.items() if step != number}
    ticked = replace(
        stored, done=others | {number: stored.done.get(number, tick)} if tick else others
    )
    CHECKLISTS.put(documents, name, ticked)
    return _card(ports, name, ticked)


def _card(ports: Ports, name: str, stored: Checklist) -> Card:
    notes = ports.world.knowledge.claims().of(KINDS[stored.kind])
    return checklist_card(
        name, stored.kind, [_step(n, note, stored.done.get(n)) for n, note in enumerate(notes, 1)]
    )


def _step(number: int, note: Note, tick: StepTick | None) -> Step:
    return Step(number, note, tick.by, tick.at) if tick else Step(number, note)
