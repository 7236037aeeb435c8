"""Turn the matches of the rules into anomalies.

A node that a stronger rule explains is not reported by a weaker one.

Order of precedence, strongest first, as the table of causes has it; the first rule that is about a
node has it:

1. `hardware_fault`   a broken device explains whatever the node does, and the losses of others of
  its cluster since then
2. `long_compile`, `cold_cache`   executions cannot be expected
3. `hung`             worked right before, so it is no spare node
4. `allocated_unused` a runtime is loaded
5. `idle`             none is
6. `execution_errors` slow because executions fail
7. `memory_pressure`  slow because memory is short
8. `starved`, `network_bound`, `collective_path`, `straggler`   one drop, told apart by its signs
9. `odd`              nothing above knows it

`no_data` stands beside them: silence neither explains nor ends an earlier match. Where one rule
holds at least half of a cluster's nodes, the matches of weaker rules in the rest of it since then
fold into it. A rule is taken in by being defined: a `Rule` in a module of `detectors.nodes`, whose
cause has a precedence in the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from itertools import compress
from pkgutil import iter_modules

import numpy as np

from bot.model.anomaly import Anomaly, NodeState
from bot.model.causes import CAUSES, Cause
from detectors.jobs import fellows
from detectors.nodes import drop, faults, silence
from detectors.nodes.drop_cause import slower
from detectors.nodes.shortfall import working
from detectors.numbers import Mask, Numbers, count, narrowed, trailing
from detectors.rule import Rule, RuleMatch, anomalies_of, rules_of
from detectors.view import View

_SPREADING = {cause for facts in CAUSES.values() for cause in facts.part_of}
"""Causes of which a wide incident has symptoms of other names."""
FOLD_STEPS = count("diagnose.FOLD_STEPS")
_STATES: Sequence[NodeState] = tuple(NodeState)


def _rules() -> tuple[Rule, ...]:
    """Return every rule that a module of `detectors.nodes` defines, the strongest first."""
    package = import_module("detectors.nodes")
    modules = iter_modules(package.__path__, f"{package.__name__}.")
    values = (value for x in modules for value in vars(import_module(x.name)).values())
    rules = {value for value in values if isinstance(value, Rule)}
    return tuple(sorted(rules, key=lambda rule: rule.cause.facts.precedence or 0))


RULES = _rules()


@dataclass(frozen=True)
class Diagnosis:
    """Hold the anomalies of nodes and which nodes they are about, each mask (n,)."""

    anomalies: tuple[Anomaly, ...]
    explained: Mask
    """Nodes that a rule explains."""
    starved: Mask
    """Nodes that work under their usual."""
    stopped: Mask
    """Nodes whose missing checkpoints need no explanation.

    They do no work, or their scope has a fault.
    """


def diagnose(view: View) -> Diagnosis:
    """Run every rule over the nodes, settle who explains whom, and make each scope's anomalies."""
    matches = {rule: view.derive(rule.find) for rule in RULES}
    fault = _with_waiting(matches[faults.HARDWARE_FAULT], matches[drop.DROP], view)
    matches[faults.HARDWARE_FAULT] = fault
    settled, explained = _settle(matches, view)
    anomalies = [
        anomaly
        for rule, match in settled.items()
        for anomaly in anomalies_of(view, rule.cause, match, rule.explain)
    ]

    silent = silence.find_silent(view).within(~view.held_open(Cause.HARDWARE_FAULT.value))
    silences = anomalies_of(view, Cause.NO_DATA, silent, silence.explain_silent)
    anomalies += silence.with_mute(view, list(silences))

    # Full memory, errors or a drop explain no checkpoint that is missing. Doing no work does, and
    # a process that never gets to one.
    faulty = view.roster.scope[_failing(fault, view)]
    loops = faults.runs_out(view)
    idle = (match.hit for rule, match in matches.items() if rule.cause.facts.works_nothing)
    stopped = np.logical_or.reduce([np.isin(view.roster.scope, faulty), loops, *idle])
    starved = settled[drop.DROP].hit if drop.DROP in settled else view.nobody()

    # The node that all wait for is part of their alert, though it works as ever.
    suspects = [anomaly.suspect for anomaly in anomalies if anomaly.suspect]
    explained[view.roster.rows_of(suspects)] = True
    if starved.any():
        # So is one of another stage or role whose executions slow down with theirs.
        explained |= np.isin(view.roster.scope, view.roster.scope[starved]) & slower(view)
    return Diagnosis(tuple(anomalies), explained | silent.hit, starved, stopped)


