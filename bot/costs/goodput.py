"""Put each dollar of Neuron nodes into one class: productive work, or what kept them from it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from decimal import Decimal

import numpy as np

from bot.costs.allocation import apportion
from bot.costs.node_time import ANY_JOB, CLASSES, CODE_OF, GoodputClass, NodeTime
from bot.costs.training import Paid, RunCost
from bot.model.fleet import is_neuron
from bot.model.frame import Doubles
from bot.model.money import MILLIONTH, cents, summed_apart
from bot.model.spend import Spend
from bot.model.window import HOUR, Window

_FAMILY = re.compile(r"[a-z]+\d")
_COLUMNS = len(CLASSES) + 4
"""Of hours by class, and of `NodeTime.work_hours`."""
DAY, RESOURCE, TYPE, USAGE, LINE = "day", "resource", "instance_type", "usage_type", "line"
BILLED_HOUR, PURCHASE, JOB = "hour", "purchase", "job"
KEYS = (DAY, RESOURCE, TYPE, USAGE, LINE, PURCHASE)
"""Dimensions by which the bill is asked, beside those that the answer is grouped by."""
Amounts = dict[GoodputClass, Decimal]


@dataclass(frozen=True)
class Work:
    """Split productive USD by effective FLOPs, where nodes publish them and their peak is known."""

    measured_usd: Decimal = Decimal(0)
    busy_usd: Decimal = Decimal(0)
    """Of the measured, by NeuronCore utilization."""
    at_peak_usd: Decimal = Decimal(0)
    """Of the measured, what the same operations would have taken at the BF16 peak."""
    pflop_days: float = 0.0

    def __add__(self, more: Work) -> Work:
        """Return the sums of all parts."""
        return Work(*(a + b for a, b in zip(astuple(self), astuple(more), strict=True)))

    @property
    def busy(self) -> float | None:
        """Return the share of the measured time in which NeuronCores were busy."""
        return float(self.busy_usd / self.measured_usd) if self.measured_usd else None

    @property
    def of_peak(self) -> float | None:
        """Return the share of the peak that was reached in the measured time."""
        return float(self.at_peak_usd / self.measured_usd) if self.measured_usd else None

    @property
    def usd_per_pflop_day(self) -> Decimal | None:
        """Return the productive USD of 86,400 x 10^15 effective operations, None of none."""
        if not self.pflop_days:
            return None
        return cents(self.measured_usd / Decimal(repr(self.pflop_days)))


@dataclass(frozen=True)
class GoodputRow:
    """State the amortised USD of one row by class; they sum to what the bill says of it."""

    key: Mapping[str, str]
    classes: Amounts
    work: Work = Work()

    @property
    def usd(self) -> Decimal:
        """Return the USD of all classes."""
        return sum(self.classes.values(), Decimal(0))

    @property
    def seen_usd(self) -> Decimal:
        """Return the USD of the time that metrics tell of, and of commitments that nothing used.

        What is below zero, such as a refund of a commitment, took no time: it has no share.
        """
        unseen = max(self.of(GoodputClass.NOT_SEEN), Decimal(0))
        return sum(self.spent.values(), Decimal(0)) - unseen

    @property
    def spent(self) -> Amounts:
        """Return the classes that cost anything."""
        return {kind: usd for kind, usd in self.classes.items() if usd > 0}

    @property
    def goodput(self) -> float | None:
        """Return the productive share of what was seen, None where no node was.

        A commitment that nobody used is known by the bill alone, and says nothing of nodes.
        """
        unseen, unused = (
            self.of(x) for x in (GoodputClass.NOT_SEEN, GoodputClass.COMMITTED_UNUSED)
        )
        if self.seen_usd <= (unused if unseen > 0 else 0):
            return None
        return float(self.of(GoodputClass.PRODUCTIVE) / self.seen_usd)

    @property
    def most_lost(self) -> tuple[str, Decimal | None]:
        """Return the class that took most beside work, and its USD; nothing where all was work."""
        losses = [
            (usd, kind)
            for kind, usd in self.classes.items()
            if kind not in (GoodputClass.PRODUCTIVE, GoodputClass.NOT_SEEN)
        ]
        usd, kind = max(losses, default=(Decimal(0), GoodputClass.PRODUCTIVE))
        return (kind.words, usd) if cents(usd) > 0 else ("", None)

    def of(self, kind: GoodputClass) -> Decimal:
        """Return the USD of a class."""
        return self.classes.get(kind, Decimal(0))


def is_of_nodes(key: Mapping[str, str]) -> bool:
    """Return whether a row of the bill is of Neuron nodes, or of a commitment to them.

    A plan that names an instance family of another kind is not; one for any compute is.
    """
    if key[LINE] == "commitment":
        family = key[USAGE].partition(":")[2].partition(".")[0]
        return is_neuron(family) or not _FAMILY.match(family)
    return is_neuron(key[TYPE])


def repriced(rows: Iterable[Spend]) -> set[str]:
    """Return the nodes that were charged in several ways on one day: their hours differ in price."""
    ways: defaultdict[tuple[str, str], set[tuple[str, ...]]] = defaultdict(set)
    for row in rows:
        if row.hours and is_of_nodes(row.key):
            way = tuple(row.key[name] for name in (USAGE, LINE, PURCHASE))
            ways[row.key[RESOURCE], row.key[DAY]].add(way)
    return {node for (node, _), charged in ways.items() if node and len(charged) > 1}


class Split:
    """Split rows of the bill by what their nodes did on each day, and by job where asked.

    A row that names its hour is split by what they did in that hour. Of a day of which the bill's
    window holds a part, only that part counts.
    """

    def __init__(self, time: NodeTime, billed: Window, *, by_job: bool = False) -> None:
        self._time: NodeTime | None = time
        self._nodes, self._things = time.rows, time.nodes.things
        self._billed = billed
        self._by_job = by_job
        self._spans: dict[str, list[tuple[str, Doubles]]] = {}

    def apart(self, rows: Iterable[Spend]) -> Split:
        """Return the same for these rows alone, without the metrics behind it: little to send."""
        part = copy(self)
        part._spans = {begin: self._of_span(begin) for begin in {_begin(row.key) for row in rows}}
        part._time = None
        return part

    def parts(self, row: Spend) -> list[tuple[str, Doubles]]:
        """Return jobs with the share of each class in a row of the bill; all shares sum to 1.

        Without jobs there is one part, of no name. What no node used is committed; hours that the
        bill metered and no metric tells of are not seen. Behind the classes stand the shares of
        `NodeTime.work_hours`, which are parts of the productive one.
        """
        only = np.zeros(_COLUMNS)
        if row.key[LINE] == "commitment" or "Unused" in row.key[USAGE]:
            only[CODE_OF[GoodputClass.COMMITTED_UNUSED]] = 1
            return [("", only)]

        hours = self._hours(row.key)
        seen = sum((float(part[: len(CLASSES)].sum()) for _, part in hours), 0.0)
        # Of charges without hours nothing was seen.
        unseen = max(0.0, row.hours - seen) or float(not seen)
        only[CODE_OF[GoodputClass.NOT_SEEN]] = unseen
        return [(job, part / (seen + unseen)) for job, part in (*hours, ("", only)) if part.any()]

    def _hours(self, key: Mapping[str, str]) -> list[tuple[str, Doubles]]:
        """Return the hours that were seen of the row's node, else of all of its type and cluster."""
        node = key[RESOURCE].rpartition("/")[2]
        span = self._of_span(_begin(key))
        # An instance that no metric knows is not seen; a row of no instance is of all alike.
        if node in self._nodes:
            return [(job, hours[self._nodes[node]]) for job, hours in span]
        if node.startswith("i-"):
            return []

        rows = [
            row
            for row, thing in enumerate(self._things)
            if thing.instance_type == key[TYPE] and key.get("cluster") in (None, "", thing.cluster)
        ]
        return [(job, hours[rows].sum(axis=0)) for job, hours in span]

    def _of_span(self, begin: str) -> list[tuple[str, Doubles]]:
        """Return the hours of each class and of `work_hours` of each node, by job.

        Of a UTC day, or of the hour that `begin` names.
        """
        if begin not in self._spans:
            start = datetime.fromisoformat(begin).replace(tzinfo=UTC)
            end = start + (HOUR if "T" in begin else 24 * HOUR)
            time = self._time
            assert time, "rows apart know no other span"
            steps = time.steps(self._billed.within(Window(start, end)))
            jobs: list[int] = np.unique(time.jobs[:, steps]).tolist() if self._by_job else [ANY_JOB]
            names = dict(enumerate(time.job_names))
            span = [
                (
                    names.get(job, ""),
                    np.hstack([time.hours(steps, job), time.work_hours(steps, job)]),
                )
                for job in jobs
            ]
            for _, hours in span:
                hours[:, CODE_OF[GoodputClass.NOT_SEEN]] = 0  # the bill knows whether it ran then
            self._spans[begin] = span
        return self._spans[begin]


