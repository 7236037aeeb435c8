"""Answer how capacity for a large run can be had, and the cost of an hour that is really used each way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from bot.answers.commitments import commitment_blocks, commitment_data, commitments_of
from bot.answers.names import known_region, known_type
from bot.answers.registry import Needs, Topic, arg, command
from bot.cards.card import (
    Align,
    Block,
    Button,
    Buttons,
    Card,
    Column,
    Strong,
    Table,
    Tone,
    quiet,
    text,
)
from bot.cards.notes import PriceAge, note_lines
from bot.costs.commitments import Commitments
from bot.costs.offers import Offers
from bot.costs.pricing import Pricing
from bot.errors import Unavailable, WrongInput
from bot.model.claims import Note
from bot.model.counts import counted
from bot.model.durations import age_text, rounded_duration
from bot.model.fleet import Market
from bot.model.labels import Labels
from bot.model.money import cents, usd
from bot.model.notice import Scarcity, scarcities
from bot.model.price import Price
from bot.model.reading import Reading
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
        return cents(
            price.usd_per_hour
            * self.hours
            * (self.used if price.market is Market.SPOT else Decimal(1))
        )

    def __str__(self) -> str:
        """Read as `16 x trn1.32xlarge for 14 days`."""
        return f"{self.nodes} x {self.instance_type} for {self.days} days"


@dataclass(frozen=True)
class Refused:
    """Hold how often requests of one type were refused by zone, as of a time.

    `zones` is None where nobody asked AWS.
    """

    instance_type: str
    zones: tuple[Scarcity, ...] | None
    at: datetime

    def blocks(self) -> list[Block]:
        """Say it in one sentence; nothing where nobody asked."""
        if self.zones is None:
            return []
        span = f"within {rounded_duration(LOOKED)}"
        if not self.zones:
            return [
                quiet(
                    f"No request for {self.instance_type} was refused for want of capacity {span} ({_TRAIL})."
                )
            ]
        total = counted(sum(zone.refused for zone in self.zones), "request")
        each = "; ".join(self._words(zone) for zone in self.zones[:_MOST_ZONES])
        more = (
            f"; and {counted(len(self.zones) - _MOST_ZONES, 'more zone')}"
            if len(self.zones) > _MOST_ZONES
            else ""
        )
        return [
            text(
                Strong(f"{total} refused"),
                f" for want of capacity {span}: {each}{more} ({_TRAIL}).",
            )
        ]

    def data(self) -> list[dict[str, Any]] | None:
        """Return the counts for scripts; None where nobody asked."""
        if self.zones is None:
            return None
        return [
            {"zone": x.zone, "refused": x.refused, "of_them_spot": x.spot, "newest": x.newest}
            for x in self.zones
        ]

    def _words(self, zone: Scarcity) -> str:
        market = (
            f", {'all' if zone.spot == zone.refused else zone.spot} on spot" if zone.spot else ""
        )
        return f"{zone.zone} {zone.refused:,}{market}, last {age_text((self.at - zone.newest).total_seconds())} ago"


def refused_of(reading: Reading, instance_type: str) -> Refused:
    """Count the requests of a type that were refused lately."""
    told = reading.refusals
    since = reading.now - LOOKED
    zones = None if told is None else scarcities([x for x in told if x.at >= since], instance_type)
    return Refused(instance_type, zones, reading.now)


LOOKED = timedelta(days=7)
"""How far back refused requests are counted."""
_MOST_ZONES = 6
_TRAIL = "CloudTrail's RunInstances and CreateFleet"


@dataclass(frozen=True)
class Ways:
    """Hold what is known of the ways to capacity.

    Prices, what was refused lately, and what others say.
    """

    prices: Sequence[Price]
    refused: Refused
    notes: Sequence[Note] = ()
    commitments: Commitments | None = None


def capacity_card(demand: Demand, ways: Ways, age: PriceAge) -> Card:
    """Draw each way, the cheapest used hour first."""
    prices = ways.prices
    rows = [_row(x, demand, age) for x in sorted(prices, key=lambda x: x.usd_per_hour)]
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
        blocks.append(
            text("A Capacity Block lasts 182 days at most: you would need two in succession.")
        )
    blocks += commitment_blocks(ways.commitments) if ways.commitments else []
    blocks += ways.refused.blocks()
    blocks += [
        *note_lines(ways.notes, age.today),
        quiet(
            "Hours of a reservation or block that nothing uses raise the alert 'unused capacity'."
        ),
    ]
    blocks.append(
        Buttons(
            (
                Button("Quotas", f"quota {demand.instance_type}"),
                Button("Spot", f"spot {demand.instance_type}"),
            )
        )
    )
    sure = [x for x in prices if x.market is not Market.SPOT]
    best = min(sure or prices, key=lambda x: x.usd_per_hour)
    title = f"{demand}: from {usd(demand.paid(best))} ({best.market.replace('-', ' ')})"
    return Card(title, Tone.INFO, tuple(blocks), _data(demand, ways))


def _data(demand: Demand, ways: Ways) -> dict[str, Any]:
    each = [
        {
            "market": x.market.value,
            "usd_per_hour": x.usd_per_hour,
            "total_usd": demand.paid(x),
            "region": x.region,
            "asof": x.asof,
        }
        for x in ways.prices
    ]
    asked = {
        "instance_type": demand.instance_type,
        "hours": demand.hours,
        "used_ratio": demand.used,
    }
    committed = {"commitments": commitment_data(ways.commitments)} if ways.commitments else {}
    return {**asked, "ways": each, **committed, "refused": ways.refused.data()}


def _row(price: Price, demand: Demand, age: PriceAge) -> tuple[str, ...]:
    paid = demand.paid(price)
    each = usd(paid / (demand.hours * demand.used)) if demand.used else "–"
    return (
        HELD[price.market],
        usd(price.usd_per_hour),
        usd(paid),
        each,
        price.region,
        f"{price.asof}, {price.basis}{age.of(price.asof)}",
    )


@command(
    "capacity",
    "Ways to secure capacity (reservation, Capacity Block), the cost of an hour in use, and quotes of Savings Plans and reserved "
    "instances against your own hours.",
    needs=Needs.METRICS | Needs.STATE,
    may=Needs.BILL,
    topic=Topic.PLANS,
    examples=(
        "capacity trn1.32xlarge nodes=16 days=14",
        "capacity trn2.48xlarge nodes=4 days=30 used=80",
    ),
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
    return await asyncio.to_thread(
        _answer, ports, request, Demand(instance_type.lower(), nodes, days, used / 100), region
    )


def _answer(ports: Ports, request: Request, demand: Demand, region: str) -> Card:
    name = demand.instance_type
    known_type(name, ports.world.knowledge.types())
    region = known_region(region, ports)
    offers = Offers(Pricing(ports).at(request.at))
    prices = offers.each(name, region)
    if not prices:
        raise Unavailable(f"No price of {name} is known in any market.")
    stale = ports.policy.at(Labels()).number("advice.stale_days")
    notes = ports.world.knowledge.claims().of("blocks")
    refused = refused_of(ports.world.source.read(request.at), name)
    committed = commitments_of(ports, (name, demand.nodes), offers, request.at, region)
    return capacity_card(
        demand, Ways(prices, refused, notes, committed), PriceAge(request.at.date(), stale)
    )
