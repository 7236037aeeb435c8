"""Answer how capacity for a large run can be had, and what each way costs."""

from __future__ import annotations

import asyncio
from decimal import Decimal

from bot.advice.tco import listed
from bot.cards.capacity import capacity_card
from bot.cards.card import Card
from bot.commands.known import known_type
from bot.commands.registry import arg, command
from bot.errors import Unavailable, WrongInput
from bot.model.fleet import Market
from bot.model.labels import Labels
from bot.model.request import Request
from bot.ports import Ports
from bot.pricing import Pricing


@command(
    "capacity",
    "Ways to be sure of capacity: reservation, Capacity Block, commitment; what a used hour costs.",
    examples=("capacity trn1.32xlarge nodes=16 days=14", "capacity trn2.48xlarge nodes=4 days=30 used=80"),
)
async def capacity(
    ports: Ports,
    request: Request,
    instance_type: str = arg(None, "the instance type"),
    nodes: int = arg("1", "nodes", keyword=True),
    days: int = arg("14", "days", keyword=True),
    used: Decimal = arg("90", "how much of the time they will work, in percent", keyword=True),
    region: str = arg("", "where prices are looked up first", keyword=True),
) -> Card:
    """Compare every way that has a price."""
    if not 1 <= nodes <= 100_000 or not 1 <= days <= 3_650 or not 1 <= used <= 100:
        raise WrongInput("nodes and days are 1 or more, used is 1 to 100 percent.")
    return await asyncio.to_thread(_answer, ports, request, instance_type.lower(), nodes, days, used / 100, region)


def _answer(ports: Ports, request: Request, name: str, nodes: int, days: int, used: Decimal, region: str) -> Card:
    known_type(name, ports.knowledge.types())
    quotes = Pricing(ports).at(request.at).quotes(name, "")
    prices = [price for market in Market if (price := listed(quotes, market, region))]
    if not prices:
        raise Unavailable(f"No price of {name} is known in any market.")
    stale = ports.policy.at(Labels()).number("advice.stale_days")
    notes = ports.knowledge.claims().of("blocks")
    return capacity_card(name, nodes, days, used, prices, notes, request.at.date(), stale)
