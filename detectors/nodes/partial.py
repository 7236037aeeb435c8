"""Find training nodes on which only some cores work: the others are reserved for nothing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bot.model.causes import Cause
from bot.model.counts import counted
from detectors.arrays import Counts, Floats, Mask, Rows
from detectors.nodes import cores
from detectors.rule import Explanation, RuleMatch
from detectors.streak import seen_within, trailing
from detectors.usual import HIGHEST, LATENCY
from detectors.view import View
from detectors.words import lasted, percent, span

BUSY = 0.9
"""Share of its usual over which the highest reading of a core says that some cores work as ever."""
STEADY = 0.15
"""How far from its middle a step's level may lie: a starving job flutters, cores that do not work never do."""
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
    """Return for how long the busiest core has been as busy as ever, and as quick, while the mean of all stayed low and steady.

    Steps of slower executions are of an evaluation, at least in part: they tell nothing.
    """
    none = np.zeros(view.n, dtype=np.intp)
    ratio = (view.utilization / view.levels[1][:, None]).astype(np.float32)
    other = view.latency > (1 + STEADY) * view.usual_of(LATENCY)[:, None]
    high = view.metric(HIGHEST) >= BUSY * view.usual_of(HIGHEST)[:, None]
    low = view.at_work & (ratio < view.number("starved.below")[:, None]) & high & ~other
    low &= (view.usual.own & ~view.roster.inference)[:, None] if low.any() else low
    if not low[:, -view.window.steps(view.window.step * 3) :].any():
        return PartUse(none, none, view.levels[1])
    steps = trailing(low, view.gap | view.evaluating | (other & view.executing))
    seen = seen_within(low, steps)
    inside = low & (np.arange(low.shape[1]) >= (low.shape[1] - steps)[:, None])
    kept, steady = _middle(ratio, inside)
    return PartUse(np.where(steady, steps, 0), np.where(steady, seen, 0), kept)


def _middle(ratio: Floats, inside: Mask) -> tuple[Floats, Mask]:
    """Return the middle of the steps `inside`, and which nodes mostly stay near it, both (n,)."""
    rows = np.flatnonzero(inside.any(axis=1))
    kept, steady = np.full(len(ratio), np.nan, dtype=np.float32), np.zeros(len(ratio), dtype=bool)
    part = np.where(inside[rows], ratio[rows], np.nan)
    if len(rows):
        kept[rows] = np.nanmedian(part, axis=1)
        near = np.abs(part / kept[rows][:, None] - 1) <= STEADY
        steady[rows] = near.sum(axis=1) >= MOSTLY * inside[rows].sum(axis=1)
    return kept, steady


def with_part_use(view: View, unused: RuleMatch) -> RuleMatch:
    """Add the training nodes on which only some cores work; those beside a broken device wait for it."""
    use = part_use(view)
    if not use.steps.any():
        return unused
    scope = view.roster.scope
    begins = view.eligible & (use.seen >= view.steps("allocated_unused.for"))
    begins &= ~np.isin(scope, scope[view.held_open(Cause.HARDWARE_FAULT.value)])
    stays = view.roster.running & view.held_open(Cause.ALLOCATED_UNUSED.value) & (use.steps > 0)
    more = (begins | stays) & ~unused.hit & view.limits.on("allocated_unused.on")
    wasted = np.where(more, view.usual.unpaused - use.kept, np.ones(view.n))
    return RuleMatch(unused.hit | more, np.where(more, use.steps, unused.steps).astype(np.float64), wasted)


def settling(view: View) -> Mask:
    """Tell which nodes look so in their two newest steps: a drop of theirs waits until that is sure, (n,)."""
    return np.asarray(part_use(view).seen >= 2)


def explain_part(view: View, match: RuleMatch, rows: Rows) -> Explanation:
    """Explain how many cores of some nodes work."""
    kept = (view.usual.unpaused - (match.wasted if match.wasted is not None else np.ones(view.n)))[rows]
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
    level, busiest = (np.nanmedian(of[rows, -int(steps) :]) for of in (view.utilization, view.metric(HIGHEST)))
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
