"""Find training nodes on which only some cores work: the others are reserved for nothing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bot.model.causes import Cause
from bot.model.money import counted
from detectors.arrays import Counts, Floats, Mask, Rows
from detectors.nodes import cores
from detectors.rule import Explanation, RuleMatch
from detectors.streak import trailing
from detectors.usual import HIGHEST, LATENCY, medians_along
from detectors.view import View
from detectors.words import lasted, percent, span

BUSY = 0.9
"""Share of its usual over which the highest reading of a core says that some cores work as ever."""
STEADY = 0.03
"""How far from its middle a step's mean may lie as a share of the busiest core.

Of a starving job it flutters.
"""
AS_QUICK = 0.15
"""How much longer than usual executions may take to be as quick as ever."""
MOSTLY = 0.6
"""Share of the steps that must be as steady: checkpoints fall into the others."""
SUGGESTIONS = (
    "Start a worker on every core (`torchrun --nproc_per_node`, `NEURON_RT_NUM_CORES`), or ask for fewer cores.",
    "Move the job to a smaller type if it needs no more.",
)


class PartUse(NamedTuple):
    """Hold since how many steps only some cores work, in how many it was seen, and the share of the usual left, each (n,)."""

    steps: Counts
    seen: Counts
    kept: Floats


def part_use(view: View) -> PartUse:
    """Return for how long the busiest core has been as busy as ever, and as quick, and the mean a low, steady share of it.

    Steps of slower executions are of an evaluation, at least in part: they tell nothing.
    """
    newest, every = slice(-3, None), slice(None)
    training = view.usual.own & ~view.roster.inference
    apart = _apart(view, every, newest) & training[:, None]
    if not apart.any():  # most ticks end here: the rest looks at every step
        return _no_use(view)
    slower = _slower(view, every, newest)
    if not (apart & view.at_work[:, newest] & ~slower).any():
        return _no_use(view)
    # A streak goes on only where the last step is low, or tells nothing.
    untold = training & _untold(view, every, slice(-1, None), slower[:, -1:])[:, 0]
    return _lasting(view, np.flatnonzero(apart[:, -1] | untold))


def _lasting(view: View, rows: Rows) -> PartUse:
    """Return the part use of the nodes at `rows`, looking at every step of theirs."""
    use, every = _no_use(view), slice(None)
    slower = _slower(view, rows, every)
    low = view.at_work[rows] & _apart(view, rows, every) & ~slower
    steps = trailing(low, _untold(view, rows, every, slower))
    on = np.flatnonzero(steps)
    rows, low, steps = rows[on], low[on], steps[on]
    inside = low & (np.arange(low.shape[1]) >= (low.shape[1] - steps)[:, None])
    steady = _steady(
        view.utilization[rows] / view.metric(HIGHEST)[rows], inside, view.roster.scope[rows]
    )
    rows, inside = rows[steady], inside[steady]
    use.steps[rows], use.seen[rows] = steps[steady], inside.sum(axis=1)
    use.kept[rows] = _middle(
        (view.utilization[rows] / view.levels[1][rows, None]).astype(np.float32), inside
    )
    return use


def _apart(view: View, rows: Rows | slice, steps: slice) -> Mask:
    """Tell where the busiest core is as busy as ever and the mean of all is low, and a low share of it, (len(rows), steps).

    No usual mean is above the usual of the busiest: where it is, the two are of different jobs.
    """
    level, highest = view.utilization[rows, steps], view.metric(HIGHEST)[rows, steps]
    below, usual, middle = (
        view.number("starved.below")[rows],
        view.usual_of(HIGHEST)[rows],
        view.levels[1][rows],
    )
    low = level < (below * middle)[:, None]
    low &= highest >= (BUSY * usual)[:, None]
    return np.asarray(low & (level < (below * np.minimum(middle / usual, 1))[:, None] * highest))


def _slower(view: View, rows: Rows | slice, steps: slice) -> Mask:
    """Tell where executions take longer than usual, (len(rows), steps)."""
    return np.asarray(
        view.latency[rows, steps] > (1 + AS_QUICK) * view.usual_of(LATENCY)[rows, None]
    )


def _untold(view: View, rows: Rows | slice, steps: slice, slower: Mask) -> Mask:
    """Tell where nothing is known of the work itself.

    No reading, an evaluation, slower executions, (len(rows), steps).
    """
    return np.asarray(
        view.gap[rows, steps]
        | view.evaluating[rows, steps]
        | (slower & view.executing[rows, steps])
    )


def _no_use(view: View) -> PartUse:
    return PartUse(
        np.zeros(view.n, dtype=np.intp),
        np.zeros(view.n, dtype=np.intp),
        np.full(view.n, np.nan, dtype=np.float32),
    )


def _middle(values: Floats, inside: Mask) -> Floats:
    """Return the middle of each node's steps `inside`, nan where there is none, (n,)."""
    middle, rows = (
        np.full(len(values), np.nan, dtype=np.float32),
        np.flatnonzero(inside.any(axis=1)),
    )
    if len(rows):
        middle[rows] = medians_along(
            np.where(inside[rows], values[rows], np.nan).astype(np.float32)
        )
    return middle


