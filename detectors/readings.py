"""Read one tick: the newest steps of every node as arrays, and the usual of each node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

import numpy as np

from bot.model.alert import Alert
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.policy import Policy
from bot.model.reading import Reading
from detectors.arrays import Floats, Mask, Numbers
from detectors.limits import Limits
from detectors.roster import Roster
from detectors.usual import Usual, worked_of


@dataclass
class Readings:
    """Hold one tick's node frame cut to the newest `window`.

    Arrays are (n, n_steps) unless stated otherwise.
    """

    reading: Reading
    policy: Policy
    limits: Limits
    usual: Usual
    window: Frame
    whole: Frame
    open: Mapping[tuple[str, Labels], Alert]
    """Open alerts by rule and scope."""
    alerts: tuple[Alert, ...] = ()
    """Open and recent alerts."""
    _metrics: dict[str, Floats] = field(default_factory=dict)
    _recent: dict[tuple[int, int], tuple[Floats, Floats]] = field(default_factory=dict)

    @property
    def now(self) -> datetime:
        """Return the tick."""
        return self.reading.now

    @property
    def roster(self) -> Roster:
        """Return who the rows are."""
        return self.limits.roster

    @property
    def n(self) -> int:
        """Return the number of nodes."""
        return len(self.roster.ids)

    def number(self, key: str) -> Numbers:
        """Return a threshold per node, (n,)."""
        return self.limits.number(key)

    def steps(self, key: str) -> Numbers:
        """Return a span per node in steps, (n,)."""
        return self.limits.steps(key, self.window.step)

    @cached_property
    def utilization(self) -> Floats:
        """Return the utilization of the accelerator, 0..1.

        A node that says it has no runtime does nothing.
        """
        return worked_of(self.window)

    @cached_property
    def cpu(self) -> Floats:
        """Return the host's CPU, 0..1."""
        return self.metric("host_cpu_utilization_ratio")

    @cached_property
    def latency(self) -> Floats:
        """Return the median latency of an execution in seconds; nan while nothing executes."""
        return self.metric("neuron_execution_latency_seconds")

    @cached_property
    def efa(self) -> Floats:
        """Return the larger of the sent and received rates over EFA, bytes a second."""
        names = ("tx", "rx", "rdma_write", "rdma_read")
        parts = [
            self.metric(f"efa_{name}_bytes_per_second")
            for name in names
            if self.window.has(f"efa_{name}_bytes_per_second")
        ]
        if not parts:
            return np.full(self.utilization.shape, np.nan, dtype=np.float32)
        most = parts[0]
        for part in parts[1:]:
            most = np.fmax(most, part)
        return most

    @cached_property
    def memory(self) -> Floats:
        """Return device memory in use, in bytes."""
        used = self.metric("neuroncore_memory_used_bytes")
        return np.where(np.isnan(used), self.metric("neuron_runtime_memory_used_bytes"), used)

    @cached_property
    def held(self) -> Floats:
        """Return 1 where a runtime is loaded, 0 where none is, nan where that is not known."""
        loaded = self.metric("neuron_runtime_loaded_ratio")
        runtime = self.metric("neuron_runtime_memory_used_bytes")
        cores = self.metric("neuroncore_memory_used_bytes")
        by_memory = np.fmax(runtime, cores)
        guess = np.where(np.isnan(by_memory), np.nan, by_memory > 0)
        return np.where(np.isnan(loaded), guess, loaded > 0.5).astype(np.float32)

    @cached_property
    def unknown(self) -> Mask:
        """Tell where utilization was not read."""
        return np.isnan(self.utilization)

    @cached_property
    def zero(self) -> Mask:
        """Tell where a node does nothing (False where not read)."""
        return self.utilization <= self.number("idle.below")[:, None].astype(np.float32)

    @cached_property
    def any_zero(self) -> bool:
        """Tell whether any node did nothing in any step.

        Mostly none did, and much need not be asked.
        """
        return bool(self.zero.any())

    @cached_property
    def executing(self) -> Mask:
        """Tell where a node works (False where not read)."""
        return ~self.zero & ~self.unknown

    @cached_property
    def levels(self) -> tuple[Floats, Floats, Floats]:
        """Return the usual utilization now: low, middle, high, each (n,)."""
        return self.usual.at(self.now, self.roster.inference)

    def metric(self, name: str) -> Floats:
        """Return one metric of the window; all nan where it was never read."""
        if name not in self._metrics:
            self._metrics[name] = self.window.of(name)
        return self._metrics[name]

    def usual_of(self, name: str) -> Floats:
        """Return the usual of a metric while the node works, (n,); nan where unknown."""
        medians = self.usual.medians.get(name)
        return self._unknown_usual if medians is None else medians

    @cached_property
    def _unknown_usual(self) -> Floats:
        return np.full(self.n, np.nan, dtype=np.float32)

    def recent(self, values: Floats, steps: int = 3) -> Floats:
        """Return the mean of the newest readings, (n,); nan where there is none."""
        key = id(values), steps
        if key not in self._recent:
            self._recent[key] = (
                values,
                mean_of(values[:, -steps:]),
            )  # while it is kept, no other array has its id
        return self._recent[key][1]

    def time_of(self, steps_ago: float) -> datetime:
        """Return the start of the step that lies `steps_ago` steps before the end (1 = the last step)."""
        return self.now - steps_ago * self.window.step


def mean_of(part: Floats) -> Floats:
    """Return the mean of each row's readings, (n, n_steps) -> (n,); nan where there is none."""
    if part.shape[1] == 1:
        return part[:, 0].astype(np.float32)
    read = ~np.isnan(part)
    if read.all() and part.shape[1]:
        return np.asarray((part.sum(axis=1) / np.int64(part.shape[1])).astype(np.float32))
    count = read.sum(axis=1)
    total = np.where(read, part, 0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan).astype(np.float32)
