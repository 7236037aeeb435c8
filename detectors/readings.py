"""Read one tick: the newest steps of every node as arrays, its usual, and where it compiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from bot.model.run import CompileMark, Mark
from bot.model.window import Window
from detectors.arrays import Counts, Floats, Mask, Numbers, Rows, close_gaps, drop_singles, trailing
from detectors.roster import Limits, Roster
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
        """Return where utilization was not read."""
        return np.isnan(self.utilization)

    @cached_property
    def zero(self) -> Mask:
        """Return where a node does nothing (False where not read)."""
        return self.utilization <= self.number("idle.below")[:, None].astype(np.float32)

    @cached_property
    def any_zero(self) -> bool:
        """Return whether any node did nothing in any step.

        Mostly none did, and much need not be asked.
        """
        return bool(self.zero.any())

    @cached_property
    def executing(self) -> Mask:
        """Return where a node works (False where not read)."""
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


LogStates = npt.NDArray[np.int8]
COMPILING, OVER, SILENT = 1, 0, -1
"""The state of a step by a log; `SILENT` leaves it to the metrics."""
ROOMY = 0.15
"""Share of the device memory under which a busy host may be compiling: the model is not loaded yet."""
EMPTY = 0.05
"""The same where the host's CPU is not read."""
LULL = timedelta(minutes=10)
"""Graphs of one start follow each other within so long."""
SETTLED = timedelta(minutes=30)
"""How long after its last end a log is believed that nothing compiles.

A new process may log elsewhere.
"""
LONGEST = timedelta(days=1)
"""A compile whose end never came into the log is taken for over after so long."""


def states_in_log(marks: Sequence[CompileMark], frame: Frame, roster: Roster) -> LogStates | None:
    """Return the state of each node and step by the logs, (n, n_steps).

    None where they say nothing.
    """
    by_node: dict[str, list[CompileMark]] = {}
    for one in marks:
        if one.instance in roster.row and one.at > frame.start - LONGEST:
            by_node.setdefault(one.instance, []).append(one)
    if not by_node or not frame.n_steps:
        return None
    states = np.full((len(roster.ids), frame.n_steps), SILENT, dtype=np.int8)
    for instance, lines in by_node.items():
        row = roster.row[instance]
        for span in _spans(lines, frame.end):
            first, last = _step(span.start, frame), _step(span.end, frame) + 1
            after = min(last + frame.steps(SETTLED), frame.n_steps)
            if span.end < frame.end:
                states[row, max(0, last) : max(0, after)] = OVER
            states[row, max(0, first) : max(0, last)] = COMPILING
    return states


def _spans(marks: Sequence[CompileMark], now: datetime) -> Iterator[Window]:
    """Yield when a node compiled, by its log alone.

    Spans with less than a lull between them are one.
    """
    joined: list[Window] = []
    for one in sorted(_open_spans(marks, now)):
        if joined and one.start - joined[-1].end <= LULL:
            joined[-1] = Window(joined[-1].start, max(joined[-1].end, one.end))
        else:
            joined.append(one)
    yield from joined


def _open_spans(marks: Sequence[CompileMark], now: datetime) -> Iterator[Window]:
    """Yield from when to when each graph of each stream was compiled."""
    begun: dict[tuple[str, str], datetime] = {}
    for one in sorted(marks, key=lambda x: x.at):
        if one.mark is Mark.BEGUN:
            begun.setdefault((one.stream, one.module), one.at)
            continue
        for key in _ended(one, [key for key in begun if key[0] == one.stream]):
            start = begun.pop(key)
            yield Window(start, min(one.at, start + LONGEST))
    yield from (
        Window(start, min(now, start + LONGEST)) for start in begun.values() if start <= now
    )