def _settle(matches: Mapping[Rule, RuleMatch], view: View) -> tuple[dict[Rule, RuleMatch], Mask]:
    """Return each rule's match without the nodes that a stronger rule explains.

    And which nodes any rule explains, (n,).
    """
    explained = view.nobody()
    settled: dict[Rule, RuleMatch] = {}
    for rule, match in matches.items():
        if not match.hit.any():
            continue
        plain, folded = _fold(rule, match.within(~explained), settled.values(), view)
        if rule.cause in _SPREADING:
            staying = _kept(rule, match, plain.hit, settled, view)
            plain = _with_kept(plain, staying, view) if staying.any() else plain
        if rule.yields_to_fault:
            # Collectives of a broken device's peers fail with it: their errors are its effect.
            fault = matches[faults.HARDWARE_FAULT]
            failing = _failing(fault, view)
            since = _since(fault.within(failing), view)
            since[view.roster.scope[failing & view.held_open(Cause.HARDWARE_FAULT.value)]] = np.inf
            since = since[view.roster.scope]
            folded |= plain.hit & (since > 0) & (plain.steps <= since)
            plain = plain.within(~folded)
        explained |= match.hit | folded
        settled[rule] = plain
    return settled, explained


def states(view: View, starved: Mask) -> dict[str, NodeState]:
    """Return the state of every running node now."""
    young = view.age_seconds < view.steps("compiling.grace") * view.window.step.total_seconds()
    young = narrowed(young, lambda: np.asarray(~view.executing.any(axis=1)))
    resting, holding = view.newest(view.resting), view.newest(view.holding)
    compiling = (view.compile_steps > 0) & view.on("compiling.on")

    # Of the states that hold for a node the last one counts.
    codes = np.full(view.n, _STATES.index(NodeState.BUSY))
    for mask, state in (
        (starved, NodeState.STARVED),
        (resting, NodeState.IDLE),
        (holding, NodeState.LOADED_IDLE),
        (young & (starved | resting | holding), NodeState.NEW),
        (compiling, NodeState.COMPILING),
        (view.silent, NodeState.NO_DATA),
        (view.silent & young, NodeState.NEW),
        (view.unwatched, NodeState.UNWATCHED),
    ):
        codes[mask] = _STATES.index(state)
    running = view.roster.running
    states = dict.fromkeys(compress(view.roster.ids, running.tolist()), NodeState.BUSY)
    for row in np.flatnonzero(running & (codes != _STATES.index(NodeState.BUSY))).tolist():
        states[view.roster.ids[row]] = _STATES[codes[row]]
    for instance in view.roster.mute:
        new = view.now - instance.launched_at < timedelta(hours=1)
        states[instance.id] = NodeState.NEW if new else NodeState.NO_DATA
    return states


def _fold(
    rule: Rule, match: RuleMatch, stronger: Iterable[RuleMatch], view: View
) -> tuple[RuleMatch, Mask]:
    """Drop the nodes that began with or after a stronger match of half of their scope.

    They are of its job, or a process is loaded there that may wait for it in another role. One that
    another job left waits for nothing, nor does another owner's.
    """
    folded, scope = np.zeros_like(match.hit), view.roster.scope
    sizes = np.maximum(view.roster.sizes, 1)
    loaded = view.newest(view.held > 0)

    # An open alert remembers an onset that lies before the window.
    steps = match.steps.astype(np.float64)
    for alert in view.opened(*rules_of(rule.cause)):
        rows = view.roster.rows_of(alert.anomaly.things)
        age = (view.now - alert.anomaly.window.start) / view.window.step
        steps[rows] = np.maximum(steps[rows], age)
    for cause in stronger:
        wide = (2 * np.bincount(scope[cause.hit], minlength=len(sizes)) >= sizes) & (sizes > 1)
        after = match.hit & wide[scope] & (steps <= _since(cause, view)[scope] + FOLD_STEPS)
        for place in np.unique(scope[after]):
            rows = np.flatnonzero(cause.hit & (scope == place))
            waits = (loaded & view.of_owner(rows)) | fellows(view, rows)
            after &= (scope != place) | waits
        folded |= after
    return match.within(~folded), folded


