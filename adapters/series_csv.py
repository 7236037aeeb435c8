"""Read and write CSVs of metrics for `trnbot score`: `timestamp,value` or `timestamp,m1,m2,...`."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from bot.errors import WrongInput
from bot.model.frame import Doubles, Mask

LARGEST_S = 1e11
"""Seconds since 1970 in the year 5138: more is a smaller unit."""
NUMBERED_S = 300.0
"""Between rows that are numbered 0, 1, 2, ... and have no time."""

ScoreFunction = Callable[[Sequence[datetime], Doubles], tuple[Doubles, Mask]]
OnScored = Callable[[str, Sequence[datetime], Doubles, Doubles, Mask], None]
LabelledWindow = tuple[datetime, datetime]


@dataclass(frozen=True)
class SeriesTable:
    """Hold one CSV.

    Its header and rows as text, times, and values (n, m) with nan where a cell is no number.
    """

    header: list[str]
    rows: list[list[str]]
    times: list[datetime]
    values: Doubles


def score_tree(
    source: Path,
    target: Path,
    score: ScoreFunction,
    on_scored: OnScored | None = None,
    history: Path | None = None,
) -> int:
    """Score one file into another, or every `*.csv` of a folder into a folder of the same shape.

    Return how many.

    `history` is a file (or a folder of the same shape) of the rows before, which are learnt and not
    written. `on_scored` is called with each file's path (below a folder), times, values, scores and
    flags.

    Raises `WrongInput` for what is missing, empty or not such a CSV; then nothing is written.
    """
    files = [(source, target / source.name if target.is_dir() else target, history)]
    if not source.is_file():
        # What an earlier call wrote is no source, where the target lies within.
        written = target if target != source else target / "nothing yet"
        inner = [
            path.relative_to(source)
            for path in sorted(source.rglob("*.csv"))
            if not path.is_relative_to(written)
        ]
        if not inner:
            raise WrongInput(
                f"There is no CSV at '{source}'; name a file or a folder with CSV files."
            )
        files = [(source / path, target / path, history and history / path) for path in inner]

    for path, _, before in files:
        _joined(path, before)
    for path, out, before in files:
        table, learnt = _joined(path, before)
        times, values = [*learnt.times, *table.times], [learnt.values, table.values]
        scores, flags = score(times, np.concatenate(values))
        scores, flags = scores[len(learnt.rows) :], flags[len(learnt.rows) :]

        out.parent.mkdir(parents=True, exist_ok=True)
        part = out.with_name(out.name + ".part")
        with part.open("w", newline="", encoding="utf-8") as file:
            lines = csv.writer(file, lineterminator="\n")
            lines.writerow([*table.header, "score", "is_anomaly"])
            for row, value, flag in zip(table.rows, scores, flags, strict=True):
                lines.writerow([*row, f"{value:.6f}", int(flag)])
        part.replace(out)
        if on_scored:
            inside = path.name if path == source else path.relative_to(source).as_posix()
            on_scored(inside, table.times, table.values, scores, flags)
    return len(files)


def _joined(path: Path, history: Path | None) -> tuple[SeriesTable, SeriesTable]:
    """Return a file and its history, which has the same columns, and without one no row."""
    table = _read(path)
    before = (
        _read(history) if history else replace(table, rows=[], times=[], values=table.values[:0])
    )
    if before.header != table.header:
        raise WrongInput(
            f"'{history}' has the columns {','.join(before.header)}, "
            f"and '{path}' has {','.join(table.header)}."
        )
    return table, before


def read_truth(path: Path) -> dict[str, list[LabelledWindow]]:
    """Return the labelled windows of each series, times as in the CSVs.

    They are read from JSON `{"folder/name.csv": [[start, end], ...]}`. Raises `WrongInput` for
    anything else.
    """
    try:
        return {
            name: [(_time(low, path, 1), _time(high, path, 1)) for low, high in spans]
            for name, spans in json.loads(path.read_text(encoding="utf-8")).items()
        }
    except (OSError, ValueError, AttributeError, TypeError):
        raise WrongInput(
            f"'{path}' is not the truth of series: JSON {{\"name.csv\": [[start, end], ...]}}."
        ) from None


def _read(path: Path) -> SeriesTable:
    """Return a CSV, each row as wide as the header; raise `WrongInput` for anything else."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = csv.reader(file)
            numbered = [(lines.line_num, row) for row in lines if row]
    except (OSError, UnicodeDecodeError, csv.Error):
        raise WrongInput(f"'{path}' cannot be read as a CSV in UTF-8.") from None
    header = numbered[0][1] if numbered else []
    if len(header) < 2 or header[0].strip().lower() != "timestamp":
        raise WrongInput(
            f"'{path}' does not begin with the header timestamp,value (or timestamp,m1,m2,...)."
        )
    for line, row in numbered[1:]:
        if len(row) != len(header):
            raise WrongInput(
                f"'{path}' line {line} has {len(row)} cells where the header has {len(header)}."
            )
    rows = [row for _, row in numbered[1:]]
    counted = [row[0].strip() for row in rows[:2]] in (["0", "1"], ["1", "2"])
    times = [_time(row[0], path, line, NUMBERED_S if counted else 1) for line, row in numbered[1:]]
    cells = [[_number(cell) for cell in row[1:]] for row in rows]
    return SeriesTable(
        header, rows, times, np.array(cells, dtype=np.float64).reshape(len(rows), len(header) - 1)
    )


def _time(text: str, path: Path, line: int, unit_s: float = 1) -> datetime:
    """Read ISO 8601, or seconds (thousandths, millionths, billionths when large) since 1970.

    UTC where no zone is given.

    `unit_s` is what one stands for where rows are numbered.
    """
    try:
        time = datetime.fromisoformat(text.strip().removesuffix(" UTC"))
        return time if time.tzinfo else time.replace(tzinfo=UTC)
    except ValueError:
        pass
    try:
        seconds = unit_s * float(text)
        while abs(seconds) > LARGEST_S:
            seconds /= 1000
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        raise WrongInput(
            f"'{path}' line {line}: '{text}' is not a time; write ISO 8601 or seconds since 1970."
        ) from None


def _number(text: str) -> float:
    """Read a number; whatever is none is no reading, never 0."""
    try:
        return float(text)
    except ValueError:
        return float("nan")