def _ended(one: CompileMark, compiling: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return which graphs of its stream a line ends.

    One that names none ends the only one there is.
    """
    if one.mark is Mark.OVER:
        return compiling
    if one.mark not in (Mark.DONE, Mark.FAILED):
        return []
    named = [key for key in compiling if key[1] == one.module] if one.module else []
    return named or (compiling if len(compiling) == 1 and not one.module else [])


def _step(at: datetime, frame: Frame) -> int:
    """Return the step that holds an instant, beyond the frame's ends too."""
    return (
        min(frame.n_steps - 1, -((frame.start - at) // frame.step) - 1) if at > frame.start else -1
    )


def compiling(readings: Readings, logged: LogStates | None) -> Mask:
    """Return where nodes compile, (n, n_steps).

    Where a log says so, and where it is silent, where metrics look like it.
    """
    if logged is None:
        return looks_compiling(readings)
    surely = (logged == COMPILING) & ~readings.executing & ~_left(readings, logged)
    return np.asarray(surely | ((logged == SILENT) & looks_compiling(readings)))


def looks_compiling(readings: Readings) -> Mask:
    """Return where a node looks like it compiles.

    No executions, busy host CPUs, and little or no device memory held.

    Where the host's CPU is not read, a runtime that holds next to nothing is taken for one.
    """
    if not readings.any_zero:
        return readings.zero
    busy = readings.cpu >= readings.number("compiling.cpu")[:, None].astype(np.float32)
    share = readings.memory / readings.roster.memory[:, None].astype(np.float32)
    roomy = ~(readings.held > 0) | (share < ROOMY)
    unread = np.isnan(readings.cpu) & (readings.held > 0) & (share < EMPTY)
    return drop_singles(
        close_gaps(readings.zero & ((busy & roomy) | unread) & np.isnan(readings.latency))
    )


def waiting(readings: Readings, compiling: Mask, gap: Mask) -> Mask:
    """Return which nodes may wait for a peer that compiles, (n,).

    They rest since its start, with a pod, for the same job.

    Where no pods are known, so may those that rest since at most `idle.for` before the compile
    began.
    """
    waits = np.zeros(readings.n, dtype=bool)
    lull = readings.window.steps(LULL)
    lately = compiling[:, -lull - 1 :].any(axis=1)
    pods = readings.metric("neuroncore_reserved_count")
    begun = _begun(readings.zero & ~(pods == 0), gap)
    for leader in np.flatnonzero(lately).tolist():
        peers = np.flatnonzero(
            (readings.roster.scope == readings.roster.scope[leader])
            & (begun[:, -1] >= 0)
            & ~lately
            & ~waits
        )
        if not len(peers):
            continue
        last = int(np.flatnonzero(compiling[leader])[-1])
        began = last - int(trailing(compiling[[leader], : last + 1], gap[[leader], : last + 1])[0])
        bare = np.isnan(pods[peers]).all(axis=1)
        since = np.where(
            bare, began - readings.steps("idle.for")[peers], begun[leader, last] - lull - 1
        )
        until = np.where(bare, readings.window.n_steps, begun[leader, last] + lull)
        near = (begun[peers, -1] > since) & (begun[peers, -1] <= until)
        waits[peers] = near & _same_job(readings, leader, peers)
    return waits & readings.limits.on("compiling.on")


def _begun(holds: Mask, gap: Mask) -> Counts:
    """Return the step since which it holds, of each step, (n, n_steps); -1 where it does not hold."""
    steps = np.arange(holds.shape[1])
    ends = np.where(~(holds | gap), steps, -1)
    first = np.maximum.accumulate(ends, axis=1) + 1
    return np.asarray(np.where(holds | gap, first, -1))


def _same_job(readings: Readings, leader: int, peers: Rows) -> Mask:
    """Return which nodes may be of a node's job: their tags do not name another."""
    labels = readings.roster.labels
    mine = labels[leader].job
    return np.array([not mine or labels[peer].job in ("", mine) for peer in peers], dtype=bool)


def _left(readings: Readings, logged: LogStates) -> Mask:
    """Return where a process that a log calls compiling is gone.

    Its pod, or a runtime that it had loaded.
    """
    had = np.maximum.accumulate(readings.zero & (readings.held > 0) & (logged == COMPILING), axis=1)
    return np.asarray(
        (readings.metric("neuroncore_reserved_count") == 0) | (had & (readings.held == 0))
    )
