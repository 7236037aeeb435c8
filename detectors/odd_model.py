"""Learn once a day how strange work and its costs are, and from which score on an alert is raised."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Protocol

import numpy as np

from bot.model.frame import Frame
from bot.model.reading import SPEND_METRIC
from detectors.arrays import Floats, Mask, Numbers, summed, sustained
from detectors.bill.growth import HOUR, HOURS
from detectors.forest import (
    COMBINED,
    FAR,
    JOB_HOURS,
    METRICS,
    NOTABLE,
    SMOOTH,
    JobUsual,
    distances,
    fit,
    past_levels,
    stops,
    usual_of_samples,
)
from detectors.forest import SAMPLE_EVERY as SAMPLE
from detectors.roster import Roster, scope_of
from detectors.usual import Past, forget, percentiles, worked_of

COSTS: tuple[str, ...] = ("a node's hour", "the cluster's hour", "a busy core's hour")
WEEK = timedelta(days=7)
LATE = timedelta(days=2)
"""What is learnt at a midnight is learnt up to so long before it.

Every tick of the day has seen the bill so far.
"""
SPAN = 6
"""Hours that one figure is taken over: a single one has jobs that end in it."""
_LEAST = 24
"""Known hours that make a usual."""
_LEAST_SPREAD = 0.05
"""No spread is taken as smaller than this share of its median."""


@dataclass(frozen=True)
class CostUsual:
    """Hold the median and spread of each cost over a week, each (n, n_costs); nan = unknown."""

    middle: Floats
    spread: Floats

    @staticmethod
    def of(hours: Floats) -> CostUsual:
        """Learn it from costs by the hour, (n, n_hours, n_costs)."""
        n, n_hours, m = hours.shape
        flat = np.ascontiguousarray(np.moveaxis(hours, 1, 2).reshape(n * m, n_hours))
        low, middle, high = (x.reshape(n, m) for x in percentiles(flat, (0.25, 0.5, 0.75)))
        known = (~np.isnan(flat)).sum(axis=1).reshape(n, m) >= _LEAST
        spread = np.maximum((high - low) / 1.35, _LEAST_SPREAD * np.abs(middle) + 1e-6)
        return CostUsual(
            np.where(known, middle, np.nan).astype(np.float32), spread.astype(np.float32)
        )

    def distances(self, values: Floats) -> Floats:
        """Return how many spreads costs lie from their usual, cut as those of metrics are.

        0 where that is not known.
        """
        far = np.clip((values - self.middle) / self.spread, -FAR, FAR)
        return np.asarray(np.nan_to_num(far), dtype=np.float32)


@dataclass(frozen=True)
class CostHistory:
    """Hold the costs of each node at each hour up to `end`, (n, n_hours, n_costs), and their usual."""

    hours: Floats
    end: datetime
    usual: CostUsual

    @staticmethod
    def of(spend: Frame | None, whole: Frame, roster: Roster, end: datetime) -> CostHistory:
        """Return the week up to `end`."""
        hours = known_costs(spend, whole, roster, end, WEEK)
        return CostHistory(hours, end, CostUsual.of(hours))

    def at(self, time: datetime) -> Floats:
        """Return how far the costs of the hour up to `time` were from their usual, (n, n_costs).

        0 where they are not known.
        """
        back = -((time - self.end) // HOUR)
        if not 0 <= back < self.hours.shape[1]:
            return np.zeros(self.usual.middle.shape, dtype=np.float32)
        return self.usual.distances(self.hours[:, self.hours.shape[1] - 1 - back])


def known_costs(
    spend: Frame | None, whole: Frame, roster: Roster, until: datetime, length: timedelta
) -> Floats:
    """Return the costs of each node at each hour of the `length` before `until` that has arrived, (n, n_hours, n_costs).

    Each is over the `SPAN` hours up to it; what no tag gives to a cluster belongs to none. nan =
    not known.
    """
    nothing = np.full((len(whole.things), 0, len(COSTS)), np.nan, dtype=np.float32)
    if spend is None or not spend.has(SPEND_METRIC) or spend.end < until:
        return nothing
    bill = spend.until(until).since(until - length - SPAN * HOUR)
    if bill.n_steps <= SPAN or not len(whole.things):
        return nothing
    usd = np.nan_to_num(bill.of(SPEND_METRIC)).astype(np.float64)
    seen, busy = _hours_of_work(whole, roster, bill)
    clusters, nodes = _by_scope(usd, bill, roster)
    cost = _rolled(clusters)[roster.scope]
    of_scope = [
        _rolled(summed(x, roster.scope, len(roster.scopes)))[roster.scope] for x in (seen, busy)
    ]
    node = _rolled(nodes)[roster.scope] / _some(of_scope[0])
    return np.stack([node, _some(cost) / SPAN, _some(cost) / _some(of_scope[1])], axis=2).astype(
        np.float32
    )


def _by_scope(usd: Numbers, bill: Frame, roster: Roster) -> tuple[Numbers, Numbers]:
    """Return USD an hour of each scope, of everything and of instances alone, each (n_scopes, n_hours)."""
    place = {scope: i for i, scope in enumerate(roster.scopes)}
    scope = np.array([place.get(scope_of(thing), -1) for thing in bill.things], dtype=np.intp)
    instances = np.array(
        [bool(HOURS.search(thing.usage_type)) for thing in bill.things], dtype=bool
    )
    known, nodes = scope >= 0, (scope >= 0) & instances
    return summed(usd[known], scope[known], len(place)), summed(
        usd[nodes], scope[nodes], len(place)
    )


def _hours_of_work(whole: Frame, roster: Roster, bill: Frame) -> tuple[Numbers, Numbers]:
    """Return the node-hours seen of each node and its busy core-hours in each hour of the bill, each (n, n_hours)."""
    part = whole.until(bill.end).since(bill.start)
    level = worked_of(part)
    share = part.step / HOUR
    hour = ((part.start - bill.start) / HOUR + np.arange(part.n_steps) * share + 1e-9).astype(
        np.intp
    )
    cores = np.where(np.isnan(roster.cores), 1.0, roster.cores)[:, None]
    seen, busy = (
        summed(x.T, hour, bill.n_steps).T for x in (~np.isnan(level), np.nan_to_num(level))
    )
    return seen * share, busy * share * cores


def _rolled(values: Numbers) -> Numbers:
    """Return the sums over `SPAN` hours up to each, from the first that has so many before it, (n, n_hours - SPAN)."""
    total = np.cumsum(values, axis=1)
    return np.asarray(total[:, SPAN:] - total[:, :-SPAN])


def _some(values: Numbers) -> Numbers:
    """Return the values, nan where there is nothing: nothing billed, nobody seen, nothing done."""
    return np.where(values > 1e-3, values, np.nan)


RECENT = timedelta(days=7)
BLOCK = timedelta(hours=6)
"""The past is cut into blocks.

