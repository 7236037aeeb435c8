"""Answer which packages and lines of code need CUDA, and list the steps of a migration."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from fnmatch import fnmatchcase

from bot.answers.plan.code import Finding, findings
from bot.cards.card import (
    Block,
    Button,
    Buttons,
    ButtonStyle,
    Card,
    Code,
    Tone,
    compose,
    quiet,
    text,
)
from bot.cards.columns import COUNT, Column, Columns, datum
from bot.cards.words import cited
from bot.errors import TrnbotError, WrongInput, not_known, shortened
from bot.grammar.line import read_line
from bot.grammar.names import refuse_unwritable
from bot.grammar.plain.senses import is_filler
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.claims import Claims, Note, Package, normal
from bot.model.money import counted
from bot.model.request import Request
from bot.model.window import calendar_day, day
from bot.ports import Documents, Ports

_NAME = re.compile(
    r"(?P<name>[A-Za-z0-9][\w.-]*)(?P<extras>\[[^\]]*\])?(?P<rest>\s*(?:[=<>!~@;].*)?)$"
)
_EGG = re.compile(r"#egg=([\w.-]+)")
_WHEEL = re.compile(r"\w+://\S*/([A-Za-z][\w.]*)-(\d[\w.+]*)\S*\.whl")
"""A wheel is named by its package, version and build."""
_REPOSITORY = re.compile(r"(?:git\+)?\w+://\S+?/([\w.-]+?)(?:\.git)?(?:@[^\s/]+)?")
"""A repository has, as a rule, the name of the package that is built from it."""
_ELSEWHERE = re.compile(
    r"(?:-r|-c|--requirement|--constraint|--(?:extra-)?index-url|-f|--find-links)\b"
)
"""Lines that name other files, or places where packages are looked for."""
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
    lines = _lines(text)
    # Names on one line stand apart by blanks, except before an operator, which belongs to one.
    words = re.split(r"[\s,]+(?![=<>!~;])", lines[0]) if len(lines) == 1 else lines

    by_name = {}
    for line in words:
        word = re.sub(r"^(?:-e|--editable)\s+", "", line)
        if wheel := _WHEEL.fullmatch(word):
            word = f"{wheel[1]}=={wheel[2]}"
        elif address := _EGG.search(word) or _REPOSITORY.fullmatch(word):
            word = address[1]
        match = _NAME.match(word)
        # Options of pip and bare numbers are no packages.
        if not match or word.startswith("-") or re.fullmatch(r"[\d.]+", word):
            continue
        built = f"{match['extras'] or ''}{match['rest'] or ''}"
        name = normal(match["name"])
        by_name[name] = Requirement(name, word, bool(_CUDA.search(built)))

    return tuple(by_name.values())


def unread(text: str) -> tuple[str, ...]:
    """Return the lines of a requirements file that may bring packages, and name none."""
    return tuple(line for line in _lines(text) if _ELSEWHERE.match(line))


def _lines(text: str) -> list[str]:
    return [
        line.partition(" #")[0].strip()
        for line in text.splitlines()
        if not line.lstrip().startswith("#")
    ]


def audit(
    wanted: Sequence[Requirement], packages: Sequence[Package], today: date
) -> tuple[Blocked, ...]:
    """Return the packages that need CUDA, in the order of the file; a CUDA build of any does."""
    blocked = []
    for requirement in wanted:
        listed = next((x for x in packages if fnmatchcase(requirement.name, x.name)), None)
        if listed:
            blocked.append(
                Blocked(requirement, listed.reason, listed.instead, cited(listed, today))
            )
        elif requirement.cuda_build:
            blocked.append(
                Blocked(
                    requirement,
                    "a build for CUDA",
                    f"{requirement.name} without the CUDA tag, as its Neuron build wants it",
                    "its version or extras say so",
                )
            )

    return tuple(blocked)


_BLOCKED = Columns[Blocked](
    Column("package", lambda blocked: blocked.requirement.name, key="name"),
    Column("", lambda blocked: blocked.requirement.text, key="text"),
    Column("why", lambda blocked: blocked.reason, key="reason"),
    Column("instead", lambda blocked: blocked.instead, key="instead", missing=""),
)


def cuda_card(
    wanted: Sequence[Requirement], blocked: Sequence[Blocked], elsewhere: Sequence[str] = ()
) -> Card:
    """List the packages that have to go, with their replacements, and the lines not followed."""
    buttons = Buttons(
        (Button("Does porting pay?", "breakeven"), Button("Twelve questions", "decide"))
    )
    data = {
        "packages": len(wanted),
        "blocked": _BLOCKED.data(blocked),
        "not_followed": list(elsewhere),
    }
    limits = (
        "By names and versions alone: code may still call torch.cuda, and a package that is not"
        " listed may need CUDA too."
    )
    if elsewhere:
        limits += f" Not followed: {shortened('; '.join(elsewhere), 200)}."
    note = quiet(limits)
    packages = counted(len(wanted), "package")
    if not blocked:
        title = f"None of {packages} is known to need CUDA"
        return Card(title, Tone.GOOD, (note, buttons), data)

    title = f"{len(blocked)} of {packages} {'needs' if len(blocked) == 1 else 'need'} CUDA"

    return Card(
        title,
        Tone.WARNING,
        (
            text(
                "AWS Neuron asks to take CUDA dependencies out before a model is ported; each row"
                " is work to plan."
            ),
            _BLOCKED.table(blocked, most=40),
            note,
            quiet(f"Sources: {'; '.join(sorted({x.source for x in blocked}))}."),
            buttons,
        ),
        data,
    )


_PIP = re.compile(r"[=<>\[\n]|://")
_FILE = re.compile(r"[^\s=<>]*(?:/|\.txt$|\.in$|\.lock$)[^\s=<>]*")
_CODE = re.compile(r"\.{1,2}|[^\s=<>]+(?:\.py|/)")
_FINDINGS = Columns[Finding](
    Column("file", lambda finding: finding.file, key="file"),
    Column("line", lambda finding: finding.line, COUNT, "line", "number of the line in its file"),
    Column("what", lambda finding: finding.kind, key="kind"),
    Column("why", lambda finding: finding.reason, key="reason"),
    Column("on Neuron", lambda finding: finding.instead, key="instead"),
    datum("source", lambda finding: finding.source),
)


def code_card(texts: Mapping[str, str], claims: Claims) -> Card:
    """List the lines of Python files that have to change."""
    found: list[Finding] = []
    unread = []
    for file, code in sorted(texts.items()):
        try:
            found += findings(file, code, claims.code, claims.packages)
        except (SyntaxError, ValueError, RecursionError) as error:
            unread.append(f"{file} is not Python: {error}")

    lines = len({(finding.file, finding.line) for finding in found})
    verb = "has" if lines <= 1 else "have"
    title = f"{counted(lines, 'line') if lines else 'No line'} {verb} to change for Neuron"
    if unread:
        title += f"; {counted(len(unread), 'file')} could not be read"
    kinds = ", ".join(
        f"{kind} {n}" for kind, n in Counter(finding.kind for finding in found).most_common()
    )

    return Card(
        title,
        Tone.WARNING if found or unread else Tone.GOOD,
        compose(
            text(f"{counted(len(texts), 'file')} read. {kinds}".strip() + ("." if kinds else "")),
            _FINDINGS.table(found, most=40) if found else None,
            [quiet(f"{sentence}.") for sentence in unread],
            quiet(
                "Read, not run: a device that is named by a setting, and a library that calls"
                " CUDA, are not seen. What torch.cuda.is_available() guards never runs on Neuron."
            ),
            quiet(f"Sources: {'; '.join(sorted({x.source for x in found}))}.") if found else None,
        ),
        {
            "files": len(texts),
            "lines": lines,
            "findings": _FINDINGS.data(found),
            "checks": [{"name": "code", "ok": not found and not unread}],
        },
    )


def _code(ports: Ports, request: Request, words: str) -> Mapping[str, str] | None:
    """Return the Python files that are named, None where packages are."""
    files = ports.site.files
    if _CODE.fullmatch(words):
        return files.code(words, request)
    # A word may name a folder or a package: the one that the tables know is meant as a package.
    listed = audit(requirements(words), ports.world.knowledge.claims().packages, request.at.date())
    if _PIP.search(words) or " " in words or listed:
        return None
    with suppress(TrnbotError):
        code = files.code(words, request)
        return code if set(code) != {words} else None
    return None


@command(
    "cuda",
    "Packages of a requirements file or 'pip freeze', and lines of Python code, that need CUDA.",
    needs=Needs.NOTHING,
    topic=Topic.PLANS,
    aliases=("audit",),
    examples=(
        "cuda torch==2.5.1+cu124 flash-attn==2.7.0 numpy",
        "cuda requirements.txt",
        "cuda train.py",
    ),
    figures={
        "packages": "count of the packages given",
        "files": "count of the Python files that were read",
        "lines": "count of the lines that have to change",
        **_FINDINGS.sources("findings"),
    },
)
def cuda(
    ports: Ports,
    request: Request,
    packages: str = arg(
        "", "the packages, or in a terminal a file or a folder of Python code", rest=True
    ),
) -> Card:
    """Look every package, or every line of code, up."""
    words = packages.strip()
    if not words:
        say = text(
            "Paste what 'pip freeze' prints after the word cuda, or in a terminal name the file:"
            " cuda requirements.txt."
        )
        return Card("Which packages need CUDA?", Tone.INFO, (say,), {"packages": 0, "blocked": []})

    if code := _code(ports, request, words):
        return code_card(code, ports.world.knowledge.claims())

    # Of what is pasted the lines are kept, as they stand in the line.
    line, file = read_line(request.line), _FILE.fullmatch(words)
    pasted = ports.site.files.text(words, request) if file else line.rest.strip().strip("`")
    packages_given = requirements(pasted)
    blocked = audit(packages_given, ports.world.knowledge.claims().packages, request.at.date())

    # Names alone may be plain words: those of a sentence, or of another audit than for CUDA.
    surely = file or _PIP.search(pasted)
    known = blocked or line.text.lower().startswith("cuda")
    if not packages_given or not (surely or (known and not any(map(is_filler, pasted.split())))):
        raise WrongInput(
            f"No package was recognized in '{shortened(pasted)}'; paste what 'pip freeze' prints,"
            " such as torch==2.5.1 flash-attn==2.7.0."
        )

    return cuda_card(packages_given, blocked, unread(pasted))


@dataclass(frozen=True)
class StepTick:
    """State who ticked a step off, and when."""

    by: str
    at: datetime


def checklist_card(name: str, stored: Checklist, notes: Sequence[Note]) -> Card:
    """Draw the steps in order; the first that is open has the strongest button."""
    steps = [(number, note, stored.done.get(number)) for number, note in enumerate(notes, 1)]
    lines: list[Block] = []
    presses = []
    style, last_done = ButtonStyle.PRIMARY, 0
    for number, note, tick in steps:
        mark, by = "[ ]", ""
        if tick:
            mark, last_done = "[x]", number
            by = f" Done by {tick.by}, {day(tick.at)}."
        else:
            presses.append(
                Button(
                    f"Done: {number}",
                    f"checklist done {name} {number} kind={stored.kind}",
                    style,
                )
            )
            style = ButtonStyle.NORMAL
        lines.append(
            text(
                f"{mark} {number}. {note.says[0].upper()}{note.says[1:]} ({note.source},"
                f" {calendar_day(note.asof)}).{by}"
            )
        )

    if last_done:
        presses.append(Button(f"Reopen {last_done}", f"checklist reopen {name} {last_done}"))

    done = sum(tick is not None for *_, tick in steps)

    return Card(
        f"Migration {name}: {done} of {len(steps)} steps done",
        Tone.GOOD if done == len(steps) else Tone.INFO,
        (
            *lines,
            Buttons(tuple(presses)),
            quiet(
                "In a thread: ", Code(f"checklist {name}"), " shows the current state to everyone."
            ),
        ),
        {
            "name": name,
            "kind": stored.kind,
            "steps": [
                {
                    "number": number,
                    "subject": note.subject,
                    "done_by": tick.by if tick else "",
                    "done_at": tick and tick.at,
                }
                for number, note, tick in steps
            ],
        },
        public=True,
    )


@dataclass(frozen=True)
class Checklist:
    """Hold the ticks of a kind of checklist, by the number of the step."""

    kind: str
    done: Mapping[int, StepTick] = field(default_factory=dict)


CHECKLISTS = Documents("checklists", Checklist)
KINDS = {"start": "steps", "devops": "devops"}
"""What can be ticked off: five steps to begin with, or the four of a whole port."""


@command(
    "checklist",
    "The steps of a migration, to tick off in the thread.",
    needs=Needs.DATABASE,
    topic=Topic.PLANS,
    examples=("checklist", "checklist llama kind=devops", "checklist llama"),
    figures={
        "number": "place in the list",
    },
)
def checklist(
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
    return _card(ports, name, _stored(ports, name, kind))


@command(
    "checklist done",
    "Mark a step as done.",
    needs=Needs.DATABASE,
    topic=Topic.PLANS,
    examples=("checklist done llama 2", "checklist done llama 2 kind=devops"),
    changes=True,
)
def checklist_done(
    ports: Ports,
    request: Request,
    name: str = arg(None, "the name of the migration"),
    number: int = arg(None, "the step's number"),
    kind: str = arg(
        "", "which list of steps, if none of them is done yet", choices=("", *KINDS), keyword=True
    ),
) -> Card:
    """Write who did it, and when; the first tick counts."""
    stored = _stored(ports, name, kind, number)
    tick = StepTick(request.user.name or request.user.id, request.at)
    ticked = replace(stored, done={number: tick, **stored.done})
    CHECKLISTS.put(ports.stores.documents, name, ticked)

    return _card(ports, name, ticked)


@command(
    "checklist reopen",
    "Mark a step as not done.",
    needs=Needs.DATABASE,
    topic=Topic.PLANS,
    examples=("checklist reopen llama 2",),
    changes=True,
)
def checklist_reopen(
    ports: Ports,
    request: Request,
    name: str = arg(None, "the name of the migration"),
    number: int = arg(None, "the step's number"),
) -> Card:
    """Forget who did it."""
    documents = ports.stores.documents
    refuse_unwritable(name)
    if CHECKLISTS.get(documents, name) is None:
        raise not_known(
            f"There is no checklist '{name}' with a tick",
            name,
            CHECKLISTS.keys(documents, 200),
            otherwise="set one by 'checklist done NAME STEP'",
        )

    stored = _stored(ports, name, "", number)
    reopened = replace(
        stored, done={step: done for step, done in stored.done.items() if step != number}
    )
    CHECKLISTS.put(documents, name, reopened)

    return _card(ports, name, reopened)


def _stored(ports: Ports, name: str, kind: str, number: int | None = None) -> Checklist:
    """Return the checklist, an empty one for a name that is new.

    Raise `WrongInput` where it is of another kind, or has no step of that number.
    """
    refuse_unwritable(name)
    stored = CHECKLISTS.get(ports.stores.documents, name) or Checklist(kind or "start")
    if kind and stored.kind != kind:
        if stored.done:
            raise WrongInput(
                f"The checklist '{name}' is of kind {stored.kind} and begun; take another name."
            )
        stored = Checklist(kind)

    count = len(ports.world.knowledge.claims().of(KINDS[stored.kind]))
    if number is not None and not 1 <= number <= count:
        raise WrongInput(f"The checklist '{name}' has steps 1 to {count}; got {number}.")

    return stored


def _card(ports: Ports, name: str, stored: Checklist) -> Card:
    return checklist_card(name, stored, ports.world.knowledge.claims().of(KINDS[stored.kind]))
