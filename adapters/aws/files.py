"""Read files of JSON lines, recognise those of a metric stream, and collect what could not be read."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import IO, Any, cast

import orjson

from bot.model.limits import LINE_BYTES, too_much, unpacked_limit

NAMED = 20
"""Sentences kept; more would hide the first."""


class Problems:
    """Hold one sentence for each thing that could not be read, at most `NAMED`, and count the rest by file."""

    def __init__(self) -> None:
        self._named: dict[str, str] = {}
        """The file of each sentence."""
        self._rest: Counter[str] = Counter()

    def add(self, file: str, why: str, line: int | None = None, times: int = 1) -> None:
        """Name a file (and its line, counted from 1) and why it was skipped."""
        sentence = f"{file}, line {line}: {why}" if line else f"{file}: {why}"
        if sentence in self._named:
            return
        if len(self._named) < NAMED:
            self._named[sentence] = file
            times -= 1
        self._rest[file] += times

    def take(self, later: Problems) -> None:
        """Add the problems collected after these, as if they had been added here."""
        for sentence, file in later._named.items():
            if len(self._named) < NAMED:
                self._named.setdefault(sentence, file)
            else:
                self._rest[file] += 1
        self._rest.update(later._rest)

    def sentences(self) -> tuple[str, ...]:
        """Return the named ones and, per file, how many more there were."""
        return (
            *self._named,
            *(f"{file}: {n} more of the kind." for file, n in sorted(self._rest.items()) if n > 0),
        )


def why(error: Exception, most: int = 160) -> str:
    """Return an error's first line, cut to `most` characters, for a sentence."""
    text = str(error).strip().splitlines()
    return (text[0] if text else type(error).__name__)[:most]


_NAMED = (".jsonl", ".jsonl.gz")


class MetricForm(Enum):
    """Name the two forms that are read."""

    LINES = "lines"
    PARQUET = "parquet"


def form_of(path: Path) -> MetricForm | None:
    """Return the form that the name says, else the content; None for anything else.

    Raise `OSError` where it cannot be read.
    """
    if path.name.endswith(_NAMED):
        return MetricForm.LINES
    if path.suffix == ".parquet":
        return MetricForm.PARQUET
    with path.open("rb") as file:
        start = file.read(64)
    if start[:4] == b"PAR1":
        return MetricForm.PARQUET
    lines = gzipped(start) or start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"
    return MetricForm.LINES if lines else None


def gzipped(start: bytes) -> bool:
    """Return whether a file that begins so is gzip."""
    return start[:2] == b"\x1f\x8b"


_BLOCK_BYTES = 1 << 16
"""Small, so that what is parsed is dropped before it leaves the cache.

Twice as fast as blocks of 4 MB.
"""


def blocks(path: Path, name: str, problems: Problems) -> Iterator[tuple[int, list[bytes]]]:
    """Yield (number of the first line, lines) for some kilobytes at a time."""
    first, rest = 1, b""
    try:
        with _opened(path) as file:
            limit, size = unpacked_limit(path.stat().st_size), 0
            while block := file.read(_BLOCK_BYTES):
                *lines, rest = (rest + block).split(b"\n")
                yield first, lines
                first += len(lines)
                size += len(block)
                if size > limit or len(rest) > LINE_BYTES:
                    why_not = (
                        too_much("the file", path.stat().st_size) if size > limit else _TOO_LONG
                    )
                    problems.add(
                        name, f"it is left here, the lines before are used: {why_not}.", first
                    )
                    return
    except (OSError, EOFError, zlib.error) as error:
        problems.add(name, f"it breaks off here, the lines before are used ({why(error)}).", first)
        return
    if rest.strip():
        yield first, [rest]


_TOO_LONG = f"a line has over {LINE_BYTES:,} bytes; write one record a line"


def records(lines: list[bytes]) -> list[dict[str, Any]] | None:
    """Parse all lines at once; None when any of them is not exactly one JSON object."""
    try:
        parsed = orjson.loads(b"[" + b",".join(lines) + b"]")
    except orjson.JSONDecodeError:
        return None
    good = len(parsed) == len(lines) and set(map(type, parsed)) <= {dict}
    return parsed if good else None


def _opened(path: Path) -> IO[bytes]:
    """Open by content: the ending of a name may be wrong, and Firehose gives none."""
    file = path.open("rb")
    if not gzipped(file.peek(2)):
        return file
    file.close()
    return cast("IO[bytes]", gzip.open(path, "rb"))
