"""Read the labelled series beside the repository and grade flags by episodes against their windows."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

DATA = Path("..") / "shared" / "data"
SERIES, SERVICES = DATA / "series", DATA / "multivariate"
GAP_ROWS = 12
"""Flags at most so far apart are one episode."""
WARM_PART, WARM_ROWS = 0.15, 750
"""Flags in the first part of a series are not graded."""


@dataclass(frozen=True)
class Labelled:
    """Hold a series.

    Name, times, values (n, m), and the windows of truth as half-open rows from `start` on, which is
    graded.
    """

    name: str
    times: list[datetime]
    values: Values
    windows: list[tuple[int, int]]
    start: int

    @property
    def family(self) -> str:
        """Return the folder the series came from."""
        return self.name.split("/")[0]

    @property
    def weeks(self) -> float:
        """Return how long the graded part lasts."""
        return (self.times[-1] - self.times[self.start]) / timedelta(weeks=1)


@dataclass(frozen=True)
class Grade:
    """Count windows found, windows there were, and episodes outside them, in so many weeks."""

    found: int
    windows: int
    false: int
    weeks: float

    @property
    def f1(self) -> float:
        """Return the harmonic mean of precision and recall."""
        return 2 * self.found / max(1, self.windows + self.found + self.false)

    @property
    def precision(self) -> float:
        """Return the part of the episodes that were true."""
        return self.found / max(1, self.found + self.false)

    @property
    def recall(self) -> float:
        """Return the part of the windows that were found."""
        return self.found / max(1, self.windows)


def total(grades: Iterable[Grade]) -> Grade:
    """Return the sum of grades."""
    every = list(grades)
    return Grade(
        *(
            sum(getattr(grade, name) for grade in every)
            for name in ("found", "windows", "false", "weeks")
        )
    )


def episodes(flags: Flags) -> list[tuple[int, int]]:
    """Return first and last row of each run of flags at most `GAP_ROWS` apart."""
    rows = np.flatnonzero(flags)
    if not len(rows):
        return []
    breaks = np.flatnonzero(np.diff(rows) > GAP_ROWS)
    return list(
        zip(
            rows[np.r_[0, breaks + 1]].tolist(),
            rows[np.r_[breaks, len(rows) - 1]].tolist(),
            strict=True,
        )
    )


def grade(series: Labelled, flags: Flags) -> Grade:
    """Return the grade of flags: a window is found when an episode starts in it.

    Other episodes are false.
    """
    starts = [first + series.start for first, _ in episodes(flags[series.start :])]
    hits = sum(any(low <= row < high for row in starts) for low, high in series.windows)
    false = sum(not any(low <= row < high for low, high in series.windows) for row in starts)
    return Grade(hits, len(series.windows), false, series.weeks)


def labelled_series() -> list[Labelled]:
    """Return the univariate series, each with the rows of its windows."""
    windows = json.loads((SERIES / "windows.json").read_text())
    return [_series(name, spans) for name, spans in sorted(windows.items())]


def labelled_services() -> list[Labelled]:
    """Return the multivariate services.

    The unlabelled part and the judged part as one recording at 5 minutes.
    """
    names = sorted(
        {path.name.split(".")[0] for path in SERVICES.glob("*.train.csv.gz")},
        key=lambda name: (len(name), name),
    )
    return [_service(name) for name in names]


def second_part_alone(series: Labelled) -> Labelled:
    """Return only the judged part of a series, so that nothing is learnt before.

    All but its first day is graded.
    """
    start, day = series.start, 288
    windows = [(low - start, high - start) for low, high in series.windows if low >= start + day]
    return replace(
        series, times=series.times[start:], values=series.values[start:], windows=windows, start=day
    )


def _series(name: str, spans: list[list[str]]) -> Labelled:
    with (SERIES / name).open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    times = [_time(row[0]) for row in rows]
    seconds = np.array([at.timestamp() for at in times])
    ends = [(_time(low).timestamp(), _time(high).timestamp()) for low, high in spans]
    windows = [
        (int(np.searchsorted(seconds, low)), int(np.searchsorted(seconds, high, side="right")))
        for low, high in ends
    ]
    return Labelled(
        name,
        times,
        np.array([[float(row[1])] for row in rows]),
        windows,
        min(int(WARM_PART * len(rows)), WARM_ROWS),
    )


def _service(name: str) -> Labelled:
    learnt, judged, truth = (_table(name, part) for part in ("train", "test", "test_label"))
    edges = np.flatnonzero(np.diff(np.r_[0, truth[:, 0], 0])) + len(learnt)
    values = np.vstack([learnt, judged])
    times = [
        datetime(2020, 1, 1, tzinfo=UTC) + timedelta(minutes=5) * row for row in range(len(values))
    ]
    return Labelled(
        name,
        times,
        values,
        list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)),
        len(learnt),
    )


def _table(name: str, part: str) -> Values:
    with gzip.open(SERVICES / f"{name}.{part}.csv.gz", "rt") as file:
        return np.array([[float(cell) for cell in row] for row in csv.reader(file)])


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
