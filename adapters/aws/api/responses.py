"""Hold AWS's responses over time: those in a recording's folder, and those of a live account."""

from __future__ import annotations

import gzip
import re
import zlib
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, TypeVar

import orjson

from adapters.aws.api.operations import Place
from adapters.aws.files import Problems, why
from bot.model.codec import by_key
from bot.model.limits import RESPONSE_BYTES

Translated = TypeVar("Translated")
Pages = Sequence[Mapping[str, Any]]
Histories = list[list[tuple[datetime, Translated]]]
"""The answers of each region and argument with the time of each, oldest first."""
STAMP = "%Y%m%dT%H%M%SZ"
"""How the name of an answer's file begins: the time it was given."""
ANSWER_NAME = re.compile(r"(\d{8}T\d{6}Z)(?:\.(.+))?\.json(?:\.gz)?")
"""The time that an answer's file is named by, and what it is about."""
_ACCOUNT = re.compile(r"(?:(.*)\.)?(\d{12})")
_UNREADABLE = (OSError, EOFError, zlib.error, orjson.JSONDecodeError)
MALFORMED = (KeyError, TypeError, ValueError, AttributeError, ArithmeticError)
"""What reading an answer raises whose shape is not AWS's."""


def read_stamp(text: str) -> datetime:
    """Return the time that a file's name begins with."""
    return datetime.strptime(text, STAMP).replace(tzinfo=UTC)


@dataclass(frozen=True)
class ResponseInfo:
    """State where one response is from, what it is about, and when it was given."""

    region: str
    argument: str
    account: str
    at: datetime


def argument_and_account(name: str) -> tuple[str, str]:
    """Return argument and account of a file's name without its time and `.json`.

    `llama.111122223333`.
    """
    parts = _ACCOUNT.fullmatch(name)
    return (parts[1] or "", parts[2]) if parts else (name, "")


def newest_at(history: Sequence[tuple[datetime, Translated]], now: datetime) -> int:
    """Return the place of the newest entry at or before `now`, the first where there is none."""
    return max(0, bisect_right(history, now, key=lambda entry: entry[0]) - 1)


def newest_each(histories: Histories[Translated], now: datetime) -> list[Translated]:
    """Return each history's newest answer at or before `now`, else its first."""
    return [history[newest_at(history, now)][1] for history in histories]


def members(pages: Pages, key: str) -> list[Mapping[str, Any]]:
    """Return the list under `key` of all pages; raise `KeyError` where it is missing.

    A garbled answer is not an empty one.
    """
    return [member for page in pages for member in page[key]]


def instant(text: str | None) -> datetime | None:
    """Read an ISO 8601 time as aware UTC; None for none."""
    return _aware(datetime.fromisoformat(text)) if text else None


def required(text: str | None, name: str) -> datetime:
    """Read a time that must be there; raise `KeyError` naming the member otherwise."""
    if not text:
        raise KeyError(name)
    return _aware(datetime.fromisoformat(text))


def instant_of(value: Any) -> datetime:
    """Read a time of any protocol (epoch seconds or ISO 8601) as aware UTC.

    Botocore's own gives JSON times in the local zone.
    """
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC)
    text = str(value).strip()
    if text.replace(".", "", 1).isdecimal():
        return datetime.fromtimestamp(float(text), UTC)
    return _aware(
        parsedate_to_datetime(text) if text[:1].isalpha() else datetime.fromisoformat(text)
    )


def _aware(at: datetime) -> datetime:
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


KEPT = timedelta(days=16)
"""How long an answer is kept: one day more than CloudWatch keeps minutes.

The newest of each call stays.
"""
_EVERY, _HOURLY = timedelta(hours=6), timedelta(days=2)
"""Each changed answer is kept for six hours, the last of each hour for two days.

The last of six hours beyond.
"""


@dataclass(frozen=True)
class ApiCall:
    """Name one call: its operation, its place, and its argument where it has one."""

    service: str
    operation: str
    place: Place
    argument: str = ""

    def answered(self, at: datetime) -> ResponseInfo:
        """Return what is known of its answer of one time."""
        return ResponseInfo(self.place.region, self.argument, self.place.account, at)


