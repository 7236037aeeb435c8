"""Classify the time of Neuron nodes, step by step: work, or what kept them from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from bot.costs.training import reporting
from bot.model.alert import Alert
from bot.model.causes import Cause
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

LOST_TO: Mapping[Cause, GoodputClass] = {
    Cause.IDLE: GoodputClass.IDLE,
    Cause.ALLOCATED_UNUSED: GoodputClass.ALLOCATED_UNUSED,
    Cause.HUNG: GoodputClass.HUNG,
    Cause.LONG_COMPILE: GoodputClass.COMPILING_FIRST,
    Cause.COLD_CACHE: GoodputClass.COLD_CACHE,
    Cause.KILLED_COMPILE: GoodputClass.COMPILING_AGAIN,
    Cause.STARVED: GoodputClass.STARVED,
    Cause.NETWORK_BOUND: GoodputClass.NETWORK,
    Cause.COLLECTIVE_PATH: GoodputClass.NETWORK,
    Cause.STRAGGLER: GoodputClass.STRAGGLER,
    Cause.MEMORY_PRESSURE: GoodputClass.ERRORS_HARDWARE,
    Cause.EXECUTION_ERRORS: GoodputClass.ERRORS_HARDWARE,
    Cause.HARDWARE_FAULT: GoodputClass.ERRORS_HARDWARE,
}
"""Where the time goes that an alert of a cause says was lost; no other cause loses time of nodes."""

_SLOWED = frozenset(
    {
        GoodputClass.STARVED,
        GoodputClass.NETWORK,
        GoodputClass.STRAGGLER,
        GoodputClass.ERRORS_HARDWARE,
        GoodputClass.ALLOCATED_UNUSED,
    }
)
"""What slows work that goes on."""
_MAY_SLOW = (Cause.MEMORY_PRESSURE, Cause.EXECUTION_ERRORS)
"""Troubles that need not slow any work."""
_PFLOPS = 1e15
_EDGE = timedelta(minutes=15)
"""How long before its onset, and after its newest sight, the fall of a fault is looked for."""
_AROUND = timedelta(hours=3)
"""How long before a fault or a pause and after it the usual work is looked for."""
_REACH = 3
"""How many half hours on each side of one tell its usual pace."""
_NO_LOSS = 0.05
"""Share of its usual up to which a node loses nothing: levels move as much by themselves."""
_CHECKPOINT = timedelta(minutes=10)
"""How long a checkpoint takes at most; a longer pause amid work is an evaluation."""
_EVALUATION = timedelta(hours=1)
"""How long an evaluation takes at most; what lasts longer is another pace of the work."""
_STEADY = 0.05
"""How far the levels of a slower pace scatter at most, so that a pause amid it is told from it."""
_SAME_WORK = 0.02
"""How far the memory of one job's nodes differs from start to start at most."""
Codes = npt.NDArray[np.int8]
Rows = npt.NDArray[np.int32]
NO_JOB, ANY_JOB = -1, -2
_UNUSED = (CODE_OF[GoodputClass.ALLOCATED_UNUSED], CODE_OF[GoodputClass.IDLE])
_COMPILES = (CODE_OF[GoodputClass.COMPILING_FIRST], CODE_OF[GoodputClass.COMPILING_AGAIN])


