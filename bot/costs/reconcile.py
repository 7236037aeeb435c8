"""Remember the estimate of each month as it was made, and set it against the final bill."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal

from bot.costs.nowcast import Nowcast, month_end
from bot.costs.tally import settled_until
from bot.errors import TrnbotError
from bot.model.spend import Money, Tally
from bot.model.window import NO_TIME, Window, month_of
from bot.ports import Billing, Documents, DocumentStore, Ports

MIDDLE = timedelta(days=15)
"""When in a month its estimate is taken: late enough for settled days, early enough to act on."""
_LAG = timedelta(days=1)
"""How far behind the clock the bill is taken to have been, where the estimate is made again afterwards."""


@dataclass(frozen=True)
class Estimate:
    """State the estimate of a month: its amortised cost with an 80 % range, and when it was made."""

    at: datetime
    forecast: Decimal
    low: Decimal
    high: Decimal
    remembered: bool
    """Whether it was stored on that day; else it is made again from the figures that the bill has now."""


@dataclass(frozen=True)
class Reconciled:
    """Hold a month, its estimate (None: too few days were settled), and the bill's figures; `final` once AWS rewrites nothing."""

    month: Window
    estimate: Estimate | None
    money: Money
    final: bool

    @property
    def difference(self) -> Decimal | None:
        """Return final less estimated amortised cost; None while there is no final figure, or no estimate."""
        return self.money.amortised - self.estimate.forecast if self.final and self.estimate else None

    @property
    def ratio(self) -> Decimal | None:
        """Return the difference as a share of the final figure."""
        return self.difference / self.money.amortised if self.difference is not None and self.money.amortised > 0 else None

    @property
    def within(self) -> bool | None:
        """Return whether the final figure lay in the estimate's range."""
        if self.difference is None or self.estimate is None:
            return None
        return self.estimate.low <= self.money.amortised <= self.estimate.high


def estimated(daily: Mapping[date, Decimal], month: Window) -> Estimate | None:
    """Make a month's estimate again as it would have been in its middle; `daily` reaches two weeks before the month."""
    at = month.start + MIDDLE
    settled = settled_until(at - _LAG)
    forecast = month_end({day: usd for day, usd in daily.items() if day < settled.date()}, month, settled)
    return of_nowcast(forecast, at, remembered=False) if forecast else None


def of_nowcast(nowcast: Nowcast, at: datetime, *, remembered: bool) -> Estimate:
    """Return the estimate that holds the figures of a forecast."""
    return Estimate(at, nowcast.forecast, nowcast.low, nowcast.high, remembered)


@dataclass(frozen=True)
class MonthForecast:
    """Hold the forecast of the month as of one day; its figures are None where too little was billed."""

    at: datetime
    forecast: Decimal | None = field(default=None, metadata={"optional": True})
    low: Decimal | None = field(default=None, metadata={"optional": True})
    high: Decimal | None = field(default=None, metadata={"optional": True})

    def estimate(self) -> Estimate | None:
        """Return the forecast as an estimate that was remembered, None where it holds none."""
        if self.forecast is None or self.low is None or self.high is None:
            return None
        return Estimate(self.at, self.forecast, self.low, self.high, remembered=True)


ESTIMATES = Documents("estimates", MonthForecast)
_BEFORE = timedelta(days=14)
_MOST = 1000
log = logging.getLogger("trnbot.reconcile")


def remember_estimate(ports: Ports, now: datetime) -> None:
    """Keep this day's estimate of its month, once a day; a failure is tried again at the next tick. May block."""
    day = f"{now:%Y-%m-%d}"
    try:
        if ESTIMATES.get(ports.stores.documents, day) is None:
            ESTIMATES.put(ports.stores.documents, day, _expected(ports.world.billing, now))
    except TrnbotError as error:
        log.info("the month is not estimated: %s", error)


def _expected(billing: Billing, now: datetime) -> MonthForecast:
    """Return the forecast of the month with its range."""
    through = billing.tally(NO_TIME, ()).billed_through
    month = month_of(now)
    nowcast = through and month_end(_daily(billing, month)[0], month, settled_until(min(through, now)))
    return MonthForecast(now, nowcast.forecast, nowcast.low, nowcast.high) if nowcast else MonthForecast(now)


def reconciled(billing: Billing, store: DocumentStore, window: Window, now: datetime) -> list[Reconciled]:
    """Return every month that the window touches and that has begun, oldest first; may block."""
    estimates = [estimate for _, day in ESTIMATES.newest(store, _MOST) if (estimate := day.estimate())]
    return [_month(billing, month, estimates) for month in _months(window, now)]


def _month(billing: Billing, month: Window, estimates: list[Estimate]) -> Reconciled:
    daily, tally = _daily(billing, month)
    middle = month.start + MIDDLE
    of_month = [estimate for estimate in estimates if month.start <= estimate.at < month.end]
    then = min(of_month, key=lambda estimate: abs(estimate.at - middle), default=None)
    through = tally.billed_through
    final = bool(tally.rows) and not any(row.estimated for row in tally.rows) and through is not None and through >= month.end
    return Reconciled(month, then or estimated(daily, month), tally.total, final)


def _daily(billing: Billing, month: Window) -> tuple[Mapping[date, Decimal], Tally]:
    """Return amortised cost by day from two weeks before the month on, and the month's own tally by day."""
    before = billing.tally(Window(month.start - _BEFORE, month.start), ("day",))
    tally = billing.tally(month, ("day",))
    rows = (*before.rows, *tally.rows)
    return {date.fromisoformat(row.key["day"]): row.money.amortised for row in rows}, tally


def _months(window: Window, now: datetime) -> Iterator[Window]:
    month = month_of(window.start)
    while month.start < min(window.end, now):
        yield month
        month = month_of(month.end)
