"""Measure the pooled forest's scoring against scikit-learn's own. Run: python -m benchmarks.forest."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter

import numpy as np

from detectors.features import METRICS
from detectors.forest import flatten, grow

ROWS = (20, 200, 2_000)
REPEATS = 7


def milliseconds(work: Callable[[], object]) -> float:
    """Return the median time of one call."""
    found = []
    for _ in range(REPEATS):
        start = perf_counter()
        work()
        found.append(perf_counter() - start)
    return 1000 * median(found)


def main() -> None:
    """Print milliseconds and the ratio; above 1 means faster than scikit-learn."""
    rng = np.random.default_rng(0)
    model = grow(rng.normal(0, 1, (20_000, len(METRICS))).astype(np.float32))
    forest = flatten(model)
    print(f"{'rows':>6} {'score_samples':>14} {'heaps':>8} {'ratio':>6}   ms, {len(METRICS)} features, 100 trees")
    for rows in ROWS:
        x = rng.normal(0, 1, (rows, len(METRICS))).astype(np.float32)
        plain, own = milliseconds(lambda x=x: model.score_samples(x)), milliseconds(lambda x=x: forest.score(x))
        print(f"{rows:>6} {plain:>14.2f} {own:>8.2f} {plain / own:>6.1f}")
    print(f"flatten {milliseconds(lambda: flatten(model)):.1f} ms, once a day")


if __name__ == "__main__":
    main()
