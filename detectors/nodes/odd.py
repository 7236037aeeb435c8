"""Find odd combinations of metrics that no rule knows, by an isolation forest; such an alert is rare by design."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from bot.model.anomaly import Anomaly
from bot.model.causes import Cause
from bot.model.counts import counted
from bot.model.frame import Frame
from detectors.arrays import Floats, Mask, Numbers, Rows
from detectors.features import METRICS, NOTABLE, WORDS, Scale, distances, learn_scale, median_of, past_levels
from detectors.forest import Forest, fit
from detectors.roster import Roster
from detectors.rule import Explanation, RuleMatch, anomalies_of, no_match
from detectors.usual import Past, forget, history
from detectors.view import View

SAMPLE = timedelta(minutes=15)
SMOOTH = timedelta(minutes=15)
RECENT = timedelta(days=7)
BLOCK = timedelta(hours=6)
REST = timedelta(hours=24)
"""How long one odd alert may go on; what stays so is learnt as usual after that."""
MOST_ROWS = 20_000
STAY = 0.04
"""How much under its threshold an open odd alert stays, and how much over an earlier one a new one must be."""
LEAST_ROWS = 500
LEAST_SCORE = 0.6
"""No cluster, however calm, has a lower threshold: an average row scores about 0.4."""


@dataclass(frozen=True)
class OddModel:
    """Hold the forest, the nodes' scales, and for each scope the mean excess and count of its strangest blocks."""

    forest: Forest
    scale: Scale
    base: Numbers
    """The score above which a block counts as strange, (n_scopes,)."""
    excess: Numbers
    """Mean excess over the base of the blocks above it, (n_scopes,)."""
    weekly: Numbers
    """How many such blocks a week has, (n_scopes,)."""
    highest: Numbers
    """The highest score of the recent past, (n_scopes,)."""

    def threshold(self, scope: int, per_week: float) -> float:
        """Return the score that is exceeded `per_week` times a week in a scope, by the exponential tail of its blocks.

        Peaks over threshold: rate(s) = weekly * exp(-(s - base) / excess). Never under what the recent past has shown.
        """
        tail = self.base[scope] + self.excess[scope] * np.log(max(1.0, self.weekly[scope] / per_week))
        return float(min(0.999, max(LEAST_SCORE, tail, self.highest[scope] + 0.5 * self.excess[scope])))


