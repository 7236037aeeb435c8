"""Score strangeness by one isolation forest over all nodes.

In [0, 1], higher is stranger (scikit-learn's sign flips here).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from detectors.arrays import Floats, Numbers, Rows
from detectors.features import FAR

Leaves = Callable[[Floats], Rows]

TREES = 100
SAMPLE = 256
BACKGROUND = 0.02
"""Share of uniform rows in the training set.

Without them a tree cuts nothing beyond what was seen, and ranks nothing there.
"""
MANY = 8_192
"""More rows than so are put in order and shared by threads; for fewer neither pays."""
THREADS = 2
PART = 32_768
"""Rows that one thread puts in order and walks at a time."""


@dataclass(frozen=True)
class Forest:
    """Hold a function for each tree that finds the leaf of each row, and the path length to every leaf.

    scikit-learn's `score_samples` walks the same trees, but pays some 4 ms a call for scheduling
    and one thread does it all.
    """

    leaves: tuple[Leaves, ...]
    lengths: tuple[Numbers, ...]
    """By tree and node.

    The steps down to it, and the mean path length that its rows would still need.
    """
    usual: float
    """Sum over the trees of the mean path length of a sample of this size, c(n) of Liu, Ting and Zhou (2008)."""

    def score(self, rows: Floats) -> Numbers:
        """Return the strangeness of each row (n, n_features), 2^(-path length / usual), shape (n,).

        Scikit-learn's to the bit.
        """
        rows = np.ascontiguousarray(rows, dtype=np.float32)
        if len(rows) <= MANY:
            return self._score(rows)
        with ThreadPoolExecutor(THREADS) as pool:  # scikit-learn walks a tree without Python's lock
            return np.concatenate(
                list(
                    pool.map(
                        self._score_in_order, np.array_split(rows, max(THREADS, len(rows) // PART))
                    )
                )
            )

    def _score_in_order(self, rows: Floats) -> Numbers:
        """Score like rows after each other.

        Half of a walk's time are turns that the processor guessed wrong.
        """
        order = _likeness(rows).argsort(kind="stable")
        scores = np.empty(len(rows))
        scores[order] = self._score(rows[order])
        return scores

    def _score(self, rows: Floats) -> Numbers:
        depths = np.zeros(len(rows))
        if not len(rows):
            return depths
        for leaves, lengths in zip(self.leaves, self.lengths, strict=True):
            depths += lengths[leaves(rows)]
        return np.asarray(2.0 ** -(depths / self.usual if self.usual else np.ones(len(rows))))


def load_library() -> None:
    """Import the libraries that `grow` needs, a second's work, before it is asked."""
    import sklearn.tree
    import sklearn.utils.random  # noqa: F401


def fit(rows: Floats, seed: int = 0) -> Forest:
    """Grow the forest on `rows` (n, n_features) and a thin uniform background.

    The same rows give the same forest.
    """
    trees = grow(with_background(rows, seed), min(SAMPLE, len(rows)), seed)
    usual = len(trees) * float(_mean_length(np.array([min(SAMPLE, len(rows))]))[0])
    return Forest(
        tuple(tree.apply for tree in trees), tuple(_lengths(tree) for tree in trees), usual
    )


def with_background(rows: Floats, seed: int = 0) -> Floats:
    """Return the rows and the background that a forest is grown on."""
    rng = np.random.default_rng(seed)
    blank = rng.uniform(-FAR, FAR, (max(1, int(BACKGROUND * len(rows))), rows.shape[1])).astype(
        np.float32
    )
    return np.concatenate([rows, blank])


def grow(rows: Floats, sample: int, seed: int = 0) -> list[Any]:
    """Return the trees of scikit-learn's `IsolationForest(max_samples=sample, random_state=seed)` on `rows`, to the bit.

    They are its own trees with its own draws; two fifths of its `fit` are copies of settings and
    weights for all rows, most of them 0. A share of rows to be flagged (`contamination`) has no
    place here: it would flag some on the calmest day.
    """
    from sklearn import config_context
    from sklearn.tree import ExtraTreeRegressor
    from sklearn.utils.random import sample_without_replacement

    def tree(seed: int) -> Any:
        draws.seed(seed)
        own = draws.randint(most)
        draws.seed(seed)
        sample_without_replacement(
            rows.shape[1], rows.shape[1], random_state=draws
        )  # all features, as it draws them first
        drawn = np.sort(sample_without_replacement(len(rows), sample, random_state=draws))
        grown = ExtraTreeRegressor(
            max_features=1, splitter="random", max_depth=deepest, random_state=own
        )
        return grown.fit(rows[drawn], target[drawn], check_input=False).tree_

    draws = np.random.RandomState()  # seeding one again costs a third of making another
    most, deepest = np.iinfo(np.int32).max, int(np.ceil(np.log2(max(sample, 2))))
    target = np.random.RandomState(seed).uniform(size=len(rows))
    with config_context(skip_parameter_validation=True):
        return [tree(one) for one in np.random.RandomState(seed).randint(most, size=TREES)]


def _likeness(rows: Floats) -> npt.NDArray[np.int64]:
    """Return a number that near rows share, (n,).

    Of each feature the half it lies in, then its quarter.
    """
    low, middle, high = np.quantile(rows[:: max(1, len(rows) // 1_000)], (0.25, 0.5, 0.75), axis=0)
    upper, inner = rows > middle, (rows > low) & (rows <= high)
    bits = np.concatenate([upper, inner], axis=1)[:, :62]
    return bits.astype(np.int64) @ (1 << np.arange(bits.shape[1])[::-1])


def _lengths(tree: Any) -> Numbers:
    """Return the path length to each node, added up in scikit-learn's order so that no bit differs.

    Its root has depth 1.
    """
    depths: Numbers = tree.compute_node_depths()
    return depths + _mean_length(tree.n_node_samples) - 1.0


def _mean_length(sizes: npt.NDArray[np.integer]) -> Numbers:
    """Return c(n), the mean path length of an unsuccessful search in a binary tree of n rows (Liu, Ting and Zhou 2008, eq. 1)."""
    n = np.asarray(sizes, dtype=np.float64)
    many = np.maximum(n, 3)
    general = 2.0 * (np.log(many - 1.0) + np.euler_gamma) - 2.0 * (many - 1.0) / many
    return np.where(n > 2, general, np.where(n == 2, 1.0, 0.0))
