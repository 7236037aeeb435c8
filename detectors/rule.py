"""Define a rule about nodes: whom it matches, how it explains them, and their anomaly."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Container, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from importlib.resources import files
from typing import Any, TypedDict

import numpy as np

from bot.model.anomaly import Anomaly, AtRisk, BilledExcess
from bot.model.causes import CAUSES, Cause, Severity
from bot.model.labels import Labels
from bot.model.window import Window
from detectors.jobs import incidents
from detectors.numbers import Mask, Numbers, Rows, placed
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

    def within(self, mask: Mask) -> RuleMatch:
        """Return the match without the nodes outside a mask, (n,)."""
        return replace(self, hit=self.hit & mask)

    def spread(self, rows: Rows, n: int) -> RuleMatch:
        """Return the match among `n` nodes of which its own are at `rows`; it is about no other."""
        arrays: dict[str, Any] = {
            name: None if x is None else placed(x, rows, n, none=name == "steps")
            for name, x in vars(self).items()
        }
        return RuleMatch(**arrays)


@lru_cache(maxsize=8)
def no_match(n: int) -> RuleMatch:
    """Return the match of a rule that is about none of `n` nodes, as most are at most ticks.

    Nobody may write into its arrays.
    """
    none = RuleMatch(np.zeros(n, dtype=bool), np.ones(n))
    none.hit.flags.writeable = none.steps.flags.writeable = False
    return none


@dataclass(frozen=True)
class Sign:
    """Give the weight of a sign for a cause: a row of `signs.csv`."""

    cause: Cause
    sign: str
    weight: float
    score: float
    """How strange a stretch with the sign is, 0 where the rule measures it."""
    unless: str
    """Another sign that explains this one away, "" where none does."""
    meaning: str
    source: str


_TABLE = (files("detectors") / "signs.csv").read_text(encoding="utf-8")
SIGNS = tuple(
    Sign(Cause(cause), sign, float(weight), float(score or 0), unless, meaning, source)
    for cause, sign, weight, score, unless, meaning, source in list(
        csv.reader(_TABLE.splitlines())
    )[1:]
)


def believed(present: Set[str], possible: Container[Cause] = CAUSES) -> list[tuple[Cause, float]]:
    """Return the causes that the signs present speak for, each with its share of belief.

    The likeliest is first. Each sign adds its weight to its cause, unless another one explains it
    away. Where the weights are less than 1 together, the difference is for what no row knows.
    """
    weights: dict[Cause, float] = {}
    for row in SIGNS:
        if row.sign in present and row.unless not in present and row.cause in possible:
            weights[row.cause] = weights.get(row.cause, 0.0) + row.weight
    total = max(1.0, sum(weights.values()))
    ranked = sorted(weights.items(), key=lambda belief: -belief[1])
    return [(cause, round(weight / total, 2)) for cause, weight in ranked]


class Belief(TypedDict):
    """Hold how strange a stretch is, and how sure its cause, as an `Explanation` has them."""

    score: float
    confidence: float
    runners_up: tuple[tuple[Cause, float], ...]


def belief(sign: str, score: float | None = None) -> Belief:
    """Return the belief in the cause that a sign alone speaks for."""
    (_, confidence), *runners_up = believed({sign})
    if score is None:
        score = next(row.score for row in SIGNS if row.sign == sign)
    return Belief(score=score, confidence=confidence, runners_up=tuple(runners_up))


@dataclass(frozen=True)
class Explanation:
    """Explain an anomaly: its symptom, evidence and certainty, and the steps to try."""

    why: str
    value: float
    unit: str
    cause: Cause | None = None
    """The cause where it is a nearer one than the rule's own."""
    usual: tuple[float, float] | None = None
    by_value: bool = False
    """Whether the value itself tells: within what is usual it tells nothing."""
    score: float = field(kw_only=True)
    evidence: tuple[str, ...] = ()
    confidence: float = field(kw_only=True)
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
    labels: Labels = field(default_factory=Labels)
    """What the evidence tells of whose trouble it is, where the nodes do not."""

    @property
    def contradicts_itself(self) -> bool:
        """Return whether the value that tells lies within what is said to be usual."""
        low, high = self.usual or (math.inf, math.inf)
        return self.by_value and low <= self.value <= high


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


def rules_of(cause: Cause) -> tuple[str, ...]:
    """Return the rules whose open alert a cause goes on with: those of its family, else its own."""
    family = cause.facts.family
    return family.rules if family else (cause.value,)


def anomaly_of(view: View, cause: Cause, subject: Subject, explanation: Explanation) -> Anomaly:
    """Return the anomaly of a subject.

    Where an alert about it is open, it keeps that alert's rule and start.
    """
    cause = explanation.cause or cause
    facts, hours = cause.facts, explanation.lost_hours
    family = rules_of(cause) if explanation.family is None else explanation.family
    alert = view.alert((cause.value, *family), subject.scope)
    start = alert.anomaly.window.start if alert else subject.start
    suggestions, metric = explanation.suggestions, explanation.metric
    return Anomaly(
        rule=alert.anomaly.rule if alert else cause.value,
        cause=cause,
        scope=subject.scope,
        labels=explanation.labels.merge(subject.labels),
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
    """Yield one anomaly for each incident that has nodes in the match.

    One that turns out to have another cause is left out where that is switched off. None begins
    whose own sentence says that it is as usual.
    """
    for _, nodes in view.roster.by_scope(match.hit):
        for incident in incidents(view, rules_of(cause), nodes, match.steps):
            rows = speaking = incident.rows
            if match.kept is not None and not match.kept[rows].all():
                speaking = rows[~match.kept[rows]]
            explanation = explain(view, match, speaking)
            on = view.on(f"{explanation.cause or cause}.on")[rows[0]]
            if on and (incident.alert or not explanation.contradicts_itself):
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

    scope = scope or roster.scopes[roster.scope[rows[0]]]
    since = match.wasted if match.wasted_since is None else match.wasted_since

    # How many times as long as an open alert was not seen each node is in its state. 1 for its
    # nodes: what they lost before is counted. A node that joins lost since its own onset.
    times, alert = np.ones(len(rows)), view.alert(rules_of(cause), scope)
    if alert and view.now > alert.seen:
        joining = ~np.isin(rows, view.members(alert))
        unseen = (view.now - alert.seen) / view.window.step
        times[joining] = np.maximum(1, match.steps[rows][joining] / unseen)
    if match.wasted_since is None and (times == 1).all():
        since = None

    def shares(values: Numbers | None, times: Numbers | float = 1.0) -> tuple[float, ...]:
        """Return the shares of the nodes in their order; empty where nothing is wasted."""
        if values is None:
            return ()
        clipped = np.clip(values[rows], 0, 1) * times
        return tuple(float(round(clipped[i], 4)) for i in order)

    subject = Subject(
        scope=scope,
        labels=Labels.shared(roster.labels[i] for i in rows),
        things=tuple(roster.ids[rows[i]] for i in order),
        start=view.time_of(float(match.steps[rows].max())),
        wasted_shares=shares(match.wasted),
        shares_since=shares(since, times),
        wide=bool(1 < len(rows) >= roster.sizes[roster.scope[rows[0]]] / 2),
    )
    return anomaly_of(view, cause, subject, explanation)
