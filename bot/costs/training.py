"""Work out the cost of training runs, and compare two."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from statistics import mean, variance

import numpy as np

from bot.model.frame import Doubles, Frame, Mask
from bot.model.money import cents, cents_of
from bot.model.run import Run
from bot.model.window import HOUR

Losses = tuple[tuple[float, Decimal, float], ...]
"""Each new lowest loss, with the USD and the hours until it was reached."""
_BILLION = Decimal(10**9)
_SMOOTH = HOUR
_LATER = timedelta(seconds=60)


@dataclass(frozen=True)
class Paid:
    """State one node of a run.

    When it ran, the USD of an hour, and of each hour that was billed by itself. None where no
    price is known.
    """

    started_at: datetime
    ended_at: datetime | None
    usd_per_hour: Decimal | None
    hourly: Mapping[datetime, Decimal] = field(default_factory=dict)

    def up(self, begins: Doubles, ends: Doubles) -> Doubles:
        """Return the hours that it was up within spans, both in seconds since 1970."""
        ended = self.ended_at.timestamp() if self.ended_at else math.inf
        seconds: Doubles = np.minimum(ends, ended) - np.maximum(begins, self.started_at.timestamp())
        return seconds.clip(0) / 3600

    def rates(self, begins: Doubles) -> tuple[Doubles, Mask]:
        """Return the USD of an hour at times in seconds since 1970, and which of them were billed.

        USD are nan where they are not known. An hour in which it came or went is billed for the time
        that it was up.
        """
        usual = np.nan if self.usd_per_hour is None else float(self.usd_per_hour)

        # Most nodes of the weeks that are kept had ended, or were yet to come.
        first, last = begins[:1] // 3600 * 3600, begins[-1:] // 3600 * 3600
        if not self.hourly or not self.up(first, last + 3600).any():
            return np.full(begins.size, usual), np.zeros(begins.size, dtype=bool)

        hours, place = np.unique(begins // 3600, return_inverse=True)
        usd = np.full(hours.size, usual)
        billed = np.zeros(hours.size, dtype=bool)
        for i, up in enumerate(self.up(hours * 3600, hours * 3600 + 3600)):
            cost = self.hourly.get(datetime.fromtimestamp(int(hours[i]) * 3600, UTC))
            if cost is not None and up > 0:
                usd[i], billed[i] = float(cost) / up, True
        return usd[place], billed[place]


@dataclass(frozen=True)
class Epoch:
    """State one finished epoch.

    USD and hours from the end of the one before, repeated work included. USD are None where no
    price is known.
    """

    number: int
    usd: Decimal | None
    hours: float


@dataclass(frozen=True)
class RunCost:
    """State a run's cost over the time that was seen.

    None where the run does not report the figures it takes; USD are None where no price of any of
    its nodes is known.
    """

    run: Run
    since: datetime
    until: datetime
    whole: bool
    """Whether the run's first step was seen; else everything counts from `since` on."""
    nodes: float
    """Mean over the time; of nodes that several runs share, its part."""
    usd: Decimal | None
    epochs: tuple[Epoch, ...]
    partial_epoch: float | None
    """Share of the epoch that is under way."""
    partial_usd: Decimal | None
    tokens: float | None
    checkpoints: int | None
    losses: Losses
    """Each new lowest loss (mean of an hour) with the USD and the hours until it was reached."""
    billed: float = 0.0
    """Share of its node-hours that cost what they were billed at.

    The others cost their nodes' price.
    """

    @property
    def usd_per_epoch(self) -> Decimal | None:
        """Return the USD of all finished epochs over their number, to the cent."""
        known = [epoch.usd for epoch in self.epochs if epoch.usd is not None]
        return cents(sum(known, Decimal(0)) / len(known)) if known else None

    @property
    def hours_per_epoch(self) -> float | None:
        """Return the hours of all finished epochs over their number."""
        return sum(epoch.hours for epoch in self.epochs) / len(self.epochs) if self.epochs else None

    @property
    def usd_per_billion_tokens(self) -> Decimal | None:
        """Return USD over the tokens gained; work done twice gains none."""
        return _over(self.usd, Decimal(str(self.tokens)) / _BILLION) if self.tokens else None

    @property
    def usd_per_billion_parameters(self) -> Decimal | None:
        """Return USD over the model's size."""
        size = self.run.parameters
        return _over(self.usd, Decimal(str(size)) / _BILLION) if size else None

    @property
    def usd_per_checkpoint(self) -> Decimal | None:
        """Return USD over the checkpoints written meanwhile."""
        return _over(self.usd, Decimal(self.checkpoints)) if self.checkpoints else None


