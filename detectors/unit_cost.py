"""Take what a cluster costs by the hour, for an hour of its nodes and for an hour of busy cores, as features beside the metrics.

The bill comes late: what a tick sees is of the newest hours that have arrived, and is held against
the week before them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from bot.model.frame import Frame
from bot.model.reading import SPEND_METRIC
from detectors.arrays import Floats, Numbers, summed
from detectors.bill.growth import HOURS
from detectors.bill.lines import HOUR
from detectors.features import FAR
from detectors.roster import Roster, scope_of
from detectors.usual import percentiles, worked_of

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
