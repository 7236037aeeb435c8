"""Find nodes that execute nothing: idle ones, ones that a runtime or a pod holds for nothing, and hung ones."""

from __future__ import annotations

from datetime import timedelta

import numpy as np

from bot.model.causes import Cause
from bot.model.money import counted
from detectors.arrays import Counts, Floats, Mask, Numbers, Rows, mean_of, share_before, since_last
from detectors.nodes import cores
from detectors.nodes import cores as partial
from detectors.progress import by_habit, may_be_told, moving_scopes, stuck_scopes, work_at_risk
from detectors.rule import Explanation, Rule, RuleMatch, no_match
from detectors.usual import LATENCY, MEMORY, SENT
from detectors.view import GAP, LOOKBACK, View
from detectors.words import lasted, percent, size

_STILL_COMPILING = 2
"""How many times its grace a compile may take that nothing shows."""
LOOK_FIRST = "Look whether `neuronx-cc` runs there before you stop anything: without the host CPU a compile looks the same."


def find_idle(view: View) -> RuleMatch:
    """Return nodes at or under `idle.below` for `idle.for`.

    A pod that comes to hold the cores ends it.

    One that never worked since its launch gets the compile grace too, and so does one that may wait
    for a peer that compiles. A server that rests at an hour when its service usually does is not
    told.
    """
    steps, seen = view.streak(view.resting & ~view.asleep)
    if not steps.any():
        return no_match(view)
    stays = view.held_open(Cause.IDLE.value) & (steps > 0) & view.mostly(view.zero)
    needed = view.patience("idle.for", steps)
    begins = view.eligible & (seen >= needed)
    begins &= ~_in_a_lull(view, begins, needed)
    hit = begins | (view.roster.running & stays)
    return RuleMatch(hit & view.limits.on("idle.on"), steps.astype(np.float64), np.ones(view.n))


def _in_a_lull(view: View, begins: Mask, needed: Numbers) -> Mask:
    """Return which servers rest as their service does.

    By habit where no runtime is known to be loaded, else as a loaded one.
    """
    servers = begins & view.roster.inference
    if not servers.any():
        return servers
    bare = (view.held[:, -view.window.steps(GAP) :] == 0).any(axis=1)
    lull = np.where(bare, by_habit(view, servers, needed), ~may_be_told(view, servers, needed))
    return np.asarray(servers & lull)


def explain_idle(view: View, match: RuleMatch, rows: Rows) -> Explanation:
    """Explain how many nodes do nothing, and since when."""
    longest = view.lasting(match.steps, rows, Cause.IDLE.value)
    value = mean_of(view.stretch(match.steps, rows, Cause.IDLE.value))
    runtime = (
        "no runtime is loaded"
        if (view.held[rows] == 0).any()
        else "whether a runtime is loaded is not known"
    )
    reserved = view.recent(view.metric("neuroncore_reserved_count"))[rows]
    evidence = [f"{runtime}, host CPU {_percent_of(view.recent(view.cpu)[rows])}"]
    if (reserved > 0).any():
        evidence.append(
            f"pods have reserved cores on {counted(int((reserved > 0).sum()), 'of the node')}"
        )
    elif np.isfinite(reserved).all():
        evidence.append("no pod has reserved a core there")
    unsure = _unsure(view, rows, longest)
    return Explanation(
        why=f"{view.gauge(rows)} {percent(value)} for {lasted(longest)} on {counted(len(rows), 'node')}; {runtime}"
        f"{'; unsure: idle or compiling, as the host CPU is not read' if unsure else ''}.",
        value=value,
        unit="ratio",
        score=0.95,
        evidence=tuple(evidence),
        confidence=0.6 if unsure else 0.95,
        runners_up=((Cause.COMPILING, 0.4),) if unsure else (),
        suggestions=(LOOK_FIRST, *Cause.IDLE.facts.suggestions) if unsure else None,
    )


def _unsure(view: View, rows: Rows, longest: timedelta) -> bool:
    """Return whether it may be a compile.

    Of some node no sign tells, and even a long one could still go on.
    """
    unread = np.isnan(view.recent(view.cpu)[rows]).any()
    grace = float(view.steps("compiling.grace")[rows].max()) * view.window.step
    return bool(
        unread and view.limits.on("compiling.on")[rows].any() and longest < _STILL_COMPILING * grace
    )


def _percent_of(values: Floats) -> str:
    finite = values[np.isfinite(values)]
    return percent(float(np.median(finite))) if len(finite) else "not read"


IDLE = Rule(Cause.IDLE, find_idle, explain_idle)


