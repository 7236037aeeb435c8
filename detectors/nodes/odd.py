"""Find odd combinations of metrics that no rule knows, by an isolation forest: rare by design.

How strange work and its costs are, and from which score an alert is raised, is learnt once a day.
The bill comes late: a tick sees the newest hours that have arrived, held against the week before
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from typing import NamedTuple, Protocol

import numpy as np

from bot.model.anomaly import Anomaly
from bot.model.causes import Cause
from bot.model.frame import Frame
from bot.model.money import counted
from detectors.forest import (
    COMBINED,
    COSTS,
    JOB_HOURS,
    METRICS,
    NOTABLE,
    SAMPLE_EVERY,
    TRAFFIC,
    WORDS,
    CostHistory,
    JobUsual,
    Scale,
    distances,
    fit,
    in_proportion,
    median_of,
    samples_of,
    stops,
    usual_of_samples,
)
from detectors.jobs import AROUND, LIKE, roles_of
from detectors.numbers import (
    LISTED,
    WEEK,
    Floats,
    Mask,
    Numbers,
    Rows,
    count,
    duration,
    narrowed,
    number,
    percent,
    placed,
    rate,
    seconds,
    size,
    sustained,
)
from detectors.roster import Limits, Roster
from detectors.rule import Explanation, RuleMatch, anomalies_of, belief
from detectors.usual import (
    MEMORY,
    RESERVED,
    SAME,
    Past,
    StrangeSpan,
    median,
    off,
    strange_spans,
    worked_of,
)
from detectors.view import View

BLOCK = duration("odd_model.BLOCK")
LATE = duration("odd_model.LATE")
MOST_ROWS = count("odd_model.MOST_ROWS")
LEAST_SCORE = number("odd_model.LEAST_SCORE")


class Scorer(Protocol):
    """Tell how strange rows are."""

    def score(self, rows: Floats) -> Numbers:
        """Return the strangeness of each row (n, n_features), (n,); higher is stranger."""


Grow = Callable[[Floats], Scorer]
"""Learns from rows what is usual."""


@dataclass(frozen=True)
class OddModel:
    """Hold the forest, the nodes' usual costs, and the tail of each scope's strangest blocks."""

    forest: Scorer
    live: Mask
    """The features that ever differ in this fleet, (n_features,).

    A metric that nobody reads only blurs the others.
    """
    costs: Scale
    base: Numbers
    """The score above which a block counts as strange, (n_scopes,)."""
    excess: Numbers
    """Mean excess over the base of the blocks above it, (n_scopes,)."""
    weekly: Numbers
    """How many such blocks a week has, (n_scopes,)."""
    highest: Numbers
    """The highest score of the recent past, (n_scopes,)."""

    def score(self, far: Floats) -> Numbers:
        """Return how strange rows of distances are, (n, n_features) -> (n,)."""
        return self.forest.score(far[:, self.live])

    def threshold(self, scope: int, per_week: float) -> float:
        """Return the score that is exceeded `per_week` times a week in a scope.

        By the exponential tail of its blocks (peaks over threshold): rate(s) = weekly * exp(-(s -
        base) / excess). Never under the scores of the recent past.
        """
        excess = self.excess[scope]
        tail = self.base[scope] + excess * np.log(max(1.0, self.weekly[scope] / per_week))
        return float(min(0.999, max(LEAST_SCORE, tail, self.highest[scope] + 0.5 * excess)))


class Block(NamedTuple):
    """Hold the samples of full work of some hours: whose they are, and how far from usual.

    `far` are (k, n_metrics), by the usual of each node's job before.
    """

    nodes: Rows
    far: Floats
    lasting: Rows
    """Which of them show a combination that lasts, and that the job had not shown before."""


Blocks = dict[tuple[datetime, object, bytes], Block]
"""By their begin, and by what of the strange spans and thresholds they were learnt with."""


def learn(
    costs: CostHistory, roster: Roster, blocks: Iterable[tuple[datetime, Block]], grow: Grow = fit
) -> OddModel | None:
    """Learn from blocks of the past with their begins; None while there is too little of it."""
    # Of each block the rows to learn from and the new combinations: all of it would not fit.
    rows, lasting = [], []
    for begin, block in blocks:
        far = np.concatenate([block.far, costs.at(begin)[block.nodes]], axis=1)
        rows.append(far)
        lasting.append((block.nodes[block.lasting], far[block.lasting]))
    n_rows = sum(map(len, rows))
    if n_rows < count("odd_model.LEAST_ROWS"):
        return None
    live = np.logical_or.reduce([(far != 0).any(axis=0) for far in rows])
    stride, before = (
        -(-n_rows // MOST_ROWS),
        accumulate(map(len, rows), initial=0),
    )
    sample = [far[-n % stride :: stride, live] for n, far in zip(before, rows, strict=False)]
    forest = grow(np.concatenate(sample))

    # Each scope's highest score in each block, of combinations that last, (n_scopes, n_blocks).
    maxima = np.zeros((len(roster.scopes), len(lasting)))
    for highest, (node, far) in zip(maxima.T, lasting, strict=True):
        if len(node):
            np.maximum.at(highest, roster.scope[node], forest.score(far[:, live]))

    base = np.maximum(LEAST_SCORE, np.median(maxima, axis=1))
    above = maxima > base[:, None]
    n_above = np.maximum(1, above.sum(axis=1))
    return OddModel(
        forest,
        live,
        costs.usual,
        base=base,
        excess=np.where(above, maxima - base[:, None], 0).sum(axis=1) / n_above,
        weekly=n_above / (len(lasting) * (BLOCK / WEEK)),
        highest=np.maximum(base, maxima.max(axis=1, initial=0)),
    )


def combined(far: Floats) -> Mask:
    """Return which rows of distances are far from the usual in several metrics at once.

    A cost alone is the bill's own story, and a node that is busier than usual is nothing strange.
    """
    strange = np.abs(far[..., : len(METRICS)]) >= NOTABLE
    strange[..., 0] &= far[..., 0] < 0
    return np.asarray(strange.sum(axis=-1) >= COMBINED)


def blocks_of(
    whole: Frame, limits: Limits, past: Past, earlier: Blocks | None = None
) -> Iterator[tuple[datetime, Block]]:
    """Yield the blocks of the recent past with their begin, the oldest first.

    Those of `earlier` are not learnt again; where it is given, all are kept in it.
    """
    floor = limits.number("idle.below")
    for ago in range(duration("odd_model.RECENT") // BLOCK, 0, -1):
        begin = past.anchor - ago * BLOCK
        if begin - whole.start < SAMPLE_EVERY:
            continue
        part = whole.until(begin + BLOCK).since(begin - JOB_HOURS)
        clipped = (
            span._replace(start=max(span.start, part.start), end=min(span.end, part.end))
            for span in past.strange
        )
        strange = tuple(span for span in clipped if span.start < span.end)
        key = begin, strange, floor.tobytes()
        block = (earlier or {}).get(key) or _block_of(begin, part, limits.roster, floor, strange)
        if earlier is not None:
            earlier[key] = block
        yield begin, block


def _block_of(
    begin: datetime, part: Frame, roster: Roster, floor: Numbers, strange: tuple[StrangeSpan, ...]
) -> Block:
    """Return the block that begins within a part of the history."""
    stride, values = part.steps(SAMPLE_EVERY), samples_of(part, roster, strange)

    # Samples after a stop are another job's.
    before = int((begin - part.start) // part.step)
    job = stops(part, floor)
    other = np.zeros(values.shape[:2], dtype=bool)
    if job.any():
        first = np.arange(values.shape[1]) * stride
        last = np.minimum(first + stride, part.n_steps) - 1
        current = job[:, [max(0, before - 1)]]
        other = (job[:, first] != current) | (job[:, last] != current)
    n_before = max(1, min(values.shape[1], before // stride))
    usual = usual_of_samples(begin, values[:, :n_before], floor, other[:, :n_before])
    values = np.where(other[:, n_before:, None], np.nan, values[:, n_before:])
    values = values.astype(np.float32, copy=False)

    # As in a tick, what the job had shown before counts for nothing, however strange.
    far = distances(values, usual.scale)
    full = values[:, :, 0] >= usual.full[:, None]
    lasts = sustained(full & combined(far), count("odd_model.LASTING"))
    node, sample = lasts.nonzero()
    lasts[node, sample] = ~usual.showed(values[node, sample], node, begin)
    return Block(full.nonzero()[0], far[full], np.flatnonzero(lasts[full]))


REST = duration("odd.REST")
SETTLED = duration("odd.SETTLED")
STAY = number("odd.STAY")
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


def odd_anomalies(
    view: View, known: Oddness, explained: Mask, falling: Callable[[], Mask]
) -> Iterator[Anomaly]:
    """Yield one anomaly for each scope with nodes stranger than it has lately been.

    Nodes that a rule explains are left out, and those that are `falling`: the rules are about to
    name them.
    """
    working = view.executing[:, -_half(view) * 2 :].all(axis=1)
    possible = view.eligible & ~explained & working & view.on("odd.on")
    if not view.opened(Cause.ODD.value):
        rows = np.flatnonzero(possible)
        newest, scale = _levels(view, rows, 0), known.usual.scale
        far = distances(newest, scale if len(rows) == view.n else scale.at(rows))
        possible[rows] = (newest[:, 0] >= known.usual.full[rows]) & combined(far)
        possible = narrowed(possible, lambda: ~falling())
        if not possible.any():  # as at most ticks: what follows looks at hours of every node
            return
    else:
        possible &= ~falling()

    # A node that has stopped since the usual of its job was learnt may run another job.
    since = view.window.since(known.usual.end - AROUND)
    stopped = (stops(since, view.number("idle.below"))[:, -1:] > 0).any(axis=1)
    # So does one on which more or fewer cores were reserved, for longer than a restart takes.
    hours = view.whole.last(JOB_HOURS)
    reserved = hours.of(RESERVED)
    changed = np.abs(reserved - reserved[:, -1:]) > 0.5
    changed &= worked_of(hours) > view.number("idle.below")[:, None]  # a rest is no other job
    stopped |= changed.sum(axis=1) > hours.steps(AROUND)
    stopped |= _of_another_job(view, known.usual)
    judged, combining, far = _combinations(view, known.usual, np.flatnonzero(possible & ~stopped))
    scores = np.zeros(view.n)
    if len(combining):
        scores[combining] = np.minimum(*(known.score(half, combining) for half in far))
    hit = narrowed(scores > 0, lambda: scores > _limits(view, known.model))
    new = hit & ~view.held_open(Cause.ODD.value)
    hit &= ~narrowed(new, lambda: _returned(view, known.usual, new))
    hit &= ~narrowed(hit, lambda: _like_peers(view, known.usual, hit))

    # Nodes of an open alert that cannot be judged now (a pause, an evaluation) have not recovered,
    # unless their job has stopped or its hours before are no longer known.
    if view.opened(Cause.ODD.value):
        unjudged = view.held_open(Cause.ODD.value) & view.eligible
        unjudged &= ~np.isnan(known.usual.full) & ~stopped & ~explained
        unjudged[judged] = False
        for alert in view.opened(Cause.ODD.value):
            if view.now - alert.opened >= REST:
                unjudged[view.members(alert)] = False
        hit = hit | unjudged

    match = RuleMatch(hit, np.full(view.n, 2.0 * _half(view)))
    yield from anomalies_of(
        view, Cause.ODD, match, lambda view, _, rows: explain(view, known, scores, rows)
    )


def spans_of_scopes(view: View, until: datetime) -> Iterator[StrangeSpan]:
    """Yield the spans of odd alerts up to a time, each about all nodes of its scope.

    A node that the alert missed, or let go, showed the same oddness: nobody may learn from it how
    odd work is.
    """
    alerts = [a for a in view.alerts if a.cause is Cause.ODD and a.opened <= until]
    for alert, span in zip(alerts, strange_spans(alerts, until), strict=True):
        nodes = view.rows_in(alert.anomaly.scope)
        # One that ends early, as after a restart nobody knows the hours before, may go on unseen.
        end = max(span.end, min(alert.opened + REST, until))
        yield span._replace(things=tuple(view.roster.ids[row] for row in nodes), end=end)


def _combinations(view: View, usual: JobUsual, rows: Rows) -> tuple[Rows, Rows, Floats]:
    """Return which nodes at `rows` can be judged, and which show a state that is new in their job.

    And the distances of the latter, (2, n, n_metrics). Both halves of `odd.for` must show it at
    full work (a slower job is another story), and every step of full work in them: an evaluation is
    shorter.
    """
    newest_levels, before = (_levels(view, rows, halves_ago) for halves_ago in (0, 1))
    full = (newest_levels[:, 0] >= usual.full[rows]) & (before[:, 0] >= usual.full[rows])
    scale = usual.scale.at(rows)
    far = np.stack([distances(newest_levels, scale), distances(before, scale)])
    likely = np.flatnonzero(full & combined(far).all(axis=0))

    steps, nodes = slice(-2 * _half(view), None), rows[likely]
    levels = np.stack([_cut(view, i, nodes, steps) for i in range(len(METRICS))])
    in_proportion(levels)
    below = ~(levels[0] >= usual.full[nodes][:, None])
    odd = combined(distances(np.moveaxis(levels, 0, 2), usual.scale.at(nodes)))
    likely = likely[(odd | below).all(axis=1)]
    likely = likely[~usual.showed(newest_levels[likely], rows[likely], view.now - SETTLED)]
    return rows[full], rows[likely], far[:, likely]


def _returned(view: View, usual: JobUsual, asked: Mask) -> Mask:
    """Return which nodes asked for are in a state that their days before have shown, (n,).

    Hours of a trouble that crept in are taken as usual until it is told: its end is no oddness.
    """
    rows = np.flatnonzero(asked)
    past = view.over(view.whole.until(view.now - SETTLED), rows)
    samples = samples_of(past.whole, past.roster, strange_spans(view.alerts, view.now))
    before = JobUsual(past.whole.end, usual.scale.at(rows), usual.full[rows], samples)
    returned = before.showed(_levels(view, rows, 0), np.arange(len(rows)), past.whole.end)
    return placed(returned, rows, view.n)


def _of_another_job(view: View, usual: JobUsual) -> Mask:
    """Return which nodes name another job than the one that their usual is of, (n,).

    It is of the job that most nodes name whose work held as much memory, and holds other memory than
    the node does now.
    """
    moved, memory, jobs = view.nobody(), usual.scale.middle[:, METRICS.index(MEMORY)], view.jobs
    changed = view.eligible & (jobs != "") & (off(view.recent(view.memory), memory) > SAME)
    for _, rows in view.roster.by_scope(changed):
        for row in rows.tolist():
            alike = (off(memory, memory[row]) <= LIKE) & (
                view.roster.scope == view.roster.scope[row]
            )
            moved[row] = 2 * (alike & (jobs == jobs[row])).sum() < (alike & (jobs != "")).sum()
    return moved


def _like_peers(view: View, usual: JobUsual, asked: Mask) -> Mask:
    """Return which nodes asked for look as others of their job do, (n,).

    Servers of one role share the requests, so what all at work show now is load. A node that trains
    has come to another job of its scope where it shows what the nodes that name it usually do.
    """
    alike, roles = view.nobody(), roles_of(view.roster, view.usual_of(MEMORY))
    for row in np.flatnonzero(asked).tolist():
        serves = view.roster.inference[row]
        same = roles == roles[row] if serves else (view.jobs == view.jobs[row]) & (view.jobs != "")
        same &= view.eligible & (view.roster.scope == view.roster.scope[row])
        same &= view.executing[:, -1]
        same[row] = False
        peers = np.flatnonzero(same)
        if len(peers):
            level = _levels(view, np.array([row]), 0)
            middle = _levels(view, peers, 0) if serves else usual.scale.middle[peers]
            scale = Scale(median(middle.T)[None], median(usual.scale.spread[peers].T)[None])
            alike[row] = not combined(distances(level, scale))[0]
    return alike


def explain(view: View, known: Oddness, scores: Numbers, rows: Rows) -> Explanation:
    """Explain which metrics made the nodes odd, each against before.

    First come those whose return to usual lowers the score most.
    """
    worst = int(rows[np.argmax(scores[rows])])
    scope, alert = view.roster.scope[worst], view.alert_of((Cause.ODD.value,), rows)
    if not scores[worst] and alert:
        # It stays as it was while its nodes cannot be judged.
        earlier = alert.anomaly
        return Explanation(
            why=earlier.why,
            value=earlier.value,
            unit=earlier.unit,
            usual=earlier.usual,
            score=earlier.score,
            evidence=earlier.evidence,
            confidence=earlier.confidence,
            suggestions=earlier.suggestions,
            metric=earlier.metric,
            severity=earlier.severity,
        )
    strange, scale = rows[scores[rows] > 0], known.usual.scale
    levels_now, usual, spread = (
        median(np.ascontiguousarray(levels.T))
        for levels in (_levels(view, strange, 0), scale.middle[strange], scale.spread[strange])
    )
    # Traffic in words is as it was sent, not for each unit of utilization.
    spread[TRAFFIC] *= usual[0]
    for levels in (levels_now, usual):
        levels[TRAFFIC] *= levels[0]
    as_before = np.abs(levels_now - usual) < number("forest.LIKE") * spread
    guilty = _guilty(view, known, worst, float(scores[worst]))
    guilty = [i for i in guilty if not as_before[i]] or guilty[:1]
    if not as_before[0] and 0 not in guilty:
        guilty.append(0)
    changes = [
        f"{WORDS[i]} {_IN_WORDS[i](levels_now[i])} instead of {_IN_WORDS[i](usual[i])}"
        for i in guilty
    ]
    evidence = list(changes)

    same_scope = view.roster.scope == view.roster.scope[rows[0]]
    calm = same_scope & ~np.isnan(known.usual.full) & view.executing[:, -1]
    calm[rows] = False
    if calm.any():
        nodes = counted(int(calm.sum()), "other node")
        evidence.append(f"no such change on {nodes} of the cluster that are working")
    for name, far in zip(COSTS, known.costs[worst], strict=True):
        if abs(far) >= NOTABLE:
            cost = f"{name} cost {'more' if far >= NOTABLE else 'less'} than in the week before"
            evidence.append(f"in the newest hours of the bill {cost}")

    work, before = percent(levels_now[0]), percent(usual[0])
    work_now = f"{view.gauge(strange)} is as before ({work}, usual {before}), but "
    subject = f"{counted(len(rows), 'node')} in the middle of a job"
    if view.roster.inference[rows].all():
        subject = counted(len(rows), "server")
    return Explanation(
        why=f"An odd combination on {subject}:"
        f" {work_now if as_before[0] else ''}{', '.join(changes)}.",
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


def _half(view: View) -> int:
    """Return half of `odd.for` in steps: both halves must be odd."""
    return view.window.steps(view.policy.duration("odd.for") / 2)


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
    limits = np.array(
        [
            model.threshold(scope, view.policy.at(labels).number("odd.false_alerts_per_week"))
            for scope, labels in enumerate(view.roster.scopes)
        ]
    )[view.roster.scope]
    for alert in view.opened(Cause.ODD.value):
        # An open alert stays a little under it, for a while, over the nodes of its owner.
        rows, members = view.rows_in(alert.anomaly.scope), view.members(alert)
        rows = rows[view.of_owner(members)[rows]]
        limits[rows] = limits[rows] - STAY if view.now - alert.opened < REST else 1.0
    for alert in view.alerts:
        if alert.cause is Cause.ODD and alert.closed and view.now - alert.closed < REST:
            rows = view.roster.rows_of(alert.anomaly.things)
            limits[rows] = np.maximum(limits[rows], alert.anomaly.score + STAY)
    return limits
