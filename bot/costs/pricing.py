"""Price an hour of anything, and choose the price at which one can be bought."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache, partial

from bot.costs.tally import known_rows
from bot.errors import TrnbotError
from bot.model.fleet import (
    FileSystem,
    Instance,
    Inventory,
    Market,
    Reservation,
    Volume,
    hardware_of,
)
from bot.model.money import MILLIONTH
from bot.model.price import AccountRates, Basis, Price, StoragePrice, Whose
from bot.model.spend import Filter
from bot.model.window import WEEK, Window, midnight
from bot.ports import Billing, Ports

HOURS_A_MONTH = 730
_ORDER = list(Basis)
_ONE_RATE = {Market.ON_DEMAND, Market.SAVINGS_PLAN, Market.RESERVED}


def choose(quotes: Iterable[Price], market: Market, region: str = "") -> Price | None:
    """Return the best quote for an instance bought on `market`, None when there is none.

    An account's own hours at list price and under commitments are one rate, weighted by hours:
    whether a Savings Plan covers an instance that the bill does not name yet, nobody can say. An
    instance never costs an offering's price on another market, unless nothing else is known; the
    same region wins, then the surest basis, then the newest date.
    """
    prices = list(quotes)
    account = _named(blended(prices, region), Whose.ACCOUNT) if market in _ONE_RATE else None
    return account or _quoted(prices, market, region)


def _quoted(quotes: Iterable[Price], market: Market, region: str) -> Price | None:
    """Return the quote that suits best, one with billed hours named after its market."""
    best = min(quotes, key=lambda price: _rank(price, market, region), default=None)
    return _named(best, Whose.MARKET) if best and best.hours else best


def _named(price: Price | None, whose: Whose) -> Price | None:
    return replace(price, whose=whose) if price else None


def blended(quotes: Iterable[Price], region: str) -> Price | None:
    """Return the account's own rate of a region over on-demand, Savings Plan and reserved hours.

    None without hours.
    """
    return _mean_of(
        price
        for price in quotes
        if price.basis is Basis.BILLED and price.region == region and price.market in _ONE_RATE
    )


def _mean_of(rates: Iterable[Price]) -> Price | None:
    """Return one rate over the hours of several, named after the one with most hours.

    None without hours.
    """
    # A price of a list has no hours: nobody bought at it.
    used = [rate for rate in rates if rate.hours]
    if not used:
        return None
    hours = sum((Decimal(str(rate.hours)) for rate in used), Decimal(0))
    cost = sum((rate.usd_per_hour * Decimal(str(rate.hours)) for rate in used), Decimal(0))
    committed = sum(
        (rate.committed_usd_per_hour * Decimal(str(rate.hours)) for rate in used), Decimal(0)
    )
    return replace(
        max(used, key=lambda rate: rate.hours),
        usd_per_hour=(cost / hours).quantize(MILLIONTH),
        hours=float(hours),
        on_demand_share=1 - committed / cost if cost else None,
        lapses=max((rate.lapses for rate in used if rate.lapses), default=None),
    )


def billed_rate(rates: AccountRates, instance: Instance) -> Price | None:
    """Return what an hour of an instance cost by its lines of the bill.

    Before there are any, by those of its cluster's like ones.

    Whether a Savings Plan covered it, whether spot was billed as such: its own lines say so, and no
    list does.
    """
    labels, market = instance.labels, instance.market
    # The bill knows a training job of SageMaker as a whole, and its hosts `JOB/algo-1` by no name.
    itself = rates.by_instance.get(instance.id.partition("/")[0], ())
    by_itself = _mean_of(rate for rate in itself if rate.instance_type == labels.instance_type)
    peers = (
        rate
        for rate in rates.by_cluster.get(labels.cluster, ())
        if (rate.instance_type, rate.region) == (labels.instance_type, labels.region)
        and _bought_alike(rate.market, market)
    )
    return _named(by_itself, Whose.OWN) or _named(_mean_of(peers), Whose.CLUSTER)


def _bought_alike(first: Market, second: Market) -> bool:
    return first is second or {first, second} <= _ONE_RATE


def listed_price(quotes: Iterable[Price], market: Market, region: str) -> Price | None:
    """Return the best-founded price of a market, the newest, then the cheapest; or None.

    Of the region where there is one.
    """
    return min(
        (price for price in quotes if price.market is market),
        key=lambda x: (
            x.region != region,
            _ORDER.index(x.basis),
            -x.asof.toordinal(),
            x.usd_per_hour,
        ),
        default=None,
    )


def storage_price(kind: str, gib: int, region: str, listed: Iterable[StoragePrice]) -> Price | None:
    """Return the list price of an hour of `gib` of storage (`ebs:gp3`, `fsx:125`).

    None for a kind that is not listed.

    A month has 730 hours, as AWS counts them.
    """
    price = min(
        (listing for listing in listed if listing.kind == kind),
        key=lambda listing: listing.region != region,
        default=None,
    )
    if price is None:
        return None
    usd = (price.usd_per_gib_month * gib / HOURS_A_MONTH).quantize(MILLIONTH)
    return Price(
        kind, usd, Market.ON_DEMAND, Basis.FALLBACK, price.region, price.asof, price.source
    )


def _rank(price: Price, market: Market, region: str) -> tuple[bool, bool, int, bool, int]:
    return (
        not _bought_alike(price.market, market),
        bool(region and price.region and price.region != region),
        _ORDER.index(price.basis),
        price.market is not market,
        -price.asof.toordinal(),
    )


_SETTLED = timedelta(days=2)


def hours_of(pricing: Pricing, inventory: Inventory) -> Callable[[str], Decimal | None]:
    """Return a function from an instance's id to the USD of its hour, None for no known price."""

    def hour_of(instance: str) -> Decimal | None:
        price = pricing(instance, inventory)
        return price.usd_per_hour if price else None

    return hour_of