@dataclass
class _Response:
    """Hold one answer and the time it was given; it is translated when first asked for."""

    at: datetime
    raw: bytes = b""
    path: Path | None = None
    translation: Any = None
    translated: bool = False

    def text(self) -> bytes:
        """Return the answer as JSON, from memory or from the journal."""
        return self.raw or (self.path.read_bytes().rstrip(b"\n") if self.path else b"")

    def pages(self) -> list[dict[str, Any]]:
        """Return the answer's pages; raise what `_UNREADABLE` and `MALFORMED` name."""
        raw, path = self.raw, self.path
        if path and not raw:
            with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
                raw = file.read(RESPONSE_BYTES + 1)
            if len(raw) > RESPONSE_BYTES:
                raise OSError(f"it has over {RESPONSE_BYTES:,} bytes")
        parsed = orjson.loads(raw)
        pages = parsed if isinstance(parsed, list) else [parsed]
        if not pages or not all(isinstance(page, dict) for page in pages):
            raise ValueError("neither an object nor a list of objects")
        return pages


class Responses:
    """Hold AWS's responses by their calls, and translate each at most once."""

    problems: Problems
    _responses: dict[ApiCall, list[_Response]]
    """The oldest first."""
    _index: tuple[int, Mapping[tuple[str, str], Sequence[ApiCall]]] = 0, {}
    """The number of calls, and these by service and operation."""

    def histories(
        self, service: str, operation: str, translate: Callable[[Pages, ResponseInfo], Translated]
    ) -> Histories[Translated]:
        """Return the translated responses of each call, oldest first.

        One that cannot be read is reported and left out.
        """
        histories = []
        for call in self._calls_of(service, operation):
            history: list[tuple[datetime, Translated]] = []
            for entry in self._responses[call]:
                # Each answer is translated once, also where that fails.
                if not entry.translated:
                    entry.translated = True
                    try:
                        entry.translation = _shared(
                            history[-1:], translate(entry.pages(), call.answered(entry.at))
                        )
                    except (*_UNREADABLE, *MALFORMED) as error:
                        self.problems.add(*self._refused(call, entry, error))
                if entry.translation is not None:
                    history.append((entry.at, entry.translation))
            if history:
                histories.append(history)
        return histories

    def answered(
        self, service: str, operation: str
    ) -> Mapping[tuple[str, str], Sequence[datetime]]:
        """Return when each account and region gave the responses that are read, oldest first.

        "" = any account. Those that were found broken are left out.
        """
        times: dict[tuple[str, str], list[datetime]] = defaultdict(list)
        for call in self._calls_of(service, operation):
            place = times[call.place.account, call.place.region]
            place += [
                x.at for x in self._responses[call] if not x.translated or x.translation is not None
            ]
            place.sort()
        return times

    def _calls_of(self, service: str, operation: str) -> Sequence[ApiCall]:
        # A tick asks for those of several operations, and no call is ever forgotten.
        if self._index[0] != len(self._responses):
            calls = sorted(self._responses, key=lambda x: (x.place.region, x.argument, x.place))
            self._index = len(calls), by_key(((x.service, x.operation), x) for x in calls)
        return self._index[1].get((service, operation), ())

    def _refused(self, call: ApiCall, _: _Response, error: Exception) -> tuple[str, str]:
        """Return where a response stands that cannot be read, and why it is left out."""
        return (
            f"{call.operation} in {call.place}",
            f"not an answer that can be read ({why(error)}).",
        )


@dataclass
class RecordedResponses(Responses):
    """Index a folder of recorded responses."""

    folder: Path
    problems: Problems

    def __post_init__(self) -> None:
        """Look at the names, not into the files."""
        self._responses = defaultdict(list)
        for path in sorted(self.folder.glob("*/*/*/*.json*")):
            if not (name := ANSWER_NAME.fullmatch(path.name)):
                self.problems.add(
                    str(path.relative_to(self.folder.parent)),
                    "its name is not TIME.json or TIME.ARGUMENT.json; skipped.",
                )
                continue
            service, operation, region = path.parts[-4:-1]
            argument, account = argument_and_account(name[2] or "")
            call = ApiCall(service, operation, Place(region, account=account), argument)
            self._responses[call].append(_Response(read_stamp(name[1]), path=path))

    def _refused(self, call: ApiCall, entry: _Response, error: Exception) -> tuple[str, str]:
        problem = f"not a response of {call.operation} ({why(error)}); skipped."
        if isinstance(error, _UNREADABLE):
            problem = f"not JSON that can be read ({why(error)}); skipped."
        return str(entry.path and entry.path.relative_to(self.folder.parent)), problem


