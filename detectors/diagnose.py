"""Turn what the rules found into anomalies: a node that a stronger rule explains is not reported by a weaker one.

Order of precedence, strongest first; the first rule that is about a node has it:

1. `hardware_fault`   a broken device explains whatever the node does, and what others of its cluster lose since then
2. `long_compile`, `cold_cache`   executions cannot be expected
3. `hung`             worked right before, so it is no spare node
4. `allocated_unused` a runtime is loaded
5. `idle`             none is
6. `execution_errors` slow because executions fail
7. `memory_pressure`  slow because memory is short
8. `starved`, `network_bound`, `collective_path`   one drop, told apart by its signs
9. `odd`              nothing above knows it

`no_data` stands beside them: silence neither explains nor ends what was seen before. Where one rule holds at least half of
a cluster's nodes, what weaker rules find in the rest of it since then folds into it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bot.model.anomaly import Anomaly, Cause, NodeState
from detectors.arrays import Mask, Rows
from detectors.nodes import compile as compiling
from detectors.nodes import drop, drop_cause, faults, idle, loaded, silence
from detectors.nodes.memory import find_memory, tell_memory
from detectors.rule import Explanation, RuleMatch, anomaly_of_nodes
from detectors.view import View

Tell = Callable[[View, RuleMatch, Rows], Explanation]
FOLD_STEPS = 3
"""An effect is seen at most this many steps before its cause."""

RULES: tuple[tuple[Callable[[View], RuleMatch], Tell], ...] = (
    (faults.find_hardware, faults.explain_hardware),
    (compiling.find, compiling.explain),
    (loaded.find_hung, loaded.explain_hung),
    (loaded.find_unused, loaded.explain_unused),
    (idle.find, idle.explain),
    (faults.find_errors, faults.explain_errors),
    (find_memory, tell_memory),
    (drop.find, drop_cause.explain),
)


@dataclass(frozen=True)
class Diagnosis:
    """Hold the anomalies of nodes and, each (n,): which nodes a rule explains, which work under their usual, which are sick."""

    anomalies: tuple[Anomaly, ...]
    explained: Mask
    starved: Mask
    stopped: Mask
    """Nodes whose missing checkpoints need no explanation: a rule other than a drop is about them, or their scope has a fault."""


def diagnose(view: View) -> Diagnosis:
    """Run every rule over the nodes, settle who explains whom, and put each scope's finding in words."""
    found = [find(view) for find, _ in RULES]
    found[0] = _with_waiting(found[0], found[-1], view)
    explained = np.zeros(view.n, dtype=bool)
    kept: list[tuple[RuleMatch, Tell]] = []
    for one, (_, tell) in zip(found, RULES, strict=True):
        if not one.hit.any():
            continue
        rest = replace(one, hit=one.hit & ~explained)
        rest, folded = _fold(rest, [k for k, _ in kept], view)
        if tell is faults.explain_errors:
            folded |= _beside_fault(rest, found[0], view)
            rest = replace(rest, hit=rest.hit & ~folded)
        explained |= one.hit | folded
        kept.append((rest, tell))
    anomalies = [a for one, tell in kept for a in anomalies_of(view, one, tell)]
    silent = silence.find(view)
    silent = replace(silent, hit=silent.hit & ~view.held_open(Cause.HARDWARE_FAULT.value))
    anomalies += silence.with_mute(view, list(anomalies_of(view, silent, silence.explain)))
    starved = next((one.hit for one, tell in kept if tell is drop_cause.explain), np.zeros(view.n, dtype=bool))
    faulty = found[0].hit | view.held_open(Cause.HARDWARE_FAULT.value)
    sick = np.isin(view.roster.scope, view.roster.scope[faulty]) if faulty.any() else faulty
    return Diagnosis(tuple(anomalies), explained | silent.hit, starved, (explained & ~starved) | sick)


def anomalies_of(view: View, found: RuleMatch, tell: Tell) -> Iterator[Anomaly]:
    """Yield one anomaly for each scope that has nodes in `found`."""
    if not found.hit.any():
        return
    scope = view.roster.scope
    for one in np.unique(scope[found.hit]):
        rows = np.flatnonzero(found.hit & (scope == one))
        yield anomaly_of_nodes(view, found, rows, tell(view, found, rows))


