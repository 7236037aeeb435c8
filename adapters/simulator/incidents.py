"""Bend the signals of healthy jobs into each cause's signature."""

from __future__ import annotations

from collections.abc import Callable
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

    def resume(self) -> None:
        """Let the job begin again where the incident ends within the recording."""
        if self.after.progress.shape[0]:
            restart(self.after, self.rng)


Effect = Callable[[IncidentScope], None]
EFFECTS: dict[Cause, Effect] = {}
"""What each cause does to the signals; those that only a bill or an inventory shows do nothing."""


def apply_incident(
    signals: Signals, incident: PlannedIncident, job: PlannedJob, rng: np.random.Generator
) -> None:
    """Apply one incident to the signals of its job."""
    if not (effect := EFFECTS.get(incident.cause)):
        return
    minutes = signals.progress.shape[0]
    start, end = round(incident.at * 60), min(minutes, round((incident.at + incident.hours) * 60))
    everywhere, window = slice(None), slice(start, end)
    hit = signals.part(slice(*(incident.nodes or (0, job.nodes))), window)
    after = signals.part(everywhere, slice(end, minutes))
    effect(IncidentScope(hit, signals.part(everywhere, window), after, incident, job, rng))


def _effect_of(*causes: Cause) -> Callable[[Effect], Effect]:
    def entered(effect: Effect) -> Effect:
        EFFECTS.update(dict.fromkeys(causes, effect))
        return effect

    return entered


@_effect_of(Cause.IDLE)
def _idle(scope: IncidentScope) -> None:
    pace = scope.job_wide.progress.copy()
    stand_still(scope.hit)
    if scope.incident.nodes:
        scope.job_wide.progress[:] = pace


@_effect_of(Cause.ALLOCATED_UNUSED)
def _allocated_unused(scope: IncidentScope) -> None:
    """A notebook holds the cores: weights loaded, nothing executes."""
    _idle(scope)
    hit = scope.hit
    hit.fill(pod=1, runtime=1, memory=0.34, cpu=hit.cpu + 0.006, host_memory=0.12)


@_effect_of(Cause.COMPILING, Cause.LONG_COMPILE, Cause.COLD_CACHE)
def _compile(scope: IncidentScope) -> None:
    gap = min(5, scope.job_wide.cpu.shape[1])
    stand_still(scope.job_wide.part(slice(None), slice(0, gap)))
    compile_graph(scope.job_wide.part(slice(None), slice(gap, None)), scope.rng)
    scope.resume()


@_effect_of(Cause.KILLED_COMPILE)
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


@_effect_of(Cause.STARVED)
def _starved(scope: IncidentScope) -> None:
    """The loader cannot keep up.

    Bursts of work, CPUs saturated, executions themselves as quick as ever.
    """
    hit, share = scope.hit, (scope.level or 0.20) / scope.job.usual
    n, minutes = hit.utilization.shape
    edge = np.minimum(1, np.arange(minutes) / 3.0)
    fall = 1 - edge * (1 - share)
    flutter = 1 + edge * (
        wander(scope.rng, minutes, 0.07, 3)[None, :] + scope.rng.normal(0, 0.04, (n, minutes))
    )
    bursts = fall[None, :] * flutter
    hit.scale(utilization=bursts, efa=bursts, read=bursts)
    latency = 0.92 * scope.job.step_seconds / 8
    hit.fill(
        latency=latency * (1 + scope.rng.normal(0, 0.012, (n, minutes))),
        cpu=hit.cpu * (1 - edge)
        + edge * np.clip(0.96 + scope.rng.normal(0, 0.012, (n, minutes)), 0, 0.998),
        host_memory=hit.host_memory + 0.05 * edge,
    )
    scope.job_wide.scale(progress=fall)


