"""Weigh a commitment against on-demand hours.

When it breaks even, and what it would have saved over the last weeks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_CEILING, Decimal
from functools import cached_property

from bot.costs.tally import settled_by
from bot.errors import TrnbotError
from bot.model.fleet import Market
from bot.model.money import cents
from bot.model.price import CommitmentOffer, Price
from bot.model.spend import Filter
from bot.model.window import NO_TIME, Window
from bot.ports import Billing

LOOK_BACK = timedelta(days=28)
"""How far back the account's own hours are looked at."""


@dataclass(frozen=True)
class OnDemandUse:
    """Hold the node-hours of each hour of a window that were paid on demand.

    What a new commitment would have taken over.
    """

    window: Window
    node_hours: tuple[Decimal, ...]

    def used_by(self, nodes: int) -> Decimal:
        """Return the node-hours that a commitment to so many nodes would have used."""
        return sum((min(Decimal(nodes), hour) for hour in self.node_hours), Decimal(0))

    def ratio(self, nodes: int) -> Decimal:
        """Return the used share of a commitment to so many nodes."""
        return self.used_by(nodes) / (nodes * Decimal(str(self.window.hours)))


@dataclass(frozen=True)
class Commitments:
    """Hold what is offered for some nodes of one type in one region.

    Beside it, an hour on demand and the account's use.
    """

    instance_type: str
    nodes: int
    region: str
    offers: Sequence[CommitmentOffer]
    on_demand: Price | None
    use: OnDemandUse | None

    @cached_property
    def weighed(self) -> tuple[Weighed, ...]:
        """Return every offer beside on demand, the cheapest hour first."""
        ranked = sorted(self.offers, key=lambda x: (x.usd_per_hour, x.plan, x.years))
        return tuple(Weighed(offer, self.nodes, self.on_demand, self.use) for offer in ranked)


@dataclass(frozen=True)
class Weighed:
    """Weigh one offer against hours on demand.

    Every figure is None where no on-demand price or no use is known.
    """

    offer: CommitmentOffer
    nodes: int
    on_demand: Price | None
    use: OnDemandUse | None

    @property
    def upfront_usd(self) -> Decimal:
        """Return what all nodes cost at the start."""
        return cents(self.offer.upfront_usd * self.nodes)

    @property
    def off_ratio(self) -> Decimal | None:
        """Return what it takes off the on-demand price, 0 to 1."""
        return 1 - self.offer.usd_per_hour / self.on_demand.usd_per_hour if self.on_demand else None

    @property
    def breakeven_hours(self) -> int | None:
        """Return the hours of the term that a node must run to cost no less on demand.

        None where it never does.
        """
        if self.on_demand is None or self.offer.usd_per_hour > self.on_demand.usd_per_hour:
            return None
        hours = self.offer.hours * self.offer.usd_per_hour / self.on_demand.usd_per_hour
        return int(hours.to_integral_value(ROUND_CEILING))

    @property
    def saved_usd(self) -> Decimal | None:
        """Return what it would have saved over the window of the use.

        Negative where it would have lost.
        """
        if self.on_demand is None or self.use is None:
            return None
        paid = self.offer.usd_per_hour * self.nodes * Decimal(str(self.use.window.hours))
        return cents(self.use.used_by(self.nodes) * self.on_demand.usd_per_hour - paid)


def on_demand_use(billing: Billing, price: Price, at: datetime) -> OnDemandUse | None:
    """Return the account's on-demand hours of the last settled weeks.

    None where the bill tells no hours. May block.

    The bill's USD of an hour over the price of a node's hour are the nodes that ran: what
    commitments cover stands apart.
    """
    where = [Filter("instance_type", (price.instance_type,)), Filter("region", (price.region,))]
    try:
        settled = settled_by(billing.tally(NO_TIME, ()), at)
        days = billing.tally(Window(settled - LOOK_BACK, settled), ("day",)).rows if settled else ()
        if settled is None or not days:
            return None
        first = datetime.fromisoformat(f"{min(row.key['day'] for row in days)}T00:00:00+00:00")
        window, purchase = Window(first, settled), Filter("purchase", (Market.ON_DEMAND.value,))
        rows = billing.tally(window, ("hour",), [*where, purchase]).rows
    except TrnbotError:
        return None
    costs = (row.money.amortised for row in rows)
    return OnDemandUse(window, tuple(usd / price.usd_per_hour for usd in costs if usd > 0))