def _begin(key: Mapping[str, str]) -> str:
    """Return the hour or the day that a row of the bill is of."""
    return key.get(BILLED_HOUR) or key[DAY]


def goodput_of(rows: Iterable[Spend], split: Split, by: Sequence[str]) -> list[GoodputRow]:
    """Return the USD of each class by the dimensions asked for, the dearest first.

    Every amount of the bill is kept whole.
    """
    pieces = []
    for row in rows:
        usd = row.money.amortised
        if not usd or not is_of_nodes(row.key):
            continue
        parts = [(job, shares.tolist()) for job, shares in split.parts(row)]
        weights = [
            {kind: share for kind, share in zip(CLASSES, shares, strict=False) if share}
            for _, shares in parts
        ]
        amounts = iter(apportion(usd, [share for classes in weights for share in classes.values()]))
        for (job, shares), weighed in zip(parts, weights, strict=True):
            key = {name: job if name == JOB else row.key[name] for name in by}
            classes = {kind: next(amounts) for kind in weighed}

            # Rounding leaves no part greater than its whole.
            productive = classes.get(GoodputClass.PRODUCTIVE, Decimal(0))
            measured, busy, at_peak = (
                min((usd * Decimal(repr(share))).quantize(MILLIONTH), productive)
                for share in shares[len(CLASSES) : -1]
            )
            work = Work(measured, busy, at_peak, shares[-1] * row.hours / 24)
            pieces.append(GoodputRow(key, classes, work))
    return grouped(pieces, by)


