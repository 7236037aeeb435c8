"""Tell when porting to Trainium has paid for itself, and when it never does."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal

_CENT, _TENTH = Decimal("0.01"), Decimal("0.1")


@dataclass(frozen=True)
class Porting:
    """State a port: engineer-months, USD of an engineer a year, what compiling anew costs, and the GPU bill that it would cut."""

    months: Decimal
    usd_per_year: Decimal
    bill_usd: Decimal
    """USD of GPU training a month; of one run where `runs` is given."""
    saving_low: Decimal
    saving_high: Decimal
    runs: int | None = None
    """How often it will be trained in all; None = every month, without an end."""
    recompile_usd: Decimal = Decimal(0)

    @property
    def cost(self) -> Decimal:
        """Return what the port costs in USD, compiling anew included."""
        return (self.months * self.usd_per_year / 12 + self.recompile_usd).quantize(_CENT, ROUND_HALF_EVEN)


@dataclass(frozen=True)
class Payback:
    """State one saving's outcome: USD saved a month (or a run), months (or runs) until it has paid, None = never."""

    saving: Decimal
    saved_each: Decimal
    periods: Decimal | None
    balance: Decimal
    """USD gained (or lost) after the horizon, or after every run."""


def payback(port: Porting, saving: Decimal, horizon_months: int) -> Payback:
    """Return the outcome at one saving, a share of the bill."""
    each = (port.bill_usd * saving).quantize(_CENT, ROUND_HALF_EVEN)
    times = horizon_months if port.runs is None else port.runs
    periods = (port.cost / each).quantize(_TENTH, "ROUND_CEILING") if each > 0 else None
    if port.runs is not None and periods is not None and each * port.runs < port.cost:
        periods = None
    return Payback(saving, each, periods, each * times - port.cost)


def outcomes(port: Porting, horizon_months: int) -> tuple[Payback, ...]:
    """Return the outcome at the low and the high saving; one where they are the same."""
    return tuple(payback(port, saving, horizon_months) for saving in dict.fromkeys((port.saving_low, port.saving_high)))
