"""Count the dollars of a start of the live source and time its first alert.

A first one, and after 10 minutes and 3 hours.

`python -m benchmarks.live_start [NODES [DAYS]]`: 16 node series each, DAYS of history (15), from a
server in a process of its own; one node idles, all others are busy. Prints calls, dollars (of a
tick's own newest points, and beside), seconds to the first alert, false alerts, the size of the
cache on disk, and memory.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from adapters.aws.api.calls import Calls
from adapters.aws.api.operations import price_of
from adapters.aws.files import Problems
from adapters.aws.live.frame_buffer import FrameBuffer
from adapters.aws.live.grid_cache import GridCache
from adapters.aws.live.poller import MetricPoller
from adapters.aws.metrics.batch import TimeGrid
from adapters.aws.metrics.points import MetricSeries
from benchmarks.aws_bill import fleet
from benchmarks.live_tick import HOME, NOON, STEP
from benchmarks.metric_server import served
from bot.knowledge import load_knowledge
from bot.model.fleet import Instance, Inventory
from bot.model.labels import Labels
from bot.model.reading import Reading
from bot.policy.schema import default_policy
from detectors.detector import Detector

IDLE = "i-00007"
MOST_SECONDS = 1500
"""How long a start is watched at most."""


_NOISE = 16_381
"""Values that are told anew from another place for each series.

