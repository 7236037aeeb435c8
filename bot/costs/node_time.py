"""Classify the time of Neuron nodes, step by step: work, or what kept them from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from bot.model.frame import Doubles, Floats, Frame, Indices, Mask, runs_of
from bot.model.labels import Labels
from bot.model.run import Claim, Compile, Ending, nodes_of
from bot.model.window import HOUR, Window


class GoodputClass(StrEnum):
    """Name what a node's time went into; each step of a node is in one class, or in two by share."""

    PRODUCTIVE = "productive"
    COMPILING_FIRST = "compiling_first"
    COMPILING_AGAIN = "compiling_again"
    COLD_CACHE = "cold_cache"
    STARTING = "starting"
    CHECKPOINT_EVALUATION = "checkpoint_evaluation"
    """Wanted, yet without a step: a pause amid a job that goes on as before."""
    STARVED = "starved"
    NETWORK = "network"
    STRAGGLER = "straggler"
    HUNG = "hung"
    ERRORS_HARDWARE = "errors_hardware"
    LOST = "lost"
    """Work that a restart threw away: what was done since the newest checkpoint."""
    ALLOCATED_UNUSED = "allocated_unused"
    IDLE = "idle"
    COMMITTED_UNUSED = "committed_unused"
    """Plans, reserved instances and reserved capacity that no node used."""
    NOT_SEEN = "not_seen"
    """Billed, and no metric tells what the node did."""

    @property
    def words(self) -> str:
        """Return the name of the class in plain words."""
        return _WORDS.get(self, self.value.replace("_", " "))


_WORDS: Mapping[GoodputClass, str] = {
    GoodputClass.COMPILING_FIRST: "compiling, first time",
    GoodputClass.COMPILING_AGAIN: "compiling again",
    GoodputClass.COLD_CACHE: "compiling, cold cache",
    GoodputClass.CHECKPOINT_EVALUATION: "checkpoint, evaluation",
    GoodputClass.ERRORS_HARDWARE: "errors, hardware",
    GoodputClass.LOST: "lost to restarts",
    GoodputClass.ALLOCATED_UNUSED: "allocated, unused",
    GoodputClass.COMMITTED_UNUSED: "committed, unused",
    GoodputClass.NOT_SEEN: "not seen",
}
CLASSES = tuple(GoodputClass)
CODE_OF = {kind: code for code, kind in enumerate(CLASSES)}

_WORK = (CODE_OF[GoodputClass.PRODUCTIVE], CODE_OF[GoodputClass.LOST])
_PFLOPS = 1e15
_REACH = 3
"""How many half hours on each side of one tell its usual pace."""
NO_LOSS = 0.05
"""Share of its usual up to which a node loses nothing: levels move as much by themselves."""
CHECKPOINT = timedelta(minutes=10)
"""How long a checkpoint takes at most; a longer pause amid work is an evaluation."""
_TOGETHER = 0.5
"""From which correlation on a node's levels rise and fall with a run's pace."""
Codes = npt.NDArray[np.int8]
Rows = npt.NDArray[np.int32]
NO_JOB, ANY_JOB = -1, -2


