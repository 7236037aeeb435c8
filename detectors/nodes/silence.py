"""Find running nodes that stopped reporting: no reading is neither zero nor an end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bot.model.anomaly import Anomaly
from bot.model.causes import Cause
from bot.model.fleet import Instance
from bot.model.labels import Labels
from bot.model.money import counted
from detectors.arrays import Mask, Numbers, Rows
from detectors.roster import scope_of
from detectors.rule import Explanation, RuleMatch, Subject, anomaly_of, no_match
from detectors.view import LOOKBACK, View
from detectors.words import lasted


def find(view: View) -> RuleMatch:
    """Return running nodes silent for `no_data.for` although they reported before (or have peers that do)."""
    if not view.silent.any():
        return no_match(view)
    roster, steps = view.roster, view.silent_steps
    reported = (steps < view.window.n_steps) | (
        _ever(view) if (steps >= view.window.n_steps).any() else False
    )
    peers = _share_reporting(view)[roster.scope] > 0
    expected = reported | (
        roster.accelerated & peers & (view.age_seconds >= LOOKBACK.total_seconds())
    )
    settled = view.age_seconds >= view.steps("no_data.for") * view.window.step.total_seconds() + 600
    hit = (
        roster.running
        & expected
        & settled
        & view.silent
        & ~view.unwatched
        & view.limits.on("no_data.on")
    )
    if (
        view.reading.gaps
    ):  # a cluster that is silent as a whole may just be the part of the source that was not read
        hit &= peers | ~np.fromiter(
            map(view.reading.hidden, roster.labels), bool, len(roster.labels)
        )
    if view.reading.unread:  # nobody asked these nodes, or got an answer: that is not their silence
        hit &= ~np.isin(roster.ids, sorted(view.reading.unread))
    return RuleMatch(hit, steps.astype(np.float64))


def explain(view: View, match: RuleMatch, rows: Rows) -> Explanation:
    """Explain how long the nodes have been silent, and whether the hosts themselves still report."""
    longest = view.now - view.since(match.steps, rows, Cause.NO_DATA.value)
    alive = ~np.isnan(view.recent(view.cpu)[rows])
    host = (
        "the hosts still report: the Neuron agent is down"
        if alive.all()
        else "nothing else reports either"
    )
    if alive.any() and not alive.all():
        host = f"{int(alive.sum())} of {len(rows)} hosts still report"
    return Explanation(
        why=f"No Neuron metrics from {counted(len(rows), 'running node')} for {lasted(longest)}; {host}.",
        value=longest.total_seconds(),
        unit="seconds",
        score=0.9,
        evidence=(host,),
    )


def with_mute(view: View, anomalies: list[Anomaly]) -> list[Anomaly]:
    """Add instances that never reported at all, where others of their cluster do."""
    for scope in {scope_of(i.labels) for i in view.roster.mute if _overdue(view, i)}:
        rows = view.rows_in(scope)
        if not view.limits.on("no_data.on")[rows].any() or not view.eligible[rows].any():
            continue
        ids = sorted(
            i.id for i in view.roster.mute if scope_of(i.labels) == scope and _overdue(view, i)
        )
        same = [a for a in anomalies if a.scope == scope]
        if same:
            anomalies[anomalies.index(same[0])] = replace(same[0], things=(*same[0].things, *ids))
        else:
            anomalies.append(_never(view, scope, ids))
    return sorted(anomalies, key=lambda a: str(a.scope))


def _never(view: View, scope: Labels, ids: list[str]) -> Anomaly:
    instances = [view.reading.inventory.instances[i] for i in ids]
    start = max(view.now - LOOKBACK, min(i.launched_at for i in instances))
    explanation = Explanation(
        why=f"{counted(len(ids), 'running node')} never reported Neuron metrics although others of the cluster do.",
        value=(view.now - start).total_seconds(),
        unit="seconds",
        score=0.8,
    )
    subject = Subject(scope, Labels.shared(i.labels for i in instances), tuple(ids), start)
    return anomaly_of(view, Cause.NO_DATA, subject, explanation)


def _overdue(view: View, instance: Instance) -> bool:
    return (
        instance.id not in view.reading.unread
        and view.now - instance.launched_at
        >= LOOKBACK + view.policy.at(scope_of(instance.labels)).duration("no_data.for")
    )


def _ever(view: View) -> Mask:
    """Tell which nodes reported within the last day, sampled; (n,)."""
    day = view.whole.values[:, -view.whole.steps(24 * LOOKBACK) :: 3]
    return np.asarray((~np.isnan(day)).any(axis=(1, 2)))


def _share_reporting(view: View) -> Numbers:
    """Return the share of each scope's running nodes that report, (n_scopes,)."""
    roster = view.roster
    speaking = np.bincount(roster.scope[view.eligible], minlength=len(roster.scopes))
    return np.asarray(speaking / np.maximum(roster.sizes, 1))
