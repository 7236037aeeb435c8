"""Find faults of nodes: broken hardware, executions that fail, memory nearly full, and silence."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np

from bot.model.anomaly import Anomaly
from bot.model.causes import Cause
from bot.model.fleet import Instance
from bot.model.labels import Labels
from bot.model.money import counted
from detectors.arrays import Floats, Mask, Numbers, Rows, lately, share_before, trailing
from detectors.nodes import cores
from detectors.progress import work_at_risk
from detectors.roster import scope_of
from detectors.rule import Explanation, Rule, RuleMatch, Subject, anomaly_of, no_match
from detectors.view import LATELY, LOOKBACK, View
from detectors.words import lasted, percent, size

STATUS = timedelta(minutes=10)
"""How long a status check must fail: one failed minute happens at reboots."""
BEHIND = 0.1
"""Share of its usual work that a peer of a broken device loses to be one that waits for it."""
RECURS = 3
"""Steps with ECC events from which executions that fail there count as such events."""
_HARDWARE = (
    "neuron_hardware_ecc_uncorrected_count",
    "neuron_execution_errors_hardware_count",
    "neuron_hardware_ecc_events_count",
    "status_check_failed_count",
)
_TYPES = ("hardware", "numerical", "transient", "model", "runtime")


def find_hardware(view: View) -> RuleMatch:
    """Return nodes with uncorrected ECC events, hardware errors, failed status checks or many ECC events within the span.

    A fault lasts while any event is seen within the span, and until the node has worked for as long
    without one: a node that stands still after a fault is under repair.
    """
    broken_still = _unmended(view)
    metrics = [view.metric(name) for name in _HARDWARE]
    rows = np.flatnonzero(np.logical_or.reduce([(metric > 0).any(axis=1) for metric in metrics]))
    if not (len(rows) or broken_still.any()):
        return no_match(view)
    uncorrected, broken, every, status = (metric[rows] for metric in metrics)
    needed = view.steps("hardware_fault.within")[rows]
    many = (
        sums(every, needed) + _failed(view, rows) >= view.number("hardware_fault.ecc_events")[rows]
    )
    grave = (
        (sums(uncorrected, needed) >= 1)
        | (sums(broken, needed) >= 3)
        | (trailing(status > 0, np.isnan(status)) >= view.window.steps(STATUS))
    )
    hit = broken_still.copy()
    hit[rows] |= grave | many
    hit &= view.roster.running & view.limits.on("hardware_fault.on")
    return _with_job(view, RuleMatch(hit, np.ones(view.n))) if hit.any() else no_match(view)


def _failed(view: View, rows: Rows) -> Numbers:
    """Return how many executions failed within the span where ECC events recur, (len(rows),).

    Of a broken device both do.
    """
    errors, needed = (
        view.metric("neuron_execution_errors_count")[rows],
        view.steps("hardware_fault.within")[rows],
    )
    return np.where(recurring(view)[rows], sums(errors, needed), 0.0)


def recurring(view: View) -> Mask:
    """Return which nodes had ECC events again and again within the span, though not yet as many as a fault needs, (n,)."""
    events = view.metric("neuron_hardware_ecc_events_count")
    if not ((events > 0).sum(axis=1) >= RECURS).any():
        return np.zeros(view.n, dtype=bool)
    return np.asarray(
        ((events > 0) & _within(events, view.steps("hardware_fault.within"))).sum(axis=1) >= RECURS
    )


def _with_job(view: View, sick: RuleMatch) -> RuleMatch:
    """Add to the broken nodes those of their job that fell about as far as they did, and what each of them loses.

    What fell before waits for something else.
    """
    rows = np.flatnonzero(sick.hit)
    seen, within = _events(view)[rows], int(view.steps("hardware_fault.within")[rows].max())
    since = trailing(lately(seen, within))
    sick.steps[rows] = np.maximum(1, np.where(since, since, seen.shape[1] - seen.argmax(axis=1)))
    steps, lost = (
        sick.steps.copy(),
        view.lost_at(view.recent(view.utilization, view.window.steps(LATELY))),
    )
    behind = view.mostly(view.lost_at(view.utilization) > BEHIND)
    broken = rows[(failing(view) & behind & ~view.roster.inference)[rows]]
    for row in broken:
        peers = view.fellows(np.array([row]))
        steps[peers] = np.where(
            sick.hit[peers], steps[peers], np.maximum(steps[peers], sick.steps[row])
        )
        alike = behind & (lost > max(BEHIND, lost[row] / 2))
        sick.hit[peers] |= (alike & ~_under_before(view, steps))[peers]
    wasted = np.where(lost > BEHIND, lost, 0.0).astype(np.float64)
    mean = view.lost_since(sick.hit, steps, Cause.HARDWARE_FAULT.value)
    return RuleMatch(sick.hit, steps, wasted, np.where(np.isnan(mean), wasted, mean))


def _under_before(view: View, steps: Numbers) -> Mask:
    """Return which nodes worked under their usual before the last `steps`, (n,)."""
    under = view.lost_at(view.utilization) > BEHIND
    known = ~view.unknown & ~view.evaluating
    return np.asarray(
        share_before(under, known, steps.astype(np.intp), view.steps("hardware_fault.within").max())
        > 0.5
    )


def failing(view: View) -> Mask:
    """Return which nodes had a hardware event within the span.

    One under repair fails no more, and nobody waits for it, (n,).
    """
    return np.asarray(
        (_events(view) & _within(view.utilization, view.steps("hardware_fault.within"))).any(axis=1)
    )


def _unmended(view: View) -> Mask:
    """Return which nodes an open alert found broken that have not yet worked for the span without another event, (n,)."""
    broken = np.zeros(view.n, dtype=bool)
    for (rule, _), alert in view.open.items():
        rows = np.array(view.roster.rows_of(alert.anomaly.things), dtype=np.intp)
        if rule == Cause.HARDWARE_FAULT.value and len(rows):
            told = view.whole.since(alert.anomaly.window.start).pick(rows)
            uncorrected, errors, every, status = (
                np.nan_to_num(told.of(name)) for name in _HARDWARE
            )
            grave = (uncorrected > 0) | (errors > 0)
            failed = (status > 0).sum(axis=1) >= view.window.steps(STATUS)
            many = every.sum(axis=1) >= view.number("hardware_fault.ecc_events")[rows]
            broken[rows] = grave.any(axis=1) | failed | many
    if not broken.any():
        return broken
    within = _within(view.utilization, view.steps("hardware_fault.within"))
    works = (view.executing & within).sum(axis=1) >= within.sum(axis=1) / 2
    return np.asarray(broken & (failing(view) | ~works))


def find_errors(view: View) -> RuleMatch:
    """Return nodes with more than `execution_errors.above` errors within the span, in more than one step of it."""
    every = view.metric("neuron_execution_errors_count")
    rows = np.flatnonzero((every > 0).any(axis=1))
    if not len(rows):
        return no_match(view)
    errors, needed = every[rows], view.steps("execution_errors.within")[rows]
    often = ((errors > 0) & _within(errors, needed)).sum(axis=1) >= 2
    on = view.roster.running & view.limits.on("execution_errors.on")
    hit, steps = np.zeros(view.n, dtype=bool), np.ones(view.n)
    hit[rows] = (
        (sums(errors, needed) > view.number("execution_errors.above")[rows]) & often & on[rows]
    )
    if not hit.any():
        return no_match(view)
    steps[rows] = np.maximum(1, trailing(since_last_within(errors > 0)))
    return RuleMatch(hit, steps, view.lost_share)


def explain_hardware(view: View, _: RuleMatch, rows: Rows) -> Explanation:
    """Explain which kinds of hardware event were seen, and how many."""
    needed = view.steps("hardware_fault.within")
    ecc = _total(view.metric("neuron_hardware_ecc_events_count"), needed, rows)
    uncorrected = _total(view.metric("neuron_hardware_ecc_uncorrected_count"), needed, rows)
    broken = _total(view.metric("neuron_execution_errors_hardware_count"), needed, rows)
    failed = int((view.recent(view.metric("status_check_failed_count"))[rows] > 0).sum())
    parts = (
        [f"{ecc:,.0f} ECC events" + (f" ({uncorrected:,.0f} uncorrected)" if uncorrected else "")]
        if ecc
        else []
    )
    parts += [f"{uncorrected:,.0f} uncorrected ECC events"] if uncorrected and not ecc else []
    parts += [f"{broken:,.0f} hardware errors of executions"] if broken else []
    parts += [f"failed EC2 status checks on {counted(failed, 'node')}"] if failed else []
    devices = cores.device_evidence(view, rows)
    where = _where(view, rows) + (f" ({devices[0].partition(':')[0]})" if devices else "")
    seen = f"{', '.join(parts)} within {_minutes(view, rows, 'hardware_fault.within')} {where}."
    return Explanation(
        why=seen if parts else _repair(view, rows, where),
        value=ecc + broken,
        unit="count",
        usual=(0.0, 0.0),
        score=0.97,
        evidence=(*parts, *devices, *cores.core_evidence(view, rows)),
        metric="neuron_hardware_ecc_events_count" if ecc else None,
        at_risk=work_at_risk(view, rows),
    )


def _repair(view: View, rows: Rows, where: str) -> str:
    """Explain a fault of which nothing is seen now.

    What was, and that its nodes have not worked since.
    """
    told = view.whole.since(
        view.since(np.full(view.n, view.window.n_steps), rows, Cause.HARDWARE_FAULT.value)
    ).pick(rows)
    events = sum(np.nan_to_num(told.of(name)) for name in _HARDWARE)
    if not np.any(events):
        return f"Hardware events {where}."
    last = np.flatnonzero(np.any(np.asarray(events) > 0, axis=0))[-1]
    ago = lasted(max(1, told.n_steps - 1 - int(last)) * told.step)
    return f"{float(np.sum(events)):,.0f} hardware events {where}, the last {ago} ago; no work was seen there since."


def _where(view: View, rows: Rows) -> str:
    """Name the sick nodes, and count the others that only wait."""
    within = _within(view.utilization, view.steps("hardware_fault.within"))
    sick = [i for i in rows if (_events(view)[i] & within[i]).any()] or list(rows)
    names = (
        ", ".join(view.roster.ids[i] for i in sick[:3])
        if len(sick) <= 3
        else counted(len(sick), "node")
    )
    waiting = len(rows) - len(sick)
    return f"on {names}" + (
        f"; {counted(waiting, 'other node')} of the cluster {'falls' if waiting == 1 else 'fall'} behind"
        if waiting
        else ""
    )


def _events(view: View) -> Mask:
    """Return where any hardware event was seen."""
    return np.asarray(np.logical_or.reduce([view.metric(name) > 0 for name in _HARDWARE]))


def explain_errors(view: View, _: RuleMatch, rows: Rows) -> Explanation:
    """Explain how many executions failed, and of which types."""
    needed = view.steps("execution_errors.within")
    total = _total(view.metric("neuron_execution_errors_count"), needed, rows)
    kinds = [
        (_total(view.metric(f"neuron_execution_errors_{kind}_count"), needed, rows), kind)
        for kind in _TYPES
    ]
    kinds_seen = (
        ", ".join(f"{number:,.0f} {kind}" for number, kind in sorted(kinds, reverse=True) if number)
        or "type not told"
    )
    return Explanation(
        why=f"{total:,.0f} execution errors within {_minutes(view, rows, 'execution_errors.within')}"
        f" on {counted(len(rows), 'node')} ({kinds_seen}).",
        value=total,
        unit="count",
        usual=(0.0, 0.0),
        score=0.92,
        evidence=(kinds_seen, *cores.core_evidence(view, rows)),
        runners_up=((Cause.HARDWARE_FAULT, 0.15),),
        confidence=0.85,
    )


def sums(values: Floats, steps: Numbers) -> Numbers:
    """Return the sum of the newest `steps` (n,) readings of each row.

    0 where nothing was read, which flags nothing.
    """
    newest = values[:, -int(steps.max(initial=1)) :]
    counted = np.where(_within(newest, steps) & ~np.isnan(newest), newest, 0)
    return np.asarray(counted.sum(axis=1, dtype=np.float64))


def since_last_within(holds: Mask) -> Mask:
    """Return which steps lie at or after the first that holds, (n, n_steps)."""
    return np.logical_or.accumulate(holds, axis=1)


def _within(values: Floats, steps: Numbers) -> Mask:
    n_steps = values.shape[1]
    return np.asarray(np.arange(n_steps) >= (n_steps - steps)[:, None])


def _total(values: Floats, steps: Numbers, rows: Rows) -> float:
    return float(sums(values, steps)[rows].sum())


def _minutes(view: View, rows: Rows, key: str) -> str:
    minutes = view.steps(key)[rows[0]] * view.window.step.total_seconds() / 60
    return f"{minutes:.0f} min"


HARDWARE_FAULT = Rule(Cause.HARDWARE_FAULT, find_hardware, explain_hardware)
EXECUTION_ERRORS = Rule(Cause.EXECUTION_ERRORS, find_errors, explain_errors, yields_to_fault=True)


def find_memory(view: View) -> RuleMatch:
    """Return nodes whose device memory is nearly full although it usually is not."""
    share = (view.memory / view.roster.memory[:, None]).astype(np.float32)
    usual = view.usual_of("neuroncore_memory_used_bytes") / view.roster.memory
    above = view.number("memory_pressure.above")
    full = share >= above[:, None]
    if not (view.is_open(Cause.MEMORY_PRESSURE.value) or full.any()):
        return no_match(view)
    steps = trailing(full, np.isnan(share))
    grown = ~(usual >= above - 0.02)
    stays = view.held_open(Cause.MEMORY_PRESSURE.value) & (view.recent(share) >= above - 0.02)
    hit = (view.eligible & grown & (steps >= view.steps("memory_pressure.for"))) | (
        view.roster.running & stays
    )
    return RuleMatch(
        hit & view.limits.on("memory_pressure.on"), steps.astype(np.float64), view.lost_share
    )


def explain_memory(view: View, _: RuleMatch, rows: Rows) -> Explanation:
    """Explain how full the device memory is, against the type's."""
    used = view.recent(view.memory)[rows]
    share = float(np.nanmax(used / view.roster.memory[rows]))
    whole = float(np.nanmedian(view.roster.memory[rows]))
    usual = (view.usual_of("neuroncore_memory_used_bytes")[rows] / view.roster.memory[rows])[
        np.isfinite(used)
    ]
    finite = usual[np.isfinite(usual)]
    return Explanation(
        why=f"Device memory {percent(share)} full ({size(float(np.nanmax(used)))} of {size(whole)})"
        f" on {counted(len(rows), 'node')}"
        + (f", usually {percent(float(np.median(finite)))}." if len(finite) else "."),
        value=share,
        unit="ratio",
        usual=(float(finite.min()), float(finite.max())) if len(finite) else None,
        score=0.8,
    )


MEMORY_PRESSURE = Rule(Cause.MEMORY_PRESSURE, find_memory, explain_memory)


def find_silent(view: View) -> RuleMatch:
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


def explain_silent(view: View, match: RuleMatch, rows: Rows) -> Explanation:
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
    """Return which nodes reported within the last day, sampled; (n,)."""
    day = view.whole.values[:, -view.whole.steps(24 * LOOKBACK) :: 3]
    return np.asarray((~np.isnan(day)).any(axis=(1, 2)))


def _share_reporting(view: View) -> Numbers:
    """Return the share of each scope's running nodes that report, (n_scopes,)."""
    roster = view.roster
    speaking = np.bincount(roster.scope[view.eligible], minlength=len(roster.scopes))
    return np.asarray(speaking / np.maximum(roster.sizes, 1))
