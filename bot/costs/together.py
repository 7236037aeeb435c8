"""Tell the nodes of a run by how they worked: with a runtime, and up and down together."""

from __future__ import annotations

import numpy as np

from bot.model.frame import Doubles, Frame, Mask

_RUNTIME = (
    "neuroncore_utilization_ratio",
    "gpu_utilization_ratio",
    "neuron_runtime_memory_used_bytes",
)
_FEWEST = 24
"""Steps that both must have been read for, before anything is said of two nodes."""
_ALIKE, _APART = 0.7, 0.3
"""Correlations from which two nodes move together, and under which they do not."""


def used(nodes: Frame) -> Doubles:
    """Return the utilization of each node, of cores or of GPUs, (n_nodes, n_steps)."""
    cores = nodes.of("neuroncore_utilization_ratio").astype(np.float64)
    return np.where(np.isnan(cores), nodes.of("gpu_utilization_ratio"), cores)


def without_runtime(nodes: Frame) -> Mask:
    """Return which nodes were read and never had a runtime, (n_nodes,)."""
    signs = np.stack([nodes.of(name) for name in _RUNTIME])
    # Of nan no comparison holds: what was not read is no sign, and no absence of one.
    return np.asarray(~(signs > 0).any(axis=(0, 2)) & ~np.isnan(signs).all(axis=(0, 2)))


def strangers(levels: Doubles) -> Mask:
    """Return which nodes do not move with the largest group that moves together, (n_nodes,).

    Nobody where no two nodes move together: of steady work nothing can be told. A node that was
    hardly read, or moves a little with the group, as one that failed for a while, is no stranger.
    """
    n = len(levels)
    readings = ~np.isnan(levels)
    group = np.zeros(n, dtype=bool)
    alike = _correlations(levels, readings)
    left = np.arange(n)
    while left.size:
        # From the node with most others that move like it: they are a group.
        likes = alike[np.ix_(left, left)] >= _ALIKE
        found = left[likes[int(likes.sum(axis=1).argmax())]]
        if found.size < 2 or found.size <= group.sum():
            break
        group = np.isin(np.arange(n), found)
        left = np.setdiff1d(left, found)

    if not group.any():
        return group
    enough = (readings.astype(int) @ readings[group].T.astype(int)).max(axis=1) >= _FEWEST
    return np.asarray(~group & enough & (alike[:, group].max(axis=1) < _APART))


def _correlations(levels: Doubles, readings: Mask) -> Doubles:
    """Return the correlation of each pair over the steps that both were read, 0 of too few."""
    known, filled = readings.astype(np.float64), np.where(readings, levels, 0.0)
    count = known @ known.T
    with np.errstate(divide="ignore", invalid="ignore"):
        sums, squares = filled @ known.T, (filled**2) @ known.T
        covariance = filled @ filled.T - sums * sums.T / count
        spread = (squares - sums**2 / count) * (squares - sums**2 / count).T
        found: Doubles = covariance / np.sqrt(spread)

    # A node that stands still moves with nobody.
    sure = (count >= _FEWEST) & (spread > (1e-6 * count) ** 2) & np.isfinite(found)
    return np.where(sure, found, 0.0)
