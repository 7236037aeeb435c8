"""Find compiles past their grace, compiles of a cold cache, and compiles that were cut off before anything executed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import numpy as np

from bot.model.anomaly import Anomaly
from bot.model.causes import Cause, Family
from bot.model.compile import Compile, Ending
from bot.model.counts import counted
from detectors.arrays import Counts, Mask, Rows
from detectors.compile_signs import COMPILING
from detectors.compiles import compiles
from detectors.limits import Limits
from detectors.roster import build_roster
from detectors.rule import Explanation, Rule, RuleMatch, anomaly_of_nodes, no_match
from detectors.streak import sustained
from detectors.usual import NOTHING, utilization_of
from detectors.view import View
from detectors.words import lasted, percent

FAMILY = Family.COMPILE.rules
"""One alert may change its cause between these."""
CUT_FRESH = timedelta(hours=1)
"""How long after its end a compile that was cut off is an anomaly: then it is history, which `fleet` and `cost` hold."""
_BACK = timedelta(days=1)
"""How far back the beginning of a compile is looked for."""
EARLIER = timedelta(minutes=15)

_COLD_WHY = (
    "the same nodes compiled before and then worked: the cache went cold, likely by another batch size, optimizer,"
    " compiler flag or compiler version, or it is not kept"
)


def find(view: View) -> RuleMatch:
    """Return nodes compiling for longer than `compiling.grace`, or than `cold_cache.again` where their work ran before."""
    steps = view.compile_steps
    if not steps.any():
        return no_match(view)
    stays = view.held_open(*FAMILY) & (steps > 0)
    hit = (view.eligible & ((steps > view.steps("compiling.grace")) | _again(view, steps))) | (view.roster.running & stays)
    on = view.limits.on("compiling.on") & (view.limits.on("long_compile.on") | view.limits.on("cold_cache.on"))
    return RuleMatch(hit & on, steps.astype(np.float64), np.ones(view.n))


def explain(view: View, match: RuleMatch, rows: Rows) -> Explanation:
    """Explain how long the compile lasts, on how many nodes, and whether it was to be expected."""
    longest = view.lasting(match.steps, rows, *FAMILY)
    cause, reason = _cause(view, rows, view.now - view.since(match.steps, rows, *FAMILY))
    nodes = counted(len(rows), "node")
    waste = f"{nodes} compile; {_spared(view, match, rows)}" if len(rows) > 1 else "one node compiles"
    cpu = view.recent(view.cpu)[rows]
    logged = view.logged is not None and bool((view.logged[rows, -1] == COMPILING).all())
    read = bool(np.isfinite(cpu).any())
    return Explanation(
        why=f"{nodes} {'has' if len(rows) == 1 else 'have'} been compiling for {lasted(longest)}"
        f" (host CPU {percent(float(np.nanmedian(cpu))) if read else 'not read'}, no executions); {reason}.",
        value=longest.total_seconds(),
        unit="seconds",
        cause=cause,
        score=0.9,
        evidence=(waste, "the compiler's log says that it goes on" if logged else "device memory not yet filled"),
        confidence=0.98 if logged else 0.8 if read else 0.5,
        runners_up=() if logged else ((Cause.IDLE, 0.1),) if read else ((Cause.ALLOCATED_UNUSED, 0.4),),
    )


def _spared(view: View, match: RuleMatch, rows: Rows) -> str:
    """State the node-hours spared if one node compiled for all: the sum less the slowest."""
    hours = match.steps[rows] * (view.window.step / timedelta(hours=1))
    spared = float(hours.sum() - hours.max())
    return f"one would do, and spare {spared:,.1f} of {float(hours.sum()):,.1f} node-hours"


def _cause(view: View, rows: Rows, longest: timedelta) -> tuple[Cause, str]:
    scope = int(view.roster.scope[rows[0]])
    alert = view.alert(FAMILY, view.roster.scopes[scope])
    share = len(rows) / max(1, int(view.roster.sizes[scope]))
    many = len(rows) >= 4 and share >= float(view.number("cold_cache.nodes")[rows[0]])
    reasons = [f"{percent(share)} of the cluster's nodes compile the same minutes"] if many else []
    reasons += [_COLD_WHY] if alert is None and _before(view, rows, longest).any() else []
    if reasons or (alert is not None and alert.cause is Cause.COLD_CACHE):
        return Cause.COLD_CACHE, "; ".join(reasons) or _COLD_WHY
    return Cause.LONG_COMPILE, "past the grace of a first compile"


def _again(view: View, steps: Counts) -> Mask:
    """Tell which nodes compile for longer than `cold_cache.again` though they compiled before and then worked, (n,)."""
    long_enough = view.limits.on("cold_cache.on") & (steps > view.steps("cold_cache.again"))
    rows = np.flatnonzero(long_enough & view.eligible)
    if len(rows):
        long_enough[rows] = _before(view, rows, float(steps[rows].max()) * view.window.step)
    return long_enough


def _before(view: View, rows: Rows, longest: timedelta) -> Mask:
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


LONG_COMPILE = Rule(Cause.LONG_COMPILE, find, explain)


def compiling_now(view: View) -> Mask:
    """Tell which nodes compile within their grace or past it, (n,)."""
    return np.asarray((view.compile_steps > 0) & view.limits.on("compiling.on"))


def killed_anomalies(view: View) -> list[Anomaly]:
    """Return one anomaly for each scope whose compiles were cut off within `CUT_FRESH`; executions after all take it back."""
    lately = view.compiling[:, -view.window.steps(CUT_FRESH + view.window.step) :].any(axis=1)
    over = (view.compile_steps == 0) | ~view.roster.running
    rows = np.flatnonzero(lately & over & ~view.executing[:, -1:].any(axis=1))
    if not len(rows) or not view.limits.on("killed_compile.on")[rows].any():
        return []
    cut = [x for x in compiles(_of_rows(view, rows)) if x.ending is Ending.CUT and _lately(view, x) and _on(view, x)]
    return [_killed_anomaly(view, [x for x in cut if x.scope == scope]) for scope in dict.fromkeys(x.scope for x in cut)]


def _of_rows(view: View, rows: Rows) -> View:
    """Return a day's view of some nodes alone: few compile, and a day of all of them is long."""
    part = view.whole.last(max(_BACK, view.window.window.length)).pick(rows)
    limits = Limits(view.policy, build_roster(part.things, view.reading.inventory))
    return View(view.reading, view.policy, limits, NOTHING, part, part, {})


