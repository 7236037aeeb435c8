"""Warn of work that may be lost: no checkpoint for too long, or nodes that AWS takes away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np

from bot.model.anomaly import Anomaly, AtRisk
from bot.model.causes import Cause
from bot.model.fleet import Market, Notice, NoticeKind
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.money import counted
from bot.model.reading import utilization_of
from bot.model.window import day, utc_text
from detectors.numbers import (
    LISTED,
    NAMED,
    Floats,
    Mask,
    Numbers,
    Rows,
    count,
    duration,
    lasted,
    newest_read,
    sustained,
)
from detectors.progress import AGE, RECENT, STUCK, run_members
from detectors.readings import GAP
from detectors.roster import scope_of
from detectors.rule import Explanation, Subject, anomaly_of, belief
from detectors.usual import worked_of
from detectors.view import LOOKBACK, View

LEAST = duration("at_risk.LEAST")
FRESH = duration("at_risk.FRESH")
_SPOT = NoticeKind.INTERRUPTION, NoticeKind.REBALANCE
_COMING = {
    NoticeKind.INTERRUPTION: "AWS takes back {nodes} at {due}",
    NoticeKind.BLOCK_END: "The Capacity Block ends: AWS terminates {nodes} from {due} on",
    NoticeKind.REBALANCE: "AWS says that it is likely to take back {nodes}",
    NoticeKind.RETIREMENT: "AWS retires the hardware of {nodes} at {due}",
    NoticeKind.MAINTENANCE: "AWS plans maintenance of {nodes} at {due}",
    NoticeKind.HEALTH: "AWS Health reports trouble with {nodes}",
}
_CAME = {
    NoticeKind.INTERRUPTION: "AWS took back {nodes} at {due}",
    NoticeKind.BLOCK_END: "The Capacity Block ends: AWS terminates {nodes} since {due}",
}
_PLANNED = (
    "Move the job before then: stop and start the instance (EBS only), or replace the node.",
    "Save a checkpoint right before, and cordon the node so that nothing new lands on it.",
)
_BLOCK = (
    "Save a checkpoint now and let the job end: the instances go one by one until the block is"
    " over.",
    "Extend the block or buy the next one: `capacity` shows what it costs.",
)
_SUGGESTIONS: Mapping[NoticeKind, tuple[str, ...]] = {
    NoticeKind.BLOCK_END: _BLOCK,
    NoticeKind.RETIREMENT: _PLANNED,
    NoticeKind.MAINTENANCE: _PLANNED,
}


def checkpoint_anomalies(view: View, explained: Mask) -> Iterator[Anomaly]:
    """Yield one anomaly for each reporting run without a checkpoint for several intervals.

    It worked for `checkpoint_at_risk.factor` of them since its last one. Where another rule
    explains most of its nodes, the missing checkpoint is an effect of that.
    """
    frame, step = view.frame("run"), view.frame("run").step.total_seconds()
    ages = newest_read(frame.last(RECENT).of(AGE))
    for row in np.flatnonzero(ages > 0).tolist():
        labels, age = frame.things[row], float(ages[row])
        run, policy = NodesRun(row, labels), view.policy.at(labels)
        factor = policy.number("checkpoint_at_risk.factor")
        if not policy.on("checkpoint_at_risk.on") or age < factor * LEAST.total_seconds():
            continue
        scope = Labels(cluster=labels.cluster, job=labels.job)
        alert = view.open.get((Cause.CHECKPOINT_AT_RISK.value, scope))
        told, intervals = alert and alert.anomaly.usual, _intervals(frame, row, age)
        if not told and len(intervals) < count("at_risk.ENOUGH"):
            continue
        interval = told[1] if told else float(np.quantile(intervals, 0.75)) + step

        rows, limit = rows_of_run(view, row), factor * interval + step
        if age < limit or (len(rows) and explained[rows].mean() >= 0.5):
            continue
        worked = worked_seconds(view, row, rows, age)
        if worked < limit:
            continue
        # Where several runs report and no sign names its nodes, nobody knows whose they are.
        of_cluster = run_of(view, Labels(cluster=labels.cluster), view.now)
        known = scope in view.reading.claims or of_cluster == run
        things = tuple(view.roster.ids[i] for i in rows) if known else ()
        up = min(worked, seconds_up(view, row, age))
        # Its nodes name the team that a run's reports do not.
        of_nodes = Labels.shared(view.roster.labels[i] for i in rows if things)
        whose = of_nodes.merge(labels)
        subject = Subject(scope, whose, things, view.now - timedelta(seconds=age))
        old, usual = lasted(timedelta(seconds=age)), lasted(timedelta(seconds=interval))
        lost = (
            f"the {lasted(timedelta(seconds=up))} since it began again"
            if up < worked - STUCK.total_seconds()
            else "that work"
        )
        explanation = Explanation(
            why=f"The newest checkpoint of {labels.job or 'the run'} is {old} old, usually one at"
            f" least every {usual}; a failure would lose {lost}.",
            value=age,
            unit="seconds",
            usual=(0.0, interval),
            **belief("checkpoint_late"),
            at_risk=AtRisk(things, up / 3600) if things else None,
        )
        yield anomaly_of(view, Cause.CHECKPOINT_AT_RISK, subject, explanation)


def _intervals(frame: Frame, row: int, age: float) -> Numbers:
    """Return the seconds between each checkpoint and the next that no start parts from it.

    After a start the age counts from the restore, and the first checkpoint may come early: neither
    makes an interval. A reading in which a checkpoint fell is a mean of two ages, and dates none.
    A report of a run that sends few fills several steps; the first of them dates it.
    """
    n = frame.steps(duration("at_risk.LEARNT") + timedelta(seconds=age))
    step = frame.step.total_seconds()
    ages, steps = frame.of(AGE)[row, -n:], frame.of("run_step_count")[row, -n:]
    reported = np.flatnonzero(~np.isnan(ages))
    fresh = np.diff(ages[reported], prepend=np.nan) != 0
    saved = (reported * step - ages[reported])[fresh]
    dated = np.flatnonzero(np.abs(np.diff(saved)) < step / 2)
    first = dated[np.diff(saved[dated], prepend=-np.inf) > step]
    attempt = np.cumsum(_starts(frame, steps, reported))[fresh][first]
    inner = (attempt[:-2] == attempt[1:-1]) & (attempt[1:-1] == attempt[2:])
    return np.asarray(np.diff(saved[first])[1:][inner], dtype=np.float64)


@dataclass(frozen=True)
class _Threat:
    """Join a notice in effect with the nodes of one run that it is about."""

    notice: Notice
    nodes: tuple[str, ...]
    run: NodesRun

    @property
    def scope(self) -> Labels:
        """Return the scope of its alert: the run, or the planned event."""
        planned, place = self.notice.planned, self.run.labels
        if place.cluster:
            place = place.only(("cluster",) if planned else ("cluster", "job"))
        return replace(place, resource=self.notice.subject) if planned else place


def notice_anomalies(view: View) -> Iterator[Anomaly]:
    """Yield one anomaly for each job and planned event that notices in effect are about."""
    together: dict[Labels, list[_Threat]] = {}
    for notice in view.reading.notices:
        for threat in _threats(view, notice):
            policy = view.policy.at(threat.run.labels)
            in_effect = view.now < notice.at + FRESH
            if notice.planned and notice.due:
                begins = notice.due - policy.duration("interruption_notice.ahead")
                in_effect = begins <= view.now < notice.due + FRESH
            if policy.on("interruption_notice.on") and in_effect:
                together.setdefault(threat.scope, []).append(threat)
    for scope, threats in sorted(together.items()):
        yield _notice_anomaly(view, scope, threats)


def _threats(view: View, notice: Notice) -> Iterator[_Threat]:
    """Yield the runs whose accelerated nodes a notice is about, each with those nodes.

    The nodes of a plan must still run. Spot capacity is made to be taken back: a node of no job and
    no run loses nothing by it.
    """
    inventory, roster = view.reading.inventory, view.roster
    names = set(notice.instances)

    # No instance names its Capacity Block: those of its type and zone that run in one.
    blocks = (x.labels for x in inventory.reservations if x.labels.resource == notice.reservation)
    if notice.reservation and (block := next(blocks, None)):
        place = block.only(("instance_type", "zone", "region", "account"))
        names |= {
            instance.id
            for instance in inventory.instances.values()
            if instance.running and instance.market is Market.CAPACITY_BLOCK
            if place.selects(instance.labels)
        }

    nodes: dict[NodesRun, list[str]] = {}
    time = view.now if notice.planned else notice.at
    for name in sorted(names & inventory.instances.keys()):
        instance = inventory.instances[name]
        if instance.running or not notice.planned:
            row = roster.row.get(name)
            labels = instance.labels if row is None else roster.labels[row]
            if notice.kind not in _SPOT or labels.job or _runs_on(view, labels, time):
                nodes.setdefault(run_of(view, labels, time), []).append(name)
    for run, members in nodes.items():
        yield _Threat(notice, tuple(members), run)


def _notice_anomaly(view: View, scope: Labels, threats: Sequence[_Threat]) -> Anomaly:
    """Return the anomaly of a scope: the most pressing kind speaks, and every node is named."""
    ranked = sorted(threats, key=lambda threat: (threat.notice.kind.rank, threat.notice.at))
    kind, run = ranked[0].notice.kind, threats[0].run
    pressing = [threat for threat in threats if threat.notice.kind is kind]
    nodes = sorted({name for threat in pressing for name in threat.nodes})
    affected = sorted({name for threat in threats for name in threat.nodes})
    things = tuple(dict.fromkeys((*nodes, *affected)))

    dues = [threat.notice.due for threat in pressing if threat.notice.due]
    due = min(dues, default=None)
    age = checkpoint_age(view, run, min([view.now, *dues]))
    workers = workers_of(view, run, things)
    event = _CAME.get(kind, _COMING[kind]) if due and due <= view.now else _COMING[kind]
    when = utc_text(due, view.now) if due else "an unstated time"

    job = run.labels.job or "the run"
    if age is None:
        of_job = f" for {job}" if run.labels.job else ""
        loss = f"the age of the newest checkpoint is not known{of_job}, so the work that a stop loses is not known either."
    else:
        loss = (
            f"the newest checkpoint of {job} is {lasted(timedelta(seconds=age))} old, and a stop"
            f" loses that work on {counted(len(workers), 'node')}."
        )

    announced = (
        f"{notice.kind}{notice.what and f' ({notice.what})'} of {_named(names)},"
        f" announced at {day(notice.at)}, {notice.at:%H:%M:%S} UTC"
        for notice, names in ((threat.notice, threat.nodes) for threat in ranked)
    )
    # One notice may be delivered twice, under another id.
    evidence = list(dict.fromkeys(announced))
    if more := evidence[LISTED:]:
        evidence[LISTED:] = [f"and {counted(len(more), 'more notice')}"]
    if run.row is not None:
        evidence.append(f"{job} works on {counted(len(workers), 'node')}")

    explanation = Explanation(
        why=f"{event.format(nodes=_named(nodes), due=when)}; {loss}",
        value=float(len(things)) if age is None else age,
        unit="count" if age is None else "seconds",
        **belief("noticed"),
        evidence=tuple(evidence),
        suggestions=_SUGGESTIONS.get(kind),
        at_risk=None if age is None else AtRisk(workers, worked_since(view, run, age, due) / 3600),
    )
    of_nodes = Labels.shared(view.reading.inventory.instances[x].labels for x in things)
    whose = of_nodes.merge(run.labels.only(("cluster", "job")))
    subject = Subject(scope, whose, things, min(threat.notice.at for threat in threats))
    return anomaly_of(view, Cause.INTERRUPTION_NOTICE, subject, explanation)


def _named(nodes: Sequence[str]) -> str:
    if len(nodes) <= NAMED:
        return " and ".join(filter(None, [", ".join(nodes[:-1]), nodes[-1]]))
    return f"{nodes[0]} and {counted(len(nodes) - 1, 'other node')}"


@dataclass(frozen=True)
class NodesRun:
    """Name a run: its row in the frame of runs, and the labels of its place."""

    row: int | None
    """None where none is known."""
    labels: Labels


def run_of(view: View, labels: Labels, at: datetime) -> NodesRun:
    """Return the run of a node: the only one that may have worked on it at a time.

    Its place where that is not sure.
    """
    runs = _runs_on(view, labels, at)
    if len(runs) == 1:
        return NodesRun(runs[0], view.frame("run").things[runs[0]])
    return NodesRun(None, labels.only(("cluster", "job")) if labels.cluster else scope_of(labels))


def _runs_on(view: View, labels: Labels, at: datetime) -> list[int]:
    """Return the runs that may work on a node, or on a cluster, at a time.

    They report under its cluster, and under its job where that is known.
    """
    frame, row = view.frame("run"), view.roster.row.get(labels.instance)
    reporting = ~np.isnan(frame.until(at).last(RECENT).of(AGE)).all(axis=1)
    clusters = {labels.cluster} - {""}  # of a node outside any no run is known
    runs = [i for i in np.flatnonzero(reporting).tolist() if frame.things[i].cluster in clusters]
    same = [i for i in runs if frame.things[i].job == labels.job]
    if same or labels.job:
        runs = same
    return [i for i in runs if not labels.instance or row in _nodes_of_run(view, i)]


def rows_of_run(view: View, run: int) -> Rows:
    """Return the rows of the running nodes that work on a run."""
    rows = _nodes_of_run(view, run)
    return rows[view.roster.running[rows]]


def _nodes_of_run(view: View, run: int) -> Rows:
    """Return the rows of the nodes that may work on a run, which takes none in without a start.

    Unless a name says that it is there, a node is none that came later, or that worked on through
    the start. Where all did, only the reports of the run began then.
    """
    labels = view.frame("run").things[run]
    rows = run_members(view, labels)
    if labels.only(("cluster", "job")) in view.reading.claims:
        return rows
    began = attempt_began(view, run)
    rows = rows[view.roster.launched[rows] <= began.timestamp()]
    work = worked_of(view.whole.until(began).last(LOOKBACK).pick(rows))
    unread, at_work = np.isnan(work), work > view.number("idle.below")[rows, None]
    joined = unread.all(axis=1) | ~(unread | at_work).all(axis=1)
    return rows[joined] if joined.any() else rows


def attempt_began(view: View, run: int) -> datetime:
    """Return when a run last started; the beginning of the reading where it counts no steps."""
    frame = view.frame("run")
    steps = frame.of("run_step_count")[run]
    reported = np.flatnonzero(~np.isnan(steps))
    begins = [0, *reported[:1], *reported[_starts(frame, steps, reported)]]
    return frame.start + int(begins[-1]) * frame.step


def _starts(frame: Frame, steps: Floats, reported: Rows) -> Mask:
    """Return at which of its reports a run began again: its count fell, or it was silent before."""
    fell = np.diff(steps[reported], prepend=-np.inf) < 0
    return np.asarray(fell | (np.diff(reported, prepend=reported[:1]) > frame.steps(GAP)))


def checkpoint_age(view: View, run: NodesRun, at: datetime) -> float | None:
    """Return the age of a run's newest checkpoint at a time, seconds; None where not known."""
    if run.row is None:
        return None
    age = newest_read(view.frame("run").until(at).last(RECENT).of(AGE)[[run.row]])[0]
    return None if np.isnan(age) else float(age)


