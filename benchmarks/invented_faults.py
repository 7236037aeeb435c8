"""Spoil a labelled series as recordings are spoiled, or record it differently.

The truth stays where it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import numpy as np

from benchmarks.episodes import Labelled

Spoil = Callable[[Labelled], Labelled]


def _rows(series: Labelled, rows: np.ndarray) -> Labelled:
    """Return the series of these rows, which rise; windows and start go along."""
    places = np.searchsorted(
        rows, [series.start, *(row for window in series.windows for row in window)]
    ).tolist()
    windows = list(zip(places[1::2], places[2::2], strict=True))
    return replace(
        series,
        times=[series.times[row] for row in rows],
        values=series.values[rows],
        windows=windows,
        start=places[0],
    )


def rows_missing(series: Labelled) -> Labelled:
    """Lose one row in twenty, and half a day."""
    rows = np.flatnonzero(np.random.default_rng(0).random(len(series.times)) > 0.05)
    return _rows(series, rows[(rows < 900) | (rows >= 1044)])


def rows_twice(series: Labelled) -> Labelled:
    """Write one row in twenty twice."""
    count = 1 + (np.random.default_rng(0).random(len(series.times)) < 0.05)
    return _rows(series, np.repeat(np.arange(len(count)), count))


def cells_empty(series: Labelled) -> Labelled:
    """Leave one value in ten without a number."""
    gone = np.random.default_rng(0).random(series.values.shape) < 0.1
    return replace(series, values=np.where(gone, np.nan, series.values))


def hour_twice(series: Labelled) -> Labelled:
    """Set the clock back an hour after a week, as local time does in autumn."""
    return replace(
        series,
        times=[
            at - timedelta(hours=1) if row > 2016 else at for row, at in enumerate(series.times)
        ],
    )


def quarter_hours(series: Labelled) -> Labelled:
    """Record the mean of three readings."""
    rows = np.arange(0, len(series.times) - 2, 3)
    means = np.stack([series.values[rows + n] for n in range(3)]).mean(axis=0)
    return replace(_rows(series, rows), values=means)


def first_five_days(series: Labelled) -> Labelled:
    """Stop after 1,500 rows, with the windows that ended by then."""
    windows = [window for window in series.windows if window[1] <= 1500]
    return replace(
        series, times=series.times[:1500], values=series.values[:1500], windows=windows, start=225
    )


def upside_down(series: Labelled) -> Labelled:
    """Count downwards from zero, so that all is negative."""
    return replace(series, values=-series.values)


def other_unit(series: Labelled) -> Labelled:
    """Count in a unit a million times as large, from another zero."""
    return replace(series, values=1e-6 * series.values + 0.01)


FAULTS: dict[str, Spoil] = {
    spoil.__name__.replace("_", " "): spoil
    for spoil in (
        rows_missing,
        rows_twice,
        cells_empty,
        hour_twice,
        quarter_hours,
        first_five_days,
        upside_down,
        other_unit,
    )
}
