"""Draw calm CloudWatch metrics from a seed, as they look on a day when nothing is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

DAY, HOUR = 288, 12
"""Rows at five minutes."""


@dataclass(frozen=True)
class Shape:
    """Name a kind of metric; `draw` returns n readings.

    `kinds` are the incidents that can befall it.
    """

    name: str
    draw: Callable[[np.random.Generator, int], Values]
    kinds: tuple[str, ...]


def batch_cpu(rng: np.random.Generator, n: int) -> Values:
    """Return percent of CPU: a quiet floor, and jobs of some minutes to hours at any time."""
    floor = rng.uniform(1, 8)
    values = floor + rng.normal(0, 0.04 * floor, n)
    for at in np.flatnonzero(rng.random(n) < rng.uniform(2, 10) / DAY):
        values[at : at + int(rng.integers(2, 30))] += rng.uniform(10, 45)
    return np.clip(values, 0, 100)


def quiet_cpu(rng: np.random.Generator, n: int) -> Values:
    """Return percent of CPU of a machine that does nothing.

    Steps of a scale, and small spikes now and then.
    """
    step = rng.choice([0.066, 0.1, 0.2])
    values = rng.uniform(0.1, 2) + step * rng.poisson(rng.uniform(0.2, 1.5), n)
    return np.asarray(values + (rng.random(n) < 0.01) * rng.exponential(6 * step, n))


def busy_cpu(rng: np.random.Generator, n: int) -> Values:
    """Return percent of CPU that hangs together over hours, near the middle."""
    return np.clip(
        rng.uniform(30, 60)
        + _slow(rng, n, 6 * HOUR, rng.uniform(1, 5))
        + rng.normal(0, rng.uniform(1, 4), n),
        0,
        100,
    )


def database_cpu(rng: np.random.Generator, n: int) -> Values:
    """Return percent of CPU of a database: a level, noise, a nightly backup."""
    values = rng.uniform(5, 30) + rng.normal(0, rng.uniform(0.3, 1.5), n) + _slow(rng, n, DAY, 0.5)
    return values + _nightly(rng, n, rng.uniform(4, 15), 6)


def scaled_group(rng: np.random.Generator, n: int) -> Values:
    """Return a load that an auto scaling group saws off.

    It climbs until a machine is added, and falls when one goes.
    """
    wave = np.sin(2 * np.pi * np.arange(n) / (rng.uniform(2, 9) * HOUR))
    load: Values = (
        rng.uniform(30, 50)
        + rng.uniform(4, 10) * wave
        + rng.normal(0, 2, n)
        + 5 * _daily(rng, n, 2.0)
    )
    return load


def requests(rng: np.random.Generator, n: int) -> Values:
    """Return requests counted in five minutes: people by day, fewer at the weekend."""
    week = np.where((np.arange(n) // DAY + rng.integers(7)) % 7 >= 5, rng.uniform(0.5, 0.9), 1.0)
    rate = (
        rng.uniform(80, 900)
        * _daily(rng, n, rng.uniform(1.5, 5))
        * week
        * np.exp(_slow(rng, n, HOUR, 0.08))
    )
    return rng.poisson(rate).astype(np.float64)


def few_requests(rng: np.random.Generator, n: int) -> Values:
    """Return a count that is often zero, with bursts of any size."""
    burst = np.where(rng.random(n) < 0.02, rng.lognormal(2.5, 0.7, n), 0)
    return rng.poisson(rng.uniform(0.3, 4) * _daily(rng, n, 3) + burst).astype(np.float64)


def disk_bytes(rng: np.random.Generator, n: int) -> Values:
    """Return bytes written: nothing, or bursts over some powers of ten."""
    return np.where(
        rng.random(n) < rng.uniform(0.02, 0.3), rng.lognormal(13, rng.uniform(0.6, 1.2), n), 0.0
    )


def network_bytes(rng: np.random.Generator, n: int) -> Values:
    """Return bytes received: a base that wanders, and something every hour."""
    base = rng.uniform(5e4, 5e6)
    hourly = (
        (np.arange(n) % HOUR == rng.integers(HOUR))
        * base
        * rng.uniform(0, 3)
        * rng.lognormal(0, 0.2, n)
    )
    received: Values = (
        base * np.exp(_slow(rng, n, 3 * HOUR, 0.15) + rng.normal(0, rng.uniform(0.05, 0.3), n))
        + hourly
    )
    return received


def nightly_job(rng: np.random.Generator, n: int) -> Values:
    """Return a metric that lives once a day, at the same time."""
    return (
        rng.uniform(1, 5)
        + np.abs(rng.normal(0, 0.3, n))
        + _nightly(rng, n, rng.uniform(20, 60), int(rng.integers(3, 18)))
    )


def latency(rng: np.random.Generator, n: int) -> Values:
    """Return milliseconds: a tail upwards, more by day."""
    return rng.uniform(20, 200) * rng.gamma(12, 1 / 12, n) * _daily(rng, n, 1.5)


def leaking(rng: np.random.Generator, n: int) -> Values:
    """Return memory that grows until the process is started anew, every few days."""
    period = int(rng.uniform(0.8, 2.2) * DAY)
    return (
        20 + 40 * ((np.arange(n) + rng.integers(period)) % period) / period + rng.normal(0, 0.7, n)
    )


def growing(rng: np.random.Generator, n: int) -> Values:
    """Return a load with days, that grows as a young product does."""
    return (
        100
        * _daily(rng, n, 2.5)
        * np.linspace(1, rng.uniform(1.2, 1.8), n)
        * rng.lognormal(0, 0.06, n)
    )


LOW = ("peak", "plateau", "shift", "flat")
FULL = ("peak", "plateau", "shift", "zero", "flat", "restless", "calm")
SHAPES = (
    Shape("batch CPU", batch_cpu, ("peak", "plateau", "flat", "shift", "busy")),
    Shape("quiet CPU", quiet_cpu, LOW),
    Shape("busy CPU", busy_cpu, FULL),
    Shape("database CPU", database_cpu, FULL),
    Shape("scaled group", scaled_group, FULL),
    Shape("requests", requests, ("peak", "plateau", "zero", "shift", "moved")),
    Shape("few requests", few_requests, ("peak", "plateau", "busy")),
    Shape("disk bytes", disk_bytes, ("peak", "plateau", "busy")),
    Shape("network bytes", network_bytes, FULL),
    Shape("nightly job", nightly_job, ("peak", "plateau", "shift", "moved")),
    Shape("latency", latency, FULL),
    Shape("leaking", leaking, ("peak", "zero", "flat", "shift")),
    Shape("growing", growing, ("peak", "zero", "plateau", "moved")),
)


def _daily(rng: np.random.Generator, n: int, ratio: float) -> Values:
    """Return a day's curve around 1, `ratio` times higher at its top than at its bottom."""
    half = (ratio - 1) / (ratio + 1)
    return np.asarray(1 + half * np.sin(2 * np.pi * (np.arange(n) / DAY + rng.random())))


def _slow(rng: np.random.Generator, n: int, rows: float, deviation: float) -> Values:
    """Return a series that wanders about 0 and forgets itself within so many rows (an autoregressive process of order one)."""
    keep = 1 - 1 / rows
    steps = rng.normal(0, deviation * np.sqrt(1 - keep**2), n)
    values = np.empty(n)
    at = rng.normal(0, deviation)
    for row in range(n):
        at = keep * at + steps[row]
        values[row] = at
    return values


def _nightly(rng: np.random.Generator, n: int, height: float, rows: int) -> Values:
    """Return a job of the same height each night, a row or so early or late."""
    values = np.zeros(n)
    hour = int(rng.integers(DAY - rows))
    for midnight in range(0, n, DAY):
        at = midnight + hour + int(rng.integers(2))
        values[at : at + rows] += height * rng.uniform(0.9, 1.1)
    return values
