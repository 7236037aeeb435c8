"""Answer which packages of a code base need CUDA."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase

from bot.answers.line import read_line
from bot.answers.registry import Needs, Topic, arg, command
from bot.cards.card import Button, Buttons, Card, Column, Table, Tone, quiet, text
from bot.cards.notes import cited
from bot.errors import WrongInput
from bot.model.claims import Package
from bot.model.counts import counted
from bot.model.request import Request
from bot.ports import Ports

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
    table = Table((Column("package"), Column("why"), Column("instead")), rows, rest=rest)
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


@command(
    "cuda",
    "Packages of a requirements file or 'pip freeze' that need CUDA.",
    needs=Needs.NOTHING,
    topic=Topic.PLANS,
    examples=("cuda torch==2.5.1+cu124 flash-attn==2.7.0 numpy", "cuda requirements.txt"),
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
