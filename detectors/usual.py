"""Learn the usual of each node: medians of its metrics at work, anchored at fixed UTC hours."""

from __future__ import annotations

import operator
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from bot.model.alert import Alert
from bot.model.causes import Cause, Family
from bot.model.codec import by_key
from bot.model.frame import Frame
from bot.model.reading import Reading, utilization_of
from detectors.numbers import Floats, Mask, Numbers, Rows, duration, number, summed
from detectors.roster import Roster

T = TypeVar("T")


class Memo(Generic[T]):
    """Remember the newest values of a pure function by their keys, as many as are in use."""

    def __init__(self, in_use: int = 1) -> None:
        self._newest: deque[tuple[object, Sequence[object], T]] = deque(maxlen=in_use)

    def get(self, key: object, make: Callable[[], T], *frames: Frame | None) -> T:
        """Return the value for `key`, made anew only when the key has changed or a frame is new.

        One that is cut at each tick from the same readings is not: these are compared by identity.
        """
        key = key, *(x and (x.start, x.things) for x in frames)
        origins = [x and x.origin for x in frames]
        for place, (earlier, before, value) in enumerate(self._newest):
            same = len(origins) == len(before) and all(map(operator.is_, origins, before))
            if same and earlier == key:
                # An equal key is kept too: the next shares more with it, and equals it by identity.
                self._newest[place] = key, origins, value
                return value
        value = make()
        self._newest.append((key, origins, value))
        return value


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
THREADS = 2
BLOCK = 128
"""Nodes that are learnt of at a time: what is worked out of so many stays near the processor."""
SAMPLE = duration("usual.SAMPLE")
LEAST = duration("usual.LEAST")
MEMORY = "neuroncore_memory_used_bytes"
LATENCY = "neuron_execution_latency_seconds"
SENT = "efa_tx_bytes_per_second"
RESERVED = "neuroncore_reserved_count"
DROPPED = "efa_rx_dropped_per_second"
HIGHEST = "neuroncore_utilization_highest_ratio"
CPU = "host_cpu_utilization_ratio"
SAME = number("usual.SAME")
ALIKE = number("usual.ALIKE")
MEDIANS_OF: tuple[str, ...] = (
    HIGHEST,
    CPU,
    MEMORY,
    "neuron_executions_completed_count",
    LATENCY,
    SENT,
    DROPPED,
    RESERVED,
    "network_in_bytes_per_second",
    "network_out_bytes_per_second",
)


class StrangeSpan(NamedTuple):
    """Name things that an alert was about, and from when to when."""

    things: tuple[str, ...]
    start: datetime
    end: datetime


@dataclass(frozen=True)
class Past:
    """Bound the history that is learnt from: days up to an anchor, without strange spans."""

    anchor: datetime
    days: float
    strange: tuple[StrangeSpan, ...] = ()
    pauses: tuple[StrangeSpan, ...] = ()
    """Those of the strange spans that may have been pauses: of hangs and drops that are over."""
    source: object = None
    """A key of whose history it is and of how much of it is there, see `source_of`."""

    @property
    def troubles(self) -> tuple[StrangeSpan, ...]:
        """Return the strange spans that were no pauses."""
        # A span may be that of two alerts, of which one was about a pause.
        return tuple((Counter(self.strange) - Counter(self.pauses)).elements())