PINNED = 0.995
"""Utilization from which a core is at its end: work has pauses, a spinning core has none."""
_BARE = 3
"""How many times as long cores must be pinned where nothing but their utilization is read."""
_SAME = 1e-5
"""How far two steps of utilization may differ to be the same value.

Means of the same samples differ by rounding.
"""
_VARIES = 0.002
"""Spread of the usual utilization from which the same value again and again is strange."""
COMPLETED = "neuron_executions_completed_count"
FIRST = "stopped first"
_LEAD = 0.4
"""Part of a step by which a node must have stopped before all others to be named.

Its utilization in the step tells.
"""
_TRAFFIC = 1e8
"""Bytes a second under which a node's EFA says nothing about whether its work goes on."""


def find_unused(view: View) -> RuleMatch:
    """Return nodes whose cores a runtime or a pod holds, and no executions for `allocated_unused.for`, or only on some cores.

    A notebook that is used now and then is not told; one that is told is over when it is used every
    quarter of an hour. A server matches only at an hour when its service always has requests and
    now has none, or after a whole day without any. A process that ends, while its pod or the next
    one stays, begins anew; of an alert that is open it is the same.
    """
    return partial.with_part_use(view, _unused(view))


def _unused(view: View) -> RuleMatch:
    """Return the nodes that execute nothing at all."""
    steps, _ = view.streak(view.holding | view.asleep)
    if not steps.any():
        return no_match(view)
    touched = _touched(view)
    stays = view.held_open(Cause.ALLOCATED_UNUSED.value) & (steps > 0) & ~_often(view, touched)
    rested, bare = view.streak(view.asleep)
    held, seen = view.streak(view.holding)
    steps, seen = np.where(stays, steps, np.maximum(held, rested)), np.maximum(seen, bare)
    fresh = np.minimum(since_last(touched), _since_hang(view))
    steps, seen = (np.minimum(streak, fresh) for streak in (steps, seen))
    needed = view.patience("allocated_unused.for", rested)
    begins = view.eligible & (seen >= needed)
    begins &= ~view.roster.inference | may_be_told(view, begins, needed)
    hit = begins | (view.roster.running & stays)
    return RuleMatch(
        hit & view.limits.on("allocated_unused.on"), steps.astype(np.float64), np.ones(view.n)
    )


def find_hung(view: View) -> RuleMatch:
    """Return training nodes that worked within the hour before and then made no progress for `hung.for`, runtime loaded.

    Either utilization fell to nothing with the device memory still held, on several nodes at once
    or while the run says the same step again and again; or it stands high although no execution is
    finished and EFA is silent, or at its very end.
    """
    signs = view.holding, _spinning(view), _pinned_bare(view)
    (still, seen_still), (spinning, seen_spinning), (bare, seen_bare) = (
        view.streak(sign) for sign in signs
    )
    steps = np.maximum(still, np.maximum(spinning, bare))
    if not steps.any():
        return no_match(view)
    worked = share_before(view.executing, ~view.unknown, still, view.window.steps(LOOKBACK)) >= 0.5
    begins = (
        (seen_still >= view.steps("hung.for"))
        & worked
        & _memory_kept(view)
        & ~_freed_between(view, still)
    )
    begins = (begins & _stopped_together(view, begins, still)) | (
        seen_spinning >= view.steps("hung.for")
    )
    begins |= seen_bare >= _BARE * view.steps("hung.for")
    stays = (
        view.held_open(Cause.HUNG.value)
        & (steps > 0)
        & ~_released(view)
        & view.mostly(np.logical_or.reduce(signs))
    )
    hit = (view.eligible & begins) | (view.roster.running & stays)
    return RuleMatch(
        hit & ~view.roster.inference & view.limits.on("hung.on"),
        steps.astype(np.float64),
        np.ones(view.n),
    )


def explain_unused(view: View, match: RuleMatch, rows: Rows) -> Explanation:
    """Explain what holds the cores for nothing, and since when."""
    if match.wasted is not None and (match.wasted[rows] < 1).all():
        return partial.explain_part(view, match, rows)
    longest = view.lasting(match.steps, rows, Cause.ALLOCATED_UNUSED.value)
    asleep = _mostly_asleep(view, match, rows)
    value = mean_of(view.stretch(match.steps, rows, Cause.ALLOCATED_UNUSED.value))
    return Explanation(
        why=f"{_holders(asleep)}, but {view.gauge(rows)} {percent(value)} for {lasted(longest)}.",
        value=value,
        unit="ratio",
        score=0.93,
        evidence=(_kept(view, rows, asleep), _executions(view, rows, longest)),
        runners_up=((Cause.IDLE if asleep.all() else Cause.HUNG, 0.1),),
        confidence=0.85,
    )


