"""Warn of nodes that the provider says it will take away, with the work that stands to be lost since the newest checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np

from bot.model.anomaly import Anomaly, AtRisk
from bot.model.causes import Cause
from bot.model.counts import counted
from bot.model.fleet import Instance, Market
from bot.model.labels import Labels
from bot.model.notice import Notice, NoticeKind
from detectors.nodes.checkpoint import RECENT, run_rows, worked_seconds
from detectors.roster import scope_of
from detectors.rule import Explanation, Subject, anomaly_of
from detectors.view import View
from detectors.words import lasted

FRESH = timedelta(minutes=30)
"""How long a notice without an appointment is told of: what it announced has come by then, or did not."""
_AGE = "run_checkpoint_age_seconds"
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
class _Run:
    """Name a run: its row in the frame of runs (None where none is known), and the labels of its place."""

    row: int | None
    labels: Labels


@dataclass(frozen=True)
class _Threat:
    """Join a notice in effect with the nodes of one run that it is about."""

    notice: Notice
    nodes: tuple[str, ...]
    run: _Run

    @property
    def scope(self) -> Labels:
        """Return the scope of its alert: the run, or the planned event."""
        place = self.run.labels
        if self.notice.planned:
            return replace(place.only(("cluster",)) if place.cluster else place, resource=self.notice.subject)
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
    policy = view.policy.at(labels.only(("cluster", "team", "region", "account")))
    if not policy.on("interruption_notice.on"):
        return False
    if notice.planned and notice.due:
        return notice.due - policy.duration("interruption_notice.ahead") <= view.now < notice.due + FRESH
    return view.now < notice.at + FRESH


def _threats(view: View, notice: Notice) -> Iterator[_Threat]:
    """Yield the runs whose accelerated nodes a notice is about, each with those nodes; what a plan is about must still run."""
    instances = view.reading.inventory.instances
    nodes: dict[_Run, list[str]] = {}
    for name in sorted({*notice.instances, *_of_block(view, notice)}):
        if name in instances and (instances[name].running or not notice.planned):
            nodes.setdefault(_run_of(view, instances[name], view.now if notice.planned else notice.at), []).append(name)
    for run, names in nodes.items():
        yield _Threat(notice, tuple(names), run)


def _of_block(view: View, notice: Notice) -> Iterator[str]:
    """Yield the nodes of a Capacity Block: no instance names its block, so those of its type and zone that run in one."""
    held = next((x for x in view.reading.inventory.reservations if x.labels.resource == notice.reservation), None)
    if held is None or not notice.reservation:
        return
    place = held.labels.only(("instance_type", "zone", "region", "account"))
    for one in view.reading.inventory.instances.values():
        if one.running and one.market is Market.CAPACITY_BLOCK and place.selects(one.labels):
            yield one.id


def _run_of(view: View, one: Instance, at: datetime) -> _Run:
    """Return the run of a node: the one that reported at a time under its cluster and job; its place where that is not sure."""
    row = view.roster.row.get(one.id)
    labels = one.labels if row is None else view.roster.labels[row]
    place = labels.only(("cluster", "job")) if labels.cluster else scope_of(labels)
    frame = view.reading.frame("run")
    if frame is None or not labels.cluster:
        return _Run(None, place)
    reporting = ~np.isnan(frame.until(at).last(RECENT).of(_AGE)).all(axis=1)
    mine = [int(i) for i in np.flatnonzero(reporting) if frame.things[i].cluster == labels.cluster]
    same = [i for i in mine if frame.things[i].job == labels.job]
    mine = same or ([] if labels.job else mine)
    return _Run(mine[0], frame.things[mine[0]]) if len(mine) == 1 else _Run(None, place)


def _anomaly(view: View, scope: Labels, threats: Sequence[_Threat]) -> Anomaly:
    """Return the anomaly of a scope: the most pressing kind speaks, and every node is named."""
    first = min((threat.notice for threat in threats), key=lambda notice: (notice.kind.rank, notice.at))
    pressing = [threat for threat in threats if threat.notice.kind is first.kind]
    nodes = tuple(sorted({name for threat in pressing for name in threat.nodes}))
    things = tuple(dict.fromkeys((*nodes, *sorted({name for threat in threats for name in threat.nodes}))))
    instances, run = view.reading.inventory.instances, threats[0].run
    labels = Labels.shared(instances[name].labels for name in things).merge(run.labels.only(("cluster", "job")))
    dues = [threat.notice.due for threat in pressing if threat.notice.due]
    due = min(dues, default=None)
    age = _age(view, run, min([view.now, *dues]))
    workers = _workers(view, run, things)
    explanation = Explanation(
        why=f"{_told(first.kind, nodes, due, view.now)}{_loss(run, age, len(workers))}",
        value=float(len(things)) if age is None else age,
        unit="count" if age is None else "seconds",
        score=0.95,
        evidence=_evidence(threats, run, workers),
        suggestions=_SUGGESTIONS.get(first.kind),
        at_risk=None if age is None else AtRisk(workers, _worked(view, run, age, due) / 3600),
    )
    subject = Subject(scope, labels, things, min(threat.notice.at for threat in threats))
    return anomaly_of(view, Cause.INTERRUPTION_NOTICE, subject, explanation)


def _age(view: View, run: _Run, at: datetime) -> float | None:
    """Return the age of a run's newest checkpoint at a time, seconds; None where nobody told it lately."""
    frame = view.reading.frame("run")
    if run.row is None or frame is None:
        return None
    ages = frame.until(at).last(RECENT).of(_AGE)[run.row]
    read = ages[~np.isnan(ages)]
    return float(read[-1]) if len(read) else None