class NodeTime:
    """Classify each step of each node; `base` holds its class, `share` what an alert takes of it."""

    def __init__(
        self, nodes: Frame, idle_below: Doubles, peak_flops: Doubles | None = None
    ) -> None:
        """Begin with what utilization and runtimes say; `idle_below` is a ratio for each node.

        `peak_flops` are operations a second of each node, nan where they are not known.
        """
        self.nodes = nodes
        self.flops = nodes.of("neuroncore_effective_flops").astype(np.float64)
        self.peak_flops = np.full(len(self.flops), np.nan) if peak_flops is None else peak_flops
        self.levels = nodes.of("neuroncore_utilization_ratio").astype(np.float64)
        self.seen: Mask = np.asarray(~np.isnan(nodes.values).all(axis=2))
        self.working: Mask = np.asarray(self.levels > idle_below[:, None])
        self.base: Codes = np.full(self.seen.shape, CODE_OF[GoodputClass.PRODUCTIVE], dtype=np.int8)
        self.lost_to: Codes = self.base.copy()
        self.share: Floats = np.zeros(self.seen.shape, dtype=np.float32)
        self.paused: Floats = self.share.copy()
        """The share of each step of work in which its run made no step."""
        self.rows = {thing.instance: row for row, thing in enumerate(nodes.things)}
        self.jobs: Rows = np.full(self.seen.shape, NO_JOB, dtype=np.int32)
        """The row of the run that each step worked for."""
        self.job_names: tuple[str, ...] = ()
        self.compiles: list[Compile] = []
        self._paces: Doubles = np.full((0, self.seen.shape[1]), np.nan)
        """How many steps each run made in each step of the nodes, nan where it did not report."""

        # Either sign will do: not every source tells both.
        memory = nodes.of("neuron_runtime_memory_used_bytes")
        loaded = (memory > 0) | (nodes.of("neuron_runtime_loaded_ratio") > 0)
        for row, begin, end in zip(*runs_of(self.seen & ~self.working), strict=True):
            works = self.working[row]
            self.base[row, begin:end] = _standing(
                loaded[row, begin:end],
                before=bool(works[:begin].any()),
                after=bool(works[end:].any()),
                launched=begin == self.seen[row].argmax() > 0,
            )
        self.base[~self.seen] = CODE_OF[GoodputClass.NOT_SEEN]

    def compile(self, compiles: Iterable[Compile]) -> None:
        """Mark compiles where nothing executed; a node that had worked on its scope compiles again."""
        known: set[tuple[str, str]] = set()
        self.compiles = sorted(compiles, key=lambda x: x.window.start)
        for compilation in self.compiles:
            # A compile that was cut off leaves nothing behind to be found again.
            place = (compilation.instance, str(compilation.scope))
            again = place in known
            kind = GoodputClass.COMPILING_AGAIN if again else GoodputClass.COMPILING_FIRST
            if compilation.ending is not Ending.CUT:
                known.add(place)
            row = self.rows.get(compilation.instance)
            if row is None:
                continue
            part = self.steps(compilation.window)
            # A compile beside work that goes on costs no step.
            self.base[row, part][self.seen[row, part] & ~self.working[row, part]] = CODE_OF[kind]

    def run(self, runs: Frame, claims: Mapping[Labels, Claim]) -> None:
        """Give steps to runs, and mark where a run's work paused amid it, or was lost.

        A pause is seen by the run's count of steps.
        """
        if not runs.things:
            return
        self.job_names = tuple(thing.job for thing in runs.things)
        counts = runs.of("run_step_count").astype(np.float64)
        paces = np.diff(counts, axis=1, prepend=np.nan)
        paces = np.where(paces < 0, np.nan, paces)
        # For each step of the nodes the step of the runs that it lies in, out of range too.
        offset, ratio = (self.nodes.start - runs.start) / runs.step, self.nodes.step / runs.step
        grid = np.floor(offset + (np.arange(self.nodes.n_steps) + 0.5) * ratio).astype(np.intp)
        inside = np.clip(grid, 0, runs.n_steps - 1)
        reports: Mask = np.asarray(~np.isnan(runs.values).all(axis=2))
        since, until = (np.logical_or.accumulate(x, axis=1) for x in (reports, reports[:, ::-1]))
        reported = (since & until[:, ::-1])[:, inside] & (grid == inside)
        self._paces = np.where(reported, paces[:, inside], np.nan)

        # What makes steps for longer than a checkpoint goes on at another pace.
        paused = paused_shares(self._paces, self.nodes.steps(HOUR))
        for run, begin, end in zip(*runs_of((paused > 0) & (paused < 1)), strict=True):
            if end - begin > self.nodes.steps(CHECKPOINT) + 1:
                paused[run, begin:end] = 0.0
        thrown_away = np.array([_thrown_away(x) for x in counts])[:, inside]

        clusters = np.array([thing.cluster for thing in self.nodes.things])
        steps = np.arange(self.nodes.n_steps)
        for cluster in {thing.cluster for thing in runs.things}:
            in_cluster = np.flatnonzero(clusters == cluster)
            alike = [i for i, thing in enumerate(runs.things) if thing.cluster == cluster]
            self._give(
                in_cluster, {run: nodes_of(runs.things[run], claims) for run in alike}, reported
            )
            # Node by node: copies of all levels of a large fleet would not fit beside them.
            for row in in_cluster.tolist():
                jobs = self.jobs[row]
                works = (self.base[row] == CODE_OF[GoodputClass.PRODUCTIVE]) & (jobs != NO_JOB)
                self.base[row, works & thrown_away[jobs, steps]] = CODE_OF[GoodputClass.LOST]
                self.paused[row] = np.where(works, paused[jobs, steps], 0.0)

    def _give(
        self, rows: Indices, members: Mapping[int, tuple[frozenset[str], bool]], reported: Mask
    ) -> None:
        """Give the steps of a cluster's nodes to its runs, whose nodes are `members`.

        A run that no claim names has the nodes that nobody claims, while no other such run reports;
        else those of them whose levels rise and fall with its pace.
        """
        unclaimed, free = rows, [run for run, (_, claimed) in members.items() if not claimed]
        for run, (names, claimed) in members.items():
            named = np.array([self.nodes.things[row].instance in names for row in rows], dtype=bool)
            if claimed:
                self.jobs[np.ix_(rows[named], np.flatnonzero(reported[run]))] = run
            else:
                unclaimed = rows[~named]

        together = reported[free].sum(axis=0)
        for run in free:
            alone = np.flatnonzero(reported[run] & (together == 1))
            self.jobs[np.ix_(unclaimed, alone)] = run
        for row in unclaimed if (together > 1).any() else ():
            alike = moves_with(self.levels[row], self._paces[free], self.nodes.steps(HOUR))
            for place in np.argsort(alike):
                if alike[place] > _TOGETHER:
                    self.jobs[row, reported[free[place]] & (together > 1)] = free[place]

    def paused_amid(self, rows: Indices, part: slice) -> Floats:
        """Return the share of some steps that a pause took, held against these steps alone.

        Shape (n_rows, n_steps). What a fault slows has another pace than before and after it.
        """
        works = np.isin(self.base[rows, part], _WORK)
        if not len(self._paces):
            return np.zeros(works.shape, dtype=np.float32)
        paused, jobs = (
            paused_shares(self._paces[:, part], self.nodes.steps(HOUR)),
            self.jobs[rows, part],
        )
        amid = paused[jobs, np.arange(part.stop - part.start)]
        return np.where(works & (jobs != NO_JOB), amid, np.float32(0))

    def steps(self, window: Window) -> slice:
        """Return the steps of the frame that lie in a window."""
        first = round((window.start - self.nodes.start) / self.nodes.step)
        last = round((window.end - self.nodes.start) / self.nodes.step)
        n = self.nodes.n_steps
        return slice(min(max(first, 0), n), min(max(last, 0), n))

    def hours(self, steps: slice, job: int = ANY_JOB) -> Doubles:
        """Return the hours of each class in some steps, (n_nodes, n_classes).

        Of one job alone where its row is given; `NO_JOB` is what nobody worked for.
        """
        part = slice(None), steps
        of_job = (self.jobs[part] == job) | (job == ANY_JOB)
        sums = [(self.of_class(kind, part) * of_job).sum(axis=1) for kind in CLASSES]
        hours: Doubles = np.stack(sums, axis=1).astype(np.float64)
        return hours * (self.nodes.step / HOUR)

    def of_class(self, kind: GoodputClass, part: tuple[Any, slice]) -> Floats:
        """Return the share of each step of some nodes that is in a class, (n_nodes, n_steps)."""
        code, share = CODE_OF[kind], self.share[part]
        paused = np.minimum(self.paused[part], 1 - share)
        shares = (self.base[part] == code) * (1 - share - paused) + (
            self.lost_to[part] == code
        ) * share
        if kind is GoodputClass.CHECKPOINT_EVALUATION:
            shares += paused
        return np.asarray(shares, dtype=np.float32)

    def work_hours(self, steps: slice, job: int = ANY_JOB) -> Doubles:
        """Return productive hours whose FLOPs are known, (n_nodes, 4).

        All of them, the busy ones, those at the peak that would have done the same operations, and
        PFLOPs x hours.
        """
        part = slice(None), steps
        flops, peak = self.flops[part], self.peak_flops[:, None]
        known = (self.base[part] == CODE_OF[GoodputClass.PRODUCTIVE]) & (flops / peak >= 0)
        known &= (self.jobs[part] == job) | (job == ANY_JOB)

        # All that was done is in the part of a step that alerts and pauses left.
        left = np.maximum(1.0 - self.share[part] - self.paused[part], 0.0)
        productive = np.where(known, left, 0.0)
        busy = np.minimum(self.levels[part], productive)
        at_peak = np.minimum(flops / peak, busy)
        parts = (productive, busy, at_peak, flops / _PFLOPS)
        hours = [np.where(known, x, 0.0).sum(axis=1) for x in parts]

        return np.stack(hours, axis=1) * (self.nodes.step / HOUR)