def worked_since(view: View, run: NodesRun, age: float, due: datetime | None) -> float:
    """Return for how many of the last `age` seconds the run worked.

    All of them where its nodes are being taken already.
    """
    if run.row is None or (due and due <= view.now):
        return age
    worked = worked_seconds(view, run.row, rows_of_run(view, run.row), age)
    return max(0.0, min(age, worked, seconds_up(view, run.row, age)))


def seconds_up(view: View, run: int, age: float) -> float:
    """Return for how many of the last `age` seconds a run's attempt has gone on.

    What it did before a start is lost already.
    """
    return min(age, (view.frame("run").end - attempt_began(view, run)).total_seconds())


def workers_of(view: View, run: NodesRun, things: Sequence[str]) -> tuple[str, ...]:
    """Return every node that works on a run: all of it stops with one.

    The nodes themselves where no run is known.
    """
    rows = rows_of_run(view, run.row).tolist() if run.row is not None else []
    return tuple(sorted({*things, *(view.roster.ids[i] for i in rows)}))


def worked_seconds(view: View, run: int, rows: Rows, age: float) -> float:
    """Return how much of the last `age` seconds the run made progress: only work can be lost.

    Not counted is when fewer than half of its nodes worked, or its step count stood still for
    `STUCK`, or was not reported.
    """
    frame, length = view.frame("run"), timedelta(seconds=age)
    steps = frame.last(length).of("run_step_count")[run]
    reported = np.where(np.isnan(steps), 0, np.arange(len(steps)))
    steps = steps[np.maximum.accumulate(reported)]
    still = sustained((np.diff(steps) == 0)[None, :], frame.steps(STUCK))
    stuck = float(still.sum()) * frame.step.total_seconds()
    part = view.whole.last(length)
    level = utilization_of(part)[rows]
    working = (level > view.number("idle.below")[rows][:, None]).sum(axis=0)
    idle = 2 * working < (~np.isnan(level)).sum(axis=0)
    return age - max(stuck, float(idle.sum()) * part.step.total_seconds())


def work_at_risk(view: View, rows: Rows, stopped: datetime | None = None) -> AtRisk | None:
    """Return the work of the run on the nodes at `rows` that no checkpoint holds.

    None where it is not known. Of a run that stands still since `stopped` it is the work before
    that.
    """
    until = min(view.now, stopped or view.now)
    run = run_of(view, Labels.shared(view.roster.labels[i] for i in rows), until)
    age = checkpoint_age(view, run, until)
    if age is None:
        return None
    worked = worked_since(view, run, age + (view.now - until).total_seconds(), None)
    things = workers_of(view, run, [view.roster.ids[i] for i in rows])
    return AtRisk(things, min(worked, age) / 3600) if min(worked, age) > 0 else None
