"""Choose the price at which an hour can be bought.

One rule for every answer that compares types, markets or regions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bot.costs.pricing import Pricing, listed_price
from bot.model.fleet import Market
from bot.model.price import Basis, Price

_ORDER = list(Basis)


class Offers:
    """Offer hours of a type as of one day, from every price known of it in any region."""

    def __init__(self, pricing: Pricing) -> None:
        self._pricing = pricing
        self._quotes: dict[str, Sequence[Price]] = {}

    def quotes(self, instance_type: str) -> Sequence[Price]:
        """Return every price known of a type, in all regions."""
        if instance_type not in self._quotes:
            self._quotes[instance_type] = self._pricing.quotes(instance_type, "")
        return self._quotes[instance_type]

    def of(self, instance_type: str, market: Market, region: str = "") -> Price | None:
        """Return the price of a market, of the region where there is one."""
        return listed_price(self.quotes(instance_type), market, region)

    def here(self, instance_type: str, market: Market, region: str) -> Price | None:
        """Return the price of a market in that very region; None where it is not known there."""
        return listed_price(
            [x for x in self.quotes(instance_type) if x.region == region], market, region
        )

    def each(self, instance_type: str, region: str) -> tuple[Price, ...]:
        """Return one price for every market that has any."""
        return tuple(
            price for market in Market if (price := self.of(instance_type, market, region))
        )

    def plain(self, instance_type: str, region: str = "") -> Price | None:
        """Return what an hour costs without a commitment: on demand, else in a Capacity Block."""
        return self.of(instance_type, Market.ON_DEMAND, region) or self.of(
            instance_type, Market.CAPACITY_BLOCK, region
        )

    def regions(self, instance_type: str, market: Market) -> tuple[str, ...]:
        """Return the regions in which a price of the market is known."""
        return tuple(
            sorted(
                {x.region for x in self.quotes(instance_type) if x.market is market and x.region}
            )
        )

    def shared_region(self, instance_types: Iterable[str], market: Market) -> str | None:
        """Return the region in which all of the types have a price.

        The account's own first, then the best founded.

        Prices of two regions say more of the regions than of the types. None where no region has
        them all.
        """
        names = tuple(instance_types)
        shared = set.intersection(*(set(self.regions(name, market)) for name in names))
        return min(shared, key=lambda region: self._rank(names, market, region), default=None)

    def _rank(
        self, names: Sequence[str], market: Market, region: str
    ) -> tuple[float, int, float, str]:
        prices = [price for name in names if (price := self.here(name, market, region))]
        own = sum(x.hours for name in names for x in self.quotes(name) if x.region == region)
        return (
            -own,
            sum(_ORDER.index(x.basis) for x in prices),
            float(sum(x.usd_per_hour for x in prices)),
            region,
        )
