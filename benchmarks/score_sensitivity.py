"""Measure how much the grade of `trnbot score` hangs on its numbers.

Each 20 % off, no such signal, a threshold from elsewhere.

Run: python -m benchmarks.score_sensitivity
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from benchmarks.episodes import (
    DATA,
    Flags,
    Grade,
    Labelled,
    Values,
    grade,
    labelled_series,
    labelled_services,
    total,
)
from benchmarks.invented import HELD_BACK, TUNING, invented
from benchmarks.nab import nab_gain, nab_score
from benchmarks.score import line
from detectors.series.score import THRESHOLD, habit_residual, pace_of, strangeness_of_all
from detectors.series.signals import SIGNALS, SeriesPace, SeriesSignal, counted, speak_then_rest

FACTORS = (0.8, 1.0, 1.2)
LENGTHS = ("hour", "history", "learning", "young", "delay", "rest")
WORTHS = np.round(np.arange(0.4, 2.01, 0.1), 1).tolist()

Judges = Mapping[str, Sequence[Labelled]]


def strange(
    series: Labelled,
    signals: tuple[SeriesSignal, ...] = SIGNALS,
    lengths: Mapping[str, float] = MappingProxyType({}),
) -> tuple[Values, SeriesPace]:
    """Return strangeness, 1 is worth speaking of, and pace, under other signals or with lengths of the pace multiplied."""
    seconds = np.maximum.accumulate(np.array([at.timestamp() for at in series.times]))
    pace = pace_of(seconds)
    pace = replace(
        pace,
        **{name: max(1, round(getattr(pace, name) * factor)) for name, factor in lengths.items()},
    )
    columns = np.stack([counted(column, pace.learning) for column in series.values.T], axis=1)
    return strangeness_of_all(seconds, columns, habit_residual(columns, pace), pace, signals), pace


def speaking(strangeness: Values, pace: SeriesPace, worth: float = 1.0) -> Flags:
    """Return the rows that speak where strangeness does at `worth`."""
    return speak_then_rest(1 - 2.0 ** (-strangeness / worth), THRESHOLD, pace)


def judged(
    judges: Judges,
    signals: tuple[SeriesSignal, ...] = SIGNALS,
    lengths: Mapping[str, float] = MappingProxyType({}),
) -> list[float]:
    """Return F1 of each judge."""
    return [
        total(grade(series, speaking(*strange(series, signals, lengths))) for series in every).f1
        for every in judges.values()
    ]


def show(name: str, columns: Sequence[Sequence[float]]) -> None:
    """Print one row: for each judge, F1 under each change."""
    print(
        f"{name:<24}",
        *("  ".join(f"{value:.3f}" for value in judge) for judge in zip(*columns, strict=True)),
        sep="   ",
        flush=True,
    )


def weighed(factor: float, number: str, names: str) -> tuple[SeriesSignal, ...]:
    """Return the signals, with one number (`worth` or `tail`) of those with the names multiplied."""
    return tuple(
        replace(signal, **{number: factor * getattr(signal, number)})
        if signal.name in names.split()
        else signal
        for signal in SIGNALS
    )


def perturbed(judges: Judges, lengths: Sequence[str] = LENGTHS) -> None:
    """Print F1 with each number 20 % off, the others as they are, and without each signal."""
    print("F1 with a number x 0.8, 1, 1.2, judged on:", *judges, sep="  ")
    usual = judged(judges)
    for names in ("level", "sustained", "swing", "roughness", "daily weekly", "offset"):
        show(
            f"worth of {names}",
            [
                judged(judges, weighed(factor, "worth", names)) if factor != 1 else usual
                for factor in FACTORS
            ],
        )
    show(
        "scales of tail",
        [
            judged(judges, weighed(factor, "tail", "level daily weekly")) if factor != 1 else usual
            for factor in FACTORS
        ],
    )
    for name in lengths:
        show(
            name,
            [
                judged(judges, lengths={name: factor}) if factor != 1 else usual
                for factor in FACTORS
            ],
        )
    for signal in SIGNALS:
        show(
            f"without {signal.name}",
            [judged(judges, tuple(other for other in SIGNALS if other is not signal))],
        )


def left_out(
    every: Sequence[Labelled], fold: Callable[[Labelled], str], teachers: Sequence[Labelled] = ()
) -> tuple[Grade, float]:
    """Return grade and NAB score when each fold is judged at the worth that was best on all others, or on teachers if any."""
    grades = {recording.name: _by_worth(recording) for recording in every}
    taught = {recording.name: _by_worth(recording) for recording in teachers} or grades
    folds = []
    for series in every:
        others = [
            other.name for other in teachers or every if teachers or fold(other) != fold(series)
        ]
        best = max(
            WORTHS,
            key=lambda worth: (
                total(taught[name][worth][0] for name in others).f1,
                -abs(worth - 1),
            ),
        )
        folds.append(grades[series.name][best])
    result = total(grade for grade, _ in folds)
    return result, nab_score((gain for _, gain in folds), result.windows)


def _by_worth(series: Labelled) -> dict[float, tuple[Grade, float]]:
    strangeness, pace = strange(series)
    flags = {worth: speaking(strangeness, pace, worth) for worth in WORTHS}
    return {
        worth: (grade(series, flags[worth]), nab_gain(series, flags[worth])) for worth in WORTHS
    }


def main() -> None:
    """Print the thresholds chosen elsewhere, then the tables."""
    if not DATA.is_dir():
        print(f"There are no labelled series at '{DATA}', so nothing is graded.")
        return
    every, services = labelled_series(), labelled_services()
    for name, (result, nab) in {
        "20 series, threshold chosen without the judged family": left_out(
            every, lambda series: series.family
        ),
        "20 series, threshold chosen without the judged series": left_out(
            every, lambda series: series.name
        ),
        "20 series, threshold chosen on invented series alone": left_out(
            every, lambda series: series.name, invented(TUNING[:8])
        ),
        "8 services, threshold chosen without the judged one": left_out(
            services, lambda series: series.name
        ),
    }.items():
        print(line(name, result), f"NAB {nab:.1f}")
    print(flush=True)
    perturbed({"20 labelled series": every, "52 invented series": invented(HELD_BACK[:4])})
    perturbed({"8 services": services}, LENGTHS[:1])


if __name__ == "__main__":
    main()
