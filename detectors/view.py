"""Derive the state of every node at one tick from its readings, its usual and the open alerts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import wraps

import numpy as np

from bot.model.alert import Alert
from bot.model.frame import Frame, FramePart
from bot.model.labels import Labels
from bot.model.reading import utilization_of
from bot.model.window import Window
from detectors.jobs import AS_QUICK, FIRST, Stretches, fellows, incidents, roles_of, stretches_of
from detectors.numbers import (
    Counts,
    Floats,
    Mask,
    Numbers,
    Rows,
    bridge,
    count,
    duration,
    lasted,
    mean_where_read,
    newest_of,
    number,
    placed,
    seen_within,
    sustained,
    trailing,
)
from detectors.readings import (
    POLICY,
    LogStates,
    Readings,
    T,
    compiles_in_log,
    compiling,
    derived,
    states_in_log,
    waiting,
)
from detectors.roster import Limits, scope_of
from detectors.usual import (
    BLOCK,
    CPU,
    LATENCY,
    MEMORY,
    NOTHING,
    SAME,
    Past,
    Usual,
    forget,
    medians_where,
    off,
    worked_of,
)

PAUSE = duration("view.PAUSE")
LOST = number("view.LOST")
SPARED = count("view.SPARED")
LATELY = duration("view.LATELY")
LOOKBACK = duration("view.LOOKBACK")
BEFORE = duration("view.BEFORE")


State = Callable[["View"], Mask]
"""Derives where a state holds, (n, n_steps), of which a job's past may show other stretches."""
OVER_ENDS: set[State] = set()
"""States that go on over the ends of processes, which end any other stretch for good."""


@dataclass
class JobPast:
    """Hold how long the states of the jobs lasted in their past, learnt where it is asked for.

    Most ticks ask for none. What is learnt of a scope is a function of the history up to an anchor
    and of the levels of its nodes' jobs.
    """

    past: Past
    roles: dict[tuple[State, int, bytes], Stretches] = field(default_factory=dict)
    demand: dict[tuple[int, datetime], Floats] = field(default_factory=dict)
    """What a service is usually asked by kind of day and hour, up to a midnight, (2, 24)."""

    def stretches(self, view: View, state: State, asked: Mask) -> Stretches:
        """Return the stretches of a state in the scopes of the nodes asked for."""
        scope, stretches = view.roster.scope, Stretches.none(view.n)
        for place in np.unique(scope[asked]).tolist():
            rows = np.flatnonzero(scope == place)
            usual = view.usual.pick(rows)
            levels = (usual.middle, *(usual.medians[name] for name in sorted(usual.medians)))
            key = state, place, b"".join(level.tobytes() for level in levels)
            if key not in self.roles:
                self.roles[key] = self._learn(view, state, rows, usual)
            learnt = self.roles[key]
            stretches.count[rows], stretches.longest[rows] = learnt.count, learnt.longest
            stretches.rare[rows] = learnt.rare
        return stretches

    def _learn(self, view: View, state: State, rows: Rows, usual: Usual) -> Stretches:
        """Learn the stretches of a state of the nodes at `rows`, all of one scope."""
        anchor, days = self.past.anchor, timedelta(days=self.past.days)
        part = view.whole.until(anchor).since(anchor - days)
        history = view.histories.get(rows.tobytes()) or view.over(part, rows, usual)
        history.asked = view.asked
        if len(rows) <= BLOCK:  # their other states are asked next; of more it would be much
            view.histories[rows.tobytes()] = history
        going_on = history.going_on | (state in OVER_ENDS)
        going_on &= ~(history.of_another_job | self.troubled(history))
        bridged = bridge(state(history), history.gap)
        roles = roles_of(history.roster, history.usual_of(MEMORY))
        weeks = view.policy.number("alert.rare_weeks")
        return stretches_of(bridged, going_on, history.roster.scope, roles, weeks, part.step)

    def troubled(self, history: View) -> Mask:
        """Return where nodes show trouble and not what their jobs are used to, (n, n_steps).

        What came back by itself was a pause, whatever was said of it, but for a host or NIC that had
        too much to do. That it was the same process must have been seen: without its memory, or over
        a gap, it may have been started again.
        """
        trouble, pause = np.ones((2, *history.unknown.shape), dtype=np.float32)
        forget(trouble, history.window, history.roster, self.past.troubles)
        forget(pause, history.window, history.roster, self.past.pauses)

        followed = history.usual.own & np.isfinite(history.usual_of(MEMORY))
        doubtful = history.overloaded | history.unknown | ~followed[:, None]
        return np.asarray(np.isnan(trouble) | (np.isnan(pause) & doubtful))


