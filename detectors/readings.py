"""Read one tick: the newest steps of every node as arrays, its usual, and where it compiles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property, reduce
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from bot.model.alert import Alert
from bot.model.causes import About
from bot.model.codec import by_key
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.policy import Policy
from bot.model.reading import Reading
from bot.model.run import CompileMark, Mark
from bot.model.window import Window
from detectors.numbers import (
    DAY,
    Counts,
    Floats,
    Mask,
    Numbers,
    Rows,
    cadence_of,
    close_gaps,
    drop_singles,
    duration,
    gaps_up_to,
    lately,
    mean_where_read,
    number,
    since_last,
    trailing,
)
from detectors.roster import Limits, Roster
from detectors.usual import CPU, RESERVED, Usual, worked_of

GAP = duration("view.GAP")
POLICY, USUAL, OPEN, ALERTS = "policy", "usual", "open", "alerts"
"""Questions to a view that are neither a setting nor a rule, of whose open alerts is asked."""
_EMPTY = Frame(
    "empty",
    (),
    datetime.fromisoformat("2000-01-01T00:00:00+00:00"),
    timedelta(minutes=5),
    (),
    np.zeros((0, 1, 0), np.float32),
)


def frame_of(reading: Reading, kind: str) -> Frame:
    """Return the frame of a kind; one of no things where none was read."""
    frame = reading.frame(kind)
    return frame if frame and frame.n_steps else _EMPTY


T = TypeVar("T")


class derived(cached_property[T]):  # noqa: N801  as `property` is
    """Derive a property of a view once a tick, see `Readings.derive`."""

    def __get__(self, view: Any, _: Any = None) -> T:  # type: ignore[override]
        """Return the value, which is found in the view itself from now on if it asked nothing."""
        value: T = view.derive(self.func)
        if not view.results[self.func][1]:
            vars(view)[self.attrname] = value
        return value


def facts_of(alerts: Iterable[Alert]) -> list[tuple[object, ...]]:
    """Return all by which a detection may depend on alerts."""
    return [(a.id, a.anomaly, a.opened, a.seen, a.closed, a.peak) for a in alerts]


@dataclass
class Readings:
    """Hold one tick's node frame cut to the newest `window`.

    Arrays are (n, n_steps) unless stated otherwise.
    """

    reading: Reading
    policy_: Policy
    limits: Limits
    usual_: Usual
    window: Frame
    whole: Frame
    open_: Mapping[tuple[str, Labels], Alert]
    """Open alerts by rule and scope."""
    alerts_: tuple[Alert, ...] = ()
    """Open and recent alerts."""
    results: dict[Callable[[Any], Any], tuple[Any, set[str]]] = field(default_factory=dict)
    """What was derived, each with the questions on whose answers it depends."""
    beside: Readings | None = None
    """The same tick under another policy, whose values hold here where these answers are the same."""
    asked: set[str] = field(default_factory=set)
    """Settings, rules of open alerts and other questions that were asked of late."""
    _agreed: dict[str, bool] = field(default_factory=dict)
    _metrics: dict[str, Floats] = field(default_factory=dict)
    _recent: dict[tuple[int, int], tuple[Floats, Floats]] = field(default_factory=dict)

    def derive(self, work: Callable[[Any], T]) -> T:
        """Work something out once a tick, and once for all policies that answer alike.

        Whoever is given it depends on the same answers.
        """
        if work not in self.results:
            entry = self.beside and self.beside.results.get(work)
            if not entry or not all(self._agrees(question) for question in entry[1]):
                outer, self.asked = self.asked, set()
                entry = work(self), self.asked
                self.asked = outer
            self.results[work] = entry
        value: T
        value, asked = self.results[work]
        self.asked |= asked
        return value

    def _agrees(self, question: str) -> bool:
        """Return whether a question has the same answer in the view beside this one."""
        if question not in self._agreed:
            beside = self.beside
            agrees = beside is not None and self._answer(question) == beside._answer(question)
            self._agreed[question] = agrees
        return self._agreed[question]

    def _answer(self, question: str) -> object:
        """Return what a question is answered, so that it can be compared."""
        policy, opened = self.limits.policy, self.open_.items()
        if "." in question:
            return policy.values[question], [x for x in policy.overrides if x[1] == question]
        if question == ALERTS:
            return facts_of(self.alerts_)
        whole = {USUAL: id(self.usual_), POLICY: policy}
        return whole.get(question) or facts_of(x for (r, _), x in opened if question in (r, OPEN))

    @property
    def policy(self) -> Policy:
        """Return the policy itself: whoever asks it may depend on all of it."""
        self.asked.add(POLICY)
        return self.policy_

    @property
    def usual(self) -> Usual:
        """Return what is usual for the jobs that run now."""
        self.asked.add(USUAL)
        return self.usual_

    @property
    def open(self) -> Mapping[tuple[str, Labels], Alert]:
        """Return the open alerts by rule and scope."""
        self.asked.add(OPEN)
        return self.open_

    @property
    def alerts(self) -> tuple[Alert, ...]:
        """Return the open and recent alerts."""
        self.asked.add(ALERTS)
        return self.alerts_

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

    def frame(self, kind: str) -> Frame:
        """Return the frame of a kind; one of no things where none was read."""
        return frame_of(self.reading, kind)

    @derived
    def jobs(self) -> npt.NDArray[np.str_]:
        """Return the job of each node, (n,): its tag, else the run that claims it, "" where none."""
        runs = {name: run.job for run, claim in self.reading.claims.items() for name in claim.nodes}
        if not runs:
            return self.roster.jobs
        return np.array([x.job or runs.get(x.instance, "") for x in self.roster.labels], np.str_)

    def of_owner(self, rows: Rows) -> Mask:
        """Return which nodes no tag gives to another owner than those at `rows`, (n,).

        A job that is known is all of one.
        """
        owners, jobs = self.roster.owners, self.jobs
        owning, working_on = (list({*of[rows].tolist()} - {""}) for of in (owners, jobs))
        same = np.isin(owners, [*owning, ""]) | np.isin(jobs, working_on)
        return np.asarray(same | (not owning))

    def nobody(self) -> Mask:
        """Return a new mask that holds no node, (n,)."""
        return np.zeros(self.n, dtype=bool)

    def number(self, key: str) -> Numbers:
        """Return a threshold per node, (n,)."""
        self.asked.add(key)
        return self.limits.number(key)

    def steps(self, key: str) -> Numbers:
        """Return a span per node in steps, (n,)."""
        self.asked.add(key)
        return self.limits.steps(key, self.window.step)

    def on(self, key: str) -> Mask:
        """Return a switch per node, (n,)."""
        self.asked.add(key)
        return self.limits.on(key)

    @derived
    def utilization(self) -> Floats:
        """Return the utilization of the accelerator, 0..1.

        A node that says it has no runtime does nothing.
        """
        return worked_of(self.window)

    @derived
    def cpu(self) -> Floats:
        """Return the host's CPU, 0..1."""
        return self.metric(CPU)

    @derived
    def latency(self) -> Floats:
        """Return the median latency of an execution in seconds; nan while nothing executes."""
        return self.metric("neuron_execution_latency_seconds")

    @derived
    def efa(self) -> Floats:
        """Return the larger of the sent and received rates over EFA, bytes a second."""
        names = (f"efa_{way}_bytes_per_second" for way in ("tx", "rx", "rdma_write", "rdma_read"))
        rates = (self.metric(name) for name in names if self.window.has(name))
        return reduce(np.fmax, rates, np.full(self.utilization.shape, np.nan, dtype=np.float32))

    @derived
    def memory(self) -> Floats:
        """Return device memory in use, in bytes."""
        used = self.metric("neuroncore_memory_used_bytes")
        return np.where(np.isnan(used), self.metric("neuron_runtime_memory_used_bytes"), used)

    @derived
    def held(self) -> Floats:
        """Return 1 where a runtime is loaded, 0 where none is, nan where that is not known."""
        by_memory = np.fmax(
            self.metric("neuron_runtime_memory_used_bytes"),
            self.metric("neuroncore_memory_used_bytes"),
        )
        guess = (by_memory > 0).astype(np.float32)
        guess[np.isnan(by_memory)] = np.nan
        if not self.window.has("neuron_runtime_loaded_ratio"):
            return guess
        loaded = self.metric("neuron_runtime_loaded_ratio")
        return np.where(np.isnan(loaded), guess, loaded > 0.5).astype(np.float32)

    @derived
    def unknown(self) -> Mask:
        """Return where utilization was not read."""
        return np.isnan(self.utilization)

    @derived
    def zero(self) -> Mask:
        """Return where a node does nothing (False where not read)."""
        return self.utilization <= self.number("idle.below")[:, None].astype(np.float32)

    @derived
    def any_zero(self) -> bool:
        """Return whether any node did nothing in any step.

        Mostly none did, and much need not be asked.
        """
        return bool(self.zero.any())

    @derived
    def executing(self) -> Mask:
        """Return where a node works (False where not read)."""
        return ~self.zero & ~self.unknown

    @derived
    def levels(self) -> tuple[Floats, Floats, Floats]:
        """Return the usual utilization now: low, middle, high, each (n,).

        Where jobs share a node and fewer of them hold its cores than usual, it is as much less.
        """
        low, middle, high = self.usual.at(self.now, self.roster.inference)
        # Of the cores of a pod that leaves within a step, that step shows a part.
        newest = self.metric(RESERVED)[:, -2:] / self.usual_of(RESERVED)[:, None]
        least, most = (by.reduce(newest, axis=1, initial=np.nan) for by in (np.fmin, np.fmax))
        fewer = (least > 0) & (most < 1) & ~self.roster.inference
        share = np.where(fewer, most, np.float32(1))
        return low * share, middle * share, high * share

    @derived
    def usual_work(self) -> Numbers:
        """Return the utilization from which a node works as usual, (n,)."""
        return self.number("starved.over") * self.levels[1]

    def metric(self, name: str) -> Floats:
        """Return one metric of the window; all nan where it was never read."""
        if name not in self._metrics:
            self._metrics[name] = self.window.of(name)
        return self._metrics[name]

    def usual_of(self, name: str) -> Floats:
        """Return the usual of a metric while the node works, (n,); nan where unknown."""
        medians = self.usual.medians.get(name)
        return np.full(self.n, np.nan, dtype=np.float32) if medians is None else medians

    def recent(self, values: Floats, steps: int = 3) -> Floats:
        """Return the mean of the newest readings, (n,); nan where there is none."""
        key = id(values), steps
        if key not in self._recent:
            # The values are kept too: until then no other array has their id.
            self._recent[key] = (values, mean_where_read(values[:, -steps:], axis=1))
        return self._recent[key][1]

    def time_of(self, steps_ago: float) -> datetime:
        """Return the start of the step `steps_ago` steps before the end (1 = the last step)."""
        return self.now - steps_ago * self.window.step

    @derived
    def silent_steps(self) -> Counts:
        """Return how many steps ago a node last reported, (n,); n_steps where never."""
        return since_last(~self.unknown)

    @derived
    def cadence(self) -> Counts:
        """Return in how many steps the agent of each node sends one reading, (n,)."""
        return cadence_of(worked_of(self.whole.last(DAY)), self.window.steps(GAP))

    @derived
    def age_seconds(self) -> Numbers:
        """Return the seconds since launch, inf where not known, (n,)."""
        return self.now.timestamp() - self.roster.launched

    def launched_before(self, steps: Numbers | float) -> Mask:
        """Return which nodes were there `steps` ago, (n,): one launched since has not fallen."""
        return np.asarray(self.age_seconds >= steps * self.window.step.total_seconds())

    @derived
    def untroubled_until(self) -> npt.NDArray[np.object_]:
        """Return until when no open alert is about each node, a time, (n,)."""
        end = np.full(self.n, self.now, dtype=object)
        for alert in self.open.values():
            if alert.anomaly.kind == About.NODES.value:
                end[self.roster.rows_of(alert.anomaly.things)] = alert.anomaly.window.start
        return end

    def alert(self, rules: tuple[str, ...], scope: Labels) -> Alert | None:
        """Return the open alert of any of the rules with a scope as its key."""
        self.asked.update(rules)
        return next(
            (self.open_[rule, scope] for rule in rules if (rule, scope) in self.open_), None
        )

    def members(self, alert: Alert) -> Rows:
        """Return the rows of the nodes that an alert is about, or was at its peak."""
        peak = alert.peak.anomaly.things if alert.peak else ()
        return self.roster.rows_of({*alert.anomaly.things, *peak})

    def opened(self, *rules: str) -> list[Alert]:
        """Return the open alerts of the rules in all scopes."""
        self.asked.update(rules)
        return [alert for (rule, _), alert in self.open_.items() if rule in rules]

    def held_open(self, *rules: str) -> Mask:
        """Return which nodes an open alert of the rules is about, (n,)."""
        return self.roster.among(x for alert in self.opened(*rules) for x in alert.anomaly.things)

    @derived
    def gap(self) -> Mask:
        """Return where nothing was read for a moment only.

        The state before such a gap and the one after it are one.
        """
        return gaps_up_to(self.unknown, self.window.steps(GAP))