def reporting(series: Frame, row: int) -> slice | None:
    """Return the steps from a run's first report to its last, None where it never reported."""
    reported = np.flatnonzero(~np.isnan(series.values[row]).all(axis=1))
    return slice(int(reported[0]), int(reported[-1]) + 1) if reported.size else None


def _begun(epochs: Doubles) -> float | None:
    """Return the share of an epoch that is done, None of a trainer that counts whole ones alone."""
    counts = epochs[~np.isnan(epochs)]
    return float(epochs[-1] % 1) if (counts % 1 > 0).any() else None


def run_cost(
    run: Run, series: Frame, nodes: Sequence[Paid], among: Doubles | None = None
) -> RunCost | None:
    """Return the cost of a run while it was seen; `series` holds its one row.

    None where it never reported.

    A node counts from its start to its end, or to the run's last report: also while it restarts,
    waits or compiles. `among` is how many runs share the nodes at each step, (n_steps,).
    """
    span = reporting(series, 0)
    if span is None:
        return None
    cut = replace(
        series, start=series.start + span.start * series.step, values=series.values[:, span]
    )
    sharing = np.ones(cut.n_steps) if among is None else among[span]
    node_hours, spent, billed = _spent(cut, nodes, sharing)
    total = _usd(spent[-1])

    epochs, reached = _line(cut, "run_epoch_count"), _line(cut, "run_tokens_count")
    whole = span.start > 0 and (epochs is None or bool(epochs[0] < 0.5))
    finished = _epochs(epochs, spent, cut.step, whole) if epochs is not None else ()
    after = None if total is None else Decimal(0)
    if epochs is not None and finished and total is not None:
        after = total - cents_of(_at(epochs, spent, math.floor(epochs[-1])))

    # Of a run that was seen from its start on, every token was gained meanwhile.
    gained_before = 0 if whole or reached is None else reached[0]
    return RunCost(
        run,
        since=cut.start,
        until=cut.end,
        whole=whole,
        nodes=node_hours / (cut.n_steps * (cut.step / HOUR)),
        usd=total,
        epochs=finished,
        partial_epoch=None if epochs is None else _begun(epochs),
        partial_usd=after,
        tokens=None if reached is None else float(reached[-1] - gained_before),
        checkpoints=_checkpoints(cut),
        losses=_losses(cut, spent) if total is not None else (),
        billed=billed,
    )


def _spent(cut: Frame, nodes: Sequence[Paid], among: Doubles) -> tuple[float, Doubles, float]:
    """Return node-hours, the USD spent by the end of every step, and the billed share.

    The USD begin with 0 at the start of the first step: n + 1 values. They are of the nodes whose
    price is known, and nan where none is.
    """
    hours, of_bill, dollars, priced = 0.0, 0.0, np.zeros(cut.n_steps), False
    step = cut.step.total_seconds()
    begins: Doubles = cut.start.timestamp() + np.arange(cut.n_steps, dtype=np.float64) * step
    for node in nodes:
        up = node.up(begins, begins + step) / among
        rates, billed = node.rates(begins)
        hours += float(up.sum())
        of_bill += float(up[billed].sum())
        known = ~np.isnan(rates)
        dollars[known] += (up * rates)[known]
        priced = priced or bool(known.any())

    spent = np.append(0.0, np.cumsum(dollars)) if priced else np.full(cut.n_steps + 1, np.nan)
    return hours, spent, of_bill / hours if hours else 0.0


