"""Measure growing the pooled forest and its scoring against scikit-learn's own. Run: python -m benchmarks.forest."""

from __future__ import annotations

import resource
from collections.abc import Callable
from functools import partial
from time import perf_counter

import numpy as np
from sklearn.ensemble import IsolationForest

from detectors.features import METRICS
from detectors.forest import SAMPLE, TREES, fit, with_background

SIZES = ((20, len(METRICS)), (200, len(METRICS)), (2_000, len(METRICS)), (2_000, 16), (64_000, 6))
"""Rows and features: nodes of small and large fleets, and the cores of a large one."""
REPEATS = 9


def milliseconds(*works: Callable[[], object]) -> list[float]:
    """Return the least wall time of a call of each; they take turns, so that a busy machine slows all alike."""
    times_of: list[list[float]] = [[] for _ in works]
    for _ in range(REPEATS):
        for times, work in zip(times_of, works, strict=True):
            start = perf_counter()
            work()
            times.append(perf_counter() - start)
    return [1000 * min(times) for times in times_of]


def plainly(rows: np.ndarray) -> IsolationForest:
    """Return scikit-learn's own forest, fitted on the rows that ours learns from."""
    return IsolationForest(n_estimators=TREES, max_samples=SAMPLE, random_state=0).fit(with_background(rows))


def main() -> None:
    """Print milliseconds and the ratio, above 1 means faster than scikit-learn; the scores are the same to the bit."""
    rng = np.random.default_rng(0)
    print(f"{'rows':>6} {'features':>8} {'score_samples':>14} {'ours':>8} {'ratio':>6}   wall ms, 100 trees")
    for rows, features in SIZES:
        learnt = rng.normal(0, 1, (20_000, features)).astype(np.float32)
        forest, model = fit(learnt), plainly(learnt)
        x = rng.normal(0, 1, (rows, features)).astype(np.float32)
        assert (forest.score(x) == -model.score_samples(x)).all()
        plain, own = milliseconds(partial(model.score_samples, x), partial(forest.score, x))
        print(f"{rows:>6} {features:>8} {plain:>14.2f} {own:>8.2f} {plain / own:>6.1f}")
    theirs, ours = milliseconds(lambda: plainly(learnt), lambda: fit(learnt))
    print(f"grown on 20,000 rows of {features} features: {theirs:.0f} ms, ours {ours:.0f}, {theirs / ours:.1f} times as fast")
    print(f"largest memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:,.0f} MB")


if __name__ == "__main__":
    main()
