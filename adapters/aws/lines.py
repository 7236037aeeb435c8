"""Read lines of JSON, plain or gzipped, in blocks; a truncated or broken file gives what can be read of it."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

import orjson

from adapters.aws.forms import gzipped
from adapters.aws.problems import Problems, why

_BLOCK_BYTES = 1 << 16
"""Small, so that what is parsed is dropped before it leaves the cache: twice as fast as blocks of 4 MB."""


def blocks(path: Path, name: str, problems: Problems) -> Iterator[tuple[int, list[bytes]]]:
    """Yield (number of the first line, lines) for some kilobytes at a time."""
    first, rest = 1, b""
    try:
        with _opened(path) as file:
            while block := file.read(_BLOCK_BYTES):
                *lines, rest = (rest + block).split(b"\n")
                yield first, lines
                first += len(lines)
    except (OSError, EOFError, zlib.error) as error:
        problems.add(name, f"it breaks off here, the lines before are used ({why(error)}).", first)
        return
    if rest.strip():
        yield first, [rest]


def records(lines: list[bytes]) -> list[dict[str, Any]] | None:
    """Parse all lines at once; None when any of them is not exactly one JSON object."""
    try:
        parsed = orjson.loads(b"[" + b",".join(lines) + b"]")
    except orjson.JSONDecodeError:
        return None
    good = len(parsed) == len(lines) and set(map(type, parsed)) <= {dict}
    return parsed if good else None


def _opened(path: Path) -> IO[bytes]:
    """Open by content: what a name says may be wrong, and Firehose says nothing."""
    file = path.open("rb")
    if not gzipped(file.peek(2)):
        return file
    file.close()
    return cast("IO[bytes]", gzip.open(path, "rb"))
