"""Find compiles past their grace, and tell a cold cache from one long compile."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import numpy.typing as npt

from bot.model.anomaly import Cause
from detectors.marks import COMPILING
from detectors.rules.found import Found, Words, nobody
from detectors.streak import sustained
from detectors.usual import utilization_of
from detectors.view import View
from detectors.words import count, lasted, percent

EARLIER = timedelta(minutes=15)
_LONG = (
    "Do not cancel it: an interrupted compile is cached as failed; use `--retry_failed_compilation` if it was.",
    "Pre-compile on one node (`neuron_parallel_compile`) before launching the whole job.",
    "Share the cache: set NEURON_COMPILE_CACHE_URL to a bucket that every node may read and write.",
)
_COLD = (
    "Share the cache: set NEURON_COMPILE_CACHE_URL to one bucket; `--cache_dir` in NEURON_CC_FLAGS overrides it.",
    "Check what changed: batch size, optimizer, compiler flags and compiler version all miss the cache.",
    "Pre-compile on one node (`neuron_parallel_compile`) and do not cancel this one.",
)

_COLD_WHY = (
    "the same nodes compiled before and then worked: the cache went cold, likely by another batch size, optimizer,"
    " compiler flag or compiler version, or it is not kept"
)


def find(view: View) -> Found:
    """Return nodes compiling for longer than `compiling.grace`, or than `cold_cache.again` where their work ran before."""
    steps = view.compile_steps
    if not steps.any():
        return nobody(view, Cause.LONG_COMPILE)
    stays = view.held_open(*FAMILY) & (steps > 0)
    hit = (view.eligible & ((steps > view.steps("compiling.grace")) | _again(view, steps))) | (view.roster.running & stays)
    on = view.limits.on("compiling.on") & (view.limits.on("long_compile.on") | view.limits.on("cold_cache.on"))
    return Found(Cause.LONG_COMPILE, hit & on, steps.astype(np.float64), np.ones(view.n))


FAMILY = (Cause.LONG_COMPILE.value, Cause.COLD_CACHE.value)


def tell(view: View, found: Found, rows: npt.NDArray[np.intp]) -> Words:
    """Say how long the compile lasts, on how many nodes, and whether it was to be expected."""
    longest = view.lasting(found.steps, rows, *FAMILY)
    cause, reason = _cause(view, rows, longest)
    nodes = count(len(rows), "node")
    waste = f"{nodes} compile; {_spared(view, found, rows)}" if len(rows) > 1 else "one node compiles"
    cpu = view.recent(view.cpu)[rows]
    logged = view.said is not None and bool((view.said[rows, -1] == COMPILING).all())
    read = bool(np.isfinite(cpu).any())
    return Words(
        why=f"{nodes} {'has' if len(rows) == 1 else 'have'} been compiling for {lasted(longest)}"
        f" (host CPU {percent(float(np.nanmedian(cpu))) if read else 'not read'}, no executions); {reason}.",
        value=longest.total_seconds(),
        unit="seconds",
        cause=cause,
        score=0.9,
        evidence=(waste, "the compiler's log says that it goes on" if logged else "device memory not yet filled"),
        confidence=0.98 if logged else 0.8 if read else 0.5,
        runners_up=() if logged else ((Cause.IDLE, 0.1),) if read else ((Cause.ALLOCATED_UNUSED, 0.4),),
        suggestions=_COLD if cause is Cause.COLD_CACHE else _LONG,
        family=FAMILY,
    )


def _spared(view: View, found: Found, rows: npt.NDArray[np.intp]) -> str:
    """Say what would be spared if one node compiled for all: the sum less the slowest."""
    hours = found.steps[rows] * (view.window.step / timedelta(hours=1))
    spared = float(hours.sum() - hours.max())
    return f"one would do, and spare {spared:,.1f} of {float(hours.sum()):,.1f} node-hours"


def _cause(view: View, rows: npt.NDArray[np.intp], longest: timedelta) -> tuple[Cause, str]:
    scope = int(view.roster.scope[rows[0]])
    known = view.alert(FAMILY, view.roster.scopes[scope])
    share = len(rows) / max(1, int(view.roster.sizes[scope]))
    many = len(rows) >= 4 and share >= float(view.number("cold_cache.nodes")[rows[0]])
    reasons = [f"{percent(share)} of the cluster's nodes compile the same minutes"] if many else []
    reasons += [_COLD_WHY] if known is None and _before(view, rows, longest).any() else []
    if reasons or (known is not None and known.cause is Cause.COLD_CACHE):
        return Cause.COLD_CACHE, "; ".join(reasons) or _COLD_WHY
    return Cause.LONG_COMPILE, "past the grace of a first compile"


def _again(view: View, steps: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
    """Tell which nodes compile for longer than `cold_cache.again` though they compiled before and then worked, (n,)."""
    long_enough = view.limits.on("cold_cache.on") & (steps > view.steps("cold_cache.again"))
    rows = np.flatnonzero(long_enough & view.eligible)
    if len(rows):
        long_enough[rows] = _before(view, rows, float(steps[rows].max()) * view.window.step)
    return long_enough


def _before(view: View, rows: npt.NDArray[np.intp], longest: timedelta) -> npt.NDArray[np.bool_]:
    """Tell which nodes compiled a quarter of an hour or more, and worked after it, before this compile began; (len(rows),)."""
    past = view.whole.pick(rows).until(view.now - longest)
    level = utilization_of(past)
    zero = level <= view.number("idle.below")[rows][:, None]
    busy = past.of("host_cpu_utilization_ratio") >= view.number("compiling.cpu")[rows][:, None]
    mark = zero & busy & np.isnan(past.of("neuron_execution_latency_seconds"))
    long_enough = sustained(mark, past.steps(EARLIER))
    worked = level > view.number("idle.below")[rows][:, None]
    compiled_before = np.logical_or.accumulate(long_enough, axis=1)
    return np.asarray((compiled_before & worked).any(axis=1))


def compiling_now(view: View) -> npt.NDArray[np.bool_]:
    """Tell which nodes compile within their grace or past it, (n,)."""
    return np.asarray((view.compile_steps > 0) & view.limits.on("compiling.on"))
