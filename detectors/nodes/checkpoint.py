"""Find runs whose checkpoints stopped, so that a failed node would lose their work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import numpy as np

from bot.model.anomaly import Anomaly, AtRisk
from bot.model.causes import Cause
from bot.model.frame import Frame
from bot.model.labels import Labels
from detectors.arrays import Mask, Numbers
from detectors.progress import AGE, RECENT, run_rows, worked_seconds
from detectors.rule import Explanation, Subject, anomaly_of
from detectors.streak import since_last
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
