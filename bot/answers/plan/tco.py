"""Answer the cost of a year of the same training on two instance types, line by line."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from bot.answers.plan.breakeven import ENGINEER_USD_A_YEAR, usual_port
from bot.answers.plan.comparison import SpeedRange, speed_range
from bot.answers.runs.costed import measured_speeds
from bot.cards.card import Align, Block, Button, Buttons, Card, Heading, Table, Tone, quiet, text
from bot.cards.words import PriceAge, cited
from bot.costs.pricing import Offers, Pricing
from bot.errors import Unavailable, WrongInput
from bot.grammar.names import known_region, known_type
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.claims import Effort, Transfer
from bot.model.fleet import InstanceType, Market
from bot.model.labels import Labels
from bot.model.money import cents, usd
from bot.model.price import Price
from bot.model.request import Request
from bot.ports import Ports


@dataclass(frozen=True)
class Work:
    """State a year's training as the first type does it.

    Node-hours a month, data out, compiling, engineering.
    """

    nodes: int
    hours_a_month: Decimal
    months: int
    egress_gb_a_month: Decimal
    compile_hours_a_month: Decimal
    """Of one node, while the others wait for nothing; Neuron types only."""
    engineering_usd: Decimal | None
    """Once, on the second type alone: the port; None where nobody says, and the usual one is taken."""


@dataclass(frozen=True)
class Total:
    """State one option's four lines in USD, and the hours that they stand for."""

    price: Price
    speed: float
    hours: Decimal
    instances: Decimal
    egress: Decimal
    compiling: Decimal
    engineering: Decimal

    @property
    def total(self) -> Decimal:
        """Return the sum of the four lines."""
        return self.instances + self.egress + self.compiling + self.engineering


def total(
    work: Work,
    price: Price,
    speed: float,
    usd_per_gb: Decimal,
    compiles: bool,
    engineering_usd: Decimal,
) -> Total:
    """Return the cost of the work at a speed (1 = the first type's).

    Fewer hours where it is faster, never fewer nodes.
    """
    hours = work.hours_a_month * work.months * work.nodes / Decimal(str(speed))
    compiling = (
        work.compile_hours_a_month * work.months * price.usd_per_hour if compiles else Decimal(0)
    )
    egress = work.egress_gb_a_month * work.months * usd_per_gb
    parts = (hours * price.usd_per_hour, egress, compiling, engineering_usd)
    return Total(price, speed, hours, *(cents(x) for x in parts))


@dataclass(frozen=True)
class Comparison:
    """Hold the first type, the second at each speed that somebody states, and what they rest on."""

    work: Work
    options: Sequence[Total]
    speeds: SpeedRange
    route: Transfer
    port: str
    """What the line of engineering is, in a sentence."""


_LINES = ("instances", "egress", "compiling", "engineering")


def tco_card(comparison: Comparison, age: PriceAge) -> Card:
    """Draw the first type, and the second at each speed that somebody states."""
    work, options, speeds, today = comparison.work, comparison.options, comparison.speeds, age.today
    base, moved = options[0], options[1:]
    columns = (
        Heading("USD"),
        Heading(base.price.instance_type, Align.RIGHT),
        *(Heading(_name(x), Align.RIGHT) for x in moved),
    )
    rows = [(line, *(usd(getattr(x, line)) for x in options)) for line in _LINES]
    rows.append(("node $/h", *(usd(x.price.usd_per_hour) for x in options)))
    rows.append(("node-hours", *(f"{x.hours:,.0f}" for x in options)))
    table = Table(
        columns,
        tuple(rows),
        ("total", *(usd(x.total) for x in options)),
        f"{work.months} months of the same work",
    )
    blocks: list[Block] = [text(_verdict(base, moved, speeds)), table]
    blocks += [
        quiet(f"{x.instance_type}: {x}, {x.region}{age.of(x.asof)}.")
        for x in dict.fromkeys(x.price for x in options)
    ]
    blocks += [
        quiet(f"Speed {x.factor:.2f}x, {x.kind}: {x.says} ({cited(x, today)}).")
        for x in speeds.voices
    ]
    blocks += [
        quiet(f"Not used, as the own runs tell: {x.factor:.2f}x, {x.kind}: {x.says}.")
        for x in speeds.unused
    ]
    route = comparison.route
    blocks.append(quiet(comparison.port))
    blocks.append(
        quiet(
            f"Estimated. Egress {usd(route.usd_per_gb, 2)} a GB ({cited(route, today)}). Storage is the same for both."
        )
    )
    blocks.append(
        Buttons((Button("Does porting pay?", "breakeven"), Button("Ten questions", "decide")))
    )
    low, high = min(x.total for x in moved), max(x.total for x in moved)
    span = usd(low) if low == high else f"{usd(low)} to {usd(high)}"
    title = f"{work.months} months: {base.price.instance_type} {usd(base.total)}, {moved[0].price.instance_type} {span}"
    return Card(
        title,
        Tone.INFO,
        tuple(blocks),
        {"options": [_data(x) for x in options], "months": work.months},
    )


