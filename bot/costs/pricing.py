"""Choose the price of an hour: the account's own rate, else the price list, else an offering, else the dated fallback."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal

from bot.model.fleet import Market
from bot.model.price import Basis, Price, StoragePrice

HOURS_A_MONTH = 730
_ORDER = list(Basis)
_COMMITTED = {Market.ON_DEMAND, Market.SAVINGS_PLAN, Market.RESERVED}


def choose(quotes: Iterable[Price], market: Market, region: str = "") -> Price | None:
    """Return the best quote for an instance bought on `market`, None when there is none.

    An account's own hours at list price and under commitments are one rate, weighted by hours: nobody can say which instance
    a Savings Plan covered. An instance never costs an offering's price on another market, unless nothing else is known; the
    same region wins, then the surest basis, then the newest date.
    """
    every = list(quotes)
    own = blended(every, region) if market in _COMMITTED else None
    return own or min(every, key=lambda price: _rank(price, market, region), default=None)


def blended(quotes: Iterable[Price], region: str) -> Price | None:
    """Return the account's own rate of a region over on-demand, Savings Plan and reserved hours; None without hours."""
    own = [q for q in quotes if q.basis is Basis.BILLED and q.market in _COMMITTED and q.hours and q.region == region]
    if not own:
        return None
    hours = sum((Decimal(str(q.hours)) for q in own), Decimal(0))
    cost = sum((q.usd_per_hour * Decimal(str(q.hours)) for q in own), Decimal(0))
    most = max(own, key=lambda q: q.hours)
    return replace(most, usd_per_hour=(cost / hours).quantize(Decimal("0.000001")), hours=float(hours))


def storage_price(kind: str, gib: int, region: str, listed: Iterable[StoragePrice]) -> Price | None:
    """Return the list price of an hour of `gib` of storage (`ebs:gp3`, `fsx:125`), None for a kind that is not listed.

    A month has 730 hours, as AWS counts them.
    """
    found = min((p for p in listed if p.kind == kind), key=lambda p: p.region != region, default=None)
    if found is None:
        return None
    usd = (found.usd_per_gib_month * gib / HOURS_A_MONTH).quantize(Decimal("0.000001"))
    return Price(kind, usd, Market.ON_DEMAND, Basis.FALLBACK, found.region, found.asof, found.source)


def _rank(price: Price, market: Market, region: str) -> tuple[bool, bool, int, bool, int]:
    same = price.market is market or (price.market in _COMMITTED and market in _COMMITTED)
    elsewhere = bool(region and price.region and price.region != region)
    return (not same, elsewhere, _ORDER.index(price.basis), price.market is not market, -price.asof.toordinal())
