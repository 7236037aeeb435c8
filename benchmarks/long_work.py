"""Measure a preview in one process against one and two workers of a standing Dask cluster.

Run: python -m benchmarks.long_work [--nodes 8,64,512] [--ticks 36,288].

Two policies are replayed over synthetic fleets of which three days are known. Each row holds them
against each other in one run, and asserts that their results are the same to the bit. The ratio is
of wall time, which says little where others use the machine; beside it stands the ratio on free
cores: the processor time of the asker and of the slowest part, to that of one process. Goodput is
split by days: of it the asker's own part is told. What starts and connects a cluster is told first:
a standing one is only connected to.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from importlib import import_module
from itertools import product
from time import perf_counter, process_time
from typing import Any

import numpy as np

from adapters.dask import DaskCluster
from benchmarks.tick import END, STEP, fleet
from bot.answers.cost.goodput import goodput_rows
from bot.costs.goodput import Split, goodput_of
from bot.costs.node_time import NodeTime
from bot.knowledge import load_knowledge
from bot.model.fleet import Inventory
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.notification import ReplayResult, ReplaySpan
from bot.model.policy import Policy
from bot.model.price import AccountRates
from bot.model.reading import Reading
from bot.model.route import Routes
from bot.model.spend import Money, Spend
from bot.model.window import DAY, Window
from bot.policy.file import applied
from bot.policy.schema import default_policy
from bot.ports import NoOutlook, Ports, Site, World
from bot.watch.preview import side_by_side
from bot.wiring.environment import build_name
from bot.wiring.kept import packed
from bot.wiring.source import SharedSource, memory_stores
from bot.wiring.workers import PAYS, DaskWorkers, Parcel, Side, Threshold, replay_side
from detectors import SharedDetector
from tests.dask_cluster import cluster

DAYS = 3
CHANNELS = ("default",)
NO_PARCEL: Any = None
ANY_SIZE = dict.fromkeys(PAYS, Threshold(0, 0))


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


def replayed_here(
    watched: Fleet, span: ReplaySpan, policies: Sequence[Policy]
) -> list[ReplayResult]:
    """Replay policies in this process, which reads once for all."""
    shared: Any = SharedSource(watched)
    bill: Any = watched
    sides, detector = [], SharedDetector(len(policies))
    for policy in policies:
        world = World(shared, bill, bill, load_knowledge(), detector, bill, NoOutlook())
        sides.append(Ports(world, memory_stores(), Site(policy, STEP)))
    return side_by_side(sides, span)


def policies() -> tuple[Policy, Policy]:
    """Return the usual policy and one that is stricter."""
    usual = default_policy()
    return usual, applied(usual, [(Labels(), "idle.below", "30%")])


def split_here(n: int) -> tuple[list[Spend], Split]:
    """Return about so many rows of a bill over three days, and what their nodes did."""
    nodes, _ = fleet(64, DAYS * 288)
    split = Split(NodeTime(nodes, np.full(64, 0.05), np.full(64, np.nan)), nodes.window)
    days = [f"{(END - i * DAY):%Y-%m-%d}" for i in range(DAYS)]
    every = product(range(n // (64 * DAYS)), days, nodes.things)
    key = {"instance_type": "trn1.32xlarge", "usage_type": "BoxUsage", "line": "EC2"}
    rows = [
        Spend(
            {**key, "day": day, "resource": x.instance, "team": f"t{i}", "cluster": x.cluster},
            Money(amortised=Decimal("21.5")),
            hours=24.0,
        )
        for i, day, x in every
    ]
    return rows, split


def goodput(running: DaskCluster, workers: int, n: int) -> str:
    """Return a row of goodput by cluster and team over so many rows of the bill."""
    rows, split = split_here(n)
    by = ["cluster", "team", "day"]
    far: Any = DaskWorkers(running, NO_PARCEL, ANY_SIZE)
    world = World(*(far,) * 6, workers=far)
    here = took(lambda: goodput_of(rows, split, by))
    site = Site(default_policy(), STEP)
    there = took(lambda: goodput_rows(Ports(world, memory_stores(), site), rows, split, by))
    return row_of("goodput, rows", len(rows), workers, here, there)


def row_of(name: str, size: int, workers: int, here: Took, there: Took) -> str:
    """Return the row of one kind of work, whose results are the same."""
    assert here.result == there.result, "a worker found something else"
    ratio, asker = there.wall / here.wall, there.processor / here.processor
    return (
        f"{name:<24} {size:>11,} {workers:>8} {here.wall:>8.1f} {there.wall:>8.1f} {ratio:>7.2f}"
        f" {asker:>13.2f}"
    )


@dataclass(frozen=True)
class Took:
    """Hold what a call gave, and the seconds that it took."""

    result: object
    wall: float
    processor: float


def took(work: Callable[[], object]) -> Took:
    """Return the result of one call with its wall time, and this process's own."""
    wall, processor = perf_counter(), process_time()
    result = work()
    return Took(result, perf_counter() - wall, process_time() - processor)


def measure(running: DaskCluster, workers: int, nodes: int, ticks: int) -> str:
    """Return one row: sizes, seconds and both ratios."""
    watched: Any = Fleet(*fleet(nodes, DAYS * 288))
    times = [END - i * STEP for i in reversed(range(ticks))]
    span = ReplaySpan(Window(times[0], END), times, CHANNELS)

    wall, processor = perf_counter(), process_time()
    results = replayed_here(watched, span, policies())
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
    parser.add_argument("--rows", default="4000,40000", help="of the bill, for goodput")
    given = parser.parse_args()
    texts = (given.nodes, given.ticks, given.rows)
    sizes = [[int(x) for x in text.split(",")] for text in texts]

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
            print(
                "work                            size  workers   here s  there s   ratio  asker's part"
            )
            for n in sizes[2]:
                print(goodput(running, workers, n), flush=True)


if __name__ == "__main__":
    # What is sent is named by its module, which is not `__main__` on a worker.
    import_module("benchmarks.long_work").main()
