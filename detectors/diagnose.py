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
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import numpy as np

from bot.model.anomaly import Anomaly, NodeState
from bot.model.causes import CAUSES, Cause
from detectors.arrays import Mask, Numbers
from detectors.nodes import compile as compiling
from detectors.nodes import drop, faults
from detectors.nodes import faults as silence
from detectors.rule import Rule, RuleMatch, anomalies_of
from detectors.view import View

_SPREADING = {cause for facts in CAUSES.values() for cause in facts.part_of}
"""Causes of which a wide incident has symptoms of other names."""
FOLD_STEPS = 3
"""An effect is seen at most this many steps before its cause."""


def _rules() -> tuple[Rule, ...]:
    """Return every rule that a module of `detectors.nodes` defines, the strongest first."""
    folder = Path(__file__).with_name("nodes")
    modules = [
        import_module(f"detectors.nodes.{module.name}") for module in iter_modules([str(folder)])
    ]
    rules = {rule for module in modules for rule in vars(module).values() if isinstance(rule, Rule)}
    return tuple(sorted(rules, key=lambda rule: rule.cause.facts.precedence or 0))


RULES = _rules()


@dataclass(frozen=True)
class Diagnosis:
    """Hold the anomalies of nodes and, each (n,).

    Which nodes a rule explains, which work under their usual, which are sick.
    """

    anomalies: tuple[Anomaly, ...]
    explained: Mask
    starved: Mask
    stopped: Mask
    """Nodes whose missing checkpoints need no explanation.

    They do no work, or their scope has a fault.
    """


def diagnose(view: View) -> Diagnosis:
    """Run every rule over the nodes, settle who explains whom, and make the anomalies of each scope."""
    matches = {rule: rule.find(view) for rule in RULES}
    matches[faults.HARDWARE_FAULT] = _with_waiting(
        matches[faults.HARDWARE_FAULT], matches[drop.DROP], view
    )
    settled, explained = _settle(matches, view)
    anomalies = [
        a
        for rule, match in settled.items()
        for a in anomalies_of(view, rule.cause, match, rule.explain)
    ]
    silent = silence.find_silent(view)
    silent = replace(silent, hit=silent.hit & ~view.held_open(Cause.HARDWARE_FAULT.value))
    anomalies += silence.with_mute(
        view, list(anomalies_of(view, Cause.NO_DATA, silent, silence.explain_silent))
    )
    starved = settled[drop.DROP].hit if drop.DROP in settled else np.zeros(view.n, dtype=bool)
    faulty = _failing(matches[faults.HARDWARE_FAULT], view)
    sick = np.isin(view.roster.scope, view.roster.scope[faulty]) if faulty.any() else faulty
    return Diagnosis(
        tuple(anomalies), explained | silent.hit, starved, _stopped(matches, view) | sick
    )


def _stopped(matches: Mapping[Rule, RuleMatch], view: View) -> Mask:
    """Return which nodes do no work by some rule, (n,).

    Full memory, errors or a drop explain no checkpoint that is missing.
    """
    hits = [match.hit for rule, match in matches.items() if rule.cause.facts.works_nothing]
    return np.logical_or.reduce(hits) if hits else np.zeros(view.n, dtype=bool)


def _settle(matches: Mapping[Rule, RuleMatch], view: View) -> tuple[dict[Rule, RuleMatch], Mask]:
    """Return each rule's match without the nodes that a stronger rule explains, and which nodes any rule explains."""
    explained = np.zeros(view.n, dtype=bool)
    settled: dict[Rule, RuleMatch] = {}
    for rule, match in matches.items():
        if not match.hit.any():
            continue
        rest, folded = _fold(replace(match, hit=match.hit & ~explained), settled.values(), view)
        if rule.cause in _SPREADING:
            rest = _with_kept(rest, _kept(rule, match, rest.hit, settled, view), view)
        if rule.yields_to_fault:
            folded |= _beside_fault(rest, matches[faults.HARDWARE_FAULT], view)
            rest = replace(rest, hit=rest.hit & ~folded)
        explained |= match.hit | folded
        settled[rule] = rest
    return settled, explained


def states(view: View, starved: Mask) -> dict[str, NodeState]:
    """Return the state of every running node now."""
    codes = np.full(view.n, _STATES.index(NodeState.BUSY))
    codes[starved] = _STATES.index(NodeState.STARVED)
    codes[view.newest(view.resting)] = _STATES.index(NodeState.IDLE)
    codes[view.newest(view.holding)] = _STATES.index(NodeState.LOADED_IDLE)
    young = view.age_seconds < view.steps("compiling.grace") * view.window.step.total_seconds()
    young = young & ~view.executing.any(axis=1) if young.any() else young
    codes[young & ~(codes == _STATES.index(NodeState.BUSY))] = _STATES.index(NodeState.NEW)
    codes[compiling.compiling_now(view)] = _STATES.index(NodeState.COMPILING)
    codes[view.silent] = _STATES.index(NodeState.NO_DATA)
    codes[view.silent & young] = _STATES.index(NodeState.NEW)
    codes[view.unwatched] = _STATES.index(NodeState.UNWATCHED)
    running = view.roster.running.tolist()
    states = {
        name: _STATES[code]
        for name, code, runs in zip(view.roster.ids, codes.tolist(), running, strict=True)
        if runs
    }
    for instance in view.roster.mute:
        new = (view.now - instance.launched_at).total_seconds() < 3600
        states[instance.id] = NodeState.NEW if new else NodeState.NO_DATA
    return states


_STATES: Sequence[NodeState] = tuple(NodeState)


