"""Grade `trnbot score` on the labelled series beside the repository and on invented ones.

Time it against a plain rule.

Run: python -m benchmarks.score
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

import numpy as np

from benchmarks.episodes import (
    DATA,
    Grade,
    Labelled,
    Values,
    grade,
    labelled_series,
    labelled_services,
    second_part_alone,
    total,
)
from benchmarks.invented import HELD_BACK, TUNING, invented
from benchmarks.invented_faults import FAULTS
from benchmarks.nab import nab_gain, nab_score
from detectors.series.score import THRESHOLD, score_series


def table(
    every: Sequence[Labelled], of: Callable[[Labelled], str] = lambda series: series.name
) -> Grade:
    """Print a line for each series, or for each group of them, with seconds, and their total.

    Return that.
    """
    print(
        f"{'':<58} {'found':>7} {'false':>5} {'weeks':>6} {'F1':>6} {'prec.':>6} {'recall':>6} {'/week':>6} {'s':>6}"
    )
    grades = []
    for name in dict.fromkeys(map(of, every)):
        start = perf_counter()
        grades.append(graded([series for series in every if of(series) == name]))
        print(line(name, grades[-1]), f"{perf_counter() - start:>6.2f}", flush=True)
    print(line("total", total(grades)), "\n")
    return total(grades)


def nab(every: Sequence[Labelled]) -> tuple[float, float]:
    """Return the NAB score of the decisions on all series, standard profile.

    And of every row whose score is at or over the best of all thresholds.
    """
    scored = [(series, *score_series(series.times, series.values)) for series in every]
    windows = sum(len(series.windows) for series in every)
    decisions = nab_score((nab_gain(series, flags) for series, _, flags in scored), windows)
    column = max(
        nab_score((nab_gain(series, scores >= at) for series, scores, _ in scored), windows)
        for at in np.linspace(0.05, 0.95, 91)
    )
    return decisions, column


def ranking(every: Sequence[Labelled]) -> None:
    """Print the average precision of scores over the judged rows.

    The mean of all recordings, and over all rows.
    """
    # Late, as tests of what is scored import this file, and the library takes seconds.
    from sklearn.metrics import average_precision_score

    truths = [np.zeros(len(series.times)) for series in every]
    for series, truth in zip(every, truths, strict=True):
        for low, high in series.windows:
            truth[low:high] = 1
    scores = [score_series(series.times, series.values)[0] for series in every]
    judged = [
        (truth[series.start :], score[series.start :])
        for series, truth, score in zip(every, truths, scores, strict=True)
    ]
    mean = np.mean([average_precision_score(*rows) for rows in judged])
    pooled = average_precision_score(*map(np.concatenate, zip(*judged, strict=True)))
    print(f"average precision: mean {mean:.3f}, of all rows {pooled:.3f}\n")


def graded(every: Sequence[Labelled]) -> Grade:
    """Return the grade of the detector on all of them."""
    return total(grade(series, score_series(series.times, series.values)[1]) for series in every)


def line(name: str, result: Grade) -> str:
    """Return one row of the table."""
    share = f"{result.f1:>6.3f} {result.precision:>6.3f} {result.recall:>6.3f} {result.false / result.weeks:>6.2f}"
    return f"{name:<58} {result.found:>3}/{result.windows:<3} {result.false:>5} {result.weeks:>6.1f} {share}"


def plain_excess(values: Values, history: int = 2016) -> Values:
    """Return how far each value lies beyond its last week, in spreads, written down as one says it.

    A loop over the rows.
    """
    excess = np.zeros(len(values))
    for row in range(288, len(values)):
        past = values[max(0, row - history) : row]
        low, high = np.quantile(past, (0.05, 0.95))
        excess[row] = max(values[row] - past.max(), past.min() - values[row], 0) / max(
            high - low, 1e-9
        )
    return excess


def daily_forest(values: Values, day: int = 288) -> Values:
    """Return how isolated each row of a day is among all days before it.

    Scikit-learn's forest, fitted anew once a day.
    """
    from sklearn.ensemble import IsolationForest

    isolated = np.zeros(len(values))
    for row in range(day, len(values), day):
        isolated[row : row + day] = (
            -IsolationForest(random_state=0)
            .fit(values[:row])
            .score_samples(values[row : row + day])
        )
    return isolated


def rate(series: Labelled) -> None:
    """Print rows a second of all signals together, against those of one plain rule and of a forest, in the same run."""
    works = {
        "all signals": lambda: score_series(series.times, series.values),
        "a plain loop of one rule": lambda: plain_excess(series.values[:, 0]),
        "scikit-learn's isolation forest, fitted once a day": lambda: daily_forest(series.values),
    }
    seconds = {name: _seconds(work) for name, work in works.items()}
    ours = seconds["all signals"]
    for name, taken in seconds.items():
        print(
            f"{len(series.times) / taken:>9,.0f} rows a second, all signals {taken / ours:.1f} times as many: {name}"
        )


def _seconds(work: Callable[[], object]) -> float:
    """Return the shortest of three runs."""
    taken = []
    for _ in range(3):
        start = perf_counter()
        work()
        taken.append(perf_counter() - start)
    return min(taken)


def main() -> None:
    """Print the tables."""
    print(f"an episode that starts in a window finds it; a row speaks at a score of {THRESHOLD}\n")
    if DATA.is_dir():
        print("one metric, labelled by others")
        table(labelled_series())
        decisions, column = nab(labelled_series())
        print(f"NAB score, standard profile: {decisions:.1f}, of scores at best {column:.1f}\n")
        print(
            "many metrics, labelled by others: one file a service, judged on its second part; then that part alone"
        )
        table(labelled_services())
        ranking(labelled_services())
        table([second_part_alone(series) for series in labelled_services()])
    print("one metric, invented, from the seeds that were tuned on; then from others")
    table(invented(TUNING), lambda series: series.family)
    held_back = invented(HELD_BACK)
    table(held_back, lambda series: series.family)
    print("the same from others, with faults of the recording")
    for name, spoil in FAULTS.items():
        print(line(name, graded([spoil(series) for series in held_back])), flush=True)
    rate(held_back[0])


if __name__ == "__main__":
    main()