Each is judged by the job's hours before it, and gives its strangest row.
"""
MOST_ROWS = 20_000
LEAST_ROWS = 300
LASTING = 3
"""Neighbouring samples that all show a combination.

One that lasts no longer than an evaluation is none.
"""
LEAST_SCORE = 0.5
"""No cluster, however calm, has a lower threshold.

An average row scores about 0.35, two metrics 5 spreads away about 0.5.
"""


class Scorer(Protocol):
    """Tell how strange rows are."""

    def score(self, rows: Floats) -> Numbers:
        """Return the strangeness of each row (n, n_features), (n,); higher is stranger."""


Grow = Callable[[Floats], Scorer]
"""Learns from rows what is usual."""


@dataclass(frozen=True)
class OddModel:
    """Hold the forest, the nodes' usual costs, and for each scope the mean excess and count of its strangest blocks."""

    forest: Scorer
    live: Mask
    """The features that ever differ in this fleet, (n_features,).

    A metric that nobody reads only blurs the others.
    """
    costs: CostUsual
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
        """Return the score that is exceeded `per_week` times a week in a scope, by the exponential tail of its blocks.

        Peaks over threshold: rate(s) = weekly * exp(-(s - base) / excess). Never under what the
        recent past has shown.
        """
        tail = self.base[scope] + self.excess[scope] * np.log(
            max(1.0, self.weekly[scope] / per_week)
        )
        return float(
            min(0.999, max(LEAST_SCORE, tail, self.highest[scope] + 0.5 * self.excess[scope]))
        )


@dataclass(frozen=True)
class Nodes:
    """Name the nodes that are learnt from, and the utilization over which each works, (n,)."""

    roster: Roster
    floor: Numbers