def _line(cut: Frame, metric: str) -> Doubles | None:
    """Return the highest value reached by each step; None where it is not reported.

    A restart gains nothing.
    """
    values = cut.of(metric)[0].astype(np.float64)
    if np.isnan(values).all():
        return None
    reached: Doubles = np.fmax.accumulate(values)
    return np.where(np.isnan(reached), reached[~np.isnan(reached)][0], reached)


def _epochs(line: Doubles, spent: Doubles, step: timedelta, whole: bool) -> tuple[Epoch, ...]:
    """Return the epochs between whole numbers of a line; a run that is seen whole begins at 0."""
    ends = range(0 if whole else math.ceil(line[0]), math.floor(line[-1]) + 1)
    usd = [_usd(_at(line, spent, n)) for n in ends]
    hours = [_when(line, n) * (step / HOUR) for n in ends]
    if whole:
        usd[:1], hours[:1] = [_usd(spent[0])], [0.0]
    return tuple(
        Epoch(number, None if now is None or then is None else now - then, hours[n] - hours[n - 1])
        for n, (number, then, now) in enumerate(zip(ends[1:], usd, usd[1:], strict=False), 1)
    )


def _when(line: Doubles, value: float) -> float:
    """Return the step at which a line passes a value, between two readings by proportion.

    Step i ends at i + 1.
    """
    i = int(np.searchsorted(line, value, side="left"))
    if i == 0:
        return 1.0
    below, above = float(line[i - 1]), float(line[i])
    return i + (value - below) / (above - below)


def _at(line: Doubles, spent: Doubles, value: float) -> float:
    """Return the USD spent when the line passed a value."""
    return float(np.interp(_when(line, value), np.arange(spent.size), spent))


def _checkpoints(cut: Frame) -> int | None:
    """Count the checkpoints written.

    Times that the newest one's own time moved on, a restore apart.
    """
    age = cut.of("run_checkpoint_age_seconds")[0].astype(np.float64)
    reported = np.flatnonzero(~np.isnan(age))
    if reported.size < 2:
        return None
    moved = np.diff(reported * cut.step.total_seconds() - age[reported]) > _LATER.total_seconds()
    fell = np.diff(cut.of("run_step_count")[0].astype(np.float64)[reported]) < 0
    return int((moved & ~fell).sum())


