"""Compare a cluster with another instance type at the same work, with the reasons against."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from bot.answers.plan.fit import ClusterNodes, Fit
from bot.cards.card import Align
from bot.cards.columns import NUMBER, RATIO, TIMES, USD, Column, Columns, Unit, datum
from bot.costs.pricing import Offers
from bot.costs.verdict import Verdict, percents
from bot.errors import WrongInput
from bot.model.alert import Alert
from bot.model.anomaly import NodeState
from bot.model.claims import ClaimedSaving, Claims, Conflict, SpeedUp
from bot.model.fleet import InstanceType, Market
from bot.model.money import cents, usd
from bot.model.price import Price

_WORKING = {NodeState.BUSY, NodeState.NEW}


@dataclass(frozen=True)
class ClusterStanding(ClusterNodes):
    """State a cluster as it runs, by its mean utilization of 24 hours."""

    states: Mapping[NodeState, int] = field(default_factory=dict)
    alerts: tuple[Alert, ...] = ()
    """Open alerts of the cluster."""
    other_types: tuple[str, ...] = ()
    markets: Mapping[Market, int] = field(default_factory=dict)
    """How many of the nodes are bought in which way, the most first; none where all are as `price`."""

    @property
    def bought(self) -> Mapping[Market, int]:
        """Return how many of the nodes are bought in which way, none where no price is known."""
        return self.markets or ({self.price.market: self.nodes} if self.price else {})

    def nodes_at(self, speedup: float) -> int:
        """Return how many nodes keep today's pace, each so many times as fast as one of today's."""
        # A hair above a whole number is a rounding error, and no reason for one node more.
        return math.ceil(self.nodes / speedup - 1e-9)


def refusals(standing: ClusterStanding) -> tuple[str, ...]:
    """Return why no faster chip can be advised now, each a sentence; empty when it can."""
    reasons = [
        f"{alert.cause.value.replace('_', ' ')}: {alert.cause.facts.no_faster_chip}"
        for alert in standing.alerts
        if alert.cause.facts.no_faster_chip and _half(alert, standing)
    ]

    # An alert says better than the nodes' states why they do not work.
    total = sum(standing.states.values())
    working = sum(standing.states.get(state, 0) for state in _WORKING)
    if not reasons and 2 * working < total:
        reasons.append(f"only {working} of {total} nodes work now ({state_counts(standing)})")

    if standing.utilization is None:
        reasons.append(
            "no utilization was read in the last 24 hours, so nothing can be said of its work"
        )

    if standing.price is None:
        reasons.append(f"no price of {standing.type.name} is known, so nothing can be compared")

    return tuple(dict.fromkeys(reasons))


def state_counts(standing: ClusterStanding) -> str:
    """Write how many nodes are in each state, the most first: `12 busy, 4 idle`."""
    return ", ".join(
        f"{n} {state.value}"
        for state, n in sorted(standing.states.items(), key=lambda entry: -entry[1])
    )


def doubts(standing: ClusterStanding, least_utilization: float) -> tuple[str, ...]:
    """Return the doubts about moving, none of which forbids it, each a sentence."""
    sentences = []
    if standing.utilization is not None and standing.utilization < least_utilization:
        used, least = f"{standing.utilization * 100:.0f} %", f"{least_utilization * 100:.0f} %"
        sentences.append(
            f"Utilization was {used} over 24 hours, under {least}: fill today's chips before"
            " paying for faster ones."
        )
    sentences += [
        f"{len(alert.anomaly.things)} of {standing.nodes} nodes are"
        f" {alert.cause.value.replace('_', ' ')}: see to them first."
        for alert in standing.alerts
        if alert.cause.facts.no_faster_chip and not _half(alert, standing)
    ]
    if standing.other_types:
        sentences.append(f"The cluster also runs {', '.join(standing.other_types)}, left out here.")

    return tuple(sentences)


def _half(alert: Alert, standing: ClusterStanding) -> bool:
    return not alert.anomaly.things or 2 * len(alert.anomaly.things) >= standing.nodes


Types = Mapping[str, InstanceType]


@dataclass(frozen=True)
class SpeedScenario:
    """State one speed-up's outcome.

    Whole nodes for today's pace, their USD an hour, cost of the same work (1 = today).
    """

    speedup: float
    nodes: int
    usd_per_hour: Decimal
    relative_cost: float


@dataclass(frozen=True)
class Option:
    """State one way to buy one type, at the low, middle and high speed-up."""

    price: Price
    stays: bool
    scenarios: tuple[SpeedScenario, SpeedScenario, SpeedScenario]

    @property
    def worst(self) -> float:
        """Return the highest cost of the same work."""
        return max(x.relative_cost for x in self.scenarios)

    @property
    def middle(self) -> float:
        """Return the cost of the same work at the middle voice."""
        return self.scenarios[1].relative_cost

    @property
    def best(self) -> float:
        """Return the lowest cost of the same work."""
        return min(x.relative_cost for x in self.scenarios)

    @property
    def nodes(self) -> str:
        """Write how many nodes it takes: `8`, or `6-12` from the fastest to the slowest source."""
        slowest, _, fastest = self.scenarios
        return "-".join(dict.fromkeys((f"{fastest.nodes}", f"{slowest.nodes}")))

    @property
    def usd_per_hour(self) -> str:
        """Write the cost of an hour of as many nodes."""
        slowest, _, fastest = self.scenarios
        cost = usd(slowest.usd_per_hour)
        if slowest.nodes == fastest.nodes:
            return cost
        return f"{usd(fastest.usd_per_hour)}-{cost.removeprefix('$')}"


@dataclass(frozen=True)
class Recompile:
    """State how long every node compiles anew once.

    `seen` of the cluster's own compiles, else as long as the grace allows.
    """

    hours: float
    seen: bool = False

    def usd(self, scenario: SpeedScenario) -> Decimal:
        """Return the cost on the new nodes."""
        return cents(scenario.usd_per_hour * Decimal(str(self.hours)))


@dataclass(frozen=True)
class Migration:
    """Hold the comparison: options that move and that stay, cheapest first."""

    standing: ClusterStanding
    to: InstanceType
    options: tuple[Option, ...]
    verdict: Verdict
    """Which type does the same work for less, like for like, and at which speeds."""
    savings: tuple[ClaimedSaving, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    cautions: tuple[str, ...] = field(default=())
    recompile: Recompile | None = None
    """None where compiled artifacts go on: the family stays the same."""
    compile_on: Price | None = None
    """The cheapest node of the new family, to compile on first."""
    fit: Fit | None = None

    def moves(self) -> tuple[Option, ...]:
        """Return the options of the new type."""
        return tuple(option for option in self.options if not option.stays)

    def stays(self) -> tuple[Option, ...]:
        """Return the other ways to buy today's type."""
        return tuple(option for option in self.options if option.stays)