def learn(whole: Frame, roster: Roster, floor: Numbers, past: Past) -> OddModel | None:
    """Learn from the past; None while there is too little of it. `floor` is the utilization over which a node works, (n,)."""
    part = history(whole, past.anchor, past.days, whole.step)
    stride, smooth = max(1, SAMPLE // whole.step), max(1, SMOOTH // whole.step)
    samples = past_levels(part, stride, smooth)
    values = samples.values
    forget(values, samples, roster, past.strange)
    active = values[:, :, 0] > floor[:, None]
    if active.sum() < LEAST_ROWS:
        return None
    scale = learn_scale(values, active)
    rows, steps = (at[:: -(-len(at) // MOST_ROWS)] for at in active.nonzero())
    forest = fit(distances(values[rows, steps], Scale(scale.middle[rows], scale.spread[rows])))
    recent = max(0, values.shape[1] - int(RECENT / (stride * whole.step)))
    scores = _scored(forest, distances(values[:, recent:], scale), active[:, recent:])
    return OddModel(forest, scale, *_tails(scores, roster, stride * whole.step))


def odd_anomalies(view: View, model: OddModel, explained: Mask, falling: Mask) -> Iterator[Anomaly]:
    """Yield one anomaly for each scope with odd nodes that no rule explains and that are not `falling`."""
    match, scores = _find(view, model, explained, falling)
    return anomalies_of(view, Cause.ODD, match, lambda view, _, rows: explain(view, model, scores, rows))


def _find(view: View, model: OddModel, explained: Mask, falling: Mask) -> tuple[RuleMatch, Numbers]:
    """Return nodes stranger than their cluster has lately been, and every scored node's score (0 where not scored).

    Nodes that a rule explains are left out, and those that are `falling`: the rules are about to name them.
    """
    scores = np.zeros(view.n)
    nobody = no_match(view)
    if not view.n or view.now - view.whole.start < timedelta(days=view.policy.number("odd.silent_days")):
        return nobody, scores
    working = view.executing[:, -_half(view) * 2 :].all(axis=1)
    rows = np.flatnonzero(view.eligible & ~explained & ~falling & working & view.limits.on("odd.on"))
    far = _now(view, model, rows)
    far, worth = far[notable := _farthest(far) >= NOTABLE], rows[notable]
    before = _now(view, model, worth, 1)
    both = _farthest(before) >= NOTABLE
    scores[worth[both]] = model.forest.score(np.concatenate([far[both], before[both]])).reshape(2, -1).min(axis=0)
    hit = nobody.hit
    if scores.any():
        limit = np.array([_limit(view, model, scope) for scope in range(len(view.roster.scopes))])
        hit = scores > limit[view.roster.scope]
    if view.is_open(Cause.ODD.value):
        hit = hit | (_unjudged(view, rows) & ~explained)
    return RuleMatch(hit, np.full(view.n, 2.0 * _half(view))), scores


def explain(view: View, model: OddModel, scores: Numbers, rows: Rows) -> Explanation:
    """Explain which metrics made the nodes odd: those whose return to usual lowers the score most."""
    worst = rows[np.argmax(scores[rows])]
    if not scores[worst] and (alert := view.alert((Cause.ODD.value,), view.roster.scopes[view.roster.scope[worst]])):
        return _as_before(alert.anomaly)
    far = _now(view, model, np.array([worst]))[0]
    without = np.repeat(far[None, :], len(METRICS), axis=0)
    np.fill_diagonal(without, 0.0)
    relief = float(scores[worst]) - model.forest.score(without)
    guilty = [int(i) for i in np.argsort(-relief, kind="stable") if abs(far[i]) >= 2][:3]
    deviations = [
        f"{WORDS[i]} {abs(far[i]):.0f}{'+' if abs(far[i]) >= 10 else ''} spreads {'over' if far[i] > 0 else 'under'}"
        for i in guilty
    ]
    return Explanation(
        why=f"An odd combination on {counted(len(rows), 'node')}: {', '.join(deviations) or 'many metrics at once'} the usual.",
        value=float(scores[worst]),
        unit="score",
        usual=(0.0, float(model.highest[view.roster.scope[worst]])),
        score=float(scores[worst]),
        evidence=tuple(deviations),
        confidence=0.5,
        metric=METRICS[guilty[0]] if guilty else METRICS[0],
    )


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


def _unjudged(view: View, rows: Rows) -> Mask:
    """Tell which nodes of an open odd alert cannot be judged now (a pause, an evaluation): not seeing is not recovering."""
    mask = view.held_open(Cause.ODD.value) & view.eligible
    mask[rows] = False
    resting = [
        s for s, x in enumerate(view.roster.scopes) if (a := view.open.get((Cause.ODD.value, x))) and view.now - a.opened >= REST
    ]
    return np.asarray(mask & ~np.isin(view.roster.scope, resting))


def _half(view: View) -> int:
    """Return half of `odd.for` in steps: both halves must be odd."""
    return max(1, view.window.steps(view.policy.duration("odd.for") / 2))


def _farthest(far: Floats) -> Floats:
    return np.asarray(np.abs(far).max(axis=-1, initial=0))


def _now(view: View, model: OddModel, rows: Rows, halves_ago: int = 0) -> Floats:
    """Return the distances of the nodes' medians over the newest half of `odd.for`, or over a half before, (n, n_metrics)."""
    half, n_steps = _half(view), view.window.n_steps
    cut = slice(max(0, n_steps - (halves_ago + 1) * half), max(1, n_steps - halves_ago * half))
    every = 4 * len(rows) >= view.n  # views of all cost less than copies of many
    at = slice(None) if every else rows
    near = [(view.utilization if i == 0 else view.metric(name))[at, cut] for i, name in enumerate(METRICS)]
    scale = Scale(model.scale.middle[at], model.scale.spread[at])
    far = distances(median_of(np.stack(near, axis=2)), scale)
    return far[rows] if every else far


def _limit(view: View, model: OddModel, scope: int) -> float:
    """Return the score that opens (or, lower, keeps open) an odd alert: over everything known, then rest."""
    labels = view.roster.scopes[scope]
    per_week = view.policy.at(labels).number("odd.false_alerts_per_week")
    limit = model.threshold(scope, per_week)
    current = view.open.get((Cause.ODD.value, labels))
    if current:
        return limit - STAY if view.now - current.opened < REST else 1.0
    earlier = [a.anomaly.score + STAY for a in view.alerts if a.cause is Cause.ODD and a.anomaly.scope == labels]
    return max([limit, *earlier])


def _scored(forest: Forest, far: Floats, active: Mask) -> Numbers:
    """Return the samples' lasting scores (n, n_samples): of two neighbours the lower, 0 where not worth scoring."""
    scores = np.zeros(active.shape)
    worth = active & (_farthest(far) >= NOTABLE)
    scores[worth] = forest.score(far[worth])
    scores[:, 1:] = np.minimum(scores[:, 1:], scores[:, :-1])
    return scores


def _tails(scores: Numbers, roster: Roster, step: timedelta) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Return for each scope base, mean excess, blocks a week above the base, and highest score."""
    per_block = max(1, BLOCK // step)
    blocks = max(1, scores.shape[1] // per_block)
    out = np.zeros((4, len(roster.scopes)))
    for scope in range(len(roster.scopes)):
        of_scope = scores[roster.scope == scope]
        best = of_scope.max(axis=0, initial=0)
        maxima = np.sort([best[i * per_block : (i + 1) * per_block].max(initial=0) for i in range(blocks)])
        base = max(0.4, float(maxima[len(maxima) // 2]))
        above = maxima[maxima > base]
        weeks = blocks * BLOCK / timedelta(days=7)
        excess = max(0.01, float((above - base).mean()) if len(above) else 0.0)
        out[:, scope] = base, excess, max(1, len(above)) / weeks, max(base, float(best.max(initial=0)))
    return out[0], out[1], out[2], out[3]
