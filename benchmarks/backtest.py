"""Measure a whole backtest: 200 nodes, 14 days, points of five minutes.

Run: python -m benchmarks.backtest [RECORDING].

Against it, in the same run: DuckDB merely reads all points of the same recording, and numpy takes
the median of each series. Wall time is what a person waits; processor time says more while others
use the machine.
"""

from __future__ import annotations

import resource
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time

import duckdb
import numpy as np

from adapters.simulator import generate
from bot.watch.preview import opened, replay
from bot.wiring.environment import settings_of
from bot.wiring.source import OpenedSource, SourceReplays


@dataclass(frozen=True)
class Took:
    """Hold the seconds that a piece of work took."""

    wall: float
    processor: float


def took(work: Callable[[], object]) -> Took:
    """Return the wall and processor time of one call."""
    wall, processor = perf_counter(), process_time()
    work()
    return Took(perf_counter() - wall, process_time() - processor)


def merely_read(folder: Path) -> int:
    """Read every point and take each series' median, as the least that a detector could do.

    Return the number of points.
    """
    rows = duckdb.execute(
        "SELECT hash(namespace, metric_name, dimensions) AS series, value.sum / value.count AS level FROM read_parquet(?)",
        [str(folder / "metrics/**/*.parquet")],
    ).fetchnumpy()
    order = np.argsort(rows["series"], kind="stable")
    level = np.ma.filled(rows["level"], np.nan)[order]
    starts = np.flatnonzero(np.diff(rows["series"][order])) + 1
    return sum(len(part) for part in np.split(level, starts) if np.isfinite(np.median(part)))


def backtest(folder: Path) -> tuple[Took, Took, int]:
    """Return the time to open the recording, the time of its ticks, and their number."""
    settings = settings_of({})
    source = f"recording:{folder}"
    ports = SourceReplays(settings, OpenedSource(source, settings)).open(source, settings.policy)
    ready = took(lambda: opened(ports))
    results = []
    ticked = took(lambda: results.append(replay(ports, ("default",))))
    return ready, ticked, results[0].ticks


def measure(folder: Path) -> None:
    """Print seconds, the ratio to merely reading, and memory."""
    duckdb.execute("SET enable_progress_bar = false")
    ready, ticked, ticks = backtest(folder)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    plain = took(lambda: merely_read(folder))
    wall, processor = ready.wall + ticked.wall, ready.processor + ticked.processor
    print(f"{'':<28} {'wall s':>7} {'cpu s':>7}")
    for name, times in (
        ("open recording and bill", ready),
        (f"{ticks:,} ticks", ticked),
        ("merely read, and medians", plain),
    ):
        print(f"{name:<28} {times.wall:>7.1f} {times.processor:>7.1f}")
    print(
        f"{'backtest (goal 20 s wall)':<28} {wall:>7.1f} {processor:>7.1f}   largest memory {memory:,.0f} MB"
    )
    print(
        f"{wall / plain.wall:.1f} times merely reading in wall time, {processor / plain.processor:.1f} in processor time"
    )


def main(arguments: Sequence[str]) -> None:
    """Measure the recording that is named, else a simulated one."""
    if arguments:
        measure(Path(arguments[0]))
        return
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder) / "wide", 5, "wide")
        measure(Path(folder) / "wide")


if __name__ == "__main__":
    main(sys.argv[1:])