def _kept(
    rule: Rule, match: RuleMatch, plain: Mask, stronger: Mapping[Rule, RuleMatch], view: View
) -> Mask:
    """Return which nodes stay in a wide incident though they are seen otherwise now, (n,).

    They are seen under a later symptom, or not at all. Wide is a match that holds half of a scope,
    and half of the nodes there of which nothing else is seen. A node stays until it works again or
    another rule explains it.
    """
    running = view.roster.running
    alerted = view.held_open(*rules_of(rule.cause)) & running
    scope = view.roster.scope
    since = _since(match, view)[scope]
    part, elsewhere = view.nobody(), view.nobody()
    for source, cause in stronger.items():
        if rule.cause not in source.cause.facts.part_of:
            elsewhere |= cause.hit
        elif cause.hit.any():
            # What stopped before it was seen to fall worked on the same job as those that fell.
            alike = match.hit | _fellows(match.hit, view)
            part |= cause.hit & (alerted | (alike & (cause.steps <= since + FOLD_STEPS)))
    if alerted.any():
        part |= alerted & ~match.hit & ~working(view)
    if rule.cause.facts.works_nothing:
        # They were seen to stop as their job did, whatever their process holds since.
        still = trailing(view.zero & ~view.compiling, view.gap)
        stopped = (still > 0) & (still < view.window.n_steps) & running
        part |= stopped & (still <= since + FOLD_STEPS) & _fellows(match.hit, view)
    if view.silent.any():
        # They fell silent as the incident of their scope began, or later while under it.
        began = (view.silent_steps <= since + FOLD_STEPS) & (since > 0)
        began &= view.launched_before(since)
        silent = view.silent & running & began
        last = np.clip(view.window.n_steps - 1 - view.silent_steps, 0, None)
        low = view.utilization[np.arange(view.n), last] < view.usual_work
        part |= silent & (low | (view.silent_steps >= since - FOLD_STEPS))
    for place, rows in view.roster.by_scope(match.hit):
        part &= alerted | (scope != place) | view.of_owner(rows)
    part &= ~elsewhere & ~plain
    if not part.any():
        return part

    in_incident, matched, clear = (
        np.bincount(scope[mask], minlength=len(view.roster.scopes))
        for mask in (plain | part, plain, running & ~part)
    )
    wide = (2 * in_incident >= view.roster.sizes) & (matched > 0) & (2 * matched >= clear)
    return np.asarray(part & wide[scope])


def _with_kept(match: RuleMatch, kept: Mask, view: View) -> RuleMatch:
    """Add the nodes kept in a wide incident.

    They lose as long as others there do, as much where it is not read.
    """
    scope, steps = view.roster.scope, match.steps.copy()
    wasted, wasted_since = (
        None if share is None else share.copy() for share in (match.wasted, match.wasted_since)
    )
    lost = np.clip(view.lost_at(view.recent(view.utilization, 1)), 0, 1)
    for place in np.unique(scope[kept]):
        rows, others = kept & (scope == place), match.hit & (scope == place)
        steps[rows] = match.steps[others].max()
        for share in (wasted, wasted_since):
            if share is not None:
                share[rows] = np.where(np.isnan(lost[rows]), np.median(share[others]), lost[rows])
    if match.kept is not None:
        kept = kept | match.kept
    return RuleMatch(match.hit | kept, steps, wasted, wasted_since, kept)


def _since(match: RuleMatch, view: View) -> Numbers:
    """Return since how many steps a match holds in each scope, (n_scopes,); 0 where nowhere."""
    since = np.zeros(len(view.roster.scopes))
    np.maximum.at(since, view.roster.scope[match.hit], match.steps[match.hit])
    return since


def _fellows(hit: Mask, view: View) -> Mask:
    """Return which training nodes may be of the jobs of nodes, by scope, (n,)."""
    fellows, scope = view.nobody(), view.roster.scope
    for place in np.unique(scope[hit]):
        fellows |= view.fellows(np.flatnonzero(hit & (scope == place)))
    return fellows


def _failing(fault: RuleMatch, view: View) -> Mask:
    """Return which nodes with a hardware fault had an event of late, (n,).

    Nobody waits for one that is under repair.
    """
    hit = fault.hit | view.held_open(Cause.HARDWARE_FAULT.value)
    return narrowed(hit, lambda: faults.failing(view))


def _with_waiting(fault: RuleMatch, drops: RuleMatch, view: View) -> RuleMatch:
    """Add to a hardware fault the nodes of its job that fell since it began.

    They wait for the sick one, and have lost work since they fell.
    """
    if not fault.hit.any():
        return fault
    failing = fault.within(_failing(fault, view))
    since = _since(failing, view)[view.roster.scope]
    waited = view.held_open(Cause.HARDWARE_FAULT.value) & ~working(view) & view.roster.running
    fell = drops.hit & (drops.steps <= since + FOLD_STEPS) & _fellows(failing.hit, view)
    waiting = (fell | waited) & ~fault.hit & (since > 0)
    none = np.zeros(view.n)
    wasted, wasted_since = (
        np.where(waiting, none if lost is None else lost, none if own is None else own)
        for own, lost in ((fault.wasted, drops.wasted), (fault.wasted_since, drops.wasted_since))
    )
    steps = np.where(waiting & fell, np.minimum(drops.steps, since), fault.steps)
    return RuleMatch(fault.hit | waiting, steps, wasted, wasted_since)
