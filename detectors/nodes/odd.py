"""Find odd combinations of metrics that no rule knows, by an isolation forest: rare by design."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from bot.model.anomaly import Anomaly
from bot.model.causes import Cause
from bot.model.money import counted
from detectors.forest import (
    JOB_HOURS,
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
from detectors.jobs import AROUND
from detectors.numbers import (
    LISTED,
    Floats,
    Mask,
    Numbers,
    Rows,
    duration,
    narrowed,
    number,
    percent,
    rate,
    seconds,
    size,
)
from detectors.odd_model import COSTS, OddModel, combined
from detectors.rule import Explanation, RuleMatch, anomalies_of, belief
from detectors.usual import RESERVED, StrangeSpan, median, strange_spans
from detectors.view import View

REST = duration("odd.REST")
STAY = number("odd.STAY")
_LATENCY = METRICS.index("neuron_execution_latency_seconds")
_SENT = METRICS.index("efa_tx_bytes_per_second")
_RECEIVED = METRICS.index("efa_rx_bytes_per_second")
_IN_WORDS = (percent, size, seconds, rate, rate, percent, percent, rate, rate)


@dataclass(frozen=True)
class Oddness:
    """Hold how strange the fleet's work is, and each job's own usual, as learnt."""

    model: OddModel
    usual: JobUsual
    costs: Floats
    """How far each node's newest known costs lie from their usual, (n, n_costs)."""

    def score(self, far: Floats, rows: Rows) -> Numbers:
        """Return how strange the nodes at `rows` are, (len(rows),).

        `far` are the distances of their metrics, (len(rows), n_metrics).
        """
        return self.model.score(np.concatenate([far, self.costs[rows]], axis=1))


def odd_anomalies(view: View, known: Oddness, explained: Mask, falling: Mask) -> Iterator[Anomaly]:
    """Yield one anomaly for each scope with nodes stranger than it has lately been.

    Nodes that a rule explains are left out, and those that are `falling`: the rules are about to
    name them.
    """
    # A node that has stopped since the usual of its job was learnt may run another job.
    since = view.window.since(known.usual.end - AROUND)
    stopped = (stops(since, view.number("idle.below"))[:, -1:] > 0).any(axis=1)
    # So does one on which more or fewer cores were reserved, for longer than a restart takes.
    hours = view.whole.last(JOB_HOURS)
    reserved = hours.of(RESERVED)
    changed = np.abs(reserved - reserved[:, -1:]) > 0.5
    stopped |= changed.sum(axis=1) > hours.steps(AROUND)
    working = view.executing[:, -_half(view) * 2 :].all(axis=1) & ~stopped
    possible = view.eligible & ~explained & ~falling & working & view.limits.on("odd.on")
    judged, combining, far = _combinations(view, known.usual, np.flatnonzero(possible))
    scores = np.zeros(view.n)
    if len(combining):
        scores[combining] = np.minimum(*(known.score(half, combining) for half in far))
    hit = narrowed(scores > 0, lambda: scores > _limits(view, known.model))

    # Nodes of an open alert that cannot be judged now (a pause, an evaluation) have not recovered,
    # unless their job has stopped or its hours before are no longer known.
    if view.opened(Cause.ODD.value):
        unjudged = view.held_open(Cause.ODD.value) & view.eligible
        unjudged &= ~np.isnan(known.usual.full) & ~stopped & ~explained
        unjudged[judged] = False
        alerts = (view.open.get((Cause.ODD.value, scope)) for scope in view.roster.scopes)
        resting = [s for s, a in enumerate(alerts) if a and view.now - a.opened >= REST]
        hit = hit | (unjudged & ~np.isin(view.roster.scope, resting))

    match = RuleMatch(hit, np.full(view.n, 2.0 * _half(view)))
    yield from anomalies_of(
        view, Cause.ODD, match, lambda view, _, rows: explain(view, known, scores, rows)
    )


