"""Keep priced answers in a folder, in the form of a recording, so that a restart asks for none of them again."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from threading import RLock
from typing import Any

from adapters.aws.api.calls import Calls, Place
from adapters.aws.api.history import json_of
from adapters.aws.api.responses import STAMP, read_stamp
from bot.errors import Unavailable

_NAME = re.compile(r"(\d{8}T\d{6}Z)(?:\.(.+))?\.json")
_KEPT_SETS = 2
"""The newest set of answers and the one before it, which a reader may still hold open."""


class CapReached(Unavailable):
    """Report that no more priced calls are made today."""


@dataclass
class ExplorerAnswers:
    """Ask Cost Explorer at most `most_calls` times a UTC day, and keep its answers under `folder`/api."""

    calls: Calls
    folder: Path
    place: Place
    most_calls: int
    lock: RLock = field(default_factory=RLock)

    def ask(self, operation: str, **given: Any) -> list[Mapping[str, Any]]:
        """Return every page of one answer.

        Raise `CapReached` when the day's calls are used, `Unavailable` otherwise.
        """
        if self.left() <= 0:
            raise CapReached(
                f"Today's {self.most_calls} calls to Cost Explorer are used (TRNBOT_AWS_EXPLORER_CALLS)."
            )
        try:
            return list(self.calls.pages(self.place, "ce", operation, **given))
        finally:
            self.calls.meter.save()

    def left(self) -> int:
        """Return how many calls of today are left."""
        used = self.calls.meter.today().units
        return self.most_calls - sum(
            units for name, units in used.items() if name.startswith("ce:")
        )

    def put(
        self,
        operation: str,
        at: datetime,
        answers: Mapping[str, Sequence[Mapping[str, Any]]],
        first: str = "",
    ) -> None:
        """Write a set of answers of one time, each by its subject; the one called `first` last.

        Without it none counts.
        """
        folder = self.of(operation)
        folder.mkdir(parents=True, exist_ok=True)
        for about in sorted(answers, key=lambda name: name == first):
            name = f"{at:{STAMP}}.{about}.json" if about else f"{at:{STAMP}}.json"
            part = folder / f".{name}.part"
            part.write_bytes(json_of(answers[about]) + b"\n")
            part.replace(folder / name)
        self._forget(folder, first)

    def newest(self, operation: str, about: str = "") -> datetime | None:
        """Return the time of the newest answer about a subject."""
        times = [match[1] for match in self._named(self.of(operation)) if (match[2] or "") == about]
        return read_stamp(max(times)) if times else None

    def of(self, operation: str) -> Path:
        """Return the folder of an operation's answers."""
        return self.folder / "api" / "ce" / operation / "us-east-1"

    def copy_to(self, folder: Path, until: datetime | None = None) -> int:
        """Copy every kept answer into a recording; return how many.

        An answer given after `until`, its end, counts from then.
        """
        files = [
            path for path in (self.folder / "api").rglob("*.json") if _NAME.fullmatch(path.name)
        ]
        for path in files:
            at, dot, rest = path.name.partition(".")
            named = min(at, f"{until:{STAMP}}") if until else at
            target = folder / path.relative_to(self.folder).with_name(named + dot + rest)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        return len(files)

    def _forget(self, folder: Path, first: str) -> None:
        """Drop sets that are older than the last ones of the same kind."""
        times = sorted({match[1] for match in self._named(folder) if (match[2] or "") == first})[
            :-_KEPT_SETS
        ]
        for match in self._named(folder):
            tagged = (match[2] or "").startswith("tag=")
            if match[1] in times and (
                (match[2] or "") == first if first.startswith("tag=") else not tagged
            ):
                (folder / match[0]).unlink(missing_ok=True)

    def _named(self, folder: Path) -> list[re.Match[str]]:
        return [
            match for path in sorted(folder.glob("*.json")) if (match := _NAME.fullmatch(path.name))
        ]
