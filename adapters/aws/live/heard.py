"""Hold the newest answer of every describe call, as JSON would carry it, and translate each once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import orjson

from adapters.aws.inventory import folded
from adapters.aws.live.calls import Place
from adapters.aws.problems import Problems, why
from adapters.aws.responses import Answer, Pages

Found = TypeVar("Found")
KEPT = timedelta(days=16)
"""How long the journal keeps an answer: one day more than CloudWatch keeps minutes."""


@dataclass(frozen=True)
class Call:
    """Name one call: operation, place, and what it is about where that is one thing."""

    service: str
    operation: str
    place: Place
    argument: str = ""


@dataclass
class Heard:
    """Answer as `adapters.aws.responses.Responses` does, of a live account: the newest answer of each call counts."""

    problems: Problems
    journal: Path | None = None
    """A folder where answers that differ from the one before are kept, for recordings: `api/` in the form of one."""
    newest: dict[Call, tuple[datetime, bytes]] = field(default_factory=dict)
    """Answers as JSON, a list of pages, with the time they were given."""
    _translated: dict[Call, tuple[bytes, datetime, Any]] = field(default_factory=dict)

    def put(self, call: Call, at: datetime, pages: Sequence[Mapping[str, Any]]) -> None:
        """Keep an answer in place of the one before."""
        raw = json_of(pages)
        if self.journal and raw != self.newest.get(call, (at, b""))[1]:
            path = self.journal / file_of(call, at)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(raw + b"\n")
            self._prune(path.parent, at)
        self.newest[call] = (at, raw)

    def _prune(self, folder: Path, at: datetime) -> None:
        """Forget what is older than any history that can be asked for."""
        oldest = f"{at - KEPT:%Y%m%dT%H%M%SZ}"
        for path in folder.glob("*.json"):
            if path.name < oldest:
                path.unlink(missing_ok=True)

    def histories(
        self, service: str, operation: str, translate: Callable[[Pages, Answer], Found]
    ) -> list[list[tuple[datetime, Found]]]:
        """Return what each call's newest answer says; instances it no longer names are carried on as ended."""
        wanted = [call for call in self.newest if (call.service, call.operation) == (service, operation)]
        entries = [self._translate(call, translate) for call in sorted(wanted, key=str)]
        return [[(at, found)] for at, found in (entry for entry in entries if entry)]

    def _translate(self, call: Call, translate: Callable[[Pages, Answer], Found]) -> tuple[datetime, Found] | None:
        at, raw = self.newest[call]
        before = self._translated.get(call)
        if before and before[0] is raw:
            return before[1], before[2]
        answer = Answer(call.service, call.operation, call.place.region, call.argument, at, Path(call.operation))
        try:
            found: Any = translate(orjson.loads(raw), answer)
        except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            said = f"{error} is missing" if isinstance(error, KeyError) else why(error)
            self.problems.add(f"{call.operation} in {call.place}", f"not an answer that can be read ({said}).")
            return (before[1], before[2]) if before else None
        if before and call.operation == "describe_instances":
            found = folded([(before[1], before[2]), (at, found)])[-1][1]
        self._translated[call] = (raw, at, found)
        return at, found


def file_of(call: Call, at: datetime) -> Path:
    """Return where a recording keeps an answer: the account, and what the call was about, tell apart calls of one time."""
    about = ".".join(word for word in (call.argument, call.place.account) if word)
    name = f"{at:%Y%m%dT%H%M%SZ}.{about}.json" if about else f"{at:%Y%m%dT%H%M%SZ}.json"
    return Path("api") / call.service / call.operation / call.place.region / name


def json_of(pages: Sequence[Mapping[str, Any]]) -> bytes:
    """Return pages as JSON with ISO 8601 times, without the transport's metadata."""
    bare = [{name: value for name, value in page.items() if name not in ("ResponseMetadata", "NextToken")} for page in pages]
    return orjson.dumps(bare, default=_plain)


def _plain(value: object) -> str:
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"no JSON for {type(value).__name__}")
