"""Answer the cost of the same work on another instance type."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from bot.answers.fleet.card import NodeRow
from bot.answers.fleet.command import look_over
from bot.answers.plan.comparison import (
    ClusterStanding,
    Recompile,
    compare,
    default_target,
    doubts,
    refusals,
    speed_range,
)
from bot.answers.plan.fit import ANY, fit_of, measured
from bot.answers.plan.migrate_card import migration_card, refused_card
from bot.answers.runs.costed import measured_speeds
from bot.cards.card import Card
from bot.cards.words import PriceAge
from bot.costs.pricing import Offers, Pricing
from bot.errors import WrongInput
from bot.grammar.names import known_type, no_cluster
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.fleet import InstanceType
from bot.model.labels import Labels
from bot.model.price import Price
from bot.model.reading import Reading
from bot.model.request import Request
from bot.ports import Ports

_SEEN = timedelta(days=14)


@command(
    "migrate",
    "The cost of a cluster's work on another instance type.",
    needs=Needs.METRICS | Needs.DETECTOR | Needs.STATE,
    may=Needs.BILL,
    topic=Topic.PLANS,
    examples=(
        "migrate llama",
        "migrate llama to trn2.48xlarge",
        "migrate llama port_usd=40000 precision=bf16 matmul=70",
    ),
)
async def migrate(
    ports: Ports,
    request: Request,
    cluster: str = arg(None, "the cluster"),
    to: str = arg(
        "",
        "the instance type; those that published sources compare with today's when left out",
        keyword=True,
    ),
    port_usd: Decimal | None = arg(
        "", "cost of porting the code in USD, to compute when it has paid for itself", keyword=True
    ),
    precision: str = arg(
        "",
        "the precision that it trains in; bf16 when left out",
        choices=("", "fp32", "bf16", "fp8"),
        keyword=True,
    ),
    matmul: Decimal | None = arg(
        "", "percent of a step's time in matrix multiplications, from neuron-profile", keyword=True
    ),
) -> Card:
    """Compare by the cost of the same work, or say why it is too early."""
    if matmul is not None and not 0 <= matmul <= 100:
        raise WrongInput(f"matmul is a share of 0 to 100 percent, such as 70; got {matmul}.")
    return await asyncio.to_thread(
        _answer, ports, request, (cluster, to), port_usd, (precision, matmul)
    )


def _answer(
    ports: Ports,
    request: Request,
    names: tuple[str, str],
    port_usd: Decimal | None,
    told: tuple[str, Decimal | None],
) -> Card:
    cluster, to = names
    types, claims = ports.world.knowledge.types(), ports.world.knowledge.claims()
    if port_usd is not None and not 0 <= port_usd < 10**12:
        raise WrongInput(f"port_usd is an amount of USD, such as 40000; got {port_usd}.")
    standing = _standing(ports, request, cluster)
    target = _target(to, standing, types) if to else default_target(standing.type, types, claims)
    speeds = speed_range(
        standing.type,
        target,
        types,
        claims,
        measured_speeds(ports, request.at, standing.type, target),
    )
    if reasons := refusals(standing):
        return refused_card(standing, target, reasons)
    policy = ports.policy.at(Labels(cluster=cluster))
    offers = Offers(Pricing(ports).at(request.at))
    quotes = [*offers.quotes(target.name), *offers.quotes(standing.type.name)]
    migration = compare(standing, target, speeds, quotes, claims)
    migration = replace(
        migration,
        fit=fit_of(standing.type, target, *told),
        compile_on=_cheapest(offers, target, types, standing),
    )
    if target.family != standing.type.family:
        migration = replace(migration, recompile=_recompile(ports, request, cluster))
    against = doubts(standing, policy.number("advice.least_utilization"))
    return migration_card(
        migration,
        against,
        port_usd,
        PriceAge(request.at.date(), policy.number("advice.stale_days")),
    )


def _recompile(ports: Ports, request: Request, cluster: str) -> Recompile:
    """Return how long compiling anew takes.

    As the cluster's longest compile of 14 days, else as its grace allows.
    """
    reading = ports.world.source.read(request.at)
    seen = [
        x.hours
        for x in ports.world.compiles(reading, ports.policy, request.at - _SEEN)
        if x.scope.cluster == cluster
    ]
    grace = ports.policy.at(Labels(cluster=cluster)).duration("compiling.grace")
    return Recompile(max(seen), seen=True) if seen else Recompile(grace / timedelta(hours=1))


def _target(
    name: str, standing: ClusterStanding, types: Mapping[str, InstanceType]
) -> InstanceType:
    target = known_type(name, types)
    if target.name == standing.type.name:
        raise WrongInput(f"{standing.cluster} already runs {target.name}; name another type.")
    return target


def _standing(ports: Ports, request: Request, cluster: str) -> ClusterStanding:
    """Return how the cluster runs now.

    Raise `WrongInput` for one that does not run, or of unknown types.
    """
    rows, reading = look_over(ports, request)
    mine = [row for row in rows if row.instance.labels.cluster == cluster]
    if not mine:
        raise no_cluster(cluster, sorted({row.instance.labels.cluster for row in rows} - {""}))
    types = ports.world.knowledge.types()
    counts = Counter(row.instance.labels.instance_type for row in mine)
    accelerated = [name for name, _ in counts.most_common() if name in types]
    if not accelerated:
        raise WrongInput(
            f"'{cluster}' runs no instance type known here ({', '.join(sorted(counts))})."
        )
    chosen = [row for row in mine if row.instance.labels.instance_type == accelerated[0]]
    memory = ports.stores.alerts.load(request.at)
    return ClusterStanding(
        cluster,
        types[accelerated[0]],
        len(chosen),
        Counter(row.instance.labels.region for row in chosen).most_common(1)[0][0],
        _price(chosen),
        _utilization(reading, cluster),
        Counter(row.state for row in chosen),
        tuple(
            x
            for x in memory.alerts
            if x.firing and _label(x.anomaly.scope, x.anomaly.labels) == cluster
        ),
        tuple(sorted(set(counts) - {accelerated[0]})),
    )


def _label(scope: Labels, labels: Labels) -> str:
    return scope.cluster or labels.cluster


def _price(rows: Sequence[NodeRow]) -> Price | None:
    """Return the price that most of the nodes have."""
    prices = Counter(row.price for row in rows if row.price)
    return prices.most_common(1)[0][0] if prices else None


def _utilization(reading: Reading, cluster: str) -> float | None:
    """Return the mean of the readings of 24 hours, None where there is none."""
    frame = reading.frame("node")
    rows = [i for i, thing in enumerate(frame.things) if thing.cluster == cluster] if frame else []
    return measured(frame, rows, timedelta(days=1), ANY).mean


def _cheapest(
    offers: Offers,
    target: InstanceType,
    types: Mapping[str, InstanceType],
    standing: ClusterStanding,
) -> Price | None:
    """Return the cheapest node with the target's chip.

    What it compiles, the others load from the cache.
    """
    same = (
        kind.name
        for kind in types.values()
        if kind.accelerator == target.accelerator and kind.has_neuron
    )
    prices = [price for name in same if (price := offers.plain(name, standing.region))]
    return min(prices, key=lambda price: price.usd_per_hour, default=None)
