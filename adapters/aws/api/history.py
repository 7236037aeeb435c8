"""Hold the answers of every describe call over time, as JSON.

A journal on disk outlives the process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import orjson

from adapters.aws.api.calls import Place
from adapters.aws.api.responses import (
    MALFORMED,
    STAMP,
    Pages,
    ResponseInfo,
    argument_and_account,
    read_stamp,
)
from adapters.aws.files import Problems, why

Translated = TypeVar("Translated")
KEPT = timedelta(days=16)
"""How long an answer is kept: one day more than CloudWatch keeps minutes.

The newest of each call stays.
"""
_EVERY, _HOURLY = timedelta(hours=6), timedelta(days=2)
"""Each changed answer is kept for six hours, the last of each hour for two days, the last of six hours beyond."""


@dataclass(frozen=True)
class ApiCall:
    """Name one call: its operation, its place, and its argument where it has one."""

    service: str
    operation: str
    place: Place
    argument: str = ""


@dataclass
class _Response:
    """Hold one answer and the time it was given; it is translated when first asked for."""

    at: datetime
    raw: bytes = b""
    path: Path | None = None
    found: Any = None
    translated: bool = False

    def text(self) -> bytes:
        """Return the answer as JSON, from memory or from the journal."""
        return self.raw or (self.path.read_bytes().rstrip(b"\n") if self.path else b"")


@dataclass
class ResponseHistory:
    """Implement `adapters.aws.api.responses.Responses` for a live account, from the oldest kept answer on."""

    problems: Problems
    journal: Path | None = None
    """A folder where answers that differ from the one before are kept.

    `api/` in the form of a recording.
    """
    _responses: dict[ApiCall, list[_Response]] = field(default_factory=dict)
    _answered: dict[ApiCall, datetime] = field(default_factory=dict)
    _recalled: set[tuple[str, str, Place]] = field(default_factory=set)

    def put(self, call: ApiCall, at: datetime, pages: Sequence[Mapping[str, Any]]) -> None:
        """Keep an answer; one equal to the answer before only makes that one current."""
        self.recall(call.service, call.operation, call.place)
        raw, entries = json_of(pages), self._responses.setdefault(call, [])
        self._answered[call] = at
        if entries and entries[-1].text() == raw:
            return
        for before in entries:
            before.raw = b"" if before.path or before.translated else before.raw
        entries.append(_Response(at, raw, self._written(call, at, raw)))
        self._thin(call, at)

    def newest(self, call: ApiCall) -> tuple[datetime, bytes] | None:
        """Return when this process last had an answer, and the answer as a JSON list of pages.

        None before the first.
        """
        at = self._answered.get(call)
        return (at, self._responses[call][-1].text()) if at else None

    def last(self, call: ApiCall) -> list[dict[str, Any]]:
        """Return the pages of the newest answer known, from now or from the journal.

        None where that cannot be read.
        """
        if not self.knows(call):
            return []
        try:
            pages = orjson.loads(self._responses[call][-1].text())
        except (OSError, orjson.JSONDecodeError):
            return []
        return [page for page in pages if isinstance(page, dict)]

    def calls(self) -> list[ApiCall]:
        """Return every call that this process had an answer to."""
        return list(self._answered)

    def knows(self, call: ApiCall) -> bool:
        """Return whether an answer is known, from now or from the journal."""
        self.recall(call.service, call.operation, call.place)
        return bool(self._responses.get(call))

    def recall(self, service: str, operation: str, place: Place) -> None:
        """Read the journal's list of answers of an operation at a place, once."""
        key = (service, operation, place)
        if self.journal is None or key in self._recalled:
            return
        self._recalled.add(key)
        for path in sorted(
            (self.journal / "api" / service / operation / place.region).glob("*.json")
        ):
            time, _, about = path.name.removesuffix(".json").partition(".")
            argument, account = argument_and_account(about)
            if account == place.account:
                at = read_stamp(time)
                self._responses.setdefault(ApiCall(service, operation, place, argument), []).append(
                    _Response(at, path=path)
                )

    def histories(
        self, service: str, operation: str, translate: Callable[[Pages, ResponseInfo], Translated]
    ) -> list[list[tuple[datetime, Translated]]]:
        """Return the translated answers of each call, oldest first.

        One that cannot be read is reported and left out.
        """
        wanted = [
            call
            for call in self._responses
            if (call.service, call.operation) == (service, operation)
        ]
        histories = [self._history(call, translate) for call in sorted(wanted, key=str)]
        return [history for history in histories if history]

    def answered(
        self, service: str, operation: str
    ) -> Mapping[tuple[str, str], Sequence[datetime]]:
        """Return when each account and region gave the answers that are kept, oldest first."""
        calls = [
            (call, kept)
            for call, kept in self._responses.items()
            if (call.service, call.operation) == (service, operation)
        ]
        return {
            (call.place.account, call.place.region): [entry.at for entry in kept]
            for call, kept in calls
        }

    def _history(
        self, call: ApiCall, translate: Callable[[Pages, ResponseInfo], Translated]
    ) -> list[tuple[datetime, Translated]]:
        history: list[tuple[datetime, Translated]] = []
        for entry in self._responses[call]:
            if not entry.translated:
                entry.translated = True
                entry.found = self._translate(call, entry, translate)
                if history and entry.found is not None:
                    entry.found = _shared(history[-1][1], entry.found)
            if entry.found is not None:
                history.append((entry.at, entry.found))
        return history

    def _translate(
        self,
        call: ApiCall,
        entry: _Response,
        translate: Callable[[Pages, ResponseInfo], Translated],
    ) -> Translated | None:
        place = call.place
        answer = ResponseInfo(
            call.service,
            call.operation,
            place.region,
            call.argument,
            place.account,
            entry.at,
            Path(call.operation),
        )
        try:
            return translate(orjson.loads(entry.text()), answer)
        except (OSError, *MALFORMED) as error:
            problem = f"{error} is missing" if isinstance(error, KeyError) else why(error)
            self.problems.add(
                f"{call.operation} in {place}", f"not an answer that can be read ({problem})."
            )
            return None

    def _written(self, call: ApiCall, at: datetime, raw: bytes) -> Path | None:
        if self.journal is None:
            return None
        path = self.journal / file_of(call, at)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw + b"\n")
        return path

    def _thin(self, call: ApiCall, now: datetime) -> None:
        """Forget the answers that no history needs, in memory and on disk."""
        kept = thinned([entry.at for entry in self._responses[call]], now)
        for entry in self._responses[call]:
            if entry.at not in kept and entry.path:
                entry.path.unlink(missing_ok=True)
        self._responses[call] = [entry for entry in self._responses[call] if entry.at in kept]