def spans_of_scopes(view: View, until: datetime) -> Iterator[StrangeSpan]:
    """Yield the spans of odd alerts up to a time, each about all nodes of its scope.

    A node that the alert missed, or let go, showed the same oddness: nobody may learn from it how
    odd work is.
    """
    known = [a for a in view.alerts if a.cause is Cause.ODD and a.opened <= until]
    for alert, span in zip(known, strange_spans(known, until), strict=True):
        nodes = np.flatnonzero(view.roster.scope == view.roster.place.get(alert.anomaly.scope, -1))
        # One that ends early, as after a restart nobody knows the hours before, may go on unseen.
        end = max(span.end, min(alert.opened + REST, until))
        yield span._replace(things=tuple(view.roster.ids[row] for row in nodes), end=end)


def _combinations(view: View, usual: JobUsual, rows: Rows) -> tuple[Rows, Rows, Floats]:
    """Return which nodes at `rows` can be judged, and which show a state that is new in their job.

    And the distances of the latter, (2, n, n_metrics). Both halves of `odd.for` must show it at
    full work (a slower job is another story), and every step of full work in them: an evaluation is
    shorter.
    """
    newest_levels, scale = _levels(view, rows, 0), usual.scale.at(rows)
    full, newest = newest_levels[:, 0] >= usual.full[rows], distances(newest_levels, scale)
    if not (combined(newest) & full).any() and not view.opened(Cause.ODD.value):
        # As at most ticks: spare the half before.
        return rows[:0], rows[:0], np.stack([newest, newest])[:, :0]
    before = _levels(view, rows, 1)
    full &= before[:, 0] >= usual.full[rows]
    far = np.stack([newest, distances(before, scale)])
    # Executions that are quicker than ever, and send as much more, cost nothing.
    quicker = ((far[:, :, _LATENCY] <= -NOTABLE) & (far[:, :, _SENT] >= NOTABLE)).all(axis=0)
    likely = np.flatnonzero(full & combined(far).all(axis=0) & ~quicker)

    steps, nodes = slice(-2 * _half(view), None), rows[likely]
    levels = np.stack([_cut(view, i, nodes, steps) for i in range(len(METRICS))])
    in_proportion(levels)
    below = ~(levels[0] >= usual.full[nodes][:, None])
    odd = combined(distances(np.moveaxis(levels, 0, 2), usual.scale.at(nodes)))
    likely = likely[(odd | below).all(axis=1)]
    likely = likely[
        ~usual.showed(newest_levels[likely], rows[likely], view.now - duration("odd.SETTLED"))
    ]
    return rows[full], rows[likely], far[:, likely]


def explain(view: View, known: Oddness, scores: Numbers, rows: Rows) -> Explanation:
    """Explain which metrics made the nodes odd, each against before.

    First come those whose return to usual lowers the score most.
    """
    worst = int(rows[np.argmax(scores[rows])])
    scope = view.roster.scope[worst]
    alert = view.alert((Cause.ODD.value,), view.roster.scopes[scope])
    if not scores[worst] and alert:
        return _as_before(alert.anomaly)
    guilty = _guilty(view, known, worst, float(scores[worst]))
    strange = rows[scores[rows] > 0]
    levels_now, usual = (
        median(np.ascontiguousarray(levels.T))
        for levels in (_levels(view, strange, 0), known.usual.scale.middle[strange])
    )
    changes = []
    for i in guilty:
        # Traffic as it is at the utilization of now.
        work = float(levels_now[0]) if TRAFFIC.start <= i < TRAFFIC.stop else 1.0
        level, before = _IN_WORDS[i](work * levels_now[i]), _IN_WORDS[i](work * usual[i])
        changes.append(f"{WORDS[i]} {level} instead of {before}")
    evidence = list(changes)

    same_scope = view.roster.scope == view.roster.scope[rows[0]]
    calm = same_scope & ~np.isnan(known.usual.full) & view.executing[:, -1]
    calm[rows] = False
    if calm.any():
        nodes = counted(int(calm.sum()), "other node")
        evidence.append(f"no such change on {nodes} of the cluster that are working")
    for name, far in zip(COSTS, known.costs[worst], strict=True):
        if abs(far) >= NOTABLE:
            cost = f"{name} cost {'more' if far > 0 else 'less'} than in the week before"
            evidence.append(f"in the newest hours of the bill {cost}")

    work_now = (
        f"{view.gauge(strange)} is as before ({percent(levels_now[0])}, usual {percent(usual[0])})"
    )
    return Explanation(
        why=f"An odd combination on {counted(len(rows), 'node')} in the middle of a job:"
        f" {work_now}, but {', '.join(changes)}.",
        value=float(scores[worst]),
        unit="score",
        usual=(0.0, float(known.model.highest[scope])),
        evidence=tuple(evidence),
        **belief("combination_odd", float(scores[worst])),
        metric=METRICS[guilty[0]],
    )


