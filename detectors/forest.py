"""Describe nodes by distances from their usual, and score these by one forest.

The work of a node is held against its job's hours before, its costs against the week before.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from bot.model.frame import Frame
from bot.model.reading import SPEND_METRIC, utilization_of
from detectors.bill.growth import type_in
from detectors.jobs import restarts
from detectors.numbers import (
    HOUR,
    WEEK,
    Counts,
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
from detectors.readings import GAP
from detectors.roster import Roster, scope_of
from detectors.usual import (
    MEMORY,
    THREADS,
    THREE,
    StrangeSpan,
    forget,
    full_work,
    in_order,
    median,
    percentiles,
    worked_of,
)
from detectors.view import PAUSE

METRICS: tuple[str, ...] = (
    "neuroncore_utilization_ratio",
    "neuroncore_memory_used_bytes",
    "neuron_execution_latency_seconds",
    "efa_tx_bytes_per_second",
    "efa_rx_bytes_per_second",
    "host_cpu_utilization_ratio",
    "host_memory_utilization_ratio",
    "network_in_bytes_per_second",
    "network_out_bytes_per_second",
)
WORDS: tuple[str, ...] = (
    "NeuronCore utilization",
    "device memory",
    "execution latency",
    "EFA sent",
    "EFA received",
    "host CPU",
    "host memory",
    "network in",
    "network out",
)
TRAFFIC = slice(3, 5)
"""The metrics that are taken for each unit of utilization: a job's traffic goes with its work."""
FAR = number("forest.FAR")
NOTABLE = number("forest.NOTABLE")
COMBINED = count("forest.COMBINED")
SAMPLE_EVERY = duration("forest.SAMPLE_EVERY")
JOB_HOURS = duration("forest.JOB_HOURS")
_SHARE = number("forest.LEAST_SHARE")
_EFA = number("forest.LEAST_EFA")
_NETWORK = number("forest.LEAST_NETWORK")
_LEAST_SPREADS = np.array(
    [
        _SHARE,
        number("forest.LEAST_BYTES"),
        number("forest.LEAST_SECONDS"),
        _EFA,
        _EFA,
        _SHARE,
        _SHARE,
        _NETWORK,
        _NETWORK,
    ],
    dtype=np.float32,
)
"""Nor as smaller than this, in the metric's own unit."""


@dataclass(frozen=True)
class Scale:
    """Hold each node's median and spread of each metric while it works, each (n, n_metrics).

    Nan = unknown.
    """

    middle: Floats
    spread: Floats

    @staticmethod
    def of(quartiles: tuple[Floats, ...], least: Floats | Numbers) -> Scale:
        """Return the scale of quartiles, each (n, n_metrics), with spreads of at least `least`."""
        low, middle, high = quartiles
        spread = np.maximum((high - low) / number("forest.QUARTILES"), least)
        return Scale(middle, spread.astype(np.float32, copy=False))

    def at(self, rows: Rows | slice) -> Scale:
        """Return the scale of some nodes."""
        return Scale(self.middle[rows], self.spread[rows])


