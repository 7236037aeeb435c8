"""Look at one tick: the newest steps of every node as arrays, what is usual, what is already known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bot.model.alert import Alert
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.policy import Policy
from bot.model.reading import Reading
from detectors.limits import Limits
from detectors.marks import Said, said_by_log
from detectors.roster import Roster, scope_of
from detectors.signature import compiling
from detectors.streak import since_last, sustained, trailing
from detectors.usual import Usual, utilization_of

Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.float64]
Counts = npt.NDArray[np.intp]

PAUSE = timedelta(minutes=5)
"""How long a checkpoint may stop the work."""
LOOKBACK = timedelta(hours=1)
"""How much of the time before a long state is looked at."""


@dataclass
class View:
    """Hold one tick's node frame cut to the newest `window`; arrays are (n, n_steps) unless said otherwise."""

    reading: Reading
    policy: Policy
    limits: Limits
    usual: Usual
    window: Frame
    whole: Frame
    open: Mapping[tuple[str, Labels], Alert]
    """Open alerts by rule and scope."""
    known: tuple[Alert, ...] = ()
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
        """Return the utilization of the accelerator, 0..1; a node that says it has no runtime does nothing."""
        read = np.ascontiguousarray(utilization_of(self.window))
        none = np.isnan(read) & (self.metric("neuron_runtime_loaded_ratio") == 0)
        return np.where(none, np.float32(0), read) if none.any() else read

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
        """Return the larger of what is sent and received over EFA, bytes a second."""
        names = ("tx", "rx", "rdma_write", "rdma_read")
        parts = [self.metric(f"efa_{name}_bytes_per_second") for name in names if self.window.has(f"efa_{name}_bytes_per_second")]
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
        said = self.metric("neuron_runtime_loaded_ratio")
        runtime = self.metric("neuron_runtime_memory_used_bytes")
        cores = self.metric("neuroncore_memory_used_bytes")
        by_memory = np.fmax(runtime, cores)
        guess = np.where(np.isnan(by_memory), np.nan, by_memory > 0)
        return np.where(np.isnan(said), guess, said > 0.5).astype(np.float32)

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
        """Tell whether any node did nothing in any step: mostly none did, and much need not be asked."""
        return bool(self.zero.any())

    @cached_property
    def executing(self) -> Mask:
        """Tell where a node works (False where not read)."""
        return ~self.zero & ~self.unknown

    @cached_property
    def standing(self) -> Mask:
        """Tell where a node is really stopped: without a runtime, its memory freed, or for longer than a checkpoint takes."""
        if not self.any_zero:
            return self.zero
        unloaded = (self.held == 0) | (self.memory < 0.5 * self.beside("neuroncore_memory_used_bytes")[:, None])
        return np.asarray((self.zero & unloaded) | sustained(self.zero, self.window.steps(PAUSE) + 1))

    @cached_property
    def restarting(self) -> Mask:
        """Tell where a process was gone for part of a step: a living one keeps its device memory."""
        usual = self.beside("neuroncore_memory_used_bytes")[:, None]
        return np.asarray(self.memory < 0.85 * usual)

    @cached_property
    def forward(self) -> Mask:
        """Tell where executions are so quick that they are of another kind: an evaluation only runs forward.

        Where the host is at its end, the data loader is: the runtime's latency says nothing of that.
        """
        usual = self.beside("neuron_execution_latency_seconds")[:, None]
        busy = self.cpu >= self.number("starved.cpu")[:, None]
        return np.asarray((self.latency < 0.75 * usual) & ~busy)

    @cached_property
    def at_work(self) -> Mask:
        """Tell where a node trains, however slowly: a stop, a start or an evaluation is no drop."""
        return ~self.standing & ~self.restarting & ~self.forward

    @cached_property
    def compiling(self) -> Mask:
        """Tell where a node compiles: where its compiler's log says so, else where it looks like it."""
        return compiling(self)

    @cached_property
    def said(self) -> Said | None:
        """Return what compilers' logs say of each step, None where no log is read."""
        return said_by_log(self.reading.marks, self.window, self.roster) if self.reading.marks else None

    @cached_property
    def resting(self) -> Mask:
        """Tell where a node does nothing and no runtime is known to be loaded."""
        return self.zero & ~self.compiling & ~(self.held > 0) if self.any_zero else self.zero

    @cached_property
    def holding(self) -> Mask:
        """Tell where a node does nothing although a runtime is loaded."""
        return self.zero & ~self.compiling & (self.held > 0) if self.any_zero else self.zero

    @cached_property
    def silent_steps(self) -> Counts:
        """Return how many steps ago a node last reported, (n,); the window's length where never in it."""
        return since_last(~self.unknown)

    @cached_property
    def silent(self) -> Mask:
        """Tell which nodes have not reported for as long as is told, (n,)."""
        return self.silent_steps >= self.steps("no_data.for")

    @cached_property
    def unwatched(self) -> Mask:
        """Tell which hosts are of no Neuron family and told no accelerator's work for a day, (n,): nothing is missing there."""
        strange = self.silent & ~self.roster.neuron
        if not strange.any():
            return strange
        return strange & np.isnan(utilization_of(self.whole.last(timedelta(days=1)))).all(axis=1)

    @cached_property
    def eligible(self) -> Mask:
        """Tell which nodes run and have lately reported, (n,): only they can begin an anomaly."""
        return self.roster.running & ~self.silent

    @cached_property
    def age_seconds(self) -> Numbers:
        """Return the seconds since launch, inf where not known, (n,)."""
        return self.now.timestamp() - self.roster.launched

    @cached_property
    def compile_steps(self) -> Counts:
        """Return how long a node has been compiling, (n,)."""
        return trailing(self.compiling, self.unknown)

    @cached_property
    def levels(self) -> tuple[Floats, Floats, Floats]:
        """Return the usual utilization now: low, middle, high, each (n,)."""
        return self.usual.at(self.now, self.roster.inference)

    @cached_property
    def lost_share(self) -> Numbers:
        """Return what share of its usual work each node now loses, 0 where that is not known, (n,)."""
        lost = 1 - self.recent(self.utilization) / self.levels[1]
        return np.where(lost > 0.1, lost, 0.0).astype(np.float64)

    def metric(self, name: str) -> Floats:
        """Return one metric of the window; all nan where it was never read."""
        if name not in self._metrics:
            self._metrics[name] = self.window.of(name)
        return self._metrics[name]

    def beside(self, name: str) -> Floats:
        """Return the usual of a metric while the node works, (n,); nan where unknown."""
        found = self.usual.beside.get(name)
        return self._unknown_usual if found is None else found

    @cached_property
    def _unknown_usual(self) -> Floats:
        return np.full(self.n, np.nan, dtype=np.float32)

    def recent(self, values: Floats, steps: int = 3) -> Floats:
        """Return the mean of the newest readings, (n,); nan where there is none."""
        key = id(values), steps
        if key not in self._recent:
            self._recent[key] = values, self._mean_of(values[:, -steps:])  # while it is kept, no other array has its id
        return self._recent[key][1]

    @staticmethod
    def _mean_of(part: Floats) -> Floats:
        if part.shape[1] == 1:
            return part[:, 0].astype(np.float32)
        known = ~np.isnan(part)
        if known.all() and part.shape[1]:
            return np.asarray((part.sum(axis=1) / np.int64(part.shape[1])).astype(np.float32))
        count = known.sum(axis=1)
        total = np.where(known, part, 0).sum(axis=1)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan).astype(np.float32)

    def alert(self, rules: tuple[str, ...], scope: Labels) -> Alert | None:
        """Return the open alert of any of the rules in a scope."""
        return next((self.open[rule, scope] for rule in rules if (rule, scope) in self.open), None)

    def is_open(self, *rules: str) -> bool:
        """Tell whether an alert of the rules is open in any scope."""
        return any(rule in rules for rule, _ in self.open)

    def held_open(self, *rules: str) -> Mask:
        """Tell which nodes an open alert of the rules is about, (n,)."""
        mask = np.zeros(self.n, dtype=bool)
        for (rule, _), alert in self.open.items():
            if rule in rules:
                mask[self.roster.rows_of(alert.anomaly.things)] = True
        return mask

    def time_of(self, steps_ago: float) -> datetime:
        """Return the start of the step that lies `steps_ago` steps before the end (1 = the last step)."""
        return self.now - steps_ago * self.window.step

    def lasting(self, steps: Numbers, rows: Counts, *rules: str) -> timedelta:
        """Return how long the nodes at `rows` have been so: as known of an open alert of the rules, else by their streaks."""
        known = self.alert(rules, self.roster.scopes[self.roster.scope[rows[0]]])
        seen = float(steps[rows].max()) * self.window.step
        return max(seen, self.now - known.anomaly.window.start) if known else seen

    def gauge(self, rows: Counts) -> str:
        """Name the utilization of the nodes at `rows` as their vendor does."""
        neuron = (~np.isnan(self.metric("neuroncore_utilization_ratio")[rows])).any() or not self.window.has(
            "gpu_utilization_ratio"
        )
        return "NeuronCore utilization" if neuron else "GPU utilization"

    def rows_in(self, labels: Labels) -> Counts:
        """Return the rows of the nodes in the scope of `labels`."""
        scope = scope_of(labels)
        scopes = self.roster.scopes
        if scope not in scopes:
            return np.zeros(0, dtype=np.intp)
        return np.flatnonzero(self.roster.scope == scopes.index(scope))
