"""Answer the cost of the same work on another instance type, or why it is too early to say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from bot.answers.fleet.card import NodeRow
from bot.answers.fleet.command import look_over
from bot.answers.plan.comparison import (
    CONFLICTS,
    OPTIONS,
    SCENARIOS,
    VOICES,
    ClusterStanding,
    Migration,
    Option,
    Recompile,
    SpeedScenario,
    break_even_hours,
    compare,
    cost_span,
    default_target,
    doubts,
    option_of,
    refusals,
    state_counts,
)
from bot.answers.plan.fit import (
    ANY,
    fit_blocks,
    fit_data,
    fit_of,
    measured,
    of_commonest_type,
)
from bot.answers.runs.costed import VERDICT, unused_lines, verdict_of
from bot.cards.card import (
    Button,
    Buttons,
    Card,
    Chart,
    ChartKind,
    Facts,
    Series,
    Table,
    Text,
    Tone,
    compose,
    quiet,
    text,
)
from bot.cards.columns import Column, Columns
from bot.cards.words import PriceAge, cited
from bot.costs.pricing import Offers, Pricing
from bot.errors import TrnbotError, WrongInput, refuse
from bot.grammar.names import known_type, no_cluster
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.claims import Conflict, Sourced, SpeedUp
from bot.model.fleet import InstanceType, Market
from bot.model.labels import Labels
from bot.model.money import counted, usd
from bot.model.reading import Reading
from bot.model.request import Request
from bot.model.window import calendar_day, duration_text
from bot.ports import Ports


def migration_data(
    migration: Migration, doubts: Sequence[str], port_usd: Decimal | None
) -> dict[str, Any]:
    """Return the standing, every option with its scenarios, their sources, and the doubts."""
    standing, verdict, moves = migration.standing, migration.verdict, migration.moves()
    low, middle, high = verdict.factors
    return {
        "cluster": standing.cluster,
        "from": standing.type.name,
        "to": migration.to.name,
        "nodes": standing.nodes,
        "utilization_ratio": standing.utilization,
        "usd_per_hour": standing.usd_per_hour,
        "speedup": {
            "low": low,
            "mid": middle,
            "high": high,
            "voices": VOICES.data(verdict.speeds),
        },
        "options": OPTIONS.data(migration.options),
        "verdict": VERDICT.record(verdict),
        "doubts": [*doubts, *migration.cautions],
        "refused": [],
        "port_usd": port_usd,
        "recompile_usd": migration.recompile.usd(moves[0].scenarios[1])
        if migration.recompile and moves
        else None,
        "compile_usd_per_hour": migration.compile_on.usd_per_hour if migration.compile_on else None,
        "fit": fit_data(migration.fit) if migration.fit else None,
        "conflicts": CONFLICTS.data(migration.conflicts),
    }


def refused_card(standing: ClusterStanding, to: InstanceType, reasons: Sequence[str]) -> Card:
    """Say why no comparison is made now."""
    return Card(
        f"Too early to move {standing.cluster} to {to.name}",
        Tone.WARNING,
        compose(
            [text(f"{reason[0].upper()}{reason[1:]}.") for reason in reasons],
            _today(standing),
            quiet(
                "Ask again once it works; an answer now would promise savings a faster chip cannot"
                " give."
            ),
            Buttons((Button("Alerts", "alerts"), Button("Fleet", f"fleet {standing.cluster}"))),
        ),
        {"cluster": standing.cluster, "to": to.name, "refused": list(reasons), "options": []},
    )


def migration_card(
    migration: Migration, doubts: Sequence[str], port_usd: Decimal | None, age: PriceAge
) -> Card:
    """Show every way to buy at each speed-up, with the sources of the numbers."""
    title, verdict, tone = _judged(migration)
    moves, judged, today = migration.moves(), migration.verdict, age.today
    voices_of = (
        ", as your own runs measured it"
        if judged.unused
        else " in BF16, as others state it; yours will differ"
    )
    recompiling, recompile = "", migration.recompile
    if recompile and moves:
        scenario, basis = moves[0].scenarios[1], "as the longest compile seen here"
        if not recompile.seen:
            basis = "an assumption, as long as compiling.grace allows"
        recompiling = (
            f"Recompiling once: about {usd(recompile.usd(scenario))} ({counted(scenario.nodes, 'node')}"
            f" for {recompile.hours * 60:.0f} min, {basis});"
            " compiled artifacts do not move to another family, nor to another compiler version."
            " Compile on one node first (neuron_parallel_compile), and the others wait for nothing."
        )
    source = Column[Sourced]("source", lambda fact: cited(fact, today))

    return Card(
        title,
        tone,
        compose(
            text(verdict),
            [text(doubt) for doubt in (*doubts, *migration.cautions)],
            _today(migration.standing),
            _options(migration, age),
            bool(migration.options) and _chart(migration),
            _payoffs(migration, port_usd) if port_usd is not None and moves else None,
            recompiling and quiet(recompiling),
            Columns[SpeedUp](*VOICES.drawn, source).table(
                judged.speeds,
                caption=f"Work of one {migration.to.name} against one"
                f" {migration.standing.type.name}{voices_of}",
            ),
            unused_lines(judged),
            fit_blocks(migration.fit) if migration.fit else None,
            _before_paying(migration, age),
            [
                quiet(f"Vendors also say: {x.says} ({cited(x, today)}); not in the range above.")
                for x in migration.savings
            ],
            bool(migration.conflicts)
            and Columns[Conflict](*CONFLICTS.drawn, source).table(
                migration.conflicts,
                caption="Where vendor texts contradict AWS's own documents; AWS's figures are used",
            ),
            Buttons(
                (
                    Button("What it costs", f"cost 7d cluster={migration.standing.cluster}"),
                    Button("Alerts", "alerts"),
                )
            ),
        ),
        migration_data(migration, doubts, port_usd),
    )


def _judged(migration: Migration) -> tuple[str, str, Tone]:
    """Return the title, the verdict and the tone: praise only for a move that costs less."""
    moves, verdict = migration.moves(), migration.verdict
    # What may be reclaimed any minute is no way to stay.
    stays = [x for x in migration.stays() if x.price.market is not Market.SPOT]
    subject = f"{migration.standing.cluster} to {migration.to.name}"
    if not moves:
        return f"{subject}: no price to compare", "Only the speed can be compared.", Tone.INFO

    sentences = [str(verdict)]
    move, price = moves[0], migration.standing.price
    if price and move.price.market is not price.market:
        sentences.append(
            "Part of the difference from today is how the hour is bought, not the chip."
        )

    if stays and stays[0].middle < min(1.0, move.middle):
        market, span = _bought(stays[0].price.market), cost_span(stays[0])
        sentences.append(
            f"Staying and buying as {market} costs less than moving: {span} of today's cost."
        )

    tones = {migration.to.name: Tone.GOOD, migration.standing.type.name: Tone.WARNING}

    return (
        f"{subject}: {verdict.headline}",
        " ".join(sentences),
        tones.get(verdict.cheaper or "", Tone.INFO),
    )


def _today(standing: ClusterStanding) -> Facts:
    used = "no reading"
    if standing.utilization is not None:
        used = f"{standing.utilization * 100:.0f} % over 24 hours"
    facts = [
        ("runs", f"{standing.nodes} x {standing.type.name}, {standing.region}"),
        ("used", used),
        ("now", state_counts(standing) or "unknown"),
    ]
    if price := standing.price:
        mean = " on average" if len(standing.bought) > 1 else ""
        facts.append(
            (
                "costs",
                f"{usd(standing.usd_per_hour)} an hour ({usd(price.usd_per_hour)} a node{mean},"
                f" {_ways(standing)}, {price.origin})",
            )
        )

    return Facts(tuple(facts))


def _ways(standing: ClusterStanding) -> str:
    """Write how today's nodes are bought: "on-demand", or "53 savings plan, 9 on-demand"."""
    if len(standing.bought) == 1:
        return _bought(next(iter(standing.bought)))
    return ", ".join(f"{nodes} {_bought(market)}" for market, nodes in standing.bought.items())


