"""Find compiles that outlast their grace, that a warm cache would spare, or that were cut off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np

from bot.model.anomaly import Anomaly
from bot.model.causes import Cause, Family
from bot.model.labels import Labels
from bot.model.money import counted
from bot.model.run import Compile, Ending, job_of
from detectors.compiles import Cold, cold_start, compiles
from detectors.numbers import Mask, Rows, count, duration, lasted, percent
from detectors.readings import COMPILING
from detectors.rule import Explanation, Rule, RuleMatch, anomaly_of_nodes, belief, no_match
from detectors.view import View

FAMILY = Family.COMPILE.rules
"""One alert may change its cause between these."""
CUT_FRESH = duration("compile.CUT_FRESH")
COLD_FRESH = duration("compile.COLD_FRESH")
_MANY = count("compile.MANY")
_COLD_WHY = (
    "the cache missed, probably because the batch size, optimizer, compiler flags or compiler"
    " version changed, or because the cache is not kept"
)


@dataclass(frozen=True)
class CompileMatch(RuleMatch):
    """Add the starts that compile again work that ran before, by scope."""

    cold: Mapping[int, Cold] = field(default_factory=dict)


def find(view: View) -> RuleMatch:
    """Return nodes compiling for longer than `compiling.grace`.

    `cold_cache.again` is long enough where a tag says that the node compiles the same again.
    """
    steps = view.compile_steps
    if not steps.any():
        return no_match(view.n)
    past = view.eligible & (steps > view.steps("compiling.grace"))
    again = view.eligible & (steps > view.steps("cold_cache.again"))
    again &= view.roster.jobs != ""

    # Until an alert of a long compile ends, nothing more is known of its nodes' job.
    alerts = (alert for alert in view.opened(*FAMILY) if alert.cause is Cause.LONG_COMPILE)
    long = view.roster.among(thing for alert in alerts for thing in alert.anomaly.things)
    cold = _cold_scopes(view, (past & ~long) | again)
    named_scopes = [scope for scope, start in cold.items() if start.named]
    by_name = again & np.isin(view.roster.scope, named_scopes)
    stays = view.roster.running & view.held_open(*FAMILY) & (steps > 0)
    on = view.limits.on("long_compile.on") | view.limits.on("cold_cache.on")
    hit = (past | by_name | stays) & view.limits.on("compiling.on") & on
    return CompileMatch(hit, steps.astype(np.float64), np.ones(view.n), cold=cold)


def explain(view: View, match: RuleMatch, rows: Rows) -> Explanation:
    """Explain how long the compile lasts, on how many nodes, and whether it was to be expected."""
    longest = view.lasting(match.steps, rows, *FAMILY)
    scope, cold = int(view.roster.scope[rows[0]]), None
    if isinstance(match, CompileMatch):
        cold = match.cold.get(scope)
    nodes = counted(len(rows), "node")
    cause, reason = _cause(view, rows, cold)

    # One node could compile for all: the sum of the hours less the slowest is spared.
    waste = "one node compiles"
    if len(rows) > 1:
        hours = match.steps[rows] * (view.window.step / timedelta(hours=1))
        spared, total = float(hours.sum() - hours.max()), float(hours.sum())
        waste = f"{nodes} compile; one would do, and would save {spared:,.1f} of {total:,.1f} node-hours"

    cpu = view.recent(view.cpu)[rows]
    measured = bool(np.isfinite(cpu).any())
    sign = "host_compiles" if measured else "memory_unfilled"
    evidence = "device memory not yet filled"
    if view.logged is not None and bool((view.logged[rows, -1] == COMPILING).all()):
        sign, evidence = "log_compiles", "the compiler's log says that it goes on"
    host = percent(float(np.nanmedian(cpu))) if measured else "not read"
    have = "has" if len(rows) == 1 else "have"
    return Explanation(
        why=f"{nodes} {have} been compiling for {lasted(longest)}"
        f" (host CPU {host}, no executions); {reason}.",
        value=longest.total_seconds(),
        unit="seconds",
        cause=cause,
        evidence=(waste, evidence),
        **belief(sign),
        lost_hours=cold.lost_hours([view.roster.ids[row] for row in rows]) if cold else {},
    )


def _cause(view: View, rows: Rows, cold: Cold | None) -> tuple[Cause, str]:
    """Distinguish a first compile from one of work that ran, and compiled at a start since.

    A compile that was once called cold stays so. Every new job of many nodes compiles on all of
    them; where several jobs do so in the same minutes they lost a cache that they share.
    """
    scope = int(view.roster.scope[rows[0]])
    alert = view.alert(FAMILY, view.roster.scopes[scope])
    share = len(rows) / max(1, int(view.roster.sizes[scope]))
    jobs = {job_of(view.roster.labels[row].job) for row in rows} - {""}
    wide = len(rows) >= _MANY and share >= float(view.number("cold_cache.nodes")[rows[0]])
    reasons = []
    if wide and len(jobs) > 1:
        nodes = f"{percent(share)} of the cluster's nodes"
        reasons.append(f"{nodes} compile at the same time, for {len(jobs)} jobs")
    if cold:
        reasons.append(f"{cold.history()}; {_COLD_WHY}")
    if reasons or (alert is not None and alert.cause is Cause.COLD_CACHE):
        return Cause.COLD_CACHE, "; ".join(reasons) or _COLD_WHY
    return Cause.LONG_COMPILE, "past the grace of a first compile"


def _cold_scopes(view: View, asked: Mask) -> dict[int, Cold]:
    """Return the cold starts of the nodes asked for, by scope."""
    by_scope = view.roster.by_scope(asked & view.limits.on("cold_cache.on"))
    starts = {place: cold_start(view, rows) for place, rows in by_scope}
    return {place: cold for place, cold in starts.items() if cold}


def cold_anomalies(view: View) -> list[Anomaly]:
    """Return one anomaly for each scope whose cold start ended within `COLD_FRESH`."""
    fresh, steps = view.window.steps(COLD_FRESH), view.steps("cold_cache.again")
    long_enough = view.compiling[:, -int(steps.max(initial=0)) - 2 * fresh :].sum(axis=1) >= steps
    over = (view.compile_steps == 0) & view.executing[:, -fresh:].any(axis=1)
    anomalies = []
    for cold in _cold_scopes(view, long_enough & over & view.roster.running).values():
        window = cold.newest.window
        rows = view.roster.rows_of(sorted(cold.newest.instances))
        goes_on = cold.newest.goes_on or (view.compile_steps[rows] > 0).any()
        if goes_on or view.now - window.end >= COLD_FRESH:
            continue
        match = _ended_match(view, rows, window.start)
        explanation = Explanation(
            why=f"{counted(len(rows), 'node')} compiled for {lasted(window.length)}"
            f" until {window.end:%H:%M} UTC{cold.job_words()}; {cold.history()}; {_COLD_WHY}.",
            value=window.length.total_seconds(),
            unit="seconds",
            **belief("compiled_again"),
            evidence=(
                f"{cold.hours:,.1f} node-hours of compiling at these starts",
                "the work ran before and was compiled then",
            ),
            lost_hours=cold.lost_hours([view.roster.ids[row] for row in rows]),
            family=FAMILY,
        )
        anomalies.append(anomaly_of_nodes(view, Cause.COLD_CACHE, match, rows, explanation))
    return anomalies


def _ended_match(view: View, rows: Rows, start: datetime) -> RuleMatch:
    """Return the match of the nodes at `rows`, whose compile began at a time and is over."""
    length = (view.now - start) / view.window.step
    return RuleMatch(np.isin(np.arange(view.n), rows), np.full(view.n, length), np.zeros(view.n))


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
    on = view.limits.on("killed_compile.on")
    if not len(rows) or not on[rows].any():
        return []
    history = view.whole.last(max(duration("compile.BACK"), view.window.window.length))
    by_scope: dict[Labels, list[Compile]] = {}
    for compile_ in compiles(view.over(history.pick(rows))):
        fresh = view.now - compile_.window.end < CUT_FRESH
        if compile_.ending is Ending.CUT and fresh and on[view.roster.row[compile_.instance]]:
            by_scope.setdefault(compile_.scope, []).append(compile_)
    return [_killed_anomaly(view, cut) for cut in by_scope.values()]


def _killed_anomaly(view: View, cut: list[Compile]) -> Anomaly:
    """Return the anomaly of the compiles of one scope that were cut off."""
    hours = {
        name: sum(x.hours for x in cut if x.instance == name)
        for name in dict.fromkeys(x.instance for x in cut)
    }
    rows = np.sort(view.roster.rows_of(hours))
    start, end = min(x.window.start for x in cut), max(x.window.end for x in cut)
    match = _ended_match(view, rows, start)

    # It goes on with an open alert of a long compile, whose cost is not counted twice.
    scope = view.roster.scope == view.roster.scope[rows[0]]
    compiles_on = bool((view.compile_steps[scope] > 0).any())
    longest = max(x.window.length for x in cut)
    explanation = Explanation(
        why=f"A compile on {counted(len(rows), 'node')} ended after {lasted(longest)},"
        f" at {end:%H:%M} UTC, before anything executed; its process is gone.",
        value=longest.total_seconds(),
        unit="seconds",
        **belief("compile_cut"),
        evidence=(f"{sum(hours.values()):,.1f} node-hours of compiling lost", "no execution since"),
        lost_hours=hours,
        family=() if compiles_on else FAMILY,
    )
    return anomaly_of_nodes(view, Cause.KILLED_COMPILE, match, rows, explanation)


LONG_COMPILE = Rule(Cause.LONG_COMPILE, find, explain)
