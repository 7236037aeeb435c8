"""Keep the steps of one kind of thing over the last days: the newest are written anew each tick, older ones only filled."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from adapters.aws.sheet import Sheet
from bot.model.labels import Labels

_SPARE_BINS = 288
_SPARE_THINGS = 16
Cube = npt.NDArray[np.float32]


class Roll:
    """Hold values of shape (metrics, bins, things) with room to grow; readers keep views, so arrays are never moved in place."""

    def __init__(self, most: int, end: int) -> None:
        self._most = most
        self.base = end - most + 1
        self.things: tuple[Labels, ...] = ()
        self.metrics: tuple[str, ...] = ()
        self._values: Cube = np.full((0, most + _SPARE_BINS, 0), np.nan, dtype=np.float32)

    def renew(self, newest: Sheet, horizon: int, end: int) -> None:
        """Take the axes of a sheet, and its bins from `horizon` on in place of those here; earlier ones fill holes only."""
        self._fit(newest, end)
        self._values[:, max(0, horizon - self.base) :] = np.nan
        self._write(newest, horizon, fill=False)

    def fill(self, older: Sheet, before: int) -> None:
        """Write the sheet's bins before `before` where nothing is known yet."""
        self._write(older, before, fill=True)

    def sheet(self, axes: Sheet, since: int) -> Sheet:
        """Return the bins from `since` on as a sheet with the axes of the newest one."""
        base = max(self.base, since)
        return replace(axes, base=base, values=self._values[: len(self.metrics), base - self.base :, : len(self.things)])

    def _write(self, sheet: Sheet, edge: int, *, fill: bool) -> None:
        low, high = (sheet.base, edge) if fill else (edge, sheet.base + sheet.values.shape[1])
        low = max(low, sheet.base, self.base)
        high = min(high, sheet.base + sheet.values.shape[1], self.base + self._values.shape[1])
        if high <= low:
            return
        at = {thing: i for i, thing in enumerate(self.things)}
        columns = np.array([at[thing] for thing in sheet.things], dtype=np.intp)
        for i, metric in enumerate(sheet.metrics):
            rows = self._values[self.metrics.index(metric), low - self.base : high - self.base]
            said = sheet.values[i, low - sheet.base : high - sheet.base]
            rows[:, columns] = np.where(np.isnan(rows[:, columns]), said, rows[:, columns]) if fill else said

    def _fit(self, axes: Sheet, end: int) -> None:
        self._move(end)
        _, n_bins, room = self._values.shape
        grown = axes.things[: len(self.things)] == self.things and len(axes.things) <= room
        if not grown or axes.metrics != self.metrics:
            values = np.full((len(axes.metrics), n_bins, len(axes.things) + _SPARE_THINGS), np.nan, dtype=np.float32)
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
