"""Measure a tick of the detector over large fleets with 14 days behind it.

Run: python -m benchmarks.tick [NODES...]. The columns of more than 8,000 nodes are mapped from a
file, as those of a recording that was opened before are; of so many, a part is held against numpy.

Against it: (a) robust features of the newest day computed anew in numpy, and scikit-learn's own
`score_samples` on them; (b) medians over the whole history computed anew at each tick; (c) medians
and quartiles by pandas of a table with a row for each node and time, grouped by node, and (d) in
its quickest form, a column for each node and metric; both where pandas is installed (it is no
dependency: pip install pandas), in slices of 100 nodes that add up to all of them. What a tick
keeps from earlier ones is asserted to give what a detector that starts at this tick finds, and its
medians to be numpy's, to the bit. The readings are synthetic; everything runs in one process.
"""

from __future__ import annotations

import resource
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from statistics import median
from time import process_time

import numpy as np
from sklearn.ensemble import IsolationForest

from bot.knowledge import load_knowledge
from bot.model.fleet import Instance, Inventory
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.reading import NODE_METRICS, Reading, utilization_of
from bot.policy.schema import default_policy
from detectors import Detector
from detectors.roster import build_roster
from detectors.usual import history, learn

DAYS = 14
STEP = timedelta(minutes=5)
END = datetime(2026, 11, 20, 6, tzinfo=UTC)
DAY_STEPS = 288
MIDNIGHT = END - timedelta(hours=6)
TIMES = [MIDNIGHT + i * STEP for i in range(-12, 2)] + [END]
"""An hour of ticks.

The forest and the usual are learnt at midnight, the usual once more at the end.
"""
IN_MEMORY = 8_000
"""Nodes up to which the history is held in memory."""
BEFORE = 84
"""Steps from the first of these ticks to the last: at each of them 14 days are known."""
METRICS = tuple(NODE_METRICS)[:4] + tuple(
    name
    for name in NODE_METRICS
    if name.startswith(
        (
            "neuron_execution_errors_count",
            "neuron_execution_latency",
            "neuron_hardware_ecc_events",
            "host_",
            "network_",
        )
    )
    or name
    in {
        "efa_rx_bytes_per_second",
        "efa_tx_bytes_per_second",
        "status_check_failed_count",
        "neuron_runtime_memory_used_bytes",
    }
)


def fleet(nodes: int, steps: int) -> tuple[Frame, Inventory]:
    """Return a fleet of healthy nodes in clusters of 64, laid out as a recording's sheet is."""
    rng = np.random.default_rng(0)
    names = METRICS[:16]
    with tempfile.TemporaryFile() as file:
        for name in names:
            level = 0.0 if name.endswith("_count") else 0.8 if name.endswith("ratio") else 1e9
            # A compiled graph holds the same memory throughout.
            wide = 0.001 if "memory_used" in name else 0.02
            for _ in range(steps):
                (level * (1 + wide * rng.standard_normal(nodes, dtype=np.float32))).tofile(file)
        shape = (len(names), steps, nodes)
        if nodes > IN_MEMORY:
            values = np.asarray(np.memmap(file, np.float32, "c", shape=shape))
        else:
            file.seek(0)
            values = np.fromfile(file, np.float32).reshape(shape)
    things = tuple(
        Labels(
            cluster=f"c{i // 64}",
            instance=f"i-{i:05d}",
            instance_type="trn1.32xlarge",
            region="us-west-2",
        )
        for i in range(nodes)
    )
    inventory = Inventory(
        END,
        {thing.instance: Instance(thing, END - timedelta(days=60)) for thing in things},
        types=load_knowledge().types(),
    )
    return Frame(
        "node", things, END - steps * STEP, STEP, names, values.transpose(2, 1, 0)
    ), inventory


def milliseconds(work: Callable[[], object], times: int = 5) -> float:
    """Return the median processor time of one call."""
    times_taken = []
    for _ in range(times):
        start = process_time()
        work()
        times_taken.append(process_time() - start)
    return 1000 * median(times_taken)


@dataclass(frozen=True)
class Ticks:
    """Hold milliseconds of ticks.

    The first one of a process, those that learn, a usual one, the slowest that learns nothing.
    """

    first: float
    midnight: float
    six_hours: float
    usual: float
    slowest: float

    @property
    def mean(self) -> float:
        """Return the mean over a day: one learns usual and forest, three the usual alone."""
        return (self.midnight + 3 * self.six_hours + (DAY_STEPS - 4) * self.usual) / DAY_STEPS


