"""Build the frames of a kind, and follow training runs, from the points of its series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import NamedTuple

import numpy as np

from adapters.aws.metrics.batch import (
    PointBatch,
    TimeGrid,
    binned,
    evened,
    merged,
    parallel_map,
    periods,
    scrape_rates,
    things_a_scrape,
)
from adapters.aws.metrics.lines import NAMESPACE
from adapters.aws.metrics.points import (
    LAST_SECOND,
    Catalogue,
    Ints,
    MetricSeries,
    Target,
    identity,
    labels_of,
    whole_series,
)
from bot.model.frame import Doubles, Floats, Frame
from bot.model.labels import Labels
from bot.model.run import Run

UTILIZATION = "neuroncore_utilization_ratio"


@dataclass(frozen=True)
class SeriesBatch:
    """Hold one batch on its way to one target.

    With the period of each series and the thing each is about.
    """

    target: Target
    batch: PointBatch
    period: Ints
    things: tuple[Labels, ...]
    labels: tuple[Labels, ...]
    """All labels in the dimensions of each series."""


@dataclass(frozen=True)
class GridPart:
    """Hold `values` of shape (n_metrics, n_bins, n_things) from the bin `base` on."""

    base: int
    things: tuple[Labels, ...]
    metrics: tuple[str, ...]
    values: Floats


@dataclass(frozen=True)
class MetricGrid(GridPart):
    """Hold all bins of a kind, things and metrics in the order they first became visible.

    So what was visible at a time is a slice, and a recording cut short reads as the whole one did
    then. `details` are the labels in the dimensions of each thing; `seen` is when it first
    reported, seconds; `first` the bin where that showed.
    """

    kind: str
    step: int
    details: tuple[Labels, ...]
    seen: Ints
    first: Ints
    metric_first: Ints

    def visible(self, end: int) -> int:
        """Return how many things had shown themselves by bin `end`."""
        return int(self.first.searchsorted(end, side="right"))

    def frame(self, end: int, most: int, things: Sequence[Labels]) -> Frame:
        """Return the last `most` bins up to `end`, a view.

        `things` are all labels of this grid's things, in order.
        """
        n_things = self.visible(end)
        n_metrics = int(self.metric_first.searchsorted(end, side="right"))
        stop = end - self.base + 1
        n = max(0, min(most, stop))
        values = self.values
        missing = stop - values.shape[1]
        if missing > 0:
            # The recording ends before: empty bins follow.
            values = np.pad(values, ((0, 0), (0, missing), (0, 0)), constant_values=np.nan)
        values = values[:n_metrics, stop - n : stop, :n_things].transpose(2, 1, 0)
        start = datetime.fromtimestamp((end - n) * self.step, UTC)
        step, metrics = timedelta(seconds=self.step), self.metrics[:n_metrics]
        return Frame(self.kind, tuple(things[:n_things]), start, step, metrics, values)


def series_batches(
    all_batches: Sequence[PointBatch], kind: str, catalogue: Catalogue
) -> list[SeriesBatch]:
    """Return the batches that feed a kind.

    Parts are added up to wholes where the whole thing does not report itself.
    """
    feeding = [
        (target, batch)
        for batch in all_batches
        for target in catalogue.targets_of(batch.keys[0])
        if target.kind == kind
    ]
    whole = [_series_batch(target, batch) for target, batch in feeding if not target.part]
    parts = [(target, batch) for target, batch in feeding if target.part]
    divided = {(target.metric, target.rank) for target, _ in parts}
    reported = {
        (x.target.metric, x.target.rank, thing)
        for x in whole
        if (x.target.metric, x.target.rank) in divided
        for thing in x.things
    }
    for target, batch in parts:
        owners = [whole_series(key, target) for key in batch.keys]
        things = [identity(kind, labels_of(owner, target)) for owner in owners]
        # Wholes that report themselves are never counted twice.
        silent = [
            i
            for i, thing in enumerate(things)
            if (target.metric, target.rank, thing) not in reported
        ]
        if silent:
            whole.append(_series_batch(target, batch.pick(silent), [owners[i] for i in silent]))
    return whole


def build_grid(
    kind: str, feeding: Sequence[SeriesBatch], grid: TimeGrid, base: int, cores: Mapping[str, int]
) -> MetricGrid:
    """Build a kind's grid from bin `base` on.

    `cores` by instance id tell scrapes from the counts of per-core metrics.
    """
    spans = [grid.span(source.batch, source.period) for source in feeding]
    order, details, reported = _in_order(feeding, spans)
    first: dict[str, int] = {}
    for source, (starts, _) in zip(feeding, spans, strict=True):
        metric, start = source.target.metric, int(starts.min())
        first[metric] = min(start, first.get(metric, start))
    metrics = sorted(first, key=lambda metric: (first[metric], metric))

    # The grid ends where the last value of any series does.
    n_bins = max(0, max(int(last.max()) for _, last in spans) - base + 1)
    values = np.full((len(metrics), n_bins, len(order)), np.nan, dtype=np.float32)

    # Scrapes a minute by instance id, from the sample counts of the utilization of its cores.
    rates: dict[str, float] = {}
    for source in feeding:
        if source.target.metric == UTILIZATION and source.target.rank == 0:
            instances = [thing.instance for thing in source.things]
            counts = np.array([cores.get(x, 0) for x in instances], dtype=np.float64)
            by_series = scrape_rates(source.batch, source.period, counts)
            rates.update(zip(instances, by_series.tolist(), strict=True))
    writer = _Writer(grid, base, {thing: i for i, thing in enumerate(order)}, rates)

    def fill(row: int) -> None:
        for source in sorted(feeding, key=lambda source: -source.target.rank):
            if source.target.metric == metrics[row]:
                writer.write(values[row], source, _scales(source, feeding))

    parallel_map(fill, range(len(metrics)))
    return MetricGrid(
        kind=kind,
        step=grid.step,
        base=base,
        things=tuple(order),
        details=details,
        seen=reported,
        first=np.array(list(order.values()), dtype=np.int64),
        metrics=tuple(metrics),
        metric_first=np.array([first[metric] for metric in metrics]),
        values=values,
    )


def _series_batch(
    target: Target, reported: PointBatch, owners: Sequence[MetricSeries] = ()
) -> SeriesBatch:
    """Return a batch on its way to a target, its parts added up to their `owners` if any."""
    batch = evened(reported) if target.even else reported
    batch = merged(batch, owners) if owners else batch
    labels = tuple(labels_of(key, target) for key in batch.keys)
    period = periods(batch)
    timed = batch.earlier(period) if batch.keys[0].namespace == NAMESPACE else batch
    return SeriesBatch(
        target, timed, period, tuple(identity(target.kind, x) for x in labels), labels
    )


def _in_order(
    feeding: Sequence[SeriesBatch], spans: Sequence[tuple[Ints, Ints]]
) -> tuple[dict[Labels, int], tuple[Labels, ...], Ints]:
    """Return each thing's first bin in the order of showing, the labels of each.

    When each first reported.
    """
    place: dict[Labels, int] = {}
    rows_of = [[place.setdefault(x, len(place)) for x in source.things] for source in feeding]
    things, details = list(place), dict[int, Labels]()
    first, reported_at = (np.full(len(place), LAST_SECOND, dtype=np.int64) for _ in range(2))
    for source, (starts, _), rows in zip(feeding, spans, rows_of, strict=True):
        np.minimum.at(first, rows, starts)
        np.minimum.at(reported_at, rows, source.batch.points.seconds[source.batch.starts[:-1]])

        # The metrics of a node mostly repeat its labels.
        for row, labels in zip(rows, source.labels, strict=True):
            if details.setdefault(row, labels) != labels:
                details[row] = labels.merge(details[row])

    firsts = first.tolist()
    order = sorted(range(len(things)), key=lambda row: (firsts[row], things[row]))
    return (
        {things[row]: firsts[row] for row in order},
        tuple(details[row] for row in order),
        reported_at[order],
    )


def _scales(source: SeriesBatch, feeding: Sequence[SeriesBatch]) -> Doubles:
    """Return the factor of each series' values.

    nan where the metric it is a share of is not known.
    """
    if not source.target.times:
        return np.full(len(source.things), source.target.scale)
    usual = {
        thing: level
        for x in feeding
        if x.target.metric == source.target.times
        for levels in [x.batch.points.take(x.batch.starts[:-1]).mean()]
        for thing, level in zip(x.things, levels.tolist(), strict=True)
    }
    return np.array([source.target.scale * usual.get(thing, np.nan) for thing in source.things])


@dataclass(frozen=True)
class _Writer:
    """Write batches into planes of shape (bins, things)."""

    grid: TimeGrid
    base: int
    """The first bin of a plane."""
    place: Mapping[Labels, int]
    """The column of each thing."""
    rates: Mapping[str, float]
    """Scrapes a minute by instance id."""

    def write(self, plane: Floats, source: SeriesBatch, scales: Doubles) -> None:
        """Write a batch's readings, and hold each until the next is due.

        Over those that rank lower.
        """
        rates = np.array([self.rates.get(thing.instance, 1.0) for thing in source.things])
        a_scrape = things_a_scrape(source.batch, source.period, rates)
        readings = binned(source.batch, source.target.statistic, source.period, a_scrape, self.grid)
        column = np.array([self.place[thing] for thing in source.things], dtype=np.int64)[
            readings.series
        ]
        value = (readings.value * scales[readings.series]).astype(np.float32)
        finite = np.isfinite(value)
        for later in range(int(readings.stands.max(initial=0)) + 1):
            standing = finite & (readings.stands >= later) & (readings.bin + later >= self.base)
            if standing.all():
                plane[readings.bin - self.base + later, column] = value
            else:
                plane[readings.bin[standing] - self.base + later, column[standing]] = value[
                    standing
                ]


_FIELDS = {
    "run_epoch_count": "epochs",
    "run_step_count": "steps",
    "run_tokens_count": "tokens",
    "run_parameters_count": "parameters",
    "run_loss": "loss",
    "run_checkpoint_age_seconds": "checkpoint_age_seconds",
}


@dataclass(frozen=True)
class _Track:
    """Hold one metric of one run.

    The end of each value's period, in order, and which of the history's clocks it goes by.
    """

    metric: str
    ended: Ints
    value: Doubles
    clock: int


class _Reported(NamedTuple):
    """Hold what a run says from one second until another, at which it says something new."""

    since: int
    until: int
    run: Run | None
    """None before its first report."""


@dataclass(frozen=True)
class _RunHistory:
    labels: Labels
    started: datetime
    tracks: tuple[_Track, ...]
    clocks: tuple[Ints, ...]
    """When values became visible.

    Metrics of one run are mostly reported together, and looked up once.
    """

    @cached_property
    def falls(self) -> Ints:
        """Return the falls of the step counter up to and with each value of its track."""
        steps = (track.value for track in self.tracks if track.metric == "run_step_count")
        return np.cumsum(np.diff(next(steps, np.zeros(1)), prepend=np.nan) < 0, dtype=np.int64)

    def at(self, now: int) -> _Reported:
        """Return the run as last reported by `now`, seconds since the epoch."""
        visible = [int(clock.searchsorted(now, side="right")) for clock in self.clocks]
        newer = [int(x[n]) for x, n in zip(self.clocks, visible, strict=True) if n < len(x)]
        until = min(newer, default=LAST_SECOND)
        reported = [(track, n) for track in self.tracks if (n := visible[track.clock])]
        if not reported:
            return _Reported(now, until, None)
        steps = next((n for track, n in reported if track.metric == "run_step_count"), 0)
        seen_at = max(int(track.ended[n - 1]) for track, n in reported)
        run = Run(
            labels=self.labels,
            started_at=self.started,
            seen_at=datetime.fromtimestamp(seen_at, UTC),
            attempts=1 + (int(self.falls[steps - 1]) if steps else 0),
            **{_FIELDS[track.metric]: float(track.value[n - 1]) for track, n in reported},
        )
        return _Reported(now, until, run)


class TrainingRuns:
    """Return the progress of every run at a time."""

    def __init__(self, feeding: Sequence[SeriesBatch], grid: TimeGrid) -> None:
        tracks: dict[Labels, list[_Track]] = {}
        clocks: dict[Labels, dict[bytes, Ints]] = {}
        started: dict[Labels, int] = {}
        details: dict[Labels, Labels] = {}
        for source in feeding:
            for i, thing in enumerate(source.things):
                points = source.batch.points.take(slice(*source.batch.starts[i : i + 2].tolist()))
                is_last = source.target.statistic == "last"
                value = points.peak.copy() if is_last else points.mean()
                ended = points.seconds + source.period[i]
                visible = ended + grid.lag
                clock_of = clocks.setdefault(thing, {})
                clock_of.setdefault(visible.tobytes(), visible)
                clock = list(clock_of).index(visible.tobytes())
                tracks.setdefault(thing, []).append(
                    _Track(source.target.metric, ended, value, clock)
                )
                begin = int(points.seconds[0])
                started[thing] = min(begin, started.get(thing, begin))
                details[thing] = source.labels[i].only(("cluster", "job", "region", "account"))
        self._histories = [
            _RunHistory(
                details[thing],
                datetime.fromtimestamp(started[thing], UTC),
                tuple(of_run),
                tuple(clocks[thing].values()),
            )
            for thing, of_run in sorted(tracks.items())
        ]
        self._newest = [_Reported(0, 0, None)] * len(self._histories)

    def at(self, now: int) -> tuple[Run, ...]:
        """Return the runs that had reported by `now`, seconds since the epoch.

        Most of a long history ended long ago: one is asked again where it may say something new.
        """
        runs = []
        for place, history in enumerate(self._histories):
            newest = self._newest[place]
            if not newest.since <= now < newest.until:
                newest = self._newest[place] = history.at(now)
            runs.append(newest.run)
        return tuple(run for run in runs if run)
