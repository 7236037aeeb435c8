"""Measure a tick of the detector over large fleets with 14 days behind it. Run: python -m benchmarks.tick [NODES...].

Against it: (a) robust features of the newest day computed anew in numpy, and scikit-learn's own `score_samples` on them;
(b) medians over the whole history computed anew at each tick. The readings are synthetic; everything runs in one process.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from statistics import median
from time import process_time

import numpy as np
from sklearn.ensemble import IsolationForest

from bot.knowledge import load_knowledge
from bot.model.fleet import Instance, Inventory
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.reading import NODE_METRICS, Reading
from bot.policy.schema import default_policy
from detectors import Detector

DAYS = 14
STEP = timedelta(minutes=5)
END = datetime(2026, 11, 20, 5, 30, tzinfo=UTC)
DAY_STEPS = 288
TICKS = 12
LEARNT_EVERY = 72
"""Ticks in six hours: the usual is learnt anew that often, the forest once a day; the mean tick bears its share."""
METRICS = tuple(NODE_METRICS)[:4] + tuple(
    name
    for name in NODE_METRICS
    if name.startswith(
        ("neuron_execution_errors_count", "neuron_execution_latency", "neuron_hardware_ecc_events", "host_", "network_")
    )
    or name
    in {"efa_rx_bytes_per_second", "efa_tx_bytes_per_second", "status_check_failed_count", "neuron_runtime_memory_used_bytes"}
)


def fleet(nodes: int, steps: int) -> tuple[Frame, Inventory]:
    """Return a fleet of healthy nodes in clusters of 64, laid out in memory as a recording's sheet is."""
    rng = np.random.default_rng(0)
    names = METRICS[:16]
    values = np.empty((len(names), steps, nodes), dtype=np.float32)
    for plane, name in zip(values, names, strict=True):
        level = 0.0 if name.endswith("_count") else 0.8 if name.endswith("ratio") else 1e9
        plane[:] = level * (1 + 0.02 * rng.standard_normal((steps, nodes), dtype=np.float32))
    things = tuple(
        Labels(cluster=f"c{i // 64}", instance=f"i-{i:05d}", instance_type="trn1.32xlarge", region="us-west-2")
        for i in range(nodes)
    )
    inventory = Inventory(
        END, {x.instance: Instance(x, END - timedelta(days=60)) for x in things}, types=load_knowledge().types()
    )
    return Frame("node", things, END - steps * STEP, STEP, names, values.transpose(2, 1, 0)), inventory


def milliseconds(work: Callable[[], object], times: int = 5) -> float:
    """Return the median processor time of one call."""
    found = []
    for _ in range(times):
        start = process_time()
        work()
        found.append(process_time() - start)
    return 1000 * median(found)


def ticks(frame: Frame, inventory: Inventory) -> tuple[float, float, float]:
    """Return milliseconds of the first tick, of the median and of the slowest tick of the hour after it."""
    detector, policy = Detector(), default_policy()
    found = []
    for i in range(TICKS + 1):
        now = END - (TICKS - i) * STEP
        reading = Reading(now, {"node": frame.until(now)}, inventory)
        start = process_time()
        detection = detector(reading, policy, ())
        found.append(1000 * (process_time() - start))
        assert not detection.anomalies
    return found[0], median(found[1:]), max(found[1:])


def recomputed(frame: Frame) -> Callable[[], object]:
    """Return (a): medians and quartiles of each metric's newest day, distances of the newest step, plain scores."""
    rng = np.random.default_rng(0)
    model = IsolationForest(random_state=0).fit(rng.normal(0, 1, (20_000, len(frame.metrics))))

    def work() -> object:
        day = frame.values[:, -DAY_STEPS:, :]
        low, middle, high = np.nanpercentile(day, (25, 50, 75), axis=1)
        return model.score_samples((day[:, -1] - middle) / (high - low + 1e-9))

    return work


def whole(frame: Frame) -> Callable[[], object]:
    """Return (b): the median of each node's metrics over the whole history."""
    return lambda: np.median(frame.values, axis=1)


def main(said: Sequence[str]) -> None:
    """Print milliseconds of processor time of one process, ratios and memory."""
    sizes = [int(word) for word in said] or [500, 1_000, 2_000, 4_000, 8_000]
    print(f"{'nodes':>6} {'learn':>8} {'tick':>7} {'slowest':>8} {'mean':>7} {'a':>8} {'b':>9} {'a/mean':>7} {'b/mean':>7}   ms")
    for nodes in sizes:
        frame, inventory = fleet(nodes, DAYS * DAY_STEPS)
        first, usual, slowest = ticks(frame, inventory)
        mean = usual + first / LEARNT_EVERY
        a = milliseconds(recomputed(frame), 3)
        b = milliseconds(whole(frame), 1) if nodes <= 2_000 else float("nan")
        figures = (
            f"{first:>8.0f} {usual:>7.1f} {slowest:>8.1f} {mean:>7.1f} {a:>8.0f} {b:>9.0f} {a / mean:>7.1f} {b / mean:>7.0f}"
        )
        print(f"{nodes:>6} {figures}   {frame.values.nbytes / 1e6:,.0f} MB of history", flush=True)
    short, inventory = fleet(2_000, 3 * DAY_STEPS)
    print(f"2,000 nodes, 3 days instead of {DAYS}: {ticks(replace(short), inventory)[1]:.1f} ms a tick")
    print(f"largest memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:,.0f} MB")


if __name__ == "__main__":
    main(sys.argv[1:])