@dataclass
class View(Readings):
    """Derive the states of the nodes of a tick; arrays are (n, n_steps) unless stated otherwise."""

    past_: JobPast | None = None
    histories: dict[bytes, View] = field(default_factory=dict)
    """The pasts of the jobs of few nodes that were asked for at this tick, by their rows."""

    @property
    def past(self) -> JobPast | None:
        """Return how long the jobs' states lasted before by this policy, None where nothing is judged."""
        self.asked.add(POLICY)
        return self.past_

    def over(self, span: Frame, rows: Rows, usual: Usual = NOTHING) -> View:
        """Return a view of the nodes at `rows` over another span, without any alert."""
        part, limits = FramePart(span, rows), Limits(self.policy_, self.roster.pick(rows))
        return View(self.reading, self.policy_, limits, usual, part, part, {}, asked=self.asked)

    def around(self, nodes: Mask, least_spared: int = SPARED) -> tuple[View, Rows]:
        """Return the view of all nodes of the scopes of some, (n,), and their rows in this one.

        What is judged of a scope asks nothing of another: of a large fleet few are looked at closely.
        A view that spares fewer nodes costs more than it saves.
        """
        rows = np.flatnonzero(np.isin(self.roster.scope, self.roster.scope[nodes]))
        if self.n - len(rows) < least_spared:
            return self, np.arange(self.n)
        return replace(
            self.over(self.whole, rows, self.usual_.pick(rows)),
            window=FramePart(self.window, rows),
            open_=self.open_,
            alerts_=self.alerts_,
            past_=self.past_,
        ), rows

    @derived
    def standing(self) -> Mask:
        """Return where a node is really stopped.

        It has no runtime, its memory is freed, or it stands for longer than a checkpoint takes.
        """
        if not self.any_zero:
            return self.zero
        unloaded = (self.held == 0) | (self.memory < 0.5 * self.usual_of(MEMORY)[:, None])
        long = sustained(self.zero, self.window.steps(PAUSE) + 1)
        return np.asarray((self.zero & unloaded) | long)

    @derived
    def restarting(self) -> Mask:
        """Return where a process was gone for part of a step: a living one keeps its memory."""
        freed = self.memory < number("view.KEPT") * self.usual_of(MEMORY)[:, None]
        return np.asarray(freed & self.usual.own[:, None])

    @derived
    def forward(self) -> Mask:
        """Return where executions are so quick that they are of another kind.

        An evaluation only runs forward. Where the host is saturated, the data loader is: the
        runtime's latency says nothing of that.
        """
        usual = self.usual_of(LATENCY)[:, None]
        busy = self.cpu >= self.number("starved.cpu")[:, None]
        return np.asarray((self.latency < number("view.QUICK") * usual) & ~busy)

    @derived
    def evaluating(self) -> Mask:
        """Return where a node executes other graphs in less memory than it trains in.

        That is an evaluation amid a job, no start.
        """
        usual = self.usual_of(LATENCY)[:, None]
        weights_held = self.memory >= number("view.EVALUATED") * self.usual_of(MEMORY)[:, None]
        other_graph = np.abs(self.latency / usual - 1) > number("view.OTHER")
        smaller = self.restarting & weights_held & other_graph
        return np.asarray(self.executing & (self.forward | smaller))

    @derived
    def half_resting(self) -> Floats:
        """Return the CPU of a host of which half as much rests as usual, (n,)."""
        return np.asarray(1 - 0.5 * (1 - self.usual_of(CPU)))

    @derived
    def overloaded(self) -> Mask:
        """Return where half as much of a host rests as usual, or its NIC is full."""
        full = self.number("network_bound.above")[:, None]
        busy = self.cpu >= self.half_resting[:, None]
        return np.asarray(busy | (self.efa / self.roster.nic[:, None] >= full))

    @derived
    def at_work(self) -> Mask:
        """Return where a node trains, however slowly: a stop, start or evaluation is no drop."""
        return ~self.standing & ~self.restarting & ~self.forward

    @derived
    def compiling(self) -> Mask:
        """Return where a node compiles: by its compiler's log, else where it looks like it."""
        return compiling(self, self.logged)

    @derived
    def logged(self) -> LogStates | None:
        """Return the state of each step by the compilers' logs, None where no log is read."""
        return states_in_log(self.in_log, self.window, self.roster)

    @derived
    def in_log(self) -> Mapping[str, Sequence[Window]]:
        """Return from when to when each node compiled by the compilers' logs."""
        return compiles_in_log(self.reading.marks, self.window, self.roster)

    @derived
    def resting(self) -> Mask:
        """Return where a node does nothing and no runtime is known to be loaded."""
        return self.zero & ~self.compiling & ~(self.held > 0) if self.any_zero else self.zero

    @derived
    def asleep(self) -> Mask:
        """Return where a node rests although pods hold its cores.

        A server never does, nor a node without the host's CPU: it might compile.
        """
        if not self.any_zero:
            return self.zero
        has_cpu = np.asarray(~np.isnan(self.cpu).all(axis=1) & ~self.roster.inference)
        reserved = self.metric("neuroncore_reserved_count") > 0
        return np.asarray(self.resting & reserved & has_cpu[:, None])

    @derived
    def holding(self) -> Mask:
        """Return where a node does nothing although a runtime is loaded."""
        return self.zero & ~self.compiling & (self.held > 0) if self.any_zero else self.zero

    def newest(self, holds: Mask) -> Mask:
        """Return where the newest reading of a node holds, (n,)."""
        if not self.window.n_steps or not holds.any():
            return self.nobody()
        step = np.maximum(0, self.window.n_steps - 1 - self.silent_steps)
        return np.asarray(holds[np.arange(self.n), step])

    @derived
    def silent(self) -> Mask:
        """Return which nodes have not reported for `no_data.for`, (n,)."""
        return self.silent_steps >= self.steps("no_data.for")

    @derived
    def unwatched(self) -> Mask:
        """Return which silent hosts had no accelerator's work for a day, (n,).

        They are of no Neuron family, and nothing is missing there.
        """
        strange = self.silent & ~self.roster.neuron
        if not strange.any():
            return strange
        return strange & np.isnan(utilization_of(self.whole.last(timedelta(days=1)))).all(axis=1)

    @derived
    def eligible(self) -> Mask:
        """Return which nodes run and have lately reported, (n,): only they begin an anomaly."""
        return self.roster.running & ~self.silent

    @derived
    def spared(self) -> Mask:
        """Return which nodes may do nothing, (n,).

        They are kept ready on purpose, or their Capacity Block is about to end: it is paid to its
        end, and no job is begun there any more.
        """
        seconds_left = self.roster.ends - self.now.timestamp()
        ends_soon = seconds_left <= duration("view.BLOCK_END").total_seconds()
        self.asked.add("idle.spared")
        return np.asarray(self.limits.spared | ends_soon)

    @derived
    def compile_steps(self) -> Counts:
        """Return how long a node has been compiling, (n,)."""
        return trailing(self.compiling, self.gap)

    @derived
    def waiting(self) -> Mask:
        """Return which nodes may wait for a peer that compiles, (n,)."""
        if not self.compiling.any():
            return self.nobody()
        return waiting(self, self.compiling, self.gap)

    @derived
    def level(self) -> Floats:
        """Return utilization as a share of the job's usual one, nan where that is not known."""
        return (self.utilization / self.levels[1][:, None]).astype(np.float32)

    @derived
    def unloaded(self) -> Mask:
        """Return where a node reports, and no process of its job is loaded.

        An evaluation in less memory goes on within the process.
        """
        gone = (self.held == 0) | (self.restarting & ~self.evaluating)
        return np.asarray(gone & ~self.unknown)

    @derived
    def ends(self) -> Mask:
        """Return the steps in which a process that worked is first seen to have ended."""
        ends = np.zeros_like(self.unloaded)
        ends[:, 1:] = self.unloaded[:, 1:] & self.executing[:, :-1] & ~self.unloaded[:, :-1]
        return ends

    @derived
    def going_on(self) -> Mask:
        """Return where the process of a node's job is loaded: what stands then is a pause of it."""
        return np.asarray(~self.unloaded & (~self.unknown | self.gap))

    @derived
    def stopped(self) -> Mask:
        """Return where a node's job is not at work: its process has ended, or stands still."""
        return np.asarray(self.standing | self.unloaded)

    @derived
    def of_another_job(self) -> Mask:
        """Return where a node ran another job than its newest.

        It held other memory while its executions took another time, for longer than an evaluation.
        """
        memory, latency = (
            off(metric, self.usual_of(name)[:, None])
            for metric, name in ((self.memory, MEMORY), (self.latency, LATENCY))
        )
        apart = (memory > SAME) & (latency > AS_QUICK)
        return sustained(apart | (self.zero & ~self.standing), self.window.steps(FIRST))

    def stretches(self, state: State, asked: Mask) -> Stretches:
        """Return the stretches of a state in the past of the jobs of the nodes asked for, (n,)."""
        if not asked.any() or self.past is None:
            return Stretches.none(self.n)
        return self.past.stretches(self, state, asked)

    def rare_after(self, key: str, state: State, asked: Mask) -> Numbers:
        """Return for how many steps a state of the nodes asked for is not yet rare, (n,).

        It is the number of a setting, and longer where their jobs show longer stretches of the
        state, or too little of them was seen to know.
        """
        needed, seen = self.steps(key), self.stretches(state, asked)
        if self.now - self.whole.start < duration("view.UNSEEN"):
            needed = np.where(seen.count == 0, 2 * needed, needed)
        rare = np.floor(seen.rare) + 1
        return np.asarray(np.maximum(needed, self.limited(rare)))

    def limited(self, pauses: Numbers) -> Numbers:
        """Return lengths of pauses, (n,), of which none is usual from `alert.pause_limit` on."""
        return np.asarray(np.minimum(pauses, self.steps("alert.pause_limit")))

    def usual_pauses(self, state: State, rows: Rows) -> tuple[str, ...]:
        """State how often and how long the job of the nodes at `rows` has been in a state before.

        Nothing is said where it never was.
        """
        shown = self.stretches(state, placed(np.ones(len(rows), dtype=bool), rows, self.n))
        count = int(shown.count[rows].max(initial=0))
        if not count or self.past is None:
            return ()
        past = self.past.past
        since = max(self.whole.start, past.anchor - timedelta(days=past.days))
        longest = float(shown.longest[rows].max()) * self.window.step
        pauses = "pause" if count == 1 else f"{count:,} pauses"
        most = "" if count == 1 else "at most "
        return (
            f"its {pauses} in the {lasted(past.anchor - since)} before lasted"
            f" {most}{lasted(longest)}",
        )

    def patience(self, key: str, rested: Counts) -> Numbers:
        """Return for how many steps each node may do nothing, (n,).

        It is the number of a setting; that of a compile where a node may wait for one, or has
        `rested` without a runtime, steps (n,), ever since its launch.
        """
        needed = self.steps(key)
        up = rested * self.window.step.total_seconds() + duration("view.BOOT").total_seconds()
        may_wait = self.waiting | (self.age_seconds <= up)
        return np.where(may_wait, np.maximum(needed, self.steps("compiling.grace")), needed)

    def lost_at(self, level: Floats, rows: Rows | slice = slice(None)) -> Floats:
        """Return the share of its usual work that each node at `rows` loses at a level.

        Shape (n,) or (n, n_steps), as the level. The job's usual pauses are no loss.
        """
        unpaused = self.usual.unpaused[rows]
        return np.asarray((unpaused * (1 - level.T / self.worked_before[rows])).T)

    @derived
    def worked_before(self) -> Floats:
        """Return the utilization of each node in its usual work of late, (n,).

        Of a node of an open alert before that began. A job's level moves over its days: what it did
        right before is what it would do now.
        """
        usual, training = self.levels[1], ~self.roster.inference
        end, before = self.untroubled_until, usual.copy()
        known = training & self.usual.own  # else what worked then was another job
        for time in set(end[known]):
            nodes = np.flatnonzero(known & (end == time))
            part = self.whole.until(time).last(BEFORE).pick(nodes)
            work, memory = worked_of(part), off(part.of(MEMORY), self.usual_of(MEMORY)[nodes, None])
            of_job = (work >= self.usual_work[nodes, None]) & ~(memory > SAME)
            level = medians_where(work, of_job)
            before[nodes] = np.where(np.isnan(level), usual[nodes], level)
        return before

    def lost_since(self, hit: Mask, steps: Numbers, *rules: str) -> Numbers:
        """Return the mean share of its usual work that each node of `hit` lost, (n,).

        Nan = unknown. It is taken since an open alert of the rules was last seen, else over the
        last `steps`: summed over the ticks of an alert it is the whole loss, step by step, whatever
        the newest readings are.
        """
        rows = np.flatnonzero(hit)
        if not len(rows):
            return np.full(self.n, np.nan)
        work = self.utilization[rows]
        share = np.clip(self.lost_at(work, rows), 0, 1)
        # A pause within the loss is told by the work around it, as what is usual is.
        n_steps = self.window.n_steps
        newest = newest_of(n_steps, np.clip(steps[rows], 1, 2 * self.window.steps(LATELY)))
        around = medians_where(work, newest & ~np.isnan(work))
        share[work < number("view.PAUSED") * around[:, None]] = np.nan

        # A job evaluates as a whole: one node that frees memory while its executions are slow
        # does not.
        evaluating, scope = self.evaluating[rows], self.roster.scope[rows]
        for place in np.unique(scope) if evaluating.any() else ():
            minority = evaluating[scope == place].mean(axis=0) < 0.5
            evaluating[np.ix_(scope == place, minority)] = False
        share[evaluating] = 0

        share[~self.uncounted(steps, rows, *rules)] = np.nan
        return placed(mean_where_read(share, axis=1).astype(np.float64), rows, self.n, np.nan)

    def uncounted(self, steps: Numbers, rows: Rows, *rules: str) -> Mask:
        """Return which of their newest `steps` no tick has counted yet, (len(rows), n_steps).

        Of the nodes of an open alert of the rules these are the steps since it was last seen.
        """
        ago, scope = steps[rows].astype(np.intp), self.roster.scope[rows]
        for place in np.unique(scope):
            for incident in incidents(self, rules, rows[scope == place], steps):
                if incident.alert:
                    members = np.intersect1d(incident.rows, self.members(incident.alert))
                    since_seen = round((self.now - incident.alert.seen) / self.window.step)
                    ago[np.isin(rows, members)] = since_seen
        return newest_of(self.window.n_steps, np.clip(ago, 1, self.window.n_steps))

    def fellows(self, rows: Rows) -> Mask:
        """Return which training nodes report and may be of the job of those at `rows`, (n,)."""
        trains = self.eligible & ~self.roster.inference
        return np.asarray(trains & fellows(self, rows))

    def alert_of(self, rules: tuple[str, ...], rows: Rows) -> Alert | None:
        """Return the open alert of the rules about the nodes at `rows`, all of one incident."""
        return incidents(self, rules, rows)[0].alert

    def streak(self, holds: Mask) -> tuple[Counts, Counts]:
        """Return how many steps ago a state began that still holds, and in how many it was seen.

        Each (n,).
        """
        steps = trailing(holds, self.gap)
        return steps, seen_within(holds, steps) if steps.any() else steps

    def mostly(self, holds: Mask) -> Mask:
        """Return which nodes were in a state in most of their latest readings, (n,).

        A state that is over comes back for a pause only.
        """
        newest = slice(-self.window.steps(LATELY), None)
        reported = ~self.unknown[:, newest]
        return np.asarray(2 * (holds[:, newest] & reported).sum(axis=1) >= reported.sum(axis=1))

    def since(self, steps: Numbers, rows: Rows, *rules: str) -> datetime:
        """Return when the state of the nodes at `rows` began.

        That is when an open alert of the rules did, or their longest streak.
        """
        longest, alert = float(steps[rows].max()), self.alert_of(rules, rows)
        # A streak that is shorter than the window was interrupted: the time before is not its own.
        if alert and longest >= self.window.n_steps:
            return min(self.time_of(longest), alert.anomaly.window.start)
        return self.time_of(longest)

    def stretch(self, steps: Numbers, rows: Rows, *rules: str) -> Floats:
        """Return the utilization of the nodes at `rows` over their state, (len(rows), n_steps).

        Nan before a node was in it: what one that joined later did until then is none of it.
        """
        level = worked_of(self.whole.since(self.since(steps, rows, *rules)))[rows]
        within = np.where(steps < self.window.n_steps, steps, level.shape[1])[rows]
        return np.where(newest_of(level.shape[1], within), level, np.nan)

    def lasting(self, steps: Numbers, rows: Rows, *rules: str) -> timedelta:
        """Return how long the nodes at `rows` were seen in a state.

        Time in which none of them was read is not counted.
        """
        reported = ~np.isnan(self.stretch(steps, rows, *rules)).all(axis=0)
        return max(1, int(reported.sum())) * self.window.step

    def band(self, rows: Rows) -> tuple[float, float] | None:
        """Return the usual band of utilization of the nodes at `rows`, None where not known."""
        low, _, high = (level[rows] for level in self.levels)
        if not np.isfinite(low).any() or not np.isfinite(high).any():
            return None
        return float(np.nanmedian(low)), float(np.nanmedian(high))

    def gauge(self, rows: Rows) -> str:
        """Name the utilization of the nodes at `rows` as their vendor does."""
        neuron = (~np.isnan(self.metric("neuroncore_utilization_ratio")[rows])).any()
        if neuron or not self.window.has("gpu_utilization_ratio"):
            return "NeuronCore utilization"
        return "GPU utilization"

    def rows_in(self, labels: Labels) -> Rows:
        """Return the rows of the nodes in the scope of `labels`."""
        return np.flatnonzero(self.roster.scope == self.roster.place.get(scope_of(labels), -1))


def once_a_tick(derive: Callable[[View], T]) -> Callable[[View], T]:
    """Work a function of a view out once, however many rules of a tick ask."""
    return wraps(derive)(lambda view: view.derive(derive))
