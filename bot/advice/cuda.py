"""Find the packages of a requirements file that need CUDA."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from bot.model.claims import Package

_NAME = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*)(?P<extras>\[[^\]]*\])?(?P<rest>\s*(?:[=<>!~@;].*)?)$")
_CUDA = re.compile(r"\+cu\d+|\bcuda\d*", re.IGNORECASE)


@dataclass(frozen=True)
class Requirement:
    """Name one package as pip writes it; `build` is what follows `+` or stands in its extras."""

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
    """Read a requirements file or `pip freeze`, a package a line; names alone may stand on one line, by blanks or commas."""
    lines = [line.partition(" #")[0].strip() for line in text.splitlines() if not line.lstrip().startswith("#")]
    words = lines if len(lines) > 1 else re.split(r"[\s,]+(?![=<>!~;])", lines[0]) if lines else []
    found = {one.name: one for word in words for one in _read(word)}
    return tuple(found.values())


def audit(wanted: Sequence[Requirement], known: Sequence[Package]) -> tuple[Blocked, ...]:
    """Return what needs CUDA, in the order of the file; a CUDA build of anything does."""
    return tuple(found for one in wanted if (found := _blocked(one, known)))


def normal(name: str) -> str:
    """Return a package's name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _read(word: str) -> Iterator[Requirement]:
    word = re.sub(r"^(?:-e|--editable)\s+", "", word)
    if egg := re.search(r"#egg=([\w.-]+)", word):
        word = egg[1]
    found = _NAME.match(word)
    if not found or word.startswith("-") or re.fullmatch(r"[\d.]+", word):
        return
    built = f"{found['extras'] or ''}{found['rest'] or ''}"
    yield Requirement(normal(found["name"]), word, bool(_CUDA.search(built)))


def _blocked(one: Requirement, known: Sequence[Package]) -> Blocked | None:
    listed = next((x for x in known if fnmatchcase(one.name, x.name)), None)
    if listed:
        return Blocked(one, listed.reason, listed.instead, f"{listed.source}, {listed.asof}")
    if one.cuda_build:
        return Blocked(
            one,
            "a build for CUDA",
            f"{one.name} without the CUDA tag, as its Neuron build wants it",
            "its version or extras say so",
        )
    return None
