"""Answer what a year of the same training costs on two instance types."""

from __future__ import annotations

import asyncio
from decimal import Decimal

from bot.advice.migrate import SpeedRange, speed_range
from bot.advice.tco import Work, listed, total
from bot.cards.card import Card
from bot.cards.tco import tco_card
from bot.commands.known import known_type
from bot.commands.registry import arg, command
from bot.errors import Unavailable, WrongInput
from bot.model.fleet import InstanceType, Market
from bot.model.labels import Labels
from bot.model.price import Price
from bot.model.request import Request
from bot.ports import Ports
from bot.pricing import Pricing

_MOST = Decimal(10**9)


@command(
    "tco",
    "A year of the same training on two types: instances, egress, compiling, engineering.",
    examples=("tco p5.48xlarge trn1.32xlarge", "tco p5.48xlarge trn2.48xlarge nodes=8 engineering_usd=50000 buy=capacity-block"),
)
async def tco(
    ports: Ports,
    request: Request,
    old: str = arg(None, "the type it runs on"),
    new: str = arg(None, "the type to compare"),
    nodes: int = arg("1", "nodes", keyword=True),
    hours: Decimal = arg("730", "hours a month that they work", keyword=True),
    months: int = arg("12", "months", keyword=True),
    speed: Decimal | None = arg("", "work of the new type as a multiple; what sources state when left out", keyword=True),
    egress_gb: Decimal = arg("0", "GB a month that leave AWS", keyword=True),
    compile_hours: Decimal = arg("10", "hours a month that a Neuron node compiles", keyword=True),
    engineering_usd: Decimal = arg("33333", "what porting costs, once", keyword=True),
    region: str = arg("", "where prices are looked up first", keyword=True),
    buy: str = arg("on-demand", "how hours are bought", choices=tuple(market.value for market in Market), keyword=True),
) -> Card:
    """Compare totals, never an hour alone."""
    for name, amount in (
        ("hours", hours),
        ("egress_gb", egress_gb),
        ("compile_hours", compile_hours),
        ("engineering_usd", engineering_usd),
    ):
        if not 0 <= amount < _MOST:
            raise WrongInput(f"{name} is 0 or more; got {amount}.")
    if not 1 <= nodes <= 100_000 or not 1 <= months <= 120 or (speed is not None and not 0 < speed <= 100):
        raise WrongInput("nodes is 1 or more, months 1 to 120, speed more than 0.")
    work = Work(nodes, hours, months, egress_gb, compile_hours, engineering_usd)
    return await asyncio.to_thread(_answer, ports, request, (old, new), work, speed, region, Market(buy))


def _answer(
    ports: Ports, request: Request, names: tuple[str, str], work: Work, speed: Decimal | None, region: str, market: Market
) -> Card:
    types, claims = ports.knowledge.types(), ports.knowledge.claims()
    old, new = (known_type(name, types) for name in names)
    if old.name == new.name:
        raise WrongInput(f"{old.name} is named twice; name two types.")
    speeds = speed_range(old, new, types, claims) if speed is None else SpeedRange(float(speed), float(speed), float(speed))
    pricing, route = Pricing(ports).at(request.at), claims.transfer("internet")
    prices = [_price(pricing, kind, market, region) for kind in (old, new)]
    options = [total(work, prices[0], 1.0, route.usd_per_gb, old.has_neuron, Decimal(0))]
    options += [
        total(work, prices[1], x, route.usd_per_gb, new.has_neuron, work.engineering_usd) for x in dict.fromkeys(speeds.each())
    ]
    stale = ports.policy.at(Labels()).number("advice.stale_days")
    return tco_card(work, options, speeds.voices, route, request.at.date(), stale)


def _price(pricing: Pricing, kind: InstanceType, market: Market, region: str) -> Price:
    found = listed(pricing.quotes(kind.name, ""), market, region)
    if found is None:
        raise Unavailable(f"No {market.value} price of {kind.name} is known; try buy=capacity-block, or another type.")
    return found
