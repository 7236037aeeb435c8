"""Hold the signals of one job's nodes, minute by minute: workloads make them, incidents bend them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from zlib import crc32

import numpy as np
import numpy.typing as npt

from adapters.simulator.fleet import SimulatedNode

Array = npt.NDArray[np.float64]


@dataclass
class Signals:
    """Hold arrays of shape (n_nodes, n_minutes); ratios are 0..1, rates are bytes a second.

    `progress` of shape (n_minutes,) is the pace of the training steps, 1.0 = usual; `saving` is 1
    where checkpoints work.
    """

    utilization: Array
    runtime: Array
    """1 while a Neuron runtime is loaded."""
    memory: Array
    """Share of the device memory in use."""
    pod: Array
    """1 while a pod holds the cores."""
    latency: Array
    """Seconds an execution takes; nan while nothing executes."""
    errors: Array
    hardware_errors: Array
    ecc: Array
    efa: Array
    """Share of the NIC's rate, each direction."""
    cpu: Array
    host_memory: Array
    read: Array
    """Bytes a second read from the file system over ENA."""
    write: Array
    eni: Array
    """Other ENA traffic, bytes a second each direction."""
    visible: Array
    """1 where the scrape arrived."""
    status_failed: Array
    compiling: Array
    """1 while neuronx-cc works, 2 where it will be cut off; no metric says it, a log does."""
    progress: Array
    saving: Array

    def part(self, rows: slice, minutes: slice) -> Signals:
        """Return views of some nodes over some minutes."""
        return Signals(
            **{
                f.name: (x[rows, minutes] if x.ndim == 2 else x[minutes])
                for f in fields(self)
                for x in (getattr(self, f.name),)
            }
        )


def quiet(nodes: int, minutes: int, rng: np.random.Generator) -> Signals:
    """Return nodes that run nothing: zeros without a runtime, a host that idles."""
    blank: dict[str, Array] = {f.name: np.zeros((nodes, minutes)) for f in fields(Signals)}
    blank["latency"] = np.full((nodes, minutes), np.nan)
    blank["visible"] = np.ones((nodes, minutes))
    blank["cpu"] = 0.015 + np.abs(rng.normal(0.004, 0.003, (nodes, minutes)))
    blank["host_memory"] = 0.035 + rng.normal(0, 0.0008, (nodes, minutes))
    blank["eni"] = np.abs(rng.normal(3e5, 6e4, (nodes, minutes)))
    blank["progress"] = np.zeros(minutes)
    blank["saving"] = np.ones(minutes)
    return Signals(**blank)


def generator(seed: int, *names: str) -> np.random.Generator:
    """Return the stream of random numbers that belongs to a thing, whatever else is simulated."""
    return np.random.default_rng([seed, crc32("/".join(names).encode())])


def alive(nodes: Sequence[SimulatedNode], minutes: int) -> Array:
    """Return 1 where a node exists and has booted, shape (n_nodes, n_minutes)."""
    at = np.arange(minutes)
    first = np.array([n.launched_minute + 3 for n in nodes])[:, None]
    last = np.array([minutes if n.ended_minute is None else n.ended_minute for n in nodes])[:, None]
    return ((at >= first) & (at < last)).astype(np.float64)


def wander(rng: np.random.Generator, minutes: int, size: float, memory_minutes: float) -> Array:
    """Return a slow random drift of about `size` that forgets within `memory_minutes`."""
    knots = max(3, int(minutes / memory_minutes) + 3)
    values = rng.normal(0, size, knots)
    return np.interp(np.arange(minutes), np.arange(knots) * memory_minutes, values)