def thinned(times: Sequence[datetime], now: datetime) -> frozenset[datetime]:
    """Return which of some times (oldest first) are kept.

    All new ones, the last of each older stretch, the newest anyway.
    """
    stretches: dict[object, datetime] = {}
    for at in times:
        age = now - at
        hours = at.hour if age <= _HOURLY else at.hour // 6 * 6
        stretch = at if age <= _EVERY else at.replace(hour=hours, minute=0, second=0, microsecond=0)
        stretches["before" if age > KEPT else (age <= _EVERY, stretch)] = at
    return frozenset([*stretches.values(), *times[-1:]])


def _shared(before: Any, later: Any) -> Any:
    """Return the later answer with the objects of the one before where they are equal.

    Most of a fleet stays as it was.
    """
    if not isinstance(later, dict) or not isinstance(before, dict):
        return later
    return {
        name: before[name] if before.get(name) == value else value for name, value in later.items()
    }


def file_of(call: ApiCall, at: datetime) -> Path:
    """Return the file of an answer in a recording.

    Argument and account tell apart calls of one time.
    """
    about = ".".join(word for word in (call.argument, call.place.account) if word)
    name = f"{at:{STAMP}}.{about}.json" if about else f"{at:{STAMP}}.json"
    return Path("api") / call.service / call.operation / call.place.region / name


_TRANSPORT = ("ResponseMetadata", "NextToken", "nextToken", "NextPageToken")


def json_of(pages: Sequence[Mapping[str, Any]]) -> bytes:
    """Return pages as JSON with ISO 8601 times, without the transport's metadata."""
    bare = [
        {name: value for name, value in page.items() if name not in _TRANSPORT} for page in pages
    ]
    return orjson.dumps(bare, default=_plain)


def _plain(value: object) -> str:
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"no JSON for {type(value).__name__}")
