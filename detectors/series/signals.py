"""Derive signals from one series and weigh each by how far it leaves its history.

A sum of 1 is worth an alert.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import log

import numpy as np

from detectors.numbers import Mask, Numbers, Rows, count, number, placed


@dataclass(frozen=True)
class SeriesPace:
    """Hold lengths in rows.

    Of an hour, of history, of learning only, of a delay before history, of the rest after an alert.

    A history of `young` rows is trusted half: the shorter, the more often chance exceeds it.
    `delay` keeps the newest rows out of history: a slow rise must not teach history its own first
    steps.
    """

    hour: int
    history: int
    learning: int
    young: int
    delay: int
    rest: int


def beyond(values: Numbers, pace: SeriesPace, rows: int = 1) -> Numbers:
    """Return how far the newest `rows` rows all lie above and below their history, (2, n) >= 0.

    That is above the highest and below the lowest of it. nan rows are 0: nothing is known of them.
    So are the first `learning` rows since the first that is not nan.
    """
    outside = np.stack(
        [
            side - delayed(highest_before(side, pace.history), pace.delay)
            for side in (values, -values)
        ]
    )
    excesses = outside.copy()
    for age in range(1, rows):
        excesses[:, age:] = np.minimum(excesses[:, age:], outside[:, :-age])
    excesses[:, : int(np.argmax(~np.isnan(values))) + pace.learning] = 0
    return np.asarray(np.maximum(np.nan_to_num(excesses, nan=0.0), 0))


def excess(outside: Numbers, needed: Numbers) -> Numbers:
    """Return the larger side of what is beyond history (2, n) in multiples of `needed`, (n,).

    `needed` is (2, n) or (n,); 0 where unknown.
    """
    return np.asarray(np.nan_to_num(outside / needed, nan=0.0, posinf=0.0).max(axis=0))


def flat_rows(values: Numbers, least: int) -> Numbers:
    """Return 1 at the row where a series has become still, else 0, (n,).

    It has not moved for `least` rows and twice as long as ever before.
    """
    filled = forward_fill(values)
    still = run_lengths(np.concatenate([[False], filled[1:] == filled[:-1]]))

    # At each row the length of the run that has just ended before it, else 0.
    ended = np.concatenate([[0.0], np.where(still[1:] == 0, still[:-1], 0.0)])
    before = np.concatenate([[0.0], np.maximum.accumulate(ended)[:-1]])
    return np.asarray(still == np.maximum(least, 2 * before), dtype=np.float64)


def speak_then_rest(scores: Numbers, threshold: float, pace: SeriesPace) -> Mask:
    """Return the rows that speak.

    At or over the threshold, with none that spoke `rest` rows and none so high an hour before.

    An alert that goes on has been raised already.
    """
    flags = np.zeros(len(scores), dtype=bool)
    silent_until = 0
    for row in np.flatnonzero(scores >= threshold).tolist():
        if row >= silent_until:
            flags[row] = True
            silent_until = row + pace.rest
        silent_until = max(silent_until, row + pace.hour)
    return flags


def forward_fill(values: Numbers) -> Numbers:
    """Return the values with each nan replaced by the last reading before it.

    Nan only before the first.
    """
    last = np.maximum.accumulate(np.where(np.isnan(values), -1, np.arange(len(values))))
    return np.where(last >= 0, values[np.maximum(last, 0)], np.nan)


def delayed(values: Numbers, rows: int) -> Numbers:
    """Return the values as they stood `rows` rows ago; nan before there were any."""
    n_old = max(0, len(values) - rows)
    return np.concatenate([np.full(len(values) - n_old, np.nan), values[:n_old]])


def trailing_mean(values: Numbers, length: int) -> Numbers:
    """Return the mean of the newest `length` rows at each row.

    Nan before there are as many since the first reading.
    """
    first = int(np.argmax(~np.isnan(values)))
    total = np.cumsum(np.nan_to_num(values) - values[first])
    mean: Numbers = (total - np.nan_to_num(delayed(total, length))) / length + values[first]
    mean[: first + length - 1] = np.nan
    return mean


def highest_before(values: Numbers, length: int) -> Numbers:
    """Return the largest of the `length` rows before each row (not itself), nan at the first.

    O(n) by blocks (van Herk).
    """
    n = len(values)
    whole = -(-n // length) * length
    padded = np.full(whole, -np.inf)
    padded[:n] = np.where(np.isnan(values), -np.inf, values)
    blocks = padded.reshape(-1, length)
    ahead = np.maximum.accumulate(blocks, axis=1).ravel()
    behind = np.maximum.accumulate(blocks[:, ::-1], axis=1)[:, ::-1].ravel()
    row = np.arange(n)
    start = row - length
    highest = np.maximum(
        ahead[row - 1], np.where(start >= 0, behind[np.maximum(start, 0)], -np.inf)
    )
    highest[start < 0] = np.maximum.accumulate(padded)[row[start < 0] - 1]
    highest[0] = -np.inf
    return np.where(np.isinf(highest), np.nan, highest)


def run_lengths(holds: Mask) -> Numbers:
    """Return for each row how many rows up to it hold without a break."""
    row = np.arange(len(holds))
    return np.asarray(row - np.maximum.accumulate(np.where(holds, -1, row)), dtype=np.float64)


EXTREMES = count("signals.EXTREMES")


def spreads(values: Numbers, pace: SeriesPace, asked: Mask | None = None) -> Numbers:
    """Return the spread of history at each row, learnt anew every half day.

    (n,), nan before the first time.

    5th to 95th percentile, but at least a third of all between lowest and highest (a series of rare
    bursts has no other spread) and a thousandth of the level (a constant has none at all). Half
    days without a row that is `asked` for, which are most, are left out and nan.
    """
    spread = np.full(len(values), np.nan)
    for rows, part in _histories(values, pace, asked):
        readings = part[~np.isnan(part)]
        if len(readings) >= count("signals.LEAST_KNOWN"):
            low, high = np.quantile(readings, (0.05, 0.95))
            least = 1e-3 * max(abs(float(low)), abs(float(high))) + 1e-12
            spread[rows] = max(float(high - low), float(np.ptp(readings)) / 3, least)
    return spread


def tails(values: Numbers, pace: SeriesPace, asked: Mask | None = None) -> Numbers:
    """Return how slowly the highest and the lowest hours of history thin out.

    (2, n), nan where too few are known.

    The scale of an exponential tail over the 21st highest hour, by the median: one extreme more or
    less changes little. Coles, "An introduction to statistical modeling of extreme values", 2001,
    chapter 4.
    """
    scales = np.full((2, len(values)), np.nan)
    for rows, part in _histories(values, pace, asked):
        hours = part[len(part) % pace.hour :].reshape(-1, pace.hour)
        for side, readings in enumerate((hours, -hours)):
            highest = np.sort(np.where(np.isnan(readings), -np.inf, readings).max(axis=1))[::-1][
                : EXTREMES + 1
            ]
            if len(highest) > EXTREMES and np.isfinite(highest[-1]):
                scales[side, rows] = np.median(highest[:-1] - highest[-1]) / log(2)
    return scales


def youth(values: Numbers, pace: SeriesPace) -> Numbers:
    """Return the factor by which an excess over so short a history must be larger, (n,).

    2 where it is `young` rows long.
    """
    return np.asarray(1 + (pace.young / np.maximum(np.cumsum(~np.isnan(values)), 1)) ** 1.5)


def _histories(
    values: Numbers, pace: SeriesPace, asked: Mask | None
) -> Iterator[tuple[slice, Numbers]]:
    """Yield each half day's rows that are asked for, and the history before the first of them.

    The first by doubling parts.
    """
    half_day = max(1, 12 * pace.hour)
    parts = (half_day >> halvings for halvings in range(half_day.bit_length()))
    starts = sorted(part for part in parts if part >= min(half_day, pace.learning)) + list(
        range(2 * half_day, len(values), half_day)
    )
    for row, end in zip(starts, [*starts[1:], len(values)], strict=True):
        if asked is None or asked[row:end].any():
            yield slice(row, end), values[:row][-pace.history :]


HOUR, DAY, WEEK = 3_600.0, 86_400.0, 604_800.0
HALF_READ = number("signals.HALF_READ")
TAILS = number("signals.TAILS")


@dataclass(frozen=True)
class ScoredSeries:
    """Hold one metric.

    Seconds since 1970 that never fall, values with nan for no reading, both (n,).
    """

    seconds: Numbers
    values: Numbers
    pace: SeriesPace

    @cached_property
    def by_season(self) -> Numbers:
        """Return how far each reading is from the usual of its time of day, and of week.

        (2, n), nan where that is unknown.
        """
        return np.stack(
            [self.values - usual_at(self.seconds, self.values, season) for season in SEASONS]
        )

    @cached_property
    def residuals(self) -> Numbers:
        """Return the same, nan where the other season is the better guess; (2, n)."""
        return fitting_better(self.by_season, 12 * self.pace.hour)


@dataclass(frozen=True)
class SeriesSignal:
    """Derive a quantity from a series.

    `worth` is the excess, in spreads of its history, at which it speaks.

    It must leave `tail` scales of its own tail behind as well, and hold for `rows` rows. `delays`
    multiplies how long a row is too new for history: what is to find a drift must not learn from
    its beginning. One that `knows_weeks` is silent until the usual of the week is known: before
    that, each weekend is far from the usual of its hours. One that is asked `alone` is left out
    where there are several metrics: they share their load, and a busy half day is not the news of
    each.
    """

    name: str
    derive: Callable[[ScoredSeries], Numbers]
    worth: float
    tail: float = 0.0
    rows: int = 1
    delays: int = 1
    knows_weeks: bool = False
    alone: bool = False

    def strength(self, series: ScoredSeries) -> Numbers:
        """Return the excess in multiples of the needed excess; (n,) >= 0."""
        pace = replace(series.pace, delay=self.delays * series.pace.delay)
        values = self.derive(series)
        outside = beyond(values, pace, self.rows)
        if self.knows_weeks:
            outside[:, ~np.maximum.accumulate(~np.isnan(series.by_season[-1]))] = 0
        outlying = np.asarray(outside.max(axis=0) > 0)
        if not outlying.any():
            return np.zeros(len(values))
        needed = self.worth * spreads(values, pace, outlying)
        if self.tail:
            needed = np.fmax(needed, self.tail * tails(values, pace, outlying))
        return excess(outside, needed * youth(values, pace))


def level(series: ScoredSeries) -> Numbers:
    """Return the readings themselves: a spike, or a drop."""
    return series.values


def sustained(series: ScoredSeries) -> Numbers:
    """Return the mean of the last two hours.

    An extreme that lasts, or is drifted to, though no reading is new.
    """
    return mean_read(series.values, 2 * series.pace.hour)


def swing(series: ScoredSeries) -> Numbers:
    """Return highest minus lowest of the last four hours, half of it read.

    A series that grows restless, or dies down.
    """
    length = 4 * series.pace.hour
    reach = highest_before(series.values, length) + highest_before(-series.values, length)
    return np.where(delayed(part_read(series.values, length), 1) >= HALF_READ, reach, np.nan)


def roughness(series: ScoredSeries) -> Numbers:
    """Return the mean absolute step of the last eight hours.

    A series that trembles in its usual range.
    """
    filled = forward_fill(series.values)
    steps = np.where(np.isnan(series.values), np.nan, np.abs(filled - delayed(filled, 1)))
    return mean_read(steps, 8 * series.pace.hour)


def daily(series: ScoredSeries) -> Numbers:
    """Return how far each reading is from the usual of its time of day.

    Nan where its time of week says more.
    """
    return np.asarray(series.residuals[0])


def weekly(series: ScoredSeries) -> Numbers:
    """Return how far each reading is from the usual of its time of week.

    Nan where its time of day says more.
    """
    return np.asarray(series.residuals[1])


def offset(series: ScoredSeries) -> Numbers:
    """Return the mean of the last twelve hours' distances from the usual of their times.

    Half a day unlike that half day.
    """
    by_day, by_week = series.residuals
    return mean_read(np.where(np.isnan(by_day), by_week, by_day), 12 * series.pace.hour)


DELAYS = count("signals.DELAYS")
SIGNALS = (
    SeriesSignal("level", level, number("signals.LEVEL_WORTH"), tail=TAILS),
    SeriesSignal("sustained", sustained, number("signals.SUSTAINED_WORTH"), delays=DELAYS),
    SeriesSignal("swing", swing, number("signals.SWING_WORTH")),
    SeriesSignal("roughness", roughness, number("signals.ROUGHNESS_WORTH"), delays=DELAYS),
    SeriesSignal("daily", daily, number("signals.DAILY_WORTH"), tail=TAILS, rows=2),
    SeriesSignal("weekly", weekly, number("signals.WEEKLY_WORTH"), tail=TAILS, rows=2),
    SeriesSignal("offset", offset, number("signals.OFFSET_WORTH"), knows_weeks=True, alone=True),
)
"""Chosen once, for all kinds of series.

