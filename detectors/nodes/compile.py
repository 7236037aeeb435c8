"""Find compiles past their grace, compiles of a cold cache, and compiles that were cut off before anything executed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import numpy as np

from bot.model.anomaly import Anomaly
from bot.model.causes import Cause, Family
from bot.model.money import counted
from bot.model.run import Compile, Ending
from detectors.arrays import Mask, Rows
from detectors.compiles import Cold, cold_start, compiles, job_of, of_rows
from detectors.readings import COMPILING
from detectors.rule import Explanation, Rule, RuleMatch, anomaly_of_nodes, no_match
from detectors.view import View
from detectors.words import lasted, percent

FAMILY = Family.COMPILE.rules
"""One alert may change its cause between these."""
CUT_FRESH = timedelta(hours=1)
"""How long after its end a compile that was cut off is an anomaly.

Then it is history, which `fleet` and `cost` hold.
"""
COLD_FRESH = timedelta(minutes=30)
"""How long after the end of a start that compiled again it is an anomaly.

Its work shows by then which job it is.
"""
_BACK = timedelta(days=1)
"""How far back the beginning of a compile is looked for."""

_MANY = 4
"""Nodes from which a share of a cluster's says something."""
_COLD_WHY = "the cache went cold, likely by another batch size, optimizer, compiler flag or compiler version, or it is not kept"


@dataclass(frozen=True)
class CompileMatch(RuleMatch):
    """Add which scopes start work that ran before and compiled at its starts before.

    The newest start, and those.
    """

    cold: Mapping[int, Cold] = field(default_factory=dict)


def find(view: View) -> RuleMatch:
    """Return nodes compiling for longer than `compiling.grace`, or `cold_cache.again` where a tag tells that it does so again."""
    steps = view.compile_steps
    if not steps.any():
        return no_match(view)
    past = view.eligible & (steps > view.steps("compiling.grace"))
    tagged = view.eligible & _tagged(view) & (steps > view.steps("cold_cache.again"))
    cold = _cold_scopes(view, (past & ~_told_as_long(view)) | tagged)
    known = tagged & np.isin(view.roster.scope, [scope for scope, one in cold.items() if one.named])
    stays = view.held_open(*FAMILY) & (steps > 0)
    hit = past | known | (view.roster.running & stays)
    on = view.limits.on("compiling.on") & (
        view.limits.on("long_compile.on") | view.limits.on("cold_cache.on")
    )
    return CompileMatch(hit & on, steps.astype(np.float64), np.ones(view.n), cold=cold)


def explain(view: View, match: RuleMatch, rows: Rows) -> Explanation:
    """Explain how long the compile lasts, on how many nodes, and whether it was to be expected."""
    longest = view.lasting(match.steps, rows, *FAMILY)
    cold = (
        match.cold.get(int(view.roster.scope[rows[0]])) if isinstance(match, CompileMatch) else None
    )
    cause, reason = _cause(view, rows, cold)
    nodes = counted(len(rows), "node")
    waste = (
        f"{nodes} compile; {_spared(view, match, rows)}" if len(rows) > 1 else "one node compiles"
    )
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
        evidence=(
            waste,
            "the compiler's log says that it goes on" if logged else "device memory not yet filled",
        ),
        confidence=0.98 if logged else 0.8 if read else 0.5,
        runners_up=()
        if logged
        else ((Cause.IDLE, 0.1),)
        if read
        else ((Cause.ALLOCATED_UNUSED, 0.4),),
        lost_hours=cold.lost_hours([view.roster.ids[row] for row in rows]) if cold else {},
    )


def _spared(view: View, match: RuleMatch, rows: Rows) -> str:
    """State the node-hours spared if one node compiled for all: the sum less the slowest."""
    hours = match.steps[rows] * (view.window.step / timedelta(hours=1))
    spared = float(hours.sum() - hours.max())
    return f"one would do, and spare {spared:,.1f} of {float(hours.sum()):,.1f} node-hours"


def _cause(view: View, rows: Rows, cold: Cold | None) -> tuple[Cause, str]:
    """Tell a first compile from one of work that ran, and compiled at a start since.

    What was once told as cold stays so.

    Every new job of many nodes compiles on all of them; where several jobs do so in the same
    minutes they lost what they share.
    """
    scope = int(view.roster.scope[rows[0]])
    alert = view.alert(FAMILY, view.roster.scopes[scope])
    share = len(rows) / max(1, int(view.roster.sizes[scope]))
    jobs = {job_of(view.roster.labels[row].job) for row in rows} - {""}
    many = (
        len(rows) >= _MANY
        and share >= float(view.number("cold_cache.nodes")[rows[0]])
        and len(jobs) > 1
    )
    reasons = (
        [f"{percent(share)} of the cluster's nodes compile the same minutes, of {len(jobs)} jobs"]
        if many
        else []
    )
    reasons += [f"{cold.history()}; {_COLD_WHY}"] if cold else []
    if reasons or (alert is not None and alert.cause is Cause.COLD_CACHE):
        return Cause.COLD_CACHE, "; ".join(reasons) or _COLD_WHY
    return Cause.LONG_COMPILE, "past the grace of a first compile"