class Fall(NamedTuple):
    """State where work fell, and the share of each step of its nodes that is lost, and paused.

    Both shares are of shape (n_rows, n_steps).
    """

    steps: slice
    lost: Floats
    paused: Floats


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

        A run that no claim names has the nodes of its cluster that nobody claims, while no other
        such run reports. A pause is seen by the run's count of steps; of busy nodes of which nobody
        knows which run of their cluster they work for, by their levels.
        """
        self.job_names = tuple(thing.job for thing in runs.things)
        counts = runs.of("run_step_count").astype(np.float64)
        paces = np.diff(counts, axis=1, prepend=np.nan)
        paces = np.where(paces < 0, np.nan, paces)
        # For each step of the nodes the step of the runs that it lies in, out of range too.
        offset, ratio = (self.nodes.start - runs.start) / runs.step, self.nodes.step / runs.step
        grid = np.floor(offset + (np.arange(self.nodes.n_steps) + 0.5) * ratio).astype(np.intp)
        reported = np.zeros((len(runs.things), self.nodes.n_steps), dtype=bool)
        for row in range(len(runs.things)):
            if span := reporting(runs, row):
                reported[row] = (grid >= span.start) & (grid < span.stop)
        inside = np.clip(grid, 0, runs.n_steps - 1)
        self._paces = np.where(reported, paces[:, inside], np.nan)
        paused = paused_shares(self._paces, self.nodes.steps(HOUR))
        # What goes on for longer than a checkpoint and makes steps is another pace.
        for row, begin, end in zip(*runs_of(paused > 0), strict=True):
            longest = self.nodes.steps(_CHECKPOINT) + 1
            if end - begin > longest and paused[row, begin:end].max() < 1:
                paused[row, begin:end] = 0.0

        clusters = np.array([thing.cluster for thing in self.nodes.things])
        for cluster in {thing.cluster for thing in runs.things}:
            in_cluster = np.flatnonzero(clusters == cluster)
            ids = [self.nodes.things[i].instance for i in in_cluster]
            alike = [i for i, thing in enumerate(runs.things) if thing.cluster == cluster]
            members = {row: nodes_of(runs.things[row], claims) for row in alike}
            free = [row for row, (_, claimed) in members.items() if not claimed]
            alone = reported[free].sum(axis=0) == 1
            for row, (names, claimed) in members.items():
                rows = in_cluster[np.array([(x in names) == claimed for x in ids], dtype=bool)]
                steps = np.flatnonzero(reported[row] & (claimed | alone))
                block, at = np.ix_(rows, steps), grid[steps]
                self.jobs[block] = row
                works = self.base[block] == CODE_OF[GoodputClass.PRODUCTIVE]
                is_lost = works & _thrown_away(counts[row])[at]
                self.base[block] = np.where(is_lost, CODE_OF[GoodputClass.LOST], self.base[block])
                self.paused[block] = np.where(works & ~is_lost, paused[row, steps], 0.0)

            # Node by node: copies of all levels of a large fleet would not fit beside them.
            reports = reported[alike].any(axis=0)
            for row in in_cluster.tolist():
                unknown = reports & (self.jobs[row] == NO_JOB)
                if unknown.any():
                    shares = self._paused_by_level(row, slice(None))
                    self.paused[row, unknown] = shares[unknown]

    def _paused_by_level(self, row: int, part: slice) -> Floats:
        """Return the share of some steps of a node that a pause took, by its level, (n_steps,)."""
        levels = np.where(self.working[row, part], self.levels[row, part], np.nan)[None]
        shares = paused_shares(levels, self.nodes.steps(HOUR))
        lengths = (self.nodes.steps(x) for x in (_CHECKPOINT, _EVALUATION))
        paused: Floats = with_evaluations(shares, levels, *lengths)[0]
        return paused

    def _paused_amid(self, rows: Indices, part: slice) -> Floats:
        """Return the share of some steps that a pause took, held against these steps alone.

        Shape (n_rows, n_steps). What a fault slows has another pace than before and after it.
        """
        of_run = paused_shares(self._paces[:, part], self.nodes.steps(HOUR))
        amid = np.zeros((rows.size, part.stop - part.start), dtype=np.float32)
        for place, row in enumerate(rows.tolist()):
            jobs = self.jobs[row, part]
            amid[place] = self._paused_by_level(row, part)
            for job in np.unique(jobs[(jobs >= 0) & (jobs < len(of_run))]).tolist():
                amid[place, jobs == job] = of_run[job, jobs == job]
        amid[self.base[rows, part] != CODE_OF[GoodputClass.PRODUCTIVE]] = 0.0
        return amid

    def lose(self, alerts: Iterable[Alert]) -> None:
        """Give the time that alerts say was lost to their causes' classes.

        What slows work that goes on loses what that work fell by, from its fall to its recovery,
        pauses apart. Where no fall tells it, the hours are the alert's own, spread over its nodes
        and steps by how far each lay below its usual. Where two claim a step, the greater share has
        it.
        """
        alerts = [x for x in alerts if x.cause in LOST_TO and x.waste]
        faults = [x for x in alerts if x.cause is Cause.HARDWARE_FAULT]
        explaining = {x.effect_mark: LOST_TO[x.cause] for x in alerts}
        for alert in alerts:
            # The newest sight may name fewer nodes than lost hours before.
            rows, part, kind = self._rows_of(alert), self.steps(_span(alert)), LOST_TO[alert.cause]
            if alert.cause is Cause.HARDWARE_FAULT:
                rows = self._struck(rows, part)
            if not rows.size or part.start >= part.stop:
                continue
            if any(self._fell_with(alert, fault) for fault in faults):
                kind = GoodputClass.ERRORS_HARDWARE
            elif kind in _SLOWED:
                kind = explaining.get(alert.muted_by, kind)

            told = self._as_told(alert, rows, part)
            fall = self._fall(rows, part) if kind in _SLOWED else None
            # An alert that came long after a fall has it for what was usual.
            small = fall and alert.cause not in _MAY_SLOW and 2 * fall.lost.sum() < told.lost.sum()
            fall = told if fall is None or small else fall
            block = rows, fall.steps
            self.paused[block] = fall.paused
            # One fault may have several alerts: its dollars count once.
            is_greater = fall.lost > self.share[block]
            self.share[block] = np.where(is_greater, fall.lost, self.share[block])
            self.lost_to[block] = np.where(is_greater, CODE_OF[kind], self.lost_to[block])
        self._lose_whole_stretches()
        self._part_edges()

    def _rows_of(self, alert: Alert) -> Indices:
        return np.array([self.rows[x] for x in alert.things if x in self.rows], dtype=np.intp)

    def _fell_with(self, alert: Alert, fault: Alert) -> bool:
        """Return whether the work of an alert's nodes fell with that of a broken node of their job."""
        span, broken = _span(alert), _span(fault)
        both = min(span.end, broken.end) - max(span.start, broken.start)
        at = min(self.steps(span).start, self.nodes.n_steps - 1)
        jobs = (
            {(self.nodes.things[row].cluster, int(self.jobs[row, at])) for row in self._rows_of(x)}
            for x in (alert, fault)
        )
        return (
            fault.cause in alert.cause.facts.explained_by
            and LOST_TO[alert.cause] in _SLOWED
            and abs(span.start - broken.start) <= _EDGE
            and 2 * both >= span.length
            and not set.isdisjoint(*jobs)
        )

    def _as_told(self, alert: Alert, rows: Indices, part: slice) -> Fall:
        """Return the hours that an alert says were lost, as shares of the steps of its nodes."""
        anomaly, whole = alert.peak.anomaly if alert.peak else alert.anomaly, _span(alert)
        hours = float(sum((x.hours for x in alert.waste.hours), Decimal(0))) if alert.waste else 0.0
        if alert.cause is Cause.COLD_CACHE:
            hours -= self._cold(rows, whole, hours)
        # Of an alert that began before the frame, the hours within it are lost here.
        inside = (part.stop - part.start) * self.nodes.step / max(whole.length, self.nodes.step)
        steps = max(0.0, hours) * min(1.0, inside) / (self.nodes.step / HOUR)

        # What stands still does not pause, nor is what takes most of an alert's time a pause.
        paused = self.paused[rows, part].copy()
        if LOST_TO[alert.cause] not in _SLOWED or paused.mean() > 0.5:
            paused[:] = 0.0
        usual = anomaly.usual if anomaly.unit == "ratio" and anomaly.usual else (1.0, 1.0)
        work = self.seen[rows, part] * (1.0 - paused)
        done = np.nan_to_num(self.levels[rows, part]) / max(sum(usual) / 2, 1e-6)
        return Fall(part, spread(np.clip(work - done, 0, 1), work, steps), paused)

    def _lose_whole_stretches(self) -> None:
        """Give all of a stretch without work to the cause that took most of it."""
        for row, begin, end in zip(*runs_of(np.isin(self.base, _UNUSED)), strict=True):
            share, lost_to = self.share[row, begin:end], self.lost_to[row, begin:end]
            if share.mean() > 0.5:
                lost_to[:] = np.where(share > 0, lost_to, np.bincount(lost_to, share).argmax())
                share[:] = 1.0

    def _part_edges(self) -> None:
        """Give a step in which work ends or begins to its neighbour, by the missing share.

        It is no pause amid work.
        """
        pause, starting = (
            CODE_OF[kind] for kind in (GoodputClass.CHECKPOINT_EVALUATION, GoodputClass.STARTING)
        )
        for row, begin, end in zip(*runs_of(self.working), strict=True):
            for step, beside in ((begin, begin - 1), (end - 1, end)):
                if not 0 <= beside < self.nodes.n_steps or self.base[row, beside] == pause:
                    continue
                if self.seen[row, beside] and not self.share[row, step]:
                    codes = self.lost_to if self.share[row, beside] > 0.5 else self.base
                    self.share[row, step] = self.paused[row, step]
                    self.lost_to[row, step] = starting if beside < step else codes[row, beside]
                self.paused[row, step] = 0.0

    def _cold(self, rows: Indices, whole: Window, hours: float) -> float:
        """Call compiles of a cold cache cold, the newest first; return their hours.

        An alert's hours are those of all starts of its work that it found, its nodes those of the
        newest: the others are found again by the memory that the same work holds.
        """
        ended = [x for x in self.compiles if x.window.start < whole.end and x.instance in self.rows]
        newest = [x for x in ended if self.rows[x.instance] in rows and x.window.end > whole.start]
        clusters = {x.scope.cluster for x in newest}
        held = float(np.median([self._held_after(x) for x in newest])) if newest else np.nan

        found = 0.0
        for compilation in reversed(ended):
            # Of unknown memory is any work.
            apart = abs(self._held_after(compilation) / held - 1) > _SAME_WORK
            if found >= hours or compilation.scope.cluster not in clusters or apart:
                continue
            found += compilation.hours
            row, part = self.rows[compilation.instance], self.steps(compilation.window)
            compiling = np.isin(self.base[row, part], _COMPILES)
            self.base[row, part][compiling] = CODE_OF[GoodputClass.COLD_CACHE]
        return found

    def _held_after(self, compilation: Compile) -> float:
        """Return the device memory that a node held in the hour after a compile, nan if unknown."""
        row = self.rows[compilation.instance]
        part = self.steps(Window(compilation.window.end, compilation.window.end + HOUR))
        held = self.nodes.of("neuron_runtime_memory_used_bytes")[row, part]
        held = held[self.working[row, part] & (held > 0)]
        return float(np.median(held)) if held.size else np.nan

    def _struck(self, rows: Indices, part: slice) -> Indices:
        """Return the nodes of a fault that worked before it: what starts amid it loses no work to it.

        All of them where none did.
        """
        before = self.nodes.steps(_EDGE) + self.nodes.steps(_AROUND)
        worked = self.working[rows, max(0, part.start - before) : part.start].any(axis=1)
        return rows[worked] if worked.any() else rows

    def _fall(self, rows: Indices, part: slice) -> Fall | None:
        """Return where nodes that go on working did less, right beside an alert too.

        The usual is what the same job did in the hours before it and after it, as its level moves.
        None where nothing tells what was usual.
        """
        edge, hours = (self.nodes.steps(x) for x in (_EDGE, _AROUND))
        first, last = max(0, part.start - edge), min(self.nodes.n_steps, part.stop + edge)
        # While several runs share a cluster nobody knows whose a step is: it may be the same job's.
        of_job = (self.jobs[rows] == NO_JOB) | (
            self.jobs[rows] == self.jobs[rows, part.start, None]
        )
        works = self.working[rows] & of_job
        working = works.mean(axis=0) > 0.5
        # A node that failed may be replaced: the mean is of those that were read.
        levels = self.levels[rows]
        level = np.nan_to_num(levels).sum(axis=0) / np.maximum(1, np.isfinite(levels).sum(axis=0))
        paused = self.paused[rows].mean(axis=0)
        around = working & (paused <= _NO_LOSS)
        around[first:last] = around[: max(0, first - hours)] = around[last + hours :] = False
        if not around.any() or working[part].mean() <= 0.5:
            return None
        usual = float(np.median(level[around]))

        # It begins and ends where the work is nearer to that within than to the usual.
        slow = working & (paused <= 0.5)
        slow &= level < (usual + np.median(level[part][working[part]])) / 2
        start, stop = part.start, part.stop
        while start > first and slow[start - 1]:
            start -= 1
        while stop < last and slow[stop]:
            stop += 1
        fallen = np.flatnonzero(slow[start:stop]) + start
        nothing = Fall(part, np.zeros_like(self.share[rows, part]), self.paused[rows, part])
        if not fallen.size:
            return nothing
        start, stop = int(fallen[0]), int(fallen[-1]) + 1

        # Of a pace that wavers nobody can tell a pause, nor what it lost but for that.
        within = self._paused_amid(rows, slice(start, stop))
        work = level[start:stop][working[start:stop] & (within.mean(axis=0) <= _NO_LOSS)]
        slowed = float(np.median(work)) if work.size else usual
        if work.size and np.median(abs(work - slowed)) > _STEADY * slowed:
            return None
        share = 1 - slowed / usual
        if share <= _NO_LOSS:
            return nothing

        steps = slice(max(0, start - 1), min(working.size, stop + 1))
        lost, paused = np.full((rows.size, working.size), share), self.paused[rows]
        paused[:, start:stop] = within
        # The steps in which it begins and ends lose the part that the next one has more.
        ends = ((start - 1, start - 2), (start, start - 2), (stop - 1, stop + 1), (stop, stop + 1))
        for step, beside in ends:
            if 0 <= beside < working.size:
                plain = working[beside] and not slow[beside] and (paused[:, beside] == 0).all()
                missing = 1 - level[step] / (level[beside] if plain else usual)
                kept, most = (share, _NO_LOSS) if start <= step < stop else (0.0, share)
                is_pause = paused[:, step] > most
                lost[:, step] = np.where(is_pause, kept, np.clip(missing, 0, share))
                paused[~is_pause, step] = 0.0
        lost *= works * (1 - paused)
        return Fall(steps, lost[:, steps].astype(np.float32), paused[:, steps])

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