VOICES = Columns[SpeedUp](
    Column(
        "speed-up",
        lambda voice: voice.factor,
        Unit(TIMES.write, Align.LEFT),
        "factor",
        "as its source states it, by the share of a full node",
    ),
    Column("kind", lambda voice: voice.kind.value, key="kind"),
    Column("says", lambda voice: voice.says, key="says"),
    datum("source", lambda voice: voice.source),
    datum("asof", lambda voice: voice.asof),
)
CONFLICTS = Columns[Conflict](
    Column("vendor texts say", lambda conflict: conflict.vendor_says, key="vendor_says"),
    Column("AWS says", lambda conflict: conflict.aws_says, key="aws_says"),
    datum("source", lambda conflict: conflict.source),
)


def cost_span(option: Option) -> str:
    """Write the range of the same work's cost, with the middle where there is a range."""
    span = percents(option.best, option.worst)
    return f"{span}, middle {option.middle * 100:.0f} %" if "-" in span else span


SCENARIOS = Columns[SpeedScenario](
    datum("speedup", lambda x: x.speedup, "one of the stated speed-ups; 1 where the type stays"),
    datum("nodes", lambda x: x.nodes, "today's nodes / speed-up, rounded up"),
    datum("usd_per_hour", lambda x: x.usd_per_hour, "nodes x price of a node's hour"),
    datum(
        "relative_cost",
        lambda x: x.relative_cost,
        "price of the new hour / (speed-up x price of today's hour)",
        RATIO,
    ),
)
OPTIONS = Columns[Option](
    datum("instance_type", lambda option: option.price.instance_type),
    datum("market", lambda option: option.price.market.value),
    Column("same work costs", cost_span, NUMBER),
    Column("nodes", lambda option: option.nodes, NUMBER),
    Column("cluster $/h", lambda option: option.usd_per_hour, NUMBER),
    Column("region", lambda option: option.price.region, key="region"),
    datum("basis", lambda option: option.price.basis.value),
    Column(
        "node $/h",
        lambda option: option.price.usd_per_hour,
        USD,
        "node_usd_per_hour",
        "price of the way to buy: the account's own, else listed, offered, of last resort",
    ),
    datum("asof", lambda option: option.price.asof),
    datum("stays", lambda option: option.stays),
    datum("scenarios", lambda option: SCENARIOS.data(option.scenarios)),
)


