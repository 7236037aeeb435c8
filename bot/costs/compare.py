"""Compare the cost of two runs.

The difference of their epochs with its confidence interval, and the cost of an equal loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from statistics import mean, variance

FEWEST = 3
# Student's t at 97.5 % (two-sided 95 %) for 1 to 20 degrees of freedom, then 25, 30, 60 and without
# end.
_T95 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
)
_LATER = ((60, 2.000), (30, 2.042), (25, 2.060), (20, 2.086))
_SAME_SHARE = 0.05


@dataclass(frozen=True)
class Sample:
    """State one side: USD and hours of each epoch, and its losses to compare by."""

    name: str
    usd: tuple[Decimal, ...]
    hours: tuple[float, ...]
    tokens_per_epoch: float | None = None
    usd_per_billion_tokens: Decimal | None = None
    losses: tuple[tuple[float, Decimal, float], ...] = ()


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
    enough = min(len(a.usd), len(b.usd)) >= FEWEST
    dollars = difference([float(x) for x in a.usd], [float(x) for x in b.usd]) if enough else None
    time = difference(a.hours, b.hours) if enough else None
    return RunComparison(a, b, dollars, time, equal_loss(a, b), _same(a, b))


def difference(a: Sequence[float], b: Sequence[float]) -> Difference:
    """Return the mean difference b - a and its interval (Welch, 1947.

    Welch and Satterthwaite's degrees of freedom).
    """
    parts = [variance(side) / len(side) for side in (a, b)]
    gap, spread = mean(b) - mean(a), sum(parts)
    if spread == 0:
        return Difference(gap, gap, gap)
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
    return next(t for least, t in _LATER if n >= least)


def equal_loss(a: Sample, b: Sample) -> EqualLoss | None:
    """Return the cost between two losses that both passed, the widest such span.

    None where there is none.
    """
    if not a.losses or not b.losses:
        return None
    high = min(a.losses[0][0], b.losses[0][0])
    low = max(a.losses[-1][0], b.losses[-1][0])
    if low >= high:
        return None
    return EqualLoss(high, low, _between(a, high, low), _between(b, high, low))


def _between(side: Sample, high: float, low: float) -> tuple[Decimal, float]:
    begin, end = (next(point for point in side.losses if point[0] <= at) for at in (high, low))
    return end[1] - begin[1], end[2] - begin[2]


def _same(a: Sample, b: Sample) -> bool | None:
    if not a.tokens_per_epoch or not b.tokens_per_epoch:
        return None
    return abs(a.tokens_per_epoch - b.tokens_per_epoch) <= _SAME_SHARE * a.tokens_per_epoch
