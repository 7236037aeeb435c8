"""Find odd combinations of metrics that no rule knows, by an isolation forest.

Such an alert is rare by design.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from bot.model.anomaly import Anomaly
from bot.model.causes import Cause
from bot.model.money import counted
from detectors.arrays import Floats, Mask, Numbers, Rows
from detectors.forest import (
    METRICS,
    NOTABLE,
    TRAFFIC,
    WORDS,
    JobUsual,
    distances,
    in_proportion,
    median_of,
    stops,
)
from detectors.odd_model import COSTS, OddModel, combined
from detectors.rule import Explanation, RuleMatch, anomalies_of, no_match
from detectors.usual import percentiles
from detectors.view import View
from detectors.words import percent, rate, seconds, size

REST = timedelta(hours=24)
"""How long one odd alert may go on; what stays so is learnt as usual after that."""
SETTLED = timedelta(hours=2)
"""How long ago a job must have shown a state for it to be one of its own.

An evaluation, not the oddness that is looked at.
"""
STAY = 0.04
"""How much under its threshold an open odd alert stays, and how much over an earlier one a new one must be."""


@dataclass(frozen=True)
class Oddness:
    """Hold what is learnt: how strange the fleet's work is, and each job's own usual."""

    model: OddModel
    usual: JobUsual
    costs: Floats
    """How far each node's newest known costs lie from their usual, (n, n_costs)."""

    def score(self, far: Floats, rows: Rows) -> Numbers:
        """Return how strange the nodes at `rows` are with the metrics' distances `far`, (len(rows), n_metrics)."""
        return self.model.score(np.concatenate([far, self.costs[rows]], axis=1))


def odd_anomalies(view: View, known: Oddness, explained: Mask, falling: Mask) -> Iterator[Anomaly]:
    """Yield one anomaly for each scope with odd nodes that no rule explains and that are not `falling`."""
    match, scores = _find(view, known, explained, falling)
    return anomalies_of(
        view, Cause.ODD, match, lambda view, _, rows: explain(view, known, scores, rows)
    )


def _find(view: View, known: Oddness, explained: Mask, falling: Mask) -> tuple[RuleMatch, Numbers]:
    """Return nodes stranger than their cluster has lately been, and every scored node's score (0 where not scored).

    Nodes that a rule explains are left out, and those that are `falling`: the rules are about to
    name them.
    """
    scores = np.zeros(view.n)
    nobody = no_match(view)
    if not view.n or view.now - view.whole.start < timedelta(
        days=view.policy.number("odd.silent_days")
    ):
        return nobody, scores
    working = view.executing[:, -_half(view) * 2 :].all(axis=1) & ~_stopped(view, known)
    rows = np.flatnonzero(
        view.eligible & ~explained & ~falling & working & view.limits.on("odd.on")
    )
    judged, worth, far = _combinations(view, known.usual, rows)
    if len(worth):
        scores[worth] = np.minimum(*(known.score(half, worth) for half in far))
    hit = scores > 0
    if hit.any():
        hit = scores > _limits(view, known.model)
    if view.is_open(Cause.ODD.value):
        hit = hit | (_unjudged(view, known, judged) & ~explained)
    return RuleMatch(hit, np.full(view.n, 2.0 * _half(view))), scores


def _combinations(view: View, usual: JobUsual, rows: Rows) -> tuple[Rows, Rows, Floats]:
    """Return which nodes at `rows` can be judged, which show what is new in their job, and its distances, (2, n, n_metrics).

    Both halves of `odd.for` must show it at full work (a slower job is another story), and every
    step of full work in them: an evaluation is shorter.
    """
    now, scale = _levels(view, rows, 0), usual.scale.at(rows)
    full, newest = now[:, 0] >= usual.full[rows], distances(now, scale)
    if not (combined(newest) & full).any() and not view.is_open(
        Cause.ODD.value
    ):  # as at most ticks: spare the half before
        return rows[:0], rows[:0], np.stack([newest, newest])[:, :0]
    before = _levels(view, rows, 1)
    full &= before[:, 0] >= usual.full[rows]
    far = np.stack([newest, distances(before, scale)])
    worth = np.flatnonzero(full & combined(far).all(axis=0))
    worth = worth[_throughout(view, usual, rows[worth])]
    worth = worth[~usual.showed(now[worth], rows[worth], view.now - SETTLED)]
    return rows[full], rows[worth], far[:, worth]