def grouped(rows: Iterable[GoodputRow], by: Sequence[str]) -> list[GoodputRow]:
    """Return rows summed by some of their dimensions, by none into one, the dearest first."""
    keyed = [(tuple(row.key[name] for name in by), row) for row in rows]
    sums = summed_apart((key, kind, usd) for key, row in keyed for kind, usd in row.classes.items())
    work: defaultdict[tuple[str, ...], Work] = defaultdict(Work)
    for key, row in keyed:
        work[key] += row.work

    # Classes stand in the order of `CLASSES`.
    return by_cost(
        GoodputRow(
            dict(zip(by, key, strict=True)),
            {kind: classes[kind] for kind in CLASSES if kind in classes},
            work[key],
        )
        for key, classes in sums.items()
    )


def by_cost(rows: Iterable[GoodputRow]) -> list[GoodputRow]:
    """Return rows in their order: the dearest first, each of another key."""
    return sorted(rows, key=lambda row: (-row.usd, tuple(row.key.values())))


@dataclass(frozen=True)
class RunGoodput:
    """State the cost of a run by class, and how much of its time it worked."""

    row: GoodputRow
    ettr: float | None
    """Effective training time ratio: productive hours of the wall hours since it was first seen.

    None where no metric of its nodes was read.
    """


def run_goodput(time: NodeTime, cost: RunCost, paid: Mapping[str, Paid]) -> RunGoodput:
    """Split a run's USD by the class of its nodes in each step; `paid` holds them by instance."""
    seconds = time.nodes.step.total_seconds()
    steps = time.steps(Window(cost.since, cost.until))
    begins: Doubles = time.nodes.start.timestamp() + seconds * np.arange(steps.start, steps.stop)
    ids = [x for x in paid if x in time.rows]
    part = np.array([time.rows[x] for x in ids], dtype=np.intp), steps
    up = np.array([paid[x].up(begins, begins + seconds) for x in ids]).reshape(
        len(ids), begins.size
    )
    rates = np.array([paid[x].rates(begins)[0] for x in ids]).reshape(up.shape)

    # Nodes that no metric knows are not seen; all are weighted by what they cost then, where that
    # is known.
    unknown = [node for x, node in paid.items() if x not in time.rows]
    weights = {kind: float(np.nansum(time.of_class(kind, part) * up * rates)) for kind in CLASSES}
    weights[GoodputClass.NOT_SEEN] += sum(
        float(np.nansum(node.up(begins, begins + seconds) * node.rates(begins)[0]))
        for node in unknown
    )
    weights = {kind: weight for kind, weight in weights.items() if weight}
    classes: dict[GoodputClass, Decimal] = {}
    if weights and cost.usd is not None:
        amounts = apportion(cost.usd, list(weights.values()))
        classes = dict(zip(weights, amounts, strict=True))

    # Of each step the share of its nodes that worked; without a node it did not train.
    up_and_seen = up * time.seen[part]
    worked = (time.of_class(GoodputClass.PRODUCTIVE, part) * up_and_seen).sum(axis=0)
    n_seen, n_up = up_and_seen.sum(axis=0), up.sum(axis=0)
    ratios = np.divide(worked, n_seen, out=np.zeros_like(n_seen), where=n_seen > 0)
    ettr = float(ratios[(n_seen > 0) | (n_up == 0)].mean()) if n_seen.any() else None

    return RunGoodput(GoodputRow({JOB: cost.run.labels.job}, classes), ettr)
