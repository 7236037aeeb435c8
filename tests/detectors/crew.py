"""Make the minutes of one job's nodes, apart from the product's simulator; everything follows from the seed.

What happens to a crew is a list of calls that bend its minutes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

import numpy as np

from bot.model.fleet import InstanceType
from bot.model.labels import Labels

START = datetime(2026, 9, 7, tzinfo=UTC)
STEP = timedelta(minutes=5)
DAY = 1440
GIB = 2.0**30
TYPES = {
    "trn1.32xlarge": InstanceType(
        "trn1.32xlarge", "trn1", "T", 16, 32, 512, 512, 128, 800, 0, 0, "", date(2026, 9, 1)
    ),
    "trn1.2xlarge": InstanceType(
        "trn1.2xlarge", "trn1", "T", 1, 2, 32, 32, 8, 12.5, 0, 0, "", date(2026, 9, 1)
    ),
    "trn2.48xlarge": InstanceType(
        "trn2.48xlarge", "trn2", "T", 16, 64, 1536, 2048, 192, 3200, 0, 0, "", date(2026, 9, 1)
    ),
}
EVENTS = ("errors", "ecc", "broken")
NAMES = {
    "util": "neuroncore_utilization_ratio",
    "high": "neuroncore_utilization_highest_ratio",
    "cpu": "host_cpu_utilization_ratio",
    "mem": "neuroncore_memory_used_bytes",
    "latency": "neuron_execution_latency_seconds",
    "tx": "efa_tx_bytes_per_second",
    "inward": "network_in_bytes_per_second",
    "outward": "network_out_bytes_per_second",
    "runtime": "neuron_runtime_memory_used_bytes",
    "errors": "neuron_execution_errors_count",
    "ecc": "neuron_hardware_ecc_events_count",
    "broken": "neuron_execution_errors_hardware_count",
}


@dataclass
class Crew:
    """Hold the minutes of one job's nodes, each signal (n, minutes); nan = not reported."""

    nodes: int = 8
    days: float = 3
    seed: int = 1
    cluster: str = "c"
    instance_type: str = "trn1.32xlarge"
    job: str = ""
    level: float = 0.8
    noise: float = 0.03
    own: bool = False
    """Whether every node does work of its own: pauses and restarts fall apart."""
    at: dict[str, np.ndarray] = field(default_factory=dict)
    ended: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """Minutes between which a node does not exist."""

    def __post_init__(self):
        self.rng = np.random.default_rng(self.seed)
        rng, shape = self.rng, (self.nodes, int(self.days * DAY))
        kind = TYPES[self.instance_type]
        slow = self._slow(0.4 * self.noise, 200)
        util = self.level * (
            1
            + rng.normal(0, 0.02, (self.nodes, 1))
            + slow
            + self.noise * rng.standard_t(6, shape) / 1.22
        )
        nic = kind.network_gbps / 8 * 1e9
        memory = kind.accelerator_memory_gib * GIB * rng.uniform(0.4, 0.85)
        self.at = {
            "util": np.clip(util, 0, 0.999),
            "cpu": np.clip(rng.uniform(0.05, 0.3) + rng.normal(0, 0.02, shape), 0.01, 1),
            "mem": memory * (1 + rng.normal(0, 0.004, shape)),
            "latency": rng.uniform(0.05, 2) * (1 + rng.normal(0, 0.03, shape)),
            "tx": nic
            * rng.uniform(0.1, 0.4)
            * (1 + rng.normal(0, 0.06, shape))
            * (self.nodes > 1 and not self.own),
            "inward": 3e8 * (1 + rng.normal(0, 0.1, shape)),
            "outward": 2e6 * (1 + rng.normal(0, 0.1, shape)),
            "errors": (rng.random(shape) < 1e-5) * 1.0,
            "ecc": (rng.random(shape) < 1e-5) * 1.0,
            "broken": np.zeros(shape),
        }
        self.at["runtime"] = self.at["mem"] * 1.01
        self.at["high"] = np.clip(self.at["util"] * (1 + 0.3 * (1 - self.level)), 0, 1)
        self.pace = np.ones(shape[1])
        self.saves: list[int] = []

    def _slow(self, size, width):
        """Return a smooth walk shared by all nodes, (minutes,)."""
        minutes = int(self.days * DAY)
        knots = self.rng.normal(0, size, minutes // width + 3)
        return np.interp(np.arange(minutes) / width, np.arange(len(knots)), knots)

    @property
    def ids(self):
        return [f"i-{self.cluster}{self.job}{i:03d}" for i in range(self.nodes)]

    def scale(self, start, length, nodes=slice(None), **by):
        for name, factor in by.items():
            self.at[name][nodes, int(start) : int(start + length)] *= factor
        return self

    def put(self, start, length, nodes=slice(None), **values):
        for name, value in values.items():
            part = self.at[name][nodes, int(start) : int(start + length)]
            part[:] = (
                value * (1 + self.rng.normal(0, 0.02, part.shape))
                if value and value != 1
                else value
            )
        return self

    def off(self, start, length, nodes=slice(None)):
        """No process: no memory, no executions, no traffic."""
        none = dict.fromkeys(("util", "high", "mem", "runtime", "tx", "inward", "outward"), 0)
        if nodes == slice(None):
            self.pace[int(start) : int(start + length)] = 0
        return self.put(start, length, nodes, **none, latency=np.nan, cpu=0.02)

    def compile(self, start, length, nodes=slice(None)):
        return self.off(start, length, nodes).put(
            start, length, nodes, cpu=self.rng.uniform(0.5, 0.95)
        )

    def ramp(self, start, nodes=slice(None)):
        for i, share in enumerate((0.02, 0.02, 0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9)):
            self.scale(start + i, 1, nodes, util=share, high=share, tx=share)

    def restart(self, start, gap=6, compile_minutes=0, nodes=slice(None)):
        self.off(start, gap, nodes)
        if compile_minutes:
            self.compile(start + gap, compile_minutes, nodes)
        self.ramp(start + gap + compile_minutes, nodes)
        return self

    def pauses(self, every=40, length=(1, 5), depth=0.03, stalls=0):
        """Save checkpoints: the work stops for some minutes; now and then for eight."""
        for nodes in self._groups():
            minute = int(self.rng.integers(5, every))
            while minute < self.days * DAY:
                lasts = (
                    8
                    if self.rng.random() < stalls
                    else int(self.rng.integers(*length, endpoint=True))
                )
                self.scale(minute, lasts, nodes, util=depth, tx=0.02, inward=0.1)
                whole = lasts if lasts >= 5 else 0
                self.scale(minute, whole, nodes, high=depth)
                self.saves.append(minute + lasts)
                minute += every + int(self.rng.integers(-3, 4))
        return self

    def evaluations(self, every=420, length=(20, 40), depth=(0.40, 0.60)):
        """Only forward passes: quicker executions, little traffic between nodes."""
        for nodes in self._groups():
            minute = int(self.rng.integers(60, every))
            while minute < self.days * DAY:
                lasts, share = (
                    int(self.rng.integers(*length, endpoint=True)),
                    self.rng.uniform(*depth) / self.level,
                )
                share = min(share, 1)
                self.scale(
                    minute,
                    lasts,
                    nodes,
                    util=share,
                    high=min(1, share * 1.2),
                    tx=0.2,
                    inward=0.7,
                    latency=0.5,
                )
                minute += every + int(self.rng.integers(-40, 40))
        return self

    def restarts(self, every=900, compile_minutes=0):
        for nodes in self._groups():
            minute = int(self.rng.integers(100, every))
            while minute < self.days * DAY:
                self.restart(minute, int(self.rng.integers(2, 12)), compile_minutes, nodes)
                minute += int(every * self.rng.uniform(0.7, 1.3))
        return self

    def bursts(self, work=(40, 400), rest=(5, 25)):
        """People try things: runs of any length with short breaks between them, each node on its own."""
        for i in range(self.nodes):
            minute = 0
            while minute < self.days * DAY:
                minute += int(self.rng.integers(*work))
                lasts = int(self.rng.integers(*rest))
                self.restart(minute, lasts, 0, slice(i, i + 1))
                share = self.rng.uniform(0.55, 1.0)
                self.scale(minute + lasts, 400, slice(i, i + 1), util=share, high=share)
                minute += lasts
        return self

    def nights(self, begin=20, end=6, keep=1):
        """The autoscaler takes all but `keep` nodes at night and brings them back in the morning."""
        for day in range(int(self.days)):
            start, stop = day * DAY + begin * 60, (day + 1) * DAY + end * 60
            self.restart(start, 4)
            self.restart(stop, 8)
            for i in range(keep, self.nodes):
                self.ended.setdefault(i, []).append((start, stop))
                self.gone(start, stop - start, slice(i, i + 1))
        return self

    def drift(self, to=0.82):
        """Get slower and slower over a day."""
        fall = np.interp(np.arange(int(self.days * DAY)), [0.5 * DAY, 1.5 * DAY], [1, to])
        self.at["util"] *= fall
        self.at["high"] *= fall
        return self

    def gone(self, start, length, nodes=slice(None)):
        for values in self.at.values():
            values[nodes, int(start) : int(start + length)] = np.nan
        return self

    def lose(self, share=0.05):
        for values in self.at.values():
            values[self.rng.random(values.shape) < share] = np.nan
        return self

    def without(self, *names):
        for name in names:
            self.at[name][:] = np.nan
        return self

    def starve(self, start, length, level, nodes=slice(None), cpu=0.95):
        share = level / self.level
        self.scale(
            start, length, nodes, util=share, tx=share, inward=share, high=min(1, 1.3 * share)
        )
        self.pace[int(start) : int(start + length)] *= share
        return self.put(start, length, nodes, cpu=cpu) if cpu else self

    def _groups(self):
        return [slice(i, i + 1) for i in range(self.nodes)] if self.own else [slice(None)]

    def labels(self, i):
        return Labels(
            cluster=self.cluster,
            instance=self.ids[i],
            instance_type=self.instance_type,
            region="us-west-2",
            job=self.job,
        )

    def columns(self, period, lag=1):
        """Return name -> (n, steps): what each tick of five minutes sees of points of `period` minutes, `lag` late."""
        shift = {1: 1, 5: 5}[period] + lag - 1
        made = {}
        for name, values in self.at.items():
            steps = values.shape[1] // 5
            late = np.concatenate([np.full((self.nodes, shift), np.nan), values], axis=1)[
                :, : steps * 5
            ]
            cut = late.reshape(self.nodes, steps, 5)
            with np.errstate(all="ignore"):
                count = (~np.isnan(cut)).sum(axis=2)
                total = np.nansum(cut, axis=2)
                if name in EVENTS:
                    made[name] = np.where(count, total, np.nan)
                elif name == "high":
                    made[name] = np.where(count, np.nan_to_num(cut, nan=-1).max(axis=2), np.nan)
                else:
                    made[name] = np.where(count, total / np.maximum(count, 1), np.nan)
        return made

    def run(self):
        """Return the run's step count and checkpoint age by minute, (minutes,) each."""
        minutes = np.arange(len(self.pace))
        saves = np.array(sorted({0, *self.saves}))
        age = (minutes - saves[np.searchsorted(saves, minutes, side="right") - 1]) * 60.0
        return np.cumsum(self.pace) * 20, age