@dataclass(frozen=True)
class BilledHour:
    """State what the bill says of one UTC hour of an instance: amortised USD, and hours it ran."""

    usd: Decimal
    hours: float


def billed_hours(
    billing: Billing, types: Mapping[str, str], window: Window
) -> Mapping[str, Mapping[datetime, BilledHour]]:
    """Return each billed UTC hour of each instance; `types` are the instance types by id.

    Nothing where the bill tells no hours or resources.
    """
    whole = Window(window.start.replace(minute=0, second=0, microsecond=0), window.end)
    of_types = [Filter("instance_type", tuple(sorted(set(types.values()))))]
    hours: dict[str, dict[datetime, BilledHour]] = {}
    for row in known_rows(billing, whole, ("resource", "hour"), of_types, TrnbotError):
        instance = row.key["resource"].rpartition("/")[2]
        if instance in types and row.money.amortised > 0:
            hour = datetime.fromisoformat(row.key["hour"])
            hours.setdefault(instance, {})[hour] = BilledHour(row.money.amortised, row.hours)
    return hours


def settled_week(day: datetime) -> Window:
    """Return the week whose lines tell on a day what storage costs."""
    return Window(day - _SETTLED - WEEK, day - _SETTLED)


class Pricing:
    """Price hours as of one day.

    By the account's own bill first, then by lists, then by the dated fallback.
    """

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._chosen: dict[tuple[str, str, Market], Price | None] = {}
        self.rates = AccountRates()
        self._nodes: dict[str, Price | None] = {}
        self._resources: Mapping[str, Decimal] | None = None
        self._day: datetime | None = None

    def at(self, now: datetime) -> Pricing:
        """Return itself, ready for prices of `now`.

        Answers remembered from another day are forgotten.
        """
        day = midnight(now)
        if day != self._day:
            self._day, self._chosen, self._nodes, self._resources = day, {}, {}, None
            self.rates = self._ports.world.billing.rates(now)
        self._now = now
        return self

    def __call__(self, thing: str, inventory: Inventory) -> Price | None:
        """Return the price of one hour of the thing, None when nobody knows one."""
        if instance := inventory.instances.get(thing):
            return self.instance(instance)

        resource = inventory.resource(thing)
        if isinstance(resource, Reservation):
            return self._reserved(resource)
        return self._stored(resource) if resource else None

    def instance(self, instance: Instance) -> Price | None:
        """Return the price of one hour of the instance.

        As it was billed itself, else as its type is bought.
        """
        if instance.id not in self._nodes:
            labels = instance.labels
            self._nodes[instance.id] = billed_rate(self.rates, instance) or self._of(
                labels.instance_type, labels.region, instance.market
            )
        return self._nodes[instance.id]

    def mean(self, instances: Iterable[Instance]) -> Price | None:
        """Return the price of one hour of one of the instances, in their mean.

        Named after the price that most of them have; None where no price of any is known.
        """
        prices = Counter(price for instance in instances if (price := self.instance(instance)))
        mean = _mean_of(replace(price, hours=float(n)) for price, n in prices.items())
        hours = sum(price.hours for price in prices.elements())
        return replace(mean, hours=hours) if mean else None

    def quotes(self, instance_type: str, region: str) -> list[Price]:
        """Return every price known for a type.

        The account's own, listed, offered, and of last resort.
        """
        world = self._ports.world
        billed = [rate for rate in self.rates.by_type if rate.instance_type == instance_type]
        listed = world.prices.quotes(instance_type, region, self._now)
        dated = world.knowledge.fallback_prices()
        fallback = [price for price in dated if price.instance_type == instance_type]
        quotes = [*billed, *listed, *fallback]
        hardware = hardware_of(instance_type)
        if quotes or hardware == instance_type:
            return quotes
        return [
            replace(
                price,
                instance_type=instance_type,
                basis=Basis.FALLBACK,
                source=f"EC2's price of {hardware}, as SageMaker's own is not known",
            )
            for price in self.quotes(hardware, region)
        ]

    def _of(self, instance_type: str, region: str, market: Market) -> Price | None:
        key = (instance_type, region, market)
        if key not in self._chosen:
            self._chosen[key] = choose(self.quotes(instance_type, region), market, region)
        return self._chosen[key]

    def _reserved(self, reservation: Reservation) -> Price | None:
        """Return the price of an hour of a whole reservation, of which nothing is used.

        Each place at what the bill says of it.

        A place that was never empty costs what it will: in a Capacity Block its share of the fee,
        else the on-demand price, which no Savings Plan has taken.
        """
        labels, market = reservation.labels, reservation.market
        billed = _mean_of(self.rates.by_reservation.get(labels.resource, ()))
        like = Market.ON_DEMAND if market is Market.RESERVED else market
        alike = [
            quote
            for quote in self.quotes(labels.instance_type, labels.region)
            if quote.market is like and labels.region in ("", quote.region)
        ]
        price = (
            _named(billed, Whose.OWN)
            or _quoted(alike, like, labels.region)
            or self._of(labels.instance_type, labels.region, market)
        )
        return price and replace(price, usd_per_hour=price.usd_per_hour * reservation.total)

    def _stored(self, thing: Volume | FileSystem) -> Price | None:
        """Return the price of storage.

        Its own lines of a settled week, else the list price of its kind.
        """
        assert self._day
        week, region = settled_week(self._day), thing.labels.region
        billed = self._billed(week).get(thing.labels.resource)
        if billed and (thing.created_at is None or thing.created_at <= week.start):
            source, day = "the resource's own lines of the bill", week.end.date()
            return Price("storage", billed, Market.ON_DEMAND, Basis.BILLED, region, day, source)

        match thing:
            case Volume():
                kind, gib = f"ebs:{thing.volume_type}", thing.size_gib
            case FileSystem():
                kind, gib = f"fsx:{thing.throughput_mbps_per_tib}", thing.storage_gib
        return self.listed_storage(kind, gib, region)

    def listed_storage(self, kind: str, gib: int, region: str) -> Price | None:
        """Return the list price of an hour of storage, None where it is not known."""
        world = self._ports.world
        for price in reversed(list(world.prices.quotes(kind, region, self._now))):
            if price.instance_type == kind:
                return replace(price, usd_per_hour=(price.usd_per_hour * gib).quantize(MILLIONTH))
        return storage_price(kind, gib, region, world.knowledge.storage_prices())

    def _billed(self, week: Window) -> Mapping[str, Decimal]:
        """Return amortised USD an hour by resource id; empty without a bill."""
        if self._resources is None:
            hours, billing = Decimal(str(week.hours)), self._ports.world.billing
            self._resources = {
                row.key["resource"].rpartition("/")[2]: row.money.amortised / hours
                for row in known_rows(billing, week, ("resource",), fault=TrnbotError)
            }
        return self._resources


