"""Learn once a day how strange work and its costs are, and from which score an alert is raised.

The bill comes late: a tick sees the newest hours that have arrived, held against the week before
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from itertools import accumulate
from typing import Protocol

import numpy as np

from bot.model.frame import Frame
from bot.model.reading import SPEND_METRIC
from detectors.bill.growth import type_in
from detectors.forest import (
    COMBINED,
    JOB_HOURS,
    METRICS,
    NOTABLE,
    SAMPLE_EVERY,
    JobUsual,
    Scale,
    distances,
    fit,
    samples_of,
    stops,
    usual_of_samples,
)
from detectors.numbers import (
    HOUR,
    WEEK,
    Floats,
    Mask,
    Numbers,
    Rows,
    count,
    duration,
    number,
    summed,
    sustained,
)
from detectors.roster import Roster, scope_of
from detectors.usual import Past, percentiles, worked_of

COSTS: tuple[str, ...] = ("a node's hour", "the cluster's hour", "a busy core's hour")
SPAN = count("odd_model.SPAN")


def cost_scale(hours: Floats) -> Scale:
    """Return the median and spread of each cost, from costs by the hour, (n, n_hours, n_costs)."""
    n, n_hours, m = hours.shape
    flat = np.ascontiguousarray(np.moveaxis(hours, 1, 2).reshape(n * m, n_hours))
    quartiles = tuple(x.reshape(n, m) for x in percentiles(flat, (0.25, 0.5, 0.75)))
    scale = Scale.of(quartiles, number("odd_model.LEAST_SPREAD") * np.abs(quartiles[1]) + 1e-6)
    enough = (~np.isnan(flat)).sum(axis=1).reshape(n, m) >= count("odd_model.LEAST")
    return replace(scale, middle=np.where(enough, scale.middle, np.nan).astype(np.float32))


@dataclass(frozen=True)
class CostHistory:
    """Hold each node's costs by the hour up to `end`, (n, n_hours, n_costs), and their usual."""

    hours: Floats
    end: datetime
    usual: Scale

    @staticmethod
    def of(spend: Frame | None, whole: Frame, roster: Roster, end: datetime) -> CostHistory:
        """Return the week up to `end`."""
        hours = known_costs(spend, whole, roster, end, WEEK)
        return CostHistory(hours, end, cost_scale(hours))

    def at(self, time: datetime) -> Floats:
        """Return how far the costs of the hour up to `time` were from their usual, (n, n_costs).

        0 where they are not known.
        """
        back = -((time - self.end) // HOUR)
        if not 0 <= back < self.hours.shape[1]:
            return np.zeros(self.usual.middle.shape, dtype=np.float32)
        return distances(self.hours[:, self.hours.shape[1] - 1 - back], self.usual)


def known_costs(
    spend: Frame | None, whole: Frame, roster: Roster, until: datetime, length: timedelta
) -> Floats:
    """Return the costs of each node at each known hour of the `length` before `until`.

    Shape (n, n_hours, n_costs). Each is over the `SPAN` hours up to it; costs that no tag gives to
    a cluster belong to none. nan = not known.
    """
    nothing = np.full((len(whole.things), 0, len(COSTS)), np.nan, dtype=np.float32)
    if spend is None or not spend.has(SPEND_METRIC) or spend.end < until:
        return nothing
    bill = spend.until(until).since(until - length - SPAN * HOUR)
    if bill.n_steps <= SPAN or not len(whole.things):
        return nothing
    n_scopes = len(roster.scopes)

    # Node-hours seen of each node and its busy core-hours in each hour of the bill, (n, n_hours).
    part = whole.until(bill.end).since(bill.start)
    level, share = worked_of(part), part.step / HOUR
    hours = (part.start - bill.start) / HOUR + np.arange(part.n_steps) * share + 1e-9
    hour = hours.astype(np.intp)
    cores = np.where(np.isnan(roster.cores), 1.0, roster.cores)[:, None]
    present = summed((~np.isnan(level)).T, hour, bill.n_steps).T * share
    busy = summed(np.nan_to_num(level).T, hour, bill.n_steps).T * share * cores

    # USD an hour of each scope, of everything and of instances alone, (n_scopes, n_hours).
    usd = np.nan_to_num(bill.of(SPEND_METRIC)).astype(np.float64)
    place = {scope: i for i, scope in enumerate(roster.scopes)}
    scope = np.array([place.get(scope_of(thing), -1) for thing in bill.things], dtype=np.intp)
    instances = np.array([bool(type_in(x.usage_type)) for x in bill.things], dtype=bool)
    tagged = scope >= 0
    all_usd, nodes_usd = (
        summed(usd[rows], scope[rows], n_scopes) for rows in (tagged, tagged & instances)
    )

    cost = _some(_rolled(all_usd)[roster.scope])
    node_hours, core_hours = (
        _some(_rolled(summed(x, roster.scope, n_scopes))[roster.scope]) for x in (present, busy)
    )
    node = _rolled(nodes_usd)[roster.scope] / node_hours
    return np.stack([node, cost / SPAN, cost / core_hours], axis=2).astype(np.float32)


def _rolled(values: Numbers) -> Numbers:
    """Return the sums over the `SPAN` hours up to each, (n, n_hours - SPAN)."""
    total = np.cumsum(values, axis=1)
    return np.asarray(total[:, SPAN:] - total[:, :-SPAN])


def _some(values: Numbers) -> Numbers:
    """Return the values, nan where there is nothing: nothing billed, nobody seen, nothing done."""
    return np.where(values > 1e-3, values, np.nan)


BLOCK = duration("odd_model.BLOCK")
MOST_ROWS = count("odd_model.MOST_ROWS")
LEAST_ROWS = count("odd_model.LEAST_ROWS")
LEAST_SCORE = number("odd_model.LEAST_SCORE")


class Scorer(Protocol):
    """Tell how strange rows are."""

    def score(self, rows: Floats) -> Numbers:
        """Return the strangeness of each row (n, n_features), (n,); higher is stranger."""


Grow = Callable[[Floats], Scorer]
"""Learns from rows what is usual."""


@dataclass(frozen=True)
class OddModel:
    """Hold the forest, the nodes' usual costs, and the tail of each scope's strangest blocks."""

    forest: Scorer
    live: Mask
    """The features that ever differ in this fleet, (n_features,).

    A metric that nobody reads only blurs the others.
    """
    costs: Scale
    base: Numbers
    """The score above which a block counts as strange, (n_scopes,)."""
    excess: Numbers
    """Mean excess over the base of the blocks above it, (n_scopes,)."""
    weekly: Numbers
    """How many such blocks a week has, (n_scopes,)."""
    highest: Numbers
    """The highest score of the recent past, (n_scopes,)."""

    def score(self, far: Floats) -> Numbers:
        """Return how strange rows of distances are, (n, n_features) -> (n,)."""
        return self.forest.score(far[:, self.live])

    def threshold(self, scope: int, per_week: float) -> float:
        """Return the score that is exceeded `per_week` times a week in a scope.

        By the exponential tail of its blocks (peaks over threshold): rate(s) = weekly * exp(-(s -
        base) / excess). Never under the scores of the recent past.
        """
        excess = self.excess[scope]
        tail = self.base[scope] + excess * np.log(max(1.0, self.weekly[scope] / per_week))
        return float(min(0.999, max(LEAST_SCORE, tail, self.highest[scope] + 0.5 * excess)))


@dataclass(frozen=True)
class Nodes:
    """Name the nodes that are learnt from, and the utilization over which each works, (n,)."""

    roster: Roster
    floor: Numbers


@dataclass(frozen=True)
class _Block:
    """Hold samples of some hours, (n, n_samples, n_metrics), and each job's usual before."""

    usual: JobUsual
    values: Floats
    costs: Floats
    """How far each node's costs were from their usual, (n, n_costs).

    0 where the bill had not arrived.
    """

    @cached_property
    def far(self) -> Floats:
        """Return each sample's distances from the usual of its job, then those of its costs.

        Shape (n, n_samples, n_features).
        """
        far = distances(self.values, self.usual.scale)
        costs = np.repeat(self.costs[:, None, :], far.shape[1], axis=1)
        return np.concatenate([far, costs], axis=2)

    @property
    def judged(self) -> Mask:
        """Return which samples are of full work in a job that has a usual, (n, n_samples)."""
        return np.asarray(self.values[:, :, 0] >= self.usual.full[:, None])

    def lasting(self) -> tuple[Rows, Floats]:
        """Return the nodes that show a combination that lasts, (k,), and how far, (k, n_features).

        As in a tick, what the job had shown before counts for nothing, however strange.
        """
        node, sample = sustained(
            self.judged & combined(self.far), count("odd_model.LASTING")
        ).nonzero()
        fresh = ~self.usual.showed(self.values[node, sample], node, self.usual.end)
        return node[fresh], self.far[node[fresh], sample[fresh]]


def learn(
    whole: Frame, spend: Frame | None, nodes: Nodes, past: Past, grow: Grow = fit
) -> OddModel | None:
    """Learn from the past; None while there is too little of it."""
    costs = CostHistory.of(spend, whole, nodes.roster, past.anchor - duration("odd_model.LATE"))

    # Of each block the rows to learn from and the new combinations: all of it would not fit.
    rows, lasting = [], []
    for block in _blocks(whole, costs, nodes, past):
        rows.append(block.far[block.judged])
        lasting.append(block.lasting())
    n_rows = sum(map(len, rows))
    if n_rows < LEAST_ROWS:
        return None
    live = np.logical_or.reduce([(far != 0).any(axis=0) for far in rows])
    stride, before = -(-n_rows // MOST_ROWS), accumulate(map(len, rows), initial=0)
    sample = [far[-n % stride :: stride, live] for n, far in zip(before, rows, strict=False)]
    forest = grow(np.concatenate(sample))

    # Each scope's highest score in each block, of combinations that last, (n_scopes, n_blocks).
    maxima = np.zeros((len(nodes.roster.scopes), len(lasting)))
    for highest, (node, far) in zip(maxima.T, lasting, strict=True):
        if len(node):
            np.maximum.at(highest, nodes.roster.scope[node], forest.score(far[:, live]))

    base = np.maximum(LEAST_SCORE, np.median(maxima, axis=1))
    above = maxima > base[:, None]
    count = np.maximum(1, above.sum(axis=1))
    return OddModel(
        forest,
        live,
        costs.usual,
        base=base,
        excess=np.where(above, maxima - base[:, None], 0).sum(axis=1) / count,
        weekly=count / (len(lasting) * (BLOCK / WEEK)),
        highest=np.maximum(base, maxima.max(axis=1, initial=0)),
    )


def combined(far: Floats) -> Mask:
    """Return which rows of distances are far from the usual in several metrics at once.

    A cost alone is the bill's own story, and a node that is busier than usual is nothing strange.
    """
    strange = np.abs(far[..., : len(METRICS)]) >= NOTABLE
    strange[..., 0] &= far[..., 0] < 0
    return np.asarray(strange.sum(axis=-1) >= COMBINED)


def _blocks(whole: Frame, costs: CostHistory, nodes: Nodes, past: Past) -> Iterator[_Block]:
    """Yield the blocks of the recent past, the oldest first."""
    for ago in range(duration("odd_model.RECENT") // BLOCK, 0, -1):
        begin = past.anchor - ago * BLOCK
        if begin - whole.start < SAMPLE_EVERY:
            continue
        part = whole.until(begin + BLOCK).since(begin - JOB_HOURS)
        stride, values = part.steps(SAMPLE_EVERY), samples_of(part, nodes.roster, past.strange)

        # Samples after a stop are another job's.
        before = int((begin - part.start) // part.step)
        count = stops(part, nodes.floor)
        if count.any():
            first = np.arange(values.shape[1]) * stride
            last = np.minimum(first + stride, part.n_steps) - 1
            current = count[:, [max(0, before - 1)]]
            values[(count[:, first] != current) | (count[:, last] != current)] = np.nan
        n_before = max(1, min(values.shape[1], before // stride))
        usual = usual_of_samples(begin, values[:, :n_before], nodes.floor)
        yield _Block(usual, values[:, n_before:], costs.at(begin))