def _standing(held: Mask, *, before: bool, after: bool, launched: bool) -> Codes:
    """Return the class of each step of a stretch without work; `held`: a runtime was loaded.

    How long a job may pause is for alerts to say: what none was raised for is usual.
    """
    kinds = np.where(held, CODE_OF[GoodputClass.ALLOCATED_UNUSED], CODE_OF[GoodputClass.IDLE])
    if held.all() and before and after:
        kinds[:] = CODE_OF[GoodputClass.CHECKPOINT_EVALUATION]
    elif after:
        # It starts from its launch, or from when its runtime was loaded, until it works. A restart
        # begins with the end of the runtime before.
        empty = np.flatnonzero(~held)
        if before:
            kinds[: empty[0]] = CODE_OF[GoodputClass.STARTING]
        kinds[0 if launched or not empty.size else int(empty[-1]) + 1 :] = CODE_OF[
            GoodputClass.STARTING
        ]
    return kinds.astype(np.int8)


def moves_with(levels: Doubles, paces: Doubles, least: int) -> Doubles:
    """Return how alike levels, (n_steps,), and each of some paces, (n, n_steps), rise and fall.

    A correlation from -1 to 1; 0 of fewer than `least` steps that both know.
    """
    both = np.isfinite(paces) & np.isfinite(levels)
    n = both.sum(axis=1, keepdims=True)
    means = (
        np.where(both, x, 0.0).sum(axis=1, keepdims=True) / np.maximum(n, 1)
        for x in (levels, paces)
    )
    level, pace = (
        np.where(both, x - mean, 0.0) for x, mean in zip((levels, paces), means, strict=True)
    )
    spread = np.sqrt((level**2).sum(axis=1) * (pace**2).sum(axis=1))
    enough = (n[:, 0] >= least) & (spread > 0)
    return np.where(enough, (level * pace).sum(axis=1) / np.where(enough, spread, 1.0), 0.0)


