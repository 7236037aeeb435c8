"""Find nodes that do nothing, hold no runtime, and that no pod holds."""

from __future__ import annotations

from datetime import timedelta

import numpy as np

from bot.model.causes import Cause
from bot.model.money import counted
from detectors.arrays import Floats, Mask, Numbers, Rows, mean_of
from detectors.demand import by_habit, may_be_told
from detectors.rule import Explanation, Rule, RuleMatch, no_match
from detectors.view import GAP, View
from detectors.words import lasted, percent

_STILL_COMPILING = 2
"""How many times its grace a compile may take that nothing shows."""
LOOK_FIRST = "Look whether `neuronx-cc` runs there before you stop anything: without the host CPU a compile looks the same."


def find(view: View) -> RuleMatch:
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
    """Tell which servers rest as their service does.

    By habit where no runtime is known to be loaded, else as a loaded one.
    """
    servers = begins & view.roster.inference
    if not servers.any():
        return servers
    bare = (view.held[:, -view.window.steps(GAP) :] == 0).any(axis=1)
    lull = np.where(bare, by_habit(view, servers, needed), ~may_be_told(view, servers, needed))
    return np.asarray(servers & lull)


def explain(view: View, match: RuleMatch, rows: Rows) -> Explanation:
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
    """Tell whether it may be a compile.

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


IDLE = Rule(Cause.IDLE, find, explain)