def _steady(share: Floats, inside: Mask, scope: Rows) -> Mask:
    """Tell which nodes, and those of their scope that look alike, mostly stay near the middle of their steps `inside`, (n,)."""
    near = inside & (np.abs(share / _middle(share, inside)[:, None] - 1) <= STEADY)
    counts = near.sum(axis=1), inside.sum(axis=1)
    of_node, of_scope = (
        counts[0] >= MOSTLY * counts[1],
        [np.bincount(scope, of)[scope] for of in counts],
    )
    return np.asarray(of_node & (of_scope[0] >= MOSTLY * of_scope[1]))


def with_part_use(view: View, unused: RuleMatch) -> RuleMatch:
    """Add the training nodes on which only some cores work.

    Those beside a broken device wait for it.
    """
    use = part_use(view)
    if not use.steps.any():
        return unused
    scope = view.roster.scope
    begins = view.eligible & (use.seen >= view.steps("allocated_unused.for"))
    begins &= ~np.isin(scope, scope[view.held_open(Cause.HARDWARE_FAULT.value)])
    stays = view.roster.running & view.held_open(Cause.ALLOCATED_UNUSED.value) & (use.steps > 0)
    more = (begins | stays) & ~unused.hit & view.limits.on("allocated_unused.on")
    wasted = np.where(more, view.usual.unpaused - use.kept, np.ones(view.n))
    return RuleMatch(
        unused.hit | more, np.where(more, use.steps, unused.steps).astype(np.float64), wasted
    )


def settling(view: View) -> Mask:
    """Tell which nodes look so in their two newest steps.

    A drop of theirs waits until that is sure, (n,).
    """
    return np.asarray(part_use(view).seen >= 2)


def explain_part(view: View, match: RuleMatch, rows: Rows) -> Explanation:
    """Explain how many cores of some nodes work."""
    kept = (view.usual.unpaused - (match.wasted if match.wasted is not None else np.ones(view.n)))[
        rows
    ]
    return Explanation(
        why=_sentence(view, rows, float(match.steps[rows].max()), float(np.median(kept))),
        value=float(np.median(kept) * np.nanmedian(view.levels[1][rows])),
        unit="ratio",
        usual=view.band(rows),
        score=0.85,
        evidence=(
            f"executions take as long as ever, on {percent(float(np.nanmedian(kept)))} of the cores",
            *cores.core_evidence(view, rows),
        ),
        runners_up=((Cause.STARVED, 0.2),),
        suggestions=SUGGESTIONS,
        confidence=0.75,
    )


def _sentence(view: View, rows: Rows, steps: float, kept: float) -> str:
    """State how many cores work on the nodes at `rows`, for how long, and at which level."""
    level, busiest = (
        np.nanmedian(of[rows, -int(steps) :]) for of in (view.utilization, view.metric(HIGHEST))
    )
    low, _, high = (np.nanmedian(of[rows]) for of in view.levels)
    length = lasted(int(steps) * view.window.step)
    return (
        f"Only {_cores(view, rows, kept)} work on {counted(len(rows), 'node')} for {length}: {view.gauge(rows)} "
        f"{percent(float(level))}, usually {span(float(low), float(high))}, the busiest core {percent(float(busiest))}."
    )


def _cores(view: View, rows: Rows, kept: float) -> str:
    kind = view.reading.inventory.types.get(view.roster.labels[rows[0]].instance_type)
    if kind is None or not kind.cores:
        return f"{percent(kept)} of the cores"
    return f"{max(1, round(kept * kind.cores))} of {counted(kind.cores, 'core')}"
