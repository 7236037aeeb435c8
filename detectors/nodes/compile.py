"""Follow compiles: those that outlast their grace, repeat work that ran, or are cut off.

A compile is `USED` where executions follow. It is `CUT` where its runtime, pod or node is surely
gone and nothing executed for `killed_compile.after`; points that are merely missing say nothing. A
pre-compile ends alike, so what executes within `REUSED` without compiling again makes it used after
all.

The compiles of a scope that begin together are a start of a job. The job is known by the tag of its
nodes, by the runs that stand still while it compiles and go on after it, and where neither tells,
by how it works then: a compiled graph holds the same device memory on every node, takes the same
time for an execution, and keeps the cores as busy. Among many trials two hold the same by chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise

import numpy as np

from bot.model.anomaly import Anomaly
from bot.model.causes import Cause, Family
from bot.model.codec import by_key
from bot.model.frame import Frame
from bot.model.money import counted
from bot.model.run import Compile, Ending, job_of
from bot.model.window import Window, utc_text
from detectors.jobs import AS_QUICK, TWINS, Incident, incidents
from detectors.numbers import (
    Counts,
    Floats,
    Mask,
    Rows,
    count,
    duration,
    lasted,
    newest_of,
    number,
    percent,
    runs_of,
    trailing,
)
from detectors.readings import COMPILING, LULL
from detectors.roster import scope_of
from detectors.rule import Explanation, Rule, RuleMatch, anomaly_of_nodes, belief, no_match
from detectors.usual import medians_where, off
from detectors.view import View, once_a_tick

SHOWN = duration("compiles.SHOWN")
RAN = duration("compiles.RAN")
_NONE = float("nan")


def compiles(view: View) -> tuple[Compile, ...]:
    """Return every compile within the view's window, by node and time.

    Those that go on end at its end.
    """
    compiling = view.compiling & view.on("compiling.on")[:, None]
    if not compiling.any():
        return ()

    # A node surely has no process that compiles where its pod or, where pods are not known, its
    # runtime is gone.
    reserved = view.metric("neuroncore_reserved_count")
    released = np.where(np.isnan(reserved), view.held == 0, reserved == 0)
    quiet = ~(view.cpu >= view.number("compiling.cpu")[:, None])
    gone = np.asarray(view.zero & ~view.compiling & released & quiet)
    return tuple(_each(view, compiling, gone))


def _each(view: View, compiling: Mask, gone: Mask) -> Iterator[Compile]:
    """Yield the compiles of nodes whose processes are `gone` in some steps, both (n, n_steps)."""
    frame = view.window
    for row, begin, end in _stretches(view, compiling, gone):
        ending = _ending(view, row, end, compiling, gone)
        last = frame.n_steps if ending is Ending.GOING else end
        window = Window(frame.start + begin * frame.step, frame.start + last * frame.step)
        if ending is Ending.GOING or window.length >= duration("compiles.LEAST"):
            name, scope = view.roster.ids[row], view.roster.scopes[view.roster.scope[row]]
            states = None if view.logged is None else view.logged[row, begin:end]
            logged = states is not None and bool((states == COMPILING).any())
            if logged:
                window = _dated(window, view.in_log[name], frame.step, ending)
            yield Compile(name, scope, window, ending, logged)


def _stretches(view: View, compiling: Mask, gone: Mask) -> list[tuple[int, int, int]]:
    """Return the row and the half-open steps of each compile.

    With a lull between them, the process still there, two are one.
    """
    lull, joined = view.window.steps(LULL), list[tuple[int, int, int]]()
    for row, begin, end in zip(*(x.tolist() for x in runs_of(compiling)), strict=True):
        if joined and joined[-1][0] == row:
            _, first, last = joined[-1]
            between = row, slice(last, begin)
            quiet = begin - last <= lull and not gone[between].any()
            if not view.executing[between].any() and (quiet or view.unknown[between].all()):
                joined[-1] = row, first, end
                continue
        joined.append((row, begin, end))
    return joined


def _ending(view: View, row: int, end: int, compiling: Mask, gone: Mask) -> Ending:
    """Return how the compile of the node at `row` that ends before step `end` ended."""

    def first(mask: Mask) -> float:
        """Return the first step from `end` on where it holds, infinity if nowhere."""
        return end + float(mask[row, end:].argmax()) if mask[row, end:].any() else np.inf

    used, again, released = first(view.executing), first(compiling), first(gone)
    if used < again and used - end <= view.window.steps(duration("compiles.REUSED")):
        return Ending.USED

    # A node that runs no more ended with its readings, as far as EC2 says when.
    stopped = not view.roster.running[row]
    instance = view.reading.inventory.instances.get(view.roster.ids[row])
    if instance and instance.ended_at:
        stopped = instance.ended_at <= view.time_of(float(view.silent_steps[row])) + LULL
    n_steps, after = view.window.n_steps, view.steps("killed_compile.after")[row]
    if view.unknown[row, end:].all():
        going = Ending.GOING if n_steps - end < after else Ending.UNKNOWN
        return Ending.CUT if stopped else going
    until = min(used, again, n_steps)
    for_good = stopped or again <= until or until - released >= after
    return Ending.CUT if released < until and for_good else Ending.UNKNOWN


def _dated(window: Window, spans: Sequence[Window], step: timedelta, ending: Ending) -> Window:
    """Return a compile's window with the times of its log's lines.

    A step in which work still ran, or ran again, is no step of a compile: the log knows the minute.
    What the log ends elsewhere than the metrics is left as they show it.
    """
    starts = [x.start for x in spans if abs(x.start - window.start) <= 2 * step]
    ends = [x.end for x in spans if abs(x.end - window.end) <= 2 * step]
    start = min(starts, default=window.start)
    end = max(ends, default=window.end) if ending is not Ending.GOING else window.end
    return Window(start, end) if start < end else window


@dataclass(frozen=True)
class Start:
    """Hold the compiles of one start of a job, and the signs of the job."""

    compiles: tuple[Compile, ...]
    names: frozenset[str] = frozenset()
    work: tuple[float, ...] = (_NONE, _NONE, _NONE)
    """Device memory, seconds an execution and utilization as a node works; nan = not known."""
    again: bool = False
    """Whether the work ran before."""
    attempts: int = 0
    """How often the job began this very work before, 0 where that is not known."""

    @property
    def window(self) -> Window:
        """Return the time from the first node's begin to the last one's end."""
        windows = [x.window for x in self.compiles]
        return Window(min(x.start for x in windows), max(x.end for x in windows))

    @property
    def hours(self) -> float:
        """Return the node-hours of the start."""
        return sum(x.hours for x in self.compiles)

    @property
    def longest(self) -> timedelta:
        """Return how long the slowest of its nodes compiled."""
        return max(x.window.length for x in self.compiles)

    @property
    def instances(self) -> frozenset[str]:
        """Return the nodes that compiled."""
        return frozenset(x.instance for x in self.compiles)

    @property
    def goes_on(self) -> bool:
        """Return whether it still compiles."""
        return any(x.ending is Ending.GOING for x in self.compiles)

    def same_work(self, other: Start) -> bool:
        """Return whether both are of one job.

        It is told by their names, else by how they work, else as most of the nodes are the same.
        """
        if self.names and other.names:
            return bool(self.names & other.names)
        memory, *paces = np.abs(np.divide(self.work, other.work) - 1).tolist()
        if not np.isnan(memory):
            return memory <= TWINS and not any(apart > AS_QUICK for apart in paces)
        return 2 * len(self.instances & other.instances) >= len(other.instances)


def starts(view: View, rows: Rows, least: timedelta) -> list[Start]:
    """Return the starts of the owner of the nodes at `rows`, all of one scope, oldest first.

    They compiled for `least` or longer, and then worked, or still compile.
    """
    # Few nodes compile, and a long time of all of them is much.
    scope = int(view.roster.scope[rows[0]])
    nodes = np.flatnonzero((view.roster.scope == scope) & view.of_owner(rows))
    past = view.over(view.whole, nodes)
    used = [x for x in compiles(past) if x.ending in (Ending.USED, Ending.GOING)]
    together: list[list[Compile]] = []
    for compile_ in sorted(used, key=lambda x: (x.window.start, x.instance)):
        if together and compile_.window.start - together[-1][0].window.start <= LULL:
            together[-1].append(compile_)
        else:
            together.append([compile_])

    runs, place = view.frame("run"), view.roster.scopes[scope]
    runs = runs.pick([i for i, x in enumerate(runs.things) if scope_of(x) == place])
    groups = (Start(_until_all_work(group, past)) for group in together)
    return [_with_job(start, past, runs) for start in groups if start.longest >= least]


def _until_all_work(group: Sequence[Compile], past: View) -> tuple[Compile, ...]:
    """Return the compiles of a start, each until its node works or the last one has compiled."""
    end, frame = max(x.window.end for x in group), past.window
    waiting = []
    for compile_ in group:
        over, last = _step(frame, compile_.window.end), _step(frame, end)
        works = np.flatnonzero(past.executing[past.roster.row[compile_.instance], over:last])
        until = frame.start + (over + int(works[0])) * frame.step if len(works) else end
        window = Window(compile_.window.start, max(compile_.window.end, until))
        waiting.append(replace(compile_, window=window))
    return tuple(waiting)


def _with_job(start: Start, past: View, runs: Frame) -> Start:
    """Return the start with the signs of its job, and whether it ran before."""
    rows = past.roster.rows_of(sorted(start.instances))
    tags = frozenset(job_of(job) for job in past.roster.jobs[rows].tolist() if job)
    if start.goes_on:
        return replace(start, names=tags)
    frame, window = past.window, start.window
    until = _step(frame, window.start)
    work, worked = _work_after(past, rows, window)

    # A run that goes on names the job, which tells more: its work may have changed. Where several
    # may have compiled, what is said holds for each.
    reported = ~np.isnan(runs.of("run_step_count"))
    reported = np.pad(reported, ((0, 0), (frame.n_steps, 0)))[:, -frame.n_steps :]
    jobs = np.array([job_of(x.job) for x in runs.things])
    of_jobs = {x: reported[jobs == x, :until].any(axis=0) for x in _went_on(runs, window)}
    least = frame.steps(RAN)
    ran = again = worked.sum(axis=1).max()
    if of_jobs:
        again = min(by_run.sum() for by_run in of_jobs.values())

    # How its job started before tells of work that ran, whatever else a job of a name did.
    attempts = 0
    if ran >= least and not np.isnan(work[0]):
        gone = (past.held == 0) | (past.memory < number("view.EVALUATED") * work[0])
        of_job = past.executing[:, :until] if tags or of_jobs else worked
        spans = [*of_jobs.values()] or [np.True_]
        attempts = min(_processes(of_job & by_run, gone[:, :until], frame) for by_run in spans)
    return replace(
        start,
        names=tags | (of_jobs.keys() if len(of_jobs) == 1 else set()),
        work=tuple(work.tolist()),
        again=bool(again >= least),
        attempts=attempts,
    )


def _work_after(past: View, rows: Rows, compiled: Window) -> tuple[Floats, Mask]:
    """Return how the nodes at `rows` work after a compile, and where any of all did so before.

    The first are device memory, seconds an execution and utilization, (3,); the second (n, n_steps)
    up to the compile: any work, where no memory is read.
    """
    frame = past.window
    watched = slice(_step(frame, compiled.end), _step(frame, compiled.end + SHOWN))
    levels = np.stack([x[rows, watched] for x in (past.memory, past.latency, past.utilization)])
    working = past.executing[rows, watched] & (levels > 0)
    work = medians_where(levels.reshape(3, -1), working.reshape(3, -1))

    before = slice(0, _step(frame, compiled.start))
    worked = past.executing[:, before]
    if np.isnan(work[0]):
        return work, worked

    # A node has its own share of the loaders; others are held against the middle of all.
    memory, latency = np.repeat(work[:2, None], past.n, axis=1)
    for level, values, shown in zip((memory, latency), levels, working, strict=False):
        by_node = medians_where(values, shown)
        level[rows] = np.where(np.isnan(by_node), level[rows], by_node)
    worked = worked & (off(past.memory[:, before], memory[:, None]) <= TWINS)
    return work, worked & ~(off(past.latency[:, before], latency[:, None]) > AS_QUICK)


def _processes(worked: Mask, gone: Mask, frame: Frame) -> int:
    """Return how often processes that did some work for a while began, both (n, n_steps).

    Those of several nodes that begin within a lull of each other begin together.
    """
    row, step = worked.nonzero()
    begun = np.maximum.accumulate(np.where(gone, np.arange(gone.shape[1]), -1), axis=1)[row, step]
    # The steps of a process follow each other here: those of a node do, and of a node by time.
    first = np.flatnonzero(np.diff([row, begun], prepend=-2).any(axis=0))
    lengths = np.diff(first, append=len(row))
    begins, lull = np.unique(begun[first[lengths >= frame.steps(RAN)]]), frame.steps(LULL)
    return int((np.diff(begins, prepend=-np.inf) > lull).sum())


def _went_on(runs: Frame, window: Window) -> frozenset[str]:
    """Return the jobs of the runs that stood still during a compile and went on soon after."""
    begin, end = _step(runs, window.start), _step(runs, window.end)
    steps = runs.of("run_step_count")[:, begin : _step(runs, window.end + SHOWN)]
    moved = np.zeros(steps.shape, dtype=bool)
    moved[:, 1:] = (np.diff(steps, axis=1) != 0) & ~np.isnan(steps[:, 1:])
    going = moved[:, end - begin :].any(axis=1) & ~moved[:, 1 : end - begin - 1].any(axis=1)
    return frozenset(job_of(runs.things[i].job) for i in np.flatnonzero(going))


def _step(frame: Frame, at: datetime) -> int:
    return max(0, min(frame.n_steps, (at - frame.start) // frame.step))


@dataclass(frozen=True)
class Cold:
    """Hold a start, and those before at which its work, that had run, compiled too."""

    newest: Start
    earlier: tuple[Start, ...]
    uncounted: tuple[Start, ...] = ()
    """Those of the earlier whose hours no alert that is over has counted."""
    warm: int = 0
    """How often its job did this very work before without a long compile."""

    @property
    def named(self) -> bool:
        """Return whether names tell that all are starts of one job."""
        return bool(self.newest.names)

    @property
    def hours(self) -> float:
        """Return the node-hours of all these starts."""
        return sum(x.hours for x in (*self.earlier, self.newest))

    def history(self) -> str:
        """Say how often this work compiled again, since when, and how long all of it took."""
        if not self.earlier:
            return f"this work ran before, and its job hardly compiled at {self.warm} starts"
        times, first = counted(1 + len(self.earlier), "start"), self.earlier[0].window.start
        return (
            f"this work ran before, and {times} since {utc_text(first)} spent"
            f" {self.hours:,.1f} node-hours compiling"
        )

    def job_words(self) -> str:
        """Say of which job the newest start is, as far as a name tells."""
        return f" as {' or '.join(sorted(self.newest.names))} started" if self.named else ""

    def lost_hours(self, ids: Sequence[str]) -> dict[str, float]:
        """Return the node-hours that count now as hours of the nodes of the newest.

        Those of the earlier may be gone.
        """
        lost = dict.fromkeys(ids, sum(x.hours for x in self.uncounted) / len(ids))
        for compile_ in self.newest.compiles:
            if compile_.instance in lost:
                lost[compile_.instance] += compile_.hours
        return lost


def cold_start(view: View, rows: Rows) -> Cold | None:
    """Return the last start of the nodes at `rows` that was cold, and those before of its work.

    The nodes are of one scope and owner; jobs of several may have started together.
    """
    ids = {view.roster.ids[row] for row in rows}
    again, grace = (
        float(view.steps(key)[rows[0]]) * view.window.step
        for key in ("cold_cache.again", "compiling.grace")
    )
    past_starts = starts(view, rows, again / 2)
    for newest in reversed(past_starts):
        before = [x for x in past_starts if x.window.end <= newest.window.start]
        if ids & newest.instances and (cold := _cold(newest, before, again, grace)):
            return cold
        ids -= newest.instances
    return None


def _cold(
    newest: Start, before: Sequence[Start], again: timedelta, grace: timedelta
) -> Cold | None:
    """Return a start with those before of the same work, None where nothing says that it was cold.

    A first compile is due, and one more may be a change, unless the job started several times
    without.
    """
    ended = [x for x in before if x.same_work(newest)]
    alike = tuple(start for start in ended if start.again)
    warm = newest.attempts - len(ended)
    if not alike and warm < count("compiles.WARM"):
        return None

    # The first was counted as a long compile past the grace. A later one raised an alert that counts
    # those before it, and that a start continues for as long as its cause may return.
    returns, first = Cause.COLD_CACHE.facts.returns, alike[:1]
    alerted = [
        x
        for x in alike
        if x.longest >= again and (x not in first or x.attempts >= count("compiles.WARM"))
    ]
    over = [
        start.window.end
        for start, later in pairwise([*alerted, newest])
        if later.window.start - start.window.end > returns
    ]
    uncounted = tuple(
        start
        for start in alike
        if (start not in first or start.longest <= grace)
        and not (over and start.window.start < over[-1])
    )
    return Cold(newest, alike, uncounted, warm)


FAMILY = Family.COMPILE.rules
"""One alert may change its cause between these."""
CUT_FRESH = duration("compile.CUT_FRESH")
COLD_FRESH = duration("compile.COLD_FRESH")
_COLD_WHY = (
    "the cache missed, probably because the batch size, optimizer, compiler flags or compiler"
    " version changed, or because the cache is not kept"
)


@dataclass(frozen=True)
class CompileMatch(RuleMatch):
    """Add the starts that compile again work that ran before, by the row of each node."""

    cold: Mapping[int, Cold] = field(default_factory=dict)


def find(view: View) -> RuleMatch:
    """Return nodes compiling for longer than `compiling.grace`.

    `cold_cache.again` is long enough where a tag says that the node compiles the same again.
    """
    steps = start_steps(view)
    if not steps.any():
        return no_match(view.n)
    past = view.eligible & (steps > view.steps("compiling.grace"))
    again = view.eligible & (steps > view.steps("cold_cache.again"))
    again &= view.roster.jobs != ""

    # Until an alert of a long compile ends, nothing more is known of its nodes' job.
    alerts = (alert for alert in view.opened(*FAMILY) if alert.cause is Cause.LONG_COMPILE)
    long = view.roster.among(thing for alert in alerts for thing in alert.anomaly.things)
    judged = (past & ~long) | again
    cold = {row: start for x, start in _cold_starts(view, judged) for row in x.rows.tolist()}
    by_name = again & np.isin(np.arange(view.n), [*cold])
    stays = view.roster.running & view.held_open(*FAMILY) & (steps > 0)
    hit = (past | by_name | stays) & view.on("compiling.on")
    return CompileMatch(hit, steps.astype(np.float64), np.ones(view.n), cold=cold)


def start_steps(view: View) -> Counts:
    """Return how long the start of a job lasts on each node that compiles, (n,).

    One that has compiled, and holds a process that does nothing yet, waits for the slowest.
    """
    if not view.compile_steps.any():
        return view.compile_steps
    steps = view.compile_steps.copy()
    starting = trailing(view.compiling | view.holding, view.gap)
    compiled = view.compiling & newest_of(view.window.n_steps, starting)
    since = view.window.n_steps - compiled.argmax(axis=1)
    for _, rows in view.roster.by_scope(steps > 0):
        waits = view.fellows(rows) & (steps == 0) & compiled.any(axis=1)
        steps[waits] = since[waits]
    return steps


def explain(view: View, match: RuleMatch, rows: Rows) -> Explanation:
    """Explain how long the compile lasts, on how many nodes, and whether it was to be expected."""
    longest = view.lasting(match.steps, rows, *FAMILY)
    starts = match.cold if isinstance(match, CompileMatch) else {}
    cold = next((starts[row] for row in rows.tolist() if row in starts), None)
    nodes = counted(len(rows), "node")
    cause, reason = _cause(view, rows, cold)

    # One node could compile for all: the sum of the hours less the slowest is spared.
    waste = "one node compiles"
    if len(rows) > 1:
        hours = match.steps[rows] * (view.window.step / timedelta(hours=1))
        spared, total = float(hours.sum() - hours.max()), float(hours.sum())
        waste = f"{nodes} compile; one would do, and would save {spared:,.1f} of {total:,.1f} node-hours"

    compiling = rows[view.compile_steps[rows] > 0]
    cpu = view.recent(view.cpu)[compiling]
    measured = bool(np.isfinite(cpu).any())
    sign = "host_compiles" if measured else "memory_unfilled"
    evidence = "device memory not yet filled"
    if view.logged is not None and bool((view.logged[compiling, -1] == COMPILING).all()):
        sign, evidence = "log_compiles", "the compiler's log says that it goes on"
    host = percent(float(np.nanmedian(cpu))) if measured else "not read"
    have = "has" if len(rows) == 1 else "have"
    return Explanation(
        why=f"{nodes} {have} been compiling for {lasted(longest)}"
        f" (host CPU {host}, no executions); {reason}.",
        value=longest.total_seconds(),
        unit="seconds",
        cause=cause,
        evidence=(waste, evidence),
        **belief(sign),
        lost_hours=cold.lost_hours([view.roster.ids[row] for row in rows]) if cold else {},
    )


def _cause(view: View, rows: Rows, cold: Cold | None) -> tuple[Cause, str]:
    """Distinguish a first compile from one of work that ran, and compiled at a start since.

    A compile that was once called cold stays so. Every new job of many nodes compiles on all of
    them; where several jobs do so in the same minutes they lost a cache that they share.
    """
    alert = view.alert_of(FAMILY, rows)
    share = len(rows) / int(view.roster.sizes[view.roster.scope[rows[0]]])
    jobs = {job_of(view.roster.labels[row].job) for row in rows} - {""}
    needed = view.number("cold_cache.nodes")[rows].max()
    wide = len(rows) >= count("compile.MANY") and share >= needed
    reasons = []
    if wide and len(jobs) > 1 and view.on("cold_cache.on")[rows].all():
        nodes = f"{percent(share)} of the cluster's nodes"
        reasons.append(f"{nodes} compile at the same time, for {len(jobs)} jobs")
    if cold:
        reasons.append(f"{cold.history()}; {_COLD_WHY}")
    if reasons or (alert is not None and alert.cause is Cause.COLD_CACHE):
        return Cause.COLD_CACHE, "; ".join(reasons) or _COLD_WHY
    return Cause.LONG_COMPILE, "past the grace of a first compile"


def _cold_starts(view: View, asked: Mask) -> Iterator[tuple[Incident, Cold]]:
    """Yield the nodes asked for of each owner that started cold, and how."""
    for _, nodes in view.roster.by_scope(asked & view.on("cold_cache.on")):
        for incident in incidents(view, FAMILY, nodes):
            if cold := cold_start(view, incident.rows):
                yield incident, cold


@once_a_tick
def cold_anomalies(view: View) -> list[Anomaly]:
    """Return one anomaly for each owner whose cold start ended within `COLD_FRESH`."""
    if not view.compiling.any():
        return []
    fresh, steps = view.window.steps(COLD_FRESH), view.steps("cold_cache.again")
    long_enough = view.compiling[:, -int(steps.max(initial=0)) - 2 * fresh :].sum(axis=1) >= steps
    over = (view.compile_steps == 0) & view.executing[:, -fresh:].any(axis=1)
    anomalies = []
    for incident, cold in _cold_starts(view, long_enough & over & view.roster.running):
        window = cold.newest.window
        rows = view.roster.rows_of(sorted(cold.newest.instances))
        goes_on = cold.newest.goes_on or (view.compile_steps[rows] > 0).any()
        if goes_on or view.now - window.end >= COLD_FRESH:
            continue
        match = _ended_match(view, rows, window.start)
        explanation = Explanation(
            why=f"{counted(len(rows), 'node')} compiled for {lasted(window.length)}"
            f" until {window.end:%H:%M} UTC{cold.job_words()}; {cold.history()}; {_COLD_WHY}.",
            value=window.length.total_seconds(),
            unit="seconds",
            **belief("compiled_again"),
            evidence=(
                f"{cold.hours:,.1f} node-hours of compiling at"
                f" {'these starts' if cold.earlier else 'this start'}",
                "the work ran before and was compiled then",
            ),
            lost_hours=cold.lost_hours([view.roster.ids[row] for row in rows]),
            family=FAMILY,
        )
        anomalies.append(
            anomaly_of_nodes(view, Cause.COLD_CACHE, match, rows, explanation, incident.scope)
        )
    return anomalies


def _ended_match(view: View, rows: Rows, start: datetime) -> RuleMatch:
    """Return the match of the nodes at `rows`, whose compile began at a time and is over."""
    length = (view.now - start) / view.window.step
    return RuleMatch(np.isin(np.arange(view.n), rows), np.full(view.n, length), np.zeros(view.n))


@once_a_tick
def killed_anomalies(view: View) -> list[Anomaly]:
    """Return one anomaly for each owner whose compiles were cut off within `CUT_FRESH`.

    Executions after all take it back.
    """
    if not view.compiling.any():
        return []
    lately = view.compiling[:, -view.window.steps(CUT_FRESH + view.window.step) :].any(axis=1)
    over = (view.compile_steps == 0) | ~view.roster.running
    rows = np.flatnonzero(lately & over & ~view.newest(view.executing))
    on = view.on("killed_compile.on")
    if not len(rows) or not on[rows].any():
        return []
    history = view.whole.last(max(duration("compile.BACK"), view.window.window.length))
    cut = by_key(
        (x.instance, x)
        for x in compiles(view.over(history, rows))
        if x.ending is Ending.CUT and view.now - x.window.end < CUT_FRESH
        if on[view.roster.row[x.instance]]
    )
    return [
        _killed_anomaly(view, cut, incident)
        for _, nodes in view.roster.by_scope(view.roster.among(cut))
        for incident in incidents(view, (Cause.KILLED_COMPILE.value, *FAMILY), nodes)
    ]


def _killed_anomaly(
    view: View, cut: Mapping[str, Sequence[Compile]], incident: Incident
) -> Anomaly:
    """Return the anomaly of the nodes of one owner whose compiles were cut off."""
    rows = incident.rows
    hours = {name: sum(x.hours for x in cut[name]) for name in (view.roster.ids[i] for i in rows)}
    windows = [x.window for name in hours for x in cut[name]]
    start, end = min(x.start for x in windows), max(x.end for x in windows)
    match = _ended_match(view, rows, start)

    # It goes on with an open alert of a long compile, whose cost is not counted twice.
    owned = (view.roster.scope == view.roster.scope[rows[0]]) & view.of_owner(rows)
    compiles_on = bool((view.compile_steps[owned] > 0).any())
    longest = max(x.length for x in windows)
    explanation = Explanation(
        why=f"A compile on {counted(len(rows), 'node')} ended after {lasted(longest)},"
        f" at {end:%H:%M} UTC, before anything executed; its process is gone.",
        value=longest.total_seconds(),
        unit="seconds",
        **belief("compile_cut"),
        evidence=(f"{sum(hours.values()):,.1f} node-hours of compiling lost", "no execution since"),
        lost_hours=hours,
        family=() if compiles_on else FAMILY,
    )
    return anomaly_of_nodes(view, Cause.KILLED_COMPILE, match, rows, explanation, incident.scope)


LONG_COMPILE = Rule(Cause.LONG_COMPILE, find, explain)
