"""Read files of JSON lines, recognise those of a metric stream.

Collect what could not be read.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

import orjson

from bot.model.limits import LINE_BYTES, too_much, unpacked_limit

NAMED = 20
"""Sentences kept; more would hide the first."""


class Problems:
    """Hold one sentence for each thing that could not be read, at most `NAMED`.

    Count the rest by file.
    """

    def __init__(self) -> None:
        self._named: dict[str, str] = {}
        """The file of each sentence."""
        self._rest: Counter[str] = Counter()

    def add(self, file: str, why: str, line: int | None = None) -> None:
        """Name a file (and its line, counted from 1) and why it was skipped."""
        self._note(f"{file}, line {line}: {why}" if line else f"{file}: {why}", file)

    def take(self, later: Problems) -> None:
        """Add the problems collected after these, as if they had been added here."""
        for sentence, file in later._named.items():
            self._note(sentence, file)
        self._rest.update(later._rest)

    def _note(self, sentence: str, file: str) -> None:
        if len(self._named) < NAMED:
            self._named.setdefault(sentence, file)
        elif sentence not in self._named:
            self._rest[file] += 1

    def sentences(self) -> tuple[str, ...]:
        """Return the named ones and, per file, how many more there were."""
        return (
            *self._named,
            *(f"{file}: {n} more of the kind." for file, n in sorted(self._rest.items())),
        )


def why(error: Exception, most: int = 160) -> str:
    """Return what an error says, one line of at most `most` characters, for a sentence."""
    if isinstance(error, KeyError):
        return f"{error} is missing"
    # What Python says of another type names its own, which no reader of a file knows.
    if isinstance(error, TypeError | AttributeError):
        return "a part of it is of another kind"
    text = str(error).strip().splitlines()
    return (text[0] if text else type(error).__name__)[:most]


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a path whose file takes the place of another, so that no reader meets half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)  # on a full disk half a file takes the room of the next


def write_whole(path: Path, content: bytes) -> None:
    """Put a whole file in place of the one before."""
    with replacing(path) as part:
        part.write_bytes(content)


def flush(path: Path) -> None:
    """Wait until the disk has all that was written to a file, also through a mapping of it."""
    with path.open("r+b") as file:
        os.fsync(file.fileno())


def chunked(items: Iterable[T], weight: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Yield items in order, together as many as weigh `most`; one that weighs more comes alone."""
    chunk: list[T] = []
    weighed = 0
    for item in items:
        if chunk and weighed + weight(item) > most:
            yield chunk
            chunk, weighed = [], 0
        chunk.append(item)
        weighed += weight(item)
    if chunk:
        yield chunk


JSON_LINES = (".jsonl", ".jsonl.gz")
"""How the names of files of JSON lines end."""


class MetricForm(Enum):
    """Name the two forms that are read."""

    LINES = "lines"
    PARQUET = "parquet"


def form_of(path: Path) -> MetricForm | None:
    """Return the form that the name says, else the content; None for anything else.

    Raise `OSError` where it cannot be read.
    """
    if path.name.endswith(JSON_LINES):
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
    first, unfinished = 1, b""
    try:
        packed = path.stat().st_size
        # The ending of a name may be wrong, and Firehose gives none.
        with path.open("rb") as plain:
            packed_file = gzipped(plain.peek(2))
        with gzip.open(path, "rb") if packed_file else path.open("rb") as file:
            # A small file may unpack to more than memory holds.
            limit, size = unpacked_limit(packed), 0
            while block := file.read(_BLOCK_BYTES):
                *lines, unfinished = (unfinished + block).split(b"\n")
                yield first, lines
                first += len(lines)
                size += len(block)
                if size > limit or len(unfinished) > LINE_BYTES:
                    reason = too_much("the file", packed) if size > limit else _TOO_LONG
                    problems.add(
                        name, f"it is left here, the lines before are used: {reason}.", first
                    )
                    return
    except (OSError, EOFError, zlib.error) as error:
        problems.add(
            name, f"it ends here in mid-line, the lines before are used ({why(error)}).", first
        )
        return
    if unfinished.strip():
        yield first, [unfinished]


def objects(
    path: Path, name: str, problems: Problems, parse: Callable[[Any], T], meant: str
) -> Iterator[tuple[T, int]]:
    """Yield each line's object, parsed, and the line's number; name the broken lines and skip them.

    `meant` says which object a line should hold.
    """
    for first, lines in blocks(path, name, problems):
        yield from objects_in(enumerate(lines, first), name, problems, parse, meant)


def objects_in(
    lines: Iterable[tuple[int, bytes]],
    name: str,
    problems: Problems,
    parse: Callable[[Any], T],
    meant: str,
) -> Iterator[tuple[T, int]]:
    """Yield the objects of numbered lines of a file, as `objects` does."""
    for number, line in lines:
        if not line.strip():
            continue
        try:
            parsed = parse(orjson.loads(line))
        except orjson.JSONDecodeError as error:
            problems.add(name, f"not JSON ({why(error)}); skipped.", number)
        except MALFORMED as error:
            problems.add(name, f"not a {meant} ({why(error)}); skipped.", number)
        else:
            yield parsed, number


T = TypeVar("T")
MALFORMED = (LookupError, TypeError, ValueError, AttributeError, OverflowError, OSError)
"""What reading an object raises whose shape is not the one that is meant."""
_TOO_LONG = f"a line has over {LINE_BYTES:,} bytes; write one record a line"
