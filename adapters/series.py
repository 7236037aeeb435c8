"""Read and write CSVs of metrics for `trnbot score`: `timestamp,value` or `timestamp,m1,m2,...`."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bot.errors import WrongInput

Values = npt.NDArray[np.float64]
Score = Callable[[Sequence[datetime], Values], tuple[Values, npt.NDArray[np.bool_]]]


Seen = Callable[[str, Sequence[datetime], Values, Values, npt.NDArray[np.bool_]], None]


def score_tree(source: Path, target: Path, score: Score, seen: Seen | None = None) -> int:
    """Score one file into another, or every `*.csv` of a folder into a folder of the same shape; return how many.

    `seen` is called with each file's name (`folder-name`), times, values, scores and flags.

    Raises `WrongInput` for what is missing, empty or not such a CSV; a file is written whole or not at all.
    """
    if source.is_file():
        _score_file(source, target / source.name if target.is_dir() else target, score, source.stem, seen)
        return 1
    files = sorted(source.rglob("*.csv"))
    if not files:
        raise WrongInput(f"There is no CSV at '{source}'; name a file or a folder with CSV files.")
    for path in files:
        inner = path.relative_to(source)
        _score_file(path, target / inner, score, "-".join(inner.with_suffix("").parts), seen)
    return len(files)


def _score_file(source: Path, target: Path, score: Score, name: str, seen: Seen | None) -> None:
    header, rows = _read(source)
    times = [_time(row[0], source, n) for n, row in enumerate(rows, 2)]
    values = np.array([[_number(cell) for cell in row[1:]] for row in rows], dtype=np.float64).reshape(len(rows), len(header) - 1)
    scores, flags = score(times, values)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    with part.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow([*header, "score", "is_anomaly"])
        out.writerows(_scored(rows, scores, flags))
    part.replace(target)
    if seen:
        seen(name, times, values, scores, flags)


def _scored(rows: Sequence[Sequence[str]], scores: Values, flags: npt.NDArray[np.bool_]) -> Iterator[list[Any]]:
    for row, value, flag in zip(rows, scores, flags, strict=True):
        yield [*row, f"{value:.6f}", int(flag)]


def _read(path: Path) -> tuple[list[str], list[list[str]]]:
    """Return header and rows, each as wide as the header; raise `WrongInput` for anything else."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        table = [row for row in csv.reader(file) if row]
    if not table or table[0][0].strip().lower() != "timestamp" or len(table[0]) < 2:
        raise WrongInput(f"'{path}' does not begin with the header timestamp,value (or timestamp,m1,m2,...).")
    for n, row in enumerate(table[1:], 2):
        if len(row) != len(table[0]):
            raise WrongInput(f"'{path}' line {n} has {len(row)} cells where the header has {len(table[0])}.")
    return table[0], table[1:]


def _time(text: str, path: Path, line: int) -> datetime:
    """Read ISO 8601, or seconds (milliseconds when large) since 1970; UTC where no zone is said."""
    try:
        at = datetime.fromisoformat(text.strip())
        return at if at.tzinfo else at.replace(tzinfo=UTC)
    except ValueError:
        pass
    try:
        seconds = float(text)
        return datetime.fromtimestamp(seconds / 1000 if seconds > 1e11 else seconds, UTC)
    except (ValueError, OverflowError, OSError):
        raise WrongInput(f"'{path}' line {line}: '{text}' is not a time; write ISO 8601 or seconds since 1970.") from None


def _number(text: str) -> float:
    """Read a number; whatever is none is no reading, never 0."""
    try:
        return float(text)
    except ValueError:
        return float("nan")
