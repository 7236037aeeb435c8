"""Add up what a year of the same training costs on two instance types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal

from bot.model.fleet import Market
from bot.model.price import Basis, Price

_CENT = Decimal("0.01")


@dataclass(frozen=True)
class Work:
    """State a year's training as the first type does it: node-hours a month, data out, compiling, engineering."""

    nodes: int
    hours_a_month: Decimal
    months: int
    egress_gb_a_month: Decimal
    compile_hours_a_month: Decimal
    """Of one node, while the others wait for nothing; Neuron types only."""
    engineering_usd: Decimal
    """Once, on the second type alone: the port."""


@dataclass(frozen=True)
class Total:
    """State one option's four lines in USD, and the hours that they stand for."""

    price: Price
    speed: float
    hours: Decimal
    instances: Decimal
    egress: Decimal
    compiling: Decimal
    engineering: Decimal

    @property
    def total(self) -> Decimal:
        """Return the sum of the four lines."""
        return self.instances + self.egress + self.compiling + self.engineering


def total(work: Work, price: Price, speed: float, usd_per_gb: Decimal, compiles: bool, engineering_usd: Decimal) -> Total:
    """Return the cost of the work at a speed (1 = the first type's): fewer hours where it is faster, never fewer nodes."""
    hours = work.hours_a_month * work.months * work.nodes / Decimal(str(speed))
    compiling = work.compile_hours_a_month * work.months * price.usd_per_hour if compiles else Decimal(0)
    egress = work.egress_gb_a_month * work.months * usd_per_gb
    parts = (hours * price.usd_per_hour, egress, compiling, engineering_usd)
    return Total(price, speed, hours, *(x.quantize(_CENT, ROUND_HALF_EVEN) for x in parts))


def listed(quotes: Sequence[Price], market: Market, region: str) -> Price | None:
    """Return the best-founded price of a market, of the region where there is one; None where nobody states one."""
    mine = [x for x in quotes if x.market is market]
    order = list(Basis)
    return min(mine, key=lambda x: (x.region != region, order.index(x.basis), -x.asof.toordinal()), default=None)
