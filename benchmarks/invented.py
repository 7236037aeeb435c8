"""Invent labelled CloudWatch-like series from seeds, so that a detector can be judged on series that it was not tuned on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import numpy as np

from benchmarks.episodes import WARM_PART, WARM_ROWS, Labelled, Values
from benchmarks.invented_shapes import DAY, HOUR, SHAPES, Shape

ROWS = 14 * DAY
LABELLED_PART = 0.1
"""Of a series' rows, shared by its windows."""
TUNING, HELD_BACK = range(20), range(1000, 1020)
"""Seeds: one of each shape a seed. What was chosen, was chosen on the first."""

Befall = Callable[[np.random.Generator, Values, int], Values]


def invented(seeds: range) -> list[Labelled]:
    """Return one series of each shape a seed: two weeks at five minutes."""
    return [_series(shape, seed, n) for seed in seeds for n, shape in enumerate(SHAPES)]


def _series(shape: Shape, seed: int, number: int, rows: int = ROWS) -> Labelled:
    rng = np.random.default_rng([seed, number])
    values = shape.draw(rng, rows)
    start = min(int(WARM_PART * rows), WARM_ROWS)
    count = int(rng.choice(4, p=(0.1, 0.35, 0.35, 0.2)))
    half = int(LABELLED_PART * rows / max(1, count)) // 2
    starts = _apart(rng, count, start + half, rows - half, 3 * half)
    kinds = rng.choice(shape.kinds, count)
    for at, kind in zip(starts, kinds, strict=True):
        values = INCIDENTS[kind](rng, values, at)
    begin = datetime(2026, 3, 2, tzinfo=UTC)
    times = [begin + timedelta(minutes=5) * row for row in range(rows)]
    name = f"{shape.name}/{seed} {' '.join(kinds)}"
    return Labelled(name, times, values[:, None], [(at - half, at + half) for at in starts], start)


def _apart(rng: np.random.Generator, count: int, low: int, high: int, apart: int) -> list[int]:
    """Return so many rows in order, each at least `apart` from the next."""
    room = high - low - apart * max(0, count - 1)
    return [low + int(at) + apart * n for n, at in enumerate(np.sort(rng.uniform(0, room, count)))]


def _range(values: Values, at: int) -> tuple[float, float]:
    """Return lowest and highest before a row, the rarest readings apart."""
    low, high = np.quantile(values[:at], (0.002, 0.998))
    return float(low), max(float(high), float(low) + 1e-9)


def peak(rng: np.random.Generator, values: Values, at: int) -> Values:
    """Add a height never seen, for up to an hour."""
    top, reach = float(values[:at].max()), float(np.ptp(values[:at]))
    for row in range(at, at + int(rng.integers(1, HOUR))):
        values[row] = top + reach * rng.uniform(0.2, 1.0)
    return values


def plateau(rng: np.random.Generator, values: Values, at: int) -> Values:
    """Hold a height that was reached for moments only, for hours."""
    low, high = _range(values, at)
    rows = int(rng.integers(2 * HOUR, DAY))
    values[at : at + rows] = (
        (high - low) * rng.uniform(0.85, 1.2)
        + low
        + 0.3 * (values[at : at + rows] - np.median(values[:at]))
    )
    return values


def shift(rng: np.random.Generator, values: Values, at: int) -> Values:
    """Lift or lower everything from here on, as a deployment does."""
    low, high = _range(values, at)
    values[at:] += (
        (high - low)
        * rng.uniform(0.4, 1.2)
        * (1 if rng.random() < 0.8 or low < 0.3 * high else -0.5)
    )
    return values


def zero(rng: np.random.Generator, values: Values, at: int) -> Values:
    """Drop to nothing for a while."""
    values[at : at + int(rng.integers(3, 12 * HOUR))] = 0.0
    return values


def flat(rng: np.random.Generator, values: Values, at: int) -> Values:
    """Repeat one reading, as a stuck agent does."""
    values[at : at + int(rng.integers(6 * HOUR, DAY))] = values[at - 1]
    return values


def restless(rng: np.random.Generator, values: Values, at: int) -> Values:
    """Multiply the variation of a series."""
    rows = slice(at, at + int(rng.integers(4 * HOUR, DAY)))
    middle = float(np.median(values[at - DAY : at]))
    values[rows] = np.maximum(middle + rng.uniform(1.8, 3) * (values[rows] - middle), 0)
    return values


def calm(rng: np.random.Generator, values: Values, at: int) -> Values:
    """Nearly still the variation of a series."""
    rows = slice(at, at + int(rng.integers(8 * HOUR, 2 * DAY)))
    middle = float(np.median(values[at - DAY : at]))
    values[rows] = middle + 0.1 * (values[rows] - middle)
    return values


def busy(rng: np.random.Generator, values: Values, at: int) -> Values:
    """Let bursts come several times as often."""
    low, high = _range(values, at)
    rows = np.arange(at, min(len(values), at + int(rng.integers(8 * HOUR, 2 * DAY))))
    bursts = rows[rng.random(len(rows)) < 0.35]
    pool = values[:at][values[:at] > low + 0.2 * (high - low)]
    values[bursts] = rng.choice(pool, len(bursts))
    return values


def moved(rng: np.random.Generator, values: Values, at: int) -> Values:
    """Show half a day of another time of day: a job at the wrong hour, or not at all."""
    ago = DAY + int(rng.integers(4 * HOUR, 20 * HOUR))
    rows = np.arange(at, min(len(values), at + int(rng.integers(6 * HOUR, DAY))))
    values[rows] = values[rows - ago]
    return values


INCIDENTS: dict[str, Befall] = {
    befall.__name__: befall
    for befall in (peak, plateau, shift, zero, flat, restless, calm, busy, moved)
}
