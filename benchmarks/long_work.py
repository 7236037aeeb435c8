"""Measure a preview in one process against one and two workers of a standing Dask cluster.

Run: python -m benchmarks.long_work [--nodes 8,64,512] [--ticks 36,288].

Two policies are replayed over synthetic fleets of which three days are known. Each row holds them
against each other in one run, and asserts that their results are the same to the bit. The ratio is
of wall time, which says little where others use the machine; beside it stands the ratio on free
cores: the processor time of the asker and of the slowest part, to that of one process. What starts
and connects a cluster is told first: a standing one is only connected to.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from time import perf_counter, process_time
from typing import Any

from adapters.dask import DaskCluster
from benchmarks.tick import END, STEP, fleet
from bot.knowledge import load_knowledge
from bot.model.fleet import Inventory
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.notification import ReplayResult, ReplaySpan
from bot.model.price import AccountRates
from bot.model.reading import Reading
from bot.model.route import Routes
from bot.model.window import Window
from bot.policy.file import applied
from bot.policy.schema import default_policy
from bot.ports import NoOutlook, Ports, Site, World
from bot.watch.preview import side_by_side
from bot.wiring.environment import build_name
from bot.wiring.kept import packed
from bot.wiring.source import SharedSource, memory_stores
from bot.wiring.workers import PAYS, Parcel, Side, replay_side
from detectors import Detector
from tests.dask_cluster import cluster

DAYS = 3
CHANNELS = ("default",)


@dataclass(frozen=True)
class Fleet:
    """Be the source, the bill and the prices of a fleet of which nothing is billed."""

    nodes: Frame
    inventory: Inventory

    def read(self, now: datetime) -> Reading:
        """Return the readings up to `now`."""
        return Reading(now, {"node": self.nodes.until(now)}, self.inventory)

    def extent(self) -> Window:
        """Return the days that are known."""
        return self.nodes.window

    def problems(self) -> Sequence[str]:
        """Return none."""
        return ()

    def deltas(self, now: datetime, _: int) -> Reading:
        """Return no bill."""
        return Reading(now)

    def rates(self, _: datetime) -> AccountRates:
        """Return no rate."""
        return AccountRates()

    def quotes(self, *_: object) -> Sequence[Any]:
        """Return no price."""
        return ()


def timed_side(sent: Sequence[Any], side: Side) -> tuple[ReplayResult, float]:
    """Replay a side on a worker; return the processor time that it took as well."""
    started = process_time()
    return replay_side(sent, side), process_time() - started


def here(watched: Fleet, span: ReplaySpan) -> list[ReplayResult]:
    """Replay both policies in this process, which reads once for both."""
    shared: Any = SharedSource(watched)
    bill: Any = watched
    sides = []
    for policy in policies():
        world = World(shared, bill, bill, load_knowledge(), Detector(), bill, NoOutlook())
        sides.append(Ports(world, memory_stores(), Site(policy, STEP)))
    return side_by_side(sides, span)


def policies() -> tuple[Any, Any]:
    """Return the usual policy and one that is stricter."""
    usual = default_policy()
    return usual, applied(usual, [(Labels(), "idle.below", "30%")])


def measure(running: DaskCluster, workers: int, nodes: int, ticks: int) -> str:
    """Return one row: sizes, seconds and both ratios."""
    watched: Any = Fleet(*fleet(nodes, DAYS * 288))
    times = [END - i * STEP for i in reversed(range(ticks))]
    span = ReplaySpan(Window(times[0], END), times, CHANNELS)

    wall, processor = perf_counter(), process_time()
    results = here(watched, span)
    wall_here, processor_here = perf_counter() - wall, process_time() - processor

    wall, processor = perf_counter(), process_time()
    sent = packed(Parcel(watched, watched, watched, NoOutlook(), STEP, span))
    parts = [Side(policy, Routes(), memory_stores().alerts) for policy in policies()]
    found = running.each(timed_side, sent, parts)
    wall_there, asker = perf_counter() - wall, process_time() - processor
    assert [result for result, _ in found] == results, "a worker found something else"

    seconds = [taken for _, taken in found]
    path = asker + (max(seconds) if workers > 1 else sum(seconds))
    size = 2 * ticks * (nodes + PAYS["replay"].fixed)
    return (
        f"{nodes:>7,} {ticks:>6} {size:>11,} {workers:>8} {sum(x.nbytes for x in sent) / 1e6:>8.1f}"
        f" {wall_here:>8.1f} {wall_there:>8.1f} {wall_there / wall_here:>7.2f}"
        f" {path / processor_here:>13.2f}"
    )


def main() -> None:
    """Print a row for each size and number of workers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", default="8,64,512")
    parser.add_argument("--ticks", default="36,288")
    arguments = parser.parse_args()
    sizes = [[int(x) for x in text.split(",")] for text in (arguments.nodes, arguments.ticks)]

    print("  nodes  ticks        size  workers  MB sent   here s  there s   ratio  on free cores")
    for workers in (1, 2):
        started = perf_counter()
        with cluster(workers) as processes:
            ready = perf_counter()
            running = DaskCluster(processes.address, build_name)
            running.check()
            print(
                f"{workers} started in {ready - started:.1f} s,"
                f" connected to in {perf_counter() - ready:.1f} s"
            )
            for nodes in sizes[0]:
                for ticks in sizes[1]:
                    print(measure(running, workers, nodes, ticks), flush=True)


if __name__ == "__main__":
    # What is sent is named by its module, which is not `__main__` on a worker.
    import_module("benchmarks.long_work").main()
