"""Grade `trnbot score` on the labelled series beside the repository.

Run: python -m benchmarks.score [--sensitivity]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from time import perf_counter

import numpy as np

from benchmarks.episodes import DATA, Grade, Labelled, Values, grade, labelled_series, labelled_services, total
from detectors.novelty import Pace, speak_then_rest
from detectors.series import THRESHOLD, pace_of, score_series
from detectors.series_voices import VOICES, Series, Voice, strangeness

FACTORS = (0.7, 0.85, 1.0, 1.15, 1.3)
LENGTHS = ("hour", "history", "learning", "delay", "rest")


def table(every: Sequence[Labelled]) -> Grade:
    """Print a line for each series, with seconds, and their total; return that."""
    print(f"{'series':<58} {'found':>7} {'false':>5} {'weeks':>6} {'F1':>6} {'prec.':>6} {'recall':>6} {'/week':>6} {'s':>6}")
    grades = []
    for series in every:
        start = perf_counter()
        grades.append(grade(series, score_series(series.times, series.values)[1]))
        print(line(series.name, grades[-1]), f"{perf_counter() - start:>6.2f}")
    print(line("total", total(grades)), "\n")
    return total(grades)


def line(name: str, graded: Grade) -> str:
    """Return one row of the table."""
    share = f"{graded.f1:>6.3f} {graded.precision:>6.3f} {graded.recall:>6.3f} {graded.false / graded.weeks:>6.2f}"
    return f"{name:<58} {graded.found:>3}/{graded.windows:<3} {graded.false:>5} {graded.weeks:>6.1f} {share}"


def regraded(series: Labelled, voices: tuple[Voice, ...] = VOICES, lengths: dict[str, float] | None = None) -> Grade:
    """Return the grade of one univariate series under other voices, or with lengths of its pace multiplied."""
    seconds, pace = clock(series)
    changed = {name: max(1, round(getattr(pace, name) * factor)) for name, factor in (lengths or {}).items()}
    pace = replace(pace, **changed)
    return spoken(series, strangeness(Series(seconds, series.values[:, 0], pace), voices), pace, 1.0)


def spoken(series: Labelled, strange: Values, pace: Pace, worth: float) -> Grade:
    """Return the grade of strangeness that speaks at `worth`."""
    return grade(series, speak_then_rest(strange, worth, pace))


def clock(series: Labelled) -> tuple[Values, Pace]:
    """Return seconds and pace, as the detector sees them."""
    seconds = np.maximum.accumulate(np.array([at.timestamp() for at in series.times]))
    return seconds, pace_of(seconds)


def sensitivity(every: Sequence[Labelled]) -> None:
    """Print F1 with each parameter multiplied by up to 30 %, the others as they are, and without each voice."""
    print(f"{'F1 with this times':<24}", *(f"{factor:>6}" for factor in FACTORS), f"{'without':>8}")
    for voice in VOICES:
        left = tuple(other for other in VOICES if other is not voice)
        without = f1(regraded(series, left) for series in every)
        show(
            voice.name,
            [f1(regraded(series, weighed(voice, factor)) for series in every) for factor in FACTORS],
            f"{without:>8.3f}",
        )
    for name in LENGTHS:
        show(name, [f1(regraded(series, VOICES, {name: factor}) for series in every) for factor in FACTORS])


def show(name: str, measured: Sequence[float], more: str = "") -> None:
    """Print one row of the sensitivity table."""
    print(f"{name:<24}", *(f"{value:>6.3f}" for value in measured), more, flush=True)


def weighed(changed: Voice, factor: float) -> tuple[Voice, ...]:
    """Return the voices, one of them with its worth multiplied."""
    return tuple(replace(voice, worth=voice.worth * factor) if voice is changed else voice for voice in VOICES)


def left_out(every: Sequence[Labelled], fold: Callable[[Labelled], str]) -> Grade:
    """Return the grade when each fold is judged at the worth that was best on all others."""
    worths = np.round(np.arange(0.5, 2.01, 0.1), 1).tolist()
    grades = {}
    for series in every:
        seconds, pace = clock(series)
        strange = strangeness(Series(seconds, series.values[:, 0], pace))
        grades[series.name] = {worth: spoken(series, strange, pace, worth) for worth in worths}
    found = []
    for series in every:
        others = [other.name for other in every if fold(other) != fold(series)]
        best = max(worths, key=lambda worth: (f1(grades[name][worth] for name in others), -abs(worth - 1)))
        found.append(grades[series.name][best])
    return total(found)


def f1(grades: Iterable[Grade]) -> float:
    """Return F1 over all grades together."""
    return total(grades).f1


def main() -> None:
    """Print the tables; --sensitivity prints the cross-validation and the effect of each parameter too."""
    if not DATA.is_dir():
        print(f"There are no labelled series at '{DATA}', so nothing is graded.")
        return
    every = labelled_series()
    print(f"one metric: an episode that starts in a window finds it; a row speaks at a score of {THRESHOLD}")
    table(every)
    print("many metrics: the same, one file a service, judged on its second part")
    table(labelled_services())
    if "--sensitivity" in sys.argv:
        print(line("worth chosen without the judged family", left_out(every, lambda series: series.family)))
        print(line("worth chosen without the judged series", left_out(every, lambda series: series.name)), "\n")
        sensitivity(every)


if __name__ == "__main__":
    main()
