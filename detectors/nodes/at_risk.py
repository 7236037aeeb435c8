"""Warn of work that stands to be lost: no checkpoint for too long, or nodes that the provider takes away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np

from bot.model.anomaly import Anomaly, AtRisk
from bot.model.causes import Cause
from bot.model.fleet import Instance, Market, Notice, NoticeKind
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.money import counted
from detectors.arrays import Mask, Numbers, since_last
from detectors.progress import (
    AGE,
    RECENT,
    NodesRun,
    checkpoint_age,
    run_of,
    run_rows,
    worked_seconds,
    worked_since,
    workers_of,
)
from detectors.rule import Explanation, Subject, anomaly_of
from detectors.view import GAP, View
from detectors.words import lasted

LEARNT = timedelta(days=2)
_ENOUGH = 2
"""Intervals that must have been seen: of three checkpoints in a row."""
LEAST = timedelta(minutes=20)
"""No checkpoint interval is taken as shorter than this."""


def checkpoint_anomalies(view: View, explained: Mask) -> Iterator[Anomaly]:
    """Yield one anomaly for each reporting run that worked for `checkpoint_at_risk.factor` intervals since its last checkpoint.

    Where another rule explains most of its nodes, the missing checkpoint is an effect of that.
    """
    frame = view.reading.frame("run")
    if frame is None or not frame.n_steps or not frame.has(AGE):
        return
    ages = frame.last(RECENT).of(AGE)
    read = ~np.isnan(ages)
    newest = ages[np.arange(len(ages)), np.maximum(0, ages.shape[1] - 1 - since_last(read))]
    for row in np.flatnonzero(read.any(axis=1) & (newest >= LEAST.total_seconds())):
        if anomaly := _judge(view, frame, int(row), float(newest[row]), explained):
            yield anomaly


def _judge(view: View, frame: Frame, row: int, age: float, explained: Mask) -> Anomaly | None:
    labels = frame.things[row]
    policy = view.policy.at(labels)
    factor = policy.number("checkpoint_at_risk.factor")
    if not policy.on("checkpoint_at_risk.on") or age < factor * LEAST.total_seconds():
        return None
    scope = Labels(cluster=labels.cluster, job=labels.job)
    alert = view.open.get((Cause.CHECKPOINT_AT_RISK.value, scope))
    seen = _intervals(frame, row, age)
    if not alert and (len(seen) < _ENOUGH or age < factor * float(seen.min())):
        return None
    interval = alert.anomaly.usual[1] if alert and alert.anomaly.usual else _interval(seen, frame)
    rows = run_rows(view, labels)
    if interval is None or (rows and explained[rows].mean() >= 0.5):
        return None
    limit = factor * interval + frame.step.total_seconds()
    worked = worked_seconds(view, frame, row, rows, age) if age >= limit else 0.0
    if worked < limit:
        return None
    things = tuple(view.roster.ids[i] for i in rows)
    subject = Subject(scope, labels, things, view.now - timedelta(seconds=age))
    explanation = replace(
        _explanation(labels, age, interval),
        at_risk=AtRisk(things, worked / 3600) if things else None,
    )
    return anomaly_of(view, Cause.CHECKPOINT_AT_RISK, subject, explanation)


def _explanation(labels: Labels, age: float, interval: float) -> Explanation:
    old, usual = lasted(timedelta(seconds=age)), lasted(timedelta(seconds=interval))
    return Explanation(
        why=f"The newest checkpoint of {labels.job or 'the run'} is {old} old, usually one every {usual};"
        " a failure now would lose that work.",
        value=age,
        unit="seconds",
        usual=(0.0, interval),
        score=0.85,
    )


def _interval(seen: Numbers, frame: Frame) -> float | None:
    """Return the usual seconds between two checkpoints.

    None if fewer than three checkpoints were seen.
    """
    return (
        float(np.quantile(seen, 0.75)) + frame.step.total_seconds()
        if len(seen) >= _ENOUGH
        else None
    )


def _intervals(frame: Frame, row: int, age: float) -> Numbers:
    """Return the seconds between each checkpoint and the next that no start parts from it.

    After a start the age counts from the restore, and the first checkpoint may come early: neither
    makes an interval. A reading in which a checkpoint fell is a mean of two ages, and dates none.
    """
    n, step = frame.steps(LEARNT + timedelta(seconds=age)), frame.step.total_seconds()
    ages, steps = frame.of(AGE)[row, -n:], frame.of("run_step_count")[row, -n:]
    at = np.flatnonzero(~np.isnan(ages))
    saved = at * step - ages[at]
    start = (np.diff(steps[at]) < 0) | (np.diff(at) > frame.steps(GAP))
    attempt = np.cumsum(start, dtype=np.intp)
    dated = np.flatnonzero(np.abs(np.diff(saved)) < step / 2)
    first = dated[np.diff(saved[dated], prepend=-np.inf) > step]
    own = np.concatenate(([0], attempt))[first]
    inner = (own[:-2] == own[1:-1]) & (own[1:-1] == own[2:])
    return np.asarray(np.diff(saved[first])[1:][inner], dtype=np.float64)


FRESH = timedelta(minutes=30)
"""How long a notice without an appointment is told of.