def _fold(match: RuleMatch, stronger: Iterable[RuleMatch], view: View) -> tuple[RuleMatch, Mask]:
    """Drop the nodes that began with or after a stronger match that holds at least half of the same scope's nodes."""
    folded = np.zeros(view.n, dtype=bool)
    scope, sizes = view.roster.scope, np.maximum(view.roster.sizes, 1)
    for cause in stronger:
        held = np.bincount(scope[cause.hit], minlength=len(sizes))
        wide = (2 * held >= sizes) & (sizes > 1)
        folded |= match.hit & wide[scope] & (match.steps <= _since(cause, view)[scope] + FOLD_STEPS)
    return replace(match, hit=match.hit & ~folded), folded


def _kept(
    rule: Rule, match: RuleMatch, plain: Mask, stronger: Mapping[Rule, RuleMatch], view: View
) -> Mask:
    """Return which nodes stay in a wide incident though they are seen otherwise now.

    Under a later symptom, or not at all.

    Wide is what holds half of a scope, and half of the nodes there of which nothing else is seen. A
    node stays until it works again or another rule explains it.
    """
    rules = rule.cause.facts.family.rules if rule.cause.facts.family else (rule.cause.value,)
    held = view.held_open(*rules) & view.roster.running
    scope, since = view.roster.scope, _since(match, view)
    part, other = np.zeros(view.n, dtype=bool), np.zeros(view.n, dtype=bool)
    for one, its in stronger.items():
        if rule.cause in one.cause.facts.part_of:
            part |= its.hit & (held | (match.hit & (its.steps <= since[scope] + FOLD_STEPS)))
        else:
            other |= its.hit
    part |= held & ~match.hit & ~drop.working(view) if held.any() else part
    part |= _fell_silent(since[scope], view) if view.silent.any() else part
    part &= ~other & ~plain
    if not part.any():
        return part
    n, running = len(view.roster.scopes), view.roster.running
    held_now, told, clear = (
        np.bincount(scope[mask], minlength=n) for mask in (plain | part, plain, running & ~part)
    )
    wide = (2 * held_now >= view.roster.sizes) & (told > 0) & (2 * told >= clear)
    return np.asarray(part & wide[scope])


def _fell_silent(since: Numbers, view: View) -> Mask:
    """Return which nodes fell silent as an incident of their scope began `since` so many steps, or later while under it, (n,)."""
    silent = (
        view.silent & view.roster.running & (view.silent_steps <= since + FOLD_STEPS) & (since > 0)
    )
    last = np.clip(view.window.n_steps - 1 - view.silent_steps, 0, None)
    low = view.utilization[np.arange(view.n), last] < view.number("starved.over") * view.levels[1]
    return np.asarray(silent & (low | (view.silent_steps >= since - FOLD_STEPS)))


def _with_kept(match: RuleMatch, kept: Mask, view: View) -> RuleMatch:
    """Add the nodes kept in a wide incident.

    They lose as long as others there do, as much where it is not read.
    """
    if not kept.any():
        return match
    scope, steps = view.roster.scope, match.steps.copy()
    wasted, wasted_since = (
        None if share is None else share.copy() for share in (match.wasted, match.wasted_since)
    )
    own = np.clip(view.lost_at(view.recent(view.utilization, 1)), 0, 1)
    for one in np.unique(scope[kept]):
        rows, others = kept & (scope == one), match.hit & (scope == one)
        steps[rows] = match.steps[others].max()
        for share in (wasted, wasted_since):
            if share is not None:
                share[rows] = np.where(np.isnan(own[rows]), np.median(share[others]), own[rows])
    return RuleMatch(match.hit | kept, steps, wasted, wasted_since, kept)


def _since(match: RuleMatch, view: View) -> Numbers:
    """Return since how many steps a match holds in each scope, 0 where it holds in none of its nodes, (n_scopes,)."""
    since = np.zeros(len(view.roster.scopes))
    np.maximum.at(since, view.roster.scope[match.hit], match.steps[match.hit])
    return since


def _failing(fault: RuleMatch, view: View) -> Mask:
    """Return which nodes with a hardware fault had an event of late.

    Nobody waits for one that is under repair, (n,).
    """
    hit = fault.hit | view.held_open(Cause.HARDWARE_FAULT.value)
    return hit & faults.failing(view) if hit.any() else hit


def _beside_fault(match: RuleMatch, fault: RuleMatch, view: View) -> Mask:
    """Return which errors appear in a scope with a broken device that was so before.

    Its peers' collectives fail with it.
    """
    scope, failing = view.roster.scope, _failing(fault, view)
    since = _since(replace(fault, hit=fault.hit & failing), view)
    since[np.unique(scope[failing & view.held_open(Cause.HARDWARE_FAULT.value)])] = np.inf
    return np.asarray(match.hit & (since[scope] > 0) & (match.steps <= since[scope]))


def _with_waiting(fault: RuleMatch, drops: RuleMatch, view: View) -> RuleMatch:
    """Add to a hardware fault the nodes of its scope that fell since it began.

    They wait for the sick one.
    """
    if not fault.hit.any():
        return fault
    since = _since(replace(fault, hit=fault.hit & _failing(fault, view)), view)[view.roster.scope]
    waited = view.held_open(Cause.HARDWARE_FAULT.value) & ~drop.working(view) & view.roster.running
    fell = drops.hit & (drops.steps <= since + FOLD_STEPS)
    waiting = (fell | waited) & ~fault.hit & (since > 0)
    none = np.zeros(view.n)
    shares = ((fault.wasted, drops.wasted), (fault.wasted_since, drops.wasted_since))
    wasted, since = (
        np.where(waiting, none if b is None else b, none if a is None else a) for a, b in shares
    )
    return replace(fault, hit=fault.hit | waiting, wasted=wasted, wasted_since=since)