@dataclass(frozen=True)
class _Block:
    """Hold the samples of some hours of the past (n, n_samples, n_metrics) and what each node's job was like before them."""

    usual: JobUsual
    values: Floats
    costs: Floats
    """How far each node's costs were from their usual, (n, n_costs).

    0 where the bill had not arrived.
    """

    @cached_property
    def far(self) -> Floats:
        """Return each sample's distances from the usual of its job, then those of its costs, (n, n_samples, n_features)."""
        far = distances(self.values, self.usual.scale)
        return np.concatenate(
            [far, np.repeat(self.costs[:, None, :], far.shape[1], axis=1)], axis=2
        )

    @property
    def judged(self) -> Mask:
        """Return which samples are of full work in a job that has a usual, (n, n_samples)."""
        return np.asarray(self.values[:, :, 0] >= self.usual.full[:, None])


def learn(
    whole: Frame, spend: Frame | None, nodes: Nodes, past: Past, grow: Grow = fit
) -> OddModel | None:
    """Learn from the past; None while there is too little of it."""
    costs = CostHistory.of(spend, whole, nodes.roster, past.anchor - LATE)
    blocks = list(_blocks(whole, costs, nodes, past))
    rows = [block.far[block.judged] for block in blocks]
    if sum(map(len, rows)) < LEAST_ROWS:
        return None
    every = np.concatenate(rows)
    live = np.abs(every).max(axis=0) > 0
    forest = grow(np.ascontiguousarray(every[:: -(-len(every) // MOST_ROWS), live]))
    maxima = np.stack([_maxima(forest, live, block, nodes.roster) for block in blocks], axis=1)
    return OddModel(forest, live, costs.usual, *_tails(maxima))


def combined(far: Floats) -> Mask:
    """Return which rows of distances are far from the usual in several metrics at once.

    A cost alone is the bill's own story.
    """
    return np.asarray((np.abs(far[..., : len(METRICS)]) >= NOTABLE).sum(axis=-1) >= COMBINED)


def _blocks(whole: Frame, costs: CostHistory, nodes: Nodes, past: Past) -> Iterator[_Block]:
    """Yield the blocks of the recent past, the oldest first."""
    for ago in range(RECENT // BLOCK, 0, -1):
        begin = past.anchor - ago * BLOCK
        if begin - whole.start >= SAMPLE:
            part = whole.until(begin + BLOCK).since(begin - JOB_HOURS)
            usual, values = _before_and_after(part, begin, nodes, past)
            yield _Block(usual, values, costs.at(begin))


def _before_and_after(
    part: Frame, begin: datetime, nodes: Nodes, past: Past
) -> tuple[JobUsual, Floats]:
    """Return what each node's job was like up to `begin`, and the samples after it.

    What came after a stop is another job's.
    """
    stride = part.steps(SAMPLE)
    sampled = past_levels(part, stride, part.steps(SMOOTH))
    values = sampled.values
    forget(values, sampled, nodes.roster, past.strange)
    before = int((begin - part.start) // part.step)
    count = stops(part, nodes.floor)
    if count.any():
        first = np.arange(values.shape[1]) * stride
        last = np.minimum(first + stride, part.n_steps) - 1
        here = count[:, [max(0, before - 1)]]
        values[(count[:, first] != here) | (count[:, last] != here)] = np.nan
    n_before = max(1, min(values.shape[1], before // stride))
    return usual_of_samples(begin, values[:, :n_before], nodes.floor), values[:, n_before:]


def _maxima(forest: Scorer, live: Mask, block: _Block, roster: Roster) -> Numbers:
    """Return the highest score of each scope in a block, (n_scopes,), of combinations that last."""
    far = block.far
    worth = sustained(block.judged & combined(far), LASTING)
    highest = np.zeros(len(roster.scopes))
    if worth.any():
        rows, at = worth.nonzero()
        np.maximum.at(highest, roster.scope[rows], forest.score(far[rows, at][:, live]))
    return highest


def _tails(maxima: Numbers) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Return for each scope base, mean excess, blocks a week above the base, and highest score."""
    base = np.maximum(LEAST_SCORE, np.median(maxima, axis=1))
    above = maxima > base[:, None]
    count = above.sum(axis=1)
    over = np.where(above, maxima - base[:, None], 0).sum(axis=1)
    excess = np.maximum(0.01, over / np.maximum(1, count))
    weeks = maxima.shape[1] * (BLOCK / timedelta(days=7))
    return (
        base,
        excess,
        np.maximum(1, count) / weeks,
        np.maximum(base, maxima.max(axis=1, initial=0)),
    )
