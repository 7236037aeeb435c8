"""Hold the values of one kind of thing over the bins of a history, in arrays that grow without moving under a reader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from adapters.aws.metrics.metric_grid import MetricGrid
from adapters.aws.metrics.points import Points
from bot.model.labels import Labels

_SPARE_BINS = 288
_SPARE_THINGS = 16
Cube = npt.NDArray[np.float32]


class GridPart(Protocol):
    """Describe some bins of a grid."""

    @property
    def base(self) -> int:
        """Return the first bin."""
        ...

    @property
    def things(self) -> tuple[Labels, ...]:
        """Return the columns."""
        ...

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return the planes."""
        ...

    @property
    def values(self) -> Cube:
        """Return the values, shape (metrics, bins, things)."""
        ...


@dataclass(frozen=True)
class StoredPart:
    """Hold some bins of a grid apart from it."""

    base: int
    things: tuple[Labels, ...]
    metrics: tuple[str, ...]
    values: Cube


@dataclass(frozen=True)
class PastGrids:
    """Hold some series' history as grids by kind, and the points of it that the buffer remembers."""

    grids: Mapping[str, GridPart]
    kept: Points


class GridRing:
    """Hold values of shape (metrics, bins, things) with room to grow.

    Readers keep views, so arrays are never moved in place.
    """

    def __init__(self, most: int, end: int) -> None:
        self._most = most
        self.base = end - most + 1
        self.things: tuple[Labels, ...] = ()
        self.metrics: tuple[str, ...] = ()
        self._values: Cube = np.full((0, most + _SPARE_BINS, 0), np.nan, dtype=np.float32)

    def renew(self, newest: MetricGrid, horizon: int, end: int) -> None:
        """Take the axes of a grid, and its bins from `horizon` on in place of those here.

        Earlier ones fill holes only.
        """
        self._fit(newest, end)
        self._values[:, max(0, horizon - self.base) :] = np.nan
        self._write(newest, horizon, fill=False)

    def fill(self, older: GridPart, before: int) -> None:
        """Write the grid's bins before `before` where nothing is known yet."""
        self._write(older, before, fill=True)

    def cut(self, axes: MetricGrid, since: int) -> MetricGrid:
        """Return the bins from `since` on as a grid with the axes of the newest one."""
        base = max(self.base, since)
        return replace(
            axes,
            base=base,
            values=self._values[: len(self.metrics), base - self.base :, : len(self.things)],
        )

    def part(self, start: int, end: int) -> StoredPart:
        """Return a copy of the bins from `start` until before `end`, of the things that report within."""
        start = max(start, self.base)
        rows = self._values[
            : len(self.metrics), start - self.base : max(start, end) - self.base, : len(self.things)
        ]
        told = np.flatnonzero(np.isfinite(rows).any(axis=(0, 1)))
        return StoredPart(
            start, tuple(self.things[i] for i in told), self.metrics, rows[:, :, told]
        )

    def _write(self, grid: GridPart, edge: int, *, fill: bool) -> None:
        low, high = (grid.base, edge) if fill else (edge, grid.base + grid.values.shape[1])
        low = max(low, grid.base, self.base)
        high = min(high, grid.base + grid.values.shape[1], self.base + self._values.shape[1])
        if high <= low:
            return
        at = {thing: i for i, thing in enumerate(self.things)}
        known = [
            i for i, thing in enumerate(grid.things) if thing in at
        ]  # what was silent for all of history has left
        columns = np.array([at[grid.things[i]] for i in known], dtype=np.intp)
        for i, metric in enumerate(grid.metrics):
            if metric not in self.metrics:
                continue
            rows = self._values[self.metrics.index(metric), low - self.base : high - self.base]
            new = grid.values[i, low - grid.base : high - grid.base][:, known]
            rows[:, columns] = (
                np.where(np.isnan(rows[:, columns]), new, rows[:, columns]) if fill else new
            )

    def _fit(self, axes: MetricGrid, end: int) -> None:
        self._move(end)
        _, n_bins, room = self._values.shape
        grown = axes.things[: len(self.things)] == self.things and len(axes.things) <= room
        if not grown or axes.metrics != self.metrics:
            values = np.full(
                (len(axes.metrics), n_bins, len(axes.things) + _SPARE_THINGS),
                np.nan,
                dtype=np.float32,
            )
            here = {thing: i for i, thing in enumerate(axes.things)}
            old = [i for i, thing in enumerate(self.things) if thing in here]
            new = [here[self.things[i]] for i in old]
            for i, metric in enumerate(self.metrics):
                if metric in axes.metrics:
                    values[axes.metrics.index(metric)][:, new] = self._values[i][:, old]
            self._values = values
        self.things, self.metrics = axes.things, axes.metrics

    def _move(self, end: int) -> None:
        """Drop the oldest bins where there is no room for those up to `end` and some more."""
        n_bins = self._values.shape[1]
        if end + _SPARE_BINS // 8 < self.base + n_bins:
            return
        base = end - self._most + 1
        moved = np.full_like(self._values, np.nan)
        kept = self._values[:, base - self.base :]
        moved[:, : kept.shape[1]] = kept
        self._values, self.base = moved, base
