"""Answer the price of an hour of an instance type.

In every market and region in which a price of it is known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import groupby
from typing import Any

from bot.answers.names import known_region, known_type
from bot.answers.registry import Needs, Topic, arg, command
from bot.cards.card import Align, Button, Buttons, Card, Column, Table, Tone, quiet
from bot.cards.notes import PriceAge
from bot.costs.offers import Offers
from bot.costs.pricing import HOURS_A_MONTH, Pricing
from bot.errors import Unavailable
from bot.model.counts import counted
from bot.model.fleet import InstanceType, Market
from bot.model.labels import Labels
from bot.model.money import usd
from bot.model.price import Basis, Price
from bot.model.request import Request
from bot.ports import Ports

_R = Align.RIGHT
_MOST = 10
_NAMED = 1
"""Regions of one price that are named; the others are counted."""
_FOUNDED = list(Basis)
_WORDS = {
    Market.ON_DEMAND: "on demand",
    Market.SPOT: "spot",
    Market.CAPACITY_BLOCK: "Capacity Block",
    Market.RESERVED: "reserved (your bill)",
    Market.SAVINGS_PLAN: "Savings Plan (your bill)",
}


@command(
    "price",
    "The price of an hour of an instance type: on demand, spot, Capacity Block and your own rates, by region.",
    needs=Needs.METRICS,
    may=Needs.BILL | Needs.STATE,
    topic=Topic.COSTS,
    examples=("price trn1.32xlarge", "price trn2.48xlarge region=us-east-2"),
)
async def price(
    ports: Ports,
    request: Request,
    instance_type: str = arg(None, "the instance type"),
    region: str = arg("", "only this region", keyword=True),
) -> Card:
    """List every price, on demand first; in each market the best founded first, then the cheapest."""
    return await asyncio.to_thread(_answer, ports, request, instance_type, region)


def _answer(ports: Ports, request: Request, name: str, region: str) -> Card:
    kind, region = known_type(name, ports.world.knowledge.types()), known_region(region, ports)
    offers = Offers(Pricing(ports).at(request.at))
    prices = list(_prices(offers, kind.name, region))
    if not prices:
        raise Unavailable(f"No price of {kind.name} is known{f' in {region}' if region else ''}.")
    stale = ports.policy.at(Labels()).number("advice.stale_days")
    return price_card(kind, prices, PriceAge(request.at.date(), stale))


def _prices(offers: Offers, name: str, region: str) -> Iterator[Price]:
    for market in _WORDS:
        here = [
            offers.here(name, market, one)
            for one in offers.regions(name, market)
            if region in ("", one)
        ]
        yield from sorted(
            (one for one in here if one),
            key=lambda one: (_FOUNDED.index(one.basis), one.usd_per_hour, one.region),
        )


def price_card(kind: InstanceType, prices: Sequence[Price], age: PriceAge) -> Card:
    """Draw the prices; `data` holds every one, the table the first."""
    first = prices[0]
    title = (
        f"{kind.name}: {usd(first.usd_per_hour)} an hour, {_WORDS[first.market]}, {first.region}"
    )
    columns = (
        Column("bought"),
        Column("region"),
        Column("node $/h", _R),
        Column("chip $/h", _R),
        Column("a month", _R),
        Column("price of"),
    )
    alike = [
        list(each)
        for _, each in groupby(prices, key=lambda x: (x.market, x.usd_per_hour, x.basis, x.asof))
    ]
    rows = tuple(_row(each, kind, age) for each in alike[:_MOST])
    rest = f"and {counted(len(alike) - _MOST, 'more price')}" if len(alike) > _MOST else ""
    note = quiet(
        f"{kind.chips} × {kind.accelerator} a node; a month has {HOURS_A_MONTH} hours; without tax, storage and transfer."
    )
    more = (
        Button("Spot", f"spot {kind.name}"),
        Button("Capacity", f"capacity {kind.name}"),
        Button("Quotas", f"quota {kind.name}"),
    )
    return Card(
        title,
        Tone.INFO,
        (Table(columns, rows, rest=rest), note, Buttons(more)),
        _data(kind, prices),
    )


def _row(alike: Sequence[Price], kind: InstanceType, age: PriceAge) -> tuple[str, ...]:
    """Write a price once for the regions in which it is the same."""
    each = alike[0]
    regions = ", ".join(one.region for one in alike[:_NAMED]) + (
        f" and {len(alike) - _NAMED} more" if len(alike) > _NAMED else ""
    )
    amounts = (each.usd_per_hour, _of_chip(each, kind), each.usd_per_hour * HOURS_A_MONTH)
    return (
        _WORDS[each.market],
        regions,
        *(usd(amount) for amount in amounts),
        f"{each.asof}, {each.basis}{age.of(each.asof)}",
    )


def _of_chip(each: Price, kind: InstanceType) -> Decimal:
    return round(each.usd_per_hour / kind.chips, 4)


def _data(kind: InstanceType, prices: Sequence[Price]) -> dict[str, Any]:
    rows = [
        {
            "market": each.market.value,
            "region": each.region,
            "usd_per_hour": each.usd_per_hour,
            "usd_per_chip_hour": _of_chip(each, kind),
            "usd_per_month": each.usd_per_hour * HOURS_A_MONTH,
            "basis": each.basis.value,
            "asof": each.asof,
        }
        for each in prices
    ]
    return {"instance_type": kind.name, "prices": rows}