`python -m benchmarks.score --sensitivity` tells what each one matters.
"""


ENVELOPE_H, ENVELOPE_DAYS = 2, 7
"""Hours around a time of day, and days looked back at."""
ENVELOPE_WORTH = number("signals.ENVELOPE_WORTH")
ENVELOPE_MOST = number("signals.ENVELOPE_MOST")
ENVELOPE_SHARE = number("signals.ENVELOPE_SHARE")


def beyond_envelope(series: ScoredSeries, rows: Rows) -> Numbers:
    """Return how far rows lie beyond all that was read about their time of day, (k,) >= 0.

    Within two hours of it on the last seven days, in multiples of `ENVELOPE_WORTH` spreads; 0 where
    too few days are known.
    """
    reach, values = 2 * ENVELOPE_H * series.pace.hour, series.values
    widest = np.stack(
        [np.fmax(side, highest_before(side, reach - 1)) for side in (values, -values)]
    )
    ages = [DAY * n - HOUR * ENVELOPE_H for n in range(1, ENVELOPE_DAYS + 1)]
    past = np.stack([_ago(series.seconds, widest, age, series.seconds[rows]) for age in ages])
    outside = np.stack([values[rows], -values[rows]]) - np.fmax.reduce(past)
    outside[(~np.isnan(past)).sum(axis=0) < count("signals.ENVELOPE_NEEDED")] = 0
    chosen = placed(np.ones(len(rows), dtype=bool), rows, len(values))
    needed = ENVELOPE_WORTH * spreads(values, series.pace, chosen)[rows]
    return np.maximum(excess(outside, needed), 0)


def mean_read(values: Numbers, length: int) -> Numbers:
    """Return the mean of the newest `length` rows, a missing one as the last before it.

    Nan where fewer than half are read.
    """
    return np.where(
        part_read(values, length) >= HALF_READ, trailing_mean(forward_fill(values), length), np.nan
    )


def part_read(values: Numbers, length: int) -> Numbers:
    """Return which part of the newest `length` rows has a reading.

    Nan before there are as many rows.
    """
    return trailing_mean((~np.isnan(values)).astype(np.float64), length)


def strangeness(series: ScoredSeries, signals: tuple[SeriesSignal, ...] = SIGNALS) -> Numbers:
    """Return the sum of the signals at each row, 1 is worth speaking of.

    (n,) >= 0, 0 where there is no reading.
    """
    added = flat_rows(series.values, 4 * series.pace.hour)
    added[: series.pace.learning] = 0
    for signal in signals:
        added += signal.strength(series)
    added[np.isnan(series.values)] = 0
    rows = np.flatnonzero(added)
    added[rows] += np.minimum(
        beyond_envelope(series, rows), np.minimum(ENVELOPE_MOST, ENVELOPE_SHARE * added[rows])
    )
    return added


@dataclass(frozen=True)
class Season:
    """Name a period in seconds, how many are looked back at, and how many must have a reading."""

    seconds: float
    back: int
    needed: int


SEASONS = (Season(DAY, 7, 3), Season(WEEK, 4, 2))


def usual_at(seconds: Numbers, values: Numbers, season: Season) -> Numbers:
    """Return the median of the values a whole number of periods ago.

    (n,), nan where too few are known.
    """
    past = np.stack(
        [_ago(seconds, values, season.seconds * n, seconds) for n in range(1, season.back + 1)]
    )
    past.sort(axis=0)  # nan last
    n_known = (~np.isnan(past)).sum(axis=0)
    lower = np.take_along_axis(past, (np.maximum(n_known - 1, 0) // 2)[None], axis=0)[0]
    upper = np.take_along_axis(past, np.minimum(n_known // 2, season.back - 1)[None], axis=0)[0]
    return np.where(n_known >= season.needed, (lower + upper) / 2, np.nan)


def _ago(seconds: Numbers, values: Numbers, age: float, now: Numbers) -> Numbers:
    """Return at each time of `now` the newest of values (..., n) at least `age` seconds old.

    Nan where it is an hour older.
    """
    row = np.searchsorted(seconds, now - age, side="right") - 1
    fresh = (row >= 0) & (now - age - seconds[np.maximum(row, 0)] <= HOUR)
    return np.where(fresh, values[..., np.maximum(row, 0)], np.nan)


def fitting_better(residuals: Numbers, every: int) -> Numbers:
    """Return the residuals (seasons, n), nan where another season had the smaller error so far.

    The error is the mean where all seasons are known. The choice is made anew every `every` rows,
    from the errors up to then, so that later rows change nothing before them.
    """
    errors = np.abs(residuals)
    sums = np.cumsum(np.where(np.isnan(errors).any(axis=0), 0.0, errors), axis=1)
    before = np.pad(sums, ((0, 0), (1, 0)))
    row = np.arange(errors.shape[1]) // every * every
    chosen = before[:, row].argmin(axis=0)
    return np.where(chosen == np.arange(len(residuals))[:, None], residuals, np.nan)


MOVES = count("signals.MOVES")


def counted(values: Numbers, learning: int) -> Numbers:
    """Return the increases of a counter, nan at a restart, or the values of anything else, (n,).

    The first `learning` rows, which are never judged, tell which it is: later rows change nothing
    before them.
    """
    filled = forward_fill(values)
    increases = filled - delayed(filled, 1)
    restarts = restarted(filled)
    if not is_counter(increases[:learning], restarts[:learning]):
        return values
    return np.where(restarts | np.isnan(values), np.nan, increases)


def restarted(filled: Numbers) -> Mask:
    """Return the rows where a count that never was negative has begun again near zero; (n,)."""
    return np.asarray((filled >= 0) & (filled < number("signals.RESTART") * delayed(filled, 1)))


def is_counter(increases: Numbers, restarts: Mask) -> bool:
    """Tell a counter: it has only ever risen or restarted, and restarts are rare."""
    moves = increases[~np.isnan(increases) & (increases != 0)]
    falls, rises = int((moves < 0).sum()), int((moves > 0).sum())
    return rises >= MOVES and falls <= rises // MOVES and falls == int(restarts.sum())
