"""Read cores: training nodes on which only some work, and the evidence that cores and devices give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bot.model.causes import Cause
from bot.model.frame import Frame
from bot.model.money import counted
from detectors.arrays import Counts, Floats, Mask, Rows, trailing
from detectors.rule import Explanation, RuleMatch
from detectors.usual import HIGHEST, LATENCY, medians_along
from detectors.view import View
from detectors.words import lasted, percent, span

MOST = 3
"""Nodes that are spoken of one by one."""
_NEWEST = 2
"""Steps in which a core must have reported to count."""


def core_evidence(view: View, rows: Rows) -> tuple[str, ...]:
    """State for each node at `rows` whose cores were read how many stand still, and the level of the others."""
    frame = view.reading.frame("core")
    if frame is None:
        return ()
    return tuple(
        sentence for row in _named(frame, view, rows) if (sentence := _of_cores(view, frame, row))
    )


def device_evidence(view: View, rows: Rows) -> tuple[str, ...]:
    """Name the devices of the nodes at `rows` that have ECC events within the span, the worst first."""
    frame = view.reading.frame("device")
    if frame is None or not len(rows):
        return ()
    wanted = {view.roster.ids[row] for row in rows}
    steps = int(view.steps("hardware_fault.within")[rows[0]])
    events = np.nansum(frame.of("neuron_hardware_ecc_events_count")[:, -steps:], axis=1)
    counts = [
        (float(n), x.instance, x.resource)
        for n, x in zip(events, frame.things, strict=True)
        if n and x.instance in wanted
    ]
    worst = sorted(counts, key=lambda x: (-x[0], x[1:]))[:MOST]
    return tuple(f"{device} of {instance}: {n:,.0f} ECC events" for n, instance, device in worst)


def _named(frame: Frame, view: View, rows: Rows) -> list[int]:
    """Return the first rows whose cores are in the frame."""
    read = {thing.instance for thing in frame.things}
    return [int(row) for row in rows if view.roster.ids[row] in read][:MOST]


def _of_cores(view: View, frame: Frame, row: int) -> str:
    name = view.roster.ids[row]
    own = [i for i, thing in enumerate(frame.things) if thing.instance == name]
    levels = np.array(list(_newest(frame.of("neuroncore_utilization_ratio")[own])))
    read = np.isfinite(levels)
    if not read.any():
        return ""
    still = read & (levels <= float(view.number("idle.below")[row]))
    going = levels[read & ~still]
    others = f", the others at {span(float(going.min()), float(going.max()))}" if len(going) else ""
    if not still.any():
        return f"{name}: all {counted(int(read.sum()), 'core')} at {span(float(going.min()), float(going.max()))}"
    where = _places(frame, [own[i] for i in np.flatnonzero(still)]) if len(going) else ""
    standing = f"{int(still.sum())} of {counted(int(read.sum()), 'core')} at {percent(float(levels[still].max()))}"
    return f"{name}: {standing}{where}{others}"


def _places(frame: Frame, still: list[int]) -> str:
    """Name the cores that stand still, and their devices where those are known."""
    at = sorted((frame.things[i] for i in still), key=lambda x: (len(x.core), x.core))
    named = ", ".join(x.core for x in at[:4]) + (", ..." if len(at) > 4 else "")
    on = sorted({x.resource for x in at if x.resource}, key=lambda x: (len(x), x))
    return f" (core {named}" + (f" of {', '.join(on[:4])}" if on else "") + ")"


def _newest(values: Floats) -> Iterator[float]:
    """Yield each row's newest reading of the last steps, nan where it has none."""
    for row in values[:, -_NEWEST:]:
        finite = row[np.isfinite(row)]
        yield float(finite[-1]) if len(finite) else float("nan")


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
    """Return where the busiest core is as busy as ever and the mean of all is low, and a low share of it, (len(rows), steps).

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
    """Return where executions take longer than usual, (len(rows), steps)."""
    return np.asarray(
        view.latency[rows, steps] > (1 + AS_QUICK) * view.usual_of(LATENCY)[rows, None]
    )


def _untold(view: View, rows: Rows | slice, steps: slice, slower: Mask) -> Mask:
    """Return where nothing is known of the work itself.

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
    """Return which nodes, and those of their scope that look alike, mostly stay near the middle of their steps `inside`, (n,)."""
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
    """Return which nodes look so in their two newest steps.

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
            *core_evidence(view, rows),
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