def paused_shares(paces: Doubles, an_hour: int) -> Floats:
    """Return the share of each step that a pause took, both of shape (n, n_steps).

    `paces` say how much was done in each, nan where nobody knows. The usual is the median of the
    hours around. A pace scatters evenly about it: what lies further below than the usual hour
    rises above is a pause.
    """
    if not paces.size:
        return np.zeros(paces.shape, dtype=np.float32)
    n, n_steps = paces.shape
    size = max(1, an_hour // 2)
    room = ((0, 0), (0, -n_steps % size))
    parts = np.pad(np.where(paces > 0, paces, np.nan), room, constant_values=np.nan)
    parts = parts.reshape(n, -1, size)

    # An hour may be all pause: of the half hours around it the middle one is usual.
    by_part = np.stack((_middle(parts), np.fmax.reduce(parts, axis=2)))
    by_part = np.pad(by_part, ((0, 0), (0, 0), (_REACH, _REACH)), constant_values=np.nan)
    around = _middle(sliding_window_view(by_part, 2 * _REACH + 1, axis=2))
    usual, highest = np.repeat(around, size, axis=2)[:, :, :n_steps]

    least = np.minimum(2 * usual - highest, (1 - NO_LOSS) * usual)
    share = np.where(paces < least, 1 - paces / usual, 0.0)
    return np.where(paces == 0, 1.0, share).astype(np.float32)


def _middle(values: Doubles) -> Doubles:
    """Return the median along the last axis; nan of none."""
    last = np.maximum(1, np.isfinite(values).sum(axis=-1, keepdims=True)) - 1
    ordered, halves = (
        np.sort(values, axis=-1),
        np.concatenate([last // 2, (last + 1) // 2], axis=-1),
    )
    return np.asarray(np.take_along_axis(ordered, halves, axis=-1).mean(axis=-1))


def _thrown_away(counts: Doubles) -> Mask:
    """Return what a run's count of steps fell back behind, (n_steps,).

    A count that falls back throws away what was done since it last passed there.
    """
    lost = np.zeros(counts.size, dtype=bool)
    reported = np.flatnonzero(~np.isnan(counts))
    known = counts[reported]
    for fall in np.flatnonzero(np.diff(known) < 0):
        kept = np.flatnonzero(known[: fall + 1] <= known[fall + 1])
        lost[reported[(kept[-1] + 1 if kept.size else 0) : fall + 1]] = True
    return lost