def _options(migration: Migration, age: PriceAge) -> Table:
    standing, price = migration.standing, migration.standing.price
    assert price

    # Today is one more way: no faster, on as many nodes.
    today = option_of(standing, price)

    def name(way: Option) -> str:
        return f"today, {_ways(standing)}" if way is today else _name(way)

    def dated(way: Option) -> str:
        if way is today:
            return f"{calendar_day(price.asof)}, {price.basis}"
        return age.dated(way.price)

    cost = OPTIONS.pick("same work costs", "nodes", "cluster $/h", "node_usd_per_hour", "region")

    return Columns(Column("how", name), *cost.columns, Column("price of", dated)).table(
        (today, *migration.options),
        caption=f"Stay = {standing.type.name}, move = {migration.to.name}; the same work at"
        " today's pace, over the speed-ups below",
    )


def _name(option: Option) -> str:
    return f"{'stay' if option.stays else 'move'}, {_bought(option.price.market)}"


def _bought(market: Market) -> str:
    """Say how an hour is bought, as people do."""
    return market.replace("capacity-block", "capacity block").replace(
        "savings-plan", "savings plan"
    )


def _chart(migration: Migration) -> Chart:
    # A bar is named as shortly as tells it from the others.
    several = len(migration.moves()) > 1
    bars = [("today", 1.0)]
    for option in migration.options:
        if option.stays:
            bars.append((_name(option), option.scenarios[0].relative_cost))
            continue
        market = f", {_bought(option.price.market)}" if several else ""
        bars += [
            (f"move, {scenario.speedup:.1f}x{market}", scenario.relative_cost)
            for scenario in dict.fromkeys(option.scenarios)
        ]

    shares = tuple(round(share * 100, 1) for _, share in bars)

    return Chart(
        ChartKind.BAR,
        "Cost of the same work",
        "%",
        (Series("cost of the same work", shares),),
        categories=tuple(name for name, _ in bars),
        summary=f"Cost of the same work, today = 100 %: from {min(shares):.0f} % to"
        f" {max(shares):.0f} %.",
    )


