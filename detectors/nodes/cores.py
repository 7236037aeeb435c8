"""Read cores: training nodes on which only some work, and the evidence of cores and devices."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bot.model.causes import Cause
from bot.model.labels import SHARED_NAMESPACES, Labels
from bot.model.money import counted
from detectors.numbers import (
    NAMED,
    Counts,
    Floats,
    Mask,
    Rows,
    count,
    lasted,
    newest_of,
    number,
    percent,
    span,
    trailing,
)
from detectors.rule import Explanation, RuleMatch, belief
from detectors.usual import HIGHEST, LATENCY, median, medians_where
from detectors.view import View, once_a_tick

MOSTLY = number("cores.MOSTLY")
_RULE = Cause.ALLOCATED_UNUSED.value
SUGGESTIONS = (
    "Start a worker on every core (`torchrun --nproc_per_node`, `NEURON_RT_NUM_CORES`), or ask for"
    " fewer cores.",
    "Move the job to a smaller type if it needs no more.",
)


class NodeCores(NamedTuple):
    """Hold the cores of a node that were read lately: what they are, their newest levels."""

    node: str
    cores: list[Labels]
    levels: Floats
    still: Mask
    """Which of them stand still."""

    def __str__(self) -> str:
        """State how many of them stand still, and the level of the others."""
        going, cores = self.levels[~self.still], counted(len(self.cores), "core")
        if not self.still.any():
            return f"{self.node}: all {cores} at {span(float(going.min()), float(going.max()))}"
        highest = percent(float(self.levels[self.still].max()))
        standing = f"{self.node}: {int(self.still.sum())} of {cores} at {highest}"
        if not len(going):
            return standing

        things = [self.cores[i] for i in np.flatnonzero(self.still)]
        ids = sorted((thing.core for thing in things), key=lambda core: (len(core), core))
        devices = sorted({x.resource for x in things if x.resource}, key=lambda x: (len(x), x))
        where = ", ".join(ids[:4]) + (", ..." if len(ids) > 4 else "")
        if devices:
            where += f" of {', '.join(devices[:4])}"
        others = span(float(going.min()), float(going.max()))
        return f"{standing} (core {where}), the others at {others}"


def cores_read(view: View, rows: Rows) -> list[NodeCores]:
    """Return the cores of the first nodes at `rows` with readings, of those read lately."""
    frame, nodes = view.frame("core"), []
    reporting = {thing.instance for thing in frame.things}
    for row in [row for row in rows if view.roster.ids[row] in reporting][:NAMED]:
        name = view.roster.ids[row]
        places = [i for i, thing in enumerate(frame.things) if thing.instance == name]
        newest = frame.of("neuroncore_utilization_ratio")[places][:, -count("cores.NEWEST") :]
        reported = {
            i: float(values[np.isfinite(values)][-1])
            for i, values in zip(places, newest, strict=True)
            if np.isfinite(values).any()
        }
        levels = np.array(list(reported.values()))
        if reported:
            still = levels <= float(view.number("idle.below")[row])
            nodes.append(NodeCores(name, [frame.things[i] for i in reported], levels, still))
    return nodes


def core_evidence(view: View, rows: Rows) -> tuple[str, ...]:
    """State for the first nodes at `rows` with readings how many of their cores stand still.

    The level of their other cores is named too.
    """
    return tuple(map(str, cores_read(view, rows)))


def device_evidence(view: View, rows: Rows) -> tuple[str, ...]:
    """Name the devices of the nodes at `rows` that have ECC events within the span, worst first."""
    frame = view.frame("device")
    names = {view.roster.ids[row] for row in rows}
    steps = int(view.steps("hardware_fault.within")[rows[0]])
    events = np.nansum(frame.of("neuron_hardware_ecc_events_count")[:, -steps:], axis=1)
    counts = [
        (-float(n), x.instance, x.resource)
        for n, x in zip(events, frame.things, strict=True)
        if n and x.instance in names
    ]
    worst = sorted(counts)[:NAMED]
    return tuple(f"{device} of {instance}: {-n:,.0f} ECC events" for n, instance, device in worst)


class PartUse(NamedTuple):
    """Hold since how many steps only some cores of each node work, each (n,)."""

    steps: Counts
    seen: Counts
    """In how many steps it was seen."""
    share: Floats
    """The share of its usual work that is left."""


@once_a_tick
def part_use(view: View) -> PartUse:
    """Return for how long the busiest core has been as busy as ever, the mean a low share of it.

    That share is steady, or memory says as much, and executions are as quick as ever. Steps of
    slower executions are of an evaluation, at least in part: they say nothing.
    """
    none = np.zeros(view.n, dtype=np.intp)
    use = PartUse(none, none.copy(), np.full(view.n, np.nan, dtype=np.float32))
    always, newest, last = slice(None), slice(-3, None), slice(-1, None)
    training = (view.usual.own & ~view.roster.inference)[:, None]
    low = _apart(view, always, newest) & training
    if not low.any():  # most ticks end here: the following looks at every step
        return use

    # A streak goes on only where the last step is low, or says nothing.
    silent = _says_nothing(view, always, last) & training
    rows = np.flatnonzero(low[:, last] | silent)
    low = _apart(view, rows, always)
    steps = trailing(low, _says_nothing(view, rows, always))
    on = np.flatnonzero(steps)
    rows, low, steps = rows[on], low[on], steps[on]
    inside = low & newest_of(low.shape[1], steps)

    # The node, and those of its scope that look alike, mostly stay near the middle of their steps.
    share, scope = view.utilization[rows] / view.metric(HIGHEST)[rows], view.roster.scope[rows]
    near = inside & (
        np.abs(share / medians_where(share, inside)[:, None] - 1) <= number("cores.STEADY")
    )
    n_near, n_inside = near.sum(axis=1), inside.sum(axis=1)
    near_in_scope, inside_in_scope = (np.bincount(scope, n)[scope] for n in (n_near, n_inside))
    steady = (n_near >= MOSTLY * n_inside) & (near_in_scope >= MOSTLY * inside_in_scope)
    steady |= view.usual.in_part[rows]

    rows, inside = rows[steady], inside[steady]
    use.steps[rows], use.seen[rows] = steps[steady], inside.sum(axis=1)
    level = (view.utilization[rows] / view.levels[1][rows, None]).astype(np.float32)
    use.share[rows] = medians_where(level, inside)
    return use


def _apart(view: View, rows: Rows | slice, steps: slice) -> Mask:
    """Return where the busiest core is as busy as ever and the mean of all low, a low share of it.

    Shape (len(rows), steps). Executions are as quick as ever. No usual mean is above the usual of
    the busiest: where it is, the two are of different jobs.
    """
    level, usual = view.utilization[rows, steps], view.usual_of(HIGHEST)[rows, None]
    limit = (view.number("starved.below") * view.levels[1])[rows, None]
    low = (level < limit) & (view.metric(HIGHEST)[rows, steps] >= number("cores.BUSY") * usual)
    low &= _uneven(view, rows, steps)
    if low.any():
        low &= view.at_work[rows, steps] & ~_slower(view, rows, steps)
    return np.asarray(low)


def _uneven(view: View, rows: Rows | slice, steps: slice) -> Mask:
    """Return where the mean of all cores is a low share of the busiest, (len(rows), steps)."""
    ratio = np.minimum(view.levels[1] / view.usual_of(HIGHEST), 1)
    limit = (view.number("starved.below") * ratio)[rows, None] * view.metric(HIGHEST)[rows, steps]
    return np.asarray(view.utilization[rows, steps] < limit)


def _slower(view: View, rows: Rows | slice, steps: slice) -> Mask:
    """Return where executions take longer than usual, (len(rows), steps)."""
    usual = view.usual_of(LATENCY)[rows, None]
    return np.asarray(view.latency[rows, steps] > (1 + number("jobs.AS_QUICK")) * usual)


def _says_nothing(view: View, rows: Rows | slice, steps: slice) -> Mask:
    """Return where nothing is known of the work itself, (len(rows), steps).

    There is no reading, an evaluation, or slower executions. Nor does it where cores that an open
    alert is about stand still, though the busiest works a little less.
    """
    unsure = view.gap[rows, steps] | view.evaluating[rows, steps]
    unsure |= view.held_open(_RULE)[rows, None] & _uneven(view, rows, steps)
    return np.asarray(unsure | (_slower(view, rows, steps) & view.executing[rows, steps]))


def with_part_use(view: View, unused: RuleMatch) -> RuleMatch:
    """Add the training nodes on which only some cores work.

    Nodes beside a broken device wait for it.
    """
    use = part_use(view)
    if not use.steps.any():
        return unused
    scope = view.roster.scope
    begins = view.eligible & (use.seen >= view.steps("allocated_unused.for"))
    begins &= ~np.isin(scope, scope[view.held_open(Cause.HARDWARE_FAULT.value)])
    stays = view.roster.running & view.held_open(_RULE) & (use.steps > 0)
    part = (begins | stays) & view.on("allocated_unused.on")
    steps = np.where(part, use.steps, unused.steps).astype(np.float64)
    wasted = np.where(part, view.usual.unpaused * (1 - use.share), np.ones(view.n))
    return RuleMatch(unused.hit | part, steps, wasted)


def settling(view: View) -> Mask:
    """Return which nodes show part use in their two newest steps, (n,).

    A drop of theirs waits until that is sure.
    """
    return np.asarray(part_use(view).seen >= 2)


def with_tenants(view: View, match: RuleMatch, rows: Rows, explanation: Explanation) -> Explanation:
    """Add whose pods hold cores for nothing in the cluster of the nodes at `rows`.

    No metric says which node a pod is on. Where those of one namespace alone stand still, they are
    the ones; a namespace that all share names nobody.
    """
    frame = view.frame("pod").last(int(match.steps[rows].max()) * view.window.step)
    counts = frame.of("neuroncore_usage_count"), frame.of("neuroncore_request_count")
    cores, level = median(np.fmax(*counts)), median(frame.of("neuroncore_utilization_ratio"))
    still = (level <= float(view.number("idle.below")[rows[0]])) & (cores > 0)
    pods = {
        pod: int(cores[i])
        for i, pod in enumerate(frame.things)
        if still[i] and pod.cluster == view.roster.labels[rows[0]].cluster
    }
    whose = Labels.shared(pods).only(["namespace"])
    if whose.namespace in SHARED_NAMESPACES:
        return explanation
    tenant = (
        f"{counted(sum(pods.values()), 'core')} held for nothing by {counted(len(pods), 'pod')} of"
        f" {whose.namespace}: {', '.join(sorted(pod.pod for pod in pods)[:NAMED])}"
    )
    return replace(explanation, labels=whose, evidence=(*explanation.evidence, tenant))


def explain_part(view: View, match: RuleMatch, rows: Rows) -> Explanation:
    """Explain how many cores of some nodes work, for how long, and at which level."""
    wasted = np.ones(view.n) if match.wasted is None else match.wasted
    shares = (1 - wasted / view.usual.unpaused)[rows]
    share = float(np.median(shares))
    kind = view.reading.inventory.types.get(view.roster.labels[rows[0]].instance_type)
    working = f"{percent(share)} of the cores"
    if kind and kind.cores:
        working = f"about {max(1, round(share * kind.cores))} of {counted(kind.cores, 'core')}"

    # Where cores were read they are counted.
    nodes = cores_read(view, rows)
    if nodes:
        busy = [int((~node.still).sum()) for node in nodes]
        of = counted(max(len(node.cores) for node in nodes), "core")
        working = f"{min(busy)}{f'-{max(busy)}' if max(busy) > min(busy) else ''} of {of}"

    steps, length = int(match.steps[rows].max()), view.lasting(match.steps, rows, _RULE)
    level, busiest = (
        float(np.nanmedian(values[rows, -steps:]))
        for values in (view.utilization, view.metric(HIGHEST))
    )
    low, middle, high = (np.nanmedian(usual[rows]) for usual in view.levels)
    executing = percent(float(np.nanmedian(shares)))
    return Explanation(
        why=f"Only {working} work on {counted(len(rows), 'node')}"
        f" for {lasted(length)}: {view.gauge(rows)} {percent(level)},"
        f" usually {span(float(low), float(high))}, the busiest core {percent(busiest)}.",
        value=float(np.median(shares) * middle),
        unit="ratio",
        usual=view.band(rows),
        **belief("part_used"),
        evidence=(
            f"executions take as long as before, on {executing} of the cores",
            *map(str, nodes),
        ),
        suggestions=SUGGESTIONS,
    )