@dataclass
class ResponseHistory(Responses):
    """Keep the responses of a live account, from the oldest kept answer on."""

    problems: Problems
    journal: Path | None = None
    """A folder where answers that differ from the one before are kept.

    `api/` in the form of a recording.
    """
    _responses: dict[ApiCall, list[_Response]] = field(default_factory=lambda: defaultdict(list))
    _answered: dict[ApiCall, datetime] = field(default_factory=dict)
    _recalled: set[tuple[str, str, Place]] = field(default_factory=set)

    def put(self, call: ApiCall, at: datetime, pages: Sequence[Mapping[str, Any]]) -> None:
        """Keep an answer; one equal to the answer before only makes that one current."""
        self.recall(call.service, call.operation, call.place)
        raw, entries = json_of(pages), self._responses[call]
        self._answered[call] = at
        if entries and entries[-1].text() == raw:
            return

        # Of older answers the translation is enough: the text is on disk, or asked for no more.
        for before in entries:
            before.raw = b"" if before.path or before.translated else before.raw
        if path := self.journal and self.journal / file_of(call, at):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(raw + b"\n")
        entries.append(_Response(at, raw, path))

        # What no history needs any more is forgotten, in memory and on disk.
        needed = thinned([entry.at for entry in entries], at)
        for entry in entries:
            if entry.at not in needed and entry.path:
                entry.path.unlink(missing_ok=True)
        self._responses[call] = [entry for entry in entries if entry.at in needed]

    def newest(self, call: ApiCall) -> tuple[datetime, bytes] | None:
        """Return when this process last had an answer, and the answer as a JSON list of pages.

        None before the first.
        """
        answered = self._answered.get(call)
        return (answered, self._responses[call][-1].text()) if answered else None

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

    def arguments(self, service: str, operation: str, place: Place) -> set[str]:
        """Return the arguments of an operation at a place to which answers are known."""
        self.recall(service, operation, place)
        return {call.argument for call in self._calls_of(service, operation) if call.place == place}

    def recall(self, service: str, operation: str, place: Place) -> None:
        """Read the journal's list of answers of an operation at a place, once."""
        key = (service, operation, place)
        if self.journal is None or key in self._recalled:
            return
        self._recalled.add(key)
        for path in sorted(
            (self.journal / "api" / service / operation / place.region).glob("*.json")
        ):
            # Answers of other accounts may stand in the same folder.
            time, _, about = path.name.removesuffix(".json").partition(".")
            argument, account = argument_and_account(about)
            if account == place.account:
                call = ApiCall(service, operation, place, argument)
                self._responses[call].append(_Response(read_stamp(time), path=path))


def thinned(times: Sequence[datetime], now: datetime) -> frozenset[datetime]:
    """Return which of some times (oldest first) are kept.

    All new ones, the last of each older stretch, the newest anyway.
    """
    stretches: dict[object, datetime] = {}
    for time in times:
        age = now - time
        hours = time.hour if age <= _HOURLY else time.hour // 6 * 6
        stretch = (
            time if age <= _EVERY else time.replace(hour=hours, minute=0, second=0, microsecond=0)
        )
        stretches["before" if age > KEPT else (age <= _EVERY, stretch)] = time
    return frozenset([*stretches.values(), *times[-1:]])


def _shared(before: Sequence[tuple[datetime, Any]], later: Any) -> Any:
    """Return the later answer with the objects of the one before it where they are equal.

    Most of a fleet stays as it was.
    """
    if not before or not isinstance(later, dict):
        return later
    previous = before[0][1]
    return {
        name: previous[name] if previous.get(name) == value else value
        for name, value in later.items()
    }


def file_of(call: ApiCall, at: datetime) -> Path:
    """Return the file of an answer in a recording.

    Argument and account tell apart calls of one time.
    """
    words = (f"{at:{STAMP}}", call.argument, call.place.account, "json")
    return Path(
        "api", call.service, call.operation, call.place.region, ".".join(filter(None, words))
    )


_TRANSPORT = ("ResponseMetadata", "NextToken", "nextToken", "NextPageToken")


def json_of(pages: Sequence[Mapping[str, Any]]) -> bytes:
    """Return pages as JSON with ISO 8601 times, without the transport's metadata."""
    return orjson.dumps(
        [{name: page[name] for name in page if name not in _TRANSPORT} for page in pages]
    )
