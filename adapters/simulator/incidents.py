"""Bend the signals of healthy jobs into each cause's signature."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from adapters.simulator.scenario import PlannedIncident, PlannedJob
from adapters.simulator.workload import Signals, compile_graph, restart, stand_still, wander
from bot.model.causes import Cause


@dataclass(frozen=True)
class IncidentScope:
    """Hold the signals that an incident may change.

    Of the nodes that are hit, of the whole job meanwhile, and afterwards.
    """

    hit: Signals
    job_wide: Signals
    after: Signals
    incident: PlannedIncident
    job: PlannedJob
    rng: np.random.Generator

    @property
    def level(self) -> float:
        """Return the incident's own figure."""
        return self.incident.level


Effect = Callable[[IncidentScope], None]


def apply_incident(
    signals: Signals, incident: PlannedIncident, job: PlannedJob, rng: np.random.Generator
) -> None:
    """Apply one incident to the signals of its job.

    Causes that only a bill or an inventory shows change nothing.
    """
    minutes = signals.progress.shape[0]
    start, end = round(incident.at * 60), min(minutes, round((incident.at + incident.hours) * 60))
    first, last = incident.nodes or (0, job.nodes)
    every, window = slice(None), slice(start, end)
    effect = EFFECTS.get(incident.cause)
    if effect:
        hit, wide = signals.part(slice(first, last), window), signals.part(every, window)
        effect(
            IncidentScope(hit, wide, signals.part(every, slice(end, minutes)), incident, job, rng)
        )


def _idle(scope: IncidentScope) -> None:
    pace = scope.job_wide.progress.copy()
    stand_still(scope.hit)
    if scope.incident.nodes:
        scope.job_wide.progress[:] = pace


def _allocated_unused(scope: IncidentScope) -> None:
    """A notebook holds the cores: weights loaded, nothing executes."""
    _idle(scope)
    hit = scope.hit
    hit.pod[:] = hit.runtime[:] = 1
    hit.memory[:] = 0.34
    hit.cpu[:] += 0.006
    hit.host_memory[:] = 0.12


def _compile(scope: IncidentScope) -> None:
    gap = min(5, scope.job_wide.cpu.shape[1])
    stand_still(scope.job_wide.part(slice(None), slice(0, gap)))
    compile_graph(scope.job_wide.part(slice(None), slice(gap, None)), scope.rng)
    _resume(scope)


def _killed_compile(scope: IncidentScope) -> None:
    """Somebody cancels the job while it compiles for `level` minutes.

    Launched again, it compiles as long again and trains.
    """
    wide, gap, length = scope.job_wide, 5, round(scope.level or 40)
    stand_still(wide)
    cut = wide.part(slice(None), slice(gap, gap + length))
    compile_graph(cut, scope.rng)
    cut.compiling[:] = 2
    if scope.after.progress.shape[0]:
        restart(scope.after, scope.rng, length)


def _starved(scope: IncidentScope) -> None:
    """The loader cannot keep up.

    Bursts of work, CPUs at their end, executions themselves as quick as ever.
    """
    hit, level = scope.hit, scope.level or 0.20
    n, minutes = hit.utilization.shape
    usual = scope.job.usual
    edge = np.minimum(1, np.arange(minutes) / 3.0)
    fall = 1 - edge * (1 - level / usual)
    flutter = 1 + edge * (
        wander(scope.rng, minutes, 0.07, 3)[None, :] + scope.rng.normal(0, 0.04, (n, minutes))
    )
    for array in (hit.utilization, hit.efa, hit.read):
        np.multiply(array, fall[None, :] * flutter, out=array)
    hit.latency[:] = (
        0.92 * scope.job.step_seconds / 8 * (1 + scope.rng.normal(0, 0.012, (n, minutes)))
    )
    hit.cpu[:] = hit.cpu * (1 - edge) + edge * np.clip(
        0.96 + scope.rng.normal(0, 0.012, (n, minutes)), 0, 0.998
    )
    hit.host_memory[:] += 0.05 * edge
    scope.job_wide.progress[:] *= fall


def _network_bound(scope: IncidentScope) -> None:
    """All-reduce fills the NIC: EFA near its rate, every execution waits for its peers."""
    hit, level = scope.hit, scope.level or 0.45
    share = level / scope.job.usual
    hit.utilization[:] *= share
    hit.latency[:] /= share
    hit.efa[:] = np.clip(0.93 + scope.rng.normal(0, 0.012, hit.efa.shape), 0, 0.985)
    hit.read[:] *= share
    scope.job_wide.progress[:] *= share


def _collective_path(scope: IncidentScope) -> None:
    """Single-node work whose collectives leave the node.

    Traffic where there was none, low utilization.
    """
    hit, share = scope.hit, (scope.level or 0.38) / scope.job.usual
    busy = hit.utilization > 0.3
    hit.efa[busy] = 0.30 + scope.rng.normal(0, 0.02, int(busy.sum()))
    hit.eni[busy] = 1.9e9
    hit.utilization[:] *= share
    hit.latency[:] /= share
    hit.read[:] *= share


