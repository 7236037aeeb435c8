"""List the files of a bill, and unpack the zips that AWS puts a legacy CUR's CSV into."""

from __future__ import annotations

import os
import shutil
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from adapters.billing.columns import ExportForm
from adapters.billing.explorer import newest_answers

_READ = (".parquet", ".csv", ".csv.gz")
_BROKEN = (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError)
"""The exceptions that `zipfile` raises; a `RuntimeError` where a password is asked, or a way of packing that it does not know."""


class Unreadable(Exception):
    """Report why a file is no export that can be read."""


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """Yield a path that DuckDB can read: the file itself, or (for a zip) the CSV files within as one pattern.

    Raise `Unreadable` for another kind of file, and for a zip that is broken or holds no CSV.
    """
    if path.name.endswith(_READ):
        yield path
    elif path.suffix == ".zip":
        with TemporaryDirectory(prefix="trnbot-") as folder:
            _extract(path, Path(folder))
            yield Path(folder) / "*.csv"
    else:
        raise Unreadable(f"'{path.suffix or path.name}' is no kind of file that is read; have it exported as parquet or csv")


def _extract(path: Path, into: Path) -> None:
    """Write the members under names of our own: theirs may lead out of the folder."""
    try:
        with zipfile.ZipFile(path) as packed:
            members = [entry for entry in packed.infolist() if entry.filename.endswith(".csv")]
            for number, member in enumerate(members):
                with packed.open(member) as source, (into / f"{number}.csv").open("wb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
    except _BROKEN as problem:
        raise Unreadable(f"the zip is broken: {problem}") from problem
    if not members:
        raise Unreadable("the zip holds no .csv file")


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
        yield File(ExportForm.EXPLORER, ",".join(path.name for path in files), max(path.stat().st_mtime_ns for path in files))


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
            elif not entry.name.endswith(_NO_EXPORTS) and not entry.name.startswith(".") and entry.is_file():
                stat = entry.stat()
                yield File(path, f"{stat.st_size}:{stat.st_mtime_ns}", stat.st_mtime_ns)
