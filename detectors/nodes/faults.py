"""Find faults of nodes: broken hardware, and executions that fail."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np

from bot.model.causes import Cause
from bot.model.counts import counted
from detectors.arrays import Floats, Mask, Numbers, Rows
from detectors.nodes import cores
from detectors.progress import work_at_risk
from detectors.rule import Explanation, Rule, RuleMatch, no_match
from detectors.streak import trailing
from detectors.view import View

STATUS = timedelta(minutes=10)
"""How long a status check must fail: one failed minute happens at reboots."""
_HARDWARE = (
    "neuron_hardware_ecc_uncorrected_count",
    "neuron_execution_errors_hardware_count",
    "neuron_hardware_ecc_events_count",
    "status_check_failed_count",
)
_TYPES = ("hardware", "numerical", "transient", "model", "runtime")


def find_hardware(view: View) -> RuleMatch:
    """Return nodes with uncorrected ECC events, hardware errors, failed status checks or many ECC events within the span."""
    metrics = [view.metric(name) for name in _HARDWARE]
    rows = np.flatnonzero(np.logical_or.reduce([(metric > 0).any(axis=1) for metric in metrics]))
    uncorrected, broken, every, status = (metric[rows] for metric in metrics)
    needed = view.steps("hardware_fault.within")[rows]
    many = sums(every, needed) >= view.number("hardware_fault.ecc_events")[rows]
    grave = (
        (sums(uncorrected, needed) >= 1)
        | (sums(broken, needed) >= 3)
        | (trailing(status > 0, np.isnan(status)) >= view.window.steps(STATUS))
    )
    match = no_match(view)
    match.hit[rows] = (grave | many) & (view.roster.running & view.limits.on("hardware_fault.on"))[rows]
    if not match.hit.any():
        return match
    events = _events(view)[rows]
    match.steps[rows] = np.maximum(1, events.shape[1] - events.argmax(axis=1))
    return replace(match, wasted=view.lost_share)


def find_errors(view: View) -> RuleMatch:
    """Return nodes with more than `execution_errors.above` errors within the span, in more than one step of it."""
    every = view.metric("neuron_execution_errors_count")
    rows = np.flatnonzero((every > 0).any(axis=1))
    errors, needed = every[rows], view.steps("execution_errors.within")[rows]
    often = ((errors > 0) & _within(errors, needed)).sum(axis=1) >= 2
    on = view.roster.running & view.limits.on("execution_errors.on")
    match = no_match(view)
    match.hit[rows] = (sums(errors, needed) > view.number("execution_errors.above")[rows]) & often & on[rows]
    if not match.hit.any():
        return match
    match.steps[rows] = np.maximum(1, trailing(since_last_within(errors > 0)))
    return replace(match, wasted=view.lost_share)


def explain_hardware(view: View, _: RuleMatch, rows: Rows) -> Explanation:
    """Explain which kinds of hardware event were seen, and how many."""
    needed = view.steps("hardware_fault.within")
    ecc = _total(view.metric("neuron_hardware_ecc_events_count"), needed, rows)
    uncorrected = _total(view.metric("neuron_hardware_ecc_uncorrected_count"), needed, rows)
    broken = _total(view.metric("neuron_execution_errors_hardware_count"), needed, rows)
    failed = int((view.recent(view.metric("status_check_failed_count"))[rows] > 0).sum())
    parts = [f"{ecc:,.0f} ECC events" + (f" ({uncorrected:,.0f} uncorrected)" if uncorrected else "")] if ecc else []
    parts += [f"{uncorrected:,.0f} uncorrected ECC events"] if uncorrected and not ecc else []
    parts += [f"{broken:,.0f} hardware errors of executions"] if broken else []
    parts += [f"failed EC2 status checks on {counted(failed, 'node')}"] if failed else []
    devices = cores.device_evidence(view, rows)
    where = _where(view, rows) + (f" ({devices[0].partition(':')[0]})" if devices else "")
    return Explanation(
        why=f"{', '.join(parts) or 'Hardware events'} within {_minutes(view, rows, 'hardware_fault.within')} {where}.",
        value=ecc + broken,
        unit="count",
        usual=(0.0, 0.0),
        score=0.97,
        evidence=(*parts, *devices, *cores.core_evidence(view, rows)),
        metric="neuron_hardware_ecc_events_count" if ecc else None,
        at_risk=work_at_risk(view, rows),
    )


def _where(view: View, rows: Rows) -> str:
    """Name the sick nodes, and count the others that only wait."""
    within = _within(view.utilization, view.steps("hardware_fault.within"))
    sick = [i for i in rows if (_events(view)[i] & within[i]).any()] or list(rows)
    names = ", ".join(view.roster.ids[i] for i in sick[:3]) if len(sick) <= 3 else counted(len(sick), "node")
    waiting = len(rows) - len(sick)
    return f"on {names}" + (
        f"; {counted(waiting, 'other node')} of the cluster {'falls' if waiting == 1 else 'fall'} behind" if waiting else ""
    )


def _events(view: View) -> Mask:
    """Tell where any hardware event was seen."""
    return np.asarray(np.logical_or.reduce([view.metric(name) > 0 for name in _HARDWARE]))


def explain_errors(view: View, _: RuleMatch, rows: Rows) -> Explanation:
    """Explain how many executions failed, and of which types."""
    needed = view.steps("execution_errors.within")
    total = _total(view.metric("neuron_execution_errors_count"), needed, rows)
    kinds = [(_total(view.metric(f"neuron_execution_errors_{kind}_count"), needed, rows), kind) for kind in _TYPES]
    kinds_seen = ", ".join(f"{number:,.0f} {kind}" for number, kind in sorted(kinds, reverse=True) if number) or "type not told"
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
    """Return the sum of the newest `steps` (n,) readings of each row; 0 where nothing was read, which flags nothing."""
    newest = values[:, -int(steps.max(initial=1)) :]
    counted = np.where(_within(newest, steps) & ~np.isnan(newest), newest, 0)
    return np.asarray(counted.sum(axis=1, dtype=np.float64))


def since_last_within(holds: Mask) -> Mask:
    """Tell which steps lie at or after the first that holds, (n, n_steps)."""
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