What it announced has come by then, or did not.
"""
_FEW, _LISTED = 3, 5
_COMING = {
    NoticeKind.INTERRUPTION: "AWS takes back {nodes} at {due}",
    NoticeKind.BLOCK_END: "The Capacity Block ends: AWS terminates {nodes} from {due} on",
    NoticeKind.REBALANCE: "AWS calls the risk high that it takes back {nodes}",
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
    "Save a checkpoint now and let the job end: the instances go one by one until the block is over.",
    "Extend the block or buy the next one: `capacity` shows what it costs.",
)
_SUGGESTIONS: Mapping[NoticeKind, tuple[str, ...]] = {
    NoticeKind.BLOCK_END: _BLOCK,
    NoticeKind.RETIREMENT: _PLANNED,
    NoticeKind.MAINTENANCE: _PLANNED,
}


@dataclass(frozen=True)
class _Threat:
    """Join a notice in effect with the nodes of one run that it is about."""

    notice: Notice
    nodes: tuple[str, ...]
    run: NodesRun

    @property
    def scope(self) -> Labels:
        """Return the scope of its alert: the run, or the planned event."""
        place = self.run.labels
        if self.notice.planned:
            return replace(
                place.only(("cluster",)) if place.cluster else place, resource=self.notice.subject
            )
        return place.only(("cluster", "job")) if place.cluster else place


def notice_anomalies(view: View) -> Iterator[Anomaly]:
    """Yield one anomaly for each job, and for each planned event, that notices in effect are about."""
    together: dict[Labels, list[_Threat]] = {}
    for notice in view.reading.notices:
        for threat in _threats(view, notice):
            if _in_effect(view, notice, threat.run.labels):
                together.setdefault(threat.scope, []).append(threat)
    for scope, threats in sorted(together.items()):
        yield _anomaly(view, scope, threats)


def _in_effect(view: View, notice: Notice, labels: Labels) -> bool:
    policy = view.policy.at(labels)
    if not policy.on("interruption_notice.on"):
        return False
    if notice.planned and notice.due:
        return (
            notice.due - policy.duration("interruption_notice.ahead")
            <= view.now
            < notice.due + FRESH
        )
    return view.now < notice.at + FRESH


def _threats(view: View, notice: Notice) -> Iterator[_Threat]:
    """Yield the runs whose accelerated nodes a notice is about, each with those nodes.

    What a plan is about must still run.
    """
    instances = view.reading.inventory.instances
    nodes: dict[NodesRun, list[str]] = {}
    for name in sorted({*notice.instances, *_of_block(view, notice)}):
        if name in instances and (instances[name].running or not notice.planned):
            nodes.setdefault(
                run_of(
                    view,
                    _labels_of(view, instances[name]),
                    view.now if notice.planned else notice.at,
                ),
                [],
            ).append(name)
    for run, names in nodes.items():
        yield _Threat(notice, tuple(names), run)


def _of_block(view: View, notice: Notice) -> Iterator[str]:
    """Yield the nodes of a Capacity Block.

    No instance names its block, so those of its type and zone that run in one.
    """
    held = next(
        (x for x in view.reading.inventory.reservations if x.labels.resource == notice.reservation),
        None,
    )
    if held is None or not notice.reservation:
        return
    place = held.labels.only(("instance_type", "zone", "region", "account"))
    for one in view.reading.inventory.instances.values():
        if one.running and one.market is Market.CAPACITY_BLOCK and place.selects(one.labels):
            yield one.id


def _labels_of(view: View, one: Instance) -> Labels:
    row = view.roster.row.get(one.id)
    return one.labels if row is None else view.roster.labels[row]


def _anomaly(view: View, scope: Labels, threats: Sequence[_Threat]) -> Anomaly:
    """Return the anomaly of a scope: the most pressing kind speaks, and every node is named."""
    first = min(
        (threat.notice for threat in threats), key=lambda notice: (notice.kind.rank, notice.at)
    )
    pressing = [threat for threat in threats if threat.notice.kind is first.kind]
    nodes = tuple(sorted({name for threat in pressing for name in threat.nodes}))
    things = tuple(
        dict.fromkeys((*nodes, *sorted({name for threat in threats for name in threat.nodes})))
    )
    instances, run = view.reading.inventory.instances, threats[0].run
    labels = Labels.shared(instances[name].labels for name in things).merge(
        run.labels.only(("cluster", "job"))
    )
    dues = [threat.notice.due for threat in pressing if threat.notice.due]
    due = min(dues, default=None)
    age = checkpoint_age(view, run, min([view.now, *dues]))
    workers = workers_of(view, run, things)
    explanation = Explanation(
        why=f"{_told(first.kind, nodes, due, view.now)}{_loss(run, age, len(workers))}",
        value=float(len(things)) if age is None else age,
        unit="count" if age is None else "seconds",
        score=0.95,
        evidence=_evidence(threats, run, workers),
        suggestions=_SUGGESTIONS.get(first.kind),
        at_risk=None if age is None else AtRisk(workers, worked_since(view, run, age, due) / 3600),
    )
    subject = Subject(scope, labels, things, min(threat.notice.at for threat in threats))
    return anomaly_of(view, Cause.INTERRUPTION_NOTICE, subject, explanation)


def _told(kind: NoticeKind, nodes: Sequence[str], due: datetime | None, now: datetime) -> str:
    words = _CAME.get(kind, _COMING[kind]) if due and due <= now else _COMING[kind]
    day = f"{due:%Y-%m-%d} " if due and due.date() != now.date() else ""
    return words.format(
        nodes=_named(nodes), due=f"{day}{due:%H:%M} UTC" if due else "a time that it does not say"
    )


def _named(nodes: Sequence[str]) -> str:
    if len(nodes) <= _FEW:
        return " and ".join(filter(None, [", ".join(nodes[:-1]), nodes[-1]]))
    return f"{nodes[0]} and {counted(len(nodes) - 1, 'other node')}"


def _loss(run: NodesRun, age: float | None, workers: int) -> str:
    job = run.labels.job or "the run"
    if age is None:
        return f"; no checkpoint's age is known{f' of {job}' if run.labels.job else ''}, so neither is what a stop loses."
    old = lasted(timedelta(seconds=age))
    return f"; the newest checkpoint of {job} is {old} old, and a stop loses that work on {counted(workers, 'node')}."


def _evidence(threats: Sequence[_Threat], run: NodesRun, workers: Sequence[str]) -> tuple[str, ...]:
    told = sorted(threats, key=lambda threat: (threat.notice.kind.rank, threat.notice.at))
    lines = [
        f"{_kind(x.notice)} of {_named(x.nodes)}, told at {x.notice.at:%H:%M:%S} UTC"
        for x in told[:_LISTED]
    ]
    more = len(told) - _LISTED
    rest = [f"and {counted(more, 'more notice')}"] if more > 0 else []
    return (
        *lines,
        *rest,
        *(
            [f"{run.labels.job or 'the run'} works on {counted(len(workers), 'node')}"]
            if run.row is not None
            else []
        ),
    )


def _kind(notice: Notice) -> str:
    """Name the kind of a notice with the provider's own word."""
    return f"{notice.kind} ({notice.what})" if notice.what else f"{notice.kind}"