def ticks(frame: Frame, inventory: Inventory) -> Ticks:
    """Return the milliseconds of a new detector's ticks."""
    detector, policy = Detector(), default_policy()
    times_taken = []
    for now in TIMES:
        reading = Reading(now, {"node": frame.until(now)}, inventory)
        start = process_time()
        detection = detector(reading, policy, ())
        times_taken.append(1000 * (process_time() - start))
        assert not detection.anomalies
    assert Detector()(reading, policy, ()) == detection
    first, *usual, midnight, after, six_hours = times_taken
    usual.append(after)
    return Ticks(first, midnight, six_hours, median(usual), max(usual))


def recomputed(frame: Frame) -> Callable[[], object]:
    """Return (a).

    Medians and quartiles of each metric's newest day, distances of the newest step, plain scores.
    """
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


def by_pandas(frame: Frame) -> tuple[Callable[[], object], Callable[[], object]] | None:
    """Return (c) and (d): median and quartiles of each node's metrics over the whole history.

    None without pandas.
    """
    if find_spec("pandas") is None:
        return None
    import pandas as pd

    shares = [0.25, 0.5, 0.75]
    slices = [frame.values[i : i + 100] for i in range(0, len(frame.things), 100)]

    def grouped() -> None:
        for part in slices:
            nodes, steps, metrics = part.shape
            pd.DataFrame(part.reshape(-1, metrics)).groupby(
                np.repeat(np.arange(nodes), steps)
            ).quantile(shares)

    def wide() -> None:
        for part in slices:
            pd.DataFrame(np.moveaxis(part, 1, 0).reshape(part.shape[1], -1)).quantile(shares)

    return grouped, wide


def assert_usual_is_numpys(frame: Frame, inventory: Inventory) -> None:
    """Compare the learnt levels of each node with numpy's own percentiles of the same samples, to the bit."""
    frame = frame.pick(slice(IN_MEMORY))
    part, roster = history(frame, END, DAYS), build_roster(frame.things, inventory)
    usual = learn(part, roster, np.zeros(len(frame.things)), ())
    for own, share in ((usual.low, 0.25), (usual.middle, 0.5), (usual.high, 0.95)):
        assert np.array_equal(
            own, np.nanquantile(utilization_of(part), share, axis=1, method="nearest")
        )


def lengths(nodes: int = 500) -> None:
    """Print the time of a tick after 3, 14 and 60 days of history."""
    medians = [
        (days, ticks(*fleet(nodes, days * DAY_STEPS + BEFORE)).usual) for days in (3, 14, 60)
    ]
    figures = ", ".join(f"{days} days {took:.1f}" for days, took in medians)
    print(f"{nodes:,} nodes, by length of history: {figures} ms a tick")


def main(arguments: Sequence[str]) -> None:
    """Print milliseconds of processor time of one process, ratios and memory."""
    print(
        "ms; mean = over a day, with the tick at midnight and three at 6, 12 and 18; a to d: the baselines, then their ratios"
    )
    print("to the mean")
    names = ("nodes", "first", "midnight", "six", "tick", "slowest", "mean", *"abcd", *"abcd")
    print("".join(f"{name:>9}" for name in names))
    for nodes in [int(word) for word in arguments] or [500, 1_000, 2_000, 4_000, 8_000]:
        longer, inventory = fleet(nodes, DAYS * DAY_STEPS + BEFORE)
        frame = longer.last(timedelta(days=DAYS))
        assert_usual_is_numpys(frame, inventory)
        took = ticks(longer, inventory)
        pandas = by_pandas(frame) or ()
        works = (whole(frame), *pandas) if nodes <= 2_000 else ()
        anew = [milliseconds(recomputed(frame), 3)] if nodes <= IN_MEMORY else []
        plain = [*anew, *(milliseconds(work, 1) for work in works)]
        plain += [float("nan")] * (4 - len(plain))
        own = (took.first, took.midnight, took.six_hours, took.usual, took.slowest, took.mean)
        figures = "".join(f"{x:>9.1f}" for x in (*own, *plain, *(x / took.mean for x in plain)))
        print(f"{nodes:>9}{figures}   {frame.values.nbytes / 1e6:,.0f} MB of history", flush=True)
    lengths()
    print(f"largest memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:,.0f} MB")


if __name__ == "__main__":
    main(sys.argv[1:])
