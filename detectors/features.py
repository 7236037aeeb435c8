"""Describe each node by how far its metrics lie from its own usual, so that one forest serves every node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bot.model.frame import Frame
from detectors.arrays import Floats, Mask
from detectors.usual import THREE, in_order, percentiles, utilization_of

METRICS: tuple[str, ...] = (
    "neuroncore_utilization_ratio",
    "neuroncore_memory_used_bytes",
    "neuron_execution_latency_seconds",
    "efa_tx_bytes_per_second",
    "efa_rx_bytes_per_second",
    "host_cpu_utilization_ratio",
    "host_memory_utilization_ratio",
    "network_in_bytes_per_second",
    "network_out_bytes_per_second",
)
WORDS: tuple[str, ...] = (
    "NeuronCore utilization",
    "device memory",
    "execution latency",
    "EFA sent",
    "EFA received",
    "host CPU",
    "host memory",
    "network in",
    "network out",
)
FAR = 10.0
"""Distances are cut here: farther is not stranger."""
NOTABLE = 4.0
"""A row without any metric this far from its usual is not odd, by definition; it is not even scored."""
_LEAST_SPREAD = 0.02
"""No metric's spread is taken as smaller than this share of its median, so that a constant one does not shout."""


@dataclass(frozen=True)
class Scale:
    """Hold each node's median and spread of each metric while it works, shape (n, n_metrics); nan = unknown."""

    middle: Floats
    spread: Floats


def median_of(values: Floats) -> Floats:
    """Return the median along axis 1 without nan; nan where nothing was read. (n, k, m) -> (n, m)."""
    n, k, m = values.shape
    if k == THREE:
        return _middle([values[:, i].astype(np.float32) for i in range(k)])
    flat = np.moveaxis(values, 1, 2).reshape(n * m, k)
    return percentiles(np.ascontiguousarray(flat, dtype=np.float32), (0.5,))[0].reshape(n, m)


def past_levels(part: Frame, stride: int, smooth: int) -> Frame:
    """Return samples of the past: the metrics at every `stride`-th step, each the median of `smooth` steps."""
    ends = np.arange(smooth, part.n_steps + 1, stride)
    levels = np.full((len(METRICS), len(part.things), len(ends)), np.nan, dtype=np.float32)
    for into, name in zip(levels, METRICS, strict=True):
        by_time = _column(part, name).T  # a frame's readings of one time lie together
        into[:] = _middle([by_time[ends - 1 - i] for i in range(smooth)]).T
    start = part.start + (smooth - 1) * part.step
    return Frame("", part.things, start, part.step * stride, METRICS, levels.transpose(1, 2, 0))


def _middle(near: list[Floats]) -> Floats:
    """Return the median of arrays of one shape, by `percentiles`; of three without sorting any."""
    if len(near) == THREE:
        first, second, third = in_order(*near)
        return np.where(np.isnan(third), first, second)
    return percentiles(np.stack(near, axis=-1).reshape(-1, len(near)), (0.5,))[0].reshape(near[0].shape)


def learn_scale(values: Floats, active: Mask) -> Scale:
    """Learn medians and spreads from samples (n, n_samples, n_metrics) where a node works (n, n_samples)."""
    low: list[Floats] = []
    middle: list[Floats] = []
    high: list[Floats] = []
    for i in range(values.shape[2]):
        column = np.where(active, values[:, :, i], np.nan).astype(np.float32)
        for into, ranked in zip((low, middle, high), percentiles(column, (0.25, 0.5, 0.75)), strict=True):
            into.append(ranked)
    centre = np.stack(middle, axis=1)
    spread = (np.stack(high, axis=1) - np.stack(low, axis=1)) / 1.35
    return Scale(centre, np.maximum(spread, _LEAST_SPREAD * np.abs(centre) + 1e-9))


def distances(values: Floats, scale: Scale) -> Floats:
    """Return how many spreads each metric lies from its usual, cut at `FAR`; (..., n_metrics) along the node axis.

    What was not read, or has no usual, stands at 0 here: nothing strange is known of it. This is a distance, not a reading.
    """
    if values.ndim == 3:
        far = (values - scale.middle[:, None, :]) / scale.spread[:, None, :]
    else:
        far = (values - scale.middle) / scale.spread
    np.clip(far, -FAR, FAR, out=far)
    far[np.isnan(far)] = 0.0
    return np.asarray(far, dtype=np.float32)


def _column(part: Frame, name: str) -> Floats:
    return utilization_of(part) if name == "neuroncore_utilization_ratio" else part.of(name)
