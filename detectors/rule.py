"""Define a rule about nodes: whom it matches, how it explains them, and their anomaly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import lru_cache

import numpy as np

from bot.model.anomaly import Anomaly, AtRisk, BilledExcess
from bot.model.causes import Cause, Severity
from bot.model.labels import Labels
from bot.model.window import Window
from detectors.arrays import Mask, Numbers, Rows
from detectors.jobs import incidents
from detectors.view import View


@dataclass(frozen=True)
class RuleMatch:
    """Hold which nodes a rule is about, since how many steps, and the wasted share of each.

    Arrays are (n,).
    """

    hit: Mask
    steps: Numbers
    wasted: Numbers | None = None
    wasted_since: Numbers | None = None
    """The mean of it since an open alert was last seen, else since the onset.

    None where it does not change.
    """
    kept: Mask | None = None
    """Nodes that stay in a wide incident under a symptom of their own.

    They say nothing of the whole; None = none.
    """


@lru_cache(maxsize=8)
def _no_match(n: int) -> RuleMatch:
    """Return the arrays of most rules at most ticks; nobody may write into them."""
    none = RuleMatch(np.zeros(n, dtype=bool), np.ones(n))
    none.hit.flags.writeable = none.steps.flags.writeable = False
    return none


def no_match(view: View) -> RuleMatch:
    """Return the match of a rule that is about no node."""
    return _no_match(view.n)


@dataclass(frozen=True)
class Explanation:
    """Explain an anomaly: its symptom, evidence and certainty, and the steps to try."""

    why: str
    value: float
    unit: str
    cause: Cause | None = None
    """The cause where it is a nearer one than the rule's own."""
    usual: tuple[float, float] | None = None
    score: float = 0.9
    evidence: tuple[str, ...] = ()
    confidence: float = 0.95
    runners_up: tuple[tuple[Cause, float], ...] = ()
    suggestions: tuple[str, ...] | None = None
    """These and all below: None = as the table of causes has it."""
    metric: str | None = None
    kind: str | None = None
    severity: Severity | None = None
    family: tuple[str, ...] | None = None
    """Rules whose open alert in the same scope goes on under its own name, though another cause is
    now seen better."""
    lost_hours: Mapping[str, float] = field(default_factory=dict)
    """Node-hours of each instance that were lost before this anomaly."""
    at_risk: AtRisk | None = None
    """The work that would be lost, where the evidence tells."""
    suspect: str = ""
    """The instance for which the others wait, "" where none stands out."""


Explain = Callable[[View, RuleMatch, Rows], Explanation]
"""Explains the nodes at some rows, all of one scope."""


@dataclass(frozen=True)
class Rule:
    """Name a cause of trouble in nodes, and how to find its nodes and explain those of a scope."""

    cause: Cause
    find: Callable[[View], RuleMatch]
    explain: Explain
    yields_to_fault: bool = False
    """Whether its matches fold into an older hardware fault of the same scope.

    The peers of a broken device fail with it.
    """


@dataclass(frozen=True)
class Subject:
    """Name the things that an anomaly is about, where, since when, and the money they lose."""

    scope: Labels
    labels: Labels
    things: tuple[str, ...]
    start: datetime
    wasted_shares: tuple[float, ...] = ()
    """Parallel to `things`, each in 0..1."""
    shares_since: tuple[float, ...] = ()
    """The mean of these since the alert was last seen; empty = they were the same throughout."""
    usd_per_hour: Decimal | None = None
    billed: BilledExcess | None = None
    wide: bool = False


def anomaly_of(view: View, cause: Cause, subject: Subject, explanation: Explanation) -> Anomaly:
    """Return the anomaly of a subject.

    Where an alert about it is open, it keeps that alert's rule and start.
    """
    cause = explanation.cause or cause
    facts, hours = cause.facts, explanation.lost_hours
    family = explanation.family or ()
    if explanation.family is None and facts.family:
        family = facts.family.rules
    alert = view.alert((cause.value, *family), subject.scope)
    start = alert.anomaly.window.start if alert else subject.start
    suggestions, metric = explanation.suggestions, explanation.metric
    return Anomaly(
        rule=alert.anomaly.rule if alert else cause.value,
        cause=cause,
        scope=subject.scope,
        labels=subject.labels,
        things=subject.things,
        window=Window(min(start, view.now), view.now),
        score=float(min(1.0, max(0.0, explanation.score))),
        value=explanation.value,
        unit=explanation.unit,
        usual=explanation.usual,
        why=explanation.why,
        evidence=explanation.evidence,
        confidence=explanation.confidence,
        runners_up=explanation.runners_up,
        suggestions=facts.suggestions if suggestions is None else suggestions,
        wasted_shares=subject.wasted_shares,
        shares_since=subject.shares_since,
        usd_per_hour=subject.usd_per_hour,
        lost_hours=tuple(hours.get(thing, 0.0) for thing in subject.things) if hours else (),
        metric=facts.metric if metric is None else metric,
        kind=explanation.kind or facts.about.value,
        severity=explanation.severity or facts.severity,
        billed=subject.billed,
        at_risk=explanation.at_risk,
        wide=subject.wide or bool(alert and alert.anomaly.wide),
        suspect=explanation.suspect,
    )


def anomalies_of(view: View, cause: Cause, match: RuleMatch, explain: Explain) -> Iterator[Anomaly]:
    """Yield one anomaly for each incident that has nodes in the match."""
    family = cause.facts.family
    rules = family.rules if family else (cause.value,)
    for _, nodes in view.roster.by_scope(match.hit):
        for incident in incidents(view, rules, nodes):
            rows = speaking = incident.rows
            if match.kept is not None and not match.kept[rows].all():
                speaking = rows[~match.kept[rows]]
            explanation = explain(view, match, speaking)
            yield anomaly_of_nodes(view, cause, match, rows, explanation, incident.scope)


def anomaly_of_nodes(
    view: View,
    cause: Cause,
    match: RuleMatch,
    rows: Rows,
    explanation: Explanation,
    scope: Labels | None = None,
) -> Anomaly:
    """Return the anomaly of the nodes at `rows`, all of one scope, the worst first.

    Its key is that of an incident's `scope`.
    """
    roster = view.roster
    wasted = np.zeros(len(rows)) if match.wasted is None else np.clip(match.wasted[rows], 0, 1)
    order = sorted(
        range(len(rows)), key=lambda i: (-round(float(wasted[i]), 4), roster.ids[rows[i]])
    )

    def shares(values: Numbers | None) -> tuple[float, ...]:
        """Return the shares of the nodes in their order; empty where nothing is wasted."""
        if values is None:
            return ()
        clipped = np.clip(values[rows], 0, 1)
        return tuple(float(round(clipped[i], 4)) for i in order)

    subject = Subject(
        scope=scope or roster.scopes[roster.scope[rows[0]]],
        labels=Labels.shared(roster.labels[i] for i in rows),
        things=tuple(roster.ids[rows[i]] for i in order),
        start=view.time_of(float(match.steps[rows].max())),
        wasted_shares=shares(match.wasted),
        shares_since=shares(match.wasted_since),
        wide=bool(1 < len(rows) >= roster.sizes[roster.scope[rows[0]]] / 2),
    )
    return anomaly_of(view, cause, subject, explanation)
