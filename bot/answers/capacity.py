"""Answer how capacity for a large run can be had, and the cost of an hour that is really used each way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from bot.answers.registry import Needs, Topic, arg, command
from bot.answers.values import known_type
from bot.cards.card import Align, Block, Button, Buttons, Card, Column, Table, Tone, quiet, text
from bot.cards.notes import note_lines
from bot.costs.pricing import Pricing, listed_price
from bot.errors import Unavailable, WrongInput
from bot.model.claims import Note
from bot.model.fleet import Market
from bot.model.labels import Labels
from bot.model.money import cents, usd
from bot.model.price import Price
from bot.model.request import Request
from bot.ports import Ports

_R = Align.RIGHT
HELD = {
    Market.CAPACITY_BLOCK: "Capacity Block, paid upfront",
    Market.ON_DEMAND: "on-demand reservation, paid used or not",
    Market.SAVINGS_PLAN: "Savings Plan, the account's own rate",
    Market.RESERVED: "reserved, the account's own rate",
    Market.SPOT: "spot: not guaranteed",
}


@dataclass(frozen=True)
class Demand:
    """State the capacity that is wanted; `used` is the share of its hours that will be used."""

    instance_type: str
    nodes: int
    days: int
    used: Decimal

    @property
    def hours(self) -> int:
        """Return the node-hours."""
        return self.nodes * self.days * 24

    def paid(self, price: Price) -> Decimal:
        """Return the cost in USD: of every hour, on spot of those that are used."""
        return cents(price.usd_per_hour * self.hours * (self.used if price.market is Market.SPOT else Decimal(1)))

    def __str__(self) -> str:
        """Read as `16 x trn1.32xlarge for 14 days`."""
        return f"{self.nodes} x {self.instance_type} for {self.days} days"


def capacity_card(demand: Demand, prices: Sequence[Price], notes: Sequence[Note], today: date, stale_days: float) -> Card:
    """Draw each way, the cheapest used hour first."""
    rows = [_row(x, demand, today, stale_days) for x in sorted(prices, key=lambda x: x.usd_per_hour)]
    columns = (
        Column("way"),
        Column("node $/h", _R),
        Column("in all", _R),
        Column("hour in use", _R),
        Column("region"),
        Column("price of"),
    )
    use = f"{demand.used * 100:.0f} % of the hours used; spot pays only those that run."
    blocks: list[Block] = [Table(columns, tuple(rows), caption=f"{demand}; {use}")]
    if demand.days > 182 and any(x.market is Market.CAPACITY_BLOCK for x in prices):
        blocks.append(text("A Capacity Block lasts 182 days at most: you would need two in succession."))
    blocks += [*note_lines(notes), quiet("Hours of a reservation or block that nothing uses raise the alert 'unused capacity'.")]
    blocks.append(Buttons((Button("Quotas", f"quota {demand.instance_type}"), Button("Spot", f"spot {demand.instance_type}"))))
    sure = [x for x in prices if x.market is not Market.SPOT]
    best = min(sure or prices, key=lambda x: x.usd_per_hour)
    title = f"{demand}: from {usd(demand.paid(best))} ({best.market.replace('-', ' ')})"
    return Card(title, Tone.INFO, tuple(blocks), _data(demand, prices))


def _data(demand: Demand, prices: Sequence[Price]) -> dict[str, Any]:
    ways = [
        {
            "market": x.market.value,
            "usd_per_hour": x.usd_per_hour,
            "total_usd": demand.paid(x),
            "region": x.region,
            "asof": x.asof,
        }
        for x in prices
    ]
    return {"instance_type": demand.instance_type, "hours": demand.hours, "used_ratio": demand.used, "ways": ways}


def _row(price: Price, demand: Demand, today: date, stale_days: float) -> tuple[str, ...]:
    paid, age = demand.paid(price), (today - price.asof).days
    stale = f", {age} days old" if age > stale_days else ""
    each = usd(paid / (demand.hours * demand.used)) if demand.used else "–"
    return HELD[price.market], usd(price.usd_per_hour), usd(paid), each, price.region, f"{price.asof}, {price.basis}{stale}"


@command(
    "capacity",
    "Ways to secure capacity (reservation, Capacity Block, commitment), and the cost of an hour in use.",
    needs=Needs.METRICS | Needs.STATE,
    may=Needs.BILL,
    topic=Topic.PLANS,
    examples=("capacity trn1.32xlarge nodes=16 days=14", "capacity trn2.48xlarge nodes=4 days=30 used=80"),
)
async def capacity(
    ports: Ports,
    request: Request,
    instance_type: str = arg(None, "the instance type"),
    nodes: int = arg("1", "nodes", keyword=True),
    days: int = arg("14", "days", keyword=True),
    used: Decimal = arg("90", "percent of the time that the nodes will work", keyword=True),
    region: str = arg("", "where prices are looked up first", keyword=True),
) -> Card:
    """Compare every way that has a price."""
    if not 1 <= nodes <= 100_000 or not 1 <= days <= 3_650 or not 1 <= used <= 100:
        raise WrongInput("nodes and days are 1 or more, used is 1 to 100 percent.")
    return await asyncio.to_thread(_answer, ports, request, Demand(instance_type.lower(), nodes, days, used / 100), region)


def _answer(ports: Ports, request: Request, demand: Demand, region: str) -> Card:
    name = demand.instance_type
    known_type(name, ports.world.knowledge.types())
    quotes = Pricing(ports).at(request.at).quotes(name, "")
    prices = [price for market in Market if (price := listed_price(quotes, market, region))]
    if not prices:
        raise Unavailable(f"No price of {name} is known in any market.")
    stale = ports.policy.at(Labels()).number("advice.stale_days")
    notes = ports.world.knowledge.claims().of("blocks")
    return capacity_card(demand, prices, notes, request.at.date(), stale)