def _name(option: Total) -> str:
    return f"{option.price.instance_type.partition('.')[0]} at {option.speed:.2f}x"


def _verdict(base: Total, moved: Sequence[Total], speeds: SpeedRange) -> str:
    cheaper = [x for x in moved if x.total < base.total]
    where = ", as your own runs measured it" if speeds.unused else " at every stated speed"
    if len(cheaper) == len(moved):
        return f"{moved[0].price.instance_type} costs less for the same work{where}."
    if not cheaper:
        return f"{base.price.instance_type} costs less for the same work{where}."
    return "It depends on the speed that your model gets: measure a short run on both."


def _data(option: Total) -> dict[str, Any]:
    lines: dict[str, Decimal] = {f"{line}_usd": getattr(option, line) for line in _LINES}
    price = option.price
    named = {
        "instance_type": price.instance_type,
        "speed": option.speed,
        "usd_per_hour": price.usd_per_hour,
        "asof": price.asof,
    }
    return (
        named
        | {"market": price.market.value, "region": price.region, "node_hours": option.hours}
        | lines
        | {"total_usd": option.total}
    )


_MOST = Decimal(10**9)


_TCO_FIGURES = {
    "speed": (
        "1 of the first type; of the second as typed, else a stated or peak speed-up of a node"
    ),
    "usd_per_hour": (
        "price of the way to buy in one region for both types: the account's own, else "
        "listed, offered, of last resort"
    ),
    "node_hours": "hours a month x months x nodes / speed",
    "instances_usd": "node-hours x price of an hour",
    "egress_usd": "GB a month x months x price of a GB to the internet",
    "compiling_usd": "compile hours a month x months x price of an hour, on Neuron types",
    "engineering_usd": (
        "of the second type alone: as typed, else the usual port; none from Neuron to Neuron"
    ),
    "total_usd": "instances + egress + compiling + engineering",
    "months": "as typed",
}


@command(
    "tco",
    "A year of the same training on two types: instances, egress, compiling, engineering.",
    needs=Needs.METRICS | Needs.STATE,
    may=Needs.BILL,
    topic=Topic.PLANS,
    examples=(
        "tco p5.48xlarge trn1.32xlarge",
        "tco p5.48xlarge trn2.48xlarge nodes=8 engineering_usd=50000 buy=capacity-block",
    ),
    figures=_TCO_FIGURES,
)
async def tco(
    ports: Ports,
    request: Request,
    old: str = arg(None, "the current instance type"),
    new: str = arg(None, "the instance type to compare with"),
    nodes: int = arg("1", "nodes", keyword=True),
    hours: Decimal = arg("730", "hours a month that they work", keyword=True),
    months: int = arg("12", "months", keyword=True),
    speed: Decimal | None = arg(
        "",
        "speed of the new type as a multiple of the old; the published figures when left out",
        keyword=True,
    ),
    egress_gb: Decimal = arg("0", "GB a month transferred out of AWS", keyword=True),
    compile_hours: Decimal = arg("10", "hours a month that a Neuron node compiles", keyword=True),
    engineering_usd: Decimal | None = arg(
        "",
        "one-time cost of porting; two engineer-months between GPUs and Neuron, else none",
        keyword=True,
    ),
    region: str = arg(
        "", "where both are bought; a region that sells both when left out", keyword=True
    ),
    buy: str = arg(
        "",
        "how the hours are bought; on demand, else as both types are sold, when left out",
        choices=("", *(market.value for market in Market)),
        keyword=True,
    ),
) -> Card:
    """Compare totals, never an hour alone."""
    for name, amount in (
        ("hours", hours),
        ("egress_gb", egress_gb),
        ("compile_hours", compile_hours),
        ("engineering_usd", engineering_usd),
    ):
        if amount is not None and not 0 <= amount < _MOST:
            raise WrongInput(f"{name} is 0 or more; got {amount}.")
    if (
        not 1 <= nodes <= 100_000
        or not 1 <= months <= 120
        or (speed is not None and not 0 < speed <= 100)
    ):
        raise WrongInput("nodes is 1 or more, months 1 to 120, speed more than 0.")
    work = Work(nodes, hours, months, egress_gb, compile_hours, engineering_usd)
    where = known_region(region, ports)
    return await asyncio.to_thread(
        _answer, ports, request, (old, new), work, speed, where, Market(buy) if buy else None
    )