def _told_as_long(view: View) -> Mask:
    """Return which nodes an open alert calls a long compile.

    Until it ends, nothing more is known of their job, (n,).
    """
    mask = np.zeros(view.n, dtype=bool)
    for (rule, _), alert in view.open.items():
        if rule in FAMILY and alert.cause is Cause.LONG_COMPILE:
            mask[view.roster.rows_of(alert.anomaly.things)] = True
    return mask


def _tagged(view: View) -> Mask:
    """Return which nodes carry the name of their job.

    What they compile is known before it works, (n,).
    """
    if not (view.compile_steps > view.steps("cold_cache.again")).any():
        return np.zeros(view.n, dtype=bool)
    return np.array([bool(labels.job) for labels in view.roster.labels], dtype=bool)


def _cold_scopes(view: View, asked: Mask) -> dict[int, Cold]:
    """Return, of the scopes of the nodes asked for, those whose newest start compiles what was compiled at a start before."""
    asked = asked & view.limits.on("cold_cache.on")
    scope = view.roster.scope
    found = {
        int(one): cold_start(view, np.flatnonzero(asked & (scope == one)))
        for one in np.unique(scope[asked])
    }
    return {one: cold for one, cold in found.items() if cold}


def cold_anomalies(view: View) -> list[Anomaly]:
    """Return one anomaly for each scope where a start that compiled again what had run before ended within `COLD_FRESH`."""
    fresh, steps = view.window.steps(COLD_FRESH), view.steps("cold_cache.again")
    long_enough = view.compiling[:, -int(steps.max(initial=0)) - 2 * fresh :].sum(axis=1) >= steps
    over = (view.compile_steps == 0) & view.executing[:, -fresh:].any(axis=1)
    cold = _cold_scopes(view, long_enough & over & view.roster.running)
    return [
        _cold_anomaly(view, one)
        for one in cold.values()
        if not one.newest.goes_on and _fresh(view, one)
    ]


def _fresh(view: View, cold: Cold) -> bool:
    compiles = view.compile_steps[view.roster.rows_of(cold.newest.instances)] > 0
    return view.now - cold.newest.window.end < COLD_FRESH and not compiles.any()


def _cold_anomaly(view: View, cold: Cold) -> Anomaly:
    rows = np.array(view.roster.rows_of(sorted(cold.newest.instances)), dtype=np.intp)
    window = cold.newest.window
    steps = np.full(view.n, (view.now - window.start) / view.window.step)
    match = RuleMatch(np.isin(np.arange(view.n), rows), steps, np.zeros(view.n))
    ids = [view.roster.ids[row] for row in rows]
    explanation = Explanation(
        why=f"{counted(len(rows), 'node')} compiled for {lasted(window.length)} until {window.end:%H:%M} UTC{cold.job_words()};"
        f" {cold.history()}; {_COLD_WHY}.",
        value=window.length.total_seconds(),
        unit="seconds",
        score=0.85,
        evidence=(
            f"{cold.hours:,.1f} node-hours of compiling at these starts",
            "the work ran before and was compiled then",
        ),
        confidence=0.85,
        lost_hours=cold.lost_hours(ids),
        family=FAMILY,
    )
    return anomaly_of_nodes(view, Cause.COLD_CACHE, match, rows, explanation)


LONG_COMPILE = Rule(Cause.LONG_COMPILE, find, explain)


def compiling_now(view: View) -> Mask:
    """Return which nodes compile within their grace or past it, (n,)."""
    return np.asarray((view.compile_steps > 0) & view.limits.on("compiling.on"))


def killed_anomalies(view: View) -> list[Anomaly]:
    """Return one anomaly for each scope whose compiles were cut off within `CUT_FRESH`.

    Executions after all take it back.
    """
    lately = view.compiling[:, -view.window.steps(CUT_FRESH + view.window.step) :].any(axis=1)
    over = (view.compile_steps == 0) | ~view.roster.running
    rows = np.flatnonzero(lately & over & ~view.executing[:, -1:].any(axis=1))
    if not len(rows) or not view.limits.on("killed_compile.on")[rows].any():
        return []
    cut = [
        x
        for x in compiles(
            of_rows(view, rows, view.whole.last(max(_BACK, view.window.window.length)))
        )
        if x.ending is Ending.CUT and _lately(view, x) and _on(view, x)
    ]
    return [
        _killed_anomaly(view, [x for x in cut if x.scope == scope])
        for scope in dict.fromkeys(x.scope for x in cut)
    ]


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
