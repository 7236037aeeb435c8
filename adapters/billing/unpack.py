"""Open the files that an export is delivered as: AWS packs the legacy CUR's CSV into a zip unless told otherwise."""

from __future__ import annotations

import shutil
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

_READ = (".parquet", ".csv", ".csv.gz")
_BROKEN = (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError)
"""What `zipfile` raises; a `RuntimeError` where a password is asked, or a way of packing that it does not know."""


class Unreadable(Exception):
    """Say why a file is no export that can be read."""


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """Yield what DuckDB can read of a file: itself, or (for a zip) the CSV files within as one pattern.

    Raise `Unreadable` for another kind of file, and for a zip that is broken or holds no CSV.
    """
    if path.name.endswith(_READ):
        yield path
    elif path.suffix == ".zip":
        with TemporaryDirectory(prefix="trnbot-") as made:
            _extract(path, Path(made))
            yield Path(made) / "*.csv"
    else:
        raise Unreadable(f"'{path.suffix or path.name}' is no kind of file that is read; have it exported as parquet or csv")


def _extract(path: Path, into: Path) -> None:
    """Write the members under names of our own: theirs may lead out of the folder."""
    try:
        with zipfile.ZipFile(path) as packed:
            members = [one for one in packed.infolist() if one.filename.endswith(".csv")]
            for number, member in enumerate(members):
                with packed.open(member) as source, (into / f"{number}.csv").open("wb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
    except _BROKEN as problem:
        raise Unreadable(f"the zip is broken: {problem}") from problem
    if not members:
        raise Unreadable("the zip holds no .csv file")
