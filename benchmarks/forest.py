"""Measure growing the pooled forest and its scoring against scikit-learn's own.

Run: python -m benchmarks.forest.

With recordings (`python -m benchmarks.forest recording:DIR simulator:SEED/SCENARIO ...`, each with
labels) it measures what the forest earns: each is replayed by the rules alone, and with what is odd
scored by the forest with and without the bill, and by the mere length of a row of distances.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.ensemble import IsolationForest

from bot.model.causes import Cause
from bot.model.labels import Labels
from bot.model.notification import ReplayResult
from bot.policy.file import applied
from bot.ports import Ports
from bot.watch.preview import ticking
from bot.watch.tick import grid
from bot.wiring.environment import settings_of
from bot.wiring.source import OpenedSource, SourceReplays
from detectors import Detector
from detectors.forest import METRICS, NOTABLE, SAMPLE, TREES, fit, with_background
from detectors.numbers import Floats, Numbers

SIZES = ((20, len(METRICS)), (200, len(METRICS)), (2_000, len(METRICS)), (2_000, 16), (64_000, 6))
"""Rows and features: nodes of small and large fleets, and the cores of a large one."""
REPEATS = 9


def milliseconds(*works: Callable[[], object]) -> list[float]:
    """Return the least wall time of a call of each.

    They take turns, so that a busy machine slows all alike.
    """
    times_of: list[list[float]] = [[] for _ in works]
    for _ in range(REPEATS):
        for times, work in zip(times_of, works, strict=True):
            start = perf_counter()
            work()
            times.append(perf_counter() - start)
    return [1000 * min(times) for times in times_of]


def plainly(rows: np.ndarray) -> IsolationForest:
    """Return scikit-learn's own forest, fitted on the rows that ours learns from."""
    return IsolationForest(n_estimators=TREES, max_samples=SAMPLE, random_state=0).fit(
        with_background(rows)
    )


@dataclass(frozen=True)
class Length:
    """Score a row by its length alone.

    0.5 where two metrics are a little more than notable, as the forest's least score is.
    """

    half: float = 1.25 * NOTABLE * 2**0.5

    def score(self, rows: Floats) -> Numbers:
        """Return the score of each row, (n,), between 0 and 1."""
        length = np.linalg.norm(rows, axis=1).astype(np.float64)
        return np.asarray(length / (length + self.half))


DETECTORS: Mapping[str, Callable[[], Detector]] = {
    "rules alone": Detector,
    "forest, metrics and bill": Detector,
    "forest, metrics": lambda: Detector(money=False),
    "length, metrics": lambda: Detector(lambda _: Length(), money=False),
}
"""What is odd by whom; the first does not ask."""


@dataclass(frozen=True)
class Earned:
    """Hold what one way of judging told of one recording."""

    way: str
    grade: Mapping[str, Any]
    odd: int
    """Alerts called `odd`."""

    @property
    def labelled(self) -> tuple[int, int]:
        """Return how many combinations are labelled, and how many of them were told as such."""
        row = self.grade["by_cause"].get(Cause.ODD.value, {"incidents": 0, "cause_right": 0})
        return row["incidents"], row["cause_right"]

    @property
    def false(self) -> int:
        """Return how many alerts called `odd` meet no incident."""
        return sum(alert["key"].startswith(Cause.ODD.value) for alert in self.grade["false"])


def earned(source: str) -> list[Earned]:
    """Replay a labelled recording in every way, side by side."""
    settings = settings_of({})
    replays = SourceReplays(settings, OpenedSource(source, settings))
    off = applied(settings.policy, [(Labels(), "odd.on", "off")])
    policies = [off if i == 0 else settings.policy for i in range(len(DETECTORS))]
    made = [
        _with(ports, make())
        for ports, make in zip(replays.again(policies), DETECTORS.values(), strict=True)
    ]
    extent, truth = made[0].world.source.extent(), replays.truth(source) or []
    assert extent is not None
    results = [ReplayResult(extent) for _ in made]
    times = list(grid(extent.start, extent.end, made[0].site.interval))
    for _ in zip(
        *(ticking(p, ("default",), times, r) for p, r in zip(made, results, strict=True)),
        strict=True,
    ):
        pass
    clusters = len(
        [name for name in made[0].world.source.read(extent.end).inventory.clusters() if name]
    )
    return [
        Earned(
            way,
            replays.grade(result, truth, clusters),
            sum(a.cause is Cause.ODD for a in result.alerts.values()),
        )
        for way, result in zip(DETECTORS, results, strict=True)
    ]


def _with(ports: Ports, detector: Detector) -> Ports:
    return replace(ports, world=replace(ports.world, detect=detector))


def earnings(sources: Sequence[str]) -> None:
    """Print what each way told, over all the recordings."""
    told = [row for source in sources for row in earned(source)]
    print(
        f"{'':<26} {'labelled':>9} {'told':>5} {'alerts':>7} {'false':>6} {'recall of all':>14} {'false of all':>13}"
    )
    for way in DETECTORS:
        rows = [row for row in told if row.way == way]
        labelled, right = (
            sum(counts) for counts in zip(*(row.labelled for row in rows), strict=True)
        )
        causes = [cause for row in rows for cause in row.grade["by_cause"].values()]
        found, incidents = sum(c["found"] for c in causes), sum(c["incidents"] for c in causes)
        false = sum(row.grade["false_alerts"] for row in rows)
        print(
            f"{way:<26} {labelled:>9} {right:>5} {sum(row.odd for row in rows):>7} {sum(row.false for row in rows):>6}"
            f" {f'{found} of {incidents}':>14} {false:>13}"
        )


def speed() -> None:
    """Print milliseconds and the ratio, above 1 means faster than scikit-learn.

    The scores are the same to the bit.
    """
    rng = np.random.default_rng(0)
    print(
        f"{'rows':>6} {'features':>8} {'score_samples':>14} {'ours':>8} {'ratio':>6}   wall ms, 100 trees"
    )
    for rows, features in SIZES:
        learnt = rng.normal(0, 1, (20_000, features)).astype(np.float32)
        forest, model = fit(learnt), plainly(learnt)
        x = rng.normal(0, 1, (rows, features)).astype(np.float32)
        assert (forest.score(x) == -model.score_samples(x)).all()
        plain, own = milliseconds(partial(model.score_samples, x), partial(forest.score, x))
        print(f"{rows:>6} {features:>8} {plain:>14.2f} {own:>8.2f} {plain / own:>6.1f}")
    theirs, ours = milliseconds(lambda: plainly(learnt), lambda: fit(learnt))
    print(
        f"grown on 20,000 rows of {features} features: {theirs:.0f} ms, ours {ours:.0f}, {theirs / ours:.1f} times as fast"
    )
    print(f"largest memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:,.0f} MB")


def main(arguments: Sequence[str]) -> None:
    """Measure what the forest earns on the recordings that are named, else its speed."""
    if arguments:
        earnings(arguments)
    else:
        speed()


if __name__ == "__main__":
    main(sys.argv[1:])