def _payoffs(migration: Migration, port_usd: Decimal) -> Table:
    """Say at each speed-up when a port has paid for itself."""
    names = ["slowest source", "middle", "fastest source"]
    if len(migration.verdict.speeds) == 1:
        names = ["the only source"]

    def payoff(scenario: SpeedScenario) -> str | None:
        paid = port_usd + (migration.recompile.usd(scenario) if migration.recompile else 0)
        hours = break_even_hours(paid, migration.standing, scenario.relative_cost)
        if hours is None:
            return None
        return f"{duration_text(timedelta(hours=hours))} of today's work"

    included = ", recompiling included" if migration.recompile else ""

    return Columns[tuple[str, SpeedScenario]](
        Column("speed-up", lambda row: f"{row[1].speedup:.1f}x, {row[0]}"),
        Column("pays back after", lambda row: payoff(row[1]), missing="never"),
    ).table(
        list(zip(names, migration.moves()[0].scenarios, strict=False)),
        caption=f"When {usd(port_usd)} of porting pays{included}",
    )


def _before_paying(migration: Migration, age: PriceAge) -> Text:
    compiling, price = "", migration.compile_on
    if migration.to.has_neuron and price is None:
        compiling = "compile on one node (neuron_parallel_compile), "
    elif migration.to.has_neuron and price:
        cost = (
            f"{usd(price.usd_per_hour)} an hour, {_bought(price.market)} in {price.region},"
            f" {calendar_day(price.asof)}{age.of(price.asof)}"
        )
        compiling = f"compile on one {price.instance_type} (neuron_parallel_compile: {cost}), "
    return text(
        f"Before paying: {compiling}train a short run on both, and compare the loss curve and"
        " the cost of an epoch."
    )


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
    figures={
        "nodes": "count of the cluster's running nodes of its type",
        "utilization_ratio": "mean of the nodes over the days read",
        "usd_per_hour": "sum over the nodes of the price of an hour",
        "speedup/*": (
            "the slowest, middle and fastest speed-up that somebody states, or the run's own"
        ),
        **VOICES.sources("voices"),
        **OPTIONS.sources("options"),
        **SCENARIOS.sources("scenarios"),
        **VERDICT.sources("verdict"),
        "port_usd": "as typed",
        "recompile_usd": "cost an hour of the new nodes x hours of compiling",
        "compile_usd_per_hour": "price of the type that the work would be compiled on",
        "fit/*": "peak figures of the new type / those of today's, by the makers' pages",
        "by_matmul/*": "by Amdahl's law over the share of matrix multiplication",
    },
)
def migrate(
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
    refuse(
        (
            matmul is not None and not 0 <= matmul <= 100,
            f"matmul is a share of 0 to 100 percent, such as 70; got {matmul}.",
        ),
        (
            port_usd is not None and not 0 <= port_usd < 10**12,
            f"port_usd is an amount of USD, such as 40000; got {port_usd}.",
        ),
    )
    types, claims = ports.world.knowledge.types(), ports.world.knowledge.claims()
    rows, reading = look_over(ports, request.at)
    standing = _standing(ports, rows, reading, cluster)
    today = standing.type
    target = known_type(to, types) if to else default_target(today, types, claims)
    if to and target.name == today.name:
        raise WrongInput(f"{cluster} already runs {target.name}; name another type.")

    if reasons := refusals(standing):
        return refused_card(standing, target, reasons)

    policy = ports.policy.at(Labels(cluster=cluster))
    offers = Offers(Pricing(ports).at(request.at))
    migration = _compared(ports, reading, standing, target)

    # One node with the target's chip compiles, and the others load its artifacts from the cache.
    compilers = (x for x in types.values() if x.accelerator == target.accelerator and x.has_neuron)
    prices = [
        price for x in compilers if (price := offers.plain(x.name, standing.region)) is not None
    ]
    migration = replace(
        migration,
        fit=fit_of(today, target, precision, matmul),
        compile_on=min(prices, key=lambda price: price.usd_per_hour, default=None),
    )
    if target.family != today.family:
        lengths = [
            x.hours
            for x in ports.world.compiles(reading, ports.policy, request.at - timedelta(days=14))
            if x.scope.cluster == cluster
        ]
        grace_hours = policy.duration("compiling.grace") / timedelta(hours=1)
        hours = max(lengths, default=grace_hours)
        migration = replace(migration, recompile=Recompile(hours, seen=bool(lengths)))

    return migration_card(
        migration,
        doubts(standing, policy.number("advice.least_utilization")),
        port_usd,
        PriceAge(request.at.date(), policy.number("advice.stale_days")),
    )


def suggested(ports: Ports, rows: Sequence[NodeRow], reading: Reading) -> Sequence[Migration]:
    """Return the moves that cost less for the same work, of clusters that are busy and well.

    Nobody asked for them: where anything speaks against a move, or the account has not measured the
    speed of both types and paid for an hour of each, there is none. May block.
    """
    moves = []
    for cluster in sorted({row.instance.labels.cluster for row in rows} - {""}):
        least = ports.policy.at(Labels(cluster=cluster)).number("advice.least_utilization")
        # A type that nobody knows, or that none compares with, has no move to suggest.
        with suppress(TrnbotError):
            standing = _standing(ports, rows, reading, cluster)
            if refusals(standing) or doubts(standing, least):
                continue
            knowledge = ports.world.knowledge
            target = default_target(standing.type, knowledge.types(), knowledge.claims())
            migration = _compared(ports, reading, standing, target)
            if migration.verdict.proven and _judged(migration)[2] is Tone.GOOD:
                moves.append(migration)

    return moves


def _compared(
    ports: Ports, reading: Reading, standing: ClusterStanding, target: InstanceType
) -> Migration:
    """Weigh a cluster's move to a type by what is known of their speeds and prices."""
    return compare(
        standing,
        target,
        Offers(Pricing(ports).at(reading.now)),
        ports.world.knowledge.claims(),
        verdict_of(ports, reading, (standing.type, target)),
    )


def _standing(
    ports: Ports, rows: Sequence[NodeRow], reading: Reading, cluster: str
) -> ClusterStanding:
    """Return how the cluster runs now.

    Raise `WrongInput` for one that does not run, or of unknown types.
    """
    nodes = [row for row in rows if row.instance.labels.cluster == cluster]
    if not nodes:
        raise no_cluster(cluster, sorted({row.instance.labels.cluster for row in rows} - {""}))
    names = {row.instance.labels.instance_type for row in nodes}
    types = ports.world.knowledge.types()
    instances = of_commonest_type([row.instance for row in nodes], types)
    if not instances:
        raise WrongInput(
            f"'{cluster}' runs no instance type known here ({', '.join(sorted(names))})."
        )

    place, pricing = instances[0].labels, Pricing(ports).at(reading.now)
    markets = Counter(price.market for x in instances if (price := pricing.instance(x)))
    frame = reading.frame("node")
    things = frame.things if frame else ()
    used = [i for i, thing in enumerate(things) if thing.cluster == cluster]

    return ClusterStanding(
        cluster,
        types[place.instance_type],
        len(instances),
        place.region,
        pricing.mean(instances),
        measured(frame, used, timedelta(days=1), ANY).mean,
        Counter(row.state for row in nodes if row.instance in instances),
        tuple(
            alert
            for alert in ports.stores.alerts.load(reading.now).alerts
            if alert.firing
            and (alert.anomaly.scope.cluster or alert.anomaly.labels.cluster) == cluster
        ),
        tuple(sorted(names - {place.instance_type})),
        dict(markets.most_common()),
    )