def _mostly_asleep(view: View, match: RuleMatch, rows: Rows) -> Mask:
    """Return which nodes had no runtime for most of their streak, as far as it is looked at, (len(rows),)."""
    ours = np.arange(view.window.n_steps) >= view.window.n_steps - match.steps[rows][:, None]
    bare, loaded = ((held[rows] & ours).sum(axis=1) for held in (view.asleep, view.holding))
    return np.asarray(bare > loaded)


def _holders(asleep: Mask) -> str:
    """Say on how many nodes a runtime is loaded, and on how many pods hold cores without one."""
    nodes, bare = len(asleep), int(asleep.sum())
    if not bare:
        return f"Runtime loaded on {counted(nodes, 'node')}"
    loaded = f", and a runtime is loaded on {nodes - bare:,} more" if nodes > bare else ""
    return f"Pods hold the cores of {counted(bare, 'node')} without a runtime{loaded}"


def _kept(view: View, rows: Rows, asleep: Mask) -> str:
    """Say how much device memory is held, or that no runtime holds any."""
    if asleep.all():
        return (
            f"no runtime seen, host CPU {percent(float(np.nanmedian(view.recent(view.cpu)[rows])))}"
        )
    held = view.recent(view.memory)[rows[~asleep]]
    return (
        f"{size(float(np.nanmedian(held)))} of device memory held"
        if np.isfinite(held).any()
        else "device memory not read"
    )


def explain_hung(view: View, match: RuleMatch, rows: Rows) -> Explanation:
    """Explain that the work stopped, when, and which signs of life remain."""
    longest = view.lasting(match.steps, rows, Cause.HUNG.value)
    value = mean_of(view.stretch(match.steps, rows, Cause.HUNG.value))
    usual = view.levels[2][rows]
    before = (
        f", before at {percent(float(np.nanmedian(view.levels[1][rows])))}"
        if np.isfinite(usual).any()
        else ""
    )
    stuck = (
        " and the run repeats the same step"
        if set(view.roster.scope[rows]) & stuck_scopes(view)
        else ""
    )
    return Explanation(
        why=f"No executions for {lasted(longest)} on {counted(len(rows), 'node')}: utilization {percent(value)}{before}, "
        f"runtime still loaded{stuck}.",
        value=value,
        unit="ratio",
        usual=view.band(rows),
        score=0.95,
        evidence=(
            "runtime and device memory held",
            "EFA silent" if not (view.recent(view.efa)[rows] > 1e8).any() else "EFA busy",
            *_first_to_stop(view, match, rows),
            *cores.core_evidence(view, rows),
        ),
        runners_up=((Cause.ALLOCATED_UNUSED, 0.15),),
        confidence=0.85,
        at_risk=work_at_risk(view, rows, view.since(match.steps, rows, Cause.HUNG.value)),
    )


def _first_to_stop(view: View, match: RuleMatch, rows: Rows) -> tuple[str, ...]:
    """Name the node that stopped before the others, by the step of its last work and how much of that step it worked."""
    alert = view.alert_of((Cause.HUNG.value,), rows)
    if alert:
        return tuple(x for x in alert.anomaly.evidence if FIRST in x)
    at = view.window.n_steps - 1 - match.steps[rows].astype(np.intp)
    if len(rows) < 2 or (at < 0).any():
        return ()
    worked = np.clip(
        np.nan_to_num(view.utilization[rows, at] / view.levels[1][rows], nan=1.0), 0, 1
    )
    stopped = match.steps[rows] + 1 - worked
    first, second = np.argsort(-stopped, kind="stable")[:2]
    if stopped[first] - stopped[second] < _LEAD:
        return ()
    lead = float(stopped[first] - stopped[second]) * view.window.step
    return (f"{view.roster.ids[rows[first]]} {FIRST}, about {lasted(lead)} before the others",)


def _touched(view: View) -> Mask:
    """Return where something was executed although the mean of the step is next to nothing.

    A cell of a notebook.
    """
    highest = view.metric("neuroncore_utilization_highest_ratio")
    return np.asarray(
        view.holding & ((view.latency > 0) | (highest > view.number("idle.below")[:, None]))
    )


def _often(view: View, touched: Mask) -> Mask:
    """Return which nodes executed something in each quarter of the last hour, (n,)."""
    quarter = view.window.steps(LOOKBACK / 4)
    if touched.shape[1] < 4 * quarter:
        return np.zeros(view.n, dtype=bool)
    quarters = touched[:, -4 * quarter :].reshape(view.n, 4, quarter)
    return np.asarray(np.all(np.any(quarters, axis=2), axis=1))


def _executions(view: View, rows: Rows, length: timedelta) -> str:
    """Say how much of a stretch, as far as it is looked at, had executions."""
    share = float(_touched(view)[rows, -view.window.steps(length) :].mean())
    return f"executions in {percent(share)} of it" if share else "no executions"


