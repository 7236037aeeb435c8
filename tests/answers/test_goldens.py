"""Every answer says what it was last seen to say: each example of each command, and lines that lead to its other branches.

`golden_lines.txt` lists what is asked of which recording, in sections. A section begins anew with what the watch found, and has
one golden, whose name is its own; the examples of the command of that name come first, so that a new command needs no line
there. `make goldens` writes them anew: read `git diff tests/answers/goldens` before you keep it.
"""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from adapters.store.memory import MemoryStore
from bot.answers.receipt.verify import UNSTATED, formula_of
from bot.app import App
from bot.cards.card import Card
from bot.errors import Unavailable, WrongInput
from bot.grammar.line import read_line
from bot.grammar.registry import Command, Needs, commands_by_name
from bot.model.action import Action, ActionState, Progress
from bot.model.codec import encode
from bot.model.receipt import numbers
from bot.model.request import LOCAL, Request, User
from bot.model.window import parse_duration
from bot.settings.settings import read_settings
from bot.wiring.source import OpenedSource
from tests.answers.configuring import ADMIN, ANYONE, app
from tests.answers.golden_worlds import WORLDS, recorded
from tests.answers.test_code import SCRIPTS
from tests.belonging import MEMBER
from tests.cards.test_goldens import laid_out, shortened
from tests.house.fakes import Chat

GOLDENS = Path(__file__).parent / "goldens"
LINES = Path(__file__).with_name("golden_lines.txt")
FILES = Path(__file__).with_name("golden_files")
"""Where lines of a terminal are typed: what `preflight`, `cuda` and `config import` read."""
EXAMPLES_OF = "clusters"
"""The recording that examples are asked of."""
LOOKS = tuple(timedelta(hours=n / 2) for n in (96, 71, 69, 67, 48, 24, 16, 8, 4, 3, 2, 1, 0))
"""How long before the end of a recording the watch looks at it."""
ROUTES = {
    "TRNBOT_ROUTE": "slack:C0OPS",
    "TRNBOT_ROUTES": "cluster=llama -> slack:C0LLAMA; cause=idle -> slack:C0IDLE",
    "TRNBOT_FINOPS": "slack:C0FINOPS",
    "TRNBOT_ESCALATE": "slack:C0LEADS",
    "TRNBOT_OWNERS": "dana = slack:U0DANA",
}
"""Who is notified of what in the recording of clusters."""
WRITES = os.environ.get("GOLDENS") == "write"
SHOWN = 6
"""How many items of a long list of data are kept."""
USUAL = (None, "", [], {}, "normal", "left")
"""What fields of a card usually are."""
DIGITS = 9
"""As many digits of a float are the same on every machine."""


class Provider:
    """Implement `bot.ports.Actions`: what is asked for begins at the first step, and is done at the second."""

    def __init__(self) -> None:
        self._begun = set[str]()

    def rehearse(self, action: Action) -> Sequence[str]:
        return [f"It would {action.kind} {', '.join(action.targets)}."]

    def advance(self, action: Action) -> Progress:
        if action.id in self._begun:
            return Progress(ActionState.WORKED, "All of it is done.")
        self._begun.add(action.id)
        return Progress(ActionState.UNDER_WAY, "It was asked to.")