@dataclass(frozen=True)
class Usual:
    """Hold the usual levels of each node, each (n,); nan = unknown.

    The median, 25th and 95th percentile of utilization, and medians of other metrics while active.
    """

    middle: Floats
    low: Floats
    high: Floats
    medians: dict[str, Floats]
    hourly_low: Floats
    """For inference the lowest daily level at an hour, by weekday/weekend, (2, 24, n)."""
    hourly_middle: Floats
    """The median daily level, (2, 24, n)."""
    own: Mask
    """Whether the levels were learnt from the job that a node runs, (n,).

    Those of another one say little of it.
    """
    unpaused: Floats
    """The mean level up to the middle one as a share of it, (n,).

    The time that a job's checkpoints take is no loss, and hours of another level make up for none.
    """
    in_part: Mask
    """Whether its job began again with less memory and as much less work: on some cores, (n,)."""
    resumed: Mask
    """Whether its job is known to be the one of before its last stop, (n,)."""

    @staticmethod
    def joined(parts: Sequence[Usual]) -> Usual:
        """Return the levels of the nodes of all parts, in their order."""
        levels: dict[str, Any] = {
            x.name: np.concatenate([getattr(part, x.name) for part in parts], axis=-1)
            for x in fields(Usual)
            if x.name != "medians"
        }
        names = parts[0].medians
        medians = {name: np.concatenate([part.medians[name] for part in parts]) for name in names}
        return Usual(**levels, medians=medians)

    def pick(self, rows: Rows) -> Usual:
        """Return the levels of the nodes at `rows` only."""
        return Usual(
            self.middle[rows],
            self.low[rows],
            self.high[rows],
            {name: values[rows] for name, values in self.medians.items()},
            self.hourly_low[..., rows],
            self.hourly_middle[..., rows],
            self.own[rows],
            self.unpaused[rows],
            self.in_part[rows],
            self.resumed[rows],
        )

    def at(self, now: datetime, inference: Mask) -> tuple[Floats, Floats, Floats]:
        """Return (low, middle, high) that hold at `now`.

        For inference by the hour of day and kind of day.
        """
        if not inference.any():
            return self.low, self.middle, self.high
        lowest, usual = (
            around(levels[int(now.weekday() >= 5)], now)
            for levels in (self.hourly_low, self.hourly_middle)
        )
        return (
            np.where(inference, lowest, self.low),
            np.where(inference, lowest, self.middle),
            np.where(inference, usual, self.high),
        )


def around(levels: Floats, now: datetime) -> Floats:
    """Return the lowest level within an hour of a time of day, (24, n) -> (n,).

    People live by local time: where clocks change, a service's day comes an hour earlier or later.
    A level is that of the middle of its hour, and in between lies between its neighbours'.
    """
    nearby = []
    for shift in (-1, 0, 1):
        middle = now.hour + now.minute / 60 + shift - 0.5
        hour, share = int(np.floor(middle)), np.float32(middle % 1)
        before, after = levels[hour % 24], levels[(hour + 1) % 24]
        between = (1 - share) * before + share * after
        nearby.append(np.where(np.isnan(between), np.fmin(before, after), between))
    return np.asarray(np.fmin.reduce(nearby))


_NO_LEVELS = np.zeros(0, dtype=np.float32)
_NO_NODES = _NO_LEVELS > 0
NOTHING = Usual(
    *(_NO_LEVELS,) * 3, {}, *(_NO_LEVELS,) * 2, _NO_NODES, _NO_LEVELS, _NO_NODES, _NO_NODES
)
"""Knows no node: for looks that ask about the present and not about the usual."""


def source_of(whole: Frame, reading: Reading, roster: Roster) -> object:
    """Return a key of all that may change in a history whose end is known.

    That is whose it is, and where it begins: it may still be read while the watch goes on.
    """
    return whole.things, roster.makeup, whole.start, reading.learning


def anchor_of(now: datetime, frame: Frame, whole: timedelta = timedelta(hours=6)) -> datetime:
    """Return the last fixed instant up to which history is learnt.

    Each UTC hour while young, else each `whole`.
    """
    period = timedelta(hours=1) if now - frame.start < duration("usual.YOUNG") else whole
    return _EPOCH + (now - _EPOCH) // period * period


def strange_spans(alerts: Sequence[Alert], anchor: datetime) -> tuple[StrangeSpan, ...]:
    """Return the spans of the alerts that had been opened at `anchor`, clipped to it."""
    return tuple(
        StrangeSpan(
            _members(a.anomaly.things, a.anomaly.suspect),
            a.anomaly.window.start,
            min(a.closed or anchor, anchor),
        )
        for a in alerts
        if a.opened <= anchor
    )


