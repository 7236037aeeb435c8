"""Tell what a file of a metric stream is by how it begins: Firehose names its objects without an ending.

Sources: docs.aws.amazon.com/firehose/latest/dev/s3-object-name.html; the first bytes of gzip (RFC 1952) and Parquet.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path

_NAMED = (".jsonl", ".jsonl.gz")


class MetricForm(Enum):
    """Name the two forms that are read."""

    LINES = "lines"
    PARQUET = "parquet"


def form_of(path: Path) -> MetricForm | None:
    """Return the form that the name says, else the content; None for anything else. Raise `OSError` where it cannot be read."""
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
    """Tell whether a file that begins so is gzip."""
    return start[:2] == b"\x1f\x8b"