def _guilty(view: View, known: Oddness, worst: int, score: float) -> list[int]:
    """Return the metrics of a node that are far from usual.

    First comes the one whose return lowers the score most. A node receives over EFA the traffic
    that the others send, so only one of both is named.
    """
    row = np.array([worst])
    far = distances(_levels(view, row, 0), known.usual.scale.at(row))[0]
    without = np.repeat(far[None, :], len(METRICS), axis=0)
    np.fill_diagonal(without, 0.0)
    relief = score - known.score(without, np.repeat(row, len(METRICS)))
    guilty = [int(i) for i in np.argsort(-relief, kind="stable") if abs(far[i]) >= NOTABLE]
    return [i for i in guilty if not (i == _RECEIVED and _RECEIVED - 1 in guilty)][:LISTED]


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


def _half(view: View) -> int:
    """Return half of `odd.for` in steps: both halves must be odd."""
    return max(1, view.window.steps(view.policy.duration("odd.for") / 2))


def _levels(view: View, rows: Rows, halves_ago: int) -> Floats:
    """Return the nodes' medians over a half of `odd.for`, (len(rows), n_metrics).

    0 is the newest half.
    """
    half, n_steps = _half(view), view.window.n_steps
    cut = slice(max(0, n_steps - (halves_ago + 1) * half), max(1, n_steps - halves_ago * half))
    all_nodes = 4 * len(rows) >= view.n  # views of all cost less than copies of many
    chosen = slice(None) if all_nodes else rows
    levels = median_of(np.stack([_cut(view, i, chosen, cut) for i in range(len(METRICS))], axis=2))
    in_proportion(levels.T)
    return levels[rows] if all_nodes else levels


def _cut(view: View, metric: int, rows: Rows | slice, steps: slice) -> Floats:
    return (view.utilization if metric == 0 else view.metric(METRICS[metric]))[rows, steps]


def _limits(view: View, model: OddModel) -> Numbers:
    """Return for each node the score that opens (or, lower, keeps open) an odd alert, (n,).

    It lies over all that the scope showed lately, and over an alert about the node of the last day.
    """
    by_scope = []
    for scope, labels in enumerate(view.roster.scopes):
        limit = model.threshold(scope, view.policy.at(labels).number("odd.false_alerts_per_week"))
        current = view.open.get((Cause.ODD.value, labels))
        if current:
            # An open alert stays a little under it, for a while.
            limit = limit - STAY if view.now - current.opened < REST else 1.0
        by_scope.append(limit)
    limits = np.array(by_scope)[view.roster.scope]
    for alert in view.alerts:
        if alert.cause is Cause.ODD and alert.closed and view.now - alert.closed < REST:
            rows = view.roster.rows_of(alert.anomaly.things)
            limits[rows] = np.maximum(limits[rows], alert.anomaly.score + STAY)
    return limits
