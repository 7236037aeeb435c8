"""Learn once a day how strange work is, against the hours before in the same job, and from which score on it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Protocol

import numpy as np

from bot.model.frame import Frame
from detectors.arrays import Floats, Mask, Numbers
from detectors.features import (
    COMBINED,
    HOURS,
    METRICS,
    NOTABLE,
    SAMPLE,
    SMOOTH,
    JobUsual,
    distances,
    past_levels,
    stops,
    usual_of_samples,
)
from detectors.forest import fit
from detectors.roster import Roster
from detectors.streak import sustained
from detectors.unit_cost import LATE, CostHistory, CostUsual
from detectors.usual import Past, forget

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
        """Tell which samples are of full work in a job that has a usual, (n, n_samples)."""
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
    """Tell which rows of distances are far from the usual in several metrics at once.

    A cost alone is the bill's own story.
    """
    return np.asarray((np.abs(far[..., : len(METRICS)]) >= NOTABLE).sum(axis=-1) >= COMBINED)


def _blocks(whole: Frame, costs: CostHistory, nodes: Nodes, past: Past) -> Iterator[_Block]:
    """Yield the blocks of the recent past, the oldest first."""
    for ago in range(RECENT // BLOCK, 0, -1):
        begin = past.anchor - ago * BLOCK
        if begin - whole.start >= SAMPLE:
            part = whole.until(begin + BLOCK).since(begin - HOURS)
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
