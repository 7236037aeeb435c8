"""Follow training runs: the progress of each at a time, and how often it fell back to a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from adapters.aws.metrics.metric_grid import SeriesBatch
from adapters.aws.metrics.points import Ints
from adapters.aws.metrics.time_grid import TimeGrid
from bot.model.frame import Doubles
from bot.model.labels import Labels
from bot.model.run import Run

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

    The end of each value's period, in order, and which of the hihistory's clocks it goes by.
    """

    metric: str
    ended: Ints
    value: Doubles
    clock: int


@dataclass(frozen=True)
class _RunHistory:
    labels: Labels
    started: datetime
    tracks: tuple[_Track, ...]
    clocks: tuple[Ints, ...]
    """When values became visible.

    Metrics of one run are mostly reported together, and looked up once.
    """
    falls: Ints
    """Falls of the step counter up to and with each value of its track."""

    def at(self, now: int) -> Run | None:
        """Return the run as last reported, None before its first report."""
        visible = [int(clock.searchsorted(now, side="right")) for clock in self.clocks]
        reported = [(track, n) for track in self.tracks if (n := visible[track.clock])]
        if not reported:
            return None
        reached = {_FIELDS[track.metric]: float(track.value[n - 1]) for track, n in reported}
        seen = max(int(track.ended[n - 1]) for track, n in reported)
        steps = next((n for track, n in reported if track.metric == "run_step_count"), 0)
        attempts = 1 + (int(self.falls[steps - 1]) if steps else 0)
        seen_at = datetime.fromtimestamp(seen, UTC)
        return Run(
            labels=self.labels,
            started_at=self.started,
            seen_at=seen_at,
            attempts=attempts,
            **reached,
        )


class TrainingRuns:
    """Return the progress of every run at a time."""

    def __init__(self, feeding: Sequence[SeriesBatch], grid: TimeGrid) -> None:
        tracks: dict[Labels, list[_Track]] = {}
        clocks: dict[Labels, dict[bytes, Ints]] = {}
        started: dict[Labels, int] = {}
        details: dict[Labels, Labels] = {}
        for source in feeding:
            for i, thing in enumerate(source.things):
                points = source.batch.points.take(
                    slice(int(source.batch.starts[i]), int(source.batch.starts[i + 1]))
                )
                value = (
                    points.peak.copy()
                    if source.target.statistic == "last"
                    else points.total / np.maximum(points.count, 1)
                )
                ended = points.seconds + source.period[i]
                visible = ended + grid.lag
                mine = clocks.setdefault(thing, {})
                mine.setdefault(visible.tobytes(), visible)
                clock = list(mine).index(visible.tobytes())
                tracks.setdefault(thing, []).append(
                    _Track(source.target.metric, ended, value, clock)
                )
                started[thing] = min(
                    int(points.seconds[0]), started.get(thing, int(points.seconds[0]))
                )
                details[thing] = source.labels[i].only(("cluster", "job", "region", "account"))
        self._histories = [
            _RunHistory(
                details[thing],
                datetime.fromtimestamp(started[thing], UTC),
                tuple(of_run),
                tuple(clocks[thing].values()),
                _falls(of_run),
            )
            for thing, of_run in sorted(tracks.items())
        ]

    def at(self, now: int) -> tuple[Run, ...]:
        """Return the runs that had reported by `now`, seconds since the epoch."""
        return tuple(run for history in self._histories if (run := history.at(now)))


def _falls(tracks: Sequence[_Track]) -> Ints:
    steps = next((track.value for track in tracks if track.metric == "run_step_count"), None)
    if steps is None:
        return np.zeros(0, dtype=np.int64)
    return np.append(0, np.cumsum(np.diff(steps) < 0)).astype(np.int64)