@_effect_of(Cause.NETWORK_BOUND)
def _network_bound(scope: IncidentScope) -> None:
    """All-reduce fills the NIC: EFA near its rate, every execution waits for its peers."""
    hit, share = scope.hit, (scope.level or 0.45) / scope.job.usual
    hit.scale(utilization=share, read=share)
    full = np.clip(0.93 + scope.rng.normal(0, 0.012, hit.efa.shape), 0, 0.985)
    hit.fill(latency=hit.latency / share, efa=full)
    scope.job_wide.scale(progress=share)


@_effect_of(Cause.COLLECTIVE_PATH)
def _collective_path(scope: IncidentScope) -> None:
    """Single-node work whose collectives leave the node.

    Traffic where there was none, low utilization.
    """
    hit, share = scope.hit, (scope.level or 0.38) / scope.job.usual
    busy = hit.utilization > 0.3
    hit.efa[busy] = 0.30 + scope.rng.normal(0, 0.02, int(busy.sum()))
    hit.eni[busy] = 1.9e9
    hit.scale(utilization=share, read=share)
    hit.latency[:] /= share


@_effect_of(Cause.STRAGGLER)
def _straggler(scope: IncidentScope) -> None:
    """One node is slow.

    All others wait for it in each step, only its own cores have no rest, and every execution lasts.
    """
    hit, share = scope.hit, (scope.level or 0.45) / scope.job.usual
    slow = hit.part(slice(0, 1), slice(None))
    # A part is a view: the scaling below would reach the slow node's cores too.
    busy = np.clip(1.06 * slow.utilization, 0, 0.985)
    hit.scale(utilization=share, efa=share, read=share)
    slow.fill(utilization=busy)
    hit.latency[:] /= share
    scope.job_wide.scale(progress=share)


@_effect_of(Cause.HUNG)
def _hung(scope: IncidentScope) -> None:
    """A collective waits for ever: memory held, no executions, no traffic.

    Cores at 0, or spinning at `level`.
    """
    wide = scope.job_wide
    still = dict.fromkeys(("efa", "read", "write", "progress", "saving"), 0.0)
    cpu = 0.035 + 0.01 * (wide.cpu * 997 % 1)
    wide.fill(utilization=scope.level, latency=np.nan, cpu=cpu, **still)
    scope.resume()


@_effect_of(Cause.MEMORY_PRESSURE)
def _memory_pressure(scope: IncidentScope) -> None:
    hit, top = scope.hit, scope.level or 0.985
    rise = np.minimum(1, np.arange(hit.memory.shape[1]) / 90)
    hit.memory[:] += rise * (top - hit.memory)
    hit.scale(utilization=1 - 0.10 * rise, latency=1 + 0.10 * rise)
    scope.job_wide.scale(progress=1 - 0.10 * rise)


@_effect_of(Cause.EXECUTION_ERRORS)
def _execution_errors(scope: IncidentScope) -> None:
    errors = scope.hit.errors
    errors += scope.rng.poisson(scope.level or 9.0, errors.shape)
    scope.hit.scale(utilization=0.88)
    scope.job_wide.scale(progress=0.9)


@_effect_of(Cause.HARDWARE_FAULT)
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
    wide.part(slice(None), late).scale(utilization=0.30, efa=0.30, progress=0.30)
    hit.part(slice(None), late).scale(utilization=0.2)
    hit.status_failed[:, minutes * 4 // 5 :] = 1
    scope.resume()


@_effect_of(Cause.CHECKPOINT_AT_RISK)
def _checkpoint_at_risk(scope: IncidentScope) -> None:
    scope.job_wide.fill(saving=0, write=0)


@_effect_of(Cause.NO_DATA)
def _no_data(scope: IncidentScope) -> None:
    scope.hit.fill(visible=0)


@_effect_of(Cause.ODD)
def _odd(scope: IncidentScope) -> None:
    """Each figure has been seen before, never together.

    Full work, no collectives, a busy host, slow executions.
    """
    hit = scope.hit
    hit.scale(efa=0.06, latency=0.58, read=0.1)
    hit.fill(cpu=np.clip(0.72 + scope.rng.normal(0, 0.02, hit.cpu.shape), 0, 1), host_memory=0.2)