@dataclass(frozen=True)
class JobUsual:
    """Hold the states of each node in the hours before `end` in the job that it then ran."""

    end: datetime
    scale: Scale
    """Of the samples of full work; nan where the job is too young, or rested."""
    full: Floats
    """The utilization from which a node works as its job does, (n,)."""
    samples: Floats
    """All that the node showed, evaluations and earlier jobs too, (n, n_samples, n_metrics)."""

    def showed(self, values: Floats, rows: Rows, until: datetime) -> Mask:
        """Return which nodes at `rows` were in a state like `values` before.

        A return to an earlier job is no oddness of the newest. `values` are (len(rows), n_metrics),
        the mask (len(rows),).
        """
        n = self.samples.shape[1] - max(0, -((until - self.end) // SAMPLE_EVERY))
        samples = self.samples[rows, : max(0, n)]
        like = number("forest.LIKE") * self.scale.spread[rows][:, None, :]
        near = ~(np.abs(samples - values[:, None, :]) > like)
        return np.asarray((near.all(axis=2) & ~np.isnan(samples[:, :, 0])).any(axis=1))


def stops(part: Frame, floor: Numbers) -> Counts:
    """Return how often each node has stopped up to a step, (n, n_steps).

    Steps with the same number are of one job. A node stops where it does nothing and its memory is
    freed, for longer than a checkpoint takes, or where another job begins within a step. In a hole
    longer than an upgrade of its agent one may have begun.
    """
    work = worked_of(part)
    zero = work <= floor[:, None].astype(np.float32)
    restarted = restarts(part) | sustained(np.isnan(work), part.steps(GAP) + 1)
    count = np.zeros(work.shape, dtype=np.intp)
    rows = np.flatnonzero((zero | restarted).any(axis=1))
    if not len(rows):  # as mostly
        return count
    memory, zero = part.of(MEMORY)[rows], zero[rows]
    freed = memory < 0.5 * np.fmax.reduce(memory, axis=1, initial=0)[:, None]
    stopped = (zero & freed) | sustained(zero, part.steps(PAUSE) + 1) | restarted[rows]
    count[rows] = np.cumsum(stopped, axis=1)
    return count


def job_usual(
    part: Frame, roster: Roster, floor: Numbers, strange: tuple[StrangeSpan, ...]
) -> JobUsual:
    """Learn from the hours of `part` how each node's job, as it runs at their end, looks."""
    stride = part.steps(SAMPLE_EVERY)
    samples = samples_of(part, roster, strange)
    first, count = np.arange(samples.shape[1]) * stride, stops(part, floor)
    return usual_of_samples(part.end, samples, floor, count[:, first] != count[:, -1:])


def usual_of_samples(end: datetime, samples: Floats, floor: Numbers, earlier: Mask) -> JobUsual:
    """Return the usual of the newest job of each node by samples, (n, n_samples, n_metrics).

    Those of an `earlier` job, (n, n_samples), say only what the node has shown.
    """
    level = np.where(earlier, np.nan, samples[:, :, 0])
    level = np.where(level > floor[:, None], level, np.nan).astype(np.float32)
    full = full_work(level)
    at_full = level >= full[:, None]
    enough = at_full.sum(axis=1) >= count("forest.LEAST")

    # Medians and spreads of the samples at which a node works in full.
    active = at_full & enough[:, None]
    working = (np.where(active, metric, np.nan) for metric in np.moveaxis(samples, 2, 0))
    ranked = [percentiles(metric.astype(np.float32), (0.25, 0.5, 0.75)) for metric in working]
    quartiles = tuple(np.stack(ranks, axis=1) for ranks in zip(*ranked, strict=True))
    least = np.maximum(number("forest.LEAST_SPREAD") * np.abs(quartiles[1]), _LEAST_SPREADS)
    full = np.where(enough, full, np.nan).astype(np.float32)
    return JobUsual(end, Scale.of(quartiles, least), full, samples)


def median_of(values: Floats) -> Floats:
    """Return the median along axis 1 without nan, (n, k, m) -> (n, m); nan where all are."""
    return _middle(list(np.moveaxis(values, 1, 0).astype(np.float32, copy=False)))


def samples_of(part: Frame, roster: Roster, strange: tuple[StrangeSpan, ...]) -> Floats:
    """Return the metrics at every `SAMPLE_EVERY`, each the median of `SMOOTH`.

    Shape (n, n_samples, n_metrics), without the strange spans.
    """
    stride, smooth = part.steps(SAMPLE_EVERY), part.steps(duration("forest.SMOOTH"))
    ends = np.arange(smooth, part.n_steps + 1, stride)
    levels = np.full((len(METRICS), len(part.things), len(ends)), np.nan, dtype=np.float32)
    for into, name in zip(levels, METRICS, strict=True):
        column = utilization_of(part) if name == METRICS[0] else part.of(name)
        by_time = column.T  # a frame's readings of one time lie together
        into[:] = _middle([by_time[ends - 1 - i] for i in range(smooth)]).T
    in_proportion(levels)
    start = part.start + (smooth - 1) * part.step
    samples = levels.transpose(1, 2, 0)
    sampled = Frame("", part.things, start, part.step * stride, METRICS, samples)
    forget(samples, sampled, roster, strange)
    return samples


def in_proportion(levels: Floats) -> None:
    """Take the traffic in `levels`, (n_metrics, ...), for each unit of utilization, in place."""
    levels[TRAFFIC] /= np.maximum(levels[0], np.float32(0.01))


def _middle(near: list[Floats]) -> Floats:
    """Return the median of arrays of one shape, by `percentiles`; of three without sorting any."""
    if len(near) == THREE:
        first, second, third = in_order(*near)
        return np.where(np.isnan(third), first, second)
    return median(np.stack(near, axis=-1).reshape(-1, len(near))).reshape(near[0].shape)


def distances(values: Floats, scale: Scale) -> Floats:
    """Return how many spreads each metric lies from its usual, cut at `FAR`.

    (..., n_metrics) along the node axis. A metric that was not read, or has no usual, stands at 0
    here: nothing strange is known of it. This is a distance, not a reading.
    """
    middle, spread = scale.middle, scale.spread
    if values.ndim == 3:
        middle, spread = middle[:, None, :], spread[:, None, :]
    far = (values - middle) / spread
    np.clip(far, -FAR, FAR, out=far)
    far[np.isnan(far)] = 0.0
    return np.asarray(far, dtype=np.float32)


COSTS: tuple[str, ...] = ("a node's hour", "the cluster's hour", "a busy core's hour")
SPAN = count("odd_model.SPAN")


@dataclass(frozen=True)
class CostHistory:
    """Hold each node's costs by the hour up to `end`, (n, n_hours, n_costs), and their usual."""

    hours: Floats
    end: datetime
    usual: Scale

    @staticmethod
    def of(spend: Frame | None, whole: Frame, roster: Roster, end: datetime) -> CostHistory:
        """Return the week up to `end`, with the median and spread of each cost in it."""
        hours = known_costs(spend, whole, roster, end, WEEK)
        n, n_hours, m = hours.shape
        flat = np.ascontiguousarray(np.moveaxis(hours, 1, 2).reshape(n * m, n_hours))
        quartiles = tuple(x.reshape(n, m) for x in percentiles(flat, (0.25, 0.5, 0.75)))
        scale = Scale.of(quartiles, number("odd_model.LEAST_SPREAD") * np.abs(quartiles[1]) + 1e-6)
        enough = (~np.isnan(flat)).sum(axis=1).reshape(n, m) >= count("odd_model.LEAST")
        middle = np.where(enough, scale.middle, np.nan).astype(np.float32)
        return CostHistory(hours, end, Scale(middle, scale.spread))

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
    if spend is None or not spend.has(SPEND_METRIC) or spend.end < until:
        return np.full((len(whole.things), 0, len(COSTS)), np.nan, dtype=np.float32)
    bill = spend.until(until).since(until - length - SPAN * HOUR)
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


Leaves = Callable[[Floats], Rows]

TREES = 100
SAMPLE = count("forest.SAMPLE")
MANY = count("forest.MANY")


@dataclass(frozen=True)
class Forest:
    """Hold for each tree how to find the leaf of each row, and the path length to every leaf.

    scikit-learn's `score_samples` walks the same trees, but pays some 4 ms a call for scheduling
    and one thread does it all.
    """

    leaves: tuple[Leaves, ...]
    lengths: tuple[Numbers, ...]
    """By tree and node: the steps down, and the mean path length that its rows would still need."""
    usual: float
    """Sum over the trees of the mean path length of a sample of this size.

    That is c(n) of Liu, Ting and Zhou (2008).
    """

    def score(self, rows: Floats) -> Numbers:
        """Return the strangeness of each row (n, n_features), 2^(-path length / usual), shape (n,).

        Scikit-learn's to the bit.
        """
        rows = np.ascontiguousarray(rows, dtype=np.float32)
        if len(rows) <= MANY:
            return self._score(rows)
        parts = np.array_split(rows, max(THREADS, len(rows) // count("forest.PART")))
        with ThreadPoolExecutor(THREADS) as pool:  # scikit-learn walks a tree without Python's lock
            return np.concatenate(list(pool.map(self._score_in_order, parts)))

    def _score_in_order(self, rows: Floats) -> Numbers:
        """Score like rows after each other: else half of a walk's time is wrongly guessed turns."""
        # Near rows share a number: of each feature the half it lies in, then its quarter.
        sample = rows[:: max(1, len(rows) // 1_000)]
        low, middle, high = np.quantile(sample, (0.25, 0.5, 0.75), axis=0)
        upper, inner = rows > middle, (rows > low) & (rows <= high)
        bits = np.concatenate([upper, inner], axis=1)[:, :62].astype(np.int64)
        likeness = bits @ (1 << np.arange(bits.shape[1])[::-1])

        order = likeness.argsort(kind="stable")
        scores = np.empty(len(rows))
        scores[order] = self._score(rows[order])
        return scores

    def _score(self, rows: Floats) -> Numbers:
        depths = np.zeros(len(rows))
        if not len(rows):
            return depths
        for leaves, lengths in zip(self.leaves, self.lengths, strict=True):
            depths += lengths[leaves(rows)]
        return np.asarray(2.0 ** -(depths / self.usual if self.usual else np.ones(len(rows))))


def load_library() -> None:
    """Import the libraries that `grow` needs, a second's work, before it is asked."""
    import sklearn.tree
    import sklearn.utils.random  # noqa: F401


def fit(rows: Floats, seed: int = 0) -> Forest:
    """Grow the forest on `rows` (n, n_features) and a thin uniform background.

    The same rows give the same forest.
    """
    sample = min(SAMPLE, len(rows))
    trees = grow(with_background(rows, seed), sample, seed)
    usual = len(trees) * float(_mean_length(np.array([sample]))[0])
    # Added up in scikit-learn's order so that no bit differs; its root has depth 1.
    lengths = (
        tree.compute_node_depths() + _mean_length(tree.n_node_samples) - 1.0 for tree in trees
    )
    return Forest(tuple(tree.apply for tree in trees), tuple(lengths), usual)


def with_background(rows: Floats, seed: int = 0) -> Floats:
    """Return the rows and the background that a forest is grown on."""
    rng = np.random.default_rng(seed)
    shape = (max(1, int(number("forest.BACKGROUND") * len(rows))), rows.shape[1])
    return np.concatenate([rows, rng.uniform(-FAR, FAR, shape).astype(np.float32)])


def grow(rows: Floats, sample: int, seed: int = 0) -> list[Any]:
    """Return scikit-learn's trees of `IsolationForest(max_samples=sample, random_state=seed)`.

    They are its own trees with its own draws; two fifths of its `fit` are copies of settings and
    weights for all rows, most of them 0. A share of rows to be flagged (`contamination`) has no
    place here: it would flag some on the calmest day.
    """
    from sklearn import config_context
    from sklearn.tree import ExtraTreeRegressor
    from sklearn.utils.random import sample_without_replacement

    def tree(seed: int) -> Any:
        draws.seed(seed)
        splits.seed(draws.randint(most))
        draws.seed(seed)
        # It draws the features first: all of them.
        sample_without_replacement(rows.shape[1], rows.shape[1], random_state=draws)
        drawn = np.sort(sample_without_replacement(len(rows), sample, random_state=draws))
        grown = ExtraTreeRegressor(
            max_features=1, splitter="random", max_depth=deepest, random_state=splits
        )
        return grown.fit(rows[drawn], target[drawn], check_input=False).tree_

    # Seeding one again costs a third of making another.
    draws, splits = np.random.RandomState(), np.random.RandomState()
    most, deepest = np.iinfo(np.int32).max, int(np.ceil(np.log2(max(sample, 2))))
    target = np.random.RandomState(seed).uniform(size=len(rows))
    with config_context(skip_parameter_validation=True):
        return [tree(draw) for draw in np.random.RandomState(seed).randint(most, size=TREES)]


def _mean_length(sizes: npt.NDArray[np.integer]) -> Numbers:
    """Return c(n), the mean path length of an unsuccessful search in a binary tree of n rows.

    Liu, Ting and Zhou 2008, eq. 1.
    """
    n = np.asarray(sizes, dtype=np.float64)
    at_least_3 = np.maximum(n, 3)
    general = (
        2.0 * (np.log(at_least_3 - 1.0) + np.euler_gamma) - 2.0 * (at_least_3 - 1.0) / at_least_3
    )
    return np.where(n > 2, general, np.where(n == 2, 1.0, 0.0))