def _span(alert: Alert) -> Window:
    """Return the time from an alert's onset to its newest sight."""
    anomaly = alert.peak.anomaly if alert.peak else alert.anomaly
    return Window(anomaly.window.start, max(alert.seen, anomaly.window.end))


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


def spread(missing: Doubles, work: Doubles, steps: float) -> Floats:
    """Return the share of each step that is lost, so that the shares sum to `steps`.

    In proportion to what is `missing` of its usual work, evenly where nothing is (a busy wait); no
    step loses more than the part of it that was `work`.
    """
    weights = missing
    if weights.sum() <= 0.05 * work.sum():
        weights = work
    lost = np.zeros_like(work)
    # What a step cannot hold goes to those that have room.
    for _ in range(8):
        room = weights * (lost < work)
        left = min(steps, work.sum()) - lost.sum()
        if not room.any():
            room = work * (lost < work)
        if left <= 1e-9 or not room.any():
            break
        lost = np.minimum(work, lost + room * (left / room.sum()))
    return lost.astype(np.float32)


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

    least = np.minimum(2 * usual - highest, (1 - _NO_LOSS) * usual)
    share = np.where(paces < least, 1 - paces / usual, 0.0)
    return np.where(paces == 0, 1.0, share).astype(np.float32)


def with_evaluations(paused: Floats, levels: Doubles, least: int, most: int) -> Floats:
    """Return the share of each step that a pause took, (n, n_steps), evaluations told by levels.

    An evaluation works, at a level of its own, and makes no step of training: what is paused for
    more than `least` steps, and `most` at most, is one, of which the step at its begin and that at
    its end hold a part. Before it and after it there is work: `levels` are nan where there is none.
    """
    shares, works = paused.copy(), np.isfinite(np.pad(levels, ((0, 0), (1, 1))))
    for row, begin, end in zip(*runs_of(np.asarray(paused > _NO_LOSS)), strict=True):
        depth = np.median(paused[row, begin:end])
        amid_work = works[row, begin] and works[row, end + 1]
        if least < end - begin <= most and amid_work and depth > 2 * _NO_LOSS:
            shares[row, begin:end] = np.minimum(paused[row, begin:end] / depth, 1.0)
    return shares


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
