"""Choose the price of an hour: the account's own rate, else the price list, else an offering, else the dated fallback."""

from __future__ import annotations

from collections.abc import Iterable

from bot.model.fleet import Market
from bot.model.price import Basis, Price

_ORDER = list(Basis)
_COMMITTED = {Market.ON_DEMAND, Market.SAVINGS_PLAN, Market.RESERVED}


def choose(quotes: Iterable[Price], market: Market, region: str = "") -> Price | None:
    """Return the best quote for an instance bought on `market`, None when there is none.

    An instance never costs an offering's price on another market, unless nothing else is known; the same region wins,
    then the surest basis, then the newest date.
    """
    ranked = sorted(quotes, key=lambda price: _rank(price, market, region))
    return ranked[0] if ranked else None


def _rank(price: Price, market: Market, region: str) -> tuple[bool, bool, int, bool, int]:
    same = price.market is market or (price.market in _COMMITTED and market in _COMMITTED)
    elsewhere = bool(region and price.region and price.region != region)
    return (not same, elsewhere, _ORDER.index(price.basis), price.market is not market, -price.asof.toordinal())