def _straggler(scope: IncidentScope) -> None:
    """One node is slow.

    All others wait for it in each step, only its own cores have no rest, and every execution lasts.
    """
    hit, share = scope.hit, (scope.level or 0.45) / scope.job.usual
    slow = hit.part(slice(0, 1), slice(None))
    busy = np.clip(1.06 * slow.utilization, 0, 0.985)
    for array in (hit.utilization, hit.efa, hit.read):
        array[:] *= share
    slow.utilization[:] = busy
    hit.latency[:] /= share
    scope.job_wide.progress[:] *= share


def _hung(scope: IncidentScope) -> None:
    """A collective waits for ever: memory held, no executions, no traffic.

    Cores at 0, or spinning at `level`.
    """
    wide = scope.job_wide
    wide.utilization[:] = scope.level
    wide.latency[:] = np.nan
    wide.efa[:] = wide.read[:] = wide.write[:] = 0
    wide.cpu[:] = 0.035 + 0.01 * (wide.cpu * 997 % 1)
    wide.progress[:], wide.saving[:] = 0, 0
    _resume(scope)


def _memory_pressure(scope: IncidentScope) -> None:
    hit = scope.hit
    minutes = hit.memory.shape[1]
    top = scope.level or 0.985
    rise = np.minimum(1, np.arange(minutes) / 90)
    hit.memory[:] += rise * (top - hit.memory)
    hit.utilization[:] *= 1 - 0.10 * rise
    hit.latency[:] *= 1 + 0.10 * rise
    scope.job_wide.progress[:] *= 1 - 0.10 * rise


def _execution_errors(scope: IncidentScope) -> None:
    hit = scope.hit
    hit.errors[:] += scope.rng.poisson(scope.level or 9.0, hit.errors.shape)
    hit.utilization[:] *= 0.88
    scope.job_wide.progress[:] *= 0.9


def _hardware_fault(scope: IncidentScope) -> None:
    """One device decays.

    ECC events first, hardware errors after, then the whole job waits for the sick node.
    """
    hit, wide = scope.hit, scope.job_wide
    minutes = hit.ecc.shape[1]
    hit.ecc[:] += scope.rng.poisson(0.5 + 30 * np.linspace(0, 1, minutes) ** 2, hit.ecc.shape)
    sick = slice(minutes // 4, minutes)
    broken = scope.rng.poisson(6, hit.errors[:, sick].shape)
    hit.errors[:, sick] += broken
    hit.hardware_errors[:, sick] += broken
    late = slice(minutes // 2, minutes)
    wide.utilization[:, late] *= 0.30
    wide.efa[:, late] *= 0.30
    wide.progress[late] *= 0.30
    hit.utilization[:, late] *= 0.2
    hit.status_failed[:, minutes * 4 // 5 :] = 1
    _resume(scope)


def _checkpoint_at_risk(scope: IncidentScope) -> None:
    scope.job_wide.saving[:] = 0
    scope.job_wide.write[:] = 0


def _no_data(scope: IncidentScope) -> None:
    scope.hit.visible[:] = 0


def _odd(scope: IncidentScope) -> None:
    """Each figure has been seen before, never together.

    Full work, no collectives, a busy host, slow executions.
    """
    hit = scope.hit
    hit.efa[:] *= 0.06
    hit.cpu[:] = np.clip(0.72 + scope.rng.normal(0, 0.02, hit.cpu.shape), 0, 1)
    hit.latency[:] *= 0.58
    hit.read[:] *= 0.1
    hit.host_memory[:] = 0.2


def _resume(scope: IncidentScope) -> None:
    if scope.after.progress.shape[0]:
        restart(scope.after, scope.rng)


EFFECTS: Mapping[Cause, Effect] = {
    Cause.IDLE: _idle,
    Cause.ALLOCATED_UNUSED: _allocated_unused,
    Cause.COMPILING: _compile,
    Cause.LONG_COMPILE: _compile,
    Cause.COLD_CACHE: _compile,
    Cause.KILLED_COMPILE: _killed_compile,
    Cause.STARVED: _starved,
    Cause.NETWORK_BOUND: _network_bound,
    Cause.COLLECTIVE_PATH: _collective_path,
    Cause.STRAGGLER: _straggler,
    Cause.HUNG: _hung,
    Cause.MEMORY_PRESSURE: _memory_pressure,
    Cause.EXECUTION_ERRORS: _execution_errors,
    Cause.HARDWARE_FAULT: _hardware_fault,
    Cause.CHECKPOINT_AT_RISK: _checkpoint_at_risk,
    Cause.NO_DATA: _no_data,
    Cause.ODD: _odd,
}