class Audited(logging.Handler):
    """Keep what the audit log is told."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._records = list[str]()

    def emit(self, record: logging.LogRecord) -> None:
        self._records.append(" · ".join(filter(None, vars(record)["record"].values())))

    def taken(self) -> Mapping[str, Any]:
        """Return what was told since it was asked last, nothing where that is nothing."""
        records, self._records = self._records, []
        return {"audit": records} if records else {}


class Directory:
    """Implement `bot.ports.People`: knows dana, and nothing about who is away."""

    async def belongs(self, user: str, group: str) -> bool:
        return False

    async def name(self, user: str) -> str:
        if user == "U0AWAY":
            raise Unavailable("Slack did not answer.")
        return "Dana Lead" if user == "U0DANA" else ""


@dataclass(frozen=True)
class Section:
    """Hold the lines whose answers are one golden."""

    world: str
    name: str
    lines: tuple[str, ...]

    @property
    def golden(self) -> Path:
        return GOLDENS / self.world / f"{self.name.replace(' ', '-')}.json"


def sections() -> list[Section]:
    """Return what is asked of each recording: the examples of each command, then what the file lists."""
    world, name, listed = "", "", dict[tuple[str, str], list[str]]()
    for line in LINES.read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            world = line.removeprefix("== ")
        elif line.startswith("["):
            name = line.strip("[]")
            listed.setdefault((world, name), [])
        elif line and not line.startswith("#"):
            listed[world, name].append(line)

    asked = {typed(line)[1] for lines in listed.values() for line in lines}
    for command in commands_by_name(hidden=True):
        if not command.handler.__module__.startswith("bot."):
            continue
        examples = [line for line in command.examples if line not in asked]
        asked |= set(examples)
        if examples:
            key = (EXAMPLES_OF, command.name)
            listed[key] = examples + listed.get(key, [])
    return [Section(world, name, tuple(lines)) for (world, name), lines in listed.items()]


def typed(line: str) -> tuple[list[str], str]:
    """Return how a line is asked, as words that begin with `@`, and the line."""
    words = line.split(" ")
    manners = [word[1:] for word in words if re.fullmatch(r"@[a-z0-9-]+", word)]
    return manners, " ".join(words[len(manners) :])


class Asked:
    """A recording that the watch has looked at, and that lines are asked of."""

    def __init__(self, world: str) -> None:
        self._world = world
        self._folder = recorded(world)
        source = f"recording:{self._folder}"
        routes = ROUTES if world == "clusters" else {}
        settings = read_settings({"TRNBOT_SOURCE": source, "TRNBOT_INTERVAL": "1h", **routes})
        self._opened = OpenedSource(source, settings)
        self._watched = MemoryStore()
        self._loop = asyncio.new_event_loop()
        self.unstated = set[str]()
        """Numbers that no formula is stated for, by their commands."""
        self._seen = dict[str, str]()
        bot = self._over(self._watched)
        extent = bot.ports.world.source.extent()
        assert extent
        self.end = extent.end
        for before in LOOKS:
            self._loop.run_until_complete(bot.tick(self.end - before))

    def close(self) -> None:
        self._loop.close()

    def answers(self, section: Section) -> str:
        """Ask the lines of a section one after another, and return them with their answers."""
        bot, said = self._bot(), list[Any]()
        written, audited = "", Audited()
        log = logging.getLogger("trnbot.audit")
        log.addHandler(audited)
        log.setLevel(logging.INFO)
        for asked in section.lines:
            manners, line = typed(asked)
            line = self._named(line, written)
            card = self._loop.run_until_complete(bot.answer(self._request(line, manners)))
            self.unstated |= _unstated(line, card)
            told = self._of_any_machine({"card": self._document(card), **audited.taken()})
            said.append({"line": line, **told})
            written += json.dumps(said[-1])
        log.removeHandler(audited)
        log.setLevel(logging.NOTSET)
        return laid_out(said) + "\n"

    def _bot(self) -> App:
        """Return a bot that has seen what the watch saw, and nothing else."""
        return self._over(copy.deepcopy(self._watched))

    def _over(self, store: MemoryStore) -> App:
        more = {
            "surfaces": {"web": Chat(), "chat": Chat(), "slack": Chat()},
            "actions": Provider(),
            "people": {"slack": Directory()},
            "second_usd": Decimal(20_000),
        }
        return app(self._opened, store, **more)

    def _document(self, card: Card) -> Any:
        """Return the card's own document, shortened where its data are long."""
        whole = encode(card)
        return spare(whole | {"data": shortened(whole["data"], SHOWN)})

    def _of_any_machine(self, answer: Mapping[str, Any]) -> Any:
        text = json.dumps(answer, ensure_ascii=False)
        return json.loads(text.replace(str(self._folder), "RECORDING"))

    def _request(self, line: str, manners: Sequence[str]) -> Request:
        request = Request(line, User(ADMIN, "dana"), self.end, "chat", MEMBER, "chat:ops")
        for manner in manners:
            if manner == "terminal":
                request = replace(request, surface="terminal", belonging=LOCAL, channel="")
            elif manner == "anyone":
                request = replace(request, user=User(ANYONE, "eve"))
            elif manner == "other":
                request = replace(request, user=User("chat:U3", "finn"))
            elif manner == "thread":
                log = self._watched.load(self.end).notification_log
                entry = next(entry for entry in log if entry.channel == "slack:C0LLAMA")
                request = replace(request, channel=entry.channel, thread=entry.message)
            else:
                length = parse_duration(manner.removeprefix("-"))
                at = self.end - length if manner.startswith("-") else self.end + length
                request = replace(request, at=at)
        return request

    def _named(self, line: str, written: str) -> str:
        """Put what there is in the place of the names that examples have: the newest of its kind."""
        line = line.replace("llama/trn", "llama/llama-nodes")
        if self._world == "metrics":
            line = line.replace("llama", "tiny")
        for name, (find, pattern) in STANDS_FOR.items():
            if name in line:
                text = self._all_of(find) if find else written
                if found := re.findall(pattern, text):
                    line = line.replace(name, found[-1])
        return line

    def _all_of(self, line: str) -> str:
        """Return the data of a line's answer, asked once."""
        if line not in self._seen:
            bot = self._bot()
            card = self._loop.run_until_complete(bot.answer(self._request(line, ())))
            self._seen[line] = json.dumps(encode(card)["data"])
        return self._seen[line]