def _throughout(view: View, usual: JobUsual, rows: Rows) -> Mask:
    """Return which nodes show a combination in every step of full work of `odd.for`, (len(rows),)."""
    levels = np.stack(
        [_cut(view, i, rows, slice(-2 * _half(view), None)) for i in range(len(METRICS))]
    )
    in_proportion(levels)
    at_full = levels[0] >= usual.full[rows][:, None]
    return np.asarray(
        (combined(distances(np.moveaxis(levels, 0, 2), usual.scale.at(rows))) | ~at_full).all(
            axis=1
        )
    )


def _stopped(view: View, known: Oddness) -> Mask:
    """Return which nodes have stopped since the usual of their job was learnt, (n,).

    What runs now may be another job.
    """
    since = view.window.since(known.usual.end)
    if not (view.any_zero and since.n_steps):
        return np.zeros(view.n, dtype=bool)
    return np.asarray(stops(since, view.number("idle.below"))[:, -1] > 0)


def explain(view: View, known: Oddness, scores: Numbers, rows: Rows) -> Explanation:
    """Explain which metrics made the nodes odd.

    Those whose return to usual lowers the score most, then against before.
    """
    worst = rows[np.argmax(scores[rows])]
    scope = view.roster.scope[worst]
    if not scores[worst] and (alert := view.alert((Cause.ODD.value,), view.roster.scopes[scope])):
        return _as_before(alert.anomaly)
    guilty = _guilty(view, known, worst, float(scores[worst]))
    seen = rows[scores[rows] > 0]
    now, usual = (
        percentiles(np.ascontiguousarray(x.T), (0.5,))[0]
        for x in (_levels(view, seen, 0), known.usual.scale.middle[seen])
    )
    changes = [_change(i, now, usual) for i in guilty]
    work = f"{view.gauge(seen)} is as before ({percent(now[0])}, usual {percent(usual[0])})"
    return Explanation(
        why=f"An odd combination on {counted(len(rows), 'node')} in the midst of a job: {work}, but {', '.join(changes)}.",
        value=float(scores[worst]),
        unit="score",
        usual=(0.0, float(known.model.highest[scope])),
        score=float(scores[worst]),
        evidence=(*changes, *_peers(view, known, rows), *_dear(known, worst)),
        confidence=0.5,
        metric=METRICS[guilty[0]],
    )


def _guilty(view: View, known: Oddness, worst: int, score: float) -> list[int]:
    """Return the metrics of a node that are far from usual, first the one whose return lowers the score most.

    What is received over EFA is what the others send: one of both is told.
    """
    row = np.array([worst])
    far = distances(_levels(view, row, 0), known.usual.scale.at(row))[0]
    without = np.repeat(far[None, :], len(METRICS), axis=0)
    np.fill_diagonal(without, 0.0)
    relief = score - known.score(without, np.repeat(row, len(METRICS)))
    guilty = [int(i) for i in np.argsort(-relief, kind="stable") if abs(far[i]) >= NOTABLE]
    return [i for i in guilty if not (i == _RECEIVED and _RECEIVED - 1 in guilty)][:_MOST]


def _change(metric: int, now: Floats, usual: Floats) -> str:
    """Read as `device memory 239 GiB instead of 418 GiB`.

    Traffic as it is at the utilization of now.
    """
    work = float(now[0]) if metric in range(TRAFFIC.start, TRAFFIC.stop) else 1.0
    return f"{WORDS[metric]} {_IN_WORDS[metric](work * now[metric])} instead of {_IN_WORDS[metric](work * usual[metric])}"


_RECEIVED = METRICS.index("efa_rx_bytes_per_second")
_MOST = 5
"""Metrics that one sentence names."""
_IN_WORDS = (percent, size, seconds, rate, rate, percent, percent, rate, rate)


