"""Answer which packages need CUDA, and list the steps of a migration."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from fnmatch import fnmatchcase

from bot.cards.card import (
    Block,
    Button,
    Buttons,
    ButtonStyle,
    Card,
    Code,
    Heading,
    Table,
    Text,
    Tone,
    quiet,
    text,
)
from bot.cards.words import cited
from bot.errors import WrongInput, nearest
from bot.grammar.line import read_line
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.claims import Note, Package
from bot.model.money import counted
from bot.model.request import Request
from bot.ports import Documents, Ports

_NAME = re.compile(
    r"(?P<name>[A-Za-z0-9][\w.-]*)(?P<extras>\[[^\]]*\])?(?P<rest>\s*(?:[=<>!~@;].*)?)$"
)
_CUDA = re.compile(r"\+cu\d+|\bcuda\d*", re.IGNORECASE)


@dataclass(frozen=True)
class Requirement:
    """Name one package as pip writes it; `build` follows `+` or stands in its extras."""

    name: str
    text: str
    cuda_build: bool = False


@dataclass(frozen=True)
class Blocked:
    """State a requirement that needs CUDA, and why."""

    requirement: Requirement
    reason: str
    instead: str
    source: str


def requirements(text: str) -> tuple[Requirement, ...]:
    """Read a requirements file or `pip freeze`, a package a line.

    Names alone may stand on one line, by blanks or commas.
    """
    lines = [
        line.partition(" #")[0].strip()
        for line in text.splitlines()
        if not line.lstrip().startswith("#")
    ]
    words = lines if len(lines) > 1 else re.split(r"[\s,]+(?![=<>!~;])", lines[0]) if lines else []
    by_name = {requirement.name: requirement for word in words for requirement in _read(word)}
    return tuple(by_name.values())


def audit(
    wanted: Sequence[Requirement], packages: Sequence[Package], today: date
) -> tuple[Blocked, ...]:
    """Return the packages that need CUDA, in the order of the file; a CUDA build of any does."""
    return tuple(
        blocked for requirement in wanted if (blocked := _blocked(requirement, packages, today))
    )


def normal(name: str) -> str:
    """Return a package's name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _read(word: str) -> Iterator[Requirement]:
    word = re.sub(r"^(?:-e|--editable)\s+", "", word)
    if egg := re.search(r"#egg=([\w.-]+)", word):
        word = egg[1]
    match = _NAME.match(word)
    if not match or word.startswith("-") or re.fullmatch(r"[\d.]+", word):
        return
    built = f"{match['extras'] or ''}{match['rest'] or ''}"
    yield Requirement(normal(match["name"]), word, bool(_CUDA.search(built)))


def _blocked(requirement: Requirement, packages: Sequence[Package], today: date) -> Blocked | None:
    listed = next((x for x in packages if fnmatchcase(requirement.name, x.name)), None)
    if listed:
        return Blocked(requirement, listed.reason, listed.instead, cited(listed, today))
    if requirement.cuda_build:
        return Blocked(
            requirement,
            "a build for CUDA",
            f"{requirement.name} without the CUDA tag, as its Neuron build wants it",
            "its version or extras say so",
        )
    return None


_MOST = 40


def cuda_card(wanted: Sequence[Requirement], blocked: Sequence[Blocked]) -> Card:
    """List the packages that have to go, with their replacements."""
    buttons = Buttons((Button("Does porting pay?", "breakeven"), Button("Ten questions", "decide")))
    data = {
        "packages": len(wanted),
        "blocked": [
            {
                "name": x.requirement.name,
                "text": x.requirement.text,
                "reason": x.reason,
                "instead": x.instead,
            }
            for x in blocked
        ],
    }
    note = quiet(
        "By names and versions alone: code may still call torch.cuda, and a package that is not listed may need CUDA too."
    )
    if not blocked:
        return Card(
            f"None of {counted(len(wanted), 'package')} is known to need CUDA",
            Tone.GOOD,
            (note, buttons),
            data,
        )
    rows = tuple((x.requirement.name, x.reason, x.instead) for x in blocked[:_MOST])
    rest = f"and {len(blocked) - _MOST} more" if len(blocked) > _MOST else ""
    table = Table((Heading("package"), Heading("why"), Heading("instead")), rows, rest=rest)
    sources = quiet(f"Sources: {'; '.join(sorted({x.source for x in blocked}))}.")
    title = f"{len(blocked)} of {counted(len(wanted), 'package')} {'needs' if len(blocked) == 1 else 'need'} CUDA"
    advice = text(
        "AWS Neuron asks to take CUDA dependencies out before a model is ported; each row is work to plan."
    )
    return Card(title, Tone.WARNING, (advice, table, note, sources, buttons), data)


def cuda_help_card() -> Card:
    """Ask for the text of a requirements file."""
    say = text(
        "Paste what 'pip freeze' prints after the word cuda, or in a terminal name the file: cuda requirements.txt."
    )
    return Card("Which packages need CUDA?", Tone.INFO, (say,), {"packages": 0, "blocked": []})


_FILE = re.compile(r"[^\s=<>]*(?:/|\.txt$|\.in$|\.lock$)[^\s=<>]*")


_CUDA_FIGURES = {
    "packages": "count of the packages given",
}


@command(
    "cuda",
    "Packages of a requirements file or 'pip freeze' that need CUDA.",
    needs=Needs.NOTHING,
    topic=Topic.PLANS,
    examples=("cuda torch==2.5.1+cu124 flash-attn==2.7.0 numpy", "cuda requirements.txt"),
    figures=_CUDA_FIGURES,
)
async def cuda(
    ports: Ports,
    request: Request,
    packages: str = arg("", "the packages, or in a terminal the name of a file", rest=True),
) -> Card:
    """Look every package up."""
    if not packages.strip():
        return cuda_help_card()
    wanted = requirements(_text(ports, request, packages))
    if not wanted:
        raise WrongInput(
            "No package was given; paste what 'pip freeze' prints, such as torch==2.5.1 flash-attn==2.7.0."
        )
    return cuda_card(
        wanted, audit(wanted, ports.world.knowledge.claims().packages, request.at.date())
    )


def _text(ports: Ports, request: Request, words: str) -> str:
    """Return the pasted text, its lines kept, or the text of a file where a terminal asks."""
    if not _FILE.fullmatch(words.strip()):
        return read_line(request.line).rest.strip().strip("`")
    return ports.site.files.text(words.strip(), request)


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
_CHECKLIST_MOST = 200


_CHECKLIST_FIGURES = {
    "number": "place in the list",
}


@command(
    "checklist",
    "The steps of a migration, to tick off in the thread.",
    needs=Needs.DATABASE,
    topic=Topic.PLANS,
    examples=("checklist", "checklist llama kind=devops", "checklist llama"),
    figures=_CHECKLIST_FIGURES,
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
            CHECKLISTS.keys(documents, _CHECKLIST_MOST),
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