def _answer(
    ports: Ports,
    request: Request,
    names: tuple[str, str],
    work: Work,
    speed: Decimal | None,
    region: str,
    market: Market | None,
) -> Card:
    types, claims = ports.world.knowledge.types(), ports.world.knowledge.claims()
    old, new = (_type(name, types) for name in names)
    if old.name == new.name:
        raise WrongInput(f"{old.name} is named twice; name two types.")
    own = measured_speeds(ports, request.at, old, new) if speed is None else ()
    speeds = (
        speed_range(old, new, types, claims, own)
        if speed is None
        else SpeedRange(float(speed), float(speed), float(speed))
    )
    offers, both = Offers(Pricing(ports).at(request.at)), (old.name, new.name)
    prices = _prices(offers, both, market or _sold_as(offers, both), region)
    route, (port_usd, port) = (
        claims.transfer("internet"),
        _port(old, new, work.engineering_usd, claims.efforts, request.at.date()),
    )
    options = [total(work, prices[0], 1.0, route.usd_per_gb, old.has_neuron, Decimal(0))]
    options += [
        total(work, prices[1], x, route.usd_per_gb, new.has_neuron, port_usd)
        for x in sorted({voice.factor for voice in speeds.voices} or set(speeds.each()))
    ]
    stale = ports.policy.at(Labels()).number("advice.stale_days")
    return tco_card(
        Comparison(work, options, speeds, route, port), PriceAge(request.at.date(), stale)
    )


def _type(name: str, types: Mapping[str, InstanceType]) -> InstanceType:
    """Return the type of that name, or the full node of a family of that name."""
    family = [kind for kind in types.values() if kind.family == name]
    return max(family, key=lambda kind: kind.chips) if family else known_type(name, types)


def _port(
    old: InstanceType,
    new: InstanceType,
    given: Decimal | None,
    efforts: Sequence[Effort],
    today: date,
) -> tuple[Decimal, str]:
    """Return the cost of porting and a sentence that founds it.

    Between two Neuron types, or two GPUs, there is none.
    """
    if given is not None:
        return given, f"Engineering: {usd(given)}, as you say."
    if old.has_neuron == new.has_neuron:
        return (
            Decimal(0),
            f"Engineering: none, as {'Neuron' if new.has_neuron else 'CUDA'} code runs on both (engineering_usd= sets it).",
        )
    cost, effort = usual_port(efforts)
    return (
        cost,
        f"Engineering: {usd(cost)}, {effort.says} at {usd(ENGINEER_USD_A_YEAR)} a year ({cited(effort, today)}).",
    )


def _sold_as(offers: Offers, names: tuple[str, str]) -> Market:
    """Return how both types are sold in one region, on demand where they are, and never on spot unasked."""
    return next(
        (
            market
            for market in Market
            if market is not Market.SPOT and offers.shared_region(names, market)
        ),
        Market.ON_DEMAND,
    )


def _prices(
    offers: Offers, names: tuple[str, str], market: Market, region: str
) -> tuple[Price, Price]:
    """Return the price of both in one region; raise `Unavailable` naming where each is known."""
    for name in names:
        if not offers.regions(name, market):
            sold_as = [x.value for x in Market if offers.regions(name, x)]
            other = f"try buy={' or '.join(sold_as)}" if sold_as else "name another type"
            raise Unavailable(f"No {market.value} price of {name} is known; {other}.")
    where = region or offers.shared_region(names, market) or ""
    old, new = (offers.here(name, market, where) for name in names)
    if old is None or new is None:
        known = "; ".join(f"{name} in {', '.join(offers.regions(name, market))}" for name in names)
        sold = (
            f"{region} has no {market.value} price of both"
            if region
            else f"no region has a {market.value} price of both"
        )
        raise Unavailable(f"Prices of two regions are not compared, and {sold}: {known}.")
    return old, new