class Offers:
    """Offer hours of a type as of one day, from every price known of it in any region."""

    def __init__(self, pricing: Pricing) -> None:
        self.quotes: Callable[[str], Sequence[Price]] = cache(partial(pricing.quotes, region=""))
        """Returns every price known of a type, in all regions."""

    def of(self, instance_type: str, market: Market, region: str = "") -> Price | None:
        """Return the price of a market, of the region where there is one."""
        return listed_price(self.quotes(instance_type), market, region)

    def here(self, instance_type: str, market: Market, region: str) -> Price | None:
        """Return the price of a market in that very region; None where it is not known there."""
        quotes = [price for price in self.quotes(instance_type) if price.region == region]
        return listed_price(quotes, market, region)

    def each(self, instance_type: str, region: str) -> tuple[Price, ...]:
        """Return one price for every market that has any, all of one region where that can be.

        Of the region where the account ran most hours of the type, unless one is named.
        """
        used = max(self.quotes(instance_type), key=lambda quote: quote.hours, default=None)
        where = region or (used.region if used and used.hours else "")
        return tuple(filter(None, (self.of(instance_type, market, where) for market in Market)))

    def plain(self, instance_type: str, region: str = "") -> Price | None:
        """Return what an hour costs without a commitment: on demand, else in a Capacity Block."""
        return self.of(instance_type, Market.ON_DEMAND, region) or self.of(
            instance_type, Market.CAPACITY_BLOCK, region
        )

    def regions(self, instance_type: str, market: Market) -> tuple[str, ...]:
        """Return the regions in which a price of the market is known."""
        quotes = [price for price in self.quotes(instance_type) if price.market is market]
        return tuple(sorted({price.region for price in quotes} - {""}))
