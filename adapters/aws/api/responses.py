"""Find recorded API responses.

`api/SERVICE/OPERATION/REGION/TIME[.ARGUMENT].json[.gz]`, the newest at or before a time.
"""

from __future__ import annotations

import gzip
import re
import zlib
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

import orjson

from adapters.aws.files import Problems, why
from bot.model.limits import RESPONSE_BYTES

Translated = TypeVar("Translated")
Pages = Sequence[Mapping[str, Any]]
STAMP = "%Y%m%dT%H%M%SZ"
"""How the name of an answer's file begins: the time it was given."""
_NAME = re.compile(r"(\d{8}T\d{6}Z)(?:\.(.+))?\.json(?:\.gz)?")
_ACCOUNT = re.compile(r"(?:(.*)\.)?(\d{12})")
_UNREADABLE = (OSError, EOFError, zlib.error, orjson.JSONDecodeError)
MALFORMED = (KeyError, TypeError, ValueError, AttributeError, ArithmeticError)
"""What reading an answer raises whose shape is not AWS's."""


def read_stamp(text: str) -> datetime:
    """Return the time that a file's name begins with."""
    return datetime.strptime(text, STAMP).replace(tzinfo=UTC)


@dataclass(frozen=True)
class ResponseInfo:
    """Name one recorded response."""

    service: str
    operation: str
    region: str
    argument: str
    account: str
    at: datetime
    path: Path


class Responses(Protocol):
    """Give AWS's responses, recorded or live."""

    def histories(
        self, service: str, operation: str, translate: Callable[[Pages, ResponseInfo], Translated]
    ) -> list[list[tuple[datetime, Translated]]]:
        """Return the translated responses of each region and argument, oldest first."""
        ...

    def answered(
        self, service: str, operation: str
    ) -> Mapping[tuple[str, str], Sequence[datetime]]:
        """Return when each account and region gave the responses that could be read, oldest first.

        "" = any account.
        """
        ...


@dataclass
class RecordedResponses:
    """Index a folder of recorded responses and translate each at most once."""

    folder: Path
    problems: Problems
    _index: dict[tuple[str, str], dict[tuple[str, str], list[ResponseInfo]]] = field(
        default_factory=dict
    )
    _broken: set[Path] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Look at the names, not into the files."""
        index: dict[tuple[str, str], dict[tuple[str, str], list[ResponseInfo]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for path in sorted(self.folder.glob("*/*/*/*.json*")):
            named = _NAME.fullmatch(path.name)
            if not named:
                self.problems.add(
                    self._name(path), "its name is not TIME.json or TIME.ARGUMENT.json; skipped."
                )
                continue
            service, operation, region = path.parts[-4:-1]
            at = read_stamp(named[1])
            answer = ResponseInfo(
                service, operation, region, *argument_and_account(named[2] or ""), at, path
            )
            index[service, operation][region, named[2] or ""].append(answer)
        self._index = {call: dict(places) for call, places in index.items()}

    def histories(
        self, service: str, operation: str, translate: Callable[[Pages, ResponseInfo], Translated]
    ) -> list[list[tuple[datetime, Translated]]]:
        """Return the translated responses of each region and argument, oldest first.

        Report the broken ones.
        """
        places = self._index.get((service, operation), {})
        histories = [
            [self._one(answer, translate) for answer in sorted(many, key=lambda x: x.at)]
            for _, many in sorted(places.items())
        ]
        return [kept for history in histories if (kept := [entry for entry in history if entry])]

    def answered(
        self, service: str, operation: str
    ) -> Mapping[tuple[str, str], Sequence[datetime]]:
        """Return when each account and region gave the responses that were read, and not found broken, oldest first."""
        every = [
            answer for many in self._index.get((service, operation), {}).values() for answer in many
        ]
        times: dict[tuple[str, str], list[datetime]] = defaultdict(list)
        for answer in sorted(every, key=lambda x: x.at):
            if answer.path not in self._broken:
                times[answer.account, answer.region].append(answer.at)
        return times

    def _one(
        self, answer: ResponseInfo, translate: Callable[[Pages, ResponseInfo], Translated]
    ) -> tuple[datetime, Translated] | None:
        try:
            return answer.at, translate(_pages(answer.path), answer)
        except _UNREADABLE as error:
            self.problems.add(
                self._name(answer.path), f"not JSON that can be read ({why(error)}); skipped."
            )
        except MALFORMED as error:
            problem = f"{error} is missing" if isinstance(error, KeyError) else why(error)
            self.problems.add(
                self._name(answer.path),
                f"not a response of {answer.operation} ({problem}); skipped.",
            )
        self._broken.add(answer.path)
        return None

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self.folder.parent))


def argument_and_account(name: str) -> tuple[str, str]:
    """Return argument and account of a file's name without its time and `.json`.

    `llama.111122223333`.
    """
    parts = _ACCOUNT.fullmatch(name)
    return (parts[1] or "", parts[2]) if parts else (name, "")


def newest_at(history: Sequence[tuple[datetime, Translated]], now: datetime) -> int:
    """Return the place of the newest entry at or before `now`, the first where there is none."""
    return max(0, bisect_right(history, now, key=lambda entry: entry[0]) - 1)


def members(pages: Pages, key: str) -> list[Mapping[str, Any]]:
    """Return the list under `key` of all pages; raise `KeyError` where it is missing.

    A garbled answer is not an empty one.
    """
    return [member for page in pages for member in page[key]]


def instant(text: str | None) -> datetime | None:
    """Read an ISO 8601 time as aware UTC; None for none."""
    if not text:
        return None
    return _aware(datetime.fromisoformat(text))


def _pages(path: Path) -> Pages:
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        raw = file.read(RESPONSE_BYTES + 1)
    if len(raw) > RESPONSE_BYTES:
        raise OSError(f"it has over {RESPONSE_BYTES:,} bytes")
    parsed = orjson.loads(raw)
    pages = parsed if isinstance(parsed, list) else [parsed]
    if not pages or not all(isinstance(page, dict) for page in pages):
        raise TypeError("neither an object nor a list of objects")
    return pages


def required(text: str | None, name: str) -> datetime:
    """Read a time that must be there; raise `KeyError` naming the member otherwise."""
    at = instant(text)
    if at is None:
        raise KeyError(name)
    return at


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
