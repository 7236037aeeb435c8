"""Name the kinds of arrays that detectors pass to each other; sum them, and measure how long something lasted."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bot.model.frame import Floats, Mask

__all__ = ["Counts", "Floats", "Mask", "Numbers", "Rows", "mean_of", "middle_of", "summed"]

Numbers = npt.NDArray[np.float64]
"""Thresholds, sums, scores: what is computed rather than read."""
Counts = npt.NDArray[np.intp]
"""Numbers of steps or of things."""
Rows = npt.NDArray[np.intp]
"""Positions along an axis: rows of nodes, or steps."""


def mean_of(values: Floats) -> float:
    """Return the mean of what was read, 0 where nothing was."""
    return float(np.nanmean(values)) if np.isfinite(values).any() else 0.0


def middle_of(values: npt.NDArray[np.floating]) -> float:
    """Return the median of the finite values, nan where there are none."""
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if len(finite) else float("nan")


def summed(values: npt.NDArray[np.generic], at: Rows, n: int) -> Numbers:
    """Return the rows of `values`, (k, m), added up where `at`, (k,), puts each of them, (n, m).

    Ten times `np.add.at`.
    """
    total = np.zeros((n, values.shape[1]))
    if len(at):
        order = at.argsort(kind="stable")
        placed = at[order]
        first = np.flatnonzero(np.append(True, placed[1:] != placed[:-1]))
        total[placed[first]] = np.add.reduceat(values[order], first, axis=0, dtype=np.float64)
    return total


def trailing(holds: Mask, unknown: Mask | None = None) -> Counts:
    """Return how many steps, up to and with the last, `holds` has lasted.

    Shape (n, n_steps) -> (n,).

    Steps that are `unknown` neither end a streak nor begin one: a streak starts at the first step
    that surely holds.
    """
    n, n_steps = holds.shape
    lasted: Counts = np.zeros(n, dtype=np.intp)
    if not n_steps:
        return lasted
    may = holds[:, -1] if unknown is None else holds[:, -1] | unknown[:, -1]
    rows = may.nonzero()[0]
    if len(rows) == n:
        return _lasted(holds, unknown)
    if len(rows):
        lasted[rows] = _lasted(holds[rows], None if unknown is None else unknown[rows])
    return lasted


def _lasted(holds: Mask, unknown: Mask | None) -> Counts:
    n_steps = holds.shape[1]
    breaks = ~holds if unknown is None else ~(holds | unknown)
    clean: Counts = np.where(breaks.any(axis=1), breaks[:, ::-1].argmax(axis=1), n_steps)
    if unknown is None:
        return clean
    inside = holds & (np.arange(n_steps) >= (n_steps - clean)[:, None])
    sure: Counts = np.where(inside.any(axis=1), n_steps - inside.argmax(axis=1), 0)
    return sure


def seen_within(holds: Mask, steps: Counts) -> Counts:
    """Return in how many of its last `steps` each thing was seen to hold.

    Steps without a reading count for nothing, (n,).
    """
    n_steps = holds.shape[1]
    return np.asarray(
        (holds & (np.arange(n_steps) >= (n_steps - steps)[:, None])).sum(axis=1), dtype=np.intp
    )


def gaps_up_to(unknown: Mask, steps: int) -> Mask:
    """Keep the gaps of up to `steps`, and the one that still goes on.

    Longer ones part what was before from what came after.
    """
    if not unknown.any():
        return unknown
    now = unknown & (
        np.arange(unknown.shape[1]) >= (unknown.shape[1] - since_last(~unknown))[:, None]
    )
    return np.asarray((unknown & ~sustained(unknown, steps + 1)) | now)


def lately(holds: Mask, steps: int) -> Mask:
    """Tell where `holds` was true in the step or in one of the `steps` before it."""
    kept = holds.copy()
    for ago in range(1, min(steps, holds.shape[1] - 1) + 1):
        kept[:, ago:] |= holds[:, :-ago]
    return kept


def since_last(holds: Mask) -> Counts:
    """Return how many steps ago `holds` was last true, 0 = in the last step, n_steps = never.

    (n, n_steps) -> (n,).
    """
    n_steps = holds.shape[1]
    if not n_steps:
        return np.zeros(holds.shape[0], dtype=np.intp)
    ago: Counts = np.where(holds.any(axis=1), holds[:, ::-1].argmax(axis=1), n_steps)
    return ago


def close_gaps(holds: Mask) -> Mask:
    """Fill single steps between two that hold, so that one noisy reading ends no streak."""
    filled = holds.copy()
    filled[:, 1:-1] |= holds[:, :-2] & holds[:, 2:]
    return filled


def drop_singles(holds: Mask) -> Mask:
    """Clear steps that hold alone, so that one noisy reading begins nothing."""
    kept = np.zeros_like(holds)
    kept[:, 1:] |= holds[:, 1:] & holds[:, :-1]
    kept[:, :-1] |= holds[:, 1:] & holds[:, :-1]
    return kept


def sustained(holds: Mask, steps: int) -> Mask:
    """Keep only the streaks of `steps` or more in a row."""
    n_steps = holds.shape[1]
    if steps > n_steps:
        return np.zeros_like(holds)
    whole = np.logical_and.reduce([holds[:, i : n_steps - steps + 1 + i] for i in range(steps)])
    kept = np.zeros_like(holds)
    for i in range(steps):
        kept[:, i : n_steps - steps + 1 + i] |= whole
    return kept


def share_before(holds: Mask, known: Mask, steps: Counts, length: int) -> Numbers:
    """Return the share of known steps that hold in the `length` steps before a streak of `steps` (n,); nan = none known."""
    n_steps = holds.shape[1]
    at = np.arange(n_steps)
    start = (n_steps - steps)[:, None]
    before = (at < start) & (at >= start - length) & known
    count = before.sum(axis=1)
    share: Numbers = np.where(
        count > 0, (holds & before).sum(axis=1) / np.maximum(count, 1), np.nan
    )
    return share
