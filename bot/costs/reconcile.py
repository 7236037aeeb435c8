"""Set what was estimated for a month against what it finally cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal

from bot.costs.nowcast import Nowcast, month_end
from bot.costs.tally import settled_until
from bot.model.spend import Money
from bot.model.window import Window

MIDDLE = timedelta(days=15)
"""When in a month its estimate is taken: late enough for settled days, early enough to act on."""
_LAG = timedelta(days=1)
"""How far behind the clock the bill is taken to have been, where the estimate is made again afterwards."""


@dataclass(frozen=True)
class Estimate:
    """State what was expected of a month: its amortised cost with an 80 % range, and when that was."""

    at: datetime
    forecast: Decimal
    low: Decimal
    high: Decimal
    remembered: bool
    """Said then, and kept; else made again from the figures that the bill has now."""


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
        """Tell whether the final figure lay in the estimate's range."""
        if self.difference is None or self.estimate is None:
            return None
        return self.estimate.low <= self.money.amortised <= self.estimate.high


def estimated(daily: Mapping[date, Decimal], month: Window) -> Estimate | None:
    """Make a month's estimate again as it would have been in its middle; `daily` reaches two weeks before the month."""
    at = month.start + MIDDLE
    settled = settled_until(at - _LAG)
    found = month_end({day: usd for day, usd in daily.items() if day < settled.date()}, month, settled)
    return of_nowcast(found, at, remembered=False) if found else None


def of_nowcast(found: Nowcast, at: datetime, *, remembered: bool) -> Estimate:
    """Keep of a forecast what is compared."""
    return Estimate(at, found.forecast, found.low, found.high, remembered)