def states(view: View, starved: Mask) -> dict[str, NodeState]:
    """Return what every running node does now."""
    codes = np.full(view.n, _STATES.index(NodeState.BUSY))
    codes[starved] = _STATES.index(NodeState.STARVED)
    codes[_lately(view, view.resting)] = _STATES.index(NodeState.IDLE)
    codes[_lately(view, view.holding)] = _STATES.index(NodeState.LOADED_IDLE)
    young = view.age_seconds < view.steps("compiling.grace") * view.window.step.total_seconds()
    young = young & ~view.executing.any(axis=1) if young.any() else young
    codes[young & ~(codes == _STATES.index(NodeState.BUSY))] = _STATES.index(NodeState.NEW)
    codes[compiling.compiling_now(view)] = _STATES.index(NodeState.COMPILING)
    codes[view.silent] = _STATES.index(NodeState.NO_DATA)
    codes[view.silent & young] = _STATES.index(NodeState.NEW)
    codes[view.unwatched] = _STATES.index(NodeState.UNWATCHED)
    running = view.roster.running.tolist()
    said = {name: _STATES[code] for name, code, runs in zip(view.roster.ids, codes.tolist(), running, strict=True) if runs}
    for instance in view.roster.mute:
        new = (view.now - instance.launched_at).total_seconds() < 3600
        said[instance.id] = NodeState.NEW if new else NodeState.NO_DATA
    return said


_STATES: Sequence[NodeState] = tuple(NodeState)


def _lately(view: View, mask: Mask) -> Mask:
    """Tell where the newest reading of a node holds, (n,)."""
    if not view.window.n_steps or not mask.any():
        return np.zeros(view.n, dtype=bool)
    at = np.maximum(0, view.window.n_steps - 1 - view.silent_steps)
    return np.asarray(mask[np.arange(view.n), at])


def _fold(found: RuleMatch, stronger: Sequence[RuleMatch], view: View) -> tuple[RuleMatch, Mask]:
    """Drop what began with or after a stronger finding that holds at least half of the same scope's nodes."""
    folded = np.zeros(view.n, dtype=bool)
    scope, sizes = view.roster.scope, np.maximum(view.roster.sizes, 1)
    for cause in stronger:
        held = np.bincount(scope[cause.hit], minlength=len(sizes))
        since = np.zeros(len(sizes))
        np.maximum.at(since, scope[cause.hit], cause.steps[cause.hit])
        wide = (2 * held >= sizes) & (sizes > 1)
        folded |= found.hit & wide[scope] & (found.steps <= since[scope] + FOLD_STEPS)
    return replace(found, hit=found.hit & ~folded), folded


def _beside_fault(found: RuleMatch, fault: RuleMatch, view: View) -> Mask:
    """Tell which errors appear in a scope with a broken device that was so before: its peers' collectives fail with it."""
    scope = view.roster.scope
    since = np.zeros(len(view.roster.scopes))
    np.maximum.at(since, scope[fault.hit], fault.steps[fault.hit])
    since[np.unique(scope[view.held_open(Cause.HARDWARE_FAULT.value)])] = np.inf
    return np.asarray(found.hit & (since[scope] > 0) & (found.steps <= since[scope]))


def _with_waiting(fault: RuleMatch, drops: RuleMatch, view: View) -> RuleMatch:
    """Add to a hardware fault the nodes of its scope that fell since it began: they wait for the sick one."""
    if not fault.hit.any():
        return fault
    scope = view.roster.scope
    since = np.zeros(len(view.roster.scopes))
    np.maximum.at(since, scope[fault.hit], fault.steps[fault.hit])
    waited = view.held_open(Cause.HARDWARE_FAULT.value) & ~drop.working(view) & view.roster.running
    fell = drops.hit & (drops.steps <= since[scope] + FOLD_STEPS)
    waiting = (fell | waited) & ~fault.hit & (since[scope] > 0)
    wasted = np.where(waiting, drops.wasted if drops.wasted is not None else 0, fault.wasted if fault.wasted is not None else 0)
    return replace(fault, hit=fault.hit | waiting, wasted=wasted)
