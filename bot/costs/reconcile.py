"""Remember the estimate of each month as it was made, and set it against the final bill."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from bot.costs.nowcast import forecast_month, forecast_of
from bot.costs.tally import BilledBy, billed_part, settled_by
from bot.errors import TrnbotError
from bot.model.money import cents
from bot.model.reading import Reading
from bot.model.spend import Money, Tally
from bot.model.window import Window, month_of
from bot.ports import Billing, Documents, DocumentStore, Ports

MIDDLE = timedelta(days=15)
"""When in a month its estimate is taken: late enough for settled days, early enough to act on."""
LAG = timedelta(days=1)
"""How far behind the clock the bill is taken to have been, where an estimate is made again."""


@dataclass(frozen=True)
class Estimate:
    """State the estimate of a month: its amortised cost with its range, and when it was made."""

    at: datetime
    forecast: Decimal
    low: Decimal
    high: Decimal
    remembered: bool
    """Whether it was stored on that day.

    Else it is made again from the figures that the bill has now.
    """
    settled: datetime | None = None
    """The midnight before which the bill it knew had come to rest; None where nobody kept that."""
    spent: Decimal | None = None
    """Its amortised cost of the month up to then; the rest of `forecast` was an estimate."""

    def until(self, end: datetime, month: Window) -> Decimal | None:
        """Return what it expected of the month up to `end`, its rest spread evenly.

        None for hours that it knew already.
        """
        if self.settled is None or self.spent is None or not self.settled < end <= month.end:
            return None
        begin = max(self.settled, month.start)
        share = Decimal((end - begin) / (month.end - begin))
        return cents(self.spent + (self.forecast - self.spent) * share)


@dataclass(frozen=True)
class SameHours:
    """Hold a month that goes on up to `end`.

    What its estimate expected of these hours, and what was billed for them.
    """

    end: datetime
    estimated: Decimal
    billed: Decimal

    @property
    def difference(self) -> Decimal:
        """Return billed less estimated amortised cost."""
        return self.billed - self.estimated

    @property
    def ratio(self) -> Decimal | None:
        """Return the difference as a share of what was billed."""
        return self.difference / self.billed if self.billed > 0 else None


@dataclass(frozen=True)
class Reconciled:
    """Hold a month, its estimate (None: too few days were settled), and the bill's figures.

    `final` once AWS rewrites nothing.
    """

    month: Window
    estimate: Estimate | None
    money: Money
    final: bool
    so_far: SameHours | None = None
    """The settled hours after its estimate, where the month is not final."""

    @property
    def difference(self) -> Decimal | None:
        """Return final less estimated amortised cost.

        None while there is no final figure, or no estimate.
        """
        if not self.final or self.estimate is None:
            return None
        return self.money.amortised - self.estimate.forecast

    @property
    def ratio(self) -> Decimal | None:
        """Return the difference as a share of the final figure."""
        if self.difference is None or self.money.amortised <= 0:
            return None
        return self.difference / self.money.amortised

    @property
    def within(self) -> bool | None:
        """Return whether the final figure lay in the estimate's range."""
        if self.difference is None or self.estimate is None:
            return None
        return self.estimate.low <= self.money.amortised <= self.estimate.high


def estimated(billing: Billing, month: Window, now: datetime) -> Estimate | None:
    """Make a month's estimate again as it would have been in its middle, or now before that.

    May block.
    """
    at = min(month.start + MIDDLE, now)
    nowcast = forecast_month(BilledBy(billing, at, LAG), at)
    if nowcast is None:
        return None
    return Estimate(
        at,
        nowcast.forecast,
        nowcast.low,
        nowcast.high,
        remembered=False,
        settled=nowcast.settled,
        spent=nowcast.spent,
    )


@dataclass(frozen=True)
class MonthForecast:
    """Hold the forecast of the month as of one day.

    Its figures are None where too little was billed.
    """

    at: datetime
    forecast: Decimal | None = field(default=None, metadata={"optional": True})
    low: Decimal | None = field(default=None, metadata={"optional": True})
    high: Decimal | None = field(default=None, metadata={"optional": True})
    settled: datetime | None = field(default=None, metadata={"optional": True})
    spent: Decimal | None = field(default=None, metadata={"optional": True})

    def estimate(self) -> Estimate | None:
        """Return the forecast as an estimate that was remembered, None where it holds none."""
        if self.forecast is None or self.low is None or self.high is None:
            return None
        return Estimate(self.at, self.forecast, self.low, self.high, True, self.settled, self.spent)


ESTIMATES = Documents("estimates", MonthForecast)
_MOST = 1000
log = logging.getLogger("trnbot.reconcile")


def remember_estimate(ports: Ports, now: datetime, reading: Reading | None = None) -> None:
    """Keep this day's estimate of its month, once a day; a failure is tried again at the next tick.

    May block.

    `reading` tells of the days that no bill tells of yet.
    """
    day, store = f"{now:%Y-%m-%d}", ports.stores.documents
    try:
        if ESTIMATES.get(store, day) is not None:
            return
        estimate = MonthForecast(now)
        if nowcast := forecast_of(ports, now, reading):
            estimate = MonthForecast(
                now, nowcast.forecast, nowcast.low, nowcast.high, nowcast.settled, nowcast.spent
            )
        ESTIMATES.put(store, day, estimate)
    except TrnbotError as error:
        log.info("the month is not estimated: %s", error)


def reconciled(
    billing: Billing, store: DocumentStore, window: Window, now: datetime
) -> list[Reconciled]:
    """Return every month that the window touches and that has begun, oldest first; may block."""
    estimates = [
        estimate for _, day in ESTIMATES.newest(store, _MOST) if (estimate := day.estimate())
    ]
    months = []
    month = month_of(window.start)
    while month.start < min(window.end, now):
        months.append(_reconciled(billing, month, estimates, now))
        month = month_of(month.end)
    return months


def _reconciled(
    billing: Billing, month: Window, estimates: list[Estimate], now: datetime
) -> Reconciled:
    """Set the estimate that was made nearest to a month's middle against its bill."""
    tally = billing.tally(month, ("day",))
    middle = month.start + MIDDLE
    estimate = min(
        (estimate for estimate in estimates if estimate.at in month and estimate.at <= now),
        key=lambda estimate: abs(estimate.at - middle),
        default=None,
    ) or estimated(billing, month, now)

    through = tally.billed_through
    is_open = any(row.estimated for row in tally.rows) or through is None or through < month.end
    if tally.rows and not is_open and billed_part(tally) == month:
        return Reconciled(month, estimate, tally.total, final=True)
    return Reconciled(
        month, estimate, tally.total, final=False, so_far=_so_far(estimate, month, tally, now)
    )


def _so_far(
    estimate: Estimate | None, month: Window, tally: Tally, now: datetime
) -> SameHours | None:
    """Compare the settled days of a month that goes on.

    None where none has settled since the estimate.
    """
    settled = settled_by(tally, now)
    if settled is None or estimate is None:
        return None
    end = min(settled, month.end)
    expected = estimate.until(end, month)
    if expected is None:
        return None
    days = [row for row in tally.rows if row.key["day"] < f"{end:%Y-%m-%d}"]
    return SameHours(end, expected, sum((row.money.amortised for row in days), Decimal(0)))