def _peers(view: View, known: Oddness, rows: Rows) -> Iterator[str]:
    """Say of how many working nodes of the same scope nothing of it is seen."""
    same = (
        (view.roster.scope == view.roster.scope[rows[0]])
        & ~np.isnan(known.usual.full)
        & view.executing[:, -1]
    )
    same[rows] = False
    if same.any():
        yield f"nothing of it on {counted(int(same.sum()), 'other node')} of the cluster at work"


def _dear(known: Oddness, worst: int) -> Iterator[str]:
    """Say which costs of a node were far from their usual in the newest hours of the bill."""
    for name, far in zip(COSTS, known.costs[worst], strict=True):
        if abs(far) >= NOTABLE:
            yield f"in the newest hours of the bill {name} cost {'more' if far > 0 else 'less'} than in the week before"


def _as_before(anomaly: Anomaly) -> Explanation:
    """Return the explanation of an open alert, while its nodes cannot be judged."""
    return Explanation(
        why=anomaly.why,
        value=anomaly.value,
        unit=anomaly.unit,
        usual=anomaly.usual,
        score=anomaly.score,
        evidence=anomaly.evidence,
        confidence=anomaly.confidence,
        suggestions=anomaly.suggestions,
        metric=anomaly.metric,
        severity=anomaly.severity,
    )


def _unjudged(view: View, known: Oddness, rows: Rows) -> Mask:
    """Return which nodes of an open odd alert cannot be judged now (a pause, an evaluation).

    Not seeing is not recovering.

    A job that has stopped, or whose hours before are no longer known, is not odd any more.
    """
    mask = (
        view.held_open(Cause.ODD.value)
        & view.eligible
        & ~np.isnan(known.usual.full)
        & ~_stopped(view, known)
    )
    mask[rows] = False
    resting = [
        s
        for s, x in enumerate(view.roster.scopes)
        if (a := view.open.get((Cause.ODD.value, x))) and view.now - a.opened >= REST
    ]
    return np.asarray(mask & ~np.isin(view.roster.scope, resting))


def _half(view: View) -> int:
    """Return half of `odd.for` in steps: both halves must be odd."""
    return max(1, view.window.steps(view.policy.duration("odd.for") / 2))


def _levels(view: View, rows: Rows, halves_ago: int) -> Floats:
    """Return the nodes' medians over the newest half of `odd.for`, or over a half before, (len(rows), n_metrics)."""
    half, n_steps = _half(view), view.window.n_steps
    cut = slice(max(0, n_steps - (halves_ago + 1) * half), max(1, n_steps - halves_ago * half))
    every = 4 * len(rows) >= view.n  # views of all cost less than copies of many
    near = [_cut(view, i, slice(None) if every else rows, cut) for i in range(len(METRICS))]
    levels = median_of(np.stack(near, axis=2))
    in_proportion(levels.T)
    return levels[rows] if every else levels


def _cut(view: View, metric: int, rows: Rows | slice, steps: slice) -> Floats:
    return (view.utilization if metric == 0 else view.metric(METRICS[metric]))[rows, steps]


def _limits(view: View, model: OddModel) -> Numbers:
    """Return for each node the score that opens (or, lower, keeps open) an odd alert, (n,).

    Over everything known, then rest.
    """
    limits = np.array([_limit(view, model, scope) for scope in range(len(view.roster.scopes))])[
        view.roster.scope
    ]
    for alert in view.alerts:
        if alert.cause is Cause.ODD and (alert.anomaly.rule, alert.anomaly.scope) not in view.open:
            rows = view.roster.rows_of(alert.anomaly.things)
            limits[rows] = np.maximum(limits[rows], alert.anomaly.score + STAY)
    return limits


def _limit(view: View, model: OddModel, scope: int) -> float:
    """Return the score over which a scope is odd by what it showed lately.

    An open alert stays a little under it, for a while.
    """
    labels = view.roster.scopes[scope]
    limit = model.threshold(scope, view.policy.at(labels).number("odd.false_alerts_per_week"))
    current = view.open.get((Cause.ODD.value, labels))
    if not current:
        return limit
    return limit - STAY if view.now - current.opened < REST else 1.0
