"""List the files of a bill, and unpack the zips that AWS puts a legacy CUR's CSV into."""

from __future__ import annotations

import gzip
import os
import shutil
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from adapters.billing.columns import ExportForm
from adapters.billing.explorer import newest_answers
from bot.model.limits import UNPACKED_FREE, ZIP_MEMBERS, too_much, unpacked_limit

_READ = (".parquet", ".csv", ".csv.gz")
_BROKEN = (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError)
"""The exceptions that `zipfile` raises.

A `RuntimeError` where a password is asked, or a way of packing that it does not know.
"""


class Unreadable(Exception):
    """Report why a file is no export that can be read."""


@contextmanager
def unpacked(path: Path, scratch: Path) -> Iterator[Path]:
    """Yield a path that DuckDB can read.

    The file itself, or (for a zip) the CSV files within, under `scratch`, as one pattern.

    Raise `Unreadable` for another kind of file, for a zip that is broken or holds no CSV, and for
    what unpacks to too much.
    """
    if path.name.endswith(_READ):
        if path.suffix == ".gz":
            _measure(path)
        yield path
    elif path.suffix == ".zip":
        scratch.mkdir(mode=0o700)
        try:
            _extract(path, scratch)
            yield scratch / "*.csv"
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    else:
        raise Unreadable(
            f"'{path.suffix or path.name}' is no kind of file that is read; have it exported as parquet or csv"
        )


def _extract(path: Path, into: Path) -> None:
    """Write the members under names of our own: theirs may lead out of the folder."""
    try:
        with zipfile.ZipFile(path) as packed:
            members = [entry for entry in packed.infolist() if entry.filename.endswith(".csv")]
            if len(members) > ZIP_MEMBERS:
                raise Unreadable(
                    f"the zip holds {len(members):,} files; at most {ZIP_MEMBERS:,} are read"
                )
            # What a member says of its size is all that is read of it.
            if sum(member.file_size for member in members) > unpacked_limit(path.stat().st_size):
                raise Unreadable(too_much("the zip", path.stat().st_size))
            for number, member in enumerate(members):
                with packed.open(member) as source, (into / f"{number}.csv").open("wb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
    except _BROKEN as problem:
        raise Unreadable(f"the zip is broken: {problem}") from problem
    if not members:
        raise Unreadable("the zip holds no .csv file")


def _measure(path: Path) -> None:
    """Raise `Unreadable` for a gzip file that unpacks to too much; nothing in it says to how much."""
    packed = path.stat().st_size
    if packed * _DEFLATE <= UNPACKED_FREE:
        return
    limit, size = unpacked_limit(packed), 0
    try:
        with gzip.open(path) as file:
            while block := file.read(1 << 20):
                size += len(block)
                if size > limit:
                    raise Unreadable(too_much("the file", packed))
    except _BROKEN as problem:
        raise Unreadable(f"the gzip is broken: {problem}") from problem


_DEFLATE = 1032
"""Bytes that one byte of deflate can become at most."""
_NO_EXPORTS = (".json", ".yml", ".yaml", ".sql", ".md", ".txt", ".etag", ".crc", "_SUCCESS")
"""Files that AWS and people put beside an export: manifests, table definitions, notes."""


@dataclass(frozen=True)
class File:
    """State one file as it stands in the folder; `stamp` changes when it is rewritten."""

    path: str
    stamp: str
    modified: int


@dataclass(frozen=True)
class ExplorerFiles:
    """State where Cost Explorer's answers are kept, which view of them counts, and the product codes of its service names."""

    folder: Path
    view: str = ""
    services: Mapping[str, str] = field(default_factory=dict)


def list_files(folder: Path, answers: ExplorerFiles) -> dict[str, File]:
    """Return the files under the folder by relative path, and Cost Explorer's answers as one more.

    A file that is no export is listed too: what cannot be read is named, never passed over.
    """
    exports = sorted(_walk(str(folder), ""), key=lambda file: file.path.split("/"))
    return {file.path: file for file in (*exports, *_answered(answers))}


def _answered(answers: ExplorerFiles) -> Iterator[File]:
    files = newest_answers(answers.folder, answers.view)
    if files:
        yield File(
            ExportForm.EXPLORER,
            ",".join(path.name for path in files),
            max(path.stat().st_mtime_ns for path in files),
        )


def _walk(folder: str, below: str) -> Iterator[File]:
    try:
        entries = os.scandir(folder)
    except (FileNotFoundError, PermissionError):
        return
    with entries:
        for entry in entries:
            path = below + entry.name
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(entry.path, path + "/")
            elif (
                not entry.name.endswith(_NO_EXPORTS)
                and not entry.name.startswith(".")
                and entry.is_file()
            ):
                stat = entry.stat()
                yield File(path, f"{stat.st_size}:{stat.st_mtime_ns}", stat.st_mtime_ns)