@lru_cache(256)
def _members(things: tuple[str, ...], suspect: str) -> tuple[str, ...]:
    """Return the things of an alert in one order, whichever waste most now."""
    return tuple(sorted({*things, suspect} - {""}))


def pause_spans(
    alerts: Sequence[Alert], anchor: datetime, limit: timedelta
) -> tuple[StrangeSpan, ...]:
    """Return the spans of the hangs and drops that were over at `anchor`, shorter than a limit.

    A job that went on by itself had waited; one drop may be an accident, two are how the job is.
    """
    over = [alert for alert in alerts if not alert.firing]
    hangs, drops = (
        [
            span
            for span in strange_spans([a for a in over if a.anomaly.rule in rules], anchor)
            if span.end < anchor and span.end - span.start < limit
        ]
        for rules in ((Cause.HUNG.value,), Family.DROP.rules)
    )
    times = Counter(thing for span in drops for thing in span.things)
    return (*hangs, *(span for span in drops if any(times[thing] > 1 for thing in span.things)))


def history(frame: Frame, anchor: datetime, days: float, every: timedelta = SAMPLE) -> Frame:
    """Return the part of `frame` that is learnt from, thinned to one step in `every`.

    The steps lie at fixed instants.
    """
    part = frame.until(anchor).since(anchor - timedelta(days=days))
    stride = max(1, every // part.step)
    first = -((part.start - _EPOCH) // part.step) % stride
    return part.thinned(first, stride)


LearntBlocks = dict[tuple[int, tuple[StrangeSpan, ...]], Usual]
"""The usual of blocks of nodes by their first row and their strange spans."""


def learn(
    part: Frame,
    roster: Roster,
    floor: Numbers,
    strange: tuple[StrangeSpan, ...],
    least: timedelta = LEAST,
    whole: Frame | None = None,
    earlier: LearntBlocks | None = None,
) -> Usual:
    """Learn from `part` the usual of each node while its utilization is above `floor`, (n,).

    `whole` is the same with every step, where it is thinned: pauses that come by the clock fall
    between its steps.

    Strange spans are left out. Of the jobs that a node ran only the newest is learnt from, known by
    the device memory that it holds. Blocks of nodes that were learnt `earlier` of the same history
    and floor are not learnt again.
    """
    blocks = {} if earlier is None else earlier
    spans: dict[int, list[StrangeSpan]] = {}
    for things, start, end in strange:
        places = by_key((roster.row[x] // BLOCK, x) for x in things if x in roster.row)
        for place, names in places.items():
            spans.setdefault(place, []).append(StrangeSpan(tuple(names), start, end))

    def learnt(rows: slice) -> Usual:
        nodes = _Nodes(rows, roster, floor[rows], roster.inference[rows])
        forgotten = tuple(spans.get(rows.start // BLOCK, ()))
        if (rows.start, forgotten) not in blocks:
            unthinned = whole.pick(rows) if whole else None
            usual = _learn(part.pick(rows), unthinned, nodes, forgotten, least)
            blocks[rows.start, forgotten] = usual
        return blocks[rows.start, forgotten]

    # By blocks: beside their history, all that is worked out of it on the way is large.
    cuts = [slice(start, start + BLOCK) for start in range(0, max(1, len(part.things)), BLOCK)]
    with ThreadPoolExecutor(THREADS) as pool:  # numpy works without Python's lock
        usual = Usual.joined(list(pool.map(learnt, cuts)))

    # A node without history has the median of its cluster, training apart from inference.
    unknown = np.isnan(usual.middle)
    for scope in np.unique(roster.scope[unknown]):
        training = (roster.scope == scope) & ~roster.inference
        peers, new = training & ~unknown, training & unknown
        if peers.any() and new.any():
            for levels in (usual.low, usual.middle, usual.high):
                levels[new] = np.median(levels[peers])
    return usual


class _Nodes(NamedTuple):
    """Name the nodes of a block: their place among all, and their floors and use, each (n,)."""

    rows: slice
    roster: Roster
    floor: Numbers
    inference: Mask


def _learn(
    part: Frame,
    whole: Frame | None,
    nodes: _Nodes,
    strange: tuple[StrangeSpan, ...],
    least: timedelta,
) -> Usual:
    """Learn the usual of a block of nodes."""
    floor, inference = nodes.floor, nodes.inference
    level = utilization_of(part).copy()
    memory, working = part.of(MEMORY), level > floor[:, None]

    forget(level, part, nodes.roster, strange, nodes.rows.start)
    active = level > floor[:, None]

    # The memory that each node held in its newest work, nan where that is not read. Work in an
    # alert tells the job only of a node that has shown no other.
    readable: Mask = np.asarray(working & ~np.isnan(memory))
    learnable = readable & active
    readable = learnable | (readable & ~learnable.any(axis=1, keepdims=True))
    newer = readable[:, ::-1].cumsum(axis=1)[:, ::-1]
    newest = medians_where(memory, readable & (newer <= part.steps(duration("usual.NEWEST"))))[
        :, None
    ]

    any_job = np.isnan(newest) | inference[:, None]
    fewest = max(3, least // part.step)
    of_job = active & ((off(memory, newest) <= SAME) | any_job)
    sure = of_job.sum(axis=1) >= fewest
    of_job[~sure] = (active & ((off(memory, newest) <= ALIKE) | any_job))[~sure]
    enough = of_job.sum(axis=1) >= fewest
    level[~of_job] = np.nan
    low, middle, high = percentiles(level, (0.25, 0.5, 0.95))
    for array in (low, middle, high):
        array[~enough] = np.nan

    active[enough] = of_job[enough]
    medians = {name: medians_where(part.of(name), active) for name in MEDIANS_OF if part.has(name)}
    hourly_low, hourly_middle = _by_hour(level, part, inference)

    if whole is not None:
        memory, level = whole.of(MEMORY), utilization_of(whole).copy()
        forget(level, whole, nodes.roster, strange, nodes.rows.start)
        alike = np.where(sure, SAME, ALIKE)[:, None]
        of_job = (level > floor[:, None]) & ((off(memory, newest) <= alike) | any_job)
        level[~of_job] = np.nan
    readable = ~np.isnan(level)
    total = np.where(readable, np.minimum(level, middle[:, None]), 0).sum(axis=1)
    reached = total / np.maximum(readable.sum(axis=1), 1)
    unpaused = np.where(enough & ~inference, reached / middle, 1).astype(np.float32)
    none = np.zeros_like(sure)
    hourly = hourly_low, hourly_middle
    return Usual(middle, low, high, medians, *hourly, sure, unpaused, in_part=none, resumed=none)


def off(level: Floats | None, usual: Floats | np.float32) -> Floats:
    """Return by which share of a usual level another is off it, nan where one was not read."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.abs((np.nan if level is None else level) / usual - 1))


def medians_where(values: Floats, chosen: Mask) -> Floats:
    """Return the median of each row's chosen readings, nan where there is none, (n,)."""
    steps = np.flatnonzero(chosen.any(axis=0))
    if len(steps):  # a few hours of many days are often chosen: no others are sorted
        span = slice(steps[0], steps[-1] + 1)
        values, chosen = values[:, span], chosen[:, span]
    return median(np.where(chosen, values, np.nan).astype(np.float32, copy=False))


def worked_of(frame: Frame) -> Floats:
    """Return the utilization, where a node that says that it has no runtime does nothing, (n, n_steps)."""
    level, loaded = utilization_of(frame), "neuron_runtime_loaded_ratio"
    unread = np.isnan(level)
    if not (unread.any() and frame.has(loaded)):
        return level
    none = unread & (frame.of(loaded) == 0)
    return np.where(none, np.float32(0), level) if none.any() else level


def forget(
    values: Floats,
    part: Frame,
    roster: Roster,
    strange: tuple[StrangeSpan, ...],
    first_row: int = 0,
) -> None:
    """Blank the strange spans in place: they are not learnt from.

    `values` are those of the nodes of the roster from `first_row` on.
    """
    for things, start, end in strange:
        first = max(0, (start - part.start) // part.step)
        last = -((part.start - end) // part.step)
        rows = roster.rows_of(things) - first_row
        rows = rows[(rows >= 0) & (rows < len(values))]
        if len(rows) and last > first:
            values[rows, first:last] = np.nan


def median(values: Floats) -> Floats:
    """Return the median along the last axis without nan, nan where there is nothing, (n,)."""
    return percentiles(values, (0.5,))[0]


def percentiles(values: Floats, ranks: tuple[float, ...]) -> tuple[Floats, ...]:
    """Return percentiles along the last axis without nan, nan where there is nothing."""
    if values.shape[1] == THREE:
        ordered = np.stack(in_order(*values.T), axis=1)
    else:
        ordered = np.array(values, order="C")  # a row in one piece is sorted in half the time
        ordered.sort(axis=1)
    if not ordered.shape[1]:
        return tuple(np.full(len(ordered), np.nan, dtype=np.float32) for _ in ranks)

    # numpy sorts nan last; a row of nothing but nan gives its first.
    unread = np.isnan(ordered)
    last = np.maximum(np.where(unread[:, -1], unread.argmax(axis=1), ordered.shape[1]) - 1, 0)
    rows = np.arange(len(ordered))
    return tuple(
        ordered[rows, np.rint(rank * last).astype(np.intp)].astype(np.float32, copy=False)
        for rank in ranks
    )


def full_work(levels: Floats) -> Floats:
    """Return the level from which work counts as full, (n,), of levels of work (n, n_steps).

    Near the upper quartile: where a checkpoint or an evaluation stopped the work, it is less.
    """
    (upper,) = percentiles(levels, (0.75,))
    return number("forest.FULL") * upper


THREE = 3


def in_order(first: Floats, second: Floats, third: Floats) -> tuple[Floats, Floats, Floats]:
    """Return three arrays in order, element by element, nan last.

    Numpy sorts row after row, this all rows at once.
    """
    first, second = np.fmin(first, second), np.maximum(first, second)
    second, third = np.fmin(second, third), np.maximum(second, third)
    first, second = np.fmin(first, second), np.maximum(first, second)
    return first, second, third


def _by_hour(level: Floats, part: Frame, inference: Mask) -> tuple[Floats, Floats]:
    """Return the lowest and the median daily level by kind of day and hour, each (2, 24, n).

    They are known only for inference, from two days on.
    """
    lowest = np.full((2, 24, len(level)), np.nan, dtype=np.float32)
    middle = lowest.copy()
    rows = np.flatnonzero(inference)
    if not len(rows) or not part.n_steps:
        return lowest, middle
    daily, weekend = daily_levels(level[rows], part)
    for kind in (0, 1):
        of_kind = daily[:, weekend == bool(kind)]
        counts = (~np.isnan(of_kind)).sum(axis=1)
        flat = np.moveaxis(of_kind, 1, 2).reshape(24 * len(rows), -1)
        low, mid = (x.reshape(24, len(rows)) for x in percentiles(flat, (0.0, 0.5)))
        lowest[kind][:, rows] = np.where(counts >= 2, low, np.nan)
        middle[kind][:, rows] = np.where(counts >= 2, mid, np.nan)
    return lowest, middle


def daily_levels(level: Floats, part: Frame) -> tuple[Floats, Mask]:
    """Return the mean level by hour and day, (24, n_days, n), and which days are weekends."""
    seconds = part.start.timestamp() + (np.arange(part.n_steps) + 0.5) * part.step.total_seconds()
    hours = (seconds // 3600).astype(np.int64)
    first = int(hours[0] // 24)
    days = int(hours[-1] // 24) - first + 1
    cell = (hours % 24) * days + hours // 24 - first
    reported = ~np.isnan(level)
    total, count = (summed(x.T, cell, 24 * days) for x in (np.where(reported, level, 0), reported))
    mean = np.where(count > 0, total / np.maximum(count, 1), np.nan).astype(np.float32)
    weekend = (np.arange(first, first + days) + 3) % 7 >= 5
    return mean.reshape(24, days, -1), weekend
