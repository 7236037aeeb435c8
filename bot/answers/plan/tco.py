"""Answer the cost of a year of the same training on two instance types, line by line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from bot.answers.plan.breakeven import ENGINEER_USD_A_YEAR, refuse_amounts, usual_port
from bot.answers.runs.costed import VERDICT, unused_lines, verdict_of
from bot.cards.card import Align, Button, Buttons, Card, Heading, Table, Tone, compose, quiet, text
from bot.cards.columns import USD, Column, Columns, Unit, datum
from bot.cards.words import PriceAge, cited
from bot.costs.pricing import Offers, Pricing
from bot.costs.verdict import Verdict, percents
from bot.errors import Unavailable, refuse
from bot.grammar.names import known_region, known_type
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.claims import Effort, Transfer
from bot.model.fleet import InstanceType, Market
from bot.model.money import cents, usd
from bot.model.price import Price
from bot.model.request import Request
from bot.ports import Ports


@dataclass(frozen=True)
class Work:
    """State a year's training as the first type does it.

    Node-hours a month, data out by a route, compiling.
    """

    nodes: int
    hours_a_month: Decimal
    months: int
    egress_gb_a_month: Decimal
    compile_hours_a_month: Decimal
    """Of one node, while the others wait for nothing; Neuron types only."""
    route: Transfer


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

    egress = work.egress_gb_a_month * work.months * work.route.usd_per_gb
    parts = (hours * price.usd_per_hour, egress, compiling, engineering_usd)

    return Total(price, speed, hours, *(cents(x) for x in parts))


OPTIONS = Columns[Total](
    datum("instance_type", lambda x: x.price.instance_type),
    datum(
        "speed",
        lambda x: x.speed,
        "1 of the first type; of the second as typed, else a stated or peak speed-up of a node",
    ),
    datum(
        "usd_per_hour",
        lambda x: x.price.usd_per_hour,
        "price of the way to buy in one region for both types: the account's own, else "
        "listed, offered, of last resort",
    ),
    datum("asof", lambda x: x.price.asof),
    datum("market", lambda x: x.price.market.value),
    datum("region", lambda x: x.price.region),
    Column(
        "node-hours",
        lambda x: x.hours,
        Unit("{:,.0f}".format),
        "node_hours",
        "hours a month x months x nodes / speed",
    ),
    Column(
        "instances", lambda x: x.instances, USD, "instances_usd", "node-hours x price of an hour"
    ),
    Column(
        "egress",
        lambda x: x.egress,
        USD,
        "egress_usd",
        "GB a month x months x price of a GB to the internet",
    ),
    Column(
        "compiling",
        lambda x: x.compiling,
        USD,
        "compiling_usd",
        "compile hours a month x months x price of an hour, on Neuron types",
    ),
    Column(
        "engineering",
        lambda x: x.engineering,
        USD,
        "engineering_usd",
        "of the second type alone: as typed, else the usual port; none from Neuron to Neuron",
    ),
    Column("node $/h", lambda x: x.price.usd_per_hour, USD),
    Column(
        "total",
        lambda x: x.total,
        USD,
        "total_usd",
        "instances + egress + compiling + engineering",
    ),
)
_LINES = ("instances", "egress", "compiling", "engineering", "node $/h", "node-hours", "total")


def tco_card(
    work: Work, options: Sequence[Total], judged: Verdict, port: str, age: PriceAge
) -> Card:
    """Draw the first type, and the second at each speed that somebody states.

    `port` says in a sentence what the line of engineering is.
    """
    base, moved = options[0], options[1:]
    old, new = base.price.instance_type, moved[0].price.instance_type
    names = [f"{new.partition('.')[0]} at {option.speed:.2f}x" for option in moved]

    # The options stand side by side, a line of the cost in each row.
    *lines, sums = (
        (column.name, *(column.cell(option) for option in options))
        for column in OPTIONS.pick(*_LINES).drawn
    )

    verdict = str(judged)
    if judged.ratios and base.total:
        # The verdict is of the hours that the work takes; the totals hold what is paid besides.
        ratios = sorted(float(option.total / base.total) for option in moved)
        side, against = new, old
        if judged.cheaper == old:
            side, against, ratios = old, new, sorted(1 / ratio for ratio in ratios)
        span = percents(ratios[0], ratios[-1])
        verdict += (
            f" That is for the hours alone: {work.months} months with egress, compiling and"
            f" engineering on {side} cost {span} of {against}'s"
        )
        if judged.cheaper == new and any(option.total >= base.total for option in moved):
            ported = any(option.engineering for option in moved)
            once = "porting and compiling are" if ported else "compiling is"
            verdict += f", which does not pay for what {once} paid once"
        verdict += "."

    totals = sorted({option.total for option in moved})
    span = " to ".join(usd(total) for total in dict.fromkeys((totals[0], totals[-1])))

    return Card(
        f"{work.months} months: {old} {usd(base.total)}, {new} {span}",
        Tone.INFO,
        compose(
            text(verdict),
            Table(
                (Heading("USD"), *(Heading(name, Align.RIGHT) for name in (old, *names))),
                tuple(lines),
                sums,
                f"{work.months} months of the same work",
            ),
            [
                quiet(f"{x.instance_type}: {x}, {x.region}{age.of(x.asof)}.")
                for x in dict.fromkeys(option.price for option in options)
            ],
            [
                quiet(f"Speed {x.factor:.2f}x, {x.kind}: {x.says} ({cited(x, age.today)}).")
                for x in judged.speeds
            ],
            unused_lines(judged),
            quiet(port),
            quiet(
                f"Estimated. Egress {usd(work.route.usd_per_gb, 2)} a GB"
                f" ({cited(work.route, age.today)}). Storage is the same for both."
            ),
            Buttons(
                (Button("Does porting pay?", "breakeven"), Button("Twelve questions", "decide"))
            ),
        ),
        {
            "options": OPTIONS.data(options),
            "months": work.months,
            "verdict": VERDICT.record(judged),
        },
    )


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
    figures={
        **OPTIONS.sources("options"),
        "months": "as typed",
        **VERDICT.sources("verdict"),
    },
)
def tco(
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
    refuse_amounts(
        10**9,
        hours=hours,
        egress_gb=egress_gb,
        compile_hours=compile_hours,
        engineering_usd=engineering_usd,
    )
    refuse(
        (
            not 1 <= nodes <= 100_000
            or not 1 <= months <= 120
            or (speed is not None and not 0 < speed <= 100),
            "nodes is 1 or more, months 1 to 120, speed more than 0.",
        )
    )
    where = known_region(region, ports)
    types, claims = ports.world.knowledge.types(), ports.world.knowledge.claims()
    first, second = _type(old, types), _type(new, types)
    refuse((first.name == second.name, f"{first.name} is named twice; name two types."))

    reading, market = ports.world.source.read(request.at), Market(buy) if buy else None
    stated = None if speed is None else float(speed)
    verdict = verdict_of(ports, reading, (first, second), stated, market, where)
    if verdict.prices is None:
        offers = Offers(Pricing(ports).at(request.at))
        raise _unpriced(offers, (first.name, second.name), market or Market.ON_DEMAND, where)

    port_usd, port = _port(first, second, engineering_usd, claims.efforts, request.at.date())
    route = claims.transfer("internet")
    work = Work(nodes, hours, months, egress_gb, compile_hours, route)
    before, after = verdict.prices
    options = [
        total(work, before, 1.0, first.has_neuron, Decimal(0)),
        *(
            total(work, after, factor, second.has_neuron, port_usd)
            for factor in sorted({voice.factor for voice in verdict.speeds})
        ),
    ]

    return tco_card(work, options, verdict, port, PriceAge.on(request.at, ports.policy))


def _port(
    first: InstanceType,
    second: InstanceType,
    engineering_usd: Decimal | None,
    efforts: Sequence[Effort],
    today: date,
) -> tuple[Decimal, str]:
    """Return the cost of porting and a sentence that founds it."""
    if engineering_usd is not None:
        return engineering_usd, f"Engineering: {usd(engineering_usd)}, as typed."

    # Between two Neuron types, or two GPUs, there is nothing to port.
    if first.has_neuron == second.has_neuron:
        code = "Neuron" if second.has_neuron else "CUDA"
        none = f"Engineering: none, as {code} code runs on both (engineering_usd= sets it)."
        return Decimal(0), none

    cost, effort = usual_port(efforts)

    return (
        cost,
        f"Engineering: {usd(cost)}, {effort.says} at {usd(ENGINEER_USD_A_YEAR)} a year"
        f" ({cited(effort, today)}).",
    )


def _type(name: str, types: Mapping[str, InstanceType]) -> InstanceType:
    """Return the type of that name, or the full node of a family of that name."""
    family = [kind for kind in types.values() if kind.family == name]
    return max(family, key=lambda kind: kind.chips) if family else known_type(name, types)


def _unpriced(offers: Offers, names: tuple[str, str], market: Market, region: str) -> Unavailable:
    """Return the refusal of two types that have no price in one region, naming where each has."""
    for name in names:
        if not offers.regions(name, market):
            sold_as = [x.value for x in Market if offers.regions(name, x)]
            hint = f"try buy={' or '.join(sold_as)}" if sold_as else "name another type"
            return Unavailable(f"No {market.value} price of {name} is known; {hint}.")

    regions = "; ".join(f"{name} in {', '.join(offers.regions(name, market))}" for name in names)
    sold = f"{region or 'no region'} has {'no' if region else 'a'} {market.value} price of both"
    return Unavailable(f"Prices of two regions are not compared, and {sold}: {regions}.")
