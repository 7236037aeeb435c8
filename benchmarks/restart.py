"""Time a restart of the live source by its parts: from kept columns, and from kept hours.

`python -m benchmarks.restart [NODES [DAYS]]`: 16 node series each, DAYS of history (15), invented
and not asked of a server. Prints seconds of processors and of a clock, and whether a start from
columns has what one from hours has.
"""

from __future__ import annotations

import hashlib
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from adapters.aws.files import Problems
from adapters.aws.live.frame_buffer import ColumnRoom, FrameBuffer, NewPoints
from adapters.aws.live.grid_cache import GridCache
from adapters.aws.live.poller import MetricPoller
from adapters.aws.metrics.batch import TimeGrid
from adapters.aws.metrics.points import Points
from benchmarks.aws_bill import fleet
from benchmarks.live_tick import HOME, NOON, STEP

AGAIN = NOON + 600
_CORES = 32.0


def points(n_series: int, start: int, end: int) -> Points:
    """Return a point every five minutes of each series, at about 60 %."""
    seconds = np.arange(start, end, STEP)
    percent = np.random.default_rng(3).normal(60, 8, n_series * len(seconds)).round(3)
    count = np.full(len(percent), _CORES * STEP / 60)
    return Points(
        np.repeat(np.arange(n_series), len(seconds)),
        np.tile(seconds, n_series),
        count,
        count * percent,
        percent + 5,
    )


@dataclass
class Process:
    """Hold what one process of the bot keeps of the account."""

    folder: Path
    history: int

    def __post_init__(self) -> None:
        """Begin without a point."""
        self.metrics = MetricPoller(None, self.history, time.monotonic)  # type: ignore[arg-type]
        # Columns of any size lie in files, so that a small fleet measures the same.
        self.buffer = FrameBuffer(
            TimeGrid(STEP, 60),
            self.history,
            self.metrics.book.series,
            room=ColumnRoom(self.folder / "columns", 0),
        )
        self.cache = GridCache(self.buffer, self.metrics, Problems(), self.folder / "grids")

    def absorb(self, start: int, now: int) -> None:
        """Take in what all series reported from `start` until `now`."""
        new = points(len(self.metrics.book.series), start, now)
        self.buffer.absorb(NewPoints([new], settled=now - STEP), now // STEP, lambda _: {})

    def leave(self, now: int) -> None:
        """Keep what the next process goes on from."""
        self.cache.save([HOME], now)
        self.cache.join()

    def digest(self, now: int) -> str:
        """Return a name for the values of every seventh node."""
        grid = self.buffer.grids["node"]
        values = grid.frame(now // STEP, self.history // STEP, grid.details).values
        return hashlib.sha256(np.ascontiguousarray(values[:, ::7]).tobytes()).hexdigest()[:12]


def live(folder: Path, nodes: int, history: int) -> None:
    """Leave what a process that watched the fleet for all of history leaves."""
    process = Process(folder, history)
    process.cache.recall([HOME], NOON)
    process.metrics.enter(HOME, fleet(nodes), NOON)
    process.metrics.backfill._wanted.clear()
    process.absorb(NOON - history, NOON - history + 2 * 3600)
    process.absorb(NOON - 2 * 3600, NOON)

    # What lies between looks like the first hours.
    values = process.buffer.grids["node"].values
    for start in range(24, values.shape[1] - 24, 24):
        values[:, start : start + 24] = values[:, :24][:, : values.shape[1] - start]
    process.leave(NOON)


def restart(name: str, folder: Path, history: int) -> float:
    """Print what a start takes; return its seconds of processors up to the first reading."""
    print(name)
    process = Process(folder, history)
    parts: tuple[tuple[str, Callable[[], None]], ...] = (
        ("what is kept", lambda: process.cache.recall([HOME], AGAIN)),
        ("first reading", lambda: process.absorb(NOON - 2 * 3600, AGAIN)),
        ("next reading", lambda: process.absorb(AGAIN, AGAIN + STEP)),
    )
    start = 0.0
    for part, do in parts:
        worked, began = time.process_time(), time.perf_counter()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        do()
        worked, waited = time.process_time() - worked, time.perf_counter() - began
        system = resource.getrusage(resource.RUSAGE_SELF).ru_stime - usage.ru_stime
        print(
            f"  {part:<16} {worked:6.1f} s of processors ({system:.1f} of the system),"
            f" {waited:6.1f} s",
            flush=True,
        )
        start += 0.0 if part == parts[-1][0] else worked
    print(f"  values {process.digest(AGAIN + STEP)}")
    return start


def starts(nodes: int, days: int) -> tuple[float, float]:
    """Return the seconds of processors of a start from columns, and of one from hours."""
    history = days * 86_400
    print(f"{nodes} nodes x 16 series, {days} days of history")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        # In a process of its own, as a bot that ended: this one begins with none of its memory.
        with get_context("spawn").Pool(1) as pool:
            pool.apply(live, (folder, nodes, history))
        from_columns = restart("from columns", folder, history)
        shutil.rmtree(folder / "columns")
        return from_columns, restart("from hours", folder, history)


def main() -> None:
    """Print the figures."""
    nodes, days = (int(x) for x in [*sys.argv[1:3], *["2000", "15"][len(sys.argv) - 1 :]])
    starts(nodes, days)


if __name__ == "__main__":
    main()
