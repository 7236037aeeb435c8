"""Score strangeness by one isolation forest over all nodes: in [0, 1], higher is stranger (scikit-learn's sign flips here)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from detectors.features import FAR

if TYPE_CHECKING:
    from sklearn.ensemble import IsolationForest

Floats = npt.NDArray[np.float32]
Scores = npt.NDArray[np.float64]
Leaves = Callable[[Floats], npt.NDArray[np.intp]]

TREES = 100
SAMPLE = 256
BACKGROUND = 0.02
"""Share of uniform rows in the training set: without them a tree cuts nothing beyond what was seen, and ranks nothing there."""
MANY = 8_192
"""More rows than so are put in order and shared by threads; for fewer neither pays."""
THREADS = 2
PART = 32_768
"""Rows that one thread puts in order and walks at a time."""


@dataclass(frozen=True)
class Forest:
    """Hold what tells a row's leaf in each tree, and the path length to every leaf.

    scikit-learn's `score_samples` walks the same trees, but pays some 4 ms a call for scheduling and one thread does it all.
    """

    leaves: tuple[Leaves, ...]
    lengths: tuple[Scores, ...]
    """By tree and node: the steps down to it, and the mean path length that its rows would still need."""
    usual: float
    """Sum over the trees of the mean path length of a sample of this size, c(n) of Liu, Ting and Zhou (2008)."""

    def score(self, rows: Floats) -> Scores:
        """Return the strangeness of each row (n, n_features), 2^(-path length / usual), shape (n,); scikit-learn's to the bit."""
        rows = np.ascontiguousarray(rows, dtype=np.float32)
        if len(rows) <= MANY:
            return self._score(rows)
        with ThreadPoolExecutor(THREADS) as pool:  # scikit-learn walks a tree without Python's lock
            return np.concatenate(list(pool.map(self._score_in_order, np.array_split(rows, max(THREADS, len(rows) // PART)))))

    def _score_in_order(self, rows: Floats) -> Scores:
        """Score like rows after each other: half of a walk's time are turns that the processor guessed wrong."""
        order = _likeness(rows).argsort(kind="stable")
        found = np.empty(len(rows))
        found[order] = self._score(rows[order])
        return found

    def _score(self, rows: Floats) -> Scores:
        depths = np.zeros(len(rows))
        if not len(rows):
            return depths
        for leaves, lengths in zip(self.leaves, self.lengths, strict=True):
            depths += lengths[leaves(rows)]
        return np.asarray(2.0 ** -(depths / self.usual if self.usual else np.ones(len(rows))))


def fit(rows: Floats, seed: int = 0) -> Forest:
    """Grow the forest on `rows` (n, n_features) and a thin uniform background; the same rows give the same forest."""
    return forest_of(grow(rows, seed))


def grow(rows: Floats, seed: int = 0) -> IsolationForest:
    """Return the scikit-learn forest; `contamination` stays unset, as a quota would flag something on the calmest day."""
    from sklearn.ensemble import IsolationForest

    rng = np.random.default_rng(seed)
    blank = rng.uniform(-FAR, FAR, (max(1, int(BACKGROUND * len(rows))), rows.shape[1])).astype(np.float32)
    model = IsolationForest(n_estimators=TREES, max_samples=min(SAMPLE, len(rows)), random_state=seed)
    return model.fit(np.concatenate([rows, blank]))


def forest_of(model: IsolationForest) -> Forest:
    """Return the same forest without scikit-learn's scheduling."""
    trees: list[Any] = [estimator.tree_ for estimator in model.estimators_]
    usual = len(trees) * float(_mean_length(np.array([model.max_samples_]))[0])
    return Forest(tuple(tree.apply for tree in trees), tuple(_lengths(tree) for tree in trees), usual)


def _likeness(rows: Floats) -> npt.NDArray[np.int64]:
    """Return a number that near rows share, (n,): of each feature the half it lies in, then its quarter."""
    low, middle, high = np.quantile(rows[:: max(1, len(rows) // 1_000)], (0.25, 0.5, 0.75), axis=0)
    upper, inner = rows > middle, (rows > low) & (rows <= high)
    bits = np.concatenate([upper, inner], axis=1)[:, :62]
    return bits.astype(np.int64) @ (1 << np.arange(bits.shape[1])[::-1])


def _lengths(tree: Any) -> Scores:
    """Return the path length to each node, added up in scikit-learn's order so that no bit differs; its root has depth 1."""
    depths: Scores = tree.compute_node_depths()
    return depths + _mean_length(tree.n_node_samples) - 1.0


def _mean_length(sizes: npt.NDArray[np.integer]) -> Scores:
    """Return c(n), the mean path length of an unsuccessful search in a binary tree of n rows (Liu, Ting and Zhou 2008, eq. 1)."""
    n = np.asarray(sizes, dtype=np.float64)
    many = np.maximum(n, 3)
    general = 2.0 * (np.log(many - 1.0) + np.euler_gamma) - 2.0 * (many - 1.0) / many
    return np.where(n > 2, general, np.where(n == 2, 1.0, 0.0))
