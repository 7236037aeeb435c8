"""Find nodes that do not report: silent ones, and ones that never reported at all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bot.model.anomaly import Anomaly
from bot.model.causes import Cause, Severity
from bot.model.fleet import Instance
from bot.model.frame import FramePart
from bot.model.labels import Labels
from bot.model.money import counted
from detectors.numbers import DAY, Rows, count, lasted
from detectors.progress import reporting_scopes
from detectors.roster import scope_of
from detectors.rule import Explanation, RuleMatch, Subject, anomaly_of, belief, no_match
from detectors.usual import worked_of
from detectors.view import LATELY, LOOKBACK, View


def find_silent(view: View) -> RuleMatch:
    """Return running nodes silent for `no_data.for` that reported before, or whose peers report.

    No reading is neither zero nor an end.
    """
    if not view.silent.any():
        return no_match(view.n)
    roster, steps = view.roster, view.silent_steps
    # Whether they reported within the last day, sampled.
    day, reported = view.whole.last(DAY), steps < view.window.n_steps
    unseen = np.flatnonzero(view.silent & ~reported)
    reported[unseen] = (~np.isnan(day.values[unseen, ::3])).any(axis=(1, 2))
    speaking = np.bincount(roster.scope[view.eligible], minlength=len(roster.scopes))
    peers = speaking[roster.scope] > 0
    old = view.launched_before(view.window.steps(LOOKBACK))
    expected = reported | (roster.accelerated & peers & old)
    # A machine that began again is silent since then. An agent has time for two of its readings, the
    # first of which comes a whole one after the start.
    needed = np.maximum(view.steps("no_data.for"), 2 * view.cadence)
    # One that fell silent time and again, and spoke again, has twice the time.
    silent = np.flatnonzero(view.silent)
    turns = np.diff(np.isnan(worked_of(FramePart(day, silent))), axis=1).sum(axis=1)
    needed[silent[turns >= 2 * count("silence.OFTEN")]] *= 2
    up = view.age_seconds / view.window.step.total_seconds()
    settled = (up >= needed + view.cadence - 1) & (steps >= needed)
    steps = np.minimum(steps, np.ceil(up))
    hit = roster.running & expected & settled & view.silent & ~view.unwatched
    hit &= view.on("no_data.on")

    # All nodes at once while their run reports on, or with another cluster's: it is what collects
    # the metrics.
    collected = np.isin(roster.scope, sorted(_without_collector(view)))
    hit &= ~collected | (steps >= view.window.steps(LOOKBACK))

    # A cluster that is silent as a whole may be the part of the source that was not read.
    hidden = np.fromiter(map(view.reading.hidden, roster.labels), bool, view.n)
    hit &= peers | ~hidden
    # Nodes that nobody asked, or that gave no answer to the source, are not silent themselves, nor
    # are those that AWS takes or works on, at the time that it announced.
    announced = (
        name
        for notice in view.reading.notices
        if notice.due and notice.due <= view.now < notice.due + LOOKBACK
        for name in notice.instances
    )
    hit &= ~roster.among((*view.reading.unread, *announced))
    return RuleMatch(hit, steps.astype(np.float64))


def _without_collector(view: View) -> set[int]:
    """Return the scopes all of whose nodes fell silent at once while a run of theirs reports.

    Or with all nodes of another scope.
    """
    roster, lately, fell = view.roster, view.window.steps(LATELY), dict[int, int]()
    booted = view.launched_before(view.window.steps(LOOKBACK)) | (
        view.silent_steps < view.window.n_steps
    )
    for scope, rows in roster.by_scope(roster.running & booted):
        if view.silent[rows].all() and np.ptp(view.silent_steps[rows]) <= lately:
            fell[scope] = int(view.silent_steps[rows].max())
    since = np.array([*fell.values()])
    alone = {place for place, steps in fell.items() if (abs(since - steps) <= lately).sum() == 1}
    reporting = {scope for scope in reporting_scopes(view) if roster.sizes[scope] > 1}
    return fell.keys() - (alone - reporting)


def explain_silent(view: View, match: RuleMatch, rows: Rows) -> Explanation:
    """Explain how long the nodes have been silent, and whether their hosts still report.

    Several nodes that are half of what runs in their place are critical: the watch is blind there.
    """
    longest = view.now - view.since(match.steps, rows, Cause.NO_DATA.value)
    alive = ~np.isnan(view.recent(view.cpu)[rows])
    host = f"nothing else on {'it' if len(rows) == 1 else 'them'} reports either"
    if alive.all():
        host = "the hosts still report: the Neuron agent is down"
    elif alive.any():
        host = f"{int(alive.sum())} of {len(rows)} hosts still report"
    if (places := set(view.roster.scope[rows])) <= _without_collector(view):
        beside = (
            "while their run still reports" if places <= reporting_scopes(view) else "with others"
        )
        host = f"all fell silent at once {beside}: check the collector first"

    # No other alert about them can be raised before they report again.
    place = np.isin(view.roster.scope, view.roster.scope[rows])
    silent, running = int((match.hit & place).sum()), int((view.roster.running & place).sum())
    is_blind = silent > 1 and 2 * silent >= running
    blind = f"{silent} of {running} nodes are silent: no other alert can be raised about them"
    return Explanation(
        why=f"No Neuron metrics from {counted(len(rows), 'running node')}"
        f" for {lasted(longest)}; {host}.",
        value=longest.total_seconds(),
        unit="seconds",
        **belief("silent"),
        evidence=(blind,) if is_blind else (),
        severity=Severity.CRITICAL if is_blind else None,
    )


def with_mute(view: View, anomalies: list[Anomaly]) -> list[Anomaly]:
    """Add instances that never reported at all, where others of their cluster do."""
    overdue: dict[Labels, list[Instance]] = {}
    for instance in view.roster.mute:
        scope = scope_of(instance.labels)
        patience = LOOKBACK + view.policy.at(scope).duration("no_data.for")
        missed = view.now - max(instance.launched_at, view.whole.start) >= patience
        if missed and instance.id not in view.reading.unread:
            overdue.setdefault(scope, []).append(instance)

    for scope, instances in overdue.items():
        rows = view.rows_in(scope)
        if not view.on("no_data.on")[rows].any() or not view.eligible[rows].any():
            continue
        ids = tuple(sorted(instance.id for instance in instances))
        same = next((i for i, anomaly in enumerate(anomalies) if anomaly.scope == scope), None)
        if same is not None:
            silent, mute = anomalies[same], counted(len(ids), "more node")
            anomalies[same] = replace(
                silent,
                things=(*silent.things, *ids),
                why=f"{silent.why[:-1]}; {mute} never reported any.",
            )
            continue
        start = max(view.now - LOOKBACK, min(x.launched_at for x in instances))
        explanation = Explanation(
            why=f"{counted(len(ids), 'running node')} never reported Neuron metrics although others"
            " in the cluster do.",
            value=(view.now - start).total_seconds(),
            unit="seconds",
            **belief("never_reported"),
        )
        subject = Subject(scope, Labels.shared(x.labels for x in instances), ids, start)
        anomalies.append(anomaly_of(view, Cause.NO_DATA, subject, explanation))
    return sorted(anomalies, key=lambda anomaly: str(anomaly.scope))