No two look alike, and none takes time to draw.
"""


@cache
def _times(start: int, end: int, period: int) -> tuple[int, str]:
    times = range(start // period * period, end, period)
    return len(times), json.dumps(list(times))


@cache
def _values(level: float, factor: float) -> list[str]:
    return [
        f"{max(0.0, level + x) * factor:.3f}"
        for x in np.random.default_rng(7).normal(0, level / 8, 2 * _NOISE)
    ]


def _result(query: dict[str, Any], start: int, end: int) -> str:
    """Return the answer to one query.

    32 cores at about 60 %, other metrics at about 10, all of the idle node at 0.
    """
    asked, metric = query["MetricStat"], query["MetricStat"]["Metric"]
    dimensions = {x["Name"]: x["Value"] for x in metric["Dimensions"]}
    period, cores = int(asked["Period"]), "neuroncore" in metric["MetricName"]
    quiet = (
        dimensions["InstanceId"] == IDLE
        or "errors" in metric["MetricName"]
        or "ecc" in metric["MetricName"]
    )
    level = 0.0 if quiet else 60.0 if cores else 10.0
    n, times = _times(start, end, period)
    offset = zlib.crc32(f"{dimensions['InstanceId']} {metric['MetricName']}".encode()) % _NOISE
    factor = {"Sum": 32 * period / 60, "SampleCount": 32 * period / 60}.get(asked["Stat"], 1.0)
    column = (
        [str(factor)] * n
        if asked["Stat"] == "SampleCount"
        else _values(level, factor)[offset : offset + n]
    )
    return f'{{"Id": "{query["Id"]}", "StatusCode": "Complete", "Timestamps": {times}, "Values": [{", ".join(column)}]}}'


def answer(asked: dict[str, Any]) -> bytes:
    """Return a point a period of every query; NeuronCores of one node do nothing."""
    results = (
        _result(query, int(asked["StartTime"]), int(asked["EndTime"]))
        for query in asked["MetricDataQueries"]
    )
    return f'{{"MetricDataResults": [{", ".join(results)}], "Messages": []}}'.encode()


@dataclass
class Process:
    """Hold what one process of the bot has of the account."""

    series: list[MetricSeries]
    history: int
    folder: Path
    now: int

    def __post_init__(self) -> None:
        """Begin without a point."""
        self.calls = Calls(lambda: datetime.fromtimestamp(self.now, UTC))
        self.metrics = MetricPoller(self.calls, self.history, time.monotonic)
        self.buffer = FrameBuffer(TimeGrid(STEP, 60), self.history, self.metrics.book.series)
        self.cache = GridCache(self.buffer, self.metrics, Problems(), self.folder)
        names = sorted({dict(one.dimensions)["InstanceId"] for one in self.series})
        launched = datetime.fromtimestamp(NOON, UTC) - timedelta(days=30)
        labels = Labels(region=HOME.region, account=HOME.account, instance_type="trn1.32xlarge")
        self._instances = {x: Instance(labels.merge(Labels(instance=x)), launched) for x in names}
        self._types = {
            name: each for name, each in load_knowledge().types().items() if name == "trn1.32xlarge"
        }
        self._detect = Detector(money=False)

    def tick(self) -> set[str]:
        """Read, judge, and go on with history; return the instances that an anomaly is about."""
        if not self.metrics.known():
            self.cache.recall([HOME], self.now)
            self.metrics.enter(HOME, self.series, self.now)
        read = self.metrics.read((self.now - 60) // 60 * 60, time.monotonic() + MOST_SECONDS)
        self.buffer.absorb(
            read,
            self.now // STEP,
            lambda _: dict.fromkeys(self._instances, 32),
            self.metrics.backfill.taken(),
        )
        at = datetime.fromtimestamp(self.now, UTC)
        grids = self.buffer.grids.items()
        frames = {
            kind: grid.frame(self.now // STEP, self.history // STEP, grid.details)
            for kind, grid in grids
        }
        found = self._detect(
            Reading(at, frames, Inventory(at, self._instances, types=self._types)),
            default_policy(),
            (),
        )
        return {one.labels.instance for one in found.anomalies}

    def settle(self) -> None:
        """Keep what is settled and read all of history, as a watch does between ticks."""
        self.cache.save([HOME], self.now)
        self.metrics.backfill.start(time.monotonic() + MOST_SECONDS, self.buffer.past)
        self.metrics.backfill.join()
        self.cache.join()

    def run(self, name: str, ticks: int) -> None:
        """Run some ticks and print their figures."""
        began, first, told = time.perf_counter(), 0.0, set[str]()
        for number in range(ticks):
            told |= self.tick()
            first = first or (time.perf_counter() - began if IDLE in told else 0.0)
            self.settle()
            if number < ticks - 1:
                self.now += STEP
        units = self.calls.meter.today().units["cloudwatch:GetMetricData"]
        own = len(self.series) * ticks
        usd: tuple[Decimal, ...] = tuple(
            price_of("cloudwatch", "get_metric_data", n) for n in (own, units - own)
        )
        calls, false = (
            self.calls.meter.today().calls["cloudwatch:GetMetricData"],
            len(told - {IDLE, ""}),
        )
        print(
            f"{name}: {calls:,} calls, ${usd[0]:.4f} for the newest points of {ticks} ticks, ${usd[1]:.4f} beside"
        )
        print(
            f"  first alert after {first:.1f} s, {false} false; {time.perf_counter() - began:.0f} s with history",
            flush=True,
        )


def main() -> None:
    """Print the figures."""
    nodes, days = (int(x) for x in [*sys.argv[1:3], *["2000", "15"][len(sys.argv) - 1 :]])
    with served(answer), tempfile.TemporaryDirectory() as temporary:
        _measure(nodes, days, Path(temporary))


def _measure(nodes: int, days: int, folder: Path) -> None:
    series, history = fleet(nodes), days * 86_400
    print(f"{nodes} nodes x 16 series, {days} days of history")
    first = Process(series, history, folder, NOON)
    first.run("first start", 3)
    files = [path.stat().st_size for path in folder.rglob("*.npz")]
    print(
        f"on disk: {sum(files) / 1e6:.1f} MB in {len(files)} files, {sum(files) / 1e6 / nodes / days:.4f} MB a node and day"
    )
    del first
    for name, later in (("restart after 10 minutes", 600), ("restart after 3 hours", 3 * 3600)):
        Process(series, history, folder, NOON + 2 * STEP + later).run(name, 1)
    print(f"memory at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB")


if __name__ == "__main__":
    main()