def _spinning(view: View) -> Mask:
    """Return where cores look busy while no execution ends.

    None is counted, or latency has no reading although it usually has.

    A lost metric looks alike, so traffic that is usual must have stopped; where none is usual, the
    cores must be at their end or show the same value again and again, and no run may say that it
    goes on.
    """
    ended = view.metric(COMPLETED)
    dead = view.executing & (ended == 0) & (view.usual_of(COMPLETED) > 0)[:, None]
    usual = view.usual_of(LATENCY)
    if not (
        view.executing[:, -1:] & np.isnan(view.latency[:, -1:]) & ~np.isnan(usual)[:, None]
    ).any():
        return np.asarray(dead)
    lost = view.executing & np.isnan(view.latency) & ~np.isnan(usual)[:, None] & ~(ended > 0)
    efa, usual = view.efa, view.usual_of(SENT)[:, None]
    silent = (usual >= _TRAFFIC) & (np.isnan(efa) | (efa <= 0.1 * usual))
    return np.asarray(dead | (lost & (silent | (~(usual >= _TRAFFIC) & _at_end(view)))))


def _at_end(view: View) -> Mask:
    """Return where cores are pinned or flat though they usually are not, and no run of their scope says that it goes on."""
    pinned = (view.utilization >= PINNED) & (view.levels[2] < PINNED)[:, None]
    odd = (pinned | _flat(view)) & ~(view.metric(COMPLETED) > 0)
    going = (
        np.isin(view.roster.scope, list(moving_scopes(view)))
        if odd[:, -1:].any()
        else np.zeros(view.n, dtype=bool)
    )
    return np.asarray(odd & ~going[:, None])


def _flat(view: View) -> Mask:
    """Return where a node shows the very value of the step before, though its work usually varies.

    A process that is stuck.
    """
    flat = np.zeros_like(view.zero)
    level = view.utilization
    flat[:, 1:] = np.abs(np.diff(level, axis=1)) <= _SAME
    return np.asarray(flat & view.executing & (view.levels[2] - view.levels[0] > _VARIES)[:, None])


def _pinned_bare(view: View) -> Mask:
    """Return where cores are pinned and nothing else of the work was ever read.

    Neither latency nor traffic.
    """
    read = (LATENCY, SENT)
    bare = np.logical_and.reduce([np.isnan(view.usual_of(name)) for name in read])
    return _at_end(view) & bare[:, None] if bare.any() else np.zeros_like(view.zero)


def _freed_between(view: View, still: Counts) -> Mask:
    """Return which nodes gave their memory back between their work and the `still` streak.

    A new process, so no hang, (n,).
    """
    n_steps = view.window.n_steps
    at = np.arange(n_steps)
    last = np.asarray(since_last(view.executing))
    between = (at >= (n_steps - last)[:, None]) & (at < (n_steps - still)[:, None])
    return np.asarray((between & ((view.held == 0) | view.restarting)).any(axis=1))


def _memory_kept(view: View) -> Mask:
    """Return which nodes hold as much device memory as while they worked.

    A restart would have freed it.
    """
    usual = view.usual_of(MEMORY)
    kept: Mask = ~(view.recent(view.memory) < 0.7 * usual)
    return kept


def _released(view: View) -> Mask:
    """Return which nodes gave their device memory back by the newest reading, (n,).

    The process that hung is gone.
    """
    held, memory = view.recent(view.held, 1), view.recent(view.memory, 1)
    return np.asarray((held == 0) | (memory < 0.7 * view.usual_of(MEMORY)))


def _since_hang(view: View) -> Counts:
    """Return how many steps ago each node was last told to hang, (n,).

    What a hang explains is not counted again.
    """
    steps = np.full(view.n, view.window.n_steps, dtype=np.intp)
    for alert in view.alerts:
        if alert.anomaly.rule == Cause.HUNG.value:
            rows = view.roster.rows_of(alert.anomaly.things)
            steps[rows] = np.minimum(steps[rows], (view.now - alert.seen) // view.window.step)
    return steps


def _stopped_together(view: View, begins: Mask, steps: Counts) -> Mask:
    """Return which nodes stopped with others of their scope, or belong to a run that says the same step again and again."""
    mask = np.zeros(view.n, dtype=bool)
    stuck = stuck_scopes(view) if begins.any() else set()
    for scope in np.unique(view.roster.scope[begins]):
        rows = np.flatnonzero(begins & (view.roster.scope == scope))
        alike = np.abs(steps[rows] - np.median(steps[rows])) <= 2
        if scope in stuck or alike.sum() >= 2:
            mask[rows] = True
    return mask


HUNG = Rule(Cause.HUNG, find_hung, explain_hung)
ALLOCATED_UNUSED = Rule(Cause.ALLOCATED_UNUSED, find_unused, explain_unused)
