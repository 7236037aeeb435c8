"""Infer each series' period and how many things report in one scrape, from its first points only.

Only the first points, so that a recording cut short reads as the whole one does.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from adapters.aws.batch import Batch
from adapters.aws.points import Doubles, Ints

_FIRST = 12
_ENOUGH = 3
"""Spacings from which a series speaks for itself."""
_PERIODS = np.array([1, 5, 10, 20, 30, 60, 300, 900, 3600, 21_600, 86_400])
"""Periods that CloudWatch metrics come in, seconds."""
_USUAL_PERIOD = 60
_SCRAPE_SECONDS = 60
"""The CloudWatch agent scrapes once a minute."""


def periods(batch: Batch) -> Ints:
    """Return the period of each series, seconds: its spacing, else that of its like, else one minute."""
    spacings = _snapped(np.diff(_first(batch, batch.points.seconds.astype(np.float64), _FIRST + 1), axis=1))
    known = np.isfinite(spacings).sum(axis=1)
    own, share = _most_common(spacings, ties=np.fmin)
    steady = share * 2 >= known
    own = np.where(steady, own, _divisor(spacings))
    spoken = known >= _ENOUGH
    alike = _most_common(own[spoken][None, :], ties=np.fmin)[0][0] if spoken.any() else np.nan
    found = np.where(spoken, own, alike if np.isfinite(alike) else _divisor(spacings))
    return np.where(np.isfinite(found), np.clip(found, 1, _PERIODS[-1]), _USUAL_PERIOD).astype(np.int64)


def evened(batch: Batch) -> Batch:
    """Return the same levels with a sample a minute, whatever the samples were: then counts tell the number of parts."""
    points = batch.points
    count = (periods(batch) / _SCRAPE_SECONDS)[points.series]
    level = np.divide(points.total, points.count, out=np.zeros_like(points.total), where=points.count > 0)
    return replace(batch, points=replace(points, count=np.where(points.count > 0, count, 0), total=level * count))


def usual_counts(batch: Batch) -> Doubles:
    """Return the sample count that each series shows most often at first, the larger of two as frequent."""
    return _most_common(_first(batch, batch.points.count, _FIRST), ties=np.fmax)[0]


def scrape_rates(batch: Batch, period: Ints, cores: Doubles) -> Doubles:
    """Return scrapes a minute of each series of a per-core metric; one where `cores` is unknown (0) or does not fit.

    A node may show twice the cores that are known (logical cores can be split), never more than one scrape a minute.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        rates = usual_counts(batch) / cores / (period / _SCRAPE_SECONDS)
        fits = (cores > 0) & (usual_counts(batch) % np.maximum(cores, 1) == 0) & (rates > 0) & (rates <= 1)
    return np.where(fits, rates, 1.0)


def things_a_scrape(batch: Batch, period: Ints, rates: Doubles) -> Doubles:
    """Return how many things (cores, interfaces, disks) report in one scrape of each series, at least one."""
    scrapes = np.maximum(1.0, rates * period / _SCRAPE_SECONDS)
    return np.fmax(1.0, usual_counts(batch) / scrapes)


def _first(batch: Batch, values: Doubles, n: int) -> Doubles:
    """Return the first `n` values of each series, shape (n_series, n), nan where it has fewer."""
    at = batch.starts[:-1, None] + np.arange(n)
    inside = at < batch.starts[1:, None]
    return np.where(inside, values[np.where(inside, at, 0)], np.nan)


def _snapped(spacings: Doubles) -> Doubles:
    """Take a spacing within a tenth of a usual period for that period."""
    nearest = _PERIODS[np.abs(np.nan_to_num(spacings)[..., None] - _PERIODS).argmin(axis=-1)]
    return np.where(np.abs(spacings - nearest) <= nearest / 10, nearest, spacings)


def _most_common(rows: Doubles, ties: np.ufunc) -> tuple[Doubles, npt.NDArray[np.intp]]:
    """Return each row's most frequent value and how often it stands there; nan does not count."""
    often = (rows[:, :, None] == rows[:, None, :]).sum(axis=2)
    most = often.max(axis=1, initial=0)
    leading = np.where((often == most[:, None]) & (often > 0), rows, np.nan)
    return ties.reduce(leading, axis=1), most


def _divisor(spacings: Doubles) -> Doubles:
    """Return the largest usual period that divides all of a row's spacings, nan for an empty row."""
    common = np.gcd.reduce(np.nan_to_num(spacings).astype(np.int64), axis=1)
    fits = (common[:, None] % _PERIODS == 0) & (common[:, None] > 0)
    return np.where(fits.any(axis=1), _PERIODS[fits.shape[1] - 1 - fits[:, ::-1].argmax(axis=1)], np.nan)