def _worked(view: View, run: _Run, age: float, due: datetime | None) -> float:
    """Return for how many of the last `age` seconds the run worked; all of them where its nodes are being taken already."""
    frame = view.reading.frame("run")
    if run.row is None or frame is None or (due and due <= view.now):
        return age
    return max(0.0, min(age, worked_seconds(view, frame, run.row, run_rows(view, run.labels), age)))


def _workers(view: View, run: _Run, things: Sequence[str]) -> tuple[str, ...]:
    """Return every node that works on a run: all of it stops with one; the nodes themselves where no run is known."""
    mine = run_rows(view, run.labels) if run.row is not None else []
    return tuple(sorted({*things, *(view.roster.ids[i] for i in mine)}))


def _told(kind: NoticeKind, nodes: Sequence[str], due: datetime | None, now: datetime) -> str:
    words = _CAME.get(kind, _COMING[kind]) if due and due <= now else _COMING[kind]
    day = f"{due:%Y-%m-%d} " if due and due.date() != now.date() else ""
    return words.format(nodes=_named(nodes), due=f"{day}{due:%H:%M} UTC" if due else "a time that it does not say")


def _named(nodes: Sequence[str]) -> str:
    if len(nodes) <= _FEW:
        return " and ".join(filter(None, [", ".join(nodes[:-1]), nodes[-1]]))
    return f"{nodes[0]} and {counted(len(nodes) - 1, 'other node')}"


def _loss(run: _Run, age: float | None, workers: int) -> str:
    job = run.labels.job or "the run"
    if age is None:
        return f"; no checkpoint's age is known{f' of {job}' if run.labels.job else ''}, so neither is what a stop loses."
    old = lasted(timedelta(seconds=age))
    return f"; the newest checkpoint of {job} is {old} old, and a stop loses that work on {counted(workers, 'node')}."


def _evidence(threats: Sequence[_Threat], run: _Run, workers: Sequence[str]) -> tuple[str, ...]:
    told = sorted(threats, key=lambda threat: (threat.notice.kind.rank, threat.notice.at))
    lines = [f"{_kind(x.notice)} of {_named(x.nodes)}, told at {x.notice.at:%H:%M:%S} UTC" for x in told[:_LISTED]]
    more = len(told) - _LISTED
    rest = [f"and {counted(more, 'more notice')}"] if more > 0 else []
    return (
        *lines,
        *rest,
        *([f"{run.labels.job or 'the run'} works on {counted(len(workers), 'node')}"] if run.row is not None else []),
    )


def _kind(notice: Notice) -> str:
    """Name the kind of a notice with the provider's own word."""
    return f"{notice.kind} ({notice.what})" if notice.what else f"{notice.kind}"