def default_target(standing: InstanceType, types: Types, claims: Claims) -> InstanceType:
    """Return the type of the family that voices compare with, in speed or in cost.

    Raise `WrongInput` where none do.
    """
    claimed = [(x.from_family, x.to_family) for x in claims.speedups + claims.savings]
    families = [new for old, new in claimed if old == standing.family]
    if not families:
        raise WrongInput(
            f"No source compares {standing.family} with another family (known:"
            f" {', '.join(sorted({old for old, _ in claimed}))}); name one: migrate X to TYPE."
        )

    sizes = sorted((x for x in types.values() if x.family == families[0]), key=lambda x: x.chips)

    return sizes[0] if standing.chips == 1 else sizes[-1]


def compare(
    standing: ClusterStanding,
    to: InstanceType,
    offers: Offers,
    claims: Claims,
    verdict: Verdict,
) -> Migration:
    """Return the comparison by the offers of both types; `standing.price` must be known."""
    today = standing.bought
    moving = offers.each(to.name, standing.region)
    options = [option_of(standing, price, verdict.factors) for price in moving]
    options += [
        option_of(standing, price)
        for price in offers.each(standing.type.name, standing.region)
        if (price.market not in today or len(today) > 1) and price.region == standing.region
    ]

    return Migration(
        standing,
        to,
        tuple(sorted(options, key=lambda option: option.middle)),
        verdict,
        tuple(
            x
            for x in claims.savings
            if (x.from_family, x.to_family) == (standing.type.family, to.family)
        ),
        tuple(x for x in claims.conflicts if x.about(to.name) or x.about(standing.type.name)),
        tuple(_cautions(standing, to, verdict, moving)),
    )


def break_even_hours(
    port_usd: Decimal, standing: ClusterStanding, relative_cost: float
) -> float | None:
    """Return after how many hours of today's work a port has paid for itself, None for never."""
    saved = float(standing.usd_per_hour) * (1 - relative_cost)
    return float(port_usd) / saved if saved > 0 else None


def option_of(
    standing: ClusterStanding, price: Price, factors: tuple[float, float, float] | None = None
) -> Option:
    """Return a move at that price and at those speeds; to stay where none are given."""
    assert standing.price
    ratio = float(price.usd_per_hour / standing.price.usd_per_hour)

    def at(speedup: float) -> SpeedScenario:
        nodes = standing.nodes_at(speedup)
        return SpeedScenario(speedup, nodes, nodes * price.usd_per_hour, ratio / speedup)

    slowest, middle, fastest = factors or (1.0, 1.0, 1.0)
    return Option(price, factors is None, (at(slowest), at(middle), at(fastest)))


def _cautions(
    standing: ClusterStanding, to: InstanceType, verdict: Verdict, moving: Sequence[Price]
) -> Iterator[str]:
    """Yield what else speaks against a move, each a sentence."""
    if not moving:
        yield (f"No price of {to.name} is known in any market, so its cost cannot be compared.")
    elif not any(x.region == standing.region for x in moving):
        where = ", ".join(sorted({x.region for x in moving}))
        yield (
            f"{to.name} has no known price in {standing.region}, only in {where}: data and"
            " storage would have to move too."
        )

    if len(verdict.speeds) == 1 and not verdict.unused:
        yield "Only one source compares the two: measure before you decide."
    committed = sum(standing.bought.get(x, 0) for x in (Market.SAVINGS_PLAN, Market.RESERVED))
    if committed:
        whose = (
            "Today's hours" if committed == standing.nodes else f"The hours of {committed} nodes"
        )
        yield f"{whose} are committed: what is not used is still paid until the commitment ends."

    fewest = standing.nodes_at(verdict.factors[-1])
    if fewest * to.accelerator_memory_gib < standing.nodes * standing.type.accelerator_memory_gib:
        yield (
            f"{fewest} x {to.name} hold less accelerator memory than today's nodes: check that"
            " the model fits."
        )