def _lately(view: View, one: Compile) -> bool:
    return view.now - one.window.end < CUT_FRESH


def _on(view: View, one: Compile) -> bool:
    return bool(view.limits.on("killed_compile.on")[view.roster.row[one.instance]])


def _killed_anomaly(view: View, cut: Sequence[Compile]) -> Anomaly:
    hours: dict[str, float] = {}
    for one in cut:
        hours[one.instance] = hours.get(one.instance, 0.0) + one.hours
    rows = np.array(sorted(view.roster.row[name] for name in hours), dtype=np.intp)
    start, end = min(x.window.start for x in cut), max(x.window.end for x in cut)
    steps = np.full(view.n, (view.now - start) / view.window.step)
    match = RuleMatch(np.isin(np.arange(view.n), rows), steps, np.zeros(view.n))
    longest = max(x.window.length for x in cut)
    explanation = Explanation(
        why=f"A compile on {counted(len(rows), 'node')} ended after {lasted(longest)}, at {end:%H:%M} UTC,"
        " before anything executed; its process is gone.",
        value=longest.total_seconds(),
        unit="seconds",
        score=0.8,
        evidence=(f"{sum(hours.values()):,.1f} node-hours of compiling lost", "no execution since"),
        confidence=0.7,
        lost_hours=hours,
        family=_taken_over(view, rows),
    )
    return anomaly_of_nodes(view, Cause.KILLED_COMPILE, match, rows, explanation)


def _taken_over(view: View, rows: Rows) -> tuple[str, ...]:
    """Return the rules whose open alert this one goes on with, so that the cost of a long compile is not counted twice."""
    here = view.roster.scope == view.roster.scope[rows[0]]
    return () if (view.compile_steps[here] > 0).any() else FAMILY
