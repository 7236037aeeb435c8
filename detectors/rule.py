"""State what one rule found among the nodes, before it is put in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

import numpy as np

from bot.model.anomaly import Anomaly, Cause, Severity
from bot.model.labels import Labels
from bot.model.window import Window
from detectors.arrays import Mask, Numbers, Rows
from detectors.view import View


@dataclass(frozen=True)
class RuleMatch:
    """Hold which nodes a rule is about (n,), since how many steps (n,), and what share of each is wasted (n,)."""

    cause: Cause
    hit: Mask
    steps: Numbers
    wasted: Numbers | None = None


def no_match(view: View, cause: Cause) -> RuleMatch:
    """Return what a rule found that is about no node."""
    return RuleMatch(cause, np.zeros(view.n, dtype=bool), np.ones(view.n))


@dataclass(frozen=True)
class Explanation:
    """Hold what a rule says of the nodes of one scope."""

    why: str
    value: float
    unit: str
    cause: Cause | None = None
    usual: tuple[float, float] | None = None
    score: float = 0.9
    evidence: tuple[str, ...] = ()
    confidence: float = 0.95
    runners_up: tuple[tuple[Cause, float], ...] = ()
    suggestions: tuple[str, ...] = ()
    metric: str = "neuroncore_utilization_ratio"
    kind: str = "node"
    severity: Severity = Severity.WARNING
    lost_hours: Mapping[str, float] = field(default_factory=dict)
    """Node-hours of each instance that were lost before this was told."""
    family: tuple[str, ...] = field(default=())
    """Rules whose open alert in the same scope goes on under its own name, though the cause is now seen better."""


def anomaly_of_nodes(view: View, found: RuleMatch, rows: Rows, words: Explanation) -> Anomaly:
    """Return the anomaly of the nodes at `rows`, all of one scope, the worst first."""
    roster = view.roster
    scope = roster.scopes[roster.scope[rows[0]]]
    cause = words.cause or found.cause
    known = view.alert((cause.value, *words.family), scope)
    wasted = np.zeros(len(rows)) if found.wasted is None else np.clip(found.wasted[rows], 0, 1)
    order = sorted(range(len(rows)), key=lambda i: (-round(float(wasted[i]), 4), roster.ids[rows[i]]))
    start = known.anomaly.window.start if known else view.time_of(float(found.steps[rows].max()))
    return Anomaly(
        rule=known.anomaly.rule if known else cause.value,
        cause=cause,
        scope=scope,
        labels=Labels.shared(roster.labels[i] for i in rows),
        things=tuple(roster.ids[rows[i]] for i in order),
        window=Window(min(start, view.now), view.now),
        score=float(min(1.0, max(0.0, words.score))),
        value=words.value,
        unit=words.unit,
        usual=words.usual,
        why=words.why,
        evidence=words.evidence,
        confidence=words.confidence,
        runners_up=words.runners_up,
        suggestions=words.suggestions,
        wasted_shares=() if found.wasted is None else tuple(float(round(wasted[i], 4)) for i in order),
        lost_hours=tuple(words.lost_hours.get(roster.ids[rows[i]], 0.0) for i in order) if words.lost_hours else (),
        metric=words.metric,
        kind=words.kind,
        severity=words.severity,
    )


def anomaly_of_things(
    view: View,
    cause: Cause,
    scope: Labels,
    labels: Labels,
    things: tuple[str, ...],
    start: datetime,
    words: Explanation,
    wasted: tuple[float, ...] = (),
    usd_per_hour: Decimal | None = None,
) -> Anomaly:
    """Return an anomaly about things that are not nodes: volumes, reservations, runs, lines of the bill."""
    known = view.alert((cause.value, *words.family), scope)
    begun = known.anomaly.window.start if known else start
    return Anomaly(
        rule=known.anomaly.rule if known else cause.value,
        cause=words.cause or cause,
        scope=scope,
        labels=labels,
        things=things,
        window=Window(min(begun, view.now), view.now),
        score=words.score,
        value=words.value,
        unit=words.unit,
        usual=words.usual,
        why=words.why,
        evidence=words.evidence,
        confidence=words.confidence,
        runners_up=words.runners_up,
        suggestions=words.suggestions,
        wasted_shares=wasted,
        usd_per_hour=usd_per_hour,
        metric=words.metric,
        kind=words.kind,
        severity=words.severity,
    )
