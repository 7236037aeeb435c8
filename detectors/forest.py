"""Score strangeness by one isolation forest over all nodes: in [0, 1], higher is stranger (scikit-learn's sign flips here)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from detectors.features import FAR

if TYPE_CHECKING:
    from sklearn.ensemble import IsolationForest

Floats = npt.NDArray[np.float32]
Scores = npt.NDArray[np.float64]

TREES = 100
SAMPLE = 256
DEPTH = 8
"""ceil(log2(SAMPLE)): scikit-learn grows no deeper."""
BACKGROUND = 0.02
"""Share of uniform rows in the training set: without them a tree cuts nothing beyond what was seen, and ranks nothing there."""


@dataclass(frozen=True)
class Forest:
    """Hold the trees as complete binary heaps: (n_trees, 2^DEPTH - 1) splits and (n_trees, 2^DEPTH) path lengths.

    A row takes the same DEPTH steps in every tree, so that scoring is DEPTH numpy expressions, without joblib's overhead.
    """

    feature: npt.NDArray[np.intp]
    threshold: Floats
    length: Scores
    normal: float
    """Mean path length of a sample of this size, c(n) of Liu, Ting and Zhou (2008)."""

    def score(self, rows: Floats) -> Scores:
        """Return the strangeness of each row (n, n_features), 2^(-mean path length / c(n)), shape (n,)."""
        if not len(rows):
            return np.zeros(0)
        trees, splits = self.feature.shape
        base = np.arange(trees) * splits
        at = np.zeros((len(rows), trees), dtype=np.intp)
        lines = np.arange(len(rows))[:, None]
        for _ in range(DEPTH):
            index = base + at
            at = 2 * at + 1 + (rows[lines, self.feature.ravel()[index]] > self.threshold.ravel()[index])
        leaf = np.arange(trees) * (splits + 1) + at - splits
        return np.asarray(2.0 ** (-self.length.ravel()[leaf].mean(axis=1) / self.normal))


def fit(rows: Floats, seed: int = 0) -> Forest:
    """Grow the forest on `rows` (n, n_features) and a thin uniform background; the same rows give the same forest."""
    return flatten(grow(rows, seed))


def grow(rows: Floats, seed: int = 0) -> IsolationForest:
    """Return the scikit-learn forest; `contamination` stays unset, as a quota would flag something on the calmest day."""
    from sklearn.ensemble import IsolationForest

    rng = np.random.default_rng(seed)
    blank = rng.uniform(-FAR, FAR, (max(1, int(BACKGROUND * len(rows))), rows.shape[1])).astype(np.float32)
    model = IsolationForest(n_estimators=TREES, max_samples=min(SAMPLE, len(rows)), random_state=seed)
    return model.fit(np.concatenate([rows, blank]))


def flatten(model: IsolationForest) -> Forest:
    """Copy the trees into heaps; a leaf above the last level leads to its leftmost descendant."""
    trees = len(model.estimators_)
    feature = np.zeros((trees, 2**DEPTH - 1), dtype=np.intp)
    threshold = np.full((trees, 2**DEPTH - 1), np.inf, dtype=np.float32)
    length = np.zeros((trees, 2**DEPTH))
    for i, estimator in enumerate(model.estimators_):
        _copy(estimator.tree_, feature[i], threshold[i], length[i])
    return Forest(feature, threshold, length, float(_mean_length(np.array([model.max_samples_]))[0]))


def _copy(tree: object, feature: npt.NDArray[np.intp], threshold: Floats, length: Scores) -> None:
    left, right, sizes = (getattr(tree, name) for name in ("children_left", "children_right", "n_node_samples"))
    features, cuts = getattr(tree, "feature"), getattr(tree, "threshold")  # noqa: B009  (an object of compiled code without types)
    rests = _mean_length(sizes)
    todo = [(0, 0, 0)]
    while todo:
        node, place, depth = todo.pop()
        if left[node] < 0:
            while place < len(feature):
                place = 2 * place + 1
            length[place - len(feature)] = depth + rests[node]
            continue
        feature[place], threshold[place] = features[node], _not_above(cuts[node])
        todo += [(int(left[node]), 2 * place + 1, depth + 1), (int(right[node]), 2 * place + 2, depth + 1)]


def _not_above(cut: float) -> np.float32:
    """Return the largest float32 at or under `cut`: rows are float32, so that the comparison stays exact."""
    near = np.float32(cut)
    return near if near <= cut else np.nextafter(near, np.float32(-np.inf))


def _mean_length(sizes: npt.NDArray[np.integer]) -> Scores:
    """Return c(n), the mean path length of an unsuccessful search in a binary tree of n rows (Liu, Ting and Zhou 2008, eq. 1)."""
    n = np.asarray(sizes, dtype=np.float64)
    many = np.maximum(n, 3)
    general = 2.0 * (np.log(many - 1.0) + np.euler_gamma) - 2.0 * (many - 1.0) / many
    return np.where(n > 2, general, np.where(n == 2, 1.0, 0.0))