LogStates = npt.NDArray[np.int8]
COMPILING, OVER, SILENT = 1, 0, -1
"""The state of a step by a log; `SILENT` leaves it to the metrics."""
LULL = duration("readings.LULL")
LONGEST = duration("readings.LONGEST")


def compiles_in_log(
    marks: Sequence[CompileMark], frame: Frame, roster: Roster
) -> dict[str, list[Window]]:
    """Return from when to when each node compiled by the logs, by instance id.

    Graphs with less than a lull between them are one compile.
    """
    by_node = by_key(
        (mark.instance, mark)
        for mark in marks
        if mark.instance in roster.row and mark.at > frame.start - LONGEST
    )

    joined: dict[str, list[Window]] = {}
    for instance, lines in by_node.items():
        compiles = joined.setdefault(instance, [])
        for graph in sorted(_graphs_in_log(lines, frame.end)):
            if compiles and graph.start - compiles[-1].end <= LULL:
                compiles[-1] = Window(compiles[-1].start, max(compiles[-1].end, graph.end))
            else:
                compiles.append(graph)
    return joined


def states_in_log(
    compiles: Mapping[str, Sequence[Window]], frame: Frame, roster: Roster
) -> LogStates | None:
    """Return the state of each node and step by the logs, (n, n_steps).

    None where they say nothing.
    """
    if not compiles or not frame.n_steps:
        return None

    def step(at: datetime) -> int:
        if at <= frame.start:
            return -1
        return min(frame.n_steps - 1, -((frame.start - at) // frame.step) - 1)

    states = np.full((len(roster.ids), frame.n_steps), SILENT, dtype=np.int8)
    for instance, spans in compiles.items():
        row = roster.row[instance]
        for span in spans:
            first, last = step(span.start), step(span.end) + 1
            after = min(last + frame.steps(duration("readings.SETTLED")), frame.n_steps)
            if span.end < frame.end:
                states[row, max(0, last) : max(0, after)] = OVER
            states[row, max(0, first) : max(0, last)] = COMPILING
    return states


def _graphs_in_log(marks: Sequence[CompileMark], now: datetime) -> list[Window]:
    """Return from when to when each graph of each stream of a node's log was compiled."""
    graphs: list[Window] = []
    begun: dict[tuple[str, str], datetime] = {}
    for mark in sorted(marks, key=lambda mark: mark.at):
        if mark.mark is Mark.BEGUN:
            begun.setdefault((mark.stream, mark.module), mark.at)
            continue

        # A line ends the graph that it names; one that names none ends the only one there is.
        ended = [key for key in begun if key[0] == mark.stream]
        if mark.mark is not Mark.OVER and mark.module:
            ended = [key for key in ended if key[1] == mark.module]
        elif mark.mark is not Mark.OVER and len(ended) != 1:
            ended = []
        if mark.mark in (Mark.OVER, Mark.DONE, Mark.FAILED):
            starts = [begun.pop(key) for key in ended]
            graphs += [Window(start, min(mark.at, start + LONGEST)) for start in starts]
    going = [start for start in begun.values() if start <= now]
    return graphs + [Window(start, min(now, start + LONGEST)) for start in going]


def compiling(readings: Readings, logged: LogStates | None) -> Mask:
    """Return where nodes compile, (n, n_steps).

    It is where a log says so, and where it is silent, where metrics look like it.
    """
    if logged is None:
        return looks_compiling(readings)

    # The process that a log calls compiling may be gone: its pod, or a runtime that it had loaded.
    in_log = logged == COMPILING
    had = np.maximum.accumulate(readings.zero & (readings.held > 0) & in_log, axis=1)
    left = (readings.metric("neuroncore_reserved_count") == 0) | (had & (readings.held == 0))
    surely = in_log & ~readings.executing & ~left
    return np.asarray(surely | ((logged == SILENT) & looks_compiling(readings)))


def looks_compiling(readings: Readings) -> Mask:
    """Return where a node looks like it compiles, (n, n_steps).

    It executes nothing, its host's CPUs are busy, and it holds little or no device memory. Where
    the host's CPU is not read, a runtime that holds next to nothing is taken for a compile.
    """
    if not readings.any_zero:
        return readings.zero
    busy = readings.cpu >= readings.number("compiling.cpu")[:, None].astype(np.float32)
    share = readings.memory / readings.roster.memory[:, None].astype(np.float32)
    roomy = ~(readings.held > 0) | (share < number("readings.ROOMY"))
    unread = np.isnan(readings.cpu) & (readings.held > 0) & (share < number("readings.EMPTY"))
    likely = readings.zero & ((busy & roomy) | unread) & np.isnan(readings.latency)
    return drop_singles(close_gaps(likely))


def waiting(readings: Readings, compiling: Mask, gap: Mask) -> Mask:
    """Return which nodes may wait for a peer that compiles, (n,).

    They rest since its start, with a pod, for the same job. Where no pods are known, so may those
    that rest since at most `idle.for` before the compile began.
    """
    waits = readings.nobody()
    roster, lull = readings.roster, readings.window.steps(LULL)
    compiled = lately(compiling, lull)[:, -1]
    pods = readings.metric("neuroncore_reserved_count")

    # The last step up to each in which a node worked, -1 where there is none.
    rests = (readings.zero & ~(pods == 0)) | gap
    worked = np.maximum.accumulate(np.where(rests, -1, np.arange(rests.shape[1])), axis=1)
    for leader in np.flatnonzero(compiled).tolist():
        same_scope = roster.scope == roster.scope[leader]
        peers = np.flatnonzero(same_scope & rests[:, -1] & ~compiled & ~waits)
        if not len(peers):
            continue
        last = int(np.flatnonzero(compiling[leader])[-1])
        began = last - int(trailing(compiling[[leader], : last + 1], gap[[leader], : last + 1])[0])
        bare = np.isnan(pods[peers]).all(axis=1)
        before, with_pods = worked[peers, -1], worked[leader, last]
        since_compile = before >= began - readings.steps("idle.for")[peers]
        near = np.where(bare, since_compile, np.abs(before - with_pods) <= lull)

        # No tag may name another job.
        job = roster.labels[leader].job
        same_job = [not job or roster.labels[peer].job in ("", job) for peer in peers]
        waits[peers] = near & np.array(same_job, dtype=bool)
    return waits & readings.on("compiling.on")