def has_receipt(command: Command) -> bool:
    """Return whether `receipt` takes lines of a command."""
    return not (
        command.changes or command.carries or command.audited or Needs.REPLAY in command.opens
    )


def _unstated(line: str, card: Card) -> set[str]:
    """Return the numbers of an answer that its command states no formula for."""
    try:
        runs = read_line(line).runs
    except WrongInput:
        return set()
    if "error" in card.data or not has_receipt(runs):
        return set()
    # Like rows have like names: each is looked up once.
    paths = {
        tuple(name for name in path if isinstance(name, str)) for path, _ in numbers(card.data)
    }
    return {
        f"{runs.name}: {'/'.join(path)}"
        for path in paths
        if formula_of(runs.figures, path) == UNSTATED
    }


STANDS_FOR: Mapping[str, tuple[str, str]] = {
    "i-0a1b2c3d4e5f60718": ("idle", r"i-[0-9a-f]{17}"),
    "vol-0a1b2c3d4e5f60718": ("storage", r"vol-[0-9a-f]{17}"),
    "{broken}": ("faults", r"i-[0-9a-f]{17}"),
    "a1b2c3d4e": ("alerts llama", r'"(a[0-9a-f]{9})"'),
    "{idle}": ("alerts lab", r'"(a[0-9a-f]{9})"'),
    "{over}": ("alerts window=7d", r'"(a[0-9a-f]{9})"(?:(?!"id": )[^\n])*?"closed_at": "2'),
    "{bill}": ("alerts serving", r'"(a[0-9a-f]{9})"'),
    "s1234abcd": ("suggestions", r"\bs[0-9a-f]{8}\b"),
    "m1b2c3d4e": ("", r"\b[ms][0-9a-f]{9}\b"),
    "p1234abcd": ("", r"\bp[0-9a-f]{8}\b"),
    "x1234abcd": ("", r"\bx[0-9a-f]{8}\b"),
}
"""By name in an example: the line whose answer names what there is, or "" for the section's own, and how it is spelled there."""


def spare(value: Any) -> Any:
    """Return a document without what is empty or usual, and without digits of floats that machines may differ in."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        slim = {name: spare(item) for name, item in value.items()}
        return {
            name: item for name, item in slim.items() if item is not False and item not in USUAL
        }
    return [spare(item) for item in value] if isinstance(value, list) else value


@pytest.fixture
def typing_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], Asked]]:
    """Return a way to ask a recording, from a folder that has the files which examples name."""
    for file in FILES.iterdir():
        shutil.copy(file, tmp_path)
    for name, script in SCRIPTS.items():
        path = tmp_path / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script)
    (tmp_path / "train.py").write_text(SCRIPTS["planted/single_gpu.py"])
    monkeypatch.chdir(tmp_path)
    opened = list[Asked]()

    def ask(world: str) -> Asked:
        opened.append(Asked(world))
        return opened[-1]

    yield ask
    for each in opened:
        each.close()


@pytest.mark.first
@pytest.mark.timeout(400)
@pytest.mark.parametrize("world", WORLDS)
def test_it_answers_as_it_was_last_seen_to_answer(
    world: str, typing_here: Callable[[str], Asked]
) -> None:
    asked, changed = typing_here(world), []
    for section in sections():
        if section.world != world:
            continue
        answers = asked.answers(section)
        if WRITES:
            section.golden.parent.mkdir(parents=True, exist_ok=True)
            section.golden.write_text(answers, encoding="utf-8")
        elif not section.golden.exists() or answers != section.golden.read_text(encoding="utf-8"):
            changed.append(first_difference(section, answers))
    assert not changed, "\n".join(changed)
    assert sorted(asked.unstated) == []


def first_difference(section: Section, answers: str) -> str:
    """Say where an answer differs from its golden: its line, what was said and what is said."""
    if not section.golden.exists():
        return f"{section.golden} is missing; 'make goldens' writes it"
    golden, new = section.golden.read_text(encoding="utf-8").splitlines(), answers.splitlines()
    pairs = zip([*golden, *[""] * len(new)], [*new, *[""] * len(golden)], strict=False)
    number, (old, now) = next((n, pair) for n, pair in enumerate(pairs, 1) if pair[0] != pair[1])
    return f"{section.golden}:{number}\n  was {old.strip()[:300]}\n  is  {now.strip()[:300]}"


def test_no_golden_is_left_over() -> None:
    wanted = {section.golden for section in sections()}
    assert set(GOLDENS.rglob("*.json")) == wanted
