"""Search every worth anew, from 0.5, without each labelled series in turn, and judge that series at what was found.

Run: python -m benchmarks.score_search
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.episodes import DATA, Grade, Labelled, Values, grade, labelled_series, total
from benchmarks.nab import nab_gain, nab_score
from benchmarks.score import line
from benchmarks.score_sensitivity import speaking
from detectors.series.score import pace_of
from detectors.series.signals import (
    ENVELOPE_MOST,
    ENVELOPE_SHARE,
    ENVELOPE_WORTH,
    SIGNALS,
    ScoredSeries,
    SeriesPace,
    SeriesSignal,
    beyond,
    beyond_envelope,
    counted,
    excess,
    flat_rows,
    spreads,
    tails,
    youth,
)

FACTORS = (0.5, 0.7, 0.85, 1.2, 1.4, 2.0)
THRESHOLDS = (0.85, 1.0, 1.15)
"""At which the teachers are judged: what is best at one threshold alone is luck."""
LEAST_F1, F1_MATTERS = 0.73, 300.0
"""Below this F1 of the teachers, NAB points are taken off for what is missing."""

Worths = Mapping[str, float]
Strength = Callable[[Worths], Values]


@dataclass(frozen=True)
class Measured:
    """Hold a series whose signals are worked out but for their worths."""

    series: Labelled
    pace: SeriesPace
    still: Values
    signals: Mapping[str, Strength]
    envelope: Values

    def judged(self, worths: Worths, threshold: float = 1.0) -> tuple[Grade, float]:
        """Return grade and NAB gain under worths."""
        added = self.still + sum(
            strength(worths) for name, strength in self.signals.items() if name in worths
        )
        most = np.minimum(ENVELOPE_MOST, ENVELOPE_SHARE * added)
        flags = speaking(
            added + np.minimum(self.envelope / worths["envelope"], most), self.pace, threshold
        )
        return grade(self.series, flags), nab_gain(self.series, flags)


def measured(series: Labelled) -> Measured:
    """Work a series out."""
    seconds = np.maximum.accumulate(np.array([at.timestamp() for at in series.times]))
    pace = pace_of(seconds)
    scored = ScoredSeries(seconds, counted(series.values[:, 0], pace.learning), pace)
    still = flat_rows(scored.values, 4 * pace.hour)
    still[: pace.learning] = 0
    envelope = ENVELOPE_WORTH * beyond_envelope(scored, np.arange(len(still)))
    return Measured(
        series,
        pace,
        still,
        {signal.name: _strength(signal, scored) for signal in SIGNALS},
        envelope,
    )


def _strength(signal: SeriesSignal, scored: ScoredSeries) -> Strength:
    """Return what the strength of a signal is under worths."""
    pace = replace(scored.pace, delay=signal.delays * scored.pace.delay)
    values = signal.derive(scored)
    outside = beyond(values, pace, signal.rows) / youth(values, pace)
    if signal.knows_weeks:
        outside[:, ~np.maximum.accumulate(~np.isnan(scored.by_season[-1]))] = 0
    rows = np.flatnonzero(outside.max(axis=0) > 0)
    spread, tail = spreads(values, pace)[rows], tails(values, pace)[:, rows]

    def strength(worths: Worths) -> Values:
        added = np.zeros(len(values))
        needed = worths[signal.name] * spread
        added[rows] = excess(
            outside[:, rows], np.fmax(needed, worths["tail"] * tail) if signal.tail else needed
        )
        return added

    return strength


def worth_of(worths: Worths, teachers: Sequence[Measured]) -> float:
    """Return how good worths are: the mean NAB score around the threshold, less what F1 misses."""
    return float(
        np.mean(
            [
                nab - F1_MATTERS * max(0.0, LEAST_F1 - result.f1)
                for result, nab in _around(worths, teachers)
            ]
        )
    )


def _around(worths: Worths, teachers: Sequence[Measured]) -> list[tuple[Grade, float]]:
    return [
        score_of([one.judged(worths, threshold) for one in teachers]) for threshold in THRESHOLDS
    ]


def score_of(judged: Sequence[tuple[Grade, float]]) -> tuple[Grade, float]:
    """Return the grade and the NAB score of many."""
    result = total(one for one, _ in judged)
    return result, nab_score((gain for _, gain in judged), result.windows)


def searched(start: Worths, teachers: Sequence[Measured]) -> Worths:
    """Climb from a start, one worth at a time, until three rounds are over or nothing is better."""
    best, height = dict(start), worth_of(start, teachers)
    for _ in range(3):
        before = height
        for name in start:
            for factor in FACTORS:
                tried = {**best, name: best[name] * factor}
                if (reached := worth_of(tried, teachers)) > height + 1e-9:
                    best, height = tried, reached
        if height == before:
            break
    return best


def left_out(every: Sequence[Measured], start: Worths) -> tuple[Grade, float]:
    """Return grade and NAB score of all, each judged at the worths that were found without it."""
    return score_of(
        [
            one.judged(searched(start, [other for other in every if other is not one]))
            for one in every
        ]
    )


def main() -> None:
    """Print both, with all signals and without the newest."""
    if not DATA.is_dir():
        print(f"There are no labelled series at '{DATA}', so nothing is graded.")
        return
    every = [measured(series) for series in labelled_series()]
    start = {
        **dict.fromkeys((signal.name for signal in SIGNALS), 0.5),
        "tail": 3.0,
        "envelope": 0.5,
    }
    for name, worths in {
        "all signals": start,
        "without offset": {key: start[key] for key in start if key != "offset"},
    }.items():
        result, nab = left_out(every, worths)
        print(
            line(f"20 series, all worths searched without the judged, {name}", result),
            f"NAB {nab:.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