def _losses(cut: Frame, spent: Doubles) -> Losses:
    """Return each new lowest mean of an hour that is reported by half at least."""
    loss = cut.of("run_loss")[0].astype(np.float64)
    width = min(cut.steps(_SMOOTH), loss.size)
    reported = ~np.isnan(loss)
    sums = np.convolve(np.where(reported, loss, 0.0), np.ones(width))[: loss.size]
    counts = np.convolve(reported.astype(float), np.ones(width))[: loss.size]
    enough = np.flatnonzero((counts >= max(1, width // 2)) & reported)
    means = sums[enough] / counts[enough]
    lower = means < np.minimum.accumulate(np.append(math.inf, means))[:-1]
    return tuple(
        (float(mean), cents_of(spent[i + 1]), int(i + 1) * (cut.step / HOUR))
        for i, mean in zip(enough[lower], means[lower], strict=True)
    )


def _usd(spent: float) -> Decimal | None:
    """Return an amount to the cent, None where it is not known."""
    return None if math.isnan(spent) else cents_of(spent)


def _over(usd: Decimal | None, count: Decimal) -> Decimal | None:
    return None if usd is None else cents(usd / count)


FEWEST = 3
"""Epochs of a side that are compared."""
# Student's t at 97.5 % (two-sided 95 %) for 1 to 20 degrees of freedom, then 25, 30, 60 and without
# end.
_T95 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
)
_COMPARE_LATER = ((60, 2.000), (30, 2.042), (25, 2.060), (20, 2.086))
_SAME_SHARE = 0.05


@dataclass(frozen=True)
class Sample:
    """State one side: USD and hours of each epoch, and its losses to compare by."""

    name: str
    usd: tuple[Decimal, ...]
    hours: tuple[float, ...]
    tokens_per_epoch: float | None = None
    usd_per_billion_tokens: Decimal | None = None
    losses: Losses = ()
    types: tuple[str, ...] = ()
    parameters: float | None = field(default=None, metadata={"optional": True})
    tokens: float | None = field(default=None, metadata={"optional": True})
    nodes: float | None = field(default=None, metadata={"optional": True})
    """Mean over the time that it was seen.

    None where several runs share them, and whose work is whose is not known.
    """
    node_hours: float | None = field(default=None, metadata={"optional": True})

    @property
    def size(self) -> float | None:
        """Return the parameters to two digits, None where the trainer reports none."""
        # Trainers count the parameters of one model a little differently.
        return float(f"{self.parameters:.2g}") if self.parameters else None

    @property
    def millions(self) -> float | None:
        """Return the millions of tokens gained a node-hour."""
        return self.tokens / self.node_hours / 1e6 if self.tokens and self.node_hours else None


@dataclass(frozen=True)
class Difference:
    """State B's mean less A's, with the 95 % interval of Welch's t.

    `sure` when the interval does not hold 0.
    """

    mean: float
    low: float
    high: float

    @property
    def sure(self) -> bool:
        """Return whether the difference stands out from the noise."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class EqualLoss:
    """State each side's cost and hours from one loss to a lower one that both passed."""

    high: float
    low: float
    a: tuple[Decimal, float]
    b: tuple[Decimal, float]


@dataclass(frozen=True)
class RunComparison:
    """Hold the comparison of two sides; None for each part that cannot be compared."""

    a: Sample
    b: Sample
    usd: Difference | None
    hours: Difference | None
    equal_loss: EqualLoss | None
    same_epochs: bool | None
    """Whether their epochs hold as many tokens, None where that is not reported."""


def compare(a: Sample, b: Sample) -> RunComparison:
    """Return the comparison; nothing is said of epochs with fewer than three on a side."""
    dollars = time = same_epochs = None
    if min(len(a.usd), len(b.usd)) >= FEWEST:
        dollars = difference([float(x) for x in a.usd], [float(x) for x in b.usd])
        time = difference(a.hours, b.hours)
    if a.tokens_per_epoch and b.tokens_per_epoch:
        apart = abs(a.tokens_per_epoch - b.tokens_per_epoch)
        same_epochs = apart <= _SAME_SHARE * a.tokens_per_epoch
    return RunComparison(a, b, dollars, time, equal_loss(a, b), same_epochs)


def difference(a: Sequence[float], b: Sequence[float]) -> Difference:
    """Return the mean difference b - a and its interval (Welch, 1947)."""
    parts = [variance(side) / len(side) for side in (a, b)]
    gap, spread = mean(b) - mean(a), sum(parts)
    if spread == 0:
        return Difference(gap, gap, gap)
    # Welch and Satterthwaite's degrees of freedom.
    freedom = spread**2 / sum(
        part**2 / (len(side) - 1) for part, side in zip(parts, (a, b), strict=True)
    )
    reach = student_t(freedom) * spread**0.5
    return Difference(gap, gap - reach, gap + reach)


def student_t(freedom: float) -> float:
    """Return Student's t at 97.5 %, of the next lower degrees of freedom that are listed."""
    n = max(1, int(freedom))
    if n <= len(_T95):
        return _T95[n - 1]
    return next(t for least, t in _COMPARE_LATER if n >= least)


def equal_loss(a: Sample, b: Sample) -> EqualLoss | None:
    """Return the cost between two losses that both passed, the widest such span.

    None where there is none, or where either side took less than an hour for it.
    """
    if not a.losses or not b.losses:
        return None
    high = min(a.losses[0][0], b.losses[0][0])
    low = max(a.losses[-1][0], b.losses[-1][0])
    if low >= high:
        return None

    # A loss is a mean of an hour: what took less than that on either side is not measured.
    first, second = (_between(side.losses, high, low) for side in (a, b))
    if min(first[1], second[1]) < _SMOOTH / HOUR:
        return None
    return EqualLoss(high, low, first, second)


def _between(losses: Losses, high: float, low: float) -> tuple[Decimal, float]:
    begin, end = (next(point for point in losses if point[0] <= loss) for loss in (high, low))
    return end[1] - begin[1], end[2] - begin[2]
