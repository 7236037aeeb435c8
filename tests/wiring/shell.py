"""Type the lines of a session in process, as a person does in a shell, and write down all that a line shows and leaves."""

from __future__ import annotations

import importlib
import io
import json
import logging
import pkgutil
import re
import shlex
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import bot.wiring
from adapters.aws.live import account
from adapters.store.open import BESIDE
from bot.__main__ import main
from bot.model.window import parse_duration, parse_instant
from bot.wiring import logs
from tests.aws_live.conftest import World

INDENT = "  "
NOON = datetime.fromisoformat("2026-11-20T12:00:00+00:00")
_SET = re.compile(r"[A-Za-z_]+=\S*")
MASKS = (
    (r"trnbot (\d+\.\d+\.\d+\S*|unpacked)\b", "trnbot VERSION"),
    (r"(opened/[a-z]+|simulator/\w+-\d+)[-0-9a-f]+", r"\1-DIGEST"),
    (r"\"(written|at)\": \"20[^\"]+Z\"", r'"\1": "…"'),
    (r"erased:[0-9a-f]{8}", "erased:HEX"),
    (r'"digest": "[0-9a-f]+"', '"digest": "HEX"'),
    (r"\btrnbot_[\w-]{30,}", "TOKEN"),
    (r"(?m)^[\w-]{43}=$", "KEY="),
    (r"after \d+ s\b", "after N s"),
    (r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
)
"""What is another one each time, and what is written for it."""


@contextmanager
def clock_of(world: World) -> Iterator[None]:
    """Let every part of the wiring read the world's time where it would read the wall's, and wait for no limit of AWS."""
    rooms = [x.name for x in pkgutil.iter_modules(bot.wiring.__path__, "bot.wiring.")]
    with pytest.MonkeyPatch.context() as patch:
        for module in map(importlib.import_module, rooms):
            if hasattr(module, "wall_clock"):
                patch.setattr(module, "wall_clock", lambda: world.now)
        patch.setattr(account, "ReadTiming", partial(account.ReadTiming, pause=lambda _: None))
        yield


@contextmanager
def left_as_it_was() -> Iterator[None]:
    """Take back what a process does to itself: who hears the log, what is hidden in it, how threads take turns."""
    audit, interval = logging.getLogger("trnbot.audit"), sys.getswitchinterval()
    handlers, level, known = list(audit.handlers), audit.level, logs._known
    yield
    audit.handlers[:], logs._known = handlers, known
    audit.setLevel(level)
    sys.setswitchinterval(interval)


class Shell:
    """Run lines in a folder: those of trnbot, a few of a shell's own, and what happens to the world meanwhile."""

    def __init__(self, folder: Path, world: World, masks: Mapping[str, str]) -> None:
        self.folder, self.world = folder, world
        self._typed = ""
        self._environ = pytest.MonkeyPatch()
        self._masks = {re.escape(text): name for text, name in masks.items()} | dict(MASKS)
        self._environ.chdir(folder)
        self._own: Mapping[str, Callable[..., str]] = {
            "ls": self._ls,
            "cat": lambda name: (folder / name).read_text(),
            "chmod": self._chmod,
            "write": self._write,
            "rm": self._rm,
        }
        self._events: Mapping[str, Callable[..., Any]] = {
            "env": self._set,
            "time": self._move,
            "deny": lambda *actions: world.standin.faults.denied.update(actions),
            "allow": world.standin.faults.end,
            "dead": lambda: setattr(world.standin.faults, "dead", True),
            "silent": world.standin.cloudwatch.series.clear,
            "publish": world.standin.publish,
            "type": self._type,
        }

    def close(self) -> None:
        self._environ.undo()

    def happens(self, event: str) -> None:
        """Let something happen to the world."""
        name, *words = shlex.split(event)
        self._events[name](*words)

    def shown(self, line: str) -> list[str]:
        """Return what a line shows, how it ends, and what it asked of AWS."""
        call, *filters = (part.strip() for part in line.split(" | "))
        words = shlex.split(call)
        environ = {}
        while words and _SET.fullmatch(words[0]):
            name, _, environ[name] = words.pop(0).partition("=")
        name, *rest = words
        before = Counter(self.world.standin.called)
        with pytest.MonkeyPatch.context() as patch:
            for variable, value in environ.items():
                patch.setenv(variable, value)
            own = self._own.get(name)
            code, out, err = (0, own(*rest), "") if own else self._called(rest)
        for pipe in filters if out else ():
            out = _filtered(out, *shlex.split(pipe))
        asked = self.world.standin.called - before
        lines = self._masked(out).splitlines()
        lines += [f"! {x}" for x in self._masked(err).splitlines()]
        if asked:
            lines.append(f"> {', '.join(f'{name} {n}' for name, n in sorted(asked.items()))}")
        return lines + ([f"[{code}]"] if code else [])

    def _called(self, words: list[str]) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        typed, self._typed = io.StringIO(self._typed), ""
        with (
            left_as_it_was(),
            clock_of(self.world),
            redirect_stdout(out),
            redirect_stderr(err),
            pytest.MonkeyPatch.context() as patch,
        ):
            patch.setattr(sys, "stdin", typed)
            code = main(words)
        return code, out.getvalue(), err.getvalue()

    def _masked(self, text: str) -> str:
        for pattern, name in self._masks.items():
            text = re.sub(pattern, name, text)
        return text

    def _ls(self, name: str = ".") -> str:
        """List what is under a folder, with who may read it; not what SQLite keeps beside a file while it is open."""
        found = sorted(x for x in (self.folder / name).rglob("*") if not x.name.endswith(BESIDE))
        return "\n".join(
            f"{stat.filemode(x.stat().st_mode)} {x.relative_to(self.folder)}"
            for x in found
            if x.is_file()
        )

    def _chmod(self, mode: str, name: str) -> str:
        (self.folder / name).chmod(int(mode, 8))
        return ""

    def _write(self, name: str, *lines: str) -> str:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text("".join(f"{line}\n" for line in lines))
        return ""

    def _rm(self, name: str) -> str:
        (self.folder / name).unlink()
        return ""

    def _set(self, pair: str) -> None:
        name, equals, value = pair.partition("=")
        if equals:
            self._environ.setenv(name, value)
        else:
            self._environ.delenv(name, raising=False)

    def _move(self, to: str) -> None:
        ahead = to.startswith("+")
        self.world.now = self.world.now + parse_duration(to[1:]) if ahead else parse_instant(to)

    def _type(self, *lines: str) -> None:
        self._typed += "".join(f"{line}\n" for line in lines)


def _filtered(text: str, name: str, asked: str, *more: str) -> str:
    """Return the part of an output that is asked for, as a shell's own programs do."""
    lines = text.splitlines()
    match name:
        case "grep" if asked == "-v":
            return "\n".join(line for line in lines if not re.search(more[0], line))
        case "grep":
            return "\n".join(line for line in lines if re.search(asked, line))
        case "head":
            return "\n".join(lines[: int(asked)])
        case "tail":
            return "\n".join(lines[-int(asked) :])
        case "wc":
            return str(len(lines))
        case "json":
            return "\n".join(
                json.dumps(x, ensure_ascii=False) for x in _at(json.loads(text), asked)
            )
    raise ValueError(f"'{name}' is no filter")


def _at(value: Any, path: str) -> Iterator[Any]:
    """Yield what stands at a path of JSON, `[]` being every item of a list."""
    head, _, rest = path.partition(".")
    if not head:
        yield value
    elif head == "[]":
        for item in value:
            yield from _at(item, rest)
    elif "," in head:
        yield {name: value.get(name) for name in head.split(",")}
    else:
        yield from _at(value[head], rest)
